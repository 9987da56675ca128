//! The stops of the last window of time, and when the next one leaves the mutator its share: for `schedule=time`.

use super::schedule::TimeParams;
use std::collections::VecDeque;
use std::time::Duration;

/// What a slice costs the program besides, by emptying caches: this part of its own time. With the cache of
/// `legato-lab pauses`, steps behind a slice of 300 us take 40 us more.
const COLD: u32 = 8;

/// The stops of the last window, so that no window has more of them than its share. Times are those of any one clock.
///
/// Of all windows, one that ends with a stop has the most of them. So it is enough to look ahead from each slice to its
/// end. A slice is expected to take its quantum, or as long as any other one in the window: a piece of work that has
/// exceeded its quantum is paid for by the gaps that follow.
#[derive(Debug, Default)]
pub(super) struct Ledger(VecDeque<Noted>);

/// A stop that has been noted.
#[derive(Clone, Copy, Debug)]
struct Noted {
    start: Duration,
    /// When it ended, with what it costs besides.
    end: Duration,
}

impl Ledger {
    /// Notes a stop, and forgets those that no later window has.
    pub(super) fn note(&mut self, time: TimeParams, start: Duration, end: Duration) {
        while self.0.front().is_some_and(|first| first.end + time.window() <= end) {
            self.0.pop_front();
        }
        self.0.push_back(Noted { start, end: end + (end - start) / COLD });
    }

    /// Forgets everything where another clock has been read for it, which was ahead of this one: another thread's.
    pub(super) fn forget_after(&mut self, now: Duration) {
        // What a stop costs besides ends later than it does.
        if self.0.back().is_some_and(|last| last.start > now) {
            self.0.clear();
        }
    }

    /// How much of so great a part of the gap behind the last stop is left, which is the mutator's share.
    pub(super) fn gap_left(&self, time: TimeParams, now: Duration, part: f64) -> Duration {
        let Some(last) = self.0.back() else { return Duration::ZERO };
        let gap = (last.end - last.start).mul_f64((1.0 / time.rest() - 1.0) * part);
        (last.end + gap.min(time.window())).saturating_sub(now)
    }

