//! MIR to Cranelift IR: the one place that reads the heap's [`AccessPlan`](legato_heap::AccessPlan).
//!
//! One file for each value of an axis (`references/`, `arrays/`) and for each group of operations. The driver here
//! walks the blocks in reverse post-order, so that every value is lowered before its uses; an operation may split its
//! block.

mod access;
mod allocation;
mod arrays;
mod barrier;
mod builtins;
mod calls;
mod casts;
mod checks;
mod control;
pub(crate) mod env;
mod exceptions;
mod globals;
mod guards;
mod memory;
mod numeric;
mod poll;
mod references;
mod roots;
mod safepoints;
mod strips;
mod structs;
mod tables;
mod verify;
pub(crate) mod versions;

use cranelift_codegen::ir::{self, AliasRegion, InstBuilder, SourceLoc, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};
use rustc_hash::FxHashMap;

use self::access::REGIONS;
use self::arrays::StripVariables;
use self::checks::MergedChecks;
use self::env::{ModuleEnv, clif_type, wasm_signature};
use self::guards::Guards;
use self::roots::{RootPlan, SafepointKey};
use self::strips::StripPlan;
use self::verify::Notes;
use crate::mir::{self, Constant, Op};
use crate::module::TypeIndex;

/// A function with more instructions than this is compiled for compile time, not for speed: such functions initialise
/// globals and run once.
const LARGE_FUNCTION: usize = 12_000;

/// A function with more allocations than this makes them by calls: each inline one splits its block in five, and the
/// time of register allocation grows faster than the number of blocks.
const MOST_INLINE_ALLOCATIONS: usize = 400;

/// Whether a function is to be compiled for compile time rather than for speed.
pub(crate) fn is_large(function: &mir::Function) -> bool {
    function.insts.len() > LARGE_FUNCTION
}

/// The state of lowering one function.
pub(crate) struct Lowering<'a, 'b> {
    env: &'a ModuleEnv<'a>,
    mir: &'a mir::Function,
    b: FunctionBuilder<'b>,
    /// Allocates inline (otherwise by calls, which makes for fewer blocks).
    inline_allocation: bool,
    /// The instance context.
    context: ir::Value,
    /// For each MIR value its Cranelift value, once lowered.
    values: Vec<Option<ir::Value>>,
    /// For each reachable MIR block its first Cranelift block.
    blocks: Vec<Option<ir::Block>>,
    /// References that the collector must find.
    roots: RootPlan,
    /// For each reference that changes at safepoints its variable, once defined.
    variables: Vec<Option<Variable>>,
    /// The stack slot that holds them.
    root_slot: Option<ir::StackSlot>,
    /// Walks through arrays, with what holds them, and those in use in the current block.
    strips: StripPlan,
    strip_variables: Vec<StripVariables>,
    active_strips: std::ops::Range<usize>,
    /// Inline lengths read in this block where all that follows is reached through, by array.
    read_lengths: FxHashMap<ir::Value, ir::Value>,
    /// Bounds checks that are left to accesses.
    checks: MergedChecks,
    /// The program's own bounds checks that lead to accesses.
    guards: Guards,
    /// Alias regions, by number.
    regions: [Option<AliasRegion>; REGIONS],
    /// Base addresses loaded in this stretch of code.
    bases: [Option<ir::Value>; 3],
    /// Objects allocated in this block since the last safepoint.
    fresh: Vec<mir::Value>,
    /// Within a block that is not always reached, whose values reach nothing behind it.
    cold: bool,
    /// Signatures and functions declared so far.
    signatures: FxHashMap<TypeIndex, ir::SigRef>,
    functions: FxHashMap<env::Symbol, ir::FuncRef>,
    /// For each MIR instruction whether it is a type test that its block's branch performs (see [`control`]).
    fused_tests: Vec<bool>,
    /// What the checker wants to know, where it is on.
    notes: Option<Box<Notes>>,
}

