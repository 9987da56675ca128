//! Takes polls out of counted loops (loop strip mining, as in HotSpot's C2).
//!
//! An innermost loop that calls nothing polls in every iteration, and that poll is the only thing in it that may
//! collect: it keeps the mutator's context in a register, and has the loop's references loaded anew behind it. Where an
//! integer that counts up or down is compared with a limit that does not change, a few hundred iterations are made
//! without a poll:
//!
//! ```text
//! enter(p..):  branch limit - p > span, beyond, strip(limit)
//! beyond:      jump strip(p < limit ? p + span : limit)
//! strip(end):  jump header(p..)
//! header(p..): branch p < end, body, behind // was: poll; branch p < limit, body, exit
//! ...
//! behind:      branch p < limit, due, exit
//! due:         poll; jump enter(p..)
//! ```
//!
//! The comparison comes first in the loop, behind nothing that has an effect, or last. The difference is taken as an
//! unsigned number, which is large, too, where the loop ends at once. Where so few iterations are made that none needs
//! a poll, it is left out.
//!
//! Loops that count by more than one, or end behind the limit (`<=`), may pass it where it is near the greatest number:
//! they keep their polls.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::fold::compare;
use super::support::{DefBlocks, constant_i32, origin, terminator};
use crate::mir::{
    BinaryOp, Block, Cfg, Collects, CompareOp, Constant, Dominators, Edge, Function, Inst, Loops, Memory, Op,
    Terminator, UnaryOp, Value,
};
use crate::module::ValueType;

/// How many instructions are executed without a poll, roughly: about a microsecond's worth.
const MOST_INSTS: u32 = 1 << 12;
/// How many additions a number is looked through.
const DEPTH: u32 = 4;

/// A loop that counts.
struct Counted {
    header: Block,
    poll: Inst,
    /// The blocks that enter it.
    entering: SmallVec<[Block; 2]>,
    /// Which of the header's parameters counts.
    param: usize,
    /// 1 or -1.
    step: i32,
    /// What is compared is so much more than the parameter.
    ahead: i32,
    /// Where it is compared, and how: the loop goes on where `parameter + ahead` compares so with the limit.
    block: Block,
    compared: Value,
    op: CompareOp,
    limit: Limit,
    /// Whether the loop goes on where the branch's condition holds.
    goes_on: bool,
    /// How often it may hold before a poll is due.
    span: u32,
}

/// What the number is compared with.
#[derive(Clone, Copy)]
enum Limit {
    Constant(i32),
    /// Defined before the loop.
    Value(Value),
}

/// Behind all passes that look at loops. At most `most` iterations are made without a poll.
pub(super) fn polls(function: &mut Function, most: u32) {
    let cfg = Cfg::new(function);
    if !cfg.has_loops() {
        return;
    }
    // By block that left its loop: the one that does so now, perhaps for another loop's header.
    let mut leaving: FxHashMap<Block, Block> = FxHashMap::default();
    for mut counted in find(function, &cfg, most) {
        for source in &mut counted.entering {
            *source = leaving.get(source).copied().unwrap_or(*source);
        }
        if counted.is_short(function) {
            remove(function, counted.header, counted.poll);
        } else {
            let block = counted.block;
            leaving.insert(block, counted.mine(function));
        }
    }
}

fn remove(function: &mut Function, block: Block, inst: Inst) {
    function.blocks[block.index()].insts.retain(|&at| at != inst);
}

/// The counted loops. Their blocks are disjoint, but one may lead to another's header.
fn find(function: &Function, cfg: &Cfg, most: u32) -> Vec<Counted> {
    let loops = Loops::new(cfg, &Dominators::new(function, cfg));
    let def_blocks = DefBlocks::new(function, cfg);
    let finder = Finder { function, cfg, loops: &loops, def_blocks, most };
    loops.innermost_loops(cfg).into_iter().filter_map(|(number, blocks)| finder.find(number, &blocks)).collect()
}

