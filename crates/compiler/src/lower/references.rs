//! From a reference to its object (axis `references`), and from a new cell to its reference: by the data of the
//! [`ReferencePlan`](legato_heap::plan::ReferencePlan), whichever model publishes it.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use legato_heap::layout::{ARRAY_LENGTH_OFFSET, INLINE_LENGTH_OFFSET, TYPE_ID_OFFSET};
use legato_heap::plan::{CollectorWord, ForwardingWord, HandleRun, HeaderWord, MirrorPlan, ObjectAt, SameObject};

use super::Lowering;
use super::access::{Region, TypeIdOperand, trap};
use super::env::POINTER;
use super::located::Located;
use super::runs::{Bumped, RunPlace};
use crate::artifact::TrapCode;

/// An object's address, and the trap that an access to its first bytes raises where the reference was null.
#[derive(Clone, Copy)]
pub(super) struct Object {
    pub(super) address: ir::Value,
    pub(super) null_trap: Option<TrapCode>,
}

/// A free handle.
pub(super) struct FreeHandle {
    run: HandleRun,
    /// Its cage offset, 64 bits.
    handle: ir::Value,
    /// The run's cursor behind it, 64 bits.
    next: ir::Value,
}

/// A new cell.
pub(super) struct NewCell {
    pub(super) address: ir::Value,
    pub(super) reference: ir::Value,
    /// The address of its handle, where it has one.
    handle: Option<ir::Value>,
    /// The collector word of its header (64 bits, in the upper half; `None`: 0).
    collector_word: Option<ir::Value>,
}

impl Lowering<'_, '_> {
    /// The object of a reference. `null` is the trap to raise where the reference is null, `None` where it is known not
    /// to be. `reach` is the offset just behind the bytes that the caller is about to access: where a null reference
    /// makes that access fault, nothing else is checked.
    pub(super) fn object(&mut self, reference: ir::Value, null: Option<TrapCode>, reach: u32) -> Object {
        match self.env.plan.references.object {
            ObjectAt::Itself => self.at_reference(reference, null, reach),
            ObjectAt::Through { .. } => {
                if let Some(address) = self.held_address(reference) {
                    let null_trap = self.null_trap_within(reference, null, reach);
                    return Object { address, null_trap };
                }
                let located = self.locate(reference, null);
                Object { address: self.located_address(located), null_trap: None }
            }
        }
    }

    /// Where the object of a reference lies that leads there through a word: by what has been loaded since the last
    /// safepoint. `null` as for [`object`](Self::object).
    fn locate(&mut self, reference: ir::Value, null: Option<TrapCode>) -> Located {
        let ObjectAt::Through { offset } = self.env.plan.references.object else {
            unreachable!("the reference is the object's offset")
        };
        if let Some(located) = self.located.of(self.widest(reference)) {
            return located;
        }
        let offset = self.load_through(reference, null, offset);
        self.note_address(offset);
        let located = Located::Offset(offset);
        self.note_located(reference, located);
        located
    }

    fn located_address(&mut self, located: Located) -> ir::Value {
        match located {
            Located::Offset(offset) => self.cage_address(offset),
            Located::Address(address) => address,
        }
    }

    /// The address of the object of a reference that leads there through a word. Without a trap: null, which it may be
    /// if it is `nullable`, has the start of the cage.
    pub(super) fn look_up(&mut self, reference: ir::Value, nullable: bool) -> ir::Value {
        let known = self.located.of(self.widest(reference));
        let located = match known {
            Some(known) => known,
            None if nullable => self.locate_nullable(reference),
            None => self.locate(reference, None),
        };
        let address = self.located_address(located);
        self.note_address(address);
        address
    }

