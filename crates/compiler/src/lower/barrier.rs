//! The write barrier: what a store of a reference does besides, before and after, by the heap's
//! [`BarrierPlan`](legato_heap::plan::BarrierPlan).
//!
//! Every store into an object, a table or a global is made here, by [`Lowering::store`] of a [`Store`], with what comes
//! before, or by [`Lowering::store_in_object`], which *mirrors* it, too: stores it in the object's other copy, where
//! there can be one. Where it has become known how to find what was stored into, one of the `after_` functions follows.
//! Of a field, [`Lowering::store_field`] makes the store with all of it, and none of it where the object is young.
//! Nothing comes before an *initialising* store, into an object that is new: allocated in the same block with no
//! safepoint since, so that no collection has seen it. Nothing comes after one, either, nor where the value can be no
//! object. A reference that is stored is *healed* in either case, where it may be one to an old copy. The checker
//! ([`verify`](super::verify)) finds stores of references that are not made here, or without a barrier where the object
//! may be old, and stores that are not mirrored.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use legato_heap::MutatorContext;
use legato_heap::layout::StorageKind;
use legato_heap::plan::{BarrierPlan, BufferWords, MirrorPlan, RememberedPlan, SnapshotPlan};

use super::Lowering;
use super::access::Region;
use super::env::POINTER;
use crate::abi::Builtin;
use crate::mir::{Constant, Value};

/// What is stored into.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Container {
    /// The field of a struct at an offset in bytes.
    Struct(Value, u32),
    /// An element of an array.
    Array(Value),
    /// An element of a table.
    Table,
    /// A global, which is a root at every collection.
    Global,
}

/// A value that is stored, with what comes before and after.
#[derive(Clone, Copy)]
pub(super) struct Store {
    pub(super) value: ir::Value,
    /// Whether all bits of the value are zero, where that is known.
    pub(super) is_zero: Option<bool>,
    kind: StorageKind,
    /// Whether the value may be a reference to an old copy, where there can be any.
    heals: bool,
    holder: Option<Holder>,
    before: Option<SnapshotPlan>,
    mirror: Option<Mirror>,
    after: Option<After>,
}

/// The object that is stored into, which may have another copy.
#[derive(Clone, Copy)]
struct Mirror {
    plan: MirrorPlan,
    object: ir::Value,
}

/// The object that is stored into, where nothing comes before or after while it is young.
#[derive(Clone, Copy)]
struct Holder {
    plan: RememberedPlan,
    object: ir::Value,
}

/// What comes after a store.
#[derive(Clone, Copy)]
struct After {
    plan: RememberedPlan,
    container: Container,
    value: Value,
}

impl Store {
    /// A store of a `kind` into a new object.
    pub(super) fn initialising(kind: StorageKind, value: ir::Value) -> Store {
        Store {
            value,
            is_zero: None,
            kind,
            heals: kind == StorageKind::Ref,
            holder: None,
            before: None,
            mirror: None,
            after: None,
        }
    }

    /// What is stored there.
    pub(super) fn kind(&self) -> StorageKind {
        self.kind
    }

    /// Whether more than the reference itself is read or written, so that a call makes for less code.
    pub(super) fn has_barrier(&self) -> bool {
        self.kind == StorageKind::Ref && (self.before.is_some() || self.after.is_some())
    }

    /// Whether one of the `after_` functions emits something.
    pub(super) fn has_after(&self) -> bool {
        self.after.is_some()
    }
}

impl Lowering<'_, '_> {
    /// Notes that a value holds an object allocated just now.
    pub(super) fn note_fresh(&mut self, object: Value) {
        if self.env.plan.store_barrier != BarrierPlan::NONE {
            self.fresh.push(self.mir.resolve(object));
        }
    }

    /// Whether a container may have been seen by a collection.
    fn is_seen(&self, container: Container) -> bool {
        match container {
            Container::Struct(object, _) | Container::Array(object) => !self.fresh.contains(&self.mir.resolve(object)),
            Container::Table | Container::Global => true,
        }
    }

    /// Whether a value may be a reference to an object of the heap.
    fn may_be_object(&self, value: Value) -> bool {
        let is_null = matches!(self.constant_of(value), Some(Constant::Null(_)));
        !is_null && self.env.is_traced(self.mir.value_type(self.mir.resolve(value)))
    }

