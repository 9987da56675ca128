//! The state of making the code of one function, and what all instructions ask of it.

use cranelift_codegen::ir::{self, Block, Function, Value};
use cranelift_codegen::isa::TargetIsa;

use super::assembler::{Assembler, Label};
use super::operands::{Gpr, Mem, R12, R13, R14, R15, RBP, Width};
use super::plan::{Kind, Plan};
use super::registers::{CONTEXT, Registers};
use crate::emit::code::FunctionCode;

/// What the processor has of the instructions that not all have.
#[derive(Clone, Copy, Debug)]
pub(in crate::emit) struct Features {
    pub(super) counts_leading: bool,
    pub(super) counts_trailing: bool,
    pub(super) counts_ones: bool,
    pub(super) rounds: bool,
}

impl Features {
    /// The features of a processor; `None` if baseline code is not for it.
    pub(in crate::emit) fn of(isa: &dyn TargetIsa) -> Option<Features> {
        if isa.name() != "x64" {
            return None;
        }
        let flags = isa.isa_flags();
        let has = |name: &str| flags.iter().any(|flag| flag.name == name && flag.as_bool() == Some(true));
        Some(Features {
            counts_leading: has("has_lzcnt"),
            counts_trailing: has("has_bmi1"),
            counts_ones: has("has_popcnt"),
            rounds: has("has_sse41"),
        })
    }
}

/// A trap that lies behind the code.
pub(super) struct Trap {
    pub(super) label: Label,
    pub(super) code: ir::TrapCode,
    pub(super) source: ir::SourceLoc,
}

/// A function whose code is made.
pub(super) struct Baseline<'a> {
    pub(super) function: &'a Function,
    pub(super) features: Features,
    pub(super) plan: Plan,
    pub(super) asm: Assembler,
    pub(super) registers: Registers,
    /// For each block where its code begins.
    pub(super) labels: Vec<Label>,
    /// The block whose code comes next.
    pub(super) next: Option<Block>,
    /// Where the context lies in the frame, for landing pads.
    pub(super) context_home: Option<i32>,
    /// Bytes of the frame that values of this block take, and those of any block.
    pub(super) spilled: i32,
    pub(super) most_spilled: i32,
    /// Bytes of arguments that calls take from the stack.
    pub(super) most_arguments: i32,
    /// Bytes of arguments that this function takes from it.
    pub(super) arguments: u16,
    pub(super) traps: Vec<Trap>,
    pub(super) tables: Vec<(Label, Vec<Label>)>,
    /// The source of the instruction that code is made for.
    pub(super) source: ir::SourceLoc,
    pub(super) code: FunctionCode,
}

/// The frame's first word, where the caller's [`CONTEXT`] register lies.
pub(super) const SAVED: i32 = -8;
/// Where the caller's other registers lie, from the first one down, in functions with handlers: what an exception has
/// come through has not restored them.
pub(super) const SAVED_FOR_HANDLERS: i32 = 2 * SAVED;
pub(super) const OTHERS: [Gpr; 4] = [R12, R13, R14, R15];
/// Where the return address lies; above are arguments.
pub(super) const RETURN_ADDRESS: i32 = 8;

impl Baseline<'_> {
    /// The value that stands for one.
    pub(super) fn same(&self, value: Value) -> Value {
        self.plan.same(self.function, value)
    }

    pub(super) fn kind(&self, value: Value) -> Kind {
        self.plan.value(value).kind
    }

    pub(super) fn is_float(&self, value: Value) -> bool {
        self.function.dfg.value_type(value).is_float()
    }

    /// The number that a value is, as far as `width` goes, with its sign.
    pub(super) fn number(&self, value: Value, width: Width) -> Option<i64> {
        match (self.kind(self.same(value)), width) {
            (Kind::Number(number), Width::W64) => Some(number),
            (Kind::Number(number), Width::W32) => Some(i64::from(number as i32)),
            _ => None,
        }
    }

    /// Notes that the code from here on is that of another instruction.
    pub(super) fn source_is(&mut self, source: ir::SourceLoc) {
        if !source.is_default() && self.source != source {
            self.code.addresses.push((self.asm.offset(), source.bits()));
        }
        self.source = source;
    }

    /// Loads what the caller's registers held.
    pub(super) fn restore(&mut self) {
        self.asm.mov(Width::W64, CONTEXT, Mem::at(RBP, SAVED));
        if self.context_home.is_some() {
            for (number, register) in OTHERS.into_iter().enumerate() {
                self.asm.mov(Width::W64, register, Mem::at(RBP, SAVED_FOR_HANDLERS - 8 * number as i32));
            }
        }
    }

    /// Where control goes if `code` is raised here, and what trapped is known by.
    pub(super) fn trap_label(&mut self, code: ir::TrapCode) -> Label {
        let label = self.asm.label();
        self.traps.push(Trap { label, code, source: self.source });
        label
    }
}
