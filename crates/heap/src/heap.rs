//! The public face: one heap of any configuration. The choice among axis values is made once, when the heap is made, and looked
//! at once for each call; everything below is generic over it.

use crate::arrays::copy::QuickCopy;
use crate::collector::Collector;
use crate::collector::generational::Generational;
use crate::collector::mark_sweep::MarkSweep;
use crate::config::HeapConfig;
use crate::core::Contents;
use crate::error::{AllocationError, HeapError};
use crate::layout::StorageKind;
use crate::observer::{Cause, GcObserver, HeapStats};
use crate::plan::MutatorContext;
use crate::reference::Reference;
use crate::references::References;
use crate::references::direct::Direct;
use crate::references::thin_handles::ThinHandles;
use crate::roots::{Kept, Roots};
use crate::type_table::TypeTable;
use crate::types::TypeId;
use crate::verify::VerifyError;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A heap: a cage of objects, with exactly one mutator at a time. May move between threads while the mutator stands.
///
/// References are plain numbers: the embedder keeps every one that it still needs among its [`Roots`] whenever a
/// method that takes roots is called. The methods that read and write objects panic where a reference is null, an
/// immediate, or not of this heap, and where an offset or index lies outside of the object.
pub struct Heap(pub(crate) Inner);

/// A heap of one choice of axis values.
pub(crate) enum Inner {
    MarkSweepDirect(MarkSweep<Direct>),
    MarkSweepThinHandles(MarkSweep<ThinHandles>),
    Generational(Box<Generational>),
}

/// The same expression for each of them.
macro_rules! dispatch {
    ($self:expr, $heap:ident => $result:expr) => {
        match $self {
            Inner::MarkSweepDirect($heap) => $result,
            Inner::MarkSweepThinHandles($heap) => $result,
            Inner::Generational($heap) => $result,
        }
    };
}

pub(crate) use dispatch;

impl Heap {
    /// Makes an empty heap for objects of the types in `types`.
    ///
    /// # Errors
    /// [`HeapError::InvalidConfig`], or [`HeapError::System`] where address space is lacking.
    pub fn new(config: &HeapConfig, types: Arc<TypeTable>) -> Result<Heap, HeapError> {
        config.validate()?;
        Ok(Heap(match (config.collector, config.references) {
            (Collector::MarkSweep, References::Direct) => Inner::MarkSweepDirect(MarkSweep::new(config, types)?),
            (Collector::MarkSweep, References::ThinHandles) => {
                Inner::MarkSweepThinHandles(MarkSweep::new(config, types)?)
            }
            (Collector::Generational, _) => Inner::Generational(Box::new(Generational::new(config, types)?)),
        }))
    }

    /// The configuration that the heap was made with.
    pub fn config(&self) -> &HeapConfig {
        dispatch!(&self.0, heap => &heap.core.config)
    }

    /// The type table.
    pub fn types(&self) -> &Arc<TypeTable> {
        dispatch!(&self.0, heap => &heap.core.types)
    }

    /// The address of offset 0 of the cage. Constant for the heap's life.
    pub fn cage_base(&self) -> *mut u8 {
        dispatch!(&self.0, heap => heap.core.pool.cage.base())
    }

    /// The context that compiled code and the heap share. Constant for the heap's life; other threads may access its atomic
    /// words.
    pub fn mutator_context(&self) -> *mut MutatorContext {
        dispatch!(&self.0, heap => heap.core.context.address())
    }

    /// Allocates a zeroed struct or exception. May collect. Panics where the type is neither.
    ///
    /// # Errors
    /// [`AllocationError::OutOfMemory`] where a full collection did not help.
    pub fn allocate_struct(&mut self, id: TypeId, roots: &mut dyn Roots) -> Result<Reference, AllocationError> {
        dispatch!(&mut self.0, heap => heap.allocate_struct(id, roots))
    }

    /// Allocates a zeroed array of `length` elements. May collect. Panics where the type is no array.
    ///
    /// # Errors
    /// [`AllocationError::TooLarge`] or [`AllocationError::TooLong`] for an array that could never fit, else
    /// [`AllocationError::OutOfMemory`].
    pub fn allocate_array(
        &mut self,
        id: TypeId,
        length: u32,
        roots: &mut dyn Roots,
    ) -> Result<Reference, AllocationError> {
        dispatch!(&mut self.0, heap => heap.allocate_array(id, length, Contents::Zeroed, roots))
    }

    /// Allocates an array of `length` elements whose contents are whatever the memory held. May collect. Panics where the type is
    /// no array.
    ///
    /// # Safety
    /// The caller writes every element before the next call that may collect. (Elements of references hold no references
    /// until then.)
    ///
    /// # Errors
    /// As for [`allocate_array`](Self::allocate_array).
    pub unsafe fn allocate_array_uninitialised(
        &mut self,
        id: TypeId,
        length: u32,
        roots: &mut dyn Roots,
    ) -> Result<Reference, AllocationError> {
        dispatch!(&mut self.0, heap => heap.allocate_array(id, length, Contents::Unwritten, roots))
    }

