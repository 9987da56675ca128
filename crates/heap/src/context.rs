//! The heap's own access to the [`MutatorContext`] that it shares with compiled code and with interrupting threads.

use crate::plan::{AccessCounters, BufferWords, BumpRun, MutatorContext, SizeRun};
use crate::size_classes::{MAX_SIZE_CLASSES, cell_bytes};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Owns the context. It is reached by raw pointers only, since compiled code and other threads hold its address.
#[derive(Debug)]
pub(crate) struct Context(NonNull<MutatorContext>);

// SAFETY: the context is plain memory owned by this value; other threads touch its atomic words alone.
unsafe impl Send for Context {}

impl Context {
    /// A context with empty runs, no poll requested, and a stack limit of 0 (none).
    pub(crate) fn new() -> Context {
        let context = Box::new(MutatorContext {
            stack_limit: AtomicUsize::new(0),
            poll: AtomicU32::new(0),
            store_buffer: BufferWords::default(),
            barrier_state: 0,
            overwritten: BufferWords::default(),
            accesses: AccessCounters::default(),
            handle_run: BumpRun::default(),
            runs: [BumpRun::default(); MAX_SIZE_CLASSES],
            sizes: SizeRun::table(cell_bytes()),
            array_handle_run: BumpRun::default(),
            queues: [0; MutatorContext::QUEUES],
        });
        Context(NonNull::from(Box::leak(context)))
    }

    /// Moves to where an earlier context lies, whose address others know. What they have written there stays: the stack
    /// limit, and requests of polls.
    pub(crate) fn take_place_of(&mut self, earlier: Context) {
        let fresh = std::mem::replace(self, earlier);
        // SAFETY: both live, and the heap has one mutator, which is stopped: other threads touch the two atomic words
        // alone, and only those of the earlier context.
        unsafe {
            let (from, to) = (fresh.0.as_ptr(), self.0.as_ptr());
            (*to).poll.fetch_or((*from).poll.load(Ordering::Relaxed), Ordering::Relaxed);
            let MutatorContext {
                stack_limit: _,
                poll: _,
                barrier_state,
                store_buffer,
                accesses,
                handle_run,
                runs,
                overwritten,
                sizes,
                array_handle_run,
                queues,
            } = from.read();
            (&raw mut (*to).barrier_state).write(barrier_state);
            (&raw mut (*to).store_buffer).write(store_buffer);
            (&raw mut (*to).accesses).write(accesses);
            (&raw mut (*to).handle_run).write(handle_run);
            (&raw mut (*to).runs).write(runs);
            (&raw mut (*to).overwritten).write(overwritten);
            (&raw mut (*to).sizes).write(sizes);
            (&raw mut (*to).array_handle_run).write(array_handle_run);
            (&raw mut (*to).queues).write(queues);
        }
    }

    /// The context's address, constant for the heap's life.
    pub(crate) fn address(&self) -> *mut MutatorContext {
        self.0.as_ptr()
    }

    /// The run of a size class.
    #[inline(always)]
    pub(crate) fn run(&mut self, class: usize) -> &mut BumpRun {
        assert!(class < MAX_SIZE_CLASSES);
        // SAFETY: the heap has one mutator, which is stopped while the heap runs: nobody else touches the runs.
        unsafe { &mut *(&raw mut (*self.0.as_ptr()).runs).cast::<BumpRun>().add(class) }
    }

    /// Where the next run of the queue at a place lies.
    #[inline(always)]
    pub(crate) fn queue(&mut self, place: usize) -> &mut usize {
        assert!(place < MutatorContext::QUEUES);
        // SAFETY: as for `run`.
        unsafe { &mut *(&raw mut (*self.0.as_ptr()).queues).cast::<usize>().add(place) }
    }

    /// A copy of [`queue`](Self::queue).
    pub(crate) fn queue_now(&self, place: usize) -> usize {
        assert!(place < MutatorContext::QUEUES);
        // SAFETY: as for `run`.
        unsafe { (&raw const (*self.0.as_ptr()).queues).cast::<usize>().add(place).read() }
    }

    /// The run of free handles, of arrays where these have their own.
    #[inline(always)]
    pub(crate) fn handle_run(&mut self, of_arrays: bool) -> &mut BumpRun {
        // SAFETY: the heap has one mutator, which is stopped while the heap runs: nobody else touches the runs.
        unsafe {
            match of_arrays {
                true => &mut (*self.0.as_ptr()).array_handle_run,
                false => &mut (*self.0.as_ptr()).handle_run,
            }
        }
    }

