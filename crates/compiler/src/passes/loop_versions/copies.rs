//! Makes the fast and the slow paths of loops.
//!
//! Each block is copied in as many pieces as there are side exits from which the slow path may go on, each of which
//! leads to the next. Which definition of a value reaches which use then is `repair`'s business.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::outline::Outlined;
use super::repair::{self, Copied, Left, Part};
use super::side_exits::{Limit, SideExit, VersionedLoop};
use crate::mir::{Block, Cfg, CompareOp, Edge, Function, Inst, NullCheck, Op, Reach, Terminator, Value};
use crate::module::ValueType;

/// A function whose loops get slow paths.
pub(super) struct Copies<'a> {
    original: &'a Function,
    function: Function,
    /// By value of the fast path: where it is defined, and its copy.
    copied: FxHashMap<Value, Copied>,
    /// What each block belongs to.
    parts: Vec<Part>,
    /// By loop that has been copied, whether there are loops within.
    is_nest: Vec<bool>,
    /// What outlined loops have left.
    left: Left,
}

/// Where loops are entered.
pub(super) struct Entries {
    /// By header: itself, or a block before it with the same parameters.
    blocks: FxHashMap<Block, Block>,
    /// By loop: the inline lengths read there.
    limits: Vec<Vec<Value>>,
}

/// Where the slow path goes on.
struct Targets<'a> {
    /// By header, where its loop is entered.
    entries: &'a FxHashMap<Block, Block>,
    /// By block, the pieces of its copy.
    pieces: &'a FxHashMap<Block, Vec<Block>>,
}

impl Targets<'_> {
    /// What takes the place of a block: in the fast path where an iteration begins.
    fn of(&self, block: Block) -> Block {
        let copy = || self.pieces.get(&block).map(|pieces| pieces[0]);
        self.entries.get(&block).copied().or_else(copy).unwrap_or(block)
    }
}

