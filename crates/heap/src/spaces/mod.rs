//! The spaces that objects live in. Each takes blocks from the pool and returns them.

pub(crate) mod immortal;
pub(crate) mod large;
pub(crate) mod leaves;
pub(crate) mod mapped;
pub(crate) mod nursery;
pub(crate) mod small;
