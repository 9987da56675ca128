//! The arraylet space: leaves of one size, which never move (Z-Rays, sections 4.2 and 5.1).
//!
//! A leaf has no header. It lives as long as a spine leads to it: its liveness bit is the mark bit of its first byte,
//! in the heap's side table. There is no free list. Allocation sweeps through the blocks that had unmarked leaves after
//! the last collection, and takes what it finds unmarked; each leaf is looked at once between two collections, so that
//! one that was taken for a young spine needs no bit until a collection finds the spine alive. The leaves of an old
//! spine are marked when they are allocated, as no nursery collection comes by that spine.
//!
//! After a collection, blocks without a marked leaf go back to the pool whole. A nursery collection frees leaves of
//! young spines alone, and so looks at the blocks alone that leaves have been taken from since the one before.
//!
//! A block holds leaves of references or leaves of numbers, never both: dirty cards of the former are scanned. A leaf
//! larger than a block takes several, consecutive ones.
//!
//! Limits: leaves smaller than a page may hold pages that are mostly free; they are not compacted.

use super::{Contents, Sweep};
use crate::blocks::{BLOCK_BYTES, BlockKind, BlockPool, block_of, block_start};
use crate::budget::{Budget, Done};

/// What a leaf holds. Also the `class` of its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LeafKind {
    /// Numbers, which are not traced.
    Numbers = 0,
    /// References.
    References = 1,
}

/// The leaves of one heap.
#[derive(Debug)]
pub(crate) struct LeafSpace {
    leaf_log2: u8,
    parts: [Part; 2],
    /// Allocated since the last collection, in leaves.
    allocated: u64,
    /// Of these, leaves of old spines.
    adopted: u64,
    /// Groups taken from the pool.
    groups: u64,
}

/// The blocks of one kind. A *group* is a block of leaves, or the blocks of one large leaf, named by its first block.
#[derive(Debug, Default)]
struct Part {
    kind: u8,
    /// Groups with unmarked leaves, to sweep next; the last one first.
    queue: Vec<u32>,
    /// The unmarked leaves in them.
    queued_free: u64,
    /// The group being swept, and the number of the next leaf in it.
    current: Option<(u32, u32)>,
    /// The unmarked leaves left in it.
    current_free: u64,
    /// Groups swept since the last collection, the current one included.
    opened: Vec<u32>,
}

impl LeafSpace {
    /// An empty space of leaves of `1 << leaf_log2` bytes.
    pub(crate) fn new(leaf_log2: u8) -> LeafSpace {
        let part = |kind| Part { kind, ..Part::default() };
        LeafSpace { leaf_log2, parts: [part(0), part(1)], allocated: 0, adopted: 0, groups: 0 }
    }

    /// Bytes of a leaf.
    pub(crate) fn leaf_bytes(&self) -> u32 {
        1 << self.leaf_log2
    }

    /// Blocks of a group.
    pub(crate) fn group_blocks(&self) -> u32 {
        (self.leaf_bytes() / BLOCK_BYTES).max(1)
    }

    /// Leaves of a group.
    pub(crate) fn group_leaves(&self) -> u32 {
        (BLOCK_BYTES / self.leaf_bytes()).max(1)
    }

