//! Large objects: each in consecutive blocks of its own, first-fit, freed as a whole right after marking.

use super::small::Survivors;
use crate::blocks::{BLOCK_BYTES, BlockKind, BlockPool, block_start};
use crate::references::ReferenceModel;

/// Blocks that an object of `bytes` takes.
pub(crate) fn blocks_for(bytes: u32) -> u32 {
    bytes.div_ceil(BLOCK_BYTES)
}

/// Takes zeroed blocks for an object of `bytes`; `None` where the pool has no such run.
pub(crate) fn allocate(pool: &mut BlockPool, bytes: u32) -> Option<u32> {
    let count = blocks_for(bytes);
    let head = pool.take(count, BlockKind::LargeHead, BlockKind::LargeTail)?;
    pool.zero_blocks(head, count);
    pool.info_mut(head).extent = count;
    for tail in head + 1..head + count {
        pool.info_mut(tail).extent = head;
    }
    Some(block_start(head))
}

/// Frees every unmarked large object.
pub(crate) fn collected<M: ReferenceModel>(pool: &mut BlockPool, model: &mut M) -> Survivors {
    let mut survivors = Survivors::default();
    let mut block = 0;
    while block < pool.frontier() {
        if pool.info(block).kind != BlockKind::LargeHead {
            block += 1;
            continue;
        }
        let count = pool.info(block).extent;
        if pool.marks.get(block_start(block)) {
            survivors.objects += 1;
            survivors.bytes += count as u64 * BLOCK_BYTES as u64;
        } else {
            // SAFETY: an unmarked large object is dead, and freed here once.
            unsafe { model.release(pool, block_start(block)) };
            pool.give_back(block, count);
        }
        block += count;
    }
    survivors
}
