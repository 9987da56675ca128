//! How fast the generational heap allocates and copies, without any compiled code: `cargo run --release -p legato-heap
//! --example scavenge -- [key=value ...]`, with the keys of the heap's configuration.
//!
//! Keeps a window of live binary trees of 1023 nodes, of 24 bytes each, and builds more: of these, all or one in 16
//! replaces the oldest of the window, the others die at once. Prints the throughput of copying and the pauses of
//! nursery collections.

use legato_heap::layout::{COLLECTOR_WORD_OFFSET, StorageKind, TYPE_ID_OFFSET};
use legato_heap::plan::BumpRun;
use legato_heap::{
    CollectionKind, GcEvent, GcObserver, Heap, HeapConfig, Reference, RootStack, TypeId, TypeInfo, TypeShape, TypeTable,
};
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Trees that are built in each round, and the depth of each.
const TREES: usize = 20_000;
const DEPTH: u32 = 9;
/// Trees that are live at a time, in each round.
const WINDOWS: [usize; 3] = [16, 256, 8192];
/// One in so many trees is kept.
const KEPT: [usize; 2] = [1, 16];

struct Events(Arc<Mutex<Vec<GcEvent>>>);

impl GcObserver for Events {
    fn event(&mut self, event: &GcEvent) {
        if let Ok(mut events) = self.0.lock() {
            events.push(*event);
        }
    }
}

/// Allocates a node as compiled code does.
#[inline]
fn allocate(heap: &mut Heap, node: TypeId, roots: &mut RootStack) -> Result<Reference, Box<dyn Error>> {
    let context = heap.mutator_context();
    // SAFETY: the first run is the nursery's; the fields of the new object are written by the caller.
    unsafe {
        let run = &raw mut (*context).runs[0];
        let BumpRun { cursor, limit } = run.read();
        if limit - cursor < 24 {
            return Ok(heap.allocate_struct(node, roots)?);
        }
        (*run).cursor = cursor + 24;
        let object = heap.cage_base().add(cursor as usize);
        object.add(TYPE_ID_OFFSET as usize).cast::<u32>().write(node.0);
        object.add(COLLECTOR_WORD_OFFSET as usize).cast::<u32>().write(0);
        Ok(Reference(cursor))
    }
}

/// A tree of `depth`, built from the leaves up; its parts stand in `roots` meanwhile.
fn build(heap: &mut Heap, node: TypeId, depth: u32, roots: &mut RootStack) -> Result<(), Box<dyn Error>> {
    let (mut left, mut right) = (Reference::NULL, Reference::NULL);
    if depth > 0 {
        build(heap, node, depth - 1, roots)?;
        build(heap, node, depth - 1, roots)?;
    }
    let new = allocate(heap, node, roots)?;
    if depth > 0 {
        right = roots.pop().unwrap_or_default();
        left = roots.pop().unwrap_or_default();
    }
    // SAFETY: the object has just been allocated: no barrier.
    unsafe {
        let fields = heap.cage_base().add(new.0 as usize + 8).cast::<u32>();
        fields.write(left.0);
        fields.add(1).write(right.0);
        fields.add(2).cast::<u64>().write(depth as u64);
    }
    // SAFETY: the node has just been allocated and written; the heap gets these roots in every call.
    unsafe { roots.push(new) };
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut config = HeapConfig::default();
    for argument in std::env::args().skip(1) {
        let (key, value) = argument.split_once('=').ok_or_else(|| format!("'{argument}' is no key=value"))?;
        config.set(key, value)?;
    }
    for (window, kept) in WINDOWS.into_iter().flat_map(|window| KEPT.map(|kept| (window, kept))) {
        let types = TypeTable::new()?;
        let fields = vec![StorageKind::Ref, StorageKind::Ref, StorageKind::I64];
        let node = types.register(TypeInfo { shape: TypeShape::Struct(fields), supertype: None })?;
        let mut heap = Heap::new(&config, types)?;
        let events: Arc<Mutex<Vec<GcEvent>>> = Arc::default();
        heap.set_observer(Box::new(Events(Arc::clone(&events))));
        let mut roots = RootStack::of_nulls(window);
        for tree in 0..window {
            build(&mut heap, node, DEPTH, &mut roots)?;
            let new = roots.pop().unwrap_or_default();
            // SAFETY: it was a root until now.
            unsafe { roots.set(tree, new) };
        }
        events.lock().map_err(|_| "the observer panicked")?.clear();
        let start = Instant::now();
        for tree in 0..TREES {
            build(&mut heap, node, DEPTH, &mut roots)?;
            let new = roots.pop().unwrap_or_default();
            if tree % kept == 0 {
                // SAFETY: it was a root until now.
                unsafe { roots.set(tree / kept % window, new) };
            }
        }
        let whole = start.elapsed();
        let events = events.lock().map_err(|_| "the observer panicked")?;
        let mut young: Vec<_> = events.iter().filter(|event| event.kind == CollectionKind::Nursery).collect();
        young.sort_by_key(|event| event.pause);
        let full: Duration =
            events.iter().filter(|event| event.kind == CollectionKind::Full).map(|event| event.pause).sum();
        let pauses: Duration = young.iter().map(|event| event.pause).sum();
        let sum = |part: fn(&GcEvent) -> Duration| young.iter().map(|event| part(event)).sum::<Duration>();
        let objects: u64 = young.iter().map(|event| event.promoted_objects).sum();
        let at =
            |share: f64| young.get((young.len() as f64 * share) as usize).map_or(Duration::ZERO, |event| event.pause);
        println!(
            "{window:4} trees live, one in {kept:2} kept: {whole:.1?}, of it {pauses:.1?} in {} nursery collections (median {:.1?}, p99 {:.1?}; \
             remembered {:.1?}, evacuate {:.1?}) and {full:.1?} in {} full ones; {objects} objects copied, {:.1} ns each",
            young.len(),
            at(0.5),
            at(0.99),
            sum(|event| event.phases.remembered),
            sum(|event| event.phases.roots + event.phases.evacuate),
            events.len() - young.len(),
            pauses.as_nanos() as f64 / objects as f64,
        );
    }
    Ok(())
}
