//! Branches that leave a loop where they do not hold.
//!
//! Cranelift orders blocks by a depth-first search that visits a branch's first target first, which puts what comes
//! from there last. Its register allocator takes the blocks from a loop's first to its last in that order for the loop.
//! Where a branch goes on in its loop first, what comes behind the loop lies in between, counts as part of it, and
//! loops within count as less deep: so registers go to what is executed once.

use crate::mir::{Block, Cfg, Dominators, Function, Loops, Terminator};

/// For each block whether it ends in a branch that leaves a loop where the condition does not hold, and goes on in that
/// loop where it does.
pub(crate) fn leaves_otherwise(function: &Function, cfg: &Cfg) -> Vec<bool> {
    let mut leaves = vec![false; function.blocks.len()];
    if !cfg.has_loops() {
        return leaves;
    }
    let loops = Loops::new(cfg, &Dominators::new(function, cfg));
    // The innermost loop of a block that holds another block as well.
    let common = |block: Block, other: Block| {
        let mut at = loops.innermost[block.index()];
        while let Some(number) = at.filter(|&number| !loops.contains(number, other)) {
            at = loops.loops[number].parent;
        }
        at.map_or(0, |number| loops.loops[number].depth)
    };
    for &block in &cfg.order {
        if let Some(Terminator::Branch { then, otherwise, .. }) = &function.blocks[block.index()].terminator
            && loops.innermost[block.index()].is_some()
        {
            leaves[block.index()] = common(block, otherwise.block) < common(block, then.block);
        }
    }
    leaves
}
