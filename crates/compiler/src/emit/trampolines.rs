//! Trampolines: host to Wasm, Wasm to host, compiled code to the runtime's builtins. The conventions are in
//! [`abi`](crate::abi).

mod allocation;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self, AbiParam, ExceptionTableData, ExceptionTableItem, InstBuilder, MemFlagsData, Signature, StackSlotData,
    StackSlotKind, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use legato_heap::AccessPlan;
use legato_heap::plan::{BufferWords, SnapshotPlan};

use super::code::{FunctionCode, with_scratch};
use super::target::Target;
use crate::abi::{Builtin, ContextHead, EntryRecord, HostContext, StoreContext, VALUE_CELL_BYTES};
use crate::artifact::{MachineSignature, MachineType, TrapCode};
use crate::lower::env::{POINTER, abi_type, builtin_signature, cold_signature};

/// Offset of the return address from a frame pointer, on all targets that keep frame pointers.
const RETURN_ADDRESS: i32 = 8;

fn machine_type(ty: MachineType) -> ir::Type {
    match ty {
        MachineType::I32 => types::I32,
        MachineType::I64 => types::I64,
        MachineType::F32 => types::F32,
        MachineType::F64 => types::F64,
        MachineType::V128 => types::I8X16,
    }
}

/// The signature of Wasm functions with this machine signature.
fn tail_signature(signature: &MachineSignature) -> Signature {
    let mut tail = Signature::new(CallConv::Tail);
    tail.params.push(AbiParam::new(POINTER));
    tail.params.extend(signature.params.iter().map(|&ty| AbiParam::new(machine_type(ty))));
    tail.returns.extend(signature.results.iter().map(|&ty| AbiParam::new(machine_type(ty))));
    tail
}

fn host_signature(target: &Target, params: &[ir::Type], result: Option<ir::Type>) -> Signature {
    let mut signature = Signature::new(target.fast_code.default_call_conv());
    signature.params.extend(params.iter().map(|&ty| AbiParam::new(ty)));
    signature.returns.extend(result.map(AbiParam::new));
    signature
}

/// What nothing calls.
pub(super) fn uncalled(target: &Target) -> Result<FunctionCode, String> {
    compile(target, |function, context| {
        let mut t = Trampoline::new(target, function, context);
        t.b.ins().trap(ir::TrapCode::unwrap_user(TrapCode::Internal as u8));
        t.finish();
    })
}

/// Host to Wasm.
pub(super) fn entry(target: &Target, signature: &MachineSignature) -> Result<FunctionCode, String> {
    compile(target, |function, context| {
        function.signature = host_signature(target, &[POINTER; 4], Some(types::I32));
        let mut t = Trampoline::new(target, function, context);
        let [context, code, values, entry] = t.params()[..] else { unreachable!("four parameters") };
        let mut args = vec![context];
        for (number, &ty) in signature.params.iter().enumerate() {
            args.push(t.load(machine_type(ty), values, cell(number)));
        }
        // The handler's address can be asked for a block other than the first only.
        let start = t.b.create_block();
        t.b.ins().jump(start, &[]);
        t.b.switch_to_block(start);
        let normal = t.b.create_block();
        let landing = t.b.create_block();
        let sp = t.b.ins().get_stack_pointer(POINTER);
        t.store(sp, entry, std::mem::offset_of!(EntryRecord, sp));
        let fp = t.b.ins().get_frame_pointer(POINTER);
        t.store(fp, entry, std::mem::offset_of!(EntryRecord, fp));
        let address = t.b.ins().get_exception_handler_address(POINTER, start, 0);
        t.store(address, entry, std::mem::offset_of!(EntryRecord, landing));

        let sig = t.b.import_signature(tail_signature(signature));
        let rets = (0..signature.results.len() as u32).map(ir::BlockArg::TryCallRet);
        let normal_call = ir::BlockCall::new(normal, rets, &mut t.b.func.dfg.value_lists);
        let landing_call = ir::BlockCall::new(landing, [], &mut t.b.func.dfg.value_lists);
        let items = [ExceptionTableItem::Default(landing_call)];
        let table = t.b.func.dfg.exception_tables.push(ExceptionTableData::new(sig, normal_call, items));
        t.b.ins().try_call_indirect(code, &args, table);

        t.b.switch_to_block(normal);
        let results = signature.results.iter().map(|&ty| t.b.append_block_param(normal, machine_type(ty)));
        let results: Vec<_> = results.collect();
        for (number, result) in results.into_iter().enumerate() {
            t.store(result, values, cell(number) as usize);
        }
        t.return_number(0);
        t.b.set_cold_block(landing);
        t.b.switch_to_block(landing);
        t.return_number(1);
        t.finish();
    })
}

