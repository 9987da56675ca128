//! Cycles in slices: the heap between any two units of any phase, compared with a shadow.

mod common;

use std::time::{Duration, Instant};

use common::world::World;
use common::{generational, moving, realtime, with_layouts};
use legato_heap::collector::generational::{Full, GenerationalParams};
use legato_heap::collector::schedule::Helpers;
use legato_heap::plan::SameObject;
use legato_heap::{Collector, HeapConfig};

/// Every heap that collects in cycles, without and with a helper thread.
fn in_cycles(base: &HeapConfig) -> Vec<HeapConfig> {
    let heaps = realtime(base).into_iter().chain(moving(base)).chain(generational(base));
    heaps
        .flat_map(|config| [Helpers::None, Helpers::One].map(|helpers| with_helpers(&config, helpers)))
        .flatten()
        .collect()
}

/// The same heap with so many helpers; `None` where it does not collect in cycles.
fn with_helpers(config: &HeapConfig, helpers: Helpers) -> Option<HeapConfig> {
    let mut config = config.clone();
    match &mut config.collector {
        Collector::Realtime(params) => params.helpers = helpers,
        Collector::Generational(GenerationalParams { full: Full::Incremental(params), .. }) => params.helpers = helpers,
        _ => return None,
    }
    // The helper does not heal: where references are forwarded, and all objects moved in every cycle, it never marked.
    let is_forwarded = matches!(config.access_plan().references.same, SameObject::Canonical { .. });
    config.stress_move &= helpers == Helpers::None || !is_forwarded;
    Some(config)
}

/// Takes steps, and compares from time to time what can be reached; no collection is asked for meanwhile. Returns the
/// cycles that have come to their end.
fn live_through(config: &HeapConfig, seed: usize, steps: usize) -> u64 {
    let mut world = World::new(config, seed as u64);
    let is_helped = with_helpers(config, Helpers::One).as_ref() == Some(config) && cfg!(target_arch = "x86_64");
    // The helper marks when the system gives it a processor, which other tests have as well.
    let deadline = Instant::now() + Duration::from_secs(60);
    let (mut step, mut compared) = (0, 0);
    // When a cycle begins depends on the clock, and one of small slices takes a thousand steps and more.
    let is_over = |world: &World, step| {
        let stats = world.heap.stats();
        let is_waiting = is_helped && stats.concurrent_marking_us == 0 && Instant::now() < deadline;
        step >= steps && !is_waiting && (stats.cycles > 0 || step >= 10 * steps)
    };
    while !is_over(&world, step) {
        world.step();
        if step % 97 == 0 {
            compared = compared.max(world.compare());
        }
        step += 1;
    }
    assert!(compared > 10);
    let stats = world.heap.stats();
    let cycles = stats.cycles;
    assert_eq!(stats.concurrent_marking_us > 0, is_helped, "{config:?}");
    world.settle();
    cycles
}

/// Slices of one unit at every allocation, the heap verified between them.
#[test]
fn graphs_match_their_shadows_between_units() {
    let base = HeapConfig { stress: Some(1), verify: true, ..HeapConfig::default() };
    for (seed, config) in in_cycles(&base).into_iter().enumerate() {
        let cycles = live_through(&config, 70 + seed, 1500);
        assert!(cycles > 0, "no cycle came to its end under {config:?}");
    }
}

#[test]
fn graphs_match_their_shadows_between_units_without_verification() {
    let base = HeapConfig { stress: Some(1), ..HeapConfig::default() };
    for (seed, config) in in_cycles(&base).into_iter().enumerate() {
        let cycles = live_through(&config, 170 + seed, 5000);
        assert!(cycles > 0, "no cycle came to its end under {config:?}");
    }
}

#[test]
fn arrays_of_every_layout_match_their_shadows_between_units() {
    let mut cycles = 0;
    for (number, base) in
        with_layouts(&HeapConfig { stress: Some(1), verify: true, ..HeapConfig::default() }).into_iter().enumerate()
    {
        let configs = in_cycles(&base);
        // The realtime heap and a generational one, with a helper: without one, arrays are marked in the same way.
        let generational = 5 + 2 * (number % (configs.len() / 2 - 2));
        let some = [&configs[1], &configs[generational]].into_iter();
        for (seed, config) in some.enumerate() {
            cycles += live_through(config, 90 + seed + 10 * number, 1200);
        }
    }
    assert!(cycles > 10, "{cycles} cycles came to their end");
}

/// As their schedules say, in a heap that is soon full.
#[test]
fn graphs_match_their_shadows_on_schedule() {
    let base = HeapConfig { min_bytes: 512 << 10, max_bytes: Some(64 << 20), ..HeapConfig::default() };
    for verify in [true, false] {
        for (seed, config) in in_cycles(&HeapConfig { verify, ..base.clone() }).into_iter().enumerate() {
            let cycles = live_through(&config, 270 + seed, if verify { 4000 } else { 15_000 });
            assert!(cycles > 2, "{cycles} cycles under {config:?}");
        }
    }
}
