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

use crate::budget::Budget;
use std::collections::VecDeque;
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
        /// The length of a slice, in microseconds.
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
/// What a slice costs the program besides, by emptying caches: this part of its own time. With the cache of
/// `legato-lab pauses`, steps behind a slice of 300 us take 40 us more.
const COLD: u32 = 8;
/// `work`: units of a slice, and bytes of heap that are expected to cost one.
const SLICE_UNITS: u64 = 2048;
const BYTES_PER_UNIT: u64 = 64;

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
    /// The slices of the last window: when each ended, and how long it took, with what it costs besides.
    recent: VecDeque<(Instant, Duration)>,
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
    /// `work`: what had been allocated at the last slice, and the units due for each byte.
    taxed: u64,
    tax: f64,
}

impl Scheduler {
    /// For a new heap.
    pub(crate) fn new(params: CycleParams) -> Scheduler {
        Scheduler {
            params,
            recent: VecDeque::new(),
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
            Schedule::Time(time) => f64::from(100 - time.utilisation) / 100.0,
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
        self.tax = MARGIN * (fill.size / BYTES_PER_UNIT) as f64 / room as f64;
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
                let units = (fill.allocated.saturating_sub(self.taxed) as f64 * self.tax) as u64;
                (units >= SLICE_UNITS).then(|| {
                    self.taxed = fill.allocated;
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
                self.forget_before(time, now);
                let part = self.shrinking(fill, 1.0, helped)?;
                self.has_waited(time, part, now).then(|| (Budget::until(now + time.quantum()), true))
            }
            Schedule::Work if fill.size < fill.limit => {
                self.taxed = fill.allocated;
                None
            }
            Schedule::Work => self.slice(fill, now),
        }
    }

    /// Whether so much of the gap behind the last slice is over.
    fn has_waited(&self, time: TimeParams, part: f64, now: Instant) -> bool {
        let share = f64::from(100 - time.utilisation) / 100.0;
        // What leaves its share to the mutator behind a slice as long as the last one.
        let gap = |last: Duration| last.mul_f64((1.0 / share - 1.0) * part);
        self.recent.back().is_none_or(|&(end, last)| now.duration_since(end) >= gap(last))
    }

    /// Whether the slice that is due is early; `None` where none is.
    fn is_slice_due(&mut self, time: TimeParams, fill: Fill, now: Instant) -> Option<bool> {
        self.forget_before(time, now);
        let share = f64::from(100 - time.utilisation) / 100.0;
        let used: Duration = self.recent.iter().map(|&(_, took)| took).sum();
        let fits = used + time.quantum() <= time.window().mul_f64(share).max(time.quantum());
        if self.recent.is_empty() || fits && self.has_waited(time, 1.0, now) {
            return Some(false);
        }
        let part = self.shrinking(fill, share, Duration::ZERO)?;
        self.has_waited(time, part, now).then_some(true)
    }

    /// What part of each gap is left to the mutator where memory would run out before the end of the cycle.
    fn shrinking(&self, fill: Fill, share: f64, helped: Duration) -> Option<f64> {
        let left = self.expected.saturating_sub(self.spent + helped);
        let wanted = left.as_nanos() as f64 / share * self.rate;
        let room = fill.room() as f64;
        (wanted > room).then(|| room / wanted / 2.0)
    }

    /// Notes a slice.
    pub(crate) fn stopped(&mut self, start: Instant, end: Instant) {
        let took = end.duration_since(start);
        self.spent += took;
        if let Schedule::Time(time) = self.params.schedule {
            self.forget_before(time, end);
            self.recent.push_back((end, took + took / COLD));
        }
    }

    /// Forgets slices that lie before the window that ends now.
    fn forget_before(&mut self, time: TimeParams, now: Instant) {
        while self.recent.front().is_some_and(|&(end, _)| now.duration_since(end) > time.window()) {
            self.recent.pop_front();
        }
    }
}

impl TimeParams {
    fn window(self) -> Duration {
        Duration::from_micros(self.window.into())
    }

