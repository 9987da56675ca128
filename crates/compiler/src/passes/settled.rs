//! Calls through globals that settle on a function that does nothing. Compilers initialise classes so: each has a
//! global that first holds its initialiser, which stores an empty function there. Every use of the class calls what
//! the global holds, nearly always nothing.
//!
//! What a global settles on is a guess that the module's stores give. Code compares what the global holds with it, and
//! calls anything else out of line, so that it is right whatever else is stored there.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::support;
use crate::mir::{Block, Callee, Edge, Function, Inst, Op, Terminator};
use crate::module::{FuncIndex, GlobalIndex, ValueType};

/// For each global that some code sets to a function that does nothing, that function.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Settled {
    globals: BTreeMap<GlobalIndex, FuncIndex>,
}

impl Settled {
    /// Looks at all stores to globals.
    pub(crate) fn new(functions: &[Function]) -> Settled {
        let mut sets = Vec::new();
        for function in functions {
            for &inst in function.blocks.iter().flat_map(|block| &block.insts) {
                let data = &function.insts[inst.index()];
                if let Op::GlobalSet(global) = data.op
                    && let Some((&Op::RefFunc(set), _)) = support::origin(function, data.args[0])
                {
                    sets.push((global, set));
                }
            }
        }
        let empty: Vec<FuncIndex> = functions.iter().filter(|it| does_nothing(it)).map(|it| it.index).collect();
        Settled::of_sets(sets.into_iter(), |function| empty.contains(&function))
    }

    /// As [`new`](Self::new), of the functions that globals are set to, in the order of the code that does so.
    pub(crate) fn of_sets(
        sets: impl Iterator<Item = (GlobalIndex, FuncIndex)>,
        does_nothing: impl Fn(FuncIndex) -> bool,
    ) -> Settled {
        let mut globals = BTreeMap::new();
        for (global, function) in sets.filter(|&(_, function)| does_nothing(function)) {
            globals.entry(global).or_insert(function);
        }
        Settled { globals }
    }

    /// Skips calls through these globals where they hold what they settle on. That lets no other pass do more, but for
    /// inlining, which calls out of line cost less.
    pub(crate) fn replace(&self, function: &mut Function) {
        if self.globals.is_empty() {
            return;
        }
        // Blocks that are added hold what has not been looked at yet.
        let mut number = 0;
        while number < function.blocks.len() {
            let found = function.blocks[number]
                .insts
                .iter()
                .enumerate()
                .find_map(|(position, &inst)| self.settles_on(function, inst).map(|settled| (position, settled)));
            if let Some((position, settled)) = found
                && !function.blocks[number].cold
            {
                skip(function, number, position, settled);
            }
            number += 1;
        }
    }

    /// The function that does nothing and that a call probably reaches.
    fn settles_on(&self, function: &Function, inst: Inst) -> Option<FuncIndex> {
        let data = &function.insts[inst.index()];
        let Op::Call(Callee::Reference(_, reference, _)) = data.op else { return None };
        match support::origin(function, reference) {
            Some((Op::GlobalGet(global), _)) if data.results.is_empty() => self.globals.get(global).copied(),
            _ => None,
        }
    }
}

/// Whether a function returns at once, without a result.
fn does_nothing(function: &Function) -> bool {
    let entry = &function.blocks[function.entry.index()];
    let returns_nothing = matches!(&entry.terminator, Some(Terminator::Return(values)) if values.is_empty());
    entry.insts.is_empty() && returns_nothing
}

/// Moves the call at a position of a block out of line, to where the callee is not `settled`. What follows comes in a
/// new block behind it.
fn skip(function: &mut Function, number: usize, position: usize, settled: FuncIndex) {
    let (call, rest) = (function.add_block(), function.add_block());
    let block = &mut function.blocks[number];
    let following = block.insts.split_off(position);
    let (terminator, terminator_source) = (block.terminator.take(), block.terminator_source);
    let inst = following[0];
    let data = &function.insts[inst.index()];
    let Op::Call(Callee::Reference(_, reference, _)) = data.op else { unreachable!("a call by reference") };
    let source = data.source;
    let compare = Op::IsFunction(settled);
    let compare = function.push(Block(number as u32), compare, &[reference], &[ValueType::I32], source);
    let condition = function.insts[compare.index()].results[0];
    function.blocks[number].terminator =
        Some(Terminator::Branch { cond: condition, then: Edge::to(rest), otherwise: Edge::to(call) });
    function.blocks[number].terminator_source = source;

    let out_of_line = &mut function.blocks[call.index()];
    out_of_line.cold = true;
    out_of_line.insts.push(inst);
    out_of_line.terminator = Some(Terminator::Jump(Edge::to(rest)));
    out_of_line.terminator_source = source;

    let behind = &mut function.blocks[rest.index()];
    behind.insts = following[1..].into();
    behind.terminator = terminator;
    behind.terminator_source = terminator_source;
}
