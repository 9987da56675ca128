//! Immortal records: bump allocation in blocks that live as long as the heap. Not traced.

use crate::blocks::{BLOCK_BYTES, BlockKind, BlockPool, block_start};

/// The open block run.
#[derive(Debug, Default)]
pub(crate) struct ImmortalSpace {
    cursor: u32,
    limit: u32,
    /// Bytes of records handed out.
    pub(crate) bytes: u64,
}

impl ImmortalSpace {
    /// A zeroed record of `bytes` at an offset that is a multiple of 8; `None` where the pool has no memory.
    pub(crate) fn allocate(&mut self, pool: &mut BlockPool, bytes: u32) -> Option<u32> {
        let bytes = bytes.max(1).checked_next_multiple_of(8)?;
        if bytes > self.limit - self.cursor {
            let count = bytes.div_ceil(BLOCK_BYTES);
            let start = pool.take(count, BlockKind::Immortal, BlockKind::Immortal)?;
            pool.zero_blocks(start, count);
            let (cursor, limit) = (block_start(start), block_start(start + count));
            if cursor == self.limit {
                self.limit = limit;
            } else if limit - cursor - bytes > self.limit - self.cursor {
                (self.cursor, self.limit) = (cursor, limit);
            } else {
                // The open run has more left than the new one would have: keep it.
                self.bytes += bytes as u64;
                return Some(cursor);
            }
        }
        let record = self.cursor;
        self.cursor += bytes;
        self.bytes += bytes as u64;
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cage::Extent;

    #[test]
    fn records_are_aligned_zero_and_apart() {
        let mut pool = BlockPool::new(4 << 20, Extent::WHOLE).unwrap();
        // Blocks with old contents.
        let old = pool.take(12, BlockKind::LargeHead, BlockKind::LargeTail).unwrap();
        // SAFETY: the blocks are taken.
        unsafe { std::ptr::write_bytes(pool.cage.address(block_start(old)), 0xee, 12 * BLOCK_BYTES as usize) };
        pool.give_back(old, 12);
        let mut space = ImmortalSpace::default();
        let mut end = 0;
        for bytes in [1, 40, 32 << 10, 100_000, 8, 7] {
            let record = space.allocate(&mut pool, bytes).unwrap();
            assert_eq!(record % 8, 0);
            assert!(record >= end || bytes < 100, "records of different runs");
            // SAFETY: the record is ours.
            assert!((0..bytes / 4).all(|word| unsafe { pool.cage.read(record + word * 4) } == 0));
            // SAFETY: the record is ours.
            unsafe { std::ptr::write_bytes(pool.cage.address(record), 0xff, bytes as usize) };
            end = end.max(record + bytes);
        }
        assert_eq!(space.allocate(&mut pool, 8 << 20), None);
        assert_eq!(space.allocate(&mut pool, u32::MAX), None);
        assert!(space.allocate(&mut pool, 64).is_some());
    }
}