    fn locate_nullable(&mut self, reference: ir::Value) -> Located {
        let ObjectAt::Through { offset } = self.env.plan.references.object else {
            unreachable!("the reference is the object's offset")
        };
        // Used on both ways, and behind.
        self.cage();
        let [some, join] = [(); 2].map(|()| self.b.create_block());
        if self.cold {
            self.b.set_cold_block(some);
            self.b.set_cold_block(join);
        }
        let found = self.b.append_block_param(join, POINTER);
        let none = self.b.ins().iconst(POINTER, 0);
        self.b.ins().brif(reference, some, &[], join, &[none.into()]);
        self.b.switch_to_block(some);
        let loaded = self.load_through(reference, None, offset);
        self.note_address(loaded);
        let loaded = self.widen(loaded);
        self.b.ins().jump(join, &[loaded.into()]);
        self.b.switch_to_block(join);
        let found = self.narrow(found);
        self.note_address(found);
        Located::Offset(found)
    }

    /// Notes where the object of a reference lies, where all that follows up to a safepoint is reached through here.
    pub(super) fn note_located(&mut self, reference: ir::Value, located: Located) {
        if !self.cold && matches!(self.env.plan.references.object, ObjectAt::Through { .. }) {
            self.located.insert(self.widest(reference), located);
        }
    }

    /// The cage offset (32 bits) of the object of a reference that is known not to be null.
    pub(super) fn object_offset(&mut self, reference: ir::Value) -> ir::Value {
        match self.env.plan.references.object {
            ObjectAt::Itself => reference,
            ObjectAt::Through { .. } => {
                let located = self.held_address(reference).map(Located::Address);
                match located.unwrap_or_else(|| self.locate(reference, None)) {
                    Located::Offset(offset) => offset,
                    Located::Address(address) => {
                        let cage = self.cage();
                        let wide = self.b.ins().isub(address, cage);
                        let offset = self.narrow(wide);
                        self.note_address(offset);
                        offset
                    }
                }
            }
        }
    }

    /// Loads the type id of a reference's object. `null` as for [`object`](Self::object).
    pub(super) fn object_type_id(&mut self, reference: ir::Value, null: Option<TrapCode>) -> ir::Value {
        self.header_word(self.env.plan.references.type_id, Region::Headers, reference, null)
    }

    /// Loads the length of a reference's array. `null` as for [`object`](Self::object).
    pub(super) fn array_length(&mut self, reference: ir::Value, null: Option<TrapCode>) -> ir::Value {
        self.header_word(self.env.plan.references.array_length, Region::Lengths, reference, null)
    }

    /// Whether two references are the same, as a 32-bit 0 or 1.
    pub(super) fn same_object(&mut self, left: ir::Value, right: ir::Value) -> ir::Value {
        let equal = self.b.ins().icmp(IntCC::Equal, left, right);
        let SameObject::Canonical { offset, word } = self.env.plan.references.same else { return self.boolean(equal) };
        let [differ, join] = [(); 2].map(|()| self.b.create_block());
        let same = self.b.append_block_param(join, types::I32);
        let one = self.b.ins().iconst(types::I32, 1);
        self.b.ins().brif(equal, join, &[one.into()], differ, &[]);
        self.b.switch_to_block(differ);
        self.apart(|l| {
            let [left, right] = [left, right].map(|reference| l.canonical(reference, offset, word));
            let equal = l.b.ins().icmp(IntCC::Equal, left, right);
            let equal = l.boolean(equal);
            l.b.ins().jump(join, &[equal.into()]);
        });
        self.b.switch_to_block(join);
        same
    }

    /// The reference that a reference's object has now, by the word at this offset; of null and immediates, the
    /// reference.
    pub(super) fn canonical(&mut self, reference: ir::Value, offset: u32, word: ForwardingWord) -> ir::Value {
        let join = self.b.create_block();
        let canonical = self.b.append_block_param(join, types::I32);
        self.unless_object(reference, join, &[reference.into()]);
        let current = self.current(reference, offset, word);
        self.b.ins().jump(join, &[current.into()]);
        self.b.switch_to_block(join);
        canonical
    }

