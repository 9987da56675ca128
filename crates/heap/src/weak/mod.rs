//! Weak references: slots outside of the heap, each of which leads to an object without keeping it alive.
//!
//! No slot is traced. The collection that finds an object dead *clears* its slots, before it sweeps anything: neither
//! the object's memory nor its handle is used again while a slot leads there. A nursery collection does the same with
//! young objects, and has the slots of those that it moves follow.
//!
//! The mutator may run between any two steps of a collection. Where it gets the object of a slot while a snapshot is
//! marked, the object is recorded like an overwritten reference (Yuasa 1990), and so is marked. Once marking has ended,
//! a slot whose object is not marked counts as cleared, though the sweep may not have come to it yet. Slots that are
//! made from then on are left alone by that sweep: what they lead to is live.

mod operations;

use crate::budget::{Budget, Done};
use crate::external::Fate;
use crate::reference::Reference;
use std::ops::Range;

/// A weak reference of one heap. Neither it nor its copies mean anything once
/// [`Heap::drop_weak`](crate::Heap::drop_weak) has been called.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WeakId {
    slot: u32,
    /// Tells the slot's tenants apart.
    generation: u32,
}

/// The slots.
#[derive(Debug, Default)]
pub(crate) struct WeakTable {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Slots whose object may be young; each is listed once, and flagged so.
    young: Vec<u32>,
    /// Cleared slots of which nobody has been told; each knows its place here.
    cleared: Vec<u32>,
    /// The number of the last sweep.
    cycle: u32,
    /// What the sweep under way has not come to yet.
    unswept: Range<usize>,
}

#[derive(Debug)]
struct Slot {
    state: State,
    generation: u32,
    is_listed_young: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Free,
    /// It leads to an object, or is an immediate. `cycle` is that of the last sweep when it was made.
    Leads {
        object: Reference,
        cycle: u32,
    },
    /// Its object has died.
    Cleared {
        place: usize,
    },
    /// So it has, and somebody has been told.
    Told,
}

impl WeakTable {
    /// Makes a slot for an object, or for an immediate.
    fn insert(&mut self, object: Reference, is_young: bool) -> WeakId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { state: State::Free, generation: 0, is_listed_young: false });
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 weak references")
        });
        let slot = &mut self.slots[index as usize];
        slot.state = State::Leads { object, cycle: self.cycle };
        if is_young && !slot.is_listed_young {
            slot.is_listed_young = true;
            self.young.push(index);
        }
        WeakId { slot: index, generation: slot.generation }
    }

    /// The state of a slot that has not been dropped.
    fn state(&self, weak: WeakId) -> Option<State> {
        let slot = self.slots.get(weak.slot as usize)?;
        (slot.generation == weak.generation).then_some(slot.state)
    }

    /// Empties a slot that has not been dropped, for its next tenant.
    fn remove(&mut self, weak: WeakId) {
        let Some(state) = self.state(weak) else { return };
        if let State::Cleared { place } = state {
            self.cleared.swap_remove(place);
            if let Some(&moved) = self.cleared.get(place) {
                self.slots[moved as usize].state = State::Cleared { place };
            }
        }
        let slot = &mut self.slots[weak.slot as usize];
        slot.state = State::Free;
        // A slot that has had as many tenants as can be told apart has no more.
        if let Some(next) = slot.generation.checked_add(1) {
            slot.generation = next;
            self.free.push(weak.slot);
        }
    }

    /// Takes a cleared slot of which nobody has been told.
    fn take_cleared(&mut self) -> Option<WeakId> {
        let index = self.cleared.pop()?;
        let slot = &mut self.slots[index as usize];
        slot.state = State::Told;
        Some(WeakId { slot: index, generation: slot.generation })
    }

    /// Follows the young objects after a nursery collection, and clears the slots of those that are dead.
    pub(crate) fn nursery_collected(&mut self, fate: impl Fn(Reference) -> Fate) {
        let WeakTable { slots, young, cleared, .. } = self;
        young.retain(|&index| {
            let slot = &mut slots[index as usize];
            slot.is_listed_young = false;
            // The slot may have another tenant than the one that it was listed for.
            if let State::Leads { object, .. } = &mut slot.state
                && object.is_object()
            {
                match fate(*object) {
                    Fate::Moved(to) => *object = to,
                    Fate::Young => slot.is_listed_young = true,
                    Fate::Dead => slot.clear(index, cleared),
                }
            }
            slot.is_listed_young
        });
    }

    /// Marking has ended: slots that are made from now on are not swept by the sweep that begins.
    pub(crate) fn start_sweep(&mut self) {
        self.cycle = self.cycle.wrapping_add(1);
        self.unswept = 0..self.slots.len();
    }

    /// Clears the slots whose object is not live, going on where the last step of this sweep has ended. `find_live`
    /// tells the reference of a live one.
    pub(crate) fn sweep(&mut self, find_live: impl Fn(Reference) -> Option<Reference>, budget: &mut Budget) -> Done {
        while !self.unswept.is_empty() {
            if budget.is_exhausted() {
                return Done::No;
            }
            let index = self.unswept.start;
            let slot = &mut self.slots[index];
            if let Some(object) = slot.object_for(self.cycle) {
                match (find_live(object), &mut slot.state) {
                    (Some(now), State::Leads { object, .. }) => *object = now,
                    _ => slot.clear(index as u32, &mut self.cleared),
                }
            }
            self.unswept.start += 1;
            budget.spend(1);
        }
        Done::Yes
    }

    /// The object of a slot that the sweep under way has not come to yet, and is going to clear if the object is dead.
    fn unswept(&self, weak: WeakId) -> Option<Reference> {
        let index = weak.slot as usize;
        if self.unswept.contains(&index) { self.slots[index].object_for(self.cycle) } else { None }
    }

    /// The references of all slots that are not cleared.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Reference> + '_ {
        self.slots.iter().filter_map(|slot| match slot.state {
            State::Leads { object, .. } => Some(object),
            _ => None,
        })
    }

    /// Slots that have not been dropped.
    pub(crate) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

impl Slot {
    fn clear(&mut self, index: u32, cleared: &mut Vec<u32>) {
        self.state = State::Cleared { place: cleared.len() };
        cleared.push(index);
    }

    /// The object whose death clears it, if the sweep number `sweep` is to look for that.
    fn object_for(&self, sweep: u32) -> Option<Reference> {
        match self.state {
            State::Leads { object, cycle } if object.is_object() && cycle != sweep => Some(object),
            _ => None,
        }
    }
}
