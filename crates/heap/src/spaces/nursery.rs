//! The nursery: blocks in which young objects of every small size lie one after the other, and the list of young large
//! objects.
//!
//! A *cycle* lasts from one collection to the next. Its blocks are taken from the pool when it starts, in address
//! order, so that it is known which memory will be allocated next; those that a collection has emptied serve the next
//! cycle again. A collection leaves each block either empty or *kept*: its survivors stay where they are and stay
//! young, because the block is among those allocated last (aging) or because the mature space had no memory for them.
//! The kept block that the mutator allocates in goes on being allocated in. At the next collection kept blocks are
//! evacuated like all others.
//!
//! Limits: an object that does not fit the rest of the block ends the block where the rest is at most an eighth of it.
//! Where it is more, the object goes to a second, *overflow* block, whose own rest may be wasted up to a half.

use super::mapped::MappedSpace;
use super::{Contents, Survivors};
use crate::ages::{Age, Ages};
use crate::blocks::{BLOCK_BYTES, BlockKind, BlockPool, block_of, block_start};
use crate::cage::Cage;
use crate::context::Context;
use crate::error::HeapError;
use crate::plan::BumpRun;
use crate::zeroing::{ZeroRange, Zeroer, Zeroing, ZeroingTimes};

/// What the nursery's blocks are filled with before they are allocated in, where the heap is verified.
const POISON: u8 = 0xdb;
/// An object that does not fit a rest of more than this goes to the overflow block.
const LEAST_REST: u32 = BLOCK_BYTES / 8;

/// The nursery of one heap.
#[derive(Debug)]
pub(crate) struct Nursery {
    /// The age of every block of the heap.
    pub(crate) ages: Ages,
    /// The cycle's blocks, in the order in which they are allocated in.
    blocks: Vec<u32>,
    /// How many of them have been.
    taken: usize,
    /// Blocks with survivors of the last collection.
    kept: Vec<u32>,
    /// The block that the mutator's run lies in.
    current: Option<u32>,
    /// The run where inline allocation is to come to the heap each time (`stress`); empty otherwise.
    hidden: BumpRun,
    /// A second block, for objects that do not fit the rest of the current one.
    overflow: BumpRun,
    /// First blocks of large objects allocated in this cycle.
    large: Vec<u32>,
    /// What they count for, in bytes.
    large_bytes: u64,
    hide_run: bool,
    zeroing: Zeroing,
    zeroer: Zeroer,
    /// The blocks that the zeroer has been given, in its order, and how many of them have been opened.
    dirty: Vec<u32>,
    opened: usize,
    /// Whether nobody is to find anything in blocks that hold nothing: they are filled with [`POISON`], and those that
    /// the last collection has emptied are inaccessible, so that whoever still uses a reference into them faults at
    /// once.
    guards: bool,
    /// The blocks that are inaccessible.
    guarded: Vec<u32>,
}

impl Nursery {
    /// An empty nursery. With `one_by_one`, every allocation comes to the heap; with `guards`, nobody is to find
    /// anything in blocks that hold nothing.
    ///
    /// # Errors
    /// As for [`Zeroer::new`].
    pub(crate) fn new(cage: &Cage, zeroing: Zeroing, one_by_one: bool, guards: bool) -> Result<Nursery, HeapError> {
        Ok(Nursery {
            ages: Ages::new(cage)?,
            blocks: Vec::new(),
            taken: 0,
            kept: Vec::new(),
            current: None,
            hidden: BumpRun::default(),
            overflow: BumpRun::default(),
            large: Vec::new(),
            large_bytes: 0,
            hide_run: one_by_one,
            zeroing,
            zeroer: Zeroer::new(zeroing),
            dirty: Vec::new(),
            opened: 0,
            guards,
            guarded: Vec::new(),
        })
    }

