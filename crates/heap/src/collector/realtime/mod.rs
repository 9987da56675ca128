//! The `realtime` collector: marks and sweeps in slices, so that no stop is longer than a slice, and moves nothing.
//!
//! It allocates, and sweeps lazily, as mark-sweep does; its [cycles](crate::collector::cycle) run in slices at run
//! refills and polls, when the [schedule](crate::collector::schedule) says so. Where memory runs out before the end of
//! a cycle, that is finished at once: a missed deadline, which is counted.
//!
//! Source: the host collector of Handles Revisited, sections 2 and 4; the snapshot barrier after Yuasa 1990. Limits:
//! what dies while a cycle marks is found by the next one; fragmentation within size classes.

pub(crate) mod attributes;
#[cfg(test)]
mod tests;

use crate::barrier::{Overwritten, Record};
use crate::budget::{Budget, Done, finish};
use crate::collector::cycle::Cycle;
use crate::collector::helper::thread::MarkingHelper;
use crate::collector::mark_sweep::MarkSweep;
use crate::collector::schedule::{Fill, Scheduler};
use crate::collector::{Collect, Collector};
use crate::config::HeapConfig;
use crate::core::Core;
use crate::error::{AllocationError, HeapError};
use crate::observer::{Cause, HeapStats, StopKind};
use crate::references::ReferenceModel;
use crate::roots::Roots;
use crate::spaces::Contents;
use crate::spaces::leaves::LeafKind;
use crate::spaces::run_queues::{OF_CLASSES, RunQueues};
use crate::type_table::TypeTable;
use crate::types::TypeId;
use crate::verify::Check;
use crate::verify::due::When;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Instant;

/// A heap with this collector and reference model `M`.
pub(crate) struct Realtime<M> {
    mark_sweep: MarkSweep<M>,
    cycle: Cycle,
    scheduler: Scheduler,
    /// What will have been handed out when a run refill looks at the schedule again, in bytes.
    next_look: u64,
}

/// Run refills look at the schedule once for so many bytes. A look at the clock waits for every load before it: in a
/// heap in pieces, where each object is a run of its own, the program's cache misses would no longer overlap.
const LOOK_BYTES: u64 = 4096;

/// What is not written here is mark-sweep's.
impl<M> Deref for Realtime<M> {
    type Target = MarkSweep<M>;

    fn deref(&self) -> &MarkSweep<M> {
        &self.mark_sweep
    }
}

impl<M> DerefMut for Realtime<M> {
    fn deref_mut(&mut self) -> &mut MarkSweep<M> {
        &mut self.mark_sweep
    }
}

impl<M: ReferenceModel> Realtime<M> {
    /// An empty heap. The configuration is valid.
    pub(crate) fn new(config: &HeapConfig, types: Arc<TypeTable>) -> Result<Realtime<M>, HeapError> {
        let Collector::Realtime(params) = config.collector else { unreachable!("another collector's heap") };
        let mut mark_sweep = MarkSweep::new(config, types)?;
        let core = &mut mark_sweep.core;
        core.overwritten = Overwritten::new(&mut core.context);
        core.queues = RunQueues::new(&mut core.context, OF_CLASSES);
        core.pool.add_plane()?;
        core.helper = MarkingHelper::new(params.helpers, config.stress.is_some());
        Ok(Realtime { mark_sweep, cycle: Cycle::new(), scheduler: Scheduler::new(params), next_look: 0 })
    }

    fn fill(&self) -> Fill {
        let core = &self.core;
        let leaves = core.leaves.allocated_bytes();
        Fill {
            size: core.pacer.size() + leaves,
            live: core.pacer.live,
            limit: core.pacer.limit(),
            maximum: core.pacer.ceiling(),
            addresses: core.pool.addresses_left(),
            allocated: core.pacer.allocated_total() + leaves,
        }
    }

    /// Begins a cycle. What the mutator has been given and not used counts as born from now on.
    fn start_cycle(&mut self, cause: Cause, roots: &mut dyn Roots) {
        self.scheduler.start(self.fill(), Instant::now());
        let core = &mut self.mark_sweep.core;
        self.cycle.start(core, cause, true, roots);
        for class in 0..core.small.classes.count() {
            let (run, cell) = (*core.context.run(class), core.small.classes.cell(class));
            core.pool.mark_born_cells(std::iter::once(run).chain(core.queues.waiting(&core.context, class)), cell);
        }
        core.model.mark_born(&mut core.pool, &core.context);
    }

