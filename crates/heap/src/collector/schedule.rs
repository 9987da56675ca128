//! When a cycle begins, when its slices come, and how long they are.
//!
//! | `schedule` | what it does | source |
//! |---|---|---|
//! | `time` | slices of a quantum, such that a share of every window is left to the mutator | Handles Revisited, section 2; Metronome (Bacon, Cheng and Rajan, POPL 2003) |
//! | `work` | a tax on what is allocated | Baker 1978 |
//!
//! A cycle begins early enough for the heap to stay within its limit until it ends, if the program goes on allocating
//! as it did; or, as in the paper, when half of the heap is in use. The limit is a trigger, the maximum is hard: where
//! memory would run out before the end, the gaps between the slices shrink, which is counted.

use super::ledger::Ledger;
use crate::budget::Budget;
use crate::os::thread_time;
use std::time::{Duration, Instant};

crate::values::params! {
    /// Parameters of a collector that works in cycles.
    #[derive(Eq, Hash)]
    pub struct CycleParams {
        /// When slices come.
        pub schedule: Schedule = Schedule::Time(TimeParams::DEFAULT),
        /// When a cycle begins.
        pub trigger: Trigger = Trigger::Predicted,
        /// Whether a thread marks beside the mutator.
        pub helpers: Helpers = Helpers::Auto,
        /// What is moved, where references let objects move (`realtime` only).
        pub defragment: Defragment = Defragment::Auto,
    }
}

crate::values::values! {
    /// When the slices of a cycle come.
    #[derive(Eq, Hash)]
    pub enum Schedule {
        /// By time.
        Time(TimeParams) = "time",
        /// By what is allocated.
        Work = "work",
    }
}

crate::values::params! {
    /// Parameters of `schedule=time`. (The paper's are 500 us, 70 %, 10 ms.)
    #[derive(Eq, Hash)]
    pub struct TimeParams {
        /// The length of a slice, in microseconds: at most what `utilisation` leaves of a window.
        pub quantum: u32 = 300,
        /// The share of every window that is left to the mutator, in percent.
        pub utilisation: u32 = 70,
        /// The window, in microseconds.
        pub window: u32 = 10_000,
    }
}

crate::values::values! {
    /// When a cycle begins.
    #[derive(Eq, Hash)]
    pub enum Trigger {
        /// When the limit would be reached by the end of the cycle.
        Predicted = "predicted",
        /// When half of the maximum is in use (Handles Revisited, section 5).
        Half = "half",
    }
}

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

crate::values::values! {
    /// What of the mature space is moved, so that blocks become empty. References must let objects move.
    #[derive(Eq, Hash)]
    pub enum Defragment {
        /// What lives in nearly empty blocks; where memory is short, or the whole heap is collected on request, as much
        /// as brings a block.
        Auto = "auto",
        /// As much as brings a block, in each cycle.
        Eager = "eager",
        /// Nothing.
        Off = "off",
    }
}

/// Collecting is expected to take so long for each byte, in nanoseconds, before anything is known.
const FIRST_COST: f64 = 1.0;
/// How much longer than expected a cycle may take, or how much faster the program may allocate.
const MARGIN: f64 = 1.25;
/// The least part of the room between what is live and the limit that is used between two cycles.
const LEAST_GAP: u64 = 4;
/// `work`: the fewest units of a slice, and bytes of heap that are expected to cost one.
const SLICE_UNITS: u64 = 2048;
const BYTES_PER_UNIT: u64 = 64;
/// `work`: the part of what is due that a slice does. What is handed out at once, as by a nursery collection, is paid
/// for little by little.
const DUE_PART: u64 = 16;
/// `work`: how much more is due for each byte in a heap that is as much above its limit as that is large.
const EXCESS: f64 = 16.0;

