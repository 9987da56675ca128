//! Reading, writing and filling ranges of elements, on every layout: part by part, with the look-up of the leaf, the
//! barriers and the checks for the zero leaf and for shared leaves done once for each part. Copying is in
//! [`copy`](super::copy).
//!
//! None of these operations collects. Where one needs leaves, the caller
//! has reserved them; what is lacking all the same is `None`, and a part of the range may have been written then.

use super::elements::{Destination, Elements};
use super::parts::{Part, PartPlace};
use super::pointers::{install, leaf_of, pointer_at, strips};
use crate::barrier::WriteBarrier;
use crate::blocks::ZERO_LEAF;
use crate::core::Core;
use crate::layout::{ARRAY_LENGTH_OFFSET, MOST_ELEMENTS, POINTER_BYTES, StorageKind, TYPE_ID_OFFSET};
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::spaces::leaves::LeafKind;
use crate::types::{TypeId, TypeKind, TypeShape};
use std::sync::atomic::Ordering;

impl<M: ReferenceModel> Core<M> {
    /// An array whose elements at these byte positions are overwritten: what the barrier does before is done here.
    #[inline(always)]
    pub(crate) fn overwritten<B: WriteBarrier>(
        &mut self,
        elements: Elements,
        (from, to): (u64, u64),
        barrier: B,
    ) -> Destination<B> {
        Destination::overwritten(elements, barrier, |elements, barrier| {
            if B::HAS_BEFORE && elements.kind == LeafKind::References {
                let cage = &self.pool.cage;
                for (start, end) in strips(elements.parts, cage.memory(), from, to) {
                    barrier.before(cage, &mut self.overwritten, start..end);
                }
            }
        })
    }

    /// Lets `write` write elements of the array: `bytes` bytes from a cage offset on. `are_null`: they become zero.
    #[inline(always)]
    pub(crate) fn store_elements<B: WriteBarrier>(
        &self,
        to: &Destination<B>,
        offset: u32,
        bytes: u32,
        are_null: bool,
        write: impl FnOnce(*mut u8),
    ) {
        write(self.pool.cage.address(offset));
        if to.kind == LeafKind::References {
            to.barrier.after_elements(&self.pool.cage, offset..offset + bytes, are_null);
        }
        self.mirror(to.object, offset..offset + bytes);
    }

    /// Whether a helper thread may be reading the elements: these are references then, to be written word by word.
    #[inline]
    pub(super) fn is_read_beside(&self, elements: &Elements) -> bool {
        elements.kind == LeafKind::References && self.helper.is_given()
    }

    /// An array, checked to look like one, and to lie in accessible memory with all of its object.
    pub(crate) fn elements(&self, array: Reference) -> Elements {
        let object = self.object(array);
        let length = self.array_length(array);
        let size = self.types.record(self.type_of(array)).bytes;
        let end = u64::from(object) + self.array_object_bytes(size, length);
        let is_inside = length <= MOST_ELEMENTS && self.pool.is_accessible_to(object.into(), end);
        assert!(is_inside, "{array:?}, an array of {length} elements, leads out of the heap");
        let sound = self.check_inline_length(object, size, length);
        assert!(sound.is_ok(), "{array:?} is no array: {}", sound.unwrap_err());
        // SAFETY: as checked.
        unsafe { self.trusted_elements(object) }
    }

    /// As [`elements`](Self::elements), with all that `[from, to)` elements lie in checked to be accessible, leaves
    /// included.
    pub(crate) fn reachable_elements(&self, array: Reference, start: u32, length: u32) -> Elements {
        let elements = self.elements(array);
        let (from, to) = elements.checked(start, length);
        if elements.parts.spine().is_some() {
            for part in elements.parts.between(from, to) {
                let (offset, bytes) = (u64::from(self.part_offset(part.place)), part.bytes);
                let is_inside = offset == u64::from(ZERO_LEAF) || self.pool.is_accessible_to(offset, offset + bytes);
                assert!(is_inside, "{array:?} has a leaf at {offset:#x}, outside of the heap");
            }
        }
        elements
    }

    /// As [`reachable_elements`](Self::reachable_elements), of an array of numbers.
    pub(crate) fn number_elements(&self, array: Reference, start: u32, length: u32) -> Elements {
        let elements = self.reachable_elements(array, start, length);
        assert!(elements.kind == LeafKind::Numbers, "numbers for {array:?}, an array of references");
        elements
    }

    /// As [`reachable_elements`](Self::reachable_elements), of an array of references.
    pub(crate) fn reference_elements(&self, array: Reference, start: u32, length: u32) -> Elements {
        let elements = self.reachable_elements(array, start, length);
        assert!(elements.kind == LeafKind::References, "references for {array:?}, an array of numbers");
        elements
    }

