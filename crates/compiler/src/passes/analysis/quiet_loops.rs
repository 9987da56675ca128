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
    let mut is_innermost = vec![true; loops.loops.len()];
    let parents = loops.loops.iter().filter_map(|data| data.parent);
    parents.for_each(|parent| is_innermost[parent] = false);
    let mut blocks: Vec<Vec<Block>> = vec![Vec::new(); loops.loops.len()];
    for &block in &cfg.order {
        if let Some(number) = loops.innermost[block.index()] {
            blocks[number].push(block);
        }
    }
    let calls = |&block: &Block| {
        let data = &mir.blocks[block.index()];
        let is_hot = |inst: &Inst| safepoints.get(inst) == Some(&Temperature::Hot);
        matches!(data.terminator, Some(Terminator::TryCall { .. } | Terminator::Throw { .. }))
            || data.insts.iter().any(is_hot)
    };
    let found = loops.loops.iter().zip(blocks).zip(is_innermost);
    let found = found.filter(|((_, blocks), is_innermost)| *is_innermost && !blocks.iter().any(calls));
    found.map(|((data, blocks), _)| QuietLoop { header: data.header, blocks }).collect()
}
