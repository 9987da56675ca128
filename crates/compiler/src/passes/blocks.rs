//! Fewer blocks: edges skip blocks that only go on elsewhere, and blocks in a straight line become one.

use smallvec::SmallVec;

use super::flow::Flow;
use super::fold::compare;
use super::support::{constant_i32, definition, origin, terminator, use_counts};
use super::unreachable::unreachable_blocks;
use crate::artifact::TrapCode;
use crate::mir::{Block, BlockData, Cfg, Constant, Edge, Function, Op, Terminator, UnaryOp, Value, ValueDef};

/// A block with more parameters is not skipped: handing them on costs as much as the jump.
const PARAMS: usize = 8;
/// As many instructions a block may have that is skipped where its branch is decided: constants, a comparison, and
/// what turns it round.
const INSTS: usize = 4;
/// So many of them one on the other.
const DEPTH: u32 = 3;

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

/// Lets edges to a block go to where it leads (jump threading): to one without instructions where it jumps, or where it
/// branches if the condition is a parameter for which the edge has a constant; to one that only compares integers where
/// that decides it. So what an inlined `compare` gives is not looked at again. Returns whether any edge has changed.
fn skip(function: &mut Function, cfg: &Cfg) -> bool {
    let counts = use_counts(function, &cfg.order);
    let mut places = vec![usize::MAX; function.blocks.len()];
    for (place, &block) in cfg.order.iter().enumerate() {
        places[block.index()] = place;
    }
    let is_skippable = |&block: &Block| {
        let data = &function.blocks[block.index()];
        let mut own_uses: SmallVec<[Value; 8]> = SmallVec::new();
        // Other ways into a loop than by its header are not to come about.
        let is_header =
            || cfg.predecessors(block).iter().any(|&(source, _)| places[source.index()] >= places[block.index()]);
        match &data.terminator {
            Some(end @ Terminator::Jump(_)) if data.insts.is_empty() => end.for_each_use(|value| own_uses.push(value)),
            Some(end @ Terminator::Branch { then, otherwise, .. }) if data.insts.is_empty() || !is_header() => {
                end.for_each_use(|value| own_uses.push(value));
                let is_own = |&arg: &Value| definition(function, arg).is_some_and(|inst| data.insts.contains(&inst));
                if then.args.iter().chain(&otherwise.args).any(is_own) {
                    return false;
                }
            }
            _ => return false,
        }
        let mut results: SmallVec<[Value; 8]> = SmallVec::new();
        for inst in &data.insts {
            let inst = &function.insts[inst.index()];
            if data.insts.len() > INSTS || !is_about_integers(&inst.op) {
                return false;
            }
            own_uses.extend(inst.args.iter().copied());
            results.extend(inst.results.iter().copied());
        }
        // Parameters may only be handed on: what comes after may not need them, as the block no longer dominates it.
        block != function.entry
            && !data.cold
            && data.params.len() <= PARAMS
            && data.params.iter().chain(&results).all(|defined| {
                own_uses.iter().filter(|&value| value == defined).count() as u32 == counts[defined.index()]
            })
    };
    let mut skippable = vec![false; function.blocks.len()];
    for block in &cfg.order {
        skippable[block.index()] = is_skippable(block);
    }
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
            let next = if known(function, edge, *cond, DEPTH)? != 0 { then } else { otherwise };
            if next.block == edge.block { None } else { Some(next) }
        }
        _ => None,
    }
}

/// An integer in the block that an edge leads to, if the edge says which.
fn known(function: &Function, edge: &Edge, value: Value, depth: u32) -> Option<i32> {
    if let ValueDef::Param(block, number) = function.values[value.index()].def {
        return if block == edge.block { constant_i32(function, *edge.args.get(number as usize)?) } else { None };
    }
    let of = |value: Value| known(function, edge, value, depth.checked_sub(1)?);
    match origin(function, value)? {
        (&Op::Const(Constant::I32(constant)), _) => Some(constant),
        (&Op::Compare(op), args) => {
            compare(op, Constant::I32(of(args[0])?), Constant::I32(of(args[1])?)).map(i32::from)
        }
        (Op::Unary(UnaryOp::I32Eqz), args) => Some(i32::from(of(args[0])? == 0)),
        _ => None,
    }
}

/// Whether [`known`] looks through an operation.
fn is_about_integers(op: &Op) -> bool {
    matches!(op, Op::Const(Constant::I32(_)) | Op::Compare(_) | Op::Unary(UnaryOp::I32Eqz))
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
