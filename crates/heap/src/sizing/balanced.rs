//! The value `balanced`: what is live, and as much more as is worth the memory, by the rule with the square root.
//!
//! A byte of room that every heap of a machine has last, if it went to another one, should save as much collecting
//! there as here. What minimises the sum of all is `limit = live + sqrt(live * allocation / (c * speed))`, where
//! `allocation` is what the program allocates in a second, `speed` what a collection marks in one, and `c` the price of
//! memory, the same for all heaps.
//!
//! Source: MemBalancer (Kirisame, Shenoy and Panchekha, *Optimal Heap Limits for Reducing Browser Memory Use*, OOPSLA
//! 2022). Both rates are ratios of two smoothed sums, as there; smoothed from one full collection to the next, with no
//! clock that ticks in between.

use super::{Bounds, Cycle, Rule};

crate::values::params! {
    /// Parameters of `balanced`.
    pub struct BalancedParams {
        /// What memory is worth, as the inverse of the price `c`: more makes larger heaps. In bytes.
        pub balance: u64 = 1 << 30,
    }
}

/// What a sum keeps of itself when the next cycle is added.
const KEPT: f64 = 0.5;

/// A rate, smoothed: a sum of bytes and one of seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    bytes: f64,
    seconds: f64,
}

impl Rate {
    fn add(&mut self, bytes: u64, seconds: f64) {
        self.bytes = KEPT * self.bytes + bytes as f64;
        self.seconds = KEPT * self.seconds + seconds;
    }
}

/// The rule.
#[derive(Debug)]
pub(super) struct Balanced {
    params: BalancedParams,
    /// What the program allocates. In a generational heap: what is promoted.
    allocation: Rate,
    /// What full collections mark.
    marking: Rate,
}

impl Balanced {
    pub(super) fn new(params: BalancedParams) -> Balanced {
        Balanced { params, allocation: Rate::default(), marking: Rate::default() }
    }
}

impl Rule for Balanced {
    fn first(&self, bounds: &Bounds) -> u64 {
        bounds.minimum
    }

    fn next(&mut self, limit: u64, cycle: Cycle, _: &Bounds) -> u64 {
        self.allocation.add(cycle.allocated, cycle.mutator.as_secs_f64());
        self.marking.add(cycle.live - cycle.born, cycle.pause.as_secs_f64());
        let (allocation, marking) = (self.allocation, self.marking);
        // allocation / speed, as one fraction.
        let (above, below) = (allocation.bytes * marking.seconds, allocation.seconds * marking.bytes);
        if below <= 0.0 {
            // Nothing is live, or no time has passed.
            return limit;
        }
        let live = cycle.live as f64;
        (live + (live * above / below * self.params.balance as f64).sqrt()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MIB: u64 = 1 << 20;
    const BOUNDS: Bounds = Bounds { minimum: MIB, maximum: 1024 * MIB, nursery: 0 };

    fn cycle(live: u64, allocated: u64, pause_ms: u64, mutator_ms: u64) -> Cycle {
        let [pause, mutator] = [pause_ms, mutator_ms].map(Duration::from_millis);
        Cycle { live, allocated, born: 0, pause, mutator, size: live + allocated, load: 0.0, stalled: false }
    }

    #[test]
    fn the_square_root_of_what_is_live_and_of_both_rates() {
        let mut rule = Balanced::new(BalancedParams { balance: 256 * MIB });
        // 100 MiB a second are allocated, and 1600 MiB a second marked: sqrt(16 * 256 / 16) MiB.
        assert_eq!(rule.next(0, cycle(16 * MIB, 50 * MIB, 10, 500), &BOUNDS), 32 * MIB);
        // Steady rates stay what they are, however long a cycle is.
        assert_eq!(rule.next(0, cycle(64 * MIB, 200 * MIB, 40, 2000), &BOUNDS), 96 * MIB);
        let mut fourfold = Balanced::new(BalancedParams { balance: 1024 * MIB });
        assert_eq!(fourfold.next(0, cycle(16 * MIB, 50 * MIB, 10, 500), &BOUNDS), 48 * MIB);
    }

    #[test]
    fn rates_are_smoothed_by_halves() {
        let mut rule = Balanced::new(BalancedParams { balance: 256 * MIB });
        rule.next(0, cycle(16 * MIB, 0, 10, 500), &BOUNDS);
        // Now 100 MiB in half a second, after nothing in half a second: 100 MiB in 0.75 s.
        let limit = rule.next(0, cycle(16 * MIB, 100 * MIB, 10, 500), &BOUNDS) - 16 * MIB;
        let expected = (16.0 * 256.0 * (100.0 / 0.75) / 1600.0f64).sqrt() * MIB as f64;
        assert!((limit as f64 - expected).abs() < 2.0, "{limit}, not {expected}");
    }

    #[test]
    fn without_rates_the_limit_stays() {
        let mut rule = Balanced::new(BalancedParams::DEFAULT);
        assert_eq!(rule.next(7 * MIB, cycle(0, MIB, 0, 1), &BOUNDS), 7 * MIB);
        let mut rule = Balanced::new(BalancedParams::DEFAULT);
        assert_eq!(rule.next(7 * MIB, cycle(MIB, MIB, 1, 0), &BOUNDS), 7 * MIB);
    }
}
