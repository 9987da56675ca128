//! Collectors that stop the mutator for a whole collection tell of one stop for each, behind its slices and before its
//! event.

use legato_heap::layout::StorageKind;
use legato_heap::{
    Budget, Cause, CollectionKind, Done, GcEvent, GcObserver, GcSlice, GcStop, Heap, HeapConfig, NoRoots, RootStack,
    StopKind, TypeInfo, TypeShape, TypeTable,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Default)]
struct Notes {
    /// Since the last stop.
    slices: Vec<GcSlice>,
    /// Since the last event.
    stops: Vec<GcStop>,
    events: Vec<GcEvent>,
    longest: Duration,
}

struct Noting(Arc<Mutex<Notes>>);

impl GcObserver for Noting {
    fn slice(&mut self, slice: &GcSlice) {
        self.0.lock().unwrap().slices.push(*slice);
    }

    fn stop(&mut self, stop: &GcStop) {
        let mut notes = self.0.lock().unwrap();
        for slice in notes.slices.drain(..) {
            assert!(slice.start >= stop.start && slice.start + slice.wall <= stop.start + stop.wall, "{slice:?}");
        }
        notes.longest = notes.longest.max(stop.wall);
        notes.stops.push(*stop);
    }

    fn event(&mut self, event: &GcEvent) {
        let mut notes = self.0.lock().unwrap();
        let kind = if event.kind == CollectionKind::Nursery { StopKind::Nursery } else { StopKind::Full };
        let stops: Vec<_> = notes.stops.drain(..).map(|stop| (stop.start, stop.wall, stop.kind)).collect();
        assert_eq!(stops, [(event.start, event.pause, kind)]);
        assert!(notes.slices.is_empty() && event.cycle.is_none());
        notes.events.push(*event);
    }
}

#[test]
fn each_collection_is_one_stop() {
    for collector in ["mark-sweep", "generational"] {
        let mut config = HeapConfig { min_bytes: 4 << 20, max_bytes: Some(16 << 20), ..HeapConfig::default() };
        config.set("collector", collector).unwrap();
        if collector == "generational" {
            config.set("full", "stop").unwrap();
        }
        let types = TypeTable::new().unwrap();
        let shape = TypeShape::Array(StorageKind::I8);
        let bytes = types.register(TypeInfo { shape, supertype: None }).unwrap();
        let mut heap = Heap::new(&config, types).unwrap();
        let notes = Arc::<Mutex<Notes>>::default();
        heap.set_observer(Box::new(Noting(notes.clone())));
        for _ in 0..40_000 {
            heap.allocate_array(bytes, 1000, &mut NoRoots).unwrap();
        }
        heap.collect(Cause::Requested, &mut NoRoots);

        let (notes, stats) = (notes.lock().unwrap(), heap.stats());
        assert!(notes.events.len() > 2 && notes.stops.is_empty(), "{:?}", notes.events);
        assert_eq!(notes.events.len() as u64, stats.collections);
        assert_eq!((stats.cycles, stats.slices, stats.missed_deadlines, stats.shrunk_gaps), (0, 0, 0, 0));
        let us = notes.events.iter().map(|event| event.pause.as_micros() as u64);
        assert_eq!((stats.pause_total_us, stats.longest_stop_us), (us.sum(), notes.longest.as_micros() as u64));
    }
}

struct Kinds(Arc<Mutex<Vec<StopKind>>>);

impl GcObserver for Kinds {
    fn event(&mut self, _event: &GcEvent) {}

    fn stop(&mut self, stop: &GcStop) {
        self.0.lock().unwrap().push(stop.kind);
    }
}

/// A cycle in time that the embedder gives, from its beginning to its end: its nursery collections too.
#[test]
fn what_is_collected_in_given_time_is_no_pause() {
    for collector in ["realtime", "generational"] {
        let mut config = HeapConfig { min_bytes: 8 << 20, ..HeapConfig::default() };
        config.set("collector", collector).unwrap();
        // It is begun by nobody else.
        config.set("trigger", "half").unwrap();
        // Its work is counted by calls: a helper would take some of it.
        config.set("helpers", "0").unwrap();
        let types = TypeTable::new().unwrap();
        let shape = TypeShape::Array(StorageKind::I8);
        let bytes = types.register(TypeInfo { shape, supertype: None }).unwrap();
        let mut heap = Heap::new(&config, types).unwrap();
        let mut roots = RootStack::new();
        while heap.stats().allocated_bytes < 6 << 20 {
            let array = heap.allocate_array(bytes, 1000, &mut roots).unwrap();
            // SAFETY: the array has just been allocated, and the heap gets these roots in every call.
            unsafe { roots.push(array) };
        }
        let kinds = Arc::<Mutex<Vec<StopKind>>>::default();
        heap.set_observer(Box::new(Kinds(kinds.clone())));
        let before = heap.stats();
        let mut calls = 0;
        while heap.collect_some(&mut Budget::units(200), &mut roots) == Done::No {
            calls += 1;
        }
        let (kinds, after) = (kinds.lock().unwrap(), heap.stats());
        assert!(calls > 5 && kinds.len() > calls && kinds.iter().all(|kind| *kind == StopKind::Idle), "{kinds:?}");
        assert_eq!(after.cycles, before.cycles + 1);
        assert_eq!((after.pause_total_us, after.longest_stop_us), (before.pause_total_us, before.longest_stop_us));
        assert!(after.idle_us > 0);
    }
}
