//! What is known of integers at a point of the walk over the dominator tree: which is less than which, and what is not
//! negative.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::relations::{Less, Number, Relation, edge_relation, greatest};
use super::support::{constant_i32, origin};
use crate::mir::{BinaryOp, Block, Cfg, CompareOp, Dominators, Function, Op, Value};
use crate::module::{ModuleInfo, ValueType};

enum Undo {
    Less(Less),
    NonNegative(Value),
    /// The former entry.
    Above(Value, Option<u32>),
    /// The former entry.
    Equal(Value, Option<Value>),
}

/// How deep the definition of a value is looked into.
const DEPTH: u32 = 4;
/// How many guards of a value are looked at.
const GUARDS: usize = 16;

/// The facts that hold where the walk is.
#[derive(Default)]
pub(super) struct Ranges {
    less: FxHashSet<Less>,
    non_negative: FxHashSet<Value>,
    /// Values known to be above a constant, unsigned: the greatest such constant.
    above: FxHashMap<Value, u32>,
    /// Values that another is known to be equal to.
    equal: FxHashMap<Value, Value>,
    undo: Vec<Undo>,
    /// By value: blocks at whose start it is known to be less than another, or than a constant.
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
                Some(Undo::Above(value, Some(former))) => {
                    self.above.insert(value, former);
                }
                Some(Undo::Above(value, None)) => {
                    self.above.remove(&value);
                }
                Some(Undo::Equal(value, Some(former))) => {
                    self.equal.insert(value, former);
                }
                Some(Undo::Equal(value, None)) => {
                    self.equal.remove(&value);
                }
                None => {}
            }
        }
    }

    fn learn(&mut self, less: Less) {
        if self.less.insert(less) {
            self.undo.push(Undo::Less(less));
        }
        if let (Number::Constant(bound), Number::Value(value)) = (less.less, less.greater)
            && (!less.signed || bound >= 0)
        {
            let bound = bound as u32;
            let former = self.above.get(&value).copied();
            if former.is_none_or(|former| former < bound) {
                self.above.insert(value, bound);
                self.undo.push(Undo::Above(value, former));
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
        match op {
            CompareOp::I32Eq => return self.learn_equal(function, a, b),
            CompareOp::I32Ne if constant_i32(function, b) == Some(0) => return self.learn_not_zero(a),
            _ => {}
        }
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

    fn learn_equal(&mut self, function: &Function, a: Value, b: Value) {
        match (Number::of(function, a), Number::of(function, b)) {
            (Number::Value(a), Number::Value(b)) => {
                for (value, other) in [(a, b), (b, a)] {
                    let former = self.equal.insert(value, other);
                    self.undo.push(Undo::Equal(value, former));
                }
            }
            (number, Number::Constant(constant)) | (Number::Constant(constant), number) => {
                if constant >= 0 {
                    self.learn_non_negative(number);
                }
                if constant != 0 {
                    let less = Number::Constant(constant.wrapping_sub(1));
                    self.learn(Less { signed: false, less, greater: number });
                }
            }
        }
    }

    /// Takes note that a value is not zero.
    pub(super) fn learn_not_zero(&mut self, value: Value) {
        self.learn(Less { signed: false, less: Number::Constant(0), greater: Number::Value(value) });
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
        let is_below = |length| self.is_below(function, info, index, length);
        is_below(length) || self.equal.get(&length).copied().is_some_and(is_below)
    }

    fn is_below(&self, function: &Function, info: &ModuleInfo, index: Value, length: Value) -> bool {
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
        if let (false, Number::Constant(least), Number::Value(value)) = (signed, less, greater)
            && self.above.get(&value).is_some_and(|&bound| least as u32 <= bound)
        {
            return Some(true);
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
        let is_less = |asked: Less| {
            let is_less_than = |greater| self.is_less(function, info, Less { greater, ..asked });
            is_less_than(asked.greater).or_else(|| match asked.greater {
                Number::Value(value) => is_less_than(Number::Value(*self.equal.get(&value)?)),
                Number::Constant(_) => None,
            })
        };
        if strict {
            is_less(Less { signed, less, greater })
        } else {
            is_less(Less { signed, less: greater, greater: less }).map(|outcome| !outcome)
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
        let guards = guards.iter().take(GUARDS);
        let mut dominating = guards.filter(|(block, _)| dominators.dominates(*block, edge.source));
        // The length of an array says more than a constant.
        let by_value = dominating.clone().find(|(_, less)| matches!(less.greater, Number::Value(_)));
        by_value.or_else(|| dominating.next()).map(|&(_, less)| less)
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
