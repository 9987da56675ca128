//! The copying part of a nursery collection: from slots that lead to young objects, through everything young that they
//! reach.
//!
//! A young object is copied into a cell of the mature space; its first word then holds the new offset with
//! [`FORWARDED`] set, which no type id has. Where its block is kept, or no cell is to be had, it stays in place and is
//! marked there. Those slots of a copy that lead to young objects are pushed on a stack at once, while they are at hand
//! (edge enqueuing; Garner, Blackburn and Frampton 2007): the copies of a segregated space do not lie in the order of
//! copying, so that there is nothing to scan with Cheney's two fingers.
//!
//! Looking at a young object for the first time is a cache miss. A slot that is popped therefore waits among [`SLOTS`]
//! others while the header that it leads to is fetched (Cher, Hosking and Vitek 2004). The rest is bound by branches
//! that cannot be predicted, and by loads that wait for stores: short objects are copied without a loop, whether a slot
//! leads to a young object is not branched on, and what can be done for many copies at once is ([`EvacuationRuns`]).

use super::evacuation_runs::EvacuationRuns;
use super::remembered::card_of_slot;
use super::slot_stack::{Slot, SlotStack};
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
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::references::direct::Direct;
use crate::roots::RootVisitor;
use crate::spaces::Survivors;
use crate::spaces::nursery::Nursery;
use crate::spaces::small::{Fit, SmallSpace};
use crate::type_table::TypeTable;
use crate::types::{TypeId, TypeKind, TypeRecord};
use crate::views::DoubleMaps;

/// Set in the first word of an object that has been copied; the other bits are its new offset.
pub(super) const FORWARDED: u32 = 1;
/// References of an object scanned at a time.
const SLICE: u32 = 512;
/// Bytes of a reference.
const REFERENCE_BYTES: u32 = 4;
/// Slots that wait for a header. A power of two.
const SLOTS: usize = 16;

/// The stacks, kept between collections for their memory.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Slots of survivors that lead to young objects.
    slots: SlotStack,
    /// Survivors whose references from one on, by its index, have not been scanned.
    rest: Vec<(u32, u32)>,
    /// Dirty cards, by their offsets.
    pub(super) cards: Vec<u32>,
    /// Slots whose objects are being fetched.
    fetching: Delay<Slot, SLOTS>,
}

impl Work {
    /// Frees what an unusually large collection has left.
    pub(super) fn trim(&mut self) {
        self.slots.trim();
        self.rest.shrink_to(1 << 12);
        self.cards.clear();
        self.cards.shrink_to(1 << 16);
    }
}

