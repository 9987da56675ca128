//! The write barrier: what a store of a reference does besides, before it and after it.
//!
//! A collector gives a [`WriteBarrier`] for each object that is written to. Every store of the heap's own goes through
//! it: fields in [`Heap::store_reference`](crate::Heap::store_reference), elements by way of a
//! [`Destination`](crate::arrays::elements::Destination). Compiled code has the same barrier from the
//! [`BarrierPlan`](crate::plan::BarrierPlan), and the embedder's roots from
//! [`Heap::before_root_store`](crate::Heap::before_root_store).
//!
//! A store is *initialising* where the slot holds no reference yet: then there is nothing to see before it.

mod overwritten;

pub(crate) use overwritten::{Overwritten, Record};

use crate::cage::Cage;
use std::ops::Range;

/// What stores of references into one object do besides. Slots are given by their cage offsets.
pub(crate) trait WriteBarrier: Copy {
    /// Whether [`before`](Self::before) does anything.
    const HAS_BEFORE: bool;

    /// Before the references in `slots` are overwritten, or cease to be the object's.
    fn before(self, cage: &Cage, overwritten: &mut Overwritten, slots: Range<u32>);

    /// After the field at `slot` has been written.
    fn after_field(self, cage: &Cage, slot: u32);

    /// After the elements in `slots` have been written, or have become the object's. `are_null`: all of them are null.
    fn after_elements(self, cage: &Cage, slots: Range<u32>, are_null: bool);

    /// Whether leaves that the object takes count as live at once, as the next collection may not come by the object.
    fn adopts_leaves(self) -> bool;
}

/// The barrier of a collector that stops the mutator and traces everything; and that of a new object, which no
/// collection has seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoBarrier;

impl WriteBarrier for NoBarrier {
    const HAS_BEFORE: bool = false;

    #[inline(always)]
    fn before(self, _cage: &Cage, _overwritten: &mut Overwritten, _slots: Range<u32>) {}

    #[inline(always)]
    fn after_field(self, _cage: &Cage, _slot: u32) {}

    #[inline(always)]
    fn after_elements(self, _cage: &Cage, _slots: Range<u32>, _are_null: bool) {}

    #[inline(always)]
    fn adopts_leaves(self) -> bool {
        false
    }
}
