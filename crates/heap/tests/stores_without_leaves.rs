//! Stores into divided arrays, in a heap that is nearly all garbage: they do not collect, and need not fail for long.

mod common;

use common::{Held, Trusting, register};
use legato_heap::embed::ObjectHeap;
use legato_heap::layout::StorageKind;
use legato_heap::{AllocationError, Heap, HeapConfig, TypeShape, TypeTable};
use std::sync::atomic::Ordering;

const DIVIDED: [&str; 8] = [
    "arrays=arraylets lazy=on",
    "arrays=arraylets lazy=on leaf=64K",
    "arrays=arraylets lazy=on full=stop",
    "arrays=arraylets lazy=on collector=mark-sweep",
    "arrays=arraylets lazy=on collector=realtime",
    "arrays=zrays",
    "arrays=zrays collector=mark-sweep",
    "arrays=zrays first-n-grows=off collector=mark-sweep",
];

/// Elements of the one array of bytes that lives, in heaps of eight times as much.
const LENGTH: u32 = 1 << 20;
const ROUNDS: u32 = 60;

fn config(settings: &str) -> HeapConfig {
    let mut config = HeapConfig { max_bytes: Some(8 << 20), ..HeapConfig::default() };
    for (key, value) in settings.split_whitespace().filter_map(|setting| setting.split_once('=')) {
        config.set(key, value).unwrap();
    }
    config
}

/// Has one array after the other written to, every 500 bytes, and calls `after` behind each store.
fn write_one_after_the_other(settings: &str, mut after: impl FnMut(&mut Heap, &mut Held, Result<(), AllocationError>)) {
    let types = TypeTable::new().unwrap();
    let bytes = register(&types, TypeShape::Array(StorageKind::I8));
    let mut heap = Heap::new(&config(settings), types).unwrap();
    let mut roots = Held::nulls(1);
    for _ in 0..ROUNDS {
        roots[0] = heap.allocate_array(bytes, LENGTH, &mut roots).unwrap();
        for index in (0..LENGTH).step_by(500) {
            let written = heap.set(roots[0], index, 1);
            after(&mut heap, &mut roots, written);
        }
    }
    heap.verify(Some(&mut roots)).unwrap();
}

#[test]
fn where_polls_come_between_stores_none_fails() {
    for settings in DIVIDED {
        write_one_after_the_other(settings, |heap, roots, written| {
            written.unwrap_or_else(|error| panic!("{settings}: {error}"));
            // SAFETY: the context lives as long as the heap.
            if unsafe { (*heap.mutator_context()).poll.load(Ordering::Relaxed) } != 0 {
                heap.poll(roots);
            }
        });
    }
}

#[test]
fn a_store_that_has_failed_can_be_tried_again_behind_a_poll() {
    for settings in DIVIDED {
        let mut failed = 0;
        write_one_after_the_other(settings, |heap, roots, written| {
            if written.is_err() {
                failed += 1;
                // SAFETY: the context lives as long as the heap.
                assert!(unsafe { (*heap.mutator_context()).poll.load(Ordering::Relaxed) } & 1 != 0);
                heap.poll(roots);
                heap.set(roots[0], 0, 1).unwrap();
                heap.set(roots[0], LENGTH - 1, 1).unwrap_or_else(|error| panic!("{settings}: {error}"));
            }
        });
        // Cycles come by the clock, and may come in time.
        let at_once = ["arrays=arraylets lazy=on full=stop", "arrays=arraylets lazy=on collector=mark-sweep"];
        assert!(failed > 0 || !at_once.contains(&settings), "{settings}: memory was never lacking");
    }
}

#[test]
fn writing_in_scopes_fails_only_where_memory_is_exhausted() {
    for settings in DIVIDED {
        let mut heap = ObjectHeap::new(&config(settings)).unwrap();
        let (bytes, numbers) =
            (heap.define_array::<u8>("bytes").unwrap(), heap.define_array::<i64>("numbers").unwrap());
        for round in 0..ROUNDS {
            heap.scope(|scope| {
                let array = scope.new_array(bytes, LENGTH)?;
                if round % 2 == 0 {
                    scope.write_bytes(array, 0, &[7; LENGTH as usize])?;
                    return scope.element::<u8>(array, LENGTH - 1);
                }
                let array = scope.new_array(numbers, LENGTH / 8)?;
                for index in (0..LENGTH / 8).step_by(125) {
                    scope.set_element::<i64>(array, index, 7)?;
                }
                scope.element::<i64>(array, 125).map(|number| number as u8)
            })
            .map_or_else(|error| panic!("{settings}, round {round}: {error}"), |read| assert_eq!(read, 7));
        }
        let kept = heap.scope(|scope| {
            let arrays: Result<Vec<_>, _> = (0..7).map(|_| scope.new_array(bytes, LENGTH)).collect();
            arrays?.into_iter().try_for_each(|array| scope.write_bytes(array, 0, &[7; LENGTH as usize]))?;
            let more = scope.new_array(bytes, 2 * LENGTH)?;
            scope.write_bytes(more, 0, &[7; 2 * LENGTH as usize])
        });
        assert!(kept.unwrap_err().to_string().contains("memory"), "{settings}");
    }
}
