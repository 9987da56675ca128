//! The `mark-sweep` collector: stop the mutator, mark precisely, sweep lazily (small objects) or at once (large objects, host
//! values, empty blocks). Nothing moves, so no reference ever changes.
//!
//! A collection retires the mutator's runs, clears the mark bits, marks from the roots, drops dead host values, sorts the
//! blocks (see [`SmallSpace`]), sets the next threshold and returns memory that the next cycle will not need. Its pause grows
//! with what is live and with the number of blocks.
//!
//! The classical design (McCarthy 1960; lazy sweeping after Hughes 1982); segregated size classes and runs of free
//! cells so that compiled code allocates by bumping. Limits: stop-the-world, fragmentation within size classes.

use super::marking::{MarkStack, Marker};
use crate::blocks::{BLOCK_BYTES, BlockPool};
use crate::config::HeapConfig;
use crate::context::Context;
use crate::error::{AllocationError, HeapError};
use crate::external::{Externals, HostValue};
use crate::layout::{ARRAY_LENGTH_OFFSET, HEADER_BYTES, TYPE_ID_OFFSET};
use crate::observer::{Cause, CollectionKind, GcEvent, GcObserver, HeapStats};
use crate::pacing::Pacer;
use crate::plan::BumpRun;
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::roots::Roots;
use crate::spaces::immortal::ImmortalSpace;
use crate::spaces::large;
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

/// A heap with this collector and reference model `M`.
pub(crate) struct MarkSweep<M> {
    pub(crate) config: HeapConfig,
    pub(crate) types: Arc<TypeTable>,
    pub(crate) pool: BlockPool,
    pub(crate) context: Context,
    pub(crate) model: M,
    pub(crate) small: SmallSpace,
    pub(crate) externals: Externals,
    pub(crate) observer: Option<Box<dyn GcObserver>>,
    immortal: ImmortalSpace,
    pacer: Pacer,
    stack: MarkStack,
    /// Allocations and polls left until the next collection under `stress`.
    stress_left: u32,
    stats: HeapStats,
}

impl<M: ReferenceModel> MarkSweep<M> {
    /// An empty heap. The configuration is valid.
    pub(crate) fn new(config: &HeapConfig, types: Arc<TypeTable>) -> Result<MarkSweep<M>, HeapError> {
        let heap = MarkSweep {
            config: config.clone(),
            types,
            pool: BlockPool::new(config.maximum())?,
            context: Context::new(),
            model: M::default(),
            small: SmallSpace::new(config.stress.is_some()),
            externals: Externals::default(),
            observer: None,
            immortal: ImmortalSpace::default(),
            pacer: Pacer::new(config),
            stack: MarkStack::new(),
            stress_left: config.stress.unwrap_or(0),
            stats: HeapStats::default(),
        };
        if config.stress_polls {
            heap.context.raise_poll();
        }
        Ok(heap)
    }

    /// Allocates a zeroed object of `bytes` with its header; for arrays, the caller writes the length before the next
    /// allocation.
    fn allocate(&mut self, id: TypeId, bytes: u32, roots: &mut dyn Roots) -> Result<Reference, AllocationError> {
        let maximum = self.config.maximum();
        if bytes as u64 > maximum {
            return Err(AllocationError::TooLarge { bytes: bytes as u64, maximum });
        }
        self.tick(roots);
        let class = self.small.classes.of(bytes);
        let size = self.charge_for(class, bytes);
        let mut collected = false;
        if self.needs_memory(class) && self.pacer.is_due(size) {
            self.collect(Cause::Threshold, roots);
            collected = true;
        }
        loop {
            if let Some(object) = self.try_take(class, bytes) {
                self.stats.slow_allocations += 1;
                self.stats.large_allocations += class.is_none() as u64;
                // SAFETY: the cell is free, zeroed and large enough, and the model was prepared.
                return Ok(unsafe {
                    self.pool.cage.write(object + TYPE_ID_OFFSET, id.0);
                    self.model.bind(&self.pool.cage, &mut self.context, object)
                });
            }
            if !collected {
                self.collect(Cause::Exhaustion, roots);
                collected = true;
                if self.pacer.live <= maximum - maximum / LEAST_FREE {
                    continue;
                }
            }
            return Err(AllocationError::OutOfMemory { requested: bytes as u64, live: self.pacer.size(), maximum });
        }
    }