/// What the heap holds, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    /// Live after the last cycle, and handed out since.
    pub(crate) size: u64,
    /// Live after the last cycle.
    pub(crate) live: u64,
    pub(crate) limit: u64,
    pub(crate) maximum: u64,
    /// Addresses that are left, whatever memory there is: mapped arrays take more of these than of that.
    pub(crate) addresses: u64,
    /// Handed out since the heap was made.
    pub(crate) allocated: u64,
}

impl Fill {
    /// What can still be handed out without a collection.
    fn room(self) -> u64 {
        self.maximum.saturating_sub(self.size).min(self.addresses)
    }
}

/// A schedule at work.
#[derive(Debug)]
pub(crate) struct Scheduler {
    params: CycleParams,
    /// Whether what has been overwritten waits for the mutator's share.
    floods_wait: bool,
    /// The stops of the last window, in processor time of the mutator's thread: while others have its processor, it
    /// has no share of anything, nor does the collector take it.
    stops: Ledger,
    /// What that time is.
    thread_time: fn() -> Duration,
    /// The same when the slice began that is under way.
    slice_began: Option<Duration>,
    /// No slice leaves the mutator its share before this, by the clock.
    not_before: Instant,
    /// When the last cycle ended, and what had been allocated then.
    ended: Instant,
    allocated: u64,
    /// What a cycle costs for each byte in the heap, in nanoseconds.
    cost: f64,
    /// Collected in this cycle, and what is expected.
    spent: Duration,
    expected: Duration,
    /// The program's allocation, in bytes for each nanosecond, as it was when the cycle began.
    rate: f64,
    /// `work`: up to which allocation has been paid for, and the units due for each byte.
    taxed: u64,
    tax: f64,
}

impl Scheduler {
    /// For a new heap.
    pub(crate) fn new(params: CycleParams) -> Scheduler {
        Scheduler {
            params,
            floods_wait: true,
            stops: Ledger::default(),
            thread_time,
            slice_began: None,
            not_before: Instant::now(),
            ended: Instant::now(),
            allocated: 0,
            cost: FIRST_COST,
            spent: Duration::ZERO,
            expected: Duration::ZERO,
            rate: 0.0,
            taxed: 0,
            tax: 0.0,
        }
    }

    /// As [`new`](Self::new), where no share of a window is promised: what has been overwritten does not wait.
    pub(crate) fn without_share(params: CycleParams) -> Scheduler {
        Scheduler { floods_wait: false, ..Scheduler::new(params) }
    }

    /// Whether it is time for a cycle.
    pub(crate) fn is_cycle_due(&self, fill: Fill, now: Instant) -> bool {
        let room = fill.limit.saturating_sub(fill.live);
        let since = fill.size - fill.live.min(fill.size);
        if since == 0 || fill.size >= fill.limit {
            return since > 0;
        }
        match self.params.trigger {
            Trigger::Half => fill.size >= fill.maximum / 2 && since >= room / LEAST_GAP,
            Trigger::Predicted => {
                let growth = self.rate_since(fill, now) * self.duration(fill).as_nanos() as f64 * MARGIN;
                since >= room / LEAST_GAP && fill.size as f64 + growth >= fill.limit as f64
                    || since >= fill.room() / LEAST_GAP && growth >= fill.room() as f64
            }
        }
    }

    /// Whether a cycle is worth it where time is given for it.
    pub(crate) fn is_cycle_worth(&self, fill: Fill) -> bool {
        let since = fill.size.saturating_sub(fill.live);
        since > 0 && since >= fill.limit.saturating_sub(fill.live) / LEAST_GAP
    }

    /// Bytes that the program has allocated for each nanosecond since the last cycle.
    fn rate_since(&self, fill: Fill, now: Instant) -> f64 {
        let elapsed = now.duration_since(self.ended).as_nanos().max(1);
        fill.allocated.saturating_sub(self.allocated) as f64 / elapsed as f64
    }

