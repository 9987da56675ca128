//! Arrays (axis `arrays`): one file per value for the access paths; allocation and bulk operations here.

mod contiguous;
mod dynamic;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use legato_heap::layout::{StorageKind, array_elements_offset};
use legato_heap::plan::ArrayPlan;

use super::Lowering;
use super::access::{Region, trap};
use super::env::POINTER;
use super::roots::SafepointKey;
use super::safepoints::constant_length;
use super::structs::null_trap;
use crate::abi::Builtin;
use crate::artifact::TrapCode;
use crate::mir::{Check, Constant, Extension, Value};
use crate::module::TypeIndex;

/// An array of a known length up to this is filled by single stores.
const UNROLLED_FILL: u32 = 16;

impl Lowering<'_, '_> {
    pub(super) fn array_len(&mut self, check: Check, reference: ir::Value) -> ir::Value {
        match self.env.plan.arrays {
            ArrayPlan::Contiguous => contiguous::length(self, reference, null_trap(check)),
        }
    }

    /// The address of an element less its constant offset from the array's start, and that offset.
    fn element(&mut self, kind: StorageKind, array: ir::Value, index: ir::Value) -> (ir::Value, i32) {
        match self.env.plan.arrays {
            ArrayPlan::Contiguous => contiguous::element(self, kind, array, index),
        }
    }

