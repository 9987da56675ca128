//! Mapped arrays: large objects whose memory is counted, and given back, by pages (axis `arrays`, value `mapped`).
//!
//! An array of at least `mapped-from` bytes lies in consecutive blocks of its own, like every large object, and never
//! moves: compiled code sees no difference. Its blocks are address space first of all. A page of them has memory once
//! it is touched: the heap writes to no page that the system would hand out as zeros. A full collection looks for pages
//! of zeros in the live arrays, among those that have memory, and gives them back.
//!
//! An array counts whole in the cycle that it is allocated in; each collection that it lives through as a young one,
//! but for arrays of more than 32 MiB, and every full collection, then counts the pages that have memory (`mincore`,
//! on Linux; elsewhere arrays go on counting whole). What the mutator touches between two such counts is not noticed:
//! by so much, at most the untouched pages of the arrays that were counted, the heap can exceed its maximum until the
//! next count. When the next full collection is due is another matter: for that an array counts whole until a full
//! collection has counted its pages, so that address space is not filled with dead arrays of little memory.
//!
//! Spines with reserved space (see [`growth`](crate::arrays), `zrays`) lie here too. What of that is in use is known,
//! so that they count exactly and need no look at their pages, but for what the blocks' last user has left: that counts
//! until a full collection gives it back.
//!
//! When an array dies, blocks with memory behind less than half of their pages go back to the system at once, with one
//! call for each run of some. The others stay with the pool, dirty, and whoever takes them zeroes them by stores.
//! Measured (a virtual machine on an AMD EPYC, microseconds for 1 MiB, for 64 MiB): zeroing by stores 7, 710; giving
//! back 58, 4,700; touching it again 300, 23,000. So memory that is there is worth zeroing at any size, whether the
//! next array needs it or not: where it does not, the next full collection finds the zeros.
//!
//! Limits: a page that is only read takes a place in the page tables and counts as memory, so that tracing an array of
//! references touches all of it; full collections undo that. With transparent huge pages set to `always` the system
//! hands out 2 MiB at the first touch. Pages that an array shows from the file that arrays share, or has shown, are not
//! looked at for zeros. With pages larger than a block, arrays count whole and nothing is given back.

mod copy;
mod shared_pages;
mod sweep;

use super::{Contents, large};
use crate::blocks::{BLOCK_BYTES, BlockKind, BlockPool, block_of, block_start};
use crate::layout::{POINTER_BYTES, SpineLayout};
use crate::observer::HeapStats;
use crate::os::mappings::Mappings;
use crate::os::page_bytes;
use crate::os::sharing::PageTables;
use crate::size_classes::MAX_SMALL_BYTES;
use shared_pages::{Extent, SharedPages};
use std::collections::BTreeMap;
pub(crate) use sweep::MappedSweep;

/// Which objects of a heap are mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mapped {
    /// None.
    Nothing,
    /// Arrays of at least so many bytes; copies share their pages where `sharing` says so.
    Arrays { from: u32, sharing: bool },
    /// Large spines, with reserved space into which their elements grow.
    Spines(SpineLayout),
}

/// The mapped arrays of one heap.
#[derive(Debug)]
pub(crate) struct MappedSpace {
    /// Bytes from which on an object is mapped; `None` where none is.
    from: Option<u32>,
    /// By first block.
    arrays: BTreeMap<u32, MappedArray>,
    /// Pages that a block consists of; `None` where pages cannot be looked at one by one.
    pages_per_block: Option<u32>,
    page_bytes: u32,
    /// `None` where pages are not shared.
    tables: Option<PageTables>,
    shared: SharedPages,
    /// Extents of all arrays together, and what of the process's mappings they take.
    extents: usize,
    mappings: Mappings,
    /// How often an array has come to show something else.
    changes: u64,
    /// Pages of all arrays that had no memory at the last count, less those touched since where that is known.
    untouched: u64,
    /// How spines with reserved space are divided, where there are such.
    growing: Option<SpineLayout>,
    /// Pages that have been copied by sharing them.
    shared_pages: u64,
    /// Pages of zeros that have been given back.
    zero_pages: u64,
    /// For each page of the array being looked at, whether it has memory.
    residency: Vec<bool>,
}

