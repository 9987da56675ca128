//! The block pool: cuts the cage into 32 KiB blocks, with a side table of what each is used for.
//!
//! Free blocks are kept as runs in address order, coalesced when blocks are given back and taken first-fit; beyond
//! the highest block ever taken the pool grows, committing memory in steps. A *dirty* block may hold old contents; a
//! clean one reads as zero. Free dirty blocks beyond what the next cycle is expected to need are returned to the
//! operating system, which cleans them; so are those that would have the system hold more than the maximum.
//!
//! Limits: the last block of the cage is never used, so that a range's end fits 32 bits; a configured maximum counts
//! blocks, not side tables (under 2 %).

mod growth;
mod planes;
mod release;

pub(crate) use crate::geometry::{BLOCK_BYTES, block_of, block_start};

use crate::cage::{CAGE_BYTES, Cage, Extent, NULL_GUARD_BYTES};
use crate::error::HeapError;
use crate::marks::MarkBits;
use crate::plan::BumpRun;
use planes::Planes;
pub(crate) use release::Release;
use std::collections::BTreeMap;
use std::ops::Range;

/// The first block that can be taken: those before it are the null guard.
pub(crate) const FIRST_BLOCK: u32 = NULL_GUARD_BYTES / BLOCK_BYTES;
/// Cage offset of the zero leaf, in heaps that have one: in the first blocks.
pub(crate) const ZERO_LEAF: u32 = block_start(FIRST_BLOCK);
/// One past the last block that can be taken, of a cage of so many bytes.
const fn end_block(cage_bytes: u64) -> u32 {
    (cage_bytes / BLOCK_BYTES as u64) as u32 - 1
}
/// The most bytes that a heap can have.
pub(crate) const MAX_HEAP_BYTES: u64 = (end_block(CAGE_BYTES) - FIRST_BLOCK) as u64 * BLOCK_BYTES as u64;
/// Memory is made accessible in steps of this many blocks, of 1 MiB together, where there are no huge pages.
const COMMIT_STEP: u32 = 32;

/// What a block is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockKind {
    /// Nobody's: inaccessible, below the first block, or withheld.
    Guard,
    /// In the pool.
    Free,
    /// Cells of one size class.
    Small,
    /// The first block of a large object.
    LargeHead,
    /// A further block of a large object.
    LargeTail,
    /// The first block of an array whose memory is counted by pages.
    MappedHead,
    /// A further block of such an array.
    MappedTail,
    /// Memory that is never freed.
    Immortal,
    /// Handles.
    Handles,
    /// Young objects of any size, one after the other.
    Nursery,
    /// Leaves of arrays, or the first block of a large leaf.
    Leaves,
    /// A further block of a large leaf.
    LeafTail,
}

impl BlockKind {
    /// Whether it is the first block of an object that has blocks of its own.
    #[inline(always)]
    pub(crate) fn is_head(self) -> bool {
        matches!(self, BlockKind::LargeHead | BlockKind::MappedHead)
    }

    /// Whether it is a further block of such an object.
    #[inline(always)]
    pub(crate) fn is_tail(self) -> bool {
        matches!(self, BlockKind::LargeTail | BlockKind::MappedTail)
    }
}

/// The side-table entry of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockInfo {
    /// The use.
    pub(crate) kind: BlockKind,
    /// `Small`: the size class. `Leaves`: the [`LeafKind`](crate::spaces::leaves::LeafKind).
    pub(crate) class: u8,
    /// Whether the block may hold anything but zeros where nothing is allocated.
    pub(crate) dirty: bool,
    /// `Handles`: whether the block is on the list of blocks with free handles.
    pub(crate) queued: bool,
    /// `Small`: whether cells may hold objects of smaller classes.
    pub(crate) lent: bool,
    /// `Small`: bytes from the block's start up to which cells have been swept and handed out. Beyond it a cell is
    /// allocated where it is marked; before it, where its header is not zero. `Nursery`: bytes from the start up to
    /// which the marked objects alone are allocated; beyond, objects lie one after the other. `Handles`, where marks
    /// tell which are free: as `Small`, with what a handle names in the place of the header.
    pub(crate) swept: u32,
    /// Heads: blocks of the object. `Leaves`: blocks of the leaf. Tails: the first block. `Handles`: free handles
    /// outside of the run. `Nursery`: bytes from the start up to which objects lie; not kept up to date for the block
    /// being allocated in.
    pub(crate) extent: u32,
    /// How many sweeps had begun when the block was taken.
    taken: u32,
}

