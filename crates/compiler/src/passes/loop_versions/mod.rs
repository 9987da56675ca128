//! Loop versioning: a fast path for iterations whose accesses find their elements in one piece with the header, and a
//! slow path for the others.
//!
//! Where arrays have inline lengths, an access compares its index with one. What happens where the element lies
//! elsewhere is the exception, but as long as it comes back to the same place, it takes part in the loop: values that
//! it needs stay alive, and what it does moves others out of registers. So loops are copied, with the loops within. The
//! fast path's accesses reach what lies behind the header and nothing else. Where one of them does not, its check
//! included, control leaves by a *side exit* ([`side_exits`]) for the slow path, where it goes on from where nothing
//! has been done that may not be done again. The slow path lies out of line and makes accesses as code outside of loops
//! does. It goes on in the fast path where the next iteration begins, of whichever loop, so that it has no loops of its
//! own.
//!
//! A loop that walks through the leaves of an array is there a third time, *outlined*: a piece of code of its own that
//! the slow path calls ([`outline`]).
//!
//! Inline lengths of arrays that a loop does not change are read before it, and again where the slow path comes back. A
//! length read before an array grew is too small, which does no harm.

mod copies;
mod outline;
mod repair;
mod side_exits;

use self::copies::Copies;
use self::outline::Outliner;
use self::side_exits::{Finder, VersionedLoop};
use super::block_params;
use super::heap::HeapFacts;
use crate::LoopVersions;
use crate::mir::{Block, BlockData, Cfg, Dominators, Function, Loops, Op, Reach};

/// A loop with more instructions than this, those of the loops within included, has one version.
const MOST_INSTS: usize = 1_000;

/// A loop with more instructions than this for each access has one version: what two would cost in registers, accesses
/// do not save.
const INSTS_PER_ACCESS: usize = 10;

/// In a function with more instructions than this, loops have one version: it could pass the limits of compile time
/// otherwise.
const LARGEST_FUNCTION: usize = 6_000;

/// The function with two versions of its loops, and those outlined in the order of their numbers, if it has
/// any to which that matters. Near-linear in the function's size.
pub(crate) fn loop_versions(
    heap: &HeapFacts,
    mir: &Function,
    versions: LoopVersions,
) -> Option<(Function, Vec<Function>)> {
    if versions == LoopVersions::None {
        return None;
    }
    let spines = heap.growing_spines().filter(|_| mir.insts.len() <= LARGEST_FUNCTION)?;
    if mir.blocks.iter().all(|block| accesses_in(mir, block) == 0) {
        return None;
    }
    let cfg = Cfg::new(mir);
    let dominators = Dominators::new(mir, &cfg);
    let loops = Loops::new(&cfg, &dominators);
    if loops.loops.is_empty() {
        return None;
    }
    let finder = Finder::new(heap, mir, spines, &cfg, &dominators, &loops);
    let mut found: Vec<VersionedLoop> = nests(mir, &cfg, &loops).iter().filter_map(|nest| finder.find(nest)).collect();
    if found.is_empty() {
        return None;
    }
    let outliner = Outliner::new(heap, mir, &cfg, &dominators, &loops, &finder.def_blocks);
    let mut outlined = Vec::new();
    let outlines = versions == LoopVersions::Outlined;
    for version in found.iter_mut().filter(|_| outlines) {
        for blocks in finder.innermost(version) {
            if let Some((taken, function)) = outliner.outline(&blocks, outlined.len() as u32) {
                outlined.push(function);
                version.outlined.insert(blocks[0], taken);
            }
        }
    }
    let mut copies = Copies::new(mir);
    let entries: Vec<_> = found.iter().map(|version| copies.enter(version, &cfg)).collect();
    for (version, entries) in found.iter().zip(&entries) {
        copies.add(version, entries);
    }
    let mut function = copies.finish();
    block_params(&mut function);
    copies::divide_edges(&mut function, mir.blocks.len());
    Some((function, outlined))
}

/// How many accesses to elements that may lie anywhere there are in a block.
fn accesses_in(mir: &Function, block: &BlockData) -> usize {
    let is_access = |op: &Op| matches!(op, Op::ArrayGet(_, _, Reach::Any) | Op::ArraySet(_, Reach::Any));
    block.insts.iter().filter(|inst| is_access(&mir.insts[inst.index()].op)).count()
}

/// The largest loops that are not too large, make many accesses, and have some outside of loops within: the blocks of
/// each, these loops' included, in reverse post-order.
fn nests(mir: &Function, cfg: &Cfg, loops: &Loops) -> Vec<Vec<Block>> {
    // Outer loops come before those within.
    let mut sizes = vec![0; loops.loops.len()];
    let mut accesses = vec![0; loops.loops.len()];
    for &block in &cfg.order {
        if let Some(number) = loops.innermost[block.index()] {
            let data = &mir.blocks[block.index()];
            sizes[number] += data.insts.len();
            accesses[number] += if data.cold { 0 } else { accesses_in(mir, data) };
        }
    }
    let has_own: Vec<bool> = accesses.iter().map(|&count| count > 0).collect();
    for number in (0..sizes.len()).rev() {
        if let Some(parent) = loops.loops[number].parent {
            sizes[parent] += sizes[number];
            accesses[parent] += accesses[number];
        }
    }
    let mut chosen: Vec<Option<usize>> = vec![None; sizes.len()];
    for number in 0..sizes.len() {
        let fits =
            sizes[number] <= MOST_INSTS && has_own[number] && INSTS_PER_ACCESS * accesses[number] >= sizes[number];
        let outer = loops.loops[number].parent.and_then(|parent| chosen[parent]);
        chosen[number] = outer.or(fits.then_some(number));
    }
    let mut blocks: Vec<Vec<Block>> = vec![Vec::new(); sizes.len()];
    for &block in &cfg.order {
        if let Some(nest) = loops.innermost[block.index()].and_then(|number| chosen[number]) {
            blocks[nest].push(block);
        }
    }
    blocks.retain(|blocks| !blocks.is_empty());
    blocks
}
