//! Arrays under every layout: random graphs, and bulk operations against a model in ordinary Rust.

mod common;

use common::world::World;
use common::{Held, Random, Trusting, all_layouts, leaf_bytes, moving, register, spines, with_layouts};
use legato_heap::arrays::ZRayParams;
use legato_heap::layout::StorageKind;
use legato_heap::plan::ArrayPlan;
use legato_heap::{Cause, Heap, HeapConfig, NoRoots, Reference, TypeShape, TypeTable};
use proptest::prelude::*;

#[test]
fn graphs_match_their_shadows() {
    for config in all_layouts(HeapConfig { min_bytes: 512 << 10, verify: true, ..HeapConfig::default() }) {
        let world = World::run(&config, 7, 4000);
        assert!(world.heap.stats().collections > 8, "some by the threshold: {config:?}");
    }
}

#[test]
fn graphs_match_their_shadows_without_verification() {
    for config in all_layouts(HeapConfig { min_bytes: 512 << 10, ..HeapConfig::default() }) {
        World::run(&config, 21, 8000);
    }
}

#[test]
fn graphs_match_their_shadows_under_stress() {
    for config in all_layouts(HeapConfig { stress: Some(3), verify: true, ..HeapConfig::default() }) {
        World::run(&config, 5, 500);
    }
}

#[test]
fn exhaustion_leaves_a_consistent_heap() {
    for config in
        all_layouts(HeapConfig { max_bytes: Some(768 << 10), min_bytes: 0, verify: true, ..HeapConfig::default() })
    {
        let world = World::run(&config, 4, 3000);
        assert!(world.out_of_memory > 0, "the heap is too small for the program: {config:?}");
    }
}

/// Whoever copies within an array may name it by the old copy on one side, and by the new one on the other.
#[test]
fn two_copies_are_one_array_to_whoever_copies_within() {
    const LENGTH: u32 = 3000;
    let base = HeapConfig { stress_move: true, verify: true, ..HeapConfig::default() };
    let (mut moved, kind) = (0, StorageKind::I16);
    for config in with_layouts(&base).iter().flat_map(moving) {
        let types = TypeTable::new().unwrap();
        let id = register(&types, TypeShape::Array(kind));
        let mut heap = Heap::new(&config, types).unwrap();
        let mut roots = Held::new();
        let array = heap.allocate_array(id, LENGTH, &mut roots).unwrap();
        roots.push(array);
        let mut model: Vec<u128> = (0..u128::from(LENGTH)).map(|number| number * 7 + 1).collect();
        for (index, &bits) in (0..).zip(&model) {
            heap.set(roots[0], index, bits).unwrap();
        }
        heap.collect(Cause::Requested, &mut roots);
        let (old, new) = (roots[0], heap.current(roots[0]));
        moved += usize::from(old != new);
        for (to, from) in [(old, new), (new, old)] {
            for (start, source) in [(1, 0), (0, 1), (600, 0), (0, 600), (30, 20), (20, 30), (200, 200)] {
                heap.copy((to, start as u32), (from, source as u32), 2000).unwrap();
                model.copy_within(source..source + 2000, start);
                for copy in [old, new] {
                    let found: Vec<_> = (0..LENGTH).map(|index| heap.array_get(copy, index)).collect();
                    assert_eq!(found, model, "{source} to {start} under {config:?}");
                }
            }
        }
    }
    assert!(moved >= 2, "only {moved} arrays have been moved");
}

/// One array of each kind of element beside a model of it.
struct Pair {
    heap: Heap,
    roots: Held,
    models: Vec<Vec<u128>>,
    kind: StorageKind,
}

impl Pair {
    fn new(config: &HeapConfig, kind: StorageKind, lengths: [u32; 2]) -> Pair {
        let types = TypeTable::new().unwrap();
        let id = register(&types, TypeShape::Array(kind));
        let mut heap = Heap::new(config, types).unwrap();
        let mut roots = Held::new();
        for length in lengths {
            let array = heap.allocate_array(id, length, &mut roots).unwrap();
            roots.push(array);
        }
        let models = lengths.map(|length| vec![0; length as usize]).to_vec();
        Pair { heap, roots, models, kind }
    }

    /// A value that an element can hold, zero at times.
    fn value(&self, random: &mut Random) -> u128 {
        if random.below(3) == 0 {
            return 0;
        }
        if self.kind == StorageKind::Ref {
            return Reference::from_i31(random.next() as i32).0.into();
        }
        u128::from(random.next()) & (u128::MAX >> (128 - 8 * self.kind.bytes()))
    }

    fn reserve_leaves(&mut self, array: usize, start: usize, length: usize) {
        let mut kept = [self.roots[array]];
        self.heap.reserve_leaves(start as u32, length as u32, &mut kept, &mut self.roots).unwrap();
        assert_eq!(kept[0], self.roots[array]);
    }

