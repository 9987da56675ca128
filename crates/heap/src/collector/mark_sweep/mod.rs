//! The `mark-sweep` collector: stop the mutator, mark precisely, sweep lazily (small objects) or at once (large
//! objects, host values, empty blocks). Nothing moves, so no reference ever changes.
//!
//! A collection retires the mutator's runs, clears the mark bits, marks from the roots, drops dead host values, sorts
//! the blocks (see [`SmallSpace`](crate::spaces::small::SmallSpace)), sets the next threshold and returns memory that
//! the next cycle will not need. Its pause grows with what is live and with the number of blocks.
//!
//! The classical design (McCarthy 1960; lazy sweeping after Hughes 1982); segregated size classes and runs of free
//! cells so that compiled code allocates by bumping. Limits: stop-the-world, fragmentation within size classes.

mod verify;

use crate::config::HeapConfig;
use crate::core::{Contents, Core};
use crate::error::{AllocationError, HeapError};
use crate::external::HostValue;
use crate::observer::{Cause, CollectionKind, GcEvent, HeapStats, PhaseTimes};
use crate::plan::BumpRun;
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::roots::Roots;
use crate::spaces::leaves::LeafKind;
use crate::type_table::TypeTable;
use crate::types::TypeId;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A heap with this collector and reference model `M`.
pub(crate) struct MarkSweep<M> {
    pub(crate) core: Core<M>,
}

impl<M: ReferenceModel> MarkSweep<M> {
    /// An empty heap. The configuration is valid.
    pub(crate) fn new(config: &HeapConfig, types: Arc<TypeTable>) -> Result<MarkSweep<M>, HeapError> {
        Ok(MarkSweep { core: Core::new(config, types)? })
    }

    /// Allocates an object of `bytes` with its header, zeroed but for large ones with other contents; for arrays, the
    /// caller writes the length before the next allocation.
    fn allocate(
        &mut self,
        id: TypeId,
        bytes: u32,
        contents: Contents,
        roots: &mut dyn Roots,
    ) -> Result<Reference, AllocationError> {
        self.core.check_size(bytes, contents)?;
        self.core.toggle_poll();
        self.tick(roots);
        let class = self.core.small.classes.of(bytes);
        let size = self.charge_for(class, bytes, contents);
        let mut collected = false;
        if self.needs_memory(class) && self.core.pacer.is_due(size + self.core.leaves.allocated_bytes()) {
            self.collect(Cause::Limit, roots);
            collected = true;
        }
        loop {
            if let Some(object) = self.try_take(class, bytes, contents) {
                let core = &mut self.core;
                core.stats.slow_allocations += 1;
                core.stats.large_allocations += class.is_none() as u64;
                // SAFETY: the cell is free and large enough, and the model was prepared.
                return Ok(unsafe { core.start_object(object, id) });
            }
            if !collected {
                self.collect(Cause::Exhaustion, roots);
                collected = true;
                if !self.core.is_exhausted(self.core.pacer.live) {
                    continue;
                }
            }
            return Err(self.core.out_of_memory(bytes, self.core.pacer.size()));
        }
    }

    /// Whether the object will need memory beyond the current runs.
    fn needs_memory(&mut self, class: Option<usize>) -> bool {
        class.is_none_or(|class| {
            let run = self.core.context.run(class);
            run.cursor == run.limit
        })
    }

    /// What an allocation counts for the threshold: large objects whole, others a cell.
    fn charge_for(&self, class: Option<usize>, bytes: u32, contents: Contents) -> u64 {
        match class {
            Some(class) => self.core.small.classes.cell(class) as u64,
            None => self.core.large_size(bytes, contents),
        }
    }

    /// Takes a free cell, with the model prepared; `None` where there is no memory for one of them.
    fn try_take(&mut self, class: Option<usize>, bytes: u32, contents: Contents) -> Option<u32> {
        let core = &mut self.core;
        if !core.model.prepare(&mut core.pool, &mut core.context) {
            // Dead objects that have not been swept still own handles.
            core.small.release_all_dead(&mut core.pool, &mut core.model, false);
            if !core.model.prepare(&mut core.pool, &mut core.context) {
                return None;
            }
        }
        let Some(class) = class else {
            let object = core.allocate_large(bytes, contents)?;
            let charge = self.charge_for(None, bytes, contents);
            self.core.pacer.charge(charge);
            return Some(object);
        };
        let cell = core.small.classes.cell(class);
        let run = core.context.run(class);
        if run.cursor == run.limit {
            *run = core.small.next_run(class, &mut core.pool, &mut core.model, Contents::Zeroed)?;
            core.pacer.charge((run.limit - run.cursor) as u64);
        }
        let object = run.cursor;
        run.cursor += cell;
        Some(object)
    }

    /// Counts an allocation or a poll under `stress`.
    fn tick(&mut self, roots: &mut dyn Roots) {
        if self.core.is_stressed() {
            self.collect(Cause::Stress, roots);
        }
    }

    pub(crate) fn poll(&mut self, roots: &mut dyn Roots) {
        self.core.context.lower_poll();
        if let Some(&object) = self.core.homecoming.last() {
            let is_old = self.is_old(object);
            self.core.bring_some_home(object, is_old);
        }
        self.tick(roots);
        if self.core.leaves.allocated_bytes() > self.core.leaf_budget {
            self.collect(Cause::Limit, roots);
        }
    }

    pub(crate) fn allocate_struct(&mut self, id: TypeId, roots: &mut dyn Roots) -> Result<Reference, AllocationError> {
        self.allocate(id, self.core.struct_bytes(id), Contents::Zeroed, roots)
    }

