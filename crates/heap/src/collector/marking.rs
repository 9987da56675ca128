//! Precise marking with an explicit stack, in steps.
//!
//! An object is marked when it is pushed, so that it is pushed once at most. Of a long array, the elements are scanned
//! and the leaves marked in ranges, the rest of it waiting on a second stack: the mark stack stays small for wide
//! objects as for deep ones, and no object keeps a step for long. Between two steps everything that is marked and not
//! scanned, and every reference that waits to be marked, is in the [`MarkStack`].
//!
//! Marking is bound by cache misses, of three kinds: the handle, the mark bit, the object. Two short queues hide them
//! (Cher, Hosking and Vitek 2004): a reference waits among [`EDGES`] others while its handle or mark bit is fetched, an
//! object taken off the stack among [`OBJECTS`] others while its header is.

use super::chunked_stack::ChunkedStack;
use super::delay::Delay;
use crate::ages::{Age, Ages};
use crate::arch::prefetch;
use crate::arrays::SpineMode;
use crate::arrays::parts::Parts;
use crate::arrays::pointers::{LeafTally, mark_leaves, strips};
use crate::blocks::BlockPool;
use crate::budget::{Budget, Done};
use crate::cage::NULL_GUARD_BYTES;
use crate::layout::{ARRAY_LENGTH_OFFSET, HEADER_BYTES};
use crate::plan::ObjectAt;
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::roots::RootVisitor;
use crate::type_table::TypeTable;
use crate::types::{TypeId, TypeKind, TypeRecord};
use crate::views::DoubleMaps;
use std::marker::PhantomData;

/// Elements of an array scanned at a time.
const SLICE: u32 = 512;
/// Bytes of leaves marked at a time, but one leaf at least: with zero compression, they are read.
const LEAF_RANGE: u32 = 64 << 10;
/// Elements that count as much as one object.
const ELEMENTS_PER_UNIT: u32 = 8;
/// What a range of leaves counts.
const LEAF_RANGE_UNITS: u64 = 64;
/// Bytes of a reference.
const REFERENCE_BYTES: u32 = 4;
/// References that wait for their handle or mark bit. A power of two.
const EDGES: usize = 16;
/// Objects that wait for their header. A power of two.
const OBJECTS: usize = 8;

/// What is grey, kept between steps, and between collections for its memory.
#[derive(Debug)]
pub(crate) struct MarkStack {
    /// Marked objects that have not been scanned.
    objects: ChunkedStack<u32>,
    /// What is left of long arrays.
    ranges: ChunkedStack<Range>,
    edges: Delay<u32, EDGES>,
    heads: Delay<u32, OBJECTS>,
    /// What has been found in spines.
    leaves: LeafTally,
}

/// The rest of an array that has not been scanned.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    array: u32,
    /// The index of an element, or the number of a leaf.
    first: u32,
    of_leaves: bool,
}

impl MarkStack {
    /// Empty stacks.
    pub(crate) fn new() -> MarkStack {
        MarkStack {
            objects: ChunkedStack::new(),
            ranges: ChunkedStack::new(),
            edges: Delay::new(),
            heads: Delay::new(),
            leaves: LeafTally::default(),
        }
    }

    /// Frees what an unusually large collection has left.
    pub(crate) fn trim(&mut self, budget: &mut Budget) -> Done {
        while self.objects.free_one() || self.ranges.free_one() {
            budget.spend(1);
            if budget.is_exhausted() {
                return Done::No;
            }
        }
        Done::Yes
    }

    /// Forgets what is grey.
    pub(crate) fn abandon(&mut self) {
        *self = MarkStack::new();
    }

    /// What has been found in spines since the last call.
    pub(crate) fn take_tally(&mut self) -> LeafTally {
        std::mem::take(&mut self.leaves)
    }
}

/// One step of marking, or several in a row.
pub(crate) struct Marker<'a, M> {
    pub(crate) pool: &'a mut BlockPool,
    pub(crate) types: &'a TypeTable,
    pub(crate) stack: &'a mut MarkStack,
    /// What becomes of arrays that do not lie in one piece.
    pub(crate) spines: Option<SpineMode>,
    pub(crate) views: &'a DoubleMaps,
    /// Where there are young objects, the ages: these are newer than the snapshot, and are left out.
    pub(crate) ages: Option<&'a Ages>,
    pub(crate) model: PhantomData<M>,
}

impl<M: ReferenceModel> RootVisitor for Marker<'_, M> {
    fn visit(&mut self, slot: &mut Reference) -> bool {
        self.mark(*slot);
        false
    }
}