    /// Whether a value may be a reference to an old copy of an object: one that is new has none.
    fn may_be_stale(&self, value: Value) -> bool {
        self.may_be_object(value) && !self.fresh.contains(&self.mir.resolve(value))
    }

    /// A store of a number into an array that a collection may have seen.
    pub(super) fn store_number(&mut self, kind: StorageKind, array: ir::Value, value: ir::Value) -> Store {
        let mirror = self.env.plan.store_barrier.mirror.map(|plan| Mirror { plan, object: array });
        Store { mirror, ..Store::initialising(kind, value) }
    }

    /// A store of a value into a container that holds a `kind` there.
    pub(super) fn store_into(&mut self, container: Container, kind: StorageKind, value: Value) -> Store {
        let plan = &self.env.plan.store_barrier;
        let is_seen = self.is_seen(container);
        let mirror = match container {
            Container::Struct(object, _) | Container::Array(object) if is_seen => {
                plan.mirror.map(|plan| Mirror { plan, object: self.value(object) })
            }
            _ => None,
        };
        let (before, after) = match kind == StorageKind::Ref && is_seen {
            true => (plan.before, plan.after.filter(|_| container != Container::Global && self.may_be_object(value))),
            false => (None, None),
        };
        let holder = match container {
            Container::Struct(object, _) if before.is_some() => {
                plan.after.map(|plan| Holder { plan, object: self.value(object) })
            }
            _ => None,
        };
        if before.is_some() && holder.is_none() || mirror.is_some() || plan.heal.is_some() {
            // Loaded here, for each of the blocks that may store.
            self.mutator();
        }
        Store {
            value: self.value(value),
            is_zero: self.constant_of(value).map(Constant::is_zero),
            kind,
            heals: kind == StorageKind::Ref && self.may_be_stale(value),
            holder,
            before,
            mirror,
            after: after.map(|plan| After { plan, container, value }),
        }
    }

    /// An initialising store of a value.
    pub(super) fn store_into_new(&mut self, kind: StorageKind, value: Value) -> Store {
        let heals = self.may_be_stale(value);
        Store { heals, ..Store::initialising(kind, self.value(value)) }
    }

    /// Stores a value, behind what comes before: into what has no other copy.
    pub(super) fn store(&mut self, store: &Store, flags: MemFlagsData, address: ir::Value, offset: i32) {
        debug_assert!(store.mirror.is_none(), "stores into objects are mirrored");
        self.store_in_object(store, flags, address, offset, |_, other| (other, offset));
    }

    /// Stores a value into an object, or into a leaf of its, behind what comes before, and into the object's other
    /// copy, if there is one. `in_other` finds the place, given the address of that copy.
    ///
    /// What leads to an old copy is healed behind the store, where it has to be, by a second one: so that the code
    /// which is usual has no value that comes from two blocks, of which the register allocator would have to see to
    /// thousands where a function fills many objects.
    pub(super) fn store_in_object(
        &mut self,
        store: &Store,
        flags: MemFlagsData,
        address: ir::Value,
        offset: i32,
        in_other: impl FnOnce(&mut Self, ir::Value) -> (ir::Value, i32),
    ) {
        if let Some(plan) = store.before {
            self.tell_overwritten(plan, flags, address, offset);
        }
        let inst = self.write(store.kind, flags, store.value, address, offset);
        self.note_store(inst, store.mirror.is_some());
        let heal = self.env.plan.store_barrier.heal.filter(|_| store.heals);
        let healing = heal.map(|plan| (plan.state_offset, MutatorContext::STALE));
        let mirroring = store.mirror.map(|mirror| (mirror.plan.state_offset, MutatorContext::REPLICAS));
        let Some((state_offset, _)) = healing.or(mirroring) else { return };
        let bits = [healing, mirroring].into_iter().flatten().fold(0, |bits, (_, bit)| bits | bit);
        let [cold, rejoin] = self.if_state(state_offset, bits);
        self.b.set_cold_block(cold);
        self.b.switch_to_block(cold);
        self.apart(|l| {
            let Some(Mirror { plan, object }) = store.mirror else {
                let plan = heal.expect("it is for one of both");
                l.unless_object(store.value, rejoin, &[]);
                let healed = l.current(store.value, plan.forwarding_offset, plan.word);
                let again = l.write(store.kind, flags, healed, address, offset);
                l.note_healed(inst, again, healed, store.value);
                return;
            };
            // Either bit may be set alone. While objects are moved, what is stored may be healed before it has to be;
            // what has no other copy names itself as that.
            let value = heal.map_or(store.value, |plan| {
                let healed = l.canonical(store.value, plan.forwarding_offset, plan.word);
                let again = l.write(store.kind, flags, healed, address, offset);
                l.note_healed(inst, again, healed, store.value);
                healed
            });
            let other = l.other_copy(object, plan);
            let (address, offset) = in_other(l, other);
            let mirrored = l.write(store.kind, flags, value, address, offset);
            l.note_mirror(inst, mirrored);
        });
        self.b.ins().jump(rejoin, &[]);
        self.b.switch_to_block(rejoin);
    }

