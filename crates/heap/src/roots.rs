//! How the embedder enumerates the references that it holds.

use crate::reference::Reference;

/// Receives root slots from a [`Roots`].
pub trait RootVisitor {
    /// Visits one slot. A moving collector updates it. Returns whether the slot now leads to an object that the next nursery
    /// collection may move or free: see [`Roots::visit_young_roots`].
    fn visit(&mut self, slot: &mut Reference) -> bool;
}

/// The embedder's roots: frames, globals, tables, host handles.
pub trait Roots {
    /// Calls `visitor` for every slot that may hold a reference to an object of the heap. Null and immediates are allowed. Called
    /// several times for each collection where the heap is verified.
    fn visit_roots(&mut self, visitor: &mut dyn RootVisitor);

    /// As [`visit_roots`](Self::visit_roots), for a nursery collection: slots may be left out that have not been written since the last
    /// visit by this method for which the visitor returned false. Leaves none out unless implemented otherwise.
    fn visit_young_roots(&mut self, visitor: &mut dyn RootVisitor) {
        self.visit_roots(visitor);
    }
}

/// No roots at all: a collection frees every object.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRoots;

impl Roots for NoRoots {
    fn visit_roots(&mut self, _visitor: &mut dyn RootVisitor) {}
}

impl Roots for Vec<Reference> {
    fn visit_roots(&mut self, visitor: &mut dyn RootVisitor) {
        for slot in self {
            visitor.visit(slot);
        }
    }
}

/// Roots, and some more for the time of a call.
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

impl Roots for Kept<'_> {
    fn visit_roots(&mut self, visitor: &mut dyn RootVisitor) {
        self.roots.visit_roots(visitor);
        self.visit_kept(visitor);
    }

    fn visit_young_roots(&mut self, visitor: &mut dyn RootVisitor) {
        self.roots.visit_young_roots(visitor);
        self.visit_kept(visitor);
    }
}