    /// Puts a host value behind a reference, an object of type [`TypeTable::EXTERNAL`]. The value is dropped at the end of
    /// the first collection that finds the object dead, or with the heap. May collect.
    ///
    /// # Errors
    /// [`AllocationError::OutOfMemory`]; the value is dropped then.
    pub fn allocate_external(
        &mut self,
        value: Box<dyn Any + Send + Sync>,
        roots: &mut dyn Roots,
    ) -> Result<Reference, AllocationError> {
        dispatch!(&mut self.0, heap => heap.allocate_external(value, roots))
    }

    /// Allocates a zeroed record of `bytes` that never moves and lives as long as the heap; returns its offset in the cage, a
    /// multiple of 8. Its contents are not traced. Never collects.
    ///
    /// # Errors
    /// [`AllocationError::OutOfMemory`] where the maximum is reached; whoever wants to try harder collects and calls again.
    pub fn allocate_immortal(&mut self, bytes: u32) -> Result<u32, AllocationError> {
        dispatch!(&mut self.0, heap => heap.allocate_immortal(bytes))
    }

    /// The host value behind a reference; `None` where the reference is null, an immediate or another object.
    pub fn external(&self, reference: Reference) -> Option<&(dyn Any + Send + Sync)> {
        dispatch!(&self.0, heap => Some(heap.core.externals.get(heap.core.external_slot(reference)?)?.as_ref()))
    }

    /// As [`external`](Self::external), to be changed.
    pub fn external_mut(&mut self, reference: Reference) -> Option<&mut (dyn Any + Send + Sync)> {
        dispatch!(&mut self.0, heap => {
            let slot = heap.core.external_slot(reference)?;
            Some(heap.core.externals.get_mut(slot)?.as_mut())
        })
    }

    /// Collects now. `cause` is reported as given.
    pub fn collect(&mut self, cause: Cause, roots: &mut dyn Roots) {
        dispatch!(&mut self.0, heap => heap.collect(cause, roots))
    }

    /// The heap's share of a safepoint poll: counts it under `stress`, and may collect.
    pub fn poll(&mut self, roots: &mut dyn Roots) {
        dispatch!(&mut self.0, heap => heap.poll(roots))
    }

    /// The exact type of an object.
    pub fn type_of(&self, reference: Reference) -> TypeId {
        dispatch!(&self.0, heap => heap.core.type_of(reference))
    }

    /// The length of an array in elements. Panics for other objects.
    pub fn array_length(&self, array: Reference) -> u32 {
        dispatch!(&self.0, heap => heap.core.array_length(array))
    }

    /// The element kind of an array. Panics for other objects.
    pub fn array_element_kind(&self, array: Reference) -> StorageKind {
        dispatch!(&self.0, heap => heap.core.element_kind(array))
    }

    /// The address of an object's header, until the next safepoint.
    pub fn object_address(&self, reference: Reference) -> *mut u8 {
        dispatch!(&self.0, heap => heap.core.pool.cage.address(heap.core.object(reference)))
    }

    /// Reads the value of `kind` at `offset` bytes from the object's start: its bits, zero-extended. For elements of arrays, see
    /// [`array_get`](Self::array_get).
    pub fn load(&self, reference: Reference, offset: u32, kind: StorageKind) -> u128 {
        dispatch!(&self.0, heap => heap.core.load(reference, offset, kind))
    }

    /// Writes the low bits of `bits` as a value of `kind` at `offset` bytes from the object's start, with the store barrier.
    /// For elements of arrays, see [`array_set`](Self::array_set).
    pub fn store(&mut self, reference: Reference, offset: u32, kind: StorageKind, bits: u128) {
        dispatch!(&mut self.0, heap => {
            heap.core.store(reference, offset, kind, bits);
            if kind == StorageKind::Ref {
                heap.stored(reference, offset);
            }
        })
    }

    /// Reads the element at `index`: its bits, zero-extended.
    pub fn array_get(&self, array: Reference, index: u32) -> u128 {
        dispatch!(&self.0, heap => heap.core.array_get(array, index))
    }

    /// Writes the low bits of `bits` to the element at `index`, with the store barrier. Never collects.
    ///
    /// # Errors
    /// As for [`array_fill`](Self::array_fill).
    pub fn array_set(&mut self, array: Reference, index: u32, bits: u128) -> Result<(), AllocationError> {
        self.array_fill(array, index, bits, 1)
    }

