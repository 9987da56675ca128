//! What a heap does with its weak references.

use super::{State, WeakId};
use crate::collector::Collect;
use crate::core::Core;
use crate::heap::{Heap, Inner, dispatch};
use crate::reference::Reference;
use crate::references::ReferenceModel;
use std::iter::once;

impl<M: ReferenceModel> Core<M> {
    /// Whether the object of a slot has been found dead, though the slot has not been cleared yet.
    fn is_slot_condemned(&self, weak: WeakId) -> bool {
        // SAFETY: the slot has not been cleared, so that the object has not been swept.
        let object = |reference| unsafe { M::object(&self.pool.cage, M::current(&self.pool.cage, reference)) };
        self.weak.unswept(weak).is_some_and(|reference| !self.pool.marks.get(object(reference)))
    }

    /// As [`Heap::get_weak`].
    fn get_weak(&mut self, weak: WeakId) -> Option<Reference> {
        match self.weak.state(weak) {
            Some(State::Leads { object, .. }) if !self.is_slot_condemned(weak) => {
                self.before_root_store(once(object));
                Some(self.current(object))
            }
            _ => None,
        }
    }
}

impl Heap {
    /// Makes a weak reference to an object, which does not keep it alive. One to an immediate is never cleared. It
    /// takes some words of memory until it is dropped by [`drop_weak`](Self::drop_weak). Never collects.
    ///
    /// ```
    /// # use legato_heap::{Cause, Heap, HeapConfig, NoRoots, RootStack, TypeInfo, TypeShape, TypeTable};
    /// # let types = TypeTable::new()?;
    /// # let id = types.register(TypeInfo { shape: TypeShape::Struct(vec![]), supertype: None })?;
    /// # let mut heap = Heap::new(&HeapConfig::default(), types)?;
    /// let mut roots = RootStack::new();
    /// let object = heap.allocate_struct(id, &mut roots)?;
    /// // SAFETY: the object has just been allocated, and `heap` gets these roots in every call.
    /// unsafe { roots.push(object) };
    /// // SAFETY: the object has just been allocated.
    /// let weak = unsafe { heap.make_weak(object) };
    /// heap.collect(Cause::Requested, &mut roots);
    /// assert_eq!(heap.get_weak(weak), Some(roots.get(0)));
    /// heap.collect(Cause::Requested, &mut NoRoots);
    /// assert_eq!(heap.get_weak(weak), None);
    /// assert_eq!(heap.take_cleared(), Some(weak));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// Where the reference is null.
    ///
    /// # Safety
    /// `object` is an immediate, or an object of this heap that is live now.
    pub unsafe fn make_weak(&mut self, object: Reference) -> WeakId {
        assert!(!object.is_null(), "a weak reference to null");
        dispatch!(&mut self.0, heap => {
            let object = heap.core.current(object);
            let is_young = heap.is_young(object);
            heap.core.weak.insert(object, is_young)
        })
    }

    /// The object of a weak reference, which is live then like any that has been read from a live object; `None` where
    /// it has died, or the weak reference has been dropped.
    pub fn get_weak(&mut self, weak: WeakId) -> Option<Reference> {
        dispatch!(&mut self.0, _ => None, heap => heap.core.get_weak(weak))
    }

    /// Whether [`get_weak`](Self::get_weak) would give an object, which this does not keep alive.
    pub fn is_weak_alive(&self, weak: WeakId) -> bool {
        dispatch!(&self.0, _ => false, heap => {
            matches!(heap.core.weak.state(weak), Some(State::Leads { .. })) && !heap.core.is_slot_condemned(weak)
        })
    }

    /// Drops a weak reference. Nothing happens where that has been done.
    pub fn drop_weak(&mut self, weak: WeakId) {
        dispatch!(&mut self.0, _ => (), heap => heap.core.weak.remove(weak))
    }

    /// A weak reference whose object has died, each once, in no order; `None` where there is no other. Those that have
    /// been dropped are left out: nothing piles up where nobody asks.
    pub fn take_cleared(&mut self) -> Option<WeakId> {
        dispatch!(&mut self.0, _ => None, heap => heap.core.weak.take_cleared())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Budget, Done};
    use crate::collector::mark_sweep::MarkSweep;
    use crate::external::Fate;
    use crate::observer::PhaseTimes;
    use crate::references::direct::Direct;
    use crate::references::thin_handles::ThinHandles;
    use crate::roots::{NoRoots, RootStack};
    use crate::type_table::TypeTable;
    use crate::types::{TypeId, TypeInfo, TypeShape};
    use crate::weak::WeakTable;
    use crate::{Cause, HeapConfig};

    /// A heap of any reference model, and a type.
    fn heap<M: ReferenceModel>() -> (MarkSweep<M>, TypeId) {
        let types = TypeTable::new().unwrap();
        let id = types.register(TypeInfo { shape: TypeShape::Struct(vec![]), supertype: None }).unwrap();
        (MarkSweep::new(&HeapConfig::default(), types).unwrap(), id)
    }