/// Wasm to host.
pub(super) fn exit(target: &Target, signature: &MachineSignature) -> Result<FunctionCode, String> {
    compile(target, |function, context| {
        function.signature = tail_signature(signature);
        let mut t = Trampoline::new(target, function, context);
        let params = t.params();
        let count = signature.params.len().max(signature.results.len()).max(1) as u32;
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, count * VALUE_CELL_BYTES, 4);
        let slot = t.b.create_sized_stack_slot(data);
        let cells = t.b.ins().stack_addr(POINTER, slot, 0);
        for (number, &param) in params[1..].iter().enumerate() {
            t.store(param, cells, cell(number) as usize);
        }
        t.record_exit(params[0]);
        let call = t.load(POINTER, params[0], std::mem::offset_of!(HostContext, call) as i32);
        let sig = host_signature(target, &[POINTER; 2], Some(types::I32));
        let sig = t.b.import_signature(sig);
        let call = t.b.ins().call_indirect(sig, call, &[params[0], cells]);
        let failed = t.b.inst_results(call)[0];
        t.raise_if(failed, params[0]);
        let results: Vec<_> = signature
            .results
            .iter()
            .enumerate()
            .map(|(number, &ty)| t.load(machine_type(ty), cells, cell(number)))
            .collect();
        t.b.ins().return_(&results);
        t.finish();
    })
}

/// Compiled code to a builtin of the runtime. With `cold` the arguments are found in the context's cells, the result
/// goes to the first of them, and all registers are preserved.
pub(super) fn builtin(
    target: &Target,
    plan: &AccessPlan,
    builtin: Builtin,
    cold: bool,
) -> Result<FunctionCode, String> {
    let description = builtin.signature();
    compile(target, |function, context| {
        function.signature = if cold { cold_signature(builtin) } else { builtin_signature(builtin) };
        let mut t = Trampoline::new(target, function, context);
        let params = t.params();
        let instance = params[0];
        if let (Builtin::RecordOverwritten, true, Some(plan)) = (builtin, cold, plan.store_barrier.before) {
            t.push_overwritten(&plan, instance);
        }
        // Who comes here by a cold call has found no cell.
        if !cold && allocation::is_here(builtin, plan) {
            t.allocate(plan, instance, params[1], params.get(2).copied());
        }
        t.record_exit(instance);
        let table = t.load(POINTER, instance, std::mem::offset_of!(ContextHead, builtins) as i32);
        let code = t.load(POINTER, table, 8 * builtin as i32);
        let mut types = vec![POINTER];
        types.extend(description.params.iter().map(|&ty| abi_type(ty)));
        let result_type = description.result.map(abi_type);
        let host_result = if description.fails_on.is_some() { Some(types::I64) } else { result_type };
        let sig = t.b.import_signature(host_signature(target, &types, host_result));
        let args: Vec<ir::Value> = if cold {
            let cells = types[1..].iter().enumerate();
            let loaded =
                cells.map(|(number, &ty)| t.load(ty, instance, ContextHead::COLD_CELLS_OFFSET + 8 * number as i32));
            std::iter::once(instance).chain(loaded).collect()
        } else {
            params.clone()
        };
        let call = t.b.ins().call_indirect(sig, code, &args);
        let mut result = t.b.inst_results(call).first().copied();
        if let (Some(failure), Some(value)) = (description.fails_on, result) {
            let failed = t.b.ins().icmp_imm_s(IntCC::Equal, value, failure);
            t.raise_if(failed, instance);
            result = match result_type {
                Some(types::I32) => Some(t.b.ins().ireduce(types::I32, value)),
                Some(_) => Some(value),
                None => None,
            };
        }
        if cold {
            if let Some(result) = result {
                t.store(result, instance, ContextHead::COLD_CELLS_OFFSET as usize);
            }
            t.b.ins().return_(&[]);
        } else {
            t.b.ins().return_(result.as_slice());
        }
        t.finish();
    })
}

fn cell(number: usize) -> i32 {
    (number as u32 * VALUE_CELL_BYTES) as i32
}

fn compile(
    target: &Target,
    build: impl FnOnce(&mut ir::Function, &mut FunctionBuilderContext),
) -> Result<FunctionCode, String> {
    with_scratch(|scratch| {
        build(&mut scratch.context.func, &mut scratch.builder);
        scratch.compile(&*target.fast_code, false)
    })
}

