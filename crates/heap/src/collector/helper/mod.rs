//! `helpers`: a thread that marks for a heap that is collected in [cycles](super::cycle), beside the mutator, where a
//! hardware context is idle.
//!
//! What is grey, and what has been overwritten and not marked yet, belongs to the mutator or to the helper: whoever has
//! the [baton]. The mutator gives it where a slice has left something to be marked, and takes it back for whatever
//! reads or changes what the helper works with: the next slice, a nursery collection, the end of marking, another
//! collection instead. It waits at most for the few objects that the helper scans from one look to the next. While the
//! helper marks, no slices are due, unless memory runs short: then the mutator stops for slices as ever, and marks in
//! them itself, while the helper marks in the gaps; so the program allocates less, and marking never rests. When the
//! helper has found nothing left, the next slice goes on from there.
//!
//! # What both threads touch
//!
//! * The heap's words: compiled code and the heap write references one word at a time; where many are written at once
//!   beside a helper, they are written so ([`Memory::copy_words`](crate::cage::Memory::copy_words)).
//! * The plane of mark bits: atomic words that never move. The mutator sets bits of what is born.
//! * The ages of blocks: atomic bytes. They change as nursery blocks are opened, and in nursery collections, during
//!   which the mutator has the baton: the helper drops a young reference as soon as it reads it, so that it has none
//!   when one begins.
//!
//! The mutator writes a new object's mark bit, its block's age, and its handle before it stores a reference to it, and
//! the helper reads the reference first. So it finds them on processors that show stores in their order, which is why
//! elsewhere than on x86-64 there is no helper.

mod baton;
#[cfg(test)]
mod model;

use super::marking::{Beside, MarkStack, Marker};
use crate::ages::Ages;
use crate::arrays::SpineMode;
use crate::budget::{Budget, Done};
use crate::core::Core;
use crate::os::thread_time;
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::threads::idle::IdleContexts;
use crate::threads::sync;
use crate::type_table::TypeTable;
use baton::Owner;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

crate::values::values! {
    /// Whether a thread marks beside the mutator. (On x86-64 alone; elsewhere none does.)
    #[derive(Eq, Hash)]
    pub enum Helpers {
        /// While a hardware context is idle, in heaps of some size.
        Auto = "auto",
        /// None does.
        None = "0",
        /// One does, whatever else the machine is doing.
        One = "1",
    }
}

/// Whether there can be a helper.
const IS_AVAILABLE: bool = cfg!(target_arch = "x86_64");
/// `auto`: smaller heaps are not worth a thread, in bytes.
const LEAST_BYTES: u64 = 4 << 20;
/// What the helper does from one look to the next, in units and in overwritten references.
const BATCH: u64 = 32;
/// How often the helper tells how long it has worked.
const TELLS_EVERY: Duration = Duration::from_millis(1);

/// What the one who has the baton marks.
#[derive(Debug)]
struct Job {
    stack: MarkStack,
    overwritten: Vec<Reference>,
    place: Option<Place>,
}

/// What is marked with it.
#[derive(Debug)]
struct Place {
    heap: Beside,
    types: Arc<TypeTable>,
    spines: Option<SpineMode>,
    ages: Option<Ages>,
}

// SAFETY: the addresses are those of a heap's memory, which outlives the helper thread; what that does there is said
// above, and what the mutator does.
unsafe impl Send for Job {}

impl Job {
    /// Marks a batch.
    fn mark_some<M: ReferenceModel>(&mut self) -> Done {
        let Some(Place { heap, types, spines, ages }) = &self.place else { return Done::Yes };
        let (ages, stack) = (ages.as_ref(), &mut self.stack);
        let mut marker = Marker { heap: *heap, types, stack, spines: *spines, ages, model: PhantomData::<M> };
        if self.overwritten.is_empty() {
            return marker.step(&mut Budget::units(BATCH));
        }
        let left = self.overwritten.len().saturating_sub(BATCH as usize);
        self.overwritten.drain(left..).for_each(|reference| marker.mark(reference));
        Done::No
    }
}

/// How long the helper has worked, in nanoseconds.
#[derive(Debug, Default)]
struct Worked {
    wall: AtomicU64,
    cpu: AtomicU64,
}

impl Worked {
    /// Marks until nothing is left, or the owner wants the baton.
    fn on<M: ReferenceModel>(&self, job: &mut Job, is_wanted: &dyn Fn() -> bool) {
        let mut told = (Instant::now(), thread_time());
        loop {
            let done = job.mark_some::<M>();
            let (is_over, now) = (done == Done::Yes || is_wanted(), Instant::now());
            if is_over || now - told.0 >= TELLS_EVERY {
                let cpu = thread_time();
                let add = |to: &AtomicU64, time: Duration| to.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
                add(&self.wall, now - told.0);
                add(&self.cpu, cpu.saturating_sub(told.1));
                told = (now, cpu);
            }
            if is_over {
                return;
            }
        }
    }
}

/// The helper thread, and the baton.
struct Thread {
    owner: Owner<Job>,
    handle: Option<JoinHandle<()>>,
    worked: Arc<Worked>,
}

