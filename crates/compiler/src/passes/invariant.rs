//! Moves operations whose operands do not change within a loop to before the loop.
//!
//! What cannot trap may go wherever its operands are. An access through a reference may go where the reference is known
//! not to be null. What may trap otherwise goes only if the loop would execute it first of all. Mutable fields and
//! globals count as unchanging in a loop that calls nothing and writes them in no object. What is loaded at several
//! places in a loop is loaded once before it.

use std::mem;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::effects::Effects;
use super::flow::Flow;
use super::support::{DefBlocks, Roots, is_removable, origin, ref_type, resolve_inst, terminator};
use crate::mir::{
    Block, BlockData, Cfg, Dominators, Edge, Function, Inst, Loops, NullCheck, Op, Terminator, UnaryOp, Value, ValueDef,
};
use crate::module::{HeapType, ModuleInfo};

/// How many loops outwards an operation may move.
const LEVELS: usize = 8;
/// How many copies of a reference (checked, cast, refined) are followed.
const COPIES: usize = 4;
/// Among how many instructions that moved to a place an equal one is looked for.
const MOVED: usize = 32;
/// How many pieces of evidence that a reference is not null are looked at.
const EVIDENCE: usize = 8;

/// Gives loops preheaders and moves there what it may, outer loops preferred.
pub(super) fn invariant(function: &mut Function, info: &ModuleInfo, flow: &mut Flow) {
    let cfg = flow.cfg(function);
    let mut loops = Loops::new(&cfg, &flow.dominators(function));
    if loops.loops.is_empty() {
        return;
    }
    if make_preheaders(function, &cfg, &loops) {
        flow.changed();
        loops = Loops::new(&flow.cfg(function), &flow.dominators(function));
    }
    let (cfg, dominators) = (flow.cfg(function), flow.dominators(function));
    let preheaders = loops.loops.iter().enumerate().map(|(number, data)| {
        let mut outside = cfg
            .predecessors(data.header)
            .iter()
            .map(|&(source, _)| source)
            .filter(|&source| !loops.contains(number, source));
        match (outside.next(), outside.next()) {
            (Some(source), None) if matches!(terminator(function, source), Terminator::Jump(_)) => Some(source),
            _ => None,
        }
    });
    let preheaders: Vec<Option<Block>> = preheaders.collect();
    let effects = Effects::of_loops(function, info, &cfg, &loops);
    let mut pass = Invariant {
        effects: &effects,
        def_blocks: DefBlocks::new(function, &cfg),
        roots: Roots::new(function),
        evidence: FxHashMap::default(),
        moved: FxHashMap::default(),
        has_merged: false,
        dominators: &dominators,
        loops: &loops,
        preheaders: &preheaders,
        function,
        info,
    };
    pass.collect_evidence(&cfg);
    for &block in &cfg.order {
        if let Some(number) = loops.innermost[block.index()] {
            pass.block(block, number);
        }
    }
    if pass.has_merged {
        function.resolve_aliases();
    }
}

/// Gives every loop one block that alone enters it and leads nowhere else. Returns whether there are new blocks.
fn make_preheaders(function: &mut Function, cfg: &Cfg, loops: &Loops) -> bool {
    let mut created = false;
    for (number, data) in loops.loops.iter().enumerate() {
        let header = data.header;
        let entering: Vec<(Block, u32)> =
            cfg.predecessors(header).iter().copied().filter(|&(source, _)| !loops.contains(number, source)).collect();
        let jumps = |&(source, _): &(Block, u32)| matches!(terminator(function, source), Terminator::Jump(_));
        let calls = entering.iter().any(|&(source, _)| {
            matches!(terminator(function, source), Terminator::TryCall { .. } | Terminator::Throw { .. })
        });
        if calls || (entering.len() == 1 && entering.iter().all(jumps)) {
            continue;
        }
        created = true;
        let preheader = function.add_block();
        // What a single edge passes comes along; several need parameters to pass it to.
        let is_single = entering.len() == 1;
        let args: SmallVec<[Value; 4]> = if is_single {
            SmallVec::new()
        } else {
            let params = function.blocks[header.index()].params.clone();
            params.iter().map(|&param| function.add_param(preheader, function.value_type(param))).collect()
        };
        let (cold, source) = {
            let data = &function.blocks[header.index()];
            (data.cold, data.terminator_source)
        };
        let mut jump = Edge { block: header, args };
        for &(source, _) in &entering {
            if let Some(terminator) = &mut function.blocks[source.index()].terminator {
                terminator.for_each_edge_mut(|edge| {
                    if edge.block == header {
                        edge.block = preheader;
                        if is_single {
                            jump.args = mem::take(&mut edge.args);
                        }
                    }
                });
            }
        }
        let new: &mut BlockData = &mut function.blocks[preheader.index()];
        new.terminator = Some(Terminator::Jump(jump));
        new.terminator_source = source;
        new.cold = cold;
    }
    created
}

