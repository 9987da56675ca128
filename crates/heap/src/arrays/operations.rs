//! What a heap does with elements, for hosts and for compiled code: one by one, in ranges, and reserving their
//! leaves.

use super::copy::QuickCopy;
use super::elements::{Destination, Elements};
use crate::barrier::NoBarrier;
use crate::collector::Collect;
use crate::core::Core;
use crate::error::AllocationError;
use crate::heap::{Heap, Inner, dispatch};
use crate::layout::StorageKind;
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::roots::{Kept, Roots};

impl Heap {
    /// Reads the element at `index`: its bits, zero-extended.
    pub fn array_get(&self, array: Reference, index: u32) -> u128 {
        dispatch!(&self.0, heap => heap.core.array_get(array, index))
    }

    /// Writes the low bits of `bits` to the element at `index` of an array of numbers. Never collects.
    ///
    /// # Panics
    /// As for [`array_fill`](Self::array_fill).
    ///
    /// # Safety
    /// As for [`array_fill`](Self::array_fill).
    ///
    /// # Errors
    /// As for [`array_fill`](Self::array_fill).
    pub unsafe fn array_set(&mut self, array: Reference, index: u32, bits: u128) -> Result<(), AllocationError> {
        // SAFETY: passed on to the caller.
        unsafe { self.array_fill(array, index, bits, 1) }
    }

    /// Writes a reference to the element at `index`, with the store barrier. Never collects.
    ///
    /// # Panics
    /// As for [`array_fill_references`](Self::array_fill_references).
    ///
    /// # Safety
    /// As for [`array_fill_references`](Self::array_fill_references).
    ///
    /// # Errors
    /// As for [`array_fill`](Self::array_fill).
    pub unsafe fn array_set_reference(
        &mut self,
        array: Reference,
        index: u32,
        value: Reference,
    ) -> Result<(), AllocationError> {
        // SAFETY: passed on to the caller.
        unsafe { self.array_fill_references(array, index, value, 1) }
    }

    /// Copies elements from `start_element` on out, as raw little-endian bytes.
    pub fn array_read_bytes(&self, array: Reference, start_element: u32, bytes: &mut [u8]) {
        dispatch!(&self.0, heap => {
            let size = heap.core.element_kind(array).bytes() as usize;
            let length = u32::try_from(bytes.len() / size).expect("no array is longer");
            heap.core.read_bytes(&heap.core.reachable_elements(array, start_element, length), start_element, bytes)
        })
    }

    /// Sees to it that `length` elements of `kept[0]`, an array, from `start` on can be written without lack of memory.
    /// May collect; `kept` are roots besides `roots`. Does nothing where the array has fewer elements. A heap whose
    /// arrays lie in one piece never needs it; nor does a store to a single element, where polls come between stores:
    /// one that fails all the same can be tried again behind it, or behind a poll.
    ///
    /// # Safety
    /// Each of `kept` is null, an immediate, or an object of this heap that is live now.
    ///
    /// # Errors
    /// [`AllocationError::OutOfMemory`] where a full collection did not help.
    pub unsafe fn array_reserve_leaves(
        &mut self,
        start: u32,
        length: u32,
        kept: &mut [Reference],
        roots: &mut dyn Roots,
    ) -> Result<(), AllocationError> {
        dispatch!(&mut self.0, heap => match heap.core.lacking_leaves(&heap.core.elements(kept[0]), start, length) {
            None => Ok(()),
            Some((leaves, kind)) => heap.reserve_leaves(leaves, kind, &mut Kept { kept, roots }),
        })
    }

    /// Writes the low bits of `bits` to `length` elements from `start` on of an array of numbers. Never collects.
    ///
    /// # Panics
    /// Where the array holds references, or has fewer elements.
    ///
    /// # Safety
    /// `array` refers to an object of this heap that is live now.
    ///
    /// # Errors
    /// [`AllocationError::OutOfMemory`] where an array that does not lie in one piece needs memory and there is none:
    /// see [`array_reserve_leaves`](Self::array_reserve_leaves). A part of the elements may have been written.
    pub unsafe fn array_fill(
        &mut self,
        array: Reference,
        start: u32,
        bits: u128,
        length: u32,
    ) -> Result<(), AllocationError> {
        dispatch!(&mut self.0, heap => {
            let elements = heap.core.number_elements(array, start, length);
            let (from, end) = elements.checked(start, length);
            let barrier = heap.barrier(elements.object);
            let to = heap.core.overwritten(elements, (from, end), barrier);
            let filled = heap.core.fill(&to, from, end, bits);
            filled.ok_or_else(|| heap.core.out_of_leaves(heap.stats().live_bytes))
        })
    }

