//! How the embedder enumerates the references that it holds.

use crate::reference::Reference;

/// Receives root slots from a [`Roots`].
pub trait RootVisitor {
    /// Visits one slot. A moving collector updates it.
    fn visit(&mut self, slot: &mut Reference);
}

/// The embedder's roots: frames, globals, tables, host handles.
pub trait Roots {
    /// Calls `visitor` for every slot that may hold a reference to an object of the heap. Null and immediates are allowed. Called
    /// several times for each collection where the heap is verified.
    fn visit_roots(&mut self, visitor: &mut dyn RootVisitor);
}

/// No roots at all: a collection frees every object.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRoots;

impl Roots for NoRoots {
    fn visit_roots(&mut self, _visitor: &mut dyn RootVisitor) {}
}

impl Roots for Vec<Reference> {
    fn visit_roots(&mut self, visitor: &mut dyn RootVisitor) {
        self.iter_mut().for_each(|slot| visitor.visit(slot));
    }
}

/// Roots, and some more for the time of a call.
pub(crate) struct Kept<'a> {
    pub(crate) kept: &'a mut [Reference],
    pub(crate) roots: &'a mut dyn Roots,
}

impl Roots for Kept<'_> {
    fn visit_roots(&mut self, visitor: &mut dyn RootVisitor) {
        self.roots.visit_roots(visitor);
        self.kept.iter_mut().for_each(|slot| visitor.visit(slot));
    }
}