struct Trampoline<'a, 'b> {
    target: &'a Target,
    b: FunctionBuilder<'b>,
}

impl<'a, 'b> Trampoline<'a, 'b> {
    fn new(
        target: &'a Target,
        function: &'b mut ir::Function,
        context: &'b mut FunctionBuilderContext,
    ) -> Trampoline<'a, 'b> {
        let mut b = FunctionBuilder::new(function, context);
        let block = b.create_block();
        b.append_block_params_for_function_params(block);
        b.switch_to_block(block);
        Trampoline { target, b }
    }

    fn params(&self) -> Vec<ir::Value> {
        self.b.block_params(self.b.current_block().expect("the entry block")).to_vec()
    }

    fn load(&mut self, ty: ir::Type, base: ir::Value, offset: i32) -> ir::Value {
        self.b.ins().load(ty, MemFlagsData::trusted(), base, offset)
    }

    fn store(&mut self, value: ir::Value, base: ir::Value, offset: usize) {
        self.b.ins().store(MemFlagsData::trusted(), value, base, offset as i32);
    }

    fn return_number(&mut self, number: i64) {
        let number = self.b.ins().iconst(types::I32, number);
        self.b.ins().return_(&[number]);
    }

    /// Records the caller's frame in the store: where a walk of the stack begins.
    fn record_exit(&mut self, context: ir::Value) {
        let store = self.load(POINTER, context, std::mem::offset_of!(ContextHead, store) as i32);
        let fp = self.b.ins().get_frame_pointer(POINTER);
        let caller = self.load(POINTER, fp, 0);
        let return_address = self.load(POINTER, fp, RETURN_ADDRESS);
        self.store(caller, store, std::mem::offset_of!(StoreContext, last_exit_fp));
        self.store(return_address, store, std::mem::offset_of!(StoreContext, last_exit_pc));
    }

    /// Where the condition is not zero, unwinds to what the runtime has recorded.
    fn raise_if(&mut self, condition: ir::Value, context: ir::Value) {
        let raise = self.b.create_block();
        let done = self.b.create_block();
        self.b.ins().brif(condition, raise, &[], done, &[]);
        self.b.set_cold_block(raise);
        self.b.switch_to_block(raise);
        let table = self.load(POINTER, context, std::mem::offset_of!(ContextHead, builtins) as i32);
        let code = self.load(POINTER, table, 8 * Builtin::Raise as i32);
        let sig = host_signature(self.target, &[POINTER], None);
        let sig = self.b.import_signature(sig);
        self.b.ins().call_indirect(sig, code, &[context]);
        // It does not return.
        self.b.ins().trap(ir::TrapCode::unwrap_user(TrapCode::Internal as u8));
        self.b.switch_to_block(done);
    }

    /// Pushes the reference in the first cell to the buffer of overwritten ones, if it leads to an object, and returns;
    /// goes on where the buffer is full then.
    fn push_overwritten(&mut self, plan: &SnapshotPlan, context: ir::Value) {
        let old = self.load(types::I32, context, ContextHead::COLD_CELLS_OFFSET);
        let [object, push, full, done] = [(); 4].map(|()| self.b.create_block());
        self.b.ins().brif(old, object, &[], done, &[]);
        self.b.switch_to_block(object);
        let is_immediate = self.b.ins().band_imm_u(old, 1);
        self.b.ins().brif(is_immediate, done, &[], push, &[]);
        self.b.switch_to_block(push);
        let mutator = self.load(POINTER, context, std::mem::offset_of!(ContextHead, mutator) as i32);
        let word = |offset: usize| plan.buffer_offset as usize + offset;
        let (cursor_at, limit_at) =
            (word(std::mem::offset_of!(BufferWords, cursor)), word(std::mem::offset_of!(BufferWords, limit)));
        let cursor = self.load(POINTER, mutator, cursor_at as i32);
        self.store(old, cursor, 0);
        let next = self.b.ins().iadd_imm_s(cursor, 4);
        self.store(next, mutator, cursor_at);
        let limit = self.load(POINTER, mutator, limit_at as i32);
        let is_full = self.b.ins().icmp(IntCC::Equal, next, limit);
        self.b.ins().brif(is_full, full, &[], done, &[]);
        self.b.switch_to_block(done);
        self.b.ins().return_(&[]);
        self.b.set_cold_block(full);
        self.b.switch_to_block(full);
    }

    fn finish(mut self) {
        self.b.seal_all_blocks();
        self.b.finalize(self.target.fast_code.frontend_config());
    }
}
