//! Small objects: blocks of cells of one size class, swept lazily.
//!
//! After marking, a block without a marked cell returns to the pool at once; one whose cells are all marked is left
//! alone; every other block is queued with its class. Allocation sweeps the first queued block a run at a time: it
//! looks for the next run of consecutive unmarked cells, releases the identities of the dead objects in it, and hands
//! it out: zeroed to the mutator, which bumps through it inline, or as it is to be copied into.
//!
//! Where a block is *nearly full*, runs are a cell long, each a cache miss that nothing announces. So such blocks wait
//! until the pool has no others (as Immix does, Blackburn and McKinley 2008, where a block has too few free lines).
//!
//! Which cells hold objects is therefore known without a bit for each allocation: up to a block's `swept` offset a cell
//! is allocated where its header is not zero (free cells there are zero throughout), beyond it where it is marked. An
//! unmarked cell beyond it with a header is a dead object whose identity has not been released yet.
//!
//! A block stays with its class until it is empty, so there may be no memory for one class while others have free
//! cells. Where a collection has not helped, or a nursery collection finds no place for a survivor, the class is
//! *crowded* until the next full one: it borrows cells of larger classes, one for each object. Where objects can be
//! moved, blocks are emptied: see [`candidates`](super::candidates).

use super::candidates::{Candidates, Choice};
use super::{Survivors, Sweep};
use crate::arch::prefetch;
use crate::blocks::{BLOCK_BYTES, BlockKind, BlockPool, block_of, block_start};
use crate::budget::{Budget, Done};
use crate::layout::TYPE_ID_OFFSET;
use crate::plan::BumpRun;
use crate::references::ReferenceModel;
use crate::size_classes::MAX_SIZE_CLASSES;
use crate::size_classes::SizeClasses;

/// The longest run handed out at a time, in bytes: little enough that zeroing leaves it in the first-level cache.
pub(crate) const MAX_RUN_BYTES: u32 = 8 << 10;

/// The part of a block's cells, as a fraction, of which more have to be marked for it to be nearly full.
const NEARLY_FULL: (u32, u32) = (7, 8);

/// Which cells are to be taken first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fit {
    /// Those of blocks that are not nearly full, then those of fresh ones.
    Loose,
    /// Any that are free, before those of fresh blocks.
    Tight,
}

/// Dead cells whose handles are released that count as much as one block.
const CELLS_PER_UNIT: u32 = 8;

/// What each class allocates from.
#[derive(Debug)]
pub(crate) struct SmallSpace {
    pub(crate) classes: SizeClasses,
    /// The block being swept for runs.
    current: [Option<u32>; MAX_SIZE_CLASSES],
    /// Blocks to sweep next; the last one first.
    unswept: [Vec<u32>; MAX_SIZE_CLASSES],
    /// Blocks to sweep where the pool has none.
    nearly_full: [Vec<u32>; MAX_SIZE_CLASSES],
    /// Classes that borrow cells of larger ones.
    crowded: [bool; MAX_SIZE_CLASSES],
    /// Blocks that are to be emptied.
    pub(crate) candidates: Candidates,
    /// Hand out one cell at a time, so that every allocation comes to the heap.
    one_by_one: bool,
    /// The blocks below this one that a sweep under way has not come to, unless they are fresh.
    unclassified: u32,
}

impl SmallSpace {
    /// An empty space.
    pub(crate) fn new(one_by_one: bool) -> SmallSpace {
        SmallSpace {
            classes: SizeClasses::new(),
            current: [None; MAX_SIZE_CLASSES],
            unswept: [const { Vec::new() }; MAX_SIZE_CLASSES],
            nearly_full: [const { Vec::new() }; MAX_SIZE_CLASSES],
            crowded: [false; MAX_SIZE_CLASSES],
            candidates: Candidates::new(),
            one_by_one,
            unclassified: 0,
        }
    }

    /// The next run of free cells of a class, which hold what they held. `None` where there are none.
    pub(crate) fn next_run<M: ReferenceModel>(
        &mut self,
        class: usize,
        fit: Fit,
        pool: &mut BlockPool,
        model: &mut M,
    ) -> Option<BumpRun> {
        loop {
            let block = match self.queued(class, fit) {
                Some(block) => block,
                None => match pool.take(1, BlockKind::Small, BlockKind::Small) {
                    Some(block) => {
                        pool.info_mut(block).class = class as u8;
                        if model.releases() {
                            // Old contents must not be taken for dead objects that own handles.
                            pool.zero_blocks(block, 1);
                        }
                        block
                    }
                    None => self.nearly_full[class].pop().or_else(|| self.candidates.take_fullest(class))?,
                },
            };
            let longest = self.classes.cell(class).max(MAX_RUN_BYTES);
            let run = self.sweep_run(block, class, longest, pool, model);
            self.current[class] = run.map(|_| block);
            if run.is_some() {
                return run;
            }
        }
    }

