//! What a block's age means to a nursery collection: one byte for each block of the cage, so that one load tells for
//! any slot.
//!
//! The table lies in the guard below the cage, below the card table: the store barrier looks the age of the value up
//! with a shift and one load at a constant distance from the cage's base, and does nothing for an old one. Without
//! that, a program that relinks old objects would fill the remembered set with references that no nursery collection
//! needs.

use crate::blocks::{BLOCK_BYTES, block_of};
use crate::cage::{CAGE_BYTES, Cage};
use crate::cards::CARD_TABLE_BELOW;
use crate::error::HeapError;
use std::ptr::NonNull;

/// Blocks of the cage, and bytes of the table.
const BLOCKS: usize = (CAGE_BYTES / BLOCK_BYTES as u64) as usize;
/// Distance in bytes from the table's first byte up to the cage's base.
pub(crate) const AGE_TABLE_BELOW: u32 = CARD_TABLE_BELOW + BLOCKS as u32;

/// The age of a block's objects.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Age {
    /// Old, or no objects at all. The store barrier knows it as 0.
    Old = 0,
    /// Young; survivors are copied.
    Young,
    /// Young; survivors stay where they are, marked, and stay young.
    Kept,
    /// A large object that is young: it stays where it is, marked, and becomes old.
    YoungLarge,
}

/// The ages of all blocks. Not to be used once the cage is gone.
#[derive(Debug)]
pub(crate) struct Ages(NonNull<[Age; BLOCKS]>);

// SAFETY: the table belongs to this value alone, but for the mutator's reads; the heap has one mutator, which stands
// while the heap runs.
unsafe impl Send for Ages {}

impl Ages {
    /// All old.
    ///
    /// # Errors
    /// [`HeapError::System`] where the system refuses memory.
    pub(crate) fn new(cage: &Cage) -> Result<Ages, HeapError> {
        cage.commit_below(AGE_TABLE_BELOW as usize, BLOCKS)?;
        let table = cage.base().wrapping_sub(AGE_TABLE_BELOW as usize);
        Ok(Ages(NonNull::new(table.cast()).expect("the guard is mapped")))
    }

    fn table(&self) -> &[Age; BLOCKS] {
        // SAFETY: the table is committed; every byte is 0 at first, and set to an age alone.
        unsafe { self.0.as_ref() }
    }

    /// The age of the block that any offset lies in.
    #[inline(always)]
    pub(crate) fn of(&self, offset: u32) -> Age {
        self.table()[block_of(offset) as usize]
    }

    /// The age of a block.
    #[inline(always)]
    pub(crate) fn of_block(&self, block: u32) -> Age {
        self.table()[block as usize]
    }

    /// Sets the age of a block.
    #[inline(always)]
    pub(crate) fn set(&mut self, block: u32, age: Age) {
        // SAFETY: as for `table`; nobody else holds a reference into it.
        unsafe { self.0.as_mut()[block as usize] = age }
    }
}
