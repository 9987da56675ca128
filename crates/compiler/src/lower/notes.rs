//! Takes notes for the checker of generated code.

use cranelift_codegen::ir;

use super::state::Lowering;
use super::verify::{Mirrored, SlotAccess};
use crate::mir::{Op, Value, ValueDef};
use crate::module::ValueType;
use crate::passes;
use crate::passes::analysis::{Root, SafepointKey};

impl Lowering<'_, '_> {
    /// Notes what a MIR value has become.
    pub(super) fn note_value(&mut self, value: Value) {
        let Some(notes) = &mut self.notes else { return };
        let Some(lowered) = self.values[value.index()] else { return };
        let op = match self.mir.values[value.index()].def {
            ValueDef::Result(inst, _) => Some(&self.mir.insts[inst.index()].op),
            _ => None,
        };
        match self.mir.value_type(value) {
            // A form is the value that it is a form of.
            ValueType::Ref(_) if op.is_some_and(|op| op.properties().copies) => {}
            // Null is no object.
            ty if self.env.is_traced(ty) && !matches!(op, Some(Op::Const(_))) => {
                let root = Some(passes::root(self.mir, value));
                notes.references.extend(self.wide.get(&lowered).map(|&wide| (wide, root)));
                notes.references.insert(lowered, root);
            }
            ValueType::Ref(ty) if self.env.is_traced(ValueType::Ref(ty)) => {}
            // Functions and small integers do not move either.
            _ => {
                notes.numbers.extend(self.wide.get(&lowered));
                notes.numbers.insert(lowered);
            }
        }
    }

    /// Notes a reference, or the address of an object, that is no MIR value.
    pub(super) fn note_reference(&mut self, reference: ir::Value) {
        if let Some(notes) = &mut self.notes {
            notes.references.extend(self.wide.get(&reference).map(|&wide| (wide, None)));
            notes.references.insert(reference, None);
        }
    }

    /// Notes where an object lies by what its reference has led to: there until the next safepoint.
    pub(super) fn note_address(&mut self, address: ir::Value) {
        if let Some(notes) = &mut self.notes {
            notes.addresses.extend(self.wide.get(&address));
            notes.addresses.insert(address);
        }
    }

    /// Notes an address that is used only where another variable says that it is still good.
    pub(super) fn note_guarded(&mut self, address: ir::Value) {
        if let Some(notes) = &mut self.notes {
            notes.guarded.insert(address);
        }
    }

    /// Notes that an instruction stores a reference into a root slot.
    pub(super) fn note_slot_store(&mut self, store: ir::Inst, slot: u32, value: Value) {
        let value = passes::root(self.mir, value);
        if let Some(notes) = &mut self.notes {
            notes.slots.insert(store, SlotAccess::Store(slot, value));
        }
    }

    /// Notes that a reference has been loaded from its root slot.
    pub(super) fn note_slot_load(&mut self, loaded: ir::Value, root: Root) {
        let value = passes::root(self.mir, root.value);
        if let Some(notes) = &mut self.notes {
            let wide = self.wide[&loaded];
            let load = self.b.func.dfg.value_def(wide).unwrap_inst();
            notes.slots.insert(load, SlotAccess::Load(root.slot, value));
            notes.references.extend([wide, loaded].map(|loaded| (loaded, Some(value))));
        }
    }

    /// Notes a store with the barrier that it needs, or into a new object. `is_mirrored`: it must be mirrored.
    pub(super) fn note_store(&mut self, store: ir::Inst, is_mirrored: bool) {
        if let Some(notes) = &mut self.notes {
            notes.stores.insert(store, if is_mirrored { Mirrored::Not } else { Mirrored::NeedNotBe });
        }
    }

    /// Notes that a store is made where this age says that the object is young, and needs no barrier.
    pub(super) fn note_young(&mut self, store: ir::Inst, age: ir::Value) {
        if let Some(notes) = &mut self.notes {
            notes.young.insert(store, age);
        }
    }

    /// Notes that an instruction mirrors a store.
    pub(super) fn note_mirror(&mut self, store: ir::Inst, mirror: ir::Inst) {
        if let Some(notes) = &mut self.notes {
            notes.stores.insert(store, Mirrored::By(mirror));
            notes.stores.insert(mirror, Mirrored::Mirrors);
        }
    }

    /// Notes that an instruction stores `healed` where the `first` one has put `reference`.
    pub(super) fn note_healed(&mut self, first: ir::Inst, store: ir::Inst, healed: ir::Value, reference: ir::Value) {
        if let Some(notes) = &mut self.notes {
            notes.stores.insert(store, Mirrored::Heals(first));
            notes.healed.insert(healed, reference);
        }
    }

    /// Notes the stack map of a call.
    pub(super) fn note_map(&mut self, call: ir::Inst, key: SafepointKey) {
        if let Some(notes) = &mut self.notes {
            let roots = self.roots.at(key);
            let map = roots.iter().map(|root| (root.slot, passes::root(self.mir, root.value))).collect();
            notes.maps.insert(call, map);
        }
    }
}