    pub(crate) fn allocate_array(
        &mut self,
        id: TypeId,
        length: u32,
        contents: Contents,
        roots: &mut dyn Roots,
    ) -> Result<Reference, AllocationError> {
        let bytes = self.core.array_bytes(id, length)?;
        let (leaves, kind) = self.core.eager_leaves(id, length)?;
        if leaves > 0 {
            self.make_room(leaves, kind, roots)?;
        }
        let held = self.core.contents_of_array(id, length, contents);
        let reference = self.allocate(id, bytes, held, roots)?;
        let array = self.core.object(reference);
        if !self.core.finish_array(array, id, length, kind, contents) {
            return Err(self.core.out_of_leaves(self.core.pacer.size()));
        }
        Ok(reference)
    }

    /// Collects, if need be, until `leaves` leaves can be had.
    pub(crate) fn make_room(
        &mut self,
        leaves: u64,
        kind: LeafKind,
        roots: &mut dyn Roots,
    ) -> Result<(), AllocationError> {
        let core = &self.core;
        let bytes = leaves * u64::from(core.leaves.leaf_bytes());
        let young = core.leaves.allocated_bytes();
        let available = core.leaves.available(kind, &core.pool);
        if available < leaves || young > 0 && core.pacer.size() + young + bytes > core.pacer.limit() {
            self.collect(if available < leaves { Cause::Exhaustion } else { Cause::Limit }, roots);
        }
        let core = &self.core;
        if core.leaves.available(kind, &core.pool) >= leaves && !core.is_exhausted(core.pacer.live) {
            return Ok(());
        }
        Err(core.out_of_memory(bytes.min(u32::MAX.into()) as u32, core.pacer.size()))
    }

    /// Whether an object would have to be remembered: there are no generations.
    #[inline]
    pub(crate) fn is_old(&self, _object: u32) -> bool {
        false
    }

    pub(crate) fn allocate_external(
        &mut self,
        value: HostValue,
        roots: &mut dyn Roots,
    ) -> Result<Reference, AllocationError> {
        let bytes = self.core.types.record(TypeTable::EXTERNAL).bytes;
        let reference = self.allocate(TypeTable::EXTERNAL, bytes, Contents::Zeroed, roots)?;
        self.core.bind_external(reference, value);
        Ok(reference)
    }

    pub(crate) fn allocate_immortal(&mut self, bytes: u32) -> Result<u32, AllocationError> {
        let record = self.core.immortal.allocate(&mut self.core.pool, bytes);
        record.ok_or_else(|| self.core.out_of_memory(bytes, self.core.pacer.size()))
    }

    /// A reference was stored at byte `offset` of an object: no barrier.
    pub(crate) fn stored(&mut self, _object: Reference, _offset: u32) {}

    /// The cold path of [`BarrierPlan::StoreBuffer`](crate::plan::BarrierPlan::StoreBuffer), which mark-sweep has no
    /// use for.
    pub(crate) fn flush_store_buffer(&mut self) {}

    pub(crate) fn collect(&mut self, cause: Cause, roots: &mut dyn Roots) {
        if self.core.config.verify && self.core.config.stress.is_some() {
            self.verify_or_panic("before", None);
        }
        let start = Instant::now();
        let core = &mut self.core;
        let mut phases = PhaseTimes::default();
        core.pacer.charge(core.leaves.allocated_bytes());
        let (before_bytes, allocated_bytes) = (core.pacer.size(), core.pacer.allocated);
        for class in 0..core.small.classes.count() {
            *core.context.run(class) = BumpRun::default();
        }
        core.mark(roots, &mut phases);
        let sweep_start = Instant::now();
        let dead_values = core.take_dead_values();
        let small = core.small.collected(&mut core.pool, &mut core.model);
        let large = core.sweep_large(cause != Cause::Limit);
        core.views.collected(&core.pool.marks);
        core.forget_dead_homecomers();
        let leaves = core.leaves.collected(&mut core.pool);
        if core.config.verify {
            core.small.release_all_dead(&mut core.pool, &mut core.model, true);
        }
        core.model.collected(&mut core.pool);
        core.pacer.collected(small.bytes + large.bytes + leaves.bytes, start.elapsed());
        core.leaf_budget = core.pacer.room();
        phases.sweep = sweep_start.elapsed();
        let release_start = Instant::now();
        core.pool.release_to_system(core.pacer.room());
        phases.release = release_start.elapsed();
        let pause = start.elapsed();

        core.stats.full_collections += 1;
        core.stats.live_objects = small.objects + large.objects;
        let event = GcEvent {
            number: 0,
            cause,
            kind: CollectionKind::Full,
            start: start.duration_since(core.made),
            before_bytes,
            after_bytes: core.pacer.live,
            limit_bytes: core.pacer.limit(),
            allocated_bytes,
            committed_bytes: core.pool.committed_bytes(),
            pause,
            phases,
            zeroing: Duration::ZERO,
            concurrent_zeroing: Duration::ZERO,
            promoted_bytes: 0,
            promoted_objects: 0,
            aging_bytes: 0,
            marked_objects: core.stats.live_objects,
            freed_handles: core.model.take_released(),
            dropped_externals: dead_values.len() as u64,
        };
        if core.config.verify {
            self.verify_or_panic("after", Some(roots));
        }
        self.core.report(event);
        drop(dead_values);
    }

    fn verify_or_panic(&self, when: &str, roots: Option<&mut dyn Roots>) {
        if let Err(error) = self.verify(roots) {
            panic!("verification {when} a collection after {} others: {error}", self.core.stats.collections);
        }
    }

    pub(crate) fn stats(&self) -> HeapStats {
        HeapStats {
            live_bytes: self.core.pacer.live,
            allocated_bytes: self.core.pacer.allocated_total() + self.core.leaves.allocated_bytes(),
            ..self.core.stats()
        }
    }
}