    /// The block to go on sweeping in, or to sweep next, among those of a class.
    fn queued(&mut self, class: usize, fit: Fit) -> Option<u32> {
        let block = self.current[class].or_else(|| self.unswept[class].pop());
        block.or_else(|| if fit == Fit::Tight { self.nearly_full[class].pop() } else { None })
    }

    /// Has a class borrow cells of larger ones until the next collection; false if it has done so already.
    pub(crate) fn crowd(&mut self, class: usize) -> bool {
        !std::mem::replace(&mut self.crowded[class], true)
    }

    /// For a class that is crowded: a run of one cell of its own size at the beginning of a free cell of the nearest
    /// larger class that has one, which is zeroed.
    pub(crate) fn borrow_run<M: ReferenceModel>(
        &mut self,
        class: usize,
        pool: &mut BlockPool,
        model: &mut M,
    ) -> Option<BumpRun> {
        if !self.crowded[class] {
            return None;
        }
        for larger in class + 1..self.classes.count() {
            while let Some(block) = self.queued(larger, Fit::Tight) {
                let cell = self.classes.cell(larger);
                let run = self.sweep_run(block, larger, cell, pool, model);
                self.current[larger] = run.map(|_| block);
                if let Some(run @ BumpRun { cursor, .. }) = run {
                    pool.zero_run(run);
                    pool.info_mut(block).lent = true;
                    return Some(BumpRun { cursor, limit: cursor + self.classes.cell(class) });
                }
            }
        }
        None
    }

    /// The next run in the block that the last one came from, as it is, of `longest` bytes at most; `None` where that
    /// is too little for a cell, and at the block's end. One run at a time is enough where each allocation comes to
    /// the heap.
    pub(crate) fn next_run_of_block<M: ReferenceModel>(
        &mut self,
        class: usize,
        longest: u32,
        pool: &mut BlockPool,
        model: &mut M,
    ) -> Option<BumpRun> {
        if self.one_by_one || longest < self.classes.cell(class) {
            return None;
        }
        let run = self.sweep_run(self.current[class]?, class, longest, pool, model);
        if run.is_none() {
            self.current[class] = None;
        }
        run
    }

    /// Sweeps on in `block` until a run is found, of `longest` bytes at most; `None` at its end. Has the cell behind
    /// fetched where the next one is going to begin.
    fn sweep_run<M: ReferenceModel>(
        &self,
        block: u32,
        class: usize,
        longest: u32,
        pool: &mut BlockPool,
        model: &mut M,
    ) -> Option<BumpRun> {
        let cell = self.classes.cell(class);
        let start = block_start(block);
        let end = start + BLOCK_BYTES / cell * cell;
        let longest = if self.one_by_one { cell } else { longest };
        let cursor = first_free(pool, start + pool.info(block).swept, end, cell);
        let limit = pool.marks.first_set(cursor, end.min(cursor + longest / cell * cell));
        if model.releases() {
            (cursor..limit).step_by(cell as usize).for_each(|object| release_dead(pool, model, object));
        }
        let next = first_free(pool, limit, end, cell);
        pool.info_mut(block).swept = next - start;
        if cursor == limit {
            return None;
        }
        prefetch(pool.cage.address(next));
        Some(BumpRun { cursor, limit })
    }

    /// Begins the first part of sweeping, right after marking, which sets some of the blocks aside.
    pub(crate) fn start_sweep(&mut self, pool: &BlockPool, choice: Choice) -> Sweep {
        self.candidates.start(choice);
        self.current.fill(None);
        self.crowded.fill(false);
        self.unswept.iter_mut().chain(&mut self.nearly_full).for_each(Vec::clear);
        self.unclassified = pool.frontier();
        Sweep { block: pool.frontier(), ..Sweep::default() }
    }

    /// Goes on with it: sorts the blocks.
    pub(crate) fn sweep<M: ReferenceModel>(
        &mut self,
        sweep: &mut Sweep,
        pool: &mut BlockPool,
        model: &mut M,
        budget: &mut Budget,
    ) -> Done {
        // Downwards, so that each class's lowest block is swept first.
        while sweep.block > 0 {
            if budget.is_exhausted() {
                return Done::No;
            }
            sweep.block -= 1;
            budget.spend(1);
            self.unclassified = sweep.block;
            if pool.info(sweep.block).kind == BlockKind::Small && !pool.is_fresh(sweep.block) {
                let survivors = self.classify(sweep.block, pool, model, budget);
                sweep.survivors += survivors;
            }
        }
        Done::Yes
    }

