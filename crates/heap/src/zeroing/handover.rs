//! The hand-over of units of memory between a heap and the thread that zeroes them for it.
//!
//! A cycle's units are claimed one by one, in order, by either side: the helper runs ahead, and the owner claims what
//! it needs at once and nobody has claimed yet. Everything that both decide by is one atomic word:
//!
//! * `left`, how many units are unclaimed. Claiming takes it down by one; at zero there is nothing to claim. A unit's
//!   *ticket* is the value from which its claim took it down, so that a cycle's last unit has ticket 1.
//! * `helper`, the ticket in the helper's hands; 0 if none. One update finishes a unit and claims the next.
//! * `waiting`, whether the owner is parked until the helper has finished its unit.
//!
//! The owner stops a cycle by setting `left` to 0: the helper can claim no more, and the owner waits at most for one
//! unit. What a cycle is about (`W`) is read only between a claim and its finish, and replaced only while the word is
//! 0. So it does no harm if the helper is so late that it claims a unit of the cycle after the one it was woken for: it
//! cannot tell, and need not.
//!
//! Orderings: when the helper finishes a unit it releases the zeros, and the owner's last look at the word acquires
//! them. When the helper claims a unit it acquires the `W` that `start` released. All updates in between are
//! read-modify-writes, which continue a release sequence, so that the owner's own can be relaxed.

use super::sync::{Arc, AtomicU64, Condvar, Mutex, MutexGuard, Ordering, SPINS, UnsafeCell, spin};
use std::ops::Range;
use std::sync::PoisonError;

/// The word, unpacked from 64 bits: `left` below, then `helper`, then one bit of `waiting`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Word {
    left: u32,
    helper: u32,
    waiting: bool,
}

/// The most units of a cycle, so that a ticket fits 31 bits.
pub(super) const MAX_UNITS: u32 = u32::MAX >> 1;

impl Word {
    fn pack(self) -> u64 {
        (self.waiting as u64) << 63 | (self.helper as u64) << 32 | self.left as u64
    }

    fn unpack(bits: u64) -> Word {
        Word { left: bits as u32, helper: (bits >> 32) as u32 & MAX_UNITS, waiting: bits >> 63 != 0 }
    }
}

/// What is to be zeroed in a cycle.
struct Cycle<W> {
    work: W,
    units: u32,
}

/// What both sides see.
struct Shared<W> {
    word: AtomicU64,
    cycle: UnsafeCell<Cycle<W>>,
    /// What the helper is parked on, and the owner.
    control: Mutex<Control>,
    helper_wakes: Condvar,
    owner_wakes: Condvar,
}

// SAFETY: the word and the lock are made for sharing. `cycle` is written by the owner alone, while the helper has no
// unit and can claim none; at other times both only read it.
unsafe impl<W: Send + Sync> Sync for Shared<W> {}

/// Why the helper is awake.
#[derive(Default)]
struct Control {
    /// How many cycles have been started.
    cycles: u64,
    /// The helper is to end.
    ended: bool,
}

