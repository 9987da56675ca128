//! `full=incremental`: the mature space is collected in [cycles](crate::collector::cycle), whose slices come at the
//! nursery's refills and at polls.
//!
//! A cycle begins and stops marking right behind a nursery collection. When it begins there are no young objects, so
//! that every young one is newer than the snapshot: marking leaves them out, and what is promoted meanwhile is marked
//! in both planes. When marking ends no slot of a dead object is remembered, so that its memory can be used again.
//!
//! Where memory runs out before the end of a cycle, that is finished at once, behind the nursery collection that found
//! none: a missed deadline. Young objects may be left then, in blocks that are kept for lack of memory. They are newer
//! than the snapshot like all young ones: whatever they lead to was reachable, or is as new. They are marked in both
//! planes, and what is remembered of them is remembered by cards, which may stand for dead objects. Everything is
//! collected at once only where the cycle has not freed enough, or somebody asks for it: then one that still marks is
//! broken off.

use super::Generational;
use crate::barrier::Overwritten;
use crate::budget::{Budget, Done, finish};
use crate::collector::Collect;
use crate::collector::cycle::Cycle;
use crate::collector::helper::thread::MarkingHelper;
use crate::collector::schedule::{CycleParams, Fill, Scheduler};
use crate::core::Core;
use crate::error::HeapError;
use crate::observer::{Cause, CollectionKind, GcEvent, StopKind};
use crate::references::direct::Direct;
use crate::roots::Roots;
use crate::verify::due::When;
use std::time::{Duration, Instant};

/// What a nursery collection counts.
const NURSERY_UNITS: u64 = 4096;

/// The cycle under way, and when its slices come.
pub(super) struct Incremental {
    pub(super) cycle: Cycle,
    scheduler: Scheduler,
    /// Old objects when marking ended.
    old_objects: u64,
}

impl Incremental {
    /// No cycle, in a heap that is prepared for them.
    ///
    /// # Errors
    /// [`HeapError::System`] where the system refuses memory.
    pub(super) fn new(params: CycleParams, core: &mut Core<Direct>) -> Result<Incremental, HeapError> {
        core.overwritten = Overwritten::new(&mut core.context);
        core.pool.add_plane()?;
        core.helper = MarkingHelper::new(params.helpers, core.config.stress.is_some());
        Ok(Incremental { cycle: Cycle::new(), scheduler: Scheduler::without_share(params), old_objects: 0 })
    }

    /// Whether a cycle marks.
    #[inline]
    pub(super) fn is_marking(&self) -> bool {
        self.cycle.is_marking()
    }

    /// Whether a cycle is under way.
    pub(super) fn is_running(&self) -> bool {
        self.cycle.is_running()
    }
}

impl Generational {
    /// What the mature space holds.
    fn fill(&self) -> Fill {
        let core = &self.core;
        Fill {
            size: core.pacer.size() + core.leaves.allocated_bytes(),
            live: core.pacer.live,
            limit: core.pacer.limit(),
            maximum: core.pacer.ceiling(),
            addresses: core.pool.addresses_left(),
            allocated: core.pacer.allocated_total(),
        }
    }

    /// Whether a cycle begins behind the nursery collection that is about to be made: always where it is made for that.
    pub(super) fn is_cycle_due(&self, cause: Cause) -> bool {
        let Some(incremental) = self.incremental.as_ref().filter(|incremental| !incremental.is_running()) else {
            return false;
        };
        matches!(cause, Cause::Stress | Cause::Requested)
            || self.core.externals.are_many()
            || incremental.scheduler.is_cycle_due(self.fill(), Instant::now())
    }

    /// Whether a cycle is under way.
    pub(super) fn in_cycle(&self) -> bool {
        self.incremental.as_ref().is_some_and(Incremental::is_running)
    }

    /// What may be done at once beside a nursery collection; `None` where the mutator is stopped for whatever is to be
    /// done.
    pub(super) fn quantum(&self) -> Option<Budget> {
        self.incremental.as_ref().map(|incremental| incremental.scheduler.quantum(Instant::now()))
    }

    /// Before a nursery collection: what it changes, no helper is to read meanwhile.
    pub(super) fn before_nursery_collection(&mut self) {
        if let Some(incremental) = &self.incremental {
            self.core.take_marking();
            incremental.cycle.forget_young(&mut self.core, &self.nursery.ages);
        }
    }

    /// Behind a nursery collection that has left nothing young: begins a cycle if it is to, or ends marking if nothing
    /// is left to be marked.
    pub(super) fn after_nursery_collection(&mut self, begins: bool, cause: Cause, roots: &mut dyn Roots) {
        let fill = self.fill();
        let Some(incremental) = &mut self.incremental else { return };
        let now = Instant::now();
        if begins {
            incremental.scheduler.start(fill, now);
            // The barrier tells of nothing that is overwritten in young objects.
            assert_eq!(self.nursery.kept_bytes(), 0, "a snapshot is taken when nothing is young");
            incremental.cycle.start(&mut self.core, cause, false, roots);
        } else if incremental.cycle.is_marked() {
            let mut budget = incremental.scheduler.quantum(now);
            if incremental.cycle.mark(&mut self.core, roots, Some(&self.nursery.ages), &mut budget) == Done::Yes {
                self.terminate();
            }
        } else {
            incremental.cycle.give(&mut self.core, Some(&self.nursery.ages));
        }
    }

