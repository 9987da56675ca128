//! How large the next nursery is: such that its collection takes as long as a pause may, by what the last ones took.
//!
//! A nursery collection takes some time however much has been allocated: for roots, and to find the dirty cards. The
//! rest grows with the nursery: survivors are copied, and slots and cards that lead to them have been remembered. Of
//! this rest, what it has taken for each byte allocated predicts what it will take. Where that grows, the next nursery
//! is smaller at once. Where it falls, it is believed step by step: a program that builds something up and lets it go,
//! over and over, is not to pause for long each time that it builds again. A few small nurseries are the price of an
//! outlier, or of a burst of survivors.
//!
//! Time is that of the thread, so that nothing follows from its having had no processor.
//!
//! Source: sizing the nursery by its pause, as G1 does (Detlefs, Flood, Heller and Printezis, ISMM 2004). Limits: where
//! the time that does not depend on the size is longer than half of the target, pauses are longer than the target, as
//! smaller nurseries would only make them more frequent.

use crate::os::thread_time;
use std::time::{Duration, Instant};

/// No nursery is made smaller than this, in bytes.
const LEAST_BYTES: u64 = 256 << 10;
/// What a byte is expected to cost before anything is known, in nanoseconds: as if it survived.
const FIRST_RATE: f64 = 1.0;
/// What is left, after a collection, of the time for each byte that an earlier one took. With 0.7 a burst of survivors
/// paused for half as long again (`bdd`: 2.5 ms for 1.7), and programs were no faster.
const FALL: f64 = 0.85;
/// The part of the target that is for what depends on the size, at least.
const LEAST_SHARE: f64 = 0.5;

/// The rule at work, in one heap.
#[derive(Debug)]
pub(super) struct NurserySize {
    /// How long a nursery collection may take, in nanoseconds; `None` where that does not matter.
    target: Option<f64>,
    /// What the last collection took whatever the size, in nanoseconds.
    fixed: f64,
    /// What is expected for each byte allocated, in nanoseconds.
    rate: f64,
    made: Instant,
}

impl NurserySize {
    /// For a new heap, whose nursery collections may take so long; zero: any time.
    pub(super) fn new(target: Duration) -> NurserySize {
        let target = Some(target.as_nanos() as f64).filter(|&target| target > 0.0);
        NurserySize { target, fixed: 0.0, rate: FIRST_RATE, made: Instant::now() }
    }

    /// The time by which collections are to be measured: the thread's, where the system tells. Zero where the size does
    /// not depend on it.
    pub(super) fn now(&self) -> Duration {
        if self.target.is_none() {
            return Duration::ZERO;
        }
        match thread_time() {
            Duration::ZERO => self.made.elapsed(),
            time => time,
        }
    }

    /// Notes what a nursery collection took, after `allocated` bytes: `fixed`, whatever the size, of `whole`.
    pub(super) fn collected(&mut self, allocated: u64, fixed: Duration, whole: Duration) {
        if allocated < LEAST_BYTES / 2 {
            // It came early, and tells little.
            return;
        }
        let rate = whole.saturating_sub(fixed).as_nanos() as f64 / allocated as f64;
        self.fixed = fixed.as_nanos() as f64;
        self.rate = rate.max(self.rate * FALL);
    }

