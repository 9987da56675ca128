//! Fewer blocks: edges skip blocks that only go on elsewhere, and blocks in a straight line become one.

use smallvec::SmallVec;

use super::flow::Flow;
use super::support::{constant_i32, terminator, use_counts};
use super::unreachable::unreachable_blocks;
use crate::artifact::TrapCode;
use crate::mir::{Block, BlockData, Cfg, Edge, Function, Terminator, Value, ValueDef};

/// A block with more parameters is not skipped: handing them on costs as much as the jump.
const PARAMS: usize = 8;

/// Removes unreachable blocks, skips empty ones, merges what is left.
pub(super) fn blocks(function: &mut Function, flow: &mut Flow) {
    let cfg = flow.cfg(function);
    unreachable_blocks(function, &cfg);
    if skip(function, &cfg) {
        flow.changed();
        unreachable_blocks(function, &flow.cfg(function));
    }
    if merge(function, &flow.cfg(function)) {
        flow.changed();
    }
}

/// Lets edges to a block without instructions go to where it leads: where it jumps, or where it branches if the
/// condition is a parameter for which the edge has a constant. Returns whether any edge has changed.
fn skip(function: &mut Function, cfg: &Cfg) -> bool {
    let counts = use_counts(function, &cfg.order);
    let skippable: Vec<bool> = (0..function.blocks.len())
        .map(|number| {
            let block = Block(number as u32);
            let data = &function.blocks[number];
            let mut own_uses: SmallVec<[Value; 8]> = SmallVec::new();
            match &data.terminator {
                Some(terminator @ (Terminator::Jump(_) | Terminator::Branch { .. })) => {
                    terminator.for_each_use(|value| own_uses.push(value));
                }
                _ => return false,
            }
            // Parameters may only be handed on: what comes after may not need them, as the block no longer dominates
            // it.
            block != function.entry
                && data.insts.is_empty()
                && !data.cold
                && data.params.len() <= PARAMS
                && data.params.iter().all(|param| {
                    own_uses.iter().filter(|&value| value == param).count() as u32 == counts[param.index()]
                })
        })
        .collect();
    let mut changed = false;
    // Successors first: their own edges are final then, but for loops.
    for &block in cfg.order.iter().rev() {
        let Some(mut terminator) = function.blocks[block.index()].terminator.take() else { continue };
        if let Terminator::Jump(_) | Terminator::Branch { .. } | Terminator::Switch { .. } = terminator {
            terminator.for_each_edge_mut(|edge| {
                if edge.block != block
                    && skippable[edge.block.index()]
                    && let Some(next) = next(function, edge)
                {
                    *edge = compose(function, edge, next);
                    changed = true;
                }
            });
        }
        function.blocks[block.index()].terminator = Some(terminator);
    }
    changed
}

/// Where an edge's target leads, if the edge decides that.
fn next<'a>(function: &'a Function, edge: &Edge) -> Option<&'a Edge> {
    match function.blocks[edge.block.index()].terminator.as_ref()? {
        Terminator::Jump(next) if next.block != edge.block => Some(next),
        Terminator::Branch { cond, then, otherwise } => {
            let ValueDef::Param(block, number) = function.values[cond.index()].def else { return None };
            if block != edge.block || edge.args.len() != function.blocks[block.index()].params.len() {
                return None;
            }
            let next = if constant_i32(function, edge.args[number as usize])? != 0 { then } else { otherwise };
            if next.block == edge.block { None } else { Some(next) }
        }
        _ => None,
    }
}

/// The edge `next` of the block that `edge` leads to, as seen from before `edge`.
fn compose(function: &Function, edge: &Edge, next: &Edge) -> Edge {
    let args = next.args.iter().map(|&arg| match function.values[arg.index()].def {
        ValueDef::Param(block, number) if block == edge.block => edge.args[number as usize],
        _ => arg,
    });
    Edge { block: next.block, args: args.collect() }
}

/// Appends each block that has one predecessor, which leads nowhere else, to that. Returns whether there were any.
fn merge(function: &mut Function, cfg: &Cfg) -> bool {
    let mut merged = false;
    for &block in &cfg.order {
        // A block that was merged has become a trap.
        while let Terminator::Jump(edge) = terminator(function, block) {
            let next = edge.block;
            if next == block || next == function.entry || cfg.predecessors(next).len() != 1 {
                break;
            }
            let args = edge.args.clone();
            let dead = BlockData { terminator: Some(Terminator::Trap(TrapCode::Unreachable)), ..BlockData::default() };
            let absorbed = std::mem::replace(&mut function.blocks[next.index()], dead);
            for (&param, &arg) in absorbed.params.iter().zip(&args) {
                function.values[param.index()].def = ValueDef::Alias(arg);
            }
            let data = &mut function.blocks[block.index()];
            data.insts.extend(absorbed.insts);
            data.terminator = absorbed.terminator;
            data.terminator_source = absorbed.terminator_source;
            merged = true;
        }
    }
    if merged {
        function.resolve_aliases();
    }
    merged
}
