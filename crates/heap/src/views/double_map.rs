//! `native-views=double-map`: the leaves of an array mapped a second time, one behind the other (A Guide to Double Map
//! Arraylets, approach 1): one file for the heap, none for an array, and nothing is copied.
//!
//! A view is a reservation of address space outside of the cage into which the leaves are mapped, neighbours in one
//! call. It is known by the first leaf of its array, for leaves never move while spines do, and kept until a collection
//! finds that leaf dead. While there is a view, the array's pointers do not change: the collector lets go of none of
//! its leaves of zeros, and copies neither share nor give up its leaves.
//!
//! A full collection looks for dead views in steps, a nursery collection among those alone that have been made since
//! the last one. They are unmapped in steps too: by full collections, and by whoever makes others.
//!
//! Limits: the system bounds the number of mappings of a process, and views draw on a part of them
//! ([`mappings`](crate::os::mappings)). Where that is used up, or the system refuses one, the elements are copied
//! instead, which is counted.

use crate::blocks::BLOCK_BYTES;
use crate::budget::{Budget, Done};
use crate::cage::Cage;
use crate::os::Reservation;
use crate::os::mappings::{self, Mappings};
use std::collections::HashMap;

/// The most bytes that are unmapped at once where time is limited.
const MOST_UNMAPPED: usize = 1 << 20;
/// Units of unmapping before another view is made: more of it than making one adds, in the long run.
const UNITS_AHEAD: u64 = 2 + 2 * MOST_UNMAPPED as u64 / BLOCK_BYTES as u64;

/// The views of a heap.
#[derive(Debug, Default)]
pub(crate) struct DoubleMaps {
    is_on: bool,
    /// In places that stay the same, `None` where one is free; and the places, by the first leaf.
    views: Vec<Option<View>>,
    free: Vec<u32>,
    places: HashMap<u32, u32>,
    /// The first leaves of those that have been made since the last nursery collection, or of views that are gone;
    /// `None` where there is no nursery.
    young: Option<Vec<u32>>,
    /// Of dead arrays, to be unmapped.
    dead: Vec<Mapping>,
    /// Bytes of all views that are mapped.
    pub(crate) bytes: u64,
    /// Views made so far.
    pub(crate) made: u64,
    /// Requests for which there was no memory or no mapping.
    pub(crate) fallbacks: u64,
    /// Arrays copied out so far.
    pub(crate) copies: u64,
}

#[derive(Debug)]
struct View {
    mapping: Mapping,
    /// The leaves, as they are mapped.
    leaves: Box<[u32]>,
}

impl View {
    fn address(&self) -> *mut u8 {
        self.mapping.reservation.base()
    }
}

/// What a view has of the system.
#[derive(Debug)]
struct Mapping {
    reservation: Reservation,
    _mappings: Mappings,
}

impl DoubleMaps {
    /// No views. With `is_on`, the cage lets leaves be mapped a second time.
    pub(crate) fn new(is_on: bool) -> DoubleMaps {
        DoubleMaps { is_on, ..DoubleMaps::default() }
    }

    /// Has nursery collections find the dead among the views that are made from now on.
    pub(crate) fn add_nursery(&mut self) {
        self.young = Some(Vec::new());
    }

    /// Whether views are made at all.
    pub(crate) fn are_on(&self) -> bool {
        self.is_on
    }