    pub(super) fn bounds_check(&mut self, index: ir::Value, length: ir::Value) {
        let outside = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, index, length);
        self.b.ins().trapnz(outside, trap(TrapCode::ArrayOutOfBounds));
    }

    pub(super) fn array_get(
        &mut self,
        ty: TypeIndex,
        extension: Extension,
        array: ir::Value,
        index: ir::Value,
    ) -> ir::Value {
        let kind = self.env.element_kind(ty);
        let (address, offset) = self.element(kind, array, index);
        let flags = self.flags(Region::Elements(kind));
        self.load_storage(kind, extension, flags, address, offset)
    }

    pub(super) fn array_set(&mut self, ty: TypeIndex, array: Value, index: ir::Value, value: Value) {
        let kind = self.env.element_kind(ty);
        let (reference, stored) = (self.value(array), self.value(value));
        let (address, offset) = self.element(kind, reference, index);
        let flags = self.flags(Region::Elements(kind));
        self.store_storage(kind, flags, stored, address, offset);
        self.array_barrier(kind, array, index, value);
    }

    /// `array.new` and, without an element, `array.new_default`.
    pub(super) fn array_new(
        &mut self,
        ty: TypeIndex,
        element: Option<Value>,
        length: Value,
        key: SafepointKey,
    ) -> ir::Value {
        let kind = self.env.element_kind(ty);
        let element = element.filter(|&element| !self.constant_of(element).is_some_and(is_zero));
        let type_id = self.type_id(ty);
        let known = constant_length(self.mir, length)
            .filter(|&length| self.env.inline_array(self.inline_allocation, kind, length, false).is_some());
        if let Some(known) = known {
            let unrolled = element.is_some() && known <= UNROLLED_FILL;
            let new = self.allocate_array(type_id, kind, known, unrolled, key);
            if let Some(element) = element {
                let value = self.value(element);
                if unrolled {
                    for number in 0..known {
                        self.initialise_element(kind, new.address, number, value);
                    }
                } else {
                    let length = self.value(length);
                    self.fill(kind, new.reference, value, length);
                }
            }
            return new.reference;
        }
        if constant_length(self.mir, length).is_none()
            && let Some(run) = self.env.inline_dynamic(self.inline_allocation, kind, element.is_none())
        {
            return self.array_new_dynamic(run, kind, type_id, element, length, key);
        }
        let length = self.value(length);
        match element {
            Some(element) => {
                let array = self.builtin_safepoint(Builtin::AllocateArrayUninitialised, &[type_id, length], key);
                let value = self.value(element);
                self.fill(kind, array, value, length);
                array
            }
            None => self.builtin_safepoint(Builtin::AllocateArray, &[type_id, length], key),
        }
    }

    pub(super) fn array_new_fixed(&mut self, ty: TypeIndex, args: &[Value], key: SafepointKey) -> ir::Value {
        let kind = self.env.element_kind(ty);
        let type_id = self.type_id(ty);
        let new = self.allocate_array(type_id, kind, args.len() as u32, true, key);
        for (number, &arg) in args.iter().enumerate() {
            let value = self.value(arg);
            self.initialise_element(kind, new.address, number as u32, value);
        }
        new.reference
    }

    fn initialise_element(&mut self, kind: StorageKind, address: ir::Value, index: u32, value: ir::Value) {
        let flags = self.flags(Region::Elements(kind));
        self.store_storage(kind, flags, value, address, Self::element_offset(kind, index));
    }

    pub(super) fn array_new_segment(
        &mut self,
        builtin: Builtin,
        ty: TypeIndex,
        segment: u32,
        args: &[ir::Value],
        key: SafepointKey,
    ) -> ir::Value {
        let type_id = self.type_id(ty);
        let segment = self.b.ins().iconst(types::I32, i64::from(segment));
        self.builtin_safepoint(builtin, &[type_id, segment, args[0], args[1]], key)
    }

    /// `array.init_data` and `array.init_elem`: (array, start, offset in the segment, length).
    pub(super) fn array_init(&mut self, builtin: Builtin, segment: u32, args: &[ir::Value], key: SafepointKey) {
        let segment = self.b.ins().iconst(types::I32, i64::from(segment));
        let args = [args[0], args[1], segment, args[2], args[3]];
        if builtin.signature().safepoint {
            self.builtin_safepoint(builtin, &args, key);
        } else {
            self.builtin(builtin, &args);
        }
    }

    /// `array.copy`: (destination, start, source, start, length).
    pub(super) fn array_copy(&mut self, args: &[ir::Value]) {
        self.builtin(Builtin::ArrayCopy, args);
    }

    /// `array.fill`: (array, start, element, length).
    pub(super) fn array_fill(&mut self, ty: TypeIndex, args: &[ir::Value]) {
        let kind = self.env.element_kind(ty);
        if kind == StorageKind::V128 {
            let length = self.array_len(Check::Elided, args[0]);
            let (start, count) = (self.index64(args[1]), self.index64(args[3]));
            let end = self.b.ins().iadd(start, count);
            let length = self.index64(length);
            let outside = self.b.ins().icmp(IntCC::UnsignedGreaterThan, end, length);
            self.b.ins().trapnz(outside, trap(TrapCode::ArrayOutOfBounds));
            return self.fill_vectors(args[0], args[1], args[2], args[3]);
        }
        let bits = self.element_bits(args[2]);
        self.builtin(Builtin::ArrayFill, &[args[0], args[1], bits, args[3]]);
    }

    /// Fills a whole new array.
    fn fill(&mut self, kind: StorageKind, array: ir::Value, value: ir::Value, length: ir::Value) {
        let start = self.b.ins().iconst(types::I32, 0);
        if kind == StorageKind::V128 {
            return self.fill_vectors(array, start, value, length);
        }
        let bits = self.element_bits(value);
        self.builtin(Builtin::ArrayFill, &[array, start, bits, length]);
    }

    /// An element as the 64 raw bits that `ArrayFill` takes.
    fn element_bits(&mut self, value: ir::Value) -> ir::Value {
        let ty = self.b.func.dfg.value_type(value);
        let integer = match ty {
            types::F32 => self.b.ins().bitcast(types::I32, MemFlagsData::new(), value),
            types::F64 => self.b.ins().bitcast(types::I64, MemFlagsData::new(), value),
            _ => value,
        };
        self.index64(integer)
    }

    /// A loop of stores: vectors do not fit the builtin's 64 bits. The bounds have been checked.
    fn fill_vectors(&mut self, array: ir::Value, start: ir::Value, value: ir::Value, count: ir::Value) {
        let kind = StorageKind::V128;
        let (first, offset) = self.element(kind, array, start);
        let count = self.index64(count);
        let bytes = self.b.ins().imul_imm_u(count, i64::from(kind.bytes()));
        let end = self.b.ins().iadd(first, bytes);
        let header = self.b.create_block();
        let body = self.b.create_block();
        let done = self.b.create_block();
        let position = self.b.append_block_param(header, POINTER);
        self.b.ins().jump(header, &[first.into()]);
        self.b.switch_to_block(header);
        let more = self.b.ins().icmp(IntCC::UnsignedLessThan, position, end);
        self.b.ins().brif(more, body, &[], done, &[]);
        self.b.switch_to_block(body);
        let flags = self.flags(Region::Elements(kind));
        self.store_storage(kind, flags, value, position, offset);
        let next = self.b.ins().iadd_imm_s(position, i64::from(kind.bytes()));
        self.b.ins().jump(header, &[next.into()]);
        self.b.switch_to_block(done);
        debug_assert_eq!(offset, array_elements_offset(kind) as i32);
    }
}

/// Whether a constant is what a zeroed cell holds.
pub(super) fn is_zero(constant: Constant) -> bool {
    match constant {
        Constant::I32(value) => value == 0,
        Constant::I64(value) => value == 0,
        Constant::F32(bits) => bits == 0,
        Constant::F64(bits) => bits == 0,
        Constant::V128(bits) => bits == 0,
        Constant::Null(_) => true,
    }
}
