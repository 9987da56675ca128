//! Two copies of an object, kept equal while either may be read: from the object's move on, up to when no reference
//! leads to the old copy ([`Cycle::heal`](super::cycle::Cycle::heal)). The mutator stands while an object is copied: it
//! sees one copy, or two equal ones.
//!
//! What the heap writes for the mutator is mirrored by [`Core::mirror`], what compiled code writes by the
//! [`MirrorPlan`](crate::plan::MirrorPlan). What the collector writes is not: it heals the references in new copies
//! alone, and those in old ones lead to the same objects. It gives up no leaf of zeros of a spine of which there are
//! two.

use crate::blocks::{BLOCK_BYTES, block_of, block_start};
use crate::budget::{Budget, Done};
use crate::core::Core;
use crate::layout::{COLLECTOR_WORD_OFFSET, TYPE_ID_OFFSET};
use crate::references::ReferenceModel;
use crate::references::replicating::Replicas;
use std::ops::Range;

/// Old copies looked at that count as much as one object.
const CELLS_PER_UNIT: u32 = 8;

impl<M: ReferenceModel> Core<M> {
    /// The other copy of an object or old copy, where both are to be kept equal.
    #[inline(always)]
    pub(crate) fn replica(&self, object: u32) -> Option<u32> {
        if !M::REPLICATES || !self.context.has_replicas() {
            return None;
        }
        // SAFETY: objects and old copies have a header.
        let other = unsafe { self.pool.cage.read(object + COLLECTOR_WORD_OFFSET) } & !1;
        (other != object).then_some(other)
    }

    /// Once these bytes have been written, which lie in the object, or in a leaf of its: writes them to the other copy,
    /// if there is one.
    #[inline(always)]
    pub(crate) fn mirror(&self, object: u32, bytes: Range<u32>) {
        if let Some(other) = self.replica(object) {
            self.copy_to_replica(object, other, bytes);
        }
    }

    #[cold]
    fn copy_to_replica(&self, object: u32, other: u32, bytes: Range<u32>) {
        let cell = self.small.classes.cell(self.pool.info(block_of(object)).class as usize);
        if bytes.start < object || bytes.end > object + cell {
            // Both copies lead to the leaf.
            return;
        }
        let cage = &self.pool.cage;
        let (from, to) = (cage.address(bytes.start), cage.address(other + (bytes.start - object)));
        // SAFETY: two copies of an object are cells of one class, and the bytes lie in one of them.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes.len()) };
    }

    /// Goes on with letting the objects that have two copies be the only ones. No reference leads to old copies, and
    /// stores are not mirrored any more.
    pub(crate) fn part_replicas(&mut self, budget: &mut Budget) -> Done {
        let Replicas { blocks: Some(blocks), cells } = &mut self.replicas else { return Done::Yes };
        let cage = &self.pool.cage;
        while let Some(&block) = blocks.last() {
            let cell = self.small.classes.cell(self.pool.info(block).class as usize);
            while *cells < BLOCK_BYTES / cell {
                if budget.is_exhausted() {
                    return Done::No;
                }
                let old = block_start(block) + *cells * cell;
                // SAFETY: cells without an object begin with zero; others with a header. The block is not swept before
                // this is done, nor is the object freed.
                unsafe {
                    let word = cage.read(old + COLLECTOR_WORD_OFFSET);
                    if cage.read(old + TYPE_ID_OFFSET) != 0 && word & 1 != 0 {
                        cage.write((word & !1) + COLLECTOR_WORD_OFFSET, word & !1);
                    }
                }
                *cells += 1;
                if cells.is_multiple_of(CELLS_PER_UNIT) {
                    budget.spend(1);
                }
            }
            blocks.pop();
            *cells = 0;
        }
        Done::Yes
    }
}
