//! Emission of safepoints: stores into root slots, stack maps at calls, and loads behind them where references change.
//!
//! A reference that changes has several Cranelift values, one behind each safepoint that reloads it. They are the
//! definitions of one Cranelift variable, so that the frontend inserts the block parameters where they meet.

use cranelift_codegen::ir::{self, InstBuilder, StackSlotData, StackSlotKind, UserStackMapEntry, types};

use legato_heap::layout::StorageKind;

use super::Lowering;
use super::access::Region;
use super::arrays::ArraySource;
use super::env::{ModuleEnv, POINTER};
use crate::mir::{self, Block, Collects, Constant, Op, Value};
use crate::module::ValueType;
use crate::passes::analysis::{Root, SafepointKey, Safepoints, Temperature};
use crate::passes::{constant, constant_length};

/// The safepoints of a function, terminators apart. `inline`: whether it allocates inline, outside of cold blocks.
/// Exceptions that are thrown at once are made by their throws.
pub(super) fn find(
    env: &ModuleEnv,
    mir: &mir::Function,
    order: &[Block],
    inline: bool,
    fused_throws: &[bool],
) -> Safepoints {
    let blocks = order.iter().map(|block| &mir.blocks[block.index()]);
    let insts = blocks.flat_map(|block| block.insts.iter().map(|&inst| (inst, block.cold)));
    let found = insts.filter(|(inst, _)| !fused_throws[inst.index()]).filter_map(|(inst, cold)| {
        let data = &mir.insts[inst.index()];
        let found = temperature(env, mir, inline && !cold, &data.op, &data.args)?;
        Some((inst, if cold && found == Temperature::Hot { Temperature::OutOfLine } else { found }))
    });
    found.collect()
}

/// Whether an operation is a safepoint, and how often it is reached.
fn temperature(env: &ModuleEnv, mir: &mir::Function, inline: bool, op: &Op, args: &[Value]) -> Option<Temperature> {
    match op.properties().collects {
        Collects::Never => None,
        Collects::WhenDue => Some(Temperature::Cold),
        Collects::Allocating if allocates_inline(env, mir, inline, op, args) => Some(Temperature::Cold),
        Collects::Allocating | Collects::Calling => Some(Temperature::Hot),
        Collects::ReservingLeaves => {
            // Vectors are written by a loop, not by the runtime.
            let by_loop = matches!(op, Op::ArrayFill(ty) if env.element_kind(*ty) == StorageKind::V128);
            (env.bulk_collects() && !by_loop).then_some(Temperature::Hot)
        }
    }
}

/// Whether an operation that makes an object takes its memory inline, and calls only where there is none.
fn allocates_inline(env: &ModuleEnv, mir: &mir::Function, inline: bool, op: &Op, args: &[Value]) -> bool {
    let array = |ty, length, default| {
        let source = env.array_source(inline, env.element_kind(ty), constant_length(mir, length), default);
        !matches!(source, ArraySource::Runtime)
    };
    match op {
        Op::StructNew(ty) => env.inline_struct(inline, env.struct_layout(*ty), true).is_some(),
        Op::StructNewDefault(ty) => env.inline_struct(inline, env.struct_layout(*ty), false).is_some(),
        Op::ExceptionNew(tag) => env.inline_struct(inline, &env.exceptions[tag.index()], true).is_some(),
        Op::ArrayNewFixed(ty) => env.inline_array(inline, env.element_kind(*ty), args.len() as u32, true).is_some(),
        Op::ArrayNew(ty) => array(*ty, args[1], constant(mir, mir.resolve(args[0])).is_some_and(Constant::is_zero)),
        Op::ArrayNewDefault(ty) => array(*ty, args[0], true),
        other => unreachable!("{other} makes no object"),
    }
}

impl Lowering<'_, '_> {
    /// Creates the slots of the roots, and the variables of those that change.
    pub(super) fn create_roots(&mut self) {
        self.variables = vec![None; self.roots.reference_count as usize];
        if self.roots.slots > 0 {
            let data = StackSlotData::new(StackSlotKind::ExplicitSlot, 4 * self.roots.slots, 2);
            self.root_slot = Some(self.b.create_sized_stack_slot(data));
        }
    }

