//! `sizing=isla-vista` under every collector, on a simulated machine: memory is what the test says, and whoever holds
//! more has stalled.

use legato_heap::collector::generational::{Full, GenerationalParams, Nursery};
use legato_heap::collector::schedule::{CycleParams, Helpers, Schedule};
use legato_heap::layout::StorageKind;
use legato_heap::sizing::IslaVistaParams;
use legato_heap::{
    Arrays, Cause, CollectionKind, Collector, GcEvent, GcObserver, Heap, HeapConfig, MachineNotes, Moment, Pressure,
    PressureSource, RootStack, Sizing, TypeId, TypeInfo, TypeShape, TypeTable,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const MIB: u64 = 1 << 20;
/// Of the arrays that are allocated, in bytes, and how many are live.
const ARRAY: u32 = 4000;
const LIVE: usize = 1000;

/// A machine with one heap on it. All in bytes.
#[derive(Default)]
struct Machine {
    memory: AtomicU64,
    held: AtomicU64,
}

struct Source(Arc<Machine>);

impl PressureSource for Source {
    fn name(&self) -> String {
        "a simulated machine".to_string()
    }

    fn read(&mut self, moment: Moment) -> Pressure {
        let is_short = self.0.held.load(Ordering::Relaxed) > self.0.memory.load(Ordering::Relaxed);
        if is_short && moment == Moment::After { Pressure::Stall } else { Pressure::Clear }
    }
}

#[derive(Default)]
struct Notes {
    machine: Vec<String>,
    events: Vec<GcEvent>,
}

struct Noting(Arc<Mutex<Notes>>);

impl GcObserver for Noting {
    fn machine(&mut self, notes: &MachineNotes) {
        self.0.lock().unwrap().machine.push(notes.to_string());
    }

    fn event(&mut self, event: &GcEvent) {
        self.0.lock().unwrap().events.push(*event);
    }
}

/// A program that keeps the last thousand of its arrays, on its machine.
struct Program {
    heap: Heap,
    machine: Arc<Machine>,
    notes: Arc<Mutex<Notes>>,
    array: TypeId,
    roots: RootStack,
    allocated: usize,
}

impl Program {
    fn new(config: &HeapConfig) -> Program {
        let types = TypeTable::new().unwrap();
        let shape = TypeShape::Array(StorageKind::I8);
        let array = types.register(TypeInfo { shape, supertype: None }).unwrap();
        let mut heap = Heap::new(config, types).unwrap();
        let (machine, notes) = (Arc::<Machine>::default(), Arc::<Mutex<Notes>>::default());
        machine.memory.store(u64::MAX, Ordering::Relaxed);
        heap.set_pressure_source(Box::new(Source(machine.clone())));
        heap.set_observer(Box::new(Noting(notes.clone())));
        Program { heap, machine, notes, array, roots: RootStack::of_nulls(LIVE), allocated: 0 }
    }

    /// Allocates so many arrays.
    fn run(&mut self, arrays: usize) {
        for _ in 0..arrays {
            let array = self.heap.allocate_array(self.array, ARRAY, &mut self.roots).unwrap();
            // SAFETY: the array has just been allocated, and the heap gets these roots in every call.
            unsafe { self.roots.set(self.allocated % LIVE, array) };
            self.allocated += 1;
            self.machine.held.store(self.heap.stats().committed_bytes, Ordering::Relaxed);
            self.heap.poll(&mut self.roots);
        }
    }

    /// The collections since the last call.
    fn events(&mut self) -> Vec<GcEvent> {
        std::mem::take(&mut self.notes.lock().unwrap().events)
    }
}

fn has_stalled(event: &GcEvent) -> bool {
    event.pressure.is_some_and(|reading| reading.stalled)
}

/// How many of these have stalled. Somebody was asked at each, but at a nursery collection in whose stop a cycle has
/// been finished: there it was asked once.
fn stalls(events: &[GcEvent]) -> usize {
    for (nth, event) in events.iter().enumerate().filter(|(_, event)| event.pressure.is_none()) {
        let finished = nth.checked_sub(1).and_then(|before| events[before].cycle);
        assert!(finished.is_some_and(|cycle| cycle.missed_deadline), "nobody was asked at {event:?}");
    }
    events.iter().filter(|event| has_stalled(event)).count()
}

/// Isla Vista under every collector, with both switches.
fn all() -> Vec<HeapConfig> {
    // By what is allocated, whatever else the computer does.
    let cycles = CycleParams { schedule: Schedule::Work, helpers: Helpers::None, ..CycleParams::DEFAULT };
    let incremental = Full::Incremental(cycles);
    let generational =
        |nursery, full| Collector::Generational(GenerationalParams { nursery, full, ..GenerationalParams::DEFAULT });
    let collectors = [
        Collector::MarkSweep,
        generational(Nursery::Fixed(512 << 10), Full::Stop),
        generational(Nursery::Fixed(512 << 10), incremental),
        generational(Nursery::Appel, Full::Stop),
        Collector::Realtime(cycles),
    ];
    let params = IslaVistaParams { recover: true, memory: true, ..IslaVistaParams::DEFAULT };
    let (min_bytes, max_bytes) = (6 * MIB, Some(128 * MIB));
    let sizing = Sizing::IslaVista(params);
    let config = |collector| HeapConfig { collector, sizing, min_bytes, max_bytes, ..HeapConfig::default() };
    collectors.map(config).to_vec()
}

#[test]
fn without_pressure_a_heap_grows() {
    for config in all() {
        let mut program = Program::new(&config);
        assert_eq!(program.notes.lock().unwrap().machine, ["max 131072K; memory pressure by a simulated machine"]);
        program.run(60_000);
        let events = program.events();
        assert_eq!(stalls(&events), 0);
        let limits: Vec<u64> = events.iter().map(|event| event.limit_bytes).collect();
        assert!(limits.is_sorted() && limits.len() > 4, "{:?}: {limits:?}", config.collector);
        assert!(*limits.last().unwrap() > 8 * MIB, "{:?}: {limits:?}", config.collector);
        let stats = program.heap.stats();
        // The cycle under way may have asked already.
        let told = events.iter().filter(|event| event.pressure.is_some()).count();
        assert!((told..=told + 1).contains(&(stats.pressure_readings as usize)), "{told}: {stats:?}");
        assert_eq!(stats.pressure_stalls, 0);
    }
}

#[test]
fn under_pressure_a_heap_shrinks_and_gives_its_memory_back() {
    for config in all() {
        let mut program = Program::new(&config);
        program.run(100_000);
        let before = program.heap.stats();
        assert!(before.committed_bytes > 18 * MIB, "{:?}: {before:?}", config.collector);
        program.events();
        program.machine.memory.store(14 * MIB, Ordering::Relaxed);
        program.run(60_000);
        let (events, after) = (program.events(), program.heap.stats());
        let stalled = stalls(&events);
        assert!(stalled > 0 && stalled == after.pressure_stalls as usize, "{:?}", config.collector);
        // It asks for more again and again, and gives that back: mostly it has no more than there is.
        let pressed = &events[events.iter().position(has_stalled).unwrap()..];
        let within = pressed.iter().filter(|event| event.committed_bytes <= 14 * MIB).count();
        assert!(within * 3 > pressed.len() * 2, "{:?}: {within} of {}, {after:?}", config.collector, pressed.len());
        // At none of them the limit rises but to its floor, and no cycle is given up for it.
        let is_lower = |pair: &[GcEvent]| {
            let [before, after] = pair else { unreachable!() };
            // Four nurseries, or an eighth of what is live, above that.
            let floor = after.after_bytes + (after.after_bytes / 8).max(2 * MIB);
            !has_stalled(after) || after.limit_bytes <= before.limit_bytes.max(floor)
        };
        let higher = events.windows(2).find(|pair| !is_lower(pair));
        assert!(higher.is_none(), "{:?}: {higher:?}", config.collector);
        assert_eq!(after.missed_deadlines, before.missed_deadlines, "{:?}", config.collector);
        // Once it is over the heap grows again, and no further than it has to.
        program.machine.memory.store(u64::MAX, Ordering::Relaxed);
        program.run(200_000);
        assert_eq!(stalls(&program.events()), 0);
        let again = program.heap.stats();
        assert!(again.limit_bytes > after.limit_bytes, "{:?}: {again:?}", config.collector);
    }
}

#[test]
fn in_slices_a_stall_begins_a_cycle_and_stops_nobody() {
    for config in all() {
        let in_slices = match config.collector {
            Collector::Generational(params) => matches!(params.full, Full::Incremental(_)),
            collector => matches!(collector, Collector::Realtime(_)),
        };
        if !in_slices {
            continue;
        }
        let mut program = Program::new(&config);
        program.run(100_000);
        program.events();
        program.machine.memory.store(14 * MIB, Ordering::Relaxed);
        program.run(30_000);
        let events = program.events();
        assert!(stalls(&events) > 0);
        let kinds = |kind| events.iter().filter(|event| event.kind == kind).count();
        assert!(kinds(CollectionKind::Cycle) > 0 && kinds(CollectionKind::Full) == 0, "{:?}", config.collector);
    }
}

#[test]
fn a_collection_behind_a_stall_looks_for_all_that_can_be_given_back() {
    let mapped = || Arrays::Mapped(Default::default());
    for config in all().into_iter().filter(|config| config.collector == Collector::MarkSweep) {
        let mut program = Program::new(&HeapConfig { arrays: mapped(), ..config });
        // A large array whose pages have all been written, with zeros in the end.
        let length = 4 * MIB as u32;
        let array = program.heap.allocate_array(program.array, length, &mut program.roots).unwrap();
        // SAFETY: the array has just been allocated, and the heap gets these roots in every call.
        unsafe { program.roots.set(0, array) };
        // SAFETY: it is live.
        unsafe {
            program.heap.array_fill(array, 0, 1, length).unwrap();
            program.heap.array_fill(array, 0, 0, length).unwrap();
        }
        program.heap.collect(Cause::Limit, &mut program.roots);
        assert_eq!(program.heap.stats().mapped_zeros_bytes, 0, "not without need");
        program.machine.held.store(1, Ordering::Relaxed);
        program.machine.memory.store(0, Ordering::Relaxed);
        program.heap.collect(Cause::Limit, &mut program.roots);
        program.heap.collect(Cause::Limit, &mut program.roots);
        assert!(program.heap.stats().mapped_zeros_bytes >= 4 * MIB, "{:?}", program.heap.stats());
    }
}
