//! Sweeping all spaces after marking, in steps. What was not marked is freed, or queued to be swept lazily.
//!
//! Between the steps the mutator may run: what is allocated in blocks that are taken meanwhile is no sweep's business.

use crate::blocks::BlockPool;
use crate::budget::{Budget, Done};
use crate::core::Core;
use crate::observer::Cause;
use crate::references::ReferenceModel;
use crate::spaces::mapped::MappedSweep;
use crate::spaces::{Survivors, Sweep, large};

/// The parts of a sweep, in their order.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// Weak references to dead objects.
    Weak,
    /// Host values of dead objects, which are dropped once the collection is over.
    Values,
    /// Handles of dead objects, where they become free independently of the objects' cells.
    DeadHandles,
    Small,
    Large,
    Mapped,
    Views,
    Leaves,
    Handles,
}

const ORDER: [Part; 9] = [
    Part::Weak,
    Part::Values,
    Part::DeadHandles,
    Part::Small,
    Part::Large,
    Part::Mapped,
    Part::Views,
    Part::Leaves,
    Part::Handles,
];

/// A sweep under way.
#[derive(Debug)]
pub(crate) struct Sweeping {
    /// Parts that are finished.
    finished: usize,
    values: usize,
    dead_handles: u32,
    small: Sweep,
    large: Sweep,
    mapped: MappedSweep,
    views: usize,
    leaves: Sweep,
    handles: Option<[usize; 2]>,
}

impl Sweeping {
    /// What has been found live so far: all objects, and bytes of leaves too.
    pub(crate) fn survivors(&self) -> Survivors {
        let mut survivors = Survivors::default();
        for found in [self.small.survivors, self.large.survivors, self.mapped.survivors, self.leaves.survivors] {
            survivors += found;
        }
        survivors
    }
}

impl<M: ReferenceModel> Core<M> {
    /// Begins to sweep. With `thorough`, and where memory has been short, all is looked for that can be given back.
    pub(crate) fn start_sweep(&mut self, thorough: bool) -> Sweeping {
        let candidates = self.candidates(thorough);
        self.pool.start_sweep();
        self.weak.start_sweep();
        self.externals.start_sweep();
        Sweeping {
            finished: 0,
            values: 0,
            dead_handles: 0,
            small: self.small.start_sweep(&self.pool, candidates),
            large: Sweep::default(),
            mapped: self.mapped.start_sweep(thorough || self.pacer.is_pressed()),
            views: 0,
            leaves: self.leaves.start_sweep(&self.pool),
            handles: None,
        }
    }

    /// Goes on with a sweep.
    pub(crate) fn sweep(&mut self, sweeping: &mut Sweeping, budget: &mut Budget) -> Done {
        while let Some(&part) = ORDER.get(sweeping.finished) {
            if self.sweep_part(part, sweeping, budget) == Done::No {
                return Done::No;
            }
            sweeping.finished += 1;
        }
        Done::Yes
    }

    /// How much free memory is to be kept for the next cycle, in bytes: what is left up to the limit, and as much as
    /// the mutator has been `handed_out` beside this cycle, since it goes beyond the limit then; the blocks of handles;
    /// and [what it held before](crate::pacing::Pacer::memory_to_keep).
    pub(crate) fn memory_to_keep(&mut self, cause: Cause, handed_out: u64) -> u64 {
        let handles = self.model.take_given_back_bytes();
        self.pacer.memory_to_keep(cause, if handed_out > 0 { handed_out + handles } else { 0 })
    }

    fn sweep_part(&mut self, part: Part, sweeping: &mut Sweeping, budget: &mut Budget) -> Done {
        let (pool, model) = (&mut self.pool, &mut self.model);
        // SAFETY: each is a reference to an object up to this collection, and none has been freed since.
        let find_live = |reference| unsafe {
            let now = M::current(&pool.cage, reference);
            pool.marks.get(M::object(&pool.cage, now)).then_some(now)
        };
        match part {
            Part::Weak => self.weak.sweep(find_live, budget),
            Part::Values => {
                let done = self.externals.sweep(&mut sweeping.values, find_live, budget);
                // Whatever the heap knows of old copies has been healed.
                self.has_stale &= done == Done::No;
                done
            }
            Part::DeadHandles => model.release_dead(pool, &mut sweeping.dead_handles, budget),
            Part::Small => self.small.sweep(&mut sweeping.small, pool, model, budget),
            Part::Large => large::sweep(&mut sweeping.large, pool, model, budget),
            Part::Mapped => self.mapped.sweep(&mut sweeping.mapped, pool, model, budget),
            Part::Views => {
                let done = self.views.sweep(&mut sweeping.views, |leaf| pool.is_live(leaf), budget);
                if done == Done::Yes {
                    self.forget_dead_moving(BlockPool::is_live);
                }
                done
            }
            Part::Leaves => {
                let done = self.leaves.sweep(&mut sweeping.leaves, pool, budget);
                if done == Done::Yes && self.config.verify {
                    self.small.release_all_dead(pool, model, true);
                }
                done
            }
            Part::Handles => model.sweep(pool, &mut sweeping.handles, budget),
        }
    }
}
