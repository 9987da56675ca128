//! Which accesses of loops walk through an array in strips.
//!
//! A *strip* is a run of elements that lie one behind the other: the first N bytes of an array, a leaf, the remainder.
//! A loop that walks through an array keeps the strip it is in: an address `base`, so that element `i` lies at
//! `base + i * size`, and the index `end` where the strip ends, never beyond the array's length. While an index is
//! below `end`, an access costs one comparison, which takes the place of the bounds check where that would come
//! directly before ([`checks`](super::checks)). Otherwise a cold path looks up the next strip.
//!
//! That an index below `end` lies in the strip, not before it, follows from the loop's shape, and is what this analysis
//! finds out. A strip serves accesses of one array at indexes `m * p + x + k`, where `p` grows by a constant on every
//! back-edge, `x` does not change in the loop, and `k` is a constant. One of them, the *leader*, is executed in every
//! iteration, and `k` is nowhere less than there. It alone looks strips up. So the strip begins at or before the
//! leader's index of that time, and the leader's index has only grown since, in equal small steps. It has not wrapped:
//! no strip ends beyond [`LAST`], and the leader has passed its check in each iteration.
//!
//! Where `m * p` becomes less, all of this is the other way round: the strip is *downward*, with the index `before` its
//! first element in place of `end`, which an index must be greater than, as signed numbers: one that has passed 0 is
//! less.
//!
//! Strips are emptied where anything may change behind the loop's back: at every safepoint, and where a store puts a
//! leaf into a spine. Loops that call are left alone, as are all but innermost ones. Where the first N bytes grow there
//! are no strips: what lies in leaves is the exception there, and a strip takes registers from the rule.

use legato_heap::layout::StorageKind;
use legato_heap::plan::SpinePlan;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::quiet_loops::quiet_loops;
use super::roots::Safepoints;
use crate::mir::{BinaryOp, Block, Cfg, Dominators, Function, Inst, Op, Value};
use crate::passes::heap::HeapFacts;
use crate::passes::support::{DefBlocks, constant_i32, origin, root};

/// No strip ends beyond this index: so far from the greatest that an index within a strip does not wrap when it makes a
/// step.
pub(crate) const LAST: u32 = i32::MAX as u32 - (1 << 20);
/// A loop has at most this many strips: each takes two registers.
const MOST_STRIPS: usize = 4;
/// How much of a leaf one step may pass, as a divisor: beyond, a strip serves too few accesses.
const STEPS_IN_LEAF: u32 = 8;
/// How many additions an index is looked through.
const DEPTH: u32 = 4;

/// One strip of a loop.
pub(crate) struct Strip {
    /// The array.
    pub(crate) array: Value,
    /// What it holds.
    pub(crate) kind: StorageKind,
    /// Whether stores use it, so that it must be writable.
    pub(crate) is_written: bool,
    /// Whether the loop walks down.
    pub(crate) is_downward: bool,
    /// The array's length, where it is known before the loop: the strip then starts out as the array's first N bytes.
    pub(crate) length: Option<Value>,
}

/// How an access uses a strip.
#[derive(Clone, Copy)]
pub(crate) struct StripUse {
    /// Number of the strip.
    pub(crate) strip: usize,
    /// Whether it looks the strip up.
    pub(crate) leads: bool,
}

/// The strips of a function.
#[derive(Default)]
pub(crate) struct StripPlan {
    /// All strips.
    pub(crate) strips: Vec<Strip>,
    /// By access.
    uses: FxHashMap<Inst, StripUse>,
    /// By block: the strips of its loop, as a range of numbers.
    active: FxHashMap<Block, (usize, usize)>,
    /// By block outside of the loops: the strips of those that it enters.
    entered: FxHashMap<Block, SmallVec<[(usize, usize); 1]>>,
}

impl StripPlan {
    /// The strip that an access uses.
    pub(crate) fn of(&self, access: Inst) -> Option<StripUse> {
        self.uses.get(&access).copied()
    }

