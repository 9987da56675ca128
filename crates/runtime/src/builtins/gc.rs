//! Objects: allocation, and the bulk instructions on arrays.

use legato_compiler::artifact::TrapCode;
use legato_heap::layout::StorageKind;
use legato_heap::{Reference, TypeId, TypeShape};

use crate::builtins::{Failure, run};
use crate::instance::segments::{self, checked_range};
use crate::store::StoreOpaque;

/// `Builtin::FlushStoreBuffer`.
pub(super) unsafe extern "C" fn flush_store_buffer(context: *mut u8) {
    // SAFETY: a builtin.
    unsafe {
        run(context, |store, _| {
            store.heap.flush_store_buffer();
            Ok(0)
        });
    }
}

/// `Builtin::AllocateStruct`.
pub(super) unsafe extern "C" fn allocate_struct(context: *mut u8, ty: u32) -> i64 {
    // SAFETY: a builtin.
    unsafe { run(context, |store, _| Ok(store.heap.allocate_struct(TypeId(ty), &mut store.state)?.0.into())) }
}

/// A new array whose elements the caller writes at once.
///
/// # Safety
/// The caller writes every element before the next safepoint.
unsafe fn new_array(store: &mut StoreOpaque, ty: u32, length: u32) -> Result<Reference, Failure> {
    // SAFETY: passed on to the caller.
    unsafe { Ok(store.heap.allocate_array_uninitialised(TypeId(ty), length, &mut store.state)?) }
}

/// `Builtin::AllocateArray`.
pub(super) unsafe extern "C" fn allocate_array(context: *mut u8, ty: u32, length: u32) -> i64 {
    // SAFETY: a builtin.
    unsafe { run(context, |store, _| Ok(store.heap.allocate_array(TypeId(ty), length, &mut store.state)?.0.into())) }
}

/// `Builtin::AllocateArrayUninitialised`.
pub(super) unsafe extern "C" fn allocate_array_uninitialised(context: *mut u8, ty: u32, length: u32) -> i64 {
    // SAFETY: a builtin; compiled code writes the elements at once.
    unsafe { run(context, |store, _| Ok(new_array(store, ty, length)?.0.into())) }
}

/// The range of a data segment that holds `length` elements of `kind`.
fn data_range(
    store: &StoreOpaque,
    instance: u32,
    segment: u32,
    offset: u32,
    length: u32,
    kind: StorageKind,
) -> Result<std::ops::Range<usize>, Failure> {
    let available = segments::data_bytes(store, instance, segment).len();
    let bytes = length as u64 * kind.bytes() as u64;
    Ok(checked_range(offset.into(), bytes, available).ok_or(TrapCode::MemoryOutOfBounds)?)
}

fn check_elements(
    store: &StoreOpaque,
    instance: u32,
    segment: u32,
    offset: u32,
    length: u32,
) -> Result<std::ops::Range<usize>, Failure> {
    let available = store.state.instances[instance as usize].elements[segment as usize].items.len();
    Ok(checked_range(offset.into(), length.into(), available).ok_or(TrapCode::TableOutOfBounds)?)
}

fn check_array(store: &StoreOpaque, array: Reference, start: u32, length: u32) -> Result<(), Failure> {
    let available = store.heap.array_length(array) as usize;
    checked_range(start.into(), length.into(), available).ok_or(TrapCode::ArrayOutOfBounds)?;
    Ok(())
}

/// Writes a checked range of a data segment to a checked range of an array.
fn write_data(
    store: &mut StoreOpaque,
    instance: u32,
    segment: u32,
    range: std::ops::Range<usize>,
    array: Reference,
    start: u32,
) {
    if range.is_empty() {
        return;
    }
    // Kept by itself, so that its bytes may be read while the heap is written.
    let module = store.state.instances[instance as usize].module.clone();
    store.heap.array_write_bytes(array, start, &module.info().data[segment as usize].bytes[range]);
}

