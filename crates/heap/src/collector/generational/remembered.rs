//! The remembered set: which slots of old objects may lead to young ones.
//!
//! Dirty cards and the store buffer are both consumed by a collection; what then still leads to a young object (of a
//! kept block) is remembered anew, by its card. The objects of a card are found by the mark bits, which in a
//! generational heap tell where the objects of the mature space start: one card has just one word of them.

use super::scavenge::{Ones, Scavenger};
use crate::arch::prefetch;
use crate::arrays::parts::Parts;
use crate::blocks::{BLOCK_BYTES, BlockKind, BlockPool, FIRST_BLOCK, block_of, block_start};
use crate::cards::CARD_BYTES;
use crate::layout::{ARRAY_LENGTH_OFFSET, HEADER_BYTES, StorageKind, TYPE_ID_OFFSET, array_elements_offset};
use crate::spaces::small::SmallSpace;
use crate::type_table::TypeTable;
use crate::types::{TypeId, TypeKind, TypeRecord};

/// How far ahead of the scan slots and cards are fetched.
const SLOTS_AHEAD: usize = 16;
const CARDS_AHEAD: usize = 4;
const LINE_BYTES: usize = 64;
/// Bytes of a reference.
const REFERENCE_BYTES: u32 = 4;
const ELEMENTS: u32 = array_elements_offset(StorageKind::Ref);

/// The offset whose card a store into the slot marks: the slot itself in an array, the object's start in a struct. The
/// slot is one of an old object, of a large one that becomes old, or of a leaf.
#[cold]
pub(super) fn card_of_slot(pool: &BlockPool, small: &SmallSpace, types: &TypeTable, slot: u32) -> u32 {
    let block = block_of(slot);
    let info = pool.info(block);
    let start = match info.kind {
        BlockKind::Small => {
            let cell = small.classes.cell(info.class as usize);
            block_start(block) + (slot - block_start(block)) / cell * cell
        }
        kind if kind.is_head() => block_start(block),
        kind if kind.is_tail() => block_start(info.extent),
        BlockKind::Leaves | BlockKind::LeafTail => return slot,
        other => panic!("the remembered slot {slot:#x} lies in a block that is {other:?}"),
    };
    // SAFETY: an old object starts there.
    let record = types.record(TypeId(unsafe { pool.cage.read(start + TYPE_ID_OFFSET) }));
    if record.kind == TypeKind::Array as u32 { slot } else { start }
}

impl Scavenger<'_> {
    /// Visits slots from the store buffer.
    pub(super) fn scan_slots(&mut self, slots: &[u32]) {
        for (index, &slot) in slots.iter().enumerate() {
            if let Some(&ahead) = slots.get(index + SLOTS_AHEAD) {
                prefetch(self.pool.cage.address(ahead));
            }
            self.visit_slot(slot);
        }
    }

    /// Visits the slots of cards. These lie anywhere in the heap: their memory is fetched ahead.
    pub(super) fn scan_cards(&mut self, cards: Vec<u32>) {
        for (index, &card) in cards.iter().enumerate() {
            if let Some(&ahead) = cards.get(index + CARDS_AHEAD) {
                self.pool.marks.prefetch(ahead);
                for line in (ahead..ahead + CARD_BYTES).step_by(LINE_BYTES) {
                    prefetch(self.pool.cage.address(line));
                }
            }
            self.scan_card(card);
        }
        self.work.cards = cards;
    }

    /// The dirty cards of old objects by their offsets, which are clean from now on.
    pub(super) fn take_dirty_cards(&mut self) -> Vec<u32> {
        let mut dirty = std::mem::take(&mut self.work.cards);
        dirty.clear();
        self.pool.cage.take_cards(FIRST_BLOCK..self.pool.frontier(), |card| dirty.push(card));
        dirty
    }

    /// Visits the slots that a card stands for.
    fn scan_card(&mut self, card: u32) {
        let block = block_of(card);
        let info = *self.pool.info(block);
        let before = match info.kind {
            BlockKind::Leaves | BlockKind::LeafTail => return self.scan_leaves(card),
            BlockKind::Small => {
                let cell = self.small.classes.cell(info.class as usize);
                block_start(block) + (card - block_start(block)) / cell * cell
            }
            kind if kind.is_tail() => block_start(info.extent),
            _ => block_start(block),
        };
        if before < card && self.pool.marks.get(before) {
            let (_, record) = self.record(before);
            if record.kind == TypeKind::Array as u32 && record.reference_map != 0 {
                self.scan_elements(before, card);
            }
        }
        let mut starts = self.pool.marks.of_card(card);
        while starts != 0 {
            let object = card + 8 * starts.trailing_zeros();
            starts &= starts - 1;
            let (id, record) = self.record(object);
            if record.kind != TypeKind::Array as u32 {
                self.scan_struct(object, id, record);
            } else if record.reference_map != 0 {
                self.scan_elements(object, card);
            }
        }
    }

    /// Visits the slots of a struct.
    #[inline(always)]
    fn scan_struct(&mut self, object: u32, id: TypeId, record: &TypeRecord) {
        if record.many_references == 0 {
            Ones(record.reference_map).for_each(|bit| self.visit_slot(object + HEADER_BYTES + 4 * bit));
        } else {
            let types = self.types;
            types.reference_offsets(id).iter().for_each(|&offset| self.visit_slot(object + offset));
        }
    }

    /// Visits the elements of an array of references that lie in a card, and in the object itself.
    fn scan_elements(&mut self, array: u32, card: u32) {
        let length = self.word(array + ARRAY_LENGTH_OFFSET);
        let parts = Parts::of(self.memory, self.spines.map(|mode| mode.layout), array, REFERENCE_BYTES, length);
        self.scan_words(array + ELEMENTS, parts.inline_bytes() as u32, card);
        if let Some((_, spine)) = parts.spine() {
            self.scan_words(array + spine.remainder, spine.remainder_bytes, card);
        }
    }

    /// Visits the elements of leaves of old spines that lie in a card.
    fn scan_leaves(&mut self, card: u32) {
        let Some(leaf_bytes) = self.spines.map(|mode| mode.layout.leaf_bytes()) else { return };
        let block = block_of(card);
        let info = *self.pool.info(block);
        let first = match info.kind {
            BlockKind::LeafTail => block_start(info.extent),
            _ => card / leaf_bytes.min(BLOCK_BYTES) * leaf_bytes.min(BLOCK_BYTES),
        };
        for leaf in (first..card + CARD_BYTES).step_by(leaf_bytes as usize) {
            if self.pool.marks.get(leaf) {
                self.scan_words(leaf, leaf_bytes, card);
            }
        }
    }

    /// Visits the references in `bytes` bytes from `first` on that lie in a card.
    fn scan_words(&mut self, first: u32, bytes: u32, card: u32) {
        for element in (first.max(card)..(first + bytes).min(card + CARD_BYTES)).step_by(REFERENCE_BYTES as usize) {
            self.visit_slot(element);
        }
    }
}