    /// The array at `object`.
    ///
    /// # Safety
    /// An array of this heap starts there.
    #[inline(always)]
    pub(crate) unsafe fn trusted_elements(&self, object: u32) -> Elements {
        // SAFETY: the object has a header with its type, and a length.
        let (record, length) = unsafe {
            let id = TypeId(self.pool.cage.read(object + TYPE_ID_OFFSET));
            (self.types.record_unchecked(id), self.pool.cage.read(object + ARRAY_LENGTH_OFFSET))
        };
        debug_assert_eq!(record.kind, TypeKind::Array as u32);
        Elements {
            object,
            parts: self.parts(object, record.bytes, length),
            size: record.bytes,
            length,
            kind: if record.reference_map != 0 { LeafKind::References } else { LeafKind::Numbers },
        }
    }

    /// The object that compiled code names.
    ///
    /// # Safety
    /// `object` refers to an object of this heap.
    #[inline(always)]
    pub(crate) unsafe fn trusted_object(&self, object: Reference) -> u32 {
        // SAFETY: by the contract.
        unsafe { M::object(&self.pool.cage, object) }
    }

    /// The array that compiled code names.
    ///
    /// # Safety
    /// `array` refers to an array of this heap.
    #[inline(always)]
    pub(crate) unsafe fn trusted_array(&self, array: Reference) -> Elements {
        // SAFETY: by the contract.
        unsafe { self.trusted_elements(self.trusted_object(array)) }
    }

    /// Reads an element's bits, zero-extended.
    pub(crate) fn array_get(&self, array: Reference, index: u32) -> u128 {
        let elements = self.reachable_elements(array, index, 1);
        let mut bits = [0; 16];
        self.read_bytes(&elements, index, &mut bits[..elements.size as usize]);
        u128::from_le_bytes(bits)
    }

    /// Copies whole elements from `start` on out.
    pub(crate) fn read_bytes(&self, elements: &Elements, start: u32, bytes: &mut [u8]) {
        let length = u32::try_from(bytes.len() / elements.size as usize).expect("no array is longer");
        let (from, to) = elements.checked(start, length);
        for part in elements.parts.between(from, to) {
            let (first, end) = (part.start.max(from), part.end().min(to));
            let source = self.pool.cage.address(self.part_offset(part.place) + (first - part.start) as u32);
            let target = &mut bytes[(first - from) as usize..(end - from) as usize];
            // SAFETY: the part lies in the array, and the slice of the host overlaps no object.
            unsafe { std::ptr::copy_nonoverlapping(source, target.as_mut_ptr(), target.len()) };
        }
    }