    /// How much may be allocated before the next nursery collection, where that is at most `most`; in bytes.
    pub(super) fn bytes(&self, most: u64) -> u64 {
        let Some(target) = self.target else { return most };
        let bytes = (target - self.fixed).max(target * LEAST_SHARE) / self.rate;
        // Without a rate that is infinite, which is cut off as well.
        (bytes as u64).clamp(LEAST_BYTES.min(most), most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 2 << 20;
    const TARGET: Duration = Duration::from_micros(700);

    /// A program, and what a collection takes of it.
    #[derive(Clone, Copy, Debug)]
    struct Program {
        fixed: Duration,
        /// For each byte that survives, in nanoseconds.
        cost: f64,
        /// The part that survives.
        survival: f64,
    }

    impl Program {
        fn pause(self, bytes: u64) -> Duration {
            self.fixed + Duration::from_nanos((bytes as f64 * self.survival * self.cost) as u64)
        }
    }

    /// One nursery: its size, and what its collection takes.
    fn next(size: &mut NurserySize, program: Program) -> (u64, Duration) {
        let bytes = size.bytes(MOST);
        let pause = program.pause(bytes);
        size.collected(bytes, program.fixed, pause);
        (bytes, pause)
    }

    fn of(fixed_us: u64, cost: f64, survival: f64) -> Program {
        Program { fixed: Duration::from_micros(fixed_us), cost, survival }
    }

    #[test]
    fn nurseries_that_die_are_as_large_as_they_may_be() {
        let mut size = NurserySize::new(TARGET);
        // The first ones are small.
        let small = (0..).take_while(|_| next(&mut size, of(100, 1.0, 0.0)).0 < MOST).count();
        assert_eq!(small, 8);
        for _ in 0..10 {
            assert_eq!(next(&mut size, of(100, 1.0, 0.0)).0, MOST);
            assert_eq!(next(&mut size, of(100, 1.0, 0.25)).0, MOST);
        }
        // However small that is.
        assert_eq!(size.bytes(64 << 10), 64 << 10);
    }

    #[test]
    fn nurseries_that_survive_are_as_large_as_the_pause_allows() {
        let mut size = NurserySize::new(TARGET);
        // From the first one on.
        let program = of(60, 1.0, 1.0);
        assert!(next(&mut size, program).1 < TARGET + program.fixed * 2);
        for _ in 0..10 {
            let (bytes, pause) = next(&mut size, program);
            assert!(pause <= TARGET && pause > TARGET.mul_f64(0.99), "{pause:?} for {bytes} bytes");
        }
        // Most of the time goes into roots: small nurseries would make that worse.
        for fixed in [500, 5000] {
            let program = of(fixed, 1.0, 1.0);
            next(&mut size, program);
            let (bytes, pause) = next(&mut size, program);
            assert!(bytes >= 340 << 10 && pause <= program.fixed + TARGET / 2, "{pause:?} for {bytes} bytes");
        }
        // What costs more than anything is collected in pieces that are not too small.
        next(&mut size, of(60, 50.0, 1.0));
        assert_eq!(next(&mut size, of(60, 50.0, 1.0)).0, LEAST_BYTES);
    }

    #[test]
    fn the_nursery_recovers_within_a_few_collections() {
        let mut size = NurserySize::new(TARGET);
        (0..10).for_each(|_| _ = next(&mut size, of(60, 4.0, 1.0)));
        assert_eq!(size.bytes(MOST), LEAST_BYTES);
        let needed = (0..).take_while(|_| next(&mut size, of(60, 4.0, 0.0)).0 < MOST).count();
        assert!((9..=17).contains(&needed), "{needed} small nurseries");
        // One collection that took twenty times as long.
        let program = of(60, 1.0, 0.1);
        (0..10).for_each(|_| _ = next(&mut size, program));
        let bytes = size.bytes(MOST);
        assert_eq!(bytes, MOST);
        size.collected(bytes, program.fixed, 20 * program.pause(bytes));
        let needed = (0..).take_while(|_| next(&mut size, program).0 < MOST).count();
        assert!((1..=14).contains(&needed), "{needed} small nurseries");
    }

    #[test]
    fn survivors_that_come_and_go_do_not_make_long_pauses() {
        let mut size = NurserySize::new(TARGET);
        next(&mut size, of(60, 1.0, 1.0));
        for dying in [1, 2] {
            for _ in 0..20 {
                (0..dying).for_each(|_| _ = next(&mut size, of(60, 1.0, 0.0)));
                let (_, pause) = next(&mut size, of(60, 1.0, 1.0));
                assert!(pause < Duration::from_millis(1), "{pause:?} after {dying} nurseries");
            }
        }
    }

    #[test]
    fn collections_that_come_early_change_nothing() {
        let mut size = NurserySize::new(TARGET);
        next(&mut size, of(60, 1.0, 1.0));
        let bytes = size.bytes(MOST);
        size.collected(1000, Duration::from_micros(60), Duration::from_millis(50));
        size.collected(0, Duration::ZERO, Duration::ZERO);
        assert_eq!(size.bytes(MOST), bytes);
    }

    #[test]
    fn without_a_target_the_size_stays() {
        let mut size = NurserySize::new(Duration::ZERO);
        size.collected(MOST, Duration::ZERO, Duration::from_secs(1));
        assert_eq!((size.bytes(MOST), size.now()), (MOST, Duration::ZERO));
    }

    /// Of any programs, one after the other: a pause above the target is followed by one within it, if the program
    /// stays the same.
    #[test]
    fn the_second_pause_of_any_program_is_within_the_target() {
        let mut random = 1_u64;
        let mut below = |end: u64| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (random >> 33) % end
        };
        let (mut size, mut long) = (NurserySize::new(TARGET), 0);
        for _ in 0..20_000 {
            let program = of(below(350), below(1300) as f64 / 1000.0, below(1001) as f64 / 1000.0);
            let mut was_long = false;
            for _ in 0..1 + below(4) {
                let (bytes, pause) = next(&mut size, program);
                assert!((LEAST_BYTES..=MOST).contains(&bytes));
                assert!(pause <= TARGET || !was_long, "{pause:?} for {bytes} bytes of {program:?}");
                was_long = pause > TARGET;
                long += u32::from(was_long);
            }
        }
        assert!(long > 1000, "{long} pauses were long");
    }
}