    /// Ends marking. What the mutator has been given and not used is free.
    fn terminate(&mut self) {
        let core = &mut self.mark_sweep.core;
        for class in 0..core.small.classes.count() {
            core.retire_runs(class, |pool, run| pool.unmark_unborn(run.cursor, run.limit));
        }
        core.model.retire(&mut core.pool, &mut core.context);
        self.cycle.terminate(core);
    }

    /// Goes on with the cycle under way.
    fn step(&mut self, roots: &mut dyn Roots, budget: &mut Budget) -> Done {
        if self.cycle.is_marking() {
            if self.cycle.mark(&mut self.mark_sweep.core, roots, None, budget) == Done::No {
                return Done::No;
            }
            self.terminate();
        }
        if self.cycle.heal(&mut self.mark_sweep.core, roots, budget) == Done::No {
            return Done::No;
        }
        self.cycle.sweep(&mut self.mark_sweep.core, budget)
    }

    /// One stop of the mutator, in which `act` goes on with a cycle.
    fn stop(&mut self, kind: StopKind, roots: &mut dyn Roots, act: impl FnOnce(&mut Self, &mut dyn Roots)) {
        let (stop, marked) = (self.core.start_stop(), self.cycle.is_marking());
        self.cycle.is_sliced |= self.cycle.is_running();
        act(self, roots);
        let (start, wall) = (stop.start, self.core.end_stop(stop, kind));
        self.scheduler.stopped(start, start + wall);
        self.cycle.work += wall;
        if !self.cycle.is_running() {
            return self.end_cycle(roots);
        }
        // All that is reachable is marked when marking has ended: what is not counts as free from then on.
        let has_marked = marked && !self.cycle.is_marking();
        if has_marked {
            self.verify_if_due(When::InTheMidst, Some(roots));
        }
    }

    fn end_cycle(&mut self, roots: &mut dyn Roots) {
        let fill = self.fill();
        self.scheduler.end(fill.size, fill.allocated, self.core.helper.time(), Instant::now());
        let core = &mut self.mark_sweep.core;
        core.stats.live_objects = self.cycle.objects();
        let event = self.cycle.event(core);
        self.verify_if_due(When::After, Some(roots));
        self.core.report(event);
    }

    /// Goes on to the end of the cycle.
    fn run_to_end(&mut self, roots: &mut dyn Roots) {
        finish(|budget| self.step(roots, budget));
    }

    /// A slice, or the beginning of a cycle, if it is time.
    fn keep_schedule(&mut self, roots: &mut dyn Roots) {
        let (fill, now) = (self.fill(), Instant::now());
        if !self.cycle.is_running() {
            let is_due = self.core.externals.are_many() || self.scheduler.is_cycle_due(fill, now);
            if is_due && self.scheduler.may_stop(now) {
                self.stop(StopKind::Slice, roots, |heap, roots| heap.start_cycle(Cause::Limit, roots));
            }
            return;
        }
        let due = self.cycle.due(&mut self.mark_sweep.core, &mut self.scheduler, fill, now);
        if let Some((mut budget, is_early)) = due {
            let kind = if is_early { StopKind::ShrunkGap } else { StopKind::Slice };
            self.stop(kind, roots, |heap, roots| {
                let _ = heap.step(roots, &mut budget);
            });
        }
    }

    /// Collects, as much as is needed, until `take` finds memory.
    fn with_memory<R>(
        &mut self,
        roots: &mut dyn Roots,
        mut take: impl FnMut(&mut MarkSweep<M>) -> Option<R>,
    ) -> Option<R> {
        if let Some(found) = take(&mut self.mark_sweep) {
            return Some(found);
        }
        self.core.count_exhaustion();
        if self.cycle.is_running() {
            self.stop(StopKind::MissedDeadline, roots, Self::run_to_end);
            if !self.core.is_still_exhausted(self.core.pacer.live)
                && let Some(found) = take(&mut self.mark_sweep)
            {
                return Some(found);
            }
        }
        self.collect(Cause::Exhaustion, roots);
        if self.core.is_still_exhausted(self.core.pacer.live) { None } else { take(&mut self.mark_sweep) }
    }

    /// Where a collection has found no cell of a class: has the class borrow those of larger ones.
    fn with_borrowed<R>(
        &mut self,
        class: Option<usize>,
        take: impl FnOnce(&mut MarkSweep<M>) -> Option<R>,
    ) -> Option<R> {
        let may_borrow = !self.core.is_still_exhausted(self.core.pacer.live) && self.core.small.crowd(class?);
        if may_borrow { take(&mut self.mark_sweep) } else { None }
    }
}

