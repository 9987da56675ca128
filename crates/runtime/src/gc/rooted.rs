//! Rooted references: how host code holds objects.
//!
//! A [`Rooted`] is a small copyable handle that keeps its object alive until its scope ends: a [`RootScope`], the host
//! function that is running, or else the store. An [`OwnedRooted`] keeps its object alive until it is dropped; a
//! [`WeakRooted`](crate::WeakRooted) does not keep it alive. Use of a handle after the end of its scope, or with
//! another store, is an error, never a wrong object.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use anyhow::Result;
use legato_heap::Reference;

use crate::store::{OwnedRoot, RootIndex, RootScopeMark, StoreId, StoreInner, StoreOpaque};
use crate::{AsContext, AsContextMut, InterruptHandle, StoreContext, StoreContextMut};

mod sealed {
    pub trait Sealed {}
}
pub(crate) use sealed::Sealed;

/// A type of reference: [`ExternRef`](crate::ExternRef), [`AnyRef`](crate::AnyRef), [`EqRef`](crate::EqRef),
/// [`StructRef`](crate::StructRef), [`ArrayRef`](crate::ArrayRef), [`ExnRef`](crate::ExnRef).
pub trait GcRef: Sealed + 'static {}

/// A reference that is kept alive by the current scope. See the module's documentation.
///
/// ```
/// use legato::{AnyRef, Engine, I31, RootScope, Store};
///
/// let mut store = Store::new(&Engine::default(), ());
/// let (ended, kept) = {
///     let mut scope = RootScope::new(&mut store);
///     let small = AnyRef::from_i31(&mut scope, I31::wrapping_i32(5));
///     (small, small.to_owned_rooted(&mut scope)?)
/// };
/// assert!(ended.as_i31(&store).is_err(), "its scope has ended");
/// let again = kept.to_rooted(&mut store);
/// assert_eq!(again.unwrap_i31(&store)?.get_i32(), 5);
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct Rooted<T> {
    store: StoreId,
    index: RootIndex,
    marker: PhantomData<fn() -> T>,
}

impl<T> Clone for Rooted<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Rooted<T> {}

impl<T> fmt::Debug for Rooted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = std::any::type_name::<T>();
        write!(f, "Rooted<{}>", name.rsplit("::").next().unwrap_or(name))
    }
}

impl<T> Rooted<T> {
    /// Roots a reference in the current scope.
    pub(crate) fn new(store: &mut StoreOpaque, reference: Reference) -> Rooted<T> {
        Rooted { store: store.id, index: store.state.roots.push(reference), marker: PhantomData }
    }

    /// The reference that the object has now.
    pub(crate) fn reference(self, store: &StoreOpaque) -> Result<Reference> {
        store.check_id(self.store, "rooted reference")?;
        store.state.roots.get(self.index).map(|reference| store.heap.current(reference))
    }

    /// The reference's bits.
    pub(crate) fn bits(self, store: &StoreOpaque) -> Result<u32> {
        self.reference(store).map(|reference| reference.0)
    }

    /// The same root, seen as another type that the caller knows to be right.
    pub(crate) fn retype<U>(self) -> Rooted<U> {
        Rooted { store: self.store, index: self.index, marker: PhantomData }
    }

    /// Keeps the object alive beyond the scope.
    ///
    /// # Errors
    /// If the scope has ended, or the store is another.
    pub fn to_owned_rooted(&self, mut store: impl AsContextMut) -> Result<OwnedRooted<T>> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        let reference = self.reference(opaque)?;
        let root = opaque.state.roots.own(reference, &mut opaque.heap);
        Ok(OwnedRooted { store: opaque.id, root, marker: PhantomData })
    }

    /// Whether two handles refer to the same object.
    ///
    /// # Errors
    /// If a scope has ended, or the store is another.
    pub fn ref_eq(store: impl AsContext, a: &Rooted<T>, b: &Rooted<T>) -> Result<bool> {
        let store = store.as_context();
        let opaque = &store.0.opaque;
        Ok(opaque.heap.same(a.reference(opaque)?, b.reference(opaque)?))
    }
}

