//! The world's roots.

use super::World;
use legato_heap::{Budget, Done, Reference, RootCursor, RootVisitor, Roots};

/// Roots: one slot per shadow root, in parallel. Up to [`FRAMES`] they stand for frames, behind it for globals and
/// tables.
pub struct RootSet {
    pub slots: Vec<Reference>,
}

const FRAMES: usize = 14;

// SAFETY: the slots hold what the heap has given, and are among the roots of every call.
unsafe impl Roots for RootSet {
    fn visit_roots(&mut self, visitor: &mut dyn RootVisitor) {
        for slot in &mut self.slots {
            visitor.visit(slot);
        }
    }

    fn visit_frames(&mut self, visitor: &mut dyn RootVisitor) {
        for slot in &mut self.slots[..FRAMES] {
            visitor.visit(slot);
        }
    }

    fn visit_slots(&mut self, visitor: &mut dyn RootVisitor, cursor: &mut RootCursor, budget: &mut Budget) -> Done {
        while let Some(slot) = self.slots[FRAMES..].get_mut(cursor.index) {
            if budget.is_exhausted() {
                return Done::No;
            }
            visitor.visit(slot);
            cursor.index += 1;
            budget.spend(1);
        }
        Done::Yes
    }
}

impl World {
    /// Changes a root.
    pub(super) fn set_root(&mut self, index: usize, reference: Reference) {
        if index >= FRAMES {
            self.heap.before_root_store(std::iter::once(self.roots.slots[index]));
        }
        self.roots.slots[index] = reference;
    }
}
