//! The collector of tests that look at the snapshot barrier: mark-sweep, which has no need of one, but is told of every
//! reference that is overwritten, and checks that it is.
//!
//! From time to time a *cycle* begins: all that the roots reach is noted. Then they are visited as a collector visits
//! them that goes on while the mutator runs: the newest frames at once, older ones and slots in steps of a unit, at
//! polls and calls that allocate. At its end, all that was noted must be reached from what has been visited, or from
//! references that have been overwritten meanwhile: this is what marking a snapshot relies on (Yuasa 1990). Whoever
//! marks may do so early or late, so it must be reached both through the heap as it was when the root was visited, and
//! as it is at the end. What frames alone held that have gone unvisited may be missing, if nothing leads to it any
//! more. No collection comes between, so that nothing noted is freed: a cycle ends before, whatever is left of it.
//!
//! Limits: far too slow for anything but tests; what dies is found by mark-sweep alone.

pub(crate) mod attributes;
mod set;

use crate::arrays::pointers::strips;
use crate::barrier::{Overwritten, Record};
use crate::budget::{Budget, Done, finish};
use crate::collector::Collect;
use crate::collector::mark_sweep::MarkSweep;
use crate::config::HeapConfig;
use crate::core::Core;
use crate::error::{AllocationError, HeapError};
use crate::layout::{ARRAY_LENGTH_OFFSET, TYPE_ID_OFFSET};
use crate::observer::{Cause, HeapStats};
use crate::plan::BumpRun;
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::roots::{FRAMES_AHEAD, RootCursor, RootVisitor, Roots};
use crate::spaces::Contents;
use crate::spaces::leaves::LeafKind;
use crate::type_table::TypeTable;
use crate::types::{TypeId, TypeKind};
use crate::verify::Check;
use set::ReferenceSet;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A cycle begins at every so many-th call that may collect, and behind each collection that is asked for: later where
/// there are more objects and roots, so that each of a cycle's traces costs each call between two cycles so many at
/// most.
const BETWEEN_CYCLES: u32 = 4;
const OBJECTS_A_CALL: u32 = 6;

/// A heap with this collector and reference model `M`.
pub(crate) struct Snapshot<M> {
    mark_sweep: MarkSweep<M>,
    /// The cycle under way.
    cycle: Option<Cycle>,
    /// Calls that may collect left until the next one.
    calls: u32,
}

/// What was there when a cycle began, and what has been visited since.
struct Cycle {
    /// What slots and newest frames reached.
    held: ReferenceSet,
    /// What all roots reached.
    reached: ReferenceSet,
    /// How many roots there were.
    count: usize,
    roots: Vec<Reference>,
    /// What these reached when they were visited.
    marked: ReferenceSet,
    frames: Done,
    cursor: RootCursor,
}

impl Cycle {
    /// Notes what the roots reach, and visits the newest frames.
    fn begin<M: ReferenceModel>(core: &Core<M>, roots: &mut dyn Roots) -> Cycle {
        let mut newest = Found(Vec::new());
        roots.visit_newest_frames(&mut newest);
        let mut cycle = Cycle {
            held: ReferenceSet::default(),
            reached: ReferenceSet::default(),
            count: 0,
            roots: newest.0,
            marked: ReferenceSet::default(),
            frames: Done::No,
            cursor: RootCursor::default(),
        };
        reach(core, &cycle.roots, &mut cycle.marked);
        let mut slots = Found(Vec::new());
        let mut cursor = RootCursor::default();
        finish(|budget| roots.visit_slots(&mut slots, &mut cursor, budget));
        cycle.held.clone_from(&cycle.marked);
        reach(core, &slots.0, &mut cycle.held);
        let mut all = Found(Vec::new());
        roots.visit_roots(&mut all);
        cycle.count = all.0.len();
        cycle.reached.clone_from(&cycle.held);
        reach(core, &all.0, &mut cycle.reached);
        cycle
    }

    /// Takes down older frames.
    fn visit_older<M: ReferenceModel>(&mut self, core: &Core<M>, roots: &mut dyn Roots, budget: &mut Budget) {
        let mut found = Found(Vec::new());
        self.frames = roots.visit_older_frames(&mut found, budget);
        self.visited(core, found);
    }

    fn visited<M: ReferenceModel>(&mut self, core: &Core<M>, found: Found) {
        reach(core, &found.0, &mut self.marked);
        self.roots.extend(found.0);
    }

