//! Mapped arrays that share pages after `array.copy`: whoever writes, the others keep what they had.
#![cfg(target_os = "linux")]

mod common;

use common::{Held, Random, Trusting, all, register};
use legato_heap::arrays::MappedParams;
use legato_heap::layout::{StorageKind, array_elements_offset};
use legato_heap::sizing::GcRatioParams;
use legato_heap::{
    Arrays, Cause, Heap, HeapConfig, NoRoots, Reference, RootVisitor, Roots, Sizing, TypeId, TypeShape, TypeTable,
};

/// Heaps that are never much larger than what lives.
const TIGHT: Sizing = Sizing::GcRatio(GcRatioParams { growth: 1.05 });

fn mapped(config: HeapConfig) -> HeapConfig {
    HeapConfig { arrays: Arrays::Mapped(MappedParams { from: 32 << 10, sharing: true }), ..config }
}

/// One configuration for each collector and reference model, otherwise as given.
fn few(config: HeapConfig) -> Vec<HeapConfig> {
    all(mapped(config)).into_iter().take(3).collect()
}

/// An array of the heap, and what it must hold.
struct Pair {
    array: Reference,
    kind: StorageKind,
    bytes: Vec<u8>,
}

struct Pairs(Vec<Pair>);

// SAFETY: the arrays are the heap's, and are among the roots of every call.
unsafe impl Roots for Pairs {
    fn visit_roots(&mut self, visitor: &mut dyn RootVisitor) {
        for pair in &mut self.0 {
            visitor.visit(&mut pair.array);
        }
    }
}

impl Pair {
    fn length(&self) -> usize {
        self.bytes.len() / self.kind.bytes() as usize
    }

    fn check(&self, heap: &Heap) {
        let elements = heap.object_address(self.array).wrapping_add(array_elements_offset(self.kind) as usize);
        // SAFETY: the array has as many bytes of elements.
        let held = unsafe { std::slice::from_raw_parts(elements, self.bytes.len()) };
        if let Some(at) = (0..held.len()).find(|&at| held[at] != self.bytes[at]) {
            panic!("byte {at} of {} is {}, and should be {}", held.len(), held[at], self.bytes[at]);
        }
    }
}

/// Random copies, fills, stores and deaths among arrays of one element kind. Many copies are to new arrays, as these
/// alone come to share pages.
fn run(config: &HeapConfig, kind: StorageKind, seed: u64, steps: usize) -> Heap {
    let types = TypeTable::new().unwrap();
    let id = register(&types, TypeShape::Array(kind));
    let mut heap = Heap::new(config, types).unwrap();
    let (mut random, mut pairs, size) = (Random(seed), Pairs(Vec::new()), kind.bytes() as usize);
    for step in 1..=steps {
        let choice = random.below(10);
        if choice <= 1 && pairs.0.len() == 12 {
            pairs.0.swap_remove(1 + random.below(11));
            // Has the memory of the dead given back to the system: new arrays are untouched then.
            heap.collect(Cause::Requested, &mut pairs);
        }
        if choice <= 1 || pairs.0.len() < 3 {
            let bytes = [64 << 10, 200 << 10, 500 << 10][random.below(3)] + 16 * random.below(2000);
            let array = heap.allocate_array(id, (bytes / size) as u32, &mut pairs).unwrap();
            pairs.0.push(Pair { array, kind, bytes: vec![0; bytes / size * size] });
        }
        let sources = if random.below(2) == 0 { pairs.0.len().min(2) } else { pairs.0.len() };
        let (mut to, from) = (random.below(pairs.0.len()), random.below(sources));
        if choice <= 1 {
            to = pairs.0.len() - 1;
        } else if random.below(8) > 0 {
            // A source that changes little is shared often.
            to = to.max(1).min(pairs.0.len() - 1);
        }
        let length = pairs.0[to].length();
        match choice {
            // A copy: from the start, at the same place of both, or anywhere.
            0..6 => {
                let most = length.min(pairs.0[from].length());
                let (to_start, from_start, count) = match random.below(4) {
                    0..2 => (0, 0, most - random.below(2) * random.below(most)),
                    2 => {
                        let start = random.below(most);
                        (start, start, random.below(most - start + 1))
                    }
                    _ => {
                        let count = random.below(most + 1);
                        let pages =
                            |room: usize, random: &mut Random| random.below(room * size / 4096 + 1) * 4096 / size;
                        let to_start = pages(length - count, &mut random);
                        (to_start, pages(pairs.0[from].length() - count, &mut random), count)
                    }
                };
                let (target, source) = (pairs.0[to].array, pairs.0[from].array);
                heap.copy((target, to_start as u32), (source, from_start as u32), count as u32).unwrap();
                let part = pairs.0[from].bytes[from_start * size..(from_start + count) * size].to_vec();
                pairs.0[to].bytes[to_start * size..(to_start + count) * size].copy_from_slice(&part);
            }
            6..8 => {
                for _ in 0..random.below(20) {
                    let index = random.below(length);
                    let bits = random.next() as u128 & (u128::MAX >> (128 - 8 * size));
                    heap.set(pairs.0[to].array, index as u32, bits).unwrap();
                    pairs.0[to].bytes[index * size..][..size].copy_from_slice(&bits.to_le_bytes()[..size]);
                }
            }
            8 => {
                let start = random.below(length);
                let count = random.below(length - start + 1);
                let bits = random.below(3) as u128;
                heap.fill(pairs.0[to].array, start as u32, bits, count as u32).unwrap();
                let part = &mut pairs.0[to].bytes[start * size..(start + count) * size];
                part.chunks_mut(size).for_each(|element| element.copy_from_slice(&bits.to_le_bytes()[..size]));
            }
            _ => match random.below(3) {
                0 => drop(pairs.0.swap_remove(to)),
                1 => heap.collect(Cause::Requested, &mut pairs),
                _ => heap.poll(&mut pairs),
            },
        }
        if step % 50 == 0 {
            heap.verify(Some(&mut pairs)).unwrap();
        }
        if let Some(pair) = pairs.0.get(to) {
            pair.check(&heap);
        }
        if step % 20 == 0 {
            pairs.0.iter().for_each(|pair| pair.check(&heap));
        }
    }
    heap
}

