//! Constants, arithmetic, comparisons, conversions.

use wasmparser::Operator;

use super::Translator;
use crate::mir::{BinaryOp, CompareOp, Constant, Op, UnaryOp};
use crate::module::ValueType;

enum Numeric {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Compare(CompareOp),
}

macro_rules! numeric {
    (unary: $($unary:ident)*; binary: $($binary:ident)*; compare: $($compare:ident)*;) => {
        fn numeric(operator: &Operator<'_>) -> Option<Numeric> {
            Some(match operator {
                $(Operator::$unary => Numeric::Unary(UnaryOp::$unary),)*
                $(Operator::$binary => Numeric::Binary(BinaryOp::$binary),)*
                $(Operator::$compare => Numeric::Compare(CompareOp::$compare),)*
                _ => return None,
            })
        }
    };
}

numeric! {
    unary:
        I32Clz I32Ctz I32Popcnt I32Eqz I32Extend8S I32Extend16S
        I64Clz I64Ctz I64Popcnt I64Eqz I64Extend8S I64Extend16S I64Extend32S
        F32Abs F32Neg F32Ceil F32Floor F32Trunc F32Nearest F32Sqrt
        F64Abs F64Neg F64Ceil F64Floor F64Trunc F64Nearest F64Sqrt
        I32WrapI64 I64ExtendI32S I64ExtendI32U
        I32TruncF32S I32TruncF32U I32TruncF64S I32TruncF64U
        I64TruncF32S I64TruncF32U I64TruncF64S I64TruncF64U
        I32TruncSatF32S I32TruncSatF32U I32TruncSatF64S I32TruncSatF64U
        I64TruncSatF32S I64TruncSatF32U I64TruncSatF64S I64TruncSatF64U
        F32ConvertI32S F32ConvertI32U F32ConvertI64S F32ConvertI64U
        F64ConvertI32S F64ConvertI32U F64ConvertI64S F64ConvertI64U
        F32DemoteF64 F64PromoteF32
        I32ReinterpretF32 I64ReinterpretF64 F32ReinterpretI32 F64ReinterpretI64;
    binary:
        I32Add I32Sub I32Mul I32DivS I32DivU I32RemS I32RemU I32And I32Or I32Xor I32Shl I32ShrS I32ShrU I32Rotl I32Rotr
        I64Add I64Sub I64Mul I64DivS I64DivU I64RemS I64RemU I64And I64Or I64Xor I64Shl I64ShrS I64ShrU I64Rotl I64Rotr
        F32Add F32Sub F32Mul F32Div F32Min F32Max F32Copysign
        F64Add F64Sub F64Mul F64Div F64Min F64Max F64Copysign;
    compare:
        I32Eq I32Ne I32LtS I32LtU I32GtS I32GtU I32LeS I32LeU I32GeS I32GeU
        I64Eq I64Ne I64LtS I64LtU I64GtS I64GtU I64LeS I64LeU I64GeS I64GeU
        F32Eq F32Ne F32Lt F32Gt F32Le F32Ge
        F64Eq F64Ne F64Lt F64Gt F64Le F64Ge;
}

impl Translator<'_> {
    /// Translates a numeric instruction; false if it is none.
    pub(super) fn numeric(&mut self, operator: &Operator<'_>) -> bool {
        let constant = match operator {
            Operator::I32Const { value } => Constant::I32(*value),
            Operator::I64Const { value } => Constant::I64(*value),
            Operator::F32Const { value } => Constant::F32(value.bits()),
            Operator::F64Const { value } => Constant::F64(value.bits()),
            _ => {
                match numeric(operator) {
                    Some(Numeric::Unary(op)) => self.apply(1, Op::Unary(op), Some(op.types().1)),
                    Some(Numeric::Binary(op)) => self.apply(2, Op::Binary(op), Some(op.value_type())),
                    Some(Numeric::Compare(op)) => self.apply(2, Op::Compare(op), Some(ValueType::I32)),
                    None => return false,
                }
                return true;
            }
        };
        self.push_const(constant);
        true
    }
}
