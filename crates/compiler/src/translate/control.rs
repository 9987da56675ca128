//! Structured control and branches.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wasmparser::{BlockType, BrTable, Operator};

use super::Part;
use super::state::{Entering, Frame, FrameKind, Slots, Translator};
use crate::CompileError;
use crate::artifact::TrapCode;
use crate::error::invalid;
use crate::mir::{Block, Callee, Constant, Edge, Op, Terminator, UnaryOp, Value};
use crate::module::{RefType, ValueType};

type Types = SmallVec<[ValueType; 2]>;

impl Translator<'_> {
    /// Opens the frame of the function.
    pub(super) fn begin(&mut self, results: &[ValueType]) {
        let follow = self.new_block();
        self.add_params(follow, results);
        let (kind, arity, slots) = (FrameKind::Function, results.len(), Slots::new());
        self.control.push(Frame { kind, height: 0, label: follow, arity, follow, slots });
    }

    pub(super) fn add_params(&mut self, block: Block, types: &[ValueType]) {
        self.builder.limits.spend(types.len() as u64);
        for &ty in types {
            self.builder.function.add_param(block, ty);
        }
    }

    pub(super) fn block_type(&self, ty: BlockType) -> Result<(Types, Types), CompileError> {
        Ok(match ty {
            BlockType::Empty => (Types::new(), Types::new()),
            BlockType::Type(ty) => (Types::new(), Types::from_slice(&[self.types.value(ty, self.offset)?])),
            BlockType::FuncType(index) => {
                let ty = self.info.func_type(self.types.index(index));
                (Types::from_slice(&ty.params), Types::from_slice(&ty.results))
            }
        })
    }

    /// Translates a control instruction; false if it is none.
    pub(super) fn control(&mut self, operator: &Operator<'_>) -> Result<bool, CompileError> {
        match operator {
            Operator::Unreachable => self.terminate(Terminator::Trap(TrapCode::Unreachable)),
            Operator::Block { blockty } => {
                let (params, results) = self.block_type(*blockty)?;
                let follow = self.new_block();
                self.add_params(follow, &results);
                let height = self.stack.len() - params.len();
                let (arity, slots) = (results.len(), self.save_around(height));
                self.control.push(Frame { kind: FrameKind::Block, height, label: follow, arity, follow, slots });
            }
            Operator::Loop { blockty } => {
                let (params, _) = self.block_type(*blockty)?;
                self.begin_loop(&params);
            }
            Operator::If { blockty } => {
                let (params, results) = self.block_type(*blockty)?;
                self.begin_if(params.len(), &results);
            }
            Operator::Else => self.begin_else(),
            Operator::End => self.end(),
            Operator::Br { relative_depth } => {
                let args = self.pop_many(self.label_arity(*relative_depth));
                self.branch_to(*relative_depth, &args);
            }
            Operator::BrIf { relative_depth } => {
                let cond = self.pop();
                let args = self.peek_many(self.label_arity(*relative_depth));
                let then = Self::edge(self.frame(*relative_depth).label, &args);
                let next = self.new_block();
                self.terminate(Terminator::Branch { cond, then, otherwise: Edge::to(next) });
                self.continue_in(next);
            }
            Operator::BrTable { targets } => self.br_table(targets)?,
            Operator::Return => {
                let depth = self.control.len() as u32 - 1;
                let args = self.pop_many(self.label_arity(depth));
                self.branch_to(depth, &args);
            }
            Operator::BrOnNull { relative_depth } => self.br_on_null(*relative_depth),
            Operator::BrOnNonNull { relative_depth } => self.br_on_non_null(*relative_depth),
            Operator::BrOnCast { relative_depth, to_ref_type, .. } => {
                let to = self.types.reference(*to_ref_type, self.offset)?;
                self.br_on_cast(*relative_depth, to, true);
            }
            Operator::BrOnCastFail { relative_depth, to_ref_type, .. } => {
                let to = self.types.reference(*to_ref_type, self.offset)?;
                self.br_on_cast(*relative_depth, to, false);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Follows the structure of code that is not reached.
    pub(super) fn skip(&mut self, operator: &Operator<'_>) -> Result<(), CompileError> {
        match operator {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } | Operator::TryTable { .. } => {
                self.dead_depth += 1;
            }
            Operator::Else if self.dead_depth == 0 => self.begin_else(),
            Operator::End if self.dead_depth == 0 => self.end(),
            Operator::End => self.dead_depth -= 1,
            _ => {}
        }
        Ok(())
    }

    fn frame(&self, depth: u32) -> &Frame {
        &self.control[self.control.len() - 1 - depth as usize]
    }

    fn label_arity(&self, depth: u32) -> usize {
        self.frame(depth).arity
    }

    /// Ends the current block by a branch to a label.
    pub(super) fn branch_to(&mut self, depth: u32, args: &[Value]) {
        let frame = self.frame(depth);
        let terminator = match frame.kind {
            FrameKind::Function => Terminator::Return(SmallVec::from_slice(args)),
            _ => Terminator::Jump(Self::edge(frame.label, args)),
        };
        self.terminate(terminator);
    }

    fn begin_loop(&mut self, params: &[ValueType]) {
        let args = self.pop_many(params.len());
        let header = self.new_block();
        let offset = self.source();
        let is_around = self.part.around.contains(&offset);
        // On the way in nothing is passed.
        let passed: Types = params.iter().map(|&ty| if is_around { Self::nullable(ty) } else { ty }).collect();
        self.add_params(header, &passed);
        let height = self.stack.len();
        let slots = self.save_stack(height);
        self.terminate(Terminator::Jump(Edge { block: header, args }));
        self.switch_to(header);
        self.restore_stack(&slots);
        self.stack.extend_from_slice(&self.builder.function.blocks[header.index()].params[..params.len()]);
        let poll = self.emit(Op::Poll, &[], &[]);
        if is_around {
            self.enter_inwards(header, &passed);
            for (number, _) in params.iter().zip(&passed).enumerate().filter(|(_, (ty, passed))| ty != passed) {
                self.stack[height + number] = self.refine_non_null(self.stack[height + number]);
            }
        } else if self.part.from == Some(offset) {
            self.enter_here(header, &slots, params);
        } else if self.part.leaves(offset) {
            self.replaceable_loop();
        }
        self.control.push(Frame {
            kind: FrameKind::Loop { poll },
            height,
            label: header,
            arity: params.len(),
            follow: header,
            slots,
        });
    }

    /// Lets the body begin in a block of its own, which nothing leads to: the part is entered elsewhere.
    pub(super) fn enter_elsewhere(&mut self) {
        let entry = self.builder.function.entry;
        self.block = self.builder.enter_elsewhere();
        let is_on_way = self.builder.local_count();
        self.builder.add_locals(1, ValueType::I32);
        let one = self.builder.entry_constant(Constant::I32(1));
        for block in [entry, self.block] {
            self.builder.write(is_on_way, block, one);
        }
        self.entering = Some(Entering { block: entry, is_on_way });
    }

    /// Has the part be entered by this header of a loop around that one which it begins with: from there, control goes
    /// on inwards.
    fn enter_inwards(&mut self, header: Block, params: &[ValueType]) {
        let Some(Entering { block, is_on_way }) = self.entering else { return };
        let args = params.iter().map(|&ty| self.builder.entry_constant(Constant::default_of(ty))).collect();
        let source = self.source();
        self.builder.terminate(block, Terminator::Jump(Edge { block: header, args }), source);
        let cond = self.builder.read(is_on_way, header);
        let (inwards, stay) = (self.new_block(), self.new_block());
        self.terminate(Terminator::Branch { cond, then: Edge::to(inwards), otherwise: Edge::to(stay) });
        self.builder.seal(inwards);
        self.entering = Some(Entering { block: inwards, is_on_way });
        self.continue_in(stay);
    }

    /// Has the part begin behind this header. What lies on the operand stack, and what the loop takes, are parameters.
    fn enter_here(&mut self, header: Block, slots: &[u32], params: &[ValueType]) {
        let Some(Entering { block, is_on_way }) = self.entering.take() else { return };
        let args = self.builder.enter_with(slots, params);
        let source = self.source();
        self.builder.terminate(block, Terminator::Jump(Edge { block: header, args }), source);
        let zero = self.value(Op::Const(Constant::I32(0)), &[], ValueType::I32);
        self.builder.write(is_on_way, header, zero);
    }

    /// Where loops are entered or left, keeps what is on the operand stack up to this height in locals of its own, as
    /// it has to be passed on with the others. Returns these.
    fn save_stack(&mut self, height: usize) -> Slots {
        if self.part == Part::WHOLE {
            return Slots::new();
        }
        // What lies below a frame stays the same within it.
        let around = self.control.iter().rev().find(|frame| !frame.slots.is_empty());
        let mut slots = around.map_or_else(Slots::new, |frame| frame.slots.clone());
        for &value in &self.stack[slots.len()..height] {
            slots.push(self.builder.local_count());
            self.builder.add_locals(1, self.builder.function.value_type(value));
        }
        for (&slot, &value) in slots.iter().zip(&self.stack) {
            self.builder.write(slot, self.block, value);
        }
        slots
    }

    /// The same for a frame that is no loop. Behind one around the loop that a part begins with, what lies below it is
    /// read again: that loop need not be reached on every way through the frame.
    pub(super) fn save_around(&mut self, height: usize) -> Slots {
        if self.entering.is_some() { self.save_stack(height) } else { Slots::new() }
    }

    /// What was saved, as it is in the current block.
    fn restore_stack(&mut self, slots: &[u32]) {
        for (place, &slot) in slots.iter().enumerate() {
            self.stack[place] = self.builder.read(slot, self.block);
        }
    }

    /// Goes on in optimised code where there is such for this loop.
    fn replaceable_loop(&mut self) {
        let code = self.value(Op::OsrEntry(self.source()), &[], ValueType::I64);
        let none = self.value(Op::Unary(UnaryOp::I64Eqz), &[code], ValueType::I32);
        let (stay, leave) = (self.new_block(), self.new_block());
        let mut locals = self.builder.read_all(self.block);
        locals.extend_from_slice(&self.stack);
        self.terminate(Terminator::Branch { cond: none, then: Edge::to(stay), otherwise: Edge::to(leave) });
        self.continue_in(leave);
        self.builder.function.blocks[leave.index()].cold = true;
        self.terminate(Terminator::TailCall { callee: Callee::Osr(code), args: locals });
        self.continue_in(stay);
    }

    fn begin_if(&mut self, params: usize, results: &[ValueType]) {
        let cond = self.pop();
        let then = self.new_block();
        let otherwise = self.new_block();
        let follow = self.new_block();
        self.add_params(follow, results);
        let height = self.stack.len() - params;
        let slots = self.save_around(height);
        self.terminate(Terminator::Branch { cond, then: Edge::to(then), otherwise: Edge::to(otherwise) });
        self.builder.seal(otherwise);
        self.continue_in(then);
        let args = self.peek_many(params);
        let kind = FrameKind::If(Some(otherwise), args);
        self.control.push(Frame { kind, height, label: follow, arity: results.len(), follow, slots });
    }

    /// Jumps from the end of a frame's code to what follows.
    fn fall_through(&mut self, follow: Block, arity: usize) {
        if self.reachable {
            let args = self.pop_many(arity);
            self.terminate(Terminator::Jump(Edge { block: follow, args }));
        }
    }

    fn begin_else(&mut self) {
        let top = self.control.len() - 1;
        let Frame { height, follow, arity, .. } = self.control[top];
        self.fall_through(follow, arity);
        self.stack.truncate(height);
        let Frame { kind, slots, .. } = &mut self.control[top];
        if let FrameKind::If(otherwise, params) = kind
            && let Some(block) = otherwise.take()
        {
            let slots = slots.clone();
            self.stack.extend_from_slice(params);
            self.switch_to(block);
            self.restore_stack(&slots);
        }
    }

    fn end(&mut self) {
        let frame = self.control.pop().expect("validated control stack");
        let Frame { kind, height, arity, follow, slots, .. } = frame;
        match kind {
            FrameKind::Function => {
                if self.reachable {
                    let args = self.pop_many(arity);
                    self.terminate(Terminator::Return(args));
                }
            }
            FrameKind::Loop { poll } => {
                // What is on the stack are the results; nothing branches past the end of a loop.
                self.builder.seal(follow);
                if self.builder.predecessor_count(follow) == 1 {
                    self.builder.function.blocks[follow.index()].insts.retain(|&inst| inst != poll);
                }
                if !self.reachable {
                    self.stack.truncate(height);
                }
                return;
            }
            FrameKind::Block => self.fall_through(follow, arity),
            FrameKind::If(otherwise, params) => {
                self.fall_through(follow, arity);
                if let Some(block) = otherwise {
                    self.switch_to(block);
                    self.terminate(Terminator::Jump(Edge { block: follow, args: params }));
                }
            }
            FrameKind::TryTable { landings, outer } => {
                self.fall_through(follow, arity);
                self.finish_try_table(landings, outer);
            }
        }
        self.stack.truncate(height);
        if !self.builder.has_predecessors(follow) {
            return;
        }
        self.continue_in(follow);
        self.restore_stack(&slots);
        let params = &self.builder.function.blocks[follow.index()].params[..arity];
        self.stack.extend_from_slice(params);
        if self.control.is_empty() {
            let args = self.pop_many(arity);
            self.terminate(Terminator::Return(args));
        }
    }

    /// Every distinct label gets a block of its own, so that the edges of a switch carry no arguments, however many
    /// there are.
    fn br_table(&mut self, targets: &BrTable<'_>) -> Result<(), CompileError> {
        let index = self.pop();
        let args = self.pop_many(self.label_arity(targets.default()));
        let mut blocks: FxHashMap<u32, Block> = FxHashMap::default();
        let mut order = Vec::new();
        let mut edges = Vec::with_capacity(targets.len() as usize + 1);
        for depth in targets.targets().chain([Ok(targets.default())]) {
            let depth = depth.map_err(invalid)?;
            let block = *blocks.entry(depth).or_insert_with(|| {
                let block = self.builder.add_block();
                order.push((depth, block));
                block
            });
            edges.push(Edge::to(block));
        }
        let default = edges.pop().expect("the default comes last");
        self.terminate(Terminator::Switch { index, targets: edges, default });
        for (depth, block) in order {
            self.continue_in(block);
            self.branch_to(depth, &args);
        }
        Ok(())
    }

    fn br_on_null(&mut self, depth: u32) {
        let reference = self.pop();
        let args = self.peek_many(self.label_arity(depth));
        let cond = self.value(Op::RefIsNull, &[reference], ValueType::I32);
        let then = Self::edge(self.frame(depth).label, &args);
        let next = self.new_block();
        self.terminate(Terminator::Branch { cond, then, otherwise: Edge::to(next) });
        self.continue_in(next);
        let refined = self.refine_non_null(reference);
        self.push(refined);
    }

    fn br_on_non_null(&mut self, depth: u32) {
        let reference = self.pop();
        let mut args = self.peek_many(self.label_arity(depth) - 1);
        let cond = self.value(Op::RefIsNull, &[reference], ValueType::I32);
        let (taken, next) = (self.new_block(), self.new_block());
        self.terminate(Terminator::Branch { cond, then: Edge::to(next), otherwise: Edge::to(taken) });
        self.continue_in(taken);
        args.push(self.refine_non_null(reference));
        self.branch_to(depth, &args);
        self.continue_in(next);
    }

    /// Branches if the cast succeeds (`on_success`) or if it fails.
    fn br_on_cast(&mut self, depth: u32, to: RefType, on_success: bool) {
        let reference = self.pop();
        let mut args = self.peek_many(self.label_arity(depth) - 1);
        let cond = self.value(Op::RefTest(to), &[reference], ValueType::I32);
        let (success, failure) = (self.new_block(), self.new_block());
        self.terminate(Terminator::Branch { cond, then: Edge::to(success), otherwise: Edge::to(failure) });
        let (taken, next) = if on_success { (success, failure) } else { (failure, success) };
        for block in [taken, next] {
            self.continue_in(block);
            let refined = if block == success {
                self.refine(reference, to)
            } else if to.nullable {
                // Null would have passed the test.
                self.refine_non_null(reference)
            } else {
                reference
            };
            if block == taken {
                args.push(refined);
                self.branch_to(depth, &args);
            } else {
                self.push(refined);
            }
        }
    }
}
