//! Functions that never return: they throw or trap, whatever they are called with. What follows a call of one is not
//! reached, and what leads to it alone is [cold](super::cold()). Compilers have such calls behind checks, of bounds
//! mostly, and code behind them that is never executed.

use super::unreachable::unreachable_blocks;
use crate::artifact::TrapCode;
use crate::mir::{Block, Callee, Cfg, Edge, Function, Op, Terminator};
use crate::module::{FuncIndex, ModuleInfo, ValueType};

/// How many calls deep a function is followed that returns when another has.
const ROUNDS: usize = 4;

/// Which functions of a module never return.
#[derive(Debug)]
pub(crate) struct Never(Vec<bool>);

/// How a function returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Returns {
    Never,
    /// When this one has.
    After(FuncIndex),
    Perhaps,
}

impl Never {
    /// Looks at all functions of a module.
    pub(crate) fn new(functions: &[Function], info: &ModuleInfo) -> Never {
        let mut never = Never(vec![false; info.functions.len()]);
        for _ in 0..ROUNDS {
            let found: Vec<usize> = functions
                .iter()
                .filter(|function| !never.0[function.index.index()] && !never.lets_return(function))
                .map(|function| function.index.index())
                .collect();
            found.iter().for_each(|&number| never.0[number] = true);
            if found.is_empty() {
                break;
            }
        }
        never
    }

    /// As [`new`](Self::new), of how the defined functions return, in their order.
    pub(crate) fn of_returns(returns: &[Returns], info: &ModuleInfo) -> Never {
        let imported = info.imported_functions;
        let of = |function: FuncIndex| {
            function.0.checked_sub(imported).map_or(Returns::Perhaps, |defined| returns[defined as usize])
        };
        let is_never = |index: u32| {
            let mut at = of(FuncIndex(index));
            for _ in 0..ROUNDS {
                let Returns::After(function) = at else { break };
                at = of(function);
            }
            at == Returns::Never
        };
        Never((0..info.functions.len() as u32).map(is_never).collect())
    }

    /// From what [`list`](Self::list) has given, of a module with so many functions.
    pub(crate) fn from_list(list: &[u32], functions: usize) -> Never {
        let mut never = vec![false; functions];
        for &index in list {
            if let Some(never) = never.get_mut(index as usize) {
                *never = true;
            }
        }
        Never(never)
    }

    /// The functions that never return, by their indexes.
    pub(crate) fn list(&self) -> Vec<u32> {
        self.0.iter().zip(0..).filter(|(never, _)| **never).map(|(_, index)| index).collect()
    }

    fn is_never(&self, callee: &Callee) -> bool {
        matches!(callee, Callee::Direct(function) if self.0[function.index()])
    }

    /// Where a block calls what never returns: the position of the call among the instructions.
    fn call_in(&self, function: &Function, block: Block) -> Option<usize> {
        function.blocks[block.index()]
            .insts
            .iter()
            .position(|&inst| matches!(&function.insts[inst.index()].op, Op::Call(callee) if self.is_never(callee)))
    }

    /// Whether a function can come to a return, or to the end of something else that it calls as its last.
    fn lets_return(&self, function: &Function) -> bool {
        let mut seen = vec![false; function.blocks.len()];
        let mut work = vec![function.entry];
        while let Some(block) = work.pop() {
            if std::mem::replace(&mut seen[block.index()], true) || self.call_in(function, block).is_some() {
                continue;
            }
            match &function.blocks[block.index()].terminator {
                Some(Terminator::Return(_) | Terminator::TailCall { .. }) => return true,
                Some(Terminator::TryCall { callee, handlers, .. }) if self.is_never(callee) => {
                    work.extend(handlers.iter().map(|handler| handler.edge.block));
                }
                Some(terminator) => terminator.for_each_edge(|edge| work.push(edge.block)),
                None => {}
            }
        }
        false
    }

    /// Has nothing follow calls of such functions. Returns whether there were any.
    pub(crate) fn cut(&self, function: &mut Function) -> bool {
        let mut has_changed = false;
        for number in 0..function.blocks.len() {
            let block = Block(number as u32);
            if let Some(position) = self.call_in(function, block) {
                let data = &mut function.blocks[number];
                has_changed |= data.insts.len() > position + 1 || !matches!(data.terminator, Some(Terminator::Trap(_)));
                let source = function.insts[data.insts[position].index()].source;
                data.insts.truncate(position + 1);
                data.terminator = Some(Terminator::Trap(TrapCode::Unreachable));
                data.terminator_source = source;
            }
            let Some(Terminator::TryCall { callee, normal, .. }) = &function.blocks[number].terminator else {
                continue;
            };
            let goes_on = normal.block;
            let is_cut = matches!(function.blocks[goes_on.index()].terminator, Some(Terminator::Trap(_)));
            if !self.is_never(callee) || is_cut {
                continue;
            }
            has_changed = true;
            let supplied = function.supplied(block, 0);
            let types: Vec<ValueType> = function.blocks[goes_on.index()].params[..supplied]
                .iter()
                .map(|&param| function.value_type(param))
                .collect();
            let source = function.blocks[number].terminator_source;
            let end = function.add_block();
            types.iter().for_each(|&ty| _ = function.add_param(end, ty));
            function.blocks[end.index()].terminator = Some(Terminator::Trap(TrapCode::Unreachable));
            function.blocks[end.index()].terminator_source = source;
            if let Some(Terminator::TryCall { normal, .. }) = &mut function.blocks[number].terminator {
                *normal = Edge::to(end);
            }
        }
        if has_changed {
            unreachable_blocks(function, &Cfg::new(function));
        }
        has_changed
    }
}
