//! What the generational collector promises beyond keeping objects: what is copied, scanned, counted and freed when.

mod common;

use common::{Held, Trusting, allocate_inline, generational, register, store_element_inline, store_inline};
use legato_heap::collector::generational::{Barrier, Full, GenerationalParams, Nursery};
use legato_heap::layout::StorageKind;
use legato_heap::{
    Cause, CollectionKind, Collector, GcEvent, GcObserver, Heap, HeapConfig, NoRoots, Reference, TypeId, TypeShape,
    TypeTable, Zeroing,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A heap whose events are kept, with a type of nodes (a reference, a number) and one of arrays of references.
struct Watched {
    heap: Heap,
    events: Arc<Mutex<Vec<GcEvent>>>,
    node: TypeId,
    array: TypeId,
    bytes: TypeId,
}

struct Log(Arc<Mutex<Vec<GcEvent>>>);

impl GcObserver for Log {
    fn event(&mut self, event: &GcEvent) {
        self.0.lock().unwrap().push(*event);
    }
}

impl Watched {
    fn new(config: &HeapConfig) -> Watched {
        let types = TypeTable::new().unwrap();
        let node = register(&types, TypeShape::Struct(vec![StorageKind::Ref, StorageKind::I32]));
        let array = register(&types, TypeShape::Array(StorageKind::Ref));
        let bytes = register(&types, TypeShape::Array(StorageKind::I8));
        let mut heap = Heap::new(config, types).unwrap();
        let events = Arc::new(Mutex::new(Vec::new()));
        heap.set_observer(Box::new(Log(events.clone())));
        Watched { heap, events, node, array, bytes }
    }

    fn node(&mut self, roots: &mut Held) -> Reference {
        let plan = self.heap.config().access_plan();
        allocate_inline(&self.heap, &plan, self.node, None)
            .unwrap_or_else(|| self.heap.allocate_struct(self.node, roots).unwrap())
    }

    /// Allocates garbage until the nursery has been collected.
    fn collect_nursery(&mut self, roots: &mut Held) -> GcEvent {
        let before = self.heap.stats().collections;
        while self.heap.stats().collections == before {
            self.node(roots);
        }
        *self.events.lock().unwrap().last().unwrap()
    }
}

fn fixed(aging: u32, barrier: Barrier) -> HeapConfig {
    HeapConfig {
        collector: Collector::Generational(GenerationalParams {
            nursery: Nursery::Fixed(256 << 10),
            aging,
            barrier,
            ..GenerationalParams::DEFAULT
        }),
        verify: true,
        ..HeapConfig::default()
    }
}

#[test]
fn sparse_stores_into_a_long_old_array_are_found() {
    const LENGTH: u32 = 1_000_000;
    for barrier in Barrier::ALL {
        let config = HeapConfig { verify: false, ..fixed(0, *barrier) };
        let plan = config.access_plan();
        let mut watched = Watched::new(&config);
        let mut roots = Held::nulls(1);
        roots[0] = watched.heap.allocate_array(watched.array, LENGTH, &mut roots).unwrap();
        watched.heap.collect(Cause::Requested, &mut roots);
        let indices: Vec<u32> = (0..LENGTH).step_by(9973).chain([1, 127, 128, LENGTH - 1]).collect();
        for &index in &indices {
            let node = watched.node(&mut roots);
            watched.heap.put(node, 12, StorageKind::I32, index as u128);
            store_element_inline(&mut watched.heap, &plan, roots[0], StorageKind::Ref, index, node.0.into()).unwrap();
        }
        let event = watched.collect_nursery(&mut roots);
        assert_eq!((event.kind, event.cause), (CollectionKind::Nursery, Cause::Nursery));
        assert_eq!(event.promoted_objects, indices.len() as u64, "these and nothing else");
        for &index in &indices {
            let node = Reference(watched.heap.array_get(roots[0], index) as u32);
            assert_eq!(watched.heap.load(node, 12, StorageKind::I32), index as u128);
        }
        watched.heap.verify(Some(&mut roots)).unwrap();
    }
}

#[test]
fn nothing_is_copied_twice() {
    for barrier in Barrier::ALL {
        for aging in [0, 10, 50, 90] {
            let mut watched = Watched::new(&fixed(aging, *barrier));
            let plan = watched.heap.config().access_plan();
            let mut roots = Held::nulls(1);
            let mut nodes = 0;
            while watched.heap.stats().collections < 12 {
                let node = watched.node(&mut roots);
                // Old lists get young heads, and the last node but one a young tail: references in both directions.
                store_inline(&mut watched.heap, &plan, node, 8, roots[0]);
                roots[0] = node;
                nodes += 1;
            }
            let events = watched.events.lock().unwrap().clone();
            let promoted: u64 = events.iter().map(|event| event.promoted_objects).sum();
            // The last node was allocated after the last collection.
            let live = watched.heap.stats().live_objects;
            assert_eq!(live, nodes - 1, "aging {aging}");
            assert!(promoted <= live && (promoted == live) == (aging == 0), "{promoted} of {live}, aging {aging}");
            assert_eq!(events[3].aging_bytes > 0, aging > 0);
            watched.heap.collect(Cause::Requested, &mut roots);
            let events = watched.events.lock().unwrap().clone();
            let promoted: u64 = events.iter().map(|event| event.promoted_objects).sum();
            assert_eq!(promoted, nodes, "each was copied once");
        }
    }
}

#[test]
fn the_young_die_without_a_full_collection() {
    struct Value(Arc<AtomicUsize>);
    impl Drop for Value {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    for config in generational(&HeapConfig { verify: true, min_bytes: 32 << 20, ..HeapConfig::default() }) {
        let mut watched = Watched::new(&config);
        let dropped = Arc::new(AtomicUsize::new(0));
        let mut roots = Held::nulls(2);
        roots[0] = watched.heap.allocate_external(Box::new(Value(dropped.clone())), &mut roots).unwrap();
        watched.heap.allocate_external(Box::new(Value(dropped.clone())), &mut roots).unwrap();
        for _ in 0..1500 {
            roots[1] = watched.heap.allocate_array(watched.bytes, 60_000, &mut roots).unwrap();
        }
        watched.collect_nursery(&mut roots);
        watched.collect_nursery(&mut roots);
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
        let stats = watched.heap.stats();
        assert_eq!((stats.full_collections, stats.large_allocations, stats.externals), (0, 1500, 1));
        assert!(stats.allocated_bytes >= 1500 * 60_000);
        // Half of the limit for small objects, and as much for large ones; and what was taken behind a huge page
        // that was being touched.
        assert!(stats.committed_bytes < 35 << 20, "{}", stats.committed_bytes);
    }
}

#[test]
fn weak_references_to_the_young_follow_them_or_are_cleared() {
    for aging in [0, 90] {
        let mut watched = Watched::new(&fixed(aging, Barrier::Cards));
        let mut roots = Held::new();
        let old = watched.node(&mut roots);
        roots.push(old);
        watched.heap.collect(Cause::Requested, &mut roots);
        let dead = [watched.node(&mut roots), watched.heap.allocate_array(watched.bytes, 60_000, &mut roots).unwrap()];
        let large = watched.heap.allocate_array(watched.bytes, 60_000, &mut roots).unwrap();
        let young = watched.node(&mut roots);
        roots.extend([large, young]);
        assert_eq!(watched.heap.stats().collections, 1, "nothing has moved");
        // SAFETY: allocated since the last collection, or roots.
        let mut weak = |object| unsafe { watched.heap.make_weak(object) };
        let (dead, living) = (dead.map(&mut weak), [roots[0], large, young].map(&mut weak));
        for round in 0..3 {
            watched.collect_nursery(&mut roots);
            assert_eq!(living.map(|weak| watched.heap.get_weak(weak).unwrap()), roots[..3], "round {round}");
            assert_eq!(dead.map(|weak| watched.heap.get_weak(weak)), [None; 2]);
        }
        assert_ne!(roots[2], young, "it was moved, sooner or later");
        assert_eq!(watched.heap.stats().full_collections, 1);
        let mut told: Vec<_> = std::iter::from_fn(|| watched.heap.take_cleared()).collect();
        told.sort_by_key(|weak| dead.iter().position(|dead| dead == weak));
        assert_eq!(told, dead);
    }
}

#[test]
fn events_add_up() {
    for config in generational(&HeapConfig { min_bytes: 2 << 20, verify: true, ..HeapConfig::default() }) {
        let mut watched = Watched::new(&config);
        let mut roots = Held::nulls(64);
        for index in 0..200_000 {
            let node = watched.node(&mut roots);
            // One in eight lives for a while, in a list that is cut now and then.
            if index % 8 == 0 {
                let root = index / 8 % 64;
                let next = if index % 4096 == 0 { 0 } else { roots[root].0 };
                watched.heap.put(node, 8, StorageKind::Ref, next as u128);
                roots[root] = node;
            }
        }
        watched.heap.collect(Cause::Requested, &mut roots);
        let events = watched.events.lock().unwrap().clone();
        assert!(events.iter().any(|event| event.kind == CollectionKind::Nursery && event.promoted_bytes > 0));
        let (mut live, mut allocated) = (0, 0);
        for (number, event) in (1..).zip(&events) {
            assert_eq!(event.number, number);
            assert_eq!(event.before_bytes, live + event.allocated_bytes, "{event}");
            let parts: std::time::Duration = event.phases.named().iter().map(|(_, time)| *time).sum();
            assert!(parts <= event.pause, "{parts:?} of {event}");
            assert!(event.promoted_bytes >= event.promoted_objects * 16);
            live = event.after_bytes;
            allocated += event.allocated_bytes;
        }
        let zeroes = config.zeroing() != Zeroing::HotPath;
        assert_eq!(events.iter().any(|event| !event.zeroing.is_zero()), zeroes);
        let stats = watched.heap.stats();
        assert_eq!((stats.live_bytes, stats.allocated_bytes), (live, allocated));
        assert_eq!(stats.promoted_bytes, events.iter().map(|event| event.promoted_bytes).sum::<u64>());
        let full = events.iter().filter(|event| event.kind == CollectionKind::Full).count();
        assert_eq!((stats.full_collections, stats.collections), (full as u64, events.len() as u64));
        assert_eq!(stats.live_objects, events.last().unwrap().marked_objects);
    }
}

#[test]
fn an_appel_nursery_takes_what_the_limit_leaves() {
    let appel = GenerationalParams {
        nursery: Nursery::Appel,
        nursery_pause: 0,
        full: Full::Stop,
        ..GenerationalParams::DEFAULT
    };
    let config = HeapConfig { collector: Collector::Generational(appel), min_bytes: 8 << 20, ..HeapConfig::default() };
    let mut watched = Watched::new(&config);
    let mut roots = Held::nulls(1);
    let first = watched.collect_nursery(&mut roots);
    assert!((3 << 20..=4 << 20).contains(&first.allocated_bytes), "{first}: half of the limit");
    // A list of 6 MiB: less and less is left.
    let mut sizes = Vec::new();
    while watched.heap.stats().full_collections == 0 {
        let before = watched.heap.stats().collections;
        let node = watched.node(&mut roots);
        watched.heap.put(node, 8, StorageKind::Ref, roots[0].0 as u128);
        roots[0] = node;
        if watched.heap.stats().collections > before {
            sizes.push(watched.events.lock().unwrap().last().unwrap().allocated_bytes);
        }
    }
    assert!(sizes.len() >= 3 && sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
    let event = *watched.events.lock().unwrap().last().unwrap();
    assert_eq!((event.kind, event.cause), (CollectionKind::Full, Cause::Limit));
    assert!(event.limit_bytes > 8 << 20, "{event}");
    watched.heap.collect(Cause::Requested, &mut NoRoots);
    assert_eq!(watched.heap.stats().live_bytes, 0);
}

#[test]
fn where_much_survives_the_nursery_is_as_small_as_its_pause_demands() {
    for nursery in [Nursery::Fixed(2 << 20), Nursery::Appel] {
        for (nursery_pause, is_small) in [(0, false), (500, true)] {
            let params = GenerationalParams { nursery, nursery_pause, full: Full::Stop, ..GenerationalParams::DEFAULT };
            let collector = Collector::Generational(params);
            let config = HeapConfig { collector, min_bytes: 32 << 20, ..HeapConfig::default() };
            let mut watched = Watched::new(&config);
            let mut roots = Held::nulls(1);
            let size = |watched: &Watched| watched.events.lock().unwrap().last().unwrap().allocated_bytes;
            while watched.heap.stats().collections < 3 {
                let node = watched.node(&mut roots);
                watched.heap.put(node, 8, StorageKind::Ref, roots[0].0 as u128);
                roots[0] = node;
            }
            assert_eq!(size(&watched) < 1 << 20, is_small, "{} bytes, all of which survive", size(&watched));
            // Nothing survives any more. How soon that is believed depends on how long the collections before took.
            let recovers = (0..100).any(|_| {
                watched.collect_nursery(&mut roots);
                size(&watched) >= 3 << 19
            });
            assert!(recovers, "{} bytes, of which none survives", size(&watched));
        }
    }
}
