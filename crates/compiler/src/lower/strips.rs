//! Which accesses of loops walk through an array in strips.
//!
//! A *strip* is a run of elements that lie one behind the other: the first N bytes of an array, a leaf, the remainder. A loop that walks
//! through an array keeps the strip it is in: an address `base`, so that element `i` lies at `base + i * size`, and the index
//! `end` where the strip ends, never beyond the array's length. While an index is below `end`, an access costs one comparison, which
//! takes the place of the bounds check where that would come directly before. Otherwise a cold path looks up the next strip.
//!
//! That an index below `end` lies in the strip, not before it, follows from the loop's shape, and is what this analysis finds out.
//! A strip serves accesses of one array at indexes `m * p + x + k`, where `p` grows by a constant on every back-edge, `x` does not
//! change in the loop, and `k` is a constant. One of them, the *leader*, is executed in every iteration, and `k` is nowhere less
//! than there. It alone looks strips up. So the strip begins at or before the leader's index of that time, and the leader's
//! index has only grown since, in equal small steps. It has not wrapped: no strip ends beyond [`LAST`], and the leader has
//! passed its check in each iteration.
//!
//! Strips are emptied where anything may change behind the loop's back: at every safepoint, and where a store puts a leaf into a
//! spine. Loops that call are left alone, as are all but innermost ones.

use legato_heap::layout::StorageKind;
use legato_heap::plan::{ArrayPlan, SpinePlan};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::env::ModuleEnv;
use super::roots::Temperature;
use crate::mir::{
    BinaryOp, Block, Cfg, Check, Constant, Dominators, Function, Inst, Loops, Op, Terminator, Value, ValueDef,
};
use crate::passes::greatest;

/// No strip ends beyond this index: so far from the greatest that an index within a strip does not wrap when it makes a step.
pub(super) const LAST: u32 = i32::MAX as u32 - (1 << 20);
/// A loop has at most this many strips: each takes two registers.
const MOST_STRIPS: usize = 4;
/// How much of a leaf one step may pass, as a divisor: beyond, a strip serves too few accesses.
const STEPS_IN_LEAF: u32 = 8;
/// How many additions an index is looked through.
const DEPTH: u32 = 4;

/// One strip of a loop.
pub(super) struct Strip {
    /// The array.
    pub(super) array: Value,
    /// What it holds.
    pub(super) kind: StorageKind,
    /// Whether stores use it, so that it must be writable.
    pub(super) is_written: bool,
    /// The array's length, where it is known before the loop: the strip then starts out as the array's first N bytes.
    pub(super) length: Option<Value>,
}

/// How an access uses a strip.
#[derive(Clone, Copy)]
pub(super) struct StripUse {
    /// Number of the strip.
    pub(super) strip: usize,
    /// Whether it looks the strip up.
    pub(super) leads: bool,
    /// The bounds check that the strip stands for, if any.
    pub(super) check: Option<MergedCheck>,
}

/// A bounds check that is left to the access behind it: its cold path makes it.
#[derive(Clone, Copy)]
pub(super) enum MergedCheck {
    /// Against this length.
    Length(Value),
    /// Against the length of this array, which nothing else reads: that is left to the cold path too, with its check for null.
    LengthOf(Value, Check),
}

/// The strips of a function.
#[derive(Default)]
pub(super) struct StripPlan {
    /// All strips.
    pub(super) strips: Vec<Strip>,
    /// By access.
    uses: FxHashMap<Inst, StripUse>,
    /// Bounds checks and reads of lengths that are left to accesses.
    merged: FxHashSet<Inst>,
    /// By block: the strips of its loop, as a range of numbers.
    active: FxHashMap<Block, (usize, usize)>,
    /// By block outside of the loops: the strips of those that it enters.
    entered: FxHashMap<Block, SmallVec<[(usize, usize); 1]>>,
}

impl StripPlan {
    /// The strip that an access uses.
    pub(super) fn of(&self, access: Inst) -> Option<StripUse> {
        self.uses.get(&access).copied()
    }

    /// Whether a bounds check, or the read of a length, is left to the access behind it.
    pub(super) fn is_merged(&self, inst: Inst) -> bool {
        self.merged.contains(&inst)
    }

