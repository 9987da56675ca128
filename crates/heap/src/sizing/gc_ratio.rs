//! The value `gc-ratio`: after each full collection the limit is multiplied by a factor from a table over the GC load
//! and the live ratio (live bytes over the limit). While collecting takes little time the heap shrinks where it is
//! nearly empty; while it takes much the heap grows, and the more so the fuller it is.
//!
//! The classical rule: the tables are those of MMTk in Jikes RVM (`HeapGrowthManager`), one for generational
//! collectors, whose load is lower at the same comfort, and one for the others. Between the table's points the factor
//! is interpolated bilinearly. Two bounds are added:
//!
//! * At most `growth` times what is live, so that a program's memory is bounded by its data and not by its history.
//!   Above [`LARGE`] the room that this leaves grows with the square root of what is live alone: a byte of it costs the
//!   same in every heap, while what it saves does not grow with the heap (Kirisame et al., Optimal heap limits for
//!   reducing browser memory use, OOPSLA 2022).
//! * At least what was found and a quarter of that room, so that a collection is not followed by the next at once.
//!
//! What has been born during a cycle counts as live for the second bound alone: whether it is, the next cycle shows.
//!
//! The first limit is the minimum.

use super::{Bounds, Cycle, Rule};

crate::values::params! {
    /// Parameters of `gc-ratio`.
    pub struct GcRatioParams {
        /// A full collection starts at the latest when the heap is so many times the size of what survived the last:
        /// from 1.05 to 100. Of more than 64 MiB, the room above grows with their square root.
        pub growth: f64 = 2.0,
    }
}

/// Columns of both tables: live bytes over the limit.
const LIVE_RATIOS: [f64; 6] = [0.00, 0.10, 0.30, 0.60, 0.80, 1.00];
/// Rows for collectors without generations: share of time that goes into collecting.
const LOADS: [f64; 7] = [0.00, 0.02, 0.05, 0.15, 0.30, 0.50, 1.00];
/// Rows for generational collectors.
const GENERATIONAL_LOADS: [f64; 7] = [0.00, 0.01, 0.02, 0.07, 0.15, 0.40, 1.00];
/// What the limit is multiplied by, a row for each load.
const FACTORS: [[f64; 6]; 7] = [
    [0.90, 0.90, 0.95, 1.00, 1.00, 1.00],
    [0.90, 0.90, 0.95, 1.00, 1.00, 1.00],
    [0.95, 0.95, 1.00, 1.00, 1.00, 1.00],
    [1.00, 1.00, 1.10, 1.15, 1.20, 1.20],
    [1.00, 1.00, 1.20, 1.25, 1.35, 1.30],
    [1.00, 1.00, 1.25, 1.30, 1.50, 1.50],
    [1.00, 1.00, 1.25, 1.30, 1.50, 1.50],
];
/// Part of the room between what is live and `growth` times it that the limit leaves at least.
const LEAST_ROOM: f64 = 0.25;
/// Up to so many live bytes the room is in proportion to them.
const LARGE: f64 = (64 << 20) as f64;

/// The rule.
#[derive(Debug)]
pub(super) struct GcRatio {
    /// The table's rows.
    loads: &'static [f64; 7],
    growth: f64,
}

impl GcRatio {
    /// The rule for a collector that is generational, or is not.
    pub(super) fn new(params: GcRatioParams, is_generational: bool) -> GcRatio {
        GcRatio { loads: if is_generational { &GENERATIONAL_LOADS } else { &LOADS }, growth: params.growth }
    }

    /// The most room that is left above so many live bytes.
    pub(super) fn room(&self, live: f64) -> f64 {
        (self.growth - 1.0) * (live * live.min(LARGE)).sqrt()
    }

    /// The factor for a load and a live ratio, each from 0 to 1.
    fn factor(&self, load: f64, live_ratio: f64) -> f64 {
        let (row, down) = position(self.loads, load);
        let (column, right) = position(&LIVE_RATIOS, live_ratio);
        let along = |row: usize| mix(FACTORS[row][column], FACTORS[row][column + 1], right);
        mix(along(row), along(row + 1), down)
    }
}

