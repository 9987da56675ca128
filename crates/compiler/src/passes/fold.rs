//! Arithmetic on constants, exactly as WebAssembly defines it. What traps or gives a NaN, whose bits WebAssembly leaves
//! open, is not folded.

use crate::mir::{BinaryOp, CompareOp, Constant, UnaryOp};

fn f32(value: f32) -> Option<Constant> {
    if value.is_nan() { None } else { Some(Constant::F32(value.to_bits())) }
}

fn f64(value: f64) -> Option<Constant> {
    if value.is_nan() { None } else { Some(Constant::F64(value.to_bits())) }
}

fn i32(value: i32) -> Option<Constant> {
    Some(Constant::I32(value))
}

fn i64(value: i64) -> Option<Constant> {
    Some(Constant::I64(value))
}

/// The truncated value, if it lies in `[low, high)`.
fn truncated(value: f64, low: f64, high: f64) -> Option<f64> {
    let value = value.trunc();
    if value >= low && value < high { Some(value) } else { None }
}

const TWO_31: f64 = 2147483648.0;
const TWO_32: f64 = 4294967296.0;
const TWO_63: f64 = 9223372036854775808.0;
const TWO_64: f64 = 18446744073709551616.0;

/// The result of an operation on a constant.
pub(super) fn unary(op: UnaryOp, operand: Constant) -> Option<Constant> {
    use UnaryOp::*;
    match operand {
        Constant::I32(a) => match op {
            I32Clz => i32(a.leading_zeros() as i32),
            I32Ctz => i32(a.trailing_zeros() as i32),
            I32Popcnt => i32(a.count_ones() as i32),
            I32Eqz => i32((a == 0) as i32),
            I32Extend8S => i32(a as i8 as i32),
            I32Extend16S => i32(a as i16 as i32),
            I64ExtendI32S => i64(a as i64),
            I64ExtendI32U => i64(a as u32 as i64),
            F32ConvertI32S => f32(a as f32),
            F32ConvertI32U => f32(a as u32 as f32),
            F64ConvertI32S => f64(a as f64),
            F64ConvertI32U => f64(a as u32 as f64),
            F32ReinterpretI32 => Some(Constant::F32(a as u32)),
            _ => None,
        },
        Constant::I64(a) => match op {
            I64Clz => i64(a.leading_zeros() as i64),
            I64Ctz => i64(a.trailing_zeros() as i64),
            I64Popcnt => i64(a.count_ones() as i64),
            I64Eqz => i32((a == 0) as i32),
            I64Extend8S => i64(a as i8 as i64),
            I64Extend16S => i64(a as i16 as i64),
            I64Extend32S => i64(a as i32 as i64),
            I32WrapI64 => i32(a as i32),
            F32ConvertI64S => f32(a as f32),
            F32ConvertI64U => f32(a as u64 as f32),
            F64ConvertI64S => f64(a as f64),
            F64ConvertI64U => f64(a as u64 as f64),
            F64ReinterpretI64 => Some(Constant::F64(a as u64)),
            _ => None,
        },
        Constant::F32(bits) => {
            let a = f32::from_bits(bits);
            match op {
                // These change the sign bit alone, of NaNs too.
                F32Abs => Some(Constant::F32(bits & !(1 << 31))),
                F32Neg => Some(Constant::F32(bits ^ (1 << 31))),
                F32Ceil => f32(a.ceil()),
                F32Floor => f32(a.floor()),
                F32Trunc => f32(a.trunc()),
                F32Nearest => f32(a.round_ties_even()),
                F32Sqrt => f32(a.sqrt()),
                F64PromoteF32 => f64(a as f64),
                I32ReinterpretF32 => i32(bits as i32),
                I32TruncF32S => i32(truncated(a as f64, -TWO_31, TWO_31)? as i32),
                I32TruncF32U => i32(truncated(a as f64, 0.0, TWO_32)? as u32 as i32),
                I64TruncF32S => i64(truncated(a as f64, -TWO_63, TWO_63)? as i64),
                I64TruncF32U => i64(truncated(a as f64, 0.0, TWO_64)? as u64 as i64),
                I32TruncSatF32S => i32(a as i32),
                I32TruncSatF32U => i32(a as u32 as i32),
                I64TruncSatF32S => i64(a as i64),
                I64TruncSatF32U => i64(a as u64 as i64),
                _ => None,
            }
        }
        Constant::F64(bits) => {
            let a = f64::from_bits(bits);
            match op {
                F64Abs => Some(Constant::F64(bits & !(1 << 63))),
                F64Neg => Some(Constant::F64(bits ^ (1 << 63))),
                F64Ceil => f64(a.ceil()),
                F64Floor => f64(a.floor()),
                F64Trunc => f64(a.trunc()),
                F64Nearest => f64(a.round_ties_even()),
                F64Sqrt => f64(a.sqrt()),
                F32DemoteF64 => f32(a as f32),
                I64ReinterpretF64 => i64(bits as i64),
                I32TruncF64S => i32(truncated(a, -TWO_31, TWO_31)? as i32),
                I32TruncF64U => i32(truncated(a, 0.0, TWO_32)? as u32 as i32),
                I64TruncF64S => i64(truncated(a, -TWO_63, TWO_63)? as i64),
                I64TruncF64U => i64(truncated(a, 0.0, TWO_64)? as u64 as i64),
                I32TruncSatF64S => i32(a as i32),
                I32TruncSatF64U => i32(a as u32 as i32),
                I64TruncSatF64S => i64(a as i64),
                I64TruncSatF64U => i64(a as u64 as i64),
                _ => None,
            }
        }
        Constant::V128(_) | Constant::Null(_) => None,
    }
}

