//! Random functions in Cranelift IR, of all that baseline code is made for but calls with handlers.

mod operations;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32, F64, I32, I64};
use cranelift_codegen::ir::{
    AbiParam, ArgumentPurpose, Block, BlockArg, BlockCall, Function, InstBuilder, JumpTableData, MemFlagsData,
    Signature, TrapCode, Type, UserFuncName, Value,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

/// Bytes of the memory that the context leads to.
pub(super) const MEMORY: i32 = 2048;
/// Where the addresses of the functions lie that are called.
pub(super) const HELPER_AT: i32 = 0;
/// Where functions load from and store to.
const SCRATCH_AT: i32 = 64;
/// Where each leaves what it has computed.
const RESULTS_AT: [i32; 3] = [768, 1280, 1664];

const TRAP: TrapCode = TrapCode::unwrap_user(1);

/// What a function is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Calls the second one.
    Main,
    /// Has more arguments than registers hold, and ends in a tail call of the last one, or returns.
    Helper,
    /// Has more arguments still, or fewer.
    Last,
}

pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 3
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    /// A number, often one at the edge of something.
    pub(super) fn number(&mut self) -> i64 {
        match self.below(8) {
            0 => 0,
            1 => 1,
            2 => -1,
            3 => i64::from(i32::MIN) << (32 * self.below(2)),
            4 => i64::MAX >> (32 * self.below(2)),
            5 => self.below(256) as i64,
            6 => 1 << self.below(63),
            _ => self.next() as i64 ^ (self.next() as i64) << 32,
        }
    }
}

/// The signature of a function, with the number of arguments that seeds say.
fn signature(seed: u64, kind: Kind) -> Signature {
    let mut random = Random::new(seed ^ kind as u64 ^ 0x516);
    let mut signature = Signature::new(CallConv::Tail);
    signature.params.push(AbiParam::special(I64, ArgumentPurpose::VMContext));
    match kind {
        Kind::Main => {
            signature.params.extend([I32, I64, I32, I64, F64, F32].map(AbiParam::new));
            signature.returns.push(AbiParam::new(I64));
        }
        Kind::Helper | Kind::Last => {
            for _ in 0..random.below(14) {
                signature.params.push(AbiParam::new([I32, I64, F32, F64][random.below(4)]));
            }
            // A tail call returns what the caller returns.
            signature.returns.extend([I64, F64, I32].map(AbiParam::new));
        }
    }
    signature
}

pub(super) fn generate(seed: u64, kind: Kind) -> Function {
    let mut function = Function::with_name_signature(UserFuncName::user(0, kind as u32), signature(seed, kind));
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut function, &mut context);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let params = b.block_params(entry).to_vec();
    let random = Random::new(seed ^ (kind as u64) << 40);
    let mut generator =
        Generator { b, random, context: params[0], values: params[1..].to_vec(), seed, kind, depth: 0, calls: 0 };
    let statements = 3 + generator.random.below(12);
    generator.statements(statements);
    generator.end();
    generator.b.seal_all_blocks();
    finalize(generator.b);
    function
}

/// A function that loads the third word of its context: far behind the sum of numbers, and before one of these alone.
pub(super) fn far_load() -> Function {
    let mut signature = Signature::new(CallConv::Tail);
    signature.params.push(AbiParam::special(I64, ArgumentPurpose::VMContext));
    signature.returns.push(AbiParam::new(I64));
    let mut function = Function::with_name_signature(UserFuncName::user(0, 0), signature);
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut function, &mut context);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let (number, distance) = ((1 << 30) - 1, i32::MAX);
    let start = b.block_params(entry)[0];
    let before = b.ins().iconst(I64, 16 - 2 * number - i64::from(distance));
    let mut address = b.ins().iadd(start, before);
    for _ in 0..2 {
        address = b.ins().iadd_imm_s(address, number);
    }
    let loaded = b.ins().load(I64, MemFlagsData::trusted(), address, distance);
    b.ins().return_(&[loaded]);
    b.seal_all_blocks();
    finalize(b);
    function
}

/// Ends a function, for the host.
fn finalize(b: FunctionBuilder<'_>) {
    let host = cranelift_native::builder().unwrap();
    let flags = cranelift_codegen::settings::Flags::new(cranelift_codegen::settings::builder());
    b.finalize(host.finish(flags).unwrap().frontend_config());
}

