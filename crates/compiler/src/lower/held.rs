//! The places of objects that loops hold in variables: see [`passes::analysis`](crate::passes::analysis).
//!
//! They are looked up in a block of its own in front of the loop, which every edge from outside leads to, and again
//! behind each safepoint of the loop, all of which lie on cold paths.

use cranelift_codegen::ir::{self, InstBuilder};

use super::Lowering;
use super::env::POINTER;
use crate::mir::{self, Cfg};
use crate::passes;
use crate::passes::analysis::{Root, SafepointKey};

impl Lowering<'_, '_> {
    pub(super) fn create_held(&mut self) {
        self.held.variables = self.held.plan.locations.iter().map(|_| self.b.declare_var(POINTER)).collect();
        let mir = self.mir;
        for header in self.held.plan.headers() {
            let created = self.b.create_block();
            for &param in &mir.blocks[header.index()].params {
                self.b.append_block_param(created, Self::passed_type(mir.value_type(param)));
            }
            self.held.in_front.insert(header, created);
        }
    }

    /// Before a block is lowered: the block in front of it, if it is the header of a loop that holds something.
    pub(super) fn enter_loop(&mut self, cfg: &Cfg, header: mir::Block) {
        let Some(&in_front) = self.held.in_front.get(&header) else { return };
        if self.mir.blocks[header.index()].cold {
            self.b.set_cold_block(in_front);
        }
        self.b.switch_to_block(in_front);
        // Those of its own: variables that are read may add others.
        let passed: Vec<ir::BlockArg> = self.b.block_params(in_front).iter().map(|&param| param.into()).collect();
        self.held.leave();
        self.bases = self.bases_at_ends.enter(cfg, header);
        self.located.enter_loop(cfg, header);
        for number in self.held.plan.held(header) {
            let reference = self.value(self.held.plan.locations[number].reference);
            self.look_up_held(number, reference);
        }
        let target = self.clif_block(header);
        self.b.ins().jump(target, &passed);
    }

    /// Behind a safepoint: looks up anew what the loop holds.
    pub(super) fn look_up_all_held(&mut self, key: SafepointKey) {
        for number in self.held.here.clone() {
            self.apart(|l| {
                let reference = l.held_reference(number, key);
                l.look_up_held(number, reference);
            });
        }
    }

    /// The reference of what is held, behind a safepoint: where it does not change, from its slot, so that it need not
    /// lie in a register all the time, least of all in two forms.
    fn held_reference(&mut self, number: usize, key: SafepointKey) -> ir::Value {
        let (mir, location) = (self.mir, &self.held.plan.locations[number]);
        let reference = location.reference;
        let is_same = |root: &&Root| passes::root(mir, root.value) == location.root;
        match self.roots.at(key).iter().find(is_same).copied() {
            Some(root) if !self.env.plan.references_change_at_safepoints => self.load_root(root),
            _ => self.value(reference),
        }
    }

    fn look_up_held(&mut self, number: usize, reference: ir::Value) {
        let address = self.look_up(reference, self.held.plan.locations[number].nullable);
        self.b.def_var(self.held.variables[number], address);
    }

    /// Notes that a MIR value is held by a Cranelift value at this point.
    pub(super) fn note_held(&mut self, value: mir::Value, found: ir::Value) {
        if self.held.here.is_empty() {
            return;
        }
        let root = passes::root(self.mir, value);
        let held = self.held.here.clone().find(|&number| self.held.plan.locations[number].root == root);
        if let Some(number) = held {
            self.held.by_reference.insert(self.widest(found), number);
        }
    }

    /// The address of a reference's object, if the loop holds it.
    pub(super) fn held_address(&mut self, reference: ir::Value) -> Option<ir::Value> {
        let number = *self.held.by_reference.get(&self.widest(reference))?;
        Some(self.b.use_var(self.held.variables[number]))
    }
}
