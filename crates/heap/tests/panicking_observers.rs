//! An observer that panics, in safe code: whichever call it is, the heap is as good as before.

use legato_heap::embed::{Any, Error, ObjectHeap, Root, StructType};
use legato_heap::{GcEvent, GcObserver, GcSlice, GcStop, HeapConfig};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Which calls are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Slice,
    Stop,
    Event,
}

/// Panics at one such call, behind so many others.
struct Panicking {
    call: Call,
    others: u32,
    is_done: bool,
}

impl Panicking {
    fn count(&mut self, call: Call) {
        if self.is_done || call != self.call {
            return;
        }
        self.is_done = self.others == 0;
        self.others = self.others.saturating_sub(1);
        assert!(!self.is_done, "a defect of the observer");
    }
}

impl GcObserver for Panicking {
    fn slice(&mut self, _slice: &GcSlice) {
        self.count(Call::Slice);
    }

    fn stop(&mut self, _stop: &GcStop) {
        self.count(Call::Stop);
    }

    fn event(&mut self, _event: &GcEvent) {
        self.count(Call::Event);
    }
}

const LISTS: i64 = 500;

/// Lists of two, each rooted, in a heap whose observer panics at a call of its first requested collection; uses it on.
/// Returns whether there was such a call.
fn go_on_after_a_panic(settings: &str, call: Call, others: u32) -> bool {
    let mut config = HeapConfig { max_bytes: Some(8 << 20), ..HeapConfig::default() };
    for (key, value) in settings.split_whitespace().filter_map(|setting| setting.split_once('=')) {
        config.set(key, value).unwrap();
    }
    let mut heap = ObjectHeap::new(&config).unwrap();
    let cell = heap.define(StructType::new("cell").field::<Any>("next").field::<i64>("number")).unwrap();
    let numbers = heap.define_array::<i64>("numbers").unwrap();
    let (next, number) = (cell.field::<Any>("next").unwrap(), cell.field::<i64>("number").unwrap());
    let roots: Vec<Root> = (0..LISTS)
        .map(|index| {
            let root = heap.scope(|scope| {
                let (first, second) = (scope.new_struct(&cell)?, scope.new_struct(&cell)?);
                scope.set(first, number, index)?;
                scope.set(second, number, -index)?;
                scope.set(first, next, second)?;
                scope.root(first)
            });
            root.unwrap()
        })
        .collect();
    heap.set_observer(Box::new(Panicking { call, others, is_done: false }));
    let panicked = catch_unwind(AssertUnwindSafe(|| heap.collect())).is_err();
    heap.set_observer(Box::new(Panicking { call, others, is_done: true }));
    heap.verify().unwrap();
    // Memory that was freed by mistake would be used by others.
    heap.scope(|scope| {
        for _ in 0..100_000 {
            scope.scope(|scope| {
                let array = scope.new_array(numbers, 1)?;
                scope.set_element::<i64>(array, 0, 0x4141_4141_4141_4141)
            })?;
        }
        Ok::<(), Error>(())
    })
    .unwrap();
    heap.collect();
    heap.verify().unwrap();
    for (root, index) in roots.iter().zip(0..) {
        let found = heap.scope(|scope| {
            let first = scope.rooted(root)?;
            let second = scope.get(first, next)?;
            Ok::<_, Error>((scope.get(first, number)?, scope.get(second, number)?))
        });
        assert_eq!(found.unwrap(), (index, -index));
    }
    assert_eq!(heap.stats().live_objects, 2 * LISTS as u64);
    panicked
}

#[test]
fn a_heap_outlives_an_observer_that_panics() {
    for settings in [
        "",
        "full=stop",
        "collector=mark-sweep",
        "collector=mark-sweep references=thin-handles",
        "collector=realtime references=brooks",
        "collector=realtime references=replicating",
    ] {
        for call in [Call::Slice, Call::Stop, Call::Event] {
            let count = (0..).take_while(|&others| go_on_after_a_panic(settings, call, others)).count();
            assert!(count >= if call == Call::Slice { 3 } else { 1 }, "{settings:?}: {count} calls of {call:?}");
        }
    }
}
