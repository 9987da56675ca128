//! What has root slots lead to objects, not to old copies.

use crate::cage::Cage;
use crate::core::Core;
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::roots::RootVisitor;
use std::marker::PhantomData;

impl<M: ReferenceModel> Core<M> {
    /// What heals roots.
    pub(super) fn healer(&self) -> Healer<'_, M> {
        Healer { cage: &self.pool.cage, model: PhantomData }
    }
}

/// Has root slots lead to objects, not to old copies.
pub(super) struct Healer<'a, M> {
    cage: &'a Cage,
    model: PhantomData<M>,
}

impl<M: ReferenceModel> RootVisitor for Healer<'_, M> {
    fn visit(&mut self, slot: &mut Reference) -> bool {
        // SAFETY: roots lead to objects, or to old copies, none of which is freed before healing is done.
        *slot = unsafe { M::current(self.cage, *slot) };
        false
    }
}
