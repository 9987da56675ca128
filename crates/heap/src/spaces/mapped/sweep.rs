//! Sweeping the mapped arrays after a full collection, in steps: freeing the dead ones, looking for pages of zeros in
//! the others, counting what has memory.
//!
//! Arrays are searched for zeros less and less often, in the fourth, eighth, sixteenth collection of their lives: one
//! that has been dense stays so. A step with a limited budget handles some pages or blocks of one array at a time.

use super::{MappedSpace, ReservedSpace};
use crate::blocks::{BLOCK_BYTES, BlockPool, block_of, block_start};
use crate::budget::{Budget, Done, finish};
use crate::os::page_bytes;
use crate::os::sharing::PageState;
use crate::references::ReferenceModel;
use crate::spaces::Survivors;

/// Fewer blocks of a dead array stay with the pool whatever they hold: zeroing them takes less time than a system call.
const LEAST_RUN: u32 = 4;
/// The full collection of its life in which an array is first searched for zeros, unless all are: most arrays die
/// before.
const FIRST_SEARCH: u32 = 4;
/// Words that are looked at together for zeros.
const LINE_WORDS: usize = 8;
/// Where time is limited, the most pages that are looked at, and searched for zeros, and the most blocks that are given
/// back at once.
const MOST_PAGES: usize = 1024;
const MOST_SEARCHED: usize = 16;
const MOST_BLOCKS: u32 = 32;
/// The most blocks of an array whose pages are looked at by a nursery collection: a larger one counts whole until a
/// full collection comes to it.
const MOST_YOUNG_BLOCKS: u32 = 1024;
/// Pages looked at that count as much as one object scanned.
const PAGES_PER_UNIT: usize = 8;
/// What searching a page for zeros counts, and giving a block back.
const SEARCH_UNITS: u64 = 4;
const BLOCK_UNITS: u64 = 16;

/// A sweep under way.
#[derive(Debug)]
pub(crate) struct MappedSweep {
    /// Whether all arrays are searched for zeros.
    thorough: bool,
    /// The array at hand, or the block from which on the next one is looked for.
    head: u32,
    stage: Stage,
    /// What has been noted of its pages, between two steps.
    residency: Vec<bool>,
    /// How often arrays had come to show something else when the first of them was noted.
    changes: u64,
    pub(crate) survivors: Survivors,
}

/// What is to be done next, to the array at hand.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// To go on to the next array.
    Next,
    /// To note which pages have memory; then, in some collections, to search those for zeros.
    Look { searches: bool },
    /// To give the memory of unused reserved space back, from a page on.
    Trim { page: u32 },
    /// To search from a page on.
    Search { page: usize },
    /// To let go of the file's pages, from a page on.
    LetGo { page: u32 },
    /// To count the pages that have memory, from one on, where so many have been found.
    Count { page: usize, held: u32 },
    /// To count it among the survivors.
    Survived,
    /// To free it.
    Free(Freeing),
}

/// What is to be done next to free a dead array.
#[derive(Clone, Copy, Debug)]
enum Freeing {
    /// To map fresh memory wherever it shows the file; whether the system has done so everywhere until now.
    Unshare { is_private: bool },
    /// To note which pages have memory.
    Look,
    /// To have the system clean sparse blocks: from `block` on, which belongs to a sparse run up to `sparse_end`.
    Clean { block: u32, sparse_end: u32 },
    /// To give the blocks back, from the last one on.
    GiveBack,
}

impl MappedSpace {
    /// Begins a sweep. With `thorough`, all arrays are searched for zeros.
    pub(crate) fn start_sweep(&mut self, thorough: bool) -> MappedSweep {
        MappedSweep {
            thorough,
            head: 0,
            stage: Stage::Next,
            residency: Vec::new(),
            changes: 0,
            survivors: Survivors::default(),
        }
    }

