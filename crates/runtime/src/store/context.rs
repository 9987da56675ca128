//! Borrowed stores, and the traits that let functions take a store in any form.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use legato_heap::HeapStats;

use crate::store::{StoreInner, StoreOpaque};
use crate::{Caller, Engine, ExnRef, InterruptHandle, Rooted, Store, ThrownException};

/// A shared borrow of a [`Store`].
pub struct StoreContext<'a, T: 'static>(pub(crate) &'a StoreInner<T>);

/// An exclusive borrow of a [`Store`].
pub struct StoreContextMut<'a, T: 'static>(pub(crate) &'a mut StoreInner<T>);

/// What can be used as a shared store.
pub trait AsContext {
    /// The store's data.
    type Data: 'static;

    /// Borrows the store.
    fn as_context(&self) -> StoreContext<'_, Self::Data>;
}

/// What can be used as an exclusive store.
///
/// ```
/// use legato::{AsContextMut, Engine, ExternRef, Rooted, Store};
///
/// // Takes `&mut Store`, `StoreContextMut`, and the `Caller` that a host function gets.
/// fn greeting(store: impl AsContextMut) -> anyhow::Result<Rooted<ExternRef>> {
///     ExternRef::new(store, "hello")
/// }
///
/// let mut store = Store::new(&Engine::default(), ());
/// let value = greeting(&mut store)?;
/// assert_eq!(value.data(&store)?.and_then(|data| data.downcast_ref()), Some(&"hello"));
/// # Ok::<(), anyhow::Error>(())
/// ```
pub trait AsContextMut: AsContext {
    /// Borrows the store.
    fn as_context_mut(&mut self) -> StoreContextMut<'_, Self::Data>;
}

impl<T: 'static> Clone for StoreContext<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: 'static> Copy for StoreContext<'_, T> {}

impl<'a, T: 'static> StoreContext<'a, T> {
    /// The engine.
    pub fn engine(&self) -> &'a Engine {
        &self.0.opaque.engine
    }

    /// The embedder's data.
    pub fn data(&self) -> &'a T {
        self.0.data()
    }

    /// As [`Store::heap_stats`](crate::Store::heap_stats).
    pub fn heap_stats(&self) -> HeapStats {
        self.0.opaque.heap.stats()
    }
}

impl<T: 'static> StoreContextMut<'_, T> {
    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.0.opaque.engine
    }

    /// The embedder's data.
    pub fn data(&self) -> &T {
        self.0.data()
    }

    /// The embedder's data.
    pub fn data_mut(&mut self) -> &mut T {
        self.0.data_mut()
    }

    /// As [`Store::heap_stats`](crate::Store::heap_stats).
    pub fn heap_stats(&self) -> HeapStats {
        self.0.opaque.heap.stats()
    }

    /// Collects garbage now.
    pub fn gc(&mut self) {
        self.0.opaque.gc();
    }

    /// As [`Store::collect_some`](crate::Store::collect_some).
    pub fn collect_some(&mut self, time: Duration) -> bool {
        self.0.opaque.collect_some(time)
    }

    /// As [`Store::interrupt_handle`](crate::Store::interrupt_handle).
    pub fn interrupt_handle(&self) -> InterruptHandle {
        InterruptHandle::new(self.0.opaque.interrupt.clone())
    }

    /// As [`Store::trim`](crate::Store::trim).
    pub fn trim(&mut self) -> u64 {
        self.0.opaque.trim()
    }

    /// Throws an exception from a host function: return the result as its error. It is pending until then; a host
    /// function that returns without that error forgets it.
    ///
    /// # Errors
    /// Always, so that `?` ends the host function.
    ///
    /// # Panics
    /// If the exception belongs to another store, or its scope has ended.
    pub fn throw<R>(&mut self, exception: Rooted<ExnRef>) -> Result<R, ThrownException> {
        let reference = exception.reference(&self.0.opaque).expect("an exception of this store that is still rooted");
        self.0.opaque.state.pending_exception = Some(reference);
        Err(ThrownException)
    }

    /// The exception that ended the last call of this store with [`ThrownException`], if it has not been taken yet. In
    /// a host function: the last that ended a call of its own. It is rooted in the current scope.
    pub fn take_pending_exception(&mut self) -> Option<Rooted<ExnRef>> {
        let reference = self.0.opaque.state.pending_exception.take()?;
        Some(Rooted::new(&mut self.0.opaque, reference))
    }

    /// The opaque part, with an address from which the whole store may be reached.
    pub(crate) fn raw(&mut self) -> *mut StoreOpaque {
        (&raw mut *self.0).cast()
    }
}

impl<T: 'static> AsContext for Store<T> {
    type Data = T;

    fn as_context(&self) -> StoreContext<'_, T> {
        StoreContext(self.inner())
    }
}

impl<T: 'static> AsContextMut for Store<T> {
    fn as_context_mut(&mut self) -> StoreContextMut<'_, T> {
        StoreContextMut(self.inner_mut())
    }
}

impl<T: 'static> AsContext for StoreContext<'_, T> {
    type Data = T;

    fn as_context(&self) -> StoreContext<'_, T> {
        *self
    }
}

impl<T: 'static> AsContext for StoreContextMut<'_, T> {
    type Data = T;

    fn as_context(&self) -> StoreContext<'_, T> {
        StoreContext(self.0)
    }
}

impl<T: 'static> AsContextMut for StoreContextMut<'_, T> {
    fn as_context_mut(&mut self) -> StoreContextMut<'_, T> {
        StoreContextMut(self.0)
    }
}

impl<T: 'static> AsContext for Caller<'_, T> {
    type Data = T;

    fn as_context(&self) -> StoreContext<'_, T> {
        self.store().as_context_of()
    }
}

impl<T: 'static> AsContextMut for Caller<'_, T> {
    fn as_context_mut(&mut self) -> StoreContextMut<'_, T> {
        self.store_mut().as_context_mut_of()
    }
}

impl<'a, T: 'static> StoreContextMut<'a, T> {
    fn as_context_of(&self) -> StoreContext<'_, T> {
        StoreContext(self.0)
    }

    fn as_context_mut_of(&mut self) -> StoreContextMut<'_, T> {
        StoreContextMut(self.0)
    }
}

impl<C: AsContext> AsContext for &C {
    type Data = C::Data;

    fn as_context(&self) -> StoreContext<'_, C::Data> {
        C::as_context(self)
    }
}

impl<C: AsContext> AsContext for &mut C {
    type Data = C::Data;

    fn as_context(&self) -> StoreContext<'_, C::Data> {
        C::as_context(self)
    }
}

impl<C: AsContextMut> AsContextMut for &mut C {
    fn as_context_mut(&mut self) -> StoreContextMut<'_, C::Data> {
        C::as_context_mut(self)
    }
}

impl<'a, C: AsContext> From<&'a C> for StoreContext<'a, C::Data> {
    fn from(context: &'a C) -> Self {
        context.as_context()
    }
}

impl<'a, C: AsContext> From<&'a mut C> for StoreContext<'a, C::Data> {
    fn from(context: &'a mut C) -> Self {
        C::as_context(context)
    }
}

impl<'a, C: AsContextMut> From<&'a mut C> for StoreContextMut<'a, C::Data> {
    fn from(context: &'a mut C) -> Self {
        context.as_context_mut()
    }
}

impl<T: 'static> fmt::Debug for StoreContext<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreContext").finish_non_exhaustive()
    }
}

impl<T: 'static> fmt::Debug for StoreContextMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreContextMut").finish_non_exhaustive()
    }
}
