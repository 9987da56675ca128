//! The references that host code holds.
//!
//! Collectors that go on while the mutator runs visit them in steps, as they were when the collector began. Scoped
//! roots are told to the heap's barrier before they are dropped. Owned ones are dropped where no store is at hand:
//! their slots are let go later. A collector lets go those alone that had been dropped when it began, and visits the
//! others once more; a new owned root that finds no free slot lets go some, which the barrier is told.

use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::{Result, bail};
use legato_heap::{Budget, Done, Reference, RootCursor, RootVisitor};

use crate::vm::table::RootBarrier;

/// A place in the stack of scoped roots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RootScopeMark(usize);

/// A scoped root's identity. The generation tells a slot from its later tenants: 64 bits, since guests can drop roots
/// as often as they like.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RootIndex {
    index: usize,
    generation: u64,
}

impl RootIndex {
    /// No root.
    pub(crate) const NONE: RootIndex = RootIndex { index: usize::MAX, generation: u64::MAX };
}

/// Slots let go between two looks at the budget.
const LET_GO_AT_ONCE: usize = 64;
/// Slots let go at a nursery collection, at most: the others live on.
const LET_GO_YOUNG: usize = 4096;
/// Slots let go for a new owned root, at most.
const LET_GO_FOR_ONE: usize = 64;

/// Slots of owned roots that have been dropped.
#[derive(Clone, Default, Debug)]
struct Dropped(Arc<Mutex<Vec<usize>>>);

impl Dropped {
    fn lock(&self) -> MutexGuard<'_, Vec<usize>> {
        // A list is never left half-changed.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// An owned root's identity. Its slot is let go some time after it has been dropped.
#[derive(Debug)]
pub(crate) struct OwnedRoot {
    slot: usize,
    dropped: Dropped,
}

impl Drop for OwnedRoot {
    fn drop(&mut self) {
        self.dropped.lock().push(self.slot);
    }
}

/// The slot of an owned root.
#[derive(Default, Debug)]
struct OwnedSlot {
    /// `None` where the slot is free.
    reference: Option<Reference>,
    /// Whether it is in the list of those that may be young.
    may_be_young: bool,
}

/// References held by host code.
#[derive(Default, Debug)]
pub(crate) struct HostRoots {
    /// Last in, first out.
    scoped: Vec<(u64, Reference)>,
    /// Grows whenever scoped roots are dropped.
    generation: u64,
    /// How many scoped roots, the lowest, have been there at a nursery collection and do not lead to young objects.
    old: usize,
    owned: Vec<OwnedSlot>,
    free: Vec<usize>,
    /// Slots that have been filled since the last nursery collection, or led to young objects then.
    young: Vec<usize>,
    dropped: Dropped,
    /// Those of them that had been dropped when a collector began to visit, and are to be let go.
    gone: Vec<usize>,
    /// Whether a collector has begun and not come past the owned roots yet, though the mutator may run.
    is_under_way: bool,
}

impl HostRoots {
    /// As after so many ends of scopes.
    #[cfg(test)]
    pub(crate) fn set_generation(&mut self, generation: u64) {
        self.generation = generation;
    }

    pub(crate) fn push(&mut self, reference: Reference) -> RootIndex {
        let index = self.scoped.len();
        self.scoped.push((self.generation, reference));
        RootIndex { index, generation: self.generation }
    }

    pub(crate) fn get(&self, root: RootIndex) -> Result<Reference> {
        match self.scoped.get(root.index) {
            Some(&(generation, reference)) if generation == root.generation => Ok(reference),
            _ => bail!("a rooted reference was used after the end of its scope"),
        }
    }

    pub(crate) fn enter(&self) -> RootScopeMark {
        RootScopeMark(self.scoped.len())
    }

    #[inline]
    pub(crate) fn exit(&mut self, mark: RootScopeMark, barrier: &mut impl RootBarrier) {
        if self.scoped.len() > mark.0 {
            self.drop_scoped(mark, barrier);
        }
    }

    /// Ends a scope that has roots.
    #[inline(never)]
    fn drop_scoped(&mut self, mark: RootScopeMark, barrier: &mut impl RootBarrier) {
        barrier.before_store(self.scoped[mark.0..].iter().map(|&(_, reference)| reference));
        self.scoped.truncate(mark.0);
        self.old = self.old.min(mark.0);
        self.generation += 1;
    }

    pub(crate) fn own(&mut self, reference: Reference, barrier: &mut impl RootBarrier) -> Arc<OwnedRoot> {
        if self.free.is_empty() {
            self.reuse_dropped(barrier);
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.owned.push(OwnedSlot::default());
            self.owned.len() - 1
        });
        let place = &mut self.owned[slot];
        place.reference = Some(reference);
        if !std::mem::replace(&mut place.may_be_young, true) {
            self.young.push(slot);
        }
        Arc::new(OwnedRoot { slot, dropped: self.dropped.clone() })
    }

