//! Spines whose first bytes grow: when they do, and what stays in leaves.

mod common;

use common::{Held, Random, Trusting, all, register};
use legato_heap::arrays::ZRayParams;
use legato_heap::layout::{INLINE_LENGTH_OFFSET, StorageKind, array_elements_offset};
use legato_heap::{Arrays, Cause, Heap, HeapConfig, NoRoots, Reference, References, TypeId, TypeShape, TypeTable};

const LEAF: u32 = 1024;
const FIRST_N: u32 = 4096;

/// Growing spines under every collector that can have them.
fn growing() -> impl Iterator<Item = HeapConfig> {
    let arrays = Arrays::ZRays(ZRayParams::DEFAULT);
    let config = HeapConfig { arrays, min_bytes: 16 << 20, verify: true, ..HeapConfig::default() };
    all(config).into_iter().filter(|config| config.references == References::Direct)
}

fn heap(config: &HeapConfig, kind: StorageKind) -> (Heap, TypeId) {
    let types = TypeTable::new().unwrap();
    let id = register(&types, TypeShape::Array(kind));
    (Heap::new(config, types).unwrap(), id)
}

/// How many elements lie in one piece, as compiled code reads it.
fn inline_length(heap: &Heap, array: Reference) -> u32 {
    // SAFETY: every array has this word where first bytes grow.
    unsafe { heap.object_address(array).add(INLINE_LENGTH_OFFSET as usize).cast::<u32>().read() }
}

/// Checks that the elements in one piece are where compiled code expects them.
fn check_inline(heap: &Heap, array: Reference, kind: StorageKind) {
    let size = kind.bytes() as usize;
    let mut elements = vec![0; inline_length(heap, array) as usize * size];
    heap.array_read_bytes(array, 0, &mut elements);
    // SAFETY: the elements in one piece follow the header.
    let inline = unsafe {
        let first = heap.object_address(array).add(array_elements_offset(kind) as usize);
        std::slice::from_raw_parts(first, elements.len())
    };
    assert!(elements == inline);
}

#[test]
fn an_array_filled_from_the_left_never_has_leaves() {
    for config in growing() {
        let (mut heap, id) = heap(&config, StorageKind::I32);
        let mut roots = Held::new();
        let length = 100_000;
        let array = heap.allocate_array(id, length, &mut roots).unwrap();
        roots.push(array);
        assert_eq!(inline_length(&heap, roots[0]), FIRST_N / 4);
        for index in 0..length {
            heap.set(roots[0], index, u128::from(index) + 1).unwrap();
        }
        assert_eq!(inline_length(&heap, roots[0]), length);
        check_inline(&heap, roots[0], StorageKind::I32);
        let stats = heap.stats().arrays;
        assert_eq!((stats.leaves_allocated, stats.leaves_grown), (0, stats.leaves_lazy));
        heap.collect(Cause::Requested, &mut roots);
        assert!((0..length).all(|index| heap.array_get(roots[0], index) == u128::from(index) + 1));
    }
}

#[test]
fn a_sparse_array_keeps_its_leaves_until_a_quarter_of_them_is_in_use() {
    for config in growing() {
        let (mut heap, id) = heap(&config, StorageKind::I8);
        let mut roots = Held::new();
        let leaves = 200;
        let array = heap.allocate_array(id, FIRST_N + leaves * LEAF, &mut roots).unwrap();
        roots.push(array);
        // From the right, so that no leaf follows what is in one piece.
        let first = leaves - leaves / 4;
        for number in (first..leaves).rev() {
            assert_eq!(inline_length(&heap, roots[0]), FIRST_N, "{number}");
            assert_eq!(heap.stats().arrays.leaves_allocated, u64::from(leaves - 1 - number));
            heap.set(roots[0], FIRST_N + number * LEAF + 7, 3).unwrap();
        }
        assert_eq!(inline_length(&heap, roots[0]), FIRST_N + leaves * LEAF);
        check_inline(&heap, roots[0], StorageKind::I8);
        let set = |index: u32| index >= FIRST_N + first * LEAF && index % LEAF == 7;
        let expected: Vec<u8> = (0..FIRST_N + leaves * LEAF).map(|index| 3 * u8::from(set(index))).collect();
        let mut found = vec![0; expected.len()];
        heap.array_read_bytes(roots[0], 0, &mut found);
        assert!(found == expected);
        heap.verify(Some(&mut roots)).unwrap();
        heap.collect(Cause::Requested, &mut roots);
        assert_eq!(heap.stats().arrays.leaf_bytes, 0, "leaves that have been moved inline are free");
    }
}