    /// Whether the object will need memory beyond the current runs.
    fn needs_memory(&mut self, class: Option<usize>) -> bool {
        class.is_none_or(|class| {
            let run = self.context.run(class);
            run.cursor == run.limit
        })
    }

    /// What an allocation counts for the threshold: large objects whole, others a cell.
    fn charge_for(&self, class: Option<usize>, bytes: u32) -> u64 {
        match class {
            Some(class) => self.small.classes.cell(class) as u64,
            None => large::blocks_for(bytes) as u64 * BLOCK_BYTES as u64,
        }
    }

    /// Takes a free cell, with the model prepared; `None` where there is no memory for one of them.
    fn try_take(&mut self, class: Option<usize>, bytes: u32) -> Option<u32> {
        if !self.model.prepare(&mut self.pool, &mut self.context) {
            // Dead objects that have not been swept still own handles.
            self.small.release_all_dead(&mut self.pool, &mut self.model, false);
            if !self.model.prepare(&mut self.pool, &mut self.context) {
                return None;
            }
        }
        let Some(class) = class else {
            let object = large::allocate(&mut self.pool, bytes)?;
            self.pacer.charge(self.charge_for(None, bytes));
            return Some(object);
        };
        let cell = self.small.classes.cell(class);
        let run = self.context.run(class);
        if run.cursor == run.limit {
            *run = self.small.next_run(class, &mut self.pool, &mut self.model)?;
            self.pacer.charge((run.limit - run.cursor) as u64);
        }
        let object = run.cursor;
        run.cursor += cell;
        Some(object)
    }

    /// Counts an allocation or a poll under `stress`.
    fn tick(&mut self, roots: &mut dyn Roots) {
        if let Some(every) = self.config.stress {
            self.stress_left -= 1;
            if self.stress_left == 0 {
                self.stress_left = every;
                self.collect(Cause::Stress, roots);
            }
        }
    }

    pub(crate) fn poll(&mut self, roots: &mut dyn Roots) {
        self.tick(roots);
        if self.config.stress_polls {
            self.context.raise_poll();
        }
    }

    pub(crate) fn allocate_struct(&mut self, id: TypeId, roots: &mut dyn Roots) -> Result<Reference, AllocationError> {
        let record = self.types.record(id);
        let has_fields = [TypeKind::Struct, TypeKind::Exception].map(|kind| kind as u32).contains(&record.kind);
        assert!(has_fields, "{id:?} is neither a struct nor an exception");
        self.allocate(id, record.bytes, roots)
    }

    pub(crate) fn allocate_array(
        &mut self,
        id: TypeId,
        length: u32,
        roots: &mut dyn Roots,
    ) -> Result<Reference, AllocationError> {
        let record = self.types.record(id);
        assert!(record.kind == TypeKind::Array as u32, "{id:?} is no array");
        let bytes = array_object_bytes(record.bytes, length);
        let Ok(fitting) = u32::try_from(bytes) else {
            return Err(AllocationError::TooLarge { bytes, maximum: self.config.maximum() });
        };
        let reference = self.allocate(id, fitting, roots)?;
        // SAFETY: the object has just been allocated, with room for the length.
        unsafe {
            let object = M::object(&self.pool.cage, reference);
            self.pool.cage.write(object + ARRAY_LENGTH_OFFSET, length);
        }
        Ok(reference)
    }

    pub(crate) fn allocate_external(
        &mut self,
        value: HostValue,
        roots: &mut dyn Roots,
    ) -> Result<Reference, AllocationError> {
        let bytes = self.types.record(TypeTable::EXTERNAL).bytes;
        let reference = self.allocate(TypeTable::EXTERNAL, bytes, roots)?;
        // SAFETY: the object has just been allocated; its one field follows the header.
        unsafe {
            let object = M::object(&self.pool.cage, reference);
            let slot = self.externals.insert(value, object);
            self.pool.cage.write(object + HEADER_BYTES, slot);
        }
        Ok(reference)
    }