    /// Lets go some of the slots that have been dropped: a host that makes and drops roots between two collections
    /// takes no more slots than it has at once.
    #[cold]
    fn reuse_dropped(&mut self, barrier: &mut impl RootBarrier) {
        let mut dropped = self.dropped.lock();
        let rest = dropped.len().saturating_sub(LET_GO_FOR_ONE);
        barrier.before_store(dropped[rest..].iter().filter_map(|&slot| self.owned[slot].reference));
        for slot in dropped.drain(rest..) {
            self.owned[slot].reference = None;
            self.free.push(slot);
        }
    }

    pub(crate) fn get_owned(&self, root: &OwnedRoot) -> Reference {
        self.owned[root.slot].reference.expect("a slot is kept until its root is dropped")
    }

    /// Notes that a collector begins to visit the roots: what has been dropped by now is none any more.
    pub(crate) fn begin_visit(&mut self) {
        self.is_under_way = true;
        if self.gone.is_empty() {
            std::mem::swap(&mut self.gone, &mut self.dropped.lock());
        }
    }

    /// Lets go the owned roots that had been dropped when the collector began, as far as `budget` allows.
    pub(crate) fn let_go(&mut self, budget: &mut Budget) -> Done {
        while !self.gone.is_empty() {
            if budget.is_exhausted() {
                return Done::No;
            }
            let rest = self.gone.len().saturating_sub(LET_GO_AT_ONCE);
            budget.spend(1 + (self.gone.len() - rest) as u64 / 8);
            for slot in self.gone.drain(rest..) {
                self.owned[slot].reference = None;
                self.free.push(slot);
            }
        }
        Done::Yes
    }

    /// Visits owned roots from the cursor on.
    pub(crate) fn visit_owned(
        &mut self,
        visitor: &mut dyn RootVisitor,
        cursor: &mut RootCursor,
        budget: &mut Budget,
    ) -> Done {
        cursor.advance(self.owned.len(), budget, |range| {
            for reference in self.owned[range].iter_mut().filter_map(|slot| slot.reference.as_mut()) {
                visitor.visit(reference);
            }
        })
    }

    /// Notes that the collector that has begun has visited the owned roots.
    pub(crate) fn end_visit(&mut self) {
        self.is_under_way = false;
    }

    /// Visits scoped roots from the cursor on.
    pub(crate) fn visit_scoped(
        &mut self,
        visitor: &mut dyn RootVisitor,
        cursor: &mut RootCursor,
        budget: &mut Budget,
    ) -> Done {
        cursor.advance(self.scoped.len(), budget, |range| {
            for (_, reference) in &mut self.scoped[range] {
                visitor.visit(reference);
            }
        })
    }

