//! Objects: allocation, and the bulk instructions on arrays.

use legato_compiler::abi::{ContextHead, FuncRef, FunctionStore, GlobalRange};
use legato_compiler::artifact::TrapCode;
use legato_heap::layout::StorageKind;
use legato_heap::{Reference, TypeId, TypeShape};
use smallvec::SmallVec;

use crate::builtins::{Failure, Pieces, run, run_without_result};
use crate::instance::segments::{self, checked_range};
use crate::store::StoreOpaque;

/// `Builtin::FlushStoreBuffer`.
pub(super) unsafe extern "C" fn flush_store_buffer(context: *mut u8) {
    // SAFETY: a builtin.
    unsafe { run_without_result(context, |store, _| store.heap.flush_store_buffer()) }
}

/// `Builtin::RecordOverwritten`, where its trampoline has filled the buffer.
pub(super) unsafe extern "C" fn flush_overwritten(context: *mut u8, _recorded: u32) {
    // SAFETY: a builtin.
    unsafe { run_without_result(context, |store, _| store.heap.flush_overwritten()) }
}

/// `Builtin::StoreField`.
pub(super) unsafe extern "C" fn store_field(context: *mut u8, object: u32, offset: u32, value: u32) {
    let (object, value) = (Reference(object), Reference(value));
    // SAFETY: a builtin; what compiled code holds is live.
    unsafe { run_without_result(context, |store, _| store.heap.store_reference(object, offset, value)) }
}

/// `Builtin::StoreElement`.
pub(super) unsafe extern "C" fn store_element(context: *mut u8, array: u32, index: u32, value: u32) -> i64 {
    let (array, value) = (Reference(array), Reference(value));
    // SAFETY: a builtin; what compiled code holds is live.
    unsafe {
        run(context, |store, _| {
            store.heap.array_set_reference(array, index, value)?;
            Ok(0)
        })
    }
}

/// `Builtin::InitialiseElements`.
pub(super) unsafe extern "C" fn initialise_elements(
    context: *mut u8,
    array: u32,
    start: u32,
    first: u64,
    second: u64,
    third: u64,
) -> i64 {
    // SAFETY: a builtin; the array is new, and what globals hold is live.
    unsafe {
        run(context, |store, instance| {
            let globals = &store.state.instances[instance as usize].globals;
            let words = [first, second, third].into_iter().flat_map(|pair| [pair as u32, (pair >> 32) as u32]);
            let ranges = words.map(GlobalRange::of_word).map(|range| {
                let first = range.first as usize;
                &globals[first..first + range.count as usize]
            });
            let references: SmallVec<[Reference; 64]> =
                ranges.flatten().map(|&global| Reference(store.read_global(global).0 as u32)).collect();
            store.heap.array_initialise_references(Reference(array), start, &references)?;
            Ok(0)
        })
    }
}

/// `Builtin::StoreFunctions`.
pub(super) unsafe extern "C" fn store_functions(
    context: *mut u8,
    first: u64,
    second: u64,
    third: u64,
    fourth: u64,
    fifth: u64,
) {
    // SAFETY: a builtin; what globals hold is live.
    unsafe {
        let func_refs = (*context.cast::<ContextHead>()).func_refs;
        run_without_result(context, |store, instance| {
            for word in [first, second, third, fourth, fifth].into_iter().filter(|&word| word != 0) {
                let FunctionStore { global, offset, record } = FunctionStore::of_word(word);
                let global = store.state.instances[instance as usize].globals[global as usize];
                let object = Reference(store.read_global(global).0 as u32);
                let function = func_refs + record * size_of::<FuncRef>() as u32;
                store.heap.store(object, offset, StorageKind::Immortal, function.into());
            }
        })
    }
}

/// `Builtin::AllocateStruct`.
pub(super) unsafe extern "C" fn allocate_struct(context: *mut u8, ty: u32) -> i64 {
    // SAFETY: a builtin.
    unsafe { run(context, |store, _| Ok(store.heap.allocate_struct(TypeId(ty), &mut store.state)?.0.into())) }
}

/// A new array whose elements the caller writes in these pieces. Where there are several, between which it may be given
/// up, it is zeroed first.
///
/// # Safety
/// The caller writes the first piece, and all others unless it gives the array up, before the next safepoint but those
/// of writing.
unsafe fn new_array(store: &mut StoreOpaque, ty: u32, length: u32, pieces: &Pieces) -> Result<Reference, Failure> {
    let (ty, state) = (TypeId(ty), &mut store.state);
    if pieces.are_several() {
        return Ok(store.heap.allocate_array(ty, length, state)?);
    }
    // SAFETY: passed on to the caller.
    unsafe { Ok(store.heap.allocate_array_uninitialised(ty, length, state)?) }
}