impl BlockInfo {
    fn new(kind: BlockKind) -> BlockInfo {
        BlockInfo { kind, class: 0, dirty: false, queued: false, lent: false, swept: 0, extent: 0, taken: 0 }
    }
}

/// The pool and its side tables.
#[derive(Debug)]
pub(crate) struct BlockPool {
    pub(crate) cage: Cage,
    /// Entries of all blocks below the frontier.
    infos: Vec<BlockInfo>,
    pub(crate) marks: MarkBits,
    /// The bits that marking in slices sets, and what it is about.
    pub(crate) planes: Planes,
    /// How many sweeps have begun.
    sweeps: u32,
    /// First block and length of each maximal run of free blocks below the frontier.
    free: BTreeMap<u32, u32>,
    /// One past the last accessible block.
    accessible: u32,
    /// Blocks below the frontier that nobody can take as yet: of a huge page that was being touched when the frontier
    /// came to it.
    withheld: Option<Range<u32>>,
    used: u32,
    /// As many of the used blocks have no memory, by the last count of what mapped arrays hold.
    pub(crate) without_memory: u32,
    dirty_free: u32,
    maximum: u32,
    /// Of it, the blocks of the zero leaf, which are beyond what is configured.
    beyond: u32,
    /// Blocks that leaves alone may be allocated in, as those must be had without a collection.
    reserve: u32,
    /// Whether the cage has a card table.
    has_cards: bool,
    /// Takes left before every further one fails.
    #[cfg(test)]
    pub(crate) takes_left: Option<u32>,
}

impl BlockPool {
    /// A pool that lets at most `max_bytes` (rounded down to blocks) be taken at a time, in a cage of this extent.
    ///
    /// # Errors
    /// [`HeapError::AddressSpace`] where the cage cannot be reserved.
    pub(crate) fn new(max_bytes: u64, extent: Extent) -> Result<BlockPool, HeapError> {
        let cage = Cage::new(extent)?;
        let mut pool = BlockPool {
            infos: vec![BlockInfo::new(BlockKind::Guard); FIRST_BLOCK as usize],
            marks: MarkBits::new(&cage, 0),
            cage,
            planes: Planes::default(),
            sweeps: 0,
            free: BTreeMap::new(),
            accessible: FIRST_BLOCK,
            withheld: None,
            used: 0,
            without_memory: 0,
            dirty_free: 0,
            maximum: (max_bytes.min(MAX_HEAP_BYTES) / BLOCK_BYTES as u64) as u32,
            beyond: 0,
            reserve: 0,
            has_cards: false,
            #[cfg(test)]
            takes_left: None,
        };
        pool.marks.cover(&pool.cage, FIRST_BLOCK)?;
        Ok(pool)
    }

    /// Gives the cage a card table. Cards of blocks are clean when they are taken from now on.
    ///
    /// # Errors
    /// [`HeapError::System`] where the system refuses memory.
    pub(crate) fn add_cards(&mut self) -> Result<(), HeapError> {
        self.cage.commit_cards()?;
        self.has_cards = true;
        Ok(())
    }

    /// Makes the zero leaf of `bytes` at [`ZERO_LEAF`], in blocks beyond the maximum, and sets `reserve` blocks aside
    /// for leaves. Nothing has been taken before.
    ///
    /// # Errors
    /// [`HeapError::System`] where the system refuses memory.
    pub(crate) fn prepare_leaves(&mut self, bytes: u32, reserve: u32) -> Result<(), HeapError> {
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        self.cage.commit(ZERO_LEAF, blocks.next_multiple_of(COMMIT_STEP) as usize * BLOCK_BYTES as usize)?;
        self.accessible = FIRST_BLOCK + blocks.next_multiple_of(COMMIT_STEP);
        self.maximum += blocks;
        self.beyond = blocks;
        let first = self.take(blocks, BlockKind::Immortal, BlockKind::Immortal);
        assert!(first == Some(FIRST_BLOCK), "the zero leaf comes first");
        self.reserve = reserve;
        Ok(())
    }

