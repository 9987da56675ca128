//! What comparisons and operations say of integers by themselves.

use super::support::{constant_i32, origin};
use crate::mir::{BinaryOp, Block, CompareOp, Extension, Function, LoadKind, Op, Terminator, UnaryOp, Value, ValueDef};
use crate::module::{ModuleInfo, StorageType};

/// An `i32` operand: constants of equal value are the same, wherever they are defined.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Number {
    Constant(i32),
    Value(Value),
}

impl Number {
    pub(super) fn of(function: &Function, value: Value) -> Number {
        match constant_i32(function, value) {
            Some(constant) => Number::Constant(constant),
            None => Number::Value(value),
        }
    }
}

/// `less` is below `greater`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Less {
    pub(super) signed: bool,
    pub(super) less: Number,
    pub(super) greater: Number,
}

/// `less < greater`, or `less <= greater` if not strict.
#[derive(Clone, Copy)]
pub(super) struct Relation {
    pub(super) signed: bool,
    pub(super) less: Number,
    pub(super) greater: Number,
    pub(super) strict: bool,
}

impl Relation {
    pub(super) fn of(function: &Function, info: &ModuleInfo, op: CompareOp, a: Value, b: Value) -> Option<Relation> {
        use CompareOp::*;
        let (a, b) = (Number::of(function, a), Number::of(function, b));
        let (signed, strict, less, greater) = match op {
            I32LtS => (true, true, a, b),
            I32LtU => (false, true, a, b),
            I32GtS => (true, true, b, a),
            I32GtU => (false, true, b, a),
            I32LeS => (true, false, a, b),
            I32LeU => (false, false, a, b),
            I32GeS => (true, false, b, a),
            I32GeU => (false, false, b, a),
            _ => return None,
        };
        if let (true, false, Some(length)) = (signed, strict, successor(function, info, greater)) {
            return Some(Relation { signed, less, greater: length, strict: true });
        }
        Some(Relation { signed, less, greater, strict })
    }

    /// The same with the constant before or behind, if it is not strict.
    pub(super) fn strict(self) -> Option<Less> {
        let Relation { signed, less, greater, strict } = self;
        let (least, greatest) = if signed { (i32::MIN, i32::MAX) } else { (0, -1) };
        match (less, greater) {
            _ if strict => Some(Less { signed, less, greater }),
            (Number::Constant(constant), _) if constant != least => {
                Some(Less { signed, less: Number::Constant(constant.wrapping_sub(1)), greater })
            }
            (_, Number::Constant(constant)) if constant != greatest => {
                Some(Less { signed, less, greater: Number::Constant(constant.wrapping_add(1)) })
            }
            _ => None,
        }
    }
}

/// What a branch on a comparison says on one of its edges.
pub(super) fn edge_relation(function: &Function, info: &ModuleInfo, source: Block, edge: u32) -> Option<Relation> {
    let Some(Terminator::Branch { cond, .. }) = &function.blocks[source.index()].terminator else { return None };
    let mut holds = edge == 0;
    let mut at = *cond;
    while let Some((Op::Unary(UnaryOp::I32Eqz), args)) = origin(function, at) {
        holds = !holds;
        at = args[0];
    }
    debug_assert!(!matches!(function.values[at.index()].def, ValueDef::Alias(_)));
    let Some((&Op::Compare(op), args)) = origin(function, at) else { return None };
    let op = if holds { op } else { op.inverse()? };
    Relation::of(function, info, op, args[0], args[1])
}

/// The greatest that a value can be as an unsigned number, where its operation limits it.
pub(crate) fn greatest(function: &Function, info: &ModuleInfo, value: Value) -> Option<u32> {
    let (op, args) = origin(function, value)?;
    match op {
        Op::Const(_) => constant_i32(function, value).map(|constant| constant as u32),
        Op::Binary(BinaryOp::I32And) => {
            let mask = constant_i32(function, args[1])?;
            Some(mask as u32)
        }
        Op::Binary(BinaryOp::I32ShrU) => {
            let count = constant_i32(function, args[1])? & 31;
            Some(u32::MAX >> count)
        }
        Op::Binary(BinaryOp::I32RemU) => Some((constant_i32(function, args[1])? as u32).checked_sub(1)?),
        Op::Load(_, LoadKind::I32From8U, _) => Some(0xff),
        Op::Load(_, LoadKind::I32From16U, _) => Some(0xffff),
        Op::ArrayGet(ty, Extension::Unsigned) => packed(info.array_element(*ty).storage),
        Op::StructGet(ty, field, Extension::Unsigned, _) => packed(info.struct_fields(*ty)[*field as usize].storage),
        Op::Compare(_)
        | Op::IsFunction(..)
        | Op::RefIsNull
        | Op::RefEq
        | Op::RefTest(_)
        | Op::Unary(UnaryOp::I32Eqz | UnaryOp::I64Eqz) => Some(1),
        Op::Unary(UnaryOp::I32Clz | UnaryOp::I32Ctz | UnaryOp::I32Popcnt) => Some(32),
        // See `layout::MOST_ELEMENTS` of the heap.
        Op::ArrayLen(_) => Some(i32::MAX as u32),
        _ => None,
    }
}

/// `n`, if the number is `n - 1` and that does not overflow.
fn successor(function: &Function, info: &ModuleInfo, number: Number) -> Option<Number> {
    let Number::Value(value) = number else { return None };
    let (op, args) = origin(function, value)?;
    let difference = match op {
        Op::Binary(BinaryOp::I32Sub) => constant_i32(function, args[1])?.wrapping_neg(),
        Op::Binary(BinaryOp::I32Add) => constant_i32(function, args[1])?,
        _ => return None,
    };
    let fits = difference == -1 && greatest(function, info, args[0])? <= i32::MAX as u32;
    if fits { Some(Number::of(function, args[0])) } else { None }
}

fn packed(storage: StorageType) -> Option<u32> {
    match storage {
        StorageType::I8 => Some(0xff),
        StorageType::I16 => Some(0xffff),
        StorageType::Value(_) => None,
    }
}
