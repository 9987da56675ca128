//! Where objects are known to lie: what references have led to, where they lead there through a word that changes when
//! the object is moved. Each is looked up once between two safepoints, at which alone objects move.
//!
//! Cranelift merges such loads itself, but not in a loop with a call in it, however cold: to it, each block of such a
//! loop has a memory of its own.

use cranelift_codegen::ir;
use cranelift_frontend::Variable;
use rustc_hash::FxHashMap;

use super::Lowering;
use crate::mir::{self, Cfg};
use crate::passes::analysis::LocationPlan;

/// Where an object lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Located {
    /// Its offset in the cage, 32 bits.
    Offset(ir::Value),
    /// Its address.
    Address(ir::Value),
}

/// Where the objects of references lie, at this point.
#[derive(Default)]
pub(super) struct LocatedObjects {
    /// By reference, in its 64-bit form where it has one.
    here: FxHashMap<ir::Value, Located>,
    /// The same at the ends of blocks that have been lowered.
    at_end: FxHashMap<mir::Block, FxHashMap<ir::Value, Located>>,
}

impl LocatedObjects {
    pub(super) fn of(&self, reference: ir::Value) -> Option<Located> {
        self.here.get(&reference).copied()
    }

    pub(super) fn insert(&mut self, reference: ir::Value, located: Located) {
        self.here.insert(reference, located);
    }

    /// At a safepoint.
    pub(super) fn clear(&mut self) {
        self.here.clear();
    }

    /// What is known here, to be restored behind code that is not always reached.
    pub(super) fn take_note(&self) -> FxHashMap<ir::Value, Located> {
        self.here.clone()
    }

    pub(super) fn restore(&mut self, note: FxHashMap<ir::Value, Located>) {
        self.here = note;
    }

    /// At the start of a block: what is known wherever it is reached from. What is known at the ends of all its
    /// predecessors has been found in a block that dominates them all. At the header of a loop, nothing: its back-edges
    /// have not been lowered.
    pub(super) fn enter(&mut self, cfg: &Cfg, block: mir::Block) {
        self.enter_from(cfg, block, |_| true);
    }

    /// In front of a loop: what is known wherever it is entered from.
    pub(super) fn enter_loop(&mut self, cfg: &Cfg, header: mir::Block) {
        let position = cfg.position[header.index()];
        self.enter_from(cfg, header, |from| cfg.position[from.index()] < position);
    }

    fn enter_from(&mut self, cfg: &Cfg, block: mir::Block, is_entered: impl Fn(mir::Block) -> bool) {
        self.here.clear();
        let predecessors = cfg.predecessors(block).iter().filter(|&&(from, _)| is_entered(from));
        let mut ends = predecessors.map(|(from, _)| self.at_end.get(from));
        let Some(Some(first)) = ends.next() else { return };
        let mut here = first.clone();
        for end in ends {
            let Some(end) = end else { return };
            here.retain(|reference, located| end.get(reference) == Some(located));
        }
        self.here = here;
    }

    /// Before a block's terminator, which may be a safepoint: then nothing is known behind it.
    pub(super) fn leave(&mut self, block: mir::Block, is_safepoint: bool) {
        if !self.here.is_empty() && !is_safepoint {
            self.at_end.insert(block, self.here.clone());
        }
    }
}

/// Where objects lie that loops hold: see [`held`](super::held).
#[derive(Default)]
pub(super) struct HeldLocations {
    pub(super) plan: LocationPlan,
    /// For each location the variable that holds the object's address: that of the cage for null.
    pub(super) variables: Vec<Variable>,
    /// Those of the loop that the current block lies in.
    pub(super) here: std::ops::Range<usize>,
    /// The numbers of those here, by reference, in its 64-bit form where it has one.
    pub(super) by_reference: FxHashMap<ir::Value, usize>,
    /// By header: the block in front of it, for edges from outside of the loop.
    pub(super) in_front: FxHashMap<mir::Block, ir::Block>,
}

impl HeldLocations {
    pub(super) fn new(plan: LocationPlan) -> HeldLocations {
        HeldLocations { plan, ..HeldLocations::default() }
    }

    /// Outside of all loops.
    pub(super) fn leave(&mut self) {
        self.here = 0..0;
        self.by_reference.clear();
    }

    /// At the start of a block.
    pub(super) fn enter(&mut self, block: mir::Block) {
        self.leave();
        self.here = self.plan.held(block);
    }

    /// The block in front of a loop, for an edge to its header from where lowering is.
    pub(super) fn in_front(&self, target: mir::Block) -> Option<ir::Block> {
        let block = self.in_front.get(&target)?;
        (self.plan.held(target) != self.here).then_some(*block)
    }
}

impl Lowering<'_, '_> {
    /// The 64-bit form of a reference, where it was made from one. It stands for all others.
    pub(super) fn widest(&self, reference: ir::Value) -> ir::Value {
        self.wide.get(&reference).copied().unwrap_or(reference)
    }
}