/// What a nursery collection did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Objects copied, and bytes of their cells.
    pub(super) promoted: Survivors,
    /// Objects that stay young, and their bytes.
    pub(super) kept: Survivors,
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
    pub(super) runs: &'a mut EvacuationRuns,
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

    /// Visits a traced slot of an old object, some turns later where it leads to a young one.
    #[inline(always)]
    pub(super) fn visit_slot(&mut self, offset: u32) {
        let object = self.word(offset);
        if object & 1 == 0 && self.nursery.ages.of(object) != Age::Old {
            self.visit_some_slot(Slot { offset, object });
        }
    }

    #[inline(never)]
    fn visit_some_slot(&mut self, slot: Slot) {
        if let Some(fetched) = self.fetch(slot) {
            self.update(fetched);
        }
    }

    /// Asks for the object that a slot leads to; returns a slot whose object has been asked for some turns ago.
    #[inline(always)]
    fn fetch(&mut self, slot: Slot) -> Option<Slot> {
        prefetch(self.memory.address(slot.object));
        self.work.fetching.push(slot)
    }

    /// Points a slot at where its object is now.
    #[inline(always)]
    fn update(&mut self, slot: Slot) {
        let now = self.forward(slot.object);
        if now != slot.object {
            // SAFETY: the slot lies in an object.
            unsafe { self.memory.write(slot.offset, now) };
        } else if self.nursery.ages.of(now) == Age::Kept && self.nursery.ages.of(slot.offset) != Age::Kept {
            self.remember(slot.offset);
        }
    }

    /// Remembers that a slot of an old object still leads to a young one.
    #[cold]
    fn remember(&mut self, slot: u32) {
        let marked = card_of_slot(self.pool, self.small, self.types, slot);
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
            Age::Old => unreachable!("only what leads to young objects is followed"),
        }
    }

    /// Copies a young object, or marks it in place where there is no memory.
    #[inline(always)]
    fn promote(&mut self, object: u32) -> u32 {
        let (id, record) = self.record(object);
        let bytes = if record.kind == TypeKind::Array as u32 {
            object_bytes(self.spines, record.bytes, self.word(object + ARRAY_LENGTH_OFFSET)) as u32
        } else {
            record.bytes
        };
        let class = self.small.classes.of_small(bytes);
        let Some(copy) = self.runs.take(class).or_else(|| self.next_run(class)) else {
            return self.keep_block(object);
        };
        // SAFETY: the cell is free and holds `bytes`, a multiple of 8; the object has as many.
        unsafe {
            let memory = self.memory;
            let (from, to) = (memory.address(object).cast::<u64>(), memory.address(copy).cast::<u64>());
            copy_words(from, to, bytes / 8);
            memory.write(object + TYPE_ID_OFFSET, copy | FORWARDED);
        }
        self.found_array(copy, record);
        if record.reference_map != 0 {
            self.became_old(copy, 1, record);
            self.scan(object, copy, id, record);
        }
        // SAFETY: the object has been copied.
        unsafe { Direct::retarget(&self.pool.cage, object, copy).0 }
    }

    /// Takes the first of more free cells of a class, if need be in blocks that the nursery can spare, or one of a
    /// larger class.
    #[cold]
    fn next_run(&mut self, class: usize) -> Option<u32> {
        let mut found = self.small.next_run(class, Fit::Loose, self.pool, &mut Direct);
        if found.is_none() && self.nursery.release_unused(self.pool) {
            found = self.small.next_run(class, Fit::Loose, self.pool, &mut Direct);
        }
        if found.is_none() {
            // Else the object would keep its block, which the nursery would be without.
            self.small.crowd(class);
            found = self.small.borrow_run(class, self.pool, &mut Direct);
        }
        self.tally.promoted += self.runs.refill(class, found.unwrap_or_default(), self.pool);
        self.runs.take(class)
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
            let (id, record) = self.record(object);
            if self.nursery.ages.of(object) != Age::YoungLarge {
                let bytes = match record.kind == TypeKind::Array as u32 {
                    true => object_bytes(self.spines, record.bytes, self.word(object + ARRAY_LENGTH_OFFSET)),
                    false => record.bytes as u64,
                };
                self.tally.kept += Survivors { objects: 1, bytes };
            }
            self.found_array(object, record);
            if record.reference_map != 0 {
                if self.nursery.ages.of(object) == Age::YoungLarge {
                    let (head, count) = (block_of(object), self.pool.info(block_of(object)).extent);
                    self.pool.cage.clean_cards(head, count);
                    self.became_old(object, count, record);
                }
                self.scan(object, object, id, record);
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

    /// Visits everything that survivors reach.
    pub(super) fn drain(&mut self) {
        loop {
            while let Some(slot) = self.work.slots.pop() {
                if let Some(fetched) = self.fetch(slot) {
                    self.update(fetched);
                }
            }
            if let Some(fetched) = self.work.fetching.pop() {
                self.update(fetched);
                continue;
            }
            let Some((object, start)) = self.work.rest.pop() else { break };
            self.scan_from(object, start);
        }
        self.tally.promoted += self.runs.mark(self.pool);
    }

    /// Pushes the slots of a survivor that lead to young objects, or leaves them for later. It lies at `object`; what
    /// it holds lies at `from` as well, but for the header.
    #[inline(always)]
    fn scan(&mut self, from: u32, object: u32, id: TypeId, record: &TypeRecord) {
        if self.work.slots.is_high() {
            self.work.rest.push((object, 0));
        } else if record.kind == TypeKind::Array as u32 {
            self.scan_slice(object, 0);
        } else if record.many_references == 0 {
            let offsets = Ones(record.reference_map).map(|bit| HEADER_BYTES + 4 * bit);
            self.push_slots(u64::BITS as usize, from, object, offsets);
        } else {
            self.scan_many(object, id, 0);
        }
    }

    /// As [`scan`](Self::scan), of the references from number `start` on.
    fn scan_from(&mut self, object: u32, start: u32) {
        let (id, record) = self.record(object);
        match record.kind == TypeKind::Array as u32 {
            true => self.scan_slice(object, start),
            false if record.many_references != 0 => self.scan_many(object, id, start),
            false => self.scan(object, object, id, record),
        }
    }

    /// Scans the references of a large struct from number `start` on, and leaves what is beyond a slice for later.
    #[cold]
    fn scan_many(&mut self, object: u32, id: TypeId, start: u32) {
        let offsets = &self.types.reference_offsets(id)[start as usize..];
        let slice = &offsets[..offsets.len().min(SLICE as usize)];
        if slice.len() < offsets.len() {
            self.work.rest.push((object, start + SLICE));
        }
        self.push_slots(slice.len(), object, object, slice.iter().copied());
    }

    /// Pushes the slots at such offsets, `most` at most, in what lies at `object`, and at `from` as well.
    #[inline(always)]
    fn push_slots(&mut self, most: usize, from: u32, object: u32, offsets: impl Iterator<Item = u32>) {
        let (memory, ages) = (self.memory, &self.nursery.ages);
        // SAFETY: the offsets are of slots inside of the object.
        let slot = |offset| Slot { offset: object + offset, object: unsafe { memory.read(from + offset) } };
        let is_young = |slot: Slot| (slot.object & 1 == 0) & (ages.of(slot.object) != Age::Old);
        self.work.slots.push(most, offsets.map(slot), is_young);
    }

    /// Scans the elements of an array of references from `start` on, and leaves what is beyond a slice for later.
    #[inline(never)]
    fn scan_slice(&mut self, array: u32, start: u32) {
        let length = self.word(array + ARRAY_LENGTH_OFFSET);
        let end = length.min(start.saturating_add(SLICE));
        if end < length {
            self.work.rest.push((array, end));
        }
        let parts = Parts::of(self.memory, self.spines.map(|mode| mode.layout), array, REFERENCE_BYTES, length);
        let position = |index| u64::from(REFERENCE_BYTES) * u64::from(index);
        for (first, end) in strips(parts, self.memory, position(start), position(end)) {
            self.push_slots(SLICE as usize, first, first, (0..end - first).step_by(REFERENCE_BYTES as usize));
        }
    }
}

/// The indices of the bits that are set, ascending.
pub(super) struct Ones(pub(super) u64);

impl Iterator for Ones {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        let bit = self.0.trailing_zeros();
        self.0 &= self.0.checked_sub(1)?;
        Some(bit)
    }
}

