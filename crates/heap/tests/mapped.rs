//! Mapped arrays: they hold what a program stores, their memory comes and goes by pages, their address space is used
//! again.

mod common;

use common::world::{STEPS, World};
use common::{Held, Random, Trusting, all, register};
use legato_heap::arrays::{MappedParams, ZRayParams};
use legato_heap::collector::generational::{GenerationalParams, Nursery};
use legato_heap::layout::StorageKind;
use legato_heap::{
    AllocationError, Arrays, Budget, Cause, Collector, Done, Heap, HeapConfig, HeapStats, NoRoots, References, TypeId,
    TypeShape, TypeTable,
};
use proptest::prelude::*;

/// The most bytes of a page, where pages are given back one by one.
const MOST_PAGE: u64 = 32 << 10;

/// Arrays from `from` bytes on are mapped, otherwise as given.
fn mapped(from: u32, config: HeapConfig) -> HeapConfig {
    HeapConfig { arrays: Arrays::Mapped(MappedParams { from, sharing: true }), ..config }
}

/// A heap with a type of byte arrays.
fn heap_of_bytes(config: &HeapConfig) -> (Heap, TypeId) {
    let types = TypeTable::new().unwrap();
    let bytes = register(&types, TypeShape::Array(StorageKind::I8));
    (Heap::new(config, types).unwrap(), bytes)
}

/// One configuration for each collector and reference model.
fn few(config: HeapConfig) -> Vec<HeapConfig> {
    all(config).into_iter().take(3).collect()
}

#[test]
fn graphs_match_their_shadows() {
    for (number, config) in all(HeapConfig { min_bytes: 512 << 10, ..HeapConfig::default() }).into_iter().enumerate() {
        for (seed, from) in [(0, 32 << 10), (1, 64 << 10)] {
            let config = mapped(from, HeapConfig { verify: number % 2 == 0, ..config.clone() });
            let mut world = World::new(&config, seed);
            for step in 1..=4000 {
                world.step();
                if step % 500 == 0 {
                    world.settle();
                }
            }
            assert!(world.heap.stats().large_allocations > 20);
        }
    }
}

#[test]
fn graphs_match_their_shadows_under_stress() {
    for config in all(HeapConfig { stress: Some(3), verify: true, ..HeapConfig::default() }) {
        let mut world = World::new(&mapped(32 << 10, config), 7);
        (0..800).for_each(|_| world.step());
        world.settle();
    }
}

