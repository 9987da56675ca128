//! Vectors of 128 bits, which are `I8X16` between the operations.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32X4, F64X2, I8X16, I16X8, I32X4, I64X2};
use cranelift_codegen::ir::{self, Endianness, InstBuilder, MemFlagsData, types};

use super::Lowering;
use crate::mir::{Extension, Lanes, VectorBinary, VectorOp, VectorShift, VectorTernary, VectorTest, VectorUnary};

/// Whether relaxed operations may be the instructions of x86-64.
const X86: bool = cfg!(target_arch = "x86_64");

impl Lowering<'_, '_> {
    pub(super) fn vector(&mut self, op: VectorOp, args: &[ir::Value]) -> ir::Value {
        let result = match op {
            VectorOp::Splat(lanes) => {
                let value = self.lane(lanes, args[0]);
                self.b.ins().splat(vector_type(lanes), value)
            }
            VectorOp::FirstLane(lanes) => {
                let value = self.lane(lanes, args[0]);
                self.b.ins().scalar_to_vector(vector_type(lanes), value)
            }
            VectorOp::ExtractLane(lanes, lane, extension) => {
                let x = self.cast(lanes, args[0]);
                let value = self.b.ins().extractlane(x, lane);
                return match extension {
                    Extension::None => value,
                    Extension::Signed => self.b.ins().sextend(types::I32, value),
                    Extension::Unsigned => self.b.ins().uextend(types::I32, value),
                };
            }
            VectorOp::ReplaceLane(lanes, lane) => {
                let (x, value) = (self.cast(lanes, args[0]), self.lane(lanes, args[1]));
                self.b.ins().insertlane(x, value, lane)
            }
            VectorOp::Shuffle(places) => {
                let places = self.b.func.dfg.immediates.push(places.as_slice().into());
                self.b.ins().shuffle(args[0], args[1], places)
            }
            VectorOp::Unary(op, lanes) => {
                let x = self.cast(lanes, args[0]);
                self.vector_unary(op, lanes, x)
            }
            VectorOp::Binary(op, lanes) => {
                let (x, y) = (self.cast(lanes, args[0]), self.cast(lanes, args[1]));
                self.vector_binary(op, lanes, x, y)
            }
            VectorOp::Ternary(op, lanes) => {
                let [x, y, z] = [0, 1, 2].map(|number| args[number]);
                self.vector_ternary(op, lanes, x, y, z)
            }
            VectorOp::Shift(op, lanes) => {
                let (x, count) = (self.cast(lanes, args[0]), args[1]);
                match op {
                    VectorShift::Shl => self.b.ins().ishl(x, count),
                    VectorShift::ShrS => self.b.ins().sshr(x, count),
                    VectorShift::ShrU => self.b.ins().ushr(x, count),
                }
            }
            VectorOp::Test(op, lanes) => {
                let x = self.cast(lanes, args[0]);
                let found = match op {
                    VectorTest::AnyTrue => self.b.ins().vany_true(x),
                    VectorTest::AllTrue => self.b.ins().vall_true(x),
                    VectorTest::Bitmask => return self.b.ins().vhigh_bits(types::I32, x),
                };
                return self.boolean(found);
            }
        };
        self.cast_to(I8X16, result)
    }

    /// A vector as one of these lanes.
    fn cast(&mut self, lanes: Lanes, value: ir::Value) -> ir::Value {
        self.cast_to(vector_type(lanes), value)
    }

    fn cast_to(&mut self, ty: ir::Type, value: ir::Value) -> ir::Value {
        if self.b.func.dfg.value_type(value) == ty {
            return value;
        }
        self.b.ins().bitcast(ty, MemFlagsData::new().with_endianness(Endianness::Little), value)
    }

    /// A value of the operand stack as a lane.
    fn lane(&mut self, lanes: Lanes, value: ir::Value) -> ir::Value {
        match lanes {
            Lanes::I8x16 => self.b.ins().ireduce(types::I8, value),
            Lanes::I16x8 => self.b.ins().ireduce(types::I16, value),
            _ => value,
        }
    }

    fn zeros(&mut self, ty: ir::Type) -> ir::Value {
        let handle = self.b.func.dfg.constants.insert(vec![0; 16].into());
        self.b.ins().vconst(ty, handle)
    }

    fn extend_low_half(&mut self, extension: Extension, x: ir::Value) -> ir::Value {
        if extension == Extension::Signed { self.b.ins().swiden_low(x) } else { self.b.ins().uwiden_low(x) }
    }

    fn extend_high_half(&mut self, extension: Extension, x: ir::Value) -> ir::Value {
        if extension == Extension::Signed { self.b.ins().swiden_high(x) } else { self.b.ins().uwiden_high(x) }
    }

    fn add_pairwise(&mut self, extension: Extension, x: ir::Value) -> ir::Value {
        let (low, high) = (self.extend_low_half(extension, x), self.extend_high_half(extension, x));
        self.b.ins().iadd_pairwise(low, high)
    }

