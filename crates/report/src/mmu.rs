//! Minimum mutator utilisation (Cheng and Blelloch, "A Parallel, Real-Time Garbage Collector", PLDI 2001): the least
//! share of any window of a given length that was left to the mutator.

use std::time::Duration;

/// One pause, from and to, in nanoseconds since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pause {
    start: u64,
    end: u64,
    /// Length of all pauses before this one, in nanoseconds.
    before: u64,
}

/// When the mutator stood still.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct PauseTimeline {
    pauses: Vec<Pause>,
}

impl PauseTimeline {
    /// No pauses.
    pub fn new() -> PauseTimeline {
        PauseTimeline::default()
    }

    /// Adds a pause. It begins no earlier than the last one ended: what overlaps is cut off.
    pub fn push(&mut self, start: Duration, pause: Duration) {
        let last_end = self.pauses.last().map_or(0, |last| last.end);
        let end = nanoseconds(start.saturating_add(pause)).max(last_end);
        let start = nanoseconds(start).max(last_end);
        self.pauses.push(Pause { start, end, before: nanoseconds(self.paused()) });
    }

    /// When the last pause ended.
    pub fn end(&self) -> Duration {
        Duration::from_nanos(self.pauses.last().map_or(0, |last| last.end))
    }

    /// All pauses together.
    pub fn paused(&self) -> Duration {
        Duration::from_nanos(self.pauses.last().map_or(0, |last| last.before + last.end - last.start))
    }

    /// The minimum mutator utilisation, from 0 to 1, over all windows of length `window` that lie between 0 and
    /// `total`, which is at least [`end`](Self::end). `None` for an empty window and for one longer than `total`.
    ///
    /// Exact: sliding a window later while it starts outside a pause, or earlier while it starts within one, never
    /// leaves it less paused time. So no window has more than some window that starts with a pause; and what of such a
    /// window lies beyond `total` could as well lie before it.
    pub fn minimum_utilisation(&self, window: Duration, total: Duration) -> Option<f64> {
        let (window, total) = (nanoseconds(window), nanoseconds(total.max(self.end())));
        if window == 0 || window > total {
            return None;
        }
        let mut from = Cursor { pauses: &self.pauses, at: 0 };
        let mut to = Cursor { pauses: &self.pauses, at: 0 };
        let starts = self.pauses.iter().map(|pause| pause.start);
        let most = starts.map(|start| to.paused_before(start.saturating_add(window)) - from.paused_before(start)).max();
        Some(1.0 - most.unwrap_or(0) as f64 / window as f64)
    }
}

/// Answers questions about times that do not decrease.
struct Cursor<'a> {
    pauses: &'a [Pause],
    at: usize,
}

impl Cursor<'_> {
    /// Paused time before `time`.
    fn paused_before(&mut self, time: u64) -> u64 {
        while self.at < self.pauses.len() && self.pauses[self.at].end <= time {
            self.at += 1;
        }
        match (self.pauses.get(self.at), self.pauses.last()) {
            (Some(pause), _) => pause.before + time.saturating_sub(pause.start),
            (None, Some(last)) => last.before + last.end - last.start,
            (None, None) => 0,
        }
    }
}

/// Nanoseconds, up to the 584 years that 64 bits hold.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn ns(count: u64) -> Duration {
        Duration::from_nanos(count)
    }

    fn timeline(pauses: &[(u64, u64)]) -> PauseTimeline {
        let mut timeline = PauseTimeline::new();
        for &(start, end) in pauses {
            timeline.push(ns(start), ns(end - start));
        }
        timeline
    }

    #[test]
    fn known_utilisations() {
        // Of 100: paused from 10 to 20, and from 25 to 30.
        let timeline = timeline(&[(10, 20), (25, 30)]);
        let utilisation = |window| timeline.minimum_utilisation(ns(window), ns(100));
        assert_eq!(utilisation(1), Some(0.0));
        assert_eq!(utilisation(10), Some(0.0));
        assert_eq!(utilisation(20), Some(0.25));
        assert_eq!(utilisation(50), Some(0.7));
        assert_eq!(utilisation(100), Some(0.85));
        assert_eq!(utilisation(101), None);
        assert_eq!(utilisation(0), None);
        assert_eq!(timeline.paused(), ns(15));
    }

    #[test]
    fn without_pauses_all_is_the_mutators() {
        assert_eq!(PauseTimeline::new().minimum_utilisation(ns(5), ns(10)), Some(1.0));
        assert_eq!(PauseTimeline::new().minimum_utilisation(ns(5), ns(0)), None);
    }

    #[test]
    fn overlap_is_cut_off() {
        let timeline = timeline(&[(0, 10), (5, 12), (6, 8)]);
        assert_eq!((timeline.paused(), timeline.end()), (ns(12), ns(12)));
    }

    /// Pauses and gaps of 0 to 7 ns, and what follows the last.
    fn gaps_and_pauses() -> impl Strategy<Value = (Vec<(u64, u64)>, u64)> {
        (prop::collection::vec((0..8u64, 0..8u64), 0..12), 0..8u64)
    }

    proptest! {
        /// All boundaries are whole nanoseconds, and between them the paused time in a window changes linearly: trying
        /// every whole start finds the minimum.
        #[test]
        fn agrees_with_trying_every_window((steps, rest) in gaps_and_pauses(), window in 1..60u64) {
            let mut paused = Vec::new();
            let mut pauses = Vec::new();
            for (gap, pause) in steps {
                let start = paused.len() as u64 + gap;
                pauses.push((start, start + pause));
                paused.resize(start as usize, false);
                paused.resize((start + pause) as usize, true);
            }
            paused.resize(paused.len() + rest as usize, false);
            let most = paused.windows(window as usize).map(|shown| shown.iter().filter(|&&still| still).count()).max();
            let expected = most.map(|most| 1.0 - most as f64 / window as f64);
            prop_assert_eq!(timeline(&pauses).minimum_utilisation(ns(window), ns(paused.len() as u64)), expected);
        }
    }
}