    /// Goes on: with older frames, then with slots.
    fn step<M: ReferenceModel>(&mut self, core: &Core<M>, roots: &mut dyn Roots, budget: &mut Budget) -> Done {
        if self.frames == Done::No {
            self.visit_older(core, roots, budget);
            if self.frames == Done::No {
                return Done::No;
            }
        }
        let mut found = Found(Vec::new());
        let done = roots.visit_slots(&mut found, &mut self.cursor, budget);
        self.visited(core, found);
        done
    }

    /// Checks that all is reached that has to be, once everything has been visited. Takes what has been overwritten.
    fn check<M: ReferenceModel>(mut self, core: &Core<M>, roots: &mut dyn Roots, overwritten: &[Reference]) {
        reach(core, overwritten, &mut self.marked);
        let mut late = ReferenceSet::default();
        reach(core, &self.roots, &mut late);
        reach(core, overwritten, &mut late);
        let is_lost = |object: &Reference| !self.marked.contains(*object) || !late.contains(*object);
        if let Some(lost) = self.held.iter().find(is_lost) {
            panic!("{lost:?} of {:?} was lost by a store that no barrier has seen", core.type_of(lost));
        }
        let missing: Vec<_> = self.reached.iter().filter(is_lost).collect();
        if missing.is_empty() {
            return;
        }
        let (mut now, mut live) = (Found(Vec::new()), ReferenceSet::default());
        roots.visit_roots(&mut now);
        reach(core, &now.0, &mut live);
        if let Some(&lost) = missing.iter().find(|object| live.contains(**object)) {
            panic!("{lost:?} of {:?} was lost by a frame that has run before its visit", core.type_of(lost));
        }
    }
}

/// What is not written here is mark-sweep's.
impl<M> Deref for Snapshot<M> {
    type Target = MarkSweep<M>;

    fn deref(&self) -> &MarkSweep<M> {
        &self.mark_sweep
    }
}

impl<M> DerefMut for Snapshot<M> {
    fn deref_mut(&mut self) -> &mut MarkSweep<M> {
        &mut self.mark_sweep
    }
}

impl<M: ReferenceModel> Snapshot<M> {
    /// An empty heap. The configuration is valid.
    pub(crate) fn new(config: &HeapConfig, types: Arc<TypeTable>) -> Result<Snapshot<M>, HeapError> {
        let mut mark_sweep = MarkSweep::new(config, types)?;
        mark_sweep.core.overwritten = Overwritten::new(&mut mark_sweep.core.context);
        Ok(Snapshot { mark_sweep, cycle: None, calls: BETWEEN_CYCLES })
    }

    /// Does what may collect: between two cycles.
    fn between_cycles<R>(
        &mut self,
        roots: &mut dyn Roots,
        act: impl FnOnce(&mut MarkSweep<M>, &mut dyn Roots) -> R,
    ) -> R {
        self.end_cycle(roots);
        let result = act(&mut self.mark_sweep, roots);
        self.calls -= 1;
        if self.calls == 0 {
            let core = &mut self.mark_sweep.core;
            core.context.set_marking(true);
            let mut cycle = Cycle::begin(core, roots);
            cycle.visit_older(core, roots, &mut Budget::units(1));
            if cycle.frames == Done::No {
                core.context.raise_poll();
            }
            self.calls = BETWEEN_CYCLES.max((cycle.count + cycle.reached.len()) as u32 / OBJECTS_A_CALL);
            self.cycle = Some(cycle);
        }
        result
    }

    /// Takes a step of the cycle under way; whether more are left, and a cell of `bytes` is to be had without a
    /// collection.
    fn goes_on(&mut self, bytes: u32, roots: &mut dyn Roots) -> bool {
        let core = &self.mark_sweep.core;
        let Some(cycle) = &mut self.cycle else { return false };
        if cycle.step(core, roots, &mut Budget::units(1)) == Done::Yes || core.will_be_stressed() {
            return false;
        }
        let has_room = |run: BumpRun| run.cursor < run.limit;
        let has_handle = M::PLAN.handles.is_none_or(|plan| {
            let is_lacking = |of_arrays: bool| !has_room(core.context.handle_run_now(of_arrays));
            !is_lacking(false) && !(plan.has_array_handles() && is_lacking(true))
        });
        has_handle && core.small.classes.of(bytes).is_some_and(|class| has_room(core.context.run_now(class)))
    }

