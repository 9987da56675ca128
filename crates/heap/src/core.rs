//! What every collector's heap consists of: configuration, types, blocks, the mature space of small objects, host values, totals.

use crate::blocks::BlockPool;
use crate::collector::marking::{MarkStack, Marker};
use crate::config::HeapConfig;
use crate::context::Context;
use crate::error::{AllocationError, HeapError};
use crate::external::{Externals, HostValue};
use crate::layout::{self, ARRAY_LENGTH_OFFSET, HEADER_BYTES};
use crate::observer::{GcEvent, GcObserver, HeapStats, PhaseTimes};
use crate::pacing::Pacer;
use crate::references::ReferenceModel;
use crate::roots::Roots;
use crate::spaces::immortal::ImmortalSpace;
use crate::spaces::small::SmallSpace;
use crate::type_table::TypeTable;
use crate::types::{TypeId, TypeKind};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

/// An exhausted heap of which a full collection frees less than this part of the maximum counts as out of memory, though the
/// one object might fit: otherwise a program that fills its heap slowly would spend minutes in ever more frequent
/// collections before it fails.
const LEAST_FREE: u64 = 64;

/// The parts that all collectors share, with reference model `M`.
pub(crate) struct Core<M> {
    pub(crate) config: HeapConfig,
    pub(crate) types: Arc<TypeTable>,
    pub(crate) pool: BlockPool,
    pub(crate) context: Context,
    pub(crate) model: M,
    pub(crate) small: SmallSpace,
    pub(crate) externals: Externals,
    pub(crate) immortal: ImmortalSpace,
    pub(crate) pacer: Pacer,
    pub(crate) observer: Option<Box<dyn GcObserver>>,
    pub(crate) stats: HeapStats,
    /// When the heap was made.
    pub(crate) made: Instant,
    marking: MarkStack,
    /// Allocations and polls left until the next collection under `stress`.
    stress_left: u32,
}

/// What a new object's fields and elements hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Contents {
    /// Zeros.
    Zeroed,
    /// Whatever the memory held: the caller writes all of it before the next safepoint.
    Unwritten,
}

impl<M: ReferenceModel> Core<M> {
    /// The parts of an empty heap. The configuration is valid.
    pub(crate) fn new(config: &HeapConfig, types: Arc<TypeTable>) -> Result<Core<M>, HeapError> {
        let core = Core {
            config: config.clone(),
            types,
            pool: BlockPool::new(config.maximum())?,
            context: Context::new(),
            model: M::default(),
            small: SmallSpace::new(config.stress.is_some()),
            externals: Externals::default(),
            immortal: ImmortalSpace::default(),
            pacer: Pacer::new(config),
            observer: None,
            stats: HeapStats::default(),
            made: Instant::now(),
            marking: MarkStack::new(),
            stress_left: config.stress.unwrap_or(0),
        };
        if config.stress_polls {
            core.context.raise_poll();
        }
        Ok(core)
    }

    /// Bytes of a struct or exception. Panics for other types.
    pub(crate) fn struct_bytes(&self, id: TypeId) -> u32 {
        let record = self.types.record(id);
        let has_fields = [TypeKind::Struct, TypeKind::Exception].map(|kind| kind as u32).contains(&record.kind);
        assert!(has_fields, "{id:?} is neither a struct nor an exception");
        record.bytes
    }

    /// Bytes of an array of `length` elements. Panics for other types.
    pub(crate) fn array_bytes(&self, id: TypeId, length: u32) -> Result<u32, AllocationError> {
        let record = self.types.record(id);
        assert!(record.kind == TypeKind::Array as u32, "{id:?} is no array");
        let (bytes, maximum) = (layout::array_object_bytes(record.bytes, length), self.config.maximum());
        u32::try_from(bytes).map_err(|_| AllocationError::TooLarge { bytes, maximum })
    }

    /// Refuses objects that an empty heap could not hold.
    pub(crate) fn check_size(&self, bytes: u32) -> Result<(), AllocationError> {
        let (bytes, maximum) = (bytes as u64, self.config.maximum());
        if bytes > maximum { Err(AllocationError::TooLarge { bytes, maximum }) } else { Ok(()) }
    }

    /// Whether so little is free beside `live` bytes that the heap counts as out of memory.
    pub(crate) fn is_exhausted(&self, live: u64) -> bool {
        let maximum = self.config.maximum();
        live > maximum - maximum / LEAST_FREE
    }

    /// The error for `bytes` that do not fit beside `live` bytes.
    pub(crate) fn out_of_memory(&self, bytes: u32, live: u64) -> AllocationError {
        AllocationError::OutOfMemory { requested: bytes as u64, live, maximum: self.config.maximum() }
    }

    /// Writes the length of a new array.
    pub(crate) fn set_array_length(&self, object: u32, length: u32) {
        // SAFETY: the array has just been allocated, with room for the length.
        unsafe { self.pool.cage.write(object + ARRAY_LENGTH_OFFSET, length) };
    }

    /// Puts a host value behind the new object at `object`; returns its slot.
    pub(crate) fn bind_external(&mut self, object: u32, value: HostValue) -> u32 {
        let slot = self.externals.insert(value, object);
        // SAFETY: the object has just been allocated; its one field follows the header.
        unsafe { self.pool.cage.write(object + HEADER_BYTES, slot) };
        slot
    }

    /// Counts an allocation or a poll; whether `stress` asks for a collection now.
    pub(crate) fn is_stressed(&mut self) -> bool {
        let Some(every) = self.config.stress else { return false };
        self.stress_left -= 1;
        if self.stress_left > 0 {
            return false;
        }
        self.stress_left = every;
        true
    }

    /// Clears the mark bits, and marks every object that the roots reach.
    pub(crate) fn mark(&mut self, roots: &mut dyn Roots, phases: &mut PhaseTimes) {
        let start = Instant::now();
        self.pool.marks.clear();
        let mut marker: Marker<'_, M> =
            Marker { pool: &mut self.pool, types: &self.types, stack: &mut self.marking, model: PhantomData };
        roots.visit_roots(&mut marker);
        let visited = Instant::now();
        marker.drain();
        self.marking.trim();
        phases.roots += visited - start;
        phases.mark += visited.elapsed();
    }

    /// Counts a finished collection, and tells the observer of it. The number of `event` is set here.
    pub(crate) fn report(&mut self, mut event: GcEvent) {
        let pause = event.pause.as_micros() as u64;
        let stats = &mut self.stats;
        stats.collections += 1;
        stats.pause_total_us += pause;
        stats.pause_max_us = stats.pause_max_us.max(pause);
        event.number = stats.collections;
        if let Some(observer) = &mut self.observer {
            observer.event(&event);
        }
    }

    /// Running totals, but for what collectors count each in their own way.
    pub(crate) fn stats(&self) -> HeapStats {
        HeapStats {
            used_bytes: self.pool.used_bytes(),
            committed_bytes: self.pool.committed_bytes(),
            limit_bytes: self.pacer.limit(),
            immortal_bytes: self.immortal.bytes,
            handle_bytes: self.model.occupied_bytes(),
            externals: self.externals.count() as u64,
            ..self.stats
        }
    }
}