    /// Writes a reference to `length` elements from `start` on, with the store barrier. Never collects.
    ///
    /// # Panics
    /// Where the array holds numbers, or has fewer elements.
    ///
    /// # Safety
    /// `array` is live now, and `value` is null, an immediate, or an object of this heap that is live now.
    ///
    /// # Errors
    /// As for [`array_fill`](Self::array_fill).
    pub unsafe fn array_fill_references(
        &mut self,
        array: Reference,
        start: u32,
        value: Reference,
        length: u32,
    ) -> Result<(), AllocationError> {
        dispatch!(&mut self.0, heap => {
            let elements = heap.core.reference_elements(array, start, length);
            let (from, end) = elements.checked(start, length);
            let barrier = heap.barrier(elements.object);
            let to = heap.core.overwritten(elements, (from, end), barrier);
            let filled = heap.core.fill(&to, from, end, value.0.into());
            filled.ok_or_else(|| heap.core.out_of_leaves(heap.stats().live_bytes))
        })
    }

    /// Copies `length` elements between arrays of numbers of equal size, or within one; the ranges may overlap. Never
    /// collects.
    ///
    /// # Panics
    /// Where an array holds references, or has fewer elements, or their elements differ in size.
    ///
    /// # Safety
    /// Both arrays refer to objects of this heap that are live now.
    ///
    /// # Errors
    /// As for [`array_fill`](Self::array_fill).
    pub unsafe fn array_copy(
        &mut self,
        destination: Reference,
        destination_start: u32,
        source: Reference,
        source_start: u32,
        length: u32,
    ) -> Result<(), AllocationError> {
        dispatch!(&mut self.0, heap => {
            let to = heap.core.number_elements(destination, destination_start, length);
            let from = heap.core.number_elements(source, source_start, length);
            to.check_size_of(&from);
            let (positions, from_position) = (to.checked(destination_start, length), from.checked(source_start, length).0);
            let barrier = heap.barrier(to.object);
            let to = heap.core.overwritten(to, positions, barrier);
            let copied = heap.core.copy(&to, positions.0, &from, from_position, positions.1 - positions.0);
            copied.ok_or_else(|| heap.core.out_of_leaves(heap.stats().live_bytes))
        })
    }

    /// As [`array_copy`](Self::array_copy), between arrays of references, with the store barrier.
    ///
    /// # Panics
    /// Where an array holds numbers, or has fewer elements.
    ///
    /// # Safety
    /// Both arrays are live now: what is read from anything else could be no references.
    ///
    /// # Errors
    /// As for [`array_fill`](Self::array_fill).
    pub unsafe fn array_copy_references(
        &mut self,
        destination: Reference,
        destination_start: u32,
        source: Reference,
        source_start: u32,
        length: u32,
    ) -> Result<(), AllocationError> {
        dispatch!(&mut self.0, heap => {
            let to = heap.core.reference_elements(destination, destination_start, length);
            let from = heap.core.reference_elements(source, source_start, length);
            to.check_size_of(&from);
            let (positions, from_position) = (to.checked(destination_start, length), from.checked(source_start, length).0);
            let barrier = heap.barrier(to.object);
            let to = heap.core.overwritten(to, positions, barrier);
            let copied = heap.core.copy(&to, positions.0, &from, from_position, positions.1 - positions.0);
            copied.ok_or_else(|| heap.core.out_of_leaves(heap.stats().live_bytes))
        })
    }

    /// As [`array_fill`](Self::array_fill), for compiled code: returns false, and writes nothing, where the range lies
    /// outside of the array.
    ///
    /// # Safety
    /// `array` refers to an array of this heap; where it holds references, `bits` is null, an immediate, or an object
    /// of this heap, all of them live now.
    ///
    /// # Errors
    /// As for [`array_fill`](Self::array_fill).
    pub unsafe fn trusted_array_fill(
        &mut self,
        array: Reference,
        start: u32,
        bits: u128,
        length: u32,
    ) -> Result<bool, AllocationError> {
        dispatch!(&mut self.0, heap => {
            // SAFETY: by the contract.
            let elements = unsafe { heap.core.trusted_array(array) };
            let Some((from, end)) = elements.positions(start, length) else { return Ok(false) };
            let barrier = heap.barrier(elements.object);
            let to = heap.core.overwritten(elements, (from, end), barrier);
            let filled = heap.core.fill(&to, from, end, bits);
            filled.map(|()| true).ok_or_else(|| heap.core.out_of_leaves(heap.stats().live_bytes))
        })
    }

