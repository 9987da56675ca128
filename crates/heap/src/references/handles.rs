//! The handles of objects: a reference is the offset of a handle, which holds the object's offset; the object's collector
//! word holds the handle's (Handles Revisited, section 3). A reference never changes, whatever moves. The models differ
//! in what else a handle holds, and so in its size: their plans say it.
//!
//! Handles live in blocks of their own, taken from the pool as the program needs them. Where the object's offset stands,
//! a free handle has 0, so that a stale reference leads to the inaccessible start of the cage. Blocks with free handles
//! stand in a queue; allocation scans the first one for runs of consecutive free handles and bumps through each run,
//! inline like cells. A handle is released when its object is swept, and a block whose handles are all free returns to
//! the pool after a collection.
//!
//! Limits: lazy sweeping releases handles late, so the handle space may hold as many handles as the heap has cells.

use super::ReferenceModel;
use crate::blocks::{BLOCK_BYTES, BlockKind, BlockPool, block_of, block_start};
use crate::budget::{Budget, Done};
use crate::cage::Cage;
use crate::context::Context;
use crate::layout::{ARRAY_LENGTH_OFFSET, COLLECTOR_WORD_OFFSET, TYPE_ID_OFFSET};
use crate::plan::{BumpRun, HandlePlan, HeaderWord, ObjectAt, ReferencePlan};
use crate::reference::Reference;
use std::collections::VecDeque;
use std::marker::PhantomData;

const FREE: u32 = 0;

/// What a model with handles puts there.
pub(crate) trait HandleLayout: Default + Send {
    /// Has handles, and finds an object through one.
    const PLAN: ReferencePlan;
}

/// Where handles lie and what they hold, by a plan.
#[derive(Clone, Copy)]
struct Layout {
    plan: HandlePlan,
    /// Where a handle holds the object's offset.
    object: u32,
}

impl Layout {
    const fn of(plan: &ReferencePlan) -> Layout {
        match (plan.handles, plan.object) {
            (Some(plan), ObjectAt::Through { offset }) => Layout { plan, object: offset },
            _ => panic!("a model with handles finds objects through them"),
        }
    }

    /// Bytes of a handle in a space.
    #[inline(always)]
    const fn bytes(&self, of_arrays: bool) -> u32 {
        self.plan.run(of_arrays).bytes
    }

    /// Handles in a block of a space.
    const fn in_block(&self, of_arrays: bool) -> u32 {
        BLOCK_BYTES / self.bytes(of_arrays)
    }

    /// Whether an object has its handle in the space of arrays.
    #[inline(always)]
    const fn of_arrays(&self, is_array: bool) -> bool {
        is_array && self.plan.has_array_handles()
    }
}

/// The blocks of handles of one size.
#[derive(Debug, Default)]
struct HandleSpace {
    /// Whether the handles are those of arrays alone.
    of_arrays: bool,
    /// Blocks with free handles, but for the current one; each is flagged `queued`.
    queue: VecDeque<u32>,
    /// The block that runs are taken from, and the byte to go on at.
    current: Option<(u32, u32)>,
    blocks: u32,
}