/// Lowers `mir` into `function`, which must be empty. `large`: see [`is_large`].
pub(crate) fn lower(
    env: &ModuleEnv,
    mir: &mir::Function,
    function: &mut ir::Function,
    builder_context: &mut FunctionBuilderContext,
    large: bool,
) -> Result<(), String> {
    function.signature = match mir.outlined {
        None => wasm_signature(env.info.func_type(mir.ty)),
        Some(_) => env::context_signature(),
    };
    let order = control::reverse_post_order(mir);
    let inline_allocation = !large && allocation::count(mir, &order) <= MOST_INLINE_ALLOCATIONS;
    let checks_stack = poll::needs_stack_check(mir, &order);
    let temperature = |op: &Op, args: &[mir::Value]| safepoints::temperature(env, mir, inline_allocation, op, args);
    let roots = roots::plan(env, mir, &order, checks_stack, temperature);
    let strips = if large { StripPlan::default() } else { strips::plan(env, mir, &order, temperature) };
    let guards = guards::find(env, mir, &order, &strips);
    let checks = checks::merge(env, mir, &order, &strips, &guards);

    let mut lowering = Lowering {
        env,
        mir,
        b: FunctionBuilder::new(function, builder_context),
        inline_allocation,
        context: ir::Value::from_u32(0),
        values: vec![None; mir.values.len()],
        blocks: vec![None; mir.blocks.len()],
        roots,
        variables: Vec::new(),
        root_slot: None,
        strips,
        strip_variables: Vec::new(),
        active_strips: 0..0,
        read_lengths: FxHashMap::default(),
        checks,
        guards,
        regions: [None; REGIONS],
        bases: [None; 3],
        fresh: Vec::new(),
        cold: false,
        signatures: FxHashMap::default(),
        functions: FxHashMap::default(),
        fused_tests: control::fused_tests(mir, &order),
        notes: env.verify.then(Box::default),
    };
    lowering.create_roots();
    lowering.create_strips();
    lowering.prologue(&order, checks_stack);
    for &block in &order {
        lowering.block(block);
    }
    lowering.b.seal_all_blocks();
    let notes = lowering.notes.take();
    lowering.b.finalize(env.frontend);
    notes.map_or(Ok(()), |notes| verify::verify(env, function, &notes))
}

impl Lowering<'_, '_> {
    /// The first block: takes the parameters, checks the stack and goes to MIR's entry.
    fn prologue(&mut self, order: &[mir::Block], checks_stack: bool) {
        let prologue = self.b.create_block();
        self.b.append_block_params_for_function_params(prologue);
        for &block in order {
            let created = self.b.create_block();
            self.blocks[block.index()] = Some(created);
            let mir = self.mir;
            for &param in &mir.blocks[block.index()].params {
                let value = self.b.append_block_param(created, clif_type(mir.value_type(param)));
                self.values[param.index()] = Some(value);
            }
            if mir.blocks[block.index()].cold {
                self.b.set_cold_block(created);
            }
        }
        self.b.switch_to_block(prologue);
        self.b.set_srcloc(SourceLoc::new(self.mir.source));
        let params = self.b.block_params(prologue).to_vec();
        self.context = params[0];
        // The entry's parameters live from here on: the stack check may change them.
        let mir = self.mir;
        let entry_params = &mir.blocks[mir.entry.index()].params;
        for (&param, &value) in entry_params.iter().zip(&params[1..]) {
            self.note_parameter(param, value);
            if let Some(number) = self.roots.reference(param) {
                self.define_reference(number, value);
            }
        }
        if checks_stack {
            self.check_stack(&params[1..]);
        }
        let current = |l: &mut Self, (&param, &value): (&mir::Value, &ir::Value)| match l.roots.reference(param) {
            Some(_) => l.value(param),
            None => value,
        };
        let args: Vec<ir::BlockArg> =
            entry_params.iter().zip(&params[1..]).map(|pair| current(self, pair).into()).collect();
        let entry = self.clif_block(self.mir.entry);
        self.b.ins().jump(entry, &args);
    }

    fn block(&mut self, block: mir::Block) {
        let data = &self.mir.blocks[block.index()];
        let created = self.b.func.dfg.num_blocks();
        let first = self.clif_block(block);
        self.b.switch_to_block(first);
        self.bases = [None; 3];
        self.fresh.clear();
        self.read_lengths.clear();
        self.active_strips = self.strips.active(block);
        self.b.set_srcloc(SourceLoc::new(self.first_source(data)));
        for &param in &data.params {
            self.keep_root(param);
        }
        for &inst in &data.insts {
            if self.fused_tests[inst.index()] {
                continue;
            }
            let inst_data = &self.mir.insts[inst.index()];
            self.b.set_srcloc(SourceLoc::new(inst_data.source));
            self.inst(inst, inst_data);
            for &result in &inst_data.results {
                self.keep_root(result);
            }
        }
        self.b.set_srcloc(SourceLoc::new(data.terminator_source));
        if let Some(terminator) = &data.terminator {
            self.start_strips(block, terminator);
        }
        self.terminator(block, data);
        if data.cold {
            // What it has been split into lies out of line as well.
            for number in created..self.b.func.dfg.num_blocks() {
                self.b.set_cold_block(ir::Block::from_u32(number as u32));
            }
        }
    }