    /// Goes on with a sweep.
    pub(crate) fn sweep<M: ReferenceModel>(
        &mut self,
        sweep: &mut MappedSweep,
        pool: &mut BlockPool,
        model: &mut M,
        budget: &mut Budget,
    ) -> Done {
        // Between two steps others look at pages.
        std::mem::swap(&mut self.residency, &mut sweep.residency);
        let done = self.sweep_arrays(sweep, pool, model, budget);
        std::mem::swap(&mut self.residency, &mut sweep.residency);
        // Also of an array of which a part is given back: its blocks are taken no more.
        self.tell(pool);
        done
    }

    fn sweep_arrays<M: ReferenceModel>(
        &mut self,
        sweep: &mut MappedSweep,
        pool: &mut BlockPool,
        model: &mut M,
        budget: &mut Budget,
    ) -> Done {
        let is_looking = !matches!(sweep.stage, Stage::Next | Stage::Survived | Stage::Free(_));
        if is_looking && sweep.changes != self.changes {
            // Pages have been mapped since: what has been noted may be wrong. The array's turn comes again.
            sweep.stage = Stage::Survived;
        }
        loop {
            if budget.is_exhausted() {
                return Done::No;
            }
            let head = sweep.head;
            sweep.stage = match sweep.stage {
                Stage::Next => {
                    let Some((&head, _)) = self.arrays.range(head..).next() else { break };
                    budget.spend(1);
                    if pool.is_fresh(head) {
                        sweep.head = head + 1;
                        continue;
                    }
                    sweep.head = head;
                    sweep.changes = self.changes;
                    self.residency.clear();
                    if pool.marks.get(block_start(head)) {
                        self.lived(head, sweep.thorough)
                    } else {
                        // SAFETY: an unmarked array is dead, and freed here once.
                        unsafe { model.release(pool, block_start(head)) };
                        Stage::Free(Freeing::Unshare { is_private: true })
                    }
                }
                Stage::Look { searches } => match self.look_at(pool, head, budget) {
                    Done::No => return Done::No,
                    Done::Yes if searches => Stage::Trim { page: 0 },
                    Done::Yes => Stage::LetGo { page: 0 },
                },
                Stage::Trim { page } => match self.give_reserved_back(pool, head, page, budget) {
                    Some(page) => Stage::Trim { page },
                    None => Stage::Search { page: 0 },
                },
                Stage::Search { mut page } => match self.give_zeros_back(pool, head, &mut page, budget) {
                    Done::No => Stage::Search { page },
                    Done::Yes => Stage::LetGo { page: 0 },
                },
                Stage::LetGo { page } => match self.let_go(head, page, budget) {
                    Some(page) => Stage::LetGo { page },
                    None => Stage::Count { page: 0, held: 0 },
                },
                Stage::Count { page, held } => {
                    let pages = &self.residency[page..];
                    let pages = &pages[..pages.len().min(MOST_PAGES)];
                    budget.spend(1 + (pages.len() / PAGES_PER_UNIT) as u64);
                    let held = held + held_in(pages);
                    match pages.len() {
                        0 => {
                            self.set_pages(head, held);
                            Stage::Survived
                        }
                        count => Stage::Count { page: page + count, held },
                    }
                }
                Stage::Survived => {
                    let bytes = self.arrays[&head].pages as u64 * self.page_size();
                    sweep.survivors += Survivors { objects: 1, bytes };
                    sweep.head = head + 1;
                    Stage::Next
                }
                Stage::Free(freeing) => match self.free(pool, head, freeing, budget) {
                    Some(freeing) => Stage::Free(freeing),
                    None => {
                        sweep.head = head + 1;
                        Stage::Next
                    }
                },
            };
        }
        sweep.survivors.bytes += self.shared.held() * self.page_size();
        Done::Yes
    }

    /// Notes that an array has lived through a full collection; says what is to be done to it.
    fn lived(&mut self, head: u32, thorough: bool) -> Stage {
        let array = self.array_mut(head);
        array.collections += 1;
        let searches = thorough || array.collections >= FIRST_SEARCH && array.collections.is_power_of_two();
        match searches || array.reserved.is_none() {
            true => Stage::Look { searches },
            false => Stage::Survived,
        }
    }

