//! The distribution of pauses.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::mmu::nanoseconds;
use crate::statistics::Pauses;

/// Longer pauses count as this long in the percentiles; the maximum is exact all the same.
const LONGEST: u64 = 24 * 3600 * 1_000_000_000;
/// Percentiles are off by one part in a thousand at most.
const DIGITS: u8 = 3;

/// Pauses, counted by their length in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct PauseHistogram {
    counts: Histogram<u64>,
    total: Duration,
    max: Duration,
}

impl PauseHistogram {
    pub(crate) fn new() -> PauseHistogram {
        let counts = Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("constant bounds are valid");
        PauseHistogram { counts, total: Duration::ZERO, max: Duration::ZERO }
    }

    pub(crate) fn record(&mut self, pause: Duration) {
        self.counts.saturating_record(nanoseconds(pause));
        self.total += pause;
        self.max = self.max.max(pause);
    }

    /// Adds the pauses of another histogram.
    pub(crate) fn add(&mut self, other: &PauseHistogram) {
        self.counts.add(&other.counts).expect("all histograms have the same bounds");
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.len()
    }

    pub(crate) fn total(&self) -> Duration {
        self.total
    }

    pub(crate) fn max(&self) -> Duration {
        self.max
    }

    /// The shortest pause, within the histogram's precision.
    pub(crate) fn min(&self) -> Duration {
        Duration::from_nanos(self.counts.min())
    }

    /// The pause that a share of `quantile` of all pauses does not exceed.
    pub(crate) fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.counts.value_at_quantile(quantile)).min(self.max)
    }

    /// Lengths that occurred, ascending, with how many pauses were so long, within the histogram's precision.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = (Duration, u64)> {
        self.counts.iter_recorded().map(|step| (Duration::from_nanos(step.value_iterated_to()), step.count_at_value()))
    }

    pub(crate) fn statistics(&self) -> Pauses {
        let microseconds = |duration: Duration| duration.as_nanos() as f64 / 1e3;
        let quantile = |quantile| microseconds(self.quantile(quantile));
        let count = self.count();
        Pauses {
            count,
            total_us: microseconds(self.total),
            mean_us: if count == 0 { 0.0 } else { microseconds(self.total) / count as f64 },
            p50_us: quantile(0.5),
            p90_us: quantile(0.9),
            p99_us: quantile(0.99),
            p99_9_us: quantile(0.999),
            max_us: microseconds(self.max),
        }
    }
}
