//! Global value numbering: an operation that a dominating block has done already, on the same operands, is not done
//! again.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::flow::Flow;
use super::support::{Roots, replace, resolve_inst, resolve_terminator};
use crate::mir::{Block, Function, Inst, NullCheck, Op, Value};
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
pub(super) fn gvn(function: &mut Function, info: &ModuleInfo, flow: &mut Flow) {
    let dominators = flow.dominators(function);
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
    // What an operation relies on has been checked where the dominating one is.
    if !data.op.properties().is_pure(info) {
        return None;
    }
    let mut args: SmallVec<[Value; 4]> = data.args.iter().map(|&arg| roots.of(arg)).collect();
    if data.op.is_commutative() {
        args.sort_unstable();
    }
    let mut op = data.op.clone();
    if let Some(check) = op.check_mut() {
        // The first to reach the object checks for all.
        *check = NullCheck::Needed;
    }
    // Whether the result's static type depends on the operand's.
    let is_typed = op.properties().copies || op == Op::Select;
    let ty = data.results.first().filter(|_| is_typed).map(|&result| function.value_type(result));
    Some(Key { op, args, ty })
}