    /// Bytes of blocks and large objects that have been allocated in during this cycle.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.taken as u64 * BLOCK_BYTES as u64 + self.large_bytes
    }

    /// Bytes of this cycle's large objects.
    pub(crate) fn large_bytes(&self) -> u64 {
        self.large_bytes
    }

    /// Bytes of kept blocks.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept.len() as u64 * BLOCK_BYTES as u64
    }

    /// Bytes of all blocks that the nursery holds.
    pub(crate) fn held_bytes(&self) -> u64 {
        (self.blocks.len() + self.kept.len() + self.guarded.len()) as u64 * BLOCK_BYTES as u64
    }

    /// Whether the cycle has been given blocks.
    pub(crate) fn has_started(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// What has been spent on zeroing since the last call.
    pub(crate) fn take_zeroing_times(&mut self) -> ZeroingTimes {
        self.zeroer.take_times()
    }

    /// The run that small objects are allocated from.
    fn run<'a>(&'a mut self, context: &'a mut Context) -> &'a mut BumpRun {
        if self.hide_run { &mut self.hidden } else { context.run(0) }
    }

    /// The run that small objects are allocated from, as it is now.
    pub(crate) fn run_now(&self, context: &Context) -> BumpRun {
        if self.hide_run { self.hidden } else { context.run_now(0) }
    }

    /// The offset of `bytes` (at most half a block) for a new object: zero, or for objects that are written whole as it
    /// is. With `may_open`, further blocks of the cycle are opened; `None` where there is none.
    pub(crate) fn allocate(
        &mut self,
        pool: &mut BlockPool,
        context: &mut Context,
        bytes: u32,
        contents: Contents,
        may_open: bool,
    ) -> Option<u32> {
        let bytes = bytes.next_multiple_of(8);
        let run = *self.run(context);
        let object = if run.limit - run.cursor >= bytes {
            bump(self.run(context), bytes)
        } else if self.overflow.limit - self.overflow.cursor >= bytes {
            bump(&mut self.overflow, bytes)
        } else if !may_open {
            return None;
        } else if run.limit - run.cursor <= LEAST_REST {
            let block = self.next_block(pool)?;
            self.retire(pool, context);
            self.current = Some(block);
            *self.run(context) = whole(block);
            bump(self.run(context), bytes)
        } else {
            let block = self.next_block(pool)?;
            close(pool, self.overflow);
            self.overflow = whole(block);
            bump(&mut self.overflow, bytes)
        };
        if contents == Contents::Zeroed && self.zeroing == Zeroing::HotPath && pool.info(block_of(object)).dirty {
            // SAFETY: the object is new, and its block committed.
            unsafe { pool.cage.zero(object, bytes as usize) };
        }
        Some(object)
    }

    /// Opens the cycle's next block.
    fn next_block(&mut self, pool: &mut BlockPool) -> Option<u32> {
        let &block = self.blocks.get(self.taken)?;
        self.taken += 1;
        self.ages.set(block, Age::Young);
        let info = pool.info_mut(block);
        (info.swept, info.extent) = (0, 0);
        if self.zeroing == Zeroing::HotPath {
            if self.guards {
                fill(pool, block);
            }
        } else if self.dirty.get(self.opened) == Some(&block) {
            self.zeroer.wait_for(self.opened);
            self.opened += 1;
            pool.info_mut(block).dirty = false;
        } else {
            debug_assert!(!pool.info(block).dirty, "block {block} is to be zeroed out of turn");
        }
        Some(block)
    }

    /// Has the cycle's dirty blocks that have not been allocated in zeroed before they are.
    fn start_zeroing(&mut self, pool: &BlockPool) {
        self.opened = 0;
        self.dirty.clear();
        if self.zeroing == Zeroing::HotPath {
            return;
        }
        self.dirty.extend(self.blocks[self.taken..].iter().filter(|&&block| pool.info(block).dirty));
        let range = |&block| ZeroRange { address: pool.cage.address(block_start(block)), bytes: BLOCK_BYTES as usize };
        let ranges = self.dirty.iter().map(range).collect();
        // SAFETY: the nursery's blocks are committed and distinct, and used by nobody before `next_block`, which waits.
        // They leave the nursery, and are filled otherwise, after `stop_zeroing` alone; the heap drops the nursery
        // before its memory.
        unsafe { self.zeroer.start_cycle(ranges) };
    }

    /// Ends zeroing ahead of the allocator. Blocks that have been zeroed whole are clean.
    fn stop_zeroing(&mut self, pool: &mut BlockPool) {
        self.zeroer.stop();
        for (index, &block) in self.dirty.iter().enumerate().skip(self.opened) {
            pool.info_mut(block).dirty &= !self.zeroer.zeroed(index);
        }
        self.dirty.clear();
        self.opened = 0;
    }

    /// Notes how far the mutator's block has been filled, and takes the run away.
    fn retire(&mut self, pool: &mut BlockPool, context: &mut Context) {
        let run = std::mem::take(self.run(context));
        if self.current.take().is_some() {
            close(pool, run);
        }
    }

    /// Counts a large object among the young ones, for `bytes`.
    pub(crate) fn add_large(&mut self, object: u32, bytes: u64) {
        let head = block_of(object);
        self.ages.set(head, Age::YoungLarge);
        self.large.push(head);
        self.large_bytes += bytes;
    }

    /// The first blocks of large objects allocated in this cycle.
    pub(crate) fn large(&self) -> &[u32] {
        &self.large
    }

    /// Gives blocks that have not been allocated in back to the pool, all but one. Returns whether there were any.
    pub(crate) fn release_unused(&mut self, pool: &mut BlockPool) -> bool {
        self.lift_guard(pool);
        let keep = self.taken.max(1);
        if keep >= self.blocks.len() {
            return false;
        }
        self.stop_zeroing(pool);
        self.blocks.drain(keep..).for_each(|block| pool.give_back(block, 1));
        self.start_zeroing(pool);
        true
    }

    /// Begins a collection: kept blocks are to be evacuated, and of the cycle's blocks those allocated in last, `aging`
    /// percent of them, to be kept.
    pub(crate) fn start_collection(&mut self, pool: &mut BlockPool, context: &Context, aging: u32) {
        self.stop_zeroing(pool);
        close(pool, self.overflow);
        self.overflow = BumpRun::default();
        if let Some(block) = self.current {
            pool.info_mut(block).extent = self.run_now(context).cursor - block_start(block);
        }
        for &block in &self.kept {
            pool.marks.clear_block(block);
            self.ages.set(block, Age::Young);
        }
        let aged = (self.taken * aging as usize).div_ceil(100);
        for &block in &self.blocks[self.taken - aged..self.taken] {
            self.ages.set(block, Age::Kept);
        }
    }

    /// Ends a collection, once every survivor's block is known: sorts the blocks into kept and empty ones. Frees the
    /// large objects that were not reached, and makes the others old; returns these.
    pub(crate) fn finish_collection(
        &mut self,
        pool: &mut BlockPool,
        mapped: &mut MappedSpace,
        context: &mut Context,
    ) -> Survivors {
        let empty = self.blocks.split_off(self.taken);
        let used = self.kept.drain(..).chain(self.blocks.drain(..));
        let (kept, emptied): (Vec<_>, Vec<_>) = used.partition(|&block| self.ages.of_block(block) == Age::Kept);
        self.kept = kept;
        self.taken = 0;
        for &block in &self.kept {
            let info = pool.info_mut(block);
            info.swept = info.extent;
        }
        if self.current.is_some_and(|block| self.ages.of_block(block) != Age::Kept) {
            self.current = None;
            *self.run(context) = BumpRun::default();
        }
        for &block in &emptied {
            self.ages.set(block, Age::Old);
            pool.info_mut(block).dirty = true;
        }
        self.blocks = empty;
        if self.guards {
            self.lift_guard(pool);
            self.guard(pool, emptied);
        } else {
            self.blocks.extend(emptied);
        }
        let mut survivors = Survivors::default();
        for head in self.large.drain(..) {
            self.ages.set(head, Age::Old);
            let (extent, is_mapped) = (pool.info(head).extent, pool.info(head).kind == BlockKind::MappedHead);
            let lives = pool.marks.get(block_start(head));
            match (lives, is_mapped) {
                (true, true) => survivors.bytes += mapped.survived(pool, head),
                (true, false) => survivors.bytes += extent as u64 * BLOCK_BYTES as u64,
                (false, true) => mapped.release(pool, head),
                (false, false) => pool.give_back(head, extent),
            }
            survivors.objects += lives as u64;
        }
        mapped.tell(pool);
        self.large_bytes = 0;
        survivors
    }

    /// Makes blocks that a collection has emptied inaccessible up to the next one.
    fn guard(&mut self, pool: &BlockPool, emptied: Vec<u32>) {
        for block in emptied {
            match pool.cage.forbid(block_start(block), BLOCK_BYTES as usize) {
                true => self.guarded.push(block),
                false => self.blocks.push(block),
            }
        }
    }

    /// Makes all blocks accessible again. A block that the system keeps inaccessible is withdrawn.
    fn lift_guard(&mut self, pool: &mut BlockPool) {
        for block in std::mem::take(&mut self.guarded) {
            match pool.cage.commit(block_start(block), BLOCK_BYTES as usize) {
                Ok(()) => self.blocks.push(block),
                Err(_) => pool.abandon(block, 1),
            }
        }
    }

    /// Starts a cycle of `bytes`, kept blocks included, as far as there is memory: the mature space keeps half of what
    /// is left.
    pub(crate) fn start_cycle(&mut self, pool: &mut BlockPool, bytes: u64) {
        self.stop_zeroing(pool);
        let wanted = (bytes / BLOCK_BYTES as u64) as usize;
        let wanted = wanted.saturating_sub(self.kept.len()).max(1);
        if (pool.available() as usize) < 2 * wanted {
            // Memory is short: what would be different without the guard is not to be.
            self.lift_guard(pool);
        }
        self.blocks.sort_unstable();
        while self.blocks.len() > wanted {
            pool.give_back(self.blocks.pop().expect("more than wanted"), 1);
        }
        let possible = self.blocks.len() + (pool.available() as usize).div_ceil(2);
        while self.blocks.len() < wanted.min(possible) {
            let Some(block) = pool.take(1, BlockKind::Nursery, BlockKind::Nursery) else { break };
            self.blocks.push(block);
        }
        self.blocks.sort_unstable();
        self.start_zeroing(pool);
    }

    /// Where the cycle under way has opened all its blocks, gives it another one, if the mature space keeps as much.
    pub(crate) fn extend(&mut self, pool: &mut BlockPool) {
        if self.taken < self.blocks.len() || (pool.available() as usize) <= self.blocks.len() {
            return;
        }
        let Some(block) = pool.take(1, BlockKind::Nursery, BlockKind::Nursery) else { return };
        if self.zeroing != Zeroing::HotPath && pool.info(block).dirty {
            // SAFETY: the block is committed, and nobody's.
            unsafe { pool.cage.zero(block_start(block), BLOCK_BYTES as usize) };
            pool.info_mut(block).dirty = false;
        }
        self.blocks.push(block);
    }

    /// The blocks that hold objects, each with the offset up to which only the marked ones are allocated and the end of
    /// all.
    pub(crate) fn filled<'a>(
        &'a self,
        pool: &'a BlockPool,
        context: &'a Context,
    ) -> impl Iterator<Item = (u32, u32, u32)> + 'a {
        self.kept.iter().chain(&self.blocks[..self.taken]).map(move |&block| {
            let (start, info) = (block_start(block), pool.info(block));
            let end = if self.current == Some(block) {
                self.run_now(context).cursor
            } else if self.overflow.limit == start + BLOCK_BYTES {
                self.overflow.cursor
            } else {
                start + info.extent
            };
            (block, start + info.swept, end)
        })
    }

    /// The blocks that hold nothing.
    pub(crate) fn unused(&self) -> impl Iterator<Item = &u32> {
        self.blocks[self.taken..].iter().chain(&self.guarded)
    }
}

/// Takes the next `bytes` of a run that has them.
#[inline(always)]
fn bump(run: &mut BumpRun, bytes: u32) -> u32 {
    let object = run.cursor;
    run.cursor += bytes;
    object
}

/// A block as one run.
fn whole(block: u32) -> BumpRun {
    BumpRun { cursor: block_start(block), limit: block_start(block) + BLOCK_BYTES }
}

/// Notes in its block how far a run has been used.
fn close(pool: &mut BlockPool, run: BumpRun) {
    if run.limit > 0 {
        let block = block_of(run.limit - 1);
        pool.info_mut(block).extent = run.cursor - block_start(block);
    }
}

/// Fills a block that holds nothing with poison.
fn fill(pool: &mut BlockPool, block: u32) {
    pool.info_mut(block).dirty = true;
    // SAFETY: the block is taken, so committed, and holds nothing.
    unsafe { std::ptr::write_bytes(pool.cage.address(block_start(block)), POISON, BLOCK_BYTES as usize) };
}