/// Copies `count` words, without a loop where they are few: the first ones and the last ones, in pieces of two words,
/// which may overlap.
///
/// # Safety
/// Both ranges are accessible, aligned to 8 bytes, and do not overlap.
#[inline(always)]
unsafe fn copy_words(from: *const u64, to: *mut u64, count: u32) {
    let count = count as usize;
    // SAFETY: by the contract; each piece lies in the ranges.
    unsafe {
        let read = |index: usize| from.add(index).cast::<[u64; 2]>().read();
        let write = |index: usize, pair| to.add(index).cast::<[u64; 2]>().write(pair);
        match count {
            0 | 1 => std::ptr::copy_nonoverlapping(from, to, count),
            2..=4 => {
                let (first, last) = (read(0), read(count - 2));
                write(0, first);
                write(count - 2, last);
            }
            5..=8 => {
                let (first, second, third, last) = (read(0), read(2), read(count - 4), read(count - 2));
                write(0, first);
                write(2, second);
                write(count - 4, third);
                write(count - 2, last);
            }
            _ => std::ptr::copy_nonoverlapping(from, to, count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_words_are_copied_as_asked_for() {
        let from: Vec<u64> = (1..=40).collect();
        for count in 0..=40 {
            let mut to = [0; 40];
            // SAFETY: both have 40 words.
            unsafe { copy_words(from.as_ptr(), to.as_mut_ptr(), count) };
            let (copied, rest) = to.split_at(count as usize);
            assert_eq!(copied, &from[..count as usize]);
            assert!(rest.iter().all(|&word| word == 0), "{count} words");
        }
    }

    #[test]
    fn the_ones_of_a_map_are_those_bits_that_are_set() {
        for map in [0, 1, 1 << 63, 0b1011, u64::MAX, 0x8000_0001_0000_0010] {
            let bits: Vec<u32> = Ones(map).collect();
            assert_eq!(bits, (0..64).filter(|bit| map >> bit & 1 == 1).collect::<Vec<_>>());
        }
    }
}