    /// Ends the block with a branch to the first of two new ones where the state of barriers has one of these bits set.
    fn if_state(&mut self, state_offset: u32, bits: u32) -> [ir::Block; 2] {
        let mutator = self.mutator();
        let flags = self.flags(Region::BarrierState).with_aligned();
        let state = self.b.ins().load(types::I32, flags, mutator, state_offset as i32);
        let set = self.b.ins().band_imm_u(state, i64::from(bits));
        let blocks = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(set, blocks[0], &[], blocks[1], &[]);
        blocks
    }

    fn write(
        &mut self,
        kind: StorageKind,
        flags: MemFlagsData,
        value: ir::Value,
        address: ir::Value,
        offset: i32,
    ) -> ir::Inst {
        // The low half of a wider value is stored from there: as a value of its own, Cranelift would compute it a
        // second time, of the operands' low halves.
        let wider = self.wider_than(value).filter(|_| kind == StorageKind::I32);
        let ins = self.b.ins();
        match (kind, wider) {
            (StorageKind::I8, _) => ins.istore8(flags, value, address, offset),
            (StorageKind::I16, _) => ins.istore16(flags, value, address, offset),
            (StorageKind::V128, _) => ins.store(flags, value, address, offset),
            (_, Some(wider)) => ins.istore32(flags.with_aligned(), wider, address, offset),
            (_, None) => ins.store(flags.with_aligned(), value, address, offset),
        }
    }

    /// The value of 64 bits that this one is the low half of, if it was made so.
    fn wider_than(&self, value: ir::Value) -> Option<ir::Value> {
        let dfg = &self.b.func.dfg;
        match dfg.insts[dfg.value_def(value).inst()?] {
            ir::InstructionData::Unary { opcode: ir::Opcode::Ireduce, arg } => Some(arg),
            _ => None,
        }
    }

    /// Tells the collector of a reference that is about to be overwritten, where it wants to know.
    fn tell_overwritten(&mut self, plan: SnapshotPlan, flags: MemFlagsData, address: ir::Value, offset: i32) {
        let mutator = self.mutator();
        let state_flags = self.flags(Region::BarrierState).with_aligned();
        let mut state = self.b.ins().load(types::I32, state_flags, mutator, plan.state_offset as i32);
        let plan = &self.env.plan.store_barrier;
        if plan.heal.is_some() || plan.mirror.is_some() {
            state = self.b.ins().band_imm_u(state, i64::from(MutatorContext::MARKING));
        }
        let [marking, rejoin] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(state, marking, &[], rejoin, &[]);
        self.b.set_cold_block(marking);
        self.b.switch_to_block(marking);
        self.apart(|l| {
            let old = l.b.ins().load(types::I32, flags.with_aligned(), address, offset);
            // A way of its own for null, too: where both lead straight to what follows, the moves of registers between
            // the blocks lie on the way that is usual, which has to jump over them.
            let [record, null] = [(); 2].map(|()| l.b.create_block());
            l.b.ins().brif(old, record, &[], null, &[]);
            l.b.set_cold_block(record);
            l.b.switch_to_block(record);
            l.call_cold(Builtin::RecordOverwritten, &[old]);
            l.b.ins().jump(rejoin, &[]);
            l.b.set_cold_block(null);
            l.b.switch_to_block(null);
        });
        self.b.ins().jump(rejoin, &[]);
        self.b.switch_to_block(rejoin);
    }

