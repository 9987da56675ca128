//! The axis over simulated programs.

use super::{Collected, GcRatioParams, HeapSize, Sizing};
use crate::collector::Collector;
use crate::config::HeapConfig;
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// A program that keeps some bytes live and allocates at a steady rate, on a machine that marks at a steady rate.
struct Program {
    size: HeapSize,
    /// Bytes allocated in a second.
    allocation_rate: f64,
    /// Live bytes marked in a second.
    marking_rate: f64,
}

impl Program {
    fn new(config: &HeapConfig) -> Program {
        Program { size: heap_size(config), allocation_rate: 1e9, marking_rate: 1e9 }
    }

    /// Runs until the limit calls for a full collection, which finds `live` bytes. Returns the new limit and the GC
    /// load.
    fn cycle(&mut self, live: u64) -> (u64, f64) {
        let room = self.size.limit().saturating_sub(live).max(1);
        let mutator = room as f64 / self.allocation_rate;
        let gc = live as f64 / self.marking_rate;
        let [pause, mutator] = [gc, mutator].map(Duration::from_secs_f64);
        let limit = self.size.collected(Collected { live, allocated: room, pause, mutator, ..Collected::default() });
        (limit, gc / (gc + mutator.as_secs_f64()))
    }

    /// The limits of so many cycles.
    fn cycles(&mut self, live: u64, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.cycle(live).0).collect()
    }
}

fn heap_size(config: &HeapConfig) -> HeapSize {
    HeapSize::new(config.sizing, config.collector.attributes().is_generational(), config.bounds())
}

fn config(sizing: Sizing) -> HeapConfig {
    HeapConfig { sizing, min_bytes: 16 * MIB, max_bytes: Some(1024 * MIB), ..HeapConfig::default() }
}

fn gc_ratio(growth: f64) -> HeapConfig {
    config(Sizing::GcRatio(GcRatioParams { growth }))
}

/// The limits have settled: the last few are all within 1 % of the last.
fn settled(limits: &[u64]) -> u64 {
    let last = *limits.last().unwrap();
    let near = |limit: u64| limit.abs_diff(last) * 100 <= last;
    assert!(limits.iter().rev().take(10).all(|&limit| near(limit)), "{limits:?}");
    last
}

#[test]
fn a_fixed_heap_has_its_maximum_from_the_start() {
    let config = config(Sizing::Fixed);
    let mut program = Program::new(&config);
    assert_eq!(program.size.limit(), 1024 * MIB);
    assert!(program.cycles(100 * MIB, 20).iter().all(|&limit| limit == 1024 * MIB));
}

#[test]
fn a_steady_program_settles() {
    for &collector in Collector::ALL {
        let config = HeapConfig { collector, ..gc_ratio(4.0) };
        let mut program = Program::new(&config);
        // Collecting is cheap against running: the heap settles where the load no longer calls for growth.
        program.marking_rate = 2e10;
        let live = 40 * MIB;
        let limit = settled(&program.cycles(live, 100));
        let (_, load) = program.cycle(live);
        assert!(load < 0.15, "{collector:?}: a load of {load} at {limit} bytes");
        assert!(limit > live && limit < 4 * live, "{collector:?}: {limit}");
        // Collecting is dear: it settles at the most that growth allows.
        program.marking_rate = 1e8;
        assert_eq!(settled(&program.cycles(live, 100)), 4 * live, "{collector:?}");
    }
}

#[test]
fn the_limit_follows_what_is_live_up_and_down() {
    let mut program = Program::new(&gc_ratio(4.0));
    let small = settled(&program.cycles(20 * MIB, 60));
    let large = settled(&program.cycles(200 * MIB, 60));
    assert!((250 * MIB..=800 * MIB).contains(&large), "{large}");
    let again = settled(&program.cycles(20 * MIB, 60));
    assert!(again <= 80 * MIB && again.abs_diff(small) * 10 <= small, "{small}, then {again}");
    assert_eq!(settled(&program.cycles(0, 60)), 16 * MIB, "an empty heap has the minimum");
}

#[test]
fn bounds_hold_whatever_happens() {
    let mut random = 1u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) % below
    };
    for growth in [1.05, 2.0, 100.0] {
        let mut size = heap_size(&gc_ratio(growth));
        assert_eq!(size.limit(), 16 * MIB);
        for _ in 0..2000 {
            let live = next(1024) * MIB;
            let [pauses, pause, mutator] = [next(500), next(500), next(1000)].map(Duration::from_micros);
            let limit = size.collected(Collected { live, pauses, pause, mutator, ..Collected::default() });
            assert_eq!(limit, size.limit());
            assert!((16 * MIB..=1024 * MIB).contains(&limit));
            let room = (growth - 1.0) * (live as f64 * live.min(64 * MIB) as f64).sqrt();
            let room = room as u64;
            assert!(limit <= (live + room).max(16 * MIB), "{limit} over {live}");
            assert!(limit >= (live + room / 4).min(1024 * MIB), "{limit} over {live}");
        }
    }
}

#[test]
fn a_minimum_above_the_maximum_gives_way() {
    for &sizing in Sizing::ALL {
        let mut size = heap_size(&HeapConfig { sizing, max_bytes: Some(8 * MIB), ..HeapConfig::default() });
        assert_eq!(size.limit(), 8 * MIB);
        let pause = Duration::from_secs(1);
        assert_eq!(size.collected(Collected { live: 7 * MIB, pause, ..Collected::default() }), 8 * MIB);
        assert_eq!(size.collected(Collected::default()), 8 * MIB);
    }
}
