//! Operand and result types of the numeric operations.

use super::op::{BinaryOp, CompareOp, Constant, LoadKind, StoreKind, UnaryOp};
use crate::module::{RefType, ValueType};

impl Constant {
    /// The constant's type.
    pub const fn value_type(self) -> ValueType {
        match self {
            Constant::I32(_) => ValueType::I32,
            Constant::I64(_) => ValueType::I64,
            Constant::F32(_) => ValueType::F32,
            Constant::F64(_) => ValueType::F64,
            Constant::V128(_) => ValueType::V128,
            Constant::Null(heap) => ValueType::Ref(RefType::nullable(heap)),
        }
    }

    /// Whether it is what a zeroed cell holds.
    pub const fn is_zero(self) -> bool {
        match self {
            Constant::I32(value) => value == 0,
            Constant::I64(value) => value == 0,
            Constant::F32(bits) => bits == 0,
            Constant::F64(bits) => bits == 0,
            Constant::V128(bits) => bits == 0,
            Constant::Null(_) => true,
        }
    }

    /// What locals and fields of a type start with. A reference that cannot be null has no default; validation sees to
    /// it that none is asked for, and the null returned then is never used.
    pub const fn default_of(ty: ValueType) -> Constant {
        match ty {
            ValueType::I32 => Constant::I32(0),
            ValueType::I64 => Constant::I64(0),
            ValueType::F32 => Constant::F32(0),
            ValueType::F64 => Constant::F64(0),
            ValueType::V128 => Constant::V128(0),
            ValueType::Ref(ty) => Constant::Null(ty.heap),
        }
    }
}

impl UnaryOp {
    /// Operand and result type.
    pub const fn types(self) -> (ValueType, ValueType) {
        use UnaryOp::*;
        use ValueType::{F32, F64, I32, I64};
        match self {
            I32Clz | I32Ctz | I32Popcnt | I32Eqz | I32Extend8S | I32Extend16S => (I32, I32),
            I64Clz | I64Ctz | I64Popcnt | I64Extend8S | I64Extend16S | I64Extend32S => (I64, I64),
            I64Eqz | I32WrapI64 => (I64, I32),
            F32Abs | F32Neg | F32Ceil | F32Floor | F32Trunc | F32Nearest | F32Sqrt => (F32, F32),
            F64Abs | F64Neg | F64Ceil | F64Floor | F64Trunc | F64Nearest | F64Sqrt => (F64, F64),
            I64ExtendI32S | I64ExtendI32U => (I32, I64),
            I32TruncF32S | I32TruncF32U | I32TruncSatF32S | I32TruncSatF32U | I32ReinterpretF32 => (F32, I32),
            I32TruncF64S | I32TruncF64U | I32TruncSatF64S | I32TruncSatF64U => (F64, I32),
            I64TruncF32S | I64TruncF32U | I64TruncSatF32S | I64TruncSatF32U => (F32, I64),
            I64TruncF64S | I64TruncF64U | I64TruncSatF64S | I64TruncSatF64U | I64ReinterpretF64 => (F64, I64),
            F32ConvertI32S | F32ConvertI32U | F32ReinterpretI32 => (I32, F32),
            F32ConvertI64S | F32ConvertI64U => (I64, F32),
            F64ConvertI32S | F64ConvertI32U => (I32, F64),
            F64ConvertI64S | F64ConvertI64U | F64ReinterpretI64 => (I64, F64),
            F32DemoteF64 => (F64, F32),
            F64PromoteF32 => (F32, F64),
        }
    }

    /// Whether some operand makes it trap.
    pub const fn can_trap(self) -> bool {
        use UnaryOp::*;
        matches!(
            self,
            I32TruncF32S
                | I32TruncF32U
                | I32TruncF64S
                | I32TruncF64U
                | I64TruncF32S
                | I64TruncF32U
                | I64TruncF64S
                | I64TruncF64U
        )
    }
}

impl BinaryOp {
    /// The type of both operands and of the result.
    pub const fn value_type(self) -> ValueType {
        let number = self as u8;
        if number < BinaryOp::I64Add as u8 {
            ValueType::I32
        } else if number < BinaryOp::F32Add as u8 {
            ValueType::I64
        } else if number < BinaryOp::F64Add as u8 {
            ValueType::F32
        } else {
            ValueType::F64
        }
    }