impl<M: ReferenceModel> Marker<'_, M> {
    /// Marks the object that `reference` names, some turns later.
    #[inline(always)]
    pub(crate) fn mark(&mut self, reference: Reference) {
        if !reference.is_object() || self.ages.is_some_and(|ages| ages.of(reference.0) != Age::Old) {
            return;
        }
        match M::PLAN.object {
            ObjectAt::Itself => self.pool.marks.prefetch(reference.0),
            ObjectAt::Through { .. } => prefetch(self.pool.cage.address(reference.0)),
        }
        let waited = self.stack.edges.exchange(reference.0);
        if waited != 0 {
            self.mark_now(Reference(waited));
        }
    }

    #[inline(always)]
    fn mark_now(&mut self, reference: Reference) {
        // SAFETY: traced slots hold null, immediates and references to objects.
        let object = unsafe { M::object(&self.pool.cage, reference) };
        assert!(object >= NULL_GUARD_BYTES, "a traced slot holds {reference:?}, whose object is gone");
        if self.pool.marks.set(object) {
            self.stack.objects.push(object);
        }
    }

    /// Marks what the marked objects reach: everything, in the end.
    pub(crate) fn step(&mut self, budget: &mut Budget) -> Done {
        loop {
            while let Some(object) = self.stack.objects.pop() {
                prefetch(self.pool.cage.address(object));
                let waited = self.stack.heads.exchange(object);
                if waited != 0 {
                    self.scan(waited, budget);
                }
                if budget.is_exhausted() {
                    return Done::No;
                }
            }
            let mut waited = 0;
            for _ in 0..EDGES {
                let reference = self.stack.edges.exchange(0);
                if reference != 0 {
                    self.mark_now(Reference(reference));
                    waited += 1;
                }
            }
            for _ in 0..OBJECTS {
                let object = self.stack.heads.exchange(0);
                if object != 0 {
                    self.scan(object, budget);
                    waited += 1;
                }
            }
            if waited == 0 {
                let Some(range) = self.stack.ranges.pop() else { return Done::Yes };
                match range.of_leaves {
                    true => self.scan_leaves(range.array, range.first, budget),
                    false => self.scan_slice(range.array, range.first, budget),
                }
            }
            if budget.is_exhausted() {
                return Done::No;
            }
        }
    }

    #[inline(always)]
    fn word(&self, offset: u32) -> u32 {
        // SAFETY: only words inside of allocated objects are asked for.
        unsafe { self.pool.cage.read(offset) }
    }

    #[inline]
    fn scan(&mut self, object: u32, budget: &mut Budget) {
        const ARRAY: u32 = TypeKind::Array as u32;
        budget.spend(1);
        let id = TypeId(self.word(object));
        assert!(id.0 != 0, "a traced slot names the free cell at {object:#x}");
        // SAFETY: an allocated object's header names a registered type. The table outlives the marker.
        let record: &TypeRecord = unsafe { self.types.record_unchecked(id) };
        let mut map = record.reference_map;
        if record.kind == ARRAY && self.spines.is_some() {
            self.scan_leaves(object, 0, budget);
        }
        if map == 0 {
        } else if record.kind == ARRAY {
            self.scan_slice(object, 0, budget);
        } else if record.many_references == 0 {
            while map != 0 {
                self.mark(Reference(self.word(object + HEADER_BYTES + 4 * map.trailing_zeros())));
                map &= map - 1;
            }
        } else {
            let types = self.types;
            for &offset in types.reference_offsets(id) {
                self.mark(Reference(self.word(object + offset)));
            }
        }
    }

    /// Marks leaves of a spine from number `first` on.
    fn scan_leaves(&mut self, array: u32, first: u32, budget: &mut Budget) {
        let Some(mode) = self.spines else { return };
        // SAFETY: as in `scan`: the array's header names a registered type.
        let element_bytes = unsafe { self.types.record_unchecked(TypeId(self.word(array))) }.bytes;
        let length = self.word(array + ARRAY_LENGTH_OFFSET);
        let parts = Parts::of(self.pool.cage.memory(), Some(mode.layout), array, element_bytes, length);
        let count = (LEAF_RANGE >> mode.layout.leaf_log2).max(1);
        let Some((_, spine)) = parts.spine() else { return };
        let rest = mark_leaves(self.pool, &mode, self.views, &parts, (first, count), &mut self.stack.leaves);
        if let Some(first) = rest {
            self.stack.ranges.push(Range { array, first, of_leaves: true });
        }
        let leaves = spine.leaves.saturating_sub(first.max(parts.grown())).min(count);
        let bytes = u64::from(leaves) << mode.layout.leaf_log2;
        budget.spend(bytes * LEAF_RANGE_UNITS / u64::from(LEAF_RANGE));
    }

    /// Scans elements of an array of references from `start` on.
    fn scan_slice(&mut self, array: u32, start: u32, budget: &mut Budget) {
        let length = self.word(array + ARRAY_LENGTH_OFFSET);
        let end = length.min(start.saturating_add(SLICE));
        if end < length {
            self.stack.ranges.push(Range { array, first: end, of_leaves: false });
        }
        budget.spend(u64::from((end - start) / ELEMENTS_PER_UNIT));
        let memory = self.pool.cage.memory();
        let parts = Parts::of(memory, self.spines.map(|mode| mode.layout), array, REFERENCE_BYTES, length);
        let position = |index| u64::from(REFERENCE_BYTES) * u64::from(index);
        for (first, end) in strips(parts, memory, position(start), position(end)) {
            for element in (first..end).step_by(REFERENCE_BYTES as usize) {
                self.mark(Reference(self.word(element)));
            }
        }
    }
}
