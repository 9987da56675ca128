//! SSA repair: which definition of a value reaches which use, where loops have a fast and a slow path.
//!
//! A value of such a loop has two definitions. Where both reach a use - in the slow path, behind the loop, or where the
//! slow path has gone on in the fast one -, block parameters choose (Braun et al. 2013, section 2). What is cheaply
//! computed again in the slow path is not handed over.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::mir::{Block, Cfg, Function, Inst, InstData, NullCheck, Op, Value};
use crate::module::ValueType;
use crate::passes::support::{definition, origin};

/// What a block belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// No loop that has been copied.
    Outside,
    /// The fast path of this loop.
    Fast(u32),
    /// Its slow path.
    Slow(u32),
}

/// A value with two definitions.
#[derive(Clone, Copy)]
pub(super) struct Copied {
    /// The loop.
    pub(super) number: u32,
    /// The block that defines it in the fast path, if one does.
    pub(super) def_block: Option<Block>,
    /// The copy in the slow path.
    pub(super) copy: Value,
    /// The block that defines that.
    pub(super) copy_def_block: Block,
}

/// What outlined loops have left in cells: the values of the loop's fast path that are known in a
/// block that control goes on in, and what stands for them there.
pub(super) type Left = FxHashMap<(Value, Block), Value>;

/// Lets every use see the definition that reaches it. `function` is `original` with versions of its loops; `copied` are
/// the values with two definitions, by that of the fast path, and `left` their third ones; `parts` says of each block
/// what it belongs to, and `is_nest` of each loop whether there are loops within.
pub(super) fn repair(
    original: &Function,
    function: Function,
    copied: FxHashMap<Value, Copied>,
    left: Left,
    parts: &[Part],
    is_nest: Vec<bool>,
) -> Function {
    let cfg = Cfg::new(&function);
    let mut repair = Repair {
        original,
        function,
        cfg: &cfg,
        copied,
        left,
        is_nest,
        found: FxHashMap::default(),
        joined: VecDeque::new(),
        made: Vec::new(),
    };
    for &block in &cfg.order {
        repair.uses(block, parts[block.index()]);
    }
    repair.place_made();
    repair.pass_args();
    repair.function
}

/// The search for definitions.
struct Repair<'a> {
    /// The function as it was.
    original: &'a Function,
    function: Function,
    cfg: &'a Cfg,
    copied: FxHashMap<Value, Copied>,
    left: Left,
    is_nest: Vec<bool>,
    /// What reaches the start of a block, by value of the fast path.
    found: FxHashMap<(Value, Block), Value>,
    /// Parameters for which the edges to their blocks have no argument yet: what they stand for.
    joined: VecDeque<(Value, Block)>,
    /// What has been computed again, to come at the start of these blocks.
    made: Vec<(Block, Inst)>,
}

