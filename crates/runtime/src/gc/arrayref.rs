//! Arrays.

use anyhow::{Context, Result, ensure};
use legato_compiler::module as wasm;
use legato_heap::Reference;
use legato_heap::layout::StorageKind;

use crate::gc::fields;
use crate::gc::rooted::Sealed;
use crate::store::StoreOpaque;
use crate::{ArrayType, AsContext, AsContextMut, Engine, GcRef, Rooted, Val};

/// The type of references to arrays (`arrayref`).
///
/// ```
/// use legato::{ArrayRef, ArrayRefPre, ArrayType, Engine, FieldType, Mutability, StorageType, Store, Val};
///
/// let engine = Engine::default();
/// let mut store = Store::new(&engine, ());
/// let bytes = ArrayType::new(&engine, FieldType::new(Mutability::Var, StorageType::I8));
/// let allocator = ArrayRefPre::new(&store, bytes);
/// let array = ArrayRef::new(&mut store, &allocator, &Val::I32(0), 5)?;
/// array.write_bytes(&mut store, 1, b"abc")?;
/// array.set(&mut store, 4, Val::I32(33))?;
/// assert_eq!(array.to_bytes(&store)?, b"\0abc!");
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Debug)]
pub enum ArrayRef {}

impl Sealed for ArrayRef {}
impl GcRef for ArrayRef {}

/// An array type that is ready for allocation.
///
/// ```
/// use legato::{ArrayRef, ArrayRefPre, ArrayType, Engine, FieldType, Mutability, Store, Val, ValType};
///
/// let engine = Engine::default();
/// let mut store = Store::new(&engine, ());
/// let numbers = ArrayType::new(&engine, FieldType::new(Mutability::Var, ValType::I64.into()));
/// let allocator = ArrayRefPre::new(&store, numbers);
/// let zeros = ArrayRef::new(&mut store, &allocator, &Val::I64(0), 1000)?;
/// let primes = ArrayRef::new_fixed(&mut store, &allocator, &[2, 3, 5, 7].map(Val::I64))?;
/// assert_eq!((zeros.len(&store)?, primes.len(&store)?), (1000, 4));
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ArrayRefPre {
    ty: ArrayType,
}

impl ArrayRefPre {
    /// Prepares a type.
    ///
    /// # Panics
    /// If the type belongs to another engine than the store.
    pub fn new(store: impl AsContext, ty: ArrayType) -> ArrayRefPre {
        let engine = store.as_context().engine().clone();
        assert!(Engine::same(&engine, ty.engine()), "the array type belongs to another engine");
        ArrayRefPre { ty }
    }
}

impl ArrayRef {
    /// Allocates an array of `length` elements that all are `element`.
    ///
    /// # Errors
    /// If the value has another type; [`Trap::AllocationFailure`](crate::Trap::AllocationFailure) or
    /// [`Trap::AllocationTooLarge`](crate::Trap::AllocationTooLarge).
    pub fn new(
        mut store: impl AsContextMut,
        allocator: &ArrayRefPre,
        element: &Val,
        length: u32,
    ) -> Result<Rooted<ArrayRef>> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        let (object, storage) = allocate(opaque, &allocator.ty, length, std::slice::from_ref(element))?;
        let bits = fields::to_bits(opaque, *element, storage)?;
        // SAFETY: the array is new, and nothing has been allocated since the value's bits were found.
        unsafe { opaque.array_fill(object, 0, bits, length)? };
        Ok(Rooted::new(opaque, object))
    }

    /// Allocates an array of these elements.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn new_fixed(
        mut store: impl AsContextMut,
        allocator: &ArrayRefPre,
        elements: &[Val],
    ) -> Result<Rooted<ArrayRef>> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        let length = u32::try_from(elements.len()).context("an array has fewer than 2^32 elements")?;
        let (object, storage) = allocate(opaque, &allocator.ty, length, elements)?;
        for (index, element) in (0..).zip(elements) {
            let bits = fields::to_bits(opaque, *element, storage)?;
            // SAFETY: as for `new`.
            unsafe { opaque.array_fill(object, index, bits, 1)? };
        }
        Ok(Rooted::new(opaque, object))
    }
}

/// Checks the values and allocates.
fn allocate(
    store: &mut StoreOpaque,
    ty: &ArrayType,
    length: u32,
    values: &[Val],
) -> Result<(Reference, wasm::StorageType)> {
    ensure!(Engine::same(&store.engine, ty.engine()), "the array type belongs to another engine");
    let storage = ty.raw().storage;
    for (index, value) in values.iter().enumerate() {
        fields::to_bits(store, *value, storage).with_context(|| format!("element {index}"))?;
    }
    store.state.keep_type(ty.registered());
    let array = store.allocate_array(ty.id(), length)?;
    // SAFETY: the array has just been allocated.
    Ok((unsafe { store.array_reserve_leaves(array, 0, length)? }, storage))
}

