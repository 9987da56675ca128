//! Dominators by Lengauer and Tarjan's algorithm (1979) with path compression: O(m log n) in the worst case. The usual
//! iterative algorithm is quadratic where many blocks of a long chain share an exception handler.

use super::cfg::Cfg;
use super::function::{Block, Function};

/// The dominator tree of the reachable blocks.
#[derive(Clone, Debug)]
pub struct Dominators {
    /// The immediate dominator of each block; `None` for the entry and for unreachable blocks.
    pub parent: Vec<Option<Block>>,
    /// The blocks in an order in which every block comes after its dominator, and the blocks it dominates directly
    /// follow it before any others (a walk of the tree from the root, children in reverse post-order).
    pub preorder: Vec<Block>,
    /// Number of each block in `preorder`, and the number after the last of its subtree.
    spans: Vec<(u32, u32)>,
}

const NONE: u32 = u32::MAX;

struct Forest {
    ancestor: Vec<u32>,
    label: Vec<u32>,
    semi: Vec<u32>,
}

impl Forest {
    /// The vertex of smallest semidominator on the path to `vertex` from below its root.
    fn eval(&mut self, vertex: u32, path: &mut Vec<u32>) -> u32 {
        if self.ancestor[vertex as usize] == NONE {
            return vertex;
        }
        let mut at = vertex;
        while self.ancestor[self.ancestor[at as usize] as usize] != NONE {
            path.push(at);
            at = self.ancestor[at as usize];
        }
        while let Some(at) = path.pop() {
            let above = self.ancestor[at as usize];
            if self.semi[self.label[above as usize] as usize] < self.semi[self.label[at as usize] as usize] {
                self.label[at as usize] = self.label[above as usize];
            }
            self.ancestor[at as usize] = self.ancestor[above as usize];
        }
        self.label[vertex as usize]
    }
}

impl Dominators {
    /// Computes the tree.
    pub fn new(function: &Function, cfg: &Cfg) -> Dominators {
        // Vertices are numbered in depth-first order.
        let blocks = function.blocks.len();
        let mut number = vec![NONE; blocks];
        let mut vertices: Vec<Block> = Vec::with_capacity(cfg.order.len());
        let mut tree_parent: Vec<u32> = Vec::with_capacity(cfg.order.len());
        let mut stack = vec![(function.entry, NONE)];
        while let Some((block, parent)) = stack.pop() {
            if number[block.index()] != NONE {
                continue;
            }
            let vertex = vertices.len() as u32;
            number[block.index()] = vertex;
            vertices.push(block);
            tree_parent.push(parent);
            if let Some(terminator) = &function.blocks[block.index()].terminator {
                terminator.for_each_edge(|edge| {
                    if number[edge.block.index()] == NONE {
                        stack.push((edge.block, vertex));
                    }
                });
            }
        }

        let count = vertices.len();
        let mut forest = Forest {
            ancestor: vec![NONE; count],
            label: (0..count as u32).collect(),
            semi: (0..count as u32).collect(),
        };
        // Each bucket is a linked list: vertices whose semidominator is the index.
        let mut bucket = vec![NONE; count];
        let mut bucket_next = vec![NONE; count];
        let mut dominator = vec![0u32; count];
        let mut path = Vec::new();
        for vertex in (1..count as u32).rev() {
            for &(predecessor, _) in cfg.predecessors(vertices[vertex as usize]) {
                let best = forest.eval(number[predecessor.index()], &mut path);
                let semi = forest.semi[best as usize];
                if semi < forest.semi[vertex as usize] {
                    forest.semi[vertex as usize] = semi;
                }
            }
            let semi = forest.semi[vertex as usize] as usize;
            bucket_next[vertex as usize] = bucket[semi];
            bucket[semi] = vertex;
            let parent = tree_parent[vertex as usize];
            forest.ancestor[vertex as usize] = parent;
            let mut member = std::mem::replace(&mut bucket[parent as usize], NONE);
            while member != NONE {
                let best = forest.eval(member, &mut path);
                let nearer = forest.semi[best as usize] < forest.semi[member as usize];
                dominator[member as usize] = if nearer { best } else { parent };
                member = bucket_next[member as usize];
            }
        }
        let mut parent = vec![None; blocks];
        for vertex in 1..count {
            if dominator[vertex] != forest.semi[vertex] {
                dominator[vertex] = dominator[dominator[vertex] as usize];
            }
            parent[vertices[vertex].index()] = Some(vertices[dominator[vertex] as usize]);
        }
        let (preorder, spans) = walk(function.entry, &parent, cfg);
        Dominators { parent, preorder, spans }
    }

    /// Whether `above` dominates `below` (or is the same). False for unreachable blocks.
    pub fn dominates(&self, above: Block, below: Block) -> bool {
        let (first, end) = self.spans[above.index()];
        let (at, _) = self.spans[below.index()];
        at != NONE && first <= at && at < end
    }

    /// The number after the last block of the block's subtree in [`preorder`](Self::preorder).
    pub fn subtree_end(&self, block: Block) -> usize {
        self.spans[block.index()].1 as usize
    }
}

/// Numbers the tree.
fn walk(entry: Block, parent: &[Option<Block>], cfg: &Cfg) -> (Vec<Block>, Vec<(u32, u32)>) {
    // The children of each block as a list, last first, so that they are popped in reverse post-order.
    let mut last_child = vec![NONE; parent.len()];
    let mut sibling_before = vec![NONE; parent.len()];
    for &block in &cfg.order {
        if let Some(parent) = parent[block.index()] {
            sibling_before[block.index()] = std::mem::replace(&mut last_child[parent.index()], block.0);
        }
    }
    let mut preorder = Vec::with_capacity(cfg.order.len());
    let mut spans = vec![(NONE, NONE); parent.len()];
    let mut stack = vec![(entry, false)];
    while let Some((block, left)) = stack.pop() {
        if left {
            spans[block.index()].1 = preorder.len() as u32;
            continue;
        }
        spans[block.index()].0 = preorder.len() as u32;
        preorder.push(block);
        stack.push((block, true));
        let mut child = last_child[block.index()];
        while child != NONE {
            stack.push((Block(child), false));
            child = sibling_before[child as usize];
        }
    }
    (preorder, spans)
}
