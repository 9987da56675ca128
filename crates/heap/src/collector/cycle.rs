//! A *cycle*: a collection of the whole heap in slices, between which the mutator runs.
//!
//! What is live is what was reachable when the cycle began, and what has been allocated since (snapshot at the
//! beginning, Yuasa 1990). The newest frames are visited then, older ones in slices, or when they are going to run;
//! other roots, and the heap, in slices. A store that overwrites a reference meanwhile tells of it first (the snapshot
//! barrier): so nothing that was reachable is missed, though the mutator hides it. What is allocated meanwhile is
//! marked, and not scanned: whatever it leads to was reachable, or is as new.
//!
//! | phase | what it does | who begins it |
//! |---|---|---|
//! | snapshot | visits the newest frames; from now on stores tell what they overwrite | [`Cycle::start`] |
//! | frames | visits older frames | [`Cycle::mark`], [`Cycle::visit_older_frames`] |
//! | slots | visits tables, globals, host roots | [`Cycle::mark`] |
//! | mark | marks what is reached, and what was overwritten | [`Cycle::mark`] |
//! | terminate | nothing is left to be marked: the planes of mark bits change places | [`Cycle::terminate`] |
//! | heal | visits frames and slots again, where references to old copies may be left; then nothing is mirrored any more | [`Cycle::heal`] |
//! | sweep | frees and queues what was not marked | [`Cycle::sweep`] |
//! | defragment | moves objects out of blocks that are nearly empty | [`Cycle::sweep`] |
//! | values | drops host values of dead objects | [`Cycle::sweep`] |
//! | release | gives memory back to the system | [`Cycle::sweep`] |
//! | clear | clears the stale plane for the next cycle | [`Cycle::sweep`] |
//!
//! While it marks, a [helper](super::helper) may go on with that beside the mutator.
//!
//! The collectors that work in cycles decide when each slice comes, and how long it may be.

mod due;

use super::defragment::Defragmenting;
use super::sweeping::Sweeping;
use crate::ages::{Age, Ages};
use crate::blocks::Release;
use crate::budget::{Budget, Done};
use crate::core::Core;
use crate::observer::{Cause, CollectionKind, GcEvent, Phase, PhaseTimes};
use crate::references::ReferenceModel;
use crate::roots::{FRAMES_AHEAD, RootCursor, RootVisitor, Roots};
use std::time::{Duration, Instant};

/// Overwritten references marked that count as much as one object.
const OVERWRITTEN_PER_UNIT: usize = 4;

/// What is to be done next.
#[derive(Debug, Default)]
enum State {
    /// To wait for the next cycle.
    #[default]
    Waiting,
    Frames,
    Slots(RootCursor),
    Mark,
    /// Everything reachable is marked, for now.
    Marked,
    Heal(Healing, Sweeping),
    Sweep(Sweeping),
    Defragment(Defragmenting),
    Release(Release),
    Values,
    Clear(usize),
}

/// What is to be healed next.
#[derive(Debug)]
enum Healing {
    NewestFrames,
    OlderFrames,
    Slots(RootCursor),
    /// Nothing leads to old copies any more.
    Parting,
}

/// The cycle under way, or the last one.
#[derive(Debug)]
pub(crate) struct Cycle {
    state: State,
    cause: Cause,
    start: Instant,
    /// Whether what has been handed out while it marked was born marked.
    marks_births: bool,
    /// Handed out since the last cycle, when marking ended, in bytes.
    allocated: u64,
    /// The same when the cycle began.
    allocated_before: u64,
    before: u64,
    /// What has been found live.
    objects: u64,
    /// What has been moved: objects, and bytes of cells.
    moved: (u64, u64),
    dropped: u64,
    phases: PhaseTimes,
    /// How long it has stopped the mutator.
    pub(crate) work: Duration,
    /// Whether the mutator has run since it began.
    pub(crate) is_sliced: bool,
}

impl Cycle {
    /// No cycle.
    pub(crate) fn new() -> Cycle {
        Cycle {
            state: State::Waiting,
            cause: Cause::Limit,
            start: Instant::now(),
            marks_births: false,
            allocated: 0,
            allocated_before: 0,
            before: 0,
            objects: 0,
            moved: (0, 0),
            dropped: 0,
            phases: PhaseTimes::default(),
            work: Duration::ZERO,
            is_sliced: false,
        }
    }

    /// Whether one is under way.
    pub(crate) fn is_running(&self) -> bool {
        !matches!(self.state, State::Waiting)
    }

