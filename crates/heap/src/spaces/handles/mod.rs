//! The handles of objects: a reference is the offset of a handle, which holds the object's offset; the object's
//! collector word holds the handle's (Handles Revisited, section 3). A reference never changes, whatever moves. The
//! models differ in what else a handle holds, and so in its size: their plans say it.
//!
//! Handles live in blocks of their own, taken from the pool as the program needs them. Where the object's offset
//! stands, a free handle that has been handed out or released one by one has 0, so that a stale reference leads to the
//! inaccessible start of the cage; one that is free by its mark alone does so only where the heap verifies itself.
//! Blocks with free handles stand in a queue; allocation scans the first one for runs of consecutive free handles and
//! bumps through each run, inline like cells. Handles of dead objects are those without a [mark](by_marks), or they
//! become free in a pass over the blocks of handles, before cells are swept, or when their objects' cells are, and a
//! block whose handles are all free returns to the pool after a collection:
//! [`handle_policies`](crate::references::handle_policies) has the choices.
//!
//! Limits: released with cells, which are swept lazily, handles become free late, so that their space may hold as many
//! handles as the heap has cells.

mod by_marks;

use crate::blocks::{BLOCK_BYTES, BlockKind, BlockPool, block_of, block_start};
use crate::budget::{Budget, Done};
use crate::layout::{ARRAY_LENGTH_OFFSET, COLLECTOR_WORD_OFFSET, TYPE_ID_OFFSET};
use crate::plan::{BumpRun, HandlePlan, HeaderWord, ObjectAt, ReferencePlan};
use crate::references::handle_policies::{HandleOrder, HandleParams, HandleRelease};
use std::collections::VecDeque;

/// What a free handle holds for the object's offset.
pub(crate) const FREE: u32 = 0;

/// Where handles lie and what they hold, by a plan.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    plan: HandlePlan,
    /// Where a handle holds the object's offset.
    pub(crate) object: u32,
}

impl Layout {
    pub(crate) const fn of(plan: &ReferencePlan) -> Layout {
        match (plan.handles, plan.object) {
            (Some(plan), ObjectAt::Through { offset }) => Layout { plan, object: offset },
            _ => panic!("a model with handles finds objects through them"),
        }
    }

    /// Bytes of a handle in a space.
    #[inline(always)]
    pub(crate) const fn bytes(&self, of_arrays: bool) -> u32 {
        self.plan.run(of_arrays).bytes
    }

    /// Whether each handle has a mark bit of its own.
    pub(crate) const fn has_mark_bits(&self) -> bool {
        self.bytes(false).is_multiple_of(8) && self.bytes(true).is_multiple_of(8)
    }

    /// Handles in a block of a space.
    const fn in_block(&self, of_arrays: bool) -> u32 {
        BLOCK_BYTES / self.bytes(of_arrays)
    }

    /// Whether an object has its handle in the space of arrays.
    #[inline(always)]
    pub(crate) const fn of_arrays(&self, is_array: bool) -> bool {
        is_array && self.plan.has_array_handles()
    }
}

/// The blocks of handles of one size.
#[derive(Debug, Default)]
pub(crate) struct HandleSpace {
    /// Whether the handles are those of arrays alone.
    of_arrays: bool,
    /// Blocks with free handles, but for the current one; each is flagged `queued`.
    pub(crate) queue: VecDeque<u32>,
    /// The block that runs are taken from, and the byte to go on at.
    current: Option<(u32, u32)>,
    pub(crate) blocks: u32,
    /// Blocks given back to the pool since somebody asked.
    pub(crate) given_back: u32,
    policies: HandleParams,
    /// Blocks that a sweep under way has looked at, by how many of their handles are free, where it sorts them.
    sorted: [Vec<u32>; STEPS as usize],
    /// Blocks whose handles are all free, kept for later.
    kept: Vec<u32>,
    /// Under [`HandleRelease::Naive`]: the free handles, the one released last behind the others.
    released: Vec<u32>,
    /// Under [`HandleRelease::Lazy`]: whether handles are cleared as soon as they are known for dead.
    clears_dead: bool,
}

/// Steps of how many handles of a block are free.
const STEPS: u32 = 16;

impl HandleSpace {
    /// An empty space.
    pub(crate) fn new(of_arrays: bool, policies: HandleParams, clears_dead: bool) -> HandleSpace {
        HandleSpace { of_arrays, policies, clears_dead, ..HandleSpace::default() }
    }