    fn end_cycle(&mut self, roots: &mut dyn Roots) {
        let Some(mut cycle) = self.cycle.take() else { return };
        let core = &mut self.mark_sweep.core;
        finish(|budget| cycle.step(core, roots, budget));
        core.context.set_marking(false);
        let overwritten = core.overwritten.take(&mut core.context);
        cycle.check(core, roots, &overwritten);
    }
}

impl<M: ReferenceModel> Collect for Snapshot<M> {
    type Model = M;
    type Barrier = Record;

    fn core(&self) -> &Core<M> {
        &self.mark_sweep.core
    }

    fn core_mut(&mut self) -> &mut Core<M> {
        &mut self.mark_sweep.core
    }

    fn barrier(&self, _object: u32) -> Record {
        Record { is_marking: self.cycle.is_some(), heal: None }
    }

    fn allocate(
        &mut self,
        id: TypeId,
        bytes: u32,
        contents: Contents,
        roots: &mut dyn Roots,
    ) -> Result<u32, AllocationError> {
        if self.goes_on(bytes, roots) {
            return self.mark_sweep.allocate(id, bytes, contents, roots);
        }
        self.between_cycles(roots, |heap, roots| heap.allocate(id, bytes, contents, roots))
    }

    fn allocate_immortal(&mut self, bytes: u32) -> Result<u32, AllocationError> {
        self.mark_sweep.allocate_immortal(bytes)
    }

    fn reserve_leaves(&mut self, leaves: u64, kind: LeafKind, roots: &mut dyn Roots) -> Result<(), AllocationError> {
        self.between_cycles(roots, |heap, roots| heap.reserve_leaves(leaves, kind, roots))
    }

    /// Begins a cycle behind the collection.
    fn collect(&mut self, cause: Cause, roots: &mut dyn Roots) {
        self.calls = 1;
        self.between_cycles(roots, |heap, roots| heap.collect(cause, roots));
    }

    /// Takes a step of the cycle under way.
    fn tick(&mut self, roots: &mut dyn Roots) {
        if self.core_mut().is_stressed() {
            return self.collect_stressed(roots);
        }
        let core = &self.mark_sweep.core;
        if let Some(cycle) = &mut self.cycle
            && cycle.step(core, roots, &mut Budget::units(1)) == Done::No
        {
            core.context.raise_poll();
        }
    }

    fn visit_older_frames(&mut self, roots: &mut dyn Roots) {
        if let Some(cycle) = &mut self.cycle {
            cycle.visit_older(&self.mark_sweep.core, roots, &mut Budget::units(FRAMES_AHEAD));
        }
    }

    fn size(&self) -> u64 {
        self.mark_sweep.size()
    }

    fn stats(&self) -> HeapStats {
        self.mark_sweep.stats()
    }

    fn check(&self, roots: Option<&mut dyn Roots>) -> Check {
        self.mark_sweep.check(roots)
    }
}

/// Takes the roots down.
struct Found(Vec<Reference>);

impl RootVisitor for Found {
    fn visit(&mut self, slot: &mut Reference) -> bool {
        self.0.push(*slot);
        false
    }
}

/// Adds every object that these references lead to, but for what is only to be reached through those that are there.
fn reach<M: ReferenceModel>(core: &Core<M>, from: &[Reference], reached: &mut ReferenceSet) {
    let mut left: Vec<_> = from.to_vec();
    while let Some(reference) = left.pop() {
        if reference.is_object() && reached.insert(reference) {
            let object = core.object(reference);
            let id = TypeId(core.word(object + TYPE_ID_OFFSET));
            let record = core.types.record(id);
            if record.kind != TypeKind::Array as u32 {
                left.extend(
                    core.types.reference_offsets(id).iter().map(|offset| Reference(core.word(object + offset))),
                );
            } else if record.reference_map != 0 {
                let parts = core.parts(object, record.bytes, core.word(object + ARRAY_LENGTH_OFFSET));
                let strips = strips(parts, core.pool.cage.memory(), 0, parts.bytes);
                left.extend(
                    strips.flat_map(|(first, end)| (first..end).step_by(4)).map(|slot| Reference(core.word(slot))),
                );
            }
        }
    }
}