    /// Counts the memory of a young array that becomes old; returns for how many bytes it is to count until the next
    /// full collection. To be followed by [`tell`](Self::tell).
    pub(crate) fn survived(&mut self, pool: &BlockPool, head: u32) -> u64 {
        let array = &self.arrays[&head];
        // What of reserved space is touched is known.
        if array.reserved.is_some() {
            return array.pages as u64 * self.page_size();
        }
        let blocks = array.blocks;
        if blocks <= MOST_YOUNG_BLOCKS {
            self.look_at_all(pool, head);
            self.set_pages(head, held_in(&self.residency));
        }
        blocks as u64 * BLOCK_BYTES as u64
    }

    /// Frees a dead array, all at once. To be followed by [`tell`](Self::tell).
    pub(crate) fn release(&mut self, pool: &mut BlockPool, head: u32) {
        self.residency.clear();
        let mut freeing = Some(Freeing::Unshare { is_private: true });
        while let Some(next) = freeing {
            freeing = self.free(pool, head, next, &mut Budget::unlimited());
        }
    }

    /// One piece of freeing a dead array; returns what is to be done next.
    fn free(&mut self, pool: &mut BlockPool, head: u32, freeing: Freeing, budget: &mut Budget) -> Option<Freeing> {
        let (blocks, reserved) = (self.arrays[&head].blocks, self.arrays[&head].reserved);
        let before = self.arrays[&head].extents.len();
        match freeing {
            Freeing::Unshare { is_private } => {
                let most = if budget.is_limited() { MOST_BLOCKS * self.pages_of(1) } else { u32::MAX };
                if let Some(extent) = self.array_mut(head).last_of_extents(most) {
                    let start = block_start(head) + extent.first * self.page_bytes;
                    let is_mapped = pool.cage.map_fresh(start, (extent.pages * self.page_bytes) as usize);
                    self.shared.remove(extent);
                    self.count_extents(head, before);
                    budget.spend(1 + u64::from(extent.pages));
                    return Some(Freeing::Unshare { is_private: is_private && is_mapped });
                }
                if reserved.is_none() && !is_private {
                    self.forget_array(head);
                    pool.abandon(head, blocks);
                    return None;
                }
                match reserved {
                    Some(reserved) => set_dirty_around(pool, head, blocks, reserved),
                    None if blocks >= LEAST_RUN => return Some(Freeing::Look),
                    None => pool.set_dirty(head, blocks),
                }
                Some(Freeing::GiveBack)
            }
            Freeing::Look => match self.look_at(pool, head, budget) {
                Done::No => Some(Freeing::Look),
                Done::Yes => Some(Freeing::Clean { block: head, sparse_end: head }),
            },
            Freeing::Clean { block, .. } if block == head + blocks => Some(Freeing::GiveBack),
            Freeing::Clean { block, sparse_end } => Some(self.clean(pool, head, block, sparse_end, budget)),
            Freeing::GiveBack => {
                // From its end, so that what is left is an array still, of whose pages nothing is known.
                let piece = if budget.is_limited() { blocks.min(MOST_BLOCKS) } else { blocks };
                budget.spend(u64::from(piece));
                self.untouched -= u64::from(self.pages_of(blocks) - self.arrays[&head].pages);
                let left = blocks - piece;
                let pages = self.pages_of(left);
                let array = self.array_mut(head);
                (array.blocks, array.pages) = (left, pages);
                pool.info_mut(head).extent = left;
                if left == 0 {
                    self.arrays.remove(&head);
                }
                pool.give_back_as_they_are(head + left, piece);
                (left > 0).then_some(Freeing::GiveBack)
            }
        }
    }

