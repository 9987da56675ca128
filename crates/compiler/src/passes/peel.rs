//! Gives the first iteration of a loop code of its own, where later ones need not find out again what it has.
//!
//! What a loop's every iteration checks or loads, and does not change, can often not be moved before the loop: it may
//! trap, and other things come first. Behind a copy of the first iteration it is known, and the passes that remove what
//! is known already (`gvn`, `loads`, `facts`) remove it from the loop. Only innermost loops of moderate size are
//! peeled, and only where that takes something out of every iteration.
//!
//! The copy lies before the loop: what has entered the loop enters the copy, and the copy's back-edges enter the loop.
//! What is defined in the loop and used behind it then has two definitions, which meet in block parameters. (Loop
//! peeling, as in V8's and GCC's optimisers.)

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::block_params::block_params;
use super::effects::Effects;
use super::flow::Flow;
use super::gvn::gvn;
use super::loads::loads;
use super::support::{DefBlocks, root, terminator};
use crate::mir::{Block, Cfg, Dominators, Function, Inst, Loops, Memory, Op, Terminator, Traps, Value};
use crate::module::ModuleInfo;

/// The largest loop that is peeled.
const MAX_INSTS: usize = 80;
const MAX_BLOCKS: usize = 16;
/// How many loops of a function are peeled at most.
const MAX_LOOPS: usize = 16;

/// An innermost loop.
struct Candidate {
    header: Block,
    /// The only block that enters it, by a jump.
    preheader: Block,
    /// Its blocks, in reverse post-order.
    blocks: Vec<Block>,
}

/// Peels the loops that it is worth it for. Behind [`invariant`](super::invariant), which gives loops preheaders and
/// leaves in them what cannot be moved.
pub(super) fn peel(function: &mut Function, info: &ModuleInfo, flow: &mut Flow) {
    let candidates = candidates(function, info, flow);
    if candidates.is_empty() {
        return;
    }
    for candidate in &candidates {
        peel_one(function, candidate);
    }
    flow.changed();
    block_params(function, flow);
    gvn(function, info, flow);
    loads(function, info, flow);
}

fn candidates(function: &Function, info: &ModuleInfo, flow: &mut Flow) -> Vec<Candidate> {
    let cfg = flow.cfg(function);
    let dominators = flow.dominators(function);
    let loops = Loops::new(&cfg, &dominators);
    if loops.loops.is_empty() {
        return Vec::new();
    }
    let effects = Effects::of_loops(function, info, &cfg, &loops);
    let def_blocks = DefBlocks::new(function, &cfg);
    let mut candidates = Vec::new();
    for (number, blocks) in loops.innermost_loops(&cfg) {
        let header = loops.loops[number].header;
        let insts = blocks.iter().map(|block| function.blocks[block.index()].insts.len()).sum::<usize>();
        if function.blocks[header.index()].cold || blocks.len() > MAX_BLOCKS || insts > MAX_INSTS {
            continue;
        }
        let (latches, entering): (Vec<Block>, Vec<Block>) =
            cfg.predecessors(header).iter().map(|&(source, _)| source).partition(|&at| loops.contains(number, at));
        let &[preheader] = &entering[..] else { continue };
        let is_outside = |value: Value| !loops.contains(number, def_blocks.of(function, value));
        // A reference from outside, or a copy that a check in the loop has made of it.
        let is_checked_copy = |value: Value| !is_outside(value) && is_outside(root(function, value));
        let mut every_time = blocks.iter().filter(|&&block| is_on_all_paths(&dominators, block, &latches));
        let is_known_later = |&inst: &Inst| {
            let data = &function.insts[inst.index()];
            let is_checked = is_checked(&data.op) || data.args.iter().any(|&arg| is_checked_copy(arg));
            is_checked
                && finds_the_same(&data.op, &effects[number], info)
                && data.args.iter().all(|&arg| is_outside(root(function, arg)))
        };
        if matches!(terminator(function, preheader), Terminator::Jump(_))
            && every_time.any(|block| function.blocks[block.index()].insts.iter().any(is_known_later))
        {
            candidates.push(Candidate { header, preheader, blocks });
        }
    }
    candidates.truncate(MAX_LOOPS);
    candidates
}

fn is_on_all_paths(dominators: &Dominators, block: Block, latches: &[Block]) -> bool {
    latches.iter().all(|&latch| dominators.dominates(block, latch))
}

/// Whether an operation is a check, or relies on one.
fn is_checked(op: &Op) -> bool {
    let properties = op.properties();
    properties.traps != Traps::Never || properties.relies
}

/// Whether an operation has the same outcome each time that a loop executes it with the same operands, and is more than
/// another name for one of them.
fn finds_the_same(op: &Op, effects: &Effects, info: &ModuleInfo) -> bool {
    let properties = op.properties();
    let reads_the_same = match properties.reads {
        Memory::Elements(ty) => effects.preserve_elements(info.element_kind(ty)),
        _ => effects.preserve(op, info),
    };
    reads_the_same && properties.is_repeatable() && properties.traps != Traps::OnState && !matches!(op, Op::Refine(_))
}

