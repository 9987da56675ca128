//! Cycles in slices: the heap between any two units of any phase, compared with a shadow.

mod common;

use common::world::World;
use common::{realtime, with_layouts};
use legato_heap::HeapConfig;

/// Slices of one unit at every allocation, the heap verified between them, and all that is reachable compared.
#[test]
fn graphs_match_their_shadows_between_units() {
    let base = HeapConfig { stress: Some(1), verify: true, ..HeapConfig::default() };
    for (seed, config) in realtime(&base).into_iter().enumerate() {
        let mut world = World::new(&config, seed as u64 + 70);
        let mut compared = 0;
        for step in 0..6000 {
            world.step();
            if step % 97 == 0 {
                compared = world.compare();
            }
        }
        let stats = world.heap.stats();
        assert!(stats.collections > 3, "{stats:?}");
        assert!(compared > 10);
        world.settle();
    }
}

#[test]
fn arrays_of_every_layout_match_their_shadows_between_units() {
    for base in with_layouts(&HeapConfig { stress: Some(1), ..HeapConfig::default() }) {
        for (seed, config) in realtime(&base).into_iter().enumerate().take(1) {
            let mut world = World::new(&config, seed as u64 + 90);
            for step in 0..6000 {
                world.step();
                if step % 61 == 0 {
                    world.compare();
                }
            }
            world.settle();
        }
    }
}
