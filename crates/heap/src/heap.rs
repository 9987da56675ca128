//! The public face: one heap of any configuration. The choice among axis values is made once, when the heap is made,
//! and looked at once for each call; everything below is generic over it.

use crate::barrier::NoBarrier;
use crate::budget::{Budget, Done};
use crate::closed::Closed;
use crate::collector::generational::Generational;
use crate::collector::mark_sweep::MarkSweep;
use crate::collector::realtime::Realtime;
use crate::collector::snapshot::Snapshot;
use crate::collector::{Collect, Collector};
use crate::config::HeapConfig;
use crate::error::{AllocationError, HeapError};
use crate::layout::StorageKind;
use crate::observer::{Cause, GcObserver, HeapStats};
use crate::plan::MutatorContext;
use crate::pressure::PressureSource;
use crate::reference::Reference;
use crate::references::References;
use crate::references::brooks::Brooks;
use crate::references::direct::Direct;
use crate::references::fat_handles::FatHandles;
use crate::references::replicating::Replicating;
use crate::references::thin_handles::ThinHandles;
use crate::references::uni_handles::UniHandles;
use crate::roots::Roots;
use crate::spaces::Contents;
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
///
/// Whatever puts a reference where the collector finds it is `unsafe`, since the collector trusts what it finds: a
/// wrong one would be followed. So is all writing to objects, numbers too: through a stale or made-up reference it
/// could overwrite other objects. Reading through one panics or gives whatever lies there, from the heap's accessible
/// memory alone (under [`verify`](HeapConfig::verify) it may fault instead).
pub struct Heap(pub(crate) Inner);

/// Makes of the table of heaps the type that is one of them, `dispatch!`, which does the same with any, and what makes
/// one.
macro_rules! heaps {
    ($($Heap:ident: $Type:ty = ($collector:pat, $references:pat),)+) => {
        /// A heap of one choice of axis values.
        #[allow(clippy::large_enum_variant, reason = "heaps are few, and are moved when they are made")]
        pub(crate) enum Inner {
            /// No objects yet.
            Closed(Box<Closed>),
            $($Heap($Type),)+
        }

        impl Inner {
            /// An empty heap. The configuration is valid.
            fn new(config: &HeapConfig, types: Arc<TypeTable>) -> Result<Inner, HeapError> {
                match (config.collector, config.references) {
                    $(($collector, $references) => {
                        // A function of its own for each: all of them in one frame, as code without optimisations has
                        // them, take more stack than a small thread has.
                        #[inline(never)]
                        fn make(config: &HeapConfig, types: Arc<TypeTable>) -> Result<Inner, HeapError> {
                            Ok(Inner::$Heap(<$Type>::new(config, types)?))
                        }
                        make(config, types)
                    })+
                    (collector, references) => unreachable!("{collector:?} does not take {references:?}"),
                }
            }
        }

        /// The same expression for each of them; for a closed heap another, or a panic.
        macro_rules! dispatch {
            ($self:expr, $heap:ident => $result:expr) => {
                match $self {
                    Inner::Closed(_) => panic!("a closed heap has no objects"),
                    $(Inner::$Heap($heap) => $result,)+
                }
            };
            ($self:expr, $closed:pat => $without:expr, $heap:ident => $result:expr) => {
                match $self {
                    Inner::Closed($closed) => $without,
                    $(Inner::$Heap($heap) => $result,)+
                }
            };
        }
    };
}

// A row for each collector with each reference model that it works with.
heaps! {
    MarkSweepDirect: MarkSweep<Direct> = (Collector::MarkSweep, References::Direct),
    MarkSweepThinHandles: MarkSweep<ThinHandles> = (Collector::MarkSweep, References::ThinHandles),
    MarkSweepFatHandles: MarkSweep<FatHandles> = (Collector::MarkSweep, References::FatHandles),
    MarkSweepUniHandles: MarkSweep<UniHandles> = (Collector::MarkSweep, References::UniHandles),
    Generational: Generational = (Collector::Generational(_), References::Direct),
    RealtimeDirect: Realtime<Direct> = (Collector::Realtime(_), References::Direct),
    RealtimeBrooks: Realtime<Brooks> = (Collector::Realtime(_), References::Brooks),
    RealtimeReplicating: Realtime<Replicating> = (Collector::Realtime(_), References::Replicating),
    RealtimeThinHandles: Realtime<ThinHandles> = (Collector::Realtime(_), References::ThinHandles),
    RealtimeFatHandles: Realtime<FatHandles> = (Collector::Realtime(_), References::FatHandles),
    RealtimeUniHandles: Realtime<UniHandles> = (Collector::Realtime(_), References::UniHandles),
    SnapshotDirect: Snapshot<Direct> = (Collector::Snapshot, References::Direct),
    SnapshotThinHandles: Snapshot<ThinHandles> = (Collector::Snapshot, References::ThinHandles),
}