    /// Blocks that can still be taken, one at a time.
    pub(crate) fn available(&self) -> u32 {
        self.maximum.saturating_sub(self.counted() + self.reserve)
    }

    /// The most bytes that one object of an empty heap can have.
    pub(crate) fn most_bytes(&self) -> u64 {
        u64::from(self.maximum - self.beyond - self.reserve) * u64::from(BLOCK_BYTES)
    }

    /// Whether less than half of what is set aside for leaves is left.
    pub(crate) fn is_reserve_low(&self) -> bool {
        self.maximum.saturating_sub(self.counted()) < self.reserve.div_ceil(2)
    }

    /// Addresses of blocks that nobody has, in bytes, whatever memory there is for them.
    pub(crate) fn addresses_left(&self) -> u64 {
        u64::from(self.end_block() - FIRST_BLOCK - self.used) * u64::from(BLOCK_BYTES)
    }

    /// One past the last block that can be taken.
    fn end_block(&self) -> u32 {
        end_block(self.cage.bytes())
    }

    /// Taken blocks, but for those without memory.
    fn counted(&self) -> u32 {
        self.used.saturating_sub(self.without_memory)
    }

    /// One past the highest block ever taken.
    pub(crate) fn frontier(&self) -> u32 {
        self.infos.len() as u32
    }

    /// A block's entry.
    #[inline(always)]
    pub(crate) fn info(&self, block: u32) -> &BlockInfo {
        &self.infos[block as usize]
    }

    /// A block's entry, to be changed. The kind changes by [`take`](Self::take) and [`give_back`](Self::give_back)
    /// alone.
    #[inline(always)]
    pub(crate) fn info_mut(&mut self, block: u32) -> &mut BlockInfo {
        &mut self.infos[block as usize]
    }

