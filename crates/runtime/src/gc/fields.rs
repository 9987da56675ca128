//! Fields and elements as values.

use anyhow::{Result, ensure};
use legato_compiler::module as wasm;
use legato_heap::Reference;
use legato_heap::layout::StorageKind;

use crate::Val;
use crate::store::StoreOpaque;

/// Reads what lies at `offset` of an object. Packed values are zero-extended.
pub(crate) fn load(store: &mut StoreOpaque, object: Reference, offset: u32, ty: wasm::StorageType) -> Val {
    let kind = store.engine.types().storage_kind(ty);
    let bits = store.heap.load(object, offset, kind);
    Val::from_bits(store, bits, unpacked(ty))
}

/// Reads an element. Packed values are zero-extended.
pub(crate) fn load_element(store: &mut StoreOpaque, array: Reference, index: u32, ty: wasm::StorageType) -> Val {
    let bits = store.heap.array_get(array, index);
    Val::from_bits(store, bits, unpacked(ty))
}

/// The bits of `value` for a field of this type.
///
/// # Errors
/// If the value has another type.
pub(crate) fn to_bits(store: &StoreOpaque, value: Val, ty: wasm::StorageType) -> Result<u128> {
    value.to_bits(store, unpacked(ty))
}

/// Writes bits to `offset` of an object.
///
/// # Safety
/// The object is live, and the bits are those of a value of this type, of this store and live, too, where it is a
/// reference.
pub(crate) unsafe fn store_bits(
    store: &mut StoreOpaque,
    object: Reference,
    offset: u32,
    ty: wasm::StorageType,
    bits: u128,
) {
    match store.engine.types().storage_kind(ty) {
        // SAFETY: passed on to the caller.
        StorageKind::Ref => unsafe { store.heap.store_reference(object, offset, Reference(bits as u32)) },
        // SAFETY: passed on to the caller.
        kind => unsafe { store.heap.store(object, offset, kind, bits) },
    }
}

/// As [`store_bits`], into a field of a new object that has not been written yet.
///
/// # Safety
/// As for [`store_bits`]; nothing has been allocated since the object.
pub(crate) unsafe fn initialise_bits(
    store: &mut StoreOpaque,
    object: Reference,
    offset: u32,
    ty: wasm::StorageType,
    bits: u128,
) {
    match store.engine.types().storage_kind(ty) {
        // SAFETY: passed on to the caller.
        StorageKind::Ref => unsafe { store.heap.initialise_reference(object, offset, Reference(bits as u32)) },
        // SAFETY: passed on to the caller.
        kind => unsafe { store.heap.store(object, offset, kind, bits) },
    }
}

/// Fails where a constant field is to be written.
pub(crate) fn check_mutable(ty: wasm::FieldType) -> Result<()> {
    ensure!(ty.mutable, "the field is immutable");
    Ok(())
}

fn unpacked(ty: wasm::StorageType) -> wasm::ValueType {
    match ty {
        wasm::StorageType::I8 | wasm::StorageType::I16 => wasm::ValueType::I32,
        wasm::StorageType::Value(ty) => ty,
    }
}
