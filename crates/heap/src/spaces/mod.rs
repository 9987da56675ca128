//! The spaces that objects live in. Each takes blocks from the pool and returns them.

pub(crate) mod candidates;
pub(crate) mod handles;
pub(crate) mod immortal;
pub(crate) mod large;
pub(crate) mod leaves;
pub(crate) mod mapped;
pub(crate) mod nursery;
pub(crate) mod run_queues;
pub(crate) mod small;

use std::ops::AddAssign;

/// What a new object's fields and elements hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Contents {
    /// Zeros.
    Zeroed,
    /// Whatever the memory held: the caller writes all of it before the next safepoint.
    Unwritten,
    /// Whatever the memory held, most of which is not going to be touched soon: a spine with reserved space.
    Reserved,
}

/// What a collection has found in a space.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Survivors {
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
}

impl AddAssign for Survivors {
    fn add_assign(&mut self, other: Survivors) {
        self.objects += other.objects;
        self.bytes += other.bytes;
    }
}

/// A sweep through the blocks of a space, under way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sweep {
    /// The block to go on at; where the sweep goes downwards, the one above it.
    block: u32,
    /// What has been found so far.
    pub(crate) survivors: Survivors,
}