/// However large the array is, neither a store nor a poll moves more than a part of it.
#[test]
fn a_large_array_comes_home_in_steps() {
    for config in growing() {
        let (mut heap, id) = heap(&config, StorageKind::I32);
        let mut roots = Held::new();
        let leaves = 2000;
        let length = (FIRST_N + leaves * LEAF) / 4;
        let array = heap.allocate_array(id, length, &mut roots).unwrap();
        roots.push(array);
        let (mut before, mut steps) = (inline_length(&heap, roots[0]), 0);
        for number in (0..leaves).rev() {
            heap.set(roots[0], (FIRST_N + number * LEAF) / 4 + 3, u128::from(number) + 1).unwrap();
            let now = inline_length(&heap, roots[0]);
            assert!(4 * (now - before) <= 256 << 10, "{} bytes at once", 4 * (now - before));
            steps += u32::from(now > before);
            before = now;
            if number == leaves - leaves / 4 - 1 {
                heap.collect(Cause::Requested, &mut roots);
            }
        }
        assert_eq!(steps, 2, "the store that tips the scales, and the one that meets what has been moved");
        while before < length {
            heap.poll(&mut roots);
            let now = inline_length(&heap, roots[0]);
            assert!(now > before && 4 * (now - before) <= 256 << 10, "{} bytes at once", 4 * (now - before));
            (before, steps) = (now, steps + 1);
        }
        assert_eq!(steps, leaves.div_ceil(256));
        // An array that dies on the way is forgotten.
        let array = heap.allocate_array(id, length, &mut roots).unwrap();
        roots[0] = array;
        for number in (0..leaves).rev() {
            heap.set(roots[0], (FIRST_N + number * LEAF) / 4 + 3, u128::from(number) + 1).unwrap();
        }
        heap.collect(Cause::Requested, &mut NoRoots);
        heap.poll(&mut NoRoots);
        heap.verify(Some(&mut NoRoots)).unwrap();
        let array = heap.allocate_array(id, length, &mut NoRoots).unwrap();
        roots[0] = array;
        for number in (0..leaves).rev() {
            heap.set(roots[0], (FIRST_N + number * LEAF) / 4 + 3, u128::from(number) + 1).unwrap();
        }
        while inline_length(&heap, roots[0]) < length {
            heap.poll(&mut roots);
        }
        check_inline(&heap, roots[0], StorageKind::I32);
        heap.verify(Some(&mut roots)).unwrap();
        for number in 0..leaves {
            assert_eq!(heap.array_get(roots[0], (FIRST_N + number * LEAF) / 4 + 3), u128::from(number) + 1);
        }
    }
}

#[test]
fn zeros_take_nothing() {
    for config in growing() {
        let (mut heap, id) = heap(&config, StorageKind::I8);
        let mut roots = Held::new();
        let array = heap.allocate_array(id, 100_000, &mut roots).unwrap();
        roots.push(array);
        heap.set(roots[0], FIRST_N, 0).unwrap();
        heap.fill(roots[0], 0, 0, 100_000).unwrap();
        heap.write_bytes(roots[0], 0, &[0; 100_000]).unwrap();
        let stats = heap.stats().arrays;
        assert_eq!((inline_length(&heap, roots[0]), stats.leaves_allocated, stats.leaves_grown), (FIRST_N, 0, 0));
    }
}

#[test]
fn leaves_that_growth_meets_come_home() {
    for config in growing() {
        let (mut heap, id) = heap(&config, StorageKind::I64);
        let mut roots = Held::new();
        let length = (FIRST_N + 100 * LEAF) / 8;
        let array = heap.allocate_array(id, length, &mut roots).unwrap();
        roots.push(array);
        for leaf in [9, 10, 11, 40] {
            heap.set(roots[0], (FIRST_N + leaf * LEAF) / 8, leaf.into()).unwrap();
        }
        heap.fill(roots[0], 0, 5, (FIRST_N + 9 * LEAF) / 8).unwrap();
        assert_eq!(inline_length(&heap, roots[0]), (FIRST_N + 9 * LEAF) / 8);
        // A bulk operation grows over what it writes; a store behind that takes in what follows.
        heap.set(roots[0], (FIRST_N + 9 * LEAF) / 8 + 1, 1).unwrap();
        heap.collect(Cause::Requested, &mut roots);
        check_inline(&heap, roots[0], StorageKind::I64);
        for leaf in [9, 10, 11, 40] {
            assert_eq!(heap.array_get(roots[0], (FIRST_N + leaf * LEAF) / 8), leaf.into());
        }
        assert_eq!(heap.stats().arrays.leaf_bytes % u64::from(LEAF), 0);
    }
}

