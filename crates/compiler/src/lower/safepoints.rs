//! Emission of safepoints: stores into root slots, stack maps at calls.
//!
//! This is the module that changes where references change at safepoints: behind the call it would reload them.

use cranelift_codegen::ir::{self, InstBuilder, StackSlotData, StackSlotKind, UserStackMapEntry, types};

use super::Lowering;
use super::access::Region;
use super::env::{ModuleEnv, POINTER};
use super::roots::{SafepointKey, Temperature};
use crate::mir::{self, Constant, Op, Value, ValueDef};
use crate::module::ValueType;

/// Whether an operation is a safepoint, and how often it is reached.
pub(super) fn temperature(
    env: &ModuleEnv,
    mir: &mir::Function,
    inline: bool,
    op: &Op,
    args: &[Value],
) -> Option<Temperature> {
    let allocation = |class: Option<usize>| Some(if class.is_some() { Temperature::Cold } else { Temperature::Hot });
    match op {
        Op::Poll => Some(Temperature::Cold),
        Op::StructNew(ty) => allocation(env.inline_struct(inline, env.struct_layout(*ty), true)),
        Op::StructNewDefault(ty) => allocation(env.inline_struct(inline, env.struct_layout(*ty), false)),
        Op::ExceptionNew(tag) => allocation(env.inline_struct(inline, &env.exceptions[tag.index()], true)),
        Op::ArrayNewFixed(ty) => allocation(env.inline_array(inline, env.element_kind(*ty), args.len() as u32, true)),
        Op::ArrayNew(ty) => allocation(
            constant_length(mir, args[1])
                .and_then(|length| env.inline_array(inline, env.element_kind(*ty), length, false)),
        ),
        Op::ArrayNewDefault(ty) => allocation(
            constant_length(mir, args[0])
                .and_then(|length| env.inline_array(inline, env.element_kind(*ty), length, false)),
        ),
        Op::Call(_) | Op::ArrayNewData(..) | Op::ArrayNewElem(..) | Op::ArrayInitElem(..) | Op::TableInit(..) => {
            Some(Temperature::Hot)
        }
        _ => None,
    }
}

/// The constant that defines a value, if one does.
pub(super) fn constant_of(mir: &mir::Function, value: Value) -> Option<Constant> {
    match mir.values[mir.resolve(value).index()].def {
        ValueDef::Result(inst, _) => match mir.insts[inst.index()].op {
            Op::Const(constant) => Some(constant),
            _ => None,
        },
        _ => None,
    }
}

/// The array length that a value is known to be.
pub(super) fn constant_length(mir: &mir::Function, value: Value) -> Option<u32> {
    match constant_of(mir, value) {
        Some(Constant::I32(length)) => Some(length as u32),
        _ => None,
    }
}

impl Lowering<'_, '_> {
    pub(super) fn create_root_slot(&mut self) {
        if self.roots.slots > 0 {
            let data = StackSlotData::new(StackSlotKind::ExplicitSlot, 4 * self.roots.slots, 2);
            self.root_slot = Some(self.b.create_sized_stack_slot(data));
        }
    }

    /// Stores a value just defined into its slot, where it has one.
    pub(super) fn keep_root(&mut self, value: Value) {
        if let Some(slot) = self.roots.slot_at_definition(value) {
            // Untraced types have no slot, so this is a 32-bit reference.
            debug_assert!(matches!(self.mir.value_type(value), ValueType::Ref(_)));
            let value = self.value(value);
            self.store_root(value, slot);
        }
    }

    fn store_root(&mut self, value: ir::Value, slot: u32) {
        let stack_slot = self.root_slot.expect("a function with roots has a slot for them");
        let address = self.b.ins().stack_addr(POINTER, stack_slot, 4 * slot as i32);
        let flags = self.flags(Region::Stack).with_aligned();
        self.b.ins().store(flags, value, address, 0);
    }

    /// In a cold path, before its call: stores the references that are not yet in their slots.
    pub(super) fn spill_roots(&mut self, key: SafepointKey) {
        self.spill_roots_with(key, |l, value| l.value(value));
    }

    /// As [`Self::spill_roots`], where `find` says what holds a value at this point.
    pub(super) fn spill_roots_with(&mut self, key: SafepointKey, find: impl Fn(&Self, Value) -> ir::Value) {
        for number in 0..self.roots.at(key).len() {
            let root = self.roots.at(key)[number];
            if root.spill {
                let value = find(self, root.value);
                self.store_root(value, root.slot);
            }
        }
    }

    /// Attaches the stack map of a safepoint to its call.
    pub(super) fn map_roots(&mut self, call: ir::Inst, key: SafepointKey) {
        let Some(slot) = self.root_slot else { return };
        for root in self.roots.at(key) {
            let entry = UserStackMapEntry { ty: types::I32, slot, offset: 4 * root.slot };
            self.b.func.dfg.append_user_stack_map_entry(call, entry);
        }
    }
}