/// Copies the loop's blocks to before it.
fn peel_one(function: &mut Function, candidate: &Candidate) {
    let Candidate { header, preheader, blocks } = candidate;
    let mut peeled = Peeled::default();
    for &block in blocks {
        let copy = function.add_block();
        function.blocks[copy.index()].cold = function.blocks[block.index()].cold;
        peeled.blocks.insert(block, copy);
        peeled.copies.insert(copy);
        for param in function.blocks[block.index()].params.clone() {
            let copied = function.add_param(copy, function.value_type(param));
            peeled.values.insert(param, copied);
        }
    }
    for &block in blocks {
        let copy = peeled.blocks[&block];
        for inst in function.blocks[block.index()].insts.clone() {
            let mut data = function.insts[inst.index()].clone();
            if matches!(data.op, Op::Poll) {
                // The loop has one.
                continue;
            }
            let results: SmallVec<[_; 2]> = data.results.iter().map(|&result| function.value_type(result)).collect();
            data.args.iter_mut().for_each(|arg| peeled.copied(arg));
            data.op.for_each_use_mut(|value| peeled.copied(value));
            let new = function.push(copy, data.op, &data.args, &results, data.source);
            peeled.values.extend(data.results.iter().copied().zip(function.insts[new.index()].results.iter().copied()));
        }
        let data = &function.blocks[block.index()];
        let (mut end, source) = (data.terminator.clone(), data.terminator_source);
        if let Some(end) = &mut end {
            end.for_each_use_mut(|value| peeled.copied(value));
            end.for_each_edge_mut(|edge| {
                if let Some(&copy) = peeled.blocks.get(&edge.block).filter(|_| edge.block != *header) {
                    edge.block = copy;
                }
            });
        }
        let data = &mut function.blocks[copy.index()];
        (data.terminator, data.terminator_source) = (end, source);
    }
    if let Some(Terminator::Jump(edge)) = &mut function.blocks[preheader.index()].terminator {
        edge.block = peeled.blocks[header];
    }
    peeled.join(function);
}

/// What has been copied of a loop.
#[derive(Default)]
struct Peeled {
    /// By block of the loop, its copy.
    blocks: FxHashMap<Block, Block>,
    copies: FxHashSet<Block>,
    /// By value that the loop defines, the copy's.
    values: FxHashMap<Value, Value>,
}

impl Peeled {
    fn copied(&self, value: &mut Value) {
        if let Some(&copy) = self.values.get(value) {
            *value = copy;
        }
    }

    /// Has the uses behind the loop of what it defines take that of the loop or of the copy, whichever was left.
    fn join(&self, function: &mut Function) {
        let cfg = Cfg::new(function);
        let is_behind = |block: &Block| !self.blocks.contains_key(block) && !self.copies.contains(block);
        let mut uses: FxHashMap<Value, Vec<Block>> = FxHashMap::default();
        for &block in cfg.order.iter().filter(|&block| is_behind(block)) {
            for_each_use(function, block, |value| {
                if self.values.contains_key(&value) {
                    let blocks = uses.entry(value).or_default();
                    if blocks.last() != Some(&block) {
                        blocks.push(block);
                    }
                }
            });
        }
        let mut uses: Vec<(Value, Vec<Block>)> = uses.into_iter().collect();
        uses.sort_unstable();
        for (value, blocks) in uses {
            // Where it has to be known at the start of a block: in those that use it, and between them and the loop.
            let mut between: FxHashSet<Block> = FxHashSet::default();
            let mut work = blocks.clone();
            while let Some(block) = work.pop() {
                if between.insert(block) {
                    work.extend(cfg.predecessors(block).iter().map(|&(from, _)| from).filter(is_behind));
                }
            }
            let mut between: Vec<Block> = between.into_iter().collect();
            between.sort_unstable_by_key(|block| cfg.position[block.index()]);
            let mut at_start: FxHashMap<Block, Value> = FxHashMap::default();
            let at_end = |from: Block, at_start: &FxHashMap<Block, Value>| match self.copies.contains(&from) {
                true => self.values[&value],
                false if self.blocks.contains_key(&from) => value,
                false => at_start[&from],
            };
            let mut joins = Vec::new();
            for &block in &between {
                let sources = cfg.predecessors(block);
                let &(first, _) = sources.first().expect("the loop lies before it");
                let known = if sources.iter().all(|&(source, _)| source == first) {
                    at_end(first, &at_start)
                } else {
                    joins.push(block);
                    function.add_param(block, function.value_type(value))
                };
                at_start.insert(block, known);
            }
            for block in blocks {
                replace_uses(function, block, value, at_start[&block]);
            }
            for block in joins {
                let mut sources: SmallVec<[Block; 4]> = cfg.predecessors(block).iter().map(|&(from, _)| from).collect();
                sources.dedup();
                for source in sources {
                    let passed = at_end(source, &at_start);
                    if let Some(end) = &mut function.blocks[source.index()].terminator {
                        end.for_each_edge_mut(|edge| {
                            if edge.block == block {
                                edge.args.push(passed);
                            }
                        });
                    }
                }
            }
        }
    }
}

/// Calls `f` with every value that a block uses.
fn for_each_use(function: &Function, block: Block, mut f: impl FnMut(Value)) {
    for &inst in &function.blocks[block.index()].insts {
        let data = &function.insts[inst.index()];
        data.args.iter().copied().for_each(&mut f);
        data.op.for_each_use(&mut f);
    }
    terminator(function, block).for_each_use(f);
}

/// Has a block use `by` in place of a value.
fn replace_uses(function: &mut Function, block: Block, value: Value, by: Value) {
    let replace = |used: &mut Value| {
        if *used == value {
            *used = by;
        }
    };
    let Function { blocks, insts, .. } = function;
    let data = &mut blocks[block.index()];
    for &inst in &data.insts {
        let data = &mut insts[inst.index()];
        data.args.iter_mut().for_each(replace);
        data.op.for_each_use_mut(replace);
    }
    if let Some(end) = &mut data.terminator {
        end.for_each_use_mut(replace);
    }
}
