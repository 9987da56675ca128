//! Where a nursery collection copies to: a run of free cells of each size class.
//!
//! What has been copied into a run is marked and counted when the run is full, or the collection over, in one go: the
//! copies lie side by side, so that many share a word of mark bits. Until then a copy has a mark in neither plane, and
//! whoever looks for marked objects does not find it; its own slots have been pushed when it was copied.
//!
//! Others call such a run a promotion buffer (PLAB).

use crate::blocks::BlockPool;
use crate::plan::BumpRun;
use crate::size_classes::{MAX_SIZE_CLASSES, cell_bytes};
use crate::spaces::Survivors;

/// A run of free cells, with what has been copied into it.
#[derive(Clone, Copy, Debug, Default)]
struct EvacuationRun {
    free: BumpRun,
    /// Where the copies begin that have not been marked; they end where the free cells begin.
    unmarked: u32,
    /// Bytes of a cell.
    cell: u32,
}

/// The runs of all size classes. They last from one nursery collection to the next.
#[derive(Debug)]
pub(super) struct EvacuationRuns {
    runs: [EvacuationRun; MAX_SIZE_CLASSES],
}

impl EvacuationRuns {
    /// No free cell of any class.
    pub(super) fn new() -> EvacuationRuns {
        let mut runs = [EvacuationRun::default(); MAX_SIZE_CLASSES];
        for (run, &cell) in runs.iter_mut().zip(cell_bytes()) {
            run.cell = cell;
        }
        EvacuationRuns { runs }
    }

    /// Takes a free cell of a class, unless there is none in its run.
    #[inline(always)]
    pub(super) fn take(&mut self, class: usize) -> Option<u32> {
        let run = &mut self.runs[class];
        if run.free.cursor == run.free.limit {
            return None;
        }
        let cell = run.free.cursor;
        run.free.cursor += run.cell;
        Some(cell)
    }

    /// Gives a class the next run, once the last one is full. What that has taken is marked; returns how much it is.
    pub(super) fn refill(&mut self, class: usize, free: BumpRun, pool: &mut BlockPool) -> Survivors {
        let copied = self.mark_class(class, pool);
        let run = &mut self.runs[class];
        (run.free, run.unmarked) = (free, free.cursor);
        copied
    }

    /// Marks what has been copied and is not marked yet, and returns how much that is.
    pub(super) fn mark(&mut self, pool: &mut BlockPool) -> Survivors {
        let mut all = Survivors::default();
        for class in 0..cell_bytes().len() {
            all += self.mark_class(class, pool);
        }
        all
    }

    fn mark_class(&mut self, class: usize, pool: &mut BlockPool) -> Survivors {
        let run = &mut self.runs[class];
        let copied = BumpRun { cursor: run.unmarked, limit: run.free.cursor };
        run.unmarked = copied.limit;
        let bytes = copied.limit - copied.cursor;
        if bytes == 0 {
            return Survivors::default();
        }
        pool.mark_old_cells(copied, run.cell);
        Survivors { objects: (bytes / run.cell).into(), bytes: bytes.into() }
    }

    /// Leaves the free cells to whoever sweeps their blocks. All copies have been marked.
    pub(super) fn retire(&mut self) {
        for run in &mut self.runs {
            debug_assert_eq!(run.unmarked, run.free.cursor, "all copies have been marked");
            (run.free, run.unmarked) = (BumpRun::default(), 0);
        }
    }

    /// The free cells, by class.
    pub(super) fn free(&self) -> impl Iterator<Item = (usize, BumpRun)> + '_ {
        self.runs.iter().map(|run| run.free).enumerate()
    }
}