    /// As [`array_copy`](Self::array_copy), for compiled code: returns false, and writes nothing, where a range lies
    /// outside of its array.
    ///
    /// # Safety
    /// Both refer to live arrays of this heap, with elements of one size, references either both or neither.
    ///
    /// # Errors
    /// As for [`array_fill`](Self::array_fill).
    pub unsafe fn trusted_array_copy(
        &mut self,
        destination: Reference,
        destination_start: u32,
        source: Reference,
        source_start: u32,
        length: u32,
    ) -> Result<bool, AllocationError> {
        dispatch!(&mut self.0, heap => {
            // SAFETY: by the contract.
            let (to, from) = unsafe { (heap.core.trusted_array(destination), heap.core.trusted_array(source)) };
            let Some(positions) = to.positions(destination_start, length) else { return Ok(false) };
            let Some((from_position, _)) = from.positions(source_start, length) else { return Ok(false) };
            let barrier = heap.barrier(to.object);
            let to = heap.core.overwritten(to, positions, barrier);
            let copied = heap.core.copy(&to, positions.0, &from, from_position, positions.1 - positions.0);
            copied.map(|()| true).ok_or_else(|| heap.core.out_of_leaves(heap.stats().live_bytes))
        })
    }

    /// As [`trusted_array_copy`](Self::trusted_array_copy), for short copies between arrays that lie in one piece,
    /// which need no leaves; `None`, with nothing done, for others.
    ///
    /// # Safety
    /// As for [`trusted_array_copy`](Self::trusted_array_copy).
    #[inline]
    pub unsafe fn quick_array_copy(
        &mut self,
        destination: Reference,
        destination_start: u32,
        source: Reference,
        source_start: u32,
        length: u32,
    ) -> Option<bool> {
        dispatch!(&mut self.0, heap => {
            // SAFETY: by the contract.
            let (to, found) = unsafe {
                let (to, from) = (heap.core.trusted_object(destination), heap.core.trusted_object(source));
                (to, heap.core.find_quick_copy((to, destination_start), (from, source_start), length))
            };
            match found {
                QuickCopy::NotQuick => None,
                QuickCopy::OutOfBounds => Some(false),
                QuickCopy::Quick { target, source, bytes, references } => {
                    // SAFETY: found just now.
                    unsafe {
                        if references {
                            let barrier = heap.barrier(to);
                            heap.core.copy_quickly(to, (target, source, bytes), barrier);
                        } else {
                            heap.core.copy_quickly(to, (target, source, bytes), NoBarrier);
                        }
                    }
                    Some(true)
                }
            }
        })
    }

    /// Whether compiled code's store to `length` elements of an array from `start` on may need
    /// [`array_reserve_leaves`](Self::array_reserve_leaves). Quick, and false where arrays lie in one piece.
    ///
    /// # Safety
    /// `array` refers to an array of this heap.
    #[inline]
    pub unsafe fn lacks_leaves(&self, array: Reference, start: u32, length: u32) -> bool {
        dispatch!(&self.0, heap => {
            let lacking = |elements| heap.core.lacking_leaves(&elements, start, length).is_some();
            // SAFETY: by the contract.
            heap.core.spines.is_some() && lacking(unsafe { heap.core.trusted_array(array) })
        })
    }

    /// The leaf that compiled code is to write the element at `index` to, by its cage offset; the zero leaf where
    /// `is_zero` says that zero is written where there are zeros. Never collects.
    ///
    /// # Safety
    /// `array` refers to an array of this heap that is divided, and the element lies beyond its first N bytes.
    ///
    /// # Errors
    /// [`AllocationError::OutOfMemory`] where there is no memory for a leaf.
    pub unsafe fn leaf_for_store(
        &mut self,
        array: Reference,
        index: u32,
        is_zero: bool,
    ) -> Result<u32, AllocationError> {
        dispatch!(&mut self.0, heap => {
            // SAFETY: by the contract.
            let elements = unsafe { heap.core.trusted_array(array) };
            let array = Destination::rearranged(elements, heap.barrier(elements.object));
            let leaf = heap.core.leaf_for_store(&array, index, is_zero);
            leaf.ok_or_else(|| heap.core.out_of_leaves(heap.stats().live_bytes))
        })
    }