    /// Copies elements from `start_element` on out, as raw little-endian bytes.
    pub fn array_read_bytes(&self, array: Reference, start_element: u32, bytes: &mut [u8]) {
        dispatch!(&self.0, heap => heap.core.read_bytes(&heap.core.elements(array), start_element, bytes))
    }

    /// Sees to it that `length` elements of `kept[0]`, an array, from `start` on can be written without lack of memory. May collect;
    /// `kept` are roots besides `roots`. Does nothing where the array has fewer elements. A heap whose arrays lie in one piece never
    /// needs it; nor does a store to a single element.
    ///
    /// # Errors
    /// [`AllocationError::OutOfMemory`] where a full collection did not help.
    pub fn array_make_room(
        &mut self,
        start: u32,
        length: u32,
        kept: &mut [Reference],
        roots: &mut dyn Roots,
    ) -> Result<(), AllocationError> {
        dispatch!(&mut self.0, heap => match heap.core.lacking_leaves(&heap.core.elements(kept[0]), start, length) {
            None => Ok(()),
            Some((leaves, kind)) => heap.make_room(leaves, kind, &mut Kept { kept, roots }),
        })
    }

    /// Writes the low bits of `bits` to `length` elements from `start` on. Never collects.
    ///
    /// # Errors
    /// [`AllocationError::OutOfMemory`] where an array that does not lie in one piece needs memory and there is none: see
    /// [`array_make_room`](Self::array_make_room). A part of the elements may have been written.
    pub fn array_fill(&mut self, array: Reference, start: u32, bits: u128, length: u32) -> Result<(), AllocationError> {
        dispatch!(&mut self.0, heap => {
            let is_old = heap.is_old(heap.core.object(array));
            let filled = heap.core.array_fill(array, start, bits, length, is_old);
            filled.ok_or_else(|| heap.core.out_of_leaves(heap.stats().live_bytes))
        })
    }

    /// Copies `length` elements between arrays of equal element size, or within one; the ranges may overlap. Never collects.
    ///
    /// # Errors
    /// As for [`array_fill`](Self::array_fill).
    pub fn array_copy(
        &mut self,
        destination: Reference,
        destination_start: u32,
        source: Reference,
        source_start: u32,
        length: u32,
    ) -> Result<(), AllocationError> {
        dispatch!(&mut self.0, heap => {
            let is_old = heap.is_old(heap.core.object(destination));
            let (to, from) = ((destination, destination_start), (source, source_start));
            let copied = heap.core.array_copy(to, from, length, is_old);
            copied.ok_or_else(|| heap.core.out_of_leaves(heap.stats().live_bytes))
        })
    }

