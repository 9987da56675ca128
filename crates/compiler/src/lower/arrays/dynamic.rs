//! Inline allocation of arrays whose length is known at run time only: by bumping the one cursor that there is, or that
//! of the size class which a table names for the size.
//!
//! A short array is filled, or zeroed where its memory is not zero yet, by a loop of 8-byte stores; a longer one in the
//! runtime. The loop may run over the padding behind the last element, which belongs to the object.
//!
//! Arrays that may have leaves come from the runtime: where the first N bytes grow, large ones; otherwise those above N
//! bytes; with N = 0 those that are no less than a leaf, as a smaller one has only a remainder (and an empty one not
//! even that, and no pointer either).

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use legato_heap::layout::{OBJECT_ALIGNMENT, StorageKind, array_elements_offset};
use legato_heap::plan::{AllocationPlan, ArrayPlan, MAX_TABLE_BYTES};
use legato_heap::size_classes::MAX_SMALL_BYTES;

use crate::lower::Lowering;
use crate::lower::access::{Region, TypeIdOperand};
use crate::lower::env::{ModuleEnv, POINTER};
use crate::lower::runs::{Bumped, RunPlace};
use crate::mir::Value;
use crate::passes::analysis::SafepointKey;

/// The longest array that is written by an inline loop, in bytes: beyond, the runtime's wide stores make up for the
/// call.
pub(super) const LONGEST_LOOP: u32 = 512;
/// Where the loop starts: elements that begin before, right behind the length, fill the 4 bytes up to here.
const LOOP_START: u32 = 16;

/// Which cursor is bumped. Offsets in the mutator's context.
#[derive(Clone, Copy)]
enum Bump {
    /// That of the run at this offset.
    One(u32),
    /// That of a size class, found in the table at this offset. Its queue, where it has one, lies so far behind the
    /// run.
    BySize(u32, Option<u32>),
}

/// Where to allocate an array of any length.
pub(in crate::lower) struct DynamicRun {
    bump: Bump,
    /// Offset of the first element.
    elements: u32,
    /// Offset of the pointer that leads to the elements, where one does. An empty array has none: it takes the slow
    /// path.
    pointer: Option<u32>,
    /// A longer array takes the slow path, in elements.
    longest: u32,
}

impl ModuleEnv<'_> {
    /// Where to allocate an array of unknown length inline, if anywhere. `default`: its elements are to be zero.
    pub(in crate::lower) fn inline_dynamic(
        &self,
        inline: bool,
        kind: StorageKind,
        default: bool,
    ) -> Option<DynamicRun> {
        let (bump, max_bytes) = match self.plan.allocation {
            AllocationPlan::Bump { run_offset, max_bytes } => (Bump::One(run_offset), max_bytes),
            AllocationPlan::SizeClasses { ref cell_bytes, runs_offset, sizes_offset, queues_offset } => {
                let queue = queues_offset.map(|queues| queues - runs_offset);
                (Bump::BySize(sizes_offset, queue), MAX_TABLE_BYTES.min(*cell_bytes.last()?))
            }
        };
        // A counted build counts arrays where they are allocated: in the runtime.
        if !inline || kind == StorageKind::V128 || self.plan.counting.is_some() {
            return None;
        }
        let is_written = !(default && self.plan.fresh_memory_is_zero);
        let bytes = if is_written { max_bytes.min(LONGEST_LOOP) } else { max_bytes };
        let mut run = DynamicRun { bump, elements: array_elements_offset(kind), pointer: None, longest: u32::MAX };
        if let ArrayPlan::Spines(plan) = self.plan.arrays {
            if plan.layout.grows {
                run.longest = (MAX_SMALL_BYTES - run.elements) / kind.bytes();
            } else if plan.layout.first_n > 0 {
                run.longest = plan.layout.first_n / kind.bytes();
            } else {
                let shape = self.array_shape(kind, 1)?;
                (run.elements, run.pointer) = (shape.elements, shape.pointer);
                run.longest = plan.layout.leaf_bytes() / kind.bytes() - 1;
            }
        }
        run.longest = run.longest.min((bytes - run.elements) / kind.bytes());
        Some(run)
    }
}

