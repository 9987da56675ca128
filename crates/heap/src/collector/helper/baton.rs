//! The baton: what a heap and its helper thread pass to each other. At each time it belongs to one of them, and what it
//! is about (`J`, the job) with it.
//!
//! | state | what it means | who leaves it |
//! |---|---|---|
//! | `OWNED` | the owner has it | the owner gives it |
//! | `GIVEN` | whoever comes first may have it | the helper, which begins; or the owner, which takes it back |
//! | `HELD` | the helper works | the helper, when nothing is left; or the owner, which wants it back |
//! | `WANTED` | the helper stops at its next look | the helper; or the owner, which parks |
//! | `AWAITED` | the same, with the owner parked | the helper, which wakes the owner |
//! | `RETURNED` | the helper has stopped | the owner, which takes it back |
//!
//! The owner does not wait for a helper that is still waking up, and otherwise for as long as the helper takes from one
//! look to the next. A helper that is so late that it begins with a job after the one that it was woken for does no
//! harm.
//!
//! Orderings: giving releases, and the helper acquires as it begins; the helper releases as it stops, and the owner
//! acquires as it takes back. So each side sees all that the other has done, to the job and to the heap.

use super::sync::{Arc, AtomicU32, Condvar, Mutex, MutexGuard, Ordering, SPINS, UnsafeCell, spin};
use std::sync::PoisonError;

const OWNED: u32 = 0;
const GIVEN: u32 = 1;
const HELD: u32 = 2;
const WANTED: u32 = 3;
const AWAITED: u32 = 4;
const RETURNED: u32 = 5;

/// What both sides see.
struct Shared<J> {
    state: AtomicU32,
    job: UnsafeCell<J>,
    /// Whether the helper is to end; and what it is parked on, and the owner.
    ended: Mutex<bool>,
    helper_wakes: Condvar,
    owner_wakes: Condvar,
}

// SAFETY: the state and the lock are made for sharing. The job is used by the one who has the baton alone.
unsafe impl<J: Send> Sync for Shared<J> {}

impl<J> Shared<J> {
    fn lock(&self) -> MutexGuard<'_, bool> {
        // Nothing can panic while the lock is held.
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }
}

/// The heap's side: exactly one.
pub(super) struct Owner<J> {
    shared: Arc<Shared<J>>,
}

impl<J> Owner<J> {
    /// A baton in the owner's hands.
    pub(super) fn new(job: J) -> Owner<J> {
        let shared = Shared {
            state: AtomicU32::new(OWNED),
            job: UnsafeCell::new(job),
            ended: Mutex::new(false),
            helper_wakes: Condvar::new(),
            owner_wakes: Condvar::new(),
        };
        Owner { shared: Arc::new(shared) }
    }

    /// The other side. To be asked for once.
    pub(super) fn helper(&self) -> Helper<J> {
        Helper { shared: self.shared.clone() }
    }

    /// Lets `change` have the job. The owner has the baton.
    pub(super) fn with_job<R>(&mut self, change: impl FnOnce(&mut J) -> R) -> R {
        assert_eq!(self.shared.state(), OWNED, "the helper has the baton");
        // SAFETY: the owner has the baton, and is borrowed: it does not give it meanwhile.
        self.shared.job.with_mut(|job| change(unsafe { &mut *job }))
    }

    /// Gives the baton to the helper. The owner has it.
    pub(super) fn give(&mut self) {
        assert_eq!(self.shared.state(), OWNED, "the helper has the baton");
        self.shared.state.store(GIVEN, Ordering::Release);
        // With the lock, as the helper may just have seen that it has not got the baton, and be about to park.
        drop(self.shared.lock());
        self.shared.helper_wakes.notify_one();
    }

    /// Whether the helper has stopped by itself, and the baton can be taken without a wait.
    pub(super) fn is_returned(&self) -> bool {
        self.shared.state() == RETURNED
    }

    /// Whether the helper has not begun yet.
    pub(super) fn is_untouched(&self) -> bool {
        self.shared.state() == GIVEN
    }

    /// Takes the baton back, if need be from a helper that works, as soon as that looks up.
    pub(super) fn take(&mut self) {
        if !self.try_take() {
            self.wait();
            self.shared.state.store(OWNED, Ordering::Relaxed);
        }
    }

    /// As [`take`](Self::take), but for a helper that does not look up within some microseconds, as one that has no
    /// processor: it is to stop then, and can be asked for the baton again. Returns whether the owner has it.
    pub(super) fn try_take(&mut self) -> bool {
        let asked = self.shared.state.fetch_update(Ordering::Acquire, Ordering::Acquire, |state| match state {
            GIVEN | RETURNED => Some(OWNED),
            HELD => Some(WANTED),
            _ => None,
        });
        match asked {
            Ok(HELD) => {}
            Err(WANTED) => return false,
            _ => return true,
        }
        for _ in 0..SPINS {
            if self.is_returned() {
                self.shared.state.store(OWNED, Ordering::Relaxed);
                return true;
            }
            spin();
        }
        false
    }

    /// Waits until the helper, which has been asked for the baton, has stopped.
    fn wait(&self) {
        let shared = &self.shared;
        if shared.state.compare_exchange(WANTED, AWAITED, Ordering::Relaxed, Ordering::Acquire).is_err() {
            return;
        }
        // The helper changes the state first and takes the lock afterwards: it cannot slip in between the look and the
        // wait.
        let mut lock = shared.lock();
        while !self.is_returned() {
            lock = shared.owner_wakes.wait(lock).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the helper. The owner has the baton.
    pub(super) fn end(&mut self) {
        *self.shared.lock() = true;
        self.shared.helper_wakes.notify_one();
    }
}

/// The helper's side: at most one.
pub(super) struct Helper<J> {
    shared: Arc<Shared<J>>,
}

impl<J> Helper<J> {
    /// Works on job after job, parked in between, until the owner ends it. `work` returns when nothing is left to do,
    /// or soon after what it is given says that the owner wants the baton back.
    pub(super) fn run(&self, mut work: impl FnMut(&mut J, &dyn Fn() -> bool)) {
        let shared = &self.shared;
        loop {
            let mut ended = shared.lock();
            while !*ended && shared.state() != GIVEN {
                ended = shared.helper_wakes.wait(ended).unwrap_or_else(PoisonError::into_inner);
            }
            if *ended {
                return;
            }
            drop(ended);
            if shared.state.compare_exchange(GIVEN, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
                continue;
            }
            let is_wanted = || shared.state.load(Ordering::Relaxed) != HELD;
            // SAFETY: the helper has the baton until it returns it below.
            shared.job.with_mut(|job| work(unsafe { &mut *job }, &is_wanted));
            if shared.state.swap(RETURNED, Ordering::Release) == AWAITED {
                drop(shared.lock());
                shared.owner_wakes.notify_one();
            }
        }
    }
}