struct Finder<'a> {
    function: &'a Function,
    cfg: &'a Cfg,
    loops: &'a Loops,
    def_blocks: DefBlocks,
    most: u32,
}

impl Finder<'_> {
    fn find(&self, number: usize, blocks: &[Block]) -> Option<Counted> {
        let function = self.function;
        let header = self.loops.loops[number].header;
        let at_header = &function.blocks[header.index()];
        let is_poll = |inst: &&Inst| matches!(function.insts[inst.index()].op, Op::Poll);
        let &poll = at_header.insts.iter().find(is_poll).filter(|_| !at_header.cold)?;
        if !blocks.iter().all(|&block| self.is_quiet(block, poll)) {
            return None;
        }
        let (latches, entering): (SmallVec<[Block; 2]>, SmallVec<[Block; 2]>) =
            self.cfg.predecessors(header).iter().map(|&(source, _)| source).partition(|&at| self.is_within(number, at));
        let insts = blocks.iter().map(|block| function.blocks[block.index()].insts.len() + 1).sum::<usize>();
        let most = self.most.min(MOST_INSTS / insts as u32).max(1);
        let is_test = |block, leads_to_header: bool| {
            self.test(number, block).is_some_and(|edge| (edge.block == header) == leads_to_header)
        };
        let counted = |block: Block, span| {
            let (compared, op, limit, goes_on) = self.comparison(number, block)?;
            let (base, ahead) = self.sum(compared);
            let param = at_header.params.iter().position(|&param| param == base)?;
            let step = self.step(header, base, param, &latches)?;
            let entering = entering.clone();
            let counted =
                Counted { header, poll, entering, param, step, ahead, block, compared, op, limit, goes_on, span };
            counted.reaches_limit().then_some(counted)
        };
        let first = (is_test(header, false) && self.is_without_effects(header, poll)).then(|| counted(header, most));
        first.flatten().or_else(|| match latches[..] {
            // One iteration is made before the first comparison.
            [latch] if is_test(latch, true) => counted(latch, most - 1),
            _ => None,
        })
    }

    fn is_within(&self, number: usize, block: Block) -> bool {
        self.loops.contains(number, block)
    }

    /// Whether a block calls nothing and nothing in it may collect but the poll, or it is cold.
    fn is_quiet(&self, block: Block, poll: Inst) -> bool {
        let data = &self.function.blocks[block.index()];
        let is_quiet = |&inst: &Inst| {
            let properties = self.function.insts[inst.index()].op.properties();
            inst == poll || properties.collects == Collects::Never && !properties.calls
        };
        let ends_quietly = !matches!(data.terminator, Some(Terminator::TryCall { .. } | Terminator::Throw { .. }));
        data.cold || ends_quietly && data.insts.iter().all(is_quiet)
    }

    /// Whether a block may be executed once more than before.
    fn is_without_effects(&self, block: Block, poll: Inst) -> bool {
        self.function.blocks[block.index()].insts.iter().filter(|&&inst| inst != poll).all(|inst| {
            let properties = self.function.insts[inst.index()].op.properties();
            properties.writes == Memory::None && properties.collects == Collects::Never && !properties.calls
        })
    }

    /// The edge of a branch that stays within the loop, if the other leaves it.
    fn test(&self, number: usize, block: Block) -> Option<&Edge> {
        let Terminator::Branch { then, otherwise, .. } = terminator(self.function, block) else { return None };
        match (self.is_within(number, then.block), self.is_within(number, otherwise.block)) {
            (true, false) => Some(then),
            (false, true) => Some(otherwise),
            _ => None,
        }
    }

    /// What a branch that leaves the loop compares with what, the latter known before the loop, and how where the loop
    /// goes on; and whether it does where the branch's condition holds.
    fn comparison(&self, number: usize, block: Block) -> Option<(Value, CompareOp, Limit, bool)> {
        let Terminator::Branch { cond, then, .. } = terminator(self.function, block) else { return None };
        let is_then = self.is_within(number, then.block);
        let (mut cond, mut goes_on) = (*cond, is_then);
        while let Some((Op::Unary(UnaryOp::I32Eqz), args)) = origin(self.function, cond) {
            (cond, goes_on) = (args[0], !goes_on);
        }
        let (a, op, b) = match origin(self.function, cond) {
            Some((&Op::Compare(op), args)) => match (self.limit(number, args[0]), self.limit(number, args[1])) {
                (None, Some(limit)) => (args[0], op, limit),
                (Some(limit), None) => (args[1], op.swapped(), limit),
                _ => return None,
            },
            _ => (cond, CompareOp::I32Ne, Limit::Constant(0)),
        };
        Some((a, if goes_on { op } else { op.inverse()? }, b, is_then))
    }

    /// A number that does not change in a loop.
    fn limit(&self, number: usize, value: Value) -> Option<Limit> {
        match constant_i32(self.function, value) {
            Some(constant) => Some(Limit::Constant(constant)),
            None => {
                let is_outside = !self.is_within(number, self.def_blocks.of(self.function, value));
                is_outside.then_some(Limit::Value(value))
            }
        }
    }

    /// A number as another one and a constant.
    fn sum(&self, mut value: Value) -> (Value, i32) {
        let mut constant = 0i32;
        for _ in 0..DEPTH {
            let Some((&Op::Binary(op), args)) = origin(self.function, value) else { break };
            let Some(by) = constant_i32(self.function, args[1]) else { break };
            constant = match op {
                BinaryOp::I32Add => constant.wrapping_add(by),
                BinaryOp::I32Sub => constant.wrapping_sub(by),
                _ => break,
            };
            value = args[0];
        }
        (value, constant)
    }

    /// By what a parameter of the header changes on every way back to it: by 1 or -1.
    fn step(&self, header: Block, base: Value, param: usize, latches: &[Block]) -> Option<i32> {
        let mut step = None;
        for &latch in latches {
            let mut is_same = true;
            let end = terminator(self.function, latch);
            if matches!(end, Terminator::TryCall { .. } | Terminator::Throw { .. }) {
                return None;
            }
            end.for_each_edge(|edge| {
                if edge.block == header {
                    let (value, by) = self.sum(edge.args[param]);
                    is_same &= value == base && *step.get_or_insert(by) == by;
                }
            });
            if !is_same {
                return None;
            }
        }
        step.filter(|&step| step == 1 || step == -1)
    }
}

