//! Partial inlining: what a body does rarely is left to the function itself. Where nothing has been changed on the way
//! there, it is called from its beginning, and finds its way once more.

use smallvec::SmallVec;

use super::made_once::made_once;
use super::support::terminator;
use super::unreachable::unreachable_blocks;
use crate::artifact::TrapCode;
use crate::mir::{Block, Callee, Cfg, Collects, Edge, Function, Memory, Op, Terminator, Value};
use crate::module::ModuleInfo;

/// The least that a body which can be inlined as it is must become smaller by, in what `cost` tells of its operations:
/// a call is no smaller than an exception.
const LEAST_GAIN: usize = 12;

/// Has a body call its function again where it leads to a trap or out by an exception on every path, and where it
/// comes to a cold block, if that leaves no loop. What `can_be_whole` is worth it where it becomes smaller; of anything
/// else, it is left as well [what is made once](made_once). The call's source is the function's: it is to be that of
/// the call which is replaced by the body. Returns whether there is a body.
pub(super) fn leave_rare(
    function: &mut Function,
    info: &ModuleInfo,
    can_be_whole: bool,
    cost: impl Fn(&Op) -> usize,
) -> bool {
    let cfg = Cfg::new(function);
    let ends = ends(function, &cfg);
    if ends[function.entry.index()] {
        return false;
    }
    let mut is_rare = ends.clone();
    for (rare, block) in is_rare.iter_mut().zip(&function.blocks) {
        *rare |= block.cold;
    }
    if !can_be_whole {
        for block in made_once(function, &cfg) {
            is_rare[block.index()] = true;
        }
    }
    is_rare[function.entry.index()] = false;
    let reach = reach(function, &is_rare);
    let stays = |block: &Block| reach[block.index()] != Reach::Not;
    let is_left = |from: Block, to: Block| is_rare[to.index()] && reach[from.index()] == Reach::Unchanged;
    let gone = cfg.order.iter().filter(|block| !stays(block));
    let gained = gone.flat_map(|block| &function.blocks[block.index()].insts);
    let gain: usize = gained.map(|inst| cost(&function.insts[inst.index()].op)).sum();
    if gain < if can_be_whole { LEAST_GAIN } else { 1 } {
        return false;
    }

    // One call that does not return, and one that may: only the former tells what is true behind it.
    let (mut ending, mut returning) = (None, None);
    for &block in cfg.order.iter().filter(|block| stays(block)) {
        let mut terminator = function.blocks[block.index()].terminator.take().expect("a finished block");
        terminator.for_each_edge_mut(|edge| {
            if is_left(block, edge.block) {
                let again = if ends[edge.block.index()] { &mut ending } else { &mut returning };
                *edge = Edge::to(*again.get_or_insert_with(|| function.add_block()));
            }
        });
        function.blocks[block.index()].terminator = Some(terminator);
    }
    if let Some(block) = ending {
        call_again(function, info, block);
        function.blocks[block.index()].terminator = Some(Terminator::Trap(TrapCode::Unreachable));
    }
    if let Some(block) = returning {
        let results = call_again(function, info, block);
        function.blocks[block.index()].terminator = Some(Terminator::Return(results));
        function.blocks[block.index()].cold = true;
    }
    let cfg = Cfg::new(function);
    unreachable_blocks(function, &cfg);
    !cfg.has_loops()
}

/// Has a new block call the function from its beginning. Returns the results.
fn call_again(function: &mut Function, info: &ModuleInfo, block: Block) -> SmallVec<[Value; 4]> {
    let args = function.blocks[function.entry.index()].params.clone();
    let results = &info.func_type(function.ty).results;
    let call = function.push(block, Op::Call(Callee::Direct(function.index)), &args, results, function.source);
    function.blocks[block.index()].terminator_source = function.source;
    function.insts[call.index()].results.iter().copied().collect()
}

/// For each block, whether it leads to a trap or out of the function by an exception on every path.
fn ends(function: &Function, cfg: &Cfg) -> Vec<bool> {
    let mut ends = vec![false; function.blocks.len()];
    for &block in cfg.order.iter().rev() {
        ends[block.index()] = match &function.blocks[block.index()].terminator {
            Some(Terminator::Return(_) | Terminator::TailCall { .. }) | None => false,
            Some(terminator) => {
                let mut leads_on = false;
                terminator.for_each_edge(|edge| leads_on |= !ends[edge.block.index()]);
                !leads_on
            }
        };
    }
    ends
}

/// Whether a body comes to the end of a block.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Reach {
    Not,
    /// It does, and has changed nothing by then.
    Unchanged,
    Changed,
}

/// How a body reaches each block that leaves for rare ones wherever it has changed nothing.
fn reach(function: &Function, is_rare: &[bool]) -> Vec<Reach> {
    let mut reach = vec![Reach::Not; function.blocks.len()];
    let mut work = vec![(function.entry, Reach::Unchanged)];
    while let Some((block, mut way)) = work.pop() {
        let insts = &function.blocks[block.index()].insts;
        if insts.iter().any(|inst| changes(&function.insts[inst.index()].op)) {
            way = Reach::Changed;
        }
        if way > reach[block.index()] {
            reach[block.index()] = way;
            terminator(function, block).for_each_edge(|edge| {
                if way == Reach::Changed || !is_rare[edge.block.index()] {
                    work.push((edge.block, way));
                }
            });
        }
    }
    reach
}

/// Whether the function might do something else if it was called again behind the operation.
fn changes(op: &Op) -> bool {
    let properties = op.properties();
    // Other threads may write to a shared memory.
    properties.writes != Memory::None || properties.reads == Memory::Other || properties.collects != Collects::Never
}
