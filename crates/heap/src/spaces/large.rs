//! Large objects: each in consecutive blocks of its own, first-fit, freed as a whole right after marking.

use super::{Contents, Survivors};
use crate::blocks::{BLOCK_BYTES, BlockKind, BlockPool, block_start};
use crate::references::ReferenceModel;
use crate::size_classes::MAX_SMALL_BYTES;

/// Blocks that an object of `bytes` takes.
pub(crate) fn blocks_for(bytes: u32) -> u32 {
    bytes.div_ceil(BLOCK_BYTES)
}

/// Bytes of the blocks that an object of `bytes` takes if it is large; 0 if it is small.
pub(crate) fn size_of(bytes: u32) -> u64 {
    if bytes > MAX_SMALL_BYTES { blocks_for(bytes) as u64 * BLOCK_BYTES as u64 } else { 0 }
}

/// Takes blocks for an object of `bytes`; `None` where the pool has no such run. Blocks that are known to be zero are
/// not zeroed again.
pub(crate) fn allocate(pool: &mut BlockPool, bytes: u32, contents: Contents) -> Option<u32> {
    take(pool, blocks_for(bytes), BlockKind::LargeHead, BlockKind::LargeTail, contents).map(block_start)
}

/// Takes `count` blocks for one object; returns the first. Whoever takes room counts it.
pub(super) fn take(
    pool: &mut BlockPool,
    count: u32,
    first: BlockKind,
    rest: BlockKind,
    contents: Contents,
) -> Option<u32> {
    let head = match contents {
        Contents::Room => pool.take_uncounted(count, first, rest)?,
        Contents::Zeroed | Contents::Unwritten => pool.take(count, first, rest)?,
    };
    if contents == Contents::Zeroed {
        pool.zero_blocks(head, count);
    }
    pool.info_mut(head).extent = count;
    for tail in head + 1..head + count {
        pool.info_mut(tail).extent = head;
    }
    Some(head)
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