impl Counted {
    /// Whether the steps lead to the limit.
    fn reaches_limit(&self) -> bool {
        use CompareOp::*;
        match self.op {
            I32LtS | I32LtU => self.step == 1,
            I32GtS | I32GtU => self.step == -1,
            I32Ne => true,
            _ => false,
        }
    }

    /// Whether it is known that there are so few iterations that none needs a poll.
    fn is_short(&self, function: &Function) -> bool {
        let (&[source], Limit::Constant(limit)) = (&self.entering[..], self.limit) else { return false };
        let Terminator::Jump(edge) = terminator(function, source) else { return false };
        let Some(first) = constant_i32(function, edge.args[self.param]) else { return false };
        let first = first.wrapping_add(self.ahead);
        let goes_on = |number| compare(self.op, Constant::I32(number), Constant::I32(limit)) == Some(true);
        let left = if self.step > 0 { limit.wrapping_sub(first) } else { first.wrapping_sub(limit) } as u32;
        !goes_on(first) || left <= self.span
    }

    /// Divides the loop into strips. Returns the block that leaves it.
    fn mine(self, function: &mut Function) -> Block {
        let Some(Terminator::Branch { then, otherwise, .. }) = function.blocks[self.block.index()].terminator.take()
        else {
            unreachable!("the block ends in a branch");
        };
        let (inside, exit) = if self.goes_on { (then, otherwise) } else { (otherwise, then) };
        let source = function.insts[self.poll.index()].source;
        let [enter, beyond, strip, behind, due] = [(); 5].map(|()| function.add_block());
        let params = function.blocks[self.header.index()].params.clone();
        let entered: SmallVec<[Value; 4]> =
            params.iter().map(|&param| function.add_param(enter, function.value_type(param))).collect();
        let end = function.add_param(strip, ValueType::I32);
        let mut code = Code { function, source };

        let first = code.binary(enter, BinaryOp::I32Add, entered[self.param], self.ahead);
        let limit = code.limit(enter, self.limit);
        let (greater, less) = if self.step > 0 { (limit, first) } else { (first, limit) };
        let left = code.push(enter, Op::Binary(BinaryOp::I32Sub), &[greater, less]);
        let span = code.constant(enter, self.span as i32);
        let is_far = code.push(enter, Op::Compare(CompareOp::I32GtU), &[left, span]);
        code.branch(enter, is_far, Edge::to(beyond), passing(strip, limit));
        let last = code.binary(beyond, BinaryOp::I32Add, first, self.span as i32 * self.step);
        let last = match self.op {
            CompareOp::I32Ne => last,
            op => {
                let goes_on = code.push(beyond, Op::Compare(op), &[first, limit]);
                code.push(beyond, Op::Select, &[goes_on, last, limit])
            }
        };
        code.end(beyond, Terminator::Jump(passing(strip, last)));
        code.end(strip, Terminator::Jump(Edge { block: self.header, args: entered }));

        let is_before = code.push(self.block, Op::Compare(self.op), &[self.compared, end]);
        let args = if inside.block == self.header { inside.args.clone() } else { params.into_iter().collect() };
        code.branch(self.block, is_before, inside, Edge::to(behind));
        let limit = code.limit(behind, self.limit);
        let goes_on = code.push(behind, Op::Compare(self.op), &[self.compared, limit]);
        code.branch(behind, goes_on, Edge::to(due), exit);
        code.end(due, Terminator::Jump(Edge { block: enter, args }));

        for block in self.entering {
            if let Some(end) = &mut function.blocks[block.index()].terminator {
                end.for_each_edge_mut(|edge| {
                    if edge.block == self.header {
                        edge.block = enter;
                    }
                });
            }
        }
        remove(function, self.header, self.poll);
        function.blocks[due.index()].insts.push(self.poll);
        for block in [beyond, due] {
            function.blocks[block.index()].cold = true;
        }
        behind
    }
}

