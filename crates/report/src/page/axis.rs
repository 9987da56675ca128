//! Axes: from values to positions, with ticks at round values.

use std::time::Duration;

use super::units;

/// One axis of a chart.
pub(super) struct Axis {
    low: f64,
    high: f64,
    log: bool,
    ticks: Vec<f64>,
    label: fn(f64) -> String,
}

/// Ticks on a linear axis, about.
const TICKS: f64 = 5.0;

impl Axis {
    /// Seconds, from 0 to exactly `high`.
    pub(super) fn seconds(high: f64) -> Axis {
        let high = if high > 0.0 { high } else { 1.0 };
        let step = round_step(high / (2.0 * TICKS));
        let ticks = multiples(step, (high / step).floor());
        Axis { low: 0.0, high, log: false, ticks, label: seconds }
    }

    /// Bytes, from 0 to a round size that is at least `high`; the label says the unit.
    pub(super) fn bytes(high: f64, label: fn(f64) -> String) -> Axis {
        let step = 2f64.powf((high.max(1.0) / TICKS).log2().ceil());
        Axis::up_from_zero(high, step, label)
    }

    /// Counts on a logarithmic axis to a power of ten that is at least `high`; a single one is above the ground.
    pub(super) fn log_counts(high: u64) -> Axis {
        let powers = (high.max(2) as f64).log10().ceil() as i32;
        let ticks = (0..=powers).map(|power| 10f64.powi(power)).collect();
        let label = |count| units::count(count as u64);
        Axis { low: 0.5, high: 10f64.powi(powers), log: true, ticks, label }
    }

    /// Shares, from 0 to a round value that is at least `high`.
    pub(super) fn shares(high: f64) -> Axis {
        let high = if high > 0.0 { high } else { 1.0 };
        Axis::up_from_zero(high, round_step(high / TICKS), share)
    }

    fn up_from_zero(high: f64, step: f64, label: fn(f64) -> String) -> Axis {
        // A little less than the quotient, for the last bits of a division may be wrong.
        let steps = (high / step - 1e-9).ceil().max(1.0);
        Axis { low: 0.0, high: steps * step, log: false, ticks: multiples(step, steps), label }
    }

    /// Shares from 0 to 1.
    pub(super) fn whole_share() -> Axis {
        Axis::up_from_zero(1.0, 0.25, share)
    }

    /// Durations in seconds on a logarithmic axis from a round value to a round value that cover `low` to `high`.
    pub(super) fn durations(low: f64, high: f64) -> Axis {
        let (low, high) = (low.max(1e-9), high.max(1e-9));
        let powers = low.log10().floor() as i32..=high.log10().floor() as i32 + 1;
        let round: Vec<_> = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|factor| factor * 10f64.powi(power))).collect();
        // A little wider, for the last bits of a power may be wrong.
        let first = round.iter().rposition(|&value| value <= low * 1.000_001).unwrap_or(0);
        let last = round.iter().position(|&value| value >= high * 0.999_999).unwrap_or(round.len() - 1).max(first + 1);
        let (low, high) = (round[first], round[last]);
        // On a long axis, powers of ten alone.
        let every = if high / low > 1e4 { 3 } else { 1 };
        let ticks = (first..=last).filter(|index| index % every == 0).map(|index| round[index]).collect();
        Axis { low, high, log: true, ticks, label: duration }
    }

    /// Where a value lies: 0 at the low end, 1 at the high end, and nowhere else.
    pub(super) fn place(&self, value: f64) -> f64 {
        let place = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        place.clamp(0.0, 1.0)
    }

    /// Places of the ticks, with their labels.
    pub(super) fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        self.ticks.iter().map(|&tick| (self.place(tick), (self.label)(tick)))
    }

    /// The values at the ends.
    pub(super) fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }
}

fn multiples(step: f64, count: f64) -> Vec<f64> {
    (0..=count as usize).map(|index| index as f64 * step).collect()
}

/// The least of 1, 2, 5 times a power of ten that is at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factors = [1.0, 2.0, 5.0];
    power * factors.into_iter().find(|factor| factor * power >= step * 0.9999).unwrap_or(10.0)
}

fn seconds(seconds: f64) -> String {
    format!("{} s", without_last_digits(seconds))
}

fn share(share: f64) -> String {
    format!("{} %", without_last_digits(share * 100.0))
}

/// Multiples of steps such as 0.1 have wrong last digits.
fn without_last_digits(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

fn duration(seconds: f64) -> String {
    let ns = (seconds * 1e9).round();
    let scales = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    let (scale, unit) = scales.into_iter().find(|(scale, _)| ns >= *scale).unwrap_or((1.0, "ns"));
    format!("{} {unit}", ns / scale)
}

/// The label of a size.
pub(super) fn size(bytes: f64) -> String {
    whole(units::bytes(bytes as u64))
}

/// The label of a rate.
pub(super) fn rate(bytes_per_second: f64) -> String {
    whole(units::rate(bytes_per_second))
}

fn whole(text: String) -> String {
    text.replace(".00 ", " ")
}

/// Seconds as a duration, for those who print them.
pub(super) fn from_seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            labels(&Axis::seconds(0.73)),
            ["0 s", "0.1 s", "0.2 s", "0.3 s", "0.4 s", "0.5 s", "0.6 s", "0.7 s"]
        );
        assert_eq!(labels(&Axis::bytes(50e6, size)), ["0 B", "16 MiB", "32 MiB", "48 MiB"]);
        assert_eq!(labels(&Axis::durations(3e-6, 50e-3)), ["10 µs", "100 µs", "1 ms", "10 ms"]);
        assert_eq!(labels(&Axis::durations(2e-3, 3e-3)), ["2 ms", "5 ms"]);
        assert_eq!(labels(&Axis::durations(0.99e-3, 10e-3)), ["500 µs", "1 ms", "2 ms", "5 ms", "10 ms"]);
        assert_eq!(labels(&Axis::durations(1e-3, 1e-3)), ["1 ms", "2 ms"]);
        assert_eq!(labels(&Axis::durations(0.0, 0.0)), ["1 ns", "2 ns"]);
        assert_eq!(labels(&Axis::whole_share()), ["0 %", "25 %", "50 %", "75 %", "100 %"]);
        assert_eq!(labels(&Axis::shares(0.0013)), ["0 %", "0.05 %", "0.1 %", "0.15 %"]);
        assert_eq!(labels(&Axis::log_counts(0)), ["1", "10"]);
        assert_eq!(labels(&Axis::log_counts(10)), ["1", "10"]);
        assert_eq!(labels(&Axis::log_counts(3_900)), ["1", "10", "100", "1,000", "10,000"]);
    }

    #[test]
    fn places_lie_between_the_ends() {
        let axis = Axis::durations(1e-6, 1e-2);
        assert_eq!(axis.place(1e-6), 0.0);
        assert!((axis.place(1e-4) - 0.5).abs() < 1e-12);
        assert_eq!((axis.place(0.0), axis.place(5.0)), (0.0, 1.0));
        for empty in [Axis::seconds(0.0), Axis::log_counts(0), Axis::shares(0.0), Axis::bytes(0.0, size)] {
            assert_eq!((empty.place(0.0), empty.place(1e30)), (0.0, 1.0));
        }
    }
}
