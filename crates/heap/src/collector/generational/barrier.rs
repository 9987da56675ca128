//! The write barrier: what is stored into an old object is remembered, by cards; and while a cycle marks, what is
//! overwritten there is recorded.

use crate::barrier::{Overwritten, WriteBarrier};
use crate::cage::Cage;
use std::ops::Range;

/// The barrier of one object. (Compiled code looks at the value's age first, and may use the store buffer.)
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remember {
    pub(super) object: u32,
    /// Whether no nursery collection comes by the object.
    pub(super) is_old: bool,
    /// Whether a cycle marks.
    pub(super) is_marking: bool,
}

impl WriteBarrier for Remember {
    const HAS_BEFORE: bool = true;

    /// A young object is newer than the snapshot.
    #[inline(always)]
    fn before(self, cage: &Cage, overwritten: &mut Overwritten, slots: Range<u32>) {
        if self.is_marking && self.is_old {
            overwritten.record_slots(cage, slots);
        }
    }

    fn after_field(self, cage: &Cage, _slot: u32) {
        if self.is_old {
            cage.mark_card(self.object);
        }
    }

    #[inline(always)]
    fn after_elements(self, cage: &Cage, slots: Range<u32>, are_null: bool) {
        if self.is_old && !are_null {
            cage.mark_cards(slots.start, slots.end - slots.start);
        }
    }

    #[inline(always)]
    fn adopts_leaves(self) -> bool {
        self.is_old
    }
}
