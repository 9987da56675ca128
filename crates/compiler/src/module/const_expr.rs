//! Constant expressions.

use wasmparser::Operator;

use super::{ConstExpr, ConstOp, FuncIndex, GlobalIndex, TypeMap};
use crate::CompileError;
use crate::error::invalid;

/// Converts a validated constant expression.
pub(super) fn read_const_expr(expr: &wasmparser::ConstExpr<'_>, types: TypeMap<'_>) -> Result<ConstExpr, CompileError> {
    let mut reader = expr.get_operators_reader();
    let mut ops = Vec::new();
    while !reader.is_end_then_eof() {
        let offset = reader.original_position() as usize;
        let operator = reader.read().map_err(invalid)?;
        ops.push(match operator {
            Operator::I32Const { value } => ConstOp::I32(value),
            Operator::I64Const { value } => ConstOp::I64(value),
            Operator::F32Const { value } => ConstOp::F32(value.bits()),
            Operator::F64Const { value } => ConstOp::F64(value.bits()),
            Operator::V128Const { value } => ConstOp::V128(value.i128() as u128),
            Operator::RefNull { hty } => ConstOp::RefNull(types.heap(hty, offset)?),
            Operator::RefFunc { function_index } => ConstOp::RefFunc(FuncIndex(function_index)),
            Operator::GlobalGet { global_index } => ConstOp::GlobalGet(GlobalIndex(global_index)),
            Operator::I32Add => ConstOp::I32Add,
            Operator::I32Sub => ConstOp::I32Sub,
            Operator::I32Mul => ConstOp::I32Mul,
            Operator::I64Add => ConstOp::I64Add,
            Operator::I64Sub => ConstOp::I64Sub,
            Operator::I64Mul => ConstOp::I64Mul,
            Operator::RefI31 => ConstOp::RefI31,
            Operator::StructNew { struct_type_index } => ConstOp::StructNew(types.index(struct_type_index)),
            Operator::StructNewDefault { struct_type_index } => {
                ConstOp::StructNewDefault(types.index(struct_type_index))
            }
            Operator::ArrayNew { array_type_index } => ConstOp::ArrayNew(types.index(array_type_index)),
            Operator::ArrayNewDefault { array_type_index } => ConstOp::ArrayNewDefault(types.index(array_type_index)),
            Operator::ArrayNewFixed { array_type_index, array_size } => {
                ConstOp::ArrayNewFixed(types.index(array_type_index), array_size)
            }
            Operator::AnyConvertExtern => ConstOp::AnyConvertExtern,
            Operator::ExternConvertAny => ConstOp::ExternConvertAny,
            Operator::End => break,
            other => {
                let what = format!("{other:?} in a constant expression");
                return Err(CompileError::Unsupported { what, offset });
            }
        });
    }
    Ok(ops)
}
