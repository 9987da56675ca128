//! Host values.

use std::any::Any;

use anyhow::{Result, ensure};

use crate::gc::rooted::Sealed;
use crate::store::StoreContextMut as Mut;
use crate::{AnyRef, AsContext, AsContextMut, GcRef, Rooted, StoreContext, Trap};

/// The type of references to host values (`externref`), and to internal values that were externalised.
///
/// ```
/// use legato::{Engine, ExternRef, Store};
///
/// let mut store = Store::new(&Engine::default(), ());
/// let held = ExternRef::new(&mut store, String::from("text"))?;
/// let value = held.data_mut(&mut store)?.and_then(|value| value.downcast_mut::<String>());
/// value.expect("a string").push('!');
/// let value = held.data(&store)?.and_then(|value| value.downcast_ref::<String>());
/// assert_eq!(value.map(String::as_str), Some("text!"));
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Debug)]
pub enum ExternRef {}

impl Sealed for ExternRef {}
impl GcRef for ExternRef {}

impl ExternRef {
    /// Puts a host value into the heap. It is dropped after its last reference is gone.
    ///
    /// # Errors
    /// [`Trap::AllocationFailure`] where the heap is exhausted. If this is the store's first object: also where the
    /// system refuses address space for the heap.
    pub fn new<T: Any + Send + Sync>(store: impl AsContextMut, value: T) -> Result<Rooted<ExternRef>> {
        ExternRef::new_sized(store, value, 0)
    }

    /// As [`new`](Self::new), of a value that keeps so many bytes of memory outside of the heap, such as a buffer. The
    /// heap's `max` is no limit to them, but the more of them there are, the sooner garbage is collected: dead values
    /// keep no more than those that live, or 16 MiB, but for what comes while a cycle runs.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn new_sized<T: Any + Send + Sync>(
        mut store: impl AsContextMut,
        value: T,
        outside_bytes: u64,
    ) -> Result<Rooted<ExternRef>> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        opaque.open_heap()?;
        let allocated = opaque.heap.allocate_sized_external(Box::new(value), outside_bytes, &mut opaque.state);
        let reference =
            allocated.map_err(|error| anyhow::Error::from(Trap::AllocationFailure).context(error.to_string()))?;
        Ok(Rooted::new(opaque, reference))
    }

    /// An internal value as an external one (`extern.convert_any`).
    ///
    /// # Errors
    /// If the scope of the value has ended, or the store is another.
    pub fn convert_any(store: impl AsContext, value: Rooted<AnyRef>) -> Result<Rooted<ExternRef>> {
        // Both have the same bits: only the static type differs.
        value.reference(&store.as_context().0.opaque)?;
        Ok(value.retype())
    }
}

impl Rooted<ExternRef> {
    /// The host value; `None` where an internal value was externalised.
    ///
    /// # Errors
    /// If the scope of the reference has ended, or the store is another.
    pub fn data<'a, T: 'static>(
        &self,
        store: impl Into<StoreContext<'a, T>>,
    ) -> Result<Option<&'a (dyn Any + Send + Sync)>> {
        let store: StoreContext<'a, T> = store.into();
        Ok(store.0.opaque.heap.external(self.reference(&store.0.opaque)?))
    }

    /// The host value, to be changed; `None` where an internal value was externalised.
    ///
    /// # Errors
    /// If the scope of the reference has ended, or the store is another.
    pub fn data_mut<'a, T: 'static>(
        &self,
        store: impl Into<Mut<'a, T>>,
    ) -> Result<Option<&'a mut (dyn Any + Send + Sync)>> {
        let store: Mut<'a, T> = store.into();
        let opaque = &mut store.0.opaque;
        let reference = self.reference(opaque)?;
        let opaque: &'a mut crate::store::StoreOpaque = opaque;
        ensure!(!reference.is_null(), "a null reference has no value");
        Ok(opaque.heap.external_mut(reference))
    }
}
