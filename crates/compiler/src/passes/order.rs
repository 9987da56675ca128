//! Comparisons of what another comparison, of three outcomes, gives.
//!
//! Languages whose `compare` gives -1, 0 or 1 have it as the difference of two comparisons, and look at its sign
//! afterwards: `(x >= y) - (x <= y) < 0` is `x < y`.

use super::support::origin;
use crate::mir::{BinaryOp, CompareOp, Function, Op, Value};

/// The relations of integers of one type, each row in the order of `Comparison`.
const RELATIONS: [[CompareOp; 6]; 4] = {
    use CompareOp::*;
    [
        [I32LtS, I32LeS, I32Eq, I32Ne, I32GeS, I32GtS],
        [I32LtU, I32LeU, I32Eq, I32Ne, I32GeU, I32GtU],
        [I64LtS, I64LeS, I64Eq, I64Ne, I64GeS, I64GtS],
        [I64LtU, I64LeU, I64Eq, I64Ne, I64GeU, I64GtU],
    ]
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
}

/// The comparison that gives the same as `op` of a value and a constant, where that value is the order of two others:
/// -1, 0 or 1.
pub(super) fn of_order(
    function: &Function,
    op: CompareOp,
    value: Value,
    constant: i32,
) -> Option<(CompareOp, [Value; 2])> {
    use CompareOp::{I32Eq, I32GeS, I32GtS, I32LeS, I32LtS, I32Ne};
    let comparison = match (op, constant) {
        (I32LtS, 0) | (I32LeS | I32Eq, -1) => Comparison::Less,
        (I32LeS, 0) | (I32LtS | I32Ne, 1) => Comparison::LessOrEqual,
        (I32Eq, 0) => Comparison::Equal,
        (I32Ne, 0) => Comparison::NotEqual,
        (I32GeS, 0) | (I32GtS | I32Ne, -1) => Comparison::GreaterOrEqual,
        (I32GtS, 0) | (I32GeS | I32Eq, 1) => Comparison::Greater,
        _ => return None,
    };
    let (relations, operands) = order(function, value)?;
    Some((relations[comparison as usize], operands))
}

/// The operands whose order a value is, and the relations of their type.
fn order(function: &Function, value: Value) -> Option<(&'static [CompareOp; 6], [Value; 2])> {
    let (Op::Binary(BinaryOp::I32Sub), args) = origin(function, value)? else { return None };
    let (&Op::Compare(greater), first) = origin(function, args[0])? else { return None };
    let (&Op::Compare(less), second) = origin(function, args[1])? else { return None };
    let less = match (first, second) {
        ([x, y], [a, b]) if x == a && y == b => less,
        ([x, y], [a, b]) if x == b && y == a => less.swapped(),
        _ => return None,
    };
    let relations = RELATIONS.iter().find(|relations| relations.contains(&less) && relations.contains(&greater))?;
    let of = |comparison: Comparison| relations[comparison as usize];
    let is = |greatest: Comparison, least: Comparison| greater == of(greatest) && less == of(least);
    if is(Comparison::GreaterOrEqual, Comparison::LessOrEqual) || is(Comparison::Greater, Comparison::Less) {
        Some((relations, [first[0], first[1]]))
    } else if is(Comparison::LessOrEqual, Comparison::GreaterOrEqual) || is(Comparison::Less, Comparison::Greater) {
        Some((relations, [first[1], first[0]]))
    } else {
        None
    }
}
