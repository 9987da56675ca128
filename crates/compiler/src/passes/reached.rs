//! Which functions are ever called, when small ones have been inlined.

use crate::mir::{Callee, Function, Op, Terminator};
use crate::module::{FuncIndex, ModuleInfo};

/// For each defined function, whether it may be called: from outside, through a reference (all functions to which there
/// can be one are declared), or by one that may be called itself. `functions` are all of the module's, in their order.
pub(crate) fn reached(functions: &[Function], info: &ModuleInfo) -> Vec<bool> {
    let defined = |index: FuncIndex| Some(index.0.checked_sub(info.imported_functions)? as usize);
    let declared = info.functions[info.imported_functions as usize..].iter().enumerate();
    let mut work: Vec<usize> = declared.filter(|(_, function)| function.func_ref.is_some()).map(|(at, _)| at).collect();
    work.extend(info.start.and_then(defined));
    let mut reached = vec![false; functions.len()];
    while let Some(number) = work.pop() {
        if !std::mem::replace(&mut reached[number], true) {
            for_each_callee(&functions[number], |callee| work.extend(defined(callee)));
        }
    }
    reached
}

/// Calls `f` with each function that a function calls by its index.
fn for_each_callee(function: &Function, mut f: impl FnMut(FuncIndex)) {
    for block in &function.blocks {
        for &inst in &block.insts {
            if let Op::Call(Callee::Direct(callee)) = function.insts[inst.index()].op {
                f(callee);
            }
        }
        if let Some(Terminator::TailCall { callee, .. } | Terminator::TryCall { callee, .. }) = &block.terminator
            && let Callee::Direct(callee) = callee
        {
            f(*callee);
        }
    }
}