    /// Gives the memory of sparse blocks of a dead array back to the system: those from `block` on, up to a block of
    /// another kind, or as many as are given back at once.
    fn clean(&self, pool: &mut BlockPool, head: u32, block: u32, sparse_end: u32, budget: &mut Budget) -> Freeing {
        let per_block = self.pages_per_block.unwrap_or(1) as usize;
        let held = |block: u32| {
            let pages = self.residency.iter().skip((block - head) as usize * per_block).take(per_block);
            pages.filter(|&&has_memory| has_memory).count()
        };
        budget.spend(1);
        let mut sparse_end = sparse_end;
        if sparse_end <= block {
            let end = head + self.arrays[&head].blocks;
            let end = if budget.is_limited() { end.min(block + MOST_PAGES as u32) } else { end };
            let sparse = (block..end).take_while(|&block| 2 * held(block) < per_block).count() as u32;
            budget.spend(u64::from(sparse) / PAGES_PER_UNIT as u64);
            if sparse < LEAST_RUN {
                pool.set_dirty(block, sparse.max(1));
                return Freeing::Clean { block: block + sparse.max(1), sparse_end: block };
            }
            sparse_end = block + sparse;
        }
        let most = if budget.is_limited() { MOST_BLOCKS } else { u32::MAX };
        let piece = (sparse_end - block).min(most);
        // Pages that have been swapped out have no memory, but contents: they are to be given back like the others.
        if !pool.clean_by_system(block, piece) {
            pool.set_dirty(block, piece);
        }
        budget.spend(u64::from(piece) * BLOCK_UNITS);
        Freeing::Clean { block: block + piece, sparse_end }
    }

    /// Takes a dead array off the list.
    fn forget_array(&mut self, head: u32) {
        let array = self.arrays.remove(&head).expect("a mapped array starts at this block");
        self.untouched -= u64::from(self.pages_of(array.blocks) - array.pages);
    }

    /// Notes which pages of an array have memory of their own.
    fn look_at_all(&mut self, pool: &BlockPool, head: u32) {
        self.residency.clear();
        finish(|budget| self.look_at(pool, head, budget));
    }

    /// Goes on to note which pages of an array have memory of their own.
    fn look_at(&mut self, pool: &BlockPool, head: u32, budget: &mut Budget) -> Done {
        let pages = self.pages_of(self.arrays[&head].blocks) as usize;
        let most = if budget.is_limited() { MOST_PAGES } else { pages };
        while self.residency.len() < pages {
            if budget.is_exhausted() {
                return Done::No;
            }
            let count = most.min(pages - self.residency.len());
            self.look_at_some(pool, head, count);
            budget.spend((count / PAGES_PER_UNIT) as u64);
        }
        Done::Yes
    }

    /// As [`look_at`](Self::look_at), of `count` pages.
    fn look_at_some(&mut self, pool: &BlockPool, head: u32, count: usize) {
        let first = self.residency.len();
        let (start, size) = (block_start(head), self.page_bytes);
        let mut answers = Vec::new();
        let bytes = count * size as usize;
        if self.pages_per_block.is_some() && pool.cage.residency(start + first as u32 * size, bytes, &mut answers) {
            self.residency.append(&mut answers);
        } else {
            self.residency.resize(first + count, true);
        }
        debug_assert_eq!(self.residency.len(), first + count);
        let (first, end) = (first as u32, (first + count) as u32);
        let mut states = Vec::new();
        for extent in &self.arrays[&head].extents {
            let (first, end) = (extent.first.max(first), extent.end().min(end));
            if first >= end {
                continue;
            }
            let address = pool.cage.address(start + first * size);
            let told =
                self.tables.as_ref().is_some_and(|tables| tables.read(address, (end - first) as usize, &mut states));
            let of_extent = &mut self.residency[first as usize..end as usize];
            let is_own = states.iter().map(|&state| !told || state == PageState::Own);
            of_extent.iter_mut().zip(is_own).for_each(|(has_memory, is_own)| *has_memory = is_own);
        }
    }