    /// Bytes allocated since the last collection.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.allocated << self.leaf_log2
    }

    /// Counts leaves that have been allocated elsewhere.
    pub(crate) fn count(&mut self, leaves: u32) {
        self.allocated += u64::from(leaves);
    }

    /// Counts leaves, allocated since the last collection, that have turned out to be an old spine's.
    pub(crate) fn adopt(&mut self, leaves: u32) {
        self.adopted += u64::from(leaves);
    }

    /// Bytes allocated since the last collection for young spines.
    pub(crate) fn young_bytes(&self) -> u64 {
        self.allocated.saturating_sub(self.adopted) << self.leaf_log2
    }

    /// Bytes of the leaves that are marked or have been allocated since the last collection.
    pub(crate) fn used_bytes(&self) -> u64 {
        let free: u64 = self.parts.iter().map(|part| part.queued_free + part.current_free).sum();
        (self.groups * u64::from(self.group_leaves()) - free) << self.leaf_log2
    }

    /// How many leaves of a kind can be had without a collection. With large leaves there may be fewer, as each needs
    /// consecutive blocks.
    pub(crate) fn available(&self, kind: LeafKind, pool: &BlockPool) -> u64 {
        let part = &self.parts[kind as usize];
        let groups = u64::from(pool.available() / self.group_blocks());
        part.queued_free + part.current_free + groups * u64::from(self.group_leaves())
    }

    /// Takes a leaf; `None` where there is none. With `reserve`, the pool's reserve may be drawn on.
    pub(crate) fn allocate(
        &mut self,
        pool: &mut BlockPool,
        kind: LeafKind,
        contents: Contents,
        reserve: bool,
    ) -> Option<u32> {
        let leaf = match self.next_unmarked(pool, kind) {
            Some(leaf) => leaf,
            None => {
                let blocks = self.group_blocks();
                let head = pool.take_leaves(blocks, reserve)?;
                self.groups += 1;
                pool.info_mut(head).class = kind as u8;
                pool.info_mut(head).extent = blocks;
                for tail in head + 1..head + blocks {
                    pool.info_mut(tail).extent = head;
                }
                if kind == LeafKind::References {
                    pool.note_markable(head, blocks);
                }
                self.parts[kind as usize].open(head, u64::from(self.group_leaves()));
                self.next_unmarked(pool, kind).expect("a fresh group has leaves")
            }
        };
        self.allocated += 1;
        pool.mark_born(leaf);
        if contents == Contents::Zeroed {
            self.zero(pool, leaf);
        }
        Some(leaf)
    }

    /// The next unmarked leaf.
    fn next_unmarked(&mut self, pool: &BlockPool, kind: LeafKind) -> Option<u32> {
        let (leaf_log2, leaves) = (self.leaf_log2, self.group_leaves());
        let part = &mut self.parts[kind as usize];
        loop {
            while let Some((head, number)) = part.current {
                part.current = (number + 1 < leaves).then_some((head, number + 1));
                let leaf = block_start(head) + (number << leaf_log2);
                if !pool.marks.get(leaf) {
                    part.current_free -= 1;
                    return Some(leaf);
                }
            }
            let head = part.queue.pop()?;
            let free = u64::from(leaves - pool.marks.count(head));
            part.queued_free -= free;
            part.open(head, free);
        }
    }

    /// Zeroes a leaf that nobody uses, unless it is known to be zero.
    fn zero(&self, pool: &mut BlockPool, leaf: u32) {
        let block = block_of(leaf);
        if self.leaf_bytes() >= BLOCK_BYTES {
            pool.zero_blocks(block, self.group_blocks());
        } else if pool.info(block).dirty {
            // SAFETY: the leaf lies in a taken block, and nobody uses it.
            unsafe { pool.cage.zero(leaf, self.leaf_bytes() as usize) };
        }
    }

    /// Ends a nursery collection.
    pub(crate) fn nursery_collected(&mut self, pool: &mut BlockPool) {
        for part in 0..self.parts.len() {
            let opened = self.parts[part].close();
            for &head in opened.iter().rev() {
                self.classify(pool, head);
            }
            self.parts[part].recycle(opened);
        }
        (self.allocated, self.adopted) = (0, 0);
    }

    /// Begins to sweep after a full collection.
    pub(crate) fn start_sweep(&mut self, pool: &BlockPool) -> Sweep {
        for part in &mut self.parts {
            part.close();
            part.queue.clear();
            part.queued_free = 0;
        }
        (self.allocated, self.adopted) = (0, 0);
        Sweep { block: pool.frontier(), ..Sweep::default() }
    }

    /// Goes on with it: sorts the blocks. Leaves are no objects: the bytes of survivors alone are counted.
    pub(crate) fn sweep(&mut self, sweep: &mut Sweep, pool: &mut BlockPool, budget: &mut Budget) -> Done {
        // Downwards, so that the lowest block is swept first.
        while sweep.block > 0 {
            if budget.is_exhausted() {
                return Done::No;
            }
            sweep.block -= 1;
            budget.spend(1);
            if pool.info(sweep.block).kind == BlockKind::Leaves && !pool.is_fresh(sweep.block) {
                sweep.survivors.bytes += u64::from(self.classify(pool, sweep.block)) << self.leaf_log2;
                budget.spend(u64::from(self.group_blocks()));
            }
        }
        Done::Yes
    }

    /// Gives an empty group back, queues one with unmarked leaves; returns how many are marked.
    fn classify(&mut self, pool: &mut BlockPool, head: u32) -> u32 {
        let (blocks, leaves) = (self.group_blocks(), self.group_leaves());
        let marked = pool.marks.count(head);
        if marked == 0 {
            pool.give_back(head, blocks);
            self.groups -= 1;
            return 0;
        }
        (head..head + blocks).for_each(|block| pool.info_mut(block).dirty = true);
        if marked < leaves {
            let part = &mut self.parts[pool.info(head).class as usize];
            part.queue.push(head);
            part.queued_free += u64::from(leaves - marked);
        }
        marked
    }

    /// The kind of a leaf, and its start, of any offset inside of it.
    pub(crate) fn leaf_at(&self, pool: &BlockPool, offset: u32) -> Option<(u32, LeafKind)> {
        let block = block_of(offset);
        let info = (block < pool.frontier()).then(|| pool.info(block))?;
        let head = match info.kind {
            BlockKind::Leaves => block,
            BlockKind::LeafTail => info.extent,
            _ => return None,
        };
        let kind = if pool.info(head).class == 0 { LeafKind::Numbers } else { LeafKind::References };
        let start = block_start(head);
        Some((start + ((offset - start) >> self.leaf_log2 << self.leaf_log2), kind))
    }

    /// Whether an unmarked leaf may have been allocated since the last collection.
    pub(crate) fn is_taken(&self, leaf: u32) -> bool {
        let block = block_of(leaf);
        let number = (leaf - block_start(block)) >> self.leaf_log2;
        self.parts.iter().any(|part| {
            part.opened.contains(&block) && part.current.is_none_or(|(current, next)| current != block || number < next)
        })
    }

    /// Checks the queues against the blocks; says what disagrees.
    pub(crate) fn check(&self, pool: &BlockPool) -> Result<(), String> {
        for part in &self.parts {
            let mut free = 0;
            for &head in part.queue.iter().chain(&part.opened) {
                let info = pool.info(head);
                if info.kind != BlockKind::Leaves || info.class != part.kind {
                    return Err(format!("block {head}, queued for leaves of kind {}, is a {:?}", part.kind, info.kind));
                }
            }
            for &head in &part.queue {
                free += u64::from(self.group_leaves() - pool.marks.count(head));
                if part.opened.contains(&head) {
                    return Err(format!("block {head} of leaves is both queued and swept"));
                }
            }
            if free != part.queued_free {
                return Err(format!("{free} leaves are queued, not {}", part.queued_free));
            }
        }
        Ok(())
    }
}

