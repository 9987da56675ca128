//! The helper thread of one heap: when there is one, what it does with what it is given, and how long it has worked.

use super::baton::Owner;
use crate::ages::Ages;
use crate::arrays::SpineMode;
use crate::barrier::Overwritten;
use crate::budget::{Budget, Done};
use crate::collector::marking::{Beside, MarkStack, Marker};
use crate::collector::schedule::Helpers;
use crate::os::thread_time;
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::threads::idle::IdleContexts;
use crate::type_table::TypeTable;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Whether there can be a helper.
const IS_AVAILABLE: bool = cfg!(target_arch = "x86_64");
/// `auto`: smaller heaps are not worth a thread, in bytes.
const LEAST_BYTES: u64 = 4 << 20;
/// What the helper does from one look to the next, in units and in overwritten references.
const BATCH: u64 = 32;
/// A helper that is later with the baton shares its processor: no batch takes so long, nor what a system has to do now
/// and then.
const LATEST: Duration = Duration::from_millis(2);
/// How often the helper tells how long it has worked.
const TELLS_EVERY: Duration = Duration::from_millis(1);

/// What the one who has the baton marks.
#[derive(Debug)]
struct Job {
    stack: MarkStack,
    overwritten: Vec<Reference>,
    place: Option<Place>,
}

/// Where it is marked: see [`Marker`].
#[derive(Debug)]
pub(super) struct Place {
    pub(super) heap: Beside,
    pub(super) types: Arc<TypeTable>,
    pub(super) spines: Option<SpineMode>,
    pub(super) ages: Option<Ages>,
    pub(super) marks_handles: bool,
}

// SAFETY: the addresses are those of a heap's memory, which outlives the helper thread; what that does there is said
// above, and what the mutator does.
unsafe impl Send for Job {}

impl Job {
    /// Marks a batch.
    fn mark_some<M: ReferenceModel>(&mut self) -> Done {
        let Some(Place { heap, types, spines, ages, marks_handles }) = &self.place else { return Done::Yes };
        let (ages, stack) = (ages.as_ref(), &mut self.stack);
        let (heap, spines, marks_handles) = (*heap, *spines, *marks_handles);
        let model = PhantomData::<M>;
        let mut marker = Marker { heap, types, stack, spines, ages, heals: false, marks_handles, model };
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
    /// Tests: whether the helper stands still, as if the system had taken its processor away.
    #[cfg(test)]
    is_detained: std::sync::atomic::AtomicBool,
}

impl Worked {
    /// Marks until nothing is left, or the owner wants the baton.
    fn on<M: ReferenceModel>(&self, job: &mut Job, is_wanted: &dyn Fn() -> bool) {
        let mut told = (Instant::now(), thread_time());
        loop {
            #[cfg(test)]
            self.stand_still();
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

#[cfg(test)]
impl Worked {
    /// Waits while the helper is detained; not for ever, so that a test fails whose mutator waits for it.
    fn stand_still(&self) {
        let start = Instant::now();
        while self.is_detained.load(Ordering::Relaxed) && start.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
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
    /// Since when a helper is late that has been asked for it.
    late_since: Option<Instant>,
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
            late_since: None,
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

    /// Whether it has begun with what it was given last.
    pub(crate) fn has_begun(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.owner.is_untouched())
    }

    /// Whether it is to mark for a heap of so many bytes, by `helpers`.
    pub(super) fn is_wanted(&mut self, bytes: u64) -> bool {
        self.count();
        match self.helpers {
            Helpers::Auto if IS_AVAILABLE && bytes >= LEAST_BYTES => {
                let is_active = self.is_given;
                self.idle.get_or_insert_with(IdleContexts::new).any(is_active)
            }
            Helpers::Auto | Helpers::None => false,
            Helpers::One => IS_AVAILABLE,
        }
    }

    /// Whether there is a thread: starts it if need be. Where the system has none to give, the mutator marks, and asks
    /// again the next time.
    pub(super) fn has_thread<M: ReferenceModel>(&mut self) -> bool {
        if self.thread.is_none() {
            self.thread = Thread::start::<M>();
        }
        self.thread.is_some()
    }

    /// Gives the helper what is to be marked; nothing is left here. There is a thread, and it has not got anything.
    pub(super) fn give(&mut self, place: Place, stack: &mut MarkStack, overwritten: &mut Overwritten) {
        let thread = self.thread.as_mut().expect("a thread has been started");
        thread.owner.with_job(|job| {
            job.place = Some(place);
            std::mem::swap(&mut job.stack, stack);
            overwritten.swap(&mut job.overwritten);
        });
        thread.owner.give();
        self.is_given = true;
    }

    /// Takes back what the helper has left, if it has been given anything. Returns whether nothing is left with it:
    /// only where the mutator `waits` is that so in any case.
    pub(super) fn take(&mut self, waits: bool, stack: &mut MarkStack, overwritten: &mut Overwritten) -> bool {
        let Some(thread) = self.thread.as_mut().filter(|_| self.is_given) else { return true };
        while self.is_patient && thread.owner.is_untouched() {
            std::thread::yield_now();
        }
        if !thread.owner.try_take() {
            self.late_since.get_or_insert_with(Instant::now);
            if !waits {
                return false;
            }
            thread.owner.take();
        }
        if self.late_since.take().is_some_and(|since| since.elapsed() > LATEST)
            && let Some(idle) = &mut self.idle
        {
            idle.helper_waited();
        }
        self.is_given = false;
        thread.owner.with_job(|job| {
            assert!(job.place.take().is_some(), "the helper thread has panicked");
            std::mem::swap(&mut job.stack, stack);
            overwritten.take_back(&mut job.overwritten);
        });
        self.count();
        true
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

    /// Has the helper stand still from its next look on, or go on.
    #[cfg(test)]
    pub(crate) fn detain<M: ReferenceModel>(&mut self, is_detained: bool) {
        assert!(self.has_thread::<M>());
        let thread = self.thread.as_ref().expect("a thread has been started");
        thread.worked.is_detained.store(is_detained, Ordering::Relaxed);
    }

    /// Waits until the helper has begun with what it was given last.
    #[cfg(test)]
    pub(crate) fn wait_until_begun(&self) {
        while !self.has_begun() {
            std::thread::yield_now();
        }
    }

    /// As [`time`](Self::time), counted no more from now on.
    pub(crate) fn take_time(&mut self) -> Duration {
        std::mem::take(&mut self.time)
    }
}
