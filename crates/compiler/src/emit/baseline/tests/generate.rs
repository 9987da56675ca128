//! Random functions in Cranelift IR, of all that baseline code is made for but calls with handlers.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F64, I8, I16, I32, I64};
use cranelift_codegen::ir::{
    AbiParam, ArgumentPurpose, Block, BlockArg, BlockCall, Function, InstBuilder, JumpTableData, MemFlagsData,
    Signature, StackSlotData, StackSlotKind, TrapCode, Type, UserFuncName, Value,
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
    let frontend = cranelift_native::builder().unwrap();
    let flags = cranelift_codegen::settings::Flags::new(cranelift_codegen::settings::builder());
    generator.b.finalize(frontend.finish(flags).unwrap().frontend_config());
    function
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

    /// A float whose bits do not depend on how NaNs come about.
    fn canonical(&mut self, value: Value) -> Value {
        let is_number = self.b.ins().fcmp(FloatCC::Equal, value, value);
        let zero = if self.ty(value) == F32 { self.b.ins().f32const(0.0_f32) } else { self.b.ins().f64const(0.0_f64) };
        self.b.ins().select(is_number, value, zero)
    }

    /// Something to branch on.
    fn condition(&mut self) -> Value {
        let condition = match self.random.below(4) {
            0 => {
                let ty = self.int_type();
                return self.value(ty);
            }
            1 => self.float_comparison(),
            _ => self.comparison(),
        };
        match self.random.below(4) {
            0 => {
                let wide = self.b.ins().uextend(I32, condition);
                let inverse = self.b.ins().icmp_imm_u(IntCC::Equal, wide, 0);
                if self.random.chance(50) {
                    let wide = self.b.ins().uextend(I32, inverse);
                    return self.b.ins().icmp_imm_u(IntCC::NotEqual, wide, 0);
                }
                inverse
            }
            1 => self.b.ins().uextend(I32, condition),
            _ => condition,
        }
    }

    fn comparison(&mut self) -> Value {
        let ty = self.int_type();
        let (left, right) = (self.value(ty), self.value(ty));
        let all = IntCC::all();
        self.b.ins().icmp(all[self.random.below(all.len())], left, right)
    }

    fn float_comparison(&mut self) -> Value {
        use FloatCC::{Equal, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual, NotEqual};
        let ty = self.float_type();
        let (left, right) = (self.value(ty), self.value(ty));
        let all = [Equal, NotEqual, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual];
        self.b.ins().fcmp(all[self.random.below(all.len())], left, right)
    }

    /// An address within the memory, and bytes that it may be apart from it.
    fn address(&mut self) -> (Value, i32) {
        let offset = SCRATCH_AT + 8 * self.random.below(8) as i32;
        match self.random.below(4) {
            0 => (self.context, offset),
            1 => (self.b.ins().iadd_imm_s(self.context, i64::from(offset)), 8 * self.random.below(4) as i32),
            kind => {
                let index = self.value(I32);
                let index = self.b.ins().band_imm_u(index, 0xf8);
                let index = self.b.ins().uextend(I64, index);
                let sum = self.b.ins().iadd(self.context, index);
                if kind == 2 {
                    return (sum, offset);
                }
                (self.b.ins().iadd_imm_s(sum, 16), offset)
            }
        }
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

    fn compute(&mut self) {
        let value = match self.random.below(10) {
            0..=3 => self.integer(),
            4 | 5 => self.float(),
            6 => self.convert(),
            7 => self.load(),
            8 => {
                let ty = self.some_type();
                let (condition, then, otherwise) = (self.condition(), self.value(ty), self.value(ty));
                self.b.ins().select(condition, then, otherwise)
            }
            _ => {
                let condition = if self.random.chance(70) { self.comparison() } else { self.float_comparison() };
                let ty = self.int_type();
                self.b.ins().uextend(ty, condition)
            }
        };
        self.keep(value);
    }

    fn integer(&mut self) -> Value {
        let ty = self.int_type();
        let (left, right) = (self.value(ty), self.value(ty));
        match self.random.below(18) {
            0 | 1 => self.b.ins().iadd(left, right),
            2 => self.b.ins().isub(left, right),
            3 => self.b.ins().imul(left, right),
            4 => self.b.ins().band(left, right),
            5 => self.b.ins().bor(left, right),
            6 => self.b.ins().bxor(left, right),
            7 => self.b.ins().ishl(left, right),
            8 => self.b.ins().ushr(left, right),
            9 => self.b.ins().sshr(left, right),
            10 => self.b.ins().rotl(left, right),
            11 => self.b.ins().rotr(left, right),
            12 => self.b.ins().umin(left, right),
            13 => {
                let divisor = self.b.ins().bor_imm_u(right, 1);
                [
                    |b: &mut FunctionBuilder, x, y| b.ins().udiv(x, y),
                    |b: &mut FunctionBuilder, x, y| b.ins().urem(x, y),
                    |b: &mut FunctionBuilder, x, y| b.ins().srem(x, y),
                ][self.random.below(3)](&mut self.b, left, divisor)
            }
            14 => {
                let divisor = self.b.ins().ushr_imm_u(right, 1);
                let divisor = self.b.ins().bor_imm_u(divisor, 1);
                self.b.ins().sdiv(left, divisor)
            }
            15 => match self.random.below(3) {
                0 => self.b.ins().clz(left),
                1 => self.b.ins().ctz(left),
                _ => self.b.ins().popcnt(left),
            },
            16 => self.b.ins().iadd_imm_s(left, self.random.number() >> 34),
            _ => {
                let bits = self.random.below(64) as u64;
                self.b.ins().ushr_imm_u(left, bits as i64 % i64::from(ty.bits()))
            }
        }
    }

    fn float(&mut self) -> Value {
        let ty = self.float_type();
        let (left, right) = (self.value(ty), self.value(ty));
        match self.random.below(11) {
            0 | 1 => self.b.ins().fadd(left, right),
            2 => self.b.ins().fsub(left, right),
            3 => self.b.ins().fmul(left, right),
            4 => self.b.ins().fdiv(left, right),
            5 => self.b.ins().fneg(left),
            6 => self.b.ins().fabs(left),
            7 => self.b.ins().sqrt(left),
            8 => match self.random.below(4) {
                0 => self.b.ins().nearest(left),
                1 => self.b.ins().floor(left),
                2 => self.b.ins().ceil(left),
                _ => self.b.ins().trunc(left),
            },
            9 => {
                let sign = self.canonical(right);
                self.b.ins().fcopysign(left, sign)
            }
            _ if ty == F32 => self.b.ins().fpromote(F64, left),
            _ => self.b.ins().fdemote(F32, left),
        }
    }

    fn convert(&mut self) -> Value {
        let (int, float) = (self.int_type(), self.float_type());
        match self.random.below(9) {
            0 => {
                let value = self.value(int);
                self.b.ins().fcvt_from_sint(float, value)
            }
            1 => {
                let value = self.value(I32);
                self.b.ins().fcvt_from_uint(float, value)
            }
            2 => {
                let value = self.value(float);
                self.b.ins().fcvt_to_sint_sat(int, value)
            }
            3 => {
                let value = self.value(float);
                let value = self.canonical(value);
                self.b.ins().bitcast(if float == F32 { I32 } else { I64 }, MemFlagsData::new(), value)
            }
            4 => {
                let value = self.value(int);
                self.b.ins().bitcast(if int == I32 { F32 } else { F64 }, MemFlagsData::new(), value)
            }
            5 => {
                let value = self.value(I64);
                self.b.ins().ireduce(I32, value)
            }
            6 => {
                let value = self.value(I32);
                if self.random.chance(50) { self.b.ins().uextend(I64, value) } else { self.b.ins().sextend(I64, value) }
            }
            _ => {
                let value = self.value(int);
                let narrow = self.b.ins().ireduce([I8, I16][self.random.below(2)], value);
                let to = self.int_type();
                if self.random.chance(50) { self.b.ins().uextend(to, narrow) } else { self.b.ins().sextend(to, narrow) }
            }
        }
    }

    fn load(&mut self) -> Value {
        let (address, offset) = self.address();
        let flags = MemFlagsData::trusted();
        let ty = self.int_type();
        match self.random.below(9) {
            0 | 1 => self.b.ins().load(ty, flags, address, offset),
            // Of a number, as the bits of NaNs are kept.
            2 => {
                let float = self.float_type();
                self.b.ins().load(float, flags, address, offset)
            }
            3 => self.b.ins().uload8(ty, flags, address, offset),
            4 => self.b.ins().sload8(ty, flags, address, offset),
            5 => self.b.ins().uload16(ty, flags, address, offset),
            6 => self.b.ins().sload16(ty, flags, address, offset),
            7 => self.b.ins().uload32(flags, address, offset),
            _ => self.b.ins().sload32(flags, address, offset),
        }
    }

    fn store(&mut self) {
        let (address, offset) = self.address();
        let ty = self.some_type();
        let value = self.value(ty);
        let flags = MemFlagsData::trusted();
        if ty.is_float() {
            let value = self.canonical(value);
            self.b.ins().store(flags, value, address, offset);
            return;
        }
        match self.random.below(5) {
            0 => self.b.ins().istore8(flags, value, address, offset),
            1 => self.b.ins().istore16(flags, value, address, offset),
            2 if ty == I64 => self.b.ins().istore32(flags, value, address, offset),
            _ => self.b.ins().store(flags, value, address, offset),
        };
    }

    /// Through a slot of the frame.
    fn slot(&mut self) {
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, 16, 3);
        let slot = self.b.create_sized_stack_slot(data);
        let value = self.value(I64);
        let offset = 8 * self.random.below(2) as i32;
        let address = self.b.ins().stack_addr(I64, slot, offset);
        let flags = MemFlagsData::trusted();
        self.b.ins().store(flags, value, address, 0);
        if self.random.chance(50) {
            self.compute();
        }
        let address = self.b.ins().stack_addr(I64, slot, offset);
        let loaded = self.b.ins().load(I64, flags, address, 0);
        self.keep(loaded);
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
