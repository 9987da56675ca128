//! Host values: an object of type [`TypeTable::EXTERNAL`](crate::TypeTable::EXTERNAL) holds the index of a slot outside
//! of the heap. After a collection, the slots of dead objects are emptied; the values are dropped when the collection
//! is over, since their destructors are foreign code.
//!
//! A value may keep memory outside of the heap, of which the heap is told. It is no part of the heap's size, but has
//! collections come: of the nursery for what is new, and of everything once as much has come as the last one found.

use crate::budget::{Budget, Done};
use crate::reference::Reference;
use std::any::Any;

/// A host value.
pub(crate) type HostValue = Box<dyn Any + Send + Sync>;

/// The slots.
#[derive(Default)]
pub(crate) struct Externals {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Slots whose object may be young, and some that have been emptied.
    young: Vec<u32>,
    /// Values of dead objects, to be dropped.
    dead: Vec<HostValue>,
    /// The number of the last sweep.
    cycle: u32,
    /// What the values in slots keep outside of the heap, in bytes.
    outside: u64,
    /// What values have brought since the last nursery collection, and since the last sweep; and what that found.
    outside_young: u64,
    outside_new: u64,
    outside_live: u64,
}

struct Slot {
    value: HostValue,
    /// What it keeps outside of the heap, in bytes.
    outside: u64,
    object: Reference,
    /// That of the last sweep when the slot was filled.
    cycle: u32,
}

/// So much memory outside of the heap does not make a nursery collection due, or one of everything.
const MOST_OUTSIDE_YOUNG: u64 = 4 << 20;
const LEAST_OUTSIDE_NEW: u64 = 16 << 20;

/// What dropping a value counts: 32 of them from one look at the clock to the next, as nobody knows how long they take.
const DROP_UNITS: u64 = 2;

/// What a nursery collection did to an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It is old now: this reference leads to it.
    Moved(Reference),
    /// It stays where it is, still young.
    Young,
    /// It was not reached.
    Dead,
}