    /// What is to be stored for a reference, which may lead to an old copy of its object.
    pub(super) fn healed(&mut self, reference: ir::Value) -> ir::Value {
        let Some(plan) = self.env.plan.store_barrier.heal else { return reference };
        let mutator = self.mutator();
        let flags = self.flags(Region::BarrierState).with_aligned();
        let state = self.b.ins().load(types::I32, flags, mutator, plan.state_offset as i32);
        let stale = self.b.ins().band_imm_u(state, i64::from(MutatorContext::STALE));
        let [healing, rejoin] = [(); 2].map(|()| self.b.create_block());
        let healed = self.b.append_block_param(rejoin, types::I32);
        self.b.ins().brif(stale, healing, &[], rejoin, &[reference.into()]);
        self.b.set_cold_block(healing);
        self.b.switch_to_block(healing);
        self.apart(|l| {
            let current = l.canonical(reference, plan.forwarding_offset, plan.word);
            l.b.ins().jump(rejoin, &[current.into()]);
        });
        self.b.switch_to_block(rejoin);
        healed
    }

    /// Stores a value into the field of a struct, with all that comes before and after.
    ///
    /// Where there are both snapshots and generations, the holder is asked for its age first: where that is young,
    /// nothing comes before or after. What is remembered of an old one comes behind the store, which traps where there
    /// is no object.
    pub(super) fn store_field(&mut self, store: &Store, flags: MemFlagsData, address: ir::Value, offset: i32) {
        let Some(Holder { plan, object }) = store.holder else {
            self.store_in_object(store, flags, address, offset, |_, other| (other, offset));
            return self.after_field(store, true);
        };
        let object = self.object_offset(object);
        let age = self.age(plan, object);
        let [young, old, rejoin] = [(); 3].map(|()| self.b.create_block());
        self.b.ins().brif(age, young, &[], old, &[]);
        self.b.switch_to_block(old);
        self.apart(|l| {
            l.store_in_object(store, flags, address, offset, |_, other| (other, offset));
            l.after_field(store, false);
        });
        self.b.ins().jump(rejoin, &[]);
        self.b.switch_to_block(young);
        let inst = self.write(store.kind, flags, store.value, address, offset);
        self.note_store(inst, store.mirror.is_some());
        self.note_young(inst, age);
        self.b.ins().jump(rejoin, &[]);
        self.b.switch_to_block(rejoin);
    }

    /// After a store into the field of a struct, which may be young or is known to be old.
    fn after_field(&mut self, store: &Store, may_be_young: bool) {
        let Some(After { plan, container: Container::Struct(object, offset), value }) = store.after else { return };
        let reference = self.value(object);
        self.if_young(plan, value, |l| {
            let object = l.object_offset(reference);
            let push = |l: &mut Self, buffer| {
                let slot = l.b.ins().iadd_imm_s(object, i64::from(offset));
                l.push_slot(buffer, slot);
            };
            match plan.store_buffer {
                None => l.mark_card(plan, object),
                Some(buffer) if may_be_young => l.if_old(plan, object, |l| push(l, buffer)),
                Some(buffer) => push(l, buffer),
            }
        });
    }

    /// After a store into an element of an array. `element` gives the element's cage offset: an element's card is that
    /// of its own place, wherever the array's parts lie.
    pub(super) fn after_element(&mut self, store: &Store, element: impl FnOnce(&mut Self) -> ir::Value) {
        let Some(After { plan, value, .. }) = store.after else { return };
        self.if_young(plan, value, |l| {
            let element = element(l);
            l.mark_card(plan, element);
        });
    }

    /// After a store into a table. `card` gives the address of the element's card.
    pub(super) fn after_table(&mut self, store: &Store, card: impl FnOnce(&mut Self) -> ir::Value) {
        let Some(After { plan, value, .. }) = store.after else { return };
        self.if_young(plan, value, |l| {
            let card = card(l);
            let flags = l.flags(Region::Cards);
            let dirty = l.b.ins().iconst(types::I32, 1);
            l.b.ins().istore8(flags, dirty, card, 0);
        });
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

    /// Does something where the object at a cage offset is old.
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

    /// The age of the block that a cage offset lies in.
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
