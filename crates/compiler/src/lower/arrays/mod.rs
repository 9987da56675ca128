//! Arrays (axis `arrays`): one file per value for the access paths, allocation in files of its own, bulk operations
//! here.

mod allocation;
mod contiguous;
mod copying;
mod counting;
mod dynamic;
mod element;
mod globals;
mod guarded;
mod spines;
mod strips;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use legato_heap::layout::StorageKind;
use legato_heap::plan::ArrayPlan;

use self::element::Element;
use super::Lowering;
use super::access::{Region, trap};
use super::barrier::{Container, Store};
use super::env::ModuleEnv;
use super::structs::null_trap;
use crate::abi::Builtin;
use crate::artifact::TrapCode;
use crate::mir::{Extension, Inst, NullCheck, Value};
use crate::module::TypeIndex;
use crate::passes::analysis::MergedCheck;
use crate::passes::analysis::SafepointKey;

pub(super) use allocation::{ArrayShape, ArraySource};

impl ModuleEnv<'_> {
    /// Whether arrays have inline lengths.
    pub(super) fn has_inline_lengths(&self) -> bool {
        matches!(self.plan.arrays, ArrayPlan::Spines(plan) if plan.layout.grows)
    }

    /// Whether the bulk operations on arrays that allocate no array may collect: they make room for leaves.
    pub(super) fn bulk_collects(&self) -> bool {
        self.plan.arrays != ArrayPlan::Contiguous
    }
}

impl Lowering<'_, '_> {
    pub(super) fn array_len(&mut self, check: NullCheck, reference: ir::Value) -> ir::Value {
        // Every layout begins with the header and the length.
        self.array_length(reference, null_trap(check))
    }

