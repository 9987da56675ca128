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
use crate::cage::{Memory, NULL_GUARD_BYTES};
use crate::layout::{ARRAY_LENGTH_OFFSET, COLLECTOR_WORD_OFFSET, HEADER_BYTES};
use crate::marks::SharedMarks;
use crate::plan::{ObjectAt, SameObject};
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
/// Set in a reference that waits where its object holds no references: the object is marked, and not scanned.
const REFERENCE_FREE: u32 = 1;
/// Objects that wait for their header. A power of two.
const OBJECTS: usize = 8;

/// What is grey, kept between steps, and between collections for its memory.
#[derive(Debug)]
pub(crate) struct MarkStack {
    /// Marked objects that have not been scanned.
    objects: ChunkedStack<u32>,
    /// What is left of long arrays.
    ranges: ChunkedStack<Range>,
    /// What the mutator's thread alone scans.
    deferred: ChunkedStack<Range>,
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
            deferred: ChunkedStack::new(),
            edges: Delay::new(),
            heads: Delay::new(),
            leaves: LeafTally::default(),
        }
    }

    /// Frees what an unusually large collection has left.
    pub(crate) fn trim(&mut self, budget: &mut Budget) -> Done {
        while self.objects.free_one() || self.ranges.free_one() || self.deferred.free_one() {
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

/// How a marker reaches the heap.
pub(crate) trait Reach {
    fn memory(&self) -> Memory;

    /// Reads a word.
    ///
    /// # Safety
    /// The word lies in an object, or is an object's handle.
    unsafe fn word(&self, offset: u32) -> u32;

    /// Has the word with an object's mark bit fetched. Any offset is allowed.
    fn prefetch_mark(&self, object: u32);

    /// Sets the bit of an object; returns whether it was clear.
    fn mark(&mut self, object: u32) -> bool;

    /// What is needed to mark leaves; `None` where the mutator may be running.
    fn leaves(&mut self) -> Option<(&mut BlockPool, &DoubleMaps)>;
}

/// The mutator stands.
pub(crate) struct Alone<'a> {
    pub(crate) pool: &'a mut BlockPool,
    pub(crate) views: &'a DoubleMaps,
}

impl Reach for Alone<'_> {
    #[inline(always)]
    fn memory(&self) -> Memory {
        self.pool.cage.memory()
    }

    #[inline(always)]
    unsafe fn word(&self, offset: u32) -> u32 {
        // SAFETY: by the contract.
        unsafe { self.memory().read(offset) }
    }

    #[inline(always)]
    fn prefetch_mark(&self, object: u32) {
        self.pool.marks.prefetch(object);
    }

    #[inline(always)]
    fn mark(&mut self, object: u32) -> bool {
        self.pool.marks.set(object)
    }

    #[inline(always)]
    fn leaves(&mut self) -> Option<(&mut BlockPool, &DoubleMaps)> {
        Some((self.pool, self.views))
    }
}

/// The mutator may be running. Not to be used once the heap is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside {
    pub(crate) memory: Memory,
    pub(crate) marks: SharedMarks,
}

impl Reach for Beside {
    #[inline(always)]
    fn memory(&self) -> Memory {
        self.memory
    }

    #[inline(always)]
    unsafe fn word(&self, offset: u32) -> u32 {
        // SAFETY: by the contract.
        unsafe { self.memory.read_shared(offset) }
    }

    #[inline(always)]
    fn prefetch_mark(&self, object: u32) {
        self.marks.prefetch(object);
    }

    #[inline(always)]
    fn mark(&mut self, object: u32) -> bool {
        // SAFETY: the bits are as long-lived as the heap, and cover every object.
        unsafe { self.marks.set(object) }
    }

    #[inline(always)]
    fn leaves(&mut self) -> Option<(&mut BlockPool, &DoubleMaps)> {
        None
    }
}

