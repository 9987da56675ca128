//! Weak references of host code, and queues that tell it which objects have died.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;

use crate::store::{StoreOpaque, WeakHandle};
use crate::{AsContextMut, Rooted};

/// A reference that does not keep its object alive. It can be kept anywhere, and outlive the store.
///
/// ```
/// use legato::{Engine, ExternRef, RootScope, Store};
///
/// let mut store = Store::new(&Engine::default(), ());
/// let (kept, weak) = {
///     let mut scope = RootScope::new(&mut store);
///     let text = ExternRef::new(&mut scope, "text")?;
///     (text.to_owned_rooted(&mut scope)?, text.to_weak_rooted(&mut scope)?)
/// };
/// store.gc();
/// {
///     let mut scope = RootScope::new(&mut store);
///     assert!(weak.to_rooted(&mut scope)?.is_some());
/// }
/// drop(kept);
/// store.gc();
/// assert!(weak.to_rooted(&mut store)?.is_none());
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct WeakRooted<T> {
    handle: Arc<WeakHandle>,
    marker: PhantomData<fn() -> T>,
}

impl<T> Clone for WeakRooted<T> {
    fn clone(&self) -> Self {
        WeakRooted { handle: self.handle.clone(), marker: PhantomData }
    }
}

impl<T> fmt::Debug for WeakRooted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = std::any::type_name::<T>();
        write!(f, "WeakRooted<{}>", name.rsplit("::").next().unwrap_or(name))
    }
}

impl<T> WeakRooted<T> {
    fn new(store: &mut StoreOpaque, object: &Rooted<T>) -> Result<WeakRooted<T>> {
        let object = object.reference(store)?;
        // SAFETY: the object is rooted.
        let handle = unsafe { store.make_weak(object)? };
        Ok(WeakRooted { handle: Arc::new(handle), marker: PhantomData })
    }

    /// The object, rooted in the current scope; `None` where it has died. One that nothing else keeps alive dies at
    /// some collection: a nursery collection where it is young, a full one where it is old. 31-bit integers do not die.
    ///
    /// # Errors
    /// If the store is another.
    pub fn to_rooted(&self, mut store: impl AsContextMut) -> Result<Option<Rooted<T>>> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        opaque.check_id(self.handle.store(), "weak reference")?;
        let object = opaque.heap.get_weak(self.handle.id());
        Ok(object.map(|object| Rooted::new(opaque, object)))
    }
}

impl<T> Rooted<T> {
    /// A weak reference to the object.
    ///
    /// # Errors
    /// If the scope has ended, or the store is another.
    pub fn to_weak_rooted(&self, mut store: impl AsContextMut) -> Result<WeakRooted<T>> {
        WeakRooted::new(&mut store.as_context_mut().0.opaque, self)
    }
}

/// Tells host code which objects have died, as JavaScript's `FinalizationRegistry` does, but without calling anybody:
/// each object is registered with a value of the host's, which is found in the queue after the object's death.
///
/// Clones are the same queue. A queue may serve any number of stores.
///
/// ```
/// use legato::{Engine, ExternRef, FinalizationQueue, RootScope, Store};
///
/// let mut store = Store::new(&Engine::default(), ());
/// let dead = FinalizationQueue::new();
/// let registered = {
///     let mut scope = RootScope::new(&mut store);
///     let texture = ExternRef::new(&mut scope, ())?;
///     dead.register(&mut scope, &texture, "texture 7")?
/// };
/// assert_eq!(dead.next(&mut store), None);
/// store.gc();
/// assert!(registered.to_rooted(&mut store)?.is_none());
/// assert_eq!(dead.next(&mut store), Some("texture 7"));
/// assert_eq!(dead.next(&mut store), None);
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct FinalizationQueue<V> {
    values: Arc<Mutex<VecDeque<V>>>,
}

impl<V> Clone for FinalizationQueue<V> {
    fn clone(&self) -> Self {
        FinalizationQueue { values: self.values.clone() }
    }
}

impl<V> fmt::Debug for FinalizationQueue<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FinalizationQueue").finish_non_exhaustive()
    }
}

impl<V> Default for FinalizationQueue<V> {
    fn default() -> Self {
        FinalizationQueue { values: Arc::default() }
    }
}

impl<V: Send + Sync + 'static> FinalizationQueue<V> {
    /// An empty queue.
    pub fn new() -> FinalizationQueue<V> {
        FinalizationQueue::default()
    }

    /// Puts `value` into the queue after the object has died. The result is a weak reference to the object, and holds
    /// the registration: where it is dropped before, with all of its clones, `value` is dropped too.
    ///
    /// The queue is told once, however many clones there are. An object may be registered several times.
    ///
    /// # Errors
    /// If the scope of the reference has ended, or the store is another.
    #[must_use = "the registration ends where the result is dropped"]
    pub fn register<T>(&self, mut store: impl AsContextMut, object: &Rooted<T>, value: V) -> Result<WeakRooted<T>> {
        let opaque = &mut store.as_context_mut().0.opaque;
        let weak = WeakRooted::new(opaque, object)?;
        let values = Arc::downgrade(&self.values);
        let notify = move || {
            if let Some(values) = values.upgrade() {
                values.lock().unwrap_or_else(PoisonError::into_inner).push_back(value);
            }
        };
        opaque.weak.watch(weak.handle.id(), Box::new(notify));
        Ok(weak)
    }

    /// The value of an object that has died, each once; `None` where there is no other so far. `store` is asked which
    /// of its objects have died.
    ///
    /// Objects that die together come in no particular order.
    pub fn next(&self, mut store: impl AsContextMut) -> Option<V> {
        store.as_context_mut().0.opaque.notify_of_the_dead();
        self.values.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}
