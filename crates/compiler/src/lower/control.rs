//! Control flow: terminators.

use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, JumpTableData, Opcode};

use super::Lowering;
use super::access::trap;
use crate::mir::{Block, BlockData, Callee, Edge, Op, Terminator, Value, ValueDef};
use crate::passes::analysis::SafepointKey;

impl Lowering<'_, '_> {
    pub(super) fn terminator(&mut self, block: Block, data: &BlockData) {
        let key = SafepointKey::Terminator(block);
        match data.terminator.as_ref().expect("a finished block") {
            Terminator::Jump(edge) => {
                let (target, args) = self.edge(edge);
                self.b.ins().jump(target, &args);
            }
            Terminator::Branch { cond, then, otherwise } => match self.guards.at_end(block) {
                Some(guard) => self.branch_on_guard(guard, then, otherwise),
                None => self.branch(block, *cond, then, otherwise),
            },
            Terminator::Switch { index, targets, default } => {
                let index = self.value(*index);
                let default = self.block_call(default);
                let targets: Vec<_> = targets.iter().map(|edge| self.block_call(edge)).collect();
                let table = self.b.create_jump_table(JumpTableData::new(default, &targets));
                self.b.ins().br_table(index, table);
            }
            Terminator::Return(values) => {
                let values = self.value_list(values);
                self.b.ins().return_(&values);
            }
            Terminator::TailCall { callee: Callee::Osr(code), args } => self.replace_frame(*code, args),
            Terminator::TailCall { callee, args } => self.tail_call(callee, args),
            Terminator::TryCall { callee, args, normal, handlers } => {
                self.try_call(callee, args, normal, handlers, key)
            }
            Terminator::Throw { exception, handlers } => self.throw(*exception, handlers, key),
            Terminator::Trap(code) => {
                // Costs nothing, and has the block be more than a trap. The mid-end would make the branches to it
                // conditional traps, which were said to come from where the branches do.
                self.b.ins().nop();
                self.b.ins().trap(trap(*code));
            }
        }
    }

    fn branch(&mut self, block: Block, cond: Value, then: &Edge, otherwise: &Edge) {
        if let ValueDef::Result(inst, _) = self.mir.values[self.mir.resolve(cond).index()].def
            && self.fused_tests[inst.index()]
        {
            let data = &self.mir.insts[inst.index()];
            let Op::RefTest(target) = data.op else { unreachable!("only type tests are fused") };
            return self.branch_on_test(data.args[0], target, then, otherwise);
        }
        let cond = self.value(cond);
        let (then, then_args) = self.edge(then);
        let (otherwise, otherwise_args) = self.edge(otherwise);
        if self.leaves_otherwise[block.index()] {
            let cond = self.negated(cond);
            self.b.ins().brif(cond, otherwise, &otherwise_args, then, &then_args);
        } else {
            self.b.ins().brif(cond, then, &then_args, otherwise, &otherwise_args);
        }
    }

    /// What is not zero where a condition is. A comparison is made once more the other way round, if it has been made
    /// in this block and nothing was called since: what it compares may be something else by now, or in no register.
    fn negated(&mut self, condition: ir::Value) -> ir::Value {
        let function = &self.b.func;
        let inst_of = |value: ir::Value| function.dfg.value_def(value).inst();
        let compared = inst_of(condition).and_then(|inst| match function.dfg.insts[inst] {
            InstructionData::Unary { opcode: Opcode::Uextend, arg } => inst_of(arg),
            _ => Some(inst),
        });
        let is_recent = |&inst: &ir::Inst| {
            let mut later = std::iter::successors(Some(inst), |&inst| function.layout.next_inst(inst));
            function.layout.inst_block(inst) == self.b.current_block()
                && !later.any(|inst| function.dfg.insts[inst].opcode().is_call())
        };
        match compared.filter(is_recent).map(|inst| function.dfg.insts[inst]) {
            Some(InstructionData::IntCompare { cond, args: [x, y], .. }) => self.b.ins().icmp(cond.complement(), x, y),
            Some(InstructionData::FloatCompare { cond, args: [x, y], .. }) => {
                self.b.ins().fcmp(cond.complement(), x, y)
            }
            _ => self.b.ins().icmp_imm_u(IntCC::Equal, condition, 0),
        }
    }

    /// The target of an edge and the arguments for its block.
    pub(super) fn edge(&mut self, edge: &Edge) -> (ir::Block, Vec<ir::BlockArg>) {
        let args = edge.args.iter().map(|&arg| self.argument(arg).into()).collect();
        (self.target(edge.block), args)
    }

    /// A value as it is passed to a MIR block.
    pub(super) fn argument(&mut self, arg: Value) -> ir::Value {
        let value = self.value(arg);
        self.passed(self.mir.value_type(self.mir.resolve(arg)), value)
    }

    fn block_call(&mut self, edge: &Edge) -> ir::BlockCall {
        let (block, args) = self.edge(edge);
        self.block_call_with(block, args)
    }

    pub(super) fn block_call_with(&mut self, block: ir::Block, args: Vec<ir::BlockArg>) -> ir::BlockCall {
        ir::BlockCall::new(block, args, &mut self.b.func.dfg.value_lists)
    }
}