    /// The words of the store buffer.
    pub(crate) fn store_buffer(&mut self) -> &mut BufferWords {
        // SAFETY: as for `run`.
        unsafe { &mut (*self.0.as_ptr()).store_buffer }
    }

    /// A copy of the words of the store buffer.
    pub(crate) fn store_buffer_now(&self) -> BufferWords {
        // SAFETY: as for `run`.
        unsafe { (&raw const (*self.0.as_ptr()).store_buffer).read() }
    }

    /// The words of the buffer of overwritten references.
    pub(crate) fn overwritten(&mut self) -> &mut BufferWords {
        // SAFETY: the heap has one mutator, which is stopped while the heap runs: nobody else touches the words.
        unsafe { &mut (*self.0.as_ptr()).overwritten }
    }

    /// Whether stores are to tell of the references that they overwrite.
    #[inline]
    pub(crate) fn is_marking(&self) -> bool {
        // SAFETY: as for `overwritten`; the word changes at safepoints alone.
        unsafe { (&raw const (*self.0.as_ptr()).barrier_state).read() & MutatorContext::MARKING != 0 }
    }

    /// Lets stores tell of the references that they overwrite, or no longer.
    pub(crate) fn set_marking(&mut self, on: bool) {
        self.set_state(MutatorContext::MARKING, on);
    }

    /// Lets stores heal the references that they store, or no longer.
    pub(crate) fn set_stale(&mut self, on: bool) {
        self.set_state(MutatorContext::STALE, on);
    }

    /// Lets stores write both copies of an object, or no longer.
    pub(crate) fn set_replicas(&mut self, on: bool) {
        self.set_state(MutatorContext::REPLICAS, on);
    }

    /// Whether stores are to write both copies of an object.
    #[inline(always)]
    pub(crate) fn has_replicas(&self) -> bool {
        // SAFETY: as for `overwritten`; the word changes at safepoints alone.
        unsafe { (&raw const (*self.0.as_ptr()).barrier_state).read() & MutatorContext::REPLICAS != 0 }
    }

    fn set_state(&mut self, bit: u32, on: bool) {
        // SAFETY: as for `overwritten`.
        let state = unsafe { &mut (*self.0.as_ptr()).barrier_state };
        *state = if on { *state | bit } else { *state & !bit };
    }

    /// A copy of the counters of accesses.
    pub(crate) fn accesses_now(&self) -> AccessCounters {
        // SAFETY: as for `run`.
        unsafe { (&raw const (*self.0.as_ptr()).accesses).read() }
    }

    /// A copy of a class's run.
    pub(crate) fn run_now(&self, class: usize) -> BumpRun {
        assert!(class < MAX_SIZE_CLASSES);
        // SAFETY: as for `run`.
        unsafe { (&raw const (*self.0.as_ptr()).runs).cast::<BumpRun>().add(class).read() }
    }

    /// A copy of the run of free handles, of arrays where these have their own.
    pub(crate) fn handle_run_now(&self, of_arrays: bool) -> BumpRun {
        // SAFETY: as for `run`.
        unsafe {
            match of_arrays {
                true => (&raw const (*self.0.as_ptr()).array_handle_run).read(),
                false => (&raw const (*self.0.as_ptr()).handle_run).read(),
            }
        }
    }

    /// Asks the mutator to poll at its next loop back-edge. Sets bit 0; the highest is
    /// [`stress_polls`](Self::stress_polls)' own, the others are the embedder's.
    pub(crate) fn raise_poll(&self) {
        // SAFETY: the word is atomic and lives as long as this value.
        unsafe { (*self.0.as_ptr()).poll.fetch_or(1, Ordering::Relaxed) };
    }

    /// Whether every loop back-edge polls from now on. Sets or clears the highest bit.
    pub(crate) fn stress_polls(&self, on: bool) {
        const BIT: u32 = 1 << 31;
        // SAFETY: as for `raise_poll`.
        let poll = unsafe { &(*self.0.as_ptr()).poll };
        match on {
            true => poll.fetch_or(BIT, Ordering::Relaxed),
            false => poll.fetch_and(!BIT, Ordering::Relaxed),
        };
    }

    /// Takes [`raise_poll`](Self::raise_poll) back.
    pub(crate) fn lower_poll(&self) {
        // SAFETY: as for `raise_poll`.
        unsafe { (*self.0.as_ptr()).poll.fetch_and(!1, Ordering::Relaxed) };
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by `Box::leak`, and the heap that lends its address is being dropped.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