impl Thread {
    /// Starts the thread; `None` where the system has none to give.
    fn start<M: ReferenceModel>() -> Option<Thread> {
        let job = Job { stack: MarkStack::new(), overwritten: Vec::new(), place: None };
        let owner = Owner::new(job);
        let (helper, worked) = (owner.helper(), Arc::<Worked>::default());
        let own = worked.clone();
        let run = move || {
            helper.run(|job, is_wanted| {
                // A panic leaves the job without a place, which the owner looks at: it panics too.
                if catch_unwind(AssertUnwindSafe(|| own.on::<M>(job, is_wanted))).is_err() {
                    job.place = None;
                }
            })
        };
        let handle = std::thread::Builder::new().name("legato-marking".to_string()).spawn(run).ok()?;
        Some(Thread { owner, handle: Some(handle), worked })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.owner.take();
        self.owner.end();
        if let Some(handle) = self.handle.take() {
            // Its panic, if any, has been reported, and there is nothing left to do with it.
            let _ = handle.join();
        }
    }
}

/// The helper of one heap. Dropped before the heap's memory.
pub(crate) struct MarkingHelper {
    helpers: Helpers,
    /// From the first cycle on that is worth it.
    thread: Option<Thread>,
    /// `auto` alone.
    idle: Option<IdleContexts>,
    /// Whether the baton has been given and not been taken back.
    is_given: bool,
    /// Whether the baton is not taken back before the helper has begun: under `stress`, so that it has a part in every
    /// cycle.
    is_patient: bool,
    /// What the helper has worked since [`take_time`](Self::take_time), and in all, but for what it has not told, by
    /// the clock.
    time: Duration,
    total: Duration,
}

impl MarkingHelper {
    /// Nobody helps yet.
    pub(crate) fn new(helpers: Helpers, is_stressed: bool) -> MarkingHelper {
        MarkingHelper {
            helpers,
            thread: None,
            idle: None,
            is_given: false,
            is_patient: is_stressed,
            time: Duration::ZERO,
            total: Duration::ZERO,
        }
    }

    /// Whether the helper has the baton, or is about to have it: it may be reading any object.
    #[inline]
    pub(crate) fn is_given(&self) -> bool {
        self.is_given
    }

    /// Whether it marks, and is to go on.
    pub(crate) fn is_busy(&mut self) -> bool {
        let is_marking = self.thread.as_ref().is_some_and(|thread| self.is_given && !thread.owner.is_returned());
        is_marking && self.is_wanted(u64::MAX)
    }

    /// Whether it is to mark for a heap of so many bytes, by `helpers`.
    fn is_wanted(&mut self, bytes: u64) -> bool {
        self.count();
        match self.helpers {
            Helpers::Auto if bytes >= LEAST_BYTES => {
                let is_active = self.is_given;
                self.idle.get_or_insert_with(IdleContexts::new).any(is_active)
            }
            Helpers::Auto | Helpers::None => false,
            Helpers::One => true,
        }
    }

    /// Counts what the helper has told of.
    fn count(&mut self) {
        let Some(thread) = &self.thread else { return };
        let take = |time: &AtomicU64| Duration::from_nanos(time.swap(0, Ordering::Relaxed));
        let (wall, cpu) = (take(&thread.worked.wall), take(&thread.worked.cpu));
        self.time += wall;
        self.total += wall;
        if let Some(idle) = &mut self.idle {
            idle.helper_worked(cpu);
        }
    }

    /// How long it has worked since the last call of [`take_time`](Self::take_time), by the clock, some time ago.
    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    /// How long it has worked in all.
    pub(crate) fn total(&self) -> Duration {
        self.total
    }

    /// As [`time`](Self::time), counted no more from now on.
    pub(crate) fn take_time(&mut self) -> Duration {
        std::mem::take(&mut self.time)
    }
}

impl<M: ReferenceModel> Core<M> {
    /// Whether a helper is to mark now.
    pub(crate) fn is_helper_wanted(&mut self) -> bool {
        IS_AVAILABLE && self.helper.is_wanted(self.pacer.size())
    }

    /// Gives what is to be marked to the helper, if there is to be one; nothing but the mutator's own buffer is left
    /// here then. With `ages`, young objects are left out.
    pub(crate) fn give_marking(&mut self, ages: Option<&Ages>) {
        debug_assert!(!self.helper.is_given);
        if !self.is_helper_wanted() {
            return;
        }
        let helper = &mut self.helper;
        if helper.thread.is_none() {
            helper.thread = Thread::start::<M>();
        }
        // Without a thread, the mutator marks; the next slice asks for one again.
        let Some(thread) = &mut helper.thread else { return };
        self.overwritten.flush(&mut self.context);
        thread.owner.with_job(|job| {
            job.place = Some(Place {
                heap: Beside { memory: self.pool.cage.memory(), marks: self.pool.planes.to_be_shared() },
                types: self.types.clone(),
                spines: self.spines,
                ages: ages.map(Ages::to_be_read),
            });
            std::mem::swap(&mut job.stack, &mut self.marking);
            self.overwritten.swap(&mut job.overwritten);
        });
        thread.owner.give();
        helper.is_given = true;
    }

    /// Takes back what the helper has left to be marked, if it has anything: nobody but the mutator marks from now on.
    pub(crate) fn take_marking(&mut self) {
        let helper = &mut self.helper;
        let Some(thread) = helper.thread.as_mut().filter(|_| helper.is_given) else { return };
        while helper.is_patient && thread.owner.is_untouched() {
            std::thread::yield_now();
        }
        thread.owner.take();
        helper.is_given = false;
        thread.owner.with_job(|job| {
            assert!(job.place.take().is_some(), "the helper thread has panicked");
            std::mem::swap(&mut job.stack, &mut self.marking);
            self.overwritten.take_back(&mut job.overwritten);
        });
        helper.count();
    }
}