    /// The strips in use in a block.
    pub(super) fn active(&self, block: Block) -> std::ops::Range<usize> {
        self.active.get(&block).map_or(0..0, |&(start, end)| start..end)
    }

    /// The strips that start at the end of a block.
    pub(super) fn entered(&self, block: Block) -> impl Iterator<Item = usize> + use<> {
        self.entered.get(&block).cloned().unwrap_or_default().into_iter().flat_map(|(start, end)| start..end)
    }
}

/// Finds the strips. `temperature` says of an operation and its operands whether it is a safepoint.
pub(super) fn plan(
    env: &ModuleEnv,
    mir: &Function,
    order: &[Block],
    temperature: impl Fn(&Op, &[Value]) -> Option<Temperature>,
) -> StripPlan {
    let ArrayPlan::Spines(spines) = env.plan.arrays else { return StripPlan::default() };
    let is_access = |inst: &Inst| matches!(mir.insts[inst.index()].op, Op::ArrayGet(..) | Op::ArraySet(_));
    if !order.iter().any(|block| mir.blocks[block.index()].insts.iter().any(is_access)) {
        return StripPlan::default();
    }
    let cfg = Cfg::new(mir);
    let dominators = Dominators::new(mir, &cfg);
    let loops = Loops::new(&cfg, &dominators);
    let mut is_innermost = vec![true; loops.loops.len()];
    let parents = loops.loops.iter().filter_map(|data| data.parent);
    parents.for_each(|parent| is_innermost[parent] = false);
    let mut blocks: Vec<Vec<Block>> = vec![Vec::new(); loops.loops.len()];
    for &block in order {
        if let Some(number) = loops.innermost[block.index()] {
            blocks[number].push(block);
        }
    }
    let mut finder =
        Finder { env, mir, spines, cfg: &cfg, dominators: &dominators, homes: None, plan: StripPlan::default() };
    for (number, blocks) in blocks.iter().enumerate() {
        let calls = |&block: &Block| {
            let data = &mir.blocks[block.index()];
            let is_hot = |&inst: &Inst| {
                let data = &mir.insts[inst.index()];
                temperature(&data.op, &data.args) == Some(Temperature::Hot)
            };
            matches!(data.terminator, Some(Terminator::TryCall { .. } | Terminator::Throw { .. }))
                || data.insts.iter().any(is_hot)
        };
        if is_innermost[number] && !blocks.iter().any(calls) {
            finder.find(loops.loops[number].header, blocks);
        }
    }
    finder.plan
}

/// An index as a linear form.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Index {
    /// The parameter that grows.
    variable: Value,
    /// What it is multiplied by.
    factor: u32,
    /// What is added and does not change, in order.
    fixed: SmallVec<[Value; 2]>,
}

/// An access that could use a strip.
struct Candidate {
    inst: Inst,
    block: Block,
    position: usize,
    constant: i32,
    stores: bool,
}

struct Finder<'a> {
    env: &'a ModuleEnv<'a>,
    mir: &'a Function,
    spines: SpinePlan,
    cfg: &'a Cfg,
    dominators: &'a Dominators,
    /// The block of each instruction, once needed.
    homes: Option<Homes>,
    plan: StripPlan,
}

/// Where instructions are, and the lengths of arrays.
struct Homes {
    blocks: FxHashMap<Inst, Block>,
    /// By array: where its length is read.
    lengths: FxHashMap<Value, SmallVec<[Length; 1]>>,
    /// By length: how often it is used.
    uses: FxHashMap<Value, u32>,
}

/// An instruction that reads a length.
#[derive(Clone, Copy)]
struct Length {
    inst: Inst,
    block: Block,
}

