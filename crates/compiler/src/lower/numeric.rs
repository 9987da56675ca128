//! Arithmetic with WebAssembly's semantics.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};

use super::Lowering;
use crate::abi::Builtin;
use crate::mir::{BinaryOp, CompareOp, Constant, UnaryOp};

impl Lowering<'_, '_> {
    pub(super) fn constant(&mut self, constant: Constant) -> ir::Value {
        match constant {
            Constant::I32(value) => self.b.ins().iconst(types::I32, i64::from(value as u32)),
            Constant::I64(value) => self.b.ins().iconst(types::I64, value),
            Constant::F32(bits) => self.b.ins().f32const(Ieee32::with_bits(bits)),
            Constant::F64(bits) => self.b.ins().f64const(Ieee64::with_bits(bits)),
            Constant::V128(bits) => {
                let handle = self.b.func.dfg.constants.insert(bits.to_le_bytes().to_vec().into());
                self.b.ins().vconst(types::I8X16, handle)
            }
            Constant::Null(_) => self.b.ins().iconst(types::I32, 0),
        }
    }

    pub(super) fn unary(&mut self, op: UnaryOp, value: ir::Value) -> ir::Value {
        if let Some(builtin) = rounding_builtin(op)
            && !self.env.rounds
        {
            return self.builtin(builtin, &[value]);
        }
        let bits = MemFlagsData::new();
        match op {
            UnaryOp::I32Clz | UnaryOp::I64Clz => self.b.ins().clz(value),
            UnaryOp::I32Ctz | UnaryOp::I64Ctz => self.b.ins().ctz(value),
            UnaryOp::I32Popcnt | UnaryOp::I64Popcnt => self.b.ins().popcnt(value),
            UnaryOp::I32Eqz | UnaryOp::I64Eqz => {
                let zero = self.b.ins().icmp_imm_u(IntCC::Equal, value, 0);
                self.boolean(zero)
            }
            UnaryOp::I32Extend8S => self.extend_low(types::I8, types::I32, value),
            UnaryOp::I32Extend16S => self.extend_low(types::I16, types::I32, value),
            UnaryOp::I64Extend8S => self.extend_low(types::I8, types::I64, value),
            UnaryOp::I64Extend16S => self.extend_low(types::I16, types::I64, value),
            UnaryOp::I64Extend32S => self.extend_low(types::I32, types::I64, value),
            UnaryOp::F32Abs | UnaryOp::F64Abs => self.b.ins().fabs(value),
            UnaryOp::F32Neg | UnaryOp::F64Neg => self.b.ins().fneg(value),
            UnaryOp::F32Ceil | UnaryOp::F64Ceil => self.b.ins().ceil(value),
            UnaryOp::F32Floor | UnaryOp::F64Floor => self.b.ins().floor(value),
            UnaryOp::F32Trunc | UnaryOp::F64Trunc => self.b.ins().trunc(value),
            UnaryOp::F32Nearest | UnaryOp::F64Nearest => self.b.ins().nearest(value),
            UnaryOp::F32Sqrt | UnaryOp::F64Sqrt => self.b.ins().sqrt(value),
            UnaryOp::I32WrapI64 => self.b.ins().ireduce(types::I32, value),
            UnaryOp::I64ExtendI32S => self.b.ins().sextend(types::I64, value),
            UnaryOp::I64ExtendI32U => self.b.ins().uextend(types::I64, value),
            UnaryOp::I32TruncF32S | UnaryOp::I32TruncF64S => self.b.ins().fcvt_to_sint(types::I32, value),
            UnaryOp::I32TruncF32U | UnaryOp::I32TruncF64U => self.b.ins().fcvt_to_uint(types::I32, value),
            UnaryOp::I64TruncF32S | UnaryOp::I64TruncF64S => self.b.ins().fcvt_to_sint(types::I64, value),
            UnaryOp::I64TruncF32U | UnaryOp::I64TruncF64U => self.b.ins().fcvt_to_uint(types::I64, value),
            UnaryOp::I32TruncSatF32S | UnaryOp::I32TruncSatF64S => self.b.ins().fcvt_to_sint_sat(types::I32, value),
            UnaryOp::I32TruncSatF32U | UnaryOp::I32TruncSatF64U => self.b.ins().fcvt_to_uint_sat(types::I32, value),
            UnaryOp::I64TruncSatF32S | UnaryOp::I64TruncSatF64S => self.b.ins().fcvt_to_sint_sat(types::I64, value),
            UnaryOp::I64TruncSatF32U | UnaryOp::I64TruncSatF64U => self.b.ins().fcvt_to_uint_sat(types::I64, value),
            UnaryOp::F32ConvertI32S | UnaryOp::F32ConvertI64S => self.b.ins().fcvt_from_sint(types::F32, value),
            UnaryOp::F32ConvertI32U | UnaryOp::F32ConvertI64U => self.b.ins().fcvt_from_uint(types::F32, value),
            UnaryOp::F64ConvertI32S | UnaryOp::F64ConvertI64S => self.b.ins().fcvt_from_sint(types::F64, value),
            UnaryOp::F64ConvertI32U | UnaryOp::F64ConvertI64U => self.b.ins().fcvt_from_uint(types::F64, value),
            UnaryOp::F32DemoteF64 => self.b.ins().fdemote(types::F32, value),
            UnaryOp::F64PromoteF32 => self.b.ins().fpromote(types::F64, value),
            UnaryOp::I32ReinterpretF32 => self.b.ins().bitcast(types::I32, bits, value),
            UnaryOp::I64ReinterpretF64 => self.b.ins().bitcast(types::I64, bits, value),
            UnaryOp::F32ReinterpretI32 => self.b.ins().bitcast(types::F32, bits, value),
            UnaryOp::F64ReinterpretI64 => self.b.ins().bitcast(types::F64, bits, value),
        }
    }

