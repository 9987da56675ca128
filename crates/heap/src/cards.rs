//! The card table: one byte for each 512 bytes of the cage, in the guard below the cage, so that compiled code marks a
//! card with a shift and one store at a constant distance from the cage's base. 1 is dirty, 0 clean.
//!
//! A store of a reference marks the card of the object's header (structs) or of the element (arrays of references). A
//! dirty card therefore stands for the structs that start in it, whole, and for the elements inside of it. Cards of
//! young memory mean nothing; a block's cards are cleared when it is taken from the pool.
//!
//! Beside a large heap even looking for dirty cards takes time, when the blocks in which there can be none are most of
//! them: with a store buffer, all that hold no arrays of references. A second table has a byte for each block, of which
//! compiled code knows nothing. [`HAS_MARKABLE`] is set when something comes to lie in the block whose cards compiled
//! code marks; [`WAS_MARKED`], when the heap itself marks one. Cards of other blocks are not looked at.

use crate::blocks::{BLOCK_BYTES, block_of, block_start};
use crate::cage::Cage;
use crate::error::HeapError;
use crate::geometry::{BLOCK_TABLE_BELOW, CAGE_BLOCKS, CARD_TABLE_BELOW};
use std::ops::Range;

/// Binary logarithm of a card's bytes.
pub(crate) const CARD_LOG2: u8 = 9;
/// Bytes of a card.
pub(crate) const CARD_BYTES: u32 = 1 << CARD_LOG2;
const CARDS_PER_BLOCK: u32 = BLOCK_BYTES >> CARD_LOG2;
/// Blocks of the cage, and bytes of the table of blocks.
const BLOCKS: u32 = CAGE_BLOCKS;
/// Of a block: compiled code marks cards of what lies in it.
const HAS_MARKABLE: u8 = 1;
/// Of a block: the heap has marked a card of it since they were last looked at.
const WAS_MARKED: u8 = 2;
/// Blocks, and cards, looked at in one step.
const GROUP: u32 = size_of::<u64>() as u32;

impl Cage {
    /// Makes the card table accessible, and that of blocks. Pages take memory once they are written.
    ///
    /// # Errors
    /// [`HeapError::System`] where the system refuses.
    pub(crate) fn commit_cards(&self) -> Result<(), HeapError> {
        self.commit_below(BLOCK_TABLE_BELOW as usize, BLOCKS as usize)?;
        self.commit_below(CARD_TABLE_BELOW as usize, (self.bytes() >> CARD_LOG2) as usize)
    }

    /// The card of an offset.
    #[inline(always)]
    fn card(&self, offset: u32) -> *mut u8 {
        self.base().wrapping_sub(CARD_TABLE_BELOW as usize).wrapping_add((offset >> CARD_LOG2) as usize)
    }

    /// What is known of a block's cards.
    #[inline(always)]
    fn cards_of(&self, block: u32) -> *mut u8 {
        self.base().wrapping_sub(BLOCK_TABLE_BELOW as usize).wrapping_add(block as usize)
    }

    /// Whether the card of an offset is dirty, and will be found. The tables are accessible.
    #[inline]
    pub(crate) fn is_dirty(&self, offset: u32) -> bool {
        // SAFETY: every offset of the cage has a card, and every block an entry.
        unsafe { self.card(offset).read() != 0 && self.cards_of(block_of(offset)).read() != 0 }
    }

    /// Marks the card of an offset. The tables are accessible.
    #[inline]
    pub(crate) fn mark_card(&self, offset: u32) {
        // SAFETY: every offset of the cage has a card, and every block an entry.
        unsafe {
            self.card(offset).write(1);
            *self.cards_of(block_of(offset)) |= WAS_MARKED;
        }
    }

    /// Marks the cards that `[start, start + bytes)` lies in. The tables are accessible.
    pub(crate) fn mark_cards(&self, start: u32, bytes: u32) {
        if bytes > 0 {
            let last = start + bytes - 1;
            let count = (last >> CARD_LOG2) - (start >> CARD_LOG2) + 1;
            // SAFETY: every offset of the cage has a card, every block an entry, and an object ends below the cage's
            // end.
            unsafe {
                std::ptr::write_bytes(self.card(start), 1, count as usize);
                (block_of(start)..=block_of(last)).for_each(|block| *self.cards_of(block) |= WAS_MARKED);
            }
        }
    }

    /// Notes that something lies in `count` blocks whose cards compiled code marks. The tables are accessible.
    #[inline(always)]
    pub(crate) fn note_markable(&self, block: u32, count: u32) {
        // SAFETY: every block of the cage has an entry.
        (block..block + count).for_each(|block| unsafe { *self.cards_of(block) |= HAS_MARKABLE });
    }