    fn copy(&mut self, to: usize, start: usize, from: usize, source: usize, length: usize) {
        self.reserve_leaves(to, start, length);
        let (a, b) = (self.roots[to], self.roots[from]);
        // SAFETY: arrays of this heap, of one type.
        let quick = unsafe { self.heap.quick_array_copy(a, start as u32, b, source as u32, length as u32) };
        if quick.is_none() {
            self.heap.copy((a, start as u32), (b, source as u32), length as u32).unwrap();
        }
        assert_ne!(quick, Some(false), "the ranges lie in the arrays");
        // SAFETY: arrays of this heap, of one type.
        let beyond = unsafe { self.heap.quick_array_copy(a, start as u32, b, source as u32, u32::MAX) };
        assert_ne!(beyond, Some(true));
        let values = self.models[from][source..source + length].to_vec();
        self.models[to][start..start + length].copy_from_slice(&values);
    }

    fn fill(&mut self, array: usize, start: usize, value: u128, length: usize) {
        self.reserve_leaves(array, start, length);
        self.heap.fill(self.roots[array], start as u32, value, length as u32).unwrap();
        self.models[array][start..start + length].fill(value);
    }

    fn write(&mut self, array: usize, start: usize, values: &[u128]) {
        self.reserve_leaves(array, start, values.len());
        if self.kind == StorageKind::Ref {
            let references: Vec<_> = values.iter().map(|&bits| Reference(bits as u32)).collect();
            self.heap.write_references(self.roots[array], start as u32, &references).unwrap();
        } else {
            let size = self.kind.bytes() as usize;
            let bytes: Vec<u8> = values.iter().flat_map(|bits| bits.to_le_bytes()[..size].to_vec()).collect();
            self.heap.write_bytes(self.roots[array], start as u32, &bytes).unwrap();
        }
        self.models[array][start..start + values.len()].copy_from_slice(values);
    }

    fn compare(&mut self) {
        self.heap.verify(Some(&mut self.roots)).unwrap();
        let size = self.kind.bytes() as usize;
        for (&array, model) in self.roots.iter().zip(&self.models) {
            let mut bytes = vec![0; model.len() * size];
            self.heap.array_read_bytes(array, 0, &mut bytes);
            for (index, (element, &expected)) in bytes.chunks(size).zip(model).enumerate() {
                let mut bits = [0; 16];
                bits[..size].copy_from_slice(element);
                assert_eq!(u128::from_le_bytes(bits), expected, "element {index} of {:?}", self.heap.config());
            }
        }
    }
}

const KINDS: [StorageKind; 6] =
    [StorageKind::I8, StorageKind::I16, StorageKind::I32, StorageKind::I64, StorageKind::V128, StorageKind::Ref];

/// Whether the first N bytes of large arrays grow.
fn grows(config: &HeapConfig) -> bool {
    matches!(config.access_plan().arrays, ArrayPlan::Spines(plan) if plan.layout.grows)
}

