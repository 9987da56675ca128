//! The references that have been overwritten while a snapshot is marked: what a snapshot barrier records, so that the
//! collector finds every object that was reachable when it began (Yuasa 1990, snapshot at the beginning).
//!
//! Compiled code pushes them to a buffer; a full one is emptied into a list that grows. The barrier heals references to
//! old copies besides, where there can be any.

use super::WriteBarrier;
use crate::cage::Cage;
use crate::context::Context;
use crate::plan::{BufferWords, HealPlan};
use crate::reference::Reference;
use std::ops::Range;

/// References that the buffer holds.
const CAPACITY: usize = 1024;

/// What has been recorded in one heap.
#[derive(Debug, Default)]
pub(crate) struct Overwritten {
    /// `None` where no barrier records anything.
    buffer: Option<Box<[u32; CAPACITY]>>,
    list: Vec<Reference>,
    /// So many of the list, the first, have been looked at by [`retain`](Self::retain).
    retained: usize,
}

impl Overwritten {
    /// An empty buffer, made known to compiled code.
    pub(crate) fn new(context: &mut Context) -> Overwritten {
        let mut overwritten = Overwritten { buffer: Some(Box::new([0; CAPACITY])), ..Overwritten::default() };
        overwritten.flush(context);
        overwritten
    }

    /// Empties the buffer into the list.
    pub(crate) fn flush(&mut self, context: &mut Context) {
        let Some(buffer) = &mut self.buffer else { return };
        let range = buffer.as_mut_ptr_range();
        let words = context.overwritten();
        let pushed = words.cursor.saturating_sub(range.start as usize) / size_of::<u32>();
        self.list.extend(buffer[..pushed].iter().map(|&bits| Reference(bits)));
        *words = BufferWords { cursor: range.start as usize, limit: range.end as usize };
    }

    /// Records a reference, unless it is null or an immediate.
    #[inline]
    pub(crate) fn record(&mut self, reference: Reference) {
        if reference.is_object() {
            self.list.push(reference);
        }
    }

    /// Records the references in slots of an object.
    pub(crate) fn record_slots(&mut self, cage: &Cage, slots: Range<u32>) {
        for slot in slots.step_by(size_of::<Reference>()) {
            // SAFETY: the slots are those of an object, which compiled code may write to, but not now.
            self.record(Reference(unsafe { cage.read(slot) }));
        }
    }

    /// How many references the list holds.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Exchanges the list for another one.
    pub(crate) fn swap(&mut self, list: &mut Vec<Reference>) {
        std::mem::swap(&mut self.list, list);
        self.retained = 0;
    }

    /// Adds references that have been recorded before.
    pub(crate) fn take_back(&mut self, list: &mut Vec<Reference>) {
        if self.list.is_empty() {
            self.swap(list);
        }
        self.list.append(list);
        self.retained = 0;
    }

    /// Keeps some of them alone. What has been kept once stays: the list may be long, and wait for long.
    pub(crate) fn retain(&mut self, keeps: impl Fn(Reference) -> bool) {
        let recorded = self.list.split_off(self.retained);
        self.list.extend(recorded.into_iter().filter(|&reference| keeps(reference)));
        self.retained = self.list.len();
    }

    /// Takes one of them.
    pub(crate) fn pop(&mut self) -> Option<Reference> {
        let last = self.list.pop();
        self.retained = self.retained.min(self.list.len());
        last
    }

    /// Forgets them, and the memory that very many have taken.
    pub(crate) fn clear(&mut self, context: &mut Context) {
        self.flush(context);
        self.list.clear();
        self.retained = 0;
        self.list.shrink_to(1 << 16);
    }

    /// Takes all that has been recorded, in no order, possibly several times each.
    pub(crate) fn take(&mut self, context: &mut Context) -> Vec<Reference> {
        self.flush(context);
        self.retained = 0;
        std::mem::take(&mut self.list)
    }
}

/// The barrier that records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) is_marking: bool,
    /// How, while references to old copies are healed.
    pub(crate) heal: Option<HealPlan>,
}

impl Record {
    /// Heals the references in slots that have been written.
    fn heal(self, cage: &Cage, slots: Range<u32>) {
        let Some(plan) = self.heal else { return };
        for slot in slots.step_by(size_of::<Reference>()) {
            // SAFETY: the slots are those of an object, and lead to objects or old copies, whose headers are
            // accessible.
            unsafe {
                let reference = Reference(cage.read(slot));
                if reference.is_object() {
                    cage.write(slot, plan.word.current(reference, cage.read(reference.0 + plan.forwarding_offset)).0);
                }
            }
        }
    }
}

impl WriteBarrier for Record {
    const HAS_BEFORE: bool = true;

    fn before(self, cage: &Cage, overwritten: &mut Overwritten, slots: Range<u32>) {
        if self.is_marking {
            overwritten.record_slots(cage, slots);
        }
    }

    fn after_field(self, cage: &Cage, slot: u32) {
        self.heal(cage, slot..slot + size_of::<Reference>() as u32);
    }

    fn after_elements(self, cage: &Cage, slots: Range<u32>, are_null: bool) {
        if !are_null {
            self.heal(cage, slots);
        }
    }

    fn adopts_leaves(self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_has_been_kept_once_is_not_looked_at_again() {
        let mut overwritten = Overwritten::default();
        let looks = Cell::new(0);
        let is_old = |reference: Reference| {
            looks.set(looks.get() + 1);
            reference.0 >= 1000
        };
        let record = |overwritten: &mut Overwritten, bits: u32| overwritten.record(Reference(bits));
        (0..100).for_each(|index| record(&mut overwritten, 8 * index + 504));
        overwritten.retain(is_old);
        assert_eq!((looks.take(), overwritten.len()), (100, 38));
        // Some are marked, and more are recorded than that.
        (0..10).for_each(|_| assert!(overwritten.pop().is_some_and(is_old)));
        looks.take();
        (0..20).for_each(|index| record(&mut overwritten, 8 * index + 920));
        overwritten.retain(is_old);
        assert_eq!((looks.take(), overwritten.len()), (20, 28 + 10));
        while let Some(reference) = overwritten.pop() {
            assert!(is_old(reference));
        }
    }
}
