//! The runs of free cells that compiled code takes by itself, a queue for each size class; and those of free handles.
//!
//! Where what lives lies scattered, most runs are a cell or two, and to ask the heap for each costs more than the
//! object itself: hundreds of instructions, over which the processor cannot overlap the program's cache misses. So the
//! heap notes several runs of a block at once: they are zero, and born marked where a cycle marks. Each counts as
//! handed out. All are marked before the first is zeroed: beside a helper, marks are set by atomic operations, each of
//! which would wait for the zeros of the run before.
//!
//! A queue is a row of [`BumpRun`]s, behind the last of which lies an empty one. The context says where its next one
//! is. Each has a *place* there, by which it is named.

use crate::context::Context;
use crate::plan::{BumpRun, MutatorContext};
use crate::size_classes::MAX_SIZE_CLASSES;
use std::ops::Range;
use std::ptr::NonNull;

/// Runs that a queue holds: enough for the cost of asking the heap to be little for each.
pub(crate) const MOST_RUNS: usize = 64;

/// The places of the size classes' queues: each class has the place of its number.
pub(crate) const OF_CLASSES: Range<usize> = 0..MAX_SIZE_CLASSES;

/// The runs of one queue, and the end.
type Queue = [BumpRun; MOST_RUNS + 1];

/// Queues at some places, or none. Compiled code reads them and moves on in them, through addresses in the context.
#[derive(Debug, Default)]
pub(crate) struct RunQueues {
    queues: Option<NonNull<Queue>>,
    places: Range<usize>,
}

// SAFETY: the queues are plain memory owned by this value, which nobody but the heap's mutator touches.
unsafe impl Send for RunQueues {}

impl RunQueues {
    /// Empty queues, made known to compiled code.
    pub(crate) fn new(context: &mut Context, places: Range<usize>) -> RunQueues {
        assert!(places.end <= MutatorContext::QUEUES);
        let queues: Box<[Queue]> = vec![[BumpRun::default(); MOST_RUNS + 1]; places.len()].into_boxed_slice();
        let queues = RunQueues { queues: NonNull::new(Box::into_raw(queues).cast()), places: places.clone() };
        places.for_each(|place| queues.rewind(context, place));
        queues
    }

    /// The first run of the queue at a place, where there are queues.
    fn first(&self, place: usize) -> Option<*mut BumpRun> {
        let queues = self.queues?;
        assert!(self.places.contains(&place));
        // SAFETY: there are so many queues.
        Some(unsafe { queues.as_ptr().add(place - self.places.start) }.cast())
    }

    fn rewind(&self, context: &mut Context, place: usize) {
        if let Some(first) = self.first(place) {
            *context.queue(place) = first as usize;
        }
    }

    /// Puts runs into the queue at a place, which is empty: as many as there are, and as it holds.
    pub(crate) fn fill(&mut self, context: &mut Context, place: usize, mut runs: impl FnMut() -> Option<BumpRun>) {
        let Some(first) = self.first(place) else { return };
        let mut filled = 0;
        while filled < MOST_RUNS
            && let Some(run) = runs()
        {
            debug_assert!(run.cursor < run.limit);
            // SAFETY: so many places lie in the queue. The mutator stands.
            unsafe { first.add(filled).write(run) };
            filled += 1;
        }
        // SAFETY: as above; one place is the end's.
        unsafe { first.add(filled).write(BumpRun::default()) };
        self.rewind(context, place);
    }

    /// Takes the next run at a place.
    #[inline]
    pub(crate) fn take(&mut self, context: &mut Context, place: usize) -> Option<BumpRun> {
        let run = self.waiting(context, place).next()?;
        *context.queue(place) += size_of::<BumpRun>();
        Some(run)
    }

    /// The runs at a place that have not been taken.
    pub(crate) fn waiting(&self, context: &Context, place: usize) -> impl Iterator<Item = BumpRun> + use<> {
        let mut next = self.first(place).map(|first| {
            let taken = context.queue_now(place) - first as usize;
            first.wrapping_add(taken / size_of::<BumpRun>())
        });
        std::iter::from_fn(move || {
            // SAFETY: the context's address leads to a place in the queue, and behind the last run lies an empty one.
            // The mutator stands.
            let run = unsafe { next?.read() };
            next = next.map(|next| next.wrapping_add(1));
            (run.cursor < run.limit).then_some(run)
        })
    }

    /// Takes back all runs at a place that have not been taken.
    pub(crate) fn clear(&mut self, context: &mut Context, place: usize) {
        self.fill(context, place, || None);
    }
}

impl Drop for RunQueues {
    fn drop(&mut self) {
        if let Some(queues) = self.queues {
            let queues = std::ptr::slice_from_raw_parts_mut(queues.as_ptr(), self.places.len());
            // SAFETY: made by `Box::into_raw`, and the heap that lends the addresses is being dropped.
            drop(unsafe { Box::from_raw(queues) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cursor: u32) -> BumpRun {
        BumpRun { cursor, limit: cursor + 8 }
    }

    fn cursors(queues: &RunQueues, context: &Context, class: usize) -> Vec<u32> {
        queues.waiting(context, class).map(|run| run.cursor).collect()
    }

    #[test]
    fn runs_are_taken_in_their_order() {
        let mut context = Context::new();
        let mut queues = RunQueues::new(&mut context, OF_CLASSES);
        let last = MAX_SIZE_CLASSES - 1;
        for class in [0, last] {
            let mut runs = (1..).map(|number| run(number * 16));
            queues.fill(&mut context, class, || runs.next());
        }
        assert_eq!(cursors(&queues, &context, 0), (1..=64).map(|number| number * 16).collect::<Vec<_>>());
        assert_eq!(cursors(&queues, &context, 1), []);
        for number in 1..=64 {
            assert_eq!(queues.take(&mut context, last).map(|run| run.cursor), Some(number * 16));
        }
        assert!(queues.take(&mut context, last).is_none() && queues.take(&mut context, last).is_none());
        let mut runs = [run(8)].into_iter();
        queues.fill(&mut context, last, || runs.next());
        assert_eq!(cursors(&queues, &context, last), [8]);
        queues.clear(&mut context, last);
        assert_eq!(cursors(&queues, &context, last), []);
        assert_eq!(cursors(&queues, &context, 0).len(), 64);
    }

    #[test]
    fn queues_at_other_places_are_others() {
        let mut context = Context::new();
        let mut of_classes = RunQueues::new(&mut context, OF_CLASSES);
        let mut others = RunQueues::new(&mut context, OF_CLASSES.end..MutatorContext::QUEUES);
        for place in 0..MutatorContext::QUEUES {
            let mut runs = std::iter::once(run(place as u32 * 16));
            let queues = if OF_CLASSES.contains(&place) { &mut of_classes } else { &mut others };
            queues.fill(&mut context, place, || runs.next());
        }
        for place in 0..MutatorContext::QUEUES {
            let queues = if OF_CLASSES.contains(&place) { &mut of_classes } else { &mut others };
            assert_eq!(queues.take(&mut context, place).map(|run| run.cursor), Some(place as u32 * 16));
            assert!(queues.take(&mut context, place).is_none());
        }
    }

    #[test]
    fn there_may_be_no_queues() {
        let mut context = Context::new();
        let mut queues = RunQueues::default();
        queues.fill(&mut context, 0, || Some(run(8)));
        assert!(queues.take(&mut context, 0).is_none() && queues.waiting(&context, 0).next().is_none());
    }
}
