//! Handles, and the slots behind them.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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
}

/// Leads to an object without keeping it alive. See [`Scope::weak`](super::Scope::weak). It may be dropped anywhere.
#[derive(Debug)]
pub struct Weak {
    heap: HeapId,
    id: WeakId,
    dropped: Arc<Mutex<Vec<WeakId>>>,
}

impl Drop for Weak {
    fn drop(&mut self) {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).push(self.id);
    }
}

/// The slots of a heap's handles: all that keeps its objects alive from outside.
#[derive(Debug)]
pub struct Slots {
    pub(super) heap: HeapId,
    /// Those of the scopes, the innermost last.
    stack: Vec<Reference>,
    roots: Vec<Option<(Reference, Arc<RootSlot>)>>,
    free_roots: Vec<u32>,
    dropped_weak: Arc<Mutex<Vec<WeakId>>>,
}

impl Slots {
    pub(super) fn new() -> Slots {
        let (stack, roots, free_roots) = (Vec::new(), Vec::new(), Vec::new());
        Slots { heap: HeapId::next(), stack, roots, free_roots, dropped_weak: Arc::default() }
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
        if self.free_roots.is_empty() && self.roots.len() == self.roots.capacity() {
            // Once for each time that they double.
            self.forget_roots();
        }
        let slot = self.free_roots.pop().unwrap_or_else(|| {
            self.roots.push(None);
            u32::try_from(self.roots.len() - 1).expect("fewer roots than a 32-bit heap could have objects")
        });
        let root = Arc::new(RootSlot { heap: self.heap, slot });
        self.roots[slot as usize] = Some((reference, Arc::clone(&root)));
        Root(root)
    }

    /// Empties the slots of roots that have been dropped.
    pub(super) fn forget_roots(&mut self) {
        for (slot, held) in self.roots.iter_mut().enumerate() {
            if held.take_if(|(_, root)| Arc::strong_count(root) == 1).is_some() {
                self.free_roots.push(slot as u32);
            }
        }
    }

    /// What a root stands for now.
    pub(super) fn rooted(&self, root: &Root) -> Result<Reference, Error> {
        match self.roots.get(root.0.slot as usize) {
            Some(Some((reference, _))) if root.0.heap == self.heap => Ok(*reference),
            _ => Err(Error::OtherHeap("root")),
        }
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
        std::mem::take(&mut *self.dropped_weak.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

// SAFETY: a slot is filled with a reference that is live then, and every collection of the heap visits all slots.
unsafe impl Roots for Slots {
    fn visit_roots(&mut self, visitor: &mut dyn RootVisitor) {
        for slot in self.stack.iter_mut().chain(self.roots.iter_mut().flatten().map(|(reference, _)| reference)) {
            visitor.visit(slot);
        }
    }
}