    /// Cleans the cards of `count` blocks that hold nothing. The tables are accessible.
    pub(crate) fn clean_cards(&self, block: u32, count: u32) {
        let card = self.card(block_start(block));
        // SAFETY: every block of the cage has cards, and an entry.
        unsafe {
            std::ptr::write_bytes(card, 0, (count * CARDS_PER_BLOCK) as usize);
            std::ptr::write_bytes(self.cards_of(block), 0, count as usize);
        }
    }

    /// Calls `found` with the offset of each dirty card of `blocks`, in their order. They are clean afterwards. The
    /// tables are accessible.
    pub(crate) fn take_cards(&self, blocks: Range<u32>, mut found: impl FnMut(u32)) {
        for first in (blocks.start / GROUP * GROUP..blocks.end).step_by(GROUP as usize) {
            // SAFETY: the table's distance from the base and its length are multiples of a group.
            let group = unsafe { self.cards_of(first).cast::<[u8; GROUP as usize]>().read() };
            if u64::from_ne_bytes(group) == 0 {
                continue;
            }
            for (block, entry) in (first..).zip(group) {
                if entry != 0 && blocks.contains(&block) {
                    // SAFETY: every block of the cage has an entry.
                    unsafe { self.cards_of(block).write(entry & !WAS_MARKED) };
                    self.take_cards_of(block, &mut found);
                }
            }
        }
    }

    /// The same, of one block.
    #[inline(always)]
    fn take_cards_of(&self, block: u32, found: &mut impl FnMut(u32)) {
        const GROUPS: usize = (CARDS_PER_BLOCK / GROUP) as usize;
        let cards = self.card(block_start(block)).cast::<[u64; GROUPS]>();
        // SAFETY: every block of the cage has cards, whose place is a multiple of their number.
        let groups = unsafe { cards.read() };
        if groups.iter().fold(0, |any, group| any | group) == 0 {
            return;
        }
        // SAFETY: as they have been read.
        unsafe { cards.write([0; GROUPS]) };
        let cards = groups.iter().flat_map(|group| group.to_ne_bytes());
        let offsets = (block_start(block)..).step_by(CARD_BYTES as usize);
        offsets.zip(cards).filter(|&(_, card)| card != 0).for_each(|(offset, _)| found(offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cage::Extent;

    #[test]
    fn dirty_cards_are_found_once() {
        let cage = Cage::new(Extent::WHOLE).unwrap();
        cage.commit_cards().unwrap();
        let start = block_start(9);
        cage.mark_cards(start + 511, 2);
        cage.mark_cards(start + 4096, 0);
        cage.mark_card(start + 2 * BLOCK_BYTES - 1);
        cage.mark_card(u32::MAX);
        assert!(cage.is_dirty(start) && cage.is_dirty(start + 1023) && !cage.is_dirty(start + 1024));
        let collect = |blocks| {
            let mut cards = Vec::new();
            cage.take_cards(blocks, |card| cards.push(card - start));
            cards
        };
        assert!(collect(3..9).is_empty() && collect(11..BLOCKS - 1).is_empty());
        assert_eq!(collect(3..11), [0, 512, 2 * BLOCK_BYTES - 512]);
        assert!(collect(3..11).is_empty());
        cage.mark_cards(start + BLOCK_BYTES - 1, 2);
        cage.clean_cards(9, 1);
        assert_eq!(collect(3..11), [BLOCK_BYTES]);
    }

    #[test]
    fn cards_that_compiled_code_marks_are_found_where_it_does() {
        let cage = Cage::new(Extent::WHOLE).unwrap();
        cage.commit_cards().unwrap();
        let (start, mut cards) = (block_start(17), Vec::new());
        let mark = || {
            for offset in [start, start + BLOCK_BYTES, start + 2 * BLOCK_BYTES + CARD_BYTES] {
                // SAFETY: every offset has a card.
                unsafe { cage.card(offset).write(1) };
            }
        };
        mark();
        cage.take_cards(0..100, |card| cards.push(card));
        assert!(cards.is_empty() && !cage.is_dirty(start), "nothing lies there whose cards are marked");
        cage.note_markable(18, 2);
        assert!(!cage.is_dirty(start) && cage.is_dirty(start + BLOCK_BYTES));
        for _ in 0..2 {
            mark();
            cage.take_cards(0..100, |card| cards.push(card - start));
            assert_eq!(std::mem::take(&mut cards), [BLOCK_BYTES, 2 * BLOCK_BYTES + CARD_BYTES]);
        }
        // The next object that lies there is none of these.
        cage.clean_cards(18, 2);
        mark();
        cage.take_cards(0..100, |card| cards.push(card));
        assert!(cards.is_empty());
    }
}
