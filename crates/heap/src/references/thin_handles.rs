//! Thin handles (Handles Revisited, section 3): a reference is the offset of a handle, one word that holds the object's
//! offset; the object's collector word holds the handle's offset. A reference never changes, whatever moves.
//!
//! Handles live in blocks of their own, taken from the pool as the program needs them. A free handle is 0, so that a
//! stale reference leads to the inaccessible start of the cage. Blocks with free handles stand in a queue; allocation
//! scans the first one for runs of consecutive free handles and bumps through each run, inline like cells. A handle is
//! released when its object is swept, and a block whose handles are all free returns to the pool after a collection.
//!
//! Limits: lazy sweeping releases handles late, so the handle space may hold as many handles as the heap has cells.

use super::ReferenceModel;
use crate::blocks::{BLOCK_BYTES, BlockKind, BlockPool, block_of, block_start};
use crate::budget::{Budget, Done};
use crate::cage::Cage;
use crate::context::Context;
use crate::layout::{ARRAY_LENGTH_OFFSET, COLLECTOR_WORD_OFFSET, TYPE_ID_OFFSET};
use crate::plan::{
    BumpRun, CollectorWord, HandlePlan, HeaderWord, MutatorContext, ObjectAt, ReferencePlan, SameObject,
};
use crate::reference::Reference;
use std::collections::VecDeque;

const HANDLE_BYTES: u32 = 4;
const HANDLES_PER_BLOCK: u32 = BLOCK_BYTES / HANDLE_BYTES;
const FREE: u32 = 0;

/// The handle space.
#[derive(Debug, Default)]
pub(crate) struct ThinHandles {
    /// Blocks with free handles, but for the current one; each is flagged `queued`.
    queue: VecDeque<u32>,
    /// The block that runs are taken from, and the byte to go on at.
    current: Option<(u32, u32)>,
    blocks: u32,
    released: u64,
}

impl ThinHandles {
    /// The next run of free handles in the current block.
    fn next_run(&mut self, pool: &mut BlockPool) -> Option<BumpRun> {
        let (block, position) = self.current?;
        let end = block_start(block) + BLOCK_BYTES;
        // SAFETY: the block is a taken block of handles, all of which are initialised words.
        let is_free = |handle: u32| unsafe { pool.cage.read(handle) } == FREE;
        let mut cursor = block_start(block) + position;
        while cursor < end && !is_free(cursor) {
            cursor += HANDLE_BYTES;
        }
        let mut limit = cursor;
        while limit < end && is_free(limit) {
            limit += HANDLE_BYTES;
        }
        self.current = Some((block, limit - block_start(block)));
        if cursor == limit {
            return None;
        }
        pool.info_mut(block).extent -= (limit - cursor) / HANDLE_BYTES;
        Some(BumpRun { cursor, limit })
    }

    fn enqueue(&mut self, pool: &mut BlockPool, block: u32) {
        pool.info_mut(block).queued = true;
        self.queue.push_back(block);
    }

    fn is_current(&self, block: u32) -> bool {
        self.current.is_some_and(|(current, _)| current == block)
    }
}

impl ReferenceModel for ThinHandles {
    const PLAN: ReferencePlan = ReferencePlan {
        object: ObjectAt::Through { offset: 0 },
        type_id: HeaderWord::InObject { offset: TYPE_ID_OFFSET },
        array_length: HeaderWord::InObject { offset: ARRAY_LENGTH_OFFSET },
        same: SameObject::Bits,
        handles: Some(HandlePlan { bytes: HANDLE_BYTES, run_offset: MutatorContext::HANDLE_RUN_OFFSET }),
        collector_word: CollectorWord::Reference,
    };

    #[inline(always)]
    unsafe fn retarget(cage: &Cage, _from: u32, to: u32) -> Reference {
        // SAFETY: the collector word has been copied: the handle's offset, by the contract.
        unsafe {
            let handle = Self::reference(cage, to);
            cage.write(handle.0, to);
            handle
        }
    }

