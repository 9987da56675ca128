//! How the embedder enumerates the references that it holds.

use crate::budget::{Budget, Done};
use crate::reference::Reference;
use std::ops::Range;

/// Receives root slots from a [`Roots`].
pub trait RootVisitor {
    /// Visits one slot. A moving collector updates it. Returns whether the slot now leads to an object that the next
    /// nursery collection may move or free: see [`Roots::visit_young_roots`].
    fn visit(&mut self, slot: &mut Reference) -> bool;
}

/// How far [`Roots::visit_slots`] has come. The numbers mean what the embedder wants; all are 0 at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RootCursor {
    /// Such as a kind of roots.
    pub kind: usize,
    /// Such as one of several tables.
    pub part: usize,
    /// Such as the next slot.
    pub index: usize,
}

/// Slots visited between two looks at the budget.
const SLOTS_AT_ONCE: usize = 256;
/// Slots that count as much as one object scanned.
const SLOTS_PER_UNIT: u64 = 8;

impl RootCursor {
    /// Calls `visit` with ranges that together make `self.index..length`, as far as `budget` allows; moves the index
    /// on.
    pub fn advance(&mut self, length: usize, budget: &mut Budget, mut visit: impl FnMut(Range<usize>)) -> Done {
        while self.index < length {
            if budget.is_exhausted() {
                return Done::No;
            }
            let range = self.index..length.min(self.index + SLOTS_AT_ONCE);
            self.index = range.end;
            budget.spend(1 + range.len() as u64 / SLOTS_PER_UNIT);
            visit(range);
        }
        Done::Yes
    }
}

/// Units that a collector gives to [`Roots::visit_older_frames`] where a frame is going to run: so much is visited
/// ahead.
pub(crate) const FRAMES_AHEAD: u64 = 64;

/// The embedder's roots: frames, globals, tables, host handles.
///
/// # Safety
/// The collector follows what it is shown, and moves or frees what it is not shown. Therefore:
///
/// - Every slot that [`visit_roots`](Self::visit_roots) or [`visit_young_roots`](Self::visit_young_roots) visits holds
///   null, an immediate, or a reference to an object of the heap that asks: one that the heap has returned, or that was
///   read from a live object, since the last collection, or that was visited in the same slot by every collection
///   since.
/// - Both methods visit the same slots, but for those that `visit_young_roots` may leave out. So do
///   [`visit_frames`](Self::visit_frames) and [`visit_slots`](Self::visit_slots) together.
/// - [`visit_newest_frames`](Self::visit_newest_frames) and [`visit_older_frames`](Self::visit_older_frames) together
///   visit the slots that `visit_frames` would have visited when the former was called, as they were then, but for
///   those that are gone without having been read since.
/// - No method panics: a collection that is left halfway leaves references to what has been moved or freed.
///
/// What is not visited need not be memory-safe to lose: references that were not roots are *stale* after a collection.
/// Reading through one panics or reads something else; passing one to an `unsafe` method that asks for a live object
/// breaks that method's contract.
pub unsafe trait Roots {
    /// Calls `visitor` for every slot that may hold a reference to an object of the heap. Null and immediates are
    /// allowed. Called several times for each collection where the heap is verified.
    fn visit_roots(&mut self, visitor: &mut dyn RootVisitor);

    /// The roots that change without a store barrier, such as frames: visited all at once, while the mutator stands.
    /// Every root, unless implemented otherwise.
    fn visit_frames(&mut self, visitor: &mut dyn RootVisitor) {
        self.visit_roots(visitor);
    }

    /// The same for a collector that goes on while the mutator runs: visits those alone that may change before the
    /// embedder can call [`Heap::visit_older_frames`](crate::Heap::visit_older_frames), and leaves the others to
    /// [`visit_older_frames`](Self::visit_older_frames). What an earlier call has left is forgotten. All of them,
    /// unless implemented otherwise.
    fn visit_newest_frames(&mut self, visitor: &mut dyn RootVisitor) {
        self.visit_frames(visitor);
    }

    /// Goes on with what [`visit_newest_frames`](Self::visit_newest_frames) has left, as it was then, as far as
    /// `budget` allows, the newest first. Nothing, unless implemented otherwise.
    fn visit_older_frames(&mut self, visitor: &mut dyn RootVisitor, budget: &mut Budget) -> Done {
        let _ = (visitor, budget);
        Done::Yes
    }

    /// The others, such as tables and globals, in steps: from `cursor` on, which moves on, as far as `budget` allows.
    /// The mutator may run between two steps. None, unless implemented otherwise.
    fn visit_slots(&mut self, visitor: &mut dyn RootVisitor, cursor: &mut RootCursor, budget: &mut Budget) -> Done {
        let _ = (visitor, cursor, budget);
        Done::Yes
    }