#[allow(clippy::single_component_path_imports, reason = "a macro made by another has no path without it")]
pub(crate) use dispatch;

impl Heap {
    /// Makes an empty heap for objects of the types in `types`. Where the configuration has no maximum, the machine is
    /// asked what there is.
    ///
    /// # Errors
    /// [`HeapError::InvalidConfig`]; [`HeapError::AddressSpace`] where that is lacking, [`HeapError::System`] where the
    /// system refuses memory, or a mapping of it.
    pub fn new(config: &HeapConfig, types: Arc<TypeTable>) -> Result<Heap, HeapError> {
        config.validate()?;
        let (config, limit) = config.with_maximum();
        config.validate()?;
        let mut heap = Heap(Inner::new(&config, types)?);
        dispatch!(&mut heap.0, heap => heap.core.machine_limit = limit);
        Ok(heap)
    }

    /// The configuration that the heap was made with. It has a maximum in any case.
    pub fn config(&self) -> &HeapConfig {
        dispatch!(&self.0, closed => &closed.config, heap => &heap.core.config)
    }

    /// The type table.
    pub fn types(&self) -> &Arc<TypeTable> {
        dispatch!(&self.0, closed => &closed.types, heap => &heap.core.types)
    }

    /// The address of offset 0 of the cage. Constant for the heap's life, but for opening: null until then.
    pub fn cage_base(&self) -> *mut u8 {
        dispatch!(&self.0, _ => std::ptr::null_mut(), heap => heap.core.pool.cage.base())
    }

