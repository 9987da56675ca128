//! What the models with handles have in common: objects are named by handles, which never move, so that no reference
//! ever changes (Handles Revisited, section 3). The spaces that they lie in are [`HandleSpace`]s.

use super::handle_policies::{HandleParams, HandleRelease};
use super::model::ReferenceModel;
use crate::blocks::{BLOCK_BYTES, BlockKind, BlockPool, block_of};
use crate::budget::{Budget, Done};
use crate::cage::Cage;
use crate::context::Context;
use crate::layout::{ARRAY_LENGTH_OFFSET, COLLECTOR_WORD_OFFSET, TYPE_ID_OFFSET};
use crate::plan::{BumpRun, CollectorWord, HeaderWord, MutatorContext, ObjectAt, ReferencePlan, SameObject};
use crate::reference::Reference;
use crate::spaces::handles::{FREE, HandleSpace, Layout};
use crate::spaces::run_queues::{OF_CLASSES, RunQueues};
use std::marker::PhantomData;

/// The place of the queue of structs' runs; that of arrays' is the next.
const QUEUE_OF_STRUCTS: usize = OF_CLASSES.end;
/// How much is taken from a block of handles at a time, unless a run is longer, in bytes.
const MOST_HANDLE_BYTES: u32 = 4 << 10;
/// Handles looked at that count as much as one object.
const HANDLES_PER_UNIT: u32 = 32;

/// What the plans of models with handles have in common, but for the handles: no reference ever changes, and a new
/// object holds its own.
pub(crate) const PLAN_OF_HANDLES: ReferencePlan = ReferencePlan {
    object: ObjectAt::Through { offset: 0 },
    type_id: HeaderWord::InObject { offset: TYPE_ID_OFFSET },
    array_length: HeaderWord::InObject { offset: ARRAY_LENGTH_OFFSET },
    same: SameObject::Bits,
    handles: None,
    collector_word: CollectorWord::Reference,
};

/// What a model with handles puts there.
pub(crate) trait HandleLayout: Default + Send {
    /// Has handles, and finds an object through one.
    const PLAN: ReferencePlan;
}

/// The handles of a heap.
#[derive(Debug)]
pub(crate) struct Handles<L> {
    /// Of structs, and of arrays where these have their own.
    spaces: [HandleSpace; 2],
    /// The runs that follow those in the context.
    queues: RunQueues,
    released: u64,
    /// When handles become free.
    release: HandleRelease,
    /// Where mark bits say which are: the first block that a sweep has not come to, unless it is fresh.
    unclassified: u32,
    layout: PhantomData<L>,
}

impl<L: HandleLayout> Default for Handles<L> {
    fn default() -> Handles<L> {
        Handles::new(HandleParams::DEFAULT, false)
    }
}

impl<L: HandleLayout> Handles<L> {
    const LAYOUT: Layout = Layout::of(&L::PLAN);

    fn new(mut policies: HandleParams, clears_dead: bool) -> Handles<L> {
        if policies.release == HandleRelease::Lazy && !Self::LAYOUT.has_mark_bits() {
            policies.release = HandleRelease::Independent;
        }
        let spaces = [false, true].map(|of_arrays| HandleSpace::new(of_arrays, policies, clears_dead));
        let queues = RunQueues::default();
        Handles { spaces, queues, released: 0, release: policies.release, unclassified: u32::MAX, layout: PhantomData }
    }

    /// Has the next run take the place of the used one; false where the pool has no memory for one.
    fn take_run(&mut self, pool: &mut BlockPool, context: &mut Context, of_arrays: bool) -> bool {
        let (queue, space) = (QUEUE_OF_STRUCTS + of_arrays as usize, &mut self.spaces[of_arrays as usize]);
        let run = self.queues.take(context, queue).or_else(|| {
            let run = space.refill(pool, &Self::LAYOUT)?;
            let mut left = MOST_HANDLE_BYTES.saturating_sub(run.limit - run.cursor);
            self.queues.fill(context, queue, || {
                let run = if left == 0 { None } else { space.next_run(pool, &Self::LAYOUT) }?;
                left = left.saturating_sub(run.limit - run.cursor);
                Some(run)
            });
            space.hand_out(pool, &Self::LAYOUT, || std::iter::once(run).chain(self.queues.waiting(context, queue)));
            Some(run)
        });
        *context.handle_run(of_arrays) = run.unwrap_or_default();
        run.is_some()
    }