    fn vector_unary(&mut self, op: VectorUnary, lanes: Lanes, x: ir::Value) -> ir::Value {
        match op {
            VectorUnary::Not => self.b.ins().bnot(x),
            VectorUnary::Abs if lanes.are_floats() => self.b.ins().fabs(x),
            VectorUnary::Abs => self.b.ins().iabs(x),
            VectorUnary::Neg if lanes.are_floats() => self.b.ins().fneg(x),
            VectorUnary::Neg => self.b.ins().ineg(x),
            VectorUnary::Popcnt => self.b.ins().popcnt(x),
            VectorUnary::Ceil => self.b.ins().ceil(x),
            VectorUnary::Floor => self.b.ins().floor(x),
            VectorUnary::Trunc => self.b.ins().trunc(x),
            VectorUnary::Nearest => self.b.ins().nearest(x),
            VectorUnary::Sqrt => self.b.ins().sqrt(x),
            VectorUnary::ExtendLow(extension) => self.extend_low_half(extension, x),
            VectorUnary::ExtendHigh(extension) => self.extend_high_half(extension, x),
            VectorUnary::ExtAddPairwise(extension) => self.add_pairwise(extension, x),
            VectorUnary::Convert(Extension::Signed) => self.b.ins().fcvt_from_sint(F32X4, x),
            VectorUnary::Convert(_) => self.b.ins().fcvt_from_uint(F32X4, x),
            VectorUnary::ConvertLow(extension) => {
                let wide = self.extend_low_half(extension, x);
                match extension {
                    Extension::Signed => self.b.ins().fcvt_from_sint(F64X2, wide),
                    _ => self.b.ins().fcvt_from_uint(F64X2, wide),
                }
            }
            VectorUnary::TruncSat(extension) | VectorUnary::RelaxedTrunc(extension) => {
                let ty = if lanes == Lanes::F32x4 { I32X4 } else { I64X2 };
                let is_signed = extension == Extension::Signed;
                let whole = match op {
                    VectorUnary::RelaxedTrunc(_) if X86 && is_signed => self.b.ins().x86_cvtt2dq(ty, x),
                    _ if is_signed => self.b.ins().fcvt_to_sint_sat(ty, x),
                    _ => self.b.ins().fcvt_to_uint_sat(ty, x),
                };
                if lanes == Lanes::F32x4 {
                    return whole;
                }
                let zeros = self.zeros(I64X2);
                if is_signed { self.b.ins().snarrow(whole, zeros) } else { self.b.ins().uunarrow(whole, zeros) }
            }
            VectorUnary::DemoteZero => self.b.ins().fvdemote(x),
            VectorUnary::PromoteLow => self.b.ins().fvpromote_low(x),
        }
    }

