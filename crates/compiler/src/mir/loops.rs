//! Natural loops.

use super::cfg::Cfg;
use super::dominators::Dominators;
use super::function::Block;

/// A natural loop: a header and what reaches a back-edge to it without passing it. WebAssembly has no other loops, and
/// MIR's verifier lets no others pass.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The block that every iteration begins with.
    pub header: Block,
    /// The next loop outwards.
    pub parent: Option<usize>,
    /// 1 for an outermost loop.
    pub depth: u32,
}

/// The loops of a function, outer ones before those within.
#[derive(Clone, Debug)]
pub struct Loops {
    /// The loops.
    pub loops: Vec<Loop>,
    /// For each block the innermost loop that holds it.
    pub innermost: Vec<Option<usize>>,
}

impl Loops {
    /// Finds the loops. Near-linear: each block is claimed by its innermost loop, and whole loops are skipped after
    /// that.
    pub fn new(cfg: &Cfg, dominators: &Dominators) -> Loops {
        let mut headers = Vec::new();
        for &block in &cfg.order {
            if cfg.predecessors(block).iter().any(|&(latch, _)| dominators.dominates(block, latch)) {
                headers.push(block);
            }
        }
        let mut loops: Vec<Loop> = headers.iter().map(|&header| Loop { header, parent: None, depth: 0 }).collect();
        let mut innermost: Vec<Option<usize>> = vec![None; cfg.position.len()];
        // From a loop to one outside it (or itself): a forest with path compression, as nests can be deep.
        let mut outer: Vec<usize> = (0..loops.len()).collect();
        // Inner headers come later in reverse post-order.
        for number in (0..loops.len()).rev() {
            let header = loops[number].header;
            let mut work: Vec<Block> = cfg
                .predecessors(header)
                .iter()
                .map(|&(latch, _)| latch)
                .filter(|&latch| dominators.dominates(header, latch))
                .collect();
            while let Some(block) = work.pop() {
                // The outermost loop found so far that holds the block stands for all that it holds.
                let outermost = innermost[block.index()].map(|inner| outermost(&mut outer, inner));
                match outermost {
                    Some(inner) if inner == number => {}
                    Some(inner) => {
                        loops[inner].parent = Some(number);
                        outer[inner] = number;
                        let inner_header = loops[inner].header;
                        work.extend(entries(cfg, dominators, inner_header));
                    }
                    None => {
                        innermost[block.index()] = Some(number);
                        if block != header {
                            work.extend(cfg.predecessors(block).iter().map(|&(source, _)| source));
                        }
                    }
                }
            }
            innermost[header.index()] = Some(number);
        }
        for number in 0..loops.len() {
            loops[number].depth = loops[number].parent.map_or(0, |parent| loops[parent].depth) + 1;
        }
        Loops { loops, innermost }
    }

    /// The loops without a loop within, by number, each with its blocks in reverse post-order.
    pub fn innermost_loops(&self, cfg: &Cfg) -> Vec<(usize, Vec<Block>)> {
        let mut blocks: Vec<Vec<Block>> = vec![Vec::new(); self.loops.len()];
        for &block in &cfg.order {
            if let Some(number) = self.innermost[block.index()] {
                blocks[number].push(block);
            }
        }
        let mut is_innermost = vec![true; self.loops.len()];
        for parent in self.loops.iter().filter_map(|data| data.parent) {
            is_innermost[parent] = false;
        }
        blocks.into_iter().enumerate().filter(|&(number, _)| is_innermost[number]).collect()
    }

    /// Whether a loop holds a block, perhaps in a loop within.
    pub fn contains(&self, number: usize, block: Block) -> bool {
        let mut at = self.innermost[block.index()];
        while let Some(inner) = at {
            if inner == number {
                return true;
            }
            // Outer loops have smaller numbers.
            at = if inner > number { self.loops[inner].parent } else { None };
        }
        false
    }
}

/// The outermost loop known to hold a loop.
fn outermost(outer: &mut [usize], start: usize) -> usize {
    let mut root = start;
    while outer[root] != root {
        root = outer[root];
    }
    let mut at = start;
    while outer[at] != root {
        at = std::mem::replace(&mut outer[at], root);
    }
    root
}

/// The blocks that enter a loop from outside.
fn entries<'a>(cfg: &'a Cfg, dominators: &'a Dominators, header: Block) -> impl Iterator<Item = Block> + 'a {
    cfg.predecessors(header)
        .iter()
        .map(|&(source, _)| source)
        .filter(move |&source| !dominators.dominates(header, source))
}