/// The lesser; -0 is less than 0. `None` for NaN.
fn min(a: f64, b: f64) -> Option<f64> {
    if a.is_nan() || b.is_nan() {
        None
    } else if a == b {
        Some(if a.is_sign_negative() { a } else { b })
    } else {
        Some(if a < b { a } else { b })
    }
}

/// The greater; 0 is greater than -0. `None` for NaN.
fn max(a: f64, b: f64) -> Option<f64> {
    min(-a, -b).map(|value| -value)
}

/// The result of an operation on two constants.
pub(super) fn binary(op: BinaryOp, a: Constant, b: Constant) -> Option<Constant> {
    use BinaryOp::*;
    match (a, b) {
        (Constant::I32(a), Constant::I32(b)) => match op {
            I32Add => i32(a.wrapping_add(b)),
            I32Sub => i32(a.wrapping_sub(b)),
            I32Mul => i32(a.wrapping_mul(b)),
            I32DivS => i32(a.checked_div(b)?),
            I32DivU => i32((a as u32).checked_div(b as u32)? as i32),
            I32RemS if b == 0 => None,
            I32RemS => i32(a.wrapping_rem(b)),
            I32RemU => i32((a as u32).checked_rem(b as u32)? as i32),
            I32And => i32(a & b),
            I32Or => i32(a | b),
            I32Xor => i32(a ^ b),
            I32Shl => i32(a.wrapping_shl(b as u32)),
            I32ShrS => i32(a.wrapping_shr(b as u32)),
            I32ShrU => i32((a as u32).wrapping_shr(b as u32) as i32),
            I32Rotl => i32(a.rotate_left(b as u32 & 31)),
            I32Rotr => i32(a.rotate_right(b as u32 & 31)),
            _ => None,
        },
        (Constant::I64(a), Constant::I64(b)) => match op {
            I64Add => i64(a.wrapping_add(b)),
            I64Sub => i64(a.wrapping_sub(b)),
            I64Mul => i64(a.wrapping_mul(b)),
            I64DivS => i64(a.checked_div(b)?),
            I64DivU => i64((a as u64).checked_div(b as u64)? as i64),
            I64RemS if b == 0 => None,
            I64RemS => i64(a.wrapping_rem(b)),
            I64RemU => i64((a as u64).checked_rem(b as u64)? as i64),
            I64And => i64(a & b),
            I64Or => i64(a | b),
            I64Xor => i64(a ^ b),
            I64Shl => i64(a.wrapping_shl(b as u32)),
            I64ShrS => i64(a.wrapping_shr(b as u32)),
            I64ShrU => i64((a as u64).wrapping_shr(b as u32) as i64),
            I64Rotl => i64(a.rotate_left(b as u32 & 63)),
            I64Rotr => i64(a.rotate_right(b as u32 & 63)),
            _ => None,
        },
        (Constant::F32(x), Constant::F32(y)) => {
            let (a, b) = (f32::from_bits(x), f32::from_bits(y));
            match op {
                F32Add => f32(a + b),
                F32Sub => f32(a - b),
                F32Mul => f32(a * b),
                F32Div => f32(a / b),
                F32Min => f32(min(a as f64, b as f64)? as f32),
                F32Max => f32(max(a as f64, b as f64)? as f32),
                F32Copysign => Some(Constant::F32((x & !(1 << 31)) | (y & (1 << 31)))),
                _ => None,
            }
        }
        (Constant::F64(x), Constant::F64(y)) => {
            let (a, b) = (f64::from_bits(x), f64::from_bits(y));
            match op {
                F64Add => f64(a + b),
                F64Sub => f64(a - b),
                F64Mul => f64(a * b),
                F64Div => f64(a / b),
                F64Min => f64(min(a, b)?),
                F64Max => f64(max(a, b)?),
                F64Copysign => Some(Constant::F64((x & !(1 << 63)) | (y & (1 << 63)))),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The outcome of a comparison of two constants.
pub(super) fn compare(op: CompareOp, a: Constant, b: Constant) -> Option<bool> {
    use CompareOp::*;
    Some(match (a, b) {
        (Constant::I32(a), Constant::I32(b)) => {
            let (x, y) = (a as u32, b as u32);
            match op {
                I32Eq => a == b,
                I32Ne => a != b,
                I32LtS => a < b,
                I32LtU => x < y,
                I32GtS => a > b,
                I32GtU => x > y,
                I32LeS => a <= b,
                I32LeU => x <= y,
                I32GeS => a >= b,
                I32GeU => x >= y,
                _ => return None,
            }
        }
        (Constant::I64(a), Constant::I64(b)) => {
            let (x, y) = (a as u64, b as u64);
            match op {
                I64Eq => a == b,
                I64Ne => a != b,
                I64LtS => a < b,
                I64LtU => x < y,
                I64GtS => a > b,
                I64GtU => x > y,
                I64LeS => a <= b,
                I64LeU => x <= y,
                I64GeS => a >= b,
                I64GeU => x >= y,
                _ => return None,
            }
        }
        (Constant::F32(a), Constant::F32(b)) => {
            let (a, b) = (f32::from_bits(a), f32::from_bits(b));
            match op {
                F32Eq => a == b,
                F32Ne => a != b,
                F32Lt => a < b,
                F32Gt => a > b,
                F32Le => a <= b,
                F32Ge => a >= b,
                _ => return None,
            }
        }
        (Constant::F64(a), Constant::F64(b)) => {
            let (a, b) = (f64::from_bits(a), f64::from_bits(b));
            match op {
                F64Eq => a == b,
                F64Ne => a != b,
                F64Lt => a < b,
                F64Gt => a > b,
                F64Le => a <= b,
                F64Ge => a >= b,
                _ => return None,
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_traps_or_gives_a_nan_stays() {
        let (min, minus) = (Constant::I32(i32::MIN), Constant::I32(-1));
        assert_eq!(binary(BinaryOp::I32DivS, min, minus), None);
        assert_eq!(binary(BinaryOp::I32RemS, min, minus), Some(Constant::I32(0)));
        assert_eq!(binary(BinaryOp::I32DivU, min, Constant::I32(0)), None);
        let zero = Constant::F64(0);
        assert_eq!(binary(BinaryOp::F64Div, zero, zero), None);
        let large = Constant::F64(TWO_31.to_bits());
        assert_eq!(unary(UnaryOp::I32TruncF64S, large), None);
        assert_eq!(unary(UnaryOp::I32TruncF64U, large), Some(Constant::I32(i32::MIN)));
        assert_eq!(unary(UnaryOp::I32TruncF64U, Constant::F64((-0.9f64).to_bits())), Some(Constant::I32(0)));
        assert_eq!(unary(UnaryOp::I32TruncSatF64S, large), Some(Constant::I32(i32::MAX)));
    }

    #[test]
    fn zeros_have_signs() {
        let (plus, minus) = (Constant::F32(0), Constant::F32(1 << 31));
        assert_eq!(binary(BinaryOp::F32Min, plus, minus), Some(minus));
        assert_eq!(binary(BinaryOp::F32Max, minus, plus), Some(plus));
        assert_eq!(binary(BinaryOp::F32Add, minus, minus), Some(minus));
        assert_eq!(unary(UnaryOp::F32Nearest, Constant::F32((-0.5f32).to_bits())), Some(minus));
        assert_eq!(compare(CompareOp::F32Eq, plus, minus), Some(true));
    }

    #[test]
    fn shift_counts_wrap() {
        assert_eq!(binary(BinaryOp::I32Shl, Constant::I32(1), Constant::I32(33)), Some(Constant::I32(2)));
        assert_eq!(binary(BinaryOp::I64Rotl, Constant::I64(1), Constant::I64(-1)), Some(Constant::I64(i64::MIN)));
    }
}