impl<'a> Copies<'a> {
    pub(super) fn new(original: &'a Function) -> Copies<'a> {
        Copies {
            original,
            function: original.clone(),
            copied: FxHashMap::default(),
            parts: vec![Part::Outside; original.blocks.len()],
            is_nest: Vec::new(),
            left: Left::default(),
        }
    }

    /// Makes the fast and the slow path of a loop. Uses of values with two definitions are left as they are.
    pub(super) fn add(&mut self, version: &VersionedLoop, entries: &Entries) {
        let slow = self.slow_path(version, &entries.blocks);
        let resumed: FxHashMap<(Block, usize), Block> = version
            .side_exits
            .iter()
            .flat_map(|(&block, side_exits)| {
                let pieces = slow[&block][1..].iter();
                own_side_exits(side_exits).zip(pieces).map(move |((number, _), &piece)| ((block, number), piece))
            })
            .collect();
        let mut reads: FxHashMap<(Block, usize), Value> = FxHashMap::default();
        for &block in &version.blocks {
            let side_exits = version.side_exits.get(&block).map_or(&[][..], Vec::as_slice);
            self.fast_path(block, side_exits, version, &resumed, &entries.limits, &mut reads);
        }
        self.is_nest.push(version.loops.len() > 1);
    }

    /// Reads the inline lengths that loops begin with, in blocks before them. No loop must have been copied yet.
    pub(super) fn enter(&mut self, version: &VersionedLoop, cfg: &Cfg) -> Entries {
        let mut entries = Entries { blocks: FxHashMap::default(), limits: Vec::new() };
        for (header, arrays) in &version.loops {
            let (entry, limits) = match arrays.is_empty() {
                true => (*header, Vec::new()),
                false => self.read_limits(*header, arrays, cfg, &version.blocks),
            };
            entries.blocks.insert(*header, entry);
            entries.limits.push(limits);
        }
        entries
    }

    fn read_limits(&mut self, header: Block, arrays: &[Value], cfg: &Cfg, blocks: &[Block]) -> (Block, Vec<Value>) {
        let function = &mut self.function;
        let before = add_block(function, &mut self.parts, Part::Outside);
        let mut args = SmallVec::new();
        for number in 0..function.blocks[header.index()].params.len() {
            let ty = function.value_type(function.blocks[header.index()].params[number]);
            args.push(function.add_param(before, ty));
        }
        // Back-edges come from blocks behind the header.
        let is_back = |source: Block| cfg.position[source.index()] >= cfg.position[header.index()];
        for &(source, _) in cfg.predecessors(header) {
            if blocks.contains(&source) && is_back(source) {
                continue;
            }
            let terminator = function.blocks[source.index()].terminator.as_mut().expect("a finished block");
            terminator.for_each_edge_mut(|edge| {
                if edge.block == header {
                    edge.block = before;
                }
            });
        }
        let source = function.blocks[header.index()].terminator_source;
        let reads = arrays.iter().map(|&array| {
            let inst =
                function.push(before, Op::ArrayInlineLen(NullCheck::Elided), &[array], &[ValueType::I32], source);
            function.insts[inst.index()].results[0]
        });
        let limits = reads.collect();
        let data = &mut function.blocks[before.index()];
        data.terminator = Some(Terminator::Jump(Edge { block: header, args }));
        data.terminator_source = source;
        (before, limits)
    }

    /// Makes the slow path: the pieces of each block's copy. Operands are those of the fast path still.
    fn slow_path(
        &mut self,
        version: &VersionedLoop,
        entries: &FxHashMap<Block, Block>,
    ) -> FxHashMap<Block, Vec<Block>> {
        let number = self.is_nest.len() as u32;
        let mut pieces: FxHashMap<Block, Vec<Block>> = FxHashMap::default();
        for &block in &version.blocks {
            let side_exits = version.side_exits.get(&block).map_or(&[][..], Vec::as_slice);
            let count = own_side_exits(side_exits).count() + 1;
            let added = (0..count).map(|_| add_block(&mut self.function, &mut self.parts, Part::Slow(number)));
            pieces.insert(block, added.collect());
        }
        let mut calls: FxHashMap<Block, Block> = FxHashMap::default();
        for &header in version.blocks.iter().filter(|block| version.outlined.contains_key(block)) {
            calls.insert(header, add_block(&mut self.function, &mut self.parts, Part::Slow(number)));
        }
        let targets = Targets { entries, pieces: &pieces };
        let mut passed: FxHashSet<Block> = FxHashSet::default();
        for &block in &version.blocks {
            let side_exits = version.side_exits.get(&block).map_or(&[][..], Vec::as_slice);
            passed.insert(block);
            self.copy_block(block, side_exits, &pieces[&block], |edge| match calls.get(&edge) {
                // Back-edges come from the header, or from blocks behind it.
                Some(&call) if passed.contains(&edge) => call,
                _ => targets.of(edge),
            });
        }
        for (header, call) in calls {
            self.call_outlined(header, call, &version.outlined[&header], &targets);
        }
        pieces
    }

    /// Fills the block in which the slow path calls an outlined loop, and goes on as
    /// that has ended.
    fn call_outlined(&mut self, header: Block, call: Block, outlined: &Outlined, targets: &Targets) {
        let slow_path = Part::Slow(self.is_nest.len() as u32);
        let source = self.original.blocks[header.index()].terminator_source;
        let types: Vec<ValueType> =
            self.original.blocks[header.index()].params.iter().map(|&param| self.original.value_type(param)).collect();
        let params: Vec<Value> = types.iter().map(|&ty| self.function.add_param(call, ty)).collect();
        for (cell, &value) in params.iter().chain(&outlined.passed).enumerate() {
            self.function.push(call, Op::CellSet(cell as u32), &[value], &[], source);
        }
        self.function.push(call, Op::CallOutlined(outlined.number), &[], &[], source);
        let way = self.cell(call, 0, ValueType::I32, source);
        // An iteration begins.
        let started = add_block(&mut self.function, &mut self.parts, slow_path);
        let args = types.iter().enumerate().map(|(number, &ty)| self.cell(started, number + 1, ty, source)).collect();
        self.end(started, Terminator::Jump(Edge { block: targets.of(header), args }), source);
        let mut ways = vec![Edge::to(started)];
        for exit in &outlined.exits {
            // As it is by now: it may lead to where another loop is entered.
            let data = &self.function.blocks[exit.block.index()];
            let source = data.terminator_source;
            let mut edges = Vec::new();
            data.terminator.as_ref().expect("a finished block").for_each_edge(|edge| edges.push(edge));
            let mut edge = edges[exit.edge].clone();
            edge.block = targets.of(edge.block);
            let left = add_block(&mut self.function, &mut self.parts, slow_path);
            for (number, &value) in exit.values.iter().enumerate() {
                let found = self.cell(left, number + 1, self.original.value_type(value), source);
                self.left.insert((value, left), found);
            }
            self.end(left, Terminator::Jump(edge), source);
            ways.push(Edge::to(left));
        }
        let last = ways.pop().expect("at least one way");
        let terminator = match ways.len() {
            // An endless loop.
            0 => Terminator::Jump(last),
            1 => Terminator::Branch { cond: way, then: last, otherwise: ways.remove(0) },
            _ => Terminator::Switch { index: way, targets: ways, default: last },
        };
        self.end(call, terminator, source);
    }

    fn cell(&mut self, block: Block, number: usize, ty: ValueType, source: u32) -> Value {
        let inst = self.function.push(block, Op::CellGet(number as u32, ty), &[], &[ty], source);
        self.function.insts[inst.index()].results[0]
    }

    /// Ends a cold block.
    fn end(&mut self, block: Block, terminator: Terminator, source: u32) {
        let data = &mut self.function.blocks[block.index()];
        data.cold = true;
        data.terminator = Some(terminator);
        data.terminator_source = source;
    }

    fn copy_block(&mut self, block: Block, side_exits: &[SideExit], pieces: &[Block], target: impl Fn(Block) -> Block) {
        let function = &mut self.function;
        let number = self.is_nest.len() as u32;
        let original = function.blocks[block.index()].clone();
        let mut rest = pieces.iter().copied();
        let mut at = rest.next().expect("at least one piece");
        for &param in &original.params {
            let copy = function.add_param(at, function.value_type(param));
            self.copied.insert(param, Copied { number, def_block: Some(block), copy, copy_def_block: at });
        }
        let mut resumes = own_side_exits(side_exits).map(|(_, side_exit)| side_exit.resume).peekable();
        for position in 0..=original.insts.len() {
            while resumes.next_if_eq(&position).is_some() {
                let next = rest.next().expect("one more piece than side_exits");
                let data = &mut function.blocks[at.index()];
                data.cold = true;
                data.terminator = Some(Terminator::Jump(Edge::to(next)));
                at = next;
            }
            let Some(&inst) = original.insts.get(position) else { break };
            let data = function.insts[inst.index()].clone();
            let types: SmallVec<[ValueType; 2]> =
                data.results.iter().map(|&result| function.value_type(result)).collect();
            let copy = function.push(at, data.op, &data.args, &types, data.source);
            for (&result, &copy) in data.results.iter().zip(&function.insts[copy.index()].results) {
                self.copied.insert(result, Copied { number, def_block: Some(block), copy, copy_def_block: at });
            }
        }
        let mut terminator = original.terminator.expect("a finished block");
        terminator.for_each_edge_mut(|edge| edge.block = target(edge.block));
        let data = &mut function.blocks[at.index()];
        data.cold = true;
        data.terminator = Some(terminator);
        data.terminator_source = original.terminator_source;
    }

    /// Makes a block of the fast path leave it at the side exits.
    fn fast_path(
        &mut self,
        block: Block,
        side_exits: &[SideExit],
        version: &VersionedLoop,
        resumed: &FxHashMap<(Block, usize), Block>,
        limits: &[Vec<Value>],
        reads: &mut FxHashMap<(Block, usize), Value>,
    ) {
        let loops = self.is_nest.len() as u32;
        self.parts[block.index()] = Part::Fast(loops);
        let function = &mut self.function;
        let insts = std::mem::take(&mut function.blocks[block.index()].insts);
        for inst in &insts {
            if version.inline.contains(inst) {
                match &mut function.insts[inst.index()].op {
                    Op::ArrayGet(_, _, reach) | Op::ArraySet(_, reach) => *reach = Reach::Inline,
                    other => unreachable!("{other} is no access"),
                }
            }
        }
        if side_exits.is_empty() {
            function.blocks[block.index()].insts = insts;
            return;
        }
        let terminator = function.blocks[block.index()].terminator.take().expect("a finished block");
        let terminator_source = function.blocks[block.index()].terminator_source;
        let omitted: FxHashSet<Inst> =
            side_exits.iter().flat_map(|side_exit| side_exit.omitted.iter().copied()).collect();
        let mut at = block;
        let mut side_exits = side_exits.iter().enumerate().peekable();
        let mut terminator = Some(terminator);
        for position in 0..=insts.len() {
            while let Some((number, side_exit)) = side_exits.next_if(|(_, side_exit)| side_exit.at == position) {
                let source = side_exit.source;
                let limit = match side_exit.limit {
                    Limit::Entered(number, array) => limits[number][array],
                    Limit::Again(block, number) => reads[&(block, number)],
                    Limit::Here(array, check, source) => {
                        let read = function.push(at, Op::ArrayInlineLen(check), &[array], &[ValueType::I32], source);
                        let read = function.insts[read.index()].results[0];
                        reads.insert((block, number), read);
                        read
                    }
                };
                let compare = Op::Compare(CompareOp::I32LtU);
                let compare = function.push(at, compare, &[side_exit.index, limit], &[ValueType::I32], source);
                let cond = function.insts[compare.index()].results[0];
                let leave = Edge::to(resumed[&side_exit.anchor.unwrap_or((block, number))]);
                let inside = match side_exit.holds_inside {
                    None => Edge::to(add_block(function, &mut self.parts, Part::Fast(loops))),
                    Some(holds_inside) => match terminator.take() {
                        Some(Terminator::Branch { then, .. }) if holds_inside => then,
                        Some(Terminator::Branch { otherwise, .. }) => otherwise,
                        other => unreachable!("{other:?} is no check"),
                    },
                };
                let next = inside.block;
                let data = &mut function.blocks[at.index()];
                data.terminator = Some(Terminator::Branch { cond, then: inside, otherwise: leave });
                data.terminator_source = source;
                at = next;
            }
            let Some(&inst) = insts.get(position) else { break };
            if omitted.contains(&inst) {
                for result in &function.insts[inst.index()].results {
                    self.copied.get_mut(result).expect("what a loop defines is copied").def_block = None;
                }
                continue;
            }
            function.blocks[at.index()].insts.push(inst);
            for result in &function.insts[inst.index()].results {
                self.copied.get_mut(result).expect("what a loop defines is copied").def_block = Some(at);
            }
        }
        if let Some(terminator) = terminator {
            function.blocks[at.index()].terminator = Some(terminator);
            function.blocks[at.index()].terminator_source = terminator_source;
        }
    }

    /// Lets every use see the definition that reaches it.
    pub(super) fn finish(self) -> Function {
        repair::repair(self.original, self.function, self.copied, self.left, &self.parts, self.is_nest)
    }
}

/// Gives edges from branches of slow paths, which lie at `from` and behind, to blocks in line a cold block of
/// their own. What an edge has to move would lie where its target does.
pub(super) fn divide_edges(function: &mut Function, from: usize) {
    for number in from..function.blocks.len() {
        let data = &mut function.blocks[number];
        if !data.cold || !matches!(data.terminator, Some(Terminator::Branch { .. } | Terminator::Switch { .. })) {
            continue;
        }
        let source = data.terminator_source;
        let mut terminator = data.terminator.take().expect("a branch");
        terminator.for_each_edge_mut(|edge| {
            if !function.blocks[edge.block.index()].cold {
                let between = function.add_block();
                let data = &mut function.blocks[between.index()];
                data.cold = true;
                data.terminator_source = source;
                let to = std::mem::replace(edge, Edge::to(between));
                data.terminator = Some(Terminator::Jump(to));
            }
        });
        function.blocks[number].terminator = Some(terminator);
    }
}

/// The side exits from which a slow path goes on, with their numbers among all.
fn own_side_exits(side_exits: &[SideExit]) -> impl Iterator<Item = (usize, &SideExit)> {
    side_exits.iter().enumerate().filter(|(_, side_exit)| side_exit.anchor.is_none())
}

/// Appends a block.
fn add_block(function: &mut Function, parts: &mut Vec<Part>, part: Part) -> Block {
    let block = function.add_block();
    debug_assert_eq!(block.index(), parts.len());
    parts.push(part);
    block
}
