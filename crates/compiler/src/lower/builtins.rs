//! Calls of the runtime's builtins, through their trampolines.

use cranelift_codegen::ir::{self, InstBuilder, Signature};

use super::Lowering;
use super::access::Region;
use super::env::{Symbol, abi_type, builtin_signature, cold_signature};
use crate::abi::{Builtin, ContextHead};
use crate::passes::analysis::SafepointKey;

impl Lowering<'_, '_> {
    /// Declares something in the module's own code.
    pub(super) fn function_ref(&mut self, symbol: Symbol, signature: impl FnOnce() -> Signature) -> ir::FuncRef {
        if let Some(&found) = self.functions.get(&symbol) {
            return found;
        }
        let signature = self.b.import_signature(signature());
        let name = self.b.func.declare_imported_user_function(symbol.name());
        let function = self.b.import_function(ir::ExtFuncData {
            name: ir::ExternalName::user(name),
            signature,
            colocated: true,
            patchable: false,
        });
        self.functions.insert(symbol, function);
        function
    }

    /// Declares a builtin's trampoline.
    pub(super) fn builtin_ref(&mut self, builtin: Builtin) -> ir::FuncRef {
        self.function_ref(Symbol::Builtin(builtin as u32), || builtin_signature(builtin))
    }

    /// Calls a builtin that never collects.
    pub(super) fn builtin(&mut self, builtin: Builtin, args: &[ir::Value]) -> ir::Value {
        debug_assert!(!builtin.signature().safepoint);
        let call = self.call_builtin(builtin, args);
        self.first_result(call)
    }

    /// Calls a builtin that may collect. Returns its result, if it has one (the call's context otherwise).
    pub(super) fn builtin_safepoint(&mut self, builtin: Builtin, args: &[ir::Value], key: SafepointKey) -> ir::Value {
        self.spill_roots(key);
        let call = self.call_builtin(builtin, args);
        self.map_roots(call, key);
        self.reload_roots(key);
        let result = self.first_result(call);
        if builtin.signature().result.is_some() {
            self.note_reference(result);
        }
        result
    }

    fn call_builtin(&mut self, builtin: Builtin, args: &[ir::Value]) -> ir::Inst {
        let function = self.builtin_ref(builtin);
        let mut all = vec![self.context];
        all.extend_from_slice(args);
        self.b.ins().call(function, &all)
    }

    fn first_result(&self, call: ir::Inst) -> ir::Value {
        self.b.inst_results(call).first().copied().unwrap_or(self.context)
    }

    /// In a cold path: calls a builtin that never collects through its cold trampoline, which keeps all registers.
    pub(super) fn builtin_cold(&mut self, builtin: Builtin, args: &[ir::Value]) -> ir::Value {
        debug_assert!(!builtin.signature().safepoint);
        self.call_cold(builtin, args);
        self.cold_result(builtin)
    }

    /// In a cold path: calls a builtin that may collect through its cold trampoline, which keeps all registers.
    pub(super) fn builtin_cold_safepoint(
        &mut self,
        builtin: Builtin,
        args: &[ir::Value],
        key: SafepointKey,
    ) -> ir::Value {
        self.spill_roots(key);
        let call = self.call_cold(builtin, args);
        self.map_roots(call, key);
        self.reload_roots(key);
        let result = self.cold_result(builtin);
        self.note_reference(result);
        result
    }

    /// In a cold path: calls a builtin's cold trampoline.
    pub(super) fn call_cold(&mut self, builtin: Builtin, args: &[ir::Value]) -> ir::Inst {
        let function = self.function_ref(Symbol::Cold(builtin as u32), || cold_signature(builtin));
        for (number, &arg) in args.iter().enumerate() {
            self.set_cell(number as u32, arg);
        }
        self.b.ins().call(function, &[self.context])
    }

    fn cold_result(&mut self, builtin: Builtin) -> ir::Value {
        let ty = abi_type(builtin.signature().result.expect("cold trampolines are for builtins with results"));
        self.cell(0, ty)
    }

    /// What a cell of the context holds.
    pub(super) fn cell(&mut self, number: u32, ty: ir::Type) -> ir::Value {
        let flags = self.flags(Region::ColdCells).with_aligned();
        self.b.ins().load(ty, flags, self.context, ContextHead::COLD_CELLS_OFFSET + 8 * number as i32)
    }

    pub(super) fn set_cell(&mut self, number: u32, value: ir::Value) {
        let flags = self.flags(Region::ColdCells).with_aligned();
        self.b.ins().store(flags, value, self.context, ContextHead::COLD_CELLS_OFFSET + 8 * number as i32);
    }
}