    /// As [`visit_roots`](Self::visit_roots), for a nursery collection: slots may be left out that have not been
    /// written since the last visit by this method for which the visitor returned false. Leaves none out unless
    /// implemented otherwise.
    fn visit_young_roots(&mut self, visitor: &mut dyn RootVisitor) {
        self.visit_roots(visitor);
    }
}

/// No roots at all: a collection frees every object.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRoots;

// SAFETY: nothing is visited.
unsafe impl Roots for NoRoots {
    fn visit_roots(&mut self, _visitor: &mut dyn RootVisitor) {}
}

/// A stack of references, for embedders that need no more. Every collection visits it at once: with many thousands of
/// references it makes pauses longer. Such embedders implement [`Roots::visit_slots`].
///
/// ```
/// # use legato_heap::{Heap, HeapConfig, RootStack, TypeInfo, TypeShape, TypeTable};
/// # let types = TypeTable::new()?;
/// # let id = types.register(TypeInfo { shape: TypeShape::Struct(vec![]), supertype: None })?;
/// # let mut heap = Heap::new(&HeapConfig::default(), types)?;
/// let mut roots = RootStack::new();
/// let object = heap.allocate_struct(id, &mut roots)?;
/// // SAFETY: the object has just been allocated, and `heap` gets these roots in every call.
/// unsafe { roots.push(object) };
/// heap.collect(legato_heap::Cause::Requested, &mut roots);
/// assert_eq!(heap.type_of(roots.get(0)), id);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct RootStack {
    slots: Vec<Reference>,
}

impl RootStack {
    /// An empty stack.
    pub const fn new() -> RootStack {
        RootStack { slots: Vec::new() }
    }

    /// A stack of `count` nulls.
    pub fn of_nulls(count: usize) -> RootStack {
        RootStack { slots: vec![Reference::NULL; count] }
    }

    /// Puts a reference on top.
    ///
    /// # Safety
    /// It is null, an immediate, or an object that is live now; and until it is taken off, this stack is among the
    /// roots in every call of a method of that object's heap that takes roots, and of no other heap's.
    pub unsafe fn push(&mut self, reference: Reference) {
        self.slots.push(reference);
    }

    /// Takes the topmost reference off; `None` where there is none.
    pub fn pop(&mut self) -> Option<Reference> {
        self.slots.pop()
    }

    /// The reference at `index`, counted from the bottom. Panics where there are fewer.
    pub fn get(&self, index: usize) -> Reference {
        self.slots[index]
    }

    /// Replaces the reference at `index`, counted from the bottom. Panics where there are fewer.
    ///
    /// # Safety
    /// As for [`push`](Self::push).
    pub unsafe fn set(&mut self, index: usize, reference: Reference) {
        self.slots[index] = reference;
    }

    /// How many references there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Takes all references off but for the lowest `length`.
    pub fn truncate(&mut self, length: usize) {
        self.slots.truncate(length);
    }
}

// SAFETY: whoever has pushed a reference has said that it was good then, and that no collection has gone by without
// this stack.
unsafe impl Roots for RootStack {
    fn visit_roots(&mut self, visitor: &mut dyn RootVisitor) {
        for slot in &mut self.slots {
            visitor.visit(slot);
        }
    }
}

/// Roots, and some more for the time of a call, whose caller answers for these.
pub(crate) struct Kept<'a> {
    pub(crate) kept: &'a mut [Reference],
    pub(crate) roots: &'a mut dyn Roots,
}

impl Kept<'_> {
    fn visit_kept(&mut self, visitor: &mut dyn RootVisitor) {
        for slot in &mut *self.kept {
            visitor.visit(slot);
        }
    }
}

// SAFETY: the caller of whoever makes this has said that the kept references are live, and the other roots are `Roots`.
unsafe impl Roots for Kept<'_> {
    fn visit_roots(&mut self, visitor: &mut dyn RootVisitor) {
        self.roots.visit_roots(visitor);
        self.visit_kept(visitor);
    }

    fn visit_frames(&mut self, visitor: &mut dyn RootVisitor) {
        self.roots.visit_frames(visitor);
        self.visit_kept(visitor);
    }

    fn visit_newest_frames(&mut self, visitor: &mut dyn RootVisitor) {
        self.roots.visit_newest_frames(visitor);
        self.visit_kept(visitor);
    }

    fn visit_older_frames(&mut self, visitor: &mut dyn RootVisitor, budget: &mut Budget) -> Done {
        self.roots.visit_older_frames(visitor, budget)
    }

    fn visit_slots(&mut self, visitor: &mut dyn RootVisitor, cursor: &mut RootCursor, budget: &mut Budget) -> Done {
        self.roots.visit_slots(visitor, cursor, budget)
    }

    fn visit_young_roots(&mut self, visitor: &mut dyn RootVisitor) {
        self.roots.visit_young_roots(visitor);
        self.visit_kept(visitor);
    }
}
