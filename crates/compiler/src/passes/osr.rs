//! On-stack replacement: which locals a loop passes on to optimised code of its own, and what is known of them there.
//!
//! Both sides find that out from the same function, as it comes from the translator with a way out at each loop.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::dead::live_values;
use super::flow::Flow;
use super::support::{constant, terminator};
use crate::mir::{Block, Callee, Cfg, Constant, Edge, Function, Loops, Op, Terminator, Value, ValueDef};
use crate::module::{ModuleInfo, ValueType};

/// A local at a loop's header.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Local {
    /// Nothing reads what it holds there.
    Dead,
    /// It holds this whenever the loop's header is reached.
    Constant(Constant),
    /// It is passed on, and is of this type.
    Passed(ValueType),
}

/// For each loop with a way out that can be reached, its offset in the module file and its locals.
pub(crate) type Exits = Vec<(u32, Vec<Local>)>;

/// The way out of a loop.
struct Exit {
    /// The block that leaves.
    leave: Block,
    /// The one in which the loop goes on instead.
    stay: Block,
    /// The loop's offset in the module file.
    offset: u32,
}

/// Has each loop pass on what is live there, and nothing else. Returns what that is.
pub(crate) fn prune_exits(function: &mut Function) -> Exits {
    let mut flow = Flow::default();
    let cfg = flow.cfg(function);
    let exits: Vec<Exit> = cfg.order.iter().filter_map(|&block| exit(function, block)).collect();
    let passed = |exit: &Exit| match terminator(function, exit.leave) {
        Terminator::TailCall { args, .. } => args.clone(),
        other => unreachable!("an exit of a loop is a tail call, not {other:?}"),
    };
    let args: Vec<SmallVec<[Value; 4]>> = exits.iter().map(passed).collect();
    let live = live_at(function, &cfg, &exits, &args);
    let mut loops = Vec::with_capacity(exits.len());
    for ((exit, args), live) in exits.iter().zip(args).zip(live) {
        let locals: Vec<Local> = args
            .iter()
            .zip(live)
            .map(|(&arg, live)| match constant(function, arg) {
                _ if !live => Local::Dead,
                Some(constant) => Local::Constant(constant),
                None => Local::Passed(function.value_type(arg)),
            })
            .collect();
        let kept = args.into_iter().zip(&locals).filter(|(_, local)| matches!(local, Local::Passed(_)));
        let kept = kept.map(|(arg, _)| arg).collect();
        if let Some(Terminator::TailCall { args, .. }) = &mut function.blocks[exit.leave.index()].terminator {
            *args = kept;
        }
        loops.push((exit.offset, locals));
    }
    loops
}

/// Has the loops with a way out pass on what `exits` say, which [`prune_exits`] has found out of the function with a
/// way out at every loop; marks these loops as cold. Returns whether there are any.
pub(crate) fn leave_untried(function: &mut Function, info: &ModuleInfo, exits: &Exits) -> bool {
    let mut flow = Flow::default();
    let cfg = flow.cfg(function);
    let found: Vec<(Block, Exit)> =
        cfg.order.iter().filter_map(|&block| Some((block, exit(function, block)?))).collect();
    if found.is_empty() {
        return false;
    }
    let loops = Loops::new(&cfg, &flow.dominators(function));
    let mut is_left = vec![false; loops.loops.len()];
    for (header, exit) in found {
        let Terminator::TailCall { args, .. } = terminator(function, exit.leave).clone() else {
            unreachable!("an exit of a loop is a tail call")
        };
        let locals = exits.iter().find(|(offset, _)| *offset == exit.offset).map(|(_, locals)| locals);
        let passed: Option<SmallVec<[Value; 4]>> = locals.and_then(|locals| {
            let passed = args.iter().zip(locals).filter_map(|(&arg, local)| match local {
                // What is known here may be less than what is known where the function begins.
                Local::Passed(ty) => Some(info.is_subtype(function.value_type(arg), *ty).then_some(arg)),
                Local::Dead | Local::Constant(_) => None,
            });
            passed.collect()
        });
        let leave = &mut function.blocks[exit.leave.index()].terminator;
        match (passed, leave) {
            (Some(passed), Some(Terminator::TailCall { args, .. })) => *args = passed,
            _ => function.blocks[header.index()].terminator = Some(Terminator::Jump(Edge::to(exit.stay))),
        }
        if let Some(number) = loops.innermost[header.index()] {
            is_left[number] = true;
        }
    }
    // Inner loops have larger numbers.
    for number in 0..is_left.len() {
        is_left[number] |= loops.loops[number].parent.is_some_and(|parent| is_left[parent]);
    }
    for &block in &cfg.order {
        function.blocks[block.index()].cold |= loops.innermost[block.index()].is_some_and(|number| is_left[number]);
    }
    true
}

