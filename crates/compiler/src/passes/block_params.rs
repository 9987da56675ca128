//! Removes block parameters that always receive the same value.

use super::flow::Flow;
use crate::mir::{Block, Cfg, Function, Value, ValueDef};

/// A parameter that may be superfluous.
struct Candidate {
    param: Value,
    /// What the edges pass, in order.
    incoming: Vec<Value>,
    /// Arguments before this are all `same` (or the parameter itself).
    checked: usize,
    same: Option<Value>,
    /// Parameters whose replacement may let this one go on: they wait here.
    waiting: Vec<usize>,
}

/// Replaces every parameter that receives one and the same value (or itself) on all edges by that value, and repeats
/// for the parameters this makes superfluous. Near-linear: arguments that are equal stay so, so that each is looked at
/// once.
pub(super) fn block_params(function: &mut Function, flow: &mut Flow) {
    let cfg = flow.cfg(function);
    let (mut candidates, of_value) = collect(function, &cfg);
    let mut work: Vec<usize> = (0..candidates.len()).rev().collect();
    let mut replaced = false;
    while let Some(number) = work.pop() {
        let param = candidates[number].param;
        if matches!(function.values[param.index()].def, ValueDef::Alias(_)) {
            continue;
        }
        match advance(function, &mut candidates[number]) {
            Progress::Replace(value) => {
                function.values[param.index()].def = ValueDef::Alias(value);
                replaced = true;
                work.append(&mut candidates[number].waiting);
            }
            Progress::Blocked(values) => {
                for value in values {
                    if let Some(other) = of_value[value.index()] {
                        candidates[other as usize].waiting.push(number);
                    }
                }
            }
        }
    }
    if replaced {
        let replaced =
            |function: &Function, param: Value| matches!(function.values[param.index()].def, ValueDef::Alias(_));
        remove_params(function, &cfg, replaced);
        function.resolve_aliases();
    }
}

enum Progress {
    Replace(Value),
    /// Two values differ for now.
    Blocked(Vec<Value>),
}

fn advance(function: &Function, candidate: &mut Candidate) -> Progress {
    while let Some(&argument) = candidate.incoming.get(candidate.checked) {
        let argument = function.resolve(argument);
        if argument != candidate.param {
            match candidate.same {
                None => candidate.same = Some(argument),
                Some(same) => {
                    let same = function.resolve(same);
                    candidate.same = Some(same);
                    if same == candidate.param {
                        candidate.same = Some(argument);
                    } else if same != argument {
                        return Progress::Blocked(vec![same, argument]);
                    }
                }
            }
        }
        candidate.checked += 1;
    }
    match candidate.same.map(|same| function.resolve(same)) {
        Some(same) if same != candidate.param => Progress::Replace(same),
        // It receives nothing but itself: the block is unreachable.
        _ => Progress::Blocked(Vec::new()),
    }
}

/// The parameters that all edges pass explicitly, and for each value its candidate.
fn collect(function: &Function, cfg: &Cfg) -> (Vec<Candidate>, Vec<Option<u32>>) {
    let mut candidates = Vec::new();
    let mut of_value = vec![None; function.values.len()];
    for &block in &cfg.order {
        let params = &function.blocks[block.index()].params;
        if params.is_empty() || block == function.entry {
            continue;
        }
        let first = candidates.len();
        let mut explicit_from = 0;
        let mut incoming: Vec<Vec<Value>> = vec![Vec::new(); params.len()];
        for_each_incoming(function, cfg, block, |supplied, args| {
            explicit_from = explicit_from.max(supplied);
            for (list, &arg) in incoming[supplied..].iter_mut().zip(args) {
                list.push(arg);
            }
        });
        for (position, (&param, incoming)) in params.iter().zip(incoming).enumerate().skip(explicit_from) {
            debug_assert_eq!(incoming.len(), cfg.predecessors(block).len(), "parameter {position} of {block}");
            of_value[param.index()] = Some((first + position - explicit_from) as u32);
            candidates.push(Candidate { param, incoming, checked: 0, same: None, waiting: Vec::new() });
        }
    }
    (candidates, of_value)
}

/// Calls `f` for every edge to a block, with the number of parameters that the terminator supplies and the edge's
/// arguments.
fn for_each_incoming(function: &Function, cfg: &Cfg, block: Block, mut f: impl FnMut(usize, &[Value])) {
    let mut last = None;
    for &(source, _) in cfg.predecessors(block) {
        // All edges from one block are visited together.
        if last == Some(source) {
            continue;
        }
        last = Some(source);
        let terminator = function.blocks[source.index()].terminator.as_ref().expect("edges come from terminators");
        let mut number = 0;
        terminator.for_each_edge(|edge| {
            if edge.block == block {
                f(function.supplied(source, number), &edge.args);
            }
            number += 1;
        });
    }
}

/// Takes superfluous parameters and their arguments away. None of them may be supplied by a terminator.
pub(super) fn remove_params(function: &mut Function, cfg: &Cfg, superfluous: impl Fn(&Function, Value) -> bool) {
    let keep: Vec<Option<Vec<bool>>> = function
        .blocks
        .iter()
        .map(|block| {
            let kept = |&param: &Value| !superfluous(function, param);
            if block.params.iter().all(kept) { None } else { Some(block.params.iter().map(kept).collect()) }
        })
        .collect();
    for &block in &cfg.order {
        let mut supplied = Vec::new();
        if let Some(terminator) = &function.blocks[block.index()].terminator {
            terminator.for_each_edge(|_| supplied.push(0));
        }
        for (number, count) in supplied.iter_mut().enumerate() {
            *count = function.supplied(block, number);
        }
        let mut number = 0;
        if let Some(terminator) = &mut function.blocks[block.index()].terminator {
            terminator.for_each_edge_mut(|edge| {
                if let Some(keep) = &keep[edge.block.index()] {
                    let mut flags = keep[supplied[number]..].iter();
                    edge.args.retain(|_| *flags.next().expect("one flag for each argument"));
                }
                number += 1;
            });
        }
    }
    // Parameters last: the count of supplied ones is derived from them.
    for (number, keep) in keep.into_iter().enumerate() {
        let Some(keep) = keep else { continue };
        let mut flags = keep.into_iter();
        let block = &mut function.blocks[number];
        block.params.retain(|_| flags.next().expect("one flag for each parameter"));
        for (position, &param) in block.params.iter().enumerate() {
            function.values[param.index()].def = ValueDef::Param(Block(number as u32), position as u32);
        }
    }
}
