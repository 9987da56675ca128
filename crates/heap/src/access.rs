//! Reading and writing objects from the host: raw bits, with the size and bounds of each object respected.
//!
//! Every access is checked against the object's own size, so that a wrong offset is a panic here and not a corrupted heap. A
//! reference to an object that has died reads whatever its cell holds now. The store barrier is the caller's.

use crate::core::Core;
use crate::layout::{
    ARRAY_LENGTH_OFFSET, HEADER_BYTES, StorageKind, TYPE_ID_OFFSET, array_object_bytes, elements_offset,
};
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::types::{TypeId, TypeKind, TypeShape};

impl<M: ReferenceModel> Core<M> {
    /// The object's offset, checked to lie in accessible memory.
    #[inline]
    pub(crate) fn object(&self, reference: Reference) -> u32 {
        assert!(reference.is_object(), "{reference:?} is no object");
        let is_word = reference.0.is_multiple_of(4) && self.pool.is_accessible(reference.0, 4);
        assert!(is_word, "{reference:?} lies outside of the heap");
        // SAFETY: an aligned word of accessible memory, should the model read it; any bits are a `u32`.
        let object = unsafe { M::object(&self.pool.cage, reference) };
        let is_header = object.is_multiple_of(8) && self.pool.is_accessible(object, HEADER_BYTES + 8);
        assert!(is_header, "{reference:?} lies outside of the heap");
        object
    }

    pub(crate) fn type_of(&self, reference: Reference) -> TypeId {
        let object = self.object(reference);
        // SAFETY: the header is accessible.
        TypeId(unsafe { self.pool.cage.read(object + TYPE_ID_OFFSET) })
    }

    pub(crate) fn array_length(&self, reference: Reference) -> u32 {
        let record = self.types.record(self.type_of(reference));
        assert!(record.kind == TypeKind::Array as u32, "{reference:?} is no array");
        // SAFETY: the length is accessible.
        unsafe { self.pool.cage.read(self.object(reference) + ARRAY_LENGTH_OFFSET) }
    }

    /// Bytes of the whole object.
    fn object_bytes(&self, reference: Reference) -> u64 {
        let record = self.types.record(self.type_of(reference));
        if record.kind == TypeKind::Array as u32 {
            array_object_bytes(record.bytes, self.array_length(reference))
        } else {
            record.bytes as u64
        }
    }

    /// The address of `[offset, offset + bytes)` in an object.
    fn range(&self, reference: Reference, offset: u64, bytes: u64) -> *mut u8 {
        let size = self.object_bytes(reference);
        assert!(
            offset >= HEADER_BYTES as u64 && offset + bytes <= size,
            "bytes {offset}..{} of an object of {size} bytes",
            offset + bytes
        );
        self.pool.cage.address(self.object(reference)).wrapping_add(offset as usize)
    }

    pub(crate) fn load(&self, reference: Reference, offset: u32, kind: StorageKind) -> u128 {
        let address = self.range(reference, offset as u64, kind.bytes() as u64);
        let mut bits = [0; 16];
        // SAFETY: the range lies in the object, and `bits` holds the largest kind.
        unsafe { std::ptr::copy_nonoverlapping(address, bits.as_mut_ptr(), kind.bytes() as usize) };
        u128::from_le_bytes(bits)
    }

    pub(crate) fn store(&mut self, reference: Reference, offset: u32, kind: StorageKind, bits: u128) {
        let address = self.range(reference, offset as u64, kind.bytes() as u64);
        // SAFETY: the range lies in the object.
        unsafe { std::ptr::copy_nonoverlapping(bits.to_le_bytes().as_ptr(), address, kind.bytes() as usize) };
    }

    /// The element kind of an array.
    pub(crate) fn element_kind(&self, array: Reference) -> StorageKind {
        match &self.types.info(self.type_of(array)).shape {
            TypeShape::Array(kind) => *kind,
            _ => panic!("{array:?} is no array"),
        }
    }

    /// The address of `length` elements from `start` on.
    fn elements(&self, array: Reference, start: u32, length: u32) -> *mut u8 {
        let all = self.array_length(array);
        assert!(
            start as u64 + length as u64 <= all as u64,
            "elements {start}..{} of an array of {all}",
            start as u64 + length as u64
        );
        let bytes = self.types.record(self.type_of(array)).bytes;
        let offset = elements_offset(bytes) as usize + bytes as usize * start as usize;
        self.pool.cage.address(self.object(array)).wrapping_add(offset)
    }

