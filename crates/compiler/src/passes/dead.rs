//! Removes what nothing needs: instructions without effect and block parameters, even where they only keep each other
//! alive.

use super::block_params::remove_params;
use super::flow::Flow;
use super::support::{definition, is_removable, terminator};
use crate::mir::{Callee, Cfg, Function, Terminator, Value, ValueDef};

const NONE: u32 = u32::MAX;

/// Marks from what must happen, then sweeps.
pub(super) fn dead(function: &mut Function, flow: &mut Flow) {
    let cfg = flow.cfg(function);
    let live = live_values(function, &cfg, true);
    for &block in &cfg.order {
        let mut insts = std::mem::take(&mut function.blocks[block.index()].insts);
        insts.retain(|&inst| {
            let used = function.insts[inst.index()].results.iter().any(|result| live[result.index()]);
            used || !is_removable(function, inst)
        });
        function.blocks[block.index()].insts = insts;
    }
    let superfluous = |function: &Function, param: Value| {
        debug_assert!(definition(function, param).is_none());
        !live[param.index()]
    };
    remove_params(function, &cfg, superfluous);
}

/// Which values are needed, for each value. `exits`: also for what loops pass on to code that replaces the function.
pub(super) fn live_values(function: &Function, cfg: &Cfg, exits: bool) -> Vec<bool> {
    let incoming = Incoming::new(function, cfg);
    let mut live = Live { values: vec![false; function.values.len()], work: Vec::new() };
    for &block in &cfg.order {
        for &inst in &function.blocks[block.index()].insts {
            if !is_removable(function, inst) {
                let data = &function.insts[inst.index()];
                data.args.iter().for_each(|&value| live.mark(value));
                data.op.for_each_use(|value| live.mark(value));
            }
        }
        match terminator(function, block) {
            Terminator::Jump(_) | Terminator::Trap(_) => {}
            Terminator::Branch { cond: value, .. }
            | Terminator::Switch { index: value, .. }
            | Terminator::Throw { exception: value, .. } => live.mark(*value),
            Terminator::Return(values) => values.iter().for_each(|&value| live.mark(value)),
            Terminator::TailCall { callee: Callee::Osr(_), .. } if !exits => {}
            Terminator::TailCall { callee, args } | Terminator::TryCall { callee, args, .. } => {
                callee.for_each_use(|value| live.mark(value));
                args.iter().for_each(|&value| live.mark(value));
            }
        }
    }
    incoming.pinned.iter().for_each(|&param| live.mark(param));
    while let Some(value) = live.work.pop() {
        match function.values[value.index()].def {
            ValueDef::Param(..) => incoming.for_each(value, |arg| live.mark(arg)),
            ValueDef::Result(inst, _) => {
                let data = &function.insts[inst.index()];
                if is_removable(function, inst) {
                    data.args.iter().for_each(|&value| live.mark(value));
                }
            }
            ValueDef::Alias(_) => unreachable!("{value} is an alias"),
        }
    }

    live.values
}

struct Live {
    values: Vec<bool>,
    work: Vec<Value>,
}

impl Live {
    fn mark(&mut self, value: Value) {
        if !std::mem::replace(&mut self.values[value.index()], true) {
            self.work.push(value);
        }
    }
}

/// What the edges pass to each parameter, as linked lists.
struct Incoming {
    heads: Vec<u32>,
    nodes: Vec<(Value, u32)>,
    /// Parameters that cannot be removed: the entry's, and what calls and handlers supply.
    pinned: Vec<Value>,
}

impl Incoming {
    fn new(function: &Function, cfg: &Cfg) -> Incoming {
        let mut heads = vec![NONE; function.values.len()];
        let mut nodes = Vec::new();
        let mut pinned = function.blocks[function.entry.index()].params.clone();
        for &block in &cfg.order {
            terminator(function, block).for_each_edge(|edge| {
                let params = &function.blocks[edge.block.index()].params;
                let supplied = params.len() - edge.args.len();
                pinned.extend_from_slice(&params[..supplied]);
                for (param, &arg) in params[supplied..].iter().zip(&edge.args) {
                    let head = &mut heads[param.index()];
                    nodes.push((arg, *head));
                    *head = nodes.len() as u32 - 1;
                }
            });
        }
        Incoming { heads, nodes, pinned }
    }

    fn for_each(&self, param: Value, mut f: impl FnMut(Value)) {
        let mut at = self.heads[param.index()];
        while at != NONE {
            let (arg, next) = self.nodes[at as usize];
            f(arg);
            at = next;
        }
    }
}