    /// Whether there are none.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.places.len() as u64
    }

    /// The first address of the view of the array with this first leaf.
    #[inline]
    pub(crate) fn find(&self, first_leaf: u32) -> Option<*mut u8> {
        self.places.get(&first_leaf).and_then(|&place| self.views[place as usize].as_ref()).map(View::address)
    }

    /// Whether another view can be made, as far as the process's mappings go. Unmaps dead ones before, in small number.
    pub(super) fn has_mappings(&mut self) -> bool {
        let _ = self.unmap(&mut Budget::units(UNITS_AHEAD));
        mappings::left() > 0
    }

    /// Makes the view of an array that has none, of all its leaves, which are its own; returns its first address. With
    /// `populate`, no access to it faults later. `None` where the system refuses, or too few mappings are left.
    pub(super) fn make(&mut self, cage: &Cage, leaves: Vec<u32>, leaf_bytes: u32, populate: bool) -> Option<*mut u8> {
        let bytes = leaves.len() * leaf_bytes as usize;
        let is_shared =
            |&leaf: &u32| (leaf..leaf + leaf_bytes).step_by(BLOCK_BYTES as usize).all(|at| cage.is_shared(at));
        if !leaves.iter().all(is_shared) {
            return None;
        }
        let runs = || leaves.chunk_by(|before, after| before + leaf_bytes == *after);
        if runs().count() > mappings::left() {
            return None;
        }
        let reservation = Reservation::new(bytes, "a view of an array").ok()?;
        let mut at = 0;
        for run in runs() {
            let bytes = run.len() * leaf_bytes as usize;
            if !cage.map_again(run[0], bytes, &reservation, at, populate) {
                return None;
            }
            at += bytes;
        }
        self.made += 1;
        self.bytes += bytes as u64;
        let address = reservation.base();
        let mapping = Mapping { reservation, _mappings: Mappings::draw(runs().count()) };
        self.insert(View { mapping, leaves: leaves.into() });
        Some(address)
    }

    fn insert(&mut self, view: View) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.views.push(None);
            u32::try_from(self.views.len() - 1).expect("fewer views than leaves fit a 32-bit heap")
        });
        let first = view.leaves[0];
        self.views[place as usize] = Some(view);
        self.places.insert(first, place);
        self.young.iter_mut().for_each(|young| young.push(first));
    }

    /// Forgets a view: it is to be unmapped.
    fn remove(&mut self, place: u32) {
        let view = self.views[place as usize].take().expect("a view has this place");
        self.places.remove(&view.leaves[0]);
        self.free.push(place);
        self.dead.push(view.mapping);
    }

    /// Ends a nursery collection: forgets the views of arrays whose first leaf it has found dead. The leaves of others
    /// count as live up to the next full collection.
    pub(crate) fn nursery_collected(&mut self, is_live: impl Fn(u32) -> bool) {
        for first in std::mem::take(&mut self.young).into_iter().flatten().filter(|&first| !is_live(first)) {
            if let Some(&place) = self.places.get(&first) {
                self.remove(place);
            }
        }
        self.add_nursery();
    }

    /// Forgets the views of arrays whose first leaf a full collection has found dead, from place `cursor` on, which
    /// moves on, 0 at first; then unmaps what is forgotten.
    pub(crate) fn sweep(&mut self, cursor: &mut usize, is_live: impl Fn(u32) -> bool, budget: &mut Budget) -> Done {
        while let Some(view) = self.views.get(*cursor) {
            if budget.is_exhausted() {
                return Done::No;
            }
            if view.as_ref().is_some_and(|view| !is_live(view.leaves[0])) {
                self.remove(*cursor as u32);
            }
            *cursor += 1;
            budget.spend(1);
        }
        self.unmap(budget)
    }

    /// Unmaps forgotten views, large ones piece by piece.
    fn unmap(&mut self, budget: &mut Budget) -> Done {
        while let Some(Mapping { reservation, .. }) = self.dead.last_mut() {
            if budget.is_exhausted() {
                return Done::No;
            }
            let left = if budget.is_limited() { reservation.bytes().saturating_sub(MOST_UNMAPPED) } else { 0 };
            let unmapped = reservation.bytes() - left;
            self.bytes -= unmapped as u64;
            match left {
                0 => drop(self.dead.pop()),
                left => reservation.truncate(left),
            }
            budget.spend(1 + unmapped as u64 / u64::from(BLOCK_BYTES));
        }
        Done::Yes
    }

    /// Checks that an array with these pointers and a view has the view's leaves, and that both show the same.
    pub(crate) fn check(&self, cage: &Cage, pointers: &[u32]) -> Result<(), String> {
        let place = pointers.first().and_then(|first| self.places.get(first));
        let Some(view) = place.and_then(|&place| self.views[place as usize].as_ref()) else { return Ok(()) };
        if *view.leaves != *pointers {
            return Err(format!("its view maps {:x?}, but its leaves are {pointers:x?}", view.leaves));
        }
        let leaf_bytes = view.mapping.reservation.bytes() / view.leaves.len();
        for (number, &leaf) in view.leaves.iter().enumerate() {
            // SAFETY: the leaf is allocated, and mapped in the view at its number; the mutator stands.
            let (here, there) = unsafe {
                let there = view.mapping.reservation.base().add(number * leaf_bytes);
                (cage.address(leaf).cast::<u64>().read_volatile(), there.cast::<u64>().read_volatile())
            };
            if here != there {
                return Err(format!("the leaf {leaf:#x} and its view differ: {here:#x} and {there:#x}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::page_bytes;
    use std::cell::Cell;

    /// Adds a view of an array whose first leaf is this one, of so many pages.
    fn add(views: &mut DoubleMaps, first: u32, pages: u32) {
        let reservation = Reservation::new(pages as usize * page_bytes() as usize, "a test").unwrap();
        views.bytes += reservation.bytes() as u64;
        views.insert(View { mapping: Mapping { reservation, _mappings: Mappings::draw(1) }, leaves: [first].into() });
    }

    #[test]
    fn a_nursery_collection_looks_at_new_views_alone() {
        let _alone = mappings::alone();
        let mut views = DoubleMaps::new(true);
        views.add_nursery();
        (1..=1000).for_each(|first| add(&mut views, first, 1));
        views.nursery_collected(|_| true);
        (1001..=1010).for_each(|first| add(&mut views, first, 1));
        let looks = Cell::new(0);
        views.nursery_collected(|first| {
            looks.set(looks.get() + 1);
            first > 1005
        });
        assert_eq!((looks.take(), views.count()), (10, 1005));
        // Whoever makes another one unmaps what is dead.
        assert_eq!(views.dead.len(), 5);
        assert!(views.has_mappings() && views.dead.is_empty());
        views.nursery_collected(|_| panic!("none is new"));
    }

    #[test]
    fn places_are_used_again_between_the_steps_of_a_sweep() {
        let mut views = DoubleMaps::new(true);
        (1..=100).for_each(|first| add(&mut views, first, 1));
        let mut cursor = 0;
        let mut made = 1000;
        while views.sweep(&mut cursor, |first| first >= 1000 || first % 2 == 0, &mut Budget::units(1)) == Done::No {
            if made < 1050 {
                made += 1;
                add(&mut views, made, 1);
            }
        }
        assert_eq!(views.count(), 50 + 50);
        assert!((1..=100).all(|first| views.find(first).is_some() == (first % 2 == 0)));
        assert!((1001..=1050).all(|first| views.find(first).is_some()));
        assert!(views.views.len() < 150, "{} places", views.views.len());
        assert_eq!(views.bytes, 100 * u64::from(page_bytes()));
    }

    #[test]
    fn a_large_view_is_unmapped_piece_by_piece() {
        let mut views = DoubleMaps::new(true);
        add(&mut views, 1, 10 * MOST_UNMAPPED as u32 / page_bytes());
        let mut cursor = 0;
        let mut steps = 0;
        while views.sweep(&mut cursor, |_| false, &mut Budget::units(1)) == Done::No {
            steps += 1;
            assert!(!views.dead.is_empty());
        }
        assert_eq!((steps, views.bytes, views.count()), (10, 0, 0));
    }
}
