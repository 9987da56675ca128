//! Objects: allocation, and the bulk instructions on arrays.

use legato_compiler::artifact::TrapCode;
use legato_heap::layout::StorageKind;
use legato_heap::{Reference, TypeId, TypeShape};
use smallvec::SmallVec;

use crate::builtins::{Failure, run, run_without_result};
use crate::instance::segments::{self, checked_range};
use crate::store::StoreOpaque;

/// `Builtin::FlushStoreBuffer`.
pub(super) unsafe extern "C" fn flush_store_buffer(context: *mut u8) {
    // SAFETY: a builtin.
    unsafe { run_without_result(context, |store, _| store.heap.flush_store_buffer()) }
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

/// `Builtin::ArrayNew`.
pub(super) unsafe extern "C" fn array_new(context: *mut u8, ty: u32, bits: u64, length: u32) -> i64 {
    // SAFETY: a builtin; the elements are written at once.
    unsafe {
        run(context, |store, _| {
            let traced = matches!(store.heap.types().info(TypeId(ty)).shape, TypeShape::Array(StorageKind::Ref));
            // A root meanwhile: allocation may move what the element refers to.
            store.state.scratch.push((bits.into(), traced));
            let array = filled_array(store, ty, length);
            let (bits, _) = store.state.scratch.pop().expect("pushed above");
            let array = array?;
            store.heap.array_fill(array, 0, bits, length)?;
            Ok(array.0.into())
        })
    }
}

/// A new array that is to be filled at once, with room for that.
///
/// # Safety
/// The caller writes every element before the next safepoint.
unsafe fn filled_array(store: &mut StoreOpaque, ty: u32, length: u32) -> Result<Reference, Failure> {
    // SAFETY: passed on to the caller.
    let array = unsafe { new_array(store, ty, length)? };
    Ok(make_room(store, array, 0, length, [])?.0)
}

/// `Builtin::LeafForStore`.
pub(super) unsafe extern "C" fn leaf_for_store(context: *mut u8, array: u32, index: u32, is_zero: u32) -> i64 {
    // SAFETY: a builtin; compiled code calls it for elements in leaves alone.
    unsafe { run(context, |store, _| Ok(store.heap.leaf_for_store(Reference(array), index, is_zero != 0)?.into())) }
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

/// Makes room for writing a range of an array; `kept` and the array are roots meanwhile. Returns the array.
fn make_room<const N: usize>(
    store: &mut StoreOpaque,
    array: Reference,
    start: u32,
    length: u32,
    kept: [Reference; N],
) -> Result<(Reference, [Reference; N]), Failure> {
    // SAFETY: compiled code names arrays of its own heap.
    if !unsafe { store.heap.lacks_room(array, start, length) } {
        return Ok((array, kept));
    }
    let mut all: SmallVec<[Reference; 4]> = SmallVec::from_slice(&[array]);
    all.extend(kept);
    store.heap.array_make_room(start, length, &mut all, &mut store.state)?;
    Ok((all[0], std::array::from_fn(|index| all[index + 1])))
}

/// Writes a checked range of a data segment to a checked range of an array. Returns the array, which may have moved.
fn write_data(
    store: &mut StoreOpaque,
    instance: u32,
    segment: u32,
    range: std::ops::Range<usize>,
    array: Reference,
    start: u32,
    length: u32,
) -> Result<Reference, Failure> {
    if range.is_empty() {
        return Ok(array);
    }
    let (array, []) = make_room(store, array, start, length, [])?;
    // Kept by itself, so that its bytes may be read while the heap is written.
    let module = store.state.instances[instance as usize].module.clone();
    store.heap.array_write_bytes(array, start, &module.info().data[segment as usize].bytes[range])?;
    Ok(array)
}

/// Writes a checked range of an element segment to a checked range of an array. Returns the array, which may have moved.
fn write_elements(
    store: &mut StoreOpaque,
    instance: u32,
    segment: u32,
    range: std::ops::Range<usize>,
    array: Reference,
    start: u32,
) -> Result<Reference, Failure> {
    let (array, []) = make_room(store, array, start, range.len() as u32, [])?;
    let items = &store.state.instances[instance as usize].elements[segment as usize].items[range];
    store.heap.array_write_references(array, start, items)?;
    Ok(array)
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
            Ok(write_data(store, instance, segment, range, array, 0, length)?.0.into())
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
            Ok(write_elements(store, instance, segment, range, array, 0)?.0.into())
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
            write_data(store, instance, segment, range, array, start, length)?;
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
            write_elements(store, instance, segment, range, array, start)?;
            Ok(0)
        })
    }
}

/// `Builtin::ArrayFill`.
pub(super) unsafe extern "C" fn array_fill(context: *mut u8, array: u32, start: u32, bits: u64, length: u32) -> i64 {
    // SAFETY: a builtin.
    unsafe {
        run(context, |store, _| {
            let (mut array, mut bits) = (Reference(array), bits);
            if store.heap.lacks_room(array, start, length) {
                let is_reference = store.heap.array_element_kind(array) == StorageKind::Ref;
                let value = Reference(if is_reference { bits as u32 } else { 0 });
                let (moved, [value]) = make_room(store, array, start, length, [value])?;
                array = moved;
                if is_reference {
                    bits = value.0.into();
                }
            }
            match store.heap.trusted_array_fill(array, start, bits.into(), length)? {
                true => Ok(0),
                false => Err(TrapCode::ArrayOutOfBounds.into()),
            }
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
            match store.heap.quick_array_copy(destination, destination_start, source, source_start, length) {
                Some(true) => return Ok(0),
                Some(false) => return Err(TrapCode::ArrayOutOfBounds.into()),
                None => {}
            }
            let (destination, [source]) = make_room(store, destination, destination_start, length, [source])?;
            match store.heap.trusted_array_copy(destination, destination_start, source, source_start, length)? {
                true => Ok(0),
                false => Err(TrapCode::ArrayOutOfBounds.into()),
            }
        })
    }
}