    /// Whether some operands make it trap.
    pub const fn can_trap(self) -> bool {
        use BinaryOp::*;
        matches!(self, I32DivS | I32DivU | I32RemS | I32RemU | I64DivS | I64DivU | I64RemS | I64RemU)
    }

    /// Whether its operands, integers, may be exchanged. (Which NaN a float operation gives depends on their order.)
    pub const fn is_commutative(self) -> bool {
        use BinaryOp::*;
        matches!(self, I32Add | I32Mul | I32And | I32Or | I32Xor | I64Add | I64Mul | I64And | I64Or | I64Xor)
    }
}

impl CompareOp {
    /// The type of both operands.
    pub const fn operand_type(self) -> ValueType {
        let number = self as u8;
        if number < CompareOp::I64Eq as u8 {
            ValueType::I32
        } else if number < CompareOp::F32Eq as u8 {
            ValueType::I64
        } else if number < CompareOp::F64Eq as u8 {
            ValueType::F32
        } else {
            ValueType::F64
        }
    }

    /// The comparison that holds where this one does not. Not for floats, where neither may hold.
    pub const fn inverse(self) -> Option<CompareOp> {
        use CompareOp::*;
        Some(match self {
            I32Eq => I32Ne,
            I32Ne => I32Eq,
            I32LtS => I32GeS,
            I32LtU => I32GeU,
            I32GtS => I32LeS,
            I32GtU => I32LeU,
            I32LeS => I32GtS,
            I32LeU => I32GtU,
            I32GeS => I32LtS,
            I32GeU => I32LtU,
            I64Eq => I64Ne,
            I64Ne => I64Eq,
            I64LtS => I64GeS,
            I64LtU => I64GeU,
            I64GtS => I64LeS,
            I64GtU => I64LeU,
            I64LeS => I64GtS,
            I64LeU => I64GtU,
            I64GeS => I64LtS,
            I64GeU => I64LtU,
            F32Eq => F32Ne,
            F32Ne => F32Eq,
            F64Eq => F64Ne,
            F64Ne => F64Eq,
            _ => return None,
        })
    }

    /// The same comparison with its operands exchanged.
    pub const fn swapped(self) -> CompareOp {
        use CompareOp::*;
        match self {
            I32LtS => I32GtS,
            I32LtU => I32GtU,
            I32GtS => I32LtS,
            I32GtU => I32LtU,
            I32LeS => I32GeS,
            I32LeU => I32GeU,
            I32GeS => I32LeS,
            I32GeU => I32LeU,
            I64LtS => I64GtS,
            I64LtU => I64GtU,
            I64GtS => I64LtS,
            I64GtU => I64LtU,
            I64LeS => I64GeS,
            I64LeU => I64GeU,
            I64GeS => I64LeS,
            I64GeU => I64LeU,
            F32Lt => F32Gt,
            F32Gt => F32Lt,
            F32Le => F32Ge,
            F32Ge => F32Le,
            F64Lt => F64Gt,
            F64Gt => F64Lt,
            F64Le => F64Ge,
            F64Ge => F64Le,
            symmetric => symmetric,
        }
    }
}

impl LoadKind {
    /// The type of the value that is loaded.
    pub const fn value_type(self) -> ValueType {
        use LoadKind::*;
        match self {
            I32 | I32From8S | I32From8U | I32From16S | I32From16U => ValueType::I32,
            I64 | I64From8S | I64From8U | I64From16S | I64From16U | I64From32S | I64From32U => ValueType::I64,
            F32 => ValueType::F32,
            F64 => ValueType::F64,
            V128 => ValueType::V128,
        }
    }
}

impl StoreKind {
    /// The type of the value that is stored.
    pub const fn value_type(self) -> ValueType {
        use StoreKind::*;
        match self {
            I32 | I32To8 | I32To16 => ValueType::I32,
            I64 | I64To8 | I64To16 | I64To32 => ValueType::I64,
            F32 => ValueType::F32,
            F64 => ValueType::F64,
            V128 => ValueType::V128,
        }
    }
}
