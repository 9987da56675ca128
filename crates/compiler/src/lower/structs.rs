//! Structs and `i31`.

use cranelift_codegen::ir::{self, InstBuilder, types};

use super::Lowering;
use super::access::Region;
use super::barrier::{Container, Store};
use crate::abi::Builtin;
use crate::artifact::TrapCode;
use crate::mir::{Extension, NullCheck, Value};
use crate::module::TypeIndex;
use crate::passes::analysis::SafepointKey;

/// The trap of an operation that checks for null.
pub(super) fn null_trap(check: NullCheck) -> Option<TrapCode> {
    match check {
        NullCheck::Needed => Some(TrapCode::NullReference),
        NullCheck::Elided => None,
    }
}

impl Lowering<'_, '_> {
    pub(super) fn struct_new(&mut self, ty: TypeIndex, args: &[Value], key: SafepointKey) -> ir::Value {
        let env = self.env;
        let type_id = self.type_id_operand(ty);
        let layout = env.struct_layout(ty);
        let new = self.allocate_struct(type_id, layout, true, key);
        for (number, (&arg, &offset)) in args.iter().zip(&layout.offsets).enumerate() {
            let kind = env.field_kind(ty, number as u32);
            let store = self.store_into_new(kind, arg);
            self.initialise_field(&store, new.address, offset);
        }
        new.reference
    }

    pub(super) fn struct_new_default(&mut self, ty: TypeIndex, key: SafepointKey) -> ir::Value {
        let type_id = self.type_id_operand(ty);
        self.allocate_struct(type_id, self.env.struct_layout(ty), false, key).reference
    }

    /// Stores a field of a new object.
    pub(super) fn initialise_field(&mut self, store: &Store, address: ir::Value, offset: u32) {
        let flags = self.flags(Region::Fields(store.kind()));
        self.store(store, flags, address, offset as i32);
    }

    pub(super) fn struct_get(
        &mut self,
        ty: TypeIndex,
        field: u32,
        extension: Extension,
        check: NullCheck,
        reference: ir::Value,
    ) -> ir::Value {
        let kind = self.env.field_kind(ty, field);
        let offset = self.env.struct_layout(ty).offsets[field as usize];
        let object = self.object(reference, null_trap(check), offset + kind.bytes());
        let flags = self.flags_trapping(Region::Fields(kind), object.null_trap);
        self.load_storage(kind, extension, flags, object.address, offset as i32)
    }

    pub(super) fn struct_set(&mut self, ty: TypeIndex, field: u32, check: NullCheck, object: Value, value: Value) {
        let reference = self.value(object);
        let kind = self.env.field_kind(ty, field);
        let offset = self.env.struct_layout(ty).offsets[field as usize];
        let store = self.store_into(Container::Struct(object, offset), kind, value);
        if self.stores_by_calls && store.has_barrier() {
            if let Some(code) = null_trap(check) {
                self.trap_if_null(reference, code);
            }
            let offset = self.b.ins().iconst(types::I32, i64::from(offset));
            self.builtin(Builtin::StoreField, &[reference, offset, store.value]);
            return;
        }
        let address = self.object(reference, null_trap(check), offset + kind.bytes());
        let flags = self.flags_trapping(Region::Fields(kind), address.null_trap);
        self.store_field(&store, flags, address.address, offset as i32);
    }

    pub(super) fn i31_get(&mut self, reference: ir::Value, extension: Extension, check: NullCheck) -> ir::Value {
        if let Some(code) = null_trap(check) {
            self.trap_if_null(reference, code);
        }
        match extension {
            Extension::Signed => self.b.ins().sshr_imm_u(reference, 1),
            Extension::Unsigned | Extension::None => self.b.ins().ushr_imm_u(reference, 1),
        }
    }
}