    /// Notes how many pages of an array have memory of their own.
    fn set_pages(&mut self, head: u32, pages: u32) {
        let before = std::mem::replace(&mut self.array_mut(head).pages, pages);
        self.untouched = self.untouched + u64::from(before) - u64::from(pages);
    }

    /// Gives the memory of some unused reserved space back to the system, which whoever had the blocks before has left
    /// there: from `page` on, or from its beginning. Returns the page to go on at, if there is more.
    fn give_reserved_back(&mut self, pool: &mut BlockPool, head: u32, page: u32, budget: &mut Budget) -> Option<u32> {
        let reserved = self.arrays[&head].reserved?;
        let (start, size, per_block) = (block_start(head), self.page_bytes, self.pages_per_block?);
        let (first, end) = (page.max(reserved.start.div_ceil(size)), reserved.end / size);
        let end = end.min((first / per_block + MOST_BLOCKS) * per_block);
        if first >= end {
            return None;
        }
        let noted = &mut self.residency[first as usize..end as usize];
        let (offset, bytes) = (start + first * size, (end - first) * size);
        budget.spend(1);
        if noted.contains(&true) && pool.cage.decommit(offset, bytes as usize) {
            noted.fill(false);
            let blocks = offset.div_ceil(BLOCK_BYTES)..block_of(offset + bytes);
            blocks.for_each(|block| pool.info_mut(block).dirty = false);
            budget.spend(u64::from(MOST_BLOCKS) * BLOCK_UNITS);
        }
        Some(end)
    }

    /// Gives the pages of a live array that hold nothing but zeros back to the system, from `page` on, which moves on,
    /// and notes so. Not those where it shows the file, or has: the system would show the file's page again.
    fn give_zeros_back(&mut self, pool: &mut BlockPool, head: u32, page: &mut usize, budget: &mut Budget) -> Done {
        if self.pages_per_block.is_none() {
            return Done::Yes;
        }
        let (start, size) = (block_start(head), page_bytes());
        let memory = pool.cage.memory();
        let is_zero = |page: usize| {
            // SAFETY: the page lies in the array's blocks, which are committed, and nobody writes to them.
            let words = unsafe {
                std::slice::from_raw_parts(memory.address(start + page as u32 * size).cast::<u64>(), size as usize / 8)
            };
            words.chunks(LINE_WORDS).all(|line| line.iter().fold(0, |bits, word| bits | word) == 0)
        };
        let most = if budget.is_limited() { MOST_SEARCHED } else { usize::MAX };
        let extents = &self.arrays[&head].extents;
        while *page < self.residency.len() {
            if budget.is_exhausted() {
                return Done::No;
            }
            let next = &extents[extents.partition_point(|extent| extent.end() as usize <= *page)..];
            let end = next.first().map_or(self.residency.len(), |next| next.first as usize);
            if end <= *page {
                *page = next[0].end() as usize;
                continue;
            }
            let zeros = self.residency[*page..end].iter().zip(*page..).take(most);
            let zeros = zeros.take_while(|&(&has_memory, page)| has_memory && is_zero(page)).count();
            if zeros > 0 && pool.cage.decommit(start + *page as u32 * size, zeros * size as usize) {
                self.residency[*page..*page + zeros].fill(false);
                self.zero_pages += zeros as u64;
            }
            *page += zeros.max(1);
            budget.spend(SEARCH_UNITS * zeros.max(1) as u64);
        }
        Done::Yes
    }
}

/// How many of these pages have memory.
fn held_in(pages: &[bool]) -> u32 {
    pages.iter().filter(|&&has_memory| has_memory).count() as u32
}

/// Notes what of a dead spine with reserved space may hold old contents: all but the reserved.
fn set_dirty_around(pool: &mut BlockPool, head: u32, blocks: u32, reserved: ReservedSpace) {
    let object = block_start(head);
    let first = block_of(object + reserved.start - 1) + 1;
    pool.set_dirty(head, first - head);
    let pointers = block_of(object + reserved.end).max(first);
    pool.set_dirty(pointers, head + blocks - pointers);
}
