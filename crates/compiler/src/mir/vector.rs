//! The operations on vectors of 128 bits.
//!
//! A vector is 128 bits; each operation says how it divides them into lanes. Where operands and result are divided in
//! different ways, the operation is named by the lanes of its operands.

use super::extension::Extension;
use crate::module::ValueType;

/// How a vector is divided into lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Lanes {
    I8x16,
    I16x8,
    I32x4,
    I64x2,
    F32x4,
    F64x2,
}

/// One vector to another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum VectorUnary {
    /// Of all bits, whatever the lanes.
    Not,
    /// Of integers (the least one is its own) or floats.
    Abs,
    /// Of integers (wrapping) or floats.
    Neg,
    /// How many bits are set.
    Popcnt,
    /// Floats, up.
    Ceil,
    /// Floats, down.
    Floor,
    /// Floats, towards zero.
    Trunc,
    /// Floats, ties to even.
    Nearest,
    /// Of floats.
    Sqrt,
    /// The first half of the integers, sign- or zero-extended to twice the width.
    ExtendLow(Extension),
    /// The second half.
    ExtendHigh(Extension),
    /// The sums of integers that lie side by side, extended before.
    ExtAddPairwise(Extension),
    /// Integers to as many floats of the same width.
    Convert(Extension),
    /// The first half of the integers to floats of twice the width.
    ConvertLow(Extension),
    /// Floats to integers of 32 bits, saturating; NaN gives 0. Of two lanes the other half is zero.
    TruncSat(Extension),
    /// The same, with any result for what does not fit (relaxed).
    RelaxedTrunc(Extension),
    /// Two `f64` to `f32`; the other half is zero.
    DemoteZero,
    /// The first half of the `f32` to `f64`.
    PromoteLow,
}

/// Two vectors to one. Comparisons give lanes of ones or zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum VectorBinary {
    /// Of all bits, whatever the lanes, as the three that follow.
    And,
    /// The first one and not the second.
    AndNot,
    /// Inclusive.
    Or,
    /// Exclusive.
    Xor,
    /// Of integers (wrapping) or floats.
    Add,
    /// Of integers (wrapping) or floats.
    Sub,
    /// Of integers (wrapping) or floats.
    Mul,
    /// Of floats.
    Div,
    /// Saturating.
    AddSat(Extension),
    /// Saturating.
    SubSat(Extension),
    /// Of floats (`Extension::None`; NaN if one of them is, and -0 is less than 0) or integers.
    Min(Extension),
    /// As `Min`.
    Max(Extension),
    /// Of floats: the second one if it is less, else the first.
    PMin,
    /// Of floats: the second one if the first is less, else the first.
    PMax,
    /// Of floats: either what `Min` gives or any of both (relaxed).
    RelaxedMin,
    /// As `RelaxedMin`.
    RelaxedMax,
    /// The average of unsigned integers, rounded up.
    Avgr,
    /// Equal, integers or floats.
    Eq,
    /// Not equal.
    Ne,
    /// Less. Floats have no extension, as for the three that follow.
    Lt(Extension),
    /// Greater.
    Gt(Extension),
    /// Less or equal.
    Le(Extension),
    /// Greater or equal.
    Ge(Extension),
    /// Bytes of the first one at the indices in the second; 0 for those beyond.
    Swizzle,
    /// The same, with any byte for indices beyond (relaxed).
    RelaxedSwizzle,
    /// Signed integers to half the width, saturating to signed or unsigned ones: the first vector's, then the second's.
    Narrow(Extension),
    /// The products of the first halves, extended before.
    ExtMulLow(Extension),
    /// The products of the second halves, extended before.
    ExtMulHigh(Extension),
    /// Products of `i16`, in fixed point with 15 bits, rounded and saturating.
    Q15MulrSat,
    /// The sums of products, side by side, of signed integers. Of bytes, those of the second vector have 7 bits
    /// (relaxed).
    Dot,
}