    /// The strips in use in a block.
    pub(crate) fn active(&self, block: Block) -> std::ops::Range<usize> {
        self.active.get(&block).map_or(0..0, |&(start, end)| start..end)
    }

    /// The strips that start at the end of a block.
    pub(crate) fn entered(&self, block: Block) -> impl Iterator<Item = usize> + use<> {
        self.entered.get(&block).cloned().unwrap_or_default().into_iter().flat_map(|(start, end)| start..end)
    }
}

/// Finds the strips.
pub(crate) fn plan_strips(heap: &HeapFacts, mir: &Function, cfg: &Cfg, safepoints: &Safepoints) -> StripPlan {
    let Some(spines) = heap.spines.filter(|spines| !spines.layout.grows) else { return StripPlan::default() };
    let is_access = |inst: &Inst| matches!(mir.insts[inst.index()].op, Op::ArrayGet(..) | Op::ArraySet(..));
    if !cfg.order.iter().any(|block| mir.blocks[block.index()].insts.iter().any(is_access)) {
        return StripPlan::default();
    }
    let dominators = Dominators::new(mir, cfg);
    let mut finder =
        Finder { heap, mir, spines, cfg, dominators: &dominators, places: None, plan: StripPlan::default() };
    for quiet in quiet_loops(mir, cfg, &dominators, safepoints) {
        finder.find(quiet.header, &quiet.blocks);
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
    constant: i32,
    stores: bool,
}

struct Finder<'a> {
    heap: &'a HeapFacts<'a>,
    mir: &'a Function,
    spines: SpinePlan,
    cfg: &'a Cfg,
    dominators: &'a Dominators,
    /// The block of each instruction, once needed.
    places: Option<Places>,
    plan: StripPlan,
}

