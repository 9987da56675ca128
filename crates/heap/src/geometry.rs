//! How the cage is divided: blocks of 32 KiB, named by their number. And where its side tables lie, in the guard below
//! it: each at a constant distance from the cage's base, as compiled code knows some of them.

/// What a 32-bit offset can reach.
pub(crate) const CAGE_BYTES: u64 = 1 << 32;
/// Bytes of a block.
pub(crate) const BLOCK_BYTES: u32 = 32 << 10;
/// Blocks of a whole cage.
pub(crate) const CAGE_BLOCKS: u32 = (CAGE_BYTES / BLOCK_BYTES as u64) as u32;

/// Distance in bytes from the first card up to the cage's base.
pub(crate) const CARD_TABLE_BELOW: u32 = 16 << 20;
/// Distance in bytes from the first block's age up to the cage's base: below the cards.
pub(crate) const AGE_TABLE_BELOW: u32 = CARD_TABLE_BELOW + CAGE_BLOCKS;
/// Distance in bytes from the table of blocks that cards have up to the cage's base: below the ages.
pub(crate) const BLOCK_TABLE_BELOW: u32 = AGE_TABLE_BELOW + CAGE_BLOCKS;

/// Bytes of the cage that a word of mark bits stands for.
pub(crate) const BYTES_PER_MARK_WORD: u32 = 512;

/// Bytes of the mark bits of a cage.
pub(crate) const fn plane_bytes(cage_bytes: u64) -> usize {
    (cage_bytes / BYTES_PER_MARK_WORD as u64) as usize * size_of::<u64>()
}

/// Distance in bytes from the first byte of a plane of mark bits, 0 or 1, up to the cage's base: below the table of
/// blocks.
pub(crate) const fn marks_below(plane: usize, cage_bytes: u64) -> usize {
    BLOCK_TABLE_BELOW as usize + (plane + 1) * plane_bytes(cage_bytes)
}

/// Offset of a block's first byte.
#[inline(always)]
pub(crate) const fn block_start(block: u32) -> u32 {
    block * BLOCK_BYTES
}

/// The block that an offset lies in.
#[inline(always)]
pub(crate) const fn block_of(offset: u32) -> u32 {
    offset / BLOCK_BYTES
}