    /// Gives an empty block back, queues one that is not full; returns what is marked in it.
    fn classify<M: ReferenceModel>(
        &mut self,
        block: u32,
        pool: &mut BlockPool,
        model: &mut M,
        budget: &mut Budget,
    ) -> Survivors {
        let class = pool.info(block).class as usize;
        let cell = self.classes.cell(class);
        let cells = BLOCK_BYTES / cell;
        let marked = pool.marks.count(block);
        if marked == 0 {
            if model.releases() {
                (0..cells).for_each(|index| release_dead(pool, model, block_start(block) + index * cell));
                budget.spend(u64::from(cells / CELLS_PER_UNIT));
            }
            pool.give_back(block, 1);
        } else {
            let info = pool.info_mut(block);
            (info.swept, info.dirty) = (0, true);
            if self.candidates.consider(block, class, marked, cells) {
            } else if marked == cells {
                pool.info_mut(block).swept = cells * cell;
            } else if marked * NEARLY_FULL.1 > cells * NEARLY_FULL.0 {
                self.nearly_full[class].push(block);
            } else {
                self.unswept[class].push(block);
            }
        }
        Survivors { objects: marked.into(), bytes: u64::from(marked) * u64::from(cell) }
    }

    /// Makes a block that is not to be emptied one to allocate in.
    pub(crate) fn requeue(&mut self, class: usize, block: u32) {
        self.unswept[class].push(block);
    }

    /// Takes back the rest of a run that has been zeroed, where nothing of its block has been handed out behind it.
    pub(crate) fn take_back(&mut self, class: usize, pool: &mut BlockPool, run: BumpRun) {
        let cell = self.classes.cell(class);
        if let Some(block) = self.current[class].filter(|&block| block == block_of(run.cursor))
            && let end = block_start(block) + BLOCK_BYTES / cell * cell
            && pool.info(block).swept == first_free(pool, run.limit, end, cell) - block_start(block)
        {
            pool.info_mut(block).swept = run.cursor - block_start(block);
        }
    }

    /// Releases the identities of all dead objects, and zeroes their headers, or with `clear` their whole cells.
    pub(crate) fn release_all_dead<M: ReferenceModel>(&mut self, pool: &mut BlockPool, model: &mut M, clear: bool) {
        for class in 0..self.classes.count() {
            let cell = self.classes.cell(class);
            for block in self.unfinished_of(class) {
                let start = block_start(block);
                for object in (start + pool.info(block).swept..=start + BLOCK_BYTES - cell).step_by(cell as usize) {
                    if !pool.marks.get(object) {
                        release_dead(pool, model, object);
                        // SAFETY: the cell is free.
                        unsafe { pool.cage.zero(object, if clear { cell } else { 8 } as usize) };
                    }
                }
            }
        }
    }

    /// Whether a sweep under way will come to the block: then what is marked in it is all that is allocated.
    pub(crate) fn is_unclassified(&self, pool: &BlockPool, block: u32) -> bool {
        block < self.unclassified && !pool.is_fresh(block)
    }

    /// Each block that still has cells to be swept, with its class.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        (0..self.classes.count()).flat_map(|class| self.unfinished_of(class).map(move |block| (class, block)))
    }

    fn unfinished_of(&self, class: usize) -> impl Iterator<Item = u32> + '_ {
        [&self.unswept[class], &self.nearly_full[class]]
            .into_iter()
            .flatten()
            .chain(&self.current[class])
            .chain(self.candidates.of(class))
            .copied()
    }
}

/// The first cell from `start` on that is not marked, of a block whose cells end at `end`; or `end`.
#[inline(always)]
fn first_free(pool: &BlockPool, start: u32, end: u32, cell: u32) -> u32 {
    let mut free = start;
    while free < end && pool.marks.get(free) {
        free += cell;
    }
    free
}

