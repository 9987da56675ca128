//! New arrays.
//!
//! An array that lies in one piece is allocated inline, where the heap allocates objects of its size inline at all. So
//! is, with N = 0, one that has no leaf but only a remainder: its one pointer leads into the new object itself. Arrays
//! with leaves come from the runtime.

use cranelift_codegen::ir::{self, InstBuilder, types};
use legato_heap::layout::{StorageKind, array_bytes, array_elements_offset};
use legato_heap::plan::{ArrayPlan, InlineRun, SpinePlan};

use super::dynamic::{DynamicRun, LONGEST_LOOP};
use crate::abi::Builtin;
use crate::lower::Lowering;
use crate::lower::access::{Region, TypeIdOperand};
use crate::lower::allocation::NewObject;
use crate::lower::barrier::Store;
use crate::lower::env::{ModuleEnv, POINTER};
use crate::mir::{Constant, Value};
use crate::module::TypeIndex;
use crate::passes::analysis::SafepointKey;
use crate::passes::constant_length;

/// An array of a known length up to this is filled by single stores.
const UNROLLED_FILL: u32 = 16;

/// Where the parts of an array without leaves lie. Offsets in bytes from the object's start.
#[derive(Clone, Copy)]
pub(in crate::lower) struct ArrayShape {
    /// Size of the object.
    pub(in crate::lower) bytes: u32,
    /// Offset of the first element.
    pub(in crate::lower) elements: u32,
    /// Offset of the pointer that leads to the elements, where one does.
    pub(in crate::lower) pointer: Option<u32>,
}

/// Where `array.new` and `array.new_default` have their array from.
pub(in crate::lower) enum ArraySource {
    /// Allocated inline; its length is known.
    Known(u32),
    /// Allocated inline where its length permits.
    Dynamic(DynamicRun),
    /// The runtime.
    Runtime,
}

/// See [`Lowering::fill_by_loop`].
fn is_filled_by_loop(kind: StorageKind) -> bool {
    matches!(kind, StorageKind::V128 | StorageKind::Ref)
}

impl ModuleEnv<'_> {
    /// The shape of an array; `None` where it has leaves, or its size does not fit 32 bits.
    pub(in crate::lower) fn array_shape(&self, kind: StorageKind, length: u32) -> Option<ArrayShape> {
        match self.plan.arrays {
            ArrayPlan::Spines(plan) if plan.layout.divides(kind.bytes(), length) => {
                let spine = plan.layout.spine(kind.bytes(), length);
                let is_remainder = plan.layout.first_n == 0 && spine.leaves == 0;
                is_remainder.then_some(ArrayShape {
                    bytes: spine.bytes as u32,
                    elements: spine.remainder,
                    pointer: Some(spine.pointers),
                })
            }
            _ => Some(ArrayShape {
                bytes: array_bytes(kind, length)?,
                elements: array_elements_offset(kind),
                pointer: None,
            }),
        }
    }

    /// Where to allocate an array of this length inline, if anywhere.
    pub(in crate::lower) fn inline_array(
        &self,
        inline: bool,
        kind: StorageKind,
        length: u32,
        filled: bool,
    ) -> Option<InlineRun> {
        // As for arrays of unknown length.
        if self.plan.counting.is_some() {
            return None;
        }
        self.inline_run(inline, self.array_shape(kind, length)?.bytes, filled)
    }

    /// Where an array of equal elements comes from; `default`: its elements are zero.
    pub(in crate::lower) fn array_source(
        &self,
        inline: bool,
        kind: StorageKind,
        length: Option<u32>,
        default: bool,
    ) -> ArraySource {
        let Some(length) = length else {
            return self.inline_dynamic(inline, kind, default).map_or(ArraySource::Runtime, ArraySource::Dynamic);
        };
        let is_written_here =
            default || length <= UNROLLED_FILL || array_bytes(kind, length).is_some_and(|bytes| bytes <= LONGEST_LOOP);
        match self.inline_array(inline, kind, length, !default) {
            Some(_) if is_written_here => ArraySource::Known(length),
            _ => ArraySource::Runtime,
        }
    }
}

impl Lowering<'_, '_> {
    /// `array.new` and, without an element, `array.new_default`.
    pub(in crate::lower) fn array_new(
        &mut self,
        ty: TypeIndex,
        element: Option<Value>,
        length: Value,
        key: SafepointKey,
    ) -> ir::Value {
        let kind = self.env.element_kind(ty);
        let element = element.filter(|&element| !self.constant_of(element).is_some_and(Constant::is_zero));
        let type_id = self.type_id_operand(ty);
        let known = constant_length(self.mir, length);
        match self.env.array_source(self.inline_allocation, kind, known, element.is_none()) {
            ArraySource::Known(length) => {
                let new = self.allocate_array(type_id, kind, length, element.is_some(), key);
                if let Some(element) = element {
                    let value = self.value(element);
                    self.fill_new(kind, new.address, length, value);
                }
                new.reference
            }
            ArraySource::Dynamic(run) => self.array_new_dynamic(run, kind, type_id, element, length, key),
            ArraySource::Runtime => {
                let length = self.value(length);
                let (builtin, args) = self.array_new_builtin(kind, type_id, element, length);
                let array = self.builtin_safepoint(builtin, &args, key);
                self.finish_array_new(kind, array, element, length);
                array
            }
        }
    }

