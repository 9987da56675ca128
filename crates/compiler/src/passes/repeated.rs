//! Removes questions whether a class has been initialised where it has been, as a use of it comes before on every path.
//!
//! A global that settles for good ([`Settled`](super::Settled)) holds its initialiser or the function that does
//! nothing, and calling either makes it hold the latter from then on. So it does behind each such call, and where a
//! comparison has found that it does, whatever has been called or stored meanwhile: what is read from it there need not
//! be compared.

use rustc_hash::FxHashSet;

use super::flow::Flow;
use super::support::{become_constant, definition, origin};
use crate::mir::{Block, Callee, Constant, Function, Inst, Op, Terminator, Value};
use crate::module::{GlobalIndex, ModuleInfo};

/// The globals that a function asks for, each a bit of a mask. Further ones are left alone.
const MOST: usize = u64::BITS as usize;

/// The pass.
pub(super) fn repeated(function: &mut Function, _: &ModuleInfo, flow: &mut Flow) {
    let mut globals: Vec<GlobalIndex> = Vec::new();
    let insts = function.blocks.iter().flat_map(|block| &block.insts);
    for op in insts.map(|inst| &function.insts[inst.index()].op) {
        if let Op::IsFunction(_, Some(global)) = *op
            && !globals.contains(&global)
            && globals.len() < MOST
        {
            globals.push(global);
        }
    }
    if globals.is_empty() {
        return;
    }
    let cfg = flow.cfg(function);
    // What is settled where a block begins: on all ways there.
    let mut settled = vec![u64::MAX; function.blocks.len()];
    settled[function.entry.index()] = 0;
    loop {
        let mut has_changed = false;
        for &block in &cfg.order {
            let mut here = settled[block.index()];
            for &(from, edge) in cfg.predecessors(block) {
                here &= settled[from.index()] | by_edge(function, &globals, from, edge);
            }
            has_changed |= here != std::mem::replace(&mut settled[block.index()], here);
        }
        if !has_changed {
            break;
        }
    }
    // What has been read since. A value that was read before is still the initialiser, which runs each time.
    let mut read: FxHashSet<Inst> = FxHashSet::default();
    for &block in &cfg.order {
        let mut here = settled[block.index()];
        for position in 0..function.blocks[block.index()].insts.len() {
            let inst = function.blocks[block.index()].insts[position];
            match function.insts[inst.index()].op {
                Op::GlobalGet(global) if here & bit(&globals, global) != 0 => {
                    read.insert(inst);
                }
                Op::IsFunction(_, Some(_)) => {
                    let reference = function.resolve(function.insts[inst.index()].args[0]);
                    if definition(function, reference).is_some_and(|get| read.contains(&get)) {
                        become_constant(function, inst, Constant::I32(1));
                    }
                }
                Op::Call(Callee::Reference(_, reference, _)) => here |= called(function, &globals, reference),
                _ => {}
            }
        }
    }
}

fn bit(globals: &[GlobalIndex], global: GlobalIndex) -> u64 {
    globals.iter().position(|&other| other == global).map_or(0, |position| 1 << position)
}

/// The bit of the global that a function to be called has been read from.
fn called(function: &Function, globals: &[GlobalIndex], reference: Value) -> u64 {
    match origin(function, reference) {
        Some((&Op::GlobalGet(global), _)) => bit(globals, global),
        _ => 0,
    }
}

/// What a block, and having left it by this edge, settles.
fn by_edge(function: &Function, globals: &[GlobalIndex], from: Block, edge: u32) -> u64 {
    let block = &function.blocks[from.index()];
    let calls = block.insts.iter().map(|inst| match function.insts[inst.index()].op {
        Op::Call(Callee::Reference(_, reference, _)) => called(function, globals, reference),
        _ => 0,
    });
    // Where a call that is no terminator throws, no block of this function is next.
    let settled = calls.fold(0, |settled, called| settled | called);
    // The first edge is that of a condition that holds, and of a call that returns.
    let at_end = match &block.terminator {
        Some(Terminator::Branch { cond, then, otherwise }) if edge == 0 && then.block != otherwise.block => {
            match origin(function, *cond) {
                Some((&Op::IsFunction(_, Some(global)), _)) => bit(globals, global),
                _ => 0,
            }
        }
        Some(Terminator::TryCall { callee: Callee::Reference(_, reference, _), .. }) if edge == 0 => {
            called(function, globals, *reference)
        }
        _ => 0,
    };
    settled | at_end
}
