//! The write barrier: what a store of a reference into an object does besides, by the heap's
//! [`BarrierPlan`](legato_heap::plan::BarrierPlan).
//!
//! No barrier where the value can be no object, or where the object is new: allocated in the same block with no
//! safepoint since, so that it is certainly young.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use legato_heap::layout::StorageKind;
use legato_heap::plan::{BarrierPlan, BufferWords, RememberedPlan};

use super::Lowering;
use super::access::Region;
use super::env::POINTER;
use crate::abi::Builtin;
use crate::mir::{Constant, Value};

impl Lowering<'_, '_> {
    /// Notes that a value holds an object allocated just now.
    pub(super) fn note_fresh(&mut self, object: Value) {
        if self.env.plan.store_barrier != BarrierPlan::None {
            self.fresh.push(self.mir.resolve(object));
        }
    }

    fn needs_barrier(&self, object: Value, value: Value) -> bool {
        self.may_be_object(value) && !self.fresh.contains(&self.mir.resolve(object))
    }

    /// Whether a value may be a reference to an object of the heap.
    fn may_be_object(&self, value: Value) -> bool {
        let is_null = matches!(self.constant_of(value), Some(Constant::Null(_)));
        !is_null && self.env.is_traced(self.mir.value_type(self.mir.resolve(value)))
    }

    /// Behind the store of `value` into the field at `offset` bytes of a struct.
    pub(super) fn struct_barrier(&mut self, kind: StorageKind, object: Value, offset: u32, value: Value) {
        if kind != StorageKind::Ref || !self.needs_barrier(object, value) {
            return;
        }
        let reference = self.value(object);
        match self.env.plan.store_barrier {
            BarrierPlan::None => {}
            BarrierPlan::Cards(plan) => self.if_young(plan, value, |l| l.mark_card(plan, reference)),
            BarrierPlan::StoreBuffer(plan, buffer) => self.if_young(plan, value, |l| {
                l.if_old(plan, reference, |l| {
                    let slot = l.b.ins().iadd_imm_s(reference, i64::from(offset));
                    l.push_slot(buffer, slot);
                });
            }),
        }
    }

    /// Whether a store into an element of an array has a barrier.
    pub(super) fn array_needs_barrier(&self, kind: StorageKind, array: Value, value: Value) -> bool {
        self.env.plan.store_barrier != BarrierPlan::None && kind == StorageKind::Ref && self.needs_barrier(array, value)
    }

    /// Behind the store of `value` into an element of an array. `element` gives the element's cage offset: an element's
    /// card is that of its own place, wherever the array's parts lie.
    pub(super) fn array_barrier(
        &mut self,
        kind: StorageKind,
        array: Value,
        value: Value,
        element: impl FnOnce(&mut Self) -> ir::Value,
    ) {
        if !self.array_needs_barrier(kind, array, value) {
            return;
        }
        match self.env.plan.store_barrier {
            BarrierPlan::None => {}
            BarrierPlan::Cards(plan) | BarrierPlan::StoreBuffer(plan, _) => {
                self.if_young(plan, value, |l| {
                    let element = element(l);
                    l.mark_card(plan, element);
                });
            }
        }
    }

    /// Behind the store of `value` into a table. `card` gives the address of the element's card.
    pub(super) fn table_barrier(&mut self, value: Value, card: impl FnOnce(&mut Self) -> ir::Value) {
        if !self.may_be_object(value) {
            return;
        }
        match self.env.plan.store_barrier {
            BarrierPlan::None => {}
            BarrierPlan::Cards(plan) | BarrierPlan::StoreBuffer(plan, _) => self.if_young(plan, value, |l| {
                let card = card(l);
                let flags = l.flags(Region::Cards);
                let dirty = l.b.ins().iconst(types::I32, 1);
                l.b.ins().istore8(flags, dirty, card, 0);
            }),
        }
    }

    /// Does something where a value is a reference to a young object.
    fn if_young(&mut self, plan: RememberedPlan, value: Value, remember: impl FnOnce(&mut Self)) {
        let value = self.value(value);
        let age = self.age(plan, value);
        let [young, rejoin] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(age, young, &[], rejoin, &[]);
        self.b.switch_to_block(young);
        self.apart(remember);
        self.b.ins().jump(rejoin, &[]);
        self.b.switch_to_block(rejoin);
    }

    /// Does something where a reference leads to an old object.
    fn if_old(&mut self, plan: RememberedPlan, object: ir::Value, remember: impl FnOnce(&mut Self)) {
        let age = self.age(plan, object);
        let [old, rejoin] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(age, rejoin, &[], old, &[]);
        self.b.switch_to_block(old);
        self.apart(remember);
        self.b.ins().jump(rejoin, &[]);
        self.b.switch_to_block(rejoin);
    }

    /// Emits code that is not always reached: base addresses and inline lengths loaded there are not used behind it.
    pub(super) fn apart(&mut self, emit: impl FnOnce(&mut Self)) {
        let cold = std::mem::replace(&mut self.cold, true);
        emit(self);
        self.cold = cold;
    }

    /// The age of the block that a reference leads to.
    fn age(&mut self, plan: RememberedPlan, reference: ir::Value) -> ir::Value {
        let block = self.b.ins().ushr_imm_u(reference, i64::from(plan.block_log2));
        let block = self.b.ins().uextend(POINTER, block);
        let cage = self.cage();
        let address = self.b.ins().iadd(cage, block);
        let flags = self.flags(Region::Ages);
        self.b.ins().uload8(types::I32, flags, address, -(plan.ages_below as i32))
    }

    /// Pushes the cage offset of a slot (32 bits) to the store buffer.
    fn push_slot(&mut self, buffer: u32, slot: ir::Value) {
        let cursor_offset = (buffer as usize + std::mem::offset_of!(BufferWords, cursor)) as i32;
        let limit_offset = (buffer as usize + std::mem::offset_of!(BufferWords, limit)) as i32;
        let mutator = self.mutator();
        let flags = self.flags(Region::StoreBuffer).with_aligned();
        let cursor = self.b.ins().load(POINTER, flags, mutator, cursor_offset);
        self.b.ins().store(flags, slot, cursor, 0);
        let next = self.b.ins().iadd_imm_s(cursor, 4);
        self.b.ins().store(flags, next, mutator, cursor_offset);
        let limit = self.b.ins().load(POINTER, flags, mutator, limit_offset);
        let is_full = self.b.ins().icmp(IntCC::Equal, next, limit);
        let [full, rejoin] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(is_full, full, &[], rejoin, &[]);
        self.b.set_cold_block(full);
        self.b.switch_to_block(full);
        let function = self.builtin_ref(Builtin::FlushStoreBuffer);
        self.b.ins().call(function, &[self.context]);
        self.b.ins().jump(rejoin, &[]);
        self.b.switch_to_block(rejoin);
    }

    /// Marks the card that cage offset `offset` (32 bits) lies in.
    fn mark_card(&mut self, plan: RememberedPlan, offset: ir::Value) {
        let card = self.b.ins().ushr_imm_u(offset, i64::from(plan.card_log2));
        let card = self.b.ins().uextend(POINTER, card);
        let cage = self.cage();
        let address = self.b.ins().iadd(cage, card);
        let flags = self.flags(Region::Cards);
        let dirty = self.b.ins().iconst(types::I32, 1);
        self.b.ins().istore8(flags, dirty, address, -(plan.cards_below as i32));
    }
}