/// Writes a checked range of an element segment to a checked range of an array.
fn write_elements(
    store: &mut StoreOpaque,
    instance: u32,
    segment: u32,
    range: std::ops::Range<usize>,
    array: Reference,
    start: u32,
) {
    for (index, item) in (start..).zip(range) {
        let bits = store.state.instances[instance as usize].elements[segment as usize].items[item];
        store.heap.array_fill(array, index, bits.0.into(), 1);
    }
}

/// `Builtin::ArrayNewData`.
pub(super) unsafe extern "C" fn array_new_data(
    context: *mut u8,
    ty: u32,
    segment: u32,
    offset: u32,
    length: u32,
) -> i64 {
    // SAFETY: a builtin.
    unsafe {
        run(context, |store, instance| {
            let TypeShape::Array(kind) = store.heap.types().info(TypeId(ty)).shape else {
                unreachable!("validation has checked the type");
            };
            let range = data_range(store, instance, segment, offset, length, kind)?;
            let array = new_array(store, ty, length)?;
            write_data(store, instance, segment, range, array, 0);
            Ok(array.0.into())
        })
    }
}

/// `Builtin::ArrayNewElem`.
pub(super) unsafe extern "C" fn array_new_elem(
    context: *mut u8,
    ty: u32,
    segment: u32,
    offset: u32,
    length: u32,
) -> i64 {
    // SAFETY: a builtin.
    unsafe {
        run(context, |store, instance| {
            let range = check_elements(store, instance, segment, offset, length)?;
            let array = new_array(store, ty, length)?;
            write_elements(store, instance, segment, range, array, 0);
            Ok(array.0.into())
        })
    }
}

/// `Builtin::ArrayInitData`.
pub(super) unsafe extern "C" fn array_init_data(
    context: *mut u8,
    array: u32,
    start: u32,
    segment: u32,
    offset: u32,
    length: u32,
) -> i64 {
    // SAFETY: a builtin.
    unsafe {
        run(context, |store, instance| {
            let array = Reference(array);
            check_array(store, array, start, length)?;
            let kind = store.heap.array_element_kind(array);
            let range = data_range(store, instance, segment, offset, length, kind)?;
            write_data(store, instance, segment, range, array, start);
            Ok(0)
        })
    }
}

/// `Builtin::ArrayInitElem`.
pub(super) unsafe extern "C" fn array_init_elem(
    context: *mut u8,
    array: u32,
    start: u32,
    segment: u32,
    offset: u32,
    length: u32,
) -> i64 {
    // SAFETY: a builtin.
    unsafe {
        run(context, |store, instance| {
            let array = Reference(array);
            check_array(store, array, start, length)?;
            let range = check_elements(store, instance, segment, offset, length)?;
            write_elements(store, instance, segment, range, array, start);
            Ok(0)
        })
    }
}

/// `Builtin::ArrayFill`.
pub(super) unsafe extern "C" fn array_fill(context: *mut u8, array: u32, start: u32, bits: u64, length: u32) -> i64 {
    // SAFETY: a builtin.
    unsafe {
        run(context, |store, _| match store.heap.trusted_array_fill(Reference(array), start, bits.into(), length) {
            true => Ok(0),
            false => Err(TrapCode::ArrayOutOfBounds.into()),
        })
    }
}

/// `Builtin::ArrayCopy`.
pub(super) unsafe extern "C" fn array_copy(
    context: *mut u8,
    destination: u32,
    destination_start: u32,
    source: u32,
    source_start: u32,
    length: u32,
) -> i64 {
    // SAFETY: a builtin.
    unsafe {
        run(context, |store, _| {
            let (destination, source) = (Reference(destination), Reference(source));
            match store.heap.trusted_array_copy(destination, destination_start, source, source_start, length) {
                true => Ok(0),
                false => Err(TrapCode::ArrayOutOfBounds.into()),
            }
        })
    }
}