impl HandleSpace {
    /// The next run of free handles in the current block.
    fn next_run(&mut self, pool: &mut BlockPool, layout: &Layout) -> Option<BumpRun> {
        let (block, position) = self.current?;
        let bytes = layout.bytes(self.of_arrays);
        let end = block_start(block) + BLOCK_BYTES;
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

    /// Gives the mutator a run of free handles; false where the pool has no memory for one.
    fn refill(&mut self, pool: &mut BlockPool, layout: &Layout, run: &mut BumpRun) -> bool {
        loop {
            if let Some(found) = self.next_run(pool, layout) {
                *run = found;
                return true;
            }
            // Handles released behind the scan have not put the current block on the queue: that is done here.
            if let Some((block, _)) = self.current.take()
                && pool.info(block).extent > 0
            {
                self.enqueue(pool, block);
            }
            if let Some(block) = self.queue.pop_front() {
                pool.info_mut(block).queued = false;
                self.current = Some((block, 0));
                continue;
            }
            let Some(block) = pool.take(1, BlockKind::Handles, BlockKind::Handles) else { return false };
            pool.zero_blocks(block, 1);
            let info = pool.info_mut(block);
            info.extent = layout.in_block(self.of_arrays);
            info.class = self.of_arrays as u8;
            self.blocks += 1;
            self.current = Some((block, 0));
        }
    }

    /// Notes that a handle of a block has become free.
    #[inline(always)]
    fn freed(&mut self, pool: &mut BlockPool, block: u32) {
        pool.info_mut(block).extent += 1;
        if !pool.info(block).queued && !self.is_current(block) {
            self.enqueue(pool, block);
        }
    }

    /// Gives back the queued blocks whose handles are all free, as the first part of `left` are looked at.
    fn sweep(&mut self, pool: &mut BlockPool, layout: &Layout, left: &mut usize, budget: &mut Budget) -> Done {
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
            if pool.info(block).extent < layout.in_block(self.of_arrays) {
                self.queue.push_back(block);
            } else {
                pool.give_back(block, 1);
                self.blocks -= 1;
            }
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

/// The handles of a heap.
#[derive(Debug)]
pub(crate) struct Handles<L> {
    /// Of structs, and of arrays where these have their own.
    spaces: [HandleSpace; 2],
    released: u64,
    layout: PhantomData<L>,
}

impl<L> Default for Handles<L> {
    fn default() -> Handles<L> {
        let spaces = [false, true].map(|of_arrays| HandleSpace { of_arrays, ..HandleSpace::default() });
        Handles { spaces, released: 0, layout: PhantomData }
    }
}

impl<L: HandleLayout> Handles<L> {
    const LAYOUT: Layout = Layout::of(&L::PLAN);
}

impl<L: HandleLayout> ReferenceModel for Handles<L> {
    const PLAN: ReferencePlan = L::PLAN;

    #[inline(always)]
    unsafe fn retarget(cage: &Cage, _from: u32, to: u32) -> Reference {
        // SAFETY: the collector word has been copied: the handle's offset, by the contract.
        unsafe {
            let handle = Self::reference(cage, to);
            cage.write(handle.0 + Self::LAYOUT.object, to);
            handle
        }
    }

    #[inline(always)]
    fn prepare(&mut self, pool: &mut BlockPool, context: &mut Context, is_array: bool) -> bool {
        let of_arrays = Self::LAYOUT.of_arrays(is_array);
        let run = context.handle_run(of_arrays);
        run.cursor < run.limit || self.spaces[of_arrays as usize].refill(pool, &Self::LAYOUT, run)
    }

    #[inline(always)]
    unsafe fn bind(&mut self, cage: &Cage, context: &mut Context, object: u32, is_array: bool) {
        let of_arrays = Self::LAYOUT.of_arrays(is_array);
        let run = context.handle_run(of_arrays);
        let handle = run.cursor;
        debug_assert!(handle < run.limit);
        run.cursor += Self::LAYOUT.bytes(of_arrays);
        // SAFETY: the run holds free handles, and the cell is the caller's.
        unsafe {
            cage.write(handle + Self::LAYOUT.object, object);
            cage.write(object + COLLECTOR_WORD_OFFSET, handle);
            if let HeaderWord::AtReference { offset } = L::PLAN.type_id {
                cage.write(handle + offset, cage.read(object + TYPE_ID_OFFSET));
            }
        }
    }

    #[inline]
    unsafe fn release(&mut self, pool: &mut BlockPool, object: u32) {
        // SAFETY: an object with a header has been bound: its collector word is its handle.
        let handle = unsafe { pool.cage.read(object + COLLECTOR_WORD_OFFSET) };
        let block = block_of(handle);
        assert!(pool.info(block).kind == BlockKind::Handles, "object {object:#x} has no handle, but {handle:#x}");
        let named = handle + Self::LAYOUT.object;
        // SAFETY: the handle lies in a block of handles.
        unsafe {
            debug_assert_eq!(pool.cage.read(named), object, "the handle {handle:#x} names another object");
            pool.cage.write(named, FREE);
        }
        self.released += 1;
        let space = pool.info(block).class as usize;
        self.spaces[space].freed(pool, block);
    }

    fn sweep(&mut self, pool: &mut BlockPool, left: &mut Option<[usize; 2]>, budget: &mut Budget) -> Done {
        let left = left.get_or_insert([0, 1].map(|space| self.spaces[space].queue.len()));
        for (space, left) in self.spaces.iter_mut().zip(left) {
            if space.sweep(pool, &Self::LAYOUT, left, budget) == Done::No {
                return Done::No;
            }
        }
        Done::Yes
    }

    fn take_released(&mut self) -> u64 {
        std::mem::take(&mut self.released)
    }

    fn occupied_bytes(&self) -> u64 {
        self.spaces.iter().map(|space| u64::from(space.blocks) * u64::from(BLOCK_BYTES)).sum()
    }

    fn check_reference(pool: &BlockPool, reference: Reference) -> Result<u32, String> {
        let block = block_of(reference.0);
        let is_handle = block < pool.frontier() && {
            let info = pool.info(block);
            info.kind == BlockKind::Handles && reference.0.is_multiple_of(Self::LAYOUT.bytes(info.class == 1))
        };
        if !is_handle {
            return Err("it is not the offset of a handle".to_string());
        }
        // SAFETY: the word lies in a block of handles.
        match unsafe { pool.cage.read(reference.0 + Self::LAYOUT.object) } {
            FREE => Err("its handle is free".to_string()),
            object => Ok(object),
        }
    }

    fn check(&self, pool: &BlockPool, context: &Context, is_object: &dyn Fn(u32) -> bool) -> Result<(), String> {
        let mut blocks = [0; 2];
        for block in 0..pool.frontier() {
            if pool.info(block).kind == BlockKind::Handles {
                let of_arrays = pool.info(block).class == 1;
                blocks[of_arrays as usize] += 1;
                self.spaces[of_arrays as usize].check::<L>(
                    pool,
                    block,
                    context.handle_run_now(of_arrays),
                    is_object,
                )?;
            }
        }
        let counted = [0, 1].map(|space| self.spaces[space].blocks);
        if blocks != counted {
            return Err(format!("there are {blocks:?} handle blocks, but {counted:?} are counted"));
        }
        Ok(())
    }
}

impl HandleSpace {
    /// Checks a block: each handle is free, or names an object that has it, and agrees with its header.
    fn check<L: HandleLayout>(
        &self,
        pool: &BlockPool,
        block: u32,
        run: BumpRun,
        is_object: &dyn Fn(u32) -> bool,
    ) -> Result<(), String> {
        let (layout, info) = (Handles::<L>::LAYOUT, pool.info(block));
        // SAFETY: words of handles, and of the headers of what is known for objects, are asked for.
        let word = |offset: u32| unsafe { pool.cage.read(offset) };
        let mut free = 0;
        let step = layout.bytes(self.of_arrays) as usize;
        for handle in (block_start(block)..block_start(block) + BLOCK_BYTES).step_by(step) {
            let in_run = (run.cursor..run.limit).contains(&handle);
            let object = word(handle + layout.object);
            if object == FREE {
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
            for (copy, place) in [(L::PLAN.type_id, TYPE_ID_OFFSET), (L::PLAN.array_length, ARRAY_LENGTH_OFFSET)] {
                let HeaderWord::AtReference { offset } = copy else { continue };
                if (place == TYPE_ID_OFFSET || self.of_arrays) && word(handle + offset) != word(object + place) {
                    return Err(format!("handle {handle:#x} and {object:#x} disagree at byte {place}"));
                }
            }
        }
        if free != info.extent {
            return Err(format!("handle block {block} has {free} free handles, but counts {}", info.extent));
        }
        let listed = self.queue.iter().filter(|&&queued| queued == block).count();
        let expected = (free > 0 && !self.is_current(block)) as usize;
        if listed != expected || info.queued as usize != expected {
            return Err(format!("handle block {block} with {free} free handles is queued {listed} times"));
        }
        Ok(())
    }
}
