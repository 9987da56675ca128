//! The [`Store`]: a heap, everything that lives with it, and the embedder's data.

mod context;
mod functions;
mod host_roots;
mod limits;
mod opaque;
mod roots;
mod state;
mod weak;

pub use context::{AsContext, AsContextMut, StoreContext, StoreContextMut};
pub(crate) use functions::FuncTable;
pub(crate) use host_roots::{HostRoots, OwnedRoot, RootIndex, RootScopeMark};
pub use limits::{LimitExceeded, ResourceLimiter, StoreLimits, StoreLimitsBuilder};
pub use opaque::StoreOpaque;
pub(crate) use opaque::{StoreId, allocation_trap};
pub(crate) use state::{
    ContextMemory, ElementItems, GlobalCell, InstanceData, StoreState, StoredGlobal, StoredMemory, StoredTable,
    StoredTag,
};
pub(crate) use weak::{WeakHandle, WeakRoots};

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::time::Duration;

use anyhow::Result;
use legato_heap::{GcObserver, HeapConfig, HeapStats, PressureSource, VerifyError};

use crate::{Deadline, Engine, ExnRef, InterruptHandle, Rooted, ThrownException};

/// What a [`Store`] points to. The opaque part comes first, so that its address is that of the whole.
#[repr(C)]
pub(crate) struct StoreInner<T> {
    pub(crate) opaque: StoreOpaque,
    data: ManuallyDrop<T>,
}

impl<T> StoreInner<T> {
    pub(crate) fn data(&self) -> &T {
        &self.data
    }

    pub(crate) fn data_mut(&mut self) -> &mut T {
        &mut self.data
    }

    pub(crate) fn split(&mut self) -> (&mut StoreOpaque, &mut T) {
        (&mut self.opaque, &mut self.data)
    }
}

impl<T> Drop for StoreInner<T> {
    fn drop(&mut self) {
        // SAFETY: whoever takes the data out forgets the rest of the value.
        unsafe { ManuallyDrop::drop(&mut self.data) }
    }
}

/// Instances, their memories and tables, and the heap that their objects lie in; and a `T` for host functions.
///
/// Everything instantiated in a store lives as long as it. One thread at a time uses a store; it may move between
/// threads.
///
/// ```
/// use legato::{Caller, Engine, Func, Store};
///
/// let engine = Engine::default();
/// let mut store = Store::new(&engine, vec![1]);
/// let push = Func::wrap(&mut store, |mut caller: Caller<'_, Vec<i32>>, value: i32| caller.data_mut().push(value));
/// push.typed::<i32, ()>(&store)?.call(&mut store, 2)?;
/// assert_eq!(store.into_data(), [1, 2]);
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct Store<T: 'static> {
    /// From `Box::into_raw`. A raw pointer, since compiled code holds it too.
    inner: *mut StoreInner<T>,
    owns: PhantomData<Box<StoreInner<T>>>,
}

// SAFETY: the raw pointers within lead to memory that the store owns; every use of it goes through a borrow of the
// store, but for the atomic words behind an `InterruptHandle`. Host functions and values are required to be `Send +
// Sync`.
unsafe impl<T: Send> Send for Store<T> {}
// SAFETY: a shared borrow of the store only reads what it owns.
unsafe impl<T: Sync> Sync for Store<T> {}

/// A store of its own engine, with default data.
impl<T: Default + 'static> Default for Store<T> {
    fn default() -> Store<T> {
        Store::new(&Engine::default(), T::default())
    }
}