impl<M: ReferenceModel> Collect for Realtime<M> {
    type Model = M;
    type Barrier = Record;

    fn core(&self) -> &Core<M> {
        &self.mark_sweep.core
    }

    fn core_mut(&mut self) -> &mut Core<M> {
        &mut self.mark_sweep.core
    }

    #[inline]
    fn barrier(&self, _object: u32) -> Record {
        let heals = M::FORWARDS && self.core.has_stale;
        Record { is_marking: self.cycle.is_marking(), heal: if heals { M::PLAN.heal() } else { None } }
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
        if class.is_none() || self.needs_memory(class) && self.core.pacer.allocated_total() >= self.next_look {
            self.keep_schedule(roots);
            self.next_look = self.core.pacer.allocated_total() + LOOK_BYTES;
        }
        let mut take = |heap: &mut MarkSweep<M>| heap.try_take(id, class, bytes, contents);
        let found = self.with_memory(roots, &mut take).or_else(|| self.with_borrowed(class, take));
        let Some(object) = found else {
            return Err(self.core.out_of_memory(bytes, self.core.pacer.size()));
        };
        let core = &mut self.core;
        core.stats.slow_allocations += 1;
        core.stats.large_allocations += class.is_none() as u64;
        // SAFETY: the cell is free and large enough, and the model was prepared.
        unsafe { core.start_object(object, id) };
        Ok(object)
    }

    fn reserve_leaves(&mut self, leaves: u64, kind: LeafKind, roots: &mut dyn Roots) -> Result<(), AllocationError> {
        self.keep_schedule(roots);
        let available = |heap: &mut MarkSweep<M>| {
            let core = &heap.core;
            (core.leaves.available(kind, &core.pool) >= leaves).then_some(())
        };
        if self.with_memory(roots, available).is_some() {
            return Ok(());
        }
        let bytes = leaves * u64::from(self.core.leaves.leaf_bytes());
        Err(self.core.out_of_memory(bytes.min(u32::MAX.into()) as u32, self.core.pacer.size()))
    }

    fn allocate_immortal(&mut self, bytes: u32) -> Result<u32, AllocationError> {
        self.mark_sweep.allocate_immortal(bytes)
    }

    /// Finishes the cycle under way, then makes a whole one at once.
    fn collect(&mut self, cause: Cause, roots: &mut dyn Roots) {
        if self.cycle.is_running() {
            self.stop(StopKind::Full, roots, Self::run_to_end);
        }
        self.stop(StopKind::Full, roots, |heap, roots| {
            heap.start_cycle(cause, roots);
            heap.run_to_end(roots);
        });
    }

    /// One unit of a cycle.
    fn collect_stressed(&mut self, roots: &mut dyn Roots) {
        self.stop(StopKind::Slice, roots, |heap, roots| {
            if !heap.cycle.is_running() {
                heap.start_cycle(Cause::Stress, roots);
            }
            let _ = heap.step(roots, &mut Budget::units(1));
        });
        self.verify_if_due(When::InTheMidst, None);
    }

    fn visit_older_frames(&mut self, roots: &mut dyn Roots) {
        self.cycle.visit_older_frames(&mut self.mark_sweep.core, roots, None);
    }

    fn collect_some(&mut self, budget: &mut Budget, roots: &mut dyn Roots) -> Done {
        if !self.cycle.is_running() {
            if !self.scheduler.is_cycle_worth(self.fill()) {
                return Done::Yes;
            }
            self.stop(StopKind::Idle, roots, |heap, roots| heap.start_cycle(Cause::Requested, roots));
        }
        let mut done = Done::No;
        self.stop(StopKind::Idle, roots, |heap, roots| done = heap.step(roots, budget));
        done
    }

    #[cfg(test)]
    fn phase(&self) -> &'static str {
        self.cycle.phase()
    }

    fn collect_leaves(&mut self, roots: &mut dyn Roots) {
        self.keep_schedule(roots);
    }

    fn collect_externals(&mut self, roots: &mut dyn Roots) {
        if self.core.externals.are_many() {
            self.keep_schedule(roots);
        }
    }

    fn slice(&mut self, roots: &mut dyn Roots) {
        self.keep_schedule(roots);
    }

    fn size(&self) -> u64 {
        self.mark_sweep.size()
    }

    fn stats(&self) -> HeapStats {
        self.mark_sweep.stats()
    }

    fn check(&self, roots: Option<&mut dyn Roots>) -> Check {
        self.mark_sweep.check(roots)
    }
}
