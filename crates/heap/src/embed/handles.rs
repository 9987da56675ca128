//! Handles, and the slots behind them.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::Error;
use crate::reference::Reference;
use crate::roots::{RootVisitor, Roots};
use crate::weak::WeakId;

/// Tells the handles of one heap from those of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeapId(u32);

impl HeapId {
    pub(super) fn next() -> HeapId {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        // A number that has been had before could let a handle of one heap be taken for another's.
        assert!(next < u32::MAX, "fewer than 2^32 heaps in one process");
        HeapId(next)
    }
}

/// A scope's lifetime, exactly.
pub type Brand<'s> = PhantomData<fn(&'s ()) -> &'s ()>;

/// A reference that is good until its scope ends. Copies are the same handle.
#[derive(Clone, Copy, Debug)]
pub struct Local<'s> {
    held: Held,
    scope: Brand<'s>,
}

#[derive(Clone, Copy, Debug)]
enum Held {
    /// Null or an immediate: of any heap, and no slot.
    Itself(Reference),
    Slot(HeapId, u32),
}

impl Local<'_> {
    /// Null or an immediate.
    pub(super) fn itself(reference: Reference) -> Self {
        debug_assert!(!reference.is_object());
        Local { held: Held::Itself(reference), scope: PhantomData }
    }

    /// Whether it is null.
    pub fn is_null(self) -> bool {
        matches!(self.held, Held::Itself(reference) if reference.is_null())
    }

    /// The small integer that it is; `None` for null and for objects.
    pub fn small(self) -> Option<i32> {
        if let Held::Itself(reference) = self.held { reference.i31() } else { None }
    }

    /// Whether it is an object.
    pub fn is_object(self) -> bool {
        matches!(self.held, Held::Slot(..))
    }
}

/// A local whose reference can be replaced, by [`Scope::assign`](super::Scope::assign). Copies are the same variable.
#[derive(Clone, Copy, Debug)]
pub struct Var<'s> {
    heap: HeapId,
    slot: u32,
    scope: Brand<'s>,
}

/// Keeps an object alive until it is dropped, as do its clones. It may be dropped anywhere, also after its heap.
#[derive(Clone, Debug)]
pub struct Root(Arc<RootSlot>);

#[derive(Debug)]
struct RootSlot {
    heap: HeapId,
    slot: u32,
    dropped: Arc<Dropped<u32>>,
}

impl Drop for RootSlot {
    fn drop(&mut self) {
        self.dropped.push(self.slot);
    }
}

/// Leads to an object without keeping it alive. See [`Scope::weak`](super::Scope::weak). It may be dropped anywhere.
#[derive(Debug)]
pub struct Weak {
    heap: HeapId,
    id: WeakId,
    dropped: Arc<Dropped<WeakId>>,
}

impl Drop for Weak {
    fn drop(&mut self) {
        self.dropped.push(self.id);
    }
}

/// What has been dropped, on any thread, and the heap does not know of.
#[derive(Debug)]
struct Dropped<T> {
    /// Whether there are any: each allocation asks.
    any: AtomicBool,
    list: Mutex<Vec<T>>,
}

impl<T> Dropped<T> {
    fn new() -> Arc<Dropped<T>> {
        Arc::new(Dropped { any: AtomicBool::new(false), list: Mutex::new(Vec::new()) })
    }

    fn list(&self) -> MutexGuard<'_, Vec<T>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, item: T) {
        let mut list = self.list();
        list.push(item);
        self.any.store(true, Ordering::Relaxed);
    }

    #[inline]
    fn take(&self) -> Vec<T> {
        // What is being dropped now is taken the next time.
        if !self.any.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut list = self.list();
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *list)
    }
}

/// The slots of a heap's handles: all that keeps its objects alive from outside.
#[derive(Debug)]
pub struct Slots {
    pub(super) heap: HeapId,
    /// Those of the scopes, the innermost last.
    stack: Vec<Reference>,
    /// Those of roots. Free ones are null.
    roots: Vec<Reference>,
    free_roots: Vec<u32>,
    dropped_roots: Arc<Dropped<u32>>,
    dropped_weak: Arc<Dropped<WeakId>>,
}

