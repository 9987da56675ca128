//! The runs of free cells that compiled code takes by itself, a queue for each size class.
//!
//! Where what lives lies scattered, most runs are a cell or two, and to ask the heap for each costs more than the
//! object itself: hundreds of instructions, over which the processor cannot overlap the program's cache misses. So the
//! heap notes several runs of a block at once: they are zero, and born marked where a cycle marks. Each counts as
//! handed out.
//!
//! A queue is a row of [`BumpRun`]s, behind the last of which lies an empty one. The context says where its next one
//! is.

use crate::context::Context;
use crate::plan::BumpRun;
use crate::size_classes::MAX_SIZE_CLASSES;
use std::ptr::NonNull;

/// Runs that a queue holds: enough for the cost of asking the heap to be little for each.
pub(crate) const MOST_RUNS: usize = 64;

/// The runs of one class, and the end.
type Queue = [BumpRun; MOST_RUNS + 1];

/// The queues of a heap, or none. Compiled code reads them and moves on in them, through addresses in the context.
#[derive(Debug, Default)]
pub(crate) struct RunQueues(Option<NonNull<Queue>>);

// SAFETY: the queues are plain memory owned by this value, which nobody but the heap's mutator touches.
unsafe impl Send for RunQueues {}

impl RunQueues {
    /// Empty queues, made known to compiled code.
    pub(crate) fn new(context: &mut Context) -> RunQueues {
        let queues: Box<[Queue]> = vec![[BumpRun::default(); MOST_RUNS + 1]; MAX_SIZE_CLASSES].into_boxed_slice();
        let queues = RunQueues(NonNull::new(Box::into_raw(queues).cast()));
        (0..MAX_SIZE_CLASSES).for_each(|class| queues.rewind(context, class));
        queues
    }

    /// Whether there are queues.
    pub(crate) fn are_in_use(&self) -> bool {
        self.0.is_some()
    }

    /// The first place of a class's queue, where there are queues.
    fn first(&self, class: usize) -> Option<*mut BumpRun> {
        assert!(class < MAX_SIZE_CLASSES);
        // SAFETY: there are so many queues.
        self.0.map(|queues| unsafe { queues.as_ptr().add(class) }.cast())
    }

    fn rewind(&self, context: &mut Context, class: usize) {
        if let Some(first) = self.first(class) {
            *context.queue(class) = first as usize;
        }
    }

    /// Puts runs into the queue of a class, which is empty: as many as there are, and as it holds.
    pub(crate) fn fill(&mut self, context: &mut Context, class: usize, mut runs: impl FnMut() -> Option<BumpRun>) {
        let Some(first) = self.first(class) else { return };
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
        self.rewind(context, class);
    }

    /// Takes the next run of a class.
    #[inline]
    pub(crate) fn take(&mut self, context: &mut Context, class: usize) -> Option<BumpRun> {
        let run = self.waiting(context, class).next()?;
        *context.queue(class) += size_of::<BumpRun>();
        Some(run)
    }

    /// The runs of a class that have not been taken.
    pub(crate) fn waiting(&self, context: &Context, class: usize) -> impl Iterator<Item = BumpRun> + use<> {
        let first = self.first(class).map(|first| context.queue_now(class) - first as usize);
        let next = first.map(|offset| (self.first(class).expect("there are queues"), offset / size_of::<BumpRun>()));
        let mut next = next.map(|(first, index)| first.wrapping_add(index));
        std::iter::from_fn(move || {
            // SAFETY: the context's address leads to a place in the queue, and behind the last run lies an empty one.
            // The mutator stands.
            let run = unsafe { next?.read() };
            next = next.map(|next| next.wrapping_add(1));
            (run.cursor < run.limit).then_some(run)
        })
    }

    /// Takes back all runs of a class that have not been taken.
    pub(crate) fn clear(&mut self, context: &mut Context, class: usize) {
        self.fill(context, class, || None);
    }
}

impl Drop for RunQueues {
    fn drop(&mut self) {
        if let Some(queues) = self.0 {
            let queues = std::ptr::slice_from_raw_parts_mut(queues.as_ptr(), MAX_SIZE_CLASSES);
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
        let mut queues = RunQueues::new(&mut context);
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
    fn there_may_be_no_queues() {
        let mut context = Context::new();
        let mut queues = RunQueues::default();
        queues.fill(&mut context, 0, || Some(run(8)));
        assert!(!queues.are_in_use() && queues.take(&mut context, 0).is_none());
    }
}