impl Lowering<'_, '_> {
    /// `array.new`, or `array.new_default` where `element` is `None`.
    pub(super) fn array_new_dynamic(
        &mut self,
        run: DynamicRun,
        kind: StorageKind,
        type_id: TypeIdOperand,
        element: Option<Value>,
        length: Value,
        key: SafepointKey,
    ) -> ir::Value {
        let DynamicRun { bump, elements: elements_offset, pointer, longest } = run;
        let length = self.value(length);
        let mutator = self.mutator();
        self.cage();
        let [check, fast, slow, join] = [(); 4].map(|()| self.b.create_block());
        let reference = self.b.append_block_param(join, types::I32);
        let fits = match pointer {
            None => {
                let longest = self.b.ins().iconst(types::I32, i64::from(longest));
                self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, length, longest)
            }
            // Not empty either.
            Some(_) => {
                let less_one = self.b.ins().iadd_imm_s(length, -1);
                self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, less_one, i64::from(longest))
            }
        };
        self.b.ins().brif(fits, check, &[], slow, &[]);

        self.b.switch_to_block(check);
        let wide = self.b.ins().uextend(types::I64, length);
        let elements = self.b.ins().ishl_imm_u(wide, i64::from(kind.bytes().trailing_zeros()));
        let rounding = i64::from(elements_offset + OBJECT_ALIGNMENT - 1);
        let bytes = self.b.ins().iadd_imm_s(elements, rounding);
        let bytes = self.b.ins().band_imm_s(bytes, -i64::from(OBJECT_ALIGNMENT));
        let flags = self.flags(Region::Runs).with_aligned();
        let (base, run, queue, cell) = match bump {
            Bump::One(run) => (mutator, run as i32, None, bytes),
            Bump::BySize(table, queue) => {
                // An entry of 4 bytes for each 8 of the size.
                let entry = self.b.ins().ushr_imm_u(bytes, 1);
                let entry = self.b.ins().iadd(mutator, entry);
                let run = self.b.ins().uload16(types::I64, flags, entry, table as i32);
                let cell = self.b.ins().uload16(types::I64, flags, entry, table as i32 + 2);
                (self.b.ins().iadd(mutator, run), 0, queue, cell)
            }
        };
        let cursor = self.b.ins().uload32(flags, base, run);
        let limit = self.b.ins().uload32(flags, base, run + 4);
        let next = self.b.ins().iadd(cursor, cell);
        let fits = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, next, limit);
        let Bumped { cursor, next } = match queue {
            None => {
                self.b.ins().brif(fits, fast, &[], slow, &[]);
                self.b.switch_to_block(fast);
                Bumped { cursor, next }
            }
            Some(queue) => {
                let place = RunPlace { base, run, queue: queue as i32 };
                self.bump_or_take_run(fits, Bumped { cursor, next }, place, cell, fast, slow)
            }
        };
        let handle = self.prepare_handle(slow, true);
        self.b.ins().istore32(flags, next, base, run);
        let new = self.name_cell(cursor, handle);
        let address = new.address;
        self.write_header(type_id, &new, self.env.has_inline_lengths().then_some(length));
        self.write_array_length(length, &new);
        let pattern = match element {
            Some(element) => {
                let value = self.value(element);
                Some(self.pattern(kind, value))
            }
            None if self.env.plan.fresh_memory_is_zero => None,
            None => Some(self.b.ins().iconst(types::I64, 0)),
        };
        if let Some(pattern) = pattern {
            let end = self.b.ins().iadd(address, bytes);
            self.write_pattern(kind, pattern, address, elements_offset, end);
        }
        if let Some(pointer) = pointer {
            let to = self.b.ins().iadd_imm_s(cursor, i64::from(elements_offset));
            let flags = self.flags(Region::LeafPointers).with_aligned();
            self.b.ins().istore32(flags, to, address, pointer as i32);
        }
        self.b.ins().jump(join, &[new.reference.into()]);

        self.b.set_cold_block(slow);
        self.b.switch_to_block(slow);
        self.cold = true;
        let (builtin, args) = self.array_new_builtin(kind, type_id, element, length);
        let new = self.builtin_cold_safepoint(builtin, &args, key);
        self.finish_array_new(kind, new, element, length);
        self.cold = false;
        self.b.ins().jump(join, &[new.into()]);

        self.b.switch_to_block(join);
        reference
    }

    /// An element repeated to 8 bytes.
    pub(super) fn pattern(&mut self, kind: StorageKind, value: ir::Value) -> ir::Value {
        let value = if kind == StorageKind::Ref { self.healed(value) } else { value };
        let bits = self.element_bits(value);
        let (mask, copies) = match kind.bytes() {
            1 => (0xff, 0x0101_0101_0101_0101),
            2 => (0xffff, 0x0001_0001_0001_0001),
            4 => (0xffff_ffff, 0x0000_0001_0000_0001),
            _ => return bits,
        };
        let low = self.b.ins().band_imm_u(bits, mask);
        let copies = self.b.ins().iconst(types::I64, copies);
        self.b.ins().imul(low, copies)
    }

    /// Writes 8-byte patterns over all elements of the object at `address`, from offset `elements` up to `end`.
    pub(super) fn write_pattern(
        &mut self,
        kind: StorageKind,
        pattern: ir::Value,
        address: ir::Value,
        elements: u32,
        end: ir::Value,
    ) {
        let flags = self.element_flags(kind);
        if elements < LOOP_START {
            let store = self.b.ins().istore32(flags, pattern, address, elements as i32);
            self.note_store(store, false);
        }
        let [header, body, done] = [(); 3].map(|()| self.b.create_block());
        let position = self.b.append_block_param(header, POINTER);
        let start = self.b.ins().iadd_imm_s(address, i64::from(elements.max(LOOP_START)));
        self.b.ins().jump(header, &[start.into()]);
        self.b.switch_to_block(header);
        let more = self.b.ins().icmp(IntCC::UnsignedLessThan, position, end);
        self.b.ins().brif(more, body, &[], done, &[]);
        self.b.switch_to_block(body);
        let store = self.b.ins().store(flags, pattern, position, 0);
        self.note_store(store, false);
        let next = self.b.ins().iadd_imm_s(position, 8);
        self.b.ins().jump(header, &[next.into()]);
        self.b.switch_to_block(done);
    }
}