/// The storage of an array type's elements.
fn element_kind(store: &StoreOpaque, ty: u32) -> StorageKind {
    match store.heap.types().info(TypeId(ty)).shape {
        TypeShape::Array(kind) => kind,
        _ => unreachable!("validation has checked the type"),
    }
}

/// The pieces of a range of an array's elements. Where there are several, the range lies within the array: so nothing
/// is written of one that does not. (What writes a piece checks it.)
fn pieces_of(store: &StoreOpaque, array: Reference, start: u32, length: u32) -> Result<Pieces, Failure> {
    // Most ranges are one piece whatever their elements are.
    let pieces = Pieces::of_array(length, StorageKind::V128.bytes() as usize);
    if !pieces.are_several() {
        return Ok(pieces);
    }
    check_array(store, array, start, length)?;
    Ok(Pieces::of_array(length, store.heap.array_element_kind(array).bytes() as usize))
}

/// `Builtin::AllocateArray`.
pub(super) unsafe extern "C" fn allocate_array(context: *mut u8, ty: u32, length: u32) -> i64 {
    // SAFETY: a builtin.
    unsafe { run(context, |store, _| Ok(store.heap.allocate_array(TypeId(ty), length, &mut store.state)?.0.into())) }
}

/// `Builtin::ArrayNew`.
pub(super) unsafe extern "C" fn array_new(context: *mut u8, ty: u32, bits: u64, length: u32) -> i64 {
    // SAFETY: a builtin; the elements are written at once. They are no references, as the builtin's contract says. The
    // array is new, and `reserve_leaves` returns where it is then.
    unsafe {
        run(context, |store, _| {
            let mut pieces = Pieces::of_array(length, element_kind(store, ty).bytes() as usize);
            let mut array = new_array(store, ty, length, &pieces)?;
            while let Some(piece) = pieces.next(&store.interrupt)? {
                let (start, length) = (piece.start as u32, piece.len() as u32);
                array = reserve_leaves(store, array, start, length, [])?.0;
                store.heap.array_fill(array, start, bits.into(), length)?;
            }
            Ok(array.0.into())
        })
    }
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
///
/// # Safety
/// The array is live, and so are the others, unless they are null or immediates: compiled code has just named them.
unsafe fn reserve_leaves<const N: usize>(
    store: &mut StoreOpaque,
    array: Reference,
    start: u32,
    length: u32,
    kept: [Reference; N],
) -> Result<(Reference, [Reference; N]), Failure> {
    // SAFETY: compiled code names arrays of its own heap.
    if !unsafe { store.heap.lacks_leaves(array, start, length) } {
        return Ok((array, kept));
    }
    let mut all: SmallVec<[Reference; 4]> = SmallVec::from_slice(&[array]);
    all.extend(kept);
    // SAFETY: passed on to the caller.
    unsafe { store.heap.array_reserve_leaves(start, length, &mut all, &mut store.state)? };
    Ok((all[0], std::array::from_fn(|index| all[index + 1])))
}

/// Writes a checked range of a data segment to a checked range of an array, whose elements are of `kind`. Returns the
/// array, which may have moved.
///
/// # Safety
/// The array is live.
unsafe fn write_data(
    store: &mut StoreOpaque,
    instance: u32,
    segment: u32,
    range: std::ops::Range<usize>,
    (mut array, start): (Reference, u32),
    (kind, mut pieces): (StorageKind, Pieces),
) -> Result<Reference, Failure> {
    if range.is_empty() {
        return Ok(array);
    }
    // Kept by itself, so that its bytes may be read while the heap is written.
    let module = store.state.instances[instance as usize].module.clone();
    let bytes = &module.info().data[segment as usize].bytes[range];
    let size = kind.bytes() as usize;
    while let Some(piece) = pieces.next(&store.interrupt)? {
        let start = start + piece.start as u32;
        // SAFETY: the array is live by the contract, and what is returned from here on is where it is then.
        array = unsafe { reserve_leaves(store, array, start, piece.len() as u32, [])?.0 };
        // SAFETY: the array is live by the contract, and what is returned from here on is where it is then.
        unsafe { store.heap.array_write_bytes(array, start, &bytes[piece.start * size..piece.end * size])? };
    }
    Ok(array)
}

/// Writes a checked range of an element segment to a checked range of an array. Returns the array, which may have
/// moved.
///
/// # Safety
/// The array is live. With `is_new`, its elements hold no references.
unsafe fn write_elements(
    store: &mut StoreOpaque,
    instance: u32,
    segment: u32,
    range: std::ops::Range<usize>,
    (mut array, start): (Reference, u32),
    is_new: bool,
    mut pieces: Pieces,
) -> Result<Reference, Failure> {
    while let Some(piece) = pieces.next(&store.interrupt)? {
        let start = start + piece.start as u32;
        // SAFETY: the array is live by the contract, and what is returned from here on is where it is then.
        array = unsafe { reserve_leaves(store, array, start, piece.len() as u32, [])?.0 };
        let items = &store.state.instances[instance as usize].elements[segment as usize].items;
        let items = &items[range.start + piece.start..range.start + piece.end];
        // SAFETY: the array is live, and new where the caller says so; the items of a segment are roots.
        unsafe {
            match is_new {
                true => store.heap.array_initialise_references(array, start, items)?,
                false => store.heap.array_write_references(array, start, items)?,
            }
        }
    }
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
            let kind = element_kind(store, ty);
            let range = data_range(store, instance, segment, offset, length, kind)?;
            let pieces = Pieces::of_array(length, kind.bytes() as usize);
            let array = new_array(store, ty, length, &pieces)?;
            Ok(write_data(store, instance, segment, range, (array, 0), (kind, pieces))?.0.into())
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
            let pieces = Pieces::of_array(length, StorageKind::Ref.bytes() as usize);
            let array = new_array(store, ty, length, &pieces)?;
            Ok(write_elements(store, instance, segment, range, (array, 0), true, pieces)?.0.into())
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
            let pieces = Pieces::of_array(length, kind.bytes() as usize);
            write_data(store, instance, segment, range, (array, start), (kind, pieces))?;
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
            let pieces = Pieces::of_array(length, StorageKind::Ref.bytes() as usize);
            write_elements(store, instance, segment, range, (array, start), false, pieces)?;
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
            let mut pieces = pieces_of(store, array, start, length)?;
            if !pieces.are_several() {
                fill_piece(store, array, start, bits, length)?;
                return Ok(0);
            }
            while let Some(piece) = pieces.next(&store.interrupt)? {
                (array, bits) = fill_piece(store, array, start + piece.start as u32, bits, piece.len() as u32)?;
            }
            Ok(0)
        })
    }
}

