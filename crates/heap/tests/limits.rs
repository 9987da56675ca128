//! The heap at its edges: deep and wide graphs, exhaustion, fragmentation, host values, memory given back.

mod common;

use common::{Held, Trusting, all, allocate_inline, both, moving, realtime, register};
use legato_heap::arrays::ArrayletParams;
use legato_heap::collector::generational::{Full, GenerationalParams, Nursery};
use legato_heap::layout::StorageKind;
use legato_heap::{
    AllocationError, Arrays, Budget, Cause, Collector, GcEvent, GcObserver, Heap, HeapConfig, HeapStats, NoRoots,
    Reference, TypeInfo, TypeShape, TypeTable,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A heap is made where little stack is left, a host function at the end of its guest's recursion for instance.
#[test]
fn heaps_are_made_on_small_stacks() {
    let configs = all(HeapConfig::default());
    assert!(configs.len() > 8);
    for config in configs {
        let make = move || Heap::new(&config, TypeTable::new().unwrap()).map(drop);
        std::thread::Builder::new().stack_size(128 << 10).spawn(make).unwrap().join().unwrap().unwrap();
    }
}

#[test]
fn a_list_of_ten_million_nodes_survives() {
    let mut configs = both(HeapConfig::default());
    for nursery in [Nursery::Fixed(4 << 20), Nursery::Appel] {
        let collector = Collector::Generational(GenerationalParams { nursery, ..GenerationalParams::DEFAULT });
        configs.push(HeapConfig { collector, ..HeapConfig::default() });
    }
    for config in configs {
        let types = TypeTable::new().unwrap();
        let node = register(&types, TypeShape::Struct(vec![StorageKind::Ref]));
        let mut heap = Heap::new(&config, types).unwrap();
        let plan = config.access_plan();
        let mut roots = Held::nulls(1);
        for _ in 0..10_000_000 {
            let new = allocate_inline(&heap, &plan, node, None)
                .unwrap_or_else(|| heap.allocate_struct(node, &mut roots).unwrap());
            // SAFETY: the field follows the header of the new object.
            unsafe { heap.object_address(new).add(8).cast::<Reference>().write(roots[0]) };
            roots[0] = new;
        }
        heap.collect(Cause::Requested, &mut roots);
        assert_eq!(heap.stats().live_objects, 10_000_000);
        assert!(heap.stats().collections > 3, "the threshold grew with the list");
        heap.collect(Cause::Requested, &mut NoRoots);
        let stats = heap.stats();
        assert_eq!((stats.live_objects, stats.live_bytes), (0, 0));
        assert!(stats.committed_bytes <= 17 << 20, "{} bytes are still committed", stats.committed_bytes);
    }
}

/// In a heap that is new, the spine of the first array makes the nursery take its first block.
#[test]
fn the_first_array_of_leaves_may_take_nearly_all() {
    let arraylets = |leaf_bytes| Arrays::Arraylets(ArrayletParams { leaf_bytes, ..ArrayletParams::DEFAULT });
    for (maximum, leaf_bytes) in [(1 << 20, 1 << 10), (4 << 20, 1 << 10), (4 << 20, 4 << 10), (4 << 20, 64 << 10)] {
        let base = HeapConfig { max_bytes: Some(maximum), arrays: arraylets(leaf_bytes), ..HeapConfig::default() };
        for config in all(HeapConfig { verify: true, ..base }) {
            for part in 50..100 {
                let length = (maximum * part / 100) as u32;
                let types = TypeTable::new().unwrap();
                let array = register(&types, TypeShape::Array(StorageKind::I8));
                let mut heap = Heap::new(&config, types).unwrap();
                let mut allocate = || heap.allocate_array(array, length, &mut NoRoots).is_ok();
                let first = allocate();
                assert!(first || !(0..3).any(|_| allocate()), "{part} % of {maximum} fit later alone: {config:?}");
                let HeapStats { used_bytes, committed_bytes, .. } = heap.stats();
                assert!(used_bytes <= maximum && committed_bytes <= maximum, "{used_bytes}, {committed_bytes}");
            }
        }
    }
}

#[test]
fn wide_arrays_are_traced_in_slices() {
    for config in all(HeapConfig { verify: true, ..HeapConfig::default() }) {
        let types = TypeTable::new().unwrap();
        let leaf = register(&types, TypeShape::Struct(vec![StorageKind::I64]));
        let array = register(&types, TypeShape::Array(StorageKind::Ref));
        let mut heap = Heap::new(&config, types).unwrap();
        let mut roots = Held::nulls(1);
        roots[0] = heap.allocate_array(array, 100_000, &mut roots).unwrap();
        for index in 0..100_000 {
            let new = heap.allocate_struct(leaf, &mut roots).unwrap();
            heap.set(roots[0], index, new.0.into()).unwrap();
        }
        heap.collect(Cause::Requested, &mut roots);
        assert_eq!(heap.stats().live_objects, 100_001);
    }
}

#[test]
fn an_array_that_can_never_fit_is_too_large() {
    let header = 16;
    // What is left of the maximum when it is cut to whole blocks, and less what is set aside for leaves.
    for (arrays, maximum, most) in [
        ("contiguous", (8 << 20) + 8192, 8 << 20),
        ("mapped", (8 << 20) + 8192, 8 << 20),
        ("arraylets", 8 << 20, 252 << 15),
    ] {
        for collector in ["mark-sweep", "generational", "realtime"] {
            let mut config = HeapConfig { max_bytes: Some(maximum), ..HeapConfig::default() };
            config.set("collector", collector).unwrap();
            config.set("arrays", arrays).unwrap();
            let types = TypeTable::new().unwrap();
            let bytes = register(&types, TypeShape::Array(StorageKind::I8));
            let mut heap = Heap::new(&config, types).unwrap();
            let error = heap.allocate_array(bytes, most + 1024, &mut NoRoots).unwrap_err();
            assert!(matches!(error, AllocationError::TooLarge { .. }), "{collector}, {arrays}: {error}");
            if arrays != "arraylets" {
                heap.allocate_array(bytes, most - header, &mut NoRoots).unwrap();
            }
        }
    }
}

#[test]
fn exhaustion_is_an_error_and_the_heap_lives_on() {
    for config in
        all(HeapConfig { max_bytes: Some(4 << 20), min_bytes: 1 << 20, verify: true, ..HeapConfig::default() })
    {
        let types = TypeTable::new().unwrap();
        let node = register(&types, TypeShape::Struct(vec![StorageKind::Ref, StorageKind::V128]));
        let bytes = register(&types, TypeShape::Array(StorageKind::I8));
        let mut heap = Heap::new(&config, types).unwrap();
        let mut roots = Held::nulls(1);
        for round in 0..3 {
            let error = loop {
                match heap.allocate_struct(node, &mut roots) {
                    Ok(new) => {
                        heap.put(new, 8, StorageKind::Ref, roots[0].0 as u128);
                        roots[0] = new;
                    }
                    Err(error) => break error,
                }
            };
            assert!(error.to_string().starts_with("out of memory: 32 bytes"), "{error}");
            heap.verify(Some(&mut roots)).unwrap();
            assert!(heap.stats().live_bytes > 3 << 20, "round {round}: {:?}", heap.stats());
            assert!(heap.allocate_array(bytes, 1 << 20, &mut roots).is_err(), "nothing has been let go");
            roots[0] = Reference::NULL;
            heap.allocate_array(bytes, 1 << 20, &mut roots).unwrap();
        }
        let too_large = heap.allocate_array(bytes, 5 << 20, &mut roots).unwrap_err();
        assert!(matches!(too_large, AllocationError::TooLarge { .. }), "{too_large}");
        let too_long = heap.allocate_array(bytes, u32::MAX, &mut roots).unwrap_err();
        assert_eq!(too_long, AllocationError::TooLong { length: u32::MAX });
        assert!(too_long.to_string().ends_with("(as a number with a sign, -1)"), "{too_long}");
        let longest = heap.allocate_array(bytes, i32::MAX as u32, &mut roots).unwrap_err();
        assert!(matches!(longest, AllocationError::TooLarge { .. }), "{longest}");
        let too_long = heap.allocate_array(bytes, i32::MAX as u32 + 1, &mut roots).unwrap_err();
        assert_eq!(too_long, AllocationError::TooLong { length: 1 << 31 });
        assert!(too_long.to_string().starts_with("array too long: 2147483648 elements"), "{too_long}");
    }
}

/// Every block keeps an object of one size, and then objects of another are asked for.
#[test]
fn where_no_block_is_free_small_objects_take_larger_cells() {
    let config = HeapConfig { max_bytes: Some(2 << 20), min_bytes: 0, verify: true, ..HeapConfig::default() };
    let mark_sweep = HeapConfig { collector: Collector::MarkSweep, ..config.clone() };
    let nursery = Nursery::Fixed(256 << 10);
    let young = GenerationalParams { nursery, ..GenerationalParams::DEFAULT };
    let generational = [young, GenerationalParams { full: Full::Stop, ..young }]
        .map(|params| HeapConfig { collector: Collector::Generational(params), ..config.clone() });
    for config in [vec![mark_sweep], generational.into(), realtime(&config), moving(&config)].concat() {
        let types = TypeTable::new().unwrap();
        let [larger, smaller] =
            [12, 10].map(|fields| register(&types, TypeShape::Struct(vec![StorageKind::I64; fields])));
        let mut heap = Heap::new(&config, types).unwrap();
        let mut roots = Held::nulls(0);
        while let Ok(new) = heap.allocate_struct(larger, &mut roots) {
            roots.push(new);
        }
        let mut number = 0;
        roots.retain(|_| {
            number += 1;
            number % 10 == 0
        });
        for count in 0..5_000 {
            let new = heap.allocate_struct(smaller, &mut roots);
            roots.push(new.unwrap_or_else(|error| panic!("{config:?}: {count} objects, then {error}")));
        }
        heap.verify(Some(&mut roots)).unwrap();
        heap.collect(Cause::Requested, &mut roots);
        assert_eq!(heap.stats().live_objects as usize, roots.len());
        roots.clear();
        heap.collect(Cause::Requested, &mut roots);
        heap.collect(Cause::Requested, &mut roots);
        assert_eq!(heap.stats().live_objects, 0);
    }
}

#[test]
fn immortal_records_count_and_stay() {
    let config = HeapConfig { max_bytes: Some(1 << 20), min_bytes: 0, verify: true, ..HeapConfig::default() };
    let mut heap = Heap::new(&config, TypeTable::new().unwrap()).unwrap();
    let record = heap.allocate_immortal(40).unwrap();
    let address = heap.cage_base().wrapping_add(record as usize).cast::<u64>();
    // SAFETY: the record is ours, and aligned to 8 bytes.
    unsafe { address.write(7) };
    assert!(matches!(heap.allocate_immortal(2 << 20), Err(AllocationError::OutOfMemory { .. })));
    heap.collect(Cause::Requested, &mut NoRoots);
    // SAFETY: immortal records stay.
    assert_eq!(unsafe { address.read() }, 7);
    assert_eq!(heap.stats().immortal_bytes, 40);
}

#[test]
fn large_objects_reuse_fragmented_space() {
    for config in all(HeapConfig { max_bytes: Some(8 << 20), min_bytes: 0, verify: true, ..HeapConfig::default() }) {
        let types = TypeTable::new().unwrap();
        let bytes = register(&types, TypeShape::Array(StorageKind::I8));
        let mut heap = Heap::new(&config, types).unwrap();
        let mut roots = Held::new();
        // 60 objects of 4 blocks; every second one dies.
        for _ in 0..60 {
            let new = heap.allocate_array(bytes, 120 << 10, &mut roots).unwrap();
            heap.fill(new, 0, 0xab, 120 << 10).unwrap();
            roots.push(new);
        }
        let mut odd = false;
        roots.retain(|_| {
            odd = !odd;
            odd
        });
        // The gaps hold 30 more of that size, each zero again, but nothing of 6 blocks beyond the unfragmented rest.
        for _ in 0..30 {
            let new = heap.allocate_array(bytes, 120 << 10, &mut roots).unwrap();
            assert!((0..30).all(|part| heap.load(new, 12 + (part << 12), StorageKind::I8) == 0));
            roots.push(new);
        }
        let mut larger = 0;
        while let Ok(new) = heap.allocate_array(bytes, 180 << 10, &mut roots) {
            roots.push(new);
            larger += 1;
        }
        assert!(larger <= 2, "{larger} larger objects in the rest");
        roots.clear();
        // Coalesced, the whole heap is one gap.
        heap.allocate_array(bytes, 7 << 20, &mut roots).unwrap();
    }
}

#[test]
fn host_values_die_with_their_last_reference() {
    struct Value(Arc<AtomicUsize>, u32);
    impl Drop for Value {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    for config in all(HeapConfig { verify: true, ..HeapConfig::default() }) {
        let types = TypeTable::new().unwrap();
        let cell = register(&types, TypeShape::Struct(vec![StorageKind::Ref]));
        let mut heap = Heap::new(&config, types).unwrap();
        let dropped = Arc::new(AtomicUsize::new(0));
        let mut roots = Held::nulls(2);
        roots[0] = heap.allocate_struct(cell, &mut roots).unwrap();
        let held = heap.allocate_external(Box::new(Value(dropped.clone(), 1)), &mut roots).unwrap();
        heap.put(roots[0], 8, StorageKind::Ref, held.0 as u128);
        roots[1] = heap.allocate_external(Box::new(Value(dropped.clone(), 2)), &mut roots).unwrap();
        heap.collect(Cause::Requested, &mut roots);
        assert_eq!(dropped.load(Ordering::Relaxed), 0);
        let held = Reference(heap.load(roots[0], 8, StorageKind::Ref) as u32);
        heap.external_mut(held).unwrap().downcast_mut::<Value>().unwrap().1 = 3;
        assert_eq!(heap.external(held).unwrap().downcast_ref::<Value>().unwrap().1, 3);
        assert!(heap.external(roots[0]).is_none() && heap.external(Reference::from_i31(5)).is_none());
        roots[1] = Reference::NULL;
        heap.collect(Cause::Requested, &mut roots);
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
        roots[1] = heap.allocate_external(Box::new(Value(dropped.clone(), 4)), &mut roots).unwrap();
        roots[0] = Reference::NULL;
        heap.collect(Cause::Requested, &mut roots);
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
        drop(heap);
        assert_eq!(dropped.load(Ordering::Relaxed), 3);
    }
}

/// Values of 64 KiB, of which the last hundred live. Their objects alone would have no collection come.
#[test]
fn memory_outside_of_the_heap_has_collections_come() {
    struct Value(Arc<AtomicUsize>);
    impl Drop for Value {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
    for config in all(HeapConfig { verify: true, ..HeapConfig::default() }) {
        let mut heap = Heap::new(&config, TypeTable::new().unwrap()).unwrap();
        let alive = Arc::new(AtomicUsize::new(0));
        let mut roots = Held::nulls(100);
        let (mut count, mut most) = (0, 0);
        while count < 20_000 || heap.stats().collections == 0 {
            alive.fetch_add(1, Ordering::Relaxed);
            let value = Box::new(Value(alive.clone()));
            roots[count % 100] = heap.allocate_sized_external(value, 64 << 10, &mut roots).unwrap();
            // A cycle that has begun goes on to its end.
            let _ = heap.collect_some(&mut Budget::unlimited(), &mut roots);
            count += 1;
            most = most.max(alive.load(Ordering::Relaxed));
        }
        // 16 MiB are 256 of them, 4 MiB 64. When a realtime heap may stop the program depends on time.
        let is_realtime = matches!(config.collector, Collector::Realtime(_));
        let bound = if is_realtime { 200_000 } else { 100 + 256 + 2 * 64 + 2 };
        assert!(most <= bound, "{config:?}: {most} of {count}");
        heap.verify(Some(&mut roots)).unwrap();
        roots.iter_mut().for_each(|root| *root = Reference::NULL);
        heap.collect(Cause::Requested, &mut roots);
        assert_eq!(alive.load(Ordering::Relaxed), 0);
        heap.verify(Some(&mut roots)).unwrap();
    }
}

#[test]
fn the_observer_sees_every_collection() {
    struct Log(Arc<Mutex<Vec<GcEvent>>>);
    impl GcObserver for Log {
        fn event(&mut self, event: &GcEvent) {
            self.0.lock().unwrap().push(*event);
        }
    }
    for config in both(HeapConfig { min_bytes: 1 << 20, verify: true, ..HeapConfig::default() }) {
        let types = TypeTable::new().unwrap();
        let node = register(&types, TypeShape::Struct(vec![StorageKind::Ref]));
        let mut heap = Heap::new(&config, types).unwrap();
        let events = Arc::new(Mutex::new(Vec::new()));
        heap.set_observer(Box::new(Log(events.clone())));
        let mut roots = Held::new();
        for _ in 0..200_000 {
            heap.allocate_struct(node, &mut roots).unwrap();
        }
        heap.collect(Cause::Requested, &mut roots);
        let events = events.lock().unwrap();
        assert_eq!(events.len() as u64, heap.stats().collections);
        assert_eq!(events.iter().map(|event| event.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(events[..3].iter().all(|event| event.cause == Cause::Limit && event.after_bytes == 0));
        assert!(events[0].before_bytes > 1000 << 10 && events[0].before_bytes <= 1 << 20, "{}", events[0]);
        assert_eq!(events[3].cause, Cause::Requested);
        let freed: u64 = events.iter().map(|event| event.freed_handles).sum();
        let handles = config.access_plan().references.handles.is_some();
        assert_eq!(freed, if handles { 200_000 } else { 0 });
    }
}

/// Everything that was handed out is told by one event, whatever the collector.
#[test]
fn events_tell_once_what_was_allocated() {
    struct Sum(Arc<AtomicUsize>);
    impl GcObserver for Sum {
        fn event(&mut self, event: &GcEvent) {
            self.0.fetch_add(event.allocated_bytes as usize, Ordering::Relaxed);
        }
    }
    for config in all(HeapConfig { min_bytes: 4 << 20, max_bytes: Some(64 << 20), ..HeapConfig::default() }) {
        let types = TypeTable::new().unwrap();
        let node = register(&types, TypeShape::Struct(vec![StorageKind::Ref; 4]));
        let bytes = register(&types, TypeShape::Array(StorageKind::I8));
        let mut heap = Heap::new(&config, types).unwrap();
        let sum = Arc::<AtomicUsize>::default();
        heap.set_observer(Box::new(Sum(sum.clone())));
        let mut roots = Held::nulls(20_000);
        for step in 0..400_000 {
            roots[step % 19_999] = match step % 100 {
                0 => heap.allocate_array(bytes, 40_000, &mut roots).unwrap(),
                _ => heap.allocate_struct(node, &mut roots).unwrap(),
            };
        }
        heap.collect(Cause::Requested, &mut roots);
        let stats = heap.stats();
        assert_eq!(sum.load(Ordering::Relaxed) as u64, stats.allocated_bytes, "{config:?}");
        assert!(stats.allocated_bytes > 160 << 20, "{stats:?}");
    }
}

#[test]
fn verification_finds_damage() {
    for config in both(HeapConfig::default()).into_iter().chain([HeapConfig::default()]) {
        let types = TypeTable::new().unwrap();
        let node = register(&types, TypeShape::Struct(vec![StorageKind::Ref]));
        let mut heap = Heap::new(&config, types).unwrap();
        let mut roots = Held::nulls(1);
        roots[0] = heap.allocate_struct(node, &mut roots).unwrap();
        heap.verify(Some(&mut roots)).unwrap();
        // A reference into the middle of an object.
        heap.put(roots[0], 8, StorageKind::Ref, roots[0].0 as u128 + 8);
        assert!(heap.verify(None).is_err());
        heap.put(roots[0], 8, StorageKind::Ref, 0);
        heap.verify(None).unwrap();
        // A wrong type, then a lost handle or an unknown root.
        let address = heap.object_address(roots[0]).cast::<u32>();
        // SAFETY: the header of an object; the damage is mended before the heap is used.
        unsafe {
            let id = address.read();
            address.write(id + 4);
            assert!(heap.verify(None).unwrap_err().to_string().contains("unknown"));
            address.write(id);
            if config.access_plan().references.handles.is_some() {
                let handle = address.add(1).read();
                address.add(1).write(handle + 4);
                assert!(heap.verify(None).is_err());
                address.add(1).write(handle);
            }
        }
        let mut wrong = Held(vec![Reference(roots[0].0 + 16)]);
        assert!(heap.verify(Some(&mut wrong)).unwrap_err().to_string().contains("root 0"));
        heap.verify(Some(&mut roots)).unwrap();
    }
}

#[test]
fn stress_raises_and_lowers_the_poll_word_if_asked() {
    for collector in Collector::ALL {
        let config = HeapConfig {
            collector: *collector,
            stress: Some(2),
            stress_polls: true,
            verify: true,
            ..HeapConfig::default()
        };
        let types = TypeTable::new().unwrap();
        let node = types.register(TypeInfo { shape: TypeShape::Struct(vec![]), supertype: None }).unwrap();
        let mut heap = Heap::new(&config, types).unwrap();
        // SAFETY: the context lives as long as the heap, and the word is atomic.
        let is_raised = |heap: &Heap| unsafe { &(*heap.mutator_context()).poll }.load(Ordering::Relaxed) != 0;
        // A loop that does nothing but poll goes on polling.
        for _ in 0..10 {
            assert!(is_raised(&heap));
            heap.poll(&mut NoRoots);
        }
        // Without a nursery, cycles have a slice each time, beside those that come on schedule.
        let HeapStats { collections, cycles, slices, .. } = heap.stats();
        assert_eq!(if matches!(collector, Collector::Realtime(_)) { slices.min(5) } else { collections - cycles }, 5);
        // One that allocates does so now and then.
        let mut raised = 0;
        for _ in 0..100 {
            heap.allocate_struct(node, &mut NoRoots).unwrap();
            raised += u32::from(is_raised(&heap));
        }
        assert!((20..80).contains(&raised), "raised behind {raised} of 100 allocations");
    }
}

/// Survivors in nearly every block, and garbage of another size that finds a single one: each full collection gives so
/// little that the program would spend its time in them.
#[test]
fn a_heap_whose_collections_are_of_no_use_is_soon_out_of_memory() {
    let base = HeapConfig { max_bytes: Some(16 << 20), ..HeapConfig::default() };
    for config in both(base.clone()).into_iter().chain(realtime(&base)) {
        let types = TypeTable::new().unwrap();
        let small = register(&types, TypeShape::Struct(vec![StorageKind::I64; 5]));
        let larger = register(&types, TypeShape::Struct(vec![StorageKind::I64; 20]));
        let mut heap = Heap::new(&config, types).unwrap();
        let mut roots = Held::nulls(1 + (16 << 20) / 40);
        roots[0] = heap.allocate_struct(larger, &mut roots).unwrap();
        let mut count = 1;
        while let Ok(new) = heap.allocate_struct(small, &mut roots) {
            roots[count] = new;
            count += 1;
        }
        (1..count).step_by(3).for_each(|number| roots[number] = Reference::NULL);
        let before = heap.stats();
        let collected = |stats: HeapStats| stats.full_collections + stats.missed_deadlines;
        let allocated = (0..1_000_000).take_while(|_| heap.allocate_struct(larger, &mut roots).is_ok()).count();
        let stats = heap.stats();
        let collected = collected(stats) - collected(before);
        assert!((10..100).contains(&collected), "{allocated} objects, collected {collected} times under {config:?}");
        assert!(stats.live_bytes < 13 << 20, "{stats:?}");
        // There is memory again once the survivors are gone.
        (1..count).for_each(|number| roots[number] = Reference::NULL);
        (0..1_000_000).for_each(|_| _ = heap.allocate_struct(larger, &mut roots).unwrap());
    }
}
