//! What a block's age means to a nursery collection: one byte for each block of the cage, so that one load tells for
//! any slot.
//!
//! The table lies in the guard below the cage, below the card table: the store barrier looks the age of the value up
//! with a shift and one load at a constant distance from the cage's base, and does nothing for an old one. Without
//! that, a program that relinks old objects would fill the remembered set with references that no nursery collection
//! needs.

use crate::blocks::block_of;
use crate::cage::Cage;
use crate::error::HeapError;
use crate::geometry::{AGE_TABLE_BELOW, CAGE_BLOCKS};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering, fence};

/// Blocks of the cage, and bytes of the table.
const BLOCKS: usize = CAGE_BLOCKS as usize;

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
pub(crate) struct Ages(NonNull<[AtomicU8; BLOCKS]>);

// SAFETY: the table is made for sharing; it is written by way of one value alone, the nursery's.
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

    /// The same table, to be read by another thread. What that finds for the block of a reference that it has read is
    /// at least as new as the reference, where stores are seen in their order (x86-64).
    pub(crate) fn to_be_read(&self) -> Ages {
        Ages(self.0)
    }

    fn table(&self) -> &[AtomicU8; BLOCKS] {
        // SAFETY: the table is committed; every byte is 0 at first.
        unsafe { self.0.as_ref() }
    }

    /// The age of the block that any offset lies in.
    #[inline(always)]
    pub(crate) fn of(&self, offset: u32) -> Age {
        self.of_block(block_of(offset))
    }

    /// The age of a block.
    #[inline(always)]
    pub(crate) fn of_block(&self, block: u32) -> Age {
        let age = self.table()[block as usize].load(Ordering::Relaxed);
        // SAFETY: the table holds ages alone: 0 at first, and what `set` stores.
        unsafe { std::mem::transmute::<u8, Age>(age) }
    }

    /// Sets the age of a block. Who finds a reference that is stored afterwards finds the age, too.
    #[inline(always)]
    pub(crate) fn set(&mut self, block: u32, age: Age) {
        self.table()[block as usize].store(age as u8, Ordering::Relaxed);
        fence(Ordering::Release);
    }
}
