//! Minimum mutator utilisation (Cheng and Blelloch, "A Parallel, Real-Time Garbage Collector", PLDI 2001): the least
//! share of any window of a given length that was left to the mutator.
//!
//! It is found while the stops come in. For each length of windows, the stops are kept that a window which ends now may
//! have in it. Many short ones become one *piece*, so that memory is bounded however many stops there are.

use std::collections::VecDeque;
use std::time::Duration;

/// Stops within a window's length divided by this become one piece. So a utilisation is too low by one part in so many
/// at most, and never too high.
const PRECISION: u64 = 1000;

/// Lengths of windows in each decade.
const LENGTHS: [u64; 6] = [10, 15, 20, 30, 50, 70];
/// The shortest decade's factor: from 100 us.
const SHORTEST: u64 = 10_000;
/// Decades: up to 100 s, beyond which a curve says little.
const DECADES: u32 = 6;

/// Some stops behind each other, in nanoseconds since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    start: u64,
    end: u64,
    /// The stops together.
    stopped: u64,
}

/// All windows of one length.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    length: u64,
    /// What reaches into the window that ends with the last stop, oldest first.
    pieces: VecDeque<Piece>,
    /// All pieces together.
    stopped: u64,
    /// The most that any window had of stops.
    most: u64,
}

impl Window {
    /// Windows of so many nanoseconds, at least one.
    fn of(length: u64) -> Window {
        Window { length: length.max(1), pieces: VecDeque::new(), stopped: 0, most: 0 }
    }

    /// Windows of such a length, which is not zero.
    pub(crate) fn new(length: Duration) -> Window {
        Window::of(nanoseconds(length))
    }

    /// Adds a stop, which begins no earlier than the last one ended.
    ///
    /// Only windows that end with a stop need be looked at: sliding a window earlier while it ends outside a stop, or
    /// later while it ends within one, never leaves it less of the stops. What would begin before the start may as well
    /// begin with it.
    fn add(&mut self, start: u64, end: u64) {
        let from = end.saturating_sub(self.length);
        while let Some(oldest) = self.pieces.front().filter(|oldest| oldest.end <= from) {
            self.stopped -= oldest.stopped;
            self.pieces.pop_front();
        }
        self.stopped += end - start;
        match self.pieces.back_mut() {
            Some(last) if end - last.start <= self.length / PRECISION => {
                last.end = end;
                last.stopped += end - start;
            }
            _ => self.pieces.push_back(Piece { start, end, stopped: end - start }),
        }
        // Of the oldest piece, no more than this can lie within.
        let before = self.pieces.front().map_or(0, |oldest| oldest.stopped.saturating_sub(oldest.end - from));
        self.most = self.most.max(self.stopped - before);
    }

    /// Adds a stop.
    pub(crate) fn push(&mut self, start: Duration, wall: Duration) {
        let last_end = self.pieces.back().map_or(0, |last| last.end);
        let (start, end) = span(start, wall, last_end);
        self.add(start, end);
    }

    /// Forgets the windows so far, but not the stops: from now on, windows count that end later.
    pub(crate) fn restart(&mut self) {
        self.most = 0;
    }

    /// The least share of a window that was the mutator's, from 0 to 1.
    pub(crate) fn utilisation(&self) -> f64 {
        1.0 - self.most as f64 / self.length as f64
    }
}

/// From and to in nanoseconds; what lies before the end of the last stop is cut off.
fn span(start: Duration, wall: Duration, last_end: u64) -> (u64, u64) {
    let end = nanoseconds(start.saturating_add(wall)).max(last_end);
    (nanoseconds(start).max(last_end), end)
}

/// The minimum mutator utilisation over the length of the window, for lengths from 100 us to 100 s: 1, 1.5, 2, 3, 5, 7,
/// 10 and so on. Takes at most two megabytes, however many stops there were.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UtilisationCurve {
    windows: Vec<Window>,
    end: u64,
    stopped: u64,
}

impl UtilisationCurve {
    /// No stops.
    pub fn new() -> UtilisationCurve {
        let decades = (0..DECADES).map(|decade| SHORTEST * 10u64.pow(decade));
        let lengths = decades.flat_map(|factor| LENGTHS.map(|length| length * factor));
        UtilisationCurve::of(lengths.chain([LENGTHS[0] * SHORTEST * 10u64.pow(DECADES)]))
    }

    /// For windows of these lengths, in nanoseconds.
    fn of(lengths: impl IntoIterator<Item = u64>) -> UtilisationCurve {
        UtilisationCurve { windows: lengths.into_iter().map(Window::of).collect(), end: 0, stopped: 0 }
    }

    /// Adds a stop of the mutator. It begins no earlier than the last one ended: what overlaps is cut off.
    pub fn push(&mut self, start: Duration, wall: Duration) {
        let (start, end) = span(start, wall, self.end);
        for window in &mut self.windows {
            window.add(start, end);
        }
        self.end = end;
        self.stopped += end - start;
    }

    /// When the last stop ended.
    pub fn end(&self) -> Duration {
        Duration::from_nanos(self.end)
    }

    /// All stops together.
    pub fn stopped(&self) -> Duration {
        Duration::from_nanos(self.stopped)
    }

    /// The lengths of windows, ascending.
    pub fn windows(&self) -> impl Iterator<Item = Duration> {
        self.windows.iter().map(|window| Duration::from_nanos(window.length))
    }

    /// The minimum mutator utilisation, from 0 to 1, over all windows of length `window` that lie between 0 and
    /// `total`, which is at least [`end`](Self::end). Too low by 0.001 at most. `None` for a length that is not one of
    /// [`windows`](Self::windows), or is longer than `total`.
    pub fn minimum_utilisation(&self, window: Duration, total: Duration) -> Option<f64> {
        let (length, total) = (nanoseconds(window), nanoseconds(total.max(self.end())));
        let window = self.windows.iter().find(|window| window.length == length)?;
        (length <= total).then(|| window.utilisation())
    }

