//! How many mappings of the process shared pages take: few at a time, and none in the end. The only test of its
//! process, which it counts the mappings of.
#![cfg(target_os = "linux")]

mod common;

use common::{Held, Trusting, register};
use legato_heap::arrays::MappedParams;
use legato_heap::layout::StorageKind;
use legato_heap::{Arrays, Cause, Heap, HeapConfig, TypeShape, TypeTable};

/// Bytes of an array, and of the runs in it that are written and left untouched in turn.
const BYTES: u32 = 32 << 20;
const RUN: u32 = 128 << 10;
/// The heap's bound on shared extents, each of which splits off a gap at most.
const MOST_MAPPINGS: usize = 2 * 4096;

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

#[test]
fn shared_pages_take_few_mappings_and_leave_none() {
    let before = mappings();
    let types = TypeTable::new().unwrap();
    let id = register(&types, TypeShape::Array(StorageKind::I8));
    let config = HeapConfig { arrays: Arrays::Mapped(MappedParams::DEFAULT), ..HeapConfig::default() };
    let mut heap = Heap::new(&config, types).unwrap();
    let mut roots = Held::nulls(1);
    roots[0] = heap.allocate_array(id, BYTES, &mut roots).unwrap();
    for start in (0..BYTES).step_by(2 * RUN as usize) {
        heap.fill(roots[0], start, 3, RUN).unwrap();
    }
    let settled = mappings();
    for round in 0..3 {
        let mut most = 0;
        while roots.len() < 40 {
            let array = heap.allocate_array(id, BYTES, &mut roots).unwrap();
            heap.copy((array, 0), (roots[0], 0), BYTES).unwrap();
            roots.push(array);
            most = most.max(mappings() - settled);
        }
        // Side tables that have grown may have some, too.
        assert!(most > 1000 && most <= MOST_MAPPINGS + 8, "{most} mappings in round {round}");
        heap.verify(Some(&mut roots)).unwrap();
        for &array in &*roots {
            let at = |element: u32| heap.load(array, 12 + element, StorageKind::I8);
            let right = |start: u32| at(start) == 3 && at(start + RUN - 1) == 3 && at(start + RUN) == 0;
            assert!((0..BYTES).step_by(2 * RUN as usize).all(right));
        }
        roots.truncate(1);
        heap.collect(Cause::Requested, &mut roots);
    }
    roots.clear();
    heap.collect(Cause::Requested, &mut roots);
    assert!(mappings() <= settled + 8, "{} mappings, where there were {settled}", mappings());
    drop(heap);
    assert!(mappings() <= before + 8, "{} mappings, where there were {before}", mappings());
}
