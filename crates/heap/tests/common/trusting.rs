//! What the heap asks to be trusted with. The tests pass what it has given them, and show it all of their roots: where
//! they do not, they want to see the verifier say so.

use legato_heap::layout::StorageKind;
use legato_heap::{AllocationError, Heap, Reference, RootVisitor, Roots};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Roots that are as easily written as a vector.
#[derive(Default)]
pub struct Held(pub Vec<Reference>);

impl Held {
    pub fn new() -> Held {
        Held::default()
    }

    pub fn nulls(count: usize) -> Held {
        Held(vec![Reference::NULL; count])
    }
}

impl Deref for Held {
    type Target = Vec<Reference>;

    fn deref(&self) -> &Vec<Reference> {
        &self.0
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Vec<Reference> {
        &mut self.0
    }
}

// SAFETY: see above.
unsafe impl Roots for Held {
    fn visit_roots(&mut self, visitor: &mut dyn RootVisitor) {
        for slot in &mut self.0 {
            visitor.visit(slot);
        }
    }
}

/// The methods of heaps that are unsafe because of references that might be wrong.
pub trait Trusting {
    /// Writes a field, whatever it holds.
    fn put(&mut self, object: Reference, offset: u32, kind: StorageKind, bits: u128);
    /// Writes elements, whatever they are.
    fn fill(&mut self, array: Reference, start: u32, bits: u128, length: u32) -> Result<(), AllocationError>;
    /// Writes an element, whatever it is.
    fn set(&mut self, array: Reference, index: u32, bits: u128) -> Result<(), AllocationError>;
    /// Copies elements, whatever they are.
    fn copy(&mut self, to: (Reference, u32), from: (Reference, u32), length: u32) -> Result<(), AllocationError>;
    fn write_bytes(&mut self, array: Reference, start: u32, bytes: &[u8]) -> Result<(), AllocationError>;
    fn write_references(&mut self, array: Reference, start: u32, all: &[Reference]) -> Result<(), AllocationError>;
    fn initialise_references(&mut self, array: Reference, start: u32, all: &[Reference])
    -> Result<(), AllocationError>;
    fn reserve_leaves(
        &mut self,
        start: u32,
        length: u32,
        kept: &mut [Reference],
        roots: &mut dyn Roots,
    ) -> Result<(), AllocationError>;
    fn view(&mut self, kept: &mut [Reference], writable: bool, roots: &mut dyn Roots) -> Option<NonNull<u8>>;
    fn copy_back(&mut self, kept: &mut [Reference], bytes: &[u8], roots: &mut dyn Roots)
    -> Result<(), AllocationError>;
}

impl Trusting for Heap {
    fn put(&mut self, object: Reference, offset: u32, kind: StorageKind, bits: u128) {
        match kind {
            // SAFETY: see above.
            StorageKind::Ref => unsafe { self.store_reference(object, offset, Reference(bits as u32)) },
            // SAFETY: see above.
            _ => unsafe { self.store(object, offset, kind, bits) },
        }
    }

    fn fill(&mut self, array: Reference, start: u32, bits: u128, length: u32) -> Result<(), AllocationError> {
        match self.array_element_kind(array) {
            // SAFETY: see above.
            StorageKind::Ref => unsafe { self.array_fill_references(array, start, Reference(bits as u32), length) },
            // SAFETY: see above.
            _ => unsafe { self.array_fill(array, start, bits, length) },
        }
    }

    fn set(&mut self, array: Reference, index: u32, bits: u128) -> Result<(), AllocationError> {
        match self.array_element_kind(array) {
            // SAFETY: see above.
            StorageKind::Ref => unsafe { self.array_set_reference(array, index, Reference(bits as u32)) },
            // SAFETY: see above.
            _ => unsafe { self.array_set(array, index, bits) },
        }
    }

    fn copy(
        &mut self,
        (to, to_start): (Reference, u32),
        (from, from_start): (Reference, u32),
        length: u32,
    ) -> Result<(), AllocationError> {
        match self.array_element_kind(to) {
            // SAFETY: see above.
            StorageKind::Ref => unsafe { self.array_copy_references(to, to_start, from, from_start, length) },
            // SAFETY: see above.
            _ => unsafe { self.array_copy(to, to_start, from, from_start, length) },
        }
    }

    fn write_bytes(&mut self, array: Reference, start: u32, bytes: &[u8]) -> Result<(), AllocationError> {
        // SAFETY: see above.
        unsafe { self.array_write_bytes(array, start, bytes) }
    }

    fn write_references(&mut self, array: Reference, start: u32, all: &[Reference]) -> Result<(), AllocationError> {
        // SAFETY: see above.
        unsafe { self.array_write_references(array, start, all) }
    }

    fn initialise_references(
        &mut self,
        array: Reference,
        start: u32,
        all: &[Reference],
    ) -> Result<(), AllocationError> {
        // SAFETY: see above.
        unsafe { self.array_initialise_references(array, start, all) }
    }

    fn reserve_leaves(
        &mut self,
        start: u32,
        length: u32,
        kept: &mut [Reference],
        roots: &mut dyn Roots,
    ) -> Result<(), AllocationError> {
        // SAFETY: see above.
        unsafe { self.array_reserve_leaves(start, length, kept, roots) }
    }

    fn view(&mut self, kept: &mut [Reference], writable: bool, roots: &mut dyn Roots) -> Option<NonNull<u8>> {
        // SAFETY: see above.
        unsafe { self.array_view(kept, writable, roots) }
    }

    fn copy_back(
        &mut self,
        kept: &mut [Reference],
        bytes: &[u8],
        roots: &mut dyn Roots,
    ) -> Result<(), AllocationError> {
        // SAFETY: see above.
        unsafe { self.array_copy_back(kept, bytes, roots) }
    }
}