/// Where instructions are, and the lengths of arrays.
struct Places {
    def_blocks: DefBlocks,
    /// By array: where its length is read.
    lengths: FxHashMap<Value, SmallVec<[Length; 1]>>,
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
            for &inst in &mir.blocks[block.index()].insts {
                let data = &mir.insts[inst.index()];
                let stores = matches!(data.op, Op::ArraySet(..));
                let (Op::ArrayGet(ty, _) | Op::ArraySet(ty)) = data.op else { continue };
                let array = root(mir, data.args[0]);
                let kind = self.heap.info.element_kind(ty);
                if within.contains(&self.def_block(array))
                    || self.heap.lies_inline(mir, &self.spines, kind, array, data.args[1])
                {
                    continue;
                }
                let Some((index, constant)) = self.index(data.args[1], &steps, &within) else { continue };
                let step = self.step_of(&index, &steps);
                if step == 0 || step.unsigned_abs() > self.reach(kind) {
                    continue;
                }
                let key = (array, index);
                let number = *numbers.entry(key.clone()).or_insert_with(|| {
                    groups.push((key, Vec::new()));
                    groups.len() - 1
                });
                groups[number].1.push(Candidate { inst, block, constant, stores });
            }
        }
        let first = self.plan.strips.len();
        for ((array, index), candidates) in groups {
            if self.plan.strips.len() - first >= MOST_STRIPS {
                break;
            }
            let is_downward = self.step_of(&index, &steps) < 0;
            self.divide(array, candidates, is_downward, &latches, header);
        }
        let strips = (first, self.plan.strips.len());
        if strips.0 < strips.1 {
            self.plan.active.extend(blocks.iter().map(|&block| (block, strips)));
            for entry in entries {
                self.plan.entered.entry(entry).or_default().push(strips);
            }
        }
    }

    /// Makes strips for the accesses of an array. Loads and stores have one each where each can have one and stores
    /// look at what they find: a leaf that must not be written still serves loads.
    fn divide(
        &mut self,
        array: Value,
        candidates: Vec<Candidate>,
        is_downward: bool,
        latches: &[Block],
        header: Block,
    ) {
        let leads = |candidate: &Candidate| self.is_always_executed(candidate, latches);
        let [loads, stores] =
            [false, true].map(|stores| candidates.iter().any(|other| other.stores == stores && leads(other)));
        if loads && stores && self.spines.checks_stores() {
            let (stores, loads): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|candidate| candidate.stores);
            self.group(array, &loads, is_downward, latches, header);
            self.group(array, &stores, is_downward, latches, header);
        } else {
            self.group(array, &candidates, is_downward, latches, header);
        }
    }

    /// How much an index grows in each iteration.
    fn step_of(&self, index: &Index, steps: &FxHashMap<Value, u32>) -> i32 {
        steps[&index.variable].wrapping_mul(index.factor) as i32
    }

    /// How many elements away from the leader's an access may be, and how many one step may pass.
    fn reach(&self, kind: StorageKind) -> u32 {
        self.spines.layout.leaf_bytes() / kind.bytes() / STEPS_IN_LEAF
    }

    fn is_always_executed(&self, candidate: &Candidate, latches: &[Block]) -> bool {
        latches.iter().all(|&latch| self.dominators.dominates(candidate.block, latch))
    }

    /// Makes a strip for accesses of an array, if one of them can lead.
    fn group(&mut self, array: Value, candidates: &[Candidate], is_downward: bool, latches: &[Block], header: Block) {
        let mir = self.mir;
        let leads = |candidate: &&Candidate| self.is_always_executed(candidate, latches);
        // Behind the others on the way.
        let place = |candidate: &&Candidate| i64::from(candidate.constant) * if is_downward { -1 } else { 1 };
        let Some(leader) = candidates.iter().filter(leads).min_by_key(place) else { return };
        let (Op::ArrayGet(ty, ..) | Op::ArraySet(ty)) = mir.insts[leader.inst.index()].op else { return };
        let kind = self.heap.info.element_kind(ty);
        let reach = i64::from(self.reach(kind));
        let served = |candidate: &&Candidate| (0..=reach).contains(&(place(candidate) - place(&leader)));
        let is_written = candidates.iter().filter(served).any(|candidate| candidate.stores);
        let strip = self.plan.strips.len();
        let uses = candidates.iter().filter(served).map(|candidate| {
            let leads = candidate.constant == leader.constant && leads(&candidate);
            (candidate.inst, StripUse { strip, leads })
        });
        let uses: SmallVec<[_; 4]> = uses.collect();
        self.plan.uses.extend(uses);
        let length = self.length_before(array, header);
        self.plan.strips.push(Strip { array, kind, is_written, is_downward, length });
    }

    /// A length of an array that is read before the loop with this header.
    fn length_before(&mut self, array: Value, header: Block) -> Option<Value> {
        let lengths = self.places().lengths.get(&array)?.clone();
        let mut before = lengths.iter().filter(|length| length.block != header);
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
            let Some((Op::Binary(op), args)) = origin(self.mir, at) else { break };
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
            } else if !within.contains(&self.def_block(from)) {
                fixed.push(from);
            } else {
                let (Op::Binary(op), args) = origin(self.mir, from)? else { return None };
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
        constant_i32(self.mir, self.mir.resolve(value))
    }

    /// The block that defines a value.
    fn def_block(&mut self, value: Value) -> Block {
        let mir = self.mir;
        self.places().def_blocks.of(mir, mir.resolve(value))
    }

    fn places(&mut self) -> &Places {
        self.places.get_or_insert_with(|| {
            let mir = self.mir;
            let mut places = Places { def_blocks: DefBlocks::new(mir, self.cfg), lengths: FxHashMap::default() };
            for &block in &self.cfg.order {
                for &inst in &mir.blocks[block.index()].insts {
                    let data = &mir.insts[inst.index()];
                    if let Op::ArrayLen(_) = data.op {
                        places.lengths.entry(root(mir, data.args[0])).or_default().push(Length { inst, block });
                    }
                }
            }
            places
        })
    }
}
