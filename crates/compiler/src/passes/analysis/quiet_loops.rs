//! Innermost loops that call nothing but in cold paths: what lies in registers there stays there.

use super::roots::{Safepoints, Temperature};
use crate::mir::{Block, Cfg, Dominators, Function, Inst, Loops, Terminator};

/// A loop without a loop within, and without a safepoint that each iteration reaches.
pub(super) struct QuietLoop {
    pub(super) header: Block,
    /// All its blocks, the header among them, in reverse post-order.
    pub(super) blocks: Vec<Block>,
}

/// The quiet loops of a function.
pub(super) fn quiet_loops(
    mir: &Function,
    cfg: &Cfg,
    dominators: &Dominators,
    safepoints: &Safepoints,
) -> Vec<QuietLoop> {
    let loops = Loops::new(cfg, dominators);
    let calls = |&block: &Block| {
        let data = &mir.blocks[block.index()];
        let is_hot = |inst: &Inst| safepoints.get(inst) == Some(&Temperature::Hot);
        matches!(data.terminator, Some(Terminator::TryCall { .. } | Terminator::Throw { .. }))
            || data.insts.iter().any(is_hot)
    };
    let innermost = loops.innermost_loops(cfg).into_iter().filter(|(_, blocks)| !blocks.iter().any(calls));
    innermost.map(|(number, blocks)| QuietLoop { header: loops.loops[number].header, blocks }).collect()
}
