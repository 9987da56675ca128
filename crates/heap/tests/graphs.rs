//! Random object graphs, built, mutated and collected, compared with a shadow of them in ordinary Rust.

mod common;

use common::world::World;
use common::{Trusting, all, register};
use legato_heap::layout::{ARRAY_LENGTH_OFFSET, StorageKind, array_elements_offset};
use legato_heap::{Collector, Heap, HeapConfig, NoRoots, TypeShape, TypeTable};

#[test]
fn graphs_match_their_shadows() {
    for config in all(HeapConfig { min_bytes: 512 << 10, verify: true, ..HeapConfig::default() }) {
        for seed in 0..3 {
            let world = World::run(&config, seed, 6000);
            assert!(world.heap.stats().collections > 8, "some by the threshold: {config:?}");
            assert!(world.inline > 500, "{} inline allocations", world.inline);
            assert_eq!(world.out_of_memory, 0);
        }
    }
}

#[test]
fn graphs_match_their_shadows_without_verification() {
    // Verification clears dead cells; lazy sweeping alone must be right too.
    for config in all(HeapConfig { min_bytes: 512 << 10, ..HeapConfig::default() }) {
        for seed in 10..13 {
            World::run(&config, seed, 12000);
        }
    }
}

#[test]
fn graphs_match_their_shadows_under_stress() {
    for config in all(HeapConfig { stress: Some(3), verify: true, ..HeapConfig::default() }) {
        // Cycles go on by a unit at a time.
        let in_slices = matches!(config.collector, Collector::Realtime(_));
        for seed in 0..2 {
            let world = World::run(&config, seed, if in_slices { 4000 } else { 800 });
            let collections = world.heap.stats().collections;
            assert!(collections > if in_slices { 8 } else { 100 }, "{collections} under {config:?}");
            assert_eq!(world.inline, 0, "stress counts every allocation");
        }
    }
}

#[test]
fn exhaustion_leaves_a_consistent_heap() {
    for config in all(HeapConfig { max_bytes: Some(512 << 10), min_bytes: 0, verify: true, ..HeapConfig::default() }) {
        for seed in 0..3 {
            let world = World::run(&config, seed, 4000);
            assert!(world.out_of_memory > 0, "the heap is too small for the program");
            assert!(world.heap.stats().used_bytes <= 512 << 10);
        }
    }
}

#[test]
fn every_maximum_is_survived() {
    // Each further block moves the point of exhaustion: between cells, large objects and handles.
    for blocks in 8..40 {
        for config in all(HeapConfig { max_bytes: Some(blocks * (32 << 10)), min_bytes: 0, ..HeapConfig::default() }) {
            let mut world = World::new(&config, blocks);
            world.longest = 2000;
            (0..1500).for_each(|_| world.step());
            world.settle();
        }
    }
}

#[test]
fn heaps_of_different_configurations_run_side_by_side() {
    let configs = all(HeapConfig { min_bytes: 256 << 10, verify: true, ..HeapConfig::default() });
    let run_one = |(seed, config)| move || World::run(&config, seed as u64, 4000).settle();
    let threads = configs.into_iter().cycle().take(4).enumerate().map(|job| std::thread::spawn(run_one(job)));
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn array_lengths_lie_where_the_layout_says() {
    for config in all(HeapConfig::default()) {
        let types = TypeTable::new().unwrap();
        let id = register(&types, TypeShape::Array(StorageKind::I16));
        let mut heap = Heap::new(&config, types).unwrap();
        let array = heap.allocate_array(id, 77, &mut NoRoots).unwrap();
        heap.write_bytes(array, 75, &[1, 2, 3, 4]).unwrap();
        let address = heap.object_address(array);
        // SAFETY: the address is that of the array's header.
        let length = unsafe { address.add(ARRAY_LENGTH_OFFSET as usize).cast::<u32>().read() };
        assert_eq!(length, 77);
        let last = array_elements_offset(StorageKind::I16) + 76 * 2;
        assert_eq!(heap.load(array, last, StorageKind::I16), 0x0403);
    }
}
