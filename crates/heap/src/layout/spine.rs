//! Where the parts of a discontiguous array lie (Z-Rays, sections 4.1 and 4.3).
//!
//! An array whose elements take at most *first-N* bytes lies in one piece. A longer one is a *spine*: header, length,
//! the first N bytes of elements, then one pointer for each *leaf* (the paper's arraylet) of a fixed size, then the
//! *remainder*, the last elements that fill no leaf. The remainder has a pointer too, so that no access past the first
//! N bytes needs to know of it.
//!
//! ```text
//! | header 8 | length 4 | (4) | first N bytes | pointers, 4 each | (4) | remainder |
//! ```
//!
//! A pointer is a cage offset. That of the remainder leads into the spine itself and follows it when it moves. The
//! lowest bit of a pointer is its *taint*: the leaf must not be written through it.
//!
//! Where the first N *grow*, a spine has space for all of its elements behind the first N bytes, address space first of
//! all: each leaf has its offset there, so that the elements in one piece can become more. Such spines are large
//! objects, and never move; smaller arrays lie in one piece. Every array then says in its header how many elements lie
//! in one piece ([`INLINE_LENGTH_OFFSET`](super::INLINE_LENGTH_OFFSET)). There is no remainder: the last leaf there has
//! the size of a leaf too.
//!
//! ```text
//! | header 8 | length 4 | (4) | first N bytes | space for all leaves | pointers, 4 each |
//! ```

use super::{OBJECT_ALIGNMENT, array_object_bytes, elements_offset};
use crate::size_classes::MAX_SMALL_BYTES;
use serde::{Deserialize, Serialize};

/// Bytes of a leaf pointer.
pub const POINTER_BYTES: u32 = 4;
/// The bit of a pointer that says that the leaf must not be written through it: it is shared, or the zero leaf.
pub const TAINT: u32 = 1;

/// How arrays are divided.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct SpineLayout {
    /// Bytes of elements that lie in the spine before its pointers: 0, or a power of two of at least 64.
    pub first_n: u32,
    /// Binary logarithm of a leaf's bytes.
    pub leaf_log2: u8,
    /// Whether what lies behind the first N bytes is all in leaves, the last elements in one of their own, if it fills
    /// one (A Guide to Double Map Arraylets, "Double Mapping"): so that it is either that, or the remainder.
    pub all_in_leaves: bool,
    /// Whether the first N bytes grow: spines have space for all elements, and headers hold inline lengths. Then
    /// nothing is a remainder.
    pub grows: bool,
}

/// The parts of one spine. Offsets in bytes from the object's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spine {
    /// Offset of the first element.
    pub elements: u32,
    /// Offset of the first pointer.
    pub pointers: u32,
    /// How many pointers lead to leaves.
    pub leaves: u32,
    /// Offset of the remainder.
    pub remainder: u32,
    /// Bytes of the remainder; 0 where there is none, and no pointer for it.
    pub remainder_bytes: u32,
    /// Size of the spine, a multiple of [`OBJECT_ALIGNMENT`].
    pub bytes: u64,
}

impl SpineLayout {
    /// Bytes of a leaf.
    pub const fn leaf_bytes(self) -> u32 {
        1 << self.leaf_log2
    }

    /// Whether an array is divided.
    #[inline(always)]
    pub const fn divides(self, element_bytes: u32, length: u32) -> bool {
        let is_long = element_bytes as u64 * length as u64 > self.first_n as u64;
        is_long && (!self.grows || array_object_bytes(element_bytes, length) > MAX_SMALL_BYTES as u64)
    }

