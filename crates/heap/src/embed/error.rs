//! What an embedder can be wrong about, or lack.

use crate::error::{AllocationError, HeapError};

/// Why something was not done. The heap stays as it was, and usable.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The heap, or a type, cannot be made.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// Memory is exhausted, or the object too large.
    #[error(transparent)]
    Allocation(#[from] AllocationError),
    /// The reference is null, where an object is needed.
    #[error("null is no object")]
    Null,
    /// The object is of another type.
    #[error("this is {found}, and no {expected}")]
    WrongType {
        /// What is needed.
        expected: String,
        /// What it is.
        found: String,
    },
    /// The type has no such field, or there are two.
    #[error("{ty} has {what} field {field}")]
    Field {
        /// The type.
        ty: String,
        /// "no", or "more than one".
        what: &'static str,
        /// Its name or its number.
        field: String,
    },
    /// The field or the elements hold something else.
    #[error("{of} holds {found}, not {expected}")]
    Kind {
        /// Which field, or the elements of which array.
        of: String,
        /// What it was taken for.
        expected: &'static str,
        /// What it holds.
        found: &'static str,
    },
    /// The array has fewer elements.
    #[error("no element {index} in an array of {length}")]
    Index {
        /// The last element that was asked for.
        index: u64,
        /// How many there are.
        length: u32,
    },
    /// The handle, field or type belongs to another heap.
    #[error("a {0} of another heap")]
    OtherHeap(&'static str),
}
