//! The copying part of a nursery collection: from slots that lead to young objects, through everything young that they
//! reach.
//!
//! A young object is copied into a cell of the mature space and marked there; its first word then holds the new offset
//! with [`FORWARDED`] set, which no type id has. Where its block is kept, or no cell is to be had, it stays in place
//! and is marked there. An object that contains references is pushed on a stack when it is copied or marked, and its
//! slots are visited when it is popped: the copies of a segregated space do not lie in the order of copying, so that
//! there is nothing to scan with Cheney's two fingers.
//!
//! Looking at a young object for the first time is a cache miss. A slot therefore waits among [`SLOTS`] others while
//! the header that it leads to is fetched (Cher, Hosking and Vitek 2004).

use super::remembered::card_of_slot;
use crate::ages::Age;
use crate::arch::prefetch;
use crate::arrays::SpineMode;
use crate::arrays::parts::Parts;
use crate::arrays::pointers::{LeafTally, follow_remainder, mark_leaves, strips};
use crate::blocks::{BlockPool, block_of};
use crate::cage::Memory;
use crate::collector::delay::Delay;
use crate::core::object_bytes;
use crate::layout::{ARRAY_LENGTH_OFFSET, HEADER_BYTES, TYPE_ID_OFFSET};
use crate::plan::BumpRun;
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::references::direct::Direct;
use crate::roots::RootVisitor;
use crate::size_classes::MAX_SIZE_CLASSES;
use crate::spaces::nursery::Nursery;
use crate::spaces::small::{Fit, SmallSpace};
use crate::type_table::TypeTable;
use crate::types::{TypeId, TypeKind, TypeRecord};
use crate::views::DoubleMaps;

/// Set in the first word of an object that has been copied; the other bits are its new offset.
pub(super) const FORWARDED: u32 = 1;
/// Elements of an array scanned at a time.
const SLICE: u32 = 512;
/// Bytes of a reference.
const REFERENCE_BYTES: u32 = 4;
/// Slots that wait for a header. A power of two.
const SLOTS: usize = 16;

/// The stacks, kept between collections for their memory.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Objects with references that have been copied or marked, and not scanned.
    objects: Vec<u32>,
    /// Arrays of which elements from an index on have not been scanned.
    slices: Vec<(u32, u32)>,
    /// Dirty cards, by their offsets.
    pub(super) cards: Vec<u32>,
    /// Slots that lead to young objects.
    slots: Delay<Slot, SLOTS>,
}

impl Work {
    /// Frees what an unusually large collection has left.
    pub(super) fn trim(&mut self) {
        self.objects.shrink_to(1 << 16);
        self.slices.shrink_to(1 << 12);
        self.cards.clear();
        self.cards.shrink_to(1 << 16);
    }
}

/// A slot that leads to a young object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Slot {
    offset: u32,
    /// Whose card is to be marked for the slot: that of the struct, or of the array's element itself. 0 where that has
    /// to be looked up.
    owner: u32,
}

/// What a nursery collection did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Objects copied, and bytes of their cells.
    pub(super) promoted_objects: u64,
    pub(super) promoted_bytes: u64,
    /// Objects that stay young, and their bytes.
    pub(super) kept_objects: u64,
    pub(super) kept_bytes: u64,
    /// Leaves of the survivors.
    pub(super) leaves: LeafTally,
    /// Whether a block is kept because there was no memory to copy an object to.
    pub(super) lacked_memory: bool,
}

/// One nursery collection.
pub(super) struct Scavenger<'a> {
    pub(super) pool: &'a mut BlockPool,
    pub(super) memory: Memory,
    pub(super) types: &'a TypeTable,
    pub(super) small: &'a mut SmallSpace,
    pub(super) nursery: &'a mut Nursery,
    /// What becomes of arrays that do not lie in one piece.
    pub(super) spines: Option<SpineMode>,
    pub(super) views: &'a DoubleMaps,
    /// Whether compiled code marks the cards of structs too.
    pub(super) marks_structs: bool,
    pub(super) work: &'a mut Work,
    /// Where objects are copied to, by size class.
    pub(super) runs: &'a mut [BumpRun; MAX_SIZE_CLASSES],
    pub(super) tally: Tally,
}

impl RootVisitor for Scavenger<'_> {
    fn visit(&mut self, slot: &mut Reference) -> bool {
        if !slot.is_object() || self.nursery.ages.of(slot.0) == Age::Old {
            return false;
        }
        *slot = Reference(self.forward(slot.0));
        // A large object is old once the collection is over.
        self.nursery.ages.of(slot.0) == Age::Kept
    }
}

impl<'a> Scavenger<'a> {
    #[inline(always)]
    pub(super) fn word(&self, offset: u32) -> u32 {
        // SAFETY: only words inside of objects are asked for.
        unsafe { self.memory.read(offset) }
    }

