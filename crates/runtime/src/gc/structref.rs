//! Structs.

use anyhow::{Context, Result, ensure};
use legato_compiler::module as wasm;
use legato_heap::Reference;

use crate::gc::fields;
use crate::gc::rooted::Sealed;
use crate::store::StoreOpaque;
use crate::{AsContext, AsContextMut, Engine, GcRef, Rooted, StructType, Val};

/// The type of references to structs (`structref`).
///
/// ```
/// use legato::{Engine, FieldType, Mutability, StorageType, Store, StructRef, StructRefPre, StructType, Val, ValType};
///
/// let engine = Engine::default();
/// let mut store = Store::new(&engine, ());
/// let number = FieldType::new(Mutability::Var, StorageType::ValType(ValType::I32));
/// let pair = StructType::new(&engine, [number.clone(), number])?;
/// let allocator = StructRefPre::new(&store, pair);
/// let object = StructRef::new(&mut store, &allocator, &[Val::I32(1), Val::I32(2)])?;
/// object.set_field(&mut store, 0, Val::I32(5))?;
/// assert_eq!(object.field(&mut store, 0)?.i32(), Some(5));
/// assert!(object.field(&mut store, 2).is_err());
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Debug)]
pub enum StructRef {}

impl Sealed for StructRef {}
impl GcRef for StructRef {}

/// A struct type that is ready for allocation.
///
/// ```
/// use legato::{Engine, FieldType, Mutability, Store, StructRef, StructRefPre, StructType, Val, ValType};
///
/// let engine = Engine::default();
/// let mut store = Store::new(&engine, ());
/// let field = FieldType::new(Mutability::Const, ValType::I32.into());
/// let allocator = StructRefPre::new(&store, StructType::new(&engine, [field])?);
/// for number in 0..1000 {
///     let object = StructRef::new(&mut store, &allocator, &[Val::I32(number)])?;
///     assert_eq!(object.field(&mut store, 0)?.i32(), Some(number));
/// }
/// // A value for each field.
/// assert!(StructRef::new(&mut store, &allocator, &[]).is_err());
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StructRefPre {
    ty: StructType,
}

impl StructRefPre {
    /// Prepares a type.
    ///
    /// # Panics
    /// If the type belongs to another engine than the store.
    pub fn new(store: impl AsContext, ty: StructType) -> StructRefPre {
        let engine = store.as_context().engine().clone();
        assert!(Engine::same(&engine, ty.engine()), "the struct type belongs to another engine");
        StructRefPre { ty }
    }
}

impl StructRef {
    /// Allocates a struct with these field values.
    ///
    /// # Errors
    /// If the values do not have the fields' types; [`Trap::AllocationFailure`](crate::Trap::AllocationFailure) where
    /// the heap is exhausted.
    pub fn new(mut store: impl AsContextMut, allocator: &StructRefPre, values: &[Val]) -> Result<Rooted<StructRef>> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        let ty = &allocator.ty;
        ensure!(Engine::same(&opaque.engine, ty.engine()), "the struct type belongs to another engine");
        ensure!(ty.raw().len() == values.len(), "expected {} fields, found {}", ty.raw().len(), values.len());
        for (index, (value, field)) in values.iter().zip(ty.raw()).enumerate() {
            fields::to_bits(opaque, *value, field.storage).with_context(|| format!("field {index}"))?;
        }
        opaque.state.keep_type(ty.registered());
        let object = opaque.allocate_struct(ty.id())?;
        for ((value, field), &offset) in values.iter().zip(ty.raw()).zip(ty.offsets()) {
            // Only now, since the allocation may have moved what the values refer to.
            let bits = fields::to_bits(opaque, *value, field.storage)?;
            // SAFETY: the struct is new, and nothing has been allocated since the bits of the checked values were
            // found.
            unsafe { fields::initialise_bits(opaque, object, offset, field.storage, bits) };
        }
        Ok(Rooted::new(opaque, object))
    }
}

impl Rooted<StructRef> {
    fn locate(&self, store: &StoreOpaque, index: usize) -> Result<(Reference, u32, wasm::FieldType)> {
        let object = self.reference(store)?;
        let entry = store.engine.types().get(store.heap.type_of(object));
        let field = entry.fields().and_then(|fields| fields.get(index)).copied();
        let field = field.with_context(|| format!("the struct has no field {index}"))?;
        Ok((object, entry.layout.as_ref().expect("a struct has a layout").offsets[index], field))
    }

    /// The struct's own type.
    ///
    /// # Errors
    /// If the scope of the reference has ended, or the store is another. So for all methods.
    pub fn ty(&self, store: impl AsContext) -> Result<StructType> {
        let store = store.as_context();
        let opaque = &store.0.opaque;
        Ok(StructType::from_id(&opaque.engine, opaque.heap.type_of(self.reference(opaque)?)))
    }

    /// Reads field `index`, from 0. Packed fields are zero-extended.
    ///
    /// # Errors
    /// If there is no such field.
    pub fn field(&self, mut store: impl AsContextMut, index: usize) -> Result<Val> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        let (object, offset, field) = self.locate(opaque, index)?;
        Ok(fields::load(opaque, object, offset, field.storage))
    }

    /// Reads all fields.
    ///
    /// # Errors
    /// As for [`ty`](Self::ty).
    pub fn fields(&self, mut store: impl AsContextMut) -> Result<Vec<Val>> {
        let count = self.ty(&mut store)?.raw().len();
        (0..count).map(|index| self.field(&mut store, index)).collect()
    }

    /// Writes field `index`, from 0.
    ///
    /// # Errors
    /// If there is no such field, it is immutable, or the value has another type.
    pub fn set_field(&self, mut store: impl AsContextMut, index: usize, value: Val) -> Result<()> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        let (object, offset, field) = self.locate(opaque, index)?;
        fields::check_mutable(field)?;
        let bits = fields::to_bits(opaque, value, field.storage)?;
        // SAFETY: both are rooted, and nothing has been allocated since their references were found.
        unsafe { fields::store_bits(opaque, object, offset, field.storage, bits) };
        Ok(())
    }
}
