//! What is known of integers at a point of the walk over the dominator tree: which is less than which, and what is not
//! negative.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::simplify::inverse;
use super::support::{constant_i32, origin};
use crate::mir::{
    BinaryOp, Block, Cfg, CompareOp, Dominators, Extension, Function, LoadKind, Op, Terminator, UnaryOp, Value,
    ValueDef,
};
use crate::module::{HeapType, ModuleInfo, RefType, StorageType, ValueType};

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
    signed: bool,
    less: Number,
    greater: Number,
}

enum Undo {
    Less(Less),
    NonNegative(Value),
    /// The former entry.
    AtLeast(Value, Option<u32>),
}

/// How deep the definition of a value is looked into.
const DEPTH: u32 = 4;
/// How many guards of a value are looked at.
const GUARDS: usize = 8;

/// The facts that hold where the walk is.
#[derive(Default)]
pub(super) struct Ranges {
    less: FxHashSet<Less>,
    non_negative: FxHashSet<Value>,
    /// Values known to be above a constant, unsigned: the greatest such constant.
    above: FxHashMap<Value, u32>,
    undo: Vec<Undo>,
    /// By value: blocks at whose start it is known to be less than another.
    guards: FxHashMap<Value, SmallVec<[(Block, Less); 2]>>,
}

impl Ranges {
    pub(super) fn new(function: &Function, info: &ModuleInfo, cfg: &Cfg) -> Ranges {
        let mut ranges = Ranges::default();
        for &block in &cfg.order {
            let &[(source, edge)] = cfg.predecessors(block) else { continue };
            if let Some(less) = edge_relation(function, info, source, edge).and_then(Relation::strict)
                && let Number::Value(value) = less.less
            {
                ranges.guards.entry(value).or_default().push((block, less));
            }
        }
        ranges
    }

    /// To be given to [`back_to`](Self::back_to).
    pub(super) fn mark(&self) -> usize {
        self.undo.len()
    }

    /// Forgets what was learnt since `mark`.
    pub(super) fn back_to(&mut self, mark: usize) {
        while self.undo.len() > mark {
            match self.undo.pop() {
                Some(Undo::Less(less)) => {
                    self.less.remove(&less);
                }
                Some(Undo::NonNegative(value)) => {
                    self.non_negative.remove(&value);
                }
                Some(Undo::AtLeast(value, Some(former))) => {
                    self.above.insert(value, former);
                }
                Some(Undo::AtLeast(value, None)) => {
                    self.above.remove(&value);
                }
                None => {}
            }
        }
    }

    fn learn(&mut self, less: Less) {
        if self.less.insert(less) {
            self.undo.push(Undo::Less(less));
        }
        if let (false, Number::Constant(bound), Number::Value(value)) = (less.signed, less.less, less.greater) {
            let bound = bound as u32;
            let former = self.above.get(&value).copied();
            if former.is_none_or(|former| former < bound) {
                self.above.insert(value, bound);
                self.undo.push(Undo::AtLeast(value, former));
            }
        }
    }

    fn learn_non_negative(&mut self, number: Number) {
        if let Number::Value(value) = number
            && self.non_negative.insert(value)
        {
            self.undo.push(Undo::NonNegative(value));
        }
    }

    /// Takes note of a comparison that holds.
    pub(super) fn learn_compare(&mut self, function: &Function, info: &ModuleInfo, op: CompareOp, a: Value, b: Value) {
        let Some(relation) = Relation::of(function, info, op, a, b) else { return };
        let floor = if relation.strict { -1 } else { 0 };
        if let Some(less) = relation.strict() {
            self.learn(less);
        }
        if relation.signed {
            let above = match relation.less {
                Number::Constant(constant) => constant >= floor,
                Number::Value(_) => self.is_non_negative(function, info, relation.less, DEPTH),
            };
            if above {
                self.learn_non_negative(relation.greater);
            }
        }
    }

    /// Takes note that an index has passed its check.
    pub(super) fn learn_bounds(&mut self, function: &Function, info: &ModuleInfo, index: Value, length: Value) {
        let (less, greater) = (Number::of(function, index), Number::of(function, length));
        self.learn(Less { signed: false, less, greater });
        if self.is_non_negative(function, info, greater, DEPTH) {
            self.learn_non_negative(less);
            self.learn(Less { signed: true, less, greater });
        }
    }

    /// Whether an index is known to pass its check.
    pub(super) fn is_in_bounds(&self, function: &Function, info: &ModuleInfo, index: Value, length: Value) -> bool {
        let (less, greater) = (Number::of(function, index), Number::of(function, length));
        if self.is_less(function, info, Less { signed: false, less, greater }) == Some(true) {
            return true;
        }
        if let Some((Op::Binary(BinaryOp::I32RemU), args)) = origin(function, index)
            && Number::of(function, args[1]) == greater
        {
            return true;
        }
        let Some(most) = greatest(function, info, index) else { return false };
        match greater {
            Number::Constant(length) => most < length as u32,
            Number::Value(length) => self.above.get(&length).is_some_and(|&bound| most <= bound),
        }
    }