    fn extend_low(&mut self, low: ir::Type, ty: ir::Type, value: ir::Value) -> ir::Value {
        let narrow = self.b.ins().ireduce(low, value);
        self.b.ins().sextend(ty, narrow)
    }

    pub(super) fn binary(&mut self, op: BinaryOp, x: ir::Value, y: ir::Value) -> ir::Value {
        let ins = self.b.ins();
        match op {
            BinaryOp::I32Add | BinaryOp::I64Add => ins.iadd(x, y),
            BinaryOp::I32Sub | BinaryOp::I64Sub => ins.isub(x, y),
            BinaryOp::I32Mul | BinaryOp::I64Mul => ins.imul(x, y),
            BinaryOp::I32DivS | BinaryOp::I64DivS => ins.sdiv(x, y),
            BinaryOp::I32DivU | BinaryOp::I64DivU => ins.udiv(x, y),
            BinaryOp::I32RemS | BinaryOp::I64RemS => ins.srem(x, y),
            BinaryOp::I32RemU | BinaryOp::I64RemU => ins.urem(x, y),
            BinaryOp::I32And | BinaryOp::I64And => ins.band(x, y),
            BinaryOp::I32Or | BinaryOp::I64Or => ins.bor(x, y),
            BinaryOp::I32Xor | BinaryOp::I64Xor => ins.bxor(x, y),
            BinaryOp::I32Shl | BinaryOp::I64Shl => ins.ishl(x, y),
            BinaryOp::I32ShrS | BinaryOp::I64ShrS => ins.sshr(x, y),
            BinaryOp::I32ShrU | BinaryOp::I64ShrU => ins.ushr(x, y),
            BinaryOp::I32Rotl | BinaryOp::I64Rotl => ins.rotl(x, y),
            BinaryOp::I32Rotr | BinaryOp::I64Rotr => ins.rotr(x, y),
            BinaryOp::F32Add | BinaryOp::F64Add => ins.fadd(x, y),
            BinaryOp::F32Sub | BinaryOp::F64Sub => ins.fsub(x, y),
            BinaryOp::F32Mul | BinaryOp::F64Mul => ins.fmul(x, y),
            BinaryOp::F32Div | BinaryOp::F64Div => ins.fdiv(x, y),
            BinaryOp::F32Min | BinaryOp::F64Min => ins.fmin(x, y),
            BinaryOp::F32Max | BinaryOp::F64Max => ins.fmax(x, y),
            BinaryOp::F32Copysign | BinaryOp::F64Copysign => ins.fcopysign(x, y),
        }
    }

    pub(super) fn compare(&mut self, op: CompareOp, x: ir::Value, y: ir::Value) -> ir::Value {
        let condition = match condition(op) {
            Condition::Int(condition) => self.b.ins().icmp(condition, x, y),
            Condition::Float(condition) => self.b.ins().fcmp(condition, x, y),
        };
        self.boolean(condition)
    }
}

enum Condition {
    Int(IntCC),
    Float(FloatCC),
}

fn condition(op: CompareOp) -> Condition {
    use Condition::{Float, Int};
    match op {
        CompareOp::I32Eq | CompareOp::I64Eq => Int(IntCC::Equal),
        CompareOp::I32Ne | CompareOp::I64Ne => Int(IntCC::NotEqual),
        CompareOp::I32LtS | CompareOp::I64LtS => Int(IntCC::SignedLessThan),
        CompareOp::I32LtU | CompareOp::I64LtU => Int(IntCC::UnsignedLessThan),
        CompareOp::I32GtS | CompareOp::I64GtS => Int(IntCC::SignedGreaterThan),
        CompareOp::I32GtU | CompareOp::I64GtU => Int(IntCC::UnsignedGreaterThan),
        CompareOp::I32LeS | CompareOp::I64LeS => Int(IntCC::SignedLessThanOrEqual),
        CompareOp::I32LeU | CompareOp::I64LeU => Int(IntCC::UnsignedLessThanOrEqual),
        CompareOp::I32GeS | CompareOp::I64GeS => Int(IntCC::SignedGreaterThanOrEqual),
        CompareOp::I32GeU | CompareOp::I64GeU => Int(IntCC::UnsignedGreaterThanOrEqual),
        CompareOp::F32Eq | CompareOp::F64Eq => Float(FloatCC::Equal),
        CompareOp::F32Ne | CompareOp::F64Ne => Float(FloatCC::NotEqual),
        CompareOp::F32Lt | CompareOp::F64Lt => Float(FloatCC::LessThan),
        CompareOp::F32Gt | CompareOp::F64Gt => Float(FloatCC::GreaterThan),
        CompareOp::F32Le | CompareOp::F64Le => Float(FloatCC::LessThanOrEqual),
        CompareOp::F32Ge | CompareOp::F64Ge => Float(FloatCC::GreaterThanOrEqual),
    }
}

/// The builtin that does a rounding operation on processors without the instruction.
fn rounding_builtin(op: UnaryOp) -> Option<Builtin> {
    Some(match op {
        UnaryOp::F32Ceil => Builtin::CeilF32,
        UnaryOp::F32Floor => Builtin::FloorF32,
        UnaryOp::F32Trunc => Builtin::TruncF32,
        UnaryOp::F32Nearest => Builtin::NearestF32,
        UnaryOp::F64Ceil => Builtin::CeilF64,
        UnaryOp::F64Floor => Builtin::FloorF64,
        UnaryOp::F64Trunc => Builtin::TruncF64,
        UnaryOp::F64Nearest => Builtin::NearestF64,
        _ => return None,
    })
}
