//! Exceptions.

use anyhow::{Context, Result, ensure};
use legato_heap::layout::StorageKind;

use crate::gc::fields;
use crate::gc::rooted::Sealed;
use crate::values::val::lower_all;
use crate::{AsContext, AsContextMut, GcRef, Rooted, Tag, Val};
use legato_compiler::module as wasm;

/// The type of references to exceptions (`exnref`).
///
/// ```
/// use legato::{Engine, ExnRef, FuncType, Instance, Module, Store, Tag, TagType, Val, ValType};
///
/// let engine = Engine::default();
/// let module = Module::new(
///     &engine,
///     r#"(module
///         (import "host" "error" (tag $error (param i32)))
///         (func (export "fail") (throw $error (i32.const 7))))"#,
/// )?;
/// let mut store = Store::new(&engine, ());
/// let tag = Tag::new(&mut store, &TagType::new(FuncType::new(&engine, [ValType::I32], [])))?;
/// let instance = Instance::new(&mut store, &module, &[tag.into()])?;
/// assert!(instance.get_typed_func::<(), ()>(&mut store, "fail")?.call(&mut store, ()).is_err());
/// let thrown = store.take_pending_exception().expect("an exception");
/// assert!(Tag::eq(&thrown.tag(&store)?, &tag, &store));
/// assert_eq!(thrown.field(&mut store, 0)?.i32(), Some(7));
///
/// // The host makes exceptions, too: `Caller::throw` throws them.
/// let made = ExnRef::new(&mut store, &tag, &[Val::I32(8)])?;
/// assert_eq!(made.fields(&mut store)?.len(), 1);
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Debug)]
pub enum ExnRef {}

impl Sealed for ExnRef {}
impl GcRef for ExnRef {}

impl ExnRef {
    /// Allocates an exception of `tag` with this payload.
    ///
    /// # Errors
    /// If the values do not have the tag's types; [`Trap::AllocationFailure`](crate::Trap::AllocationFailure) where the
    /// heap is exhausted.
    pub fn new(mut store: impl AsContextMut, tag: &Tag, payload: &[Val]) -> Result<Rooted<ExnRef>> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        let id = tag.index(opaque)?;
        let stored = opaque.state.tags[id as usize];
        let entry = opaque.engine.types().get(stored.ty);
        let types = &entry.func().expect("a tag has a function type").params;
        lower_all(opaque, payload, types, "payload value")?;
        let object = opaque.allocate_struct(stored.exception)?;
        let bits = lower_all(opaque, payload, types, "payload value")?;
        let layout = opaque.heap.types().layout(stored.exception).expect("an exception has a layout").clone();
        // SAFETY: the exception has just been allocated.
        unsafe { opaque.heap.store(object, layout.offsets[0], StorageKind::I32, id.into()) };
        for ((bits, &ty), &offset) in bits.into_iter().zip(types).zip(&layout.offsets[1..]) {
            // SAFETY: the exception is new, and nothing has been allocated since the bits of the checked values were
            // found.
            unsafe { fields::initialise_bits(opaque, object, offset, wasm::StorageType::Value(ty), bits) };
        }
        Ok(Rooted::new(opaque, object))
    }
}

impl Rooted<ExnRef> {
    /// The exception's tag.
    ///
    /// # Errors
    /// If the scope of the reference has ended, or the store is another. So for all methods.
    pub fn tag(&self, store: impl AsContext) -> Result<Tag> {
        let store = store.as_context();
        let opaque = &store.0.opaque;
        let object = self.reference(opaque)?;
        let layout = opaque.heap.types().layout(opaque.heap.type_of(object)).context("an exception has a layout")?;
        Ok(Tag::from_index(opaque, opaque.heap.load(object, layout.offsets[0], StorageKind::I32) as u32))
    }

    /// Reads a value of the payload, from 0.
    ///
    /// # Errors
    /// If there is no such value.
    pub fn field(&self, mut store: impl AsContextMut, index: usize) -> Result<Val> {
        let tag = self.tag(&mut store)?;
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        let object = self.reference(opaque)?;
        let entry = opaque.engine.types().get(opaque.state.tags[tag.index(opaque)? as usize].ty);
        let types = &entry.func().expect("a tag has a function type").params;
        ensure!(index < types.len(), "the exception has no value {index}");
        let layout = opaque.heap.types().layout(opaque.heap.type_of(object)).context("an exception has a layout")?;
        let offset = layout.offsets[1 + index];
        Ok(fields::load(opaque, object, offset, wasm::StorageType::Value(types[index])))
    }

    /// Reads the payload.
    ///
    /// # Errors
    /// As for [`tag`](Self::tag).
    pub fn fields(&self, mut store: impl AsContextMut) -> Result<Vec<Val>> {
        let count = self.tag(&mut store)?.ty(&store).ty().params().len();
        (0..count).map(|index| self.field(&mut store, index)).collect()
    }
}