    pub(super) fn bounds_check(&mut self, index: ir::Value, length: ir::Value) {
        let outside = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, index, length);
        self.b.ins().trapnz(outside, trap(TrapCode::ArrayOutOfBounds));
    }

    /// `args` begins with the array and the index.
    fn array_element(&mut self, inst: Inst, kind: StorageKind, args: &[Value]) -> Element {
        let (array, index) = (args[0], args[1]);
        let is_inline = match self.env.plan.arrays {
            ArrayPlan::Contiguous => true,
            ArrayPlan::Spines(plan) => self.env.heap_facts().lies_inline(self.mir, &plan, kind, array, index),
        };
        Element { kind, array: self.value(array), index: self.value(index), is_inline, check: self.checks.of(inst) }
    }

    /// Makes the bounds check that is left to an access by a strip, if one is.
    fn check_element(&mut self, element: Element) {
        let length = match element.check {
            None => return,
            Some(MergedCheck::Length(length)) => self.value(length),
            Some(MergedCheck::LengthOf(array, null)) => {
                let array = self.value(array);
                self.array_len(null, array)
            }
        };
        self.bounds_check(element.index, length);
    }

    pub(super) fn array_get(&mut self, inst: Inst, ty: TypeIndex, extension: Extension, args: &[Value]) -> ir::Value {
        let kind = self.env.element_kind(ty);
        let element = self.array_element(inst, kind, args);
        self.count_access(element, counting::Access::Read);
        match self.env.plan.arrays {
            ArrayPlan::Contiguous => contiguous::load(self, element, extension),
            ArrayPlan::Spines(plan) => match self.strips.of(inst) {
                Some(to) => strips::load(self, &plan, to, element, extension),
                None => spines::load(self, &plan, element, extension),
            },
        }
    }

    pub(super) fn array_set(&mut self, inst: Inst, ty: TypeIndex, args: &[Value]) {
        let (array, value) = (args[0], args[2]);
        let kind = self.env.element_kind(ty);
        let element = self.array_element(inst, kind, args);
        self.count_access(element, counting::Access::Write);
        let store = self.store_into(Container::Array(array), kind, value);
        match self.env.plan.arrays {
            ArrayPlan::Contiguous if self.stores_by_calls && store.has_barrier() => {
                self.builtin(Builtin::StoreElement, &[element.array, element.index, store.value]);
            }
            ArrayPlan::Contiguous => {
                contiguous::store(self, element, &store);
                self.after_element(&store, |l| contiguous::cage_offset(l, element));
            }
            ArrayPlan::Spines(plan) => {
                let address = match self.strips.of(inst) {
                    Some(to) => strips::store(self, &plan, to, element, &store),
                    None => spines::store(self, &plan, element, &store),
                };
                if let Some(address) = address {
                    self.after_element(&store, |l| l.cage_offset(address));
                }
            }
        }
    }

    /// Stores an element of a new array, or a number.
    fn store_any_element(&mut self, element: Element, store: &Store) {
        match self.env.plan.arrays {
            ArrayPlan::Contiguous => contiguous::store(self, element, store),
            ArrayPlan::Spines(plan) => {
                spines::store(self, &plan, element, store);
            }
        }
    }

    /// `array.init_data` and `array.init_elem`: (array, start, offset in the segment, length).
    pub(super) fn array_init(&mut self, builtin: Builtin, segment: u32, args: &[ir::Value], key: SafepointKey) {
        let segment = self.b.ins().iconst(types::I32, i64::from(segment));
        let args = [args[0], args[1], segment, args[2], args[3]];
        self.bulk(builtin, &args, key);
    }

    fn bulk(&mut self, builtin: Builtin, args: &[ir::Value], key: SafepointKey) {
        if builtin.signature().safepoint || self.env.bulk_collects() {
            self.builtin_safepoint(builtin, args, key);
        } else {
            self.builtin(builtin, args);
        }
    }

    /// `array.fill`: (array, start, element, length).
    pub(super) fn array_fill(&mut self, ty: TypeIndex, args: &[ir::Value], key: SafepointKey) {
        let kind = self.env.element_kind(ty);
        if kind == StorageKind::V128 {
            let length = self.array_len(NullCheck::Elided, args[0]);
            let (start, count) = (self.index64(args[1]), self.index64(args[3]));
            let end = self.b.ins().iadd(start, count);
            let length = self.index64(length);
            let outside = self.b.ins().icmp(IntCC::UnsignedGreaterThan, end, length);
            self.b.ins().trapnz(outside, trap(TrapCode::ArrayOutOfBounds));
            let store = self.store_number(kind, args[0], args[2]);
            return self.fill_by_loop(store, kind, args[0], args[1], args[3]);
        }
        let bits = self.element_bits(args[2]);
        self.bulk(Builtin::ArrayFill, &[args[0], args[1], bits, args[3]], key);
    }

    /// An element as the 64 raw bits that builtins take.
    fn element_bits(&mut self, value: ir::Value) -> ir::Value {
        let ty = self.b.func.dfg.value_type(value);
        let integer = match ty {
            types::F32 => self.b.ins().bitcast(types::I32, MemFlagsData::new(), value),
            types::F64 => self.b.ins().bitcast(types::I64, MemFlagsData::new(), value),
            _ => value,
        };
        self.index64(integer)
    }

    /// A loop of stores of vectors, or of references into a new array, which is what builtins do not take: vectors do
    /// not fit their 64 bits, and a reference may change in one that allocates. The bounds have been checked.
    fn fill_by_loop(&mut self, store: Store, kind: StorageKind, array: ir::Value, start: ir::Value, count: ir::Value) {
        // Loaded here, for the loop and for what follows it.
        self.cage();
        self.mutator();
        let end = self.b.ins().iadd(start, count);
        let [header, body, done] = [(); 3].map(|()| self.b.create_block());
        let index = self.b.append_block_param(header, types::I32);
        self.b.ins().jump(header, &[start.into()]);
        self.b.switch_to_block(header);
        let more = self.b.ins().icmp(IntCC::UnsignedLessThan, index, end);
        self.b.ins().brif(more, body, &[], done, &[]);
        self.b.switch_to_block(body);
        // The loop may make no turn: what its body reads is not known behind it.
        self.apart(|l| l.store_any_element(Element { kind, array, index, is_inline: false, check: None }, &store));
        let next = self.b.ins().iadd_imm_s(index, 1);
        self.b.ins().jump(header, &[next.into()]);
        self.b.switch_to_block(done);
    }

    /// The cage offset (32 bits) of an address in the cage.
    fn cage_offset(&mut self, address: ir::Value) -> ir::Value {
        let cage = self.cage();
        let offset = self.b.ins().isub(address, cage);
        self.b.ins().ireduce(types::I32, offset)
    }

    /// Flags for elements.
    fn element_flags(&mut self, kind: StorageKind) -> MemFlagsData {
        self.flags(Region::Elements(kind))
    }
}