    /// The parts of an array that is divided. It may be larger than the cage where `bytes` says so.
    #[inline]
    pub const fn spine(self, element_bytes: u32, length: u32) -> Spine {
        let behind = element_bytes as u64 * length as u64 - self.first_n as u64;
        let mask = self.leaf_bytes() as u64 - 1;
        let (leaves, rest) = match self.all_in_leaves && behind > mask || self.grows {
            true => ((behind + mask) >> self.leaf_log2, 0),
            false => (behind >> self.leaf_log2, behind & mask),
        };
        let elements = elements_offset(element_bytes);
        let inline = if self.grows { leaves << self.leaf_log2 } else { 0 };
        let pointers = elements as u64 + self.first_n as u64 + inline;
        let end = pointers + POINTER_BYTES as u64 * (leaves + (rest > 0) as u64);
        let remainder = end.next_multiple_of(OBJECT_ALIGNMENT as u64);
        Spine {
            elements,
            pointers: pointers as u32,
            leaves: leaves as u32,
            remainder: remainder as u32,
            remainder_bytes: rest as u32,
            bytes: (remainder + rest).next_multiple_of(OBJECT_ALIGNMENT as u64),
        }
    }

    /// Size of the object that stands for an array: the spine, or the whole array where it is not divided.
    #[inline(always)]
    pub const fn object_bytes(self, element_bytes: u32, length: u32) -> u64 {
        match self.divides(element_bytes, length) {
            true => self.spine(element_bytes, length).bytes,
            false => array_object_bytes(element_bytes, length),
        }
    }
}

impl Spine {
    /// How many pointers there are, that of the remainder included.
    pub const fn pointer_count(self) -> u32 {
        self.leaves + (self.remainder_bytes > 0) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZRAY: SpineLayout = SpineLayout { first_n: 64, leaf_log2: 8, all_in_leaves: false, grows: false };

    #[test]
    fn short_arrays_are_whole() {
        assert!(!ZRAY.divides(4, 16) && ZRAY.divides(4, 17) && !ZRAY.divides(16, 0));
        assert_eq!(ZRAY.object_bytes(4, 16), array_object_bytes(4, 16));
        let naive = SpineLayout { first_n: 0, ..ZRAY };
        assert!(!naive.divides(8, 0) && naive.divides(1, 1));
    }

    #[test]
    fn every_byte_has_one_place() {
        for first_n in [0, 64, 4096] {
            for all_in_leaves in [false, true] {
                let layout = SpineLayout { first_n, all_in_leaves, ..ZRAY };
                for element in [1, 2, 4, 8, 16] {
                    for behind in [element, 256 - element, 256, 256 + element, 5 * 256, 5 * 256 + 128] {
                        let length = (first_n + behind) / element;
                        let spine = layout.spine(element, length);
                        let held = spine.leaves * 256 + spine.remainder_bytes;
                        let in_leaves = all_in_leaves && behind >= 256;
                        assert_eq!(held, if in_leaves { behind.next_multiple_of(256) } else { behind });
                        assert!(spine.remainder_bytes == 0 || spine.remainder_bytes < 256 && !in_leaves);
                        assert_eq!(spine.pointers, spine.elements + first_n);
                        assert!(spine.remainder >= spine.pointers + 4 * spine.pointer_count());
                        assert!(spine.remainder.is_multiple_of(8) && spine.bytes.is_multiple_of(8));
                        assert!(spine.bytes >= u64::from(spine.remainder + spine.remainder_bytes));
                    }
                }
            }
        }
    }

    #[test]
    fn huge_arrays_do_not_wrap() {
        let spine = SpineLayout { first_n: 4096, leaf_log2: 10, ..ZRAY }.spine(16, u32::MAX);
        assert_eq!(spine.leaves, ((16 * (u32::MAX as u64) - 4096) >> 10) as u32);
        assert!(spine.bytes > 256 << 20);
    }
    #[test]
    fn spines_that_grow_have_space_for_each_leaf() {
        let growing = SpineLayout { grows: true, ..ZRAY };
        assert!(!growing.divides(4, 4000) && growing.divides(4, 5000));
        for (element, length) in [(1, 20_000), (4, 5_000), (4, 5_001), (8, 9_999), (16, 2_048)] {
            let spine = growing.spine(element, length);
            let behind = element * length - 64;
            assert_eq!(spine.leaves, behind.div_ceil(256));
            assert_eq!(spine.pointers, spine.elements + 64 + 256 * spine.leaves);
            assert_eq!((spine.remainder_bytes, spine.pointer_count()), (0, spine.leaves));
            assert!(spine.bytes >= u64::from(spine.pointers + 4 * spine.leaves) && spine.bytes.is_multiple_of(8));
        }
    }
}
