//! Memory that the system refuses, or that a heap comes to the end of, wherever a cycle is then.

use super::Collect;
use super::generational::Generational;
use super::realtime::Realtime;
use crate::budget::{Budget, Done};
use crate::layout::StorageKind;
use crate::references::direct::Direct;
use crate::roots::{RootCursor, RootVisitor, Roots};
use crate::spaces::Contents;
use crate::{AllocationError, Cause, HeapConfig, HeapError, Reference, TypeId, TypeInfo, TypeShape, TypeTable};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Offset of a node's number, and of its first reference.
const NUMBER: u32 = 8;
const FIRST: u32 = 12;
/// References of a node, and of an array of the large kind.
const REFERENCES: u32 = 3;
const ELEMENTS: u32 = 6000;

/// Host values that die: more than are dropped in one step.
const VALUES: usize = 100;

/// A heap that collects in cycles.
pub(super) trait Units: Collect {
    /// Goes on with the cycle under way by one unit.
    fn unit(&mut self, roots: &mut dyn Roots) {
        let _ = self.collect_some(&mut Budget::units(1), roots);
    }
}

impl Units for Realtime<Direct> {}

impl Units for Generational {
    fn unit(&mut self, roots: &mut dyn Roots) {
        match self.phase() {
            // Behind the next nursery collection.
            "marked" => _ = self.collect_some(&mut Budget::units(1), roots),
            _ => self.slice_under_stress(roots),
        }
    }
}

/// Roots that are used: so many frames, of which half are older ones, and as many slots, each among many that are not.
const FRAMES: usize = 6;
const SLOTS_APART: usize = 100;

/// Roots of every kind.
pub(super) struct Held {
    frames: [Reference; FRAMES],
    slots: Vec<Reference>,
    /// Whether the older frames wait to be visited.
    waits: bool,
}

// SAFETY: the references were put there when their objects were allocated, or read from others, and the heap gets these
// roots in every call. Slots, and older frames, are changed by `Model::keep` alone, which tells the heap.
unsafe impl Roots for Held {
    fn visit_roots(&mut self, visitor: &mut dyn RootVisitor) {
        self.frames.iter_mut().chain(&mut self.slots).for_each(|slot| _ = visitor.visit(slot));
    }

    fn visit_frames(&mut self, visitor: &mut dyn RootVisitor) {
        self.frames.iter_mut().for_each(|slot| _ = visitor.visit(slot));
    }

    fn visit_newest_frames(&mut self, visitor: &mut dyn RootVisitor) {
        self.frames[..FRAMES / 2].iter_mut().for_each(|slot| _ = visitor.visit(slot));
        self.waits = true;
    }

    fn visit_older_frames(&mut self, visitor: &mut dyn RootVisitor, budget: &mut Budget) -> Done {
        if budget.is_exhausted() {
            return Done::No;
        }
        if std::mem::take(&mut self.waits) {
            self.frames[FRAMES / 2..].iter_mut().for_each(|slot| _ = visitor.visit(slot));
            budget.spend(1);
        }
        Done::Yes
    }

    fn visit_slots(&mut self, visitor: &mut dyn RootVisitor, cursor: &mut RootCursor, budget: &mut Budget) -> Done {
        cursor.advance(self.slots.len(), budget, |range| {
            self.slots[range].iter_mut().for_each(|slot| _ = visitor.visit(slot));
        })
    }
}

/// Objects of the heap beside what they must hold: each has a number, and refers to others by theirs.
pub(super) struct Model<H> {
    pub(super) heap: H,
    pub(super) node: TypeId,
    array: TypeId,
    pub(super) roots: Held,
    numbers: [usize; 2 * FRAMES],
    objects: Vec<Vec<(u32, usize)>>,
    random: u64,
}

impl<H: Units> Model<H> {
    pub(super) fn new(config: &HeapConfig, heap: fn(&HeapConfig, Arc<TypeTable>) -> Result<H, HeapError>) -> Model<H> {
        let types = TypeTable::new().unwrap();
        let of = |shape| types.register(TypeInfo { shape, supertype: None }).unwrap();
        let mut fields = vec![StorageKind::I32];
        fields.resize(1 + REFERENCES as usize, StorageKind::Ref);
        let (node, array) = (of(TypeShape::Struct(fields)), of(TypeShape::Array(StorageKind::Ref)));
        let heap = heap(config, types).unwrap();
        let slots = vec![Reference::NULL; FRAMES * SLOTS_APART];
        let roots = Held { frames: [Reference::NULL; FRAMES], slots, waits: false };
        // Object 0 is null.
        Model { heap, node, array, roots, numbers: [0; 2 * FRAMES], objects: vec![vec![]], random: 1 }
    }