    /// Bytes of taken blocks, but for those without memory, and for the zero leaf, which is never written.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.counted().saturating_sub(self.beyond) as u64 * BLOCK_BYTES as u64
    }

    /// Bytes of blocks that the operating system holds memory for: taken, as above, or free and dirty.
    pub(crate) fn committed_bytes(&self) -> u64 {
        self.used_bytes() + self.dirty_free as u64 * BLOCK_BYTES as u64
    }

    /// Takes `count` consecutive blocks for leaves, with `reserve` from the reserve too. As for [`take`](Self::take).
    pub(crate) fn take_leaves(&mut self, count: u32, reserve: bool) -> Option<u32> {
        let kept = self.reserve;
        if reserve {
            self.reserve = 0;
        }
        let taken = self.take(count, BlockKind::Leaves, BlockKind::LeafTail);
        self.reserve = kept;
        let first = taken?;
        let infos = &mut self.infos;
        self.cage.share(first, count, |block| infos[block as usize].dirty = false);
        Some(first)
    }

    /// Takes `count` consecutive blocks. Their entries carry the kind (the first one's `first`, the others' `rest`) and
    /// whether they are dirty. `None` where the maximum is reached, no gap is long enough, or the system refuses
    /// memory.
    pub(crate) fn take(&mut self, count: u32, first: BlockKind, rest: BlockKind) -> Option<u32> {
        if count > self.available() {
            return None;
        }
        let start = self.take_uncounted(count, first, rest)?;
        self.keep_to_maximum();
        Some(start)
    }

    /// Whether more blocks with memory are taken than the maximum allows.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.counted() + self.reserve > self.maximum
    }

    /// As [`take`](Self::take), whatever the maximum is: most of the blocks have no memory, as the caller notes.
    pub(crate) fn take_uncounted(&mut self, count: u32, first: BlockKind, rest: BlockKind) -> Option<u32> {
        #[cfg(test)]
        if let Some(left) = &mut self.takes_left {
            *left = left.checked_sub(1)?;
        }
        let start = self.find_free(count).or_else(|| self.grow(count))?;
        let length = self.free.remove(&start).expect("a free run starts here");
        if length > count {
            self.free.insert(start + count, length - count);
        }
        for block in start..start + count {
            let info = &mut self.infos[block as usize];
            debug_assert_eq!(info.kind, BlockKind::Free);
            self.dirty_free -= info.dirty as u32;
            let kind = if block == start { first } else { rest };
            *info = BlockInfo { dirty: info.dirty, taken: self.sweeps, ..BlockInfo::new(kind) };
            self.clear_marks(block);
        }
        if self.has_cards {
            self.cage.clean_cards(start, count);
        }
        self.used += count;
        Some(start)
    }

    /// The start of the first free run of at least `count` blocks below the frontier.
    fn find_free(&self, count: u32) -> Option<u32> {
        self.free.iter().find(|&(_, &length)| length >= count).map(|(&start, _)| start)
    }

    /// Notes that compiled code marks cards in `count` taken blocks, where there are cards.
    pub(crate) fn note_markable(&self, start: u32, count: u32) {
        if self.has_cards {
            self.cage.note_markable(start, count);
        }
    }

    /// Returns `count` blocks from `start` to the pool. Nothing in them is live.
    pub(crate) fn give_back(&mut self, start: u32, count: u32) {
        self.set_dirty(start, count);
        self.give_back_as_they_are(start, count);
    }

    /// As [`give_back`](Self::give_back), of blocks whose entries say which of them are dirty.
    pub(crate) fn give_back_as_they_are(&mut self, start: u32, count: u32) {
        for block in start..start + count {
            let info = &mut self.infos[block as usize];
            debug_assert!(!matches!(info.kind, BlockKind::Free | BlockKind::Guard));
            *info = BlockInfo { dirty: info.dirty, ..BlockInfo::new(BlockKind::Free) };
            self.dirty_free += info.dirty as u32;
            self.clear_marks(block);
        }
        self.used -= count;
        self.insert_free(start, count);
    }

    /// Adds free blocks to the runs.
    fn insert_free(&mut self, start: u32, count: u32) {
        if count == 0 {
            return;
        }
        let (mut first, mut length) = (start, count);
        if let Some(next) = self.free.remove(&(start + count)) {
            length += next;
        }
        if let Some((&before, &before_length)) = self.free.range(..start).next_back()
            && before + before_length == start
        {
            first = before;
            length += before_length;
        }
        self.free.insert(first, length);
    }

    /// Withdraws taken blocks that can serve nobody any more: they stay taken as long as the heap lives.
    pub(crate) fn abandon(&mut self, start: u32, count: u32) {
        for block in start..start + count {
            self.infos[block as usize] = BlockInfo::new(BlockKind::Immortal);
            self.clear_marks(block);
        }
    }

    /// Zeroes the dirty ones of `count` blocks that have been taken and hold nothing yet.
    pub(crate) fn zero_blocks(&mut self, start: u32, count: u32) {
        for block in start..start + count {
            if self.infos[block as usize].dirty {
                // SAFETY: a taken block is committed, and nothing is allocated in it yet, by the contract.
                unsafe { self.cage.zero(block_start(block), BLOCK_BYTES as usize) };
                self.infos[block as usize].dirty = false;
            }
        }
    }

    /// Zeroes a run of free cells, or handles, unless its block is known to hold zeros there.
    pub(crate) fn zero_run(&mut self, run: BumpRun) {
        if self.info(block_of(run.cursor)).dirty {
            // SAFETY: what is there is free, and the block is taken.
            unsafe { self.cage.zero(run.cursor, (run.limit - run.cursor) as usize) };
        }
    }

    /// Notes that `count` taken blocks may hold old contents.
    pub(crate) fn set_dirty(&mut self, start: u32, count: u32) {
        self.infos[start as usize..(start + count) as usize].iter_mut().for_each(|info| info.dirty = true);
    }

    /// Has the system clean `count` taken blocks that hold nothing any more. Returns whether it did.
    pub(crate) fn clean_by_system(&mut self, start: u32, count: u32) -> bool {
        let cleaned = self.cage.decommit(block_start(start), count as usize * BLOCK_BYTES as usize);
        if cleaned {
            self.infos[start as usize..(start + count) as usize].iter_mut().for_each(|info| info.dirty = false);
        }
        cleaned
    }

    /// Whether `[offset, offset + bytes)` is accessible memory of the heap.
    #[inline]
    pub(crate) fn is_accessible(&self, offset: u32, bytes: u32) -> bool {
        offset >= NULL_GUARD_BYTES && offset as u64 + bytes as u64 <= self.accessible as u64 * BLOCK_BYTES as u64
    }

    /// As [`is_accessible`](Self::is_accessible), of `[start, end)`, which may lie outside of the cage.
    #[inline]
    pub(crate) fn is_accessible_to(&self, start: u64, end: u64) -> bool {
        start >= u64::from(NULL_GUARD_BYTES)
            && start <= end
            && end <= u64::from(self.accessible) * u64::from(BLOCK_BYTES)
    }

    /// Everything but the cage, to be compared with another pool's.
    #[cfg(test)]
    pub(crate) fn described(&self) -> String {
        let BlockPool { infos, marks, free, used, without_memory, dirty_free, .. } = self;
        format!("{used} used, {without_memory} without memory, {dirty_free} dirty, {free:?}, {infos:?}, {marks:?}")
    }

    /// Checks the pool against its side table; says what disagrees.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut free_by_runs = 0;
        let mut end_before = None;
        for (&start, &length) in &self.free {
            if length == 0 || end_before.is_some_and(|end| end >= start) || start + length > self.frontier() {
                return Err(format!(
                    "the free run of {length} blocks at block {start} is empty, uncoalesced or outside"
                ));
            }
            if let Some(block) = (start..start + length).find(|&block| self.info(block).kind != BlockKind::Free) {
                return Err(format!("block {block} is on the free list, yet used as {:?}", self.info(block).kind));
            }
            free_by_runs += length;
            end_before = Some(start + length);
        }
        let count = |wanted: fn(&&BlockInfo) -> bool| self.infos.iter().filter(wanted).count() as u32;
        let free = count(|info| info.kind == BlockKind::Free);
        let dirty = count(|info| info.kind == BlockKind::Free && info.dirty);
        let withheld = self.withheld.as_ref().map_or(0, |page| page.len() as u32);
        let used = self.frontier() - FIRST_BLOCK - free - withheld;
        if free != free_by_runs || dirty != self.dirty_free || used != self.used {
            return Err(format!(
                "the pool counts {} used, {free_by_runs} free, {} dirty blocks; the side table has {free} free, {dirty} dirty of {}",
                self.used,
                self.dirty_free,
                self.frontier() - FIRST_BLOCK,
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_coalesce_and_are_taken_first_fit() {
        let mut pool = BlockPool::new(10 * BLOCK_BYTES as u64, Extent::WHOLE).unwrap();
        let take = |pool: &mut BlockPool, count| pool.take(count, BlockKind::LargeHead, BlockKind::LargeTail);
        let a = take(&mut pool, 2).unwrap();
        let b = take(&mut pool, 3).unwrap();
        let c = take(&mut pool, 2).unwrap();
        assert_eq!((a, b, c), (FIRST_BLOCK, FIRST_BLOCK + 2, FIRST_BLOCK + 5));
        assert_eq!(take(&mut pool, 4), None, "the maximum is 10 blocks");
        pool.give_back(a, 2);
        pool.give_back(b, 3);
        pool.check().unwrap();
        assert_eq!(take(&mut pool, 5), Some(a), "the two runs are one");
        pool.give_back(c, 2);
        pool.give_back(a, 5);
        pool.check().unwrap();
        assert_eq!(take(&mut pool, 10), Some(a), "the run at the frontier grows");
        pool.check().unwrap();
    }
}