    /// How many pieces are kept for all lengths together, and how many there can be.
    #[cfg(test)]
    pub(crate) fn pieces(&self) -> (usize, usize) {
        // Two neighbours are longer than a thousandth of the window.
        let bound = self.windows.len() * (2 * PRECISION as usize + 2);
        (self.windows.iter().map(|window| window.pieces.len()).sum(), bound)
    }
}

impl Default for UtilisationCurve {
    fn default() -> UtilisationCurve {
        UtilisationCurve::new()
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

    fn curve(lengths: &[u64], stops: &[(u64, u64)]) -> UtilisationCurve {
        let mut curve = UtilisationCurve::of(lengths.iter().copied());
        for &(start, end) in stops {
            curve.push(ns(start), ns(end - start));
        }
        curve
    }

    #[test]
    fn known_utilisations() {
        // Of 100: stopped from 10 to 20, and from 25 to 30.
        let curve = curve(&[1, 10, 20, 50, 100, 101], &[(10, 20), (25, 30)]);
        let utilisation = |window| curve.minimum_utilisation(ns(window), ns(100));
        assert_eq!(utilisation(1), Some(0.0));
        assert_eq!(utilisation(10), Some(0.0));
        assert_eq!(utilisation(20), Some(0.25));
        assert_eq!(utilisation(50), Some(0.7));
        assert_eq!(utilisation(100), Some(0.85));
        assert_eq!(utilisation(101), None);
        assert_eq!(utilisation(30), None, "it was not asked for before");
        assert_eq!((curve.stopped(), curve.end()), (ns(15), ns(30)));
    }

    #[test]
    fn without_stops_all_is_the_mutators() {
        let curve = UtilisationCurve::new();
        assert_eq!(curve.minimum_utilisation(Duration::from_millis(5), Duration::from_millis(5)), Some(1.0));
        assert_eq!(curve.minimum_utilisation(Duration::from_millis(5), Duration::from_millis(4)), None);
        let windows: Vec<_> = curve.windows().collect();
        assert!(windows.is_sorted());
        for ms in [1, 2, 5, 10, 20, 50, 100] {
            assert!(windows.contains(&Duration::from_millis(ms)), "{windows:?}");
        }
        assert_eq!((windows[0], windows[36]), (Duration::from_micros(100), Duration::from_secs(100)));
    }

    #[test]
    fn overlap_is_cut_off() {
        let curve = curve(&[6], &[(0, 10), (5, 12), (6, 8)]);
        assert_eq!((curve.stopped(), curve.end()), (ns(12), ns(12)));
    }

    #[test]
    fn a_restart_forgets_what_was_before() {
        let mut window = Window::new(ns(10));
        window.push(ns(0), ns(8));
        assert!((window.utilisation() - 0.2).abs() < 1e-9);
        window.restart();
        window.push(ns(12), ns(1));
        // From 3 to 13.
        assert!((window.utilisation() - 0.4).abs() < 1e-9, "{window:?}");
        window.restart();
        window.push(ns(100), ns(1));
        assert!((window.utilisation() - 0.9).abs() < 1e-9, "{window:?}");
    }

    /// The least utilisation by trying every whole start: all boundaries are whole nanoseconds, and between them the
    /// time of stops in a window changes linearly. `None` if there is no such window.
    fn by_trying(stops: &[(u64, u64)], total: u64, window: u64) -> Option<f64> {
        let mut before = vec![0];
        for &(start, end) in stops {
            before.resize(start as usize + 1, before[before.len() - 1]);
            (start..end).for_each(|_| before.push(before[before.len() - 1] + 1));
        }
        before.resize(total as usize + 1, before[before.len() - 1]);
        let most = before.windows(window as usize + 1).map(|shown| shown[window as usize] - shown[0]).max();
        most.map(|most: u64| 1.0 - most as f64 / window as f64)
    }

    /// Stops and gaps up to such lengths, and when what follows the last one ends.
    fn stops(gap: u64, stop: u64, count: usize) -> impl Strategy<Value = (Vec<(u64, u64)>, u64)> {
        (prop::collection::vec((0..gap, 0..stop), 0..count), 0..gap).prop_map(|(steps, rest)| {
            let mut end = 0;
            let place = |(gap, stop)| {
                let start = end + gap;
                end = start + stop;
                (start, end)
            };
            let stops: Vec<_> = steps.into_iter().map(place).collect();
            (stops, end + rest)
        })
    }

    proptest! {
        /// Windows so short that no piece has two stops.
        #[test]
        fn agrees_with_trying_every_window((stops, total) in stops(8, 8, 12), window in 1..60u64) {
            let found = curve(&[window], &stops).minimum_utilisation(ns(window), ns(total));
            prop_assert_eq!(found, by_trying(&stops, total, window));
        }

        /// Windows of thousands of nanoseconds, so that pieces have several stops.
        #[test]
        fn is_a_little_too_low_at_most(
            (stops, total) in stops(30, 10, 1500),
            windows in prop::collection::vec(3_000..20_000u64, 3),
        ) {
            let curve = curve(&windows, &stops);
            for window in windows {
                let found = curve.minimum_utilisation(ns(window), ns(total));
                let expected = by_trying(&stops, total, window);
                prop_assert_eq!(found.is_some(), expected.is_some());
                let (found, expected) = (found.unwrap_or(0.0), expected.unwrap_or(0.0));
                prop_assert!(found <= expected && found >= expected - 1.0 / PRECISION as f64, "{found} {expected}");
            }
        }
    }
}
