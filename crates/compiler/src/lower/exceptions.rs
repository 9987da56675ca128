//! Exceptions: objects, handlers, throws.
//!
//! A handler's landing pad receives the exception in a payload register; a block of its own turns that into the first
//! argument of MIR's block.

use cranelift_codegen::ir::{self, ExceptionTableData, ExceptionTableItem, ExceptionTag, InstBuilder, types};
use legato_heap::layout::StorageKind;

use super::Lowering;
use super::access::{Region, trap};
use super::barrier::Store;
use super::env::{ModuleEnv, builtin_signature};
use crate::abi::Builtin;
use crate::artifact::TrapCode;
use crate::mir::{Extension, HandlerEdge, Op, Value};
use crate::module::{StorageType, TagIndex};
use crate::passes::analysis::SafepointKey;
use crate::passes::definition;

impl ModuleEnv<'_> {
    /// Whether the runtime makes exceptions of this tag as it throws them: those of a single reference, which is what
    /// Java and Kotlin throw. Nearly every function throws some, and nearly never: one call is the least code.
    pub(super) fn is_thrown_at_once(&self, tag: TagIndex) -> bool {
        let kinds = self.tag_type(tag).params.iter().map(|&ty| self.info.storage_kind(StorageType::Value(ty)));
        kinds.eq([StorageKind::Ref])
    }
}

impl Lowering<'_, '_> {
    fn payload_kind(&self, tag: TagIndex, field: usize) -> StorageKind {
        self.env.info.storage_kind(StorageType::Value(self.env.tag_type(tag).params[field]))
    }

    pub(super) fn exception_new(&mut self, tag: TagIndex, args: &[Value], key: SafepointKey) -> ir::Value {
        let layout = &self.env.exceptions[tag.index()];
        let type_id = self.exception_type_id_operand(tag);
        let new = self.allocate_struct(type_id, layout, true, key);
        let tag_id = self.tag_id(tag);
        self.initialise_field(&Store::initialising(StorageKind::I32, tag_id), new.address, layout.offsets[0]);
        for (field, &arg) in args.iter().enumerate() {
            let kind = self.payload_kind(tag, field);
            let store = self.store_into_new(kind, arg);
            self.initialise_field(&store, new.address, layout.offsets[field + 1]);
        }
        new.reference
    }

    pub(super) fn exception_get(&mut self, tag: TagIndex, field: u32, exception: ir::Value) -> ir::Value {
        let kind = self.payload_kind(tag, field as usize);
        let offset = self.env.exceptions[tag.index()].offsets[field as usize + 1];
        let object = self.object(exception, None, 0);
        let flags = self.flags(Region::Fields(kind));
        self.load_storage(kind, Extension::None, flags, object.address, offset as i32)
    }

    /// The table of a call with handlers, and the landing block of each handler, to be filled by [`Self::landings`].
    pub(super) fn exception_table(
        &mut self,
        signature: ir::SigRef,
        normal: ir::BlockCall,
        handlers: &[HandlerEdge],
    ) -> (ir::ExceptionTable, Vec<ir::Block>) {
        let mut items = vec![ExceptionTableItem::Context(self.context)];
        let mut landings = Vec::new();
        for handler in handlers {
            let landing = self.b.create_block();
            self.b.append_block_param(landing, types::I64);
            landings.push(landing);
            let call = self.block_call_with(landing, vec![ir::BlockArg::TryCallExn(0)]);
            items.push(match handler.tag {
                Some(tag) => ExceptionTableItem::Tag(ExceptionTag::from_u32(tag.0), call),
                None => ExceptionTableItem::Default(call),
            });
        }
        let table = self.b.func.dfg.exception_tables.push(ExceptionTableData::new(signature, normal, items));
        (table, landings)
    }

    /// Fills the landing blocks of a call.
    pub(super) fn landings(&mut self, landings: Vec<ir::Block>, handlers: &[HandlerEdge], key: SafepointKey) {
        for (landing, handler) in landings.into_iter().zip(handlers) {
            self.b.set_cold_block(landing);
            self.b.switch_to_block(landing);
            let payload = self.b.block_params(landing)[0];
            self.reload_roots(key);
            let (target, rest) = self.edge(&handler.edge);
            // The exception, zero-extended.
            let mut args = vec![payload.into()];
            args.extend(rest);
            self.b.ins().jump(target, &args);
        }
    }

    /// The tag and the payload of an exception that its throw makes.
    fn thrown_at_once(&self, exception: Value) -> Option<(TagIndex, Value)> {
        let inst = definition(self.mir, self.mir.resolve(exception)).filter(|inst| self.fused_throws[inst.index()])?;
        let made = &self.mir.insts[inst.index()];
        let Op::ExceptionNew(tag) = made.op else { unreachable!("what a throw makes is an exception") };
        Some((tag, made.args[0]))
    }

    pub(super) fn throw(&mut self, exception: Value, handlers: &[HandlerEdge], key: SafepointKey) {
        let (builtin, args) = match self.thrown_at_once(exception) {
            Some((tag, payload)) => {
                let payload = self.value(payload);
                let tag = self.b.ins().iconst(types::I32, i64::from(tag.0));
                (Builtin::Throw, vec![self.context, payload, tag])
            }
            None => (Builtin::ThrowRef, vec![self.context, self.value(exception)]),
        };
        let function = self.builtin_ref(builtin);
        debug_assert!(builtin_signature(builtin).returns.is_empty());
        if handlers.is_empty() {
            let call = self.b.ins().call(function, &args);
            self.map_roots(call, key);
            // It does not return.
            self.b.ins().trap(trap(TrapCode::Internal));
            return;
        }
        let signature = self.b.func.dfg.ext_funcs[function].signature;
        let returned = self.b.create_block();
        let normal = self.block_call_with(returned, Vec::new());
        let (table, landings) = self.exception_table(signature, normal, handlers);
        let call = self.b.ins().try_call(function, &args, table);
        self.map_roots(call, key);
        self.b.set_cold_block(returned);
        self.b.switch_to_block(returned);
        self.b.ins().trap(trap(TrapCode::Internal));
        self.landings(landings, handlers, key);
    }
}