impl<T: 'static> Store<T> {
    /// An empty store. It has no heap yet: address space for one is reserved before the first instance of a module
    /// that has to do with objects, and before the host's first object, which fail where the system refuses it.
    ///
    /// # Panics
    /// If the heap's configuration does not fit the machine. See [`try_new`](Self::try_new).
    pub fn new(engine: &Engine, data: T) -> Store<T> {
        Store::try_new(engine, data).unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// As [`new`](Self::new).
    ///
    /// # Errors
    /// If the heap's configuration does not fit the machine.
    pub fn try_new(engine: &Engine, data: T) -> Result<Store<T>> {
        Store::with_heap(engine, data, engine.heap_config())
    }

    /// As [`try_new`](Self::try_new), with a heap of at most `bytes` in place of the engine's `max`: stores of one
    /// engine, and instances of one module, may have different limits.
    ///
    /// ```
    /// use legato::{Engine, Store};
    ///
    /// let engine = Engine::default();
    /// let small = Store::with_max_heap(&engine, (), 1 << 20)?;
    /// let large = Store::with_max_heap(&engine, (), 512 << 20)?;
    /// assert!(Store::with_max_heap(&engine, (), 100).is_err());
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the heap's configuration allows no such maximum (the sentence says why), or does not fit the machine.
    pub fn with_max_heap(engine: &Engine, data: T, bytes: u64) -> Result<Store<T>> {
        let mut heap = engine.heap_config().clone();
        heap.max_bytes = Some(bytes);
        heap.validate()?;
        Store::with_heap(engine, data, &heap)
    }

    fn with_heap(engine: &Engine, data: T, heap: &HeapConfig) -> Result<Store<T>> {
        let opaque = StoreOpaque::new(engine, heap)?;
        let inner = Box::into_raw(Box::new(StoreInner { opaque, data: ManuallyDrop::new(data) }));
        // SAFETY: just made, and nobody else knows it.
        unsafe { (*inner).opaque.set_address(inner.cast()) };
        Ok(Store { inner, owns: PhantomData })
    }

    fn inner(&self) -> &StoreInner<T> {
        // SAFETY: valid as long as the store; a shared borrow of the store is one of all of it.
        unsafe { &*self.inner }
    }

    fn inner_mut(&mut self) -> &mut StoreInner<T> {
        // SAFETY: valid as long as the store; an exclusive borrow of the store is one of all of it.
        unsafe { &mut *self.inner }
    }

    /// The engine it was made for.
    pub fn engine(&self) -> &Engine {
        &self.inner().opaque.engine
    }

    /// The embedder's data.
    pub fn data(&self) -> &T {
        self.inner().data()
    }

    /// The embedder's data.
    pub fn data_mut(&mut self) -> &mut T {
        self.inner_mut().data_mut()
    }

    /// Drops everything but the embedder's data.
    pub fn into_data(self) -> T {
        let store = ManuallyDrop::new(self);
        // SAFETY: the store is forgotten, so this is the only owner; the data is taken out once, and the part that
        // remains is dropped by itself, without the `Drop` of the whole.
        unsafe {
            let inner = store.inner;
            let data = ManuallyDrop::take(&mut (*inner).data);
            std::ptr::drop_in_place(&raw mut (*inner).opaque);
            std::alloc::dealloc(inner.cast(), std::alloc::Layout::new::<StoreInner<T>>());
            data
        }
    }

    /// Limits what the store's instances may take: `limiter` finds the [`ResourceLimiter`] in the data.
    pub fn limiter(&mut self, limiter: impl (Fn(&mut T) -> &mut dyn ResourceLimiter) + Send + Sync + 'static) {
        self.inner_mut().opaque.limiter = Some(Box::new(move |store, ask| {
            // SAFETY: the address is this store's, and nobody borrows its data now: host code holds it only by a borrow
            // of the whole store, which whoever makes something grow has. The opaque part, which is borrowed, is not
            // touched.
            let data = unsafe { &mut (*store.cast::<StoreInner<T>>()).data };
            ask(limiter(data));
        }));
    }

    /// Collects garbage now.
    pub fn gc(&mut self) {
        self.inner_mut().opaque.gc();
    }

    /// Collects garbage for about so long, where the heap is collected in slices (`collector=realtime`, or
    /// `full=incremental`): goes on with the collection under way, or begins one that is worth it. For hosts that have
    /// nothing else to do now. Returns whether nothing is left to be collected.
    pub fn collect_some(&mut self, time: Duration) -> bool {
        self.inner_mut().opaque.collect_some(time)
    }

    /// Collects garbage now, at once, and gives all memory of the heap that is free then back to the system. Otherwise
    /// it keeps some for what is allocated next. Returns how many bytes of memory the heap has fewer. For hosts whose
    /// guest will be idle for a while: other processes on the machine can have the memory.
    pub fn trim(&mut self) -> u64 {
        self.inner_mut().opaque.trim()
    }

    /// The heap's running totals.
    pub fn heap_stats(&self) -> HeapStats {
        self.inner().opaque.heap.stats()
    }

    /// Reports every collection to `observer` from now on.
    pub fn set_gc_observer(&mut self, observer: Box<dyn GcObserver>) {
        self.inner_mut().opaque.heap.set_observer(observer);
    }

    /// Has `source` asked whether the machine is short of memory, in place of what the system tells
    /// (`sizing=isla-vista`; other rules for the heap's size do not ask).
    pub fn set_pressure_source(&mut self, source: Box<dyn PressureSource>) {
        self.inner_mut().opaque.heap.set_pressure_source(source);
    }

    /// Walks the whole heap and checks its invariants, roots included.
    ///
    /// # Errors
    /// The first broken invariant, described.
    pub fn verify_heap(&mut self) -> Result<(), VerifyError> {
        let opaque = &mut self.inner_mut().opaque;
        opaque.heap.verify(Some(&mut opaque.state))
    }

    /// A handle by which other threads interrupt this store's compiled code.
    pub fn interrupt_handle(&self) -> InterruptHandle {
        InterruptHandle::new(self.inner().opaque.interrupt.clone())
    }

    /// Interrupts this store's compiled code after `duration`, unless the result is dropped before: see
    /// [`InterruptHandle::interrupt_after`].
    pub fn set_deadline(&self, duration: Duration) -> Deadline {
        self.interrupt_handle().interrupt_after(duration)
    }

    /// See [`StoreContextMut::throw`].
    ///
    /// # Errors
    /// Always, so that `?` ends the host function.
    ///
    /// # Panics
    /// If the exception belongs to another store, or its scope has ended.
    pub fn throw<R>(&mut self, exception: Rooted<ExnRef>) -> Result<R, ThrownException> {
        self.as_context_mut().throw(exception)
    }

    /// The exception that ended the last call of this store with [`ThrownException`], if it has not been taken yet. It
    /// is rooted in the current scope: without one, for as long as the store lives.
    pub fn take_pending_exception(&mut self) -> Option<Rooted<ExnRef>> {
        self.as_context_mut().take_pending_exception()
    }

    /// Whether [`take_pending_exception`](Self::take_pending_exception) would return one.
    pub fn has_pending_exception(&self) -> bool {
        self.inner().opaque.state.pending_exception.is_some()
    }
}

impl<T: 'static> Drop for Store<T> {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw`, and the store is its only owner.
        drop(unsafe { Box::from_raw(self.inner) });
    }
}

impl<T: fmt::Debug + 'static> fmt::Debug for Store<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("data", self.data()).finish_non_exhaustive()
    }
}
