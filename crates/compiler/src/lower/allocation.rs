//! The inline allocation sequence: take a cell by bumping a cursor, write the header; a cold call otherwise.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use legato_heap::layout::{HEADER_BYTES, StorageKind, StructLayout};
use legato_heap::plan::InlineRun;
use smallvec::{SmallVec, smallvec};

use super::Lowering;
use super::access::{Region, TypeIdOperand};
use super::arrays::ArrayShape;
use super::env::{ModuleEnv, POINTER};
use super::located::Located;
use super::runs::{Bumped, RunPlace};
use crate::abi::Builtin;
use crate::mir::{self, Collects};
use crate::passes::analysis::SafepointKey;

/// Where cells are not zeroed beforehand, objects up to this size are zeroed inline.
const INLINE_ZEROING_BYTES: u32 = 128;

/// A new object: its reference and the address of its header.
#[derive(Clone, Copy)]
pub(super) struct NewObject {
    pub(super) reference: ir::Value,
    pub(super) address: ir::Value,
}

/// What to allocate inline.
pub(super) struct Shape {
    /// Where its memory comes from.
    pub(super) run: InlineRun,
    /// Object size in bytes.
    pub(super) bytes: u32,
    /// Arrays: the length, and where the parts lie.
    pub(super) array: Option<(u32, ArrayShape)>,
    /// Whether the caller writes every field, so that nothing has to be zeroed.
    pub(super) filled: bool,
}

/// How many allocations a function has that might be made inline: all but those in cold blocks, and of exceptions that
/// are thrown at once.
pub(super) fn count(mir: &mir::Function, order: &[mir::Block], fused_throws: &[bool]) -> usize {
    let blocks = order.iter().map(|block| &mir.blocks[block.index()]);
    let insts = blocks.filter(|block| !block.cold).flat_map(|block| &block.insts);
    let allocates = |inst: &mir::Inst| mir.insts[inst.index()].op.properties().collects == Collects::Allocating;
    insts.filter(|inst| !fused_throws[inst.index()] && allocates(inst)).count()
}

impl ModuleEnv<'_> {
    /// Where to allocate a struct inline, if anywhere. `filled`: every field is written afterwards.
    pub(super) fn inline_struct(&self, inline: bool, layout: &StructLayout, filled: bool) -> Option<InlineRun> {
        self.inline_run(inline, layout.bytes, filled)
    }

    pub(super) fn inline_run(&self, inline: bool, bytes: u32, filled: bool) -> Option<InlineRun> {
        if !inline || !(filled || self.plan.fresh_memory_is_zero || bytes <= INLINE_ZEROING_BYTES) {
            return None;
        }
        self.plan.allocation.inline_run(bytes)
    }
}

impl Lowering<'_, '_> {
    /// Allocates a struct with fields laid out so. Its fields hold zeros, or (with `filled`) anything.
    pub(super) fn allocate_struct(
        &mut self,
        type_id: TypeIdOperand,
        layout: &StructLayout,
        filled: bool,
        key: SafepointKey,
    ) -> NewObject {
        match self.env.inline_struct(self.inline_allocation, layout, filled) {
            Some(run) => {
                let shape = Shape { run, bytes: layout.bytes, array: None, filled };
                self.allocate_inline(type_id, shape, key)
            }
            None => {
                let type_id = self.type_id_value(type_id);
                let reference = self.builtin_safepoint(Builtin::AllocateStruct, &[type_id], key);
                let address = self.object(reference, None, 0).address;
                NewObject { reference, address }
            }
        }
    }

    /// Allocates an array whose length is known. As [`Self::allocate_struct`].
    pub(super) fn allocate_array(
        &mut self,
        type_id: TypeIdOperand,
        kind: StorageKind,
        length: u32,
        filled: bool,
        key: SafepointKey,
    ) -> NewObject {
        match self.env.inline_array(self.inline_allocation, kind, length, filled) {
            Some(run) => {
                let array = self.env.array_shape(kind, length).expect("an array allocated inline has a shape");
                let shape = Shape { run, bytes: array.bytes, array: Some((length, array)), filled };
                self.allocate_inline(type_id, shape, key)
            }
            None => {
                let (builtin, args) = self.slow_allocation(type_id, Some(length));
                let reference = self.builtin_safepoint(builtin, &args, key);
                let address = self.object(reference, None, 0).address;
                NewObject { reference, address }
            }
        }
    }