    fn first_source(&self, data: &mir::BlockData) -> u32 {
        data.insts.first().map_or(data.terminator_source, |&inst| self.mir.insts[inst.index()].source)
    }

    /// The Cranelift value of a MIR value, as of now: a reference may have changed at a safepoint. Panics where its
    /// definition does not dominate: MIR's verifier rules that out.
    fn value(&mut self, value: mir::Value) -> ir::Value {
        let resolved = self.mir.resolve(value);
        if let Some(number) = self.roots.reference(resolved)
            && let Some(variable) = self.variables[number as usize]
        {
            return self.b.use_var(variable);
        }
        self.values[resolved.index()].unwrap_or_else(|| panic!("value {} is used before it is defined", resolved.0))
    }

    fn value_list(&mut self, values: &[mir::Value]) -> Vec<ir::Value> {
        values.iter().map(|&value| self.value(value)).collect()
    }

    fn clif_block(&self, block: mir::Block) -> ir::Block {
        self.blocks[block.index()].expect("a reachable block")
    }

    /// A 0 or 1, of whatever width, as `i32`.
    fn boolean(&mut self, condition: ir::Value) -> ir::Value {
        if self.b.func.dfg.value_type(condition) == types::I32 {
            return condition;
        }
        self.b.ins().uextend(types::I32, condition)
    }

    /// The constant that defines a value, if one does.
    fn constant_of(&self, value: mir::Value) -> Option<Constant> {
        safepoints::constant_of(self.mir, value)
    }