/// One array.
#[derive(Debug)]
struct MappedArray {
    blocks: u32,
    /// What of a spine with reserved space is not in use. `None` for arrays in one piece.
    reserved: Option<ReservedSpace>,
    /// Pages that had memory of their own at the last count; all of them where there was none.
    pages: u32,
    /// Full collections that it has lived through.
    collections: u32,
    /// The pages that are mapped from the file, by their place.
    extents: Vec<Extent>,
    /// One past the last page that has been looked at because it was copied to.
    looked_at: u32,
    /// How often pages have been copied from it since pages were moved to the file, and how often they must be before
    /// that is done.
    copies: u32,
    patience: u32,
}

/// The reserved space of a spine that is not in use. Offsets in bytes from the object's start.
#[derive(Clone, Copy, Debug)]
struct ReservedSpace {
    /// Behind the elements in one piece.
    start: u32,
    /// The first pointer.
    end: u32,
    /// Leaves that have been allocated elsewhere, those that have been given up since included.
    leaves: u32,
}

impl MappedSpace {
    /// An empty space.
    pub(crate) fn new(mapped: Mapped) -> MappedSpace {
        let pages = BLOCK_BYTES / page_bytes();
        let (from, shares, growing) = match mapped {
            Mapped::Nothing => (None, false, None),
            Mapped::Arrays { from, sharing } => (Some(from), sharing && pages > 0, None),
            Mapped::Spines(layout) => (Some(MAX_SMALL_BYTES + 1), false, Some(layout)),
        };
        MappedSpace {
            from,
            arrays: BTreeMap::new(),
            pages_per_block: (pages > 0).then_some(pages),
            page_bytes: page_bytes(),
            tables: if shares { PageTables::new(page_bytes()).ok() } else { None },
            shared: SharedPages::default(),
            extents: 0,
            mappings: Mappings::default(),
            changes: 0,
            untouched: 0,
            growing,
            shared_pages: 0,
            zero_pages: 0,
            residency: Vec::new(),
        }
    }

    /// Whether an object of `bytes` is to be mapped.
    pub(crate) fn takes(&self, bytes: u32) -> bool {
        self.from.is_some_and(|from| bytes >= from)
    }

    /// Takes blocks for an object of `bytes`; `None` where the pool has no such run, or no memory.
    pub(crate) fn allocate(&mut self, pool: &mut BlockPool, bytes: u32, contents: Contents) -> Option<u32> {
        let blocks = large::blocks_for(bytes);
        let head = large::take(pool, blocks, BlockKind::MappedHead, BlockKind::MappedTail, contents)?;
        let pages = self.pages_of(blocks);
        let mut array = MappedArray {
            blocks,
            reserved: None,
            pages,
            collections: 0,
            extents: Vec::new(),
            looked_at: 0,
            copies: 0,
            patience: 1,
        };
        if contents == Contents::Reserved {
            // What the blocks' last user has left counts as touched.
            let clean = (head..head + blocks).filter(|&block| !pool.info(block).dirty).count() as u32;
            let at_once = self.memory_of_reserved(bytes).div_ceil(self.page_size() as u32);
            array.pages -= self.pages_of(clean).saturating_sub(at_once);
            self.untouched += u64::from(pages - array.pages);
            self.tell(pool);
            if pool.is_overdrawn() {
                self.untouched -= u64::from(pages - array.pages);
                pool.give_back_as_they_are(head, blocks);
                self.tell(pool);
                return None;
            }
            pool.keep_to_maximum();
        }
        self.arrays.insert(head, array);
        Some(block_start(head))
    }

    /// Bytes of a spine with reserved space that are touched when it is allocated: the first N, the pointers, the pages
    /// around them.
    pub(crate) fn memory_of_reserved(&self, bytes: u32) -> u32 {
        let Some(layout) = self.growing else { return bytes };
        let pointers = (bytes >> layout.leaf_log2) * POINTER_BYTES;
        (layout.first_n + pointers + 2 * self.page_bytes).min(bytes)
    }

    /// Notes that the new object at `object` is a spine whose space between two offsets is not in use.
    pub(crate) fn set_reserved(&mut self, object: u32, start: u32, end: u32) {
        self.array_mut(block_of(object)).reserved = Some(ReservedSpace { start, end, leaves: 0 });
    }

