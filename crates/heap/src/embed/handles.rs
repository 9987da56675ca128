//! Handles, and the slots behind them.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::Error;
use crate::budget::{Budget, Done};
use crate::heap::Heap;
use crate::reference::Reference;
use crate::roots::{RootCursor, RootVisitor, Roots};
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
    dropped: Arc<Dropped>,
}

impl Drop for RootSlot {
    fn drop(&mut self) {
        self.dropped.add(|lists| lists.roots.push(self.slot));
    }
}

/// Leads to an object without keeping it alive. See [`Scope::weak`](super::Scope::weak). It may be dropped anywhere.
#[derive(Debug)]
pub struct Weak {
    heap: HeapId,
    id: WeakId,
    dropped: Arc<Dropped>,
}

impl Drop for Weak {
    fn drop(&mut self) {
        self.dropped.add(|lists| lists.weak.push(self.id));
    }
}

/// What has been dropped, on any thread, and the heap does not know of.
#[derive(Debug, Default)]
struct Dropped {
    /// Whether there is any: each allocation asks.
    any: AtomicBool,
    lists: Mutex<Lists>,
}

#[derive(Debug, Default)]
struct Lists {
    roots: Vec<u32>,
    weak: Vec<WeakId>,
}

impl Dropped {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, add: impl FnOnce(&mut Lists)) {
        let mut lists = self.lists();
        add(&mut lists);
        self.any.store(true, Ordering::Relaxed);
    }
}

/// The slot of a root.
#[derive(Debug)]
struct Kept {
    reference: Reference,
    /// Whether it is on the list of those that nursery collections visit.
    is_listed: bool,
}

/// The slots of a heap's handles: all that keeps its objects alive from outside.
#[derive(Debug)]
pub struct Slots {
    pub(super) heap: HeapId,
    /// Those of the scopes, the innermost last.
    stack: Vec<Reference>,
    /// Those of roots. Free ones are null.
    roots: Vec<Kept>,
    free_roots: Vec<u32>,
    /// Those that nursery collections visit.
    young_roots: Vec<u32>,
    dropped: Arc<Dropped>,
}

impl Slots {
    pub(super) fn new() -> Slots {
        Slots {
            heap: HeapId::next(),
            stack: Vec::new(),
            roots: Vec::new(),
            free_roots: Vec::new(),
            young_roots: Vec::new(),
            dropped: Arc::default(),
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

    /// Keeps a live reference beyond scopes, one that the object has now.
    pub(super) fn root(&mut self, reference: Reference) -> Root {
        let slot = self.free_roots.pop().unwrap_or_else(|| {
            self.roots.push(Kept { reference: Reference::NULL, is_listed: false });
            u32::try_from(self.roots.len() - 1).expect("fewer roots than a 32-bit heap could have objects")
        });
        let kept = &mut self.roots[slot as usize];
        kept.reference = reference;
        if !std::mem::replace(&mut kept.is_listed, true) {
            self.young_roots.push(slot);
        }
        Root(Arc::new(RootSlot { heap: self.heap, slot, dropped: Arc::clone(&self.dropped) }))
    }

    /// Whether handles have been dropped that the heap does not know of.
    #[inline(always)]
    pub(super) fn has_dropped(&self) -> bool {
        // What is being dropped now is seen the next time.
        self.dropped.any.load(Ordering::Relaxed)
    }

    /// Empties the slots of roots that have been dropped, and tells the heap of weak handles that have. A cycle under
    /// way may not have visited the slots.
    #[cold]
    pub(super) fn forget_dropped(&mut self, heap: &mut Heap) {
        let mut lists = self.dropped.lists();
        self.dropped.any.store(false, Ordering::Relaxed);
        for slot in lists.roots.drain(..) {
            let reference = std::mem::replace(&mut self.roots[slot as usize].reference, Reference::NULL);
            heap.before_root_store(std::iter::once(reference));
            self.free_roots.push(slot);
        }
        lists.weak.drain(..).for_each(|weak| heap.drop_weak(weak));
    }

    /// What a root stands for now.
    pub(super) fn rooted(&self, root: &Root) -> Result<Reference, Error> {
        if root.0.heap == self.heap {
            Ok(self.roots[root.0.slot as usize].reference)
        } else {
            Err(Error::OtherHeap("root"))
        }
    }

    /// A weak handle.
    pub(super) fn weak(&self, id: WeakId) -> Weak {
        Weak { heap: self.heap, id, dropped: Arc::clone(&self.dropped) }
    }

    /// What a weak handle leads to.
    pub(super) fn weak_id(&self, weak: &Weak) -> Result<WeakId, Error> {
        if weak.heap == self.heap { Ok(weak.id) } else { Err(Error::OtherHeap("weak handle")) }
    }
}

// SAFETY: a slot is filled with a reference that is live then, and every collection of the heap visits all slots, but
// for a nursery collection those of roots that it has found to lead to old objects and that are the same since. Of
// roots that are dropped the heap is told before their slots are emptied.
unsafe impl Roots for Slots {
    fn visit_roots(&mut self, visitor: &mut dyn RootVisitor) {
        self.visit_frames(visitor);
        self.roots.iter_mut().for_each(|kept| _ = visitor.visit(&mut kept.reference));
    }

    fn visit_frames(&mut self, visitor: &mut dyn RootVisitor) {
        self.stack.iter_mut().for_each(|slot| _ = visitor.visit(slot));
    }

    fn visit_slots(&mut self, visitor: &mut dyn RootVisitor, cursor: &mut RootCursor, budget: &mut Budget) -> Done {
        cursor.advance(self.roots.len(), budget, |range| {
            self.roots[range].iter_mut().for_each(|kept| _ = visitor.visit(&mut kept.reference));
        })
    }

    fn visit_young_roots(&mut self, visitor: &mut dyn RootVisitor) {
        self.visit_frames(visitor);
        let roots = &mut self.roots;
        self.young_roots.retain(|&slot| {
            let kept = &mut roots[slot as usize];
            kept.is_listed = visitor.visit(&mut kept.reference);
            kept.is_listed
        });
    }
}
