//! Calls of functions: direct, imported, through tables, through references; tail calls; calls with handlers.

use cranelift_codegen::ir::{self, InstBuilder, types};

use super::Lowering;
use super::access::{Region, trap};
use super::env::{POINTER, Symbol, wasm_signature};
use crate::abi::{ContextHead, FuncImport, FuncRef, TARGETS};
use crate::artifact::TrapCode;
use crate::mir::{Callee, Edge, HandlerEdge, Value};
use crate::module::{FuncIndex, HeapType, TableIndex, TypeIndex};
use crate::passes::analysis::SafepointKey;

/// What to call, once found.
enum Target {
    /// A function of this module, with this module's context.
    Direct(ir::FuncRef),
    /// Code and context from a record.
    Indirect(ir::SigRef, ir::Value),
}

impl Lowering<'_, '_> {
    fn signature(&mut self, ty: TypeIndex) -> ir::SigRef {
        if let Some(&found) = self.signatures.get(&ty) {
            return found;
        }
        let created = self.b.import_signature(wasm_signature(self.env.info.func_type(ty)));
        self.signatures.insert(ty, created);
        created
    }

    /// Finds what to call and makes the argument list, the callee's context first.
    fn resolve_call(&mut self, callee: &Callee, args: &[Value]) -> (Target, Vec<ir::Value>) {
        let (target, context) = match callee {
            Callee::Direct(function) => self.direct_target(*function),
            Callee::Indirect(table, ty, index) => {
                let index = self.value(*index);
                self.table_target(*table, *ty, index)
            }
            Callee::Osr(_) => unreachable!("goes on in a loop by replacing the frame"),
            Callee::Reference(ty, reference, check) => {
                let reference = self.value(*reference);
                self.reference_target(*ty, reference, super::structs::null_trap(*check))
            }
        };
        let mut all = vec![context];
        all.extend(args.iter().map(|&arg| self.value(arg)));
        (target, all)
    }

    fn direct_target(&mut self, function: FuncIndex) -> (Target, ir::Value) {
        let info = self.env.info;
        let ty = info.functions[function.index()].ty;
        if function.0 >= info.imported_functions {
            let target = self.function_ref(Symbol::Function(function.0), || wasm_signature(info.func_type(ty)));
            return (Target::Direct(target), self.context);
        }
        let import = self.env.layout.func_imports + function.0 * size_of::<FuncImport>() as u32;
        let code = self.context_constant(POINTER, import + std::mem::offset_of!(FuncImport, code) as u32);
        let context = self.context_constant(POINTER, import + std::mem::offset_of!(FuncImport, context) as u32);
        (Target::Indirect(self.signature(ty), code), context)
    }

    fn table_target(&mut self, table: TableIndex, ty: TypeIndex, index: ir::Value) -> (Target, ir::Value) {
        let reference = self.table_get(table, index);
        let element = self.env.info.tables[table.index()].element;
        let null = element.nullable.then_some(TrapCode::IndirectCallToNull);
        if self.env.info.is_heap_subtype(element.heap, HeapType::Concrete(ty)) {
            return self.reference_target(ty, reference, null);
        }
        let record = self.func_ref_record(reference);
        let id = self.func_ref_field(types::I32, record, std::mem::offset_of!(FuncRef, type_id));
        // Null fails this too: it has no type.
        self.check_signature(id, ty, null.map(|null| (reference, null)));
        self.record_target(ty, record)
    }

    fn reference_target(&mut self, ty: TypeIndex, reference: ir::Value, null: Option<TrapCode>) -> (Target, ir::Value) {
        if let Some(code) = null {
            self.b.ins().trapz(reference, trap(code));
        }
        let record = self.func_ref_record(reference);
        self.record_target(ty, record)
    }

    /// What the function reference's record at `record` says.
    fn record_target(&mut self, ty: TypeIndex, record: ir::Value) -> (Target, ir::Value) {
        let code = self.func_ref_field(POINTER, record, std::mem::offset_of!(FuncRef, code));
        let context = self.func_ref_field(POINTER, record, std::mem::offset_of!(FuncRef, context));
        (Target::Indirect(self.signature(ty), code), context)
    }

    pub(super) fn call(&mut self, callee: &Callee, args: &[Value], key: SafepointKey) -> Vec<ir::Value> {
        let (target, args) = self.resolve_call(callee, args);
        self.spill_roots(key);
        let call = match target {
            Target::Direct(function) => self.b.ins().call(function, &args),
            Target::Indirect(signature, code) => self.b.ins().call_indirect(signature, code, &args),
        };
        self.map_roots(call, key);
        self.reload_roots(key);
        self.b.inst_results(call).to_vec()
    }