impl Slots {
    pub(super) fn new() -> Slots {
        Slots {
            heap: HeapId::next(),
            stack: Vec::new(),
            roots: Vec::new(),
            free_roots: Vec::new(),
            dropped_roots: Dropped::new(),
            dropped_weak: Dropped::new(),
        }
    }

    /// How many slots scopes have.
    pub(super) fn depth(&self) -> usize {
        self.stack.len()
    }

    /// Ends the handles of a scope.
    pub(super) fn truncate(&mut self, depth: usize) {
        self.stack.truncate(depth);
    }

    /// A handle in the innermost scope, whose lifetime the caller chooses so. The reference is live.
    pub(super) fn hold<'s>(&mut self, reference: Reference) -> Local<'s> {
        if !reference.is_object() {
            return Local { held: Held::Itself(reference), scope: PhantomData };
        }
        Local { held: Held::Slot(self.heap, self.push(reference)), scope: PhantomData }
    }

    /// The same, of a variable.
    pub(super) fn hold_variable<'s>(&mut self, reference: Reference) -> Var<'s> {
        Var { heap: self.heap, slot: self.push(reference), scope: PhantomData }
    }

    fn push(&mut self, reference: Reference) -> u32 {
        self.stack.push(reference);
        u32::try_from(self.stack.len() - 1).expect("fewer handles than a 32-bit heap could have objects")
    }

    /// What a local stands for now.
    pub(super) fn reference(&self, local: Local<'_>) -> Result<Reference, Error> {
        match local.held {
            Held::Itself(reference) => Ok(reference),
            Held::Slot(heap, slot) if heap == self.heap => Ok(self.stack[slot as usize]),
            Held::Slot(..) => Err(Error::OtherHeap("handle")),
        }
    }

    /// The slot of a variable.
    pub(super) fn variable(&mut self, var: Var<'_>) -> Result<&mut Reference, Error> {
        if var.heap == self.heap { Ok(&mut self.stack[var.slot as usize]) } else { Err(Error::OtherHeap("variable")) }
    }

    /// Keeps a live reference beyond scopes.
    pub(super) fn root(&mut self, reference: Reference) -> Root {
        self.forget_roots();
        let slot = self.free_roots.pop().unwrap_or_else(|| {
            self.roots.push(Reference::NULL);
            u32::try_from(self.roots.len() - 1).expect("fewer roots than a 32-bit heap could have objects")
        });
        self.roots[slot as usize] = reference;
        Root(Arc::new(RootSlot { heap: self.heap, slot, dropped: Arc::clone(&self.dropped_roots) }))
    }

    /// Empties the slots of roots that have been dropped.
    #[inline]
    pub(super) fn forget_roots(&mut self) {
        for slot in self.dropped_roots.take() {
            self.roots[slot as usize] = Reference::NULL;
            self.free_roots.push(slot);
        }
    }

    /// What a root stands for now.
    pub(super) fn rooted(&self, root: &Root) -> Result<Reference, Error> {
        if root.0.heap == self.heap { Ok(self.roots[root.0.slot as usize]) } else { Err(Error::OtherHeap("root")) }
    }

    /// A weak handle.
    pub(super) fn weak(&self, id: WeakId) -> Weak {
        Weak { heap: self.heap, id, dropped: Arc::clone(&self.dropped_weak) }
    }

    /// What a weak handle leads to.
    pub(super) fn weak_id(&self, weak: &Weak) -> Result<WeakId, Error> {
        if weak.heap == self.heap { Ok(weak.id) } else { Err(Error::OtherHeap("weak handle")) }
    }

    /// The weak handles that have been dropped since.
    pub(super) fn take_dropped_weak(&self) -> Vec<WeakId> {
        self.dropped_weak.take()
    }
}

// SAFETY: a slot is filled with a reference that is live then, and every collection of the heap visits all slots.
unsafe impl Roots for Slots {
    fn visit_roots(&mut self, visitor: &mut dyn RootVisitor) {
        for slot in self.stack.iter_mut().chain(&mut self.roots) {
            visitor.visit(slot);
        }
    }
}