    /// Notes a value just defined: stores it into its slot, where it has one.
    pub(super) fn keep_root(&mut self, value: Value) {
        self.note_value(value);
        if let Some(number) = self.roots.reference(value)
            && let Some(defined) = self.values[value.index()]
        {
            self.define_reference(number, defined);
        }
        self.keep_in_slot(value);
    }

    /// Stores a value that has been defined into its slot, where it has one from there on.
    pub(super) fn keep_in_slot(&mut self, value: Value) {
        if let Some(slot) = self.roots.slot_at_definition(value) {
            // Untraced types have no slot, so this is a 32-bit reference.
            debug_assert!(matches!(self.mir.value_type(value), ValueType::Ref(_)));
            let lowered = self.value(value);
            self.store_root(lowered, slot, value);
        }
    }

    /// Makes `value` the current one of a reference that changes.
    pub(super) fn define_reference(&mut self, number: u32, value: ir::Value) {
        let variable = match self.variables[number as usize] {
            Some(variable) => variable,
            None => *self.variables[number as usize].insert(self.b.declare_var(POINTER)),
        };
        let wide = self.widen(value);
        self.b.def_var(variable, wide);
    }

    /// Behind a safepoint: loads the references that may have changed and are still used, and looks up their objects,
    /// where the loop holds these.
    pub(super) fn reload_roots(&mut self, key: SafepointKey) {
        self.empty_strips();
        for position in 0..self.roots.at(key).len() {
            let root = self.roots.at(key)[position];
            if root.reload {
                let value = self.load_root(root);
                self.define_reference(root.reference, value);
            }
        }
        self.look_up_all_held(key);
    }

    /// Loads a reference from its slot.
    pub(super) fn load_root(&mut self, root: Root) -> ir::Value {
        let stack_slot = self.root_slot.expect("a function with roots has a slot for them");
        let address = self.b.ins().stack_addr(POINTER, stack_slot, 4 * root.slot as i32);
        let flags = self.flags(Region::Stack).with_aligned();
        let value = self.load_reference(flags, address, 0);
        self.note_slot_load(value, root);
        value
    }

    /// Stores what `value` is at this point into a slot.
    fn store_root(&mut self, lowered: ir::Value, slot: u32, value: Value) {
        let stack_slot = self.root_slot.expect("a function with roots has a slot for them");
        let address = self.b.ins().stack_addr(POINTER, stack_slot, 4 * slot as i32);
        let flags = self.flags(Region::Stack).with_aligned();
        let store = self.b.ins().store(flags, lowered, address, 0);
        self.note_slot_store(store, slot, value);
    }

    /// Before a call in a cold path, or in a cold block: stores the references that are not yet in their slots.
    pub(super) fn spill_roots(&mut self, key: SafepointKey) {
        self.spill_roots_with(key, |l, value| l.value(value));
    }

    /// As [`Self::spill_roots`], where `find` says what holds a value at this point.
    pub(super) fn spill_roots_with(&mut self, key: SafepointKey, find: impl Fn(&mut Self, Value) -> ir::Value) {
        for number in 0..self.roots.at(key).len() {
            let root = self.roots.at(key)[number];
            if root.spill {
                let lowered = find(self, root.value);
                self.store_root(lowered, root.slot, root.value);
            }
        }
    }

    /// Attaches the stack map of a safepoint to its call.
    pub(super) fn map_roots(&mut self, call: ir::Inst, key: SafepointKey) {
        self.fresh.clear();
        self.located.clear();
        let Some(slot) = self.root_slot else { return };
        for root in self.roots.at(key) {
            let entry = UserStackMapEntry { ty: types::I32, slot, offset: 4 * root.slot };
            self.b.func.dfg.append_user_stack_map_entry(call, entry);
        }
        self.note_map(call, key);
    }
}