    /// As [`array_fill`](Self::array_fill), for compiled code: returns false, and writes nothing, where the range lies outside of
    /// the array.
    ///
    /// # Safety
    /// `array` refers to an array of this heap.
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
            let Some((from, to)) = elements.positions(start, length) else { return Ok(false) };
            let filled = heap.core.fill(&elements, from, to, bits, heap.is_old(elements.object));
            filled.map(|()| true).ok_or_else(|| heap.core.out_of_leaves(heap.stats().live_bytes))
        })
    }

    /// As [`array_copy`](Self::array_copy), for compiled code: returns false, and writes nothing, where a range lies outside of
    /// its array.
    ///
    /// # Safety
    /// Both refer to arrays of this heap, with elements of one size.
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
            let Some((to_position, to_end)) = to.positions(destination_start, length) else { return Ok(false) };
            let Some((from_position, _)) = from.positions(source_start, length) else { return Ok(false) };
            let is_old = heap.is_old(to.object);
            let copied = heap.core.copy(&to, to_position, &from, from_position, to_end - to_position, is_old);
            copied.map(|()| true).ok_or_else(|| heap.core.out_of_leaves(heap.stats().live_bytes))
        })
    }

    /// As [`trusted_array_copy`](Self::trusted_array_copy), for short copies between arrays that lie in one piece, which need no room;
    /// `None`, with nothing done, for others.
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
            let (to, copied) = unsafe {
                let (to, from) = (heap.core.trusted_object(destination), heap.core.trusted_object(source));
                (to, heap.core.copy_whole((to, destination_start), (from, source_start), length))
            };
            match copied {
                QuickCopy::NotQuick => None,
                QuickCopy::OutOfBounds => Some(false),
                QuickCopy::Done { offset, bytes, references } => {
                    if references && heap.is_old(to) {
                        heap.core.pool.cage.mark_cards(offset, bytes);
                    }
                    Some(true)
                }
            }
        })
    }

    /// Whether compiled code's store to `length` elements of an array from `start` on may need [`array_make_room`](Self::array_make_room).
    /// Quick, and false where arrays lie in one piece.
    ///
    /// # Safety
    /// `array` refers to an array of this heap.
    #[inline]
    pub unsafe fn lacks_room(&self, array: Reference, start: u32, length: u32) -> bool {
        dispatch!(&self.0, heap => {
            let lacking = |elements| heap.core.lacking_leaves(&elements, start, length).is_some();
            // SAFETY: by the contract.
            heap.core.spines.is_some() && lacking(unsafe { heap.core.trusted_array(array) })
        })
    }

    /// The leaf that compiled code is to write the element at `index` to, by its cage offset; the zero leaf where `is_zero` says
    /// that zero is written where there are zeros. Never collects.
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
            let leaf = unsafe {
                let object = heap.core.trusted_array(array).object;
                heap.core.leaf_for_store(object, index, is_zero, heap.is_old(object))
            };
            leaf.ok_or_else(|| heap.core.out_of_leaves(heap.stats().live_bytes))
        })
    }

    /// Writes raw little-endian bytes, a whole number of elements, over the elements from `start_element` on. Not for arrays
    /// of references. Never collects.
    ///
    /// # Errors
    /// As for [`array_fill`](Self::array_fill).
    pub fn array_write_bytes(
        &mut self,
        array: Reference,
        start_element: u32,
        bytes: &[u8],
    ) -> Result<(), AllocationError> {
        assert!(self.array_element_kind(array) != StorageKind::Ref, "raw bytes for an array of references");
        let size = self.array_element_kind(array).bytes() as usize;
        assert!(bytes.len().is_multiple_of(size), "{} bytes are no whole elements of {size}", bytes.len());
        self.write_elements(array, start_element, bytes)
    }

    /// Writes references over the elements from `start_element` on. Never collects.
    ///
    /// # Errors
    /// As for [`array_fill`](Self::array_fill).
    pub fn array_write_references(
        &mut self,
        array: Reference,
        start_element: u32,
        references: &[Reference],
    ) -> Result<(), AllocationError> {
        assert!(self.array_element_kind(array).bytes() == 4, "references for an array of something else");
        // SAFETY: a reference is a `u32`, which any four bytes are.
        let bytes = unsafe { std::slice::from_raw_parts(references.as_ptr().cast(), size_of_val(references)) };
        self.write_elements(array, start_element, bytes)
    }

    fn write_elements(&mut self, array: Reference, start: u32, bytes: &[u8]) -> Result<(), AllocationError> {
        dispatch!(&mut self.0, heap => {
            let elements = heap.core.elements(array);
            let written = heap.core.write_bytes(&elements, start, bytes, heap.is_old(elements.object));
            written.ok_or_else(|| heap.core.out_of_leaves(heap.stats().live_bytes))
        })
    }

    /// The cold path of the store barrier [`BarrierPlan::StoreBuffer`](crate::plan::BarrierPlan::StoreBuffer): empties the
    /// buffer.
    pub fn flush_store_buffer(&mut self) {
        dispatch!(&mut self.0, heap => heap.flush_store_buffer())
    }

    /// Running totals.
    pub fn stats(&self) -> HeapStats {
        dispatch!(&self.0, heap => heap.stats())
    }

    /// Reports every collection to `observer` from now on.
    pub fn set_observer(&mut self, observer: Box<dyn GcObserver>) {
        dispatch!(&mut self.0, heap => heap.core.observer = Some(observer))
    }

    /// Walks the whole heap and checks its invariants; with `roots`, checks them too.
    ///
    /// # Errors
    /// The first broken invariant, described.
    pub fn verify(&self, roots: Option<&mut dyn Roots>) -> Result<(), VerifyError> {
        dispatch!(&self.0, heap => heap.verify(roots))
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Heap").field("config", self.config()).field("stats", &self.stats()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heaps_move_between_threads() {
        fn is_send<T: Send>() {}
        fn is_shared<T: Send + Sync>() {}
        is_send::<Heap>();
        is_shared::<TypeTable>();
    }

    #[test]
    #[should_panic(expected = "outside of the heap")]
    fn foreign_references_are_met_by_a_panic() {
        let heap = Heap::new(&HeapConfig::default(), TypeTable::new().unwrap()).unwrap();
        heap.type_of(Reference(0x4000_0000));
    }

    #[test]
    #[should_panic(expected = "bytes 12..20 of an object of 16 bytes")]
    fn an_access_stays_in_its_object() {
        let types = TypeTable::new().unwrap();
        let shape = crate::TypeShape::Struct(vec![StorageKind::I64]);
        let id = types.register(crate::TypeInfo { shape, supertype: None }).unwrap();
        let mut heap = Heap::new(&HeapConfig::default(), types).unwrap();
        let object = heap.allocate_struct(id, &mut Vec::new()).unwrap();
        heap.load(object, 12, StorageKind::I64);
    }
}
