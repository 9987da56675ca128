//! The collector of tests that look at the snapshot barrier: mark-sweep, which has no need of one, but is told of every
//! reference that is overwritten, and checks that it is.
//!
//! From time to time a *cycle* begins: all that the roots reach is noted. At its end, all of that must be reached
//! through the heap as it is then, from what the frames held when it began, from the other roots as they are then, or
//! from references that have been overwritten meanwhile: this is what marking a snapshot relies on (Yuasa 1990), where
//! frames are visited at once, and other roots any time. No collection comes between, so that nothing noted is freed.
//!
//! Limits: far too slow for anything but tests; what dies is found by mark-sweep alone.

pub(crate) mod attributes;

use crate::arrays::pointers::strips;
use crate::barrier::{Overwritten, Record};
use crate::budget::{Budget, Done};
use crate::collector::Collect;
use crate::collector::mark_sweep::MarkSweep;
use crate::config::HeapConfig;
use crate::core::Core;
use crate::error::{AllocationError, HeapError};
use crate::layout::{ARRAY_LENGTH_OFFSET, TYPE_ID_OFFSET};
use crate::observer::{Cause, HeapStats};
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::roots::{RootCursor, RootVisitor, Roots};
use crate::spaces::Contents;
use crate::spaces::leaves::LeafKind;
use crate::type_table::TypeTable;
use crate::types::{TypeId, TypeKind};
use crate::verify::Check;
use std::collections::HashSet;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A cycle begins at every so many-th call that may collect, and behind each collection that is asked for: later where
/// there are more objects and roots, so that a cycle's two traces cost each call between two cycles so many at most.
const BETWEEN_CYCLES: u32 = 4;
const OBJECTS_A_CALL: u32 = 16;

/// A heap with this collector and reference model `M`.
pub(crate) struct Snapshot<M> {
    mark_sweep: MarkSweep<M>,
    /// The cycle under way.
    cycle: Option<Cycle>,
    /// Calls that may collect left until the next one.
    calls: u32,
}

/// What was there when a cycle began.
struct Cycle {
    in_frames: Vec<Reference>,
    reached: HashSet<Reference>,
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
            self.begin_cycle(roots);
        }
        result
    }

    fn begin_cycle(&mut self, roots: &mut dyn Roots) {
        let mut found = Found(Vec::new());
        roots.visit_frames(&mut found);
        let in_frames = found.0.clone();
        found.visit_slots(roots);
        let core = &mut self.mark_sweep.core;
        core.context.set_marking(true);
        let reached = reach(core, &found.0);
        self.calls = BETWEEN_CYCLES.max((found.0.len() + reached.len()) as u32 / OBJECTS_A_CALL);
        self.cycle = Some(Cycle { in_frames, reached });
    }

    fn end_cycle(&mut self, roots: &mut dyn Roots) {
        let Some(Cycle { in_frames, reached }) = self.cycle.take() else { return };
        let mut found = Found(in_frames);
        found.visit_slots(roots);
        let core = &mut self.mark_sweep.core;
        core.context.set_marking(false);
        found.0.extend(core.overwritten.take(&mut core.context));
        let still = reach(core, &found.0);
        if let Some(lost) = reached.difference(&still).next() {
            panic!("{lost:?} of {:?} was lost by a store that no barrier has seen", core.type_of(*lost));
        }
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
        Record { is_marking: self.cycle.is_some() }
    }

    fn allocate(
        &mut self,
        id: TypeId,
        bytes: u32,
        contents: Contents,
        roots: &mut dyn Roots,
    ) -> Result<u32, AllocationError> {
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

impl Found {
    /// Takes down those that are not in frames.
    fn visit_slots(&mut self, roots: &mut dyn Roots) {
        let all = roots.visit_slots(self, &mut RootCursor::default(), &mut Budget::unlimited());
        debug_assert_eq!(all, Done::Yes);
    }
}

impl RootVisitor for Found {
    fn visit(&mut self, slot: &mut Reference) -> bool {
        self.0.push(*slot);
        false
    }
}

/// Every object that these references lead to.
fn reach<M: ReferenceModel>(core: &Core<M>, from: &[Reference]) -> HashSet<Reference> {
    let mut reached = HashSet::new();
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
    reached
}