    /// The next run of free handles in the current block.
    pub(crate) fn next_run(&mut self, pool: &mut BlockPool, layout: &Layout) -> Option<BumpRun> {
        if self.is_by_marks() {
            return self.next_clear_run(pool, layout);
        }
        let (block, position) = self.current?;
        let bytes = layout.bytes(self.of_arrays);
        let end = block_start(block) + BLOCK_BYTES;
        if pool.info(block).extent == layout.in_block(self.of_arrays) {
            // All are free, and the scan has not begun: it would find that out one by one.
            self.current = Some((block, BLOCK_BYTES));
            pool.info_mut(block).extent = 0;
            return Some(BumpRun { cursor: block_start(block), limit: end });
        }
        // SAFETY: the block is a taken block of handles, all of which are initialised words.
        let is_free = |handle: u32| unsafe { pool.cage.read(handle + layout.object) } == FREE;
        let mut cursor = block_start(block) + position;
        while cursor < end && !is_free(cursor) {
            cursor += bytes;
        }
        let mut limit = cursor;
        while limit < end && is_free(limit) {
            limit += bytes;
        }
        self.current = Some((block, limit - block_start(block)));
        if cursor == limit {
            return None;
        }
        pool.info_mut(block).extent -= (limit - cursor) / bytes;
        Some(BumpRun { cursor, limit })
    }

    /// The next run of free handles; `None` where the pool has no memory for one.
    pub(crate) fn refill(&mut self, pool: &mut BlockPool, layout: &Layout) -> Option<BumpRun> {
        loop {
            if let Some(found) = self.next_run(pool, layout) {
                return Some(found);
            }
            // Handles released behind the scan have not put the current block on the queue: that is done here.
            if let Some((block, _)) = self.current.take()
                && pool.info(block).extent > 0
                && !self.is_naive()
            {
                self.enqueue(pool, block);
            }
            if let Some(handle) = self.released.pop() {
                pool.info_mut(block_of(handle)).extent -= 1;
                return Some(BumpRun { cursor: handle, limit: handle + layout.bytes(self.of_arrays) });
            }
            if let Some(block) = self.next_block() {
                pool.info_mut(block).queued = false;
                self.current = Some((block, 0));
                continue;
            }
            let block = pool.take(1, BlockKind::Handles, BlockKind::Handles)?;
            pool.zero_blocks(block, 1);
            let info = pool.info_mut(block);
            info.extent = layout.in_block(self.of_arrays);
            info.class = self.of_arrays as u8;
            self.blocks += 1;
            self.current = Some((block, 0));
        }
    }

    /// The next block with free handles.
    fn next_block(&mut self) -> Option<u32> {
        let queued = self.queue.pop_front().or_else(|| self.sorted.iter_mut().find_map(Vec::pop));
        queued.or_else(|| self.kept.pop())
    }

    fn is_by_marks(&self) -> bool {
        self.policies.release == HandleRelease::Lazy
    }

    fn is_naive(&self) -> bool {
        self.policies.release == HandleRelease::Naive
    }

    /// Notes that a handle of a block has become free.
    #[inline(always)]
    pub(crate) fn freed(&mut self, pool: &mut BlockPool, block: u32, handle: u32) {
        pool.info_mut(block).extent += 1;
        if self.is_naive() {
            self.released.push(handle);
        } else if !pool.info(block).queued && !self.is_current(block) {
            self.enqueue(pool, block);
        }
    }

    /// Frees the handles of a block whose objects are dead; returns how many. No memory of an object is touched.
    #[inline(always)]
    pub(crate) fn release_dead(&mut self, pool: &mut BlockPool, layout: &Layout, block: u32) -> u64 {
        let (bytes, free) = (layout.bytes(self.of_arrays), pool.info(block).extent);
        // Handles of a block that has been taken since marking ended are those of newer objects.
        if free == layout.in_block(self.of_arrays) || pool.is_fresh(block) {
            return 0;
        }
        let mut freed = 0;
        for handle in (block_start(block)..block_start(block) + BLOCK_BYTES).step_by(bytes as usize) {
            let named = handle + layout.object;
            // SAFETY: the block is a taken block of handles, all of which are initialised words.
            let object = unsafe { pool.cage.read(named) };
            if pool.marks.get(object) || object == FREE || pool.is_fresh(block_of(object)) {
                continue;
            }
            // SAFETY: the handle lies in that block, and no live object has it.
            unsafe { pool.cage.write(named, FREE) };
            freed += 1;
        }
        pool.info_mut(block).extent += freed;
        if freed > 0 && !pool.info(block).queued && !self.is_current(block) {
            self.enqueue(pool, block);
        }
        freed.into()
    }

