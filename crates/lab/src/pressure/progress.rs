//! How fast a program comes on, seen from its collections: where it always does the same work, what it allocates is a
//! measure of that.

use crate::contestants::worker::Pause;

/// Bytes that a program has allocated over time. Between two collections it allocates evenly, within one nothing.
pub(super) struct Progress {
    /// Times in seconds, and bytes until then.
    points: Vec<(f64, f64)>,
    /// Ends of collections, and whether it was more than the nursery.
    ends: Vec<(f64, bool)>,
}

/// A time in which others have taken memory, in seconds on the program's clock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Wave {
    /// They began to.
    pub(super) begin: f64,
    /// They had given it back.
    pub(super) end: f64,
    /// They began again, or the program ended.
    pub(super) until: f64,
}

/// When a program was back where it had been.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Back {
    /// Collections since the end of the wave.
    pub(super) collections: usize,
    /// Those that were not of the nursery alone.
    pub(super) full: usize,
    /// Seconds since then.
    pub(super) seconds: f64,
    /// It was not until the end of the time. The figures are at least these.
    pub(super) is_late: bool,
}

impl Progress {
    pub(super) fn of(pauses: &[Pause]) -> Progress {
        let mut points = vec![(0.0, 0.0)];
        let mut bytes = 0.0;
        for pause in pauses {
            bytes += pause.allocated.unwrap_or(0) as f64;
            points.extend([(pause.at, bytes), (pause.at + pause.seconds, bytes)]);
        }
        let ends = pauses.iter().map(|pause| (pause.at + pause.seconds, pause.kind != "nursery")).collect();
        Progress { points, ends }
    }

    /// Bytes allocated until then. `None` after the last collection.
    fn at(&self, time: f64) -> Option<f64> {
        let next = self.points.partition_point(|point| point.0 < time);
        let (&(before, from), &(after, to)) = (self.points.get(next.saturating_sub(1))?, self.points.get(next)?);
        if after <= before { Some(to) } else { Some(from + (to - from) * (time - before) / (after - before)) }
    }

    /// Bytes in a second between two times. `None` if the program was not under way all the time.
    pub(super) fn rate(&self, from: f64, to: f64) -> Option<f64> {
        let rate = (self.at(to)? - self.at(from)?) / (to - from);
        rate.is_finite().then_some(rate)
    }

    /// When, after a wave, the rate over the next `window` seconds was at least `wanted` for the first time: at once,
    /// or at the end of a collection. `None` if the program ended too soon.
    pub(super) fn back(&self, wave: &Wave, window: f64, wanted: f64) -> Option<Back> {
        let last = wave.until - window;
        self.rate(wave.end, wave.until)?;
        let later = self.ends.iter().filter(|(time, _)| (wave.end..=last).contains(time));
        let mut back = Back { collections: 0, full: 0, seconds: 0.0, is_late: false };
        let is_back = |time: f64| self.rate(time, time + window).is_some_and(|rate| rate >= wanted);
        if is_back(wave.end) {
            return Some(back);
        }
        for &(time, is_full) in later {
            back.collections += 1;
            back.full += usize::from(is_full);
            back.seconds = time - wave.end;
            if is_back(time) {
                return Some(back);
            }
        }
        Some(Back { is_late: true, seconds: last - wave.end, ..back })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collection(kind: &str, at: f64, allocated: u64) -> Pause {
        Pause { kind: kind.into(), at, seconds: 0.1, allocated: Some(allocated), live: None }
    }

    /// A collection in each second, every second one full, and so many bytes allocated before each.
    fn program(allocated: &[u64]) -> Progress {
        let kinds = ["nursery", "full"].into_iter().cycle();
        let each = allocated.iter().zip(kinds).enumerate();
        let pauses = each.map(|(at, (&bytes, kind))| collection(kind, at as f64 + 0.9, bytes));
        Progress::of(&pauses.collect::<Vec<_>>())
    }

    #[test]
    fn rates_are_of_what_is_allocated_between_collections() {
        let progress = program(&[90, 900, 900]);
        assert_eq!(progress.rate(0.0, 0.9), Some(100.0));
        assert_eq!(progress.rate(0.9, 1.0), Some(0.0), "while it stands still");
        assert!((progress.rate(0.0, 2.0).unwrap() - 495.0).abs() < 1e-9);
        assert_eq!(progress.rate(2.0, 3.5), None, "nobody knows what happened behind the last collection");
    }

    #[test]
    fn collections_are_counted_until_the_rate_is_back() {
        // Pressure from 3 s to 5.5 s; the program is slow until the collection that ends at 8 s.
        let progress = program(&[100, 100, 100, 10, 10, 20, 20, 20, 95, 95, 95, 95]);
        let wave = Wave { begin: 3.0, end: 5.5, until: 11.2 };
        let back = progress.back(&wave, 1.0, 90.0).unwrap();
        assert_eq!((back.collections, back.full, back.is_late), (3, 2, false), "those at 6, 7 and 8 s");
        assert!((back.seconds - 2.5).abs() < 1e-9);
        assert_eq!(progress.back(&wave, 1.0, 15.0).map(|back| back.collections), Some(0), "at once");
        let late = progress.back(&wave, 1.0, 99.0).unwrap();
        assert!(late.is_late && late.collections == 5, "{late:?}");
        assert_eq!(progress.back(&Wave { until: 30.0, ..wave }, 1.0, 90.0), None, "the program ended too soon");
    }
}