    /// How long a cycle would take from beginning to end, the mutator's time included.
    fn duration(&self, fill: Fill) -> Duration {
        let share = match self.params.schedule {
            Schedule::Time(time) => time.rest(),
            Schedule::Work => 0.5,
        };
        Duration::from_nanos((fill.size as f64 * self.cost / share) as u64)
    }

    /// Notes that a cycle begins.
    pub(crate) fn start(&mut self, fill: Fill, now: Instant) {
        self.rate = self.rate_since(fill, now);
        self.spent = Duration::ZERO;
        self.expected = Duration::from_nanos((fill.size as f64 * self.cost * MARGIN) as u64);
        self.taxed = fill.allocated;
        // Beyond the limit, the heap grows by a part of its size at most.
        let room = fill.limit.saturating_sub(fill.size).max(fill.size / LEAST_GAP);
        let room = room.min(fill.room()).max(1);
        // Once that is used up, what has been handed out is to be looked at, too.
        self.tax = MARGIN / BYTES_PER_UNIT as f64 * (1.0 + fill.size as f64 / room as f64);
    }

    /// Notes that a cycle has ended, which found so many bytes in the heap, and in which a helper has marked for
    /// `helped`: the next one may have to do without.
    pub(crate) fn end(&mut self, size: u64, allocated: u64, helped: Duration, now: Instant) {
        (self.ended, self.allocated) = (now, allocated);
        if size > 0 {
            self.cost = (self.spent + helped).as_nanos() as f64 / size as f64;
        }
    }

    /// What may be done beside something else that stops the mutator.
    pub(crate) fn quantum(&self, now: Instant) -> Budget {
        match self.params.schedule {
            Schedule::Time(time) => Budget::until(now + time.quantum()),
            Schedule::Work => Budget::units(SLICE_UNITS),
        }
    }

    /// What the next slice may do, if it is due now, and whether it is earlier than the schedule says, as memory would
    /// run out otherwise.
    pub(crate) fn slice(&mut self, fill: Fill, now: Instant) -> Option<(Budget, bool)> {
        match self.params.schedule {
            Schedule::Time(time) => {
                let is_early = self.is_slice_due(time, fill, now)?;
                Some((Budget::until(now + time.quantum()), is_early))
            }
            Schedule::Work => {
                // Objects may be smaller, so that more is due than was expected: the heap grows beyond its limit.
                let excess = fill.size.saturating_sub(fill.limit) as f64 / fill.limit.max(1) as f64;
                let tax = self.tax * (1.0 + EXCESS * excess);
                let due = (fill.allocated.saturating_sub(self.taxed) as f64 * tax) as u64;
                (due >= SLICE_UNITS).then(|| {
                    let units = SLICE_UNITS.max(due / DUE_PART);
                    self.taxed += (units as f64 / tax).ceil() as u64;
                    (Budget::units(units), false)
                })
            }
        }
    }

    /// As [`slice`](Self::slice), while a helper marks, and has for `helped` in this cycle: nothing is due but where
    /// memory runs short.
    pub(crate) fn slice_beside_helper(&mut self, fill: Fill, helped: Duration, now: Instant) -> Option<(Budget, bool)> {
        match self.params.schedule {
            Schedule::Time(time) => {
                let part = self.shrinking(fill, 1.0, helped)?;
                self.has_waited(time, part).then(|| (Budget::until(now + time.quantum()), true))
            }
            Schedule::Work if fill.size < fill.limit => {
                self.taxed = fill.allocated;
                None
            }
            Schedule::Work => self.slice(fill, now),
        }
    }

    /// Up to which allocation slices have been paid for under [`Schedule::Work`]: what [`owe`](Self::owe) takes.
    pub(crate) fn owed(&self) -> u64 {
        self.taxed
    }

    /// Notes that the slice which was found due since [`owed`](Self::owed) was asked has not been made.
    pub(crate) fn owe(&mut self, owed: u64) {
        self.taxed = owed;
    }

