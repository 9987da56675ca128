//! Whether the next slice of a cycle is due.

use super::Cycle;
use crate::budget::Budget;
use crate::collector::schedule::{Fill, Scheduler};
use crate::core::Core;
use crate::references::ReferenceModel;
use std::time::Instant;

impl Cycle {
    /// What the next slice may do, if it is due now, and whether it is early: by the schedule, or where very much has
    /// been overwritten.
    pub(crate) fn due<M: ReferenceModel>(
        &self,
        core: &mut Core<M>,
        scheduler: &mut Scheduler,
        fill: Fill,
        now: Instant,
    ) -> Option<(Budget, bool)> {
        if !core.helper.is_busy() {
            if !core.try_take_marking() {
                return None;
            }
            return scheduler.slice(fill, now).or_else(|| self.due_to_flood(core, scheduler, now));
        }
        let owed = scheduler.owed();
        let due = scheduler.slice_beside_helper(fill, core.helper.time(), now).or_else(|| {
            let (budget, is_early) = self.due_to_flood(core, scheduler, now)?;
            // What has been overwritten is passed on to the helper, unless that finds no processor for it.
            Some((if core.helper.has_begun() { Budget::units(1) } else { budget }, is_early))
        })?;
        if !core.try_take_marking() {
            scheduler.owe(owed);
            return None;
        }
        Some(due)
    }

    /// What a slice may do that is due because much has been overwritten, and whether it is early.
    pub(crate) fn due_to_flood<M: ReferenceModel>(
        &self,
        core: &Core<M>,
        scheduler: &mut Scheduler,
        now: Instant,
    ) -> Option<(Budget, bool)> {
        let is_early = scheduler.urgent_stop(core.is_flooded(), core.is_swamped(), now)?;
        Some((scheduler.quantum(now), is_early))
    }
}