    fn prepare(&mut self, pool: &mut BlockPool, context: &mut Context) -> bool {
        let run = *context.handle_run();
        if run.cursor < run.limit {
            return true;
        }
        loop {
            if let Some(run) = self.next_run(pool) {
                *context.handle_run() = run;
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
            pool.info_mut(block).extent = HANDLES_PER_BLOCK;
            self.blocks += 1;
            self.current = Some((block, 0));
        }
    }

    #[inline(always)]
    unsafe fn bind(&mut self, cage: &Cage, context: &mut Context, object: u32) {
        let run = context.handle_run();
        let handle = run.cursor;
        debug_assert!(handle < run.limit);
        run.cursor += HANDLE_BYTES;
        // SAFETY: the run holds free handles, and the cell is the caller's.
        unsafe {
            cage.write(handle, object);
            cage.write(object + COLLECTOR_WORD_OFFSET, handle);
        }
    }

    #[inline]
    unsafe fn release(&mut self, pool: &mut BlockPool, object: u32) {
        // SAFETY: an object with a header has been bound: its collector word is its handle.
        let handle = unsafe { pool.cage.read(object + COLLECTOR_WORD_OFFSET) };
        let block = block_of(handle);
        assert!(pool.info(block).kind == BlockKind::Handles, "object {object:#x} has no handle, but {handle:#x}");
        // SAFETY: the handle lies in a block of handles.
        unsafe {
            debug_assert_eq!(pool.cage.read(handle), object, "the handle {handle:#x} names another object");
            pool.cage.write(handle, FREE);
        }
        pool.info_mut(block).extent += 1;
        self.released += 1;
        if !pool.info(block).queued && !self.is_current(block) {
            self.enqueue(pool, block);
        }
    }

    fn sweep(&mut self, pool: &mut BlockPool, left: &mut Option<usize>, budget: &mut Budget) -> Done {
        let left = left.get_or_insert(self.queue.len());
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
            if pool.info(block).extent < HANDLES_PER_BLOCK {
                self.queue.push_back(block);
            } else {
                pool.give_back(block, 1);
                self.blocks -= 1;
            }
        }
        Done::Yes
    }

    fn take_released(&mut self) -> u64 {
        std::mem::take(&mut self.released)
    }

    fn occupied_bytes(&self) -> u64 {
        self.blocks as u64 * BLOCK_BYTES as u64
    }

    fn check_reference(pool: &BlockPool, reference: Reference) -> Result<u32, String> {
        let block = block_of(reference.0);
        let is_handle = reference.0.is_multiple_of(HANDLE_BYTES)
            && block < pool.frontier()
            && pool.info(block).kind == BlockKind::Handles;
        if !is_handle {
            return Err("it is not the offset of a handle".to_string());
        }
        // SAFETY: the word lies in a block of handles.
        match unsafe { pool.cage.read(reference.0) } {
            FREE => Err("its handle is free".to_string()),
            object => Ok(object),
        }
    }

    fn check(&self, pool: &BlockPool, context: &Context, is_object: &dyn Fn(u32) -> bool) -> Result<(), String> {
        let run = context.handle_run_now();
        let mut blocks = 0;
        for block in 0..pool.frontier() {
            let info = pool.info(block);
            if info.kind != BlockKind::Handles {
                continue;
            }
            blocks += 1;
            let mut free = 0;
            for handle in (block_start(block)..block_start(block) + BLOCK_BYTES).step_by(HANDLE_BYTES as usize) {
                let in_run = (run.cursor..run.limit).contains(&handle);
                // SAFETY: the word lies in a block of handles.
                let object = unsafe { pool.cage.read(handle) };
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
                // SAFETY: `object` is the start of an object.
                let back = unsafe { pool.cage.read(object + COLLECTOR_WORD_OFFSET) };
                if back != handle {
                    return Err(format!("handle {handle:#x} names {object:#x}, whose handle is {back:#x}"));
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
        }
        if blocks != self.blocks {
            return Err(format!("there are {blocks} handle blocks, but {} are counted", self.blocks));
        }
        Ok(())
    }
}
