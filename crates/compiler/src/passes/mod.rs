//! Passes over MIR: one file for each, and the order of those that optimise; what they find out for lowering
//! (`analysis`).
//!
//! Each pass takes and leaves a function without aliases among its operands
//! ([`ValueDef::Alias`](crate::mir::ValueDef::Alias) serves within a pass alone). Each is near-linear in the function's
//! size and does not recurse.

pub(crate) mod analysis;
mod block_params;
mod blocks;
mod cold;
mod dead;
mod effects;
mod facts;
mod fields;
mod flow;
mod fold;
mod globals;
mod guards;
mod gvn;
mod heap;
mod inline;
mod invariant;
mod loads;
mod made_once;
mod never;
mod order;
mod osr;
mod partial;
mod peel;
mod polls;
mod ranges;
mod reached;
mod relations;
mod repeated;
mod scalars;
mod settled;
mod simplify;
mod support;
mod targets;
mod unreachable;

pub(crate) use fields::{Fields, Made, Stored};
use flow::Flow;
pub(crate) use globals::value as global_value;
pub(crate) use heap::{HeapFacts, Lookups};
pub(crate) use inline::{Bodies, Callees, Inliner, inline};
pub(crate) use never::{Never, Returns};
pub(crate) use osr::{Exits, leave_untried, narrow_entry, prune_exits};
pub(crate) use reached::reached;
pub(crate) use settled::{Settings, Settled};
pub(crate) use support::{constant, constant_length, definition, root};
pub(crate) use targets::{CallByReference, Likely, note_calls};

use crate::CompileError;
use crate::mir::{self, Function};
use crate::module::ModuleInfo;

/// A pass.
type Pass = fn(&mut Function, &ModuleInfo, &mut Flow);

/// The passes in order. Checks are removed before loop-invariant operations are moved, as what cannot trap moves
/// further; decided branches are cut before that. Loops are peeled for what could not be moved.
const PASSES: &[(&str, Pass)] = &[
    ("repeated", repeated::repeated),
    ("simplify", simplify::simplify),
    ("dead", |function, _, flow| dead::dead(function, flow)),
    ("blocks", |function, _, flow| blocks::blocks(function, flow)),
    ("block_params", |function, _, flow| block_params::block_params(function, flow)),
    ("gvn", gvn::gvn),
    ("loads", loads::loads),
    ("facts", facts::facts),
    ("simplify", simplify::simplify),
    ("scalars", scalars::scalars),
    ("dead", |function, _, flow| dead::dead(function, flow)),
    ("blocks", |function, _, flow| blocks::blocks(function, flow)),
    ("block_params", |function, _, flow| block_params::block_params(function, flow)),
    ("invariant", invariant::invariant),
    ("peel", peel::peel),
    ("repeated", repeated::repeated),
    ("gvn", gvn::gvn),
    ("facts", facts::facts),
    ("simplify", simplify::simplify),
    ("guards", |function, _, flow| guards::guards(function, flow)),
    ("dead", |function, _, flow| dead::dead(function, flow)),
    ("blocks", |function, _, flow| blocks::blocks(function, flow)),
    ("block_params", |function, _, flow| block_params::block_params(function, flow)),
];

/// How many of them [`tidy`] runs.
const TIDY: usize = 5;

/// Runs all passes. What the function computes, and which traps it raises, stays the same. With `verify` the function
/// is checked after every pass; a failure is an error that names the pass.
pub fn optimize(function: &mut Function, info: &ModuleInfo, verify: bool) -> Result<(), CompileError> {
    run(PASSES, function, info, verify)
}

/// Runs the first passes alone, which take less time than they save the code generator. As [`optimize`] otherwise.
pub(crate) fn tidy(function: &mut Function, info: &ModuleInfo, verify: bool) -> Result<(), CompileError> {
    run(&PASSES[..TIDY], function, info, verify)
}

/// What is done last, and once: see [`cold()`](cold::cold) and [`polls()`](polls::polls), which leaves at most
/// `unpolled` iterations without a poll. Errors as for [`optimize`].
pub(crate) fn finish(
    function: &mut Function,
    info: &ModuleInfo,
    unpolled: u32,
    verify: bool,
) -> Result<(), CompileError> {
    cold::cold(function);
    polls::polls(function, unpolled);
    if verify { check(function, info, "polls") } else { Ok(()) }
}

/// Brings a function that has just been translated into the form that passes take: without contents of unreachable
/// blocks and without parameters that always receive the same.
pub(crate) fn settle(function: &mut Function) {
    let mut flow = Flow::default();
    unreachable::unreachable_blocks(function, &flow.cfg(function));
    block_params::block_params(function, &mut flow);
}

fn run(passes: &[(&str, Pass)], function: &mut Function, info: &ModuleInfo, verify: bool) -> Result<(), CompileError> {
    let mut flow = Flow::default();
    for (name, pass) in passes {
        pass(function, info, &mut flow);
        if verify {
            check(function, info, name)?;
        }
    }
    Ok(())
}

/// Verifies a function; the error names the pass that ran last.
pub(crate) fn check(function: &Function, info: &ModuleInfo, pass: &str) -> Result<(), CompileError> {
    mir::verify(function, info).map_err(|error| CompileError::CodeGeneration {
        function: function.index.0,
        message: format!("MIR after {pass}: {error}"),
    })
}
