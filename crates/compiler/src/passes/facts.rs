//! Removes checks that cannot fail: of null, of types, of bounds. What dominates an operation has been executed before
//! it, and what succeeded there holds here.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::flow::Flow;
use super::ranges::Ranges;
use super::support::{
    DefBlocks, Roots, become_constant, bottom, constant_i32, meet, origin, ref_type, replace, resolve_inst,
    resolve_terminator,
};
use crate::mir::{BinaryOp, Block, Callee, Constant, Function, Inst, NullCheck, Op, Terminator, UnaryOp, Value};
use crate::module::{ModuleInfo, RefType};

/// How many parts of a condition are looked at.
const CONDITIONS: usize = 8;

/// Walks down the dominator tree, learns from operations and branches, forgets when it leaves a subtree.
///
/// An elided check rests on what dominates the operation, not on its operands: later passes may move such an operation
/// only to where the same is known.
pub(super) fn facts(function: &mut Function, info: &ModuleInfo, flow: &mut Flow) {
    let cfg = flow.cfg(function);
    let dominators = flow.dominators(function);
    let def_blocks = DefBlocks::new(function, &cfg);
    let mut pass = Facts {
        roots: Roots::new(function),
        types: vec![None; function.values.len()],
        truths: FxHashMap::default(),
        undo: Vec::new(),
        ranges: Ranges::new(function, info, &cfg),
        function,
        info,
    };
    // Where the subtrees that the walk is in end, and what was known outside them.
    let mut scopes: Vec<(usize, usize, usize)> = Vec::new();
    for (number, &block) in dominators.preorder.iter().enumerate() {
        while let Some(&(end, undo, ranges)) = scopes.last() {
            if number < end {
                break;
            }
            pass.back_to(undo);
            pass.ranges.back_to(ranges);
            scopes.pop();
        }
        scopes.push((dominators.subtree_end(block), pass.undo.len(), pass.ranges.mark()));
        match cfg.predecessors(block) {
            &[(source, edge)] => pass.enter_by(source, edge),
            _ => {
                let def_block = |value: Value| def_blocks.get(pass.function, value).unwrap_or(block);
                pass.ranges.enter_header(pass.function, info, &cfg, &dominators, block, def_block);
            }
        }
        pass.block(block);
    }
    function.resolve_aliases();
}

enum Undo {
    /// The former entry.
    Type(Value, Option<RefType>),
    Truth(Value),
}

struct Facts<'a> {
    function: &'a mut Function,
    info: &'a ModuleInfo,
    roots: Roots,
    /// By root, what is known beyond its static type.
    types: Vec<Option<RefType>>,
    /// Values known to be zero (false) or not.
    truths: FxHashMap<Value, bool>,
    undo: Vec<Undo>,
    ranges: Ranges,
}