    /// Goes to `otherwise` where a reference is null or an immediate. What follows is reached where it is neither.
    pub(super) fn unless_object(&mut self, reference: ir::Value, otherwise: ir::Block, args: &[ir::BlockArg]) {
        let [not_null, object] = [(); 2].map(|()| self.b.create_block());
        if self.cold {
            self.b.set_cold_block(not_null);
            self.b.set_cold_block(object);
        }
        self.b.ins().brif(reference, not_null, &[], otherwise, args);
        self.b.switch_to_block(not_null);
        let immediate = self.b.ins().band_imm_u(reference, 1);
        self.b.ins().brif(immediate, otherwise, args, object, &[]);
        self.b.switch_to_block(object);
    }

    /// The reference that the object of a reference, neither null nor an immediate, has now, by the word at this
    /// offset.
    pub(super) fn current(&mut self, reference: ir::Value, offset: u32, word: ForwardingWord) -> ir::Value {
        let read = self.load_through(reference, None, offset);
        match word {
            ForwardingWord::Current => read,
            ForwardingWord::OtherCopy => {
                let is_old = self.b.ins().band_imm_u(read, 1);
                let other = self.b.ins().band_imm_s(read, -2);
                self.b.ins().select(is_old, other, reference)
            }
        }
    }

    /// Where the other copy of an object lies, or the object itself, where there is none: its address. The reference is
    /// known not to be null.
    pub(super) fn other_copy(&mut self, reference: ir::Value, plan: MirrorPlan) -> ir::Value {
        let word = self.load_through(reference, None, plan.other_offset);
        let other = self.b.ins().band_imm_s(word, -2);
        self.note_address(other);
        self.cage_address(other)
    }

    /// What a reference is the offset of. As for [`object`](Self::object).
    fn at_reference(&mut self, reference: ir::Value, null: Option<TrapCode>, reach: u32) -> Object {
        let null_trap = self.null_trap_within(reference, null, reach);
        Object { address: self.cage_address(reference), null_trap }
    }

    /// Where null has the start of the cage as its object: checks for null, unless an access before `reach` does that.
    /// Returns the trap which that access is to raise.
    fn null_trap_within(&mut self, reference: ir::Value, null: Option<TrapCode>, reach: u32) -> Option<TrapCode> {
        match null {
            Some(code) if reach > self.env.plan.null_guard_bytes => {
                self.trap_if_null(reference, code);
                None
            }
            null => null,
        }
    }

    /// Loads the word at `offset` from a reference that leads to the object.
    fn load_through(&mut self, reference: ir::Value, null: Option<TrapCode>, offset: u32) -> ir::Value {
        let (base, offset) = self.header_base(HeaderWord::AtReference { offset }, reference, null);
        // Without handles, it is the collector word, which is written with the type id.
        let region = if self.env.plan.references.handles.is_some() { Region::Handles } else { Region::Headers };
        let flags = self.flags_trapping(region, base.null_trap);
        self.load_reference(flags, base.address, offset as i32)
    }

    fn header_word(
        &mut self,
        word: HeaderWord,
        region: Region,
        reference: ir::Value,
        null: Option<TrapCode>,
    ) -> ir::Value {
        let (base, offset) = self.header_base(word, reference, null);
        let flags = self.flags_trapping(region, base.null_trap).with_aligned();
        self.b.ins().load(types::I32, flags, base.address, offset as i32)
    }

    fn header_base(&mut self, word: HeaderWord, reference: ir::Value, null: Option<TrapCode>) -> (Object, u32) {
        match word {
            HeaderWord::InObject { offset } => (self.object(reference, null, offset + 4), offset),
            HeaderWord::AtReference { offset } => (self.at_reference(reference, null, offset + 4), offset),
        }
    }

