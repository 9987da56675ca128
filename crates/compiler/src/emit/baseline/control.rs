//! Branches, what is passed to blocks, and traps.

use cranelift_codegen::ir::{self, Block, BlockArg, BlockCall, InstructionData, Value, ValueDef};

use super::assembler::Label;
use super::conventions::Location;
use super::floats::FloatCond;
use super::operands::{Alu, Cond, Extend, Gpr, Mem, Shift, Width, Xmm};
use super::plan::Kind;
use super::registers::{CONTEXT, SCRATCH, SCRATCH_FLOAT};
use super::state::Baseline;

/// What a block is passed: where it lies now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Passed {
    Value(Value),
    Gpr(Gpr),
    Xmm(Xmm),
    /// In the frame.
    Kept(Mem),
}

impl Baseline<'_> {
    pub(super) fn label_of(&self, block: Block) -> Label {
        self.labels[block.as_u32() as usize]
    }

    fn to(&self, call: &BlockCall) -> Block {
        call.block(&self.function.dfg.value_lists)
    }

    /// Jumps to a block, if it does not come next.
    fn jump_to(&mut self, block: Block) {
        if self.next != Some(block) {
            self.asm.jump(self.label_of(block));
        }
    }

    pub(super) fn goto(&mut self, call: &BlockCall) -> Option<()> {
        self.pass(call, &[], &[])?;
        self.jump_to(self.to(call));
        Some(())
    }

    /// Whether something has to be done where an edge is taken.
    fn passes(&self, call: &BlockCall) -> bool {
        let params = self.function.dfg.block_params(self.to(call));
        params.iter().any(|&param| self.is_kept(param))
    }

    /// Whether a block's parameter is used, and is not another name of what it is passed.
    fn is_kept(&self, param: Value) -> bool {
        let planned = self.plan.value(param);
        planned.same == param && planned.home != 0
    }

    pub(super) fn branch(&mut self, condition: Value, calls: &[BlockCall; 2]) -> Option<()> {
        let [then, otherwise] = calls;
        let (then_block, otherwise_block) = (self.to(then), self.to(otherwise));
        if !self.passes(then) && (self.next != Some(then_block) || self.passes(otherwise)) {
            self.branch_if(condition, true, self.label_of(then_block))?;
            self.count_passed(then);
            return self.goto(otherwise);
        }
        if !self.passes(otherwise) {
            self.branch_if(condition, false, self.label_of(otherwise_block))?;
            self.count_passed(otherwise);
            return self.goto(then);
        }
        let other = self.asm.label();
        self.branch_if(condition, false, other)?;
        // No register is taken on either edge, so what is used for the last time stays where it is.
        self.pass(then, &[], &[])?;
        self.asm.jump(self.label_of(then_block));
        self.asm.bind(other);
        self.goto(otherwise)
    }

    /// The arguments of an edge that passes nothing have been used as well.
    fn count_passed(&mut self, call: &BlockCall) {
        debug_assert!(!self.passes(call));
        let block = self.to(call);
        if self.plan.blocks[self.plan.number(block)].entries == 1 {
            return;
        }
        for argument in call.args(&self.function.dfg.value_lists) {
            if let BlockArg::Value(value) = argument {
                self.used(value);
            }
        }
    }

    /// Jumps to a label if a value is not 0, or else if it is. The value is used.
    fn branch_if(&mut self, value: Value, is_true: bool, label: Label) -> Option<()> {
        let same = self.same(value);
        let ValueDef::Result(inst, _) = self.function.dfg.value_def(same) else {
            return self.branch_if_flags(value, is_true, label);
        };
        match self.function.dfg.insts[inst] {
            InstructionData::FloatCompare { cond, args, .. } if self.kind(same) == Kind::Condition => {
                self.used(same);
                let cond = self.compare_floats(cond, args)?;
                self.branch_if_floats(cond, is_true, label);
                Some(())
            }
            // The inverse of a comparison of floats.
            InstructionData::IntCompare { cond, args: [left, right], .. } if self.kind(same) == Kind::Condition => {
                let inner = self.same(left);
                let is_float = matches!(self.function.dfg.value_def(inner), ValueDef::Result(inst, _)
                    if matches!(self.function.dfg.insts[inst], InstructionData::FloatCompare { .. }));
                if self.kind(inner) == Kind::Condition && (is_float || self.is_inverse(inner)) {
                    self.used(same);
                    self.used(right);
                    let is_true = is_true ^ (cond == ir::condcodes::IntCC::Equal);
                    return self.branch_if(left, is_true, label);
                }
                self.branch_if_flags(value, is_true, label)
            }
            _ => self.branch_if_flags(value, is_true, label),
        }
    }

    /// Whether a condition is the inverse of another one.
    fn is_inverse(&self, condition: Value) -> bool {
        let ValueDef::Result(inst, _) = self.function.dfg.value_def(condition) else { return false };
        let InstructionData::IntCompare { args: [left, _], .. } = self.function.dfg.insts[inst] else { return false };
        self.kind(self.same(left)) == Kind::Condition
    }

    fn branch_if_flags(&mut self, value: Value, is_true: bool, label: Label) -> Option<()> {
        let cond = self.flags(value)?;
        self.asm.jump_if(if is_true { cond } else { cond.inverse() }, label);
        Some(())
    }

    fn branch_if_floats(&mut self, cond: FloatCond, is_true: bool, label: Label) {
        match (cond, is_true) {
            (FloatCond::One(cond), _) => self.asm.jump_if(if is_true { cond } else { cond.inverse() }, label),
            (FloatCond::Equal, false) | (FloatCond::NotEqual, true) => {
                self.asm.jump_if(Cond::NOT_EQUAL, label);
                self.asm.jump_if(Cond::PARITY, label);
            }
            (FloatCond::Equal, true) | (FloatCond::NotEqual, false) => {
                let unequal = self.asm.label();
                self.asm.jump_if(Cond::PARITY, unequal);
                self.asm.jump_if(Cond::EQUAL, label);
                self.asm.bind(unequal);
            }
        }
    }

    pub(super) fn trap_if(&mut self, value: Value, is_true: bool, code: ir::TrapCode) -> Option<()> {
        let label = self.trap_label(code);
        self.branch_if(value, is_true, label)
    }

    pub(super) fn branch_by_table(&mut self, value: Value, table: ir::JumpTable) -> Option<()> {
        let table = &self.function.dfg.jump_tables[table];
        let width = self.width_of(value)?;
        let register = self.gpr(value);
        self.used(value);
        // The index, zero-extended; nothing is taken from here on.
        let index = self.take_gpr();
        self.asm.mov(width, index, register);
        let count = i32::try_from(table.as_slice().len()).ok()?;
        let mut edges = Vec::new();
        let default = self.edge_label(&table.default_block(), &mut edges);
        let entries = table.as_slice().iter().map(|call| self.edge_label(call, &mut edges)).collect();
        self.asm.alu_number(Alu::Cmp, width, index, count);
        self.asm.jump_if(Cond::ABOVE_EQUAL, default);
        let start = self.asm.label();
        self.asm.shift_by(Shift::Shl, Width::W64, index, 2);
        self.asm.address_of(SCRATCH, start);
        self.asm.extend(Width::W64, Extend::Sign32, index, Mem { base: SCRATCH, index: Some(index), offset: 0 });
        self.jump_by(start, index, entries, edges)
    }

    fn jump_by(&mut self, start: Label, index: Gpr, entries: Vec<Label>, edges: Vec<(Label, BlockCall)>) -> Option<()> {
        self.asm.alu(Alu::Add, Width::W64, index, SCRATCH);
        self.asm.call_or_jump_to(false, index);
        self.tables.push((start, entries));
        for (label, call) in edges {
            self.asm.bind(label);
            self.pass(&call, &[], &[])?;
            self.asm.jump(self.label_of(self.to(&call)));
        }
        Some(())
    }

    /// Where an edge begins: at the block, unless something is passed.
    fn edge_label(&mut self, call: &BlockCall, edges: &mut Vec<(Label, BlockCall)>) -> Label {
        if !self.passes(call) {
            self.count_passed(call);
            return self.label_of(self.to(call));
        }
        let label = self.asm.label();
        edges.push((label, *call));
        label
    }

    /// Puts what an edge passes where the block finds it. `returned` and `caught`: where the results of a call are, and
    /// what an exception brings. No register changes that holds a value.
    pub(super) fn pass(&mut self, call: &BlockCall, returned: &[Location], caught: &[Gpr]) -> Option<()> {
        let dfg = &self.function.dfg;
        let block = self.to(call);
        if self.plan.blocks[self.plan.number(block)].entries == 1 && returned.is_empty() && caught.is_empty() {
            return Some(());
        }
        let mut moves: Vec<(Value, Passed)> = Vec::new();
        for (&param, argument) in dfg.block_params(block).iter().zip(call.args(&dfg.value_lists)) {
            let is_alias = self.plan.value(param).same != param;
            let passed = match argument {
                BlockArg::Value(_) if is_alias => continue,
                BlockArg::Value(value) => Passed::Value(self.same(value)),
                BlockArg::TryCallRet(number) => match *returned.get(number as usize)? {
                    Location::Gpr(register) => Passed::Gpr(register),
                    Location::Xmm(register) => Passed::Xmm(register),
                    Location::Stack(_) => return None,
                },
                BlockArg::TryCallExn(number) => Passed::Gpr(*caught.get(number as usize)?),
            };
            let goes_nowhere = !self.is_kept(param) || passed == Passed::Value(param);
            if goes_nowhere {
                if let BlockArg::Value(value) = argument {
                    self.used(value);
                }
                continue;
            }
            moves.push((param, passed));
        }
        self.pass_all(moves)
    }

    fn pass_all(&mut self, mut moves: Vec<(Value, Passed)>) -> Option<()> {
        while !moves.is_empty() {
            // A home is written to when nothing is still to be read there.
            let is_read = |home: Option<Mem>, moves: &[(Value, Passed)], writer: usize| {
                moves.iter().enumerate().any(|(number, &(_, passed))| {
                    number != writer
                        && match passed {
                            Passed::Value(value) => self.reads_home(value) && self.home(value) == home,
                            Passed::Kept(place) => Some(place) == home,
                            _ => false,
                        }
                })
            };
            let ready = (0..moves.len()).find(|&number| !is_read(self.home(moves[number].0), &moves, number));
            match ready {
                Some(number) => {
                    let (param, passed) = moves.swap_remove(number);
                    self.pass_one(param, passed);
                }
                None => {
                    // A circle: what the first one is to overwrite is put aside.
                    let home = self.home(moves[0].0)?;
                    self.spilled += 8;
                    self.most_spilled = self.most_spilled.max(self.spilled);
                    let aside = Mem { offset: -(self.plan.frame + self.spilled), ..home };
                    self.asm.mov(Width::W64, SCRATCH, home);
                    self.asm.store(8, aside, SCRATCH);
                    for (_, passed) in &mut moves {
                        let Passed::Value(value) = *passed else { continue };
                        if self.reads_home(value) && self.home(value) == Some(home) {
                            self.used(value);
                            *passed = Passed::Kept(aside);
                        }
                    }
                }
            }
        }
        Some(())
    }

    /// Whether a value is read from its home, as no register holds it.
    fn reads_home(&self, value: Value) -> bool {
        self.kind(value) == Kind::Made && self.registers.gpr(value).is_none() && self.registers.xmm(value).is_none()
    }

    fn pass_one(&mut self, param: Value, passed: Passed) {
        let Some(home) = self.home(param) else { unreachable!("what edges pass has a home") };
        let float = self.is_float(param).then(|| self.float_of(param));
        match passed {
            Passed::Gpr(register) => self.asm.store(8, home, register),
            Passed::Xmm(register) => self.asm.store_float(self.float_of(param), home, register),
            Passed::Kept(place) => {
                self.asm.mov(Width::W64, SCRATCH, place);
                self.asm.store(8, home, SCRATCH);
            }
            Passed::Value(value) => {
                match (self.kind(value), float) {
                    (Kind::Number(number), _) => match i32::try_from(number) {
                        Ok(number) => self.asm.store_number(8, home, number),
                        Err(_) => {
                            self.asm.number(SCRATCH, number);
                            self.asm.store(8, home, SCRATCH);
                        }
                    },
                    (Kind::Context, _) => self.asm.store(8, home, CONTEXT),
                    (Kind::Stack(offset), _) => {
                        self.asm.address(Width::W64, SCRATCH, Mem { offset, ..home });
                        self.asm.store(8, home, SCRATCH);
                    }
                    (_, Some(float)) => {
                        let register = self.registers.xmm(value).unwrap_or(SCRATCH_FLOAT);
                        if register == SCRATCH_FLOAT {
                            let from = self.home(value).expect("a value that is used is somewhere");
                            self.asm.load_float(float, register, from);
                        }
                        self.asm.store_float(float, home, register);
                    }
                    (_, None) => {
                        let register = self.registers.gpr(value).unwrap_or(SCRATCH);
                        if register == SCRATCH {
                            let from = self.home(value).expect("a value that is used is somewhere");
                            self.asm.mov(Width::W64, register, from);
                        }
                        self.asm.store(8, home, register);
                    }
                }
                self.used(value);
            }
        }
    }
}