/// Fills a range of an array. Returns the array and the value, which may have moved.
///
/// # Safety
/// `array` refers to an array of this store, whose elements have such values.
#[inline]
unsafe fn fill_piece(
    store: &mut StoreOpaque,
    mut array: Reference,
    start: u32,
    mut bits: u64,
    length: u32,
) -> Result<(Reference, u64), Failure> {
    // SAFETY: passed on to the caller.
    if unsafe { store.heap.lacks_leaves(array, start, length) } {
        let is_reference = store.heap.array_element_kind(array) == StorageKind::Ref;
        let value = Reference(if is_reference { bits as u32 } else { 0 });
        // SAFETY: passed on to the caller.
        let (moved, [value]) = unsafe { reserve_leaves(store, array, start, length, [value])? };
        array = moved;
        if is_reference {
            bits = value.0.into();
        }
    }
    // SAFETY: passed on to the caller.
    match unsafe { store.heap.trusted_array_fill(array, start, bits.into(), length)? } {
        true => Ok((array, bits)),
        false => Err(TrapCode::ArrayOutOfBounds.into()),
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
            let (mut destination, mut source) = (Reference(destination), Reference(source));
            match store.heap.quick_array_copy(destination, destination_start, source, source_start, length) {
                Some(true) => return Ok(0),
                Some(false) => return Err(TrapCode::ArrayOutOfBounds.into()),
                None => {}
            }
            let backwards = destination_start > source_start && store.heap.same(destination, source);
            let mut pieces = pieces_of(store, destination, destination_start, length)?.backwards_if(backwards);
            if pieces.are_several() {
                check_array(store, source, source_start, length)?;
            }
            while let Some(piece) = pieces.next(&store.interrupt)? {
                let (to, from) = (destination_start + piece.start as u32, source_start + piece.start as u32);
                let length = piece.len() as u32;
                (destination, [source]) = reserve_leaves(store, destination, to, length, [source])?;
                if !store.heap.trusted_array_copy(destination, to, source, from, length)? {
                    return Err(TrapCode::ArrayOutOfBounds.into());
                }
            }
            Ok(0)
        })
    }
}
