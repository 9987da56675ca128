//! Predecessors and reverse post-order.

use super::function::{Block, Function};

/// The control-flow graph of the blocks that can be reached.
#[derive(Clone, PartialEq, Debug)]
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
        // The blocks on the path, and where the successors of each that are still to be visited begin in `rest`: the
        // last is visited first.
        let mut path: Vec<(Block, usize)> = Vec::with_capacity(count);
        let mut rest: Vec<Block> = Vec::with_capacity(2 * count);
        visited[function.entry.index()] = true;
        path.push((function.entry, 0));
        add_successors(function, function.entry, &mut rest);
        while let Some(&(block, begin)) = path.last() {
            if rest.len() == begin {
                post.push(block);
                path.pop();
            } else if let Some(next) = rest.pop()
                && !std::mem::replace(&mut visited[next.index()], true)
            {
                path.push((next, rest.len()));
                add_successors(function, next, &mut rest);
            }
        }
        post.reverse();
        let order = post;
        let mut position = vec![u32::MAX; count];
        for (number, block) in order.iter().enumerate() {
            position[block.index()] = number as u32;
        }

        let mut starts = vec![0u32; count + 1];
        for &block in &order {
            for_each_edge(function, block, |_, target| starts[target.index() + 1] += 1);
        }
        for block in 0..count {
            starts[block + 1] += starts[block];
        }
        let mut next = starts.clone();
        let mut edges = vec![(Block(0), 0); starts[count] as usize];
        for &block in &order {
            for_each_edge(function, block, |number, target| {
                edges[next[target.index()] as usize] = (block, number);
                next[target.index()] += 1;
            });
        }
        Cfg { order, position, starts, edges }
    }

    /// The edges that lead to a block from reachable blocks: the predecessor and which of its terminator's edges it is.
    pub fn predecessors(&self, block: Block) -> &[(Block, u32)] {
        &self.edges[self.starts[block.index()] as usize..self.starts[block.index() + 1] as usize]
    }

    /// Whether control can come back to a block.
    pub fn has_loops(&self) -> bool {
        let comes_back = |block: &Block| {
            let position = self.position[block.index()];
            self.predecessors(*block).iter().any(|(from, _)| self.position[from.index()] >= position)
        };
        self.order.iter().any(comes_back)
    }
}

/// Calls `visit` with the number and the target of each edge that leaves a block.
fn for_each_edge(function: &Function, block: Block, mut visit: impl FnMut(u32, Block)) {
    let mut number = 0;
    if let Some(terminator) = &function.blocks[block.index()].terminator {
        terminator.for_each_edge(|edge| {
            visit(number, edge.block);
            number += 1;
        });
    }
}

/// Appends the targets of a block.
fn add_successors(function: &Function, block: Block, targets: &mut Vec<Block>) {
    for_each_edge(function, block, |_, target| targets.push(target));
}