    /// Lowers one instruction.
    fn inst(&mut self, inst: mir::Inst, data: &mir::InstData) {
        let key = SafepointKey::Inst(inst);
        let arg = |l: &mut Self, number: usize| l.value(data.args[number]);
        let result = match &data.op {
            Op::BoundsCheck | Op::Compare(_) | Op::ArrayLen(_) if self.checks.is_merged(inst) => return,
            // Made on the edge that has led here.
            Op::ArrayGet(..) | Op::ArraySet(..) if self.guards.is_guarded(inst) => return,
            Op::Const(constant) => self.constant(*constant),
            Op::Unary(op) => {
                let value = arg(self, 0);
                self.unary(*op, value)
            }
            Op::Binary(op) => {
                let (left, right) = (arg(self, 0), arg(self, 1));
                self.binary(*op, left, right)
            }
            Op::Compare(op) => {
                let (left, right) = (arg(self, 0), arg(self, 1));
                self.compare(*op, left, right)
            }
            Op::Select => {
                let (condition, then, otherwise) = (arg(self, 0), arg(self, 1), arg(self, 2));
                self.b.ins().select(condition, then, otherwise)
            }

            Op::Load(memory, kind, offset) => {
                let index = arg(self, 0);
                self.memory_load(*memory, *kind, *offset, index)
            }
            Op::Store(memory, kind, offset) => {
                let (index, value) = (arg(self, 0), arg(self, 1));
                return self.memory_store(*memory, *kind, *offset, index, value);
            }
            Op::MemorySize(memory) => self.memory_size(*memory),
            Op::MemoryGrow(memory) => {
                let delta = arg(self, 0);
                self.memory_grow(*memory, delta)
            }
            Op::MemoryCopy(to, from) => {
                let args = self.value_list(&data.args);
                return self.memory_copy(*to, *from, &args);
            }
            Op::MemoryFill(memory) => {
                let args = self.value_list(&data.args);
                return self.memory_fill(*memory, &args);
            }
            Op::MemoryInit(memory, segment) => {
                let args = self.value_list(&data.args);
                return self.memory_init(*memory, *segment, &args);
            }
            Op::DataDrop(segment) => return self.data_drop(*segment),

            Op::TableGet(table) => {
                let index = arg(self, 0);
                self.table_get(*table, index)
            }
            Op::TableSet(table) => {
                let index = arg(self, 0);
                return self.table_set(*table, index, data.args[1]);
            }
            Op::TableSize(table) => self.table_size(*table),
            Op::TableGrow(table) => {
                let (value, delta) = (arg(self, 0), arg(self, 1));
                self.table_grow(*table, value, delta)
            }
            Op::TableFill(table) => {
                let args = self.value_list(&data.args);
                return self.table_fill(*table, &args);
            }
            Op::TableCopy(to, from) => {
                let args = self.value_list(&data.args);
                return self.table_copy(*to, *from, &args);
            }
            Op::TableInit(table, segment) => {
                let args = self.value_list(&data.args);
                return self.table_init(*table, *segment, &args, key);
            }
            Op::ElemDrop(segment) => return self.elem_drop(*segment),

            Op::GlobalGet(global) => self.global_get(*global),
            Op::GlobalSet(global) => {
                let value = arg(self, 0);
                return self.global_set(*global, value);
            }

            Op::RefFunc(function) => self.ref_func(*function),
            Op::RefIsNull => {
                let reference = arg(self, 0);
                let is_null = self.b.ins().icmp_imm_u(ir::condcodes::IntCC::Equal, reference, 0);
                self.boolean(is_null)
            }
            Op::RefEq => {
                let (left, right) = (arg(self, 0), arg(self, 1));
                self.same_object(left, right)
            }
            Op::NullCheck => {
                let reference = arg(self, 0);
                self.trap_if_null(reference, crate::artifact::TrapCode::NullReference);
                reference
            }
            Op::Refine(_) => arg(self, 0),
            Op::RefTest(target) => self.ref_test(data.args[0], *target),
            Op::RefCast(target) => self.ref_cast(data.args[0], *target),
            Op::RefI31 => {
                let value = arg(self, 0);
                let shifted = self.b.ins().ishl_imm_u(value, 1);
                self.b.ins().bor_imm_u(shifted, 1)
            }
            Op::I31Get(extension, check) => {
                let reference = arg(self, 0);
                self.i31_get(reference, *extension, *check)
            }

            Op::StructNew(ty) => self.struct_new(*ty, &data.args, key),
            Op::StructNewDefault(ty) => self.struct_new_default(*ty, key),
            Op::StructGet(ty, field, extension, check) => {
                let reference = arg(self, 0);
                self.struct_get(*ty, *field, *extension, *check, reference)
            }
            Op::StructSet(ty, field, check) => {
                return self.struct_set(*ty, *field, *check, data.args[0], data.args[1]);
            }

            Op::ArrayNew(ty) => self.array_new(*ty, Some(data.args[0]), data.args[1], key),
            Op::ArrayNewDefault(ty) => self.array_new(*ty, None, data.args[0], key),
            Op::ArrayNewFixed(ty) => self.array_new_fixed(*ty, &data.args, key),
            Op::ArrayNewData(ty, segment) => {
                let args = self.value_list(&data.args);
                self.array_new_segment(crate::abi::Builtin::ArrayNewData, *ty, segment.0, &args, key)
            }
            Op::ArrayNewElem(ty, segment) => {
                let args = self.value_list(&data.args);
                self.array_new_segment(crate::abi::Builtin::ArrayNewElem, *ty, segment.0, &args, key)
            }
            Op::ArrayLen(check) => {
                let reference = arg(self, 0);
                self.array_len(*check, reference)
            }
            Op::BoundsCheck => {
                let (index, length) = (arg(self, 0), arg(self, 1));
                return self.bounds_check(index, length);
            }
            Op::ArrayInlineLen(check) => {
                let reference = arg(self, 0);
                self.array_inline_len(*check, reference)
            }
            Op::ArrayGet(ty, extension, reach) => self.array_get(inst, *ty, *extension, *reach, &data.args),
            Op::ArraySet(ty, reach) => return self.array_set(inst, *ty, *reach, &data.args),
            Op::ArrayFill(ty) => {
                let args = self.value_list(&data.args);
                return self.array_fill(*ty, &args, key);
            }
            Op::ArrayCopy(..) => {
                let args = self.value_list(&data.args);
                return self.array_copy(&args, key);
            }
            Op::ArrayInitData(_, segment) => {
                let args = self.value_list(&data.args);
                return self.array_init(crate::abi::Builtin::ArrayInitData, segment.0, &args, key);
            }
            Op::ArrayInitElem(_, segment) => {
                let args = self.value_list(&data.args);
                return self.array_init(crate::abi::Builtin::ArrayInitElem, segment.0, &args, key);
            }

            Op::ExceptionNew(tag) => self.exception_new(*tag, &data.args, key),
            Op::ExceptionGet(tag, field) => {
                let reference = arg(self, 0);
                self.exception_get(*tag, *field, reference)
            }

            Op::Call(callee) => {
                let results = self.call(callee, &data.args, key);
                for (&value, result) in data.results.iter().zip(results) {
                    self.values[value.index()] = Some(result);
                }
                return;
            }
            Op::Poll => return self.poll(key),

            Op::CallOutlined(number) => return self.call_outlined(*number),
            Op::CellGet(cell, ty) => self.cell(*cell, clif_type(*ty)),
            Op::CellSet(cell) => {
                let value = arg(self, 0);
                return self.set_cell(*cell, value);
            }
            Op::PollPending => self.poll_word(),
        };
        if let Some(&value) = data.results.first() {
            self.values[value.index()] = Some(result);
            if allocation::is_allocation(&data.op) {
                self.note_fresh(value);
            }
        }
    }
}
