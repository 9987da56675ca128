//! Finds the blocks that lie out of line.

use crate::mir::{Block, Cfg, Function, Terminator};

/// Marks as cold what leads to a trap or out of the function by an exception on every path: checks of the program's own
/// mostly, which hold. In linear time.
pub(super) fn cold(function: &mut Function) {
    for block in cold_blocks(function, &Cfg::new(function)) {
        function.blocks[block.index()].cold = true;
    }
}

/// The blocks that are marked as cold, or lead to a trap or out of the function on every path, but for the entry.
pub(super) fn cold_blocks(function: &Function, cfg: &Cfg) -> Vec<Block> {
    // How many edges of each block lead to blocks that are not known to be cold.
    let mut edges = vec![0u32; function.blocks.len()];
    let mut work: Vec<Block> = Vec::new();
    for &block in &cfg.order {
        let data = &function.blocks[block.index()];
        match &data.terminator {
            // It counts as done, wherever its edges lead.
            _ if data.cold => {
                edges[block.index()] = u32::MAX;
                work.push(block);
            }
            Some(Terminator::Trap(_)) => work.push(block),
            Some(Terminator::Throw { handlers, .. }) if handlers.is_empty() => work.push(block),
            Some(terminator) => terminator.for_each_edge(|_| edges[block.index()] += 1),
            None => {}
        }
    }
    let mut cold = Vec::new();
    while let Some(block) = work.pop() {
        if block == function.entry {
            continue;
        }
        cold.push(block);
        for &(source, _) in cfg.predecessors(block) {
            edges[source.index()] -= 1;
            if edges[source.index()] == 0 {
                work.push(source);
            }
        }
    }
    cold
}