    /// Whether it marks: stores tell what they overwrite.
    pub(crate) fn is_marking(&self) -> bool {
        matches!(self.state, State::Frames | State::Slots(_) | State::Mark | State::Marked)
    }

    /// Whether nothing is left to be marked, unless something has been overwritten since.
    pub(crate) fn is_marked(&self) -> bool {
        matches!(self.state, State::Marked)
    }

    /// What is to be done next, for tests.
    #[cfg(test)]
    pub(crate) fn phase(&self) -> &'static str {
        match self.state {
            State::Waiting => "waiting",
            State::Frames => "frames",
            State::Slots(_) => "slots",
            State::Mark => "mark",
            State::Marked => "marked",
            State::Heal(..) => "heal",
            State::Sweep(_) => "sweep",
            State::Defragment(_) => "defragment",
            State::Release(_) => "release",
            State::Values => "values",
            State::Clear(_) => "clear",
        }
    }

    /// What the mutator has been handed out while it ran, in bytes, where that was born marked and memory is not short.
    fn handed_out<M: ReferenceModel>(&self, core: &Core<M>) -> u64 {
        match self.marks_births && self.cause == Cause::Limit && !core.pacer.is_pressed() {
            true => self.allocated - self.allocated_before + core.pacer.allocated,
            false => 0,
        }
    }

    /// Objects found live.
    pub(crate) fn objects(&self) -> u64 {
        self.objects
    }

    /// Begins a cycle: takes the snapshot. With `marks_births`, what is handed out from now on is born marked.
    pub(crate) fn start<M: ReferenceModel>(
        &mut self,
        core: &mut Core<M>,
        cause: Cause,
        marks_births: bool,
        roots: &mut dyn Roots,
    ) {
        assert!(!self.is_running(), "a cycle begins when the last one is over");
        let (before, allocated_before) = (core.pacer.size(), core.pacer.allocated);
        *self = Cycle { cause, before, marks_births, allocated_before, ..Cycle::new() };
        let slice = core.start_slice(Phase::Snapshot);
        core.pool.start_marking(marks_births);
        core.overwritten.clear(&mut core.context);
        core.context.set_marking(true);
        core.context.set_stale(M::FORWARDS && core.has_stale);
        core.pool.swap_planes();
        roots.visit_newest_frames(&mut core.marker());
        core.pool.swap_planes();
        self.state = State::Frames;
        self.phases.add(Phase::Snapshot, core.end_slice(slice));
    }

    /// Goes on with marking, where that is under way. With `ages`, young objects are left out: they are newer than the
    /// snapshot.
    pub(crate) fn mark<M: ReferenceModel>(
        &mut self,
        core: &mut Core<M>,
        roots: &mut dyn Roots,
        ages: Option<&Ages>,
        budget: &mut Budget,
    ) -> Done {
        if !self.is_marking() {
            return Done::Yes;
        }
        core.take_marking();
        core.pool.swap_planes();
        let done = self.mark_some(core, roots, ages, budget);
        core.pool.swap_planes();
        self.give(core, ages);
        done
    }

    /// Has a helper go on with marking, if there is to be one, where nothing but marking is left to be done for it.
    pub(crate) fn give<M: ReferenceModel>(&self, core: &mut Core<M>, ages: Option<&Ages>) {
        if let State::Mark = self.state {
            core.give_marking(ages);
        }
    }

    /// Visits some of the frames that wait, as one of them is going to run.
    pub(crate) fn visit_older_frames<M: ReferenceModel>(
        &mut self,
        core: &mut Core<M>,
        roots: &mut dyn Roots,
        ages: Option<&Ages>,
    ) {
        if let State::Frames = self.state {
            core.pool.swap_planes();
            let _ = roots.visit_older_frames(&mut core.marker_of_old(ages), &mut Budget::units(FRAMES_AHEAD));
            core.pool.swap_planes();
        } else if let State::Heal(Healing::OlderFrames, _) = self.state {
            let _ = roots.visit_older_frames(&mut core.healer(), &mut Budget::units(FRAMES_AHEAD));
        }
    }

    /// Goes on with healing, where that is under way: once it is done, no reference leads to an old copy.
    ///
    /// What is reached from the heap has been healed while marking, and what has been stored meanwhile, when it was
    /// stored. Frames have had healed references when the cycle began, and may have loaded others since.
    pub(crate) fn heal<M: ReferenceModel>(
        &mut self,
        core: &mut Core<M>,
        roots: &mut dyn Roots,
        budget: &mut Budget,
    ) -> Done {
        let slice = core.start_slice(Phase::Heal);
        let mut done = Done::Yes;
        while let State::Heal(healing, _) = &mut self.state
            && done == Done::Yes
        {
            let mut healer = core.healer();
            let next = match healing {
                Healing::NewestFrames => {
                    roots.visit_newest_frames(&mut healer);
                    Some(Healing::OlderFrames)
                }
                Healing::OlderFrames => {
                    done = roots.visit_older_frames(&mut healer, budget);
                    Some(Healing::Slots(RootCursor::default()))
                }
                Healing::Slots(cursor) => {
                    done = roots.visit_slots(&mut healer, cursor, budget);
                    if done == Done::Yes {
                        core.context.set_stale(false);
                        core.context.set_replicas(false);
                    }
                    Some(Healing::Parting)
                }
                Healing::Parting => {
                    done = core.part_replicas(budget);
                    None
                }
            };
            if done == Done::Yes {
                self.state = match (std::mem::take(&mut self.state), next) {
                    (State::Heal(_, sweeping), Some(next)) => State::Heal(next, sweeping),
                    (State::Heal(_, sweeping), None) => State::Sweep(sweeping),
                    (other, _) => other,
                };
            }
        }
        self.phases.add(Phase::Heal, core.end_slice(slice));
        done
    }

    fn mark_some<M: ReferenceModel>(
        &mut self,
        core: &mut Core<M>,
        roots: &mut dyn Roots,
        ages: Option<&Ages>,
        budget: &mut Budget,
    ) -> Done {
        if let State::Frames = self.state {
            let slice = core.start_slice(Phase::Snapshot);
            let done = roots.visit_older_frames(&mut core.marker_of_old(ages), budget);
            self.phases.add(Phase::Snapshot, core.end_slice(slice));
            if done == Done::No {
                return Done::No;
            }
            self.state = State::Slots(RootCursor::default());
        }
        if let State::Slots(cursor) = &mut self.state {
            let slice = core.start_slice(Phase::Slots);
            let done = roots.visit_slots(&mut core.marker_of_old(ages), cursor, budget);
            self.phases.add(Phase::Slots, core.end_slice(slice));
            if done == Done::No {
                return Done::No;
            }
            self.state = State::Mark;
            // All that is left is for the helper, if there is to be one.
            if budget.is_limited() && core.is_helper_wanted() {
                return Done::No;
            }
        }
        let slice = core.start_slice(Phase::Mark);
        core.overwritten.flush(&mut core.context);
        let mut done = Done::Yes;
        while core.overwritten.len() > 0 && done == Done::Yes {
            done = core.mark_overwritten(ages, budget);
        }
        if done == Done::Yes {
            done = core.marker_of_old(ages).step(budget);
        }
        self.state = if done == Done::Yes { State::Marked } else { State::Mark };
        self.phases.add(Phase::Mark, core.end_slice(slice));
        done
    }

    /// Before young objects move: forgets overwritten references to them.
    pub(crate) fn forget_young<M: ReferenceModel>(&self, core: &mut Core<M>, ages: &Ages) {
        if self.is_marking() {
            core.overwritten.flush(&mut core.context);
            core.overwritten.retain(|reference| ages.of(reference.0) == Age::Old);
        }
    }

    /// Ends marking, right behind a call of [`mark`](Self::mark) that has left nothing to do: what is not marked is
    /// dead.
    pub(crate) fn terminate<M: ReferenceModel>(&mut self, core: &mut Core<M>) {
        assert!(self.is_marked() && core.overwritten.len() == 0, "nothing is left to be marked");
        let slice = core.start_slice(Phase::Terminate);
        core.context.set_marking(false);
        core.pool.end_marking();
        core.taken.compressed += core.marking.take_tally().compressed;
        core.pacer.charge(core.leaves.allocated_bytes());
        self.allocated = core.pacer.allocated;
        let sweeping = core.start_sweep(self.cause != Cause::Limit);
        self.state = match M::FORWARDS && core.has_stale {
            true => State::Heal(Healing::NewestFrames, sweeping),
            false => State::Sweep(sweeping),
        };
        core.is_sweeping = true;
        self.phases.add(Phase::Terminate, core.end_slice(slice));
    }

    /// Gives the cycle up while it marks: another collection is going to do its work.
    pub(crate) fn abandon<M: ReferenceModel>(&mut self, core: &mut Core<M>) {
        assert!(self.is_marking());
        core.take_marking();
        core.context.set_marking(false);
        core.context.set_stale(false);
        core.overwritten.clear(&mut core.context);
        core.pool.abandon_marking();
        core.marking.abandon();
        let mut cursor = 0;
        crate::budget::finish(|budget| core.pool.clear_stale(&mut cursor, budget));
        self.state = State::Waiting;
    }

    /// Goes on with what comes after marking.
    pub(crate) fn sweep<M: ReferenceModel>(&mut self, core: &mut Core<M>, budget: &mut Budget) -> Done {
        while self.is_running() {
            if budget.is_exhausted() || self.sweep_some(core, budget) == Done::No {
                return Done::No;
            }
        }
        Done::Yes
    }

    fn sweep_some<M: ReferenceModel>(&mut self, core: &mut Core<M>, budget: &mut Budget) -> Done {
        let phase = match self.state {
            State::Values => Phase::Values,
            State::Release(_) => Phase::Release,
            State::Defragment(_) => Phase::Defragment,
            _ => Phase::Sweep,
        };
        let slice = core.start_slice(phase);
        let (done, next) = match &mut self.state {
            State::Waiting => (Done::Yes, State::Waiting),
            State::Frames | State::Slots(_) | State::Mark | State::Marked | State::Heal(..) => {
                panic!("sweeping comes after marking and healing")
            }
            State::Sweep(sweeping) => {
                let done = core.sweep(sweeping, budget);
                let survivors = sweeping.survivors();
                if done == Done::Yes {
                    self.objects = survivors.objects;
                    core.is_sweeping = false;
                    core.pacer.collected(
                        survivors.bytes,
                        self.allocated,
                        self.allocated - self.allocated_before,
                        self.work,
                    );
                    core.leaf_budget = core.pacer.headroom();
                    self.dropped = core.externals.dead_count() as u64;
                }
                (done, State::Defragment(Defragmenting::new()))
            }
            State::Defragment(state) => {
                let done = core.defragment(state, budget);
                self.moved = (state.moved_objects, state.moved_bytes);
                core.has_stale |= M::FORWARDS && state.moved_objects > 0;
                (done, State::Release(Release::new(core.memory_to_keep(self.cause, self.handed_out(core)))))
            }
            State::Release(release) => (core.pool.release_to_system(release, budget), State::Values),
            State::Values => (core.externals.drop_dead(budget), State::Clear(0)),
            State::Clear(cursor) => match core.pool.clear_stale(cursor, budget) {
                Done::No => (Done::No, State::Waiting),
                Done::Yes => (core.marking.trim(budget), State::Waiting),
            },
        };
        if done == Done::Yes {
            self.state = next;
        }
        self.phases.add(phase, core.end_slice(slice));
        done
    }

    /// What is to be reported of it once it is over.
    pub(crate) fn event<M: ReferenceModel>(&self, core: &mut Core<M>) -> GcEvent {
        GcEvent {
            number: 0,
            cause: self.cause,
            kind: if self.is_sliced { CollectionKind::Cycle } else { CollectionKind::Full },
            start: self.start.duration_since(core.made),
            before_bytes: self.before,
            after_bytes: core.pacer.live,
            limit_bytes: core.pacer.limit(),
            // What has been promoted, in a generational heap: it was handed out in the nursery.
            allocated_bytes: if self.marks_births { self.allocated } else { 0 },
            committed_bytes: core.pool.committed_bytes(),
            pause: self.work,
            cycle: None,
            phases: self.phases,
            zeroing: Duration::ZERO,
            concurrent_zeroing: Duration::ZERO,
            concurrent_marking: core.helper.take_time(),
            promoted_bytes: 0,
            promoted_objects: 0,
            moved_objects: self.moved.0,
            moved_bytes: self.moved.1,
            aging_bytes: 0,
            marked_objects: self.objects,
            freed_handles: core.model.take_released(),
            dropped_externals: self.dropped,
            pressure: None,
        }
    }
}

impl<M: ReferenceModel> Core<M> {
    /// Marks some of the objects whose references have been overwritten.
    fn mark_overwritten(&mut self, ages: Option<&Ages>, budget: &mut Budget) -> Done {
        for _ in 0..OVERWRITTEN_PER_UNIT {
            let Some(reference) = self.overwritten.pop() else { return Done::Yes };
            let mut marker = self.marker_of_old(ages);
            let mut reference = reference;
            marker.visit(&mut reference);
        }
        budget.spend(1);
        if budget.is_exhausted() { Done::No } else { Done::Yes }
    }
}
