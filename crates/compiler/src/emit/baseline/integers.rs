//! Arithmetic with integers, comparisons, and what makes integers of others.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstructionData, Opcode, Type, Value, ValueDef, types};

use super::operands::{Alu, Cond, Count, Extend, Mem, RAX, RCX, RDX, Shift, Sole, Width};
use super::plan::Kind;
use super::registers::SCRATCH;
use super::state::Baseline;
use crate::emit::code::trap_code;

/// The width of instructions for values of a type; `None` where there is none.
pub(super) fn width(ty: Type) -> Option<Width> {
    match ty {
        types::I32 => Some(Width::W32),
        types::I64 => Some(Width::W64),
        _ => None,
    }
}

/// The condition of the flags behind a comparison of integers.
fn condition(cond: IntCC) -> Cond {
    match cond {
        IntCC::Equal => Cond::EQUAL,
        IntCC::NotEqual => Cond::NOT_EQUAL,
        IntCC::SignedLessThan => Cond::LESS,
        IntCC::SignedGreaterThanOrEqual => Cond::GREATER_EQUAL,
        IntCC::SignedGreaterThan => Cond::GREATER,
        IntCC::SignedLessThanOrEqual => Cond::LESS_EQUAL,
        IntCC::UnsignedLessThan => Cond::BELOW,
        IntCC::UnsignedGreaterThanOrEqual => Cond::ABOVE_EQUAL,
        IntCC::UnsignedGreaterThan => Cond::ABOVE,
        IntCC::UnsignedLessThanOrEqual => Cond::BELOW_EQUAL,
    }
}

