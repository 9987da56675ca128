//! [`Caller`]: what a host function knows of who called it.

use std::fmt;
use std::time::Duration;

use legato_heap::HeapStats;

use crate::store::StoreOpaque;
use crate::{Engine, Extern, Instance, InterruptHandle, StoreContextMut};

/// The store and, where compiled code called, the instance that called a host function.
///
/// ```
/// use legato::{Caller, Engine, Func, Store};
///
/// let mut store = Store::new(&Engine::default(), 0);
/// let count = Func::wrap(&mut store, |mut caller: Caller<'_, i32>| {
///     *caller.data_mut() += 1;
///     *caller.data()
/// });
/// let count = count.typed::<(), i32>(&store)?;
/// count.call(&mut store, ())?;
/// assert_eq!(count.call(&mut store, ())?, 2);
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct Caller<'a, T: 'static> {
    store: StoreContextMut<'a, T>,
    instance: Option<u32>,
}

impl<'a, T: 'static> Caller<'a, T> {
    /// # Safety
    /// `store` leads to a whole store of a `T`, exclusively for `'a`.
    pub(crate) unsafe fn new(store: *mut StoreOpaque, instance: Option<u32>) -> Caller<'a, T> {
        // SAFETY: the opaque part is the start of the whole.
        Caller { store: StoreContextMut(unsafe { &mut *store.cast() }), instance }
    }

    pub(crate) fn store(&self) -> &StoreContextMut<'a, T> {
        &self.store
    }

    pub(crate) fn store_mut(&mut self) -> &mut StoreContextMut<'a, T> {
        &mut self.store
    }

    /// The store's data.
    pub fn data(&self) -> &T {
        self.store.data()
    }

    /// The store's data.
    pub fn data_mut(&mut self) -> &mut T {
        self.store.data_mut()
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        self.store.engine()
    }

    /// As [`Store::heap_stats`](crate::Store::heap_stats).
    pub fn heap_stats(&self) -> HeapStats {
        self.store.heap_stats()
    }

    /// Collects garbage now.
    pub fn gc(&mut self) {
        self.store.gc();
    }

    /// As [`Store::collect_some`](crate::Store::collect_some).
    pub fn collect_some(&mut self, time: Duration) -> bool {
        self.store.collect_some(time)
    }

    /// As [`Store::interrupt_handle`](crate::Store::interrupt_handle): a host function that waits asks it whether to go
    /// on.
    pub fn interrupt_handle(&self) -> InterruptHandle {
        self.store.interrupt_handle()
    }

    /// An export of the instance that imported, and called, this function; `None` where it has none of that name, or
    /// the function was called by the host.
    pub fn get_export(&mut self, name: &str) -> Option<Extern> {
        self.instance()?.get_export(&mut self.store, name)
    }

    /// The instance that imported, and called, this function; `None` where the host called.
    pub fn instance(&self) -> Option<Instance> {
        self.instance.map(|index| Instance::from_index(&self.store.0.opaque, index))
    }
}

impl<T: 'static> fmt::Debug for Caller<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("instance", &self.instance).finish_non_exhaustive()
    }
}