    fn below(&mut self, end: usize) -> usize {
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.random >> 33) as usize % end
    }

    pub(super) fn get(&self, index: usize) -> Reference {
        match index.checked_sub(FRAMES) {
            None => self.roots.frames[index],
            Some(slot) => self.roots.slots[slot * SLOTS_APART],
        }
    }

    /// Puts the object of a number, or null, in a root.
    pub(super) fn keep(&mut self, index: usize, new: Reference, number: usize) {
        match index.checked_sub(FRAMES) {
            None => {
                if index >= FRAMES / 2 {
                    self.heap.visit_older_frames(&mut self.roots);
                }
                self.roots.frames[index] = new;
            }
            Some(slot) => {
                let slot = &mut self.roots.slots[slot * SLOTS_APART];
                self.heap.core_mut().before_root_store([*slot].into_iter());
                *slot = new;
            }
        }
        self.numbers[index] = number;
    }

    /// Puts a new object in a root.
    fn keep_new(&mut self, index: usize, new: Reference) {
        self.keep(index, new, self.objects.len());
        self.objects.push(vec![]);
    }

    fn allocate_array(&mut self, index: usize, length: u32) -> Result<(), AllocationError> {
        let new = self.heap.allocate_array(self.array, length, Contents::Zeroed, &mut self.roots)?;
        self.keep_new(index, new);
        Ok(())
    }

    fn allocate_node(&mut self, index: usize) -> Result<(), AllocationError> {
        let new = self.heap.allocate_struct(self.node, &mut self.roots)?;
        self.heap.core_mut().store(new, NUMBER, StorageKind::I32, self.objects.len() as u128);
        self.keep_new(index, new);
        Ok(())
    }

    /// Puts a new node before the object in a root.
    fn lengthen(&mut self, index: usize) -> Result<(), AllocationError> {
        let new = self.heap.allocate_struct(self.node, &mut self.roots)?;
        let core = self.heap.core_mut();
        core.store(new, NUMBER, StorageKind::I32, self.objects.len() as u128);
        let (rest, number) = (self.get(index), self.numbers[index]);
        let barrier = self.heap.barrier(new.0);
        self.heap.core_mut().store_field(new.0, FIRST, rest, barrier);
        self.keep_new(index, new);
        self.objects.last_mut().unwrap().push((FIRST, number));
        Ok(())
    }

    /// Forgets what a root leads to.
    fn drop_root(&mut self, index: usize) {
        self.keep(index, Reference::NULL, 0);
    }

    /// A step of a program, of which each kind of object and store is a part.
    pub(super) fn step(&mut self) -> Result<(), AllocationError> {
        let (index, from) = (self.below(2 * FRAMES), self.below(2 * FRAMES));
        match self.below(40) {
            0 => self.allocate_array(index, ELEMENTS)?,
            1..24 => self.allocate_node(index)?,
            24 => {
                let new = self.heap.allocate_external(Box::new(()), 0, &mut self.roots)?;
                self.keep_new(index, new);
            }
            25 => self.drop_root(index),
            _ => self.link(index, from),
        }
        Ok(())
    }

    /// Stores what one root leads to into what the other does.
    fn link(&mut self, index: usize, from: usize) {
        let object = self.get(index);
        let id = (!object.is_null()).then(|| self.heap.core().type_of(object));
        let slots = match id {
            Some(id) if id == self.array => ELEMENTS,
            Some(id) if id == self.node => REFERENCES,
            _ => return,
        };
        let slot = self.below(slots as usize) as u32;
        self.store(index, slot, from);
    }

    /// Stores what one root leads to into a slot of what the other does.
    fn store(&mut self, index: usize, slot: u32, from: usize) {
        let (object, value) = (self.get(index), self.get(from));
        let offset = FIRST + 4 * slot;
        let barrier = self.heap.barrier(object.0);
        let core = self.heap.core_mut();
        if core.type_of(object) == self.array {
            let positions = (u64::from(4 * slot), u64::from(4 * slot + 4));
            let elements = core.reference_elements(object, slot, 1);
            let to = core.overwritten(elements, positions, barrier);
            core.fill(&to, positions.0, positions.1, value.0.into()).unwrap();
        } else {
            core.store_field(object.0, offset, value, barrier);
        }
        let slots = &mut self.objects[self.numbers[index]];
        slots.retain(|slot| slot.0 != offset);
        slots.push((offset, self.numbers[from]));
    }

    /// Compares everything reachable; returns how many objects that is.
    pub(super) fn compare(&mut self) -> usize {
        self.heap.verify(Some(&mut self.roots)).unwrap();
        let mut met = vec![Reference::NULL; self.objects.len()];
        let mut left: Vec<_> = (0..2 * FRAMES).map(|index| (self.get(index), self.numbers[index])).collect();
        let mut count = 0;
        while let Some((reference, number)) = left.pop() {
            assert_eq!(reference.is_null(), number == 0);
            if number == 0 || met[number] == reference {
                continue;
            }
            assert_eq!(met[number], Reference::NULL, "object {number} lies in two places");
            met[number] = reference;
            count += 1;
            let core = self.heap.core();
            if core.type_of(reference) == self.node {
                assert_eq!(core.load(reference, NUMBER, StorageKind::I32), number as u128);
            }
            let slots = self.objects[number].iter();
            left.extend(
                slots.map(|&(offset, to)| (Reference(core.load(reference, offset, StorageKind::Ref) as u32), to)),
            );
        }
        count
    }

    /// Goes on while the pool refuses memory, up to the fifth failure, and then with memory again. What is reachable
    /// stays as it is meanwhile. Returns whether memory was lacking.
    pub(super) fn live_on(&mut self, steps: usize) -> bool {
        let mut failures = 0;
        for _ in 0..steps {
            if let Err(error) = self.step() {
                assert!(matches!(error, AllocationError::OutOfMemory { .. }), "{error}");
                self.compare();
                failures += 1;
                self.drop_root(failures % (2 * FRAMES));
                if failures == 5 {
                    self.heap.core_mut().pool.takes_left = None;
                }
            }
        }
        self.heap.core_mut().pool.takes_left = None;
        self.heap.collect(Cause::Requested, &mut self.roots);
        let reachable = self.compare();
        assert_eq!(self.heap.stats().live_objects as usize, reachable);
        failures > 0
    }

    /// Lets host values die that are old.
    fn drop_values(&mut self) {
        for _ in 0..VALUES {
            let value = self.heap.allocate_external(Box::new(()), 0, &mut self.roots).unwrap();
            self.keep_new(0, value);
            self.lengthen(1).unwrap();
            self.store(1, 1, 0);
        }
        self.heap.collect(Cause::Requested, &mut self.roots);
        (0..2).for_each(|index| self.drop_root(index));
    }

    /// Goes on until a cycle is worth it, begins it, and takes such a number of its units.
    fn begin_cycle(&mut self, units: usize) {
        let mut spent = Budget::units(1);
        spent.spend(1);
        while self.heap.collect_some(&mut spent, &mut self.roots) == Done::Yes {
            self.step().unwrap();
        }
        for _ in 0..units {
            self.heap.unit(&mut self.roots);
        }
    }
}