impl Rule for GcRatio {
    fn first(&self, bounds: &Bounds) -> u64 {
        bounds.minimum
    }

    fn next(&mut self, limit: u64, cycle: Cycle, _: &Bounds) -> u64 {
        let (limit, found, old) = (limit as f64, cycle.live as f64, (cycle.live - cycle.born) as f64);
        let wanted = limit * self.factor(cycle.load, old / limit);
        let room = self.room(old);
        let least = found + room * LEAST_ROOM;
        wanted.clamp(least, least.max(old + room)) as u64
    }
}

/// Between which two points a value lies: the lower one's index, and how far towards the other, from 0 to 1. Values
/// outside of the axis count as its ends.
fn position(axis: &[f64], value: f64) -> (usize, f64) {
    let value = value.clamp(axis[0], axis[axis.len() - 1]);
    let lower = axis.partition_point(|&point| point <= value).clamp(1, axis.len() - 1) - 1;
    (lower, (value - axis[lower]) / (axis[lower + 1] - axis[lower]))
}

fn mix(from: f64, to: f64, part: f64) -> f64 {
    from + (to - from) * part
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_tables_points_are_met() {
        for is_generational in [false, true] {
            let rule = GcRatio::new(GcRatioParams::DEFAULT, is_generational);
            for (row, &load) in rule.loads.iter().enumerate() {
                for (column, &live_ratio) in LIVE_RATIOS.iter().enumerate() {
                    let factor = rule.factor(load, live_ratio);
                    assert!((factor - FACTORS[row][column]).abs() < 1e-12, "{load}, {live_ratio}: {factor}");
                }
            }
        }
    }

    #[test]
    fn factors_in_between_are_interpolated() {
        let rule = GcRatio::new(GcRatioParams::DEFAULT, true);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} is not {b}");
        near(rule.factor(0.07, 0.45), 1.125);
        near(rule.factor(0.11, 0.30), 1.15);
        near(rule.factor(0.11, 0.45), (1.10 + 1.15 + 1.20 + 1.25) / 4.0);
        near(rule.factor(7.0, 3.0), 1.50);
        near(rule.factor(-1.0, -1.0), 0.90);
    }

    #[test]
    fn large_heaps_have_less_room_for_their_size() {
        let rule = GcRatio::new(GcRatioParams::DEFAULT, true);
        let mib = f64::from(1 << 20);
        assert_eq!([1.0, 64.0, 256.0, 1024.0].map(|live| rule.room(live * mib) / mib), [1.0, 64.0, 128.0, 256.0]);
    }

    #[test]
    fn what_was_born_in_a_cycle_is_no_reason_for_a_larger_heap() {
        let mut rule = GcRatio::new(GcRatioParams::DEFAULT, true);
        let bounds = Bounds { minimum: 0, maximum: u64::MAX, nursery: 0 };
        let (pause, mutator) = (Duration::from_secs(1), Duration::ZERO);
        let cycle = Cycle { live: 40 << 20, size: 0, allocated: 0, born: 0, load: 1.0, pause, mutator, stalled: false };
        let mut next = |born| rule.next(10 << 40, Cycle { born, ..cycle }, &bounds) >> 20;
        assert_eq!([0, 10 << 20, 30 << 20].map(&mut next), [80, 60, 42]);
    }

    #[test]
    fn more_load_never_means_less_heap() {
        let rule = GcRatio::new(GcRatioParams::DEFAULT, false);
        for live in 0..=20 {
            let factors: Vec<f64> =
                (0..=100).map(|load| rule.factor(load as f64 / 100.0, live as f64 / 20.0)).collect();
            assert!(factors.is_sorted(), "live ratio {}: {factors:?}", live as f64 / 20.0);
        }
    }
}