/// A reference that keeps its object alive until it, and every clone of it, is dropped.
///
/// ```
/// use legato::{AnyRef, Engine, I31, OwnedRooted, RootScope, Store};
///
/// struct Game {
///     player: Option<OwnedRooted<AnyRef>>,
/// }
///
/// let mut store = Store::new(&Engine::default(), Game { player: None });
/// {
///     let mut scope = RootScope::new(&mut store);
///     let player = AnyRef::from_i31(&mut scope, I31::wrapping_i32(5)).to_owned_rooted(&mut scope)?;
///     legato::AsContextMut::as_context_mut(&mut scope).data_mut().player = Some(player);
/// }
/// store.gc();
/// let player = store.data().player.clone().expect("a player").to_rooted(&mut store);
/// assert!(player.is_i31(&store)?);
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct OwnedRooted<T> {
    store: StoreId,
    root: Arc<OwnedRoot>,
    marker: PhantomData<fn() -> T>,
}

impl<T> Clone for OwnedRooted<T> {
    fn clone(&self) -> Self {
        OwnedRooted { store: self.store, root: self.root.clone(), marker: PhantomData }
    }
}

impl<T> fmt::Debug for OwnedRooted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owned{:?}", Rooted::<T> { store: self.store, index: RootIndex::NONE, marker: PhantomData })
    }
}

impl<T> OwnedRooted<T> {
    /// The object, rooted in the current scope.
    ///
    /// # Panics
    /// If the store is another.
    pub fn to_rooted(&self, mut store: impl AsContextMut) -> Rooted<T> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        opaque.check_id(self.store, "rooted reference").expect("the store that the reference belongs to");
        let reference = opaque.state.roots.get_owned(&self.root);
        Rooted::new(opaque, reference)
    }
}

/// A scope of rooted references: what is rooted through it is let go when it is dropped.
///
/// Host code that makes or receives many references outside of host functions needs one, or the references pile up in
/// the store.
///
/// ```
/// use legato::{AnyRef, Engine, ExternRef, RootScope, Store};
///
/// let mut store = Store::new(&Engine::default(), ());
/// for number in 0..1000 {
///     let mut scope = RootScope::new(&mut store);
///     ExternRef::new(&mut scope, number)?;
///     // The handle ends here, and the object can be collected.
/// }
/// store.gc();
/// assert_eq!(store.heap_stats().externals, 0);
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct RootScope<C: AsContextMut> {
    store: C,
    mark: RootScopeMark,
}

impl<C: AsContextMut> RootScope<C> {
    /// Begins a scope.
    pub fn new(store: C) -> RootScope<C> {
        let mark = store.as_context().0.opaque.state.roots.enter();
        RootScope { store, mark }
    }

    /// The store's data.
    pub fn data(&self) -> &C::Data {
        self.store.as_context().data()
    }

    /// The store's data.
    pub fn data_mut(&mut self) -> &mut C::Data {
        self.store.as_context_mut().0.data_mut()
    }

    /// As [`Store::interrupt_handle`](crate::Store::interrupt_handle).
    pub fn interrupt_handle(&self) -> InterruptHandle {
        InterruptHandle::new(self.store.as_context().0.opaque.interrupt.clone())
    }
}

impl<C: AsContextMut> AsContext for RootScope<C> {
    type Data = C::Data;

    fn as_context(&self) -> StoreContext<'_, C::Data> {
        self.store.as_context()
    }
}

impl<C: AsContextMut> AsContextMut for RootScope<C> {
    fn as_context_mut(&mut self) -> StoreContextMut<'_, C::Data> {
        self.store.as_context_mut()
    }
}

impl<C: AsContextMut> Drop for RootScope<C> {
    fn drop(&mut self) {
        let mark = self.mark;
        let store: &mut StoreInner<C::Data> = self.store.as_context_mut().0;
        let StoreOpaque { state, heap, .. } = &mut store.opaque;
        state.roots.exit(mark, heap);
    }
}

impl<C: AsContextMut> fmt::Debug for RootScope<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RootScope").finish_non_exhaustive()
    }
}
