//! What lowering notes for the checker: which values of Cranelift's are references, and what goes in and out of root
//! slots.

use cranelift_codegen::ir;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::lower::Lowering;
use crate::lower::roots::{Root, SafepointKey};
use crate::mir::{self, Op, Value, ValueDef};
use crate::module::ValueType;

/// An access to a root slot: its number, and the MIR value that it is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum SlotAccess {
    Store(u32, Value),
    Load(u32, Value),
}

/// The notes of one function.
#[derive(Default)]
pub(in crate::lower) struct Notes {
    /// Values that hold traced references, with the MIR value they are, where they are one.
    pub(super) references: FxHashMap<ir::Value, Option<Value>>,
    /// Values that may be computed from references, but are none that the collector traces, nor addresses of objects.
    pub(super) numbers: FxHashSet<ir::Value>,
    /// Addresses within objects that lie in variables over safepoints, because another variable says whether they are
    /// still good.
    pub(super) guarded: FxHashSet<ir::Value>,
    pub(super) slots: FxHashMap<ir::Inst, SlotAccess>,
    /// For each call with a stack map what it says: slots and the MIR values in them.
    pub(super) maps: FxHashMap<ir::Inst, Vec<(u32, Value)>>,
}

/// The value that a checked or refined form of a reference is a form of.
fn unrefined(mir: &mir::Function, value: Value) -> Value {
    let mut value = mir.resolve(value);
    while let ValueDef::Result(inst, _) = mir.values[value.index()].def
        && let data = &mir.insts[inst.index()]
        && data.op.properties().copies
    {
        value = mir.resolve(data.args[0]);
    }
    value
}

impl Lowering<'_, '_> {
    /// Notes what a MIR value has become.
    pub(in crate::lower) fn note_value(&mut self, value: Value) {
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
                notes.references.insert(lowered, Some(unrefined(self.mir, value)));
            }
            ValueType::Ref(ty) if self.env.is_traced(ValueType::Ref(ty)) => {}
            // Functions and small integers do not move either.
            _ => {
                notes.numbers.insert(lowered);
            }
        }
    }

    /// Notes what a parameter of the function is before it becomes the entry block's.
    pub(in crate::lower) fn note_parameter(&mut self, param: Value, lowered: ir::Value) {
        if let Some(notes) = &mut self.notes
            && self.env.is_traced(self.mir.value_type(param))
        {
            notes.references.insert(lowered, Some(param));
        }
    }

    /// Notes a reference, or the address of an object, that is no MIR value.
    pub(in crate::lower) fn note_reference(&mut self, reference: ir::Value) {
        if let Some(notes) = &mut self.notes {
            notes.references.insert(reference, None);
        }
    }

    /// Notes an address that is used only where another variable says that it is still good.
    pub(in crate::lower) fn note_guarded(&mut self, address: ir::Value) {
        if let Some(notes) = &mut self.notes {
            notes.guarded.insert(address);
        }
    }

    /// Notes that an instruction stores a reference into a root slot.
    pub(in crate::lower) fn note_slot_store(&mut self, store: ir::Inst, slot: u32, value: Value) {
        let value = unrefined(self.mir, value);
        if let Some(notes) = &mut self.notes {
            notes.slots.insert(store, SlotAccess::Store(slot, value));
        }
    }

    /// Notes that a reference has been loaded from its root slot.
    pub(in crate::lower) fn note_slot_load(&mut self, loaded: ir::Value, root: Root) {
        let value = unrefined(self.mir, root.value);
        if let Some(notes) = &mut self.notes {
            let load = self.b.func.dfg.value_def(loaded).unwrap_inst();
            notes.slots.insert(load, SlotAccess::Load(root.slot, value));
            notes.references.insert(loaded, Some(value));
        }
    }

    /// Notes the stack map of a call.
    pub(in crate::lower) fn note_map(&mut self, call: ir::Inst, key: SafepointKey) {
        if let Some(notes) = &mut self.notes {
            let roots = self.roots.at(key);
            let map = roots.iter().map(|root| (root.slot, unrefined(self.mir, root.value))).collect();
            notes.maps.insert(call, map);
        }
    }
}
