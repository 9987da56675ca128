//! Globals, and stores of references to functions into objects that immutable globals hold.
//!
//! Programs whose classes have tables of methods fill these in one function that runs once: thousands of stores. A call
//! for five of them takes less time to compile than seven instructions for each.

use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, SourceLoc, types};

use super::Lowering;
use super::access::Region;
use super::barrier::Container;
use super::env::{POINTER, clif_type};
use crate::abi::{Builtin, FunctionStore, GLOBAL_BYTES};
use crate::mir::{self, NullCheck, Op, Value, ValueDef};
use crate::module::{GlobalIndex, StorageType, ValueType};

/// How many stores of references to functions a call makes.
const FUNCTIONS: usize = 5;

impl Lowering<'_, '_> {
    pub(super) fn global_get(&mut self, global: GlobalIndex) -> ir::Value {
        let ty = self.env.info.globals[global.index()];
        let (base, offset) = self.global_cell(global);
        // An immutable global has its value before any function runs, but the collector writes to the cell of a
        // reference.
        let is_rewritten = self.env.plan.references_change_at_safepoints && self.env.is_traced(ty.value);
        let changes = ty.mutable || is_rewritten;
        let flags = if changes { self.global_flags() } else { self.constant_flags(Region::Globals) };
        match ty.value {
            ValueType::Ref(_) => self.load_reference(flags, base, offset),
            _ => self.b.ins().load(clif_type(ty.value), flags, base, offset),
        }
    }

    pub(super) fn global_set(&mut self, global: GlobalIndex, value: Value) {
        let kind = self.env.info.storage_kind(StorageType::Value(self.env.info.globals[global.index()].value));
        let store = self.store_into(Container::Global, kind, value);
        let (base, offset) = self.global_cell(global);
        let flags = self.global_flags();
        self.store(&store, flags, base, offset);
    }

    /// The operation of a late value: one that is made where it is used.
    pub(super) fn late_op(&self, value: Value) -> Option<&Op> {
        let ValueDef::Result(inst, _) = self.mir.values[self.mir.resolve(value).index()].def else { return None };
        self.late_values[inst.index()].then(|| &self.mir.insts[inst.index()].op)
    }

    /// What tells the runtime of a store of a reference to a function into what an immutable global holds, in a long
    /// function without loops that is compiled for compile time.
    fn function_store(&self, inst: mir::Inst) -> Option<FunctionStore> {
        let data = &self.mir.insts[inst.index()];
        let Op::StructSet(ty, field, NullCheck::Elided) = data.op else { return None };
        let (&Op::GlobalGet(global), &Op::RefFunc(function)) =
            (self.late_op(data.args[0])?, self.late_op(data.args[1])?)
        else {
            return None;
        };
        Some(FunctionStore {
            global: global.0,
            offset: self.env.struct_layout(ty).offsets[field as usize],
            record: self.env.info.functions[function.index()].func_ref?,
        })
    }

    /// Whether a call makes this store: together with those that follow it, see
    /// [`store_functions`](Self::store_functions).
    pub(super) fn delays_store(&mut self, inst: mir::Inst) -> bool {
        if !self.stores_by_calls {
            return false;
        }
        let Some(word) = self.function_store(inst).and_then(FunctionStore::word) else { return false };
        if self.function_stores.len() == FUNCTIONS {
            self.store_functions();
        }
        self.function_stores.push((inst, word));
        true
    }

    /// Makes the stores that have been delayed, before anything else is done.
    pub(super) fn store_functions(&mut self) {
        let stores = std::mem::take(&mut self.function_stores);
        let Some(&(first, _)) = stores.first() else { return };
        let data = &self.mir.insts[first.index()];
        self.b.set_srcloc(SourceLoc::new(data.source));
        if stores.len() == 1 {
            self.inst(first, data);
            return;
        }
        let args: Vec<ir::Value> = (0..FUNCTIONS)
            .map(|number| stores.get(number).map_or(0, |&(_, word)| word))
            .map(|word| self.b.ins().iconst(types::I64, word as i64))
            .collect();
        self.builtin(Builtin::StoreFunctions, &args);
    }

    fn global_flags(&mut self) -> MemFlagsData {
        self.flags(Region::Globals).with_aligned()
    }

    fn global_cell(&mut self, global: GlobalIndex) -> (ir::Value, i32) {
        let imported = self.env.info.imported_globals;
        if global.0 < imported {
            (self.context_constant(POINTER, self.env.layout.global_imports + 8 * global.0), 0)
        } else {
            (self.context, (self.env.layout.globals + GLOBAL_BYTES * (global.0 - imported)) as i32)
        }
    }
}