    /// Checks, before a cell is taken for an array or another object, that a handle is free, where it needs one;
    /// otherwise goes to `slow`.
    pub(super) fn prepare_handle(&mut self, slow: ir::Block, is_array: bool) -> Option<FreeHandle> {
        let run = self.env.plan.references.handles?.run(is_array);
        let offset = run.run_offset as i32;
        let mutator = self.mutator();
        let flags = self.flags(Region::Runs).with_aligned();
        let handle = self.b.ins().uload32(flags, mutator, offset);
        let limit = self.b.ins().uload32(flags, mutator, offset + 4);
        let next = self.b.ins().iadd_imm_s(handle, i64::from(run.bytes));
        let fits = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, next, limit);
        let taken = self.b.create_block();
        let bytes = self.b.ins().iconst(POINTER, i64::from(run.bytes));
        let place = RunPlace { base: mutator, run: offset, queue: run.queue_offset as i32 };
        let bump = Bumped { cursor: handle, next };
        let Bumped { cursor, next } = self.bump_or_take_run(fits, bump, place, bytes, taken, slow);
        Some(FreeHandle { run, handle: cursor, next })
    }

    /// Makes the reference of the cell at cage offset `cursor` (64 bits).
    pub(super) fn name_cell(&mut self, cursor: ir::Value, handle: Option<FreeHandle>) -> NewCell {
        let plan = self.env.plan.references;
        let reference = handle.as_ref().map_or(cursor, |free| free.handle);
        let handle = handle.map(|free| self.take_handle(free, cursor));
        let cage = self.cage();
        let address = self.b.ins().iadd(cage, cursor);
        let collector_word = match plan.collector_word {
            CollectorWord::Zero => None,
            CollectorWord::Reference => Some(self.b.ins().ishl_imm_u(reference, 32)),
        };
        let reference = self.narrow(reference);
        self.note_reference(reference);
        self.note_reference(address);
        self.note_address(address);
        NewCell { address, reference, handle, collector_word }
    }

    /// Takes a handle for the object at cage offset `object` (64 bits). Returns the handle's address.
    fn take_handle(&mut self, free: FreeHandle, object: ir::Value) -> ir::Value {
        let mutator = self.mutator();
        let flags = self.flags(Region::Runs).with_aligned();
        self.b.ins().istore32(flags, free.next, mutator, free.run.run_offset as i32);
        let cage = self.cage();
        let address = self.b.ins().iadd(cage, free.handle);
        if let ObjectAt::Through { offset } = self.env.plan.references.object {
            let flags = self.flags(Region::Handles).with_aligned();
            self.b.ins().istore32(flags, object, address, offset as i32);
        }
        address
    }

    /// Writes the header of a new object: its type id, and its collector word, or what an array has in the place of it:
    /// its inline length.
    pub(super) fn write_header(&mut self, type_id: TypeIdOperand, new: &NewCell, inline_length: Option<ir::Value>) {
        let flags = self.flags(Region::Headers).with_aligned();
        match inline_length {
            // In two halves, which takes less than to put them together.
            Some(length) => {
                let type_id = self.type_id_value(type_id);
                self.b.ins().store(flags, type_id, new.address, TYPE_ID_OFFSET as i32);
                self.b.ins().store(flags, length, new.address, INLINE_LENGTH_OFFSET as i32);
            }
            None => {
                let mut header = self.wide_type_id_value(type_id);
                if let Some(word) = new.collector_word {
                    header = self.b.ins().bor(header, word);
                }
                self.b.ins().store(flags, header, new.address, TYPE_ID_OFFSET as i32);
            }
        }
        self.write_in_handle(self.env.plan.references.type_id, Region::Headers, new, |l| l.type_id_value(type_id));
    }

    /// Writes the length of a new array.
    pub(super) fn write_array_length(&mut self, length: ir::Value, new: &NewCell) {
        let flags = self.flags(Region::Lengths).with_aligned();
        self.b.ins().store(flags, length, new.address, ARRAY_LENGTH_OFFSET as i32);
        self.write_in_handle(self.env.plan.references.array_length, Region::Lengths, new, |_| length);
    }

    fn write_in_handle(
        &mut self,
        word: HeaderWord,
        region: Region,
        new: &NewCell,
        value: impl FnOnce(&mut Self) -> ir::Value,
    ) {
        if let (HeaderWord::AtReference { offset }, Some(handle)) = (word, new.handle) {
            let value = value(self);
            let flags = self.flags(region).with_aligned();
            self.b.ins().store(flags, value, handle, offset as i32);
        }
    }

    /// An explicit check for null.
    pub(super) fn trap_if_null(&mut self, reference: ir::Value, code: TrapCode) {
        self.b.ins().trapz(reference, trap(code));
    }
}