impl Part {
    /// Goes on with a group that has `free` unmarked leaves.
    fn open(&mut self, head: u32, free: u64) {
        self.current = Some((head, 0));
        self.current_free = free;
        self.opened.push(head);
    }

    /// Ends sweeping; returns the groups swept.
    fn close(&mut self) -> Vec<u32> {
        self.current = None;
        self.current_free = 0;
        std::mem::take(&mut self.opened)
    }

    /// Takes the memory of a list back.
    fn recycle(&mut self, mut opened: Vec<u32>) {
        opened.clear();
        self.opened = opened;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::finish;
    use crate::cage::Extent;

    fn take(space: &mut LeafSpace, pool: &mut BlockPool) -> Option<u32> {
        space.allocate(pool, LeafKind::Numbers, Contents::Zeroed, false)
    }

    #[test]
    fn unmarked_leaves_are_found_again_and_empty_blocks_given_back() {
        let mut pool = BlockPool::new(3 * u64::from(BLOCK_BYTES), Extent::WHOLE).unwrap();
        let mut space = LeafSpace::new(10);
        let leaves: Vec<u32> = (0..96).map(|_| take(&mut space, &mut pool).unwrap()).collect();
        assert_eq!(take(&mut space, &mut pool), None, "three blocks of 32 leaves");
        assert_eq!(space.available(LeafKind::Numbers, &pool), 0);
        // SAFETY: the leaf is allocated.
        unsafe { pool.cage.write(leaves[3] + 8, 77) };
        for &live in leaves[..64].iter().step_by(2).chain(&leaves[1..2]) {
            pool.marks.set(live);
        }
        space.nursery_collected(&mut pool);
        space.check(&pool).unwrap();
        pool.check().unwrap();
        assert_eq!(pool.available(), 1, "the third block was empty");
        assert_eq!(space.available(LeafKind::Numbers, &pool), 31 + 32);
        assert_eq!(take(&mut space, &mut pool), Some(leaves[3]));
        assert!(space.is_taken(leaves[3]) && !space.is_taken(leaves[5]));
        // SAFETY: the leaf is allocated.
        assert_eq!(unsafe { pool.cage.read(leaves[3] + 8) }, 0, "a leaf is zero when it is taken again");
        finish(|budget| pool.marks.clear(&mut 0, budget));
        pool.marks.set(leaves[40]);
        pool.start_sweep();
        let mut sweep = space.start_sweep(&pool);
        finish(|budget| space.sweep(&mut sweep, &mut pool, budget));
        assert_eq!(sweep.survivors.bytes, 1024);
        assert_eq!(space.available(LeafKind::Numbers, &pool), 31 + 64);
        space.check(&pool).unwrap();
    }

    #[test]
    fn large_leaves_take_several_blocks() {
        let mut pool = BlockPool::new(8 * u64::from(BLOCK_BYTES), Extent::WHOLE).unwrap();
        let mut space = LeafSpace::new(17);
        let (first, second) = (take(&mut space, &mut pool).unwrap(), take(&mut space, &mut pool).unwrap());
        assert_eq!(second - first, 1 << 17);
        assert_eq!(take(&mut space, &mut pool), None);
        assert_eq!(space.leaf_at(&pool, second + 99_999), Some((second, LeafKind::Numbers)));
        pool.marks.set(second);
        space.nursery_collected(&mut pool);
        assert_eq!(pool.available(), 4);
        assert_eq!(take(&mut space, &mut pool), Some(first));
        pool.check().unwrap();
    }
}
