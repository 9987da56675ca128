//! Returning the memory of free blocks to the operating system.

use super::{BLOCK_BYTES, BlockPool, block_start};
use crate::budget::{Budget, Done};

/// The most blocks whose memory is returned to the system at once where time is limited: 1 MiB.
const MOST_RELEASED: u32 = 32;
/// What returning a block's memory counts.
const RELEASED_UNITS: u64 = 16;
/// What splitting a huge page counts: some 200 microseconds.
const SPLIT_UNITS: u64 = 512;
/// The most blocks of a free run that are looked at between two looks at the budget.
const MOST_LOOKED_AT: u32 = 1024;
/// Blocks looked at that count as much as one object scanned.
const BLOCKS_PER_UNIT: u32 = 16;

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
        while release.block < self.frontier() {
            if budget.is_exhausted() {
                return Done::No;
            }
            let Some((first, mut end)) = self.next_dirty(release, most, budget) else { continue };
            if budget.is_limited() {
                // A step splits one huge page at most.
                let left = self.cage.left_of_huge_page(block_start(first)) / u64::from(BLOCK_BYTES);
                end = end.min(first.saturating_add(left.min(u64::from(u32::MAX)) as u32));
            }
            let bytes = (end - first) as usize * BLOCK_BYTES as usize;
            budget.spend(SPLIT_UNITS * self.cage.split_huge_pages(block_start(first), bytes));
            if self.cage.decommit(block_start(first), bytes) {
                self.infos[first as usize..end as usize].iter_mut().for_each(|info| info.dirty = false);
                self.dirty_free -= end - first;
            }
            release.block = end;
            budget.spend(u64::from(end - first) * RELEASED_UNITS);
        }
        if release.keep == 0 {
            self.cage.give_ahead_back(u64::from(self.frontier()) * u64::from(BLOCK_BYTES));
        }
        Done::Yes
    }

    /// After more memory has been taken: sees to it that the system holds memory for no more blocks than the maximum.
    #[inline]
    pub(crate) fn keep_to_maximum(&mut self) {
        if self.counted() + self.dirty_free > self.maximum {
            self.release_excess();
        }
    }

    /// Returns the memory of free blocks, the highest ones first: what is too much, and at least as much as a step with
    /// a limited budget does, so that it is rare.
    #[cold]
    fn release_excess(&mut self) {
        let excess = (self.counted() + self.dirty_free).saturating_sub(self.maximum);
        let mut left = excess.max(MOST_RELEASED).min(self.dirty_free);
        let mut last = self.free.last_key_value();
        while let (true, Some((&start, &length))) = (left > 0, last) {
            last = self.free.range(..start).next_back();
            let mut end = start + length;
            while left > 0 {
                let is_dirty = |&block: &u32| self.infos[block as usize].dirty;
                let Some(highest) = (start..end).rev().find(is_dirty) else { break };
                let count = (start..=highest).rev().take_while(is_dirty).take(left as usize).count() as u32;
                end = highest + 1 - count;
                if !self.cage.decommit(block_start(end), count as usize * BLOCK_BYTES as usize) {
                    return;
                }
                self.infos[end as usize..=highest as usize].iter_mut().for_each(|info| info.dirty = false);
                self.dirty_free -= count;
                left -= count;
            }
        }
    }

    /// The next free dirty blocks that are not to be kept, `most` at most: the first, and one past the last. `None`
    /// where there are none in what has been looked at, from where `release` goes on behind.
    fn next_dirty(&self, release: &mut Release, most: u32, budget: &mut Budget) -> Option<(u32, u32)> {
        budget.spend(1);
        let run_at = |(&start, &length): (&u32, &u32)| (start, start + length);
        let here = self.free.range(..=release.block).next_back().map(run_at).filter(|run| release.block < run.1);
        let Some((start, end)) = here.or_else(|| self.free.range(release.block..).next().map(run_at)) else {
            release.block = self.frontier();
            return None;
        };
        let first = release.block.max(start);
        let end = end.min(first + MOST_LOOKED_AT);
        budget.spend(u64::from((end - first) / BLOCKS_PER_UNIT));
        let is_dirty = |&block: &u32| self.infos[block as usize].dirty;
        let keep = &mut release.keep;
        let mut is_kept = || std::mem::replace(keep, keep.saturating_sub(1)) > 0;
        let found = (first..end).filter(is_dirty).find(|_| !is_kept());
        release.block = found.unwrap_or(end);
        let count = (found?..end).take_while(is_dirty).take(most as usize).count() as u32;
        Some((found?, found? + count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::BlockKind;
    use crate::cage::{Extent, HUGE_PAGE_BYTES};
    use crate::os::page_bytes;

    #[test]
    fn memory_is_looked_for_in_steps() {
        const BLOCKS: u32 = 20_000;
        let mut pool = BlockPool::new(1 << 30, Extent::WHOLE).unwrap();
        // Some in one run, and others one by one, all of them clean.
        let taken: Vec<_> =
            (0..BLOCKS).map(|_| pool.take(1, BlockKind::LargeHead, BlockKind::LargeTail).unwrap()).collect();
        for &block in taken[..BLOCKS as usize / 2].iter().chain(taken[BLOCKS as usize / 2..].iter().step_by(2)) {
            pool.give_back_as_they_are(block, 1);
        }
        let mut release = Release::new(0);
        let mut steps = 0;
        while pool.release_to_system(&mut release, &mut Budget::units(64)) == Done::No {
            steps += 1;
        }
        assert!(steps > BLOCKS / 4 / 64, "{steps} steps");
        assert!(steps < BLOCKS / 64, "{steps} steps");
    }

    #[test]
    fn the_system_holds_memory_for_no_more_blocks_than_the_maximum() {
        const BLOCKS: u32 = 1000;
        let mut pool = BlockPool::new(u64::from(BLOCKS) * u64::from(BLOCK_BYTES), Extent::WHOLE).unwrap();
        let taken: Vec<_> =
            (0..BLOCKS).map(|_| pool.take(1, BlockKind::LargeHead, BlockKind::LargeTail).unwrap()).collect();
        // No two of them are neighbours.
        taken.iter().step_by(2).for_each(|&block| pool.give_back(block, 1));
        for pair in 1..=BLOCKS / 4 {
            pool.take(2, BlockKind::LargeHead, BlockKind::LargeTail).unwrap();
            pool.check().unwrap();
            assert!(pool.committed_bytes() <= u64::from(BLOCKS) * u64::from(BLOCK_BYTES), "pair {pair}");
            let left = u64::from(BLOCKS / 2 - 2 * pair) * u64::from(BLOCK_BYTES);
            let needed = u64::from(2 * MOST_RELEASED) * u64::from(BLOCK_BYTES);
            assert!(pool.committed_bytes() + needed > pool.used_bytes() + left, "no more than that is returned");
        }
        assert_eq!(pool.available(), 0);
    }

    #[test]
    fn a_step_splits_one_huge_page_at_most() {
        const BLOCKS: u32 = 1200;
        let mut pool = BlockPool::new(u64::from(BLOCKS) * u64::from(BLOCK_BYTES), Extent::WHOLE).unwrap();
        pool.allow_huge_pages();
        // Slowly, so that every huge page is touched in one piece; on one processor none is.
        for _ in 0..BLOCKS {
            pool.take(1, BlockKind::LargeHead, BlockKind::LargeTail).unwrap();
            while pool.cage.page_in_work().is_some() {
                std::thread::yield_now();
            }
        }
        // Runs of as many blocks as a step gives back, each half in one huge page and half in the next.
        let ends = |block: &u32| pool.cage.left_of_huge_page(block_start(*block)) == HUGE_PAGE_BYTES;
        let first: Vec<u32> = (0..pool.frontier()).filter(ends).collect();
        assert!(first.len() > 10 || page_bytes() != 4 << 10);
        for &block in &first[1..] {
            pool.give_back(block - MOST_RELEASED / 2, MOST_RELEASED);
        }
        let mut release = Release::new(0);
        loop {
            let mut budget = Budget::units(1);
            let done = pool.release_to_system(&mut release, &mut budget);
            let most = SPLIT_UNITS + u64::from(MOST_RELEASED) * RELEASED_UNITS + 64;
            assert!(budget.spent <= most, "{} units, {most} are the most", budget.spent);
            if done == Done::Yes {
                break;
            }
        }
        pool.check().unwrap();
    }

    #[test]
    fn returned_memory_is_clean() {
        let mut pool = BlockPool::new(1 << 20, Extent::WHOLE).unwrap();
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
