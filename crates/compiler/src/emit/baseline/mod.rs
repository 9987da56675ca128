//! Baseline code: machine code for x86-64 made of Cranelift IR in one pass, for the quick tier.
//!
//! Cranelift's own back end selects instructions, allocates registers and emits code in passes of their own: most of
//! the time that the quick tier took, for code that hardly runs. Here each instruction becomes code as it comes. A
//! value that several blocks use lies in the frame, from where it is computed on; within a block, registers hold what
//! was computed or loaded there. Comparisons are made where they are branched on, sums of addresses where memory is
//! accessed.
//!
//! It is the code of the same IR, after the same checks: all that is Legato's (barriers, safepoints, layouts) has been
//! lowered before. The calling conventions are Cranelift's, so each calls the other. What is rare here (vectors,
//! results in memory) is left to Cranelift: [`compile`] gives back nothing then.
//!
//! | | |
//! |---|---|
//! | `operands`, `assembler` | registers and the like; forms of instructions, labels |
//! | `conventions` | where calls pass values |
//! | `plan` | what is known before code is made |
//! | `state`, `registers` | the function whose code is made, what registers hold |
//! | `integers`, `floats`, `memory`, `control`, `calls` | instructions |

mod assembler;
mod calls;
mod control;
mod conventions;
mod floats;
mod integers;
mod memory;
mod operands;
mod plan;
mod registers;
mod state;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

use cranelift_codegen::ir::{self, Block, Function, InstructionData, Opcode};

use self::assembler::{Assembler, Label};
use self::conventions::{Location, Locations};
use self::operands::{Alu, Mem, RBP, RDI, RSP, Width};
use self::plan::{Plan, aligned};
use self::registers::{CONTEXT, Registers};
pub(super) use self::state::Features;
use self::state::{Baseline, OTHERS, RETURN_ADDRESS, SAVED, SAVED_FOR_HANDLERS};
use super::code::{FunctionCode, trap_code};

/// Compiles a function whose IR is whole. `None` if something in it is left to Cranelift.
pub(super) fn compile(function: &Function, features: Features) -> Option<FunctionCode> {
    let has_handlers = !function.dfg.exception_tables.is_empty();
    let context_home = has_handlers.then_some(SAVED_FOR_HANDLERS - 8 * OTHERS.len() as i32);
    let plan = Plan::new(function, -context_home.unwrap_or(SAVED))?;
    let mut asm = Assembler::default();
    let labels = (0..function.dfg.num_blocks()).map(|_| asm.label()).collect();
    let baseline = Baseline {
        function,
        features,
        registers: Registers::new(function.dfg.num_values()),
        plan,
        asm,
        labels,
        next: None,
        context_home,
        spilled: 0,
        most_spilled: 0,
        most_arguments: 0,
        arguments: 0,
        traps: Vec::new(),
        tables: Vec::new(),
        source: ir::SourceLoc::default(),
        code: FunctionCode { index: u32::MAX, alignment: 16, ..FunctionCode::default() },
    };
    baseline.function()
}

