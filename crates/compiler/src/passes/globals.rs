//! What immutable globals hold, as far as their initialisers say: constants, functions, and structs of them (as vtables
//! are).

use crate::mir::{Constant, Op};
use crate::module::{CompositeType, ConstOp, GlobalIndex, ModuleInfo, TypeIndex};

/// Longer initialisers are not looked into.
const LENGTH: usize = 4096;

/// The operation that gives the value of an immutable global, if that is simpler than reading it.
pub(crate) fn value(info: &ModuleInfo, global: GlobalIndex) -> Option<Op> {
    match initializer(info, global)? {
        &[op] => operation(op),
        _ => None,
    }
}

/// The operation that gives a field of the struct in an immutable global, and the struct's type.
pub(super) fn field(info: &ModuleInfo, global: GlobalIndex, field: u32) -> Option<(TypeIndex, Op)> {
    let init = initializer(info, global)?;
    let (&ConstOp::StructNew(ty), operands) = init.split_last()? else { return None };
    // Where each operand on the stack begins, to find the extent of the field's.
    let mut starts = Vec::new();
    for (position, op) in operands.iter().enumerate() {
        match arity(info, *op)? {
            0 => starts.push(position),
            // The result begins where the first operand does.
            count => starts.truncate((starts.len() + 1).checked_sub(count)?),
        }
    }
    let start = *starts.get(field as usize)?;
    let end = starts.get(field as usize + 1).copied().unwrap_or(operands.len());
    match operands[start..end] {
        [op] => Some((ty, operation(op)?)),
        _ => None,
    }
}

fn initializer(info: &ModuleInfo, global: GlobalIndex) -> Option<&[ConstOp]> {
    if info.globals[global.index()].mutable {
        return None;
    }
    let defined = global.0.checked_sub(info.imported_globals)?;
    let init = &info.defined_globals[defined as usize].init;
    if init.len() > LENGTH { None } else { Some(init) }
}

pub(super) fn operation(op: ConstOp) -> Option<Op> {
    Some(match op {
        ConstOp::I32(value) => Op::Const(Constant::I32(value)),
        ConstOp::I64(value) => Op::Const(Constant::I64(value)),
        ConstOp::F32(bits) => Op::Const(Constant::F32(bits)),
        ConstOp::F64(bits) => Op::Const(Constant::F64(bits)),
        ConstOp::V128(bits) => Op::Const(Constant::V128(bits)),
        ConstOp::RefNull(heap) => Op::Const(Constant::Null(heap)),
        ConstOp::RefFunc(function) => Op::RefFunc(function),
        ConstOp::GlobalGet(global) => Op::GlobalGet(global),
        _ => return None,
    })
}

/// The step that gives what an operation gives, if there is one: the inverse of [`operation`].
pub(super) fn constant(op: &Op) -> Option<ConstOp> {
    Some(match *op {
        Op::Const(Constant::I32(value)) => ConstOp::I32(value),
        Op::Const(Constant::I64(value)) => ConstOp::I64(value),
        Op::Const(Constant::F32(bits)) => ConstOp::F32(bits),
        Op::Const(Constant::F64(bits)) => ConstOp::F64(bits),
        Op::Const(Constant::V128(bits)) => ConstOp::V128(bits),
        Op::Const(Constant::Null(heap)) => ConstOp::RefNull(heap),
        Op::RefFunc(function) => ConstOp::RefFunc(function),
        Op::GlobalGet(global) => ConstOp::GlobalGet(global),
        _ => return None,
    })
}

/// How many operands a step takes. Each leaves one.
pub(super) fn arity(info: &ModuleInfo, op: ConstOp) -> Option<usize> {
    Some(match op {
        ConstOp::I32(_)
        | ConstOp::I64(_)
        | ConstOp::F32(_)
        | ConstOp::F64(_)
        | ConstOp::V128(_)
        | ConstOp::RefNull(_)
        | ConstOp::RefFunc(_)
        | ConstOp::GlobalGet(_)
        | ConstOp::StructNewDefault(_) => 0,
        ConstOp::RefI31 | ConstOp::ArrayNewDefault(_) | ConstOp::AnyConvertExtern | ConstOp::ExternConvertAny => 1,
        ConstOp::I32Add
        | ConstOp::I32Sub
        | ConstOp::I32Mul
        | ConstOp::I64Add
        | ConstOp::I64Sub
        | ConstOp::I64Mul
        | ConstOp::ArrayNew(_) => 2,
        ConstOp::StructNew(ty) => match &info.types[ty.index()].composite {
            CompositeType::Struct(fields) => fields.len(),
            _ => return None,
        },
        ConstOp::ArrayNewFixed(_, length) => length as usize,
    })
}
