//! How objects lie in memory: plain arithmetic shared by the heap, the compiler and the embedder.
//!
//! Every object starts with an 8-byte header (type id, collector word). Arrays add a 4-byte length.
//! Offsets are in bytes from the start of the object. Arrays that do not lie in one piece are described by
//! [`SpineLayout`].

mod spine;

pub use spine::{POINTER_BYTES, Spine, SpineLayout, TAINT};

use serde::{Deserialize, Serialize};

/// Bytes of the header that every object starts with.
pub const HEADER_BYTES: u32 = 8;
/// Offset of the `u32` type id in the header.
pub const TYPE_ID_OFFSET: u32 = 0;
/// Offset of the `u32` collector word in the header (age, colour, handle back-pointer, forwarding).
pub const COLLECTOR_WORD_OFFSET: u32 = 4;
/// Offset of an array's `u32` length, in elements.
pub const ARRAY_LENGTH_OFFSET: u32 = 8;
/// The most elements that an array can have: no length is negative as a signed number, so compiled code may compare
/// indexes with inline lengths where the program has compared them, signed, with lengths.
pub const MOST_ELEMENTS: u32 = i32::MAX as u32;
/// Offset of an array's `u32` inline length, in elements, where arrays have one ([`SpineLayout::grows`]): so many lie
/// behind each other right after the header. It takes the place of the collector word.
pub const INLINE_LENGTH_OFFSET: u32 = COLLECTOR_WORD_OFFSET;
/// Every object starts at a multiple of this.
pub const OBJECT_ALIGNMENT: u32 = 8;

/// What one field or array element holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum StorageKind {
    /// One byte.
    I8,
    /// Two bytes.
    I16,
    /// Four bytes.
    I32,
    /// Eight bytes.
    I64,
    /// Four bytes.
    F32,
    /// Eight bytes.
    F64,
    /// Sixteen bytes, 8-byte aligned.
    V128,
    /// A reference that the collector traces.
    Ref,
    /// A 32-bit offset of an immortal record in the cage (a function reference); never traced.
    Immortal,
}

impl StorageKind {
    /// Size in bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            StorageKind::I8 => 1,
            StorageKind::I16 => 2,
            StorageKind::I32 | StorageKind::F32 | StorageKind::Ref | StorageKind::Immortal => 4,
            StorageKind::I64 | StorageKind::F64 => 8,
            StorageKind::V128 => 16,
        }
    }

    /// Alignment in bytes within an object.
    pub const fn alignment(self) -> u32 {
        let bytes = self.bytes();
        if bytes > OBJECT_ALIGNMENT { OBJECT_ALIGNMENT } else { bytes }
    }
}

/// Where the fields of a struct lie.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StructLayout {
    /// Offset of each field, in declaration order.
    pub offsets: Vec<u32>,
    /// Size of the whole object, header included, a multiple of [`OBJECT_ALIGNMENT`].
    pub bytes: u32,
}

impl StructLayout {
    /// Lays the fields out in declaration order, each at its natural alignment.
    ///
    /// The offset of a field depends on the fields before it alone, so a subtype's layout begins with its supertype's.
    pub fn new(fields: impl IntoIterator<Item = StorageKind>) -> StructLayout {
        let mut end = HEADER_BYTES;
        let mut offsets = Vec::new();
        for field in fields {
            end = end.next_multiple_of(field.alignment());
            offsets.push(end);
            end += field.bytes();
        }
        StructLayout { offsets, bytes: end.next_multiple_of(OBJECT_ALIGNMENT) }
    }
}

/// Offset of the first element of an array whose elements are of `kind`.
pub const fn array_elements_offset(kind: StorageKind) -> u32 {
    let after_length = ARRAY_LENGTH_OFFSET + 4;
    after_length.next_multiple_of(kind.alignment())
}

/// Size in bytes of a whole array, header included; `None` where it does not fit 32 bits.
pub const fn array_bytes(kind: StorageKind, length: u32) -> Option<u32> {
    let bytes = array_elements_offset(kind) as u64 + kind.bytes() as u64 * length as u64;
    let bytes = bytes.next_multiple_of(OBJECT_ALIGNMENT as u64);
    if bytes > u32::MAX as u64 { None } else { Some(bytes as u32) }
}

/// Offset of the first element of `element_bytes`.
#[inline(always)]
pub const fn elements_offset(element_bytes: u32) -> u32 {
    if element_bytes >= 8 { ARRAY_LENGTH_OFFSET + 8 } else { ARRAY_LENGTH_OFFSET + 4 }
}

/// Bytes of an array object with elements of `element_bytes`.
#[inline(always)]
pub(crate) const fn array_object_bytes(element_bytes: u32, length: u32) -> u64 {
    let end = elements_offset(element_bytes) as u64 + element_bytes as u64 * length as u64;
    (end + 7) & !7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subtype_begins_with_its_supertype() {
        let base = [StorageKind::I8, StorageKind::Ref, StorageKind::I16];
        let derived = [StorageKind::I8, StorageKind::Ref, StorageKind::I16, StorageKind::F64];
        let (base, derived) = (StructLayout::new(base), StructLayout::new(derived));
        assert_eq!(base.offsets, [8, 12, 16]);
        assert_eq!(base.bytes, 24);
        assert_eq!(derived.offsets, [8, 12, 16, 24]);
        assert_eq!(derived.bytes, 32);
    }

    #[test]
    fn elements_follow_the_length() {
        assert_eq!(array_elements_offset(StorageKind::I8), 12);
        assert_eq!(array_elements_offset(StorageKind::Ref), 12);
        assert_eq!(array_elements_offset(StorageKind::F64), 16);
        assert_eq!(array_bytes(StorageKind::I8, 0), Some(16));
        assert_eq!(array_bytes(StorageKind::I64, u32::MAX), None);
        for kind in [StorageKind::I8, StorageKind::I16, StorageKind::Ref, StorageKind::I64, StorageKind::V128] {
            assert_eq!(elements_offset(kind.bytes()), array_elements_offset(kind));
            assert_eq!(array_object_bytes(kind.bytes(), 77), array_bytes(kind, 77).unwrap() as u64);
        }
    }
}