    /// The builtin that allocates an object of a type, an array if there is a length, and its arguments.
    fn slow_allocation(&mut self, type_id: TypeIdOperand, length: Option<u32>) -> (Builtin, SmallVec<[ir::Value; 2]>) {
        let type_id = self.type_id_value(type_id);
        match length {
            Some(length) => {
                let length = self.b.ins().iconst(types::I32, i64::from(length));
                (Builtin::AllocateArray, smallvec![type_id, length])
            }
            None => (Builtin::AllocateStruct, smallvec![type_id]),
        }
    }

    fn allocate_inline(&mut self, type_id: TypeIdOperand, shape: Shape, key: SafepointKey) -> NewObject {
        let plan = self.env.plan;
        let InlineRun { run_offset, queue_offset, cell_bytes } = shape.run;
        let run = run_offset as i32;
        // Both paths use these: load them where they dominate both.
        let mutator = self.mutator();
        self.cage();
        let slow = self.b.create_block();
        let fast = self.b.create_block();
        let join = self.b.create_block();
        let reference = self.b.append_block_param(join, POINTER);
        let address = self.b.append_block_param(join, POINTER);

        // 64 bits, so that the sum cannot wrap.
        let flags = self.flags(Region::Runs).with_aligned();
        let cursor = self.b.ins().uload32(flags, mutator, run);
        let limit = self.b.ins().uload32(flags, mutator, run + 4);
        let next = self.b.ins().iadd_imm_s(cursor, i64::from(cell_bytes));
        let fits = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, next, limit);
        let bump = match queue_offset {
            None => {
                self.b.ins().brif(fits, fast, &[], slow, &[]);
                self.b.switch_to_block(fast);
                Bumped { cursor, next }
            }
            Some(queue) => {
                let cell = self.b.ins().iconst(POINTER, i64::from(cell_bytes));
                let place = RunPlace { base: mutator, run, queue: queue as i32 };
                self.bump_or_take_run(fits, Bumped { cursor, next }, place, cell, fast, slow)
            }
        };
        let Bumped { cursor, next } = bump;
        let handle = self.prepare_handle(slow, shape.array.is_some());
        let flags = self.flags(Region::Runs).with_aligned();
        self.b.ins().istore32(flags, next, mutator, run);
        let new = self.name_cell(cursor, handle);
        let length = shape.array.map(|(length, _)| self.b.ins().iconst(types::I32, i64::from(length)));
        self.write_header(type_id, &new, length.filter(|_| self.env.has_inline_lengths()));
        if !shape.filled && !plan.fresh_memory_is_zero {
            self.zero(new.address, shape.bytes);
        }
        if let (Some(length), Some((_, array))) = (length, shape.array) {
            self.write_array_length(length, &new);
            if let Some(pointer) = array.pointer {
                let to = self.b.ins().iadd_imm_s(cursor, i64::from(array.elements));
                let flags = self.flags(Region::LeafPointers).with_aligned();
                self.b.ins().istore32(flags, to, new.address, pointer as i32);
            }
        }
        let passed = self.widen(new.reference);
        self.b.ins().jump(join, &[passed.into(), new.address.into()]);

        self.b.set_cold_block(slow);
        self.b.switch_to_block(slow);
        self.cold = true;
        let (builtin, args) = self.slow_allocation(type_id, shape.array.map(|(length, _)| length));
        let slow_reference = self.builtin_cold_safepoint(builtin, &args, key);
        let slow_object = self.object(slow_reference, None, 0);
        let passed = self.widen(slow_reference);
        self.b.ins().jump(join, &[passed.into(), slow_object.address.into()]);
        self.cold = false;

        self.b.switch_to_block(join);
        let reference = self.narrow(reference);
        self.note_located(reference, Located::Address(address));
        NewObject { reference, address }
    }

    /// Zeroes the words of a cell behind its header. Of no region: it touches them all.
    fn zero(&mut self, address: ir::Value, bytes: u32) {
        let zero = self.b.ins().iconst(types::I64, 0);
        let flags = ir::MemFlagsData::new().with_notrap().with_aligned();
        for offset in (HEADER_BYTES..bytes).step_by(8) {
            self.b.ins().store(flags, zero, address, offset as i32);
        }
    }
}