    /// Ends marking.
    fn terminate(&mut self) {
        let Some(incremental) = &mut self.incremental else { return };
        self.runs.retire();
        incremental.cycle.terminate(&mut self.core);
        incremental.old_objects = self.old_objects;
    }

    /// Behind a nursery collection that lacks memory: goes on to the end of the cycle under way, if there is one.
    /// Returns what is to be reported of it at the end of the stop.
    pub(super) fn finish_cycle(&mut self, roots: &mut dyn Roots) -> Option<GcEvent> {
        let cycle = &mut self.incremental.as_mut().filter(|incremental| incremental.is_running())?.cycle;
        let start = Instant::now();
        cycle.is_sliced = true;
        if cycle.is_marking() {
            finish(|budget| cycle.mark(&mut self.core, roots, Some(&self.nursery.ages), budget));
            self.terminate();
        }
        let Incremental { cycle, scheduler, .. } = self.incremental.as_mut()?;
        cycle.work += start.elapsed();
        finish(|budget| cycle.sweep(&mut self.core, budget));
        scheduler.stopped(start, Instant::now());
        self.count_cycle()
    }

    /// A slice, if it is time.
    pub(super) fn keep_schedule(&mut self, roots: &mut dyn Roots) {
        if !self.in_cycle() {
            return;
        }
        let (fill, now) = (self.fill(), Instant::now());
        let Some(Incremental { cycle, scheduler, .. }) = &mut self.incremental else { return };
        let due = match cycle.is_marked() {
            true => cycle.due_to_flood(&self.core, scheduler, now),
            false => cycle.due(&mut self.core, scheduler, fill, now),
        };
        if let Some((mut budget, is_early)) = due {
            let kind = if is_early { StopKind::ShrunkGap } else { StopKind::Slice };
            self.slice_of(kind, roots, &mut budget);
        }
    }

    /// Goes on with a cycle, or begins one that is worth it. Nursery collections are made where a cycle needs them.
    pub(super) fn collect_some_in_cycle(&mut self, budget: &mut Budget, roots: &mut dyn Roots) -> Done {
        if !self.in_cycle() {
            let fill = self.fill();
            if !self.incremental.as_ref().is_some_and(|incremental| incremental.scheduler.is_cycle_worth(fill)) {
                return Done::Yes;
            }
            self.run(Cause::Requested, CollectionKind::Nursery, 0, roots);
        }
        while self.in_cycle() && !budget.is_exhausted() {
            match self.incremental.as_ref().is_some_and(|incremental| incremental.cycle.is_marked()) {
                true => {
                    self.run(Cause::Requested, CollectionKind::Nursery, 0, roots);
                    budget.spend(NURSERY_UNITS);
                }
                false => self.slice_of(StopKind::Idle, roots, budget),
            }
        }
        if self.in_cycle() { Done::No } else { Done::Yes }
    }

    /// A unit of a cycle, if one is under way.
    pub(in crate::collector) fn slice_under_stress(&mut self, roots: &mut dyn Roots) {
        if self.in_cycle() {
            self.slice_of(StopKind::Slice, roots, &mut Budget::units(1));
            self.verify_if_due(When::InTheMidst, None);
        }
    }

    /// One slice.
    fn slice_of(&mut self, kind: StopKind, roots: &mut dyn Roots, budget: &mut Budget) {
        let stop = self.core.start_stop();
        let Some(incremental) = &mut self.incremental else { return };
        let Incremental { cycle, scheduler, .. } = incremental;
        cycle.is_sliced = true;
        let done = match cycle.is_marking() {
            true => {
                let _ = cycle.mark(&mut self.core, roots, Some(&self.nursery.ages), budget);
                Done::No
            }
            false => cycle.sweep(&mut self.core, budget),
        };
        let (start, wall) = (stop.start, self.core.end_stop(stop, kind));
        scheduler.stopped(start, start + wall);
        cycle.work += wall;
        if done == Done::Yes {
            self.end_cycle(roots);
        }
    }

    fn end_cycle(&mut self, roots: &mut dyn Roots) {
        let event = self.count_cycle();
        self.verify_if_due(When::After, Some(roots));
        event.into_iter().for_each(|event| self.core.report(event));
    }

    /// Counts what a cycle that has ended has found. Returns what is to be reported of it.
    fn count_cycle(&mut self) -> Option<GcEvent> {
        let fill = self.fill();
        let incremental = self.incremental.as_mut()?;
        incremental.scheduler.end(fill.size, fill.allocated, self.core.helper.time(), Instant::now());
        self.old_objects = incremental.cycle.objects() + self.old_objects - incremental.old_objects;
        Some(incremental.cycle.event(&mut self.core))
    }

    /// Before everything is collected at once: ends a cycle under way, or breaks it off.
    pub(super) fn leave_cycle(&mut self) {
        let Some(incremental) = self.incremental.as_mut().filter(|incremental| incremental.is_running()) else {
            return;
        };
        let cycle = &mut incremental.cycle;
        match cycle.is_marking() {
            true => cycle.abandon(&mut self.core),
            false => finish(|budget| cycle.sweep(&mut self.core, budget)),
        }
        incremental.scheduler.end(0, self.core.pacer.allocated_total(), Duration::ZERO, Instant::now());
    }
}