/// Releases the identity of the object in an unmarked cell, if there is one.
#[inline(always)]
pub(crate) fn release_dead<M: ReferenceModel>(pool: &mut BlockPool, model: &mut M, object: u32) {
    // SAFETY: the cell lies in a taken block; an unmarked one with a header is dead and not released yet.
    unsafe {
        if model.releases() && pool.cage.read(object + TYPE_ID_OFFSET) != 0 {
            model.release(pool, object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::finish;
    use crate::cage::Extent;
    use crate::references::direct::Direct;

    /// A pool of so many blocks, and a space with blocks of one class, in address order, whose first cells are marked:
    /// so many in each. They have been swept.
    fn swept(blocks: u64, class: usize, marked: &[u32]) -> (BlockPool, SmallSpace) {
        let mut pool = BlockPool::new(blocks * u64::from(BLOCK_BYTES), Extent::WHOLE).unwrap();
        let mut space = SmallSpace::new(false);
        let cell = space.classes.cell(class);
        for &marked in marked {
            let block = pool.take(1, BlockKind::Small, BlockKind::Small).unwrap();
            pool.info_mut(block).class = class as u8;
            (0..marked).for_each(|index| _ = pool.marks.set(block_start(block) + index * cell));
        }
        sweep(&mut pool, &mut space);
        (pool, space)
    }

    fn sweep(pool: &mut BlockPool, space: &mut SmallSpace) {
        pool.start_sweep();
        let mut sweep = space.start_sweep(pool, Choice::None);
        finish(|budget| space.sweep(&mut sweep, pool, &mut Direct, budget));
    }

    /// The blocks that all further runs of a class come from, in their order.
    fn order(pool: &mut BlockPool, space: &mut SmallSpace, class: usize, fit: Fit) -> Vec<u32> {
        let runs = std::iter::from_fn(|| space.next_run(class, fit, pool, &mut Direct));
        let mut blocks: Vec<u32> = runs.map(|run| block_of(run.cursor)).collect();
        blocks.dedup();
        blocks
    }

    #[test]
    fn nearly_full_blocks_wait_for_others() {
        const CLASS: usize = 3;
        let cells = BLOCK_BYTES / SizeClasses::new().cell(CLASS);
        let most = cells * 7 / 8;
        let marked = [most + 1, most, cells - 1, 1, cells];
        for (fit, expected) in [(Fit::Loose, [1, 3, 5, 2, 0]), (Fit::Tight, [1, 3, 0, 2, 5])] {
            let (mut pool, mut space) = swept(6, CLASS, &marked);
            let first = pool.frontier() - marked.len() as u32;
            let mut blocks = order(&mut pool, &mut space, CLASS, fit);
            blocks.iter_mut().for_each(|block| *block -= first);
            // Of several that are nearly full, any may come first.
            let nearly_full = if fit == Fit::Loose { 3..5 } else { 2..4 };
            blocks[nearly_full.clone()].sort_unstable();
            let mut expected = expected;
            expected[nearly_full].sort_unstable();
            assert_eq!(blocks, expected, "{fit:?}");
        }
    }

    #[test]
    fn blocks_of_few_cells_are_nearly_full_as_others_are() {
        // Of seven cells or fewer, a block with a free one is at most six sevenths full.
        for class in 0..SizeClasses::new().count() {
            let cells = BLOCK_BYTES / SizeClasses::new().cell(class);
            let (_, space) = swept(1, class, &[cells - 1]);
            assert_eq!(space.nearly_full[class].len(), usize::from(cells > 8), "{cells} cells");
            let (_, space) = swept(1, class, &[cells / 2]);
            assert_eq!(space.unswept[class].len(), 1, "{cells} cells");
        }
    }

    #[test]
    fn every_free_cell_is_handed_out_once() {
        let mut state = 1_u32;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        for round in 0..60 {
            let class = round % SizeClasses::new().count();
            let (mut pool, mut space) = swept(3, class, &[1, 1, 1]);
            let cell = space.classes.cell(class);
            let cells_of = |block| (0..BLOCK_BYTES / cell).map(move |index| block_start(block) + index * cell);
            let blocks: Vec<u32> = space.unfinished().map(|(_, block)| block).collect();
            let denominator = 1 + random(8);
            for object in blocks.iter().flat_map(|&block| cells_of(block)) {
                if random(8) < denominator {
                    pool.marks.set(object);
                }
            }
            let mut free: Vec<u32> = blocks.iter().flat_map(|&block| cells_of(block)).collect();
            free.retain(|&object| !pool.marks.get(object));
            free.sort_unstable();
            sweep(&mut pool, &mut space);
            let mut handed_out = Vec::new();
            while let Some(run) = space.next_run(class, Fit::Loose, &mut pool, &mut Direct) {
                assert!(run.cursor < run.limit && run.limit - run.cursor <= cell.max(MAX_RUN_BYTES));
                // Half of the longer runs are taken back, and come again.
                let middle = run.cursor + (run.limit - run.cursor) / cell / 2 * cell;
                let is_taken_back = middle > run.cursor && random(2) == 0;
                if is_taken_back {
                    space.take_back(class, &mut pool, BumpRun { cursor: middle, limit: run.limit });
                }
                let end = if is_taken_back { middle } else { run.limit };
                handed_out.extend((run.cursor..end).step_by(cell as usize));
            }
            handed_out.sort_unstable();
            assert!(handed_out == free, "class {class}: {} cells, {} free", handed_out.len(), free.len());
        }
    }
}
