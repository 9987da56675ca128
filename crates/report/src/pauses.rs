//! The distribution of the lengths of stops.

use std::time::Duration;

use hdrhistogram::Histogram;
use legato_heap::{GcStop, StopKind};

use crate::mmu::nanoseconds;
use crate::statistics::{Distribution, Pauses};

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

    pub(crate) fn mean(&self) -> Duration {
        Duration::from_nanos(nanoseconds(self.total) / self.count().max(1))
    }

    fn distribution(&self) -> Distribution {
        let microseconds = |duration: Duration| duration.as_nanos() as f64 / 1e3;
        let quantile = |quantile| microseconds(self.quantile(quantile));
        Distribution {
            total_us: microseconds(self.total),
            mean_us: microseconds(self.total) / self.count().max(1) as f64,
            p50_us: quantile(0.5),
            p90_us: quantile(0.9),
            p99_us: quantile(0.99),
            p99_9_us: quantile(0.999),
            max_us: microseconds(self.max),
        }
    }
}

/// Stops by the clock on the wall, and by the time that their thread had a processor.
#[derive(Clone, Debug)]
pub(crate) struct Stops {
    pub(crate) wall: PauseHistogram,
    pub(crate) cpu: PauseHistogram,
}

impl Stops {
    pub(crate) fn new() -> Stops {
        Stops { wall: PauseHistogram::new(), cpu: PauseHistogram::new() }
    }

    fn add(&mut self, other: &Stops) {
        self.wall.add(&other.wall);
        self.cpu.add(&other.cpu);
    }

    pub(crate) fn statistics(&self) -> Pauses {
        Pauses { count: self.wall.count(), wall: self.wall.distribution(), cpu: self.cpu.distribution() }
    }
}

/// Stops by kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopsByKind {
    /// Kinds that occurred, in the order of [`StopKind::ALL`].
    kinds: Vec<(StopKind, Stops)>,
}

impl StopsByKind {
    pub(crate) fn record(&mut self, stop: &GcStop) {
        let place = self.kinds.binary_search_by_key(&stop.kind, |(kind, _)| *kind);
        let place = place.unwrap_or_else(|place| {
            self.kinds.insert(place, (stop.kind, Stops::new()));
            place
        });
        let stops = &mut self.kinds[place].1;
        stops.wall.record(stop.wall);
        stops.cpu.record(stop.cpu);
    }

    /// Kinds that occurred.
    pub(crate) fn kinds(&self) -> &[(StopKind, Stops)] {
        &self.kinds
    }

    /// How many there were of a kind.
    pub(crate) fn count(&self, kind: StopKind) -> u64 {
        self.kinds.iter().find(|(of, _)| *of == kind).map_or(0, |(_, stops)| stops.wall.count())
    }

    /// Stops of all kinds that are pauses.
    pub(crate) fn all(&self) -> Stops {
        self.sum(StopKind::is_pause)
    }

    /// Stops of all kinds.
    pub(crate) fn with_idle(&self) -> Stops {
        self.sum(|_| true)
    }

    fn sum(&self, counts: impl Fn(StopKind) -> bool) -> Stops {
        let mut sum = Stops::new();
        self.kinds.iter().filter(|(kind, _)| counts(*kind)).for_each(|(_, stops)| sum.add(stops));
        sum
    }
}
