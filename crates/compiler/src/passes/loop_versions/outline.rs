//! Outlined loops.
//!
//! A loop that walks through the leaves of an array is to look each leaf up once, in a strip
//! ([`plan_strips`]). What holds the strips would take registers from the fast path, however far away the code lies, as
//! long as it is a part of the same function. So it is not: the loop is a third time there, as a piece of code of its
//! own, which finds what it needs in the context's cells, and leaves there what it has found. The slow path calls it
//! instead of going on in the fast one, where the next iteration begins.
//!
//! It goes on until the loop ends, by whichever way, or a poll is due. That is left to the fast path: the piece of code
//! is no safepoint, so that it needs no stack map, and references may lie in the cells.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::abi::COLD_CELLS;
use crate::mir::{
    Block, Cfg, Collects, Constant, Dominators, Edge, Function, Inst, Loops, NullCheck, Op, Terminator, Value,
};
use crate::module::ValueType;
use crate::passes::analysis::{Safepoints, plan_strips};
use crate::passes::heap::HeapFacts;
use crate::passes::support::{DefBlocks, definition, root};

/// A loop with more instructions than this is not outlined.
const MOST_INSTS: usize = 150;

/// A loop with more ways out than this is not outlined.
const MOST_EXITS: usize = 8;

/// A loop that has been outlined.
pub(super) struct Outlined {
    /// Its number among the function's.
    pub(super) number: u32,
    /// What it finds in the cells behind those of the header's parameters: values from outside of the loop.
    pub(super) passed: Vec<Value>,
    /// The ways out, beginning with number 1. The first cell says which has been taken: with 0 an iteration begins, and
    /// the header's parameters lie in the cells that follow.
    pub(super) exits: Vec<Exit>,
}

/// A way out of a loop.
pub(super) struct Exit {
    /// The block that it leaves.
    pub(super) block: Block,
    /// The number of the edge among that block's.
    pub(super) edge: usize,
    /// Values of the loop that may be used behind it, which lie in the cells from the second one on.
    pub(super) values: Vec<Value>,
}

/// Outlines loops of a function.
pub(super) struct Outliner<'a> {
    heap: &'a HeapFacts<'a>,
    mir: &'a Function,
    dominators: &'a Dominators,
    /// The block of each instruction.
    def_blocks: &'a DefBlocks,
    /// By value, whether it is used outside of the innermost loop that defines it.
    escapes: Vec<bool>,
}

impl<'a> Outliner<'a> {
    pub(super) fn new(
        heap: &'a HeapFacts<'a>,
        mir: &'a Function,
        cfg: &Cfg,
        dominators: &'a Dominators,
        loops: &Loops,
        def_blocks: &'a DefBlocks,
    ) -> Outliner<'a> {
        let mut outliner = Outliner { heap, mir, dominators, def_blocks, escapes: vec![false; mir.values.len()] };
        for &block in &cfg.order {
            let data = &mir.blocks[block.index()];
            let number = loops.innermost[block.index()];
            let mut note = |value: Value| {
                let value = mir.resolve(value);
                if loops.innermost[outliner.def_block(value).index()] != number {
                    outliner.escapes[value.index()] = true;
                }
            };
            for inst in &data.insts {
                let data = &mir.insts[inst.index()];
                data.args.iter().copied().for_each(&mut note);
                data.op.for_each_use(&mut note);
            }
            if let Some(terminator) = &data.terminator {
                terminator.for_each_use(&mut note);
            }
        }
        outliner
    }

    fn def_block(&self, value: Value) -> Block {
        self.def_blocks.of(self.mir, value)
    }

    /// The loop with these blocks, header first, in reverse post-order, as the piece of code of this number; `None`
    /// where it does not walk through arrays in strips, or cannot be outlined. It must hold no other loop.
    pub(super) fn outline(&self, blocks: &[Block], number: u32) -> Option<(Outlined, Function)> {
        let mir = self.mir;
        let count: usize = blocks.iter().map(|block| mir.blocks[block.index()].insts.len()).sum();
        if count > MOST_INSTS || !blocks.iter().all(|&block| is_movable(mir, block)) {
            return None;
        }
        let mut function = Function::new(mir.index, mir.ty, mir.source);
        function.outlined = Some(number);
        let mut copy = Copy {
            outliner: self,
            function,
            header: blocks[0],
            within: blocks.iter().copied().collect(),
            copies: FxHashMap::default(),
            passed: Vec::new(),
        };
        let exits = copy.blocks(blocks)?;
        let Copy { function, passed, .. } = copy;
        let strips = plan_strips(self.heap, &function, &Cfg::new(&function), &Safepoints::default());
        (!strips.strips.is_empty()).then_some((Outlined { number, passed, exits }, function))
    }

    /// Values of the loop with these blocks that may be used behind it, and what those may be computed again from.
    fn exported(&self, blocks: &[Block], within: &FxHashSet<Block>) -> Vec<Value> {
        let mir = self.mir;
        let mut work = Vec::new();
        for &block in blocks {
            let data = &mir.blocks[block.index()];
            let results = data.insts.iter().flat_map(|inst| mir.insts[inst.index()].results.iter());
            work.extend(data.params.iter().chain(results).copied().filter(|value| self.escapes[value.index()]));
            let terminator = data.terminator.as_ref().expect("a finished block");
            terminator.for_each_edge(|edge| {
                if !within.contains(&edge.block) {
                    work.extend(edge.args.iter().map(|&arg| mir.resolve(arg)));
                }
            });
        }
        let mut seen = FxHashSet::default();
        let mut exported = Vec::new();
        while let Some(value) = work.pop() {
            if !within.contains(&self.def_block(value)) || !seen.insert(value) {
                continue;
            }
            let data = definition(mir, value).map(|inst| &mir.insts[inst.index()]);
            match data.map(|data| &data.op) {
                // Made anew wherever it is used.
                Some(Op::Const(_)) => continue,
                Some(Op::NullCheck | Op::RefCast(_) | Op::Refine(_) | Op::ArrayLen(_) | Op::Binary(_)) => {
                    work.extend(data.iter().flat_map(|data| &data.args).map(|&arg| mir.resolve(arg)));
                }
                _ => {}
            }
            exported.push(value);
        }
        exported
    }
}