    /// Writes whole elements to the byte positions from `from` on, given by their bytes: numbers, or references where
    /// the array holds such.
    pub(crate) fn write_bytes<B: WriteBarrier>(&mut self, to: &Destination<B>, from: u64, bytes: &[u8]) -> Option<()> {
        let end = from + bytes.len() as u64;
        let to = &match bytes.iter().all(|&byte| byte == 0) {
            true => *to,
            false => self.grow_over(to, from, end),
        };
        for part in to.parts.between(from, end) {
            let (first, end) = (part.start.max(from), part.end().min(end));
            let source = &bytes[(first - from) as usize..(end - from) as usize];
            if self.is_zero_part(part.place) && source.iter().all(|&byte| byte == 0) {
                continue;
            }
            let target = self.writable(to, &part, first, end - first)?;
            self.store_elements(to, target, source.len() as u32, false, |address| {
                let words = || source.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().expect("4 bytes")));
                // SAFETY: the part lies in the array, and the slice of the host overlaps no object.
                unsafe {
                    match self.is_read_beside(to) {
                        true => self.pool.cage.memory().write_words(target, words()),
                        false => std::ptr::copy_nonoverlapping(source.as_ptr(), address, source.len()),
                    }
                }
            });
        }
        Some(())
    }

    /// Writes the low bits of `bits` to the elements at the byte positions `[from, end)`.
    pub(crate) fn fill<B: WriteBarrier>(&mut self, to: &Destination<B>, from: u64, end: u64, bits: u128) -> Option<()> {
        let size = to.size;
        let is_zero = bits.to_le_bytes()[..size as usize].iter().all(|&byte| byte == 0);
        let to = &if is_zero { *to } else { self.grow_over(to, from, end) };
        for part in to.parts.between(from, end) {
            let (first, end) = (part.start.max(from), part.end().min(end));
            if is_zero && self.is_filled_with_zeros(to, &part, end - first) {
                continue;
            }
            let target = self.writable(to, &part, first, end - first)?;
            let count = ((end - first) / u64::from(size)) as usize;
            self.store_elements(to, target, (end - first) as u32, is_zero, |address| {
                // SAFETY: the elements lie in the array.
                unsafe {
                    match self.is_read_beside(to) {
                        true => self.pool.cage.memory().write_words(target, std::iter::repeat_n(bits as u32, count)),
                        false => fill(address, size as usize, bits, count),
                    }
                }
            });
        }
        Some(())
    }

    /// Whether the part is a leaf of zeros that has never been allocated.
    #[inline]
    pub(super) fn is_zero_part(&self, place: PartPlace) -> bool {
        matches!(place, PartPlace::Leaf(_)) && self.part_offset(place) == ZERO_LEAF
    }

    /// Whether writing zeros to `bytes` bytes of a part takes no memory: there are zeros, or the whole leaf is shared
    /// and given up.
    fn is_filled_with_zeros(&mut self, to: &Elements, part: &Part, bytes: u64) -> bool {
        let (PartPlace::Leaf(slot), Some(mode)) = (part.place, self.spines) else { return false };
        // SAFETY: a part in a leaf names its pointer.
        let pointer = unsafe { pointer_at(self.pool.cage.memory(), slot) }.load(Ordering::Acquire);
        if leaf_of(pointer) == ZERO_LEAF {
            return true;
        }
        let gives_up = mode.is_unwritable(pointer) && mode.has_zero_leaf() && bytes == part.bytes;
        if gives_up {
            self.give_up_leaf(to, slot);
        }
        gives_up
    }

    /// Lets a pointer of an array lead to the zero leaf.
    pub(super) fn give_up_leaf(&mut self, of: &Elements, slot: u32) {
        let mode = self.spines.expect("spines have leaves");
        // SAFETY: a part in a leaf names its pointer.
        let pointer = unsafe { pointer_at(self.pool.cage.memory(), slot) };
        let seen = pointer.load(Ordering::Acquire);
        install(pointer, seen, mode.zero_pointer());
        self.mirror(of.object, slot..slot + POINTER_BYTES);
    }

    /// Where `bytes` bytes from `position` on can be written, which lie in `part`.
    #[inline]
    pub(crate) fn writable<B: WriteBarrier>(
        &mut self,
        to: &Destination<B>,
        part: &Part,
        position: u64,
        bytes: u64,
    ) -> Option<u32> {
        let start = match part.place {
            PartPlace::Object(offset) => offset,
            PartPlace::Leaf(slot) => {
                let overwritten = bytes == u64::from(self.leaves.leaf_bytes());
                self.writable_leaf(to, slot, overwritten)?
            }
        };
        Some(start + (position - part.start) as u32)
    }

    /// The leaf that the element at `index` is to be written to, by its offset: the zero leaf where `is_zero` says that
    /// zero is written to zeros. The element lies beyond the first N bytes.
    pub(super) fn leaf_for_store<B: WriteBarrier>(
        &mut self,
        to: &Destination<B>,
        index: u32,
        is_zero: bool,
    ) -> Option<u32> {
        let position = u64::from(index) * u64::from(to.size);
        let part = to.parts.at(position);
        match part.place {
            PartPlace::Object(offset) => self.inline_offset_of(to, position).or(Some(offset)),
            place if is_zero && self.is_zero_part(place) => Some(leaf_of(ZERO_LEAF)),
            PartPlace::Leaf(slot) => self.writable_leaf(to, slot, false),
        }
    }

    /// The element kind of an array.
    pub(crate) fn element_kind(&self, array: Reference) -> StorageKind {
        match &self.types.info(self.type_of(array)).shape {
            TypeShape::Array(kind) => *kind,
            _ => panic!("{array:?} is no array"),
        }
    }
}

/// Writes the low bits of `bits` to `length` elements of `size` bytes.
///
/// # Safety
/// The elements are memory to be written, each aligned to its size up to 8.
unsafe fn fill(address: *mut u8, size: usize, bits: u128, length: usize) {
    let bytes = bits.to_le_bytes();
    // SAFETY: by the contract.
    unsafe {
        match size {
            1 => std::ptr::write_bytes(address, bytes[0], length),
            2 => std::slice::from_raw_parts_mut(address.cast::<u16>(), length).fill(bits as u16),
            4 => std::slice::from_raw_parts_mut(address.cast::<u32>(), length).fill(bits as u32),
            8 => std::slice::from_raw_parts_mut(address.cast::<u64>(), length).fill(bits as u64),
            _ => (0..length).for_each(|index| {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), address.add(index * size), size);
            }),
        }
    }
}