struct Generator<'a> {
    b: FunctionBuilder<'a>,
    random: Random,
    context: Value,
    /// What may be used here.
    values: Vec<Value>,
    seed: u64,
    kind: Kind,
    depth: usize,
    calls: usize,
}

impl Generator<'_> {
    fn ty(&self, value: Value) -> Type {
        self.b.func.dfg.value_type(value)
    }

    /// A value of a type: one that there is, or a constant.
    fn value(&mut self, ty: Type) -> Value {
        let values: Vec<Value> = self.values.iter().copied().filter(|&value| self.ty(value) == ty).collect();
        if !values.is_empty() && self.random.chance(85) {
            // Mostly recent ones.
            let back = self.random.below(values.len()).min(self.random.below(values.len()));
            return values[values.len() - 1 - back];
        }
        let number = self.random.number();
        match ty {
            F32 => self.b.ins().f32const(f32::from_bits(number as u32)),
            F64 => self.b.ins().f64const(f64::from_bits(number as u64)),
            I32 => self.b.ins().iconst(I32, i64::from(number as u32)),
            _ => self.b.ins().iconst(I64, number),
        }
    }

    fn some_type(&mut self) -> Type {
        [I32, I32, I64, I64, F32, F64][self.random.below(6)]
    }

    fn int_type(&mut self) -> Type {
        [I32, I64][self.random.below(2)]
    }

    fn float_type(&mut self) -> Type {
        [F32, F64][self.random.below(2)]
    }

    fn statements(&mut self, count: usize) {
        for _ in 0..count {
            match self.random.below(20) {
                0 if self.depth < 3 => self.branch(),
                1 if self.depth < 3 => self.cycle(),
                2 if self.depth < 3 => self.by_table(),
                3 if self.kind == Kind::Main && self.calls < 3 && self.depth < 2 => self.call(),
                4 | 5 => self.store(),
                6 => self.slot(),
                7 => {
                    let value = self.value(I32);
                    let never = self.b.ins().bor_imm_u(value, 1);
                    self.b.ins().trapz(never, TRAP);
                    let (left, never) = (self.value(I64), self.value(I64));
                    let same = self.b.ins().icmp(IntCC::NotEqual, left, left);
                    let _ = never;
                    self.b.ins().trapnz(same, TRAP);
                }
                _ => self.compute(),
            }
        }
    }

    fn keep(&mut self, value: Value) {
        self.values.push(value);
    }

    /// A block, cold or not.
    fn block(&mut self, params: &[Type]) -> Block {
        let block = self.b.create_block();
        params.iter().for_each(|&ty| {
            self.b.append_block_param(block, ty);
        });
        if self.random.chance(20) {
            self.b.set_cold_block(block);
        }
        block
    }

    fn types(&mut self) -> Vec<Type> {
        let count = self.random.below(5);
        (0..count).map(|_| self.some_type()).collect()
    }

    fn arguments(&mut self, types: &[Type]) -> Vec<BlockArg> {
        types.iter().map(|&ty| self.value(ty).into()).collect()
    }

    /// What an arm computes, which ends in a jump.
    fn arm(&mut self, block: Block, to: Block, types: &[Type]) {
        let known = self.values.len();
        self.b.switch_to_block(block);
        let params = self.b.block_params(block).to_vec();
        self.values.extend(params);
        self.depth += 1;
        let count = self.random.below(6);
        self.statements(count);
        self.depth -= 1;
        let arguments = self.arguments(types);
        self.b.ins().jump(to, &arguments);
        self.values.truncate(known);
    }

    fn branch(&mut self) {
        let (joined, passed) = (self.types(), self.types());
        let join = self.block(&joined);
        let then = self.block(&passed);
        let condition = self.condition();
        let arguments = self.arguments(&passed);
        if self.random.chance(40) {
            // One arm alone.
            let skipped = self.arguments(&joined);
            if self.random.chance(50) {
                self.b.ins().brif(condition, then, &arguments, join, &skipped);
            } else {
                self.b.ins().brif(condition, join, &skipped, then, &arguments);
            }
        } else {
            let otherwise = self.block(&joined);
            let others = self.arguments(&joined);
            self.b.ins().brif(condition, then, &arguments, otherwise, &others);
            self.arm(otherwise, join, &joined);
        }
        self.arm(then, join, &joined);
        self.b.switch_to_block(join);
        let params = self.b.block_params(join).to_vec();
        self.values.extend(params);
    }

    fn by_table(&mut self) {
        let joined = self.types();
        let join = self.block(&joined);
        let index = self.value(I32);
        let index = self.b.ins().band_imm_u(index, 7);
        let mut arms = Vec::new();
        let mut calls: Vec<BlockCall> = Vec::new();
        for _ in 0..2 + self.random.below(4) {
            let passed = self.types();
            let arguments = self.arguments(&passed);
            let arm = self.block(&passed);
            calls.push(self.b.func.dfg.block_call(arm, &arguments));
            if self.random.chance(30) {
                calls.push(self.b.func.dfg.block_call(arm, &arguments));
            }
            arms.push(arm);
        }
        let skipped = self.arguments(&joined);
        let default = self.b.func.dfg.block_call(join, &skipped);
        let table = self.b.create_jump_table(JumpTableData::new(default, &calls));
        self.b.ins().br_table(index, table);
        for arm in arms {
            self.arm(arm, join, &joined);
        }
        self.b.switch_to_block(join);
        let params = self.b.block_params(join).to_vec();
        self.values.extend(params);
    }

    /// A loop of a few turns, which passes its parameters on in another order.
    fn cycle(&mut self) {
        let carried = self.types();
        let mut types = vec![I32];
        types.extend(&carried);
        let (header, body, exit) = (self.block(&types), self.block(&[]), self.block(&[]));
        let mut arguments: Vec<BlockArg> = vec![self.b.ins().iconst(I32, 0).into()];
        arguments.extend(self.arguments(&carried));
        self.b.ins().jump(header, &arguments);
        self.b.switch_to_block(header);
        let params = self.b.block_params(header).to_vec();
        let turns = self.random.below(5) as i64;
        let goes_on = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, params[0], turns);
        self.b.ins().brif(goes_on, body, &[], exit, &[]);
        let known = self.values.len();
        self.values.extend(&params[1..]);
        self.b.switch_to_block(body);
        self.depth += 1;
        let count = self.random.below(5);
        self.statements(count);
        self.depth -= 1;
        let mut next: Vec<BlockArg> = vec![self.b.ins().iadd_imm_s(params[0], 1).into()];
        for &ty in &carried {
            let same: Vec<Value> = params[1..].iter().copied().filter(|&param| self.ty(param) == ty).collect();
            let value = if self.random.chance(60) { same[self.random.below(same.len())] } else { self.value(ty) };
            next.push(value.into());
        }
        self.b.ins().jump(header, &next);
        self.values.truncate(known);
        self.b.switch_to_block(exit);
        self.values.extend(&params[1..]);
    }

    fn call_arguments(&mut self, kind: Kind) -> (cranelift_codegen::ir::SigRef, Value, Vec<Value>) {
        let signature = signature(self.seed, kind);
        let mut arguments = vec![self.context];
        for param in &signature.params[1..] {
            let value = self.value(param.value_type);
            arguments.push(value);
        }
        let signature = self.b.import_signature(signature);
        let at = HELPER_AT + 8 * (kind as i32 - Kind::Helper as i32);
        let code = self.b.ins().load(I64, MemFlagsData::trusted(), self.context, at);
        (signature, code, arguments)
    }

    fn call(&mut self) {
        self.calls += 1;
        let (signature, code, arguments) = self.call_arguments(Kind::Helper);
        let call = self.b.ins().call_indirect(signature, code, &arguments);
        let results = self.b.inst_results(call).to_vec();
        self.values.extend(results);
    }

    /// Stores what has been computed, and returns.
    fn end(&mut self) {
        let flags = MemFlagsData::trusted();
        let last: Vec<Value> = self.values.iter().rev().take(40).copied().collect();
        for (number, value) in last.into_iter().enumerate() {
            let value = if self.ty(value).is_float() { self.canonical(value) } else { value };
            let at = RESULTS_AT[self.kind as usize] + 8 * number as i32;
            self.b.ins().store(flags, value, self.context, at);
        }
        if self.kind == Kind::Helper && self.random.chance(60) {
            let (signature, code, arguments) = self.call_arguments(Kind::Last);
            self.b.ins().return_call_indirect(signature, code, &arguments);
            return;
        }
        let results: Vec<Type> = self.b.func.signature.returns.iter().map(|result| result.value_type).collect();
        let values: Vec<Value> = results.into_iter().map(|ty| self.value(ty)).collect();
        self.b.ins().return_(&values);
    }
}