/// What exhaustion has come to in one program.
#[derive(Default)]
struct Outcome {
    /// Where the cycle was.
    phase: &'static str,
    failed: bool,
    missed_deadlines: u64,
    /// Whether new objects could not be copied.
    kept: bool,
}

/// Runs a program into a cycle of which so many units have been done, with so many objects before the collector that
/// are new and live; and then out of memory, as the pool refuses whatever is asked for after `takes` blocks.
fn exhaust<H: Units>(mut model: Model<H>, units: usize, new: usize, takes: u32) -> Outcome {
    model.drop_values();
    model.begin_cycle(units);
    for _ in 0..new {
        model.lengthen(0).unwrap();
    }
    let (phase, before) = (model.heap.phase(), model.heap.stats());
    model.heap.core_mut().pool.takes_left = Some(takes);
    let mut failed = false;
    for index in 1..4 {
        if let Err(error) = model.allocate_array(index, ELEMENTS) {
            assert!(matches!(error, AllocationError::OutOfMemory { .. }), "{error}");
            failed = true;
        }
        model.compare();
    }
    let after = model.heap.stats();
    let missed_deadlines = after.missed_deadlines - before.missed_deadlines;
    assert!(missed_deadlines <= 1 && after.cycles - before.cycles == missed_deadlines, "finished, not broken off");
    let kept = new > 0 && model.heap.is_young(model.get(0));
    model.live_on(300);
    Outcome { phase, failed, missed_deadlines, kept }
}

/// The units of a cycle that each phase begins with, has in its middle, and ends with.
fn units_of_phases<H: Units>(mut model: Model<H>) -> Vec<usize> {
    let mut phases: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    model.drop_values();
    model.begin_cycle(0);
    for unit in 0.. {
        match model.heap.phase() {
            "waiting" => break,
            phase => phases.entry(phase).or_default().push(unit),
        }
        model.heap.unit(&mut model.roots);
    }
    phases.values().flat_map(|units| [units[0], units[units.len() / 2], units[units.len() - 1]]).collect()
}

/// The phases that exhaustion was met in, in programs that `model` makes, and how many programs could not copy new
/// objects.
fn exhaust_in_each_phase<H: Units>(model: impl Fn() -> Model<H>, new: &[usize]) -> (BTreeSet<&'static str>, u32) {
    let (mut phases, mut kept) = (BTreeSet::new(), 0);
    for units in units_of_phases(model()) {
        for &new in new {
            for takes in [0, 1, 5] {
                let outcome = exhaust(model(), units, new, takes);
                // Without a block, there is no memory for a large object.
                assert!(takes > 0 || outcome.failed && outcome.missed_deadlines == 1, "unit {units}, {new} new");
                phases.insert(outcome.phase);
                kept += u32::from(outcome.kept);
            }
        }
    }
    (phases, kept)
}

