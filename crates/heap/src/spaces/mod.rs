//! The spaces that objects live in. Each takes blocks from the pool and returns them.

pub(crate) mod immortal;
pub(crate) mod large;
pub(crate) mod leaves;
pub(crate) mod mapped;
pub(crate) mod nursery;
pub(crate) mod small;

/// What a new object's fields and elements hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Contents {
    /// Zeros.
    Zeroed,
    /// Whatever the memory held: the caller writes all of it before the next safepoint.
    Unwritten,
    /// Whatever the memory held, most of which is not going to be touched soon: a spine with room.
    Room,
}

/// What a collection has found in a space.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Survivors {
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
}