impl Repair<'_> {
    /// Changes all uses in a block.
    fn uses(&mut self, block: Block, part: Part) {
        let insts = std::mem::take(&mut self.function.blocks[block.index()].insts);
        for &inst in &insts {
            let taken = InstData { op: Op::Poll, args: SmallVec::new(), results: SmallVec::new(), source: 0 };
            let mut data = std::mem::replace(&mut self.function.insts[inst.index()], taken);
            let mut change = |value: &mut Value| *value = self.at_use(part, *value, block);
            data.args.iter_mut().for_each(&mut change);
            data.op.for_each_use_mut(change);
            self.function.insts[inst.index()] = data;
        }
        self.function.blocks[block.index()].insts = insts;
        let mut terminator = self.function.blocks[block.index()].terminator.take();
        if let Some(terminator) = &mut terminator {
            terminator.for_each_use_mut(|value| *value = self.at_use(part, *value, block));
        }
        self.function.blocks[block.index()].terminator = terminator;
    }

    /// Puts what has been computed again where it belongs, operands first.
    fn place_made(&mut self) {
        let mut by_block: FxHashMap<Block, Vec<Inst>> = FxHashMap::default();
        for (block, inst) in self.made.drain(..) {
            by_block.entry(block).or_default().push(inst);
        }
        for (block, insts) in by_block {
            self.function.blocks[block.index()].insts.splice(0..0, insts);
        }
    }

    /// Passes the new parameters of blocks what they stand for. Only once all uses have been changed: these are none.
    fn pass_args(&mut self) {
        let cfg = self.cfg;
        while let Some((value, block)) = self.joined.pop_front() {
            let mut last = None;
            for &(source, _) in cfg.predecessors(block) {
                // All edges from one block are visited together.
                if last.replace(source) == Some(source) {
                    continue;
                }
                let arg = self.at_end(value, source);
                let terminator = self.function.blocks[source.index()].terminator.as_mut().expect("a finished block");
                terminator.for_each_edge_mut(|edge| {
                    if edge.block == block {
                        edge.args.push(arg);
                    }
                });
            }
        }
    }

    /// What a use of a value stands for; `part`: what the block belongs to.
    fn at_use(&mut self, part: Part, value: Value, block: Block) -> Value {
        let Some(&copied) = self.copied.get(&value) else { return value };
        if let Some(&left) = self.left.get(&(value, block)) {
            return left;
        }
        // A fast path without loops within is entered at its start alone, where none of its values is defined.
        let is_fast = part == Part::Fast(copied.number);
        if copied.def_block == Some(block) || is_fast && !self.is_nest[copied.number as usize] {
            value
        } else if copied.copy_def_block == block {
            copied.copy
        } else if let Some(op) = self.again(part, value) {
            self.computed_again(part, value, block, op)
        } else {
            self.at_start(value, block)
        }
    }

    /// The operation that computes a value again, where that costs less than to hand it over to the slow path;
    /// that of a constant everywhere.
    fn again(&self, part: Part, value: Value) -> Option<Op> {
        let original = self.original;
        let copied = &self.copied[&value];
        let data = &original.insts[definition(original, value)?.index()];
        let is_constant = |&value: &Value| matches!(origin(original, value), Some((Op::Const(_), _)));
        match data.op {
            Op::Const(constant) => Some(Op::Const(constant)),
            _ if part != Part::Slow(copied.number) => None,
            // What the check has found holds still.
            Op::NullCheck | Op::RefCast(_) | Op::Refine(_) => match original.value_type(value) {
                ValueType::Ref(ty) => Some(Op::Refine(ty)),
                _ => None,
            },
            Op::ArrayLen(_) if copied.def_block.is_none() => Some(Op::ArrayLen(NullCheck::Elided)),
            Op::Binary(op) if !op.can_trap() && data.args.iter().any(is_constant) => Some(Op::Binary(op)),
            _ => None,
        }
    }

    /// Computes a value again at the start of a block.
    fn computed_again(&mut self, part: Part, value: Value, block: Block, op: Op) -> Value {
        if let Some(&found) = self.found.get(&(value, block)) {
            return found;
        }
        // The operands as they were, not what has become of them in the fast path.
        let original = self.original;
        let inst = definition(original, value).expect("what is computed is a result");
        let data = &original.insts[inst.index()];
        let args: SmallVec<[Value; 4]> = data.args.iter().map(|&arg| self.at_use(part, arg, block)).collect();
        let made = self.function.add_inst(op, &args, &[original.value_type(value)], data.source);
        self.made.push((block, made));
        let made = self.function.insts[made.index()].results[0];
        self.found.insert((value, block), made);
        made
    }

    /// What a value is at the end of a block.
    fn at_end(&mut self, value: Value, block: Block) -> Value {
        self.defined_in(value, block).unwrap_or_else(|| self.at_start(value, block))
    }

    /// The definition in this block, if there is one.
    fn defined_in(&self, value: Value, block: Block) -> Option<Value> {
        let copied = &self.copied[&value];
        if copied.def_block == Some(block) {
            return Some(value);
        }
        if copied.copy_def_block == block {
            return Some(copied.copy);
        }
        self.left.get(&(value, block)).copied()
    }

    /// What a value is at the start of a block.
    fn at_start(&mut self, value: Value, block: Block) -> Value {
        let cfg = self.cfg;
        let mut passed = Vec::new();
        let mut at = block;
        let found = loop {
            if let Some(&found) = self.found.get(&(value, at)) {
                break found;
            }
            passed.push(at);
            match cfg.predecessors(at) {
                &[(source, _)] => match self.defined_in(value, source) {
                    Some(defined) => break defined,
                    None => at = source,
                },
                edges => {
                    assert!(!edges.is_empty(), "{value} is used where it has not been defined");
                    let ty = self.function.value_type(value);
                    self.joined.push_back((value, at));
                    break self.function.add_param(at, ty);
                }
            }
        };
        for block in passed {
            self.found.insert((value, block), found);
        }
        found
    }
}
