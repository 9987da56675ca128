//! Globals.

use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData};

use super::Lowering;
use super::access::Region;
use super::barrier::Container;
use super::env::{POINTER, clif_type};
use crate::abi::GLOBAL_BYTES;
use crate::mir::Value;
use crate::module::{GlobalIndex, StorageType, ValueType};

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