/// Whether a block does nothing but what a piece of code without safepoints may do, with values that fit cells.
fn is_movable(mir: &Function, block: Block) -> bool {
    let data = &mir.blocks[block.index()];
    let fits = |&value: &Value| mir.value_type(value) != ValueType::V128;
    let may_be_moved = |&inst: &Inst| {
        let data = &mir.insts[inst.index()];
        data.results.iter().chain(&data.args).all(fits) && may_be_outlined(&data.op)
    };
    let only_leads =
        matches!(data.terminator, Some(Terminator::Jump(_) | Terminator::Branch { .. } | Terminator::Switch { .. }));
    only_leads && data.params.iter().all(fits) && data.insts.iter().all(may_be_moved)
}

/// Whether an operation is no safepoint, or a poll, and calls nothing but cold paths.
fn may_be_outlined(op: &Op) -> bool {
    let properties = op.properties();
    matches!(properties.collects, Collects::Never | Collects::WhenDue) && !properties.calls
}

/// A loop on its way out.
struct Copy<'a> {
    outliner: &'a Outliner<'a>,
    function: Function,
    header: Block,
    within: FxHashSet<Block>,
    /// What stands for a value of the original.
    copies: FxHashMap<Value, Value>,
    passed: Vec<Value>,
}

impl Copy<'_> {
    /// Copies the blocks. Returns the ways out; nothing where there are too many, or more values than cells.
    fn blocks(&mut self, blocks: &[Block]) -> Option<Vec<Exit>> {
        let mir = self.outliner.mir;
        let exported = self.outliner.exported(blocks, &self.within);
        let mut places = FxHashMap::default();
        for &block in blocks {
            let place = self.function.add_block();
            places.insert(block, place);
            for &param in &mir.blocks[block.index()].params {
                let copy = self.function.add_param(place, mir.value_type(param));
                self.copies.insert(param, copy);
            }
        }
        let started = self.start(places[&self.header]);
        let mut exits: Vec<Exit> = Vec::new();
        for &block in blocks {
            let data = &mir.blocks[block.index()];
            let at = places[&block];
            self.insts(&data.insts, at);
            let mut terminator = data.terminator.clone().expect("a finished block");
            let source = data.terminator_source;
            let mut operand = |value: &mut Value| *value = self.operand(*value);
            match &mut terminator {
                Terminator::Branch { cond: value, .. } | Terminator::Switch { index: value, .. } => operand(value),
                _ => {}
            }
            let mut number = 0;
            terminator.for_each_edge_mut(|edge| {
                number += 1;
                if edge.block == self.header {
                    let between = self.next_iteration(edge, places[&self.header], started);
                    *edge = Edge::to(between);
                } else if let Some(&place) = places.get(&edge.block) {
                    edge.block = place;
                    edge.args.iter_mut().for_each(|arg| *arg = self.operand(*arg));
                } else {
                    let is_defined =
                        |&value: &Value| self.outliner.dominators.dominates(self.outliner.def_block(value), block);
                    let values: Vec<Value> = exported.iter().copied().filter(is_defined).collect();
                    let copies: Vec<Value> = values.iter().map(|&value| self.operand(value)).collect();
                    let left = self.leave(exits.len() as i32 + 1, &copies);
                    *edge = Edge::to(left);
                    exits.push(Exit { block, edge: number - 1, values });
                }
            });
            let data = &mut self.function.blocks[at.index()];
            data.terminator = Some(terminator);
            data.terminator_source = source;
        }
        let params = mir.blocks[self.header.index()].params.len();
        let most = exits.iter().map(|exit| exit.values.len()).max().unwrap_or(0);
        let fits = params + self.passed.len() <= COLD_CELLS && most.max(params) < COLD_CELLS;
        (fits && exits.len() <= MOST_EXITS).then_some(exits)
    }

    /// Enters the loop with what the cells hold for the header's parameters. Returns the block that leaves it where an
    /// iteration begins.
    fn start(&mut self, header: Block) -> Block {
        let types: Vec<ValueType> =
            self.function.blocks[header.index()].params.iter().map(|&param| self.function.value_type(param)).collect();
        let args = types.iter().enumerate().map(|(cell, &ty)| self.take(cell, ty)).collect();
        let edge = Edge { block: header, args };
        self.function.blocks[self.function.entry.index()].terminator = Some(Terminator::Jump(edge));
        let started = self.function.add_block();
        let params: Vec<Value> = types.iter().map(|&ty| self.function.add_param(started, ty)).collect();
        self.put(started, 0, &params);
        started
    }

    /// What a cell holds when the loop is entered.
    fn take(&mut self, cell: usize, ty: ValueType) -> Value {
        let entry = self.function.entry;
        self.add(entry, Op::CellGet(cell as u32, ty), &[], ty)
    }

    fn add(&mut self, block: Block, op: Op, args: &[Value], ty: ValueType) -> Value {
        let inst = self.function.push(block, op, args, &[ty], self.function.source);
        self.function.insts[inst.index()].results[0]
    }

    /// A block that leaves the piece of code: with a number in the first cell, and these values behind it.
    fn leave(&mut self, number: i32, values: &[Value]) -> Block {
        let block = self.function.add_block();
        self.put(block, number, values);
        block
    }

    fn put(&mut self, block: Block, number: i32, values: &[Value]) {
        let source = self.function.source;
        let number = self.add(block, Op::Const(Constant::I32(number)), &[], ValueType::I32);
        for (cell, &value) in std::iter::once(&number).chain(values).enumerate() {
            self.function.push(block, Op::CellSet(cell as u32), &[value], &[], source);
        }
        let data = &mut self.function.blocks[block.index()];
        data.cold = true;
        data.terminator = Some(Terminator::Return(Default::default()));
    }

    /// A block on an edge back to the header, which leaves the piece of code where a poll is due.
    fn next_iteration(&mut self, edge: &Edge, header: Block, started: Block) -> Block {
        let args: Vec<Value> = edge.args.iter().map(|&arg| self.operand(arg)).collect();
        let between = self.function.add_block();
        let cond = self.add(between, Op::PollPending, &[], ValueType::I32);
        let to = |block| Edge { block, args: args.as_slice().into() };
        let branch = Terminator::Branch { cond, then: to(started), otherwise: to(header) };
        self.function.blocks[between.index()].terminator = Some(branch);
        between
    }

    fn insts(&mut self, insts: &[Inst], at: Block) {
        let mir = self.outliner.mir;
        for &inst in insts {
            let data = &mir.insts[inst.index()];
            if data.op == Op::Poll {
                continue;
            }
            let args: Vec<Value> = data.args.iter().map(|&arg| self.operand(arg)).collect();
            let types: Vec<ValueType> = data.results.iter().map(|&result| mir.value_type(result)).collect();
            let copy = self.function.push(at, data.op.clone(), &args, &types, data.source);
            let results = self.function.insts[copy.index()].results.clone();
            self.copies.extend(data.results.iter().copied().zip(results));
        }
    }

    /// What stands for a value. One from outside comes out of a cell, unless it is known how to make it.
    fn operand(&mut self, value: Value) -> Value {
        let mir = self.outliner.mir;
        let value = mir.resolve(value);
        if let Some(&copy) = self.copies.get(&value) {
            return copy;
        }
        let entry = self.function.entry;
        let ty = mir.value_type(value);
        let data = definition(mir, value).map(|inst| &mir.insts[inst.index()]);
        let copy = match (data.map(|data| (&data.op, &data.args)), ty) {
            (Some((Op::Const(constant), _)), _) => self.add(entry, Op::Const(*constant), &[], ty),
            // What checks have found holds still. It matters to the accesses which array it is, and that a length is
            // the array's.
            (Some((Op::NullCheck | Op::RefCast(_) | Op::Refine(_), _)), ValueType::Ref(to)) => {
                let of = self.operand(root(mir, value));
                self.add(entry, Op::Refine(to), &[of], ty)
            }
            (Some((Op::ArrayLen(_), args)), _) => {
                let array = self.operand(args[0]);
                self.add(entry, Op::ArrayLen(NullCheck::Elided), &[array], ty)
            }
            _ => {
                let params = mir.blocks[self.header.index()].params.len();
                self.passed.push(value);
                self.take(params + self.passed.len() - 1, ty)
            }
        };
        self.copies.insert(value, copy);
        copy
    }
}
