//! Free handles by their mark bits: when marking ends, a handle without one is free. No handle is visited to release
//! it; a sweep counts the bits of each block, as it does for cells, and what is found clear is taken in runs.
//!
//! Up to a block's `swept` byte, what has been free has been handed out, and a handle is in use where it names
//! something; beyond, where it is marked. The others there hold what they held, until they are handed out.

use super::{FREE, HandleSpace, Layout};
use crate::blocks::{BLOCK_BYTES, BlockPool, block_of, block_start};
use crate::plan::BumpRun;

impl HandleSpace {
    /// The next run of free handles in the current block, as it is.
    pub(super) fn next_clear_run(&mut self, pool: &mut BlockPool, layout: &Layout) -> Option<BumpRun> {
        let (block, position) = self.current?;
        let bytes = layout.bytes(self.of_arrays);
        let end = block_start(block) + BLOCK_BYTES;
        let (cursor, limit) = pool.marks.clear_run(block_start(block) + position, end, bytes);
        self.current = Some((block, limit - block_start(block)));
        let info = pool.info_mut(block);
        info.swept = limit - block_start(block);
        if cursor == limit {
            return None;
        }
        info.extent -= (limit - cursor) / bytes;
        Some(BumpRun { cursor, limit })
    }

    /// Has the handles of runs that are being handed out born marked where a cycle marks, and clears them.
    pub(crate) fn hand_out<R: Iterator<Item = BumpRun>>(
        &self,
        pool: &mut BlockPool,
        layout: &Layout,
        runs: impl Fn() -> R,
    ) {
        if self.is_by_marks() {
            pool.mark_born_cells(runs(), layout.bytes(self.of_arrays));
            runs().for_each(|run| pool.zero_run(run));
        }
    }

    /// As marking ends: what is left of a run that the mutator has is free.
    pub(crate) fn take_back(&self, pool: &mut BlockPool, layout: &Layout, run: BumpRun) {
        if run.cursor < run.limit {
            pool.unmark_unborn(run.cursor, run.limit);
            pool.info_mut(block_of(run.cursor)).extent += (run.limit - run.cursor) / layout.bytes(self.of_arrays);
        }
    }

    /// As marking ends: no block has free handles until it is classified.
    pub(crate) fn forget_free(&mut self) {
        self.current = None;
        self.queue.clear();
        self.sorted.iter_mut().for_each(Vec::clear);
        self.kept.clear();
    }

    /// Counts the free handles of a block, and queues it if there are any; returns how many have become free.
    pub(crate) fn classify(&mut self, pool: &mut BlockPool, layout: &Layout, block: u32) -> u64 {
        if pool.is_fresh(block) {
            // Its handles are those of newer objects.
            return 0;
        }
        let (all, marked) = (layout.in_block(self.of_arrays), pool.marks.count(block));
        let info = pool.info_mut(block);
        let before = all - info.extent;
        (info.swept, info.dirty, info.extent, info.queued) = (0, true, all - marked, marked < all);
        if info.queued {
            self.queue.push_back(block);
        }
        if self.clears_dead {
            let bytes = layout.bytes(self.of_arrays) as usize;
            for handle in (block_start(block)..block_start(block) + BLOCK_BYTES).step_by(bytes) {
                if !pool.marks.get(handle) {
                    // SAFETY: the handle lies in a block of handles, and no live object has it.
                    unsafe { pool.cage.write(handle + layout.object, FREE) };
                }
            }
        }
        u64::from(before - marked)
    }

    /// Whether a handle that names something is that of a dead object, of which nothing but the bit tells.
    pub(super) fn is_dead(&self, pool: &BlockPool, handle: u32, is_classified: bool) -> bool {
        let block = block_of(handle);
        let is_by_bit = !is_classified || handle - block_start(block) >= pool.info(block).swept;
        self.is_by_marks() && is_by_bit && !pool.marks.get(handle)
    }
}