    fn is_less(&self, function: &Function, info: &ModuleInfo, asked: Less) -> Option<bool> {
        let Less { signed, less, greater } = asked;
        if let (Number::Constant(less), Number::Constant(greater)) = (less, greater) {
            return Some(if signed { less < greater } else { (less as u32) < greater as u32 });
        }
        let reverse = Less { signed, less: greater, greater: less };
        if self.less.contains(&asked) {
            return Some(true);
        }
        if self.less.contains(&reverse) {
            return Some(false);
        }
        let non_negative = |number| self.is_non_negative(function, info, number, DEPTH);
        if signed {
            match (less, greater) {
                (_, Number::Constant(constant)) if constant <= 0 && non_negative(less) => return Some(false),
                (Number::Constant(constant), _) if constant < 0 && non_negative(greater) => return Some(true),
                _ => {}
            }
            if self.less.contains(&Less { signed: false, ..asked }) && non_negative(greater) {
                return Some(true);
            }
        } else if self.less.contains(&Less { signed: true, ..asked }) && non_negative(less) {
            return Some(true);
        }
        None
    }

    /// The outcome of a comparison, if known.
    pub(super) fn decide(
        &self,
        function: &Function,
        info: &ModuleInfo,
        op: CompareOp,
        a: Value,
        b: Value,
    ) -> Option<bool> {
        let relation = Relation::of(function, info, op, a, b)?;
        let Relation { signed, less, greater, strict } = relation;
        if strict {
            self.is_less(function, info, Less { signed, less, greater })
        } else {
            self.is_less(function, info, Less { signed, less: greater, greater: less }).map(|outcome| !outcome)
        }
    }

    fn is_non_negative(&self, function: &Function, info: &ModuleInfo, number: Number, depth: u32) -> bool {
        let value = match number {
            Number::Constant(constant) => return constant >= 0,
            Number::Value(value) => value,
        };
        if self.non_negative.contains(&value) {
            return true;
        }
        if greatest(function, info, value).is_some_and(|most| most <= i32::MAX as u32) {
            return true;
        }
        let Some((op, args)) = origin(function, value) else { return false };
        let operand = |operand: usize| {
            depth > 0 && self.is_non_negative(function, info, Number::of(function, args[operand]), depth - 1)
        };
        match op {
            Op::Binary(BinaryOp::I32And) => operand(0) || operand(1),
            Op::Binary(BinaryOp::I32Or | BinaryOp::I32Xor | BinaryOp::I32DivS) => operand(0) && operand(1),
            Op::Binary(BinaryOp::I32RemS | BinaryOp::I32ShrS | BinaryOp::I32DivU) => operand(0),
            Op::Select => operand(1) && operand(2),
            _ => false,
        }
    }

    /// Finds out about the parameters of a loop's header by induction: what holds on the entering edges, and on a
    /// back-edge given that it holds in the iteration before. To be called when the walk enters the header.
    pub(super) fn enter_header(
        &mut self,
        function: &Function,
        info: &ModuleInfo,
        cfg: &Cfg,
        dominators: &Dominators,
        header: Block,
        def_block: impl Fn(Value) -> Block,
    ) {
        let edges: SmallVec<[Incoming; 4]> = cfg
            .predecessors(header)
            .iter()
            .map(|&(source, edge)| Incoming { source, edge, back: dominators.dominates(header, source) })
            .collect();
        // Beyond this, the work would no longer be linear.
        if edges.len() > 8 || !edges.iter().any(|edge| edge.back) {
            return;
        }
        for (position, &param) in function.blocks[header.index()].params.iter().enumerate() {
            if function.value_type(param) != ValueType::I32 {
                continue;
            }
            let args: Option<SmallVec<[Value; 4]>> =
                edges.iter().map(|edge| argument(function, edge, header, position)).collect();
            let Some(args) = args else { continue };
            let less = self.inductive_less(function, info, dominators, &edges, &args, header, &def_block);
            if let Some(less) = less {
                self.learn(Less { less: Number::Value(param), ..less });
            }
            let bounded = less.is_some_and(|less| less.signed);
            if self.inductive_non_negative(function, info, dominators, &edges, &args, param, bounded) {
                self.learn_non_negative(Number::Value(param));
            }
        }
    }

    /// A bound that every edge's argument is known to be below.
    #[allow(clippy::too_many_arguments)]
    fn inductive_less(
        &self,
        function: &Function,
        info: &ModuleInfo,
        dominators: &Dominators,
        edges: &[Incoming],
        args: &[Value],
        header: Block,
        def_block: &impl Fn(Value) -> Block,
    ) -> Option<Less> {
        let first = edges.iter().position(|edge| edge.back)?;
        let less = self.known_on(function, info, dominators, &edges[first], args[first])?;
        if let Number::Value(bound) = less.greater {
            let defined = def_block(bound);
            if defined == header || !dominators.dominates(defined, header) {
                return None;
            }
        }
        let holds = edges.iter().zip(args).all(|(edge, &arg)| {
            let asked = Less { less: Number::of(function, arg), ..less };
            self.edge_gives(function, info, edge, asked)
                || if edge.back {
                    self.guarded(dominators, arg, edge.source, |guard| guard == asked)
                } else {
                    self.is_less(function, info, asked) == Some(true)
                }
        });
        if holds { Some(less) } else { None }
    }

