//! Mark bits: one for each 8 bytes of the cage up to the highest block taken, beside the objects so that marking and
//! sweeping write to no object. An object is marked by the bit of its first byte.

use crate::budget::{Budget, Done};
use crate::geometry::BLOCK_BYTES;

/// Words of mark bits for each block.
const WORDS: usize = BLOCK_BYTES as usize / 8 / 64;

/// Words cleared at a time, and what that counts.
const CLEARED: usize = 4096;
const CLEARED_UNITS: u64 = 32;

/// The bits. Grows with the block pool.
#[derive(Debug, Default)]
pub(crate) struct MarkBits {
    words: Vec<u64>,
}

impl MarkBits {
    /// Covers blocks `0..blocks`; new bits are clear.
    pub(crate) fn cover(&mut self, blocks: u32) {
        let words = blocks as usize * WORDS;
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
    }

    /// Clears every bit from word `cursor` on, which moves on; 0 at first.
    pub(crate) fn clear(&mut self, cursor: &mut usize, budget: &mut Budget) -> Done {
        while *cursor < self.words.len() {
            if budget.is_exhausted() {
                return Done::No;
            }
            let end = self.words.len().min(*cursor + CLEARED);
            self.words[*cursor..end].fill(0);
            *cursor = end;
            budget.spend(CLEARED_UNITS);
        }
        Done::Yes
    }

    /// Sets the bits of all cells of `bytes` from `start` to `end`.
    pub(crate) fn set_cells(&mut self, start: u32, end: u32, bytes: u32) {
        (start..end).step_by(bytes as usize).for_each(|cell| {
            self.set(cell);
        });
    }

    /// Clears the bits of all that starts in `[start, end)`.
    pub(crate) fn clear_cells(&mut self, start: u32, end: u32) {
        for offset in (start..end).step_by(8) {
            self.words[(offset >> 9) as usize] &= !(1 << (offset >> 3 & 63));
        }
    }

    /// Clears a block's bits.
    pub(crate) fn clear_block(&mut self, block: u32) {
        let start = block as usize * WORDS;
        self.words[start..start + WORDS].fill(0);
    }

    /// Sets an object's bit; returns whether it was clear.
    #[inline(always)]
    pub(crate) fn set(&mut self, object: u32) -> bool {
        let word = &mut self.words[(object >> 9) as usize];
        let bit = 1u64 << (object >> 3 & 63);
        let clear = *word & bit == 0;
        *word |= bit;
        clear
    }

    /// Has the word with an object's bit fetched. Any offset is allowed.
    #[inline(always)]
    pub(crate) fn prefetch(&self, object: u32) {
        crate::arch::prefetch(self.words.as_ptr().wrapping_add((object >> 9) as usize).cast());
    }

    /// An object's bit.
    #[inline(always)]
    pub(crate) fn get(&self, object: u32) -> bool {
        self.words[(object >> 9) as usize] >> (object >> 3 & 63) & 1 == 1
    }

    /// The bits of the 512 bytes that `offset` lies in, those of the lowest address lowest.
    #[inline(always)]
    pub(crate) fn of_card(&self, offset: u32) -> u64 {
        self.words[(offset >> 9) as usize]
    }

    /// How many bits of a block are set.
    pub(crate) fn count(&self, block: u32) -> u32 {
        let start = block as usize * WORDS;
        self.words[start..start + WORDS].iter().map(|word| word.count_ones()).sum()
    }
}
