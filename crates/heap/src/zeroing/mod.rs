//! Axis `zeroing`: who zeroes the nursery's memory, when, and with which stores (Why Nothing Matters, sections 5 and
//! 6).
//!
//! A `Zeroer` belongs to one heap. After each nursery collection it is told which dirty blocks the allocator will take
//! and in which order; the allocator waits for each block before it takes it; a collection stops it first. What waits
//! depends on the strategy: the mutator zeroes the block itself (`bulk`, `non-temporal`), or a helper thread has done
//! so already (`concurrent`). `hot-path` leaves blocks as they are: compiled code zeroes objects.
//!
//! # Catching up with the helper
//!
//! The paper's allocator waits for the zeroing thread's cursor (section 6.2). Here it zeroes the next unit itself where
//! the helper has not claimed it, and waits only for a unit that the helper has in hand. So the mutator loses no time
//! to a helper that is still waking up or that the system has not given a processor, and its wait is bounded by one
//! unit. The order in which memory is zeroed stays the same. How the two sides agree is described, and model-checked,
//! in `handover`.
//!
//! # Bytes that are written twice
//!
//! Zeroing is redundant for a byte that the program writes before anyone reads it. Compiled code knows such bytes in
//! one case: an object that its own construction fills (`struct.new`, `array.new`, `array.new_fixed`, `array.new_data`,
//! `array.new_elem`). The paper leaves this optimisation out, having measured 0.4 % in HotSpot (sections 2 and 5.3).
//!
//! | strategy | zeroed, then written by construction | zeroed in vain |
//! |---|---|---|
//! | `hot-path` (5.1) | nothing: only objects with default values are zeroed, and there each byte of the fields once | nothing |
//! | `bulk` (5.2), `non-temporal` (6.1), `concurrent` (6.2), `adaptive` (6.3) | all bytes of objects that their construction fills, and every object's header | what a block has left at its end, and (`concurrent`) blocks that are still untaken when the cycle ends, if the next one counts them as dirty |
//!
//! A block is zeroed before anyone knows what will be allocated in it, so the second row cannot be avoided there, short
//! of allocating filled objects in blocks of their own. What all strategies avoid:
//!
//! * Memory fresh from the operating system is zero already: such blocks are not among a cycle's ranges.
//! * Objects that a collection copies, into the mature space or within the nursery, are overwritten whole, and their
//!   destination is never zeroed (section 3.1).
//! * Large objects are outside of the nursery and of this axis.

mod handover;
#[cfg(test)]
mod model;
mod stores;
#[cfg(test)]
mod tests;
mod zeroer;

use crate::threads::sync;
pub use stores::Stores;
pub(crate) use zeroer::{ZeroRange, Zeroer, ZeroingTimes};

crate::values::values! {
    /// The values of the axis.
    #[derive(Eq, Hash)]
    pub enum Zeroing {
        /// In the allocation sequence, each object by itself, and only those that are not written whole by their
        /// construction.
        HotPath = "hot-path",
        /// A block at a time with ordinary stores, when the allocator takes it.
        Bulk = "bulk",
        /// A block at a time with streaming stores and a fence, when the allocator takes it.
        NonTemporal(NonTemporalParams) = "non-temporal",
        /// By a helper thread that runs ahead of the allocator with streaming stores after each nursery collection.
        /// What the allocator comes to first, the mutator zeroes.
        Concurrent(ConcurrentParams) = "concurrent",
        /// `Concurrent` while there are idle hardware contexts, else `NonTemporal`: chosen after each nursery
        /// collection.
        Adaptive(ConcurrentParams) = "adaptive",
    }
}

crate::values::params! {
    /// Parameters of `non-temporal`.
    #[derive(Eq, Hash)]
    pub struct NonTemporalParams {
        /// Bytes of one streaming store: 8, 16 or 32. Wider ones than the processor has are narrowed.
        pub stream_bytes: u32 = 16,
    }
}

crate::values::params! {
    /// Parameters of `concurrent` and `adaptive`.
    #[derive(Eq, Hash)]
    pub struct ConcurrentParams {
        /// Bytes that the helper zeroes at a time: a power of two from 4 KiB to 32 KiB (a block of the heap).
        pub unit_bytes: u32 = 32 << 10,
        /// Bytes of one streaming store: 8, 16 or 32. Wider ones than the processor has are narrowed.
        pub stream_bytes: u32 = 16,
    }
}