    /// Whether the parameter is never negative. `bounded`: it is known to be less than something throughout the loop.
    #[allow(clippy::too_many_arguments)]
    fn inductive_non_negative(
        &self,
        function: &Function,
        info: &ModuleInfo,
        dominators: &Dominators,
        edges: &[Incoming],
        args: &[Value],
        param: Value,
        bounded: bool,
    ) -> bool {
        edges.iter().zip(args).all(|(edge, &arg)| {
            if self.is_non_negative(function, info, Number::of(function, arg), DEPTH) || (edge.back && arg == param) {
                return true;
            }
            // Incremented by one after a comparison has shown that it is not the greatest number.
            let Some((Op::Binary(BinaryOp::I32Add), operands)) = origin(function, arg) else { return false };
            if !edge.back || operands[0] != param || constant_i32(function, operands[1]) != Some(1) {
                return false;
            }
            bounded || self.guarded(dominators, param, edge.source, |guard| guard.signed)
        })
    }

    /// A strict comparison of `value` with something that holds on a back-edge.
    fn known_on(
        &self,
        function: &Function,
        info: &ModuleInfo,
        dominators: &Dominators,
        edge: &Incoming,
        value: Value,
    ) -> Option<Less> {
        if let Some(less) = edge_relation(function, info, edge.source, edge.edge).and_then(Relation::strict)
            && less.less == Number::Value(value)
        {
            return Some(less);
        }
        let guards = self.guards.get(&value)?;
        guards.iter().take(GUARDS).find(|(block, _)| dominators.dominates(*block, edge.source)).map(|&(_, less)| less)
    }

    fn edge_gives(&self, function: &Function, info: &ModuleInfo, edge: &Incoming, asked: Less) -> bool {
        edge_relation(function, info, edge.source, edge.edge).and_then(Relation::strict) == Some(asked)
    }

    fn guarded(&self, dominators: &Dominators, value: Value, at: Block, holds: impl Fn(Less) -> bool) -> bool {
        self.guards.get(&value).is_some_and(|guards| {
            guards.iter().take(GUARDS).any(|&(block, less)| holds(less) && dominators.dominates(block, at))
        })
    }
}

struct Incoming {
    source: Block,
    edge: u32,
    back: bool,
}

/// What an edge passes to a parameter; `None` if the terminator supplies it.
fn argument(function: &Function, incoming: &Incoming, target: Block, position: usize) -> Option<Value> {
    let terminator = function.blocks[incoming.source.index()].terminator.as_ref()?;
    let mut result = None;
    let mut number = 0;
    terminator.for_each_edge(|edge| {
        if number == incoming.edge && edge.block == target {
            let supplied = function.blocks[target.index()].params.len() - edge.args.len();
            result = position.checked_sub(supplied).map(|position| edge.args[position]);
        }
        number += 1;
    });
    result
}

/// `less < greater`, or `less <= greater` if not strict.
#[derive(Clone, Copy)]
struct Relation {
    signed: bool,
    less: Number,
    greater: Number,
    strict: bool,
}

impl Relation {
    fn of(function: &Function, info: &ModuleInfo, op: CompareOp, a: Value, b: Value) -> Option<Relation> {
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

    fn strict(self) -> Option<Less> {
        if self.strict { Some(Less { signed: self.signed, less: self.less, greater: self.greater }) } else { None }
    }
}

/// What a branch on a comparison says on one of its edges.
fn edge_relation(function: &Function, info: &ModuleInfo, source: Block, edge: u32) -> Option<Relation> {
    let Some(Terminator::Branch { cond, .. }) = &function.blocks[source.index()].terminator else { return None };
    let mut holds = edge == 0;
    let mut at = *cond;
    while let Some((Op::Unary(UnaryOp::I32Eqz), args)) = origin(function, at) {
        holds = !holds;
        at = args[0];
    }
    debug_assert!(!matches!(function.values[at.index()].def, ValueDef::Alias(_)));
    let Some((&Op::Compare(op), args)) = origin(function, at) else { return None };
    let op = if holds { op } else { inverse(op)? };
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
        | Op::IsFunction(_)
        | Op::RefIsNull
        | Op::RefEq
        | Op::RefTest(_)
        | Op::Unary(UnaryOp::I32Eqz | UnaryOp::I64Eqz) => Some(1),
        Op::Unary(UnaryOp::I32Clz | UnaryOp::I32Ctz | UnaryOp::I32Popcnt) => Some(32),
        // An array of elements of two bytes or more has less than 2^31 of them.
        Op::ArrayLen(_) => match function.value_type(args[0]) {
            ValueType::Ref(RefType { heap: HeapType::Concrete(ty), .. }) => match info.array_element(ty).storage {
                StorageType::I8 => None,
                StorageType::I16 | StorageType::Value(_) => Some(i32::MAX as u32),
            },
            _ => None,
        },
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
