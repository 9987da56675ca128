//! Empties the blocks that cannot be reached.

use crate::artifact::TrapCode;
use crate::mir::{BlockData, Cfg, Function, Terminator};

/// Removes the contents of unreachable blocks, so that nothing there counts as a use or a predecessor. They end in a
/// trap.
pub(super) fn unreachable_blocks(function: &mut Function, cfg: &Cfg) {
    for (number, block) in function.blocks.iter_mut().enumerate() {
        if cfg.position[number] == u32::MAX {
            *block = BlockData { terminator: Some(Terminator::Trap(TrapCode::Unreachable)), ..BlockData::default() };
        }
    }
}