    pub(crate) fn allocate_immortal(&mut self, bytes: u32) -> Result<u32, AllocationError> {
        let (requested, maximum) = (bytes as u64, self.config.maximum());
        let record = self.immortal.allocate(&mut self.pool, bytes);
        record.ok_or_else(|| AllocationError::OutOfMemory { requested, live: self.pacer.size(), maximum })
    }

    pub(crate) fn collect(&mut self, cause: Cause, roots: &mut dyn Roots) {
        if self.config.verify && self.config.stress.is_some() {
            self.verify_or_panic("before", None);
        }
        let start = Instant::now();
        let before_bytes = self.pacer.size();
        for class in 0..self.small.classes.count() {
            *self.context.run(class) = BumpRun::default();
        }
        self.pool.marks.clear();
        let mut marker: Marker<'_, M> =
            Marker { pool: &mut self.pool, types: &self.types, stack: &mut self.stack, model: PhantomData };
        roots.visit_roots(&mut marker);
        marker.drain();
        self.stack.trim();
        let marks = &self.pool.marks;
        let dead_values = self.externals.take_dead(|object| marks.get(object));
        let small = self.small.collected(&mut self.pool, &mut self.model);
        let large = large::collected(&mut self.pool, &mut self.model);
        if self.config.verify {
            self.small.release_all_dead(&mut self.pool, &mut self.model, true);
        }
        self.model.collected(&mut self.pool);
        self.pacer.collected(small.bytes + large.bytes);
        self.pool.release_to_system(self.pacer.threshold - self.pacer.live.min(self.pacer.threshold));
        let pause = start.elapsed();

        let stats = &mut self.stats;
        stats.collections += 1;
        stats.live_objects = small.objects + large.objects;
        stats.pause_total_us += pause.as_micros() as u64;
        stats.pause_max_us = stats.pause_max_us.max(pause.as_micros() as u64);
        let event = GcEvent {
            number: stats.collections,
            cause,
            kind: CollectionKind::Full,
            before_bytes,
            after_bytes: self.pacer.live,
            threshold_bytes: self.pacer.threshold,
            committed_bytes: self.pool.committed_bytes(),
            pause,
            marked_objects: stats.live_objects,
            freed_handles: self.model.take_released(),
            dropped_externals: dead_values.len() as u64,
        };
        if self.config.verify {
            self.verify_or_panic("after", Some(roots));
        }
        if let Some(observer) = &mut self.observer {
            observer.event(&event);
        }
        drop(dead_values);
    }

    fn verify_or_panic(&self, when: &str, roots: Option<&mut dyn Roots>) {
        if let Err(error) = self.verify(roots) {
            panic!("verification {when} collection {}: {error}", self.stats.collections);
        }
    }

    pub(crate) fn stats(&self) -> HeapStats {
        HeapStats {
            live_bytes: self.pacer.live,
            allocated_bytes: self.pacer.allocated_total(),
            used_bytes: self.pool.used_bytes(),
            committed_bytes: self.pool.committed_bytes(),
            threshold_bytes: self.pacer.threshold,
            immortal_bytes: self.immortal.bytes,
            handle_bytes: self.model.occupied_bytes(),
            externals: self.externals.count() as u64,
            ..self.stats
        }
    }
}

/// Bytes of an array object with elements of `element_bytes`.
pub(crate) fn array_object_bytes(element_bytes: u32, length: u32) -> u64 {
    let elements = elements_offset(element_bytes) as u64 + element_bytes as u64 * length as u64;
    elements.next_multiple_of(8)
}

/// Offset of the first element of `element_bytes`.
pub(crate) fn elements_offset(element_bytes: u32) -> u32 {
    (ARRAY_LENGTH_OFFSET + 4).next_multiple_of(element_bytes.clamp(1, 8))
}
