//! Global value numbering: an operation that a dominating block has done already, on the same operands, is not done
//! again.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::support::{Roots, is_pure, replace, resolve_inst, resolve_terminator};
use crate::mir::{BinaryOp, Block, Cfg, Check, CompareOp, Dominators, Function, Inst, Op, Value};
use crate::module::{ModuleInfo, ValueType};

/// What an operation computes: equal keys give equal results.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    op: Op,
    /// Operands, of references the roots: a check does not change what an object holds.
    args: SmallVec<[Value; 4]>,
    /// Distinguishes equal operations with results of different static types.
    ty: Option<ValueType>,
}

/// Walks down the dominator tree with a table of what has been computed. What a sibling subtree has left there is
/// overwritten: the walk never returns to that subtree.
pub(super) fn gvn(function: &mut Function, info: &ModuleInfo) {
    let cfg = Cfg::new(function);
    let dominators = Dominators::new(function, &cfg);
    let mut roots = Roots::new(function);
    let mut table: FxHashMap<Key, (Block, Option<Value>)> = FxHashMap::default();
    for &block in &dominators.preorder {
        let mut insts = std::mem::take(&mut function.blocks[block.index()].insts);
        insts.retain(|&inst| {
            resolve_inst(function, inst);
            let superfluous = match key(function, info, &roots, inst) {
                Some(key) => match table.get(&key) {
                    Some(&(above, value)) if dominators.dominates(above, block) => match value {
                        Some(value) => replace(function, info, inst, value),
                        None => true,
                    },
                    _ => {
                        table.insert(key, (block, function.insts[inst.index()].results.first().copied()));
                        false
                    }
                },
                None => false,
            };
            if !superfluous {
                roots.visit(function, info, inst);
            }
            !superfluous
        });
        function.blocks[block.index()].insts = insts;
    }
    // The preorder visits definitions before uses by instructions, but edges' arguments may come from anywhere.
    for &block in &dominators.preorder {
        resolve_terminator(function, block);
    }
}

fn key(function: &Function, info: &ModuleInfo, roots: &Roots, inst: Inst) -> Option<Key> {
    let data = &function.insts[inst.index()];
    // An immutable element needs no check where the dominating access has read it.
    let element = matches!(data.op, Op::ArrayGet(ty, ..) if !info.array_element(ty).mutable);
    if !element && !is_pure(&data.op, info) {
        return None;
    }
    let mut args: SmallVec<[Value; 4]> = data.args.iter().map(|&arg| roots.of(arg)).collect();
    if is_commutative(&data.op) {
        args.sort_unstable();
    }
    let op = match data.op {
        // The first to reach the object checks for all.
        Op::StructGet(ty, field, extension, _) => Op::StructGet(ty, field, extension, Check::Needed),
        Op::ArrayLen(_) => Op::ArrayLen(Check::Needed),
        Op::I31Get(extension, _) => Op::I31Get(extension, Check::Needed),
        ref other => other.clone(),
    };
    let ty = match op {
        // Their result's static type depends on the operand's.
        Op::NullCheck | Op::RefCast(_) | Op::Refine(_) | Op::Select => {
            data.results.first().map(|&result| function.value_type(result))
        }
        _ => None,
    };
    Some(Key { op, args, ty })
}

fn is_commutative(op: &Op) -> bool {
    use BinaryOp::*;
    use CompareOp::{I32Eq, I32Ne, I64Eq, I64Ne};
    match op {
        Op::Binary(op) => {
            matches!(op, I32Add | I32Mul | I32And | I32Or | I32Xor | I64Add | I64Mul | I64And | I64Or | I64Xor)
        }
        Op::Compare(op) => matches!(op, I32Eq | I32Ne | I64Eq | I64Ne),
        Op::RefEq => true,
        _ => false,
    }
}
