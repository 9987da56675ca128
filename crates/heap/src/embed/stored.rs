//! What fields and elements hold, as Rust types.

use super::error::Error;
use super::handles::{Brand, Local, Slots};
use crate::heap::Heap;
use crate::layout::StorageKind;
use crate::reference::Reference;

/// A type of Rust for what a field or an element holds: a number, or [`Any`] reference.
pub trait Stored: sealed::Stored {}

/// A reference to whatever it be: in fields, what a [`Local`] stands for.
#[derive(Clone, Copy, Debug)]
pub enum Any {}

/// What is written: a number, or a reference that is live.
#[derive(Clone, Copy, Debug)]
pub enum Raw {
    Number(u128),
    Reference(Reference),
}

pub(super) mod sealed {
    use super::{Brand, Error, Local, Raw, Slots, StorageKind};

    /// Not to be implemented elsewhere: that kind and conversion belong together is relied on.
    pub trait Stored {
        /// What is read and written.
        type Value<'s>;
        const KIND: StorageKind;
        const NAME: &'static str;

        /// What these bits are, which have just been read; a reference gets a handle in the innermost scope.
        fn decode<'s>(slots: &mut Slots, scope: Brand<'s>, bits: u128) -> Self::Value<'s>;

        fn encode(slots: &Slots, value: Self::Value<'_>) -> Result<Raw, Error>;
    }

    impl Stored for super::Any {
        type Value<'s> = Local<'s>;
        const KIND: StorageKind = StorageKind::Ref;
        const NAME: &'static str = "references";

        fn decode<'s>(slots: &mut Slots, _: Brand<'s>, bits: u128) -> Local<'s> {
            slots.hold(super::Reference(bits as u32))
        }

        fn encode(slots: &Slots, value: Local<'_>) -> Result<Raw, Error> {
            Ok(Raw::Reference(slots.reference(value)?))
        }
    }
}

impl Stored for Any {}

macro_rules! numbers {
    ($($ty:ident as $bits:ident in $kind:ident: $decode:expr, $encode:expr;)*) => {$(
        impl sealed::Stored for $ty {
            type Value<'s> = $ty;
            const KIND: StorageKind = StorageKind::$kind;
            const NAME: &'static str = stringify!($ty);

            fn decode<'s>(_: &mut Slots, _: Brand<'s>, bits: u128) -> $ty {
                $decode(bits as $bits)
            }

            fn encode(_: &Slots, value: $ty) -> Result<Raw, Error> {
                Ok(Raw::Number($encode(value).into()))
            }
        }

        impl Stored for $ty {}
    )*};
}

numbers! {
    u8 as u8 in I8: |bits| bits, |value| value;
    i8 as u8 in I8: |bits| bits as i8, |value| value as u8;
    u16 as u16 in I16: |bits| bits, |value| value;
    i16 as u16 in I16: |bits| bits as i16, |value| value as u16;
    u32 as u32 in I32: |bits| bits, |value| value;
    i32 as u32 in I32: |bits| bits as i32, |value| value as u32;
    u64 as u64 in I64: |bits| bits, |value| value;
    i64 as u64 in I64: |bits| bits as i64, |value| value as u64;
    f32 as u32 in F32: f32::from_bits, f32::to_bits;
    f64 as u64 in F64: f64::from_bits, f64::to_bits;
}

/// What a kind is called where it was taken for another.
pub(super) fn name_of(kind: StorageKind) -> &'static str {
    match kind {
        StorageKind::I8 => "integers of 8 bits",
        StorageKind::I16 => "integers of 16 bits",
        StorageKind::I32 => "integers of 32 bits",
        StorageKind::I64 => "integers of 64 bits",
        StorageKind::F32 => "f32",
        StorageKind::F64 => "f64",
        StorageKind::V128 => "vectors",
        StorageKind::Ref => "references",
        StorageKind::Immortal => "records",
    }
}

/// Writes a field of an object that has it.
///
/// # Safety
/// The object is live, and so is what is written.
pub(super) unsafe fn write_field<T: Stored>(heap: &mut Heap, object: Reference, offset: u32, value: Raw) {
    // SAFETY: passed on to the caller.
    unsafe {
        match value {
            Raw::Number(bits) => heap.store(object, offset, T::KIND, bits),
            Raw::Reference(reference) => heap.store_reference(object, offset, reference),
        }
    }
}
