//! The state of lowering one function, and what every part of lowering asks of it.

use cranelift_codegen::ir::{self, AliasRegion, InstBuilder, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use rustc_hash::FxHashMap;

use super::env::{ModuleEnv, POINTER, Symbol, clif_type};
use super::located::{HeldLocations, LocatedObjects};
use super::made::{Bases, BasesAtEnds, Made, MadeValues};
use super::verify::Notes;
use crate::mir::{self, Constant, Op, ValueDef};
use crate::module::{TypeIndex, ValueType};
use crate::passes::analysis::{Guards, MergedChecks, RootPlan, StripPlan};
use crate::passes::constant;

/// What holds a strip.
#[derive(Clone, Copy)]
pub(super) struct StripVariables {
    /// Element `i` lies at this address and `i` times the size.
    pub(super) base: Variable,
    /// The first index behind the strip, or, if that is downward, the last one before it, -1 included; 32 bits.
    pub(super) end: Variable,
}

/// The state of lowering one function.
pub(crate) struct Lowering<'a, 'b> {
    pub(super) env: &'a ModuleEnv<'a>,
    pub(super) mir: &'a mir::Function,
    pub(super) b: FunctionBuilder<'b>,
    /// Allocates inline (otherwise by calls, which makes for fewer blocks).
    pub(super) inline_allocation: bool,
    /// Whether blocks that are not cold allocate inline.
    pub(super) may_allocate_inline: bool,
    /// Copies few elements inline.
    pub(super) copies_inline: bool,
    /// Whether blocks that are not cold copy few elements inline.
    pub(super) may_copy_inline: bool,
    /// Stores references by calls, where they have a barrier.
    pub(super) stores_by_calls: bool,
    /// Stores of references to functions that the next call makes, with their words: see [`FunctionStore`].
    ///
    /// [`FunctionStore`]: crate::abi::FunctionStore
    pub(super) function_stores: Vec<(mir::Inst, u64)>,
    /// The instance context.
    pub(super) context: ir::Value,
    /// For each MIR value its Cranelift value, once lowered.
    pub(super) values: Vec<Option<ir::Value>>,
    /// For each reference, or offset of an object, that was made from its 64-bit form: that form.
    pub(super) wide: FxHashMap<ir::Value, ir::Value>,
    /// For each reachable MIR block its first Cranelift block, but for an entry that continues the first one.
    pub(super) blocks: Vec<Option<ir::Block>>,
    /// References that the collector must find.
    pub(super) roots: RootPlan,
    /// For each reference that changes at safepoints its variable, once defined.
    pub(super) variables: Vec<Option<Variable>>,
    /// The stack slot that holds them.
    pub(super) root_slot: Option<ir::StackSlot>,
    /// Walks through arrays, with what holds them, and those in use in the current block.
    pub(super) strips: StripPlan,
    pub(super) strip_variables: Vec<StripVariables>,
    pub(super) active_strips: std::ops::Range<usize>,
    /// Inline lengths read in this block where all that follows is reached through, by array.
    pub(super) read_lengths: FxHashMap<ir::Value, ir::Value>,
    /// Bounds checks that are left to accesses.
    pub(super) checks: MergedChecks,
    /// The program's own bounds checks that lead to accesses.
    pub(super) guards: Guards,
    /// For each MIR block whether its branch leaves a loop where it does not hold.
    pub(super) leaves_otherwise: Vec<bool>,
    /// Alias regions, by number.
    pub(super) regions: FxHashMap<u32, AliasRegion>,
    /// Values that lowering has made for its own use.
    pub(super) made: MadeValues,
    /// The base addresses that are known here, and at the ends of blocks.
    pub(super) bases: Bases,
    pub(super) bases_at_ends: BasesAtEnds,
    /// Objects allocated in this block since the last safepoint.
    pub(super) fresh: Vec<mir::Value>,
    /// Where objects lie by what references have led to since the last safepoint.
    pub(super) located: LocatedObjects,
    /// Where objects lie that loops hold.
    pub(super) held: HeldLocations,
    /// Within a block that is not always reached, whose values reach nothing behind it.
    pub(super) cold: bool,
    /// Signatures and functions declared so far.
    pub(super) signatures: FxHashMap<TypeIndex, ir::SigRef>,
    pub(super) functions: FxHashMap<Symbol, ir::FuncRef>,
    /// For each MIR instruction whether it is a type test that its block's branch performs (see [`control`]).
    pub(super) fused_tests: Vec<bool>,
    /// For each MIR instruction whether it makes an exception that its block's throw makes.
    pub(super) fused_throws: Vec<bool>,
    /// For each MIR instruction whether it is a constant or a reference to a function, or reads a global, that is made
    /// where it is used instead.
    pub(super) late_values: Vec<bool>,
    /// What the checker wants to know, where it is on.
    pub(super) notes: Option<Box<Notes>>,
}

impl Lowering<'_, '_> {
    /// The Cranelift value of a MIR value, as of now: a reference may have changed at a safepoint. Panics where its
    /// definition does not dominate: MIR's verifier rules that out.
    pub(super) fn value(&mut self, value: mir::Value) -> ir::Value {
        let resolved = self.mir.resolve(value);
        let found = self.current_value(resolved);
        self.note_held(resolved, found);
        found
    }

    fn current_value(&mut self, resolved: mir::Value) -> ir::Value {
        if let Some(number) = self.roots.reference(resolved)
            && let Some(variable) = self.variables[number as usize]
        {
            let wide = self.b.use_var(variable);
            return self.narrow(wide);
        }
        if let Some(late) = self.late_value(resolved) {
            return late;
        }
        self.values[resolved.index()].unwrap_or_else(|| panic!("value {} is used before it is defined", resolved.0))
    }

    /// Makes a value that is not made where MIR makes it: a constant, a reference to a function, or what an immutable
    /// global holds.
    fn late_value(&mut self, value: mir::Value) -> Option<ir::Value> {
        let ValueDef::Result(inst, _) = self.mir.values[value.index()].def else { return None };
        if !self.late_values[inst.index()] {
            return None;
        }
        let made = match self.mir.insts[inst.index()].op {
            Op::GlobalGet(global) => self.global_get(global),
            Op::Const(constant) => self.constant(constant),
            Op::RefFunc(function) => self.ref_func(function),
            _ => return None,
        };
        self.values[value.index()] = Some(made);
        self.note_value(value);
        Some(made)
    }

    pub(super) fn value_list(&mut self, values: &[mir::Value]) -> Vec<ir::Value> {
        values.iter().map(|&value| self.value(value)).collect()
    }

    pub(super) fn clif_block(&self, block: mir::Block) -> ir::Block {
        self.blocks[block.index()].expect("a reachable block")
    }

    /// The Cranelift block that an edge from here to a MIR block leads to.
    pub(super) fn target(&self, block: mir::Block) -> ir::Block {
        self.held.in_front(block).unwrap_or_else(|| self.clif_block(block))
    }

    /// The reference, or offset of an object, whose zero-extended form is given. Addresses are computed from that form:
    /// what is loaded with it, passed to blocks with it and kept in variables with it is never extended again.
    pub(super) fn narrow(&mut self, wide: ir::Value) -> ir::Value {
        if let Some(narrow) = self.extended(wide) {
            self.note_made(Made::Wide, narrow, wide);
            return narrow;
        }
        let narrow = self.b.ins().ireduce(types::I32, wide);
        self.wide.insert(narrow, wide);
        narrow
    }

    /// What a value is the zero-extended form of, if it has been made from that.
    fn extended(&self, wide: ir::Value) -> Option<ir::Value> {
        let function = &self.b.func.dfg;
        let ir::InstructionData::Unary { opcode: ir::Opcode::Uextend, arg } =
            function.insts[function.value_def(wide).inst()?]
        else {
            return None;
        };
        (function.value_type(arg) == types::I32).then_some(arg)
    }

    /// The zero-extended form of a reference, or of the offset of an object.
    pub(super) fn widen(&mut self, narrow: ir::Value) -> ir::Value {
        match self.wide.get(&narrow) {
            Some(&wide) => wide,
            None => self.made(Made::Wide, narrow, |l| l.b.ins().uextend(POINTER, narrow)),
        }
    }

    /// The type of a parameter of a MIR block of type `ty`.
    pub(super) fn passed_type(ty: ValueType) -> ir::Type {
        if matches!(ty, ValueType::Ref(_)) { POINTER } else { clif_type(ty) }
    }

    /// A value of type `ty` as it is passed to a MIR block.
    pub(super) fn passed(&mut self, ty: ValueType, value: ir::Value) -> ir::Value {
        if matches!(ty, ValueType::Ref(_)) { self.widen(value) } else { value }
    }

    /// The value of type `ty` that has been passed to a MIR block by this parameter.
    pub(super) fn received(&mut self, ty: ValueType, param: ir::Value) -> ir::Value {
        if matches!(ty, ValueType::Ref(_)) { self.narrow(param) } else { param }
    }

    /// A 0 or 1, of whatever width, as `i32`.
    pub(super) fn boolean(&mut self, condition: ir::Value) -> ir::Value {
        if self.b.func.dfg.value_type(condition) == types::I32 {
            return condition;
        }
        self.b.ins().uextend(types::I32, condition)
    }

    /// The constant that defines a value, if one does.
    pub(super) fn constant_of(&self, value: mir::Value) -> Option<Constant> {
        constant(self.mir, self.mir.resolve(value))
    }
}
