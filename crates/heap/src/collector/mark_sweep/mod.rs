//! The `mark-sweep` collector: stop the mutator, mark precisely, sweep lazily (small objects) or at once (large
//! objects, host values, empty blocks). Nothing moves, so no reference ever changes.
//!
//! A collection retires the mutator's runs, clears the mark bits, marks from the roots, drops dead host values, sorts
//! the blocks (see [`SmallSpace`](crate::spaces::small::SmallSpace)), sets the next threshold and returns memory that
//! the next cycle will not need. Its pause grows with what is live and with the number of blocks.
//!
//! The classical design (McCarthy 1960; lazy sweeping after Hughes 1982); segregated size classes and runs of free
//! cells so that compiled code allocates by bumping. Limits: stop-the-world; where little is free, small objects take
//! cells of larger classes.

pub(crate) mod attributes;
mod verify;

use crate::barrier::NoBarrier;
use crate::blocks::{BlockPool, Release};
use crate::budget::finish;
use crate::collector::Collect;
use crate::config::HeapConfig;
use crate::core::Core;
use crate::error::{AllocationError, HeapError};
use crate::observer::{Cause, CollectionKind, GcEvent, HeapStats, Phase, PhaseTimes, StopKind};
use crate::plan::BumpRun;
use crate::references::ReferenceModel;
use crate::roots::Roots;
use crate::spaces::Contents;
use crate::spaces::leaves::LeafKind;
use crate::spaces::small::{Fit, MAX_RUN_BYTES};
use crate::type_table::TypeTable;
use crate::types::{TypeId, TypeKind};
use crate::verify::Check;
use crate::verify::due::When;
use std::sync::Arc;
use std::time::Duration;

/// A heap with this collector and reference model `M`.
pub(crate) struct MarkSweep<M> {
    pub(crate) core: Core<M>,
}

impl<M: ReferenceModel> MarkSweep<M> {
    /// An empty heap. The configuration is valid.
    pub(crate) fn new(config: &HeapConfig, types: Arc<TypeTable>) -> Result<MarkSweep<M>, HeapError> {
        Ok(MarkSweep { core: Core::new(config, types)? })
    }

    /// Whether the object will need memory beyond the current runs.
    pub(crate) fn needs_memory(&mut self, class: Option<usize>) -> bool {
        class.is_none_or(|class| {
            let run = self.core.context.run(class);
            run.cursor == run.limit
        })
    }

    /// What an allocation counts for the threshold: large objects whole, others a cell.
    pub(crate) fn charge_for(&self, class: Option<usize>, bytes: u32, contents: Contents) -> u64 {
        match class {
            Some(class) => self.core.small.classes.cell(class) as u64,
            None => self.core.large_size(bytes, contents),
        }
    }

    /// Takes a free cell for an object of type `id`, with the model prepared; `None` where there is no memory for one
    /// of them.
    pub(crate) fn try_take(&mut self, id: TypeId, class: Option<usize>, bytes: u32, contents: Contents) -> Option<u32> {
        let core = &mut self.core;
        let is_array = M::HANDLES && core.types.record(id).kind == TypeKind::Array as u32;
        if !core.model.prepare(&mut core.pool, &mut core.context, is_array) {
            if !core.model.releases() {
                return None;
            }
            // Dead objects that have not been swept still own handles.
            core.small.release_all_dead(&mut core.pool, &mut core.model, false);
            if !core.model.prepare(&mut core.pool, &mut core.context, is_array) {
                return None;
            }
        }
        let Some(class) = class else {
            let object = core.allocate_large(bytes, contents)?;
            let charge = self.charge_for(None, bytes, contents);
            self.core.pacer.charge(charge);
            return Some(object);
        };
        if core.context.run(class).cursor == core.context.run(class).limit {
            *core.context.run(class) = core.take_run(class)?;
        }
        let run = core.context.run(class);
        let object = run.cursor;
        run.cursor += core.small.classes.cell(class);
        Some(object)
    }
}

impl<M: ReferenceModel> Core<M> {
    /// The next run of a class for the mutator: of its queue, or else one that is swept for, with those that the queue
    /// is filled with. `None` where there is no memory.
    fn take_run(&mut self, class: usize) -> Option<BumpRun> {
        let Core { small, queues, context, pool, model, pacer, .. } = self;
        if let Some(run) = queues.take(context, class) {
            return Some(run);
        }
        let run = small.next_run(class, Fit::Tight, pool, model);
        let run = run.or_else(|| small.borrow_run(class, pool, model))?;
        let mut left = MAX_RUN_BYTES.saturating_sub(run.limit - run.cursor);
        queues.fill(context, class, || {
            let run = small.next_run_of_block(class, left, pool, model)?;
            left -= run.limit - run.cursor;
            Some(run)
        });
        let runs = || std::iter::once(run).chain(queues.waiting(context, class));
        pool.mark_born_cells(runs(), small.classes.cell(class));
        for run in runs() {
            pacer.charge((run.limit - run.cursor).into());
            pool.zero_run(run);
        }
        Some(run)
    }

    /// Takes what the mutator has been given of a class and not used: each run is shown, and then nobody's.
    pub(crate) fn retire_runs(&mut self, class: usize, mut show: impl FnMut(&mut BlockPool, BumpRun)) {
        show(&mut self.pool, std::mem::take(self.context.run(class)));
        self.queues.waiting(&self.context, class).for_each(|run| show(&mut self.pool, run));
        self.queues.clear(&mut self.context, class);
    }
}

impl<M: ReferenceModel> Collect for MarkSweep<M> {
    type Model = M;
    type Barrier = NoBarrier;