    /// The builtin that makes an array of equal elements, and its arguments. To be followed by
    /// [`finish_array_new`](Self::finish_array_new).
    pub(super) fn array_new_builtin(
        &mut self,
        kind: StorageKind,
        type_id: TypeIdOperand,
        element: Option<Value>,
        length: ir::Value,
    ) -> (Builtin, Vec<ir::Value>) {
        let type_id = self.type_id_value(type_id);
        match element {
            Some(element) if !is_filled_by_loop(kind) => {
                let value = self.value(element);
                let bits = self.element_bits(value);
                (Builtin::ArrayNew, vec![type_id, bits, length])
            }
            _ => (Builtin::AllocateArray, vec![type_id, length]),
        }
    }

    /// Writes the elements that the builtin could not.
    pub(super) fn finish_array_new(
        &mut self,
        kind: StorageKind,
        array: ir::Value,
        element: Option<Value>,
        length: ir::Value,
    ) {
        if let Some(element) = element
            && is_filled_by_loop(kind)
        {
            let value = self.value(element);
            let start = self.b.ins().iconst(types::I32, 0);
            let store = Store::initialising(kind, value);
            self.fill_by_loop(store, kind, array, start, length);
        }
    }

    /// Writes all elements of a new array without leaves.
    fn fill_new(&mut self, kind: StorageKind, address: ir::Value, length: u32, value: ir::Value) {
        let shape = self.env.array_shape(kind, length).expect("an array allocated inline has a shape");
        if length <= UNROLLED_FILL || kind == StorageKind::V128 {
            for number in 0..length {
                self.initialise_element(&Store::initialising(kind, value), address, shape, number);
            }
        } else {
            let pattern = self.pattern(kind, value);
            let end = self.b.ins().iadd_imm_s(address, i64::from(shape.bytes));
            self.write_pattern(kind, pattern, address, shape.elements, end);
        }
    }

    pub(in crate::lower) fn array_new_fixed(&mut self, ty: TypeIndex, args: &[Value], key: SafepointKey) -> ir::Value {
        let kind = self.env.element_kind(ty);
        let type_id = self.type_id_operand(ty);
        let length = args.len() as u32;
        let new = self.allocate_array(type_id, kind, length, true, key);
        let by_calls = self.stores_globals_by_calls(kind, args);
        if by_calls {
            self.store_globals(new.reference, args);
        }
        if let Some(shape) = self.env.array_shape(kind, length) {
            for (number, &arg) in args.iter().enumerate() {
                if by_calls && self.late_global(arg).is_some() {
                    continue;
                }
                let store = self.store_into_new(kind, arg);
                self.initialise_element(&store, new.address, shape, number as u32);
            }
        } else if let ArrayPlan::Spines(plan) = self.env.plan.arrays {
            self.initialise_spine(&plan, kind, new, args, by_calls);
        }
        new.reference
    }

    fn initialise_element(&mut self, store: &Store, address: ir::Value, shape: ArrayShape, index: u32) {
        let flags = self.element_flags(store.kind());
        let offset = shape.elements + index * store.kind().bytes();
        self.store(store, flags, address, offset as i32);
    }

    /// Writes the elements of a new array that has leaves and holds zeros so far. `by_calls`: but for late globals.
    fn initialise_spine(
        &mut self,
        plan: &SpinePlan,
        kind: StorageKind,
        NewObject { reference: array, address }: NewObject,
        args: &[Value],
        by_calls: bool,
    ) {
        let spine = plan.layout.spine(kind.bytes(), args.len() as u32);
        let in_leaf = plan.layout.leaf_bytes() / kind.bytes();
        let first = plan.layout.first_n / kind.bytes();
        let parts = [(0, &args[..first as usize])]
            .into_iter()
            .chain(args[first as usize..].chunks(in_leaf as usize).enumerate().map(|(leaf, part)| (leaf + 1, part)));
        for (part, args) in parts {
            let elements: Vec<(u32, Value)> = args
                .iter()
                .enumerate()
                .filter(|(_, arg)| !self.constant_of(**arg).is_some_and(Constant::is_zero))
                .filter(|(_, arg)| !(by_calls && self.late_global(**arg).is_some()))
                .map(|(number, &arg)| (number as u32 * kind.bytes(), arg))
                .collect();
            if elements.is_empty() {
                continue;
            }
            // With `LeafForStore` the array may grow on the way: what is written already is moved with it, and where
            // the leaf lies inline comes back.
            let (start, offset) = match part {
                0 => (address, spine.elements),
                leaf if leaf as u32 > spine.leaves => (address, spine.remainder),
                leaf => {
                    let number = leaf as u32 - 1;
                    let leaf = if plan.checks_stores() {
                        let index = self.b.ins().iconst(types::I32, i64::from(first + number * in_leaf));
                        let not_zero = self.b.ins().iconst(types::I32, 0);
                        self.builtin(Builtin::LeafForStore, &[array, index, not_zero])
                    } else {
                        let flags = self.flags(Region::LeafPointers).with_aligned();
                        self.b.ins().load(types::I32, flags, address, (spine.pointers + 4 * number) as i32)
                    };
                    let leaf = self.b.ins().uextend(POINTER, leaf);
                    let cage = self.cage();
                    (self.b.ins().iadd(cage, leaf), 0)
                }
            };
            let flags = self.element_flags(kind);
            for (position, arg) in elements {
                let store = self.store_into_new(kind, arg);
                self.store(&store, flags, start, (offset + position) as i32);
            }
        }
    }

    pub(in crate::lower) fn array_new_segment(
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
}
