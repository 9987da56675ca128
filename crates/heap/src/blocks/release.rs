//! Returning the memory of free blocks to the operating system.

use super::{BLOCK_BYTES, BlockPool, block_start};
use crate::budget::{Budget, Done};

/// The most blocks whose memory is returned to the system at once where time is limited: 1 MiB.
const MOST_RELEASED: u32 = 32;
/// What returning a block's memory counts.
const RELEASED_UNITS: u64 = 16;

/// Memory being returned to the operating system.
#[derive(Debug)]
pub(crate) struct Release {
    /// Dirty blocks still to be kept.
    keep: u32,
    /// The block to go on at.
    block: u32,
}

impl Release {
    /// Returns all free memory but `keep_bytes` of it.
    pub(crate) fn new(keep_bytes: u64) -> Release {
        Release { keep: keep_bytes.div_ceil(BLOCK_BYTES as u64).min(u32::MAX as u64) as u32, block: 0 }
    }
}

impl BlockPool {
    /// Returns the memory of free blocks to the operating system, but for the lowest ones of what `release` says is to
    /// be kept. A step with a limited budget returns at most 1 MiB at once.
    pub(crate) fn release_to_system(&mut self, release: &mut Release, budget: &mut Budget) -> Done {
        let most = if budget.is_limited() { MOST_RELEASED } else { u32::MAX };
        while let Some((first, end)) = self.next_dirty(release) {
            if budget.is_exhausted() {
                return Done::No;
            }
            let end = end.min(first.saturating_add(most));
            if self.cage.decommit(block_start(first), (end - first) as usize * BLOCK_BYTES as usize) {
                self.infos[first as usize..end as usize].iter_mut().for_each(|info| info.dirty = false);
                self.dirty_free -= end - first;
            }
            release.block = end;
            budget.spend(u64::from(end - first) * RELEASED_UNITS);
        }
        Done::Yes
    }

    /// The next free dirty blocks that are not to be kept: the first, and one past the last.
    fn next_dirty(&self, release: &mut Release) -> Option<(u32, u32)> {
        let before = self.free.range(..=release.block).next_back().map_or(0, |(&start, _)| start);
        for (&start, &length) in self.free.range(before..) {
            let is_dirty = |block: &u32| self.infos[*block as usize].dirty;
            let keep = &mut release.keep;
            let mut is_kept = || std::mem::replace(keep, keep.saturating_sub(1)) > 0;
            let mut blocks = release.block.max(start)..start + length;
            if let Some(first) = blocks.by_ref().filter(is_dirty).find(|_| !is_kept()) {
                release.block = first;
                let count = (first..start + length).take_while(is_dirty).count() as u32;
                return Some((first, first + count));
            }
            release.block = release.block.max(start + length);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::BlockKind;

    #[test]
    fn returned_memory_is_clean() {
        let mut pool = BlockPool::new(1 << 20).unwrap();
        let start = pool.take(4, BlockKind::LargeHead, BlockKind::LargeTail).unwrap();
        // SAFETY: the blocks are taken, so committed.
        unsafe { pool.cage.write(block_start(start + 3), 9) };
        pool.give_back(start, 4);
        assert_eq!(pool.committed_bytes(), 4 * BLOCK_BYTES as u64);
        assert_eq!(pool.release_to_system(&mut Release::new(BLOCK_BYTES.into()), &mut Budget::unlimited()), Done::Yes);
        assert_eq!(pool.committed_bytes(), BLOCK_BYTES as u64);
        pool.check().unwrap();
        // SAFETY: the memory stays accessible.
        assert_eq!(unsafe { pool.cage.read(block_start(start + 3)) }, 0);
    }
}