    fn quantum(self) -> Duration {
        Duration::from_micros(self.quantum.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn fill(size: u64, limit: u64, allocated: u64) -> Fill {
        Fill { size, live: 1 << 20, limit, maximum: 64 << 20, addresses: 4 << 30, allocated }
    }

    #[test]
    fn slices_leave_every_window_its_share() {
        let mut scheduler = Scheduler::new(CycleParams::DEFAULT);
        let mut now = Instant::now() + 1000 * MILLISECOND;
        scheduler.start(fill(2 << 20, 4 << 20, 1 << 20), now);
        let mut stops = Vec::new();
        for _ in 0..100_000 {
            // Polls come every microsecond, slices take somewhat longer than their quantum.
            now += Duration::from_micros(1);
            if let Some((_, is_early)) = scheduler.slice(fill(2 << 20, 4 << 20, 1 << 20), now) {
                assert!(!is_early, "there is memory enough");
                let start = now;
                now += Duration::from_micros(310);
                scheduler.stopped(start, now);
                stops.push((start, now));
            }
        }
        assert!(stops.len() > 70, "{} slices", stops.len());
        assert!(scheduler.recent.len() <= 11);
        for &(first, _) in &stops {
            let end = first + 10 * MILLISECOND;
            let within = stops.iter().filter(|&&(start, _)| first <= start && start < end);
            let used: Duration = within.map(|&(start, stop)| stop.min(end) - start).sum();
            assert!(used + used / COLD <= Duration::from_micros(3100), "{used:?} of 10 ms");
        }
    }

    #[test]
    fn gaps_shrink_where_memory_would_run_out() {
        let mut scheduler = Scheduler::new(CycleParams::DEFAULT);
        let now = Instant::now() + MILLISECOND;
        // Sixteen mebibytes a millisecond, and three of 64 left.
        scheduler.start(fill(61 << 20, 4 << 20, 16 << 20), now);
        scheduler.stopped(now, now + MILLISECOND);
        let due = |scheduler: &mut Scheduler, size, micros| {
            scheduler.slice(fill(size, 4 << 20, 16 << 20), now + MILLISECOND + Duration::from_micros(micros))
        };
        assert!(due(&mut scheduler, 61 << 20, 100).is_some_and(|(_, is_early)| is_early));
        assert!(due(&mut scheduler, 2 << 20, 0).is_none());
        // As much memory as anybody wants, and addresses for one mebibyte.
        let few = Fill { maximum: 4 << 30, addresses: 1 << 20, ..fill(8 << 20, 4 << 20, 16 << 20) };
        let at = now + MILLISECOND + Duration::from_micros(100);
        assert!(scheduler.slice(few, at).is_some_and(|(_, is_early)| is_early));
    }

    #[test]
    fn work_follows_allocation() {
        let params = CycleParams { schedule: Schedule::Work, ..CycleParams::DEFAULT };
        let mut scheduler = Scheduler::new(params);
        let now = Instant::now();
        scheduler.start(fill(8 << 20, 10 << 20, 0), now);
        assert!(scheduler.slice(fill(8 << 20, 10 << 20, 0), now).is_none());
        assert!(scheduler.slice(fill(9 << 20, 10 << 20, 1 << 20), now).is_some());
        assert!(scheduler.slice(fill(9 << 20, 10 << 20, 1 << 20), now).is_none(), "paid");
        // Where the maximum is far away, the limit counts.
        let far = |size, allocated| Fill { maximum: 4 << 30, ..fill(size, 10 << 20, allocated) };
        scheduler.start(far(8 << 20, 2 << 20), now);
        assert!(scheduler.slice(far(9 << 20, 3 << 20), now).is_some());
        (0..1000).for_each(|_| scheduler.stopped(now, now + MILLISECOND));
        assert!(scheduler.recent.is_empty(), "nothing is kept");
    }

    #[test]
    fn a_cycle_begins_before_the_limit_is_reached() {
        let scheduler = Scheduler::new(CycleParams::DEFAULT);
        let now = Instant::now() + MILLISECOND;
        assert!(!scheduler.is_cycle_due(fill(1 << 20, 32 << 20, 0), now), "nothing has been allocated");
        assert!(scheduler.is_cycle_due(fill(32 << 20, 32 << 20, 31 << 20), now), "the limit");
        assert!(scheduler.is_cycle_due(fill(16 << 20, 32 << 20, 15 << 20), now), "so fast, it will be reached");
        let later = now + Duration::from_secs(1000);
        assert!(!scheduler.is_cycle_due(fill(16 << 20, 32 << 20, 15 << 20), later), "slowly");
        let few = Fill { addresses: 1 << 20, ..fill(4 << 20, 1 << 30, 3 << 20) };
        assert!(scheduler.is_cycle_due(few, now), "no addresses are left for what comes");
        assert!(!scheduler.is_cycle_due(few, later), "slowly");
    }
}
