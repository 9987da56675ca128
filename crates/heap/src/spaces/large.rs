//! Large objects: each in consecutive blocks of its own, first-fit, freed right after marking.

use super::{Contents, Survivors, Sweep};
use crate::blocks::{BLOCK_BYTES, BlockKind, BlockPool, block_start};
use crate::budget::{Budget, Done};
use crate::references::ReferenceModel;
use crate::size_classes::MAX_SMALL_BYTES;

/// The most blocks given back at once.
const MOST_AT_ONCE: u32 = 32;

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
        Contents::Reserved => pool.take_uncounted(count, first, rest)?,
        Contents::Zeroed | Contents::Unwritten => pool.take(count, first, rest)?,
    };
    if contents == Contents::Zeroed {
        pool.zero_blocks(head, count);
    }
    pool.info_mut(head).extent = count;
    for tail in head + 1..head + count {
        pool.info_mut(tail).extent = head;
    }
    pool.mark_born(block_start(head));
    Some(head)
}

/// Frees unmarked large objects, in steps. A new [`Sweep`] begins at the first block.
pub(crate) fn sweep<M: ReferenceModel>(
    sweep: &mut Sweep,
    pool: &mut BlockPool,
    model: &mut M,
    budget: &mut Budget,
) -> Done {
    while sweep.block < pool.frontier() {
        if budget.is_exhausted() {
            return Done::No;
        }
        budget.spend(1);
        let head = sweep.block;
        if pool.info(head).kind != BlockKind::LargeHead || pool.is_fresh(head) {
            sweep.block += 1;
            continue;
        }
        let count = pool.info(head).extent;
        if pool.marks.get(block_start(head)) {
            sweep.survivors += Survivors { objects: 1, bytes: u64::from(count) * u64::from(BLOCK_BYTES) };
            sweep.block += count;
        } else if count > MOST_AT_ONCE {
            // From its end, so that what is left is an object still.
            pool.info_mut(head).extent -= MOST_AT_ONCE;
            pool.give_back(head + count - MOST_AT_ONCE, MOST_AT_ONCE);
            budget.spend(u64::from(MOST_AT_ONCE));
        } else {
            // SAFETY: an unmarked large object is dead, and freed here once.
            unsafe { model.release(pool, block_start(head)) };
            pool.give_back(head, count);
            sweep.block += count;
        }
    }
    Done::Yes
}