/// One step of marking, or several in a row.
pub(crate) struct Marker<'a, M, R> {
    pub(crate) heap: R,
    pub(crate) types: &'a TypeTable,
    pub(crate) stack: &'a mut MarkStack,
    /// What becomes of arrays that do not lie in one piece.
    pub(crate) spines: Option<SpineMode>,
    /// Where there are young objects, the ages: these are newer than the snapshot, and are left out.
    pub(crate) ages: Option<&'a Ages>,
    /// Whether references may lead to old copies, which are healed on the way. The mutator stands then.
    pub(crate) heals: bool,
    /// Whether handles are marked as their objects are.
    pub(crate) marks_handles: bool,
    pub(crate) model: PhantomData<M>,
}

impl<M: ReferenceModel, R: Reach> RootVisitor for Marker<'_, M, R> {
    fn visit(&mut self, slot: &mut Reference) -> bool {
        *slot = self.healed(*slot);
        self.mark(*slot);
        false
    }
}

impl<M: ReferenceModel, R: Reach> Marker<'_, M, R> {
    /// What a reference is to be.
    #[inline(always)]
    fn healed(&self, reference: Reference) -> Reference {
        match M::PLAN.same {
            SameObject::Canonical { offset, word } if self.heals && reference.is_object() => {
                word.current(reference, self.word(reference.0 + offset))
            }
            _ => reference,
        }
    }

    /// Marks the object that a slot leads to, some turns later.
    #[inline(always)]
    fn mark_slot(&mut self, slot: u32, reference_free: u32) {
        let mut reference = Reference(self.word(slot));
        if M::FORWARDS && self.heals {
            let healed = self.healed(reference);
            if healed != reference {
                // SAFETY: the slot lies in an object, and the mutator stands.
                unsafe { self.heap.memory().write(slot, healed.0) };
                reference = healed;
            }
        }
        self.mark_as(reference, reference_free);
    }

    /// Marks the object that `reference` names, some turns later.
    #[inline(always)]
    pub(crate) fn mark(&mut self, reference: Reference) {
        self.mark_as(reference, 0);
    }

    /// The same, of an object that is known to hold no references where `reference_free` is [`REFERENCE_FREE`], not 0.
    #[inline(always)]
    fn mark_as(&mut self, reference: Reference, reference_free: u32) {
        if !reference.is_object() || self.ages.is_some_and(|ages| ages.of(reference.0) != Age::Old) {
            return;
        }
        // References that have been healed lead to the object itself.
        match M::PLAN.object {
            ObjectAt::Through { .. } if !M::FORWARDS => prefetch(self.heap.memory().address(reference.0)),
            _ => self.heap.prefetch_mark(reference.0),
        }
        if let Some(waited) = self.stack.edges.push(reference.0 | reference_free) {
            self.mark_now(waited);
        }
    }

    #[inline(always)]
    fn mark_now(&mut self, waited: u32) {
        let reference = Reference(waited & !REFERENCE_FREE);
        // All references to an object lead to its one handle.
        if M::HANDLES && self.marks_handles && !self.heap.mark(reference.0) {
            return;
        }
        let object = if M::FORWARDS { reference.0 } else { M::PLAN.object(reference, |offset| self.word(offset)) };
        assert!(object >= NULL_GUARD_BYTES, "a traced slot holds {reference:?}, whose object is gone");
        if self.heap.mark(object) && waited & REFERENCE_FREE == 0 {
            self.stack.objects.push(object);
        }
    }

    /// Marks what the marked objects reach: everything, in the end.
    pub(crate) fn step(&mut self, budget: &mut Budget) -> Done {
        loop {
            while let Some(object) = self.stack.objects.pop() {
                prefetch(self.heap.memory().address(object));
                if let Some(waited) = self.stack.heads.push(object) {
                    self.scan(waited, budget);
                }
                if budget.is_exhausted() {
                    return Done::No;
                }
            }
            if let Some(reference) = self.stack.edges.pop() {
                self.mark_now(reference);
            } else if let Some(object) = self.stack.heads.pop() {
                self.scan(object, budget);
            } else {
                let Some(range) = self.next_range() else { return Done::Yes };
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

    /// The next range to be scanned here.
    fn next_range(&mut self) -> Option<Range> {
        if self.heap.leaves().is_some() {
            return self.stack.ranges.pop().or_else(|| self.stack.deferred.pop());
        }
        loop {
            let range = self.stack.ranges.pop()?;
            if !self.is_divided(range.array) {
                return Some(range);
            }
            self.stack.deferred.push(range);
        }
    }

    /// Whether an array lies in several parts, or has.
    fn is_divided(&self, array: u32) -> bool {
        // SAFETY: as in `scan`: the array's header names a registered type.
        let element_bytes = unsafe { self.types.record_unchecked(TypeId(self.word(array))) }.bytes;
        let length = self.word(array + ARRAY_LENGTH_OFFSET);
        self.spines.is_some_and(|mode| mode.layout.divides(element_bytes, length))
    }

    #[inline(always)]
    fn word(&self, offset: u32) -> u32 {
        // SAFETY: only words inside of allocated objects, and handles, are asked for.
        unsafe { self.heap.word(offset) }
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
            if self.heap.leaves().is_none() && self.is_divided(object) {
                self.defer(object, map != 0);
                return;
            }
            self.scan_leaves(object, 0, budget);
        }
        if map == 0 {
        } else if record.kind == ARRAY {
            self.scan_slice(object, 0, budget);
        } else if record.many_references == 0 {
            let free = self.reference_free(record);
            while map != 0 {
                let word = map.trailing_zeros();
                let reference_free = (u64::from(free) >> word & 1) as u32;
                self.mark_slot(object + HEADER_BYTES + 4 * word, reference_free);
                map &= map - 1;
            }
        } else {
            let types = self.types;
            for &offset in types.reference_offsets(id) {
                self.mark_slot(object + offset, 0);
            }
        }
    }

    /// Which references of a type need not be followed. Arrays that do not lie in one piece are looked at for their
    /// leaves.
    #[inline(always)]
    fn reference_free(&self, record: &TypeRecord) -> u32 {
        if self.spines.is_some() { 0 } else { record.reference_free }
    }

    /// Leaves an array in several parts to the mutator's thread.
    fn defer(&mut self, array: u32, has_references: bool) {
        self.stack.deferred.push(Range { array, first: 0, of_leaves: true });
        if has_references {
            self.stack.deferred.push(Range { array, first: 0, of_leaves: false });
        }
    }

    /// Marks leaves of a spine from number `first` on.
    fn scan_leaves(&mut self, array: u32, first: u32, budget: &mut Budget) {
        let Some(mode) = self.spines else { return };
        // SAFETY: as in `scan`: the array's header names a registered type.
        let element_bytes = unsafe { self.types.record_unchecked(TypeId(self.word(array))) }.bytes;
        let length = self.word(array + ARRAY_LENGTH_OFFSET);
        // Both copies of a spine lead to the same leaves.
        let has_replica = M::REPLICATES && self.heals && self.word(array + COLLECTOR_WORD_OFFSET) != array;
        let mode = SpineMode { zero_compression: mode.zero_compression && !has_replica, ..mode };
        let Some((pool, views)) = self.heap.leaves() else { return };
        let parts = Parts::of(pool.cage.memory(), Some(mode.layout), array, element_bytes, length);
        let count = (LEAF_RANGE >> mode.layout.leaf_log2).max(1);
        let Some((_, spine)) = parts.spine() else { return };
        let rest = mark_leaves(pool, &mode, views, &parts, (first, count), &mut self.stack.leaves);
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
        let memory = self.heap.memory();
        // What is in several parts is not scanned while the mutator may be running.
        let layout = self.spines.filter(|_| self.heap.leaves().is_some()).map(|mode| mode.layout);
        let parts = Parts::of(memory, layout, array, REFERENCE_BYTES, length);
        let position = |index| u64::from(REFERENCE_BYTES) * u64::from(index);
        // SAFETY: as in `scan`: the array's header names a registered type.
        let record = unsafe { self.types.record_unchecked(TypeId(self.word(array))) };
        let reference_free = self.reference_free(record) & REFERENCE_FREE;
        for (first, end) in strips(parts, memory, position(start), position(end)) {
            for element in (first..end).step_by(REFERENCE_BYTES as usize) {
                self.mark_slot(element, reference_free);
            }
        }
    }
}