impl Rooted<ArrayRef> {
    /// The array's own type.
    ///
    /// # Errors
    /// If the scope of the reference has ended, or the store is another. So for all methods.
    pub fn ty(&self, store: impl AsContext) -> Result<ArrayType> {
        let store = store.as_context();
        let opaque = &store.0.opaque;
        Ok(ArrayType::from_id(&opaque.engine, opaque.heap.type_of(self.reference(opaque)?)))
    }

    /// The number of elements.
    ///
    /// # Errors
    /// As for [`ty`](Self::ty).
    pub fn len(&self, store: impl AsContext) -> Result<u32> {
        let store = store.as_context();
        Ok(store.0.opaque.heap.array_length(self.reference(&store.0.opaque)?))
    }

    fn locate(&self, store: &StoreOpaque, index: u32) -> Result<(Reference, wasm::FieldType)> {
        let object = self.reference(store)?;
        let length = store.heap.array_length(object);
        ensure!(index < length, "index {index} is outside of an array of {length} elements");
        let entry = store.engine.types().get(store.heap.type_of(object));
        Ok((object, entry.element().expect("an array type")))
    }

    /// Reads an element. Packed elements are zero-extended.
    ///
    /// # Errors
    /// If the index is out of bounds.
    pub fn get(&self, mut store: impl AsContextMut, index: u32) -> Result<Val> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        let (object, field) = self.locate(opaque, index)?;
        Ok(fields::load_element(opaque, object, index, field.storage))
    }

    /// Reads all elements.
    ///
    /// # Errors
    /// As for [`ty`](Self::ty).
    pub fn elems(&self, mut store: impl AsContextMut) -> Result<Vec<Val>> {
        let length = self.len(&mut store)?;
        (0..length).map(|index| self.get(&mut store, index)).collect()
    }

    /// Writes an element.
    ///
    /// # Errors
    /// If the index is out of bounds, the elements are immutable, or the value has another type;
    /// [`Trap::AllocationFailure`](crate::Trap::AllocationFailure) where an array that does not lie in one piece needs
    /// memory.
    pub fn set(&self, mut store: impl AsContextMut, index: u32, value: Val) -> Result<()> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        let (object, field) = self.locate(opaque, index)?;
        fields::check_mutable(field)?;
        let bits = fields::to_bits(opaque, value, field.storage)?;
        // SAFETY: both are rooted, and nothing has been allocated since their references were found.
        unsafe { opaque.array_fill(object, index, bits, 1) }
    }

    /// Copies the elements out as little-endian bytes: a whole array of numbers in one step.
    ///
    /// # Errors
    /// If the elements are references.
    pub fn to_bytes(&self, store: impl AsContext) -> Result<Vec<u8>> {
        let store = store.as_context();
        let opaque = &store.0.opaque;
        let object = self.reference(opaque)?;
        let kind = opaque.heap.array_element_kind(object);
        ensure!(!matches!(kind, StorageKind::Ref | StorageKind::Immortal), "the elements are references");
        let mut bytes = vec![0; opaque.heap.array_length(object) as usize * kind.bytes() as usize];
        opaque.heap.array_read_bytes(object, 0, &mut bytes);
        Ok(bytes)
    }

    /// Writes elements from `start` on, given as little-endian bytes.
    ///
    /// # Errors
    /// If the bytes are no whole elements within the array, the elements are references, or immutable;
    /// [`Trap::AllocationFailure`](crate::Trap::AllocationFailure) where an array that does not lie in one piece needs
    /// memory.
    pub fn write_bytes(&self, mut store: impl AsContextMut, start: u32, bytes: &[u8]) -> Result<()> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        let object = self.reference(opaque)?;
        let kind = opaque.heap.array_element_kind(object);
        ensure!(!matches!(kind, StorageKind::Ref | StorageKind::Immortal), "the elements are references");
        fields::check_mutable(
            opaque.engine.types().get(opaque.heap.type_of(object)).element().expect("an array type"),
        )?;
        let size = kind.bytes() as usize;
        ensure!(bytes.len().is_multiple_of(size), "{} bytes are no whole elements of {size}", bytes.len());
        let length = opaque.heap.array_length(object) as usize;
        ensure!(
            start as usize + bytes.len() / size <= length,
            "the bytes end outside of an array of {length} elements"
        );
        // SAFETY: the array is rooted.
        let object = unsafe { opaque.array_reserve_leaves(object, start, (bytes.len() / size) as u32)? };
        // SAFETY: the array is rooted, and its reference has been updated by the only call since that may have
        // collected.
        unsafe { opaque.array_write_bytes(object, start, bytes) }
    }
}