impl<W> Shared<W> {
    fn look(&self) -> Word {
        Word::unpack(self.word.load(Ordering::Acquire))
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        // Nothing can panic while the lock is held.
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The owner waits until the helper has finished a unit that `awaited` says yes to, spinning first.
    fn wait_for_helper(&self, awaited: impl Fn(u32) -> bool) {
        for _ in 0..SPINS {
            if !awaited(self.look().helper) {
                return;
            }
            spin();
        }
        let announced = self.word.fetch_update(Ordering::Relaxed, Ordering::Acquire, |bits| {
            let word = Word::unpack(bits);
            awaited(word.helper).then(|| Word { waiting: true, ..word }.pack())
        });
        if announced.is_err() {
            return;
        }
        // The helper changes the word first and takes the lock afterwards: it cannot slip in between the look and the
        // wait.
        let mut control = self.control();
        while awaited(self.look().helper) {
            control = self.owner_wakes.wait(control).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The heap's side: exactly one.
pub(super) struct Owner<W> {
    shared: Arc<Shared<W>>,
    /// Units of the current cycle.
    units: u32,
}

impl<W> Owner<W> {
    /// A hand-over with no unit to claim.
    pub(super) fn new(work: W) -> Owner<W> {
        let shared = Shared {
            word: AtomicU64::new(0),
            cycle: UnsafeCell::new(Cycle { work, units: 0 }),
            control: Mutex::new(Control::default()),
            helper_wakes: Condvar::new(),
            owner_wakes: Condvar::new(),
        };
        Owner { shared: Arc::new(shared), units: 0 }
    }

    /// The other side. To be asked for once.
    pub(super) fn helper(&self) -> Helper<W> {
        Helper { shared: self.shared.clone() }
    }

    /// Starts a cycle: `prepare` says what it is about, and returns its number of units. The one before has been
    /// stopped.
    pub(super) fn start(&mut self, prepare: impl FnOnce(&mut W) -> u32) {
        assert_eq!(self.shared.look(), Word::unpack(0), "the cycle before was not stopped");
        self.units = self.shared.cycle.with_mut(|cycle| {
            // SAFETY: there is no ticket and nothing to claim, so the helper does not look at the cycle; what it saw
            // before, it saw before it finished its unit, and that has been acquired.
            let cycle = unsafe { &mut *cycle };
            cycle.units = prepare(&mut cycle.work);
            cycle.units
        });
        assert!(self.units <= MAX_UNITS, "a cycle of {} units", self.units);
        if self.units == 0 {
            return;
        }
        let word = Word { left: self.units, helper: 0, waiting: false };
        self.shared.word.store(word.pack(), Ordering::Release);
        self.shared.control().cycles += 1;
        self.shared.helper_wakes.notify_one();
    }

    /// Returns once every unit up to the range's end is claimed, and those of the range are zero. What the helper has
    /// not come to, the owner does itself with `zero`; for a unit in the helper's hands it waits.
    pub(super) fn obtain(&mut self, range: Range<u32>, zero: impl Fn(&W, u32)) {
        assert!(range.end <= self.units, "units {range:?} of a cycle of {}", self.units);
        let (first, last) = (self.units - range.start, self.units - range.end + 1);
        let mut word = self.shared.look();
        while word.left >= last {
            let claimed = Word { left: word.left - 1, ..word };
            let result =
                self.shared.word.compare_exchange(word.pack(), claimed.pack(), Ordering::Relaxed, Ordering::Relaxed);
            match result {
                Ok(_) => {
                    // SAFETY: the owner alone writes the cycle.
                    self.shared.cycle.with(|cycle| zero(unsafe { &(*cycle).work }, self.units - word.left));
                    word = self.shared.look();
                }
                Err(bits) => word = Word::unpack(bits),
            }
        }
        self.shared.wait_for_helper(|ticket| (last..=first).contains(&ticket));
    }

    /// Ends the cycle: the helper has finished its unit and claims no other. Returns how many units, from the first,
    /// are zero or have been.
    pub(super) fn stop(&mut self) -> u32 {
        let result = self.shared.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bits| {
            Some(Word { left: 0, ..Word::unpack(bits) }.pack())
        });
        let (Ok(before) | Err(before)) = result;
        self.shared.wait_for_helper(|ticket| ticket != 0);
        std::mem::take(&mut self.units) - Word::unpack(before).left
    }

    /// Ends the helper. The cycle has been stopped.
    pub(super) fn end(&mut self) {
        self.shared.control().ended = true;
        self.shared.helper_wakes.notify_one();
    }
}

/// The helper's side: at most one.
pub(super) struct Helper<W> {
    shared: Arc<Shared<W>>,
}

impl<W> Helper<W> {
    /// Zeroes unit after unit of cycle after cycle, parked in between, until the owner ends it.
    pub(super) fn run(&self, zero: impl Fn(&W, u32)) {
        let mut seen = 0;
        loop {
            let mut control = self.shared.control();
            while control.cycles == seen && !control.ended {
                control = self.shared.helper_wakes.wait(control).unwrap_or_else(PoisonError::into_inner);
            }
            if control.ended {
                return;
            }
            seen = control.cycles;
            drop(control);
            self.run_cycle(&zero);
        }
    }

    /// Until nothing is left to claim.
    fn run_cycle(&self, zero: impl Fn(&W, u32)) {
        loop {
            // Finishes the unit in our hands, if any, and claims the next, if any.
            let result = self.shared.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |bits| {
                let word = Word::unpack(bits);
                let next = Word { left: word.left.saturating_sub(1), helper: word.left, waiting: false };
                (next != word).then(|| next.pack())
            });
            let Ok(bits) = result else { return };
            let before = Word::unpack(bits);
            if before.waiting {
                let _control = self.shared.control();
                self.shared.owner_wakes.notify_one();
            }
            if before.left == 0 {
                return;
            }
            // SAFETY: as long as a ticket is in our hands, the owner does not write the cycle.
            self.shared.cycle.with(|cycle| unsafe { zero(&(*cycle).work, (*cycle).units - before.left) });
        }
    }
}