impl Finder<'_> {
    fn find(&mut self, header: Block, blocks: &[Block]) {
        let mir = self.mir;
        let within: FxHashSet<Block> = blocks.iter().copied().collect();
        let edges = self.cfg.predecessors(header);
        let latches: SmallVec<[Block; 4]> =
            edges.iter().map(|&(source, _)| source).filter(|source| within.contains(source)).collect();
        let entries: SmallVec<[Block; 2]> =
            edges.iter().map(|&(source, _)| source).filter(|source| !within.contains(source)).collect();
        let steps: FxHashMap<Value, u32> = mir.blocks[header.index()]
            .params
            .iter()
            .enumerate()
            .filter_map(|(position, &param)| Some((param, self.step(header, &latches, position, param)?)))
            .collect();
        if steps.is_empty() {
            return;
        }
        let mut groups: Vec<((Value, Index), Vec<Candidate>)> = Vec::new();
        let mut numbers: FxHashMap<(Value, Index), usize> = FxHashMap::default();
        for &block in blocks {
            for (position, &inst) in mir.blocks[block.index()].insts.iter().enumerate() {
                let data = &mir.insts[inst.index()];
                let stores = matches!(data.op, Op::ArraySet(_));
                let (Op::ArrayGet(ty, _) | Op::ArraySet(ty)) = data.op else { continue };
                let array = self.root(data.args[0]);
                if within.contains(&self.home(array)) {
                    continue;
                }
                let kind = self.env.element_kind(ty);
                let most = greatest(mir, self.env.info, mir.resolve(data.args[1]));
                if most.is_some_and(|most| most < self.spines.layout.first_n / kind.bytes()) {
                    continue;
                }
                let Some((index, constant)) = self.index(data.args[1], &steps, &within) else { continue };
                let step = steps[&index.variable].wrapping_mul(index.factor);
                if step == 0 || step > self.spines.layout.leaf_bytes() / kind.bytes() / STEPS_IN_LEAF {
                    continue;
                }
                let key = (array, index);
                let number = *numbers.entry(key.clone()).or_insert_with(|| {
                    groups.push((key, Vec::new()));
                    groups.len() - 1
                });
                groups[number].1.push(Candidate { inst, block, position, constant, stores });
            }
        }
        let first = self.plan.strips.len();
        for ((array, _), candidates) in groups {
            if self.plan.strips.len() - first == MOST_STRIPS {
                break;
            }
            self.group(array, &candidates, &latches, header);
        }
        let strips = (first, self.plan.strips.len());
        if strips.0 < strips.1 {
            self.plan.active.extend(blocks.iter().map(|&block| (block, strips)));
            for entry in entries {
                self.plan.entered.entry(entry).or_default().push(strips);
            }
        }
    }

    /// Makes a strip for the accesses of an array, if one of them can lead.
    fn group(&mut self, array: Value, candidates: &[Candidate], latches: &[Block], header: Block) {
        let mir = self.mir;
        let leads =
            |candidate: &&Candidate| latches.iter().all(|&latch| self.dominators.dominates(candidate.block, latch));
        let Some(leader) = candidates.iter().filter(leads).min_by_key(|candidate| candidate.constant) else { return };
        let (Op::ArrayGet(ty, _) | Op::ArraySet(ty)) = mir.insts[leader.inst.index()].op else { return };
        let kind = self.env.element_kind(ty);
        let reach = (self.spines.layout.leaf_bytes() / kind.bytes() / STEPS_IN_LEAF) as i32;
        let served = |candidate: &&Candidate| {
            candidate.constant.checked_sub(leader.constant).is_some_and(|ahead| (0..=reach).contains(&ahead))
        };
        let is_written = candidates.iter().filter(served).any(|candidate| candidate.stores);
        let strip = self.plan.strips.len();
        for candidate in candidates.iter().filter(served) {
            let check = self.merge_check(array, candidate);
            let leads = candidate.constant == leader.constant && leads(&candidate);
            self.plan.uses.insert(candidate.inst, StripUse { strip, leads, check });
        }
        let length = self.length_before(array, header);
        self.plan.strips.push(Strip { array, kind, is_written, length });
    }

    /// Has an access make the bounds check that comes directly before it, and read the length directly before that where nothing
    /// else needs it.
    fn merge_check(&mut self, array: Value, candidate: &Candidate) -> Option<MergedCheck> {
        let mir = self.mir;
        let index = mir.resolve(mir.insts[candidate.inst.index()].args[1]);
        let mut checked = None;
        for &inst in mir.blocks[candidate.block.index()].insts[..candidate.position].iter().rev() {
            let data = &mir.insts[inst.index()];
            match (&data.op, checked) {
                (Op::BoundsCheck, None) => {
                    let length = mir.resolve(data.args[1]);
                    if mir.resolve(data.args[0]) != index || !self.is_length(length, array) {
                        return None;
                    }
                    self.plan.merged.insert(inst);
                    checked = Some(length);
                }
                (Op::ArrayLen(check), Some(length)) if mir.resolve(data.results[0]) == length => {
                    let is_needed = self.homes().uses.get(&length) != Some(&1)
                        || self.plan.strips.iter().any(|strip| strip.length == Some(length));
                    if is_needed {
                        break;
                    }
                    self.plan.merged.insert(inst);
                    return Some(MergedCheck::LengthOf(data.args[0], *check));
                }
                (Op::Const(_) | Op::Compare(_) | Op::Select | Op::Refine(_) | Op::RefIsNull | Op::RefEq, _) => {}
                (Op::Unary(op), _) if !op.can_trap() => {}
                (Op::Binary(op), _) if !op.can_trap() => {}
                _ => break,
            }
        }
        checked.map(MergedCheck::Length)
    }

    /// Whether a value is an array's length.
    fn is_length(&self, value: Value, array: Value) -> bool {
        let mir = self.mir;
        if let Some((Op::ArrayLen(_), args)) = self.origin(value) {
            return self.root(args[0]) == array;
        }
        match self.origin(array) {
            Some((Op::ArrayNew(_), args)) => mir.resolve(args[1]) == value,
            Some((Op::ArrayNewDefault(_), args)) => mir.resolve(args[0]) == value,
            _ => false,
        }
    }

    /// A length of an array that is read before the loop with this header.
    fn length_before(&mut self, array: Value, header: Block) -> Option<Value> {
        let lengths = self.homes().lengths.get(&array)?.clone();
        let mut before = lengths.iter().filter(|length| length.block != header && !self.plan.is_merged(length.inst));
        let found = before.find(|length| self.dominators.dominates(length.block, header))?;
        Some(self.mir.insts[found.inst.index()].results[0])
    }

    /// How much a header's parameter grows on every back-edge, if by a constant.
    fn step(&self, header: Block, latches: &[Block], position: usize, param: Value) -> Option<u32> {
        let mir = self.mir;
        let mut step = None;
        for &latch in latches {
            let terminator = mir.blocks[latch.index()].terminator.as_ref()?;
            let mut is_steady = true;
            terminator.for_each_edge(|edge| {
                if edge.block != header {
                    return;
                }
                let supplied = mir.blocks[header.index()].params.len() - edge.args.len();
                let found = position
                    .checked_sub(supplied)
                    .and_then(|position| self.offset(edge.args[position]))
                    .filter(|&(from, _)| from == param)
                    .map(|(_, offset)| offset as u32);
                is_steady &= found.is_some() && (step.is_none() || step == found);
                step = found;
            });
            if !is_steady {
                return None;
            }
        }
        step.filter(|&step| step != 0)
    }

    /// A value as another one and a constant that is added to it.
    fn offset(&self, value: Value) -> Option<(Value, i32)> {
        let mut at = self.mir.resolve(value);
        let mut sum = 0i32;
        for _ in 0..DEPTH {
            let Some((Op::Binary(op), args)) = self.origin(at) else { break };
            let (left, right) = (self.constant(args[0]), self.constant(args[1]));
            let (next, term) = match (op, left, right) {
                (BinaryOp::I32Add, _, Some(term)) => (args[0], term),
                (BinaryOp::I32Add, Some(term), _) => (args[1], term),
                (BinaryOp::I32Sub, _, Some(term)) => (args[0], term.wrapping_neg()),
                _ => break,
            };
            sum = sum.wrapping_add(term);
            at = self.mir.resolve(next);
        }
        Some((at, sum))
    }

    /// An index as a linear form and a constant; `None` where it is not one, or does not change.
    fn index(
        &mut self,
        value: Value,
        steps: &FxHashMap<Value, u32>,
        within: &FxHashSet<Block>,
    ) -> Option<(Index, i32)> {
        let mut form = None;
        let mut fixed = SmallVec::new();
        let mut constant = 0i32;
        let mut work: SmallVec<[(Value, u32); 4]> = SmallVec::from_slice(&[(self.mir.resolve(value), DEPTH)]);
        while let Some((value, depth)) = work.pop() {
            let (from, term) = self.offset(value)?;
            constant = constant.wrapping_add(term);
            if let Some(term) = self.constant(from) {
                constant = constant.wrapping_add(term);
            } else if steps.contains_key(&from) {
                if form.replace((from, 1)).is_some() {
                    return None;
                }
            } else if !within.contains(&self.home(from)) {
                fixed.push(from);
            } else {
                let (Op::Binary(op), args) = self.origin(from)? else { return None };
                let args = [self.mir.resolve(args[0]), self.mir.resolve(args[1])];
                let scaled = match (op, self.constant(args[1])) {
                    (BinaryOp::I32Shl, Some(count)) => Some(1u32 << (count & 31)),
                    (BinaryOp::I32Mul, Some(factor)) => Some(factor as u32),
                    _ => None,
                };
                match scaled {
                    Some(factor) => {
                        let (variable, term) = self.offset(args[0])?;
                        if !steps.contains_key(&variable) || form.replace((variable, factor)).is_some() {
                            return None;
                        }
                        constant = constant.wrapping_add((term as u32).wrapping_mul(factor) as i32);
                    }
                    None if *op == BinaryOp::I32Add && depth > 0 => {
                        work.extend(args.map(|arg| (arg, depth - 1)));
                    }
                    None => return None,
                }
            }
        }
        fixed.sort_unstable();
        let (variable, factor) = form?;
        Some((Index { variable, factor, fixed }, constant))
    }

    fn constant(&self, value: Value) -> Option<i32> {
        match super::safepoints::constant_of(self.mir, value) {
            Some(Constant::I32(value)) => Some(value),
            _ => None,
        }
    }

    fn origin(&self, value: Value) -> Option<(&Op, &[Value])> {
        match self.mir.values[self.mir.resolve(value).index()].def {
            ValueDef::Result(inst, _) => {
                let data = &self.mir.insts[inst.index()];
                Some((&data.op, &data.args))
            }
            ValueDef::Param(..) | ValueDef::Alias(_) => None,
        }
    }

    /// The reference that a value is a checked or refined copy of.
    fn root(&self, value: Value) -> Value {
        let mut at = self.mir.resolve(value);
        while let Some((Op::NullCheck | Op::Refine(_) | Op::RefCast(_), args)) = self.origin(at) {
            at = self.mir.resolve(args[0]);
        }
        at
    }

    /// The block that defines a value.
    fn home(&mut self, value: Value) -> Block {
        match self.mir.values[self.mir.resolve(value).index()].def {
            ValueDef::Param(block, _) => block,
            ValueDef::Result(inst, _) => self.homes().blocks[&inst],
            ValueDef::Alias(_) => unreachable!("aliases are resolved"),
        }
    }

    fn homes(&mut self) -> &Homes {
        if self.homes.is_none() {
            let mut homes =
                Homes { blocks: FxHashMap::default(), lengths: FxHashMap::default(), uses: FxHashMap::default() };
            for &block in &self.cfg.order {
                for &inst in &self.mir.blocks[block.index()].insts {
                    homes.blocks.insert(inst, block);
                    let data = &self.mir.insts[inst.index()];
                    if let Op::ArrayLen(_) = data.op {
                        let array = self.root(data.args[0]);
                        homes.lengths.entry(array).or_default().push(Length { inst, block });
                        homes.uses.insert(data.results[0], 0);
                    }
                }
            }
            let mut count = |value: Value| {
                if let Some(uses) = homes.uses.get_mut(&self.mir.resolve(value)) {
                    *uses += 1;
                }
            };
            for &block in &self.cfg.order {
                let data = &self.mir.blocks[block.index()];
                for &inst in &data.insts {
                    let data = &self.mir.insts[inst.index()];
                    data.args.iter().copied().for_each(&mut count);
                    data.op.for_each_use(&mut count);
                }
                if let Some(terminator) = &data.terminator {
                    terminator.for_each_use(&mut count);
                }
            }
            self.homes = Some(homes);
        }
        self.homes.as_ref().expect("just made")
    }
}
