//! Makes the two versions of loops.
//!
//! Each block is copied in as many pieces as there are points from which the second version may go on, each of which leads to
//! the next. Which definition of a value reaches which use then is `repair`'s business.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::points::{Limit, Point, Version};
use super::repair::{self, Copied, Part};
use crate::mir::{Block, Cfg, Check, CompareOp, Edge, Function, Inst, Op, Reach, Terminator, Value};
use crate::module::ValueType;

/// A function whose loops get second versions.
pub(super) struct Copies<'a> {
    original: &'a Function,
    function: Function,
    /// By value of the first version: where it is defined, and its copy.
    copied: FxHashMap<Value, Copied>,
    /// What each block belongs to.
    parts: Vec<Part>,
    /// By loop that has been copied, whether there are loops within.
    is_nest: Vec<bool>,
}

/// Where loops are entered.
pub(super) struct Entries {
    /// By header: itself, or a block before it with the same parameters.
    blocks: FxHashMap<Block, Block>,
    /// By loop: the inline lengths read there.
    limits: Vec<Vec<Value>>,
}

impl<'a> Copies<'a> {
    pub(super) fn new(original: &'a Function) -> Copies<'a> {
        Copies {
            original,
            function: original.clone(),
            copied: FxHashMap::default(),
            parts: vec![Part::Outside; original.blocks.len()],
            is_nest: Vec::new(),
        }
    }

    /// Makes the two versions of a loop. Uses of values with two definitions are left as they are.
    pub(super) fn add(&mut self, version: &Version, entries: &Entries) {
        let seconds = self.second(version, &entries.blocks);
        let resumed: FxHashMap<(Block, usize), Block> = version
            .points
            .iter()
            .flat_map(|(&block, points)| {
                let pieces = seconds[&block][1..].iter();
                own_points(points).zip(pieces).map(move |((number, _), &piece)| ((block, number), piece))
            })
            .collect();
        let mut reads: FxHashMap<(Block, usize), Value> = FxHashMap::default();
        for &block in &version.blocks {
            let points = version.points.get(&block).map_or(&[][..], Vec::as_slice);
            self.first(block, points, version, &resumed, &entries.limits, &mut reads);
        }
        self.is_nest.push(version.loops.len() > 1);
    }

    /// Reads the inline lengths that loops begin with, in blocks before them. No loop must have been copied yet.
    pub(super) fn enter(&mut self, version: &Version, cfg: &Cfg) -> Entries {
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
            let inst = function.push(before, Op::ArrayInlineLen(Check::Elided), &[array], &[ValueType::I32], source);
            function.insts[inst.index()].results[0]
        });
        let limits = reads.collect();
        let data = &mut function.blocks[before.index()];
        data.terminator = Some(Terminator::Jump(Edge { block: header, args }));
        data.terminator_source = source;
        (before, limits)
    }

    /// Makes the second version: the pieces of each block's copy. Operands are those of the first version still.
    fn second(&mut self, version: &Version, entries: &FxHashMap<Block, Block>) -> FxHashMap<Block, Vec<Block>> {
        let number = self.is_nest.len() as u32;
        let mut pieces: FxHashMap<Block, Vec<Block>> = FxHashMap::default();
        for &block in &version.blocks {
            let points = version.points.get(&block).map_or(&[][..], Vec::as_slice);
            let count = own_points(points).count() + 1;
            let added = (0..count).map(|_| add_block(&mut self.function, &mut self.parts, Part::Second(number)));
            pieces.insert(block, added.collect());
        }
        for &block in &version.blocks {
            let points = version.points.get(&block).map_or(&[][..], Vec::as_slice);
            self.copy_block(block, points, &pieces, entries);
        }
        pieces
    }

    fn copy_block(
        &mut self,
        block: Block,
        points: &[Point],
        pieces: &FxHashMap<Block, Vec<Block>>,
        entries: &FxHashMap<Block, Block>,
    ) {
        let function = &mut self.function;
        let number = self.is_nest.len() as u32;
        let original = function.blocks[block.index()].clone();
        let mut rest = pieces[&block].iter().copied();
        let mut at = rest.next().expect("at least one piece");
        for &param in &original.params {
            let copy = function.add_param(at, function.value_type(param));
            self.copied.insert(param, Copied { number, home: Some(block), copy, copy_home: at });
        }
        let mut resumes = own_points(points).map(|(_, point)| point.resume).peekable();
        for position in 0..=original.insts.len() {
            while resumes.next_if_eq(&position).is_some() {
                let next = rest.next().expect("one more piece than points");
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
                self.copied.insert(result, Copied { number, home: Some(block), copy, copy_home: at });
            }
        }
        let mut terminator = original.terminator.expect("a finished block");
        terminator.for_each_edge_mut(|edge| {
            // It goes on in the first version where an iteration begins.
            if let Some(&entry) = entries.get(&edge.block) {
                edge.block = entry;
            } else if let Some(pieces) = pieces.get(&edge.block) {
                edge.block = pieces[0];
            }
        });
        let data = &mut function.blocks[at.index()];
        data.cold = true;
        data.terminator = Some(terminator);
        data.terminator_source = original.terminator_source;
    }

    /// Makes a block of the first version leave it at the points.
    fn first(
        &mut self,
        block: Block,
        points: &[Point],
        version: &Version,
        resumed: &FxHashMap<(Block, usize), Block>,
        limits: &[Vec<Value>],
        reads: &mut FxHashMap<(Block, usize), Value>,
    ) {
        let loops = self.is_nest.len() as u32;
        self.parts[block.index()] = Part::First(loops);
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
        if points.is_empty() {
            function.blocks[block.index()].insts = insts;
            return;
        }
        let terminator = function.blocks[block.index()].terminator.take().expect("a finished block");
        let terminator_source = function.blocks[block.index()].terminator_source;
        let omitted: FxHashSet<Inst> = points.iter().flat_map(|point| point.omitted.iter().copied()).collect();
        let mut at = block;
        let mut points = points.iter().enumerate().peekable();
        let mut terminator = Some(terminator);
        for position in 0..=insts.len() {
            while let Some((number, point)) = points.next_if(|(_, point)| point.at == position) {
                let source = point.source;
                let limit = match point.limit {
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
                let compare = function.push(at, compare, &[point.index, limit], &[ValueType::I32], source);
                let cond = function.insts[compare.index()].results[0];
                let leave = Edge::to(resumed[&point.anchor.unwrap_or((block, number))]);
                let inside = match point.holds_inside {
                    None => Edge::to(add_block(function, &mut self.parts, Part::First(loops))),
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
                    self.copied.get_mut(result).expect("what a loop defines is copied").home = None;
                }
                continue;
            }
            function.blocks[at.index()].insts.push(inst);
            for result in &function.insts[inst.index()].results {
                self.copied.get_mut(result).expect("what a loop defines is copied").home = Some(at);
            }
        }
        if let Some(terminator) = terminator {
            function.blocks[at.index()].terminator = Some(terminator);
            function.blocks[at.index()].terminator_source = terminator_source;
        }
    }

    /// Lets every use see the definition that reaches it.
    pub(super) fn finish(self) -> Function {
        repair::repair(self.original, self.function, self.copied, &self.parts, self.is_nest)
    }
}

/// Gives edges from branches of second versions, which lie at `from` and behind, to blocks in line a cold block of their own. What an edge
/// has to move would lie where its target does.
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

/// The points from which a second version goes on, with their numbers among all.
fn own_points(points: &[Point]) -> impl Iterator<Item = (usize, &Point)> {
    points.iter().enumerate().filter(|(_, point)| point.anchor.is_none())
}

/// Appends a block.
fn add_block(function: &mut Function, parts: &mut Vec<Part>, part: Part) -> Block {
    let block = function.add_block();
    debug_assert_eq!(block.index(), parts.len());
    parts.push(part);
    block
}
