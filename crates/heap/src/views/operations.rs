//! What a host asks of views, and how an array comes to have one.

use crate::arrays::elements::{Destination, Elements};
use crate::arrays::parts::PartPlace;
use crate::barrier::{NoBarrier, WriteBarrier};
use crate::collector::Collect;
use crate::core::Core;
use crate::error::AllocationError;
use crate::heap::{Heap, Inner, dispatch};
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::roots::{Kept, Roots};
use crate::spaces::leaves::LeafKind;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// What is known of the elements of an array before anything is done for a view.
enum Found {
    /// They are here in one piece.
    At(*mut u8),
    /// They can be had in one piece once their leaves are real, its own, and mapped.
    Lacking,
    /// They have to be copied.
    Scattered,
}

impl<M: ReferenceModel> Core<M> {
    fn find_view(&self, elements: &Elements, writable: bool) -> Found {
        let cage = &self.pool.cage;
        let first = elements.parts.at(0);
        if first.bytes == elements.parts.bytes {
            return match first.place {
                // Writing to it would leave the other copy as it is.
                PartPlace::Object(_) if writable && self.replica(elements.object).is_some() => Found::Scattered,
                PartPlace::Object(offset) => Found::At(cage.address(offset)),
                PartPlace::Leaf(_) if writable => Found::Lacking,
                PartPlace::Leaf(_) => Found::At(cage.address(self.part_offset(first.place))),
            };
        }
        match first.place {
            PartPlace::Leaf(_) if self.views.are_on() => {
                self.views.find(self.part_offset(first.place)).map_or(Found::Lacking, Found::At)
            }
            _ => Found::Scattered,
        }
    }

    /// Whether an array's leaves are mapped a second time: its pointers must not change then.
    #[inline]
    pub(crate) fn has_view(&self, elements: &Elements) -> bool {
        if self.views.is_empty() || elements.parts.spine().is_none() {
            return false;
        }
        self.views.find(self.part_offset(elements.parts.at(0).place)).is_some()
    }

    /// Makes the leaves of an array real and its own, and shows them in one piece. `None` where memory or mappings are
    /// lacking.
    fn make_view<B: WriteBarrier>(&mut self, array: &Destination<B>, populate: bool) -> Option<*mut u8> {
        let mut leaves = Vec::new();
        for part in array.parts.between(0, array.parts.bytes) {
            let PartPlace::Leaf(slot) = part.place else { unreachable!("elements in several pieces lie in leaves") };
            leaves.push(self.writable_leaf(array, slot, false)?);
        }
        match leaves[..] {
            [leaf] => Some(self.pool.cage.address(leaf)),
            _ => self.views.make(&self.pool.cage, leaves, self.leaves.leaf_bytes(), populate),
        }
    }

    /// Maps the leaves of a new array, where views are made at allocation. Where that fails, the first request tries
    /// again. No page table entries are made: most arrays are never looked at.
    pub(crate) fn view_new_array(&mut self, array: u32) {
        if !self.config.native_views.at_allocation() {
            return;
        }
        // SAFETY: the array has just been allocated, and has its length and pointers.
        let elements = unsafe { self.trusted_elements(array) };
        let is_wanted = elements.kind == LeafKind::Numbers && self.views.has_mappings();
        if is_wanted && matches!(self.find_view(&elements, false), Found::Lacking) {
            self.make_view(&Destination::rearranged(elements, NoBarrier), false);
        }
    }
}

impl Heap {
    /// The address of the first element of `kept[0]`, an array of numbers, where all of them lie in one piece, in the
    /// array itself or in a view of it. It is valid until the next call that may collect, that writes to the array by
    /// another way, or that copies from it: leaves may be shared, or given up, by these. And it is read-only unless
    /// `writable`. `None` where the elements have to be copied: see [`array_copy_out`](Self::array_copy_out). May
    /// collect; `kept` are roots besides `roots`.
    ///
    /// Under `double-map`, the first request maps the leaves a second time, which takes a leaf for each that was left
    /// out or shared. The view is kept until the array dies. Where mappings or memory are lacking, the elements have to
    /// be copied.
    ///
    /// # Panics
    /// Where the array holds references: written to as numbers, they would be made up.
    ///
    /// # Safety
    /// Each of `kept` is null, an immediate, or an object of this heap that is live now.
    pub unsafe fn array_view(
        &mut self,
        kept: &mut [Reference],
        writable: bool,
        roots: &mut dyn Roots,
    ) -> Option<NonNull<u8>> {
        dispatch!(&mut self.0, heap => {
            let elements = heap.core.elements(kept[0]);
            assert!(elements.kind == LeafKind::Numbers, "a view of an array of references");
            match heap.core.find_view(&elements, writable) {
                Found::At(address) => return NonNull::new(address),
                Found::Scattered => return None,
                Found::Lacking => {}
            }
            let is_one_leaf = elements.parts.at(0).bytes == elements.parts.bytes;
            if !is_one_leaf && !heap.core.views.has_mappings() {
                // Before leaves are taken in vain.
                heap.core.views.fallbacks += 1;
                return None;
            }
            let room = match heap.core.lacking_leaves(&elements, 0, elements.length) {
                None => Ok(()),
                Some((leaves, kind)) => heap.reserve_leaves(leaves, kind, &mut Kept { kept: &mut *kept, roots }),
            };
            let made = room.ok().and_then(|()| {
                let elements = heap.core.elements(kept[0]);
                let array = Destination::rearranged(elements, heap.barrier(elements.object));
                heap.core.make_view(&array, true)
            });
            heap.core.views.fallbacks += u64::from(made.is_none());
            made.and_then(NonNull::new)
        })
    }

    /// Copies all elements of an array out, for native code that cannot have them in one piece otherwise. Afterwards
    /// all of `bytes`, which is as long as the elements together, is written.
    pub fn array_copy_out(&mut self, array: Reference, bytes: &mut [MaybeUninit<u8>]) {
        dispatch!(&mut self.0, heap => heap.core.copy_out(array, bytes))
    }

    /// Writes what [`array_copy_out`](Self::array_copy_out) has copied back over all elements of `kept[0]`, an array of
    /// numbers. Leaves that are shared, or were never allocated, stay so where nothing has changed in them. May
    /// collect; `kept` are roots besides `roots`.
    ///
    /// # Panics
    /// Where the array holds references, or `bytes` is not as long as the elements together.
    ///
    /// # Safety
    /// Each of `kept` is null, an immediate, or an object of this heap that is live now.
    ///
    /// # Errors
    /// [`AllocationError::OutOfMemory`] where leaves are lacking; a part of the elements may have been written.
    pub unsafe fn array_copy_back(
        &mut self,
        kept: &mut [Reference],
        bytes: &[u8],
        roots: &mut dyn Roots,
    ) -> Result<(), AllocationError> {
        dispatch!(&mut self.0, heap => {
            let elements = heap.core.elements(kept[0]);
            let leaves = heap.core.changed_leaves(&elements, bytes);
            if heap.core.is_lacking(leaves, elements.kind) {
                heap.reserve_leaves(leaves, elements.kind, &mut Kept { kept: &mut *kept, roots })?;
            }
            let elements = heap.core.elements(kept[0]);
            let barrier = heap.barrier(elements.object);
            let to = heap.core.overwritten(elements, (0, elements.parts.bytes), barrier);
            let written = heap.core.copy_back(&to, bytes);
            written.ok_or_else(|| heap.core.out_of_leaves(heap.stats().live_bytes))
        })
    }
}
