//! The type table: what the collector and inline casts know of each type.
//!
//! A [`TypeId`] is the byte offset of the type's [`TypeRecord`] in the table's memory, so that compiled code reaches a
//! record with one addition. Records never move, and stay until their types are [released](crate::TypeTable::release).
//!
//! A record ends in its *display*: the type ids of its supertypes from the root (depth 0) down to itself. A cast to
//! type `T` of depth `d` succeeds where `display[d] == T`. Every display has at least [`MIN_DISPLAY`] entries (the
//! unused ones are 0), so that a check for a shallower target needs no look at the length.

use crate::layout::StorageKind;

/// Identity of a type: byte offset of its record in the type table. Never 0.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct TypeId(pub u32);

/// The fewest entries of a display. A target at this depth or deeper must compare [`TypeRecord::display_length`] first.
pub const MIN_DISPLAY: u32 = 8;

/// What kind of thing a type describes. The discriminant is stored in [`TypeRecord::kind`], where compiled code
/// compares it for casts to the abstract types.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TypeKind {
    /// A struct with fixed fields.
    Struct = 1,
    /// An array.
    Array = 2,
    /// A function type: has a display for casts, but no objects in the heap.
    Function = 3,
    /// An exception: a struct whose first field is the `u32` id of its tag.
    Exception = 4,
    /// A host value (Wasm `externref`): a struct that holds the index of the host's slot.
    External = 5,
}

/// The fixed part of a record; the display (`u32` each) follows it directly.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TypeRecord {
    /// A [`TypeKind`].
    pub kind: u32,
    /// Entries in the display: the type's depth + 1.
    pub display_length: u32,
    /// Index of the full description in the table.
    pub info: u32,
    /// Structs: object size in bytes. Arrays: element size in bytes.
    pub bytes: u32,
    /// Structs: bit `i` is set where the word at byte `8 + 4 * i` of the object is a traced reference. Arrays: 1 where
    /// the elements are traced references. `u64::MAX` with [`Self::many_references`] set means: see the full
    /// description.
    pub reference_map: u64,
    /// 1 where `reference_map` cannot hold the struct's references.
    pub many_references: u32,
    /// Which of the first 32 bits of `reference_map` are of references to objects that hold no references themselves,
    /// if to any: the collector marks these and does not look at them. Known of them when the type was registered.
    pub reference_free: u32,
}

impl TypeRecord {
    /// Offset of [`kind`](Self::kind) from the record's start.
    pub const KIND_OFFSET: u32 = std::mem::offset_of!(TypeRecord, kind) as u32;
    /// Offset of [`display_length`](Self::display_length).
    pub const DISPLAY_LENGTH_OFFSET: u32 = std::mem::offset_of!(TypeRecord, display_length) as u32;
    /// Offset of [`bytes`](Self::bytes).
    pub const BYTES_OFFSET: u32 = std::mem::offset_of!(TypeRecord, bytes) as u32;
    /// Offset of the display's entry for depth 0.
    pub const DISPLAY_OFFSET: u32 = size_of::<TypeRecord>() as u32;
}

/// The full description of a type, as the embedder registers it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TypeInfo {
    /// What the type describes.
    pub shape: TypeShape,
    /// The direct supertype.
    pub supertype: Option<TypeId>,
}

/// The shape of a type's objects.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum TypeShape {
    /// Fields in declaration order; laid out by [`StructLayout`](crate::layout::StructLayout).
    Struct(Vec<StorageKind>),
    /// The element kind.
    Array(StorageKind),
    /// No objects.
    Function,
    /// Payload fields; a `u32` tag id is laid out before them.
    Exception(Vec<StorageKind>),
    /// One `I32` field: the host slot.
    External,
}
