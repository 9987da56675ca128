//! Values that lowering makes for its own use, to be used again where they dominate: the passes of MIR do not see them,
//! and Cranelift's mid-end, which would merge them, is left out where it has nothing else to do (see
//! `passes/analysis/mid_end.rs`).

use cranelift_codegen::ir;
use rustc_hash::FxHashMap;

use crate::mir::{self, Cfg};

/// How many base addresses there are.
const BASES: usize = 3;

/// The base addresses that are known at some point, by their numbers.
pub(super) type Bases = [Option<ir::Value>; BASES];

/// What a value is made from another one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Made {
    /// Of 32 bits: zero-extended to 64.
    Wide,
    /// An offset in the cage of 64 bits: its address.
    Address,
}

/// What has been made from which value, and in which Cranelift block: in others, it may not be there.
pub(super) type MadeValues = FxHashMap<(Made, ir::Value), (ir::Block, ir::Value)>;

/// The base addresses that are known at the ends of blocks which have been lowered, by block.
#[derive(Default)]
pub(super) struct BasesAtEnds(Vec<Bases>);

impl BasesAtEnds {
    pub(super) fn new(blocks: usize) -> BasesAtEnds {
        BasesAtEnds(vec![[None; BASES]; blocks])
    }

    /// None are taken over from other blocks. For code that is compiled quickly: what several blocks use lies on the
    /// stack there, so that it is as good to load it again.
    pub(super) fn none() -> BasesAtEnds {
        BasesAtEnds::default()
    }

    pub(super) fn leave(&mut self, block: mir::Block, bases: Bases) {
        if let Some(end) = self.0.get_mut(block.index()) {
            *end = bases;
        }
    }

    /// What is known at the start of a block: what is the same wherever it is entered from, as only a block that
    /// dominates all these can have made that. Base addresses never change, so back-edges do not matter.
    pub(super) fn enter(&self, cfg: &Cfg, block: mir::Block) -> Bases {
        if self.0.is_empty() {
            return Bases::default();
        }
        let position = cfg.position[block.index()];
        let entered = cfg.predecessors(block).iter().filter(|(from, _)| cfg.position[from.index()] < position);
        let mut ends = entered.map(|(from, _)| self.0[from.index()]);
        let mut bases = ends.next().unwrap_or_default();
        for end in ends {
            bases.iter_mut().zip(end).filter(|(known, found)| **known != *found).for_each(|(known, _)| *known = None);
        }
        bases
    }
}