    pub(crate) fn array_fill(&mut self, array: Reference, start: u32, bits: u128, length: u32) {
        let address = self.elements(array, start, length);
        let size = self.element_kind(array).bytes() as usize;
        // SAFETY: the elements lie in the array, each aligned to its size up to 8.
        unsafe { fill(address, size, bits, length as usize) }
    }

    /// `length` elements of an array from `start` on: their address, the size of each and whether they are references. `None` where
    /// the array has fewer.
    ///
    /// # Safety
    /// `array` refers to an array of this heap.
    #[inline(always)]
    unsafe fn trusted_elements(&self, array: Reference, start: u32, length: u32) -> Option<(*mut u8, usize, bool)> {
        // SAFETY: the object has a header with its type, and a length.
        unsafe {
            let object = M::object(&self.pool.cage, array);
            let record = self.types.record_unchecked(TypeId(self.pool.cage.read(object + TYPE_ID_OFFSET)));
            debug_assert_eq!(record.kind, TypeKind::Array as u32);
            let all = self.pool.cage.read(object + ARRAY_LENGTH_OFFSET);
            if start as u64 + length as u64 > all as u64 {
                return None;
            }
            let offset = elements_offset(record.bytes) as usize + record.bytes as usize * start as usize;
            let address = self.pool.cage.address(object).wrapping_add(offset);
            Some((address, record.bytes as usize, record.reference_map != 0))
        }
    }

    /// As [`array_fill`](Self::array_fill). Returns whether the elements are references; `None` where the range lies outside of the
    /// array, and nothing is written.
    ///
    /// # Safety
    /// As for [`trusted_elements`](Self::trusted_elements).
    pub(crate) unsafe fn trusted_fill(
        &mut self,
        array: Reference,
        start: u32,
        bits: u128,
        length: u32,
    ) -> Option<bool> {
        // SAFETY: by the contract; the elements lie in the array.
        unsafe {
            let (address, size, references) = self.trusted_elements(array, start, length)?;
            fill(address, size, bits, length as usize);
            Some(references)
        }
    }

    /// As [`array_copy`](Self::array_copy). Returns whether the elements are references; `None` where a range lies outside of its
    /// array, and nothing is written.
    ///
    /// # Safety
    /// As for [`trusted_elements`](Self::trusted_elements); the arrays' elements are of one size.
    pub(crate) unsafe fn trusted_copy(
        &mut self,
        destination: Reference,
        destination_start: u32,
        source: Reference,
        source_start: u32,
        length: u32,
    ) -> Option<bool> {
        // SAFETY: by the contract; both ranges lie in their arrays; they may overlap.
        unsafe {
            let (to, size, references) = self.trusted_elements(destination, destination_start, length)?;
            let (from, ..) = self.trusted_elements(source, source_start, length)?;
            std::ptr::copy(from, to, size * length as usize);
            Some(references)
        }
    }

    pub(crate) fn array_copy(
        &mut self,
        destination: Reference,
        destination_start: u32,
        source: Reference,
        source_start: u32,
        length: u32,
    ) {
        let kind = self.element_kind(destination);
        assert!(kind.bytes() == self.element_kind(source).bytes(), "arrays of different element sizes");
        let to = self.elements(destination, destination_start, length);
        let from = self.elements(source, source_start, length);
        // SAFETY: both ranges lie in their arrays; they may overlap.
        unsafe { std::ptr::copy(from, to, kind.bytes() as usize * length as usize) };
    }

    pub(crate) fn array_write_bytes(&mut self, array: Reference, start_element: u32, bytes: &[u8]) {
        let kind = self.element_kind(array);
        assert!(kind != StorageKind::Ref, "raw bytes for an array of references");
        let size = kind.bytes() as usize;
        assert!(bytes.len().is_multiple_of(size), "{} bytes are no whole elements of {size}", bytes.len());
        let length = u32::try_from(bytes.len() / size).expect("no array is longer");
        let address = self.elements(array, start_element, length);
        // SAFETY: the elements lie in the array, and a slice of the host overlaps no object.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address, bytes.len()) };
    }

    /// The slot of a host value; `None` for any other reference.
    pub(crate) fn external_slot(&self, reference: Reference) -> Option<u32> {
        let is_external = reference.is_object() && self.type_of(reference) == crate::TypeTable::EXTERNAL;
        is_external.then(|| self.load(reference, HEADER_BYTES, StorageKind::I32) as u32)
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
