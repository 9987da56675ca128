//! Small objects: blocks of cells of one size class, swept lazily.
//!
//! After marking, a block without a marked cell returns to the pool at once; one whose cells are all marked is left
//! alone; every other block is queued with its class. Allocation sweeps the first queued block a run at a time: it
//! looks for the next run of consecutive unmarked cells, releases the identities of the dead objects in it, zeroes it
//! and hands it to the mutator, which bumps through it inline.
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
use super::{Contents, Survivors, Sweep};
use crate::blocks::{BLOCK_BYTES, BlockKind, BlockPool, block_of, block_start};
use crate::budget::{Budget, Done};
use crate::layout::TYPE_ID_OFFSET;
use crate::plan::BumpRun;
use crate::references::ReferenceModel;
use crate::size_classes::MAX_SIZE_CLASSES;
use crate::size_classes::SizeClasses;

/// The longest run handed out at a time, in bytes: little enough that zeroing leaves it in the first-level cache.
pub(crate) const MAX_RUN_BYTES: u32 = 8 << 10;

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
            crowded: [false; MAX_SIZE_CLASSES],
            candidates: Candidates::new(),
            one_by_one,
            unclassified: 0,
        }
    }

    /// The next run of free cells of a class: from queued blocks, then from a fresh one. `None` where the pool has
    /// none.
    pub(crate) fn next_run<M: ReferenceModel>(
        &mut self,
        class: usize,
        pool: &mut BlockPool,
        model: &mut M,
        contents: Contents,
    ) -> Option<BumpRun> {
        loop {
            let block = match self.current[class].or_else(|| self.unswept[class].pop()) {
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
                    None => self.candidates.take_fullest(class)?,
                },
            };
            let longest = self.classes.cell(class).max(MAX_RUN_BYTES);
            let run = self.sweep_run(block, class, longest, pool, model, contents);
            self.current[class] = run.map(|_| block);
            if run.is_some() {
                return run;
            }
        }
    }

    /// Has a class borrow cells of larger ones until the next collection; false if it has done so already.
    pub(crate) fn crowd(&mut self, class: usize) -> bool {
        !std::mem::replace(&mut self.crowded[class], true)
    }

    /// For a class that is crowded: a run of one cell of its own size, zeroed, at the beginning of a free cell of the
    /// nearest larger class that has one.
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
            while let Some(block) = self.current[larger].or_else(|| self.unswept[larger].pop()) {
                let cell = self.classes.cell(larger);
                let run = self.sweep_run(block, larger, cell, pool, model, Contents::Zeroed);
                self.current[larger] = run.map(|_| block);
                if let Some(BumpRun { cursor, .. }) = run {
                    pool.info_mut(block).lent = true;
                    return Some(BumpRun { cursor, limit: cursor + self.classes.cell(class) });
                }
            }
        }
        None
    }

    /// The next run in the block that the last one came from, zeroed, of `longest` bytes at most; `None` where that is
    /// too little for a cell, and at the block's end. One run at a time is enough where each allocation comes to the
    /// heap.
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
        let run = self.sweep_run(self.current[class]?, class, longest, pool, model, Contents::Zeroed);
        if run.is_none() {
            self.current[class] = None;
        }
        run
    }

    /// Sweeps on in `block` until a run is found, of `longest` bytes at most; `None` at its end.
    fn sweep_run<M: ReferenceModel>(
        &self,
        block: u32,
        class: usize,
        longest: u32,
        pool: &mut BlockPool,
        model: &mut M,
        contents: Contents,
    ) -> Option<BumpRun> {
        let cell = self.classes.cell(class);
        let start = block_start(block);
        let end = start + BLOCK_BYTES / cell * cell;
        let longest = if self.one_by_one { cell } else { longest };
        let mut cursor = start + pool.info(block).swept;
        while cursor < end && pool.marks.get(cursor) {
            cursor += cell;
        }
        let mut limit = cursor;
        while limit < end && limit + cell - cursor <= longest && !pool.marks.get(limit) {
            if model.releases() {
                release_dead(pool, model, limit);
            }
            limit += cell;
        }
        pool.info_mut(block).swept = limit - start;
        if cursor == limit {
            return None;
        }
        if pool.info(block).dirty && contents == Contents::Zeroed {
            // SAFETY: the cells are free, and their block is taken.
            unsafe { pool.cage.zero(cursor, (limit - cursor) as usize) };
        }
        Some(BumpRun { cursor, limit })
    }

    /// Begins the first part of sweeping, right after marking, which sets some of the blocks aside.
    pub(crate) fn start_sweep(&mut self, pool: &BlockPool, choice: Choice) -> Sweep {
        self.candidates.start(choice);
        self.current.fill(None);
        self.crowded.fill(false);
        self.unswept.iter_mut().for_each(Vec::clear);
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
        if let Some(block) = self.current[class].filter(|&block| block == block_of(run.cursor))
            && pool.info(block).swept == run.limit - block_start(block)
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
        self.unswept[class].iter().chain(&self.current[class]).chain(self.candidates.of(class)).copied()
    }
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