    fn sweep_in_steps<M: ReferenceModel>() {
        const COUNT: usize = 8;
        let (mut heap, id) = heap::<M>();
        let objects = [(); COUNT].map(|()| heap.allocate_struct(id, &mut NoRoots).unwrap());
        let all = objects.map(|object| heap.core.weak.insert(object, false));
        let value = heap.allocate_external(Box::new(1), 0, &mut NoRoots).unwrap();
        let value = heap.core.external_slot(value).unwrap();
        let mut roots = RootStack::new();
        // SAFETY: just allocated, and the heap gets these roots.
        (0..COUNT).step_by(2).for_each(|index| unsafe { roots.push(objects[index]) });
        heap.core.mark(&mut roots, &mut PhaseTimes::default());
        assert_eq!(all.map(|weak| heap.core.get_weak(weak).is_some()), [true; COUNT], "marking may not be over");
        let mut sweeping = heap.core.start_sweep(true);
        let lives = std::array::from_fn(|index| index % 2 == 0);
        let mut made = Vec::new();
        while heap.core.sweep(&mut sweeping, &mut Budget::units(1)) == Done::No {
            assert_eq!(all.map(|weak| heap.core.get_weak(weak).is_some()), lives, "in every step of the sweep");
            // What is new is not swept, be it marked or not: in a free slot, and in a new one.
            heap.core.weak.remove(all[1]);
            let object = heap.core.new_reference(heap.core.object(objects[0]));
            made.push((heap.core.weak.insert(object, false), object));
        }
        assert!(made.len() > COUNT, "one step for each slot at least");
        assert!(made.iter().all(|&(weak, object)| heap.core.get_weak(weak) == Some(object)));
        assert!(heap.core.externals.get(value).is_none());
        assert_eq!(heap.core.weak.cleared.len(), COUNT / 2 - 1, "the first was dropped");
    }

    #[test]
    fn a_dead_object_is_not_given_out_between_the_steps_of_a_sweep() {
        sweep_in_steps::<Direct>();
        sweep_in_steps::<ThinHandles>();
    }

    #[test]
    fn what_is_made_during_a_sweep_is_left_to_the_next_one() {
        let (mut heap, id) = heap::<Direct>();
        let old = heap.allocate_struct(id, &mut NoRoots).unwrap();
        let [before, freed] = [(); 2].map(|()| heap.core.weak.insert(old, false));
        heap.core.mark(&mut NoRoots, &mut PhaseTimes::default());
        let mut sweeping = heap.core.start_sweep(true);
        // As if it had been allocated now, and not been marked: in a slot that the sweep will come to.
        heap.core.weak.remove(freed);
        let after = heap.core.weak.insert(old, false);
        assert!(heap.core.weak.unswept.contains(&(after.slot as usize)));
        let slot = heap.core.externals.insert(Box::new(1), 0, old);
        let unlimited = &mut Budget::unlimited();
        assert_eq!(heap.core.sweep(&mut sweeping, unlimited), Done::Yes);
        assert_eq!((heap.core.get_weak(before), heap.core.get_weak(after)), (None, Some(old)));
        assert!(heap.core.externals.get(slot).is_some());
        heap.collect(Cause::Requested, &mut NoRoots);
        assert_eq!(heap.core.get_weak(after), None);
        assert!(heap.core.externals.get(slot).is_none());
    }

    #[test]
    fn an_object_that_is_got_while_a_snapshot_is_marked_is_recorded() {
        let (mut heap, id) = heap::<Direct>();
        heap.core.overwritten = crate::barrier::Overwritten::new(&mut heap.core.context);
        let object = heap.allocate_struct(id, &mut NoRoots).unwrap();
        let weak = heap.core.weak.insert(object, false);
        for (is_marking, recorded) in [(false, vec![]), (true, vec![object])] {
            heap.core.context.set_marking(is_marking);
            assert_eq!(heap.core.get_weak(weak), Some(object));
            assert_eq!(heap.core.overwritten.take(&mut heap.core.context), recorded);
        }
    }

    #[test]
    fn a_slot_is_told_from_its_next_tenants() {
        let mut table = WeakTable::default();
        let first = table.insert(Reference(8), true);
        table.remove(first);
        table.remove(first);
        let second = table.insert(Reference(16), true);
        assert_eq!((first.slot, second.slot), (0, 0));
        assert!(table.state(first).is_none() && table.young.len() == 1 && table.count() == 1);
        // The slot's last tenant.
        table.slots[0].generation = u32::MAX;
        let last = WeakId { generation: u32::MAX, ..second };
        table.remove(last);
        table.remove(last);
        assert_ne!(table.insert(Reference(24), false).slot, 0);
    }

    #[test]
    fn who_is_dropped_is_not_told_of() {
        let mut table = WeakTable::default();
        let all = [(); 5].map(|()| table.insert(Reference(8), true));
        table.nursery_collected(|_| Fate::Dead);
        [1, 4, 0].into_iter().for_each(|index| table.remove(all[index]));
        let mut told: Vec<_> = std::iter::from_fn(|| table.take_cleared()).collect();
        told.sort_by_key(|weak| weak.slot);
        assert_eq!(told, [all[2], all[3]]);
        table.remove(all[2]);
        assert!(table.take_cleared().is_none() && table.young.is_empty());
    }

    #[test]
    fn a_nursery_collection_looks_at_young_objects_alone() {
        let mut table = WeakTable::default();
        (0..100_000).for_each(|_| _ = table.insert(Reference(8), true));
        table.nursery_collected(|_| Fate::Moved(Reference(16)));
        (0..10).for_each(|_| _ = table.insert(Reference(8), true));
        let looks = std::cell::Cell::new(0);
        table.nursery_collected(|_| {
            looks.set(looks.get() + 1);
            if looks.get() > 4 { Fate::Young } else { Fate::Dead }
        });
        assert_eq!(looks.take(), 10);
        table.nursery_collected(|_| {
            looks.set(looks.get() + 1);
            Fate::Dead
        });
        assert_eq!((looks.get(), table.cleared.len()), (6, 10));
    }

    #[test]
    fn an_immediate_lives_for_ever() {
        let (mut heap, id) = heap::<Direct>();
        let seven = Reference::from_i31(7);
        let weak = heap.core.weak.insert(seven, false);
        heap.allocate_struct(id, &mut NoRoots).unwrap();
        heap.collect(Cause::Requested, &mut NoRoots);
        assert_eq!(heap.core.get_weak(weak), Some(seven));
    }
}
