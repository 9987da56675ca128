//! Random programs over random generational heaps. A program that fails is shrunk to the fewest steps.

mod common;

use common::Random;
use common::layouts;
use common::world::{STEPS, World};
use legato_heap::collector::generational::{Barrier, GenerationalParams, Nursery};
use legato_heap::{Arrays, Collector, HeapConfig, NativeViews, Sizing, Zeroing};
use proptest::prelude::*;

/// A step's kind, and the seed of what else is chosen in it.
type Step = (usize, u64);

fn configs() -> impl Strategy<Value = HeapConfig> {
    let nursery = prop_oneof![Just(Nursery::Appel), (2..40u64).prop_map(|blocks| Nursery::Fixed(blocks << 15)),];
    let parameters = (
        nursery,
        prop_oneof![Just(0), 1..=90u32],
        prop::sample::select(Barrier::ALL),
        prop::sample::select(Zeroing::ALL),
        prop::sample::select(Sizing::ALL),
    );
    let contiguous = (Arrays::Contiguous, NativeViews::Copy);
    let layouts = prop_oneof![Just(contiguous), prop::sample::select(layouts())];
    let limits = (8..200u64, 0..64u64, prop::option::of(1..40u32), any::<bool>(), layouts);
    (parameters, limits).prop_map(
        |((nursery, aging, barrier, zeroing, sizing), (blocks, min_blocks, stress, verify, layout))| HeapConfig {
            collector: Collector::Generational(GenerationalParams {
                nursery,
                aging,
                barrier,
                ..GenerationalParams::DEFAULT
            }),
            arrays: layout.0,
            native_views: layout.1,
            zeroing: Some(zeroing),
            sizing,
            max_bytes: Some(blocks << 15),
            min_bytes: min_blocks << 15,
            stress,
            verify,
            ..HeapConfig::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_heap_holds_what_a_program_stored(
        config in configs(),
        types in any::<u64>(),
        steps in prop::collection::vec((0..STEPS, any::<u64>()), 1..400),
    ) {
        let steps: Vec<Step> = steps;
        let mut world = World::new(&config, types);
        world.longest = 6000;
        for (index, (kind, seed)) in steps.into_iter().enumerate() {
            world.random = Random(seed);
            world.step_of(kind);
            if index % 64 == 63 {
                world.compare();
            }
        }
        world.settle();
    }
}
