//! Partial inlining: what a body does only to throw or to trap is left to the function itself. Where nothing has been
//! changed on the way there, it is called from its beginning, and finds its way once more.

use super::unreachable::unreachable_blocks;
use crate::artifact::TrapCode;
use crate::mir::{Callee, Cfg, Collects, Edge, Function, Memory, Op, Terminator};
use crate::module::ModuleInfo;

/// The least that a body must become smaller by, in what `cost` tells of its operations: a call is no smaller than an
/// exception.
const LEAST_GAIN: usize = 12;

/// Has a body, which has no loops, call its function again where it leads to a trap or out by an exception on every
/// path, if that makes it smaller. The call's source is the function's: it is to be that of the call which is replaced
/// by the body. Returns whether there is one.
pub(super) fn leave_ends(function: &mut Function, info: &ModuleInfo, cost: impl Fn(&Op) -> usize) -> bool {
    let cfg = Cfg::new(function);
    let ends = ends(function, &cfg);
    if ends[function.entry.index()] {
        return false;
    }
    // Whether anything may have been changed before a block's end, and whether the block is still reached if the call
    // takes the place of what ends behind blocks that change nothing. Without loops, predecessors come first.
    let mut has_changed = vec![false; ends.len()];
    let mut stays = vec![false; ends.len()];
    let mut gain = 0;
    for &block in &cfg.order {
        let number = block.index();
        let data = &function.blocks[number];
        let mut ops = data.insts.iter().map(|inst| &function.insts[inst.index()].op);
        let is_left = |from: usize| ends[number] && !ends[from] && !has_changed[from];
        let sources = || cfg.predecessors(block).iter().map(|(from, _)| from.index());
        stays[number] = block == function.entry || sources().any(|from| stays[from] && !is_left(from));
        if !stays[number] {
            gain += ops.map(&cost).sum::<usize>();
        } else {
            has_changed[number] = sources().any(|from| has_changed[from]) || ops.any(changes);
        }
    }
    if gain < LEAST_GAIN {
        return false;
    }
    let again = function.add_block();
    for number in 0..ends.len() {
        if let Some(terminator) = &mut function.blocks[number].terminator
            && !ends[number]
            && !has_changed[number]
        {
            terminator.for_each_edge_mut(|edge| {
                if ends[edge.block.index()] {
                    *edge = Edge::to(again);
                }
            });
        }
    }
    let args = function.blocks[function.entry.index()].params.clone();
    let results = &info.func_type(function.ty).results;
    function.push(again, Op::Call(Callee::Direct(function.index)), &args, results, function.source);
    let data = &mut function.blocks[again.index()];
    data.terminator = Some(Terminator::Trap(TrapCode::Unreachable));
    data.terminator_source = function.source;
    unreachable_blocks(function, &Cfg::new(function));
    true
}

/// For each block, whether it leads to a trap or out of the function by an exception on every path.
fn ends(function: &Function, cfg: &Cfg) -> Vec<bool> {
    let mut ends = vec![false; function.blocks.len()];
    for &block in cfg.order.iter().rev() {
        ends[block.index()] = match &function.blocks[block.index()].terminator {
            Some(Terminator::Return(_) | Terminator::TailCall { .. }) | None => false,
            Some(terminator) => {
                let mut leads_on = false;
                terminator.for_each_edge(|edge| leads_on |= !ends[edge.block.index()]);
                !leads_on
            }
        };
    }
    ends
}

/// Whether the function might do something else if it was called again behind the operation.
fn changes(op: &Op) -> bool {
    let properties = op.properties();
    // Other threads may write to a shared memory.
    properties.writes != Memory::None || properties.reads == Memory::Other || properties.collects != Collects::Never
}