impl Baseline<'_> {
    fn function(mut self) -> Option<FunctionCode> {
        let function = self.function;
        // Cold blocks lie behind the others.
        let reached = |block: &Block| self.plan.is_reached(*block);
        let (mut order, cold): (Vec<_>, Vec<_>) =
            function.layout.blocks().filter(reached).partition(|&block| !function.layout.is_cold(block));
        order.extend(cold);
        let frame_size = self.prologue()?;
        let mut falls_through = true;
        for (position, &block) in order.iter().enumerate() {
            self.next = order.get(position + 1).copied();
            self.asm.bind(self.labels[block.as_u32() as usize]);
            // What registers hold where one block alone leads here, and lies before it, they hold here.
            if !falls_through || position > 0 && self.plan.blocks[self.plan.number(block)].entries != 1 {
                self.registers.forget();
            }
            let last = function.layout.last_inst(block)?;
            for inst in function.layout.block_insts(block) {
                if self.plan.is_left_out(inst) {
                    continue;
                }
                self.source_is(function.srcloc(inst));
                self.inst(inst)?;
                self.registers.unlock();
            }
            self.spilled = 0;
            falls_through = self.next.is_some_and(|next| {
                let to = function.dfg.insts[last]
                    .branch_destination(&function.dfg.jump_tables, &function.dfg.exception_tables);
                !function.dfg.insts[last].opcode().is_call()
                    && to.iter().any(|to| to.block(&function.dfg.value_lists) == next)
            });
        }
        Some(self.finish(frame_size))
    }

    /// Takes the frame, whose size is not known yet: gives back where it is to be written.
    fn prologue(&mut self) -> Option<u32> {
        let function = self.function;
        Locations::of_results(&function.signature)?;
        let params = Locations::of_arguments(&function.signature)?;
        self.arguments = u16::try_from(params.stack_bytes).ok()?;
        self.asm.enter();
        // A number of four bytes.
        self.asm.alu_number(Alu::Sub, Width::W64, RSP, i32::MAX);
        let frame_size = self.asm.offset() - 4;
        self.asm.store(8, Mem::at(RBP, SAVED), CONTEXT);
        self.asm.copy(CONTEXT, RDI);
        if let Some(home) = self.context_home {
            self.asm.store(8, Mem::at(RBP, home), CONTEXT);
            for (number, register) in OTHERS.into_iter().enumerate() {
                self.asm.store(8, Mem::at(RBP, SAVED_FOR_HANDLERS - 8 * number as i32), register);
            }
        }
        let entry = self.plan.blocks.first()?;
        if entry.entries != 0 || Some(entry.block) != function.layout.entry_block() {
            return None;
        }
        let values = function.dfg.block_params(entry.block);
        // What has come in registers first: what comes from the stack takes some.
        for (&value, &location) in values.iter().zip(&params.each).skip(1) {
            match location {
                Location::Gpr(register) => self.define_gpr(value, register),
                Location::Xmm(register) => self.define_xmm(value, register),
                Location::Stack(_) => {}
            }
        }
        for (&value, &location) in values.iter().zip(&params.each).skip(1) {
            let Location::Stack(offset) = location else { continue };
            if self.plan.value(value).uses == 0 {
                continue;
            }
            let from = Mem::at(RBP, RETURN_ADDRESS + 8 + offset);
            if self.is_float(value) {
                let register = self.take_xmm();
                self.asm.load_float(self.float_of(value), register, from);
                self.define_xmm(value, register);
            } else {
                let register = self.take_gpr();
                self.asm.mov(Width::W64, register, from);
                self.define_gpr(value, register);
            }
            self.registers.unlock();
        }
        Some(frame_size)
    }

    fn finish(mut self, frame_size: u32) -> FunctionCode {
        let frame = aligned(self.plan.frame + self.most_spilled + self.most_arguments, 16);
        for trap in std::mem::take(&mut self.traps) {
            self.source_is(trap.source);
            self.asm.bind(trap.label);
            self.code.traps.push((self.asm.offset(), trap_code(trap.code)));
            self.asm.undefined();
        }
        for (table, entries) in std::mem::take(&mut self.tables) {
            self.asm.bind(table);
            entries.into_iter().for_each(|entry| self.asm.entry(table, entry));
        }
        self.asm.resolve();
        self.asm.code[frame_size as usize..][..4].copy_from_slice(&frame.to_le_bytes());
        for site in &mut self.code.call_sites {
            site.sp_distance = frame as u32;
            site.context_offset = (frame + self.context_home.unwrap_or_default()) as u32;
            for (_, landing) in &mut site.handlers {
                *landing = self.asm.place_of(Label::numbered(*landing));
            }
        }
        self.code.frame_bytes = frame as u32;
        self.code.bytes = self.asm.code;
        self.code
    }

    /// Code for one instruction.
    fn inst(&mut self, inst: ir::Inst) -> Option<()> {
        let function = self.function;
        match function.dfg.insts[inst] {
            InstructionData::Binary { opcode, args } => self.binary(inst, opcode, args),
            InstructionData::Unary { opcode, arg } => self.unary(inst, opcode, arg),
            InstructionData::IntCompare { .. } | InstructionData::FloatCompare { .. } => {
                let result = function.dfg.first_result(inst);
                self.comparison(inst, result)
            }
            InstructionData::Ternary { opcode: Opcode::Select, args } => self.select(inst, args),
            InstructionData::Load { opcode, arg, flags, offset } => {
                self.load(inst, opcode, arg, function.dfg.mem_flags[flags].trap_code(), offset.into())
            }
            InstructionData::Store { opcode, args, flags, offset } => {
                self.store(opcode, args, function.dfg.mem_flags[flags].trap_code(), offset.into())
            }
            InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg, .. } => self.bitcast(inst, arg),
            InstructionData::NullAry { opcode: Opcode::GetStackPointer } => {
                let register = self.take_gpr();
                self.asm.copy(register, RSP);
                self.define_gpr(function.dfg.first_result(inst), register);
                Some(())
            }
            InstructionData::NullAry { opcode: Opcode::Nop } => Some(()),
            InstructionData::Jump { destination, .. } => self.goto(&destination),
            InstructionData::Brif { arg, blocks, .. } => self.branch(arg, &blocks),
            InstructionData::BranchTable { arg, table, .. } => self.branch_by_table(arg, table),
            InstructionData::Trap { opcode: Opcode::Trap, code } => {
                self.code.traps.push((self.asm.offset(), trap_code(code)));
                self.asm.undefined();
                Some(())
            }
            InstructionData::CondTrap { opcode, arg, code } => self.trap_if(arg, opcode == Opcode::Trapnz, code),
            InstructionData::MultiAry { opcode: Opcode::Return, .. } => self.return_(inst),
            InstructionData::Call { opcode, func_ref, .. } => self.call(inst, opcode, Some(func_ref)),
            InstructionData::CallIndirect { opcode, .. } => self.call(inst, opcode, None),
            InstructionData::TryCall { func_ref, exception, .. } => self.try_call(inst, Some(func_ref), exception),
            InstructionData::TryCallIndirect { exception, .. } => self.try_call(inst, None, exception),
            _ => None,
        }
    }
}
