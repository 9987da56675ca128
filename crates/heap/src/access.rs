//! Reading and writing objects from the host: raw bits, with the size and bounds of each object respected.
//!
//! Elements of arrays are read and written in `arrays`. Every access is checked against the object's own size, so that
//! a wrong offset is a panic here and not a corrupted heap, and against the heap's accessible memory: a reference to an
//! object that has died, or to none, reads whatever lies there now, a made-up type and length included.

use crate::barrier::WriteBarrier;
use crate::core::Core;
use crate::layout::{ARRAY_LENGTH_OFFSET, HEADER_BYTES, StorageKind};
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::type_table::TypeTable;
use crate::types::{TypeId, TypeKind, TypeShape};

impl<M: ReferenceModel> Core<M> {
    /// The object's offset, checked to lie in accessible memory.
    #[inline]
    pub(crate) fn object(&self, reference: Reference) -> u32 {
        assert!(reference.is_object(), "{reference:?} is no object");
        let is_word = reference.0.is_multiple_of(4) && self.pool.is_accessible(reference.0, M::PLAN.reach());
        assert!(is_word, "{reference:?} lies outside of the heap");
        // SAFETY: aligned words of accessible memory, should the model read them; any bits are a `u32`.
        let object = unsafe { M::object(&self.pool.cage, reference) };
        let is_header = object.is_multiple_of(8) && self.pool.is_accessible(object, HEADER_BYTES + 8);
        assert!(is_header, "{reference:?} lies outside of the heap");
        object
    }

    pub(crate) fn type_of(&self, reference: Reference) -> TypeId {
        self.object(reference);
        // SAFETY: what the model reads is accessible, and so is the header.
        unsafe { M::type_id(&self.pool.cage, reference) }
    }

    /// As [`Heap::current`](crate::Heap::current).
    #[inline(always)]
    pub(crate) fn current(&self, reference: Reference) -> Reference {
        if !M::FORWARDS || !reference.is_object() {
            return reference;
        }
        self.object(reference);
        // SAFETY: an object's header is accessible.
        unsafe { M::current(&self.pool.cage, reference) }
    }

    /// Whether two references are the same: both null, one immediate, or to one object.
    pub(crate) fn same(&self, left: Reference, right: Reference) -> bool {
        for reference in [left, right] {
            if reference.is_object() {
                self.object(reference);
            }
        }
        // SAFETY: what the model reads is accessible.
        unsafe { M::same(&self.pool.cage, left, right) }
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
            self.array_object_bytes(record.bytes, self.array_length(reference))
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
        let start = u64::from(self.object(reference)) + offset;
        assert!(self.pool.is_accessible_to(start, start + bytes), "{reference:?} leads out of the heap");
        self.pool.cage.address(start as u32)
    }

    /// Panics unless the struct or exception has a field of `kind` at `offset`.
    pub(crate) fn check_field(&self, object: Reference, offset: u32, kind: StorageKind) {
        let id = self.type_of(object);
        let index = self.types.layout(id).and_then(|layout| layout.offsets.binary_search(&offset).ok());
        let held = index.and_then(|index| match &self.types.info(id).shape {
            TypeShape::Struct(fields) => fields.get(index),
            // The tag's id stands before the payload.
            TypeShape::Exception(payload) => {
                index.checked_sub(1).map_or(Some(&StorageKind::I32), |index| payload.get(index))
            }
            TypeShape::Array(_) | TypeShape::Function | TypeShape::External => None,
        });
        assert!(
            held == Some(&kind),
            "{object:?} of {id:?} has no field of {kind:?} at byte {offset}: {held:?} is there"
        );
    }

    pub(crate) fn load(&self, reference: Reference, offset: u32, kind: StorageKind) -> u128 {
        let address = self.range(reference, offset as u64, kind.bytes() as u64);
        let mut bits = [0; 16];
        // SAFETY: the range lies in the object, and `bits` holds the largest kind.
        unsafe { std::ptr::copy_nonoverlapping(address, bits.as_mut_ptr(), kind.bytes() as usize) };
        let bits = u128::from_le_bytes(bits);
        if M::FORWARDS && kind == StorageKind::Ref { self.current(Reference(bits as u32)).0.into() } else { bits }
    }

    pub(crate) fn store(&mut self, reference: Reference, offset: u32, kind: StorageKind, bits: u128) {
        let address = self.range(reference, offset as u64, kind.bytes() as u64);
        // SAFETY: the range lies in the object.
        unsafe { std::ptr::copy_nonoverlapping(bits.to_le_bytes().as_ptr(), address, kind.bytes() as usize) };
        let object = self.object(reference);
        self.mirror(object, object + offset..object + offset + kind.bytes());
    }

    /// The cage offset of the field of references at byte `offset` of a struct or exception. Panics where there is
    /// none.
    pub(crate) fn field_slot(&self, object: Reference, offset: u32) -> u32 {
        self.check_field(object, offset, StorageKind::Ref);
        self.object(object) + offset
    }

    /// Writes the field of references at byte `offset` of an object.
    pub(crate) fn store_field<B: WriteBarrier>(&mut self, object: u32, offset: u32, value: Reference, barrier: B) {
        let (cage, slot) = (&self.pool.cage, object + offset);
        barrier.before(cage, &mut self.overwritten, slot..slot + size_of::<Reference>() as u32);
        // SAFETY: a checked field of a live object lies there.
        unsafe { cage.write(slot, value.0) };
        barrier.after_field(cage, slot);
        self.mirror(object, slot..slot + size_of::<Reference>() as u32);
    }

    /// The slot of a host value; `None` for any other reference.
    pub(crate) fn external_slot(&self, reference: Reference) -> Option<u32> {
        let is_external = reference.is_object() && self.type_of(reference) == TypeTable::EXTERNAL;
        is_external.then(|| self.load(reference, HEADER_BYTES, StorageKind::I32) as u32)
    }
}
