//! Calls through globals that settle on a function that does nothing. Compilers initialise classes so: each has a
//! global that first holds its initialiser, which stores an empty function there. Every use of the class calls what
//! the global holds, nearly always nothing.
//!
//! What a global settles on is a guess that the module's stores give. Code compares what the global holds with it, and
//! calls anything else out of line, so that it is right whatever else is stored there. Of some globals the whole module
//! shows that the guess is right, sooner or later, for good.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::support;
use crate::mir::{Block, Callee, Edge, Function, Inst, Op, Terminator};
use crate::module::{ConstOp, ExportKind, FuncIndex, GlobalIndex, ModuleInfo, ValueType};

/// For each global that some code sets to a function that does nothing, that function.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Settled {
    globals: BTreeMap<GlobalIndex, Settles>,
}

/// What a global settles on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Settles {
    function: FuncIndex,
    /// Whether it certainly does, when what it holds is called, and holds nothing else from then on: there is no other
    /// store, but for those of the same, and the initialiser begins with one.
    for_good: bool,
}

/// What a function's code says of globals.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// Globals, and what each is set to, where that is a function.
    pub(crate) sets: Vec<(GlobalIndex, Option<FuncIndex>)>,
    /// How many of these come first of all, before anything that may be noticed.
    pub(crate) at_first: usize,
}

impl Settled {
    /// Looks at all stores to globals.
    pub(crate) fn new(functions: &[Function], info: &ModuleInfo) -> Settled {
        let settings: Vec<Settings> = functions.iter().map(settings).collect();
        let empty: Vec<FuncIndex> = functions.iter().filter(|it| does_nothing(it)).map(|it| it.index).collect();
        Settled::of_settings(info, settings.iter(), |function| empty.contains(&function))
    }

    /// As [`new`](Self::new), of what the code of each defined function says, in their order.
    pub(crate) fn of_settings<'a>(
        info: &ModuleInfo,
        settings: impl Iterator<Item = &'a Settings>,
        does_nothing: impl Fn(FuncIndex) -> bool,
    ) -> Settled {
        let settings: Vec<&Settings> = settings.collect();
        let sets = || settings.iter().flat_map(|settings| &settings.sets);
        let mut globals = BTreeMap::new();
        for &(global, set) in sets() {
            if let Some(function) = set.filter(|&function| does_nothing(function)) {
                globals.entry(global).or_insert(Settles { function, for_good: true });
            }
        }
        // Those that others can set, and those that are set to anything else.
        for (_, kind) in &info.exports {
            if let ExportKind::Global(global) = kind
                && let Some(settles) = globals.get_mut(global)
            {
                settles.for_good = false;
            }
        }
        for &(global, set) in sets() {
            if let Some(settles) = globals.get_mut(&global) {
                settles.for_good &= set == Some(settles.function);
            }
        }
        let begins = |function: FuncIndex, global: GlobalIndex| {
            let defined = function.0.checked_sub(info.imported_functions);
            let settings = defined.and_then(|defined| settings.get(defined as usize));
            settings.is_some_and(|settings| settings.sets[..settings.at_first].iter().any(|&(set, _)| set == global))
        };
        for (&global, settles) in globals.iter_mut().filter(|(_, settles)| settles.for_good) {
            let defined = global.0.checked_sub(info.imported_globals);
            settles.for_good = match defined.map(|defined| info.defined_globals[defined as usize].init.as_slice()) {
                Some(&[ConstOp::RefFunc(first)]) => first == settles.function || begins(first, global),
                _ => false,
            };
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
    fn settles_on(&self, function: &Function, inst: Inst) -> Option<(GlobalIndex, Settles)> {
        let data = &function.insts[inst.index()];
        let Op::Call(Callee::Reference(_, reference, _)) = data.op else { return None };
        match support::origin(function, reference) {
            Some((&Op::GlobalGet(global), _)) if data.results.is_empty() => Some((global, *self.globals.get(&global)?)),
            _ => None,
        }
    }
}

/// What a function's code says of globals.
fn settings(function: &Function) -> Settings {
    let mut found = Settings::default();
    let mut is_first = true;
    let others = (0..function.blocks.len()).filter(|&number| number != function.entry.index());
    for number in std::iter::once(function.entry.index()).chain(others) {
        for inst in &function.blocks[number].insts {
            let data = &function.insts[inst.index()];
            match data.op {
                Op::GlobalSet(global) => {
                    let set = match support::origin(function, data.args[0]) {
                        Some((&Op::RefFunc(set), _)) => Some(set),
                        _ => None,
                    };
                    found.sets.push((global, set));
                    found.at_first += usize::from(is_first);
                }
                Op::RefFunc(_) => {}
                _ => is_first = false,
            }
        }
        is_first = false;
    }
    found
}

/// Whether a function returns at once, without a result.
fn does_nothing(function: &Function) -> bool {
    let entry = &function.blocks[function.entry.index()];
    let returns_nothing = matches!(&entry.terminator, Some(Terminator::Return(values)) if values.is_empty());
    entry.insts.is_empty() && returns_nothing
}

/// Moves the call at a position of a block out of line, to where the callee is not `settled`. What follows comes in a
/// new block behind it.
fn skip(function: &mut Function, number: usize, position: usize, (global, settled): (GlobalIndex, Settles)) {
    let (call, rest) = (function.add_block(), function.add_block());
    let block = &mut function.blocks[number];
    let following = block.insts.split_off(position);
    let (terminator, terminator_source) = (block.terminator.take(), block.terminator_source);
    let inst = following[0];
    let data = &function.insts[inst.index()];
    let Op::Call(Callee::Reference(_, reference, _)) = data.op else { unreachable!("a call by reference") };
    let source = data.source;
    let compare = Op::IsFunction(settled.function, settled.for_good.then_some(global));
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