    /// Whether a stop of a quantum leaves the mutator its share of every window: whatever is not urgent waits for that.
    pub(crate) fn may_stop(&mut self, now: Instant) -> bool {
        match self.params.schedule {
            Schedule::Time(time) => self.is_share_left(time, now),
            Schedule::Work => true,
        }
    }

    /// Whether a stop is due because much waits for it, and whether that is early: what `is_urgent` does not wait for
    /// the mutator's share.
    pub(crate) fn urgent_stop(&mut self, is_wanted: bool, is_urgent: bool, now: Instant) -> Option<bool> {
        if is_wanted && (!self.floods_wait || self.may_stop(now)) { Some(false) } else { is_urgent.then_some(true) }
    }

    /// Whether so much of the gap behind the last stop is over.
    fn has_waited(&mut self, time: TimeParams, part: f64) -> bool {
        let now = self.thread_now();
        self.note_begin(self.stops.gap_left(time, now, part), now)
    }

    /// Whether a slice now leaves the mutator its share. Its thread is asked for its time only where enough may have
    /// gone by, as it is never more than by the clock.
    fn is_share_left(&mut self, time: TimeParams, now: Instant) -> bool {
        if now < self.not_before {
            return false;
        }
        let thread = self.thread_now();
        let lacking = self.stops.lacking(time, thread);
        self.not_before = now + lacking;
        self.note_begin(lacking, thread)
    }

    /// The thread's time. It may be another thread than before.
    fn thread_now(&mut self) -> Duration {
        let now = (self.thread_time)();
        self.stops.forget_after(now);
        now
    }

    /// Notes by the thread's time that a slice begins, where nothing is lacking. Returns whether that is so.
    fn note_begin(&mut self, lacking: Duration, thread: Duration) -> bool {
        self.slice_began = (lacking == Duration::ZERO).then_some(thread);
        self.slice_began.is_some()
    }

    /// Whether the slice that is due is early; `None` where none is.
    fn is_slice_due(&mut self, time: TimeParams, fill: Fill, now: Instant) -> Option<bool> {
        if self.is_share_left(time, now) {
            return Some(false);
        }
        let part = self.shrinking(fill, time.rest(), Duration::ZERO)?;
        self.has_waited(time, part).then_some(true)
    }

    /// What part of each gap is left to the mutator where memory would run out before the end of the cycle.
    fn shrinking(&self, fill: Fill, share: f64, helped: Duration) -> Option<f64> {
        let left = self.expected.saturating_sub(self.spent + helped);
        let wanted = left.as_nanos() as f64 / share * self.rate;
        let room = fill.room() as f64;
        (wanted > room).then(|| room / wanted / 2.0)
    }

    /// Notes a stop, which has just ended.
    pub(crate) fn stopped(&mut self, start: Instant, end: Instant) {
        let took = end.duration_since(start);
        self.spent += took;
        if let Schedule::Time(time) = self.params.schedule {
            let end = self.thread_now();
            let earliest = end.saturating_sub(took);
            let start = self.slice_began.take().map_or(earliest, |start| start.clamp(earliest, end));
            self.stops.note(time, start, end);
        }
    }
}

/// What part of the time that is not promised to the mutator is left to it nevertheless. With none, a program that
/// measured itself had less than its share in one of twenty windows of the worst; with this, in one of a thousand, for
/// as many steps in a second ([`TimeParams::rest`]).
const RESERVE: f64 = 1.0 / 6.0;

impl TimeParams {
    pub(super) fn window(self) -> Duration {
        Duration::from_micros(self.window.into())
    }

    pub(super) fn quantum(self) -> Duration {
        Duration::from_micros(self.quantum.into())
    }

    /// What slices may take of a window. It is less than what the mutator's share leaves, as more than slices keeps a
    /// program from its work: memory that it touches first, what slices have put out of the caches, interrupts.
    pub(super) fn rest(self) -> f64 {
        f64::from(100 - self.utilisation) / 100.0 * (1.0 - RESERVE)
    }
}

#[cfg(test)]
mod tests;
