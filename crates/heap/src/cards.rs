//! The card table: one byte for each 512 bytes of the cage, in the guard below the cage, so that compiled code marks a
//! card with a shift and one store at a constant distance from the cage's base. 1 is dirty, 0 clean.
//!
//! A store of a reference marks the card of the object's header (structs) or of the element (arrays of references). A
//! dirty card therefore stands for the structs that start in it, whole, and for the elements inside of it. Cards of
//! young memory mean nothing; a block's cards are cleared when it is taken from the pool.

use crate::blocks::{BLOCK_BYTES, block_start};
use crate::cage::{CAGE_BYTES, Cage};
use crate::error::HeapError;

/// Binary logarithm of a card's bytes.
pub(crate) const CARD_LOG2: u8 = 9;
/// Distance in bytes from the table's first byte up to the cage's base.
pub(crate) const CARD_TABLE_BELOW: u32 = 16 << 20;
/// Bytes of a card.
pub(crate) const CARD_BYTES: u32 = 1 << CARD_LOG2;
/// Cards looked at in one step.
const GROUP: usize = 8;
/// Bytes that a group of cards stands for.
pub(crate) const GROUP_BYTES: u32 = GROUP as u32 * CARD_BYTES;
const CARDS_PER_BLOCK: u32 = BLOCK_BYTES >> CARD_LOG2;

impl Cage {
    /// Makes the card table accessible. Its pages take memory once they are written.
    ///
    /// # Errors
    /// [`HeapError::System`] where the system refuses.
    pub(crate) fn commit_cards(&self) -> Result<(), HeapError> {
        self.commit_below(CARD_TABLE_BELOW as usize, (CAGE_BYTES >> CARD_LOG2) as usize)
    }

    /// The card of an offset.
    #[inline(always)]
    fn card(&self, offset: u32) -> *mut u8 {
        self.base().wrapping_sub(CARD_TABLE_BELOW as usize).wrapping_add((offset >> CARD_LOG2) as usize)
    }

    /// Whether the card of an offset is dirty. The table is accessible.
    #[inline]
    pub(crate) fn is_dirty(&self, offset: u32) -> bool {
        // SAFETY: every offset of the cage has a card.
        unsafe { self.card(offset).read() != 0 }
    }

    /// Marks the card of an offset. The table is accessible.
    #[inline]
    pub(crate) fn mark_card(&self, offset: u32) {
        // SAFETY: every offset of the cage has a card.
        unsafe { self.card(offset).write(1) }
    }

    /// Marks the cards that `[start, start + bytes)` lies in. The table is accessible.
    pub(crate) fn mark_cards(&self, start: u32, bytes: u32) {
        if bytes > 0 {
            let count = ((start + bytes - 1) >> CARD_LOG2) - (start >> CARD_LOG2) + 1;
            // SAFETY: every offset of the cage has a card, and an object ends below the cage's end.
            unsafe { std::ptr::write_bytes(self.card(start), 1, count as usize) };
        }
    }

    /// Cleans the cards of `count` blocks. The table is accessible.
    pub(crate) fn clean_cards(&self, block: u32, count: u32) {
        let card = self.card(block_start(block));
        // SAFETY: every block of the cage has cards.
        unsafe { std::ptr::write_bytes(card, 0, (count * CARDS_PER_BLOCK) as usize) };
    }

    /// The group of cards that begins at `offset`, a multiple of [`GROUP_BYTES`], which are clean afterwards: an entry
    /// is 0 where the card was clean. The table is accessible.
    #[inline(always)]
    pub(crate) fn take_cards(&self, offset: u32) -> [u8; GROUP] {
        debug_assert!(offset.is_multiple_of(GROUP_BYTES));
        let group = self.card(offset).cast::<[u8; GROUP]>();
        // SAFETY: every offset of the cage has a card, and groups divide the table.
        unsafe {
            let cards = group.read();
            if u64::from_ne_bytes(cards) != 0 {
                group.write([0; GROUP]);
            }
            cards
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dirty_cards_are_found_once() {
        let cage = Cage::new().unwrap();
        cage.commit_cards().unwrap();
        let start = block_start(9);
        cage.mark_cards(start + 511, 2);
        cage.mark_cards(start + 4096, 0);
        cage.mark_card(start + 2 * BLOCK_BYTES - 1);
        cage.mark_card(u32::MAX);
        assert!(cage.is_dirty(start) && cage.is_dirty(start + 1023) && !cage.is_dirty(start + 1024));
        let collect = || {
            let groups = (start..start + 2 * BLOCK_BYTES).step_by(GROUP_BYTES as usize);
            let cards: Vec<_> = groups.flat_map(|group| cage.take_cards(group)).collect();
            (0..).zip(cards).filter(|(_, card)| *card != 0).map(|(index, _)| index * CARD_BYTES).collect::<Vec<u32>>()
        };
        assert_eq!(collect(), [0, 512, 2 * BLOCK_BYTES - 512]);
        assert!(collect().is_empty());
        cage.mark_cards(start, BLOCK_BYTES);
        cage.clean_cards(9, 1);
        assert!(collect().is_empty());
    }
}
