//! The weak references of a store's host code.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use anyhow::Result;
use legato_heap::{Reference, WeakId};
use rustc_hash::FxHashMap;

use crate::store::{StoreId, StoreOpaque};

/// Ids of the heap's weak references that no handle stands for any more.
type Dropped = Mutex<Vec<WeakId>>;

/// What stands for one of the heap's weak references. It may be dropped without its store at hand.
#[derive(Debug)]
pub(crate) struct WeakHandle {
    store: StoreId,
    id: WeakId,
    /// The store's, as long as there is one.
    dropped: Weak<Dropped>,
}

impl WeakHandle {
    pub(crate) fn store(&self) -> StoreId {
        self.store
    }

    pub(crate) fn id(&self) -> WeakId {
        self.id
    }
}

impl Drop for WeakHandle {
    fn drop(&mut self) {
        if let Some(dropped) = self.dropped.upgrade() {
            dropped.lock().unwrap_or_else(PoisonError::into_inner).push(self.id);
        }
    }
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct WeakRoots {
    /// At most as many as the heap has weak references.
    dropped: Arc<Dropped>,
    /// What is to be called once an object has died.
    watched: FxHashMap<WeakId, Box<dyn FnOnce() + Send + Sync>>,
}

impl WeakRoots {
    /// Has `notify` called once the object has died.
    pub(crate) fn watch(&mut self, id: WeakId, notify: Box<dyn FnOnce() + Send + Sync>) {
        self.watched.insert(id, notify);
    }
}

impl fmt::Debug for WeakRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakRoots").field("watched", &self.watched.len()).finish_non_exhaustive()
    }
}

impl StoreOpaque {
    /// A weak reference to an object.
    ///
    /// # Errors
    /// If the object is an immediate, and there is no address space for the heap that it is the first in.
    ///
    /// # Safety
    /// The object is live.
    pub(crate) unsafe fn make_weak(&mut self, object: Reference) -> Result<WeakHandle> {
        self.open_heap()?;
        self.drop_weak();
        // SAFETY: passed on to the caller.
        let id = unsafe { self.heap.make_weak(object) };
        Ok(WeakHandle { store: self.id, id, dropped: Arc::downgrade(&self.weak.dropped) })
    }

    /// Drops the heap's weak references that no handle stands for any more.
    pub(crate) fn drop_weak(&mut self) {
        loop {
            let dropped = std::mem::take(&mut *self.weak.dropped.lock().unwrap_or_else(PoisonError::into_inner));
            if dropped.is_empty() {
                return;
            }
            for id in dropped {
                self.heap.drop_weak(id);
                // What it holds is the embedder's, and may drop further handles.
                self.weak.watched.remove(&id);
            }
        }
    }

    /// Calls what has been waiting for the death of objects that have died.
    pub(crate) fn notify_of_the_dead(&mut self) {
        self.drop_weak();
        while let Some(id) = self.heap.take_cleared() {
            if let Some(notify) = self.weak.watched.remove(&id) {
                notify();
            }
        }
    }
}
