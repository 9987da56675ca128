//! What can go wrong, in sentences for the user.

use crate::geometry::BLOCK_BYTES;
use crate::layout::MOST_ELEMENTS;

/// Why a heap or a type cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum HeapError {
    /// The configuration is contradictory or out of range; the sentence says what and why.
    #[error("invalid heap configuration: {0}")]
    InvalidConfig(String),
    /// The operating system refused address space or memory.
    #[error("cannot {action} {bytes} bytes of {purpose}: {cause}")]
    System {
        /// What was tried, such as "reserve" or "commit".
        action: &'static str,
        /// How much.
        bytes: usize,
        /// What for.
        purpose: &'static str,
        /// The system's own error; the sentence has it, so it is no `source` of this one.
        cause: std::io::Error,
    },
    /// The operating system refused a heap's address space.
    #[error(
        "cannot reserve {bytes} bytes of address space for a heap ({cause}): a limit on it may be set (ulimit -v), or \
         other heaps have it; a heap with max={most_fitted}G or less, and arrays in one piece, reserves little more \
         than twice its max, or four times a smaller one"
    )]
    AddressSpace {
        /// How much.
        bytes: usize,
        /// The largest maximum in GiB for which less is reserved.
        most_fitted: u64,
        /// The system's own error; the sentence has it, so it is no `source` of this one.
        cause: std::io::Error,
    },
    /// A type's description is wrong; the sentence says how.
    #[error("invalid type: {0}")]
    InvalidType(String),
    /// The type table's reservation is used up.
    #[error(
        "the type table is full: {0} types are registered, and stay until they are released; register equal types \
         once, or make another table for other heaps (under a limit on address space, ulimit -v, it has a sixteenth of \
         that)"
    )]
    TypeTableFull(usize),
}

impl HeapError {
    /// A configuration that is wrong as the sentence says.
    pub(crate) fn invalid(sentence: String) -> HeapError {
        HeapError::InvalidConfig(sentence)
    }
}

/// Why an allocation failed. The heap stays consistent and usable after either.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AllocationError {
    /// Memory is exhausted, and a full collection did not help.
    #[error(
        "out of memory: {requested} bytes do not fit a heap of at most {maximum} bytes, of which {live} bytes are live{}",
        divided(*requested, *live, *maximum)
    )]
    OutOfMemory {
        /// Bytes of the object that was to be allocated.
        requested: u64,
        /// Bytes that the last collection found live, and those allocated since.
        live: u64,
        /// The configured maximum in bytes.
        maximum: u64,
    },
    /// The object could not fit even an empty heap.
    #[error("object too large: {bytes} bytes can never fit a heap of at most {maximum} bytes")]
    TooLarge {
        /// Bytes of the object; of a divided array, of its leaves where these alone do not fit.
        bytes: u64,
        /// The most bytes that it could have: whole blocks of the configured maximum, less what is set aside for leaves
        /// that stores need.
        maximum: u64,
    },
    /// The array has more elements than any may have, however large the heap. Languages whose lengths have a sign ask
    /// for so many where it is negative.
    #[error(
        "array too long: {length} elements are more than the {MOST_ELEMENTS} that an array can have \
        (as a number with a sign, {})",
        *length as i32
    )]
    TooLong {
        /// Its elements.
        length: u32,
    },
}

/// Why an object does not fit although there are enough free bytes beside what is live.
fn divided(requested: u64, live: u64, maximum: u64) -> &'static str {
    if requested + live > maximum - maximum / 16 {
        ""
    } else if requested < u64::from(BLOCK_BYTES) {
        " in blocks that each hold objects of one size"
    } else {
        " and lie among what is free"
    }
}

#[cfg(test)]
mod tests {
    use super::AllocationError;

    #[test]
    fn what_does_not_fit_says_what_is_live_and_where() {
        let text = |requested, live| AllocationError::OutOfMemory { requested, live, maximum: 256 << 10 }.to_string();
        let all = "out of memory: 24 bytes do not fit a heap of at most 262144 bytes, of which 262000 bytes are live";
        assert_eq!(text(24, 262_000), all);
        assert!(text(24, 20_000).ends_with("20000 bytes are live in blocks that each hold objects of one size"));
        assert!(text(100_000, 100_000).ends_with("100000 bytes are live and lie among what is free"));
        assert!(text(200_000, 100_000).ends_with("100000 bytes are live"));
    }
}