    /// Gives back the queued blocks whose handles are all free, or keeps them, as the first part of `left` are looked
    /// at.
    pub(crate) fn sweep(
        &mut self,
        pool: &mut BlockPool,
        layout: &Layout,
        left: &mut usize,
        budget: &mut Budget,
    ) -> Done {
        // Each block goes from the front to the back, unless it is empty: the order stays.
        while *left > 0
            && let Some(block) = self.queue.front().copied()
        {
            if budget.is_exhausted() {
                return Done::No;
            }
            *left -= 1;
            budget.spend(1);
            self.queue.pop_front();
            let (free, all) = (pool.info(block).extent, layout.in_block(self.of_arrays));
            if free < all {
                let step = free * STEPS / all;
                match self.policies.order {
                    HandleOrder::Released => self.queue.push_back(block),
                    HandleOrder::Fullest => self.sorted[step as usize].push(block),
                    HandleOrder::Emptiest => self.sorted[(STEPS - 1 - step) as usize].push(block),
                }
            } else if self.policies.cache.keeps(self.kept.len()) {
                self.kept.push(block);
            } else {
                pool.give_back(block, 1);
                self.blocks -= 1;
                self.given_back += 1;
            }
        }
        for blocks in self.sorted.iter_mut().rev() {
            blocks.drain(..).for_each(|block| self.queue.push_front(block));
        }
        Done::Yes
    }

    fn enqueue(&mut self, pool: &mut BlockPool, block: u32) {
        pool.info_mut(block).queued = true;
        self.queue.push_back(block);
    }

    fn is_current(&self, block: u32) -> bool {
        self.current.is_some_and(|(current, _)| current == block)
    }
}

impl HandleSpace {
    /// Checks a block: each handle is free, or names an object that has it, and agrees with its header. A block that a
    /// sweep has not classified has been counted for the last one.
    pub(crate) fn check(
        &self,
        plan: &ReferencePlan,
        pool: &BlockPool,
        (block, is_classified): (u32, bool),
        runs: &[BumpRun],
        is_object: &dyn Fn(u32) -> bool,
    ) -> Result<(), String> {
        let (layout, info) = (Layout::of(plan), pool.info(block));
        // SAFETY: words of handles, and of the headers of what is known for objects, are asked for.
        let word = |offset: u32| unsafe { pool.cage.read(offset) };
        let runs: Vec<&BumpRun> = runs.iter().filter(|run| block_of(run.cursor) == block).collect();
        let mut free = 0;
        let step = layout.bytes(self.of_arrays) as usize;
        for handle in (block_start(block)..block_start(block) + BLOCK_BYTES).step_by(step) {
            let in_run = runs.iter().any(|run| (run.cursor..run.limit).contains(&handle));
            let object = word(handle + layout.object);
            let is_marked = pool.marks.get(handle);
            if is_marked && (object == FREE || !self.is_by_marks()) {
                return Err(format!("handle {handle:#x} is marked, yet names {object:#x}"));
            }
            if object == FREE || self.is_dead(pool, handle, is_classified) {
                free += !in_run as u32;
                continue;
            }
            if in_run {
                return Err(format!("handle {handle:#x} is in the run of free handles, yet names {object:#x}"));
            }
            if !is_object(object) {
                return Err(format!("handle {handle:#x} names {object:#x}, which is no object"));
            }
            let back = word(object + COLLECTOR_WORD_OFFSET);
            if back != handle {
                return Err(format!("handle {handle:#x} names {object:#x}, whose handle is {back:#x}"));
            }
            for (copy, place) in [(plan.type_id, TYPE_ID_OFFSET), (plan.array_length, ARRAY_LENGTH_OFFSET)] {
                let HeaderWord::AtReference { offset } = copy else { continue };
                if (place == TYPE_ID_OFFSET || self.of_arrays) && word(handle + offset) != word(object + place) {
                    return Err(format!("handle {handle:#x} and {object:#x} disagree at byte {place}"));
                }
            }
        }
        if !is_classified {
            return Ok(());
        }
        if free != info.extent {
            return Err(format!("handle block {block} has {free} free handles, but counts {}", info.extent));
        }
        let listed = self.queue.iter().chain(self.sorted.iter().flatten()).chain(&self.kept);
        let listed = listed.filter(|&&queued| queued == block).count();
        let expected = (free > 0 && !self.is_current(block) && !self.is_naive()) as usize;
        if listed != expected || info.queued as usize != expected {
            return Err(format!("handle block {block} with {free} free handles is queued {listed} times"));
        }
        Ok(())
    }
}