    /// The context that compiled code and the heap share. Constant for the heap's life; other threads may access its
    /// atomic words.
    pub fn mutator_context(&self) -> *mut MutatorContext {
        dispatch!(&self.0, closed => closed.context.address(), heap => heap.core.context.address())
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

    /// Allocates an array of `length` elements whose contents are whatever the memory held. May collect. Panics where
    /// the type is no array.
    ///
    /// # Safety
    /// The caller writes every element before the next call that may collect: references by
    /// [`array_initialise_references`](Self::array_initialise_references), as there are none to be overwritten.
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

    /// Puts a host value behind a reference, an object of type [`TypeTable::EXTERNAL`]. The value is dropped at the end
    /// of the first collection that finds the object dead, or with the heap. May collect.
    ///
    /// # Errors
    /// [`AllocationError::OutOfMemory`]; the value is dropped then.
    pub fn allocate_external(
        &mut self,
        value: Box<dyn Any + Send + Sync>,
        roots: &mut dyn Roots,
    ) -> Result<Reference, AllocationError> {
        self.allocate_sized_external(value, 0, roots)
    }

    /// As [`allocate_external`](Self::allocate_external), of a value that keeps so many bytes of memory outside of the
    /// heap. They are no part of its size, and `max` is no limit to them, but the more of them there are, the sooner it
    /// collects: what is dead keeps no more than what lives, or 16 MiB, but for what comes while a cycle runs; in a
    /// generational heap, 4 MiB of new values have the nursery collected.
    ///
    /// # Errors
    /// [`AllocationError::OutOfMemory`]; the value is dropped then.
    pub fn allocate_sized_external(
        &mut self,
        value: Box<dyn Any + Send + Sync>,
        outside_bytes: u64,
        roots: &mut dyn Roots,
    ) -> Result<Reference, AllocationError> {
        dispatch!(&mut self.0, heap => heap.allocate_external(value, outside_bytes, roots))
    }

    /// Allocates a zeroed record of `bytes` that never moves and lives as long as the heap; returns its offset in the
    /// cage, a multiple of 8. Its contents are not traced. Never collects.
    ///
    /// # Errors
    /// [`AllocationError::OutOfMemory`] where the maximum is reached; whoever wants to try harder collects and calls
    /// again.
    pub fn allocate_immortal(&mut self, bytes: u32) -> Result<u32, AllocationError> {
        dispatch!(&mut self.0, heap => heap.allocate_immortal(bytes))
    }

    /// The host value behind a reference; `None` where the reference is null, an immediate or another object.
    pub fn external(&self, reference: Reference) -> Option<&(dyn Any + Send + Sync)> {
        dispatch!(&self.0, _ => None, heap => {
            let slot = heap.core.external_slot(reference)?;
            Some(heap.core.externals.get(slot)?.as_ref())
        })
    }

    /// As [`external`](Self::external), to be changed.
    pub fn external_mut(&mut self, reference: Reference) -> Option<&mut (dyn Any + Send + Sync)> {
        dispatch!(&mut self.0, _ => None, heap => {
            let slot = heap.core.external_slot(reference)?;
            Some(heap.core.externals.get_mut(slot)?.as_mut())
        })
    }

    /// Collects now. `cause` is reported as given.
    pub fn collect(&mut self, cause: Cause, roots: &mut dyn Roots) {
        dispatch!(&mut self.0, _ => (), heap => heap.collect(cause, roots))
    }

    /// Goes on with the collection under way as far as `budget` allows, where the collector works in slices; begins one
    /// where that is worth it. Returns whether nothing is left to do: at once where the collector stops the program for
    /// whole collections. For embedders that have time to give.
    pub fn collect_some(&mut self, budget: &mut Budget, roots: &mut dyn Roots) -> Done {
        dispatch!(&mut self.0, _ => Done::Yes, heap => heap.collect_some(budget, roots))
    }

    /// Collects now, at once, and gives all memory that is free then back to the system, which the heap otherwise keeps
    /// for what is allocated next. Returns how many bytes of memory the heap has fewer. For embedders that will not
    /// use the heap for a while.
    pub fn trim(&mut self, roots: &mut dyn Roots) -> u64 {
        dispatch!(&mut self.0, _ => 0, heap => heap.trim(roots))
    }

    /// The heap's share of a safepoint poll: counts it under `stress`, and may collect.
    pub fn poll(&mut self, roots: &mut dyn Roots) {
        dispatch!(&mut self.0, closed => closed.context.lower_poll(), heap => heap.poll(roots))
    }

    /// Whether two references are the same: both null, one immediate, or to one object.
    pub fn same(&self, left: Reference, right: Reference) -> bool {
        dispatch!(&self.0, _ => left == right, heap => heap.core.same(left, right))
    }

    /// The reference that an object has now: another one where it has been moved and references are forwarded. What is
    /// stored among the embedder's roots must be such a reference, but for frames. Null and immediates are what they
    /// are. Where references are forwarded, panics for what leads out of the heap; otherwise nothing is looked at.
    #[inline]
    pub fn current(&self, reference: Reference) -> Reference {
        dispatch!(&self.0, _ => reference, heap => heap.core.current(reference))
    }

    /// Whether objects have been moved to which old references may be left: otherwise [`current`](Self::current)
    /// changes nothing.
    #[inline]
    pub fn has_old_copies(&self) -> bool {
        dispatch!(&self.0, _ => false, heap => heap.core.has_stale)
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

    /// Reads the value of `kind` at `offset` bytes from the object's start: its bits, zero-extended. For elements of
    /// arrays, see [`array_get`](Self::array_get).
    pub fn load(&self, reference: Reference, offset: u32, kind: StorageKind) -> u128 {
        dispatch!(&self.0, heap => heap.core.load(reference, offset, kind))
    }

    /// Writes the low bits of `bits` to the field of `kind`, a number, at `offset` bytes from the start of a struct or
    /// exception. For references see [`store_reference`](Self::store_reference), for elements of arrays
    /// [`array_set`](Self::array_set).
    ///
    /// # Panics
    /// Where the object has no such field there, or it holds references.
    ///
    /// # Safety
    /// `object` refers to an object of this heap that is live now.
    pub unsafe fn store(&mut self, object: Reference, offset: u32, kind: StorageKind, bits: u128) {
        assert!(kind != StorageKind::Ref, "a number for a field of references: use store_reference");
        dispatch!(&mut self.0, heap => {
            heap.core.check_field(object, offset, kind);
            heap.core.store(object, offset, kind, bits);
        })
    }

    /// Writes a reference to the field at `offset` bytes from the start of a struct or exception, with the store
    /// barrier. For elements of arrays, see [`array_set_reference`](Self::array_set_reference).
    ///
    /// # Panics
    /// Where the object has no field of references there.
    ///
    /// # Safety
    /// `object` is live now, and `value` is null, an immediate, or an object of this heap that is live now.
    pub unsafe fn store_reference(&mut self, object: Reference, offset: u32, value: Reference) {
        dispatch!(&mut self.0, heap => {
            let slot = heap.core.field_slot(object, offset);
            let barrier = heap.barrier(slot - offset);
            heap.core.store_field(slot - offset, offset, value, barrier);
        })
    }

    /// As [`store_reference`](Self::store_reference), into a field of a new object that has not been written yet: no
    /// barrier.
    ///
    /// # Panics
    /// As for [`store_reference`](Self::store_reference).
    ///
    /// # Safety
    /// As for [`store_reference`](Self::store_reference); no call that may collect has been made since the object's
    /// allocation.
    pub unsafe fn initialise_reference(&mut self, object: Reference, offset: u32, value: Reference) {
        dispatch!(&mut self.0, heap => {
            let slot = heap.core.field_slot(object, offset);
            let value = heap.core.current(value);
            heap.core.store_field(slot - offset, offset, value, NoBarrier);
        })
    }

    /// The cold path of [`RememberedPlan`](crate::plan::RememberedPlan): empties the store buffer.
    pub fn flush_store_buffer(&mut self) {
        dispatch!(&mut self.0, heap => heap.flush_store_buffer())
    }

    /// The cold path of [`SnapshotPlan`](crate::plan::SnapshotPlan): empties the buffer of overwritten references.
    pub fn flush_overwritten(&mut self) {
        dispatch!(&mut self.0, heap => heap.core.flush_overwritten())
    }

    /// Before the embedder overwrites references among its roots, or drops them: each of `overwritten`. Needed for
    /// roots that outlive a safepoint without being on a stack: globals, elements of tables and segments, handles of
    /// the host.
    #[inline]
    pub fn before_root_store(&mut self, overwritten: impl Iterator<Item = Reference>) {
        dispatch!(&mut self.0, _ => (), heap => heap.core.before_root_store(overwritten))
    }

    /// Visits some of the frames that [`Roots::visit_newest_frames`] has left for later, the newest ones first. The
    /// embedder calls it before one of them runs again. Never collects.
    pub fn visit_older_frames(&mut self, roots: &mut dyn Roots) {
        dispatch!(&mut self.0, _ => (), heap => heap.visit_older_frames(roots))
    }

    /// Running totals.
    pub fn stats(&self) -> HeapStats {
        dispatch!(&self.0, closed => closed.stats(), heap => heap.stats())
    }

    /// Reports every collection to `observer` from now on.
    pub fn set_observer(&mut self, observer: Box<dyn GcObserver>) {
        dispatch!(&mut self.0, closed => closed.observer = Some(observer), heap => {
            let notes = heap.core.pacer.machine_notes(heap.core.config.maximum(), heap.core.machine_limit.clone());
            heap.core.observer.insert(observer).machine(&notes);
        })
    }

    /// Has `source` asked for memory pressure from now on, in place of what the system tells. Makes no difference where
    /// the rule for the heap's size does not ask: all but [`Sizing::IslaVista`](crate::Sizing::IslaVista).
    pub fn set_pressure_source(&mut self, source: Box<dyn PressureSource>) {
        dispatch!(&mut self.0, closed => closed.source = Some(source), heap => heap.core.pacer.set_source(source))
    }

    /// Walks the whole heap and checks its invariants; with `roots`, checks them too.
    ///
    /// # Errors
    /// The first broken invariant, described.
    pub fn verify(&self, roots: Option<&mut dyn Roots>) -> Result<(), VerifyError> {
        dispatch!(&self.0, closed => closed.verify(roots), heap => heap.verify(roots))
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
    fn a_heap_without_a_maximum_gets_the_machines() {
        let heap = Heap::new(&HeapConfig::default(), TypeTable::new().unwrap()).unwrap();
        let maximum = heap.config().max_bytes.unwrap();
        assert!(maximum <= 2 << 30 && maximum == heap.stats().maximum_bytes, "{maximum}");
        assert!(heap.stats().limit_bytes <= maximum);
        let given = HeapConfig { max_bytes: Some(3 << 30), ..HeapConfig::default() };
        assert_eq!(Heap::new(&given, TypeTable::new().unwrap()).unwrap().stats().maximum_bytes, 3 << 30);
    }

    #[test]
    fn there_is_a_heap_of_whatever_a_collector_takes() {
        for &collector in Collector::ALL {
            for &references in collector.attributes().references().values {
                let config = HeapConfig { collector, references, max_bytes: Some(1 << 30), ..HeapConfig::default() };
                let heap = Heap::new(&config, TypeTable::new().unwrap()).unwrap();
                assert_eq!(heap.config(), &config);
            }
        }
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
        let object = heap.allocate_struct(id, &mut crate::NoRoots).unwrap();
        heap.load(object, 12, StorageKind::I64);
    }
}