    /// How long it takes at least until a slice leaves the mutator its share.
    pub(super) fn lacking(&self, time: TimeParams, now: Duration) -> Duration {
        let longest = self.0.iter().filter(|stop| stop.end + time.window() > now).map(|stop| stop.end - stop.start);
        let length = longest.fold(time.quantum() + time.quantum() / COLD, Duration::max);
        let start = (now + length).saturating_sub(time.window());
        let used: Duration = self.0.iter().map(|stop| stop.end.saturating_sub(stop.start.max(start))).sum();
        let most = time.window().mul_f64(time.rest());
        // One slice may be longer than what is left beside the share.
        let excess = if used == Duration::ZERO { used } else { (used + length).saturating_sub(most) };
        excess.max(self.gap_left(time, now, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    /// Has slices come as soon as the ledger allows them, each as long as `lengths` says, for half a second. Returns
    /// when they began and ended, with what they cost besides.
    fn slices(time: TimeParams, mut lengths: impl FnMut(usize) -> Duration) -> Vec<(Duration, Duration)> {
        let (mut ledger, mut now, mut slices) = (Ledger::default(), 500_000 * US, Vec::new());
        while now < 1_000_000 * US {
            let lacking = ledger.lacking(time, now);
            if lacking == Duration::ZERO {
                let end = now + lengths(slices.len());
                ledger.note(time, now, end);
                slices.push((now, end + (end - now) / COLD));
                now = end;
            }
            // Allocations come every microsecond.
            now += lacking.max(US);
        }
        assert!(ledger.0.len() <= 20, "{} are kept", ledger.0.len());
        slices
    }

    /// What slices take from one time to another.
    fn used(slices: &[(Duration, Duration)], from: Duration, to: Duration) -> Duration {
        slices.iter().map(|&(start, end)| end.min(to).saturating_sub(start.max(from))).sum()
    }

    /// What slices take of the window that ends with one of them.
    fn ending(slices: &[(Duration, Duration)], window: Duration, at: usize) -> Duration {
        used(slices, slices[at].1 - window, slices[at].1)
    }

    /// The most that slices take of any window: one that ends with a slice, or begins with one.
    fn most(slices: &[(Duration, Duration)], window: Duration) -> Duration {
        let beginning = slices.iter().map(|&(start, _)| used(slices, start, start + window));
        (0..slices.len()).map(|at| ending(slices, window, at)).chain(beginning).max().expect("there are slices")
    }

    #[test]
    fn every_window_keeps_the_mutators_share() {
        for (quantum, utilisation, window) in [(300, 70, 10_000), (500, 70, 10_000), (300, 40, 2_000), (50, 95, 7_000)]
        {
            let time = TimeParams { quantum, utilisation, window };
            let rest = time.window().mul_f64(time.rest());
            // Somewhat longer than the quantum, and by how much varies.
            for excess in [0, 1, 4, 12] {
                let found = slices(time, |number| time.quantum() + number as u32 * 7 % (excess + 1) * US);
                let used = most(&found, time.window());
                // One may exceed what the others have led to expect.
                assert!(used <= rest + 2 * excess * US, "{time:?}, {excess}: {used:?} of a window");
                // Nor are there fewer than there may be.
                let all: Duration = found.iter().map(|&(start, end)| end - start).sum();
                assert!(all.as_secs_f64() > 0.75 * time.rest() * 0.5, "{time:?}, {excess}: {all:?} in all");
            }
        }
    }

    #[test]
    fn more_is_left_than_the_mutators_share() {
        for (quantum, utilisation, most_of_window) in [(300, 70, 0.27), (500, 40, 0.54), (50, 95, 0.045)] {
            let time = TimeParams { quantum, utilisation, window: 10_000 };
            let used = most(&slices(time, |_| time.quantum()), time.window());
            let promised = time.window().mul_f64(most_of_window);
            assert!(used <= promised, "{utilisation} %: slices take {used:?} of a window");
        }
    }

    #[test]
    fn what_exceeds_the_quantum_is_paid_for() {
        let time = TimeParams::DEFAULT;
        let rest = time.window().mul_f64(time.rest());
        let excess = 1000 * US;
        // Every fiftieth slice takes longer: whatever window ends with another one has the mutator's share.
        let is_long = |number: usize| number % 50 == 49;
        let found = slices(time, |number| time.quantum() + if is_long(number) { excess } else { Duration::ZERO });
        assert!(found.len() > 300, "{} slices", found.len());
        for at in (1..found.len()).filter(|&at| !is_long(at)) {
            assert!(ending(&found, time.window(), at) <= rest, "at slice {at}");
        }
        // All do: after the first one, that is expected.
        for excess in [200, 400, 600, 1000] {
            let found = slices(time, |_| time.quantum() + excess * US);
            assert!(found.len() > 50, "{} slices", found.len());
            for at in 1..found.len() {
                assert!(ending(&found, time.window(), at) <= rest, "at slice {at} of those longer by {excess} us");
            }
        }
    }

    #[test]
    fn a_stop_beyond_measure_keeps_others_away_for_a_window() {
        let (time, mut ledger) = (TimeParams::DEFAULT, Ledger::default());
        let end = 5_000_000 * US;
        ledger.note(time, 1_000_000 * US, end);
        assert!(ledger.lacking(time, end + time.window()) > Duration::ZERO);
        assert_eq!(ledger.lacking(time, end + (end - 1_000_000 * US) / COLD + time.window()), Duration::ZERO);
    }

    #[test]
    fn another_threads_clock_is_not_compared_with() {
        let (time, mut ledger) = (TimeParams::DEFAULT, Ledger::default());
        ledger.note(time, 900 * US, 1200 * US);
        ledger.forget_after(1200 * US);
        assert!(ledger.lacking(time, 1201 * US) > Duration::ZERO);
        ledger.forget_after(3 * US);
        assert_eq!(ledger.lacking(time, 3 * US), Duration::ZERO);
    }
}
