//! Reading and writing the 16-byte cells that trampolines pass.

use crate::vm::ValueCell;

/// Access to a cell by type. Smaller values lie at the start.
pub(crate) trait Cell {
    /// The low 32 bits.
    fn u32(&self) -> u32;
    /// All bits.
    fn u128(&self) -> u128;
    /// Writes bits, zero-extended.
    fn set(&mut self, bits: u128);
}

impl Cell for ValueCell {
    fn u32(&self) -> u32 {
        self.u128() as u32
    }

    fn u128(&self) -> u128 {
        u128::from_le_bytes(self.0)
    }

    fn set(&mut self, bits: u128) {
        self.0 = bits.to_le_bytes();
    }
}