struct Invariant<'a> {
    function: &'a mut Function,
    info: &'a ModuleInfo,
    dominators: &'a Dominators,
    loops: &'a Loops,
    preheaders: &'a [Option<Block>],
    effects: &'a [Effects],
    def_blocks: DefBlocks,
    roots: Roots,
    /// By root: blocks at whose end the reference is known not to be null.
    evidence: FxHashMap<Value, SmallVec<[Block; 2]>>,
    /// What has moved to the end of a block: nothing there writes.
    moved: FxHashMap<Block, Vec<Inst>>,
    has_merged: bool,
}

impl Invariant<'_> {
    fn collect_evidence(&mut self, cfg: &Cfg) {
        for &block in &self.dominators.preorder {
            if let &[(source, edge)] = cfg.predecessors(block)
                && let Terminator::Branch { cond, .. } = terminator(self.function, source)
            {
                self.branch_evidence(*cond, edge == 0, block);
            }
            for number in 0..self.function.blocks[block.index()].insts.len() {
                let inst = self.function.blocks[block.index()].insts[number];
                self.roots.visit(self.function, self.info, inst);
                let data = &self.function.insts[inst.index()];
                if let Some(reference) = data.op.non_null(&data.args) {
                    self.add_evidence(reference, block);
                }
            }
        }
    }

    fn branch_evidence(&mut self, cond: Value, mut holds: bool, block: Block) {
        let mut at = cond;
        while let Some((Op::Unary(UnaryOp::I32Eqz), args)) = origin(self.function, at) {
            holds = !holds;
            at = args[0];
        }
        let reference = match origin(self.function, at) {
            Some((Op::RefIsNull, args)) if !holds => args[0],
            Some((Op::RefTest(ty), args)) if holds != ty.nullable => args[0],
            _ => return,
        };
        self.add_evidence(reference, block);
    }

    fn add_evidence(&mut self, reference: Value, block: Block) {
        let blocks = self.evidence.entry(self.roots.of(reference)).or_default();
        if !blocks.last().is_some_and(|&last| self.dominators.dominates(last, block)) {
            blocks.push(block);
        }
    }

    /// Whether a reference is known not to be null at the end of a block that its definition dominates.
    fn is_non_null(&self, reference: Value, at: Block) -> bool {
        if !ref_type(self.function, reference).nullable {
            return true;
        }
        self.evidence
            .get(&self.roots.of(reference))
            .is_some_and(|blocks| blocks.iter().rev().take(EVIDENCE).any(|&block| self.dominators.dominates(block, at)))
    }

    fn is_outside(&self, value: Value, number: usize) -> bool {
        !self.loops.contains(number, self.def_blocks.of(self.function, value))
    }

    /// Goes through a block of which `number` is the innermost loop.
    fn block(&mut self, block: Block, number: usize) {
        // Whether all that the loop has executed so far, in its first iteration, neither traps nor has an effect.
        let mut first = self.loops.loops[number].header == block;
        let mut insts = std::mem::take(&mut self.function.blocks[block.index()].insts);
        insts.retain(|&inst| {
            resolve_inst(self.function, inst);
            match self.target(inst, number, first) {
                Some(preheader) => {
                    if !self.merge(inst, preheader) {
                        self.function.blocks[preheader.index()].insts.push(inst);
                        self.def_blocks.moved(inst, preheader);
                    }
                    false
                }
                None => {
                    let op = &self.function.insts[inst.index()].op;
                    first &= matches!(op, Op::Poll) || is_removable(self.function, inst);
                    true
                }
            }
        });
        self.function.blocks[block.index()].insts = insts;
    }

    /// Takes an equal instruction in place of one that moves to `preheader`, if one has moved there.
    fn merge(&mut self, inst: Inst, preheader: Block) -> bool {
        let moved = self.moved.entry(preheader).or_default();
        let data = &self.function.insts[inst.index()];
        let is_equal = |&&other: &&Inst| {
            let other = &self.function.insts[other.index()];
            other.op == data.op && other.args == data.args
        };
        let Some(&other) = moved.iter().rev().take(MOVED).find(is_equal) else {
            moved.push(inst);
            return false;
        };
        for number in 0..self.function.insts[inst.index()].results.len() {
            let [result, same] = [inst, other].map(|inst| self.function.insts[inst.index()].results[number]);
            self.function.values[result.index()].def = ValueDef::Alias(same);
        }
        self.has_merged = true;
        true
    }

    /// Where to move an instruction, if anywhere. Its check is adapted to the place.
    fn target(&mut self, inst: Inst, number: usize, first: bool) -> Option<Block> {
        let op = self.function.insts[inst.index()].op.clone();
        // What an operation relies on may be known only in the loop.
        if !self.effects[number].preserve(&op, self.info) || op.properties().relies {
            return None;
        }
        if let Op::StructGet(..) | Op::ArrayLen(_) | Op::I31Get(..) = op {
            return self.access_target(inst, number, first);
        }
        let args = self.function.insts[inst.index()].args.clone();
        if !args.iter().all(|&arg| self.is_outside(arg, number)) {
            return None;
        }
        if !is_removable(self.function, inst) {
            let preheader = if first { self.preheaders[number] } else { None }?;
            if let Op::NullCheck = op {
                self.add_late_evidence(args[0], preheader);
            }
            return Some(preheader);
        }
        let mut target = self.preheaders[number]?;
        let mut at = number;
        for _ in 0..LEVELS {
            let Some(parent) = self.loops.loops[at].parent else { break };
            let Some(preheader) = self.preheaders[parent] else { break };
            let invariant = self.effects[parent].preserve(&op, self.info);
            if !invariant || !args.iter().all(|&arg| self.is_outside(arg, parent)) {
                break;
            }
            (target, at) = (preheader, parent);
        }
        Some(target)
    }

    /// For an operation that reaches through its operand.
    fn access_target(&mut self, inst: Inst, number: usize, first: bool) -> Option<Block> {
        let data = &self.function.insts[inst.index()];
        let needed = match data.op {
            Op::StructGet(ty, ..) => HeapType::Concrete(ty),
            Op::ArrayLen(_) => HeapType::Array,
            _ => HeapType::I31,
        };
        // The reference itself may come from outside, and only a copy of it from a check in the loop.
        let mut reference = data.args[0];
        for _ in 0..COPIES {
            if self.is_outside(reference, number) {
                break;
            }
            match origin(self.function, reference) {
                Some((op, args)) if op.properties().copies => reference = args[0],
                _ => break,
            }
        }
        let fits = self.info.is_heap_subtype(ref_type(self.function, reference).heap, needed);
        if !fits || !self.is_outside(reference, number) {
            return None;
        }
        let innermost = self.preheaders[number]?;
        let mut found = None;
        let mut at = Some(number);
        for _ in 0..LEVELS {
            let Some(this) = at else { break };
            let invariant = self.effects[this].preserve(&self.function.insts[inst.index()].op, self.info);
            if !invariant || !self.is_outside(reference, this) {
                break;
            }
            if let Some(preheader) = self.preheaders[this]
                && self.is_non_null(reference, preheader)
            {
                found = Some(preheader);
            }
            at = self.loops.loops[this].parent;
        }
        let (check, target) = match found {
            Some(preheader) => (NullCheck::Elided, preheader),
            None if first => (NullCheck::Needed, innermost),
            None => return None,
        };
        if check == NullCheck::Needed {
            self.add_late_evidence(reference, innermost);
        }
        let data = &mut self.function.insts[inst.index()];
        data.args[0] = reference;
        *data.op.check_mut().expect("an access through a reference") = check;
        Some(target)
    }

    /// Evidence that a moved check gives.
    fn add_late_evidence(&mut self, reference: Value, block: Block) {
        self.evidence.entry(self.roots.of(reference)).or_default().push(block);
    }
}