#[test]
fn arrays_stay_apart() {
    for config in few(HeapConfig { min_bytes: 0, sizing: TIGHT, verify: true, ..HeapConfig::default() }) {
        let mut shared = 0;
        for (seed, kind) in [StorageKind::I8, StorageKind::I16, StorageKind::I32, StorageKind::I64, StorageKind::V128]
            .into_iter()
            .enumerate()
        {
            shared += run(&config, kind, seed as u64, 1500).stats().mapped_shared_bytes;
        }

        assert!(shared > 1 << 20, "{shared} bytes were shared");
    }
}

#[test]
fn arrays_stay_apart_under_stress() {
    let config = HeapConfig { stress: Some(2), min_bytes: 0, sizing: TIGHT, verify: true, ..HeapConfig::default() };
    for config in all(mapped(config)) {
        let shared = run(&config, StorageKind::I8, 77, 500).stats().mapped_shared_bytes;
        assert!(shared > 0);
    }
}

#[test]
fn nothing_is_shared_where_that_is_switched_off() {
    let arrays = Arrays::Mapped(MappedParams { from: 32 << 10, sharing: false });
    let config = HeapConfig { arrays, verify: true, ..HeapConfig::default() };
    assert_eq!(run(&config, StorageKind::I8, 1, 500).stats().mapped_shared_bytes, 0);
}

/// A heap with byte arrays, and one of `bytes` that has been filled.
fn with_source(config: &HeapConfig, bytes: u32) -> (Heap, TypeId, Held) {
    let types = TypeTable::new().unwrap();
    let id = register(&types, TypeShape::Array(StorageKind::I8));
    let mut heap = Heap::new(config, types).unwrap();
    let source = heap.allocate_array(id, bytes, &mut NoRoots).unwrap();
    heap.fill(source, 0, 5, bytes).unwrap();
    (heap, id, Held(vec![source]))
}

/// Copies the first root whole to a new array, which becomes the last one.
fn copy_first(heap: &mut Heap, id: TypeId, roots: &mut Held, bytes: u32) {
    let new = heap.allocate_array(id, bytes, roots).unwrap();
    heap.copy((new, 0), (roots[0], 0), bytes).unwrap();
    roots.push(new);
}