    fn vector_binary(&mut self, op: VectorBinary, lanes: Lanes, x: ir::Value, y: ir::Value) -> ir::Value {
        use Extension::Signed;
        let are_floats = lanes.are_floats();
        let ins = self.b.ins();
        match op {
            VectorBinary::And => ins.band(x, y),
            VectorBinary::AndNot => ins.band_not(x, y),
            VectorBinary::Or => ins.bor(x, y),
            VectorBinary::Xor => ins.bxor(x, y),
            VectorBinary::Add if are_floats => ins.fadd(x, y),
            VectorBinary::Add => ins.iadd(x, y),
            VectorBinary::Sub if are_floats => ins.fsub(x, y),
            VectorBinary::Sub => ins.isub(x, y),
            VectorBinary::Mul if are_floats => ins.fmul(x, y),
            VectorBinary::Mul => ins.imul(x, y),
            VectorBinary::Div => ins.fdiv(x, y),
            VectorBinary::AddSat(Signed) => ins.sadd_sat(x, y),
            VectorBinary::AddSat(_) => ins.uadd_sat(x, y),
            VectorBinary::SubSat(Signed) => ins.ssub_sat(x, y),
            VectorBinary::SubSat(_) => ins.usub_sat(x, y),
            VectorBinary::Min(Extension::None) => ins.fmin(x, y),
            VectorBinary::Min(Signed) => ins.smin(x, y),
            VectorBinary::Min(_) => ins.umin(x, y),
            VectorBinary::Max(Extension::None) => ins.fmax(x, y),
            VectorBinary::Max(Signed) => ins.smax(x, y),
            VectorBinary::Max(_) => ins.umax(x, y),
            VectorBinary::RelaxedMin if !X86 => ins.fmin(x, y),
            VectorBinary::RelaxedMax if !X86 => ins.fmax(x, y),
            VectorBinary::PMin | VectorBinary::RelaxedMin => self.second_where_less(y, x, x, y),
            VectorBinary::PMax | VectorBinary::RelaxedMax => self.second_where_less(x, y, x, y),
            VectorBinary::Avgr => ins.avg_round(x, y),
            VectorBinary::Eq if are_floats => ins.fcmp(FloatCC::Equal, x, y),
            VectorBinary::Eq => ins.icmp(IntCC::Equal, x, y),
            VectorBinary::Ne if are_floats => ins.fcmp(FloatCC::NotEqual, x, y),
            VectorBinary::Ne => ins.icmp(IntCC::NotEqual, x, y),
            VectorBinary::Lt(Extension::None) => ins.fcmp(FloatCC::LessThan, x, y),
            VectorBinary::Lt(Signed) => ins.icmp(IntCC::SignedLessThan, x, y),
            VectorBinary::Lt(_) => ins.icmp(IntCC::UnsignedLessThan, x, y),
            VectorBinary::Gt(Extension::None) => ins.fcmp(FloatCC::GreaterThan, x, y),
            VectorBinary::Gt(Signed) => ins.icmp(IntCC::SignedGreaterThan, x, y),
            VectorBinary::Gt(_) => ins.icmp(IntCC::UnsignedGreaterThan, x, y),
            VectorBinary::Le(Extension::None) => ins.fcmp(FloatCC::LessThanOrEqual, x, y),
            VectorBinary::Le(Signed) => ins.icmp(IntCC::SignedLessThanOrEqual, x, y),
            VectorBinary::Le(_) => ins.icmp(IntCC::UnsignedLessThanOrEqual, x, y),
            VectorBinary::Ge(Extension::None) => ins.fcmp(FloatCC::GreaterThanOrEqual, x, y),
            VectorBinary::Ge(Signed) => ins.icmp(IntCC::SignedGreaterThanOrEqual, x, y),
            VectorBinary::Ge(_) => ins.icmp(IntCC::UnsignedGreaterThanOrEqual, x, y),
            VectorBinary::RelaxedSwizzle if X86 => ins.x86_pshufb(x, y),
            VectorBinary::Swizzle | VectorBinary::RelaxedSwizzle => ins.swizzle(x, y),
            VectorBinary::Narrow(Signed) => ins.snarrow(x, y),
            VectorBinary::Narrow(_) => ins.unarrow(x, y),
            VectorBinary::ExtMulLow(extension) => {
                let (x, y) = (self.extend_low_half(extension, x), self.extend_low_half(extension, y));
                self.b.ins().imul(x, y)
            }
            VectorBinary::ExtMulHigh(extension) => {
                let (x, y) = (self.extend_high_half(extension, x), self.extend_high_half(extension, y));
                self.b.ins().imul(x, y)
            }
            VectorBinary::Q15MulrSat => ins.sqmul_round_sat(x, y),
            // Its second operand is unsigned: the one of 7 bits.
            VectorBinary::Dot if X86 && lanes == Lanes::I8x16 => ins.x86_pmaddubsw(x, y),
            VectorBinary::Dot => {
                let low = self.vector_binary(VectorBinary::ExtMulLow(Signed), lanes, x, y);
                let high = self.vector_binary(VectorBinary::ExtMulHigh(Signed), lanes, x, y);
                self.b.ins().iadd_pairwise(low, high)
            }
        }
    }

    /// `y` in lanes where the float `less` is less than `greater`, else `x`.
    fn second_where_less(&mut self, less: ir::Value, greater: ir::Value, x: ir::Value, y: ir::Value) -> ir::Value {
        let ty = self.b.func.dfg.value_type(x);
        let mask = self.b.ins().fcmp(FloatCC::LessThan, less, greater);
        let mask = self.cast_to(ty, mask);
        self.b.ins().bitselect(mask, y, x)
    }

    fn vector_ternary(
        &mut self,
        op: VectorTernary,
        lanes: Lanes,
        x: ir::Value,
        y: ir::Value,
        z: ir::Value,
    ) -> ir::Value {
        match op {
            VectorTernary::Bitselect => self.b.ins().bitselect(z, x, y),
            VectorTernary::RelaxedMadd | VectorTernary::RelaxedNmadd => {
                let [mut x, y, z] = [x, y, z].map(|value| self.cast(lanes, value));
                if op == VectorTernary::RelaxedNmadd {
                    x = self.b.ins().fneg(x);
                }
                if self.env.fuses {
                    return self.b.ins().fma(x, y, z);
                }
                let product = self.b.ins().fmul(x, y);
                self.b.ins().fadd(product, z)
            }
            VectorTernary::RelaxedDotAdd => {
                let products = self.vector_binary(VectorBinary::Dot, Lanes::I8x16, x, y);
                let sums = self.add_pairwise(Extension::Signed, products);
                let z = self.cast(Lanes::I32x4, z);
                self.b.ins().iadd(sums, z)
            }
        }
    }
}

const fn vector_type(lanes: Lanes) -> ir::Type {
    match lanes {
        Lanes::I8x16 => I8X16,
        Lanes::I16x8 => I16X8,
        Lanes::I32x4 => I32X4,
        Lanes::I64x2 => I64X2,
        Lanes::F32x4 => F32X4,
        Lanes::F64x2 => F64X2,
    }
}