impl Facts<'_> {
    fn back_to(&mut self, mark: usize) {
        while self.undo.len() > mark {
            match self.undo.pop() {
                Some(Undo::Type(root, former)) => self.types[root.index()] = former,
                Some(Undo::Truth(value)) => {
                    self.truths.remove(&value);
                }
                None => {}
            }
        }
    }

    /// The narrowest type that a reference is known to have.
    fn known(&self, value: Value) -> RefType {
        let root = self.roots.of(value);
        let mut ty = ref_type(self.function, value);
        if root != value {
            ty = meet(self.info, ty, ref_type(self.function, root));
        }
        match self.types.get(root.index()).copied().flatten() {
            Some(known) => meet(self.info, ty, known),
            None => ty,
        }
    }

    fn learn(&mut self, value: Value, ty: RefType) {
        let root = self.roots.of(value);
        let known = self.known(root);
        let narrowed = meet(self.info, known, ty);
        if narrowed != known && root.index() < self.types.len() {
            self.undo.push(Undo::Type(root, self.types[root.index()]));
            self.types[root.index()] = Some(narrowed);
        }
    }

    fn learn_non_null(&mut self, value: Value) {
        let heap = self.known(value).heap;
        self.learn(value, RefType::non_null(heap));
    }

    fn learn_null(&mut self, value: Value) {
        let heap = bottom(self.info, self.known(value).heap);
        self.learn(value, RefType::nullable(heap));
    }

    fn is_null(&self, ty: RefType) -> bool {
        ty.heap == bottom(self.info, ty.heap)
    }

    /// Learns from the branch that alone leads here.
    fn enter_by(&mut self, source: Block, edge: u32) {
        if let Some(Terminator::Branch { cond, .. }) = &self.function.blocks[source.index()].terminator {
            let cond = *cond;
            self.assume(cond, edge == 0);
        }
    }

    /// Learns that a value is not zero, or that it is.
    fn assume(&mut self, cond: Value, holds: bool) {
        let mut work: SmallVec<[(Value, bool); 4]> = SmallVec::from_slice(&[(cond, holds)]);
        for _ in 0..CONDITIONS {
            let Some((cond, holds)) = work.pop() else { return };
            if let Entry::Vacant(entry) = self.truths.entry(cond) {
                entry.insert(holds);
                self.undo.push(Undo::Truth(cond));
            }
            let Some((op, args)) = origin(self.function, cond) else { continue };
            match (op.clone(), args.first().copied(), args.get(1).copied()) {
                (Op::Unary(UnaryOp::I32Eqz), Some(a), _) => work.push((a, !holds)),
                (Op::Binary(BinaryOp::I32And), Some(a), Some(b)) if holds => work.extend([(a, true), (b, true)]),
                (Op::Binary(BinaryOp::I32Or), Some(a), Some(b)) if !holds => work.extend([(a, false), (b, false)]),
                (Op::ArrayLen(_), ..) if holds => self.ranges.learn_not_zero(cond),
                (Op::RefIsNull, Some(a), _) if holds => self.learn_null(a),
                (Op::RefIsNull, Some(a), _) => self.learn_non_null(a),
                (Op::RefTest(ty), Some(a), _) if holds => self.learn(a, ty),
                (Op::RefTest(ty), Some(a), _) => {
                    if ty.nullable {
                        self.learn_non_null(a);
                    } else if self.info.is_heap_subtype(self.known(a).heap, ty.heap) {
                        self.learn_null(a);
                    }
                }
                (Op::Compare(op), Some(a), Some(b)) => {
                    let op = if holds { Some(op) } else { op.inverse() };
                    if let Some(op) = op {
                        self.ranges.learn_compare(self.function, self.info, op, a, b);
                    }
                }
                _ => {}
            }
        }
    }

    fn block(&mut self, block: Block) {
        let insts = std::mem::take(&mut self.function.blocks[block.index()].insts);
        let mut kept = Vec::with_capacity(insts.len());
        for inst in insts {
            resolve_inst(self.function, inst);
            if !self.inst(inst, &mut kept) {
                self.roots.visit(self.function, self.info, inst);
                kept.push(inst);
            }
        }
        resolve_terminator(self.function, block);
        let mut terminator = self.function.blocks[block.index()].terminator.take();
        match &mut terminator {
            Some(Terminator::Branch { cond, .. }) => {
                // Becomes a jump later: the edges are needed as they are for now.
                if let (Some(&truth), None) = (self.truths.get(cond), constant_i32(self.function, *cond)) {
                    let source = self.function.blocks[block.index()].terminator_source;
                    let constant = Constant::I32(truth as i32);
                    let inst = self.function.add_inst(Op::Const(constant), &[], &[constant.value_type()], source);
                    *cond = self.function.insts[inst.index()].results[0];
                    kept.push(inst);
                }
            }
            Some(Terminator::TailCall { callee, .. } | Terminator::TryCall { callee, .. }) => self.callee(callee),
            _ => {}
        }
        self.function.blocks[block.index()].terminator = terminator;
        self.function.blocks[block.index()].insts = kept;
    }

    /// The check that an access needs; whoever gets past it has shown that the reference is not null.
    fn check(&mut self, reference: Value) -> NullCheck {
        if self.known(reference).nullable {
            self.learn_non_null(reference);
            NullCheck::Needed
        } else {
            NullCheck::Elided
        }
    }

    fn callee(&mut self, callee: &mut Callee) {
        if let Callee::Reference(_, reference, check) = callee {
            *check = self.check(*reference);
        }
    }

    /// Simplifies an instruction and learns from it. Returns whether it is superfluous.
    fn inst(&mut self, inst: Inst, before: &mut Vec<Inst>) -> bool {
        let data = &self.function.insts[inst.index()];
        let (a, b) = (data.args.first().copied(), data.args.get(1).copied());
        let mut op = data.op.clone();
        if let (Some(check), Some(a)) = (op.check_mut(), a) {
            *check = self.check(a);
            self.function.insts[inst.index()].op = op;
            return false;
        }
        match (op, a, b) {
            (Op::Call(mut callee), ..) => {
                self.callee(&mut callee);
                self.function.insts[inst.index()].op = Op::Call(callee);
            }
            (Op::NullCheck, Some(a), _) => {
                if !self.known(a).nullable {
                    return replace(self.function, self.info, inst, a);
                }
                self.learn_non_null(a);
            }
            (Op::RefCast(ty), Some(a), _) => {
                if self.info.is_ref_subtype(self.known(a), ty) {
                    return replace(self.function, self.info, inst, a);
                }
                self.learn(a, ty);
            }
            (Op::Refine(ty), Some(a), _)
                if self.info.top_type(ty.heap) == self.info.top_type(ref_type(self.function, a).heap) =>
            {
                self.learn(a, ty);
            }
            (Op::RefIsNull, Some(a), _) => {
                let known = self.known(a);
                if !known.nullable {
                    self.outcome(inst, false);
                } else if self.is_null(known) {
                    self.outcome(inst, true);
                }
            }
            (Op::RefTest(ty), Some(a), _) => self.ref_test(inst, ty, a, before),
            (Op::RefEq, Some(a), Some(b)) => {
                let (a, b) = (self.known(a), self.known(b));
                let one_object = a.nullable && b.nullable || !self.info.are_disjoint(a.heap, b.heap);
                if !one_object {
                    self.outcome(inst, false);
                }
            }
            (Op::Compare(op), Some(a), Some(b)) => {
                if let Some(outcome) = self.ranges.decide(self.function, self.info, op, a, b) {
                    self.outcome(inst, outcome);
                }
            }
            (Op::BoundsCheck, Some(index), Some(length)) => {
                if self.ranges.is_in_bounds(self.function, self.info, index, length) {
                    return true;
                }
                self.ranges.learn_bounds(self.function, self.info, index, length);
            }
            _ => {}
        }
        false
    }

    fn outcome(&mut self, inst: Inst, outcome: bool) {
        become_constant(self.function, inst, Constant::I32(outcome as i32));
    }

    fn ref_test(&mut self, inst: Inst, ty: RefType, value: Value, before: &mut Vec<Inst>) {
        let known = self.known(value);
        if self.info.is_ref_subtype(known, ty) {
            return self.outcome(inst, true);
        }
        let data = &self.function.insts[inst.index()];
        if self.info.is_heap_subtype(known.heap, ty.heap) {
            // Only null makes a difference.
            let (source, result) = (data.source, data.results[0]);
            let i32 = self.function.value_type(result);
            let test = self.function.add_inst(Op::RefIsNull, &[value], &[i32], source);
            before.push(test);
            let is_null = self.function.insts[test.index()].results[0];
            let data = &mut self.function.insts[inst.index()];
            data.op = Op::Unary(UnaryOp::I32Eqz);
            data.args = SmallVec::from_slice(&[is_null]);
        } else if self.info.are_disjoint(known.heap, ty.heap) {
            if known.nullable && ty.nullable {
                self.function.insts[inst.index()].op = Op::RefIsNull;
            } else {
                self.outcome(inst, false);
            }
        }
    }
}