#[test]
fn copies_of_one_array_take_no_memory() {
    const BYTES: u32 = 4 << 20;
    for config in few(HeapConfig { min_bytes: 0, verify: true, ..HeapConfig::default() }) {
        let (mut heap, id, mut roots) = with_source(&config, BYTES);
        for _ in 0..30 {
            copy_first(&mut heap, id, &mut roots, BYTES);
        }
        heap.collect(Cause::Requested, &mut roots);
        let stats = heap.stats();
        assert!(stats.mapped_shared_bytes > 28 * BYTES as u64, "{stats:?}");
        // The first copy, what the others share, and the pages at their ends.
        assert!(stats.mapped_memory_bytes < 3 * BYTES as u64 && stats.used_bytes < 4 * BYTES as u64, "{stats:?}");
        // Whoever writes gets a page of its own.
        for (number, &array) in roots.iter().enumerate() {
            heap.fill(array, 1 << 20, number as u128, 10 << 12).unwrap();
        }
        heap.collect(Cause::Requested, &mut roots);
        let written = heap.stats().mapped_memory_bytes - stats.mapped_memory_bytes;
        assert!((30 * (10 << 12)..30 * (13 << 12)).contains(&written), "{written}");
        for (number, &array) in roots.iter().enumerate() {
            let at = |element: u32| heap.load(array, 12 + element, StorageKind::I8);
            assert_eq!(
                [0, (1 << 20) - 1, 1 << 20, (1 << 20) + (10 << 12), BYTES - 1].map(at),
                [5, 5, number as u128, 5, 5]
            );
        }
    }
}

#[test]
fn what_every_array_has_written_is_let_go() {
    const BYTES: u32 = 4 << 20;
    for config in few(HeapConfig { min_bytes: 0, verify: true, ..HeapConfig::default() }) {
        let (mut heap, id, mut roots) = with_source(&config, BYTES);
        for _ in 0..3 {
            copy_first(&mut heap, id, &mut roots, BYTES);
        }
        // The first half of the file's pages is needed by nobody, the second one by two arrays still.
        for which in [0, 2, 3] {
            heap.fill(roots[which], 0, 6 + which as u128, BYTES / if which == 0 { 1 } else { 2 }).unwrap();
        }
        heap.collect(Cause::Requested, &mut roots);
        let stats = heap.stats();
        assert!(stats.mapped_shared_bytes > BYTES as u64, "{stats:?}");
        // Two whole arrays, two halves, and a half of the file; 64 KiB for what lies at the ends.
        let expected = BYTES as u64 / 2 * 7;
        assert!((expected..expected + (64 << 10)).contains(&stats.mapped_memory_bytes), "{stats:?}");
        // Further copies, and deaths in every order, find the right pages.
        copy_first(&mut heap, id, &mut roots, BYTES);
        copy_first(&mut heap, id, &mut roots, BYTES);
        let third = roots[2];
        let new = heap.allocate_array(id, BYTES, &mut roots).unwrap();
        heap.copy((new, 0), (third, 0), BYTES).unwrap();
        roots.push(new);
        for _ in 0..roots.len() {
            heap.collect(Cause::Requested, &mut roots);
            for (&array, which) in roots.iter().zip([0, 1, 2, 3, 0, 0, 2]) {
                let expected = [[6, 6], [5, 5], [8, 5], [9, 5]][which];
                let halves = [12..12 + BYTES / 2, 12 + BYTES / 2..12 + BYTES];
                for (mut half, value) in halves.into_iter().zip(expected) {
                    assert!(half.all(|at| heap.load(array, at, StorageKind::I8) == value), "array {which}");
                }
            }
            roots.pop();
        }
        heap.collect(Cause::Requested, &mut roots);
        assert_eq!(heap.stats().mapped_memory_bytes, 0);
    }
}

#[test]
fn an_array_outlives_those_it_shares_with() {
    const BYTES: u32 = 1 << 20;
    for config in few(HeapConfig { min_bytes: 0, verify: true, ..HeapConfig::default() }) {
        let (mut heap, id, mut roots) = with_source(&config, BYTES);
        for _ in 0..4 {
            copy_first(&mut heap, id, &mut roots, BYTES);
        }
        roots.drain(..4);
        heap.collect(Cause::Requested, &mut roots);
        // Others take the address space of the dead, which is zero again.
        for _ in 0..6 {
            let new = heap.allocate_array(id, BYTES, &mut roots).unwrap();
            assert!((12..BYTES).step_by(4096).all(|at| heap.load(new, at, StorageKind::I8) == 0));
            heap.fill(new, 0, 9, BYTES).unwrap();
            roots.push(new);
        }
        assert!((12..BYTES).all(|at| heap.load(roots[0], at, StorageKind::I8) == 5));
        roots.clear();
        heap.collect(Cause::Requested, &mut roots);
        assert_eq!(heap.stats().mapped_memory_bytes, 0);
    }
}