impl Externals {
    /// Puts a value, which keeps so many bytes outside of the heap, into a free slot, for an object.
    pub(crate) fn insert(&mut self, value: HostValue, outside: u64, object: Reference) -> u32 {
        // No more than can be counted, whatever the embedder says.
        let outside = outside.min(u64::MAX - self.outside);
        self.outside += outside;
        self.outside_young = self.outside_young.saturating_add(outside);
        self.outside_new = self.outside_new.saturating_add(outside);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer slots than objects fit a 32-bit heap")
        });
        self.slots[slot as usize] = Some(Slot { value, outside, object, cycle: self.cycle });
        slot
    }

    /// Whether values have brought so much since the last nursery collection that one is due.
    pub(crate) fn are_many_young(&self) -> bool {
        self.outside_young > MOST_OUTSIDE_YOUNG
    }

    /// Whether values have brought so much since the last sweep that everything is to be collected: as much as that
    /// found.
    pub(crate) fn are_many(&self) -> bool {
        self.outside_new > self.outside_live.max(LEAST_OUTSIDE_NEW)
    }

    /// Whether the bytes outside of the heap are those of the values in slots.
    pub(crate) fn are_counted(&self) -> bool {
        self.slots.iter().flatten().map(|slot| slot.outside).sum::<u64>() == self.outside
    }

    /// The value of a slot.
    pub(crate) fn get(&self, slot: u32) -> Option<&HostValue> {
        Some(&self.slots.get(slot as usize)?.as_ref()?.value)
    }

    /// The value of a slot, to be changed.
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut HostValue> {
        Some(&mut self.slots.get_mut(slot as usize)?.as_mut()?.value)
    }

    /// Says that a slot's object is young.
    pub(crate) fn add_young(&mut self, slot: u32) {
        self.young.push(slot);
    }

    /// Follows the young objects after a nursery collection, and sets the values of those aside that are dead.
    pub(crate) fn nursery_collected(&mut self, fate: impl Fn(Reference) -> Fate) {
        let (slots, free, dead) = (&mut self.slots, &mut self.free, &mut self.dead);
        let outside = &mut self.outside;
        self.outside_young = 0;
        self.young.retain(|&index| {
            let slot = &mut slots[index as usize];
            // A full collection may have emptied it. Another that has it since is listed for itself.
            let Some(Slot { object, .. }) = slot else { return false };
            match fate(*object) {
                Fate::Moved(to) => *object = to,
                Fate::Young => return true,
                Fate::Dead => {
                    dead.extend(slot.take().map(|slot| {
                        *outside -= slot.outside;
                        slot.value
                    }));
                    free.push(index);
                }
            }
            false
        });
    }

    /// Marking has ended: what is inserted from now on is not swept by the sweep that begins.
    pub(crate) fn start_sweep(&mut self) {
        self.cycle = self.cycle.wrapping_add(1);
    }

    /// Sets the values aside whose object is not live (`find_live` tells the reference of a live one), from slot
    /// `cursor` on, which moves on; 0 at first.
    pub(crate) fn sweep(
        &mut self,
        cursor: &mut usize,
        find_live: impl Fn(Reference) -> Option<Reference>,
        budget: &mut Budget,
    ) -> Done {
        while let Some(slot) = self.slots.get_mut(*cursor) {
            if budget.is_exhausted() {
                return Done::No;
            }
            if let Some(held) = slot.as_mut().filter(|held| held.cycle != self.cycle) {
                match find_live(held.object) {
                    Some(now) => held.object = now,
                    None => {
                        self.dead.extend(slot.take().map(|slot| {
                            self.outside -= slot.outside;
                            slot.value
                        }));
                        self.free.push(*cursor as u32);
                    }
                }
            }
            *cursor += 1;
            budget.spend(1);
        }
        (self.outside_live, self.outside_new, self.outside_young) = (self.outside, 0, 0);
        Done::Yes
    }

    /// Values of dead objects that have not been dropped yet.
    pub(crate) fn dead_count(&self) -> usize {
        self.dead.len()
    }

    /// Drops values of dead objects. Their destructors are foreign code: the collection is over.
    pub(crate) fn drop_dead(&mut self, budget: &mut Budget) -> Done {
        while let Some(value) = self.dead.pop() {
            drop(value);
            budget.spend(DROP_UNITS);
            if budget.is_exhausted() {
                return if self.dead.is_empty() { Done::Yes } else { Done::No };
            }
        }
        Done::Yes
    }

    /// Each occupied slot with its object.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Reference)> + '_ {
        let occupied = |(index, slot): (usize, &Option<Slot>)| Some((index as u32, slot.as_ref()?.object));
        self.slots.iter().enumerate().filter_map(occupied)
    }

    /// Occupied slots.
    pub(crate) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_nursery_collection_looks_at_young_objects_alone() {
        const OLD: u32 = 100_000;
        let mut externals = Externals::default();
        let insert = |externals: &mut Externals, count: u32| {
            for _ in 0..count {
                let slot = externals.insert(Box::new(1), 0, Reference(8));
                externals.add_young(slot);
            }
        };
        insert(&mut externals, OLD);
        externals.nursery_collected(|_| Fate::Moved(Reference(16)));
        insert(&mut externals, 10);
        let looks = Cell::new(0);
        let fates = [Fate::Moved(Reference(16)), Fate::Young, Fate::Dead];
        let fate = |_| fates[looks.replace(looks.get() + 1) % 3];
        externals.nursery_collected(fate);
        assert_eq!((looks.take(), externals.dead_count()), (10, 3));
        externals.nursery_collected(fate);
        assert_eq!(looks.get(), 3, "those that have stayed young");
        assert_eq!(externals.count(), OLD as usize + 10 - 4);
    }

    #[test]
    fn a_slot_that_is_emptied_while_its_object_is_young_is_forgotten() {
        let mut externals = Externals::default();
        let [first, second] = [8, 16].map(|object| externals.insert(Box::new(object), 0, Reference(object)));
        [first, second].iter().for_each(|&slot| externals.add_young(slot));
        externals.start_sweep();
        let mut cursor = 0;
        assert_eq!(externals.sweep(&mut cursor, |_| None, &mut Budget::unlimited()), Done::Yes);
        // One of them has another tenant by then.
        let third = externals.insert(Box::new(24), 0, Reference(24));
        externals.add_young(third);
        externals.nursery_collected(|object| Fate::Moved(Reference(object.0 + 8)));
        assert_eq!(externals.iter().map(|(slot, object)| (slot, object.0)).next(), Some((third, 40)));
        assert!(externals.young.is_empty() && externals.count() == 1);
    }
}
