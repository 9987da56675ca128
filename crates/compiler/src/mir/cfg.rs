//! Predecessors and reverse post-order.

use super::function::{Block, Function};

/// The control-flow graph of the blocks that can be reached.
#[derive(Clone, Debug)]
pub struct Cfg {
    /// Reachable blocks in reverse post-order: a block comes before those it dominates.
    pub order: Vec<Block>,
    /// For each block its place in `order`, or `u32::MAX` if it cannot be reached.
    pub position: Vec<u32>,
    /// Start of each block's predecessors in `edges`; one more than there are blocks.
    starts: Vec<u32>,
    /// Predecessor and number of the edge in its terminator, by target block.
    edges: Vec<(Block, u32)>,
}

impl Cfg {
    /// Computes the graph, in linear time.
    pub fn new(function: &Function) -> Cfg {
        let count = function.blocks.len();
        let mut visited = vec![false; count];
        let mut post = Vec::with_capacity(count);
        // Successors still to visit of each block on the path.
        let mut path: Vec<(Block, Vec<Block>)> = Vec::new();
        visited[function.entry.index()] = true;
        path.push((function.entry, successors(function, function.entry)));
        while let Some((block, rest)) = path.last_mut() {
            match rest.pop() {
                Some(next) if visited[next.index()] => {}
                Some(next) => {
                    visited[next.index()] = true;
                    path.push((next, successors(function, next)));
                }
                None => {
                    post.push(*block);
                    path.pop();
                }
            }
        }
        post.reverse();
        let order = post;
        let mut position = vec![u32::MAX; count];
        for (number, block) in order.iter().enumerate() {
            position[block.index()] = number as u32;
        }

        let mut starts = vec![0u32; count + 1];
        let each_edge = |visit: &mut dyn FnMut(Block, Block, u32)| {
            for &block in &order {
                let mut number = 0;
                if let Some(terminator) = &function.blocks[block.index()].terminator {
                    terminator.for_each_edge(|edge| {
                        visit(block, edge.block, number);
                        number += 1;
                    });
                }
            }
        };
        each_edge(&mut |_, target, _| starts[target.index() + 1] += 1);
        for block in 0..count {
            starts[block + 1] += starts[block];
        }
        let mut next = starts.clone();
        let mut edges = vec![(Block(0), 0); starts[count] as usize];
        each_edge(&mut |source, target, number| {
            edges[next[target.index()] as usize] = (source, number);
            next[target.index()] += 1;
        });
        Cfg { order, position, starts, edges }
    }

    /// The edges that lead to a block from reachable blocks: the predecessor and which of its terminator's edges it is.
    pub fn predecessors(&self, block: Block) -> &[(Block, u32)] {
        &self.edges[self.starts[block.index()] as usize..self.starts[block.index() + 1] as usize]
    }
}

/// The targets of a block, last first (so that they are visited in order from the end).
fn successors(function: &Function, block: Block) -> Vec<Block> {
    let mut targets = Vec::new();
    if let Some(terminator) = &function.blocks[block.index()].terminator {
        terminator.for_each_edge(|edge| targets.push(edge.block));
    }
    targets
}