/// Fills an array and copies it, a hundred times, and returns how often its pages were moved to be shared. Collects
/// before the copies of rounds that `collects` names.
fn moves_of_a_changing_array(collects: impl Fn(u32) -> bool) -> u64 {
    const BYTES: u32 = 1 << 20;
    let config = mapped(HeapConfig::default());
    let (mut heap, id, mut roots) = with_source(&config, BYTES);
    for round in 0..100 {
        heap.fill(roots[0], 0, round.into(), BYTES).unwrap();
        if collects(round) {
            heap.collect(Cause::Requested, &mut roots);
        }
        copy_first(&mut heap, id, &mut roots, BYTES);
    }
    for (round, &copy) in (0..).zip(&roots[1..]) {
        assert!((12..BYTES).step_by(1000).all(|at| heap.load(copy, at, StorageKind::I8) == round));
    }
    heap.stats().mapped_shared_bytes / BYTES as u64
}

#[test]
fn an_array_that_changes_before_every_copy_is_left_alone() {
    // Moved at the 2nd copy, then after two plain ones, after four, and so on.
    let moves = moves_of_a_changing_array(|_| false);
    assert!((3..=7).contains(&moves), "{moves} copies of a hundred were shared");
}

#[test]
fn a_collection_between_change_and_copy_does_not_hide_the_change() {
    for every in [1, 2, 3] {
        let moves = moves_of_a_changing_array(|round| round % every == 0);
        assert!((3..=7).contains(&moves), "{moves} copies of a hundred were shared");
    }
}

#[test]
fn shared_references_are_traced_on_both_sides() {
    // No memory is used a second time before the copies are made: what has been touched is not shared.
    for config in all(mapped(HeapConfig { min_bytes: 8 << 20, verify: true, ..HeapConfig::default() })) {
        const LENGTH: u32 = 40_000;
        let types = TypeTable::new().unwrap();
        let node = register(&types, TypeShape::Struct(vec![StorageKind::I32]));
        let array = register(&types, TypeShape::Array(StorageKind::Ref));
        let mut heap = Heap::new(&config, types).unwrap();
        let mut roots = Held::nulls(1);
        roots[0] = heap.allocate_array(array, LENGTH, &mut roots).unwrap();
        let slot = |index: u32| 12 + 4 * index;
        let number = |heap: &Heap, array: Reference, index: u32| {
            let node = Reference(heap.load(array, slot(index), StorageKind::Ref) as u32);
            heap.load(node, 8, StorageKind::I32) as u32
        };
        let put = |heap: &mut Heap, roots: &mut Held, which: usize, index: u32, number: u32| {
            let new = heap.allocate_struct(node, roots).unwrap();
            heap.put(new, 8, StorageKind::I32, number.into());
            heap.set(roots[which], index, new.0.into()).unwrap();
        };
        for index in 0..LENGTH {
            put(&mut heap, &mut roots, 0, index, index);
        }
        for _ in 0..3 {
            let new = heap.allocate_array(array, LENGTH, &mut roots).unwrap();
            heap.copy((new, 0), (roots[0], 0), LENGTH).unwrap();
            roots.push(new);
        }
        assert!(heap.stats().mapped_shared_bytes > 0);
        for round in 0..4 {
            for (which, index) in (0..4).zip([5, 9_000, 20_000, 39_999]) {
                put(&mut heap, &mut roots, which, index, 1_000_000 * (round + 1) + which as u32);
            }
            heap.collect(Cause::Requested, &mut roots);
            for which in 0..4 {
                for index in (0..LENGTH).step_by(7).chain([5, 9_000, 20_000, 39_999]) {
                    let own = [5, 9_000, 20_000, 39_999][which] == index;
                    let expected = if own { 1_000_000 * (round + 1) + which as u32 } else { index };
                    assert_eq!(number(&heap, roots[which], index), expected);
                }
            }
        }
    }
}