    fn core(&self) -> &Core<M> {
        &self.core
    }

    fn core_mut(&mut self) -> &mut Core<M> {
        &mut self.core
    }

    fn allocate(
        &mut self,
        id: TypeId,
        bytes: u32,
        contents: Contents,
        roots: &mut dyn Roots,
    ) -> Result<u32, AllocationError> {
        self.core.check_size(bytes, contents)?;
        self.core.toggle_poll();
        self.tick(roots);
        let class = self.core.small.classes.of(bytes);
        let size = self.charge_for(class, bytes, contents);
        let (mut collected, mut is_counted) = (false, false);
        if self.needs_memory(class) && self.core.pacer.is_due(size + self.core.leaves.allocated_bytes()) {
            self.collect(Cause::Limit, roots);
            collected = true;
        }
        loop {
            if let Some(object) = self.try_take(id, class, bytes, contents) {
                let core = &mut self.core;
                core.stats.slow_allocations += 1;
                core.stats.large_allocations += class.is_none() as u64;
                // SAFETY: the cell is free and large enough, and the model was prepared.
                unsafe { core.start_object(object, id) };
                return Ok(object);
            }
            if !std::mem::replace(&mut is_counted, true) {
                self.core.count_exhaustion();
            }
            if !collected {
                self.collect(Cause::Exhaustion, roots);
                collected = true;
                if !self.core.is_still_exhausted(self.core.pacer.live) {
                    continue;
                }
            } else if let Some(class) = class
                && !self.core.is_still_exhausted(self.core.pacer.live)
                && self.core.small.crowd(class)
            {
                continue;
            }
            return Err(self.core.out_of_memory(bytes, self.core.pacer.size()));
        }
    }

    fn reserve_leaves(&mut self, leaves: u64, kind: LeafKind, roots: &mut dyn Roots) -> Result<(), AllocationError> {
        let core = &self.core;
        let bytes = leaves * u64::from(core.leaves.leaf_bytes());
        let young = core.leaves.allocated_bytes();
        let available = core.leaves.available(kind, &core.pool);
        if available < leaves || young > 0 && core.pacer.size() + young + bytes > core.pacer.limit() {
            let is_short = available < leaves;
            if is_short {
                self.core.count_exhaustion();
            }
            self.collect(if is_short { Cause::Exhaustion } else { Cause::Limit }, roots);
        }
        let core = &self.core;
        if core.leaves.available(kind, &core.pool) >= leaves && !core.is_still_exhausted(core.pacer.live) {
            return Ok(());
        }
        Err(core.out_of_memory(bytes.min(u32::MAX.into()) as u32, core.pacer.size()))
    }

    #[inline]
    fn barrier(&self, _object: u32) -> NoBarrier {
        NoBarrier
    }

    fn allocate_immortal(&mut self, bytes: u32) -> Result<u32, AllocationError> {
        let record = self.core.immortal.allocate(&mut self.core.pool, bytes);
        record.ok_or_else(|| self.core.out_of_memory(bytes, self.core.pacer.size()))
    }

    fn collect(&mut self, cause: Cause, roots: &mut dyn Roots) {
        if self.core.config.stress.is_some() {
            self.verify_if_due(When::Before, None);
        }
        let core = &mut self.core;
        let stop = core.start_stop();
        let start = stop.start;
        core.pacer.starts();
        let mut phases = PhaseTimes::default();
        core.pacer.charge(core.leaves.allocated_bytes());
        let (before_bytes, allocated_bytes) = (core.pacer.size(), core.pacer.allocated);
        for class in 0..core.small.classes.count() {
            *core.context.run(class) = BumpRun::default();
        }
        core.model.retire(&mut core.pool, &mut core.context);
        core.mark(roots, &mut phases);
        let slice = core.start_slice(Phase::Sweep);
        let mut sweeping = core.start_sweep(cause != Cause::Limit);
        finish(|budget| core.sweep(&mut sweeping, budget));
        let survivors = sweeping.survivors();
        let dropped_externals = core.externals.dead_count() as u64;
        core.pacer.collected(survivors.bytes, core.pacer.allocated, 0, start.elapsed());
        core.leaf_budget = core.pacer.headroom();
        phases.sweep = core.end_slice(slice);
        let slice = core.start_slice(Phase::Release);
        let mut release = Release::new(core.memory_to_keep(cause, 0));
        finish(|budget| core.pool.release_to_system(&mut release, budget));
        phases.release = core.end_slice(slice);
        let pause = core.end_stop(stop, StopKind::Full);

        core.stats.live_objects = survivors.objects;
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
            cycle: None,
            phases,
            zeroing: Duration::ZERO,
            concurrent_zeroing: Duration::ZERO,
            concurrent_marking: Duration::ZERO,
            promoted_bytes: 0,
            promoted_objects: 0,
            moved_objects: 0,
            moved_bytes: 0,
            aging_bytes: 0,
            marked_objects: core.stats.live_objects,
            freed_handles: core.model.take_released(),
            dropped_externals,
            pressure: None,
        };
        self.verify_if_due(When::After, Some(roots));
        self.core.report(event);
        finish(|budget| self.core.externals.drop_dead(budget));
    }

    fn check(&self, roots: Option<&mut dyn Roots>) -> Check {
        self.check_all(roots)
    }

    fn size(&self) -> u64 {
        self.core.pacer.size()
    }

    fn stats(&self) -> HeapStats {
        HeapStats {
            live_bytes: self.core.pacer.live,
            allocated_bytes: self.core.pacer.allocated_total() + self.core.leaves.allocated_bytes(),
            ..self.core.stats()
        }
    }
}
