//! The frontier of the pool: how memory is come by that no block has been in before.

use super::{BLOCK_BYTES, BlockInfo, BlockKind, BlockPool, COMMIT_STEP, FIRST_BLOCK, block_of, block_start};
use crate::cage::HUGE_PAGE_BYTES;
use std::ops::Range;

impl BlockPool {
    /// Lets the blocks lie in huge pages, but for the first ones, and those that lie higher than the maximum does.
    pub(crate) fn allow_huge_pages(&mut self) {
        self.cage.allow_huge_pages(u64::from(FIRST_BLOCK + self.maximum) * u64::from(BLOCK_BYTES));
    }

    /// Finds a free run of `count` blocks that nobody has looked for: returns its start. Moves the frontier if need be.
    pub(super) fn grow(&mut self, count: u32) -> Option<u32> {
        if self.release_withheld()
            && let Some(start) = self.find_free(count)
        {
            return Some(start);
        }
        let frontier = self.frontier();
        let last = self.free.last_key_value().map(|(&start, &length)| (start, length));
        let start = match last {
            Some((start, length)) if start + length == frontier => start,
            _ => frontier,
        };
        let (start, withheld) = self.beside_page_in_work(start, count);
        let end = start.checked_add(count).filter(|&end| end <= self.end_block())?;
        self.commit_to(end)?;
        self.marks.cover(&self.cage, end).ok()?;
        self.planes.cover(&self.cage, end).ok()?;
        self.infos.resize(end as usize, BlockInfo::new(BlockKind::Free));
        if let Some(page) = withheld {
            self.infos[page.start as usize..page.end as usize].fill(BlockInfo::new(BlockKind::Guard));
            self.insert_free(frontier, page.start - frontier);
            self.withheld = Some(page);
        }
        self.insert_free(start.max(frontier), end - start.max(frontier));
        self.touch_ahead(end);
        Some(start)
    }

    /// Where a run at the frontier is to start that would start at `start`, and the blocks that it leaves out for that:
    /// those of a huge page that is being touched.
    fn beside_page_in_work(&self, start: u32, count: u32) -> (u32, Option<Range<u32>>) {
        // Where there is no room behind it, the page is used as it is.
        let goes_around = |page: &Range<u32>| {
            self.frontier() <= page.start && start + count > page.start && page.end + count <= self.end_block()
        };
        match self.page_in_work().filter(goes_around) {
            Some(page) => (page.end, Some(page)),
            None => (start, None),
        }
    }

    /// The blocks of the huge page that is being touched, if one is.
    fn page_in_work(&self) -> Option<Range<u32>> {
        let page = self.cage.page_in_work()?;
        Some(block_of(page.start as u32)..(page.end / u64::from(BLOCK_BYTES)) as u32)
    }

    /// Has the next huge page be touched, if it is time for that, of a pool that has grown to a block. Not while a
    /// helper marks: the two would be in each other's way.
    fn touch_ahead(&mut self, end: u32) {
        if !self.planes.is_shared
            && let Some(page) = self.cage.page_to_touch(u64::from(end) * u64::from(BLOCK_BYTES))
            && self.commit_to(((page + HUGE_PAGE_BYTES) / u64::from(BLOCK_BYTES)) as u32).is_some()
        {
            self.cage.touch_ahead(page);
        }
    }

    /// Frees what has been withheld, if it is not being touched any more: another page may be. Returns whether there
    /// was anything.
    fn release_withheld(&mut self) -> bool {
        let in_work = self.page_in_work();
        let Some(page) = self.withheld.take_if(|page| in_work.as_ref() != Some(page)) else { return false };
        self.infos[page.start as usize..page.end as usize].fill(BlockInfo::new(BlockKind::Free));
        self.insert_free(page.start, page.end - page.start);
        true
    }

    /// Has all blocks before `end` be accessible. `None` where the system refuses.
    fn commit_to(&mut self, end: u32) -> Option<()> {
        if end > self.accessible {
            let step = u64::from(end.next_multiple_of(COMMIT_STEP)) * u64::from(BLOCK_BYTES);
            let accessible = (self.cage.end_of_step(step) / u64::from(BLOCK_BYTES)) as u32;
            let accessible = accessible.min(self.end_block());
            let bytes = (accessible - self.accessible) as usize * BLOCK_BYTES as usize;
            self.cage.commit(block_start(self.accessible), bytes).ok()?;
            self.accessible = accessible;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::Release;
    use crate::budget::{Budget, Done};
    use crate::cage::Extent;

    /// A pool without other blocks than the frontier's.
    fn pool(blocks: u32) -> BlockPool {
        let mut pool = BlockPool::new(u64::from(blocks) * u64::from(BLOCK_BYTES), Extent::WHOLE).unwrap();
        pool.allow_huge_pages();
        pool
    }

    #[test]
    fn a_page_is_withheld_until_it_has_been_touched_and_no_longer() {
        let mut pool = pool(4000);
        let take = |pool: &mut BlockPool| {
            pool.take(1, BlockKind::Small, BlockKind::Small).unwrap();
            pool.check().unwrap();
        };
        for _ in 0..10 {
            // There is none where the machine has one processor; then nothing is ever withheld.
            let mut left = 300;
            while pool.withheld.is_none() && left > 0 {
                take(&mut pool);
                left -= 1;
            }
            while pool.page_in_work().is_some() {
                std::thread::yield_now();
            }
            // The next page may be in work before anybody has looked.
            pool.touch_ahead(pool.frontier());
            let withheld = pool.withheld.clone();
            (0..100).for_each(|_| take(&mut pool));
            assert!(withheld.is_none() || pool.withheld != withheld);
        }
    }

    #[test]
    fn blocks_of_huge_pages_are_taken_like_others() {
        const BLOCKS: u32 = 3000;
        let mut pool = pool(BLOCKS);
        let mut taken = Vec::new();
        for round in 0..3 {
            while let Some(block) = pool.take(1 + taken.len() as u32 % 3, BlockKind::LargeHead, BlockKind::LargeTail) {
                // SAFETY: the block is taken, so committed.
                assert_eq!(unsafe { pool.cage.read(block_start(block)) }, 0, "block {block}, round {round}");
                // SAFETY: the same.
                unsafe { pool.cage.write(block_start(block), block) };
                taken.push(block);
                pool.check().unwrap();
            }
            assert!(pool.available() < 3, "{} blocks are left", pool.available());
            let count = |index: usize| 1 + index as u32 % 3;
            for (index, &block) in taken.iter().enumerate() {
                // SAFETY: the block is taken, so committed.
                assert_eq!(unsafe { pool.cage.read(block_start(block)) }, block);
                pool.give_back(block, count(index));
            }
            taken.clear();
            let done = pool.release_to_system(&mut Release::new(0), &mut Budget::unlimited());
            assert_eq!((done, pool.committed_bytes()), (Done::Yes, 0));
            pool.check().unwrap();
        }
    }
}
