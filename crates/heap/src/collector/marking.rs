//! Precise marking with an explicit stack.
//!
//! An object is marked when it is pushed, so that it is pushed once at most. A long array of references is scanned in
//! slices, the rest of it waiting on a second stack: the mark stack stays small for wide objects as for deep ones.
//!
//! Marking is bound by cache misses, of three kinds: the handle, the mark bit, the object. Two short queues hide them
//! (Cher, Hosking and Vitek 2004): a reference waits among [`EDGES`] others while its handle or mark bit is fetched, an
//! object taken off the stack among [`OBJECTS`] others while its header is.

use super::delay::Delay;
use crate::arch::prefetch;
use crate::arrays::SpineMode;
use crate::arrays::parts::Parts;
use crate::arrays::pointers::{LeafTally, mark_leaves, strips};
use crate::blocks::BlockPool;
use crate::cage::NULL_GUARD_BYTES;
use crate::layout::{ARRAY_LENGTH_OFFSET, HEADER_BYTES};
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::roots::RootVisitor;
use crate::type_table::TypeTable;
use crate::types::{TypeId, TypeKind, TypeRecord};
use crate::views::DoubleMaps;
use std::marker::PhantomData;

/// Elements of an array scanned at a time.
const SLICE: u32 = 512;
/// Bytes of a reference.
const REFERENCE_BYTES: u32 = 4;
/// References that wait for their handle or mark bit. A power of two.
const EDGES: usize = 16;
/// Objects that wait for their header. A power of two.
const OBJECTS: usize = 8;

/// The stacks, kept between collections for their memory.
#[derive(Debug)]
pub(crate) struct MarkStack {
    /// Marked objects that have not been scanned.
    objects: Vec<u32>,
    /// Arrays of which elements from an index on have not been scanned.
    slices: Vec<(u32, u32)>,
    edges: Delay<u32, EDGES>,
    heads: Delay<u32, OBJECTS>,
}

impl MarkStack {
    /// Empty stacks.
    pub(crate) fn new() -> MarkStack {
        MarkStack { objects: Vec::new(), slices: Vec::new(), edges: Delay::new(), heads: Delay::new() }
    }

    /// Frees what an unusually large collection has left.
    pub(crate) fn trim(&mut self) {
        self.objects.shrink_to(1 << 16);
        self.slices.shrink_to(1 << 12);
    }
}

/// One marking phase.
pub(crate) struct Marker<'a, M> {
    pub(crate) pool: &'a mut BlockPool,
    pub(crate) types: &'a TypeTable,
    pub(crate) stack: &'a mut MarkStack,
    /// What becomes of arrays that do not lie in one piece.
    pub(crate) spines: Option<SpineMode>,
    pub(crate) views: &'a DoubleMaps,
    pub(crate) leaves: LeafTally,
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
    fn mark(&mut self, reference: Reference) {
        if !reference.is_object() {
            return;
        }
        if M::HANDLES {
            prefetch(self.pool.cage.address(reference.0));
        } else {
            self.pool.marks.prefetch(reference.0);
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

    /// Marks everything that the marked objects reach.
    pub(crate) fn drain(&mut self) {
        loop {
            while let Some(object) = self.stack.objects.pop() {
                prefetch(self.pool.cage.address(object));
                let waited = self.stack.heads.exchange(object);
                if waited != 0 {
                    self.scan(waited);
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
                    self.scan(object);
                    waited += 1;
                }
            }
            if waited == 0 {
                let Some((array, start)) = self.stack.slices.pop() else { return };
                self.scan_slice(array, start);
            }
        }
    }

    #[inline(always)]
    fn word(&self, offset: u32) -> u32 {
        // SAFETY: only words inside of allocated objects are asked for.
        unsafe { self.pool.cage.read(offset) }
    }

    #[inline]
    fn scan(&mut self, object: u32) {
        const ARRAY: u32 = TypeKind::Array as u32;
        let id = TypeId(self.word(object));
        assert!(id.0 != 0, "a traced slot names the free cell at {object:#x}");
        // SAFETY: an allocated object's header names a registered type. The table outlives the marker.
        let record: &TypeRecord = unsafe { self.types.record_unchecked(id) };
        let mut map = record.reference_map;
        if record.kind == ARRAY
            && let Some(mode) = self.spines
        {
            let length = self.word(object + ARRAY_LENGTH_OFFSET);
            let parts = Parts::of(self.pool.cage.memory(), Some(mode.layout), object, record.bytes, length);
            mark_leaves(self.pool, &mode, self.views, &parts, &mut self.leaves);
        }
        if map == 0 {
        } else if record.kind == ARRAY {
            self.scan_slice(object, 0);
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

    fn scan_slice(&mut self, array: u32, start: u32) {
        let length = self.word(array + ARRAY_LENGTH_OFFSET);
        let end = length.min(start.saturating_add(SLICE));
        if end < length {
            self.stack.slices.push((array, end));
        }
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