#[test]
fn copies_of_dense_arrays_are_dense_and_of_sparse_ones_sparse() {
    for config in growing() {
        for copy_on_write in [false, true] {
            let arrays = Arrays::ZRays(ZRayParams { copy_on_write, ..ZRayParams::DEFAULT });
            let config = HeapConfig { arrays, ..config.clone() };
            let (mut heap, id) = heap(&config, StorageKind::I8);
            let mut roots = Held::new();
            let length = FIRST_N + 100 * LEAF;
            for _ in 0..4 {
                let array = heap.allocate_array(id, length, &mut roots).unwrap();
                roots.push(array);
            }
            heap.fill(roots[0], 0, 9, length).unwrap();
            heap.copy((roots[1], 0), (roots[0], 0), length).unwrap();
            assert_eq!((inline_length(&heap, roots[0]), inline_length(&heap, roots[1])), (length, length));
            let leaves = heap.stats().arrays.leaves_allocated;
            heap.fill(roots[2], length - 3 * LEAF, 8, LEAF).unwrap();
            heap.copy((roots[3], 0), (roots[2], 0), length).unwrap();
            assert_eq!(inline_length(&heap, roots[3]), FIRST_N);
            let taken = heap.stats().arrays.leaves_allocated - leaves;
            assert_eq!((taken, heap.stats().arrays.leaves_shared), if copy_on_write { (1, 1) } else { (2, 0) });
            heap.set(roots[2], length - 3 * LEAF, 1).unwrap();
            assert_eq!(heap.array_get(roots[3], length - 3 * LEAF), 8);
            heap.verify(Some(&mut roots)).unwrap();
        }
    }
}

/// What follows the elements in one piece is zero however the memory was used before.
#[test]
fn space_that_others_have_used_is_zero() {
    for config in growing() {
        let (mut heap, id) = heap(&config, StorageKind::I8);
        let mut random = Random(1);
        for _ in 0..40 {
            let length = 20_000 + random.below(300_000) as u32;
            let mut roots = Held::new();
            let array = heap.allocate_array(id, length, &mut roots).unwrap();
            roots.push(array);
            let mut zeros = vec![1; length as usize];
            heap.array_read_bytes(roots[0], 0, &mut zeros);
            assert!(zeros.iter().all(|&byte| byte == 0));
            // A byte on the left grows by a page, one far out takes a leaf: all around them is zero.
            for index in [FIRST_N, length - 1] {
                heap.set(roots[0], index, 1).unwrap();
            }
            heap.array_read_bytes(roots[0], 0, &mut zeros);
            assert_eq!(zeros.iter().filter(|&&byte| byte != 0).count(), 2);
            heap.fill(roots[0], 0, 0xff, length).unwrap();
            heap.collect(Cause::Requested, &mut NoRoots);
        }
    }
}

/// A full collection gives back what a sparse array's room held before, and pages of zeros in what has grown.
#[test]
#[cfg(target_os = "linux")]
fn unused_space_has_no_memory() {
    for config in growing() {
        let (mut heap, id) = heap(&config, StorageKind::I8);
        let mut roots = Held::new();
        let array = heap.allocate_array(id, 4 << 20, &mut roots).unwrap();
        roots.push(array);
        heap.fill(roots[0], 0, 1, 4 << 20).unwrap();
        heap.collect(Cause::Requested, &mut NoRoots);
        roots.clear();
        let array = heap.allocate_array(id, 4 << 20, &mut roots).unwrap();
        roots.push(array);
        heap.set(roots[0], 3 << 20, 1).unwrap();
        heap.collect(Cause::Requested, &mut roots);
        let sparse = heap.stats();
        assert!(sparse.live_bytes < 64 << 10, "{} bytes live", sparse.live_bytes);
        heap.fill(roots[0], 0, 1, 4 << 20).unwrap();
        heap.collect(Cause::Requested, &mut roots);
        assert!(heap.stats().live_bytes >= 4 << 20);
        heap.fill(roots[0], 1 << 20, 0, 2 << 20).unwrap();
        heap.collect(Cause::Requested, &mut roots);
        let live = heap.stats().live_bytes;
        assert!((2 << 20..(2 << 20) + (64 << 10)).contains(&live), "{live} bytes live");
        assert_eq!(heap.array_get(roots[0], (3 << 20) + 1), 1);
        assert_eq!(heap.array_get(roots[0], (3 << 20) - 1), 0);
    }
}

#[test]
fn growth_asks_for_what_it_needs() {
    let grows = ZRayParams { first_n_grows: Some(true), ..ZRayParams::DEFAULT };
    let config = HeapConfig { arrays: Arrays::ZRays(grows), ..HeapConfig::default() };
    config.validate().unwrap();
    let handles = HeapConfig {
        collector: legato_heap::Collector::MarkSweep,
        references: References::ThinHandles,
        zeroing: None,
        ..config.clone()
    };
    let error = handles.validate().unwrap_err().to_string();
    assert!(error.contains("first-n-grows=on") && error.contains("references=direct"), "{error}");
    HeapConfig { arrays: Arrays::Contiguous, ..handles }.validate().unwrap();
}

#[test]
fn an_access_takes_as_long_in_a_long_array() {
    for config in growing() {
        let (mut heap, id) = heap(&HeapConfig { verify: false, ..config }, StorageKind::I32);
        let mut roots = Held::new();
        let length = 4_000_000;
        let array = heap.allocate_array(id, length, &mut roots).unwrap();
        roots.push(array);
        heap.fill(array, 0, 5, length).unwrap();
        assert_eq!(inline_length(&heap, array), length);
        // Minutes, if each access looked at all leaves.
        for index in 0..length {
            assert_eq!(heap.array_get(array, index), 5);
            heap.set(array, length - 1 - index, 5).unwrap();
        }
    }
}