    /// Writes raw little-endian bytes, a whole number of elements, over the elements from `start_element` on of an
    /// array of numbers. Never collects.
    ///
    /// # Panics
    /// Where the array holds references, or has fewer elements, or the bytes are no whole elements.
    ///
    /// # Safety
    /// `array` refers to an object of this heap that is live now.
    ///
    /// # Errors
    /// As for [`array_fill`](Self::array_fill).
    pub unsafe fn array_write_bytes(
        &mut self,
        array: Reference,
        start_element: u32,
        bytes: &[u8],
    ) -> Result<(), AllocationError> {
        let size = self.array_element_kind(array).bytes() as usize;
        assert!(bytes.len().is_multiple_of(size), "{} bytes are no whole elements of {size}", bytes.len());
        let length = u32::try_from(bytes.len() / size).expect("no array is longer");
        dispatch!(&mut self.0, heap => {
            let elements = heap.core.number_elements(array, start_element, length);
            let positions = elements.checked(start_element, length);
            let barrier = heap.barrier(elements.object);
            let to = heap.core.overwritten(elements, positions, barrier);
            let written = heap.core.write_bytes(&to, positions.0, bytes);
            written.ok_or_else(|| heap.core.out_of_leaves(heap.stats().live_bytes))
        })
    }

    /// Writes references over the elements from `start_element` on, with the store barrier. Never collects.
    ///
    /// # Panics
    /// Where the array holds numbers, or has fewer elements. Offsets of immortal records
    /// ([`StorageKind::Immortal`](crate::layout::StorageKind::Immortal)) are numbers to the heap, but written here,
    /// too.
    ///
    /// # Safety
    /// `array` is live now, and each reference is null, an immediate, or an object of this heap that is live now.
    ///
    /// # Errors
    /// As for [`array_fill`](Self::array_fill).
    pub unsafe fn array_write_references(
        &mut self,
        array: Reference,
        start_element: u32,
        references: &[Reference],
    ) -> Result<(), AllocationError> {
        dispatch!(&mut self.0, heap => {
            let (elements, from) = heap.core.elements_for_references(array, start_element, references);
            let positions = (from, from + size_of_val(references) as u64);
            let barrier = heap.barrier(elements.object);
            let to = heap.core.overwritten(elements, positions, barrier);
            let written = heap.core.write_bytes(&to, from, as_bytes(references));
            written.ok_or_else(|| heap.core.out_of_leaves(heap.stats().live_bytes))
        })
    }

    /// As [`array_write_references`](Self::array_write_references), over elements of a new array that have not been
    /// written yet, zeroed or not.
    ///
    /// # Panics
    /// As for [`array_write_references`](Self::array_write_references).
    ///
    /// # Safety
    /// As for [`array_write_references`](Self::array_write_references); the elements hold no references.
    ///
    /// # Errors
    /// As for [`array_fill`](Self::array_fill).
    pub unsafe fn array_initialise_references(
        &mut self,
        array: Reference,
        start_element: u32,
        references: &[Reference],
    ) -> Result<(), AllocationError> {
        dispatch!(&mut self.0, heap => {
            let (elements, from) = heap.core.elements_for_references(array, start_element, references);
            let to = Destination::initialised(elements, heap.barrier(elements.object));
            let written = heap.core.write_bytes(&to, from, as_bytes(references));
            written.ok_or_else(|| heap.core.out_of_leaves(heap.stats().live_bytes))
        })
    }
}

impl<M: ReferenceModel> Core<M> {
    /// The array that these references are to be written to, and the byte position of the first one.
    fn elements_for_references(&self, array: Reference, start: u32, references: &[Reference]) -> (Elements, u64) {
        let kind = self.element_kind(array);
        assert!(
            matches!(kind, StorageKind::Ref | StorageKind::Immortal),
            "references for {array:?}, an array of {kind:?}"
        );
        let length = u32::try_from(references.len()).expect("no array is longer");
        let elements = self.reachable_elements(array, start, length);
        (elements, elements.checked(start, length).0)
    }
}

/// References as their bytes.
fn as_bytes(references: &[Reference]) -> &[u8] {
    // SAFETY: a reference is a `u32`, which any four bytes are.
    unsafe { std::slice::from_raw_parts(references.as_ptr().cast(), size_of_val(references)) }
}
