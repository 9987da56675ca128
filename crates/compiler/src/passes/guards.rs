//! The program's own bounds checks (see [`analysis`](super::analysis)): two signed comparisons of an index, with zero
//! and with an array's length, become an unsigned one.
//!
//! No length is more than the greatest signed number, so that a negative index is above every length, seen as an
//! unsigned number.

use super::flow::Flow;
use super::support::{constant_i32, origin, terminator};
use crate::mir::{Block, CompareOp, Edge, Function, Inst, NullCheck, Op, Terminator, Value};
use crate::module::ValueType;

/// A comparison of a number with another, and where it leads.
struct Branch {
    index: Value,
    limit: Value,
    /// Where the index is less than the limit.
    less: Edge,
    /// Where it is not.
    other: Edge,
}

/// Merges the checks whose first leads to nothing but the second, and which go to the same place where they fail. In
/// linear time.
pub(super) fn guards(function: &mut Function, flow: &mut Flow) {
    let cfg = flow.cfg(function);
    let mut merged = false;
    for &block in &cfg.order {
        let Some(first) = signed_branch(function, block) else { continue };
        if constant_i32(function, first.limit) != Some(0) || !first.other.args.is_empty() {
            continue;
        }
        let next = first.other.block;
        // A block with parameters gets them from elsewhere too, or has lost them.
        let follows = next != block && cfg.predecessors(next).len() == 1 && next != function.entry;
        let Some(second) = signed_branch(function, next).filter(|_| follows) else { continue };
        let fails_alike = second.index == first.index && second.other == first.less;
        if !fails_alike || !is_length(function, second.limit) || !is_harmless(function, next) {
            continue;
        }
        let source = function.blocks[next.index()].terminator_source;
        let insts = std::mem::take(&mut function.blocks[next.index()].insts);
        function.blocks[block.index()].insts.extend(insts);
        let compare = Op::Compare(CompareOp::I32LtU);
        let compare = function.push(block, compare, &[first.index, second.limit], &[ValueType::I32], source);
        let cond = function.insts[compare.index()].results[0];
        let data = &mut function.blocks[block.index()];
        data.terminator = Some(Terminator::Branch { cond, then: second.less, otherwise: second.other });
        data.terminator_source = source;
        merged = true;
    }
    if merged {
        flow.changed();
    }
}

/// The branch at the end of a block, if it compares signed numbers.
fn signed_branch(function: &Function, block: Block) -> Option<Branch> {
    let Terminator::Branch { cond, then, otherwise } = terminator(function, block) else { return None };
    let (&Op::Compare(op), args) = origin(function, *cond)? else { return None };
    let (index, limit, holds_where_less) = match op {
        CompareOp::I32LtS => (args[0], args[1], true),
        CompareOp::I32GeS => (args[0], args[1], false),
        CompareOp::I32GtS => (args[1], args[0], true),
        CompareOp::I32LeS => (args[1], args[0], false),
        _ => return None,
    };
    let (less, other) = if holds_where_less { (then, otherwise) } else { (otherwise, then) };
    Some(Branch { index, limit, less: less.clone(), other: other.clone() })
}

/// Whether a value is the length of an array.
fn is_length(function: &Function, value: Value) -> bool {
    matches!(origin(function, value), Some((Op::ArrayLen(_), _)))
}

/// Whether a block does nothing but compute, and read lengths, without a trap, so that it may be done before the branch
/// to it.
fn is_harmless(function: &Function, block: Block) -> bool {
    let harmless = |inst: &Inst| {
        let op = &function.insts[inst.index()].op;
        op.properties().is_computation() || *op == Op::ArrayLen(NullCheck::Elided)
    };
    function.blocks[block.index()].insts.iter().all(harmless)
}
