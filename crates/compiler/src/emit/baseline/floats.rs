//! Arithmetic with floats.

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{Opcode, Value, types};

use super::integers::width;
use super::operands::{Alu, Bitwise, Cond, Float, FloatOp, Gpr, Width, Xmm};
use super::registers::{SCRATCH, SCRATCH_FLOAT};
use super::state::Baseline;

/// What the flags say of two floats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FloatCond {
    /// The condition alone.
    One(Cond),
    /// They are equal, and neither is a NaN.
    Equal,
    /// They are not, or one is.
    NotEqual,
}

impl Baseline<'_> {
    /// Loads a float of which the bits are given.
    pub(super) fn float_number(&mut self, to: Xmm, bits: i64) {
        // Exclusive or leaves the flags alone.
        if bits == 0 {
            return self.asm.bitwise(Bitwise::Xor, to, to);
        }
        self.asm.number(SCRATCH, bits);
        self.asm.bits_to_float(Width::W64, to, SCRATCH);
    }

    pub(super) fn float_binary(&mut self, result: Value, opcode: Opcode, [left, right]: [Value; 2]) -> Option<()> {
        let op = match opcode {
            Opcode::Fadd => FloatOp::Add,
            Opcode::Fsub => FloatOp::Sub,
            Opcode::Fmul => FloatOp::Mul,
            Opcode::Fdiv => FloatOp::Div,
            Opcode::Fcopysign => {
                self.copy_sign(result, left, right);
                return Some(());
            }
            _ => return None,
        };
        let float = self.float_of(result);
        let left_register = self.xmm(left);
        let right_place = self.float_operand(right);
        self.used(left);
        self.used(right);
        let register = self.result_xmm(left_register);
        self.asm.float_op(op, float, register, right_place);
        self.define_xmm(result, register);
        Some(())
    }

    /// The bit that is the sign of a float.
    fn sign(float: Float) -> i64 {
        match float {
            Float::F32 => 1 << 31,
            Float::F64 => i64::MIN,
        }
    }

    fn copy_sign(&mut self, result: Value, left: Value, right: Value) {
        let (left_register, right_register) = (self.xmm(left), self.xmm(right));
        self.used(left);
        self.used(right);
        let register = self.take_xmm();
        self.float_number(SCRATCH_FLOAT, Self::sign(self.float_of(result)));
        self.asm.copy_float(register, SCRATCH_FLOAT);
        self.asm.bitwise(Bitwise::AndNot, register, left_register);
        self.asm.bitwise(Bitwise::And, SCRATCH_FLOAT, right_register);
        self.asm.bitwise(Bitwise::Or, register, SCRATCH_FLOAT);
        self.define_xmm(result, register);
    }

    pub(super) fn float_unary(&mut self, result: Value, opcode: Opcode, value: Value) -> Option<()> {
        let from = self.function.dfg.value_type(value);
        match opcode {
            Opcode::Fneg => self.with_sign(result, Bitwise::Xor, Self::sign(self.float_of(result)), value),
            Opcode::Fabs => {
                let float = self.float_of(result);
                let mask = if float == Float::F32 { i64::from(i32::MAX) } else { i64::MAX };
                self.with_sign(result, Bitwise::And, mask, value);
            }
            Opcode::Sqrt => {
                let register = self.xmm(value);
                self.used(value);
                let to = self.take_xmm();
                self.asm.float_op(FloatOp::Sqrt, self.float_of(result), to, register);
                self.define_xmm(result, to);
            }
            Opcode::Nearest | Opcode::Floor | Opcode::Ceil | Opcode::Trunc if self.features.rounds => {
                let mode = match opcode {
                    Opcode::Nearest => 0,
                    Opcode::Floor => 1,
                    Opcode::Ceil => 2,
                    _ => 3,
                };
                let register = self.xmm(value);
                self.used(value);
                let to = self.take_xmm();
                self.asm.round(self.float_of(result), mode, to, register);
                self.define_xmm(result, to);
            }
            Opcode::Fpromote | Opcode::Fdemote => {
                let register = self.xmm(value);
                self.used(value);
                let to = self.take_xmm();
                self.asm.float_from_float(self.float_of(value), to, register);
                self.define_xmm(result, to);
            }
            Opcode::FcvtFromSint => self.float_of_int(result, width(from)?, value),
            Opcode::FcvtFromUint if from == types::I32 => {
                let register = self.gpr(value);
                self.used(value);
                self.asm.mov(Width::W32, SCRATCH, register);
                let to = self.take_xmm();
                self.asm.bitwise(Bitwise::Xor, to, to);
                self.asm.float_from_int(self.float_of(result), Width::W64, to, SCRATCH);
                self.define_xmm(result, to);
            }
            Opcode::FcvtToSintSat => {
                let width = width(self.function.dfg.value_type(result))?;
                self.int_of_float(result, width, value);
            }
            _ => return None,
        }
        Some(())
    }

    fn with_sign(&mut self, result: Value, op: Bitwise, bits: i64, value: Value) {
        let register = self.xmm(value);
        self.used(value);
        self.float_number(SCRATCH_FLOAT, bits);
        let to = self.result_xmm(register);
        self.asm.bitwise(op, to, SCRATCH_FLOAT);
        self.define_xmm(result, to);
    }

    fn float_of_int(&mut self, result: Value, width: Width, value: Value) {
        let register = self.gpr(value);
        self.used(value);
        let to = self.take_xmm();
        // The instruction leaves the upper bits: what was there would be waited for.
        self.asm.bitwise(Bitwise::Xor, to, to);
        self.asm.float_from_int(self.float_of(result), width, to, register);
        self.define_xmm(result, to);
    }

    /// Rounds towards zero, to the nearest number that there is; of a NaN it is 0.
    fn int_of_float(&mut self, result: Value, width: Width, value: Value) {
        let float = self.float_of(value);
        let from = self.xmm(value);
        self.used(value);
        let to = self.take_gpr();
        let (done, is_number) = (self.asm.label(), self.asm.label());
        self.asm.int_from_float(float, width, to, from);
        // What cannot be held has become the least number: only of that 1 cannot be taken away.
        self.asm.alu_number(Alu::Cmp, width, to, 1);
        self.asm.jump_if(Cond::NO_OVERFLOW, done);
        self.asm.bitwise(Bitwise::Xor, SCRATCH_FLOAT, SCRATCH_FLOAT);
        self.asm.compare_floats(float, from, SCRATCH_FLOAT);
        self.asm.jump_if(Cond::NO_PARITY, is_number);
        self.asm.number(to, 0);
        self.asm.jump(done);
        self.asm.bind(is_number);
        self.asm.jump_if(Cond::BELOW, done);
        self.asm.number(to, if width == Width::W32 { i64::from(i32::MAX) } else { i64::MAX });
        self.asm.bind(done);
        self.define_gpr(result, to);
    }

    pub(super) fn select_float(&mut self, result: Value, cond: Cond, then: Value, otherwise: Value) -> Option<()> {
        let (then_register, otherwise_register) = (self.xmm(then), self.xmm(otherwise));
        self.used(then);
        self.used(otherwise);
        let to = self.take_xmm();
        let done = self.asm.label();
        self.asm.copy_float(to, then_register);
        self.asm.jump_if(cond, done);
        self.asm.copy_float(to, otherwise_register);
        self.asm.bind(done);
        self.define_xmm(result, to);
        Some(())
    }

    /// Compares floats; gives back what the flags say if the comparison holds.
    pub(super) fn compare_floats(&mut self, cond: FloatCC, [left, right]: [Value; 2]) -> Option<FloatCond> {
        let (cond, swapped) = match cond {
            FloatCC::Equal => (FloatCond::Equal, false),
            FloatCC::NotEqual => (FloatCond::NotEqual, false),
            // Where one is a NaN, the flags say that the left one is below.
            FloatCC::GreaterThan => (FloatCond::One(Cond::ABOVE), false),
            FloatCC::GreaterThanOrEqual => (FloatCond::One(Cond::ABOVE_EQUAL), false),
            FloatCC::LessThan => (FloatCond::One(Cond::ABOVE), true),
            FloatCC::LessThanOrEqual => (FloatCond::One(Cond::ABOVE_EQUAL), true),
            _ => return None,
        };
        let (left, right) = if swapped { (right, left) } else { (left, right) };
        let register = self.xmm(left);
        let place = self.float_operand(right);
        self.used(left);
        self.used(right);
        self.asm.compare_floats(self.float_of(left), register, place);
        Some(cond)
    }

    /// Has the flags say whether a comparison holds; gives back the condition that holds then.
    pub(super) fn float_flags(&mut self, cond: FloatCC, args: [Value; 2]) -> Option<Cond> {
        match self.compare_floats(cond, args)? {
            FloatCond::One(cond) => Some(cond),
            cond => {
                let register = self.take_gpr();
                // Its last instruction says whether what it has computed is 0.
                self.float_boolean(cond, register);
                Some(Cond::NOT_EQUAL)
            }
        }
    }

    pub(super) fn float_comparison(&mut self, result: Value, cond: FloatCC, args: [Value; 2]) -> Option<()> {
        let cond = self.compare_floats(cond, args)?;
        let register = self.take_gpr();
        self.float_boolean(cond, register);
        self.define_gpr(result, register);
        Some(())
    }

    /// Makes what the flags say of two floats 0 or 1.
    fn float_boolean(&mut self, cond: FloatCond, register: Gpr) {
        match cond {
            FloatCond::One(cond) => self.asm.set(cond, register),
            FloatCond::Equal | FloatCond::NotEqual => {
                let is_equal = cond == FloatCond::Equal;
                let (first, second) =
                    if is_equal { (Cond::EQUAL, Cond::NO_PARITY) } else { (Cond::NOT_EQUAL, Cond::PARITY) };
                self.asm.set(second, SCRATCH);
                self.asm.set(first, register);
                let alu = if is_equal { Alu::And } else { Alu::Or };
                self.asm.alu(alu, Width::W32, register, SCRATCH);
            }
        }
    }
}