    /// What the mutator has been given and not used.
    fn runs<'a>(&self, context: &'a Context, of_arrays: bool) -> impl Iterator<Item = BumpRun> + use<'a, L> {
        let waiting = self.queues.waiting(context, QUEUE_OF_STRUCTS + of_arrays as usize);
        std::iter::once(context.handle_run_now(of_arrays)).chain(waiting)
    }

    /// The spaces that are in use: whether each is that of arrays.
    fn spaces_in_use() -> impl Iterator<Item = bool> {
        [false, true].into_iter().filter(|&of_arrays| !of_arrays || Self::LAYOUT.of_arrays(true))
    }
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
        run.cursor < run.limit || self.take_run(pool, context, of_arrays)
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

    #[inline(always)]
    fn releases(&self) -> bool {
        matches!(self.release, HandleRelease::WithCells | HandleRelease::Naive)
    }

    #[inline(always)]
    fn marks_handles(&self) -> bool {
        self.release == HandleRelease::Lazy
    }

    fn mark_born(&self, pool: &mut BlockPool, context: &Context) {
        for of_arrays in Self::spaces_in_use().filter(|_| self.marks_handles()) {
            pool.mark_born_cells(self.runs(context, of_arrays), Self::LAYOUT.bytes(of_arrays));
        }
    }

    fn retire(&mut self, pool: &mut BlockPool, context: &mut Context) {
        for of_arrays in Self::spaces_in_use().filter(|_| self.release == HandleRelease::Lazy) {
            for run in self.runs(context, of_arrays) {
                self.spaces[of_arrays as usize].take_back(pool, &Self::LAYOUT, run);
            }
            *context.handle_run(of_arrays) = BumpRun::default();
            self.queues.clear(context, QUEUE_OF_STRUCTS + of_arrays as usize);
            self.spaces[of_arrays as usize].forget_free();
            self.unclassified = 0;
        }
    }

    #[inline]
    unsafe fn release(&mut self, pool: &mut BlockPool, object: u32) {
        if !self.releases() {
            return;
        }
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
        self.spaces[space].freed(pool, block, handle);
    }

    fn start(&mut self, policies: HandleParams, clears_dead: bool, context: &mut Context) {
        let queues = RunQueues::new(context, QUEUE_OF_STRUCTS..MutatorContext::QUEUES);
        *self = Handles { queues, ..Handles::new(policies, clears_dead) };
    }

    fn release_dead(&mut self, pool: &mut BlockPool, block: &mut u32, budget: &mut Budget) -> Done {
        while !self.releases() && *block < pool.frontier() {
            if budget.is_exhausted() {
                return Done::No;
            }
            if pool.info(*block).kind == BlockKind::Handles {
                let of_arrays = pool.info(*block).class == 1;
                let space = &mut self.spaces[of_arrays as usize];
                if self.release == HandleRelease::Lazy {
                    self.released += space.classify(pool, &Self::LAYOUT, *block);
                } else {
                    self.released += space.release_dead(pool, &Self::LAYOUT, *block);
                    budget.spend(u64::from(BLOCK_BYTES / Self::LAYOUT.bytes(of_arrays) / HANDLES_PER_UNIT));
                }
            }
            budget.spend(1);
            *block += 1;
            self.unclassified = *block;
        }
        self.unclassified = u32::MAX;
        Done::Yes
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

    fn take_given_back_bytes(&mut self) -> u64 {
        let blocks = self.spaces.iter_mut().map(|space| std::mem::take(&mut space.given_back));
        blocks.map(|blocks| u64::from(blocks) * u64::from(BLOCK_BYTES)).sum()
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
        let free = [false, true].map(|of_arrays| self.runs(context, of_arrays).collect::<Vec<_>>());
        for block in 0..pool.frontier() {
            if pool.info(block).kind == BlockKind::Handles {
                let of_arrays = pool.info(block).class == 1;
                blocks[of_arrays as usize] += 1;
                let is_classified = block < self.unclassified || pool.is_fresh(block);
                let runs = &free[of_arrays as usize];
                self.spaces[of_arrays as usize].check(&L::PLAN, pool, (block, is_classified), runs, is_object)?;
            }
        }
        let counted = [0, 1].map(|space| self.spaces[space].blocks);
        if blocks != counted {
            return Err(format!("there are {blocks:?} handle blocks, but {counted:?} are counted"));
        }
        Ok(())
    }
}
