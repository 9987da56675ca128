//! How the cage is divided: blocks of 32 KiB, named by their number.

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: u32 = 32 << 10;

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