    /// Has the elements in one piece of a spine with reserved space reach to an offset. Returns false, with nothing
    /// done, where there is no memory for that.
    pub(crate) fn grow(&mut self, pool: &mut BlockPool, object: u32, start: u32) -> bool {
        let size = self.page_bytes;
        let before = self.reserved_mut(object).start;
        let is_clean = |&page: &u32| !pool.info(block_of(object + page * size)).dirty;
        let pages = match self.pages_per_block {
            Some(_) => (before.div_ceil(size)..start.div_ceil(size)).filter(is_clean).count() as u32,
            None => 0,
        };
        if pages > self.pages_of(pool.available()) {
            return false;
        }
        self.reserved_mut(object).start = start;
        let most = self.pages_of(self.arrays[&block_of(object)].blocks);
        let array = self.array_mut(block_of(object));
        let touched = pages.min(most - array.pages);
        array.pages += touched;
        self.untouched -= u64::from(touched);
        self.tell(pool);
        pool.keep_to_maximum();
        true
    }

    /// Counts a leaf that a spine with reserved space gets elsewhere; returns how many there have been.
    pub(crate) fn count_leaf(&mut self, object: u32) -> u32 {
        let reserved = self.reserved_mut(object);
        reserved.leaves += 1;
        reserved.leaves
    }

    /// Sets the count of a spine's leaves elsewhere.
    pub(crate) fn set_leaves(&mut self, object: u32, leaves: u32) {
        self.reserved_mut(object).leaves = leaves;
    }

    fn array_mut(&mut self, head: u32) -> &mut MappedArray {
        self.arrays.get_mut(&head).expect("a mapped array starts at this block")
    }

    fn reserved_mut(&mut self, object: u32) -> &mut ReservedSpace {
        self.array_mut(block_of(object)).reserved.as_mut().expect("the spine has reserved space")
    }

    /// Tells the pool for how many of its blocks there is no memory.
    pub(crate) fn tell(&self, pool: &mut BlockPool) {
        pool.without_memory = (self.untouched.saturating_sub(self.shared.held()) / self.pages_of(1) as u64) as u32;
    }

    /// Bytes of what is counted as a page.
    fn page_size(&self) -> u64 {
        (BLOCK_BYTES / self.pages_of(1)) as u64
    }

    /// Pages of so many blocks; blocks themselves where pages are larger.
    fn pages_of(&self, blocks: u32) -> u32 {
        blocks * self.pages_per_block.unwrap_or(1)
    }

    /// Adds what this space has to say to the running totals.
    pub(crate) fn add_to(&self, stats: &mut HeapStats) {
        for array in self.arrays.values() {
            stats.mapped_bytes += array.blocks as u64 * BLOCK_BYTES as u64;
            stats.mapped_memory_bytes += array.pages as u64 * self.page_size();
        }
        stats.mapped_memory_bytes += self.shared.held() * self.page_size();
        stats.mapped_zeros_bytes = self.zero_pages * self.page_size();
        stats.mapped_shared_bytes = self.shared_pages * self.page_size();
    }

    /// Checks the space against the pool's side table; says what disagrees.
    pub(crate) fn check(&self, pool: &BlockPool) -> Result<(), String> {
        for (&head, array) in &self.arrays {
            let info = pool.info(head);
            if info.kind != BlockKind::MappedHead || info.extent != array.blocks {
                return Err(format!("the mapped array of {} blocks at block {head} is {info:?}", array.blocks));
            }
            let pages = self.pages_of(array.blocks);
            let in_order = array.extents.windows(2).all(|two| two[0].end() <= two[1].first);
            if array.pages > pages || !in_order || array.extents.last().is_some_and(|last| last.end() > pages) {
                return Err(format!("the mapped array of {pages} pages at block {head} is {array:?}"));
            }
        }
        let untouched: u64 = self.arrays.values().map(|array| (self.pages_of(array.blocks) - array.pages) as u64).sum();
        if untouched != self.untouched {
            return Err(format!("{untouched} pages of mapped arrays have no memory, {} are counted", self.untouched));
        }
        let extents = self.arrays.values().flat_map(|array| &array.extents);
        if extents.clone().count() != self.extents {
            return Err(format!("{} extents are counted", self.extents));
        }
        self.shared.check(extents)?;
        let heads = (0..pool.frontier()).filter(|&block| pool.info(block).kind == BlockKind::MappedHead).count();
        if heads != self.arrays.len() {
            return Err(format!("{} mapped arrays are known, but the side table has {heads}", self.arrays.len()));
        }
        Ok(())
    }
}
