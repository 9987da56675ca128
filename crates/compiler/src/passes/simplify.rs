//! Constants, algebraic identities, values known from the operation that made them, and branches that are decided.

use smallvec::SmallVec;

use super::flow::Flow;
use super::order::of_order;
use super::support::{
    Roots, become_constant, constant, constant_i32, meet, origin, ref_type, replace, resolve_inst, resolve_terminator,
    terminator,
};
use super::{fold, globals};
use crate::mir::{
    BinaryOp, Block, Callee, CompareOp, Constant, Edge, Extension, Function, HandlerEdge, Inst, Op, Terminator,
    UnaryOp, Value, ValueDef,
};
use crate::module::{HeapType, ModuleInfo, RefType, StorageType, TypeIndex, ValueType};

/// Simplifies every instruction and terminator once, definitions before uses. Leaves no aliases in reachable blocks.
/// Blocks that decided branches cut off stay, unreachable.
pub(super) fn simplify(function: &mut Function, info: &ModuleInfo, flow: &mut Flow) {
    let cfg = flow.cfg(function);
    let mut pass = Simplify { roots: Roots::new(function), function, info };
    let mut changed = false;
    for &block in &cfg.order {
        let insts = std::mem::take(&mut pass.function.blocks[block.index()].insts);
        let mut kept = Vec::with_capacity(insts.len());
        for inst in insts {
            resolve_inst(pass.function, inst);
            if !pass.inst(inst) {
                pass.roots.visit(pass.function, info, inst);
                kept.push(inst);
            }
        }
        pass.function.blocks[block.index()].insts = kept;
        resolve_terminator(pass.function, block);
        changed |= pass.terminator(block);
    }
    if changed {
        flow.changed();
    }
}

struct Simplify<'a> {
    function: &'a mut Function,
    info: &'a ModuleInfo,
    roots: Roots,
}