/// Lengths and starts at each boundary of a layout: the first N bytes, leaves, the remainder.
fn boundaries(config: &HeapConfig, kind: StorageKind) -> Vec<usize> {
    let size = kind.bytes() as usize;
    let layout = spines(config).unwrap();
    let (first_n, leaf) = (layout.first_n as usize, layout.leaf_bytes() as usize);
    let mut all = vec![0, 1];
    let mut edges = vec![first_n, first_n + leaf, first_n + 3 * leaf, first_n + 5 * leaf];
    if grows(config) {
        // Smaller arrays lie in one piece.
        edges.extend([first_n + 9 * leaf, (18 << 10) + first_n, (20 << 10) + first_n]);
    }
    for edge in edges {
        let index = edge / size;
        all.extend([index.saturating_sub(1), index, index + 1]);
    }
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn operations_at_every_boundary_match_a_model() {
    for config in with_layouts(&HeapConfig::default()).into_iter().filter(|config| leaf_bytes(config) < 4096) {
        for kind in KINDS {
            let edges = boundaries(&config, kind);
            let length = edges.last().unwrap() + 3;
            let mut random = Random(kind.bytes().into());
            let mut pair = Pair::new(&config, kind, [length as u32; 2]);
            for (number, &start) in edges.iter().enumerate() {
                for &end in &edges[number..] {
                    let value = pair.value(&mut random);
                    pair.fill(number % 2, start, value, end - start);
                    // To another array, up and down in the same, to the same place.
                    for target in [start, edges[number / 2], length - (end - start)] {
                        pair.copy(1 - number % 2, target, number % 2, start, end - start);
                        pair.copy(number % 2, target, number % 2, start, end - start);
                    }
                    let values: Vec<_> = (start..end).map(|_| pair.value(&mut random)).collect();
                    pair.write(1, start, &values);
                }
                pair.compare();
                pair.heap.collect(Cause::Requested, &mut pair.roots);
                pair.compare();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_operations_match_a_model(
        layout in 0..common::layouts().len(),
        kind in prop::sample::select(&KINDS[..]),
        lengths in [0..3000u32, 0..3000u32],
        steps in prop::collection::vec((0..8usize, any::<u64>()), 1..60),
    ) {
        let configs = with_layouts(&HeapConfig { max_bytes: Some(8 << 20), ..HeapConfig::default() });
        // Up to 24,000 bytes: enough for spines with room.
        let mut pair = Pair::new(&configs[layout], kind, lengths.map(|length| length * (8 / kind.bytes()).max(1)));
        for (step, seed) in steps {
            let mut random = Random(seed);
            let (to, from) = (random.below(2), random.below(2));
            let length = random.below(pair.models[to].len() + 1);
            let start = random.below(pair.models[to].len() - length + 1);
            match step {
                0 | 1 => {
                    let value = pair.value(&mut random);
                    pair.fill(to, start, value, length);
                }
                2..=4 => {
                    let length = length.min(pair.models[from].len());
                    let source = random.below(pair.models[from].len() - length + 1);
                    pair.copy(to, start, from, source, length);
                }
                5 => {
                    let values: Vec<_> = (0..length).map(|_| pair.value(&mut random)).collect();
                    pair.write(to, start, &values);
                }
                6 => pair.heap.collect(Cause::Requested, &mut pair.roots),
                _ => pair.compare(),
            }
        }
        pair.compare();
    }
}

#[test]
fn leaves_are_allocated_shared_and_compressed_as_the_paper_says() {
    let config = HeapConfig { min_bytes: 16 << 20, verify: true, ..HeapConfig::default() };
    for collector in common::all(config) {
        let zrays = ZRayParams { copy_on_write: true, first_n_grows: Some(false), ..ZRayParams::DEFAULT };
        let config = HeapConfig { arrays: legato_heap::Arrays::ZRays(zrays), ..collector };
        let leaf = zrays.leaf_bytes;
        let types = TypeTable::new().unwrap();
        let id = register(&types, TypeShape::Array(StorageKind::I8));
        let mut heap = Heap::new(&config, types).unwrap();
        let mut roots = Held::new();
        // A megabyte: nothing is allocated for it, nor for zeros.
        for _ in 0..2 {
            let array = heap.allocate_array(id, 1 << 20, &mut roots).unwrap();
            roots.push(array);
        }
        let taken = |heap: &Heap| heap.stats().arrays.leaves_allocated;
        heap.fill(roots[0], 0, 0, 1 << 20).unwrap();
        assert_eq!((taken(&heap), heap.stats().arrays.leaves_lazy), (0, 2 * (1020)));
        // One leaf for a byte, 200 for as many kilobytes, and none for their copies.
        heap.set(roots[0], 900_000, 7).unwrap();
        heap.fill(roots[0], 4096, 1, 200 * leaf).unwrap();
        assert_eq!(taken(&heap), 201);
        heap.copy((roots[1], 0), (roots[0], 0), 1 << 20).unwrap();
        assert_eq!((taken(&heap), heap.stats().arrays.leaves_shared), (201, 201));
        heap.verify(Some(&mut roots)).unwrap();
        // A write to either unshares one leaf.
        heap.set(roots[0], 4096, 2).unwrap();
        heap.set(roots[1], 4097, 3).unwrap();
        assert_eq!((heap.array_get(roots[0], 4097), heap.array_get(roots[1], 4096)), (1, 1));
        assert_eq!(heap.stats().arrays.leaves_unshared, 2);
        // The collector lets go of what has become zero, and counts the rest.
        heap.fill(roots[0], 4096, 0, 100 * leaf).unwrap();
        let fresh = taken(&heap);
        heap.collect(Cause::Requested, &mut roots);
        heap.collect(Cause::Requested, &mut roots);
        let stats = heap.stats();
        assert_eq!(taken(&heap), fresh);
        assert!(stats.allocated_bytes >= fresh * u64::from(leaf), "leaves count: {stats:?}");
        assert_eq!(stats.arrays.leaf_bytes, 201 * u64::from(leaf), "{stats:?}");
        heap.collect(Cause::Requested, &mut NoRoots);
        assert_eq!(heap.stats().live_bytes, 0);
        assert_eq!(heap.stats().arrays.leaf_bytes, 0);
    }
}

#[test]
fn a_counted_build_counts_arrays_and_copies() {
    for config in common::all(HeapConfig { count_accesses: true, ..HeapConfig::default() }) {
        let types = TypeTable::new().unwrap();
        let bytes = register(&types, TypeShape::Array(StorageKind::I8));
        let references = register(&types, TypeShape::Array(StorageKind::Ref));
        let mut heap = Heap::new(&config, types).unwrap();
        let mut roots = Held::new();
        for (id, length) in [(bytes, 10_000), (bytes, 4096), (references, 100)] {
            let array = heap.allocate_array(id, length, &mut roots).unwrap();
            roots.push(array);
        }
        heap.copy((roots[0], 4000), (roots[1], 0), 200).unwrap();
        let counted = heap.stats().arrays.counted;
        assert_eq!((counted.allocated_bytes, counted.allocated_number_bytes), (14_496, 14_096));
        assert_eq!(
            (counted.allocated_large_bytes, counted.copied_bytes, counted.copied_beyond_bytes),
            (10_000, 200, 104)
        );
    }
}