/// Three vectors to one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum VectorTernary {
    /// Bits of the first one where the third has ones, else of the second.
    Bitselect,
    /// Product of the first two, plus the third; rounded once or twice (relaxed).
    RelaxedMadd,
    /// The third less the product of the first two; rounded once or twice (relaxed).
    RelaxedNmadd,
    /// The sums of four products, side by side, as `Dot` of bytes makes them, plus the third vector's `i32`.
    RelaxedDotAdd,
}

/// A vector and an `i32` count, modulo the width of a lane, to a vector.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum VectorShift {
    Shl,
    ShrS,
    ShrU,
}

/// A vector to an `i32`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum VectorTest {
    /// Whether some bit is set.
    AnyTrue,
    /// Whether no lane is zero.
    AllTrue,
    /// The highest bit of each lane.
    Bitmask,
}

/// An operation on vectors. It computes its one result from its operands, and never traps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum VectorOp {
    /// (scalar) -> v128: the same in all lanes
    Splat(Lanes),
    /// (scalar) -> v128: in the first lane; the others are zero
    FirstLane(Lanes),
    /// (v128) -> scalar
    ExtractLane(Lanes, u8, Extension),
    /// (v128, scalar) -> v128
    ReplaceLane(Lanes, u8),
    /// (v128, v128) -> v128: the bytes of both at these 16 places among 32
    Shuffle([u8; 16]),
    /// (v128) -> v128
    Unary(VectorUnary, Lanes),
    /// (v128, v128) -> v128
    Binary(VectorBinary, Lanes),
    /// (v128, v128, v128) -> v128
    Ternary(VectorTernary, Lanes),
    /// (v128, i32) -> v128
    Shift(VectorShift, Lanes),
    /// (v128) -> i32
    Test(VectorTest, Lanes),
}

impl Lanes {
    /// The type of a lane's value on the operand stack.
    pub const fn value_type(self) -> ValueType {
        match self {
            Lanes::I8x16 | Lanes::I16x8 | Lanes::I32x4 => ValueType::I32,
            Lanes::I64x2 => ValueType::I64,
            Lanes::F32x4 => ValueType::F32,
            Lanes::F64x2 => ValueType::F64,
        }
    }

    /// Whether they hold floats.
    pub const fn are_floats(self) -> bool {
        matches!(self, Lanes::F32x4 | Lanes::F64x2)
    }
}

impl VectorOp {
    /// The types of its operands.
    pub const fn operand_types(self) -> &'static [ValueType] {
        use ValueType::{F32, F64, I32, I64, V128};
        match self {
            VectorOp::Splat(lanes) | VectorOp::FirstLane(lanes) => match lanes.value_type() {
                I64 => &[I64],
                F32 => &[F32],
                F64 => &[F64],
                _ => &[I32],
            },
            VectorOp::ReplaceLane(lanes, _) => match lanes.value_type() {
                I64 => &[V128, I64],
                F32 => &[V128, F32],
                F64 => &[V128, F64],
                _ => &[V128, I32],
            },
            VectorOp::ExtractLane(..) | VectorOp::Unary(..) | VectorOp::Test(..) => &[V128],
            VectorOp::Shuffle(_) | VectorOp::Binary(..) => &[V128, V128],
            VectorOp::Ternary(..) => &[V128, V128, V128],
            VectorOp::Shift(..) => &[V128, I32],
        }
    }

    /// The type of its result.
    pub const fn value_type(self) -> ValueType {
        match self {
            VectorOp::ExtractLane(lanes, ..) => lanes.value_type(),
            VectorOp::Test(..) => ValueType::I32,
            _ => ValueType::V128,
        }
    }

    /// Whether its operands may be exchanged. (Which NaN a float operation gives depends on their order.)
    pub const fn is_commutative(self) -> bool {
        use VectorBinary::*;
        match self {
            VectorOp::Binary(And | Or | Xor | AddSat(_) | Avgr | Eq | Ne | Q15MulrSat, _) => true,
            VectorOp::Binary(Add | Mul | Min(_) | Max(_), lanes) => !lanes.are_floats(),
            _ => false,
        }
    }
}