/// The way out that a block decides on, if it is a loop's header.
fn exit(function: &Function, block: Block) -> Option<Exit> {
    let Terminator::Branch { then, otherwise, .. } = terminator(function, block) else { return None };
    let Terminator::TailCall { callee: Callee::Osr(code), .. } = *terminator(function, otherwise.block) else {
        return None;
    };
    let ValueDef::Result(inst, _) = function.values[code.index()].def else { return None };
    let Op::OsrEntry(offset) = function.insts[inst.index()].op else { return None };
    Some(Exit { leave: otherwise.block, stay: then.block, offset })
}

/// For each argument of each exit whether something reads it if the loop is not left. (What it would be passed on to
/// does not count: that is the same code once more.)
fn live_at(function: &Function, cfg: &Cfg, exits: &[Exit], args: &[SmallVec<[Value; 4]>]) -> Vec<Vec<bool>> {
    // The arguments are numbered, each with the exits that pass it.
    let mut numbers: FxHashMap<Value, usize> = FxHashMap::default();
    let mut passed: Vec<(Value, Vec<(usize, usize)>)> = Vec::new();
    let needed = live_values(function, cfg, false);
    for (exit, args) in args.iter().enumerate() {
        for (place, &arg) in args.iter().enumerate().filter(|(_, arg)| needed[arg.index()]) {
            let number = *numbers.entry(arg).or_insert_with(|| {
                passed.push((arg, Vec::new()));
                passed.len() - 1
            });
            passed[number].1.push((exit, place));
        }
    }

    let mut uses: Vec<Vec<Block>> = vec![Vec::new(); passed.len()];
    let mut places: Vec<Option<Block>> = vec![None; function.insts.len()];
    for &block in &cfg.order {
        let mut used = |value: Value| {
            if let Some(&number) = numbers.get(&value)
                && uses[number].last() != Some(&block)
            {
                uses[number].push(block);
            }
        };
        for &inst in &function.blocks[block.index()].insts {
            places[inst.index()] = Some(block);
            let data = &function.insts[inst.index()];
            data.args.iter().for_each(|&arg| used(arg));
            data.op.for_each_use(&mut used);
        }
        match terminator(function, block) {
            Terminator::TailCall { callee: Callee::Osr(_), .. } => {}
            end => for_each_needed(function, end, &needed, used),
        }
    }

    let mut live: Vec<Vec<bool>> = args.iter().map(|args| vec![false; args.len()]).collect();
    let mut reached = vec![usize::MAX; function.blocks.len()];
    let mut work = Vec::new();
    for (number, (value, wanted)) in passed.iter().enumerate() {
        let definition = match function.values[value.index()].def {
            ValueDef::Param(block, _) => Some(block),
            ValueDef::Result(inst, _) => places[inst.index()],
            ValueDef::Alias(_) => unreachable!("{value} is an alias"),
        };
        work.extend_from_slice(&uses[number]);
        while let Some(block) = work.pop() {
            if Some(block) != definition && std::mem::replace(&mut reached[block.index()], number) != number {
                work.extend(cfg.predecessors(block).iter().map(|&(predecessor, _)| predecessor));
            }
        }
        for &(exit, place) in wanted {
            live[exit][place] = reached[exits[exit].stay.index()] == number;
        }
    }
    live
}

/// Calls `f` with the values that a terminator uses, but for what it passes to parameters that nothing needs.
fn for_each_needed(function: &Function, terminator: &Terminator, needed: &[bool], mut f: impl FnMut(Value)) {
    terminator.for_each_own_use(&mut f);
    terminator.for_each_edge(|edge| {
        let params = &function.blocks[edge.block.index()].params;
        let supplied = params.len() - edge.args.len();
        for (param, &arg) in params[supplied..].iter().zip(&edge.args) {
            if needed[param.index()] {
                f(arg);
            }
        }
    });
}

/// Gives a function that goes on in a loop the parameters that the loop passes, in place of all locals.
pub(crate) fn narrow_entry(function: &mut Function, locals: &[Local]) {
    let entry = function.entry;
    let params = std::mem::take(&mut function.blocks[entry.index()].params);
    let source = function.source;
    let mut constants = Vec::new();
    for (&param, local) in params.iter().zip(locals) {
        let constant = match *local {
            Local::Passed(ty) => {
                let params = &mut function.blocks[entry.index()].params;
                let data = &mut function.values[param.index()];
                (data.ty, data.def) = (ty, ValueDef::Param(entry, params.len() as u32));
                params.push(param);
                continue;
            }
            Local::Constant(constant) => constant,
            Local::Dead => Constant::default_of(function.value_type(param)),
        };
        let ty = function.value_type(param);
        let mut make = |op: Op, args: &[Value], ty: ValueType| {
            let inst = function.add_inst(op, args, &[ty], source);
            constants.push(inst);
            function.insts[inst.index()].results[0]
        };
        let value = make(Op::Const(constant), &[], constant.value_type());
        // Nothing reads a dead one, but what it is passed to has its type, which may be one without null.
        let value = match (local, ty) {
            (Local::Dead, ValueType::Ref(refined)) if !refined.nullable => make(Op::Refine(refined), &[value], ty),
            _ => value,
        };
        function.values[param.index()].def = ValueDef::Alias(value);
    }
    function.blocks[entry.index()].insts.splice(0..0, constants);
    function.resolve_aliases();
}