    pub(super) fn tail_call(&mut self, callee: &Callee, args: &[Value]) {
        let (target, args) = self.resolve_call(callee, args);
        match target {
            Target::Direct(function) => self.b.ins().return_call(function, &args),
            Target::Indirect(signature, code) => self.b.ins().return_call_indirect(signature, code, &args),
        };
    }

    pub(super) fn try_call(
        &mut self,
        callee: &Callee,
        args: &[Value],
        normal: &Edge,
        handlers: &[HandlerEdge],
        key: SafepointKey,
    ) {
        let (target, args) = self.resolve_call(callee, args);
        let signature = match target {
            Target::Direct(function) => self.b.func.dfg.ext_funcs[function].signature,
            Target::Indirect(signature, _) => signature,
        };
        let returns: Vec<ir::Type> =
            self.b.func.dfg.signatures[signature].returns.iter().map(|result| result.value_type).collect();
        let results = (0..returns.len() as u32).map(ir::BlockArg::TryCallRet).collect();
        let mir = self.mir;
        let params = &mir.blocks[normal.block.index()].params[..returns.len()];
        // References may have changed when the call returns: what goes on with the edge is found in a block behind it.
        // And those that it returns are not yet as they are passed.
        let is_passed_as_returned = |(&param, &ty)| Self::passed_type(mir.value_type(param)) == ty;
        let reloads = self.roots.at(key).iter().any(|root| root.reload);
        let goes_on = !reloads && params.iter().zip(&returns).all(is_passed_as_returned);
        let returned = (!goes_on).then(|| self.b.create_block());
        let normal_call = match returned {
            Some(returned) => self.block_call_with(returned, results),
            None => {
                let (block, rest) = self.edge(normal);
                self.block_call_with(block, results.into_iter().chain(rest).collect())
            }
        };
        let (table, landings) = self.exception_table(signature, normal_call, handlers);
        let call = match target {
            Target::Direct(function) => self.b.ins().try_call(function, &args, table),
            Target::Indirect(_, code) => self.b.ins().try_call_indirect(code, &args, table),
        };
        self.map_roots(call, key);
        if let Some(returned) = returned {
            let results: Vec<_> = returns.iter().map(|&ty| self.b.append_block_param(returned, ty)).collect();
            self.b.switch_to_block(returned);
            self.reload_roots(key);
            let mut args = Vec::with_capacity(normal.args.len() + results.len());
            for (&param, result) in params.iter().zip(results) {
                args.push(self.passed(mir.value_type(param), result).into());
            }
            let (block, rest) = self.edge(normal);
            args.extend(rest);
            self.b.ins().jump(block, &args);
        }
        self.landings(landings, handlers, key);
    }

    /// Notes where a call by reference leads to: a few instructions without a branch, and a function seen twice takes
    /// no more room than one seen once.
    pub(super) fn note_target(&mut self, call: u32, reference: ir::Value) {
        let record = self.func_ref_record(reference);
        let number = self.func_ref_field(types::I32, record, std::mem::offset_of!(FuncRef, number));
        let slot = self.b.ins().band_imm_u(number, TARGETS as i64 - 1);
        let slot = self.widen(slot);
        let slot = self.b.ins().ishl_imm_u(slot, 2);
        let table = self.context_constant(POINTER, std::mem::offset_of!(ContextHead, profile) as u32);
        let slot = self.b.ins().iadd(table, slot);
        let flags = self.flags(Region::Loops).with_aligned();
        self.b.ins().store(flags, number, slot, (call as usize * TARGETS * size_of::<u32>()) as i32);
    }

    /// Adds 1 to a word of the profile.
    pub(super) fn note_run(&mut self, word: u32) {
        let table = self.context_constant(POINTER, std::mem::offset_of!(ContextHead, profile) as u32);
        let flags = self.flags(Region::Loops).with_aligned();
        let offset = (word as usize * size_of::<u32>()) as i32;
        let runs = self.b.ins().load(types::I32, flags, table, offset);
        let runs = self.b.ins().iadd_imm_s(runs, 1);
        self.b.ins().store(flags, runs, table, offset);
    }

    pub(super) fn ref_func(&mut self, function: FuncIndex) -> ir::Value {
        let number = self.env.info.functions[function.index()].func_ref;
        let number = number.expect("a function whose reference is taken has a record");
        let records = self.context_constant(types::I32, std::mem::offset_of!(ContextHead, func_refs) as u32);
        self.b.ins().iadd_imm_s(records, i64::from(number) * size_of::<FuncRef>() as i64)
    }
}
