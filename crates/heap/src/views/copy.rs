//! `native-views=copy`: the elements of an array that does not lie in one piece are copied out, and written back.

use crate::arrays::elements::{Destination, Elements};
use crate::arrays::parts::{Part, PartPlace};
use crate::arrays::pointers::pointer_at;
use crate::barrier::WriteBarrier;
use crate::core::Core;
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::spaces::leaves::LeafKind;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

impl<M: ReferenceModel> Core<M> {
    /// Copies all elements out; afterwards all of `bytes` is written.
    pub(super) fn copy_out(&mut self, array: Reference, bytes: &mut [MaybeUninit<u8>]) {
        let parts = self.reachable_elements(array, 0, self.array_length(array)).parts;
        assert!(bytes.len() as u64 == parts.bytes, "{} bytes for {}", bytes.len(), parts.bytes);
        self.views.copies += 1;
        for part in parts.between(0, parts.bytes) {
            let source = self.pool.cage.address(self.part_offset(part.place));
            let target = &mut bytes[part.start as usize..part.end() as usize];
            // SAFETY: the part lies in the array, and the slice of the host overlaps no object.
            unsafe { std::ptr::copy_nonoverlapping(source, target.as_mut_ptr().cast(), target.len()) };
        }
    }

    /// How many leaves are needed to write `bytes` over all elements.
    pub(super) fn changed_leaves(&self, elements: &Elements, bytes: &[u8]) -> u64 {
        let parts = elements.parts.between(0, elements.parts.bytes);
        parts.filter(|part| self.is_unwritable(part) && !self.holds(part, bytes)).count() as u64
    }

    /// Writes `bytes` over all elements, but where they are there already and writing would take a leaf.
    pub(super) fn copy_back<B: WriteBarrier>(&mut self, to: &Destination<B>, bytes: &[u8]) -> Option<()> {
        assert!(to.kind == LeafKind::Numbers, "raw bytes for an array of references");
        assert!(bytes.len() as u64 == to.parts.bytes, "{} bytes for {}", bytes.len(), to.parts.bytes);
        for part in to.parts.between(0, to.parts.bytes) {
            if self.is_unwritable(&part) && self.holds(&part, bytes) {
                continue;
            }
            let source = &bytes[part.start as usize..part.end() as usize];
            let target = self.writable(to, &part, part.start, part.bytes)?;
            self.store_elements(to, target, source.len() as u32, false, |address| {
                // SAFETY: the part lies in the array, and the slice of the host overlaps no object.
                unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), address, source.len()) };
            });
        }
        Some(())
    }

    /// Whether a part takes a leaf to be written.
    fn is_unwritable(&self, part: &Part) -> bool {
        match (part.place, self.spines) {
            (PartPlace::Leaf(slot), Some(mode)) => {
                // SAFETY: a part in a leaf names its pointer.
                mode.is_unwritable(unsafe { pointer_at(self.pool.cage.memory(), slot) }.load(Ordering::Acquire))
            }
            _ => false,
        }
    }

    /// Whether a part holds its share of `bytes`.
    fn holds(&self, part: &Part, bytes: &[u8]) -> bool {
        let address = self.pool.cage.address(self.part_offset(part.place));
        // SAFETY: the part lies in the array, and nobody writes to it meanwhile.
        let held = unsafe { std::slice::from_raw_parts(address, part.bytes as usize) };
        held == &bytes[part.start as usize..part.end() as usize]
    }
}