    /// The type of an object that has not been copied.
    #[inline(always)]
    pub(super) fn record(&self, object: u32) -> (TypeId, &'a TypeRecord) {
        let id = TypeId(self.word(object + TYPE_ID_OFFSET));
        assert!(id.0 != 0, "a traced slot leads to {object:#x}, where there is no object");
        // SAFETY: an object's header names a registered type.
        (id, unsafe { self.types.record_unchecked(id) })
    }

    /// Visits a traced slot, some turns later where it leads to a young object.
    #[inline(always)]
    pub(super) fn visit_slot(&mut self, offset: u32, owner: u32) {
        let value = self.word(offset);
        if value & 1 != 0 || self.nursery.ages.of(value) == Age::Old {
            return;
        }
        prefetch(self.memory.address(value));
        if let Some(waited) = self.work.slots.push(Slot { offset, owner }) {
            self.update(waited);
        }
    }

    /// Points a slot at where its object is now.
    #[inline(always)]
    fn update(&mut self, slot: Slot) {
        let object = self.word(slot.offset);
        let now = self.forward(object);
        if now != object {
            // SAFETY: the slot lies in an object.
            unsafe { self.memory.write(slot.offset, now) };
        } else if self.nursery.ages.of(object) == Age::Kept && self.nursery.ages.of(slot.owner) != Age::Kept {
            self.remember(slot);
        }
    }

    /// Remembers that a slot of an old object still leads to a young one.
    #[cold]
    fn remember(&mut self, slot: Slot) {
        let marked = match slot.owner {
            0 => card_of_slot(self.pool, self.small, self.types, slot.offset),
            owner => owner,
        };
        self.pool.cage.mark_card(marked);
    }

    /// Where the object at `object` is to be found from now on.
    #[inline(always)]
    fn forward(&mut self, object: u32) -> u32 {
        let header = self.word(object + TYPE_ID_OFFSET);
        if header & FORWARDED != 0 {
            return header & !FORWARDED;
        }
        match self.nursery.ages.of(object) {
            Age::Young => self.promote(object),
            Age::Kept | Age::YoungLarge => self.mark_in_place(object),
            // The slot was visited twice, and its object copied the first time.
            Age::Old => object,
        }
    }

    /// Copies a young object, or marks it in place where there is no memory.
    #[inline(always)]
    fn promote(&mut self, object: u32) -> u32 {
        let (_, record) = self.record(object);
        let bytes = if record.kind == TypeKind::Array as u32 {
            object_bytes(self.spines, record.bytes, self.word(object + ARRAY_LENGTH_OFFSET)) as u32
        } else {
            record.bytes
        };
        let class = self.small.classes.of_small(bytes);
        if self.runs[class].cursor == self.runs[class].limit && !self.next_run(class) {
            return self.keep_block(object);
        }
        let cell = self.small.classes.cell(class);
        let run = &mut self.runs[class];
        let copy = run.cursor;
        run.cursor += cell;
        // SAFETY: the cell is free and holds `bytes`, a multiple of 8; the object has as many.
        unsafe {
            let memory = self.memory;
            let (from, to) = (memory.address(object).cast::<u64>(), memory.address(copy).cast::<u64>());
            copy_words(from, to, bytes / 8);
            memory.write(object + TYPE_ID_OFFSET, copy | FORWARDED);
        }
        self.pool.mark_old(copy);
        self.tally.promoted_objects += 1;
        self.tally.promoted_bytes += cell as u64;
        self.found_array(copy, record);
        if record.reference_map != 0 {
            self.work.objects.push(copy);
            self.became_old(copy, 1, record);
        }
        // SAFETY: the object has been copied.
        unsafe { Direct::retarget(&self.pool.cage, object, copy).0 }
    }

    /// Finds free cells of a class, if need be in blocks that the nursery can spare, or one of a larger class.
    #[cold]
    fn next_run(&mut self, class: usize) -> bool {
        let mut found = self.small.next_run(class, Fit::Loose, self.pool, &mut Direct);
        if found.is_none() && self.nursery.release_unused(self.pool) {
            found = self.small.next_run(class, Fit::Loose, self.pool, &mut Direct);
        }
        if found.is_none() {
            // Else the object would keep its block, which the nursery would be without.
            self.small.crowd(class);
            found = self.small.borrow_run(class, self.pool, &mut Direct);
        }
        self.runs[class] = found.unwrap_or_default();
        found.is_some()
    }

    /// Keeps the block of an object that cannot be copied.
    #[cold]
    fn keep_block(&mut self, object: u32) -> u32 {
        self.tally.lacked_memory = true;
        self.nursery.ages.set(block_of(object), Age::Kept);
        self.mark_in_place(object)
    }