    /// Visits what has been rooted since the last nursery collection, or led to young objects then.
    pub(crate) fn visit_young(&mut self, visitor: &mut dyn RootVisitor) {
        if !self.is_under_way {
            let mut dropped = self.dropped.lock();
            let rest = dropped.len().saturating_sub(LET_GO_YOUNG);
            for slot in dropped.drain(rest..) {
                self.owned[slot].reference = None;
                self.free.push(slot);
            }
        }
        let owned = &mut self.owned;
        self.young.retain(|&slot| {
            let place = &mut owned[slot];
            place.may_be_young = place.reference.as_mut().is_some_and(|reference| visitor.visit(reference));
            place.may_be_young
        });
        let from = self.old;
        self.old = self.scoped.len();
        for (index, (_, reference)) in self.scoped.iter_mut().enumerate().skip(from) {
            if visitor.visit(reference) {
                self.old = self.old.min(index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes down what is told or visited; says that references up to a bound are young.
    #[derive(Default)]
    struct Seen {
        references: Vec<u32>,
        young_below: u32,
    }

    impl RootBarrier for Seen {
        fn before_store(&mut self, overwritten: impl Iterator<Item = Reference>) {
            self.references.extend(overwritten.map(|reference| reference.0));
        }

        fn current(&self, stored: Reference) -> Reference {
            stored
        }
    }

    impl RootVisitor for Seen {
        fn visit(&mut self, slot: &mut Reference) -> bool {
            self.references.push(slot.0);
            slot.0 < self.young_below
        }
    }

    fn owned(roots: &mut HostRoots, cursor: &mut RootCursor, units: u64) -> Vec<u32> {
        let mut seen = Seen::default();
        let _ = roots.visit_owned(&mut seen, cursor, &mut Budget::units(units));
        seen.references
    }

    fn young(roots: &mut HostRoots, young_below: u32) -> Vec<u32> {
        let mut seen = Seen { young_below, ..Seen::default() };
        roots.visit_young(&mut seen);
        seen.references
    }

    #[test]
    fn a_root_of_an_ended_scope_is_told_from_the_next_in_its_place() {
        let mut roots = HostRoots { generation: u32::MAX.into(), ..HostRoots::default() };
        let mark = roots.enter();
        let first = roots.push(Reference(8));
        roots.exit(mark, &mut Seen::default());
        let second = roots.push(Reference(16));
        assert!(roots.get(first).is_err());
        assert_eq!(roots.get(second).unwrap(), Reference(16));
    }

    #[test]
    fn scoped_roots_are_told_before_they_are_dropped() {
        let mut roots = HostRoots::default();
        roots.push(Reference(8));
        let mark = roots.enter();
        [16, 24].iter().for_each(|&bits| _ = roots.push(Reference(bits)));
        let mut told = Seen::default();
        roots.exit(mark, &mut told);
        assert_eq!(told.references, [16, 24]);
    }

    #[test]
    fn owned_roots_dropped_behind_a_beginning_are_visited_once_more() {
        let mut roots = HostRoots::default();
        let [first, second, third] = [8, 16, 24].map(|bits| roots.own(Reference(bits), &mut Seen::default()));
        drop((first.clone(), first));
        roots.begin_visit();
        drop(second);
        assert_eq!(roots.let_go(&mut Budget::unlimited()), Done::Yes);
        assert_eq!(young(&mut roots, 0), [16, 24], "nothing is let go while the visit is under way");
        assert_eq!(owned(&mut roots, &mut RootCursor::default(), 1), [16, 24]);
        assert_eq!(roots.get_owned(&third), Reference(24));
        roots.end_visit();
        // The next collector.
        roots.begin_visit();
        assert_eq!(roots.let_go(&mut Budget::unlimited()), Done::Yes);
        assert_eq!(owned(&mut roots, &mut RootCursor::default(), 1), [24]);
        // The slots are used again.
        let _others = [32, 40, 48].map(|bits| roots.own(Reference(bits), &mut Seen::default()));
        assert_eq!(roots.owned.len(), 4);
    }

    #[test]
    fn roots_that_come_and_go_between_collections_take_few_slots() {
        let mut roots = HostRoots::default();
        let kept = roots.own(Reference(8), &mut Seen::default());
        for is_under_way in [false, true] {
            if is_under_way {
                roots.begin_visit();
            }
            let mut told = Seen::default();
            for bits in 2..1000 {
                drop(roots.own(Reference(8 * bits), &mut told));
            }
            assert!(roots.owned.len() <= 3, "{} slots", roots.owned.len());
            // But for the last, which nobody needed the slot of.
            assert!((2..999).all(|bits| told.references.contains(&(8 * bits))), "the barrier is told of each");
        }
        assert_eq!(roots.get_owned(&kept), Reference(8));
    }

    #[test]
    fn a_nursery_collection_visits_what_is_new_or_young() {
        let mut roots = HostRoots::default();
        let mut kept: Vec<_> = [8, 16, 24].map(|bits| roots.own(Reference(bits), &mut Seen::default())).into();
        [32, 40, 48].iter().for_each(|&bits| _ = roots.push(Reference(bits)));
        assert_eq!(young(&mut roots, 41), [8, 16, 24, 32, 40, 48]);
        assert_eq!(young(&mut roots, 17), [8, 16, 24, 32, 40, 48]);
        assert_eq!(young(&mut roots, 0), [8, 16]);
        assert_eq!(young(&mut roots, 0), []);
        kept.pop();
        kept.push(roots.own(Reference(56), &mut Seen::default()));
        let mark = roots.enter();
        roots.push(Reference(64));
        assert_eq!(young(&mut roots, 100), [56, 64]);
        roots.exit(mark, &mut Seen::default());
        roots.push(Reference(72));
        kept.pop();
        assert_eq!(young(&mut roots, 0), [72]);
    }

    #[test]
    fn owned_roots_are_let_go_in_steps() {
        let mut roots = HostRoots::default();
        let all: Vec<_> = (1..=100_000).map(|index| roots.own(Reference(8 * index), &mut Seen::default())).collect();
        drop(all);
        roots.begin_visit();
        let mut steps = 0;
        loop {
            let before = roots.free.len();
            let done = roots.let_go(&mut Budget::units(16));
            assert!(roots.free.len() - before <= 2 * LET_GO_AT_ONCE, "16 units are 128 slots at most");
            steps += 1;
            if done == Done::Yes {
                break;
            }
        }
        assert!(steps > 700 && roots.free.len() == 100_000);
        let all: Vec<_> = (1..=100_000).map(|index| roots.own(Reference(8 * index), &mut Seen::default())).collect();
        drop(all);
        roots.end_visit();
        young(&mut roots, 0);
        assert_eq!(roots.free.len(), LET_GO_YOUNG);
    }
}
