//! What random functions compute: operations, loads and stores.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F64, I8, I16, I32, I64};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value};
use cranelift_frontend::FunctionBuilder;

use super::{Generator, SCRATCH_AT};

impl Generator<'_> {
    /// A float whose bits do not depend on how NaNs come about.
    pub(super) fn canonical(&mut self, value: Value) -> Value {
        let is_number = self.b.ins().fcmp(FloatCC::Equal, value, value);
        let zero = if self.ty(value) == F32 { self.b.ins().f32const(0.0_f32) } else { self.b.ins().f64const(0.0_f64) };
        self.b.ins().select(is_number, value, zero)
    }

    /// Something to branch on.
    pub(super) fn condition(&mut self) -> Value {
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

    pub(super) fn comparison(&mut self) -> Value {
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

    pub(super) fn compute(&mut self) {
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

    pub(super) fn store(&mut self) {
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
    pub(super) fn slot(&mut self) {
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
}