#[test]
fn exhaustion_leaves_a_consistent_heap() {
    for config in all(HeapConfig { max_bytes: Some(640 << 10), min_bytes: 0, verify: true, ..HeapConfig::default() }) {
        let mut world = World::new(&mapped(32 << 10, config), 3);
        for step in 1..=4000 {
            world.step();
            if step % 1000 == 0 {
                world.settle();
            }
        }
        assert!(world.out_of_memory > 0, "the heap is too small for the program");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_heap_holds_what_a_program_stored(
        which in 0..12usize,
        (blocks, stress, verify) in (16..200u64, prop::option::of(1..40u32), any::<bool>()),
        (from, sharing) in (prop::sample::select(vec![32u32 << 10, 64 << 10]), any::<bool>()),
        types in any::<u64>(),
        steps in prop::collection::vec((0..STEPS, any::<u64>()), 1..300),
    ) {
        let base = HeapConfig { max_bytes: Some(blocks << 15), min_bytes: 0, stress, verify, ..HeapConfig::default() };
        let configs = all(base);
        let arrays = Arrays::Mapped(MappedParams { from, sharing });
        let config = HeapConfig { arrays, ..configs[which % configs.len()].clone() };
        let mut world = World::new(&config, types);
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

/// Between the slices that give a dead array back, too.
#[test]
#[cfg(target_os = "linux")]
fn what_is_used_is_known_between_slices() {
    let base = HeapConfig { max_bytes: Some(64 << 20), min_bytes: 0, ..HeapConfig::default() };
    let layouts = [Arrays::Mapped(MappedParams::DEFAULT), Arrays::ZRays(ZRayParams::DEFAULT)];
    for config in layouts.map(|arrays| all(HeapConfig { arrays, ..base.clone() })).concat() {
        let types = TypeTable::new().unwrap();
        let bytes = register(&types, TypeShape::Array(StorageKind::I8));
        let mut heap = Heap::new(&config, types).unwrap();
        // This one has memory, and lives.
        let mut roots = Held::new();
        let dense = heap.allocate_array(bytes, 1 << 20, &mut roots).unwrap();
        roots.push(dense);
        heap.fill(roots[0], 0, 1, 1 << 20).unwrap();
        for _ in 0..3 {
            // Far more blocks, and all but the first without memory, as a collection finds out.
            let sparse = heap.allocate_array(bytes, 40 << 20, &mut roots).unwrap();
            roots.push(sparse);
            heap.collect(Cause::Requested, &mut roots);
            roots.pop();
            // So much that a cycle is worth it.
            for _ in 0..16 << 10 {
                heap.allocate_array(bytes, 1 << 10, &mut roots).unwrap();
            }
            while heap.collect_some(&mut Budget::units(7), &mut roots) == Done::No {
                let HeapStats { used_bytes, committed_bytes, maximum_bytes, .. } = heap.stats();
                let is_possible = used_bytes >= 1 << 20 && used_bytes.max(committed_bytes) <= maximum_bytes;
                assert!(is_possible, "{used_bytes}, {committed_bytes}: {config:?}");
            }
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn only_touched_pages_count() {
    for config in few(HeapConfig { max_bytes: Some(64 << 20), min_bytes: 0, verify: true, ..HeapConfig::default() }) {
        let (mut heap, bytes) = heap_of_bytes(&mapped(64 << 10, config));
        let mut roots = Held::new();
        // Twenty arrays of 16 MiB fit a heap of 64, as long as their pages are not touched.
        for _ in 0..20 {
            let array = heap.allocate_array(bytes, 16 << 20, &mut roots).unwrap();
            heap.set(array, (5 << 20) - 12, 7).unwrap();
            roots.push(array);
        }
        heap.collect(Cause::Requested, &mut roots);
        let stats = heap.stats();
        assert!(stats.mapped_bytes >= 320 << 20);
        // The page of the header of each, and the one that was written.
        assert!(stats.mapped_memory_bytes <= 20 * 2 * MOST_PAGE, "{stats:?}");
        assert!(stats.live_bytes <= 1 << 20 && stats.used_bytes <= 8 << 20, "{stats:?}");
        // Touching them takes memory; the next count sees it.
        for &array in &roots[..2] {
            heap.fill(array, 0, 1, 16 << 20).unwrap();
        }
        heap.collect(Cause::Requested, &mut roots);
        let stats = heap.stats();
        assert!(stats.live_bytes >= 32 << 20 && stats.used_bytes >= 32 << 20, "{stats:?}");
        assert!(roots.iter().all(|&array| heap.load(array, 5 << 20, StorageKind::I8) != 0));
        roots.clear();
        heap.collect(Cause::Requested, &mut roots);
        let stats = heap.stats();
        assert_eq!((stats.live_bytes, stats.mapped_bytes), (0, 0));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn pages_of_zeros_go_back() {
    for config in few(HeapConfig { min_bytes: 0, verify: true, ..HeapConfig::default() }) {
        let (mut heap, bytes) = heap_of_bytes(&mapped(64 << 10, config));
        let mut roots = Held::nulls(1);
        roots[0] = heap.allocate_array(bytes, 8 << 20, &mut roots).unwrap();
        heap.fill(roots[0], 0, 0xee, 8 << 20).unwrap();
        heap.collect(Cause::Requested, &mut roots);
        let full = heap.stats();
        assert!(full.mapped_memory_bytes >= 8 << 20 && full.mapped_zeros_bytes == 0, "{full:?}");
        // All zeros but for the header and one byte in the middle.
        heap.fill(roots[0], 0, 0, 8 << 20).unwrap();
        heap.set(roots[0], (4 << 20) - 12, 9).unwrap();
        heap.collect(Cause::Requested, &mut roots);
        let stats = heap.stats();
        assert!(stats.mapped_memory_bytes <= 2 * MOST_PAGE, "{stats:?}");
        assert_eq!(stats.mapped_zeros_bytes, full.mapped_memory_bytes - stats.mapped_memory_bytes);
        assert!(stats.used_bytes + (7 << 20) < full.used_bytes && stats.committed_bytes < full.committed_bytes);
        assert_eq!(heap.load(roots[0], 4 << 20, StorageKind::I8), 9);
        assert!((12..4 << 20).step_by(1000).all(|at| heap.load(roots[0], at, StorageKind::I8) == 0));
    }
}

#[test]
fn arrays_are_zero_whatever_lay_there() {
    for config in few(HeapConfig { max_bytes: Some(32 << 20), min_bytes: 0, ..HeapConfig::default() }) {
        let (mut heap, bytes) = heap_of_bytes(&mapped(32 << 10, config));
        let mut random = Random(5);
        let mut roots = Held::nulls(12);
        for _ in 0..1500 {
            let length = (32 << 10) + random.below(1 << 20) as u32;
            let array = heap.allocate_array(bytes, length, &mut roots).unwrap();
            assert!((12..length + 12).step_by(509).all(|at| heap.load(array, at, StorageKind::I8) == 0));
            // Some blocks become dense, some sparse, some remain untouched.
            let start = random.below(length as usize) as u32;
            let part = random.below((length - start) as usize + 1) as u32;
            heap.fill(array, start, 0xff, part).unwrap();
            let slot = random.below(roots.len());
            roots[slot] = array;
        }
        heap.verify(Some(&mut roots)).unwrap();
    }
}

#[test]
fn a_full_heap_says_so_and_goes_on() {
    for config in few(HeapConfig { max_bytes: Some(16 << 20), min_bytes: 0, verify: true, ..HeapConfig::default() }) {
        let (mut heap, bytes) = heap_of_bytes(&mapped(64 << 10, config));
        let too_large = heap.allocate_array(bytes, 17 << 20, &mut NoRoots);
        assert!(matches!(too_large, Err(AllocationError::TooLarge { .. })));
        let mut roots = Held::new();
        let error = loop {
            match heap.allocate_array(bytes, 1 << 20, &mut roots) {
                Ok(array) => {
                    heap.fill(array, 0, 1, 1 << 20).unwrap();
                    roots.push(array);
                }
                Err(error) => break error,
            }
        };
        assert!(matches!(error, AllocationError::OutOfMemory { .. }), "{error}");
        assert!((10..=15).contains(&roots.len()), "{} arrays of a little over 1 MiB in 16", roots.len());
        heap.verify(Some(&mut roots)).unwrap();
        roots.drain(..4);
        let larger = heap.allocate_array(bytes, 2 << 20, &mut roots).unwrap();
        roots.push(larger);
        heap.verify(Some(&mut roots)).unwrap();
    }
}

/// Allocates `count` arrays, of sizes and lifetimes over several orders of magnitude, whose sizes drift up and down in
/// phases. Nothing but their headers is touched.
fn churn(config: &HeapConfig, count: u32) {
    let (mut heap, bytes) = heap_of_bytes(config);
    let mut random = Random(11);
    let mut roots = Held::nulls(256);
    let (mut peak, mut end) = (0, 0);
    for number in 0..count {
        let phase = number / (count / 32) % 4;
        let magnitude = 10 + random.below(6) + 2 * phase as usize;
        let length = (32 << 10) + random.below(1 << magnitude) as u32;
        let array = heap.allocate_array(bytes, length, &mut roots).unwrap();
        let distance = heap.object_address(array) as usize - heap.cage_base() as usize;
        end = end.max(distance as u64 + length as u64);
        // A quarter die at once; of the others some are replaced soon, some late.
        if random.below(4) > 0 {
            let magnitude = random.below(9);
            roots[random.below(1 << magnitude)] = array;
        }
        if number % 16 == 0 {
            peak = peak.max(heap.stats().mapped_bytes);
        }
    }
    heap.verify(Some(&mut roots)).unwrap();
    assert!(end <= peak + peak / 4, "{} MiB of address space for {} MiB of arrays", end >> 20, peak >> 20);
}

#[test]
fn address_space_is_used_again() {
    let base = mapped(32 << 10, HeapConfig { min_bytes: 256 << 20, ..HeapConfig::default() });
    let generational = GenerationalParams { nursery: Nursery::Fixed(16 << 20), ..GenerationalParams::DEFAULT };
    churn(&HeapConfig { collector: Collector::Generational(generational), ..base.clone() }, 1_000_000);
    churn(&HeapConfig { collector: Collector::MarkSweep, ..base.clone() }, 300_000);
    churn(&HeapConfig { collector: Collector::MarkSweep, references: References::ThinHandles, ..base }, 100_000);
}