fn passing(block: Block, value: Value) -> Edge {
    Edge { block, args: [value].into_iter().collect() }
}

/// Where instructions are appended.
struct Code<'a> {
    function: &'a mut Function,
    source: u32,
}

impl Code<'_> {
    fn push(&mut self, block: Block, op: Op, args: &[Value]) -> Value {
        let inst = self.function.push(block, op, args, &[ValueType::I32], self.source);
        self.function.insts[inst.index()].results[0]
    }

    fn constant(&mut self, block: Block, constant: i32) -> Value {
        self.push(block, Op::Const(Constant::I32(constant)), &[])
    }

    fn binary(&mut self, block: Block, op: BinaryOp, value: Value, constant: i32) -> Value {
        if constant == 0 {
            return value;
        }
        let constant = self.constant(block, constant);
        self.push(block, Op::Binary(op), &[value, constant])
    }

    fn limit(&mut self, block: Block, limit: Limit) -> Value {
        match limit {
            Limit::Constant(constant) => self.constant(block, constant),
            Limit::Value(value) => value,
        }
    }

    fn branch(&mut self, block: Block, cond: Value, then: Edge, otherwise: Edge) {
        self.end(block, Terminator::Branch { cond, then, otherwise });
    }

    fn end(&mut self, block: Block, terminator: Terminator) {
        let data = &mut self.function.blocks[block.index()];
        (data.terminator, data.terminator_source) = (Some(terminator), self.source);
    }
}