impl Baseline<'_> {
    /// The width of instructions for a value, which may be a boolean.
    pub(super) fn width_of(&self, value: Value) -> Option<Width> {
        let ty = self.function.dfg.value_type(value);
        width(ty).or_else(|| self.plan.is_boolean(self.function, value).then_some(Width::W32))
    }

    pub(super) fn binary(&mut self, inst: ir::Inst, opcode: Opcode, [left, right]: [Value; 2]) -> Option<()> {
        let result = self.function.dfg.first_result(inst);
        if self.is_float(result) {
            return self.float_binary(result, opcode, [left, right]);
        }
        let width = self.width_of(result)?;
        match opcode {
            Opcode::Iadd => self.add(result, width, left, right),
            Opcode::Isub => self.alu(result, Alu::Sub, width, left, right),
            Opcode::Band => self.alu(result, Alu::And, width, left, right),
            Opcode::Bor => self.alu(result, Alu::Or, width, left, right),
            Opcode::Bxor => self.alu(result, Alu::Xor, width, left, right),
            Opcode::Imul => self.multiply(result, width, left, right),
            Opcode::Ishl => self.shift(result, Shift::Shl, width, left, right),
            Opcode::Ushr => self.shift(result, Shift::Shr, width, left, right),
            Opcode::Sshr => self.shift(result, Shift::Sar, width, left, right),
            Opcode::Rotl => self.shift(result, Shift::Rol, width, left, right),
            Opcode::Rotr => self.shift(result, Shift::Ror, width, left, right),
            Opcode::Umin => self.least(result, width, left, right),
            Opcode::Sdiv | Opcode::Udiv | Opcode::Srem | Opcode::Urem => {
                self.divide(result, opcode, width, left, right);
            }
            _ => return None,
        }
        Some(())
    }

    /// A number that an instruction can hold.
    fn immediate(&self, value: Value, width: Width) -> Option<i32> {
        self.number(value, width).and_then(|number| i32::try_from(number).ok())
    }

    fn add(&mut self, result: Value, width: Width, left: Value, right: Value) {
        let left_register = self.gpr(left);
        if let Some(number) = self.immediate(right, width) {
            self.used(left);
            self.used(right);
            if self.is_free(left_register) {
                self.asm.alu_number(Alu::Add, width, left_register, number);
                return self.define_gpr(result, left_register);
            }
            let register = self.take_gpr();
            self.asm.address(width, register, Mem::at(left_register, number));
            return self.define_gpr(result, register);
        }
        if self.plan.value(self.same(left)).uses > 1 && self.plan.value(self.same(right)).uses > 1 {
            let right_register = self.gpr(right);
            self.used(left);
            self.used(right);
            let register = self.take_gpr();
            self.asm.address(width, register, Mem { base: left_register, index: Some(right_register), offset: 0 });
            return self.define_gpr(result, register);
        }
        self.alu(result, Alu::Add, width, left, right);
    }

    fn alu(&mut self, result: Value, alu: Alu, width: Width, left: Value, right: Value) {
        let left_register = self.gpr(left);
        if let Some(number) = self.immediate(right, width) {
            self.used(left);
            self.used(right);
            let register = self.result_gpr(left_register);
            self.asm.alu_number(alu, width, register, number);
            return self.define_gpr(result, register);
        }
        let right_place = self.operand(right);
        self.used(left);
        self.used(right);
        let register = self.result_gpr(left_register);
        self.asm.alu(alu, width, register, right_place);
        self.define_gpr(result, register);
    }

    fn multiply(&mut self, result: Value, width: Width, left: Value, right: Value) {
        if let Some(number) = self.immediate(right, width) {
            let left_place = self.operand(left);
            self.used(left);
            self.used(right);
            let register = self.take_gpr();
            self.asm.multiply_by(width, register, left_place, number);
            return self.define_gpr(result, register);
        }
        let left_register = self.gpr(left);
        let right_place = self.operand(right);
        self.used(left);
        self.used(right);
        let register = self.result_gpr(left_register);
        self.asm.multiply(width, register, right_place);
        self.define_gpr(result, register);
    }

    fn shift(&mut self, result: Value, shift: Shift, width: Width, left: Value, right: Value) {
        let left_register = self.gpr(left);
        // The number of bits may be of another type.
        if let Kind::Number(bits) = self.kind(self.same(right)) {
            self.used(left);
            self.used(right);
            let register = self.result_gpr(left_register);
            self.asm.shift_by(shift, width, register, bits as u8 & if width == Width::W64 { 63 } else { 31 });
            return self.define_gpr(result, register);
        }
        let bits = self.gpr(right);
        self.used(left);
        self.used(right);
        self.registers.lock(RCX);
        let register = self.take_gpr();
        self.asm.copy(register, left_register);
        if bits != RCX {
            self.empty_gpr(RCX);
            self.asm.copy(RCX, bits);
        }
        self.asm.shift(shift, width, register);
        self.define_gpr(result, register);
    }

    fn least(&mut self, result: Value, width: Width, left: Value, right: Value) {
        let (left_register, right_register) = (self.gpr(left), self.gpr(right));
        self.used(left);
        self.used(right);
        let register = self.take_gpr();
        self.asm.copy(register, left_register);
        self.asm.alu(Alu::Cmp, width, register, right_register);
        self.asm.move_if(Cond::ABOVE, width, register, right_register);
        self.define_gpr(result, register);
    }

    fn divide(&mut self, result: Value, opcode: Opcode, width: Width, left: Value, right: Value) {
        let is_signed = matches!(opcode, Opcode::Sdiv | Opcode::Srem);
        let known = self.number(right, width).filter(|&number| number != 0 && number != -1);
        let left_register = self.gpr(left);
        let divisor = self.gpr(right);
        self.asm.copy(SCRATCH, divisor);
        self.used(left);
        self.used(right);
        self.empty_gpr(RAX);
        self.empty_gpr(RDX);
        self.asm.copy(RAX, left_register);
        if is_signed && known.is_none() {
            let trap = self.trap_label(ir::TrapCode::INTEGER_DIVISION_BY_ZERO);
            self.asm.test(width, SCRATCH, SCRATCH);
            self.asm.jump_if(Cond::EQUAL, trap);
        }
        let done = self.asm.label();
        if opcode == Opcode::Srem && known.is_none() {
            // The remainder of the least number by -1 is 0; the instruction would trap.
            let divide = self.asm.label();
            self.asm.alu_number(Alu::Cmp, width, SCRATCH, -1);
            self.asm.jump_if(Cond::NOT_EQUAL, divide);
            self.asm.number(RDX, 0);
            self.asm.jump(done);
            self.asm.bind(divide);
        }
        let code = if is_signed { ir::TrapCode::INTEGER_OVERFLOW } else { ir::TrapCode::INTEGER_DIVISION_BY_ZERO };
        if is_signed {
            self.asm.repeat_sign(width);
        } else {
            self.asm.number(RDX, 0);
        }
        self.code.traps.push((self.asm.offset(), trap_code(code)));
        self.asm.sole(if is_signed { Sole::Idiv } else { Sole::Div }, width, SCRATCH);
        self.asm.bind(done);
        self.define_gpr(result, if matches!(opcode, Opcode::Sdiv | Opcode::Udiv) { RAX } else { RDX });
    }

    pub(super) fn unary(&mut self, inst: ir::Inst, opcode: Opcode, value: Value) -> Option<()> {
        let result = self.function.dfg.first_result(inst);
        let (from, to) = (self.function.dfg.value_type(value), self.function.dfg.value_type(result));
        match opcode {
            Opcode::Uextend | Opcode::Sextend => self.extend(result, opcode, from, to, value),
            Opcode::Clz if self.features.counts_leading => self.count(result, Count::LeadingZeros, value),
            Opcode::Ctz if self.features.counts_trailing => self.count(result, Count::TrailingZeros, value),
            Opcode::Popcnt if self.features.counts_ones => self.count(result, Count::Ones, value),
            _ => self.float_unary(result, opcode, value),
        }
    }

    fn extend(&mut self, result: Value, opcode: Opcode, from: Type, to: Type, value: Value) -> Option<()> {
        let width = width(to)?;
        let extend = match (opcode, from) {
            (Opcode::Uextend, types::I8) => Some(Extend::Zero8),
            (Opcode::Uextend, types::I16) => Some(Extend::Zero16),
            (Opcode::Uextend, types::I32) => None,
            (Opcode::Sextend, types::I8) => Some(Extend::Sign8),
            (Opcode::Sextend, types::I16) => Some(Extend::Sign16),
            (Opcode::Sextend, types::I32) => Some(Extend::Sign32),
            _ => return None,
        };
        let place = self.operand(value);
        self.used(value);
        let register = self.take_gpr();
        match extend {
            Some(extend) => self.asm.extend(width, extend, register, place),
            None => self.asm.mov(Width::W32, register, place),
        }
        self.define_gpr(result, register);
        Some(())
    }

    fn count(&mut self, result: Value, count: Count, value: Value) -> Option<()> {
        let width = self.width_of(value)?;
        let register = self.gpr(value);
        self.used(value);
        // The register that is written is waited for by some processors.
        let result_register = self.result_gpr(register);
        self.asm.count(count, width, result_register, result_register);
        self.define_gpr(result, result_register);
        Some(())
    }

    pub(super) fn bitcast(&mut self, inst: ir::Inst, value: Value) -> Option<()> {
        let result = self.function.dfg.first_result(inst);
        let wide = if self.function.dfg.value_type(result).bits() == 64 { Width::W64 } else { Width::W32 };
        match (self.is_float(value), self.is_float(result)) {
            (false, true) => {
                let register = self.gpr(value);
                self.used(value);
                let float = self.take_xmm();
                self.asm.bits_to_float(wide, float, register);
                self.define_xmm(result, float);
            }
            (true, false) => {
                let float = self.xmm(value);
                self.used(value);
                let register = self.take_gpr();
                self.asm.bits_of_float(wide, register, float);
                self.define_gpr(result, register);
            }
            _ => return None,
        }
        Some(())
    }

    pub(super) fn select(&mut self, inst: ir::Inst, [condition, then, otherwise]: [Value; 3]) -> Option<()> {
        let result = self.function.dfg.first_result(inst);
        let cond = self.flags(condition)?;
        // What follows leaves the flags alone.
        if self.is_float(result) {
            return self.select_float(result, cond, then, otherwise);
        }
        let width = self.width_of(result)?;
        let (then_register, otherwise_register) = (self.gpr(then), self.gpr(otherwise));
        self.used(then);
        self.used(otherwise);
        let register = self.take_gpr();
        self.asm.copy(register, otherwise_register);
        self.asm.move_if(cond, width, register, then_register);
        self.define_gpr(result, register);
        Some(())
    }

    /// Makes the result of a comparison 0 or 1.
    pub(super) fn comparison(&mut self, inst: ir::Inst, result: Value) -> Option<()> {
        if let InstructionData::FloatCompare { cond, args, .. } = self.function.dfg.insts[inst] {
            return self.float_comparison(result, cond, args);
        }
        let cond = self.compare(inst)?;
        let register = self.take_gpr();
        self.asm.set(cond, register);
        self.define_gpr(result, register);
        Some(())
    }

    /// Compares integers; gives back the condition that holds if the comparison does.
    pub(super) fn compare(&mut self, inst: ir::Inst) -> Option<Cond> {
        let InstructionData::IntCompare { cond, args: [left, right], .. } = self.function.dfg.insts[inst] else {
            unreachable!("integers are compared")
        };
        if let (IntCC::Equal | IntCC::NotEqual, Some(0)) = (cond, self.number(right, Width::W64))
            && self.kind(self.same(left)) == Kind::Condition
        {
            self.used(right);
            let inner = self.flags(left)?;
            return Some(if cond == IntCC::Equal { inner.inverse() } else { inner });
        }
        let width = self.width_of(left)?;
        match self.immediate(right, width) {
            Some(0) if matches!(cond, IntCC::Equal | IntCC::NotEqual) => {
                let register = self.gpr(left);
                self.asm.test(width, register, register);
            }
            Some(number) => {
                let place = self.operand(left);
                self.asm.alu_number(Alu::Cmp, width, place, number);
            }
            None => {
                let register = self.gpr(left);
                let place = self.operand(right);
                self.asm.alu(Alu::Cmp, width, register, place);
            }
        }
        self.used(left);
        self.used(right);
        Some(condition(cond))
    }

    /// Has the flags say whether a value is not 0; gives back the condition that holds then. The value is used.
    pub(super) fn flags(&mut self, value: Value) -> Option<Cond> {
        let same = self.same(value);
        if self.kind(same) == Kind::Condition {
            let ValueDef::Result(inst, _) = self.function.dfg.value_def(same) else {
                unreachable!("a comparison is made by an instruction")
            };
            self.used(same);
            return match self.function.dfg.insts[inst] {
                InstructionData::FloatCompare { cond, args, .. } => self.float_flags(cond, args),
                _ => self.compare(inst),
            };
        }
        let width = self.width_of(value)?;
        let register = self.gpr(value);
        self.used(value);
        self.asm.test(width, register, register);
        Some(Cond::NOT_EQUAL)
    }
}
