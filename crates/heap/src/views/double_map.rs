//! `native-views=double-map`: the leaves of an array mapped a second time, one behind the other (A Guide to Double Map
//! Arraylets, approach 1): one file for the heap, none for an array, and nothing is copied.
//!
//! A view is a reservation of address space outside of the cage into which the leaves are mapped, neighbours in one
//! call. It is known by the first leaf of its array, for leaves never move while spines do, and kept until a collection
//! finds that leaf dead. While there is a view, the array's pointers do not change: the collector lets go of none of
//! its leaves of zeros, and copies neither share nor give up its leaves.
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

/// The views of a heap.
#[derive(Debug, Default)]
pub(crate) struct DoubleMaps {
    is_on: bool,
    /// By the first leaf.
    views: HashMap<u32, View>,
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

    /// Whether views are made at all.
    pub(crate) fn are_on(&self) -> bool {
        self.is_on
    }

    /// Whether there are none.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.views.len() as u64
    }

    /// The first address of the view of the array with this first leaf.
    #[inline]
    pub(crate) fn find(&self, first_leaf: u32) -> Option<*mut u8> {
        self.views.get(&first_leaf).map(|view| view.mapping.reservation.base())
    }

    /// Whether another view can be made, as far as the process's mappings go.
    pub(super) fn has_mappings(&self) -> bool {
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
        self.views.insert(leaves[0], View { mapping, leaves: leaves.into() });
        Some(address)
    }

    /// Forgets the views of arrays whose first leaf a collection has found dead: they are to be unmapped.
    pub(crate) fn collected(&mut self, is_live: impl Fn(u32) -> bool) {
        self.dead.extend(self.views.extract_if(|&leaf, _| !is_live(leaf)).map(|(_, view)| view.mapping));
        if self.views.is_empty() {
            self.views.shrink_to(1 << 10);
        }
    }

    /// Unmaps forgotten views.
    pub(crate) fn unmap(&mut self, budget: &mut Budget) -> Done {
        while let Some(Mapping { reservation, .. }) = self.dead.pop_if(|_| !budget.is_exhausted()) {
            self.bytes -= reservation.bytes() as u64;
            // By the size of what the system takes down.
            budget.spend(1 + reservation.bytes() as u64 / u64::from(BLOCK_BYTES));
        }
        if self.dead.is_empty() { Done::Yes } else { Done::No }
    }

    /// Checks that an array with these pointers and a view has the view's leaves, and that both show the same.
    pub(crate) fn check(&self, cage: &Cage, pointers: &[u32]) -> Result<(), String> {
        let Some(view) = pointers.first().and_then(|first| self.views.get(first)) else { return Ok(()) };
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