const PHASES: [&str; 9] = ["clear", "defragment", "frames", "mark", "marked", "release", "slots", "sweep", "values"];

fn config(collector: &str) -> HeapConfig {
    let mut config = HeapConfig { min_bytes: 2 << 20, max_bytes: Some(16 << 20), ..HeapConfig::default() };
    // Cycles begin, and slices come, when the test asks for them.
    config.set("collector", collector).unwrap();
    config.set("schedule", "work").unwrap();
    config.set("trigger", "half").unwrap();
    config
}

#[test]
fn out_of_memory_at_each_phase_leaves_a_consistent_heap_that_is_realtime() {
    let config = config("realtime");
    let (phases, _) = exhaust_in_each_phase(|| Model::new(&config, Realtime::<Direct>::new), &[0]);
    // Marking is followed by its end in the same step.
    assert_eq!(phases, PHASES.into_iter().filter(|phase| *phase != "marked").collect());
}

#[test]
fn out_of_memory_at_each_phase_leaves_a_consistent_heap_that_is_generational() {
    let mut config = config("generational");
    for barrier in ["store-buffer", "cards"] {
        config.set("nursery", "256K").unwrap();
        config.set("barrier", barrier).unwrap();
        let (phases, kept) = exhaust_in_each_phase(|| Model::new(&config, Generational::new), &[0, 4000]);
        assert_eq!(phases, PHASES.into_iter().collect());
        assert!(kept > 20, "in {kept} programs there was no memory to copy young objects to");
    }
}

/// What a cycle under way frees may be enough: then nothing more is collected.
fn finish_instead_of_collecting<H: Units>(
    config: &HeapConfig,
    heap: fn(&HeapConfig, Arc<TypeTable>) -> Result<H, HeapError>,
) {
    let config = HeapConfig { min_bytes: 1 << 20, max_bytes: Some(1 << 20), ..config.clone() };
    for units in [0, 1, 2, 5, 20] {
        let mut model = Model::new(&config, heap);
        for index in 0..2 * FRAMES {
            model.allocate_array(index, ELEMENTS).unwrap();
        }
        (0..2 * FRAMES).for_each(|index| model.drop_root(index));
        for index in 0..4 {
            model.allocate_array(index, ELEMENTS).unwrap();
        }
        model.begin_cycle(units);
        assert!(!["waiting", "defragment", "release", "values", "clear"].contains(&model.heap.phase()));
        let before = model.heap.stats();
        model.allocate_array(5, 170_000).unwrap();
        let after = model.heap.stats();
        assert_eq!(after.full_collections, before.full_collections, "{units} units");
        assert_eq!((after.cycles, after.missed_deadlines), (before.cycles + 1, before.missed_deadlines + 1));
        assert_eq!(model.compare(), 5);
        model.live_on(1000);
    }
}

#[test]
fn a_cycle_that_frees_enough_is_finished_and_nothing_else_is_collected() {
    finish_instead_of_collecting(&config("realtime"), Realtime::<Direct>::new);
    let mut config = config("generational");
    config.set("nursery", "64K").unwrap();
    finish_instead_of_collecting(&config, Generational::new);
}

/// A program that fills its heap slowly fails before it spends all its time in collections.
fn fill_slowly<H: Units>(config: &HeapConfig, heap: fn(&HeapConfig, Arc<TypeTable>) -> Result<H, HeapError>) {
    let config = HeapConfig { min_bytes: 1 << 20, max_bytes: Some(2 << 20), ..config.clone() };
    let mut model = Model::new(&config, heap);
    let error = loop {
        let garbage = (0..3).try_for_each(|_| model.allocate_node(0));
        if let Err(error) = garbage.and_then(|()| model.lengthen(1)) {
            break error;
        }
    };
    assert!(matches!(error, AllocationError::OutOfMemory { .. }), "{error}");
    let stats = model.heap.stats();
    assert!(stats.live_bytes > 3 << 19, "{stats:?}");
    let at_once = stats.full_collections + stats.missed_deadlines;
    assert!((1..35).contains(&at_once), "{at_once} times everything was marked at once");
    model.live_on(1000);
}

#[test]
fn a_heap_that_fills_slowly_is_soon_out_of_memory() {
    fill_slowly(&config("realtime"), Realtime::<Direct>::new);
    let mut config = config("generational");
    config.set("nursery", "64K").unwrap();
    fill_slowly(&config, Generational::new);
}