    /// Marks an object that stays where it is.
    fn mark_in_place(&mut self, object: u32) -> u32 {
        if self.pool.mark_old(object) {
            let (_, record) = self.record(object);
            if self.nursery.ages.of(object) != Age::YoungLarge {
                let bytes = match record.kind == TypeKind::Array as u32 {
                    true => object_bytes(self.spines, record.bytes, self.word(object + ARRAY_LENGTH_OFFSET)),
                    false => record.bytes as u64,
                };
                self.tally.kept_objects += 1;
                self.tally.kept_bytes += bytes;
            }
            self.found_array(object, record);
            if record.reference_map != 0 {
                self.work.objects.push(object);
                if self.nursery.ages.of(object) == Age::YoungLarge {
                    let (head, count) = (block_of(object), self.pool.info(block_of(object)).extent);
                    self.pool.cage.clean_cards(head, count);
                    self.became_old(object, count, record);
                }
            }
        }
        object
    }

    /// Notes of an object with references that it lies in so many old blocks from now on.
    #[inline(always)]
    fn became_old(&mut self, object: u32, blocks: u32, record: &TypeRecord) {
        if self.marks_structs || record.kind == TypeKind::Array as u32 {
            self.pool.cage.note_markable(block_of(object), blocks);
        }
    }

    /// Marks the leaves of a survivor that is where it will be, if it is a spine.
    #[inline(always)]
    fn found_array(&mut self, object: u32, record: &TypeRecord) {
        if let Some(mode) = self.spines
            && record.kind == TypeKind::Array as u32
        {
            self.found_spine(&mode, object, record.bytes);
        }
    }

    fn found_spine(&mut self, mode: &SpineMode, object: u32, element_bytes: u32) {
        let length = self.word(object + ARRAY_LENGTH_OFFSET);
        if mode.layout.divides(element_bytes, length) {
            let parts = Parts::of(self.memory, Some(mode.layout), object, element_bytes, length);
            // SAFETY: the spine is where it will be, and the mutator stands.
            unsafe { follow_remainder(self.memory, &parts) };
            mark_leaves(self.pool, mode, self.views, &parts, (0, u32::MAX), &mut self.tally.leaves);
        }
    }

    /// Visits everything that the copied and marked objects reach.
    pub(super) fn drain(&mut self) {
        loop {
            while let Some(object) = self.work.objects.pop() {
                let (id, record) = self.record(object);
                if record.kind == TypeKind::Array as u32 {
                    self.scan_slice(object, 0);
                } else {
                    self.scan_struct(object, id, record);
                }
            }
            if let Some(slot) = self.work.slots.pop() {
                self.update(slot);
                continue;
            }
            let Some((array, start)) = self.work.slices.pop() else { return };
            self.scan_slice(array, start);
        }
    }

    /// Visits the slots of a struct.
    #[inline(always)]
    pub(super) fn scan_struct(&mut self, object: u32, id: TypeId, record: &TypeRecord) {
        if record.many_references == 0 {
            let mut map = record.reference_map;
            while map != 0 {
                self.visit_slot(object + HEADER_BYTES + 4 * map.trailing_zeros(), object);
                map &= map - 1;
            }
        } else {
            let types = self.types;
            types.reference_offsets(id).iter().for_each(|&offset| self.visit_slot(object + offset, object));
        }
    }

    /// Visits the elements of an array of references from `start` on, and leaves what is beyond a slice for later.
    fn scan_slice(&mut self, array: u32, start: u32) {
        let length = self.word(array + ARRAY_LENGTH_OFFSET);
        let end = length.min(start.saturating_add(SLICE));
        if end < length {
            self.work.slices.push((array, end));
        }
        let parts = Parts::of(self.memory, self.spines.map(|mode| mode.layout), array, REFERENCE_BYTES, length);
        let position = |index| u64::from(REFERENCE_BYTES) * u64::from(index);
        for (first, end) in strips(parts, self.memory, position(start), position(end)) {
            for element in (first..end).step_by(REFERENCE_BYTES as usize) {
                self.visit_slot(element, element);
            }
        }
    }
}

/// Copies `count` words, few as a rule.
///
/// # Safety
/// Both ranges are accessible, aligned to 8 bytes, and do not overlap.
#[inline(always)]
unsafe fn copy_words(from: *const u64, to: *mut u64, count: u32) {
    const FEW: u32 = 16;
    // SAFETY: by the contract.
    unsafe {
        if count > FEW {
            std::ptr::copy_nonoverlapping(from, to, count as usize);
            return;
        }
        for index in 0..count as usize {
            to.add(index).write(from.add(index).read());
        }
    }
}