impl Simplify<'_> {
    /// Simplifies an instruction whose operands are simplified. Returns whether it is superfluous.
    fn inst(&mut self, inst: Inst) -> bool {
        let data = &self.function.insts[inst.index()];
        let (a, b) = (data.args.first().copied(), data.args.get(1).copied());
        match (data.op.clone(), a, b) {
            (Op::Unary(op), Some(a), _) => self.unary(inst, op, a),
            (Op::Binary(op), Some(a), Some(b)) => self.binary(inst, op, a, b),
            (Op::Compare(op), Some(a), Some(b)) => self.compare(inst, op, a, b),
            (Op::Select, Some(cond), Some(then)) => {
                let otherwise = data.args[2];
                match constant_i32(self.function, cond) {
                    _ if then == otherwise => replace(self.function, self.info, inst, then),
                    Some(0) => replace(self.function, self.info, inst, otherwise),
                    Some(_) => replace(self.function, self.info, inst, then),
                    None => false,
                }
            }
            (Op::RefIsNull, Some(a), _) => {
                if matches!(constant(self.function, self.roots.of(a)), Some(Constant::Null(_))) {
                    self.constant(inst, 1)
                } else if !ref_type(self.function, a).nullable {
                    self.constant(inst, 0)
                } else {
                    false
                }
            }
            (Op::IsFunction(function, _), Some(a), _) => match origin(self.function, self.roots.of(a)) {
                Some((&Op::RefFunc(known), _)) => self.constant(inst, i32::from(known == function)),
                _ => false,
            },
            (Op::RefEq, Some(a), Some(b)) => {
                if self.roots.of(a) == self.roots.of(b) {
                    return self.constant(inst, 1);
                }
                for (null, other) in [(a, b), (b, a)] {
                    if matches!(constant(self.function, null), Some(Constant::Null(_))) {
                        let data = &mut self.function.insts[inst.index()];
                        data.op = Op::RefIsNull;
                        data.args = SmallVec::from_slice(&[other]);
                        return self.inst(inst);
                    }
                }
                false
            }
            (Op::NullCheck, Some(a), _) if ref_type(self.function, a).nullable => {
                // The operand may be known better now than when the instruction was made.
                let (result, heap) = (data.results[0], ref_type(self.function, a).heap);
                let narrowed = meet(self.info, ref_type(self.function, result), RefType::non_null(heap));
                self.function.values[result.index()].ty = ValueType::Ref(narrowed);
                false
            }
            (Op::NullCheck, Some(a), _) => replace(self.function, self.info, inst, a),
            // A conversion between hierarchies never narrows, so that it is kept.
            (Op::Refine(ty), Some(a), _) if self.info.is_ref_subtype(ref_type(self.function, a), ty) => {
                replace(self.function, self.info, inst, a)
            }
            (Op::StructGet(ty, field, extension, _), Some(object), _) => {
                self.struct_get(inst, ty, field, extension, object)
            }
            (Op::ArrayLen(_), Some(array), _) => self.array_len(inst, array),
            // Thrown to a handler of this function: the object need not be made.
            (Op::ExceptionGet(tag, field), Some(exception), _) => match origin(self.function, self.roots.of(exception))
            {
                Some((&Op::ExceptionNew(made), payload)) if made == tag => {
                    let value = payload[field as usize];
                    replace(self.function, self.info, inst, value)
                }
                _ => false,
            },
            (Op::GlobalGet(global), ..) => {
                if let Some(op) = globals::value(self.info, global) {
                    self.become_leaf(inst, op);
                }
                false
            }
            (Op::Call(callee), ..) => {
                if let Some(callee) = self.callee(&callee) {
                    self.function.insts[inst.index()].op = Op::Call(callee);
                }
                false
            }
            _ => false,
        }
    }

    fn constant(&mut self, inst: Inst, value: i32) -> bool {
        become_constant(self.function, inst, Constant::I32(value));
        false
    }

    fn unary(&mut self, inst: Inst, op: UnaryOp, a: Value) -> bool {
        if let Some(folded) = constant(self.function, a).and_then(|a| fold::unary(op, a)) {
            become_constant(self.function, inst, folded);
            return false;
        }
        if op == UnaryOp::I32Eqz
            && let Some((op, operands)) = of_order(self.function, CompareOp::I32Eq, a, 0)
        {
            return self.become_compare(inst, op, operands);
        }
        let Some((from, args)) = origin(self.function, a) else { return false };
        match (op, from) {
            (UnaryOp::I32WrapI64, Op::Unary(UnaryOp::I64ExtendI32S | UnaryOp::I64ExtendI32U)) => {
                let source = args[0];
                replace(self.function, self.info, inst, source)
            }
            (UnaryOp::I32Eqz, Op::Compare(compare)) => {
                let Some(inverse) = compare.inverse() else { return false };
                let args = SmallVec::from_slice(args);
                let data = &mut self.function.insts[inst.index()];
                data.op = Op::Compare(inverse);
                data.args = args;
                false
            }
            _ => false,
        }
    }

    fn binary(&mut self, inst: Inst, op: BinaryOp, a: Value, b: Value) -> bool {
        use BinaryOp::*;
        let (left, right) = (constant(self.function, a), constant(self.function, b));
        if let (Some(left), Some(right)) = (left, right) {
            if let Some(folded) = fold::binary(op, left, right) {
                become_constant(self.function, inst, folded);
            }
            return false;
        }
        if left.is_some() && op.is_commutative() {
            self.function.insts[inst.index()].args.swap(0, 1);
            return self.binary(inst, op, b, a);
        }
        let zero = match op.value_type() {
            ValueType::I32 => Constant::I32(0),
            ValueType::I64 => Constant::I64(0),
            _ => return false,
        };
        let number = match right {
            Some(Constant::I32(value)) => Some(value as i64),
            Some(Constant::I64(value)) => Some(value),
            _ => None,
        };
        let keep = match (op, number) {
            (I32Add | I32Sub | I32Or | I32Xor | I64Add | I64Sub | I64Or | I64Xor, Some(0)) => Some(a),
            (I32Shl | I32ShrS | I32ShrU | I32Rotl | I32Rotr, Some(count)) if count & 31 == 0 => Some(a),
            (I64Shl | I64ShrS | I64ShrU | I64Rotl | I64Rotr, Some(count)) if count & 63 == 0 => Some(a),
            (I32Mul | I32DivS | I32DivU | I64Mul | I64DivS | I64DivU, Some(1)) => Some(a),
            (I32And | I64And, Some(-1)) => Some(a),
            (I32And | I32Or | I64And | I64Or, _) if a == b => Some(a),
            _ => None,
        };
        if let Some(value) = keep {
            return replace(self.function, self.info, inst, value);
        }
        let is_zero = match (op, number) {
            (I32Mul | I32And | I64Mul | I64And, Some(0)) => true,
            (I32RemU | I32RemS | I64RemU | I64RemS, Some(1)) => true,
            (I32Sub | I32Xor | I64Sub | I64Xor, _) => a == b,
            _ => false,
        };
        if is_zero {
            become_constant(self.function, inst, zero);
        }
        false
    }

    fn compare(&mut self, inst: Inst, op: CompareOp, a: Value, b: Value) -> bool {
        use CompareOp::*;
        let (left, right) = (constant(self.function, a), constant(self.function, b));
        if let (Some(left), Some(right)) = (left, right) {
            if let Some(outcome) = fold::compare(op, left, right) {
                return self.constant(inst, outcome as i32);
            }
            return false;
        }
        if a == b {
            match op {
                I32Eq | I32LeS | I32LeU | I32GeS | I32GeU | I64Eq | I64LeS | I64LeU | I64GeS | I64GeU => {
                    return self.constant(inst, 1);
                }
                I32Ne | I32LtS | I32LtU | I32GtS | I32GtU | I64Ne | I64LtS | I64LtU | I64GtS | I64GtU => {
                    return self.constant(inst, 0);
                }
                _ => {}
            }
        }
        if left.is_some() {
            let data = &mut self.function.insts[inst.index()];
            data.op = Op::Compare(op.swapped());
            data.args.swap(0, 1);
            return self.compare(inst, op.swapped(), b, a);
        }
        if let Some(Constant::I32(right)) = right
            && let Some((op, operands)) = of_order(self.function, op, a, right)
        {
            return self.become_compare(inst, op, operands);
        }
        if op == I32Eq && right == Some(Constant::I32(0)) {
            let data = &mut self.function.insts[inst.index()];
            data.op = Op::Unary(UnaryOp::I32Eqz);
            data.args.truncate(1);
            return self.unary(inst, UnaryOp::I32Eqz, a);
        }
        false
    }

    fn become_compare(&mut self, inst: Inst, op: CompareOp, operands: [Value; 2]) -> bool {
        let data = &mut self.function.insts[inst.index()];
        data.op = Op::Compare(op);
        data.args = SmallVec::from_slice(&operands);
        self.compare(inst, op, operands[0], operands[1])
    }

    /// A field that is never written after construction, of a struct built in this function.
    fn struct_get(&mut self, inst: Inst, ty: TypeIndex, field: u32, extension: Extension, object: Value) -> bool {
        let declared = self.info.struct_fields(ty)[field as usize];
        if declared.mutable {
            return false;
        }
        match origin(self.function, self.roots.of(object)) {
            // The types disagree only behind a cast that always fails.
            Some((Op::StructNew(made), _)) if !self.info.is_declared_subtype(*made, ty) => false,
            Some((Op::StructNew(_), fields)) => {
                let value = fields[field as usize];
                let narrow = match (extension, declared.storage) {
                    (Extension::None, _) => return replace(self.function, self.info, inst, value),
                    (Extension::Signed, StorageType::I8) => UnaryOp::I32Extend8S,
                    (Extension::Signed, _) => UnaryOp::I32Extend16S,
                    // Would need a mask besides.
                    (Extension::Unsigned, _) => return false,
                };
                let data = &mut self.function.insts[inst.index()];
                data.op = Op::Unary(narrow);
                data.args = SmallVec::from_slice(&[value]);
                self.unary(inst, narrow, value)
            }
            Some((Op::StructNewDefault(made), _)) if self.info.is_declared_subtype(*made, ty) => {
                become_constant(self.function, inst, Constant::default_of(declared.storage.unpacked()));
                false
            }
            Some((&Op::GlobalGet(global), _)) if extension == Extension::None => {
                if let Some((made, op)) = globals::field(self.info, global, field)
                    && self.info.is_declared_subtype(made, ty)
                {
                    self.become_leaf(inst, op);
                    return self.inst(inst);
                }
                false
            }
            _ => false,
        }
    }

    /// Makes an instruction an operation without operands that gives the same.
    fn become_leaf(&mut self, inst: Inst, op: Op) {
        let data = &mut self.function.insts[inst.index()];
        let result = data.results[0];
        if let Op::RefFunc(function) = op {
            let heap = HeapType::Concrete(self.info.type_of(function));
            self.function.values[result.index()].ty = ValueType::Ref(RefType::non_null(heap));
        }
        data.op = op;
        data.args = SmallVec::new();
    }

    /// The function that a call by reference reaches, if it is known.
    fn callee(&self, callee: &Callee) -> Option<Callee> {
        let &Callee::Reference(ty, reference, _) = callee else { return None };
        match origin(self.function, self.roots.of(reference)) {
            Some((&Op::RefFunc(function), _)) if self.info.is_declared_subtype(self.info.type_of(function), ty) => {
                Some(Callee::Direct(function))
            }
            _ => None,
        }
    }

    /// The length of an array made in this function.
    fn array_len(&mut self, inst: Inst, array: Value) -> bool {
        let length = match origin(self.function, self.roots.of(array)) {
            Some((Op::ArrayNew(_) | Op::ArrayNewData(..) | Op::ArrayNewElem(..), args)) => args[1],
            Some((Op::ArrayNewDefault(_), args)) => args[0],
            Some((Op::ArrayNewFixed(_), args)) => {
                let length = args.len() as i32;
                return self.constant(inst, length);
            }
            _ => return false,
        };
        replace(self.function, self.info, inst, length)
    }

    /// Simplifies the end of a block. Returns whether its edges may have changed.
    /// Throws an exception of a known tag to a handler of this function without unwinding, where it is certain which;
    /// and to none that has another tag.
    fn throw(&self, exception: Value, handlers: &[HandlerEdge]) -> Option<Terminator> {
        let Some((&Op::ExceptionNew(tag), _)) = origin(self.function, self.roots.of(exception)) else { return None };
        let imported = self.info.imported_tags;
        // Two tags are the same at run time only if both are imported.
        let may_catch = |handler: &&HandlerEdge| {
            handler.tag.is_none_or(|caught| caught == tag || caught.0 < imported && tag.0 < imported)
        };
        let left: Vec<_> = handlers.iter().filter(may_catch).cloned().collect();
        match left.first() {
            Some(HandlerEdge { tag: caught, edge }) if caught.is_none_or(|caught| caught == tag) => {
                let args = [exception].into_iter().chain(edge.args.iter().copied()).collect();
                Some(Terminator::Jump(Edge { block: edge.block, args }))
            }
            _ => (left.len() < handlers.len()).then_some(Terminator::Throw { exception, handlers: left }),
        }
    }

    fn terminator(&mut self, block: Block) -> bool {
        if let Terminator::TailCall { callee, .. } | Terminator::TryCall { callee, .. } =
            terminator(self.function, block)
        {
            let direct = self.callee(callee);
            let terminator = &mut self.function.blocks[block.index()].terminator;
            if let (Some(direct), Some(Terminator::TailCall { callee, .. } | Terminator::TryCall { callee, .. })) =
                (direct, terminator)
            {
                *callee = direct;
            }
            return false;
        }
        let new = match terminator(self.function, block) {
            Terminator::Branch { cond, then, otherwise } => {
                if then == otherwise {
                    Some(Terminator::Jump(then.clone()))
                } else if let Some(value) = constant_i32(self.function, *cond) {
                    Some(Terminator::Jump(if value != 0 { then.clone() } else { otherwise.clone() }))
                } else {
                    self.condition(*cond).map(|(cond, swap)| {
                        let (then, otherwise) = if swap { (otherwise, then) } else { (then, otherwise) };
                        Terminator::Branch { cond, then: then.clone(), otherwise: otherwise.clone() }
                    })
                }
            }
            Terminator::Throw { exception, handlers } => self.throw(*exception, handlers),
            Terminator::Switch { index, targets, default } => match constant_i32(self.function, *index) {
                Some(index) => {
                    let target: &Edge = targets.get(index as u32 as usize).unwrap_or(default);
                    Some(Terminator::Jump(target.clone()))
                }
                None if targets.iter().all(|target| target == default) => Some(Terminator::Jump(default.clone())),
                None => None,
            },
            _ => None,
        };
        let changed = new.is_some();
        if changed {
            self.function.blocks[block.index()].terminator = new;
        }
        changed
    }

    /// A simpler condition for the same branch, and whether it is the opposite.
    fn condition(&self, cond: Value) -> Option<(Value, bool)> {
        let mut swap = false;
        let mut at = cond;
        loop {
            match origin(self.function, at) {
                Some((Op::Unary(UnaryOp::I32Eqz), args)) => {
                    swap = !swap;
                    at = args[0];
                }
                Some((Op::Compare(CompareOp::I32Ne), args)) if constant_i32(self.function, args[1]) == Some(0) => {
                    at = args[0];
                }
                _ => break,
            }
        }
        debug_assert!(!matches!(self.function.values[at.index()].def, ValueDef::Alias(_)));
        if at == cond { None } else { Some((at, swap)) }
    }
}
