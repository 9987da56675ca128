//! MIR to Cranelift IR: the one place that reads the heap's [`AccessPlan`](legato_heap::AccessPlan).
//!
//! One file for each value of an axis (`arrays/`; `references.rs` goes by the plan's data, whatever the value) and for
//! each group of operations. The driver here walks the blocks in reverse post-order, so that every value is lowered
//! before its uses; an operation may split its block.

mod access;
mod allocation;
mod arrays;
mod barrier;
mod builtins;
mod calls;
mod casts;
mod control;
pub(crate) mod env;
mod exceptions;
mod globals;
mod held;
mod located;
mod made;
mod memory;
mod notes;
mod numeric;
mod osr;
mod poll;
mod references;
mod runs;
mod safepoints;
mod state;
mod structs;
mod tables;
mod vectors;
mod verify;

use cranelift_codegen::ir::{self, InstBuilder, SourceLoc};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use rustc_hash::FxHashMap;

use self::env::{ModuleEnv, code_signature};
use self::located::HeldLocations;
use self::made::{BasesAtEnds, MadeValues};
use self::state::Lowering;
use crate::mir::{self, Cfg, Collects, Op, Terminator};
use crate::module::ValueType;
use crate::passes::analysis::{
    LocationPlan, SafepointKey, StripPlan, find_guards, fused_tests, fused_throws, gains_by_mid_end, late_values,
    leaves_otherwise, merge_checks, plan_locations, plan_roots, plan_strips,
};

/// A function with more instructions than this is compiled for compile time, not for speed: such functions initialise
/// globals and run once.
const LARGE_FUNCTION: usize = 12_000;

/// A function with more allocations than this makes them by calls: each inline one splits its block in five, and the
/// time of register allocation grows faster than the number of blocks.
const MOST_INLINE_ALLOCATIONS: usize = 400;

/// A function with more instructions than this, and without loops, that is compiled for compile time stores references
/// by calls: it initialises something, and the inline barrier of a store is twenty instructions in four blocks.
const LONG_FUNCTION: usize = 500;

/// Whether a function is long and has no loops.
fn is_long(function: &mir::Function, cfg: &Cfg) -> bool {
    function.insts.len() > LONG_FUNCTION && !cfg.has_loops()
}

/// Whether a function is to be compiled for compile time rather than for speed.
pub(crate) fn is_large(function: &mir::Function) -> bool {
    function.insts.len() > LARGE_FUNCTION
}

/// Lowers `mir` into `function`, which must be empty. `large`: see [`is_large`]. Gives back whether Cranelift's mid-end
/// may make the code faster.
pub(crate) fn lower(
    env: &ModuleEnv,
    mir: &mir::Function,
    function: &mut ir::Function,
    builder_context: &mut FunctionBuilderContext,
    large: bool,
) -> Result<bool, String> {
    let params: Vec<_> = mir.blocks[mir.entry.index()].params.iter().map(|&param| mir.value_type(param)).collect();
    function.signature = code_signature(&params, &env.info.func_type(mir.ty).results);
    let heap = &env.heap_facts();
    let cfg = Cfg::new(mir);
    let order = &cfg.order;
    let fused_throws = fused_throws(mir, order, |tag| env.is_thrown_at_once(tag));
    let may_allocate_inline = !large && allocation::count(mir, order, &fused_throws) <= MOST_INLINE_ALLOCATIONS;
    let checks_stack = poll::needs_stack_check(mir, order);
    let safepoints = safepoints::find(env, mir, order, may_allocate_inline, &fused_throws);
    let stores_by_calls = large && is_long(mir, &cfg);
    let has_mid_end = gains_by_mid_end(mir, &cfg);
    let late_values = late_values(mir, env.info, order, stores_by_calls, !has_mid_end && !large);
    let made_later: Vec<bool> = late_values.iter().zip(&fused_throws).map(|(&late, &fused)| late || fused).collect();
    let (strips, locations) = match large {
        true => (StripPlan::default(), LocationPlan::default()),
        false => {
            let strips = plan_strips(heap, mir, &cfg, &safepoints);
            let locations = plan_locations(heap, mir, &cfg, &safepoints, &strips);
            (strips, locations)
        }
    };
    let roots = plan_roots(heap, mir, &cfg, checks_stack, &safepoints, &made_later, &locations);
    let guards = find_guards(heap, mir, &cfg);
    let checks = merge_checks(heap, mir, &cfg, &strips, &guards);

    let mut lowering = Lowering {
        env,
        mir,
        b: FunctionBuilder::new(function, builder_context),
        inline_allocation: may_allocate_inline,
        may_allocate_inline,
        may_copy_inline: !large,
        copies_inline: !large,
        stores_by_calls,
        function_stores: Vec::new(),
        context: ir::Value::from_u32(0),
        values: vec![None; mir.values.len()],
        wide: FxHashMap::default(),
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
        regions: FxHashMap::default(),
        leaves_otherwise: leaves_otherwise(mir, &cfg),
        made: MadeValues::default(),
        bases: Default::default(),
        bases_at_ends: if large { BasesAtEnds::none() } else { BasesAtEnds::new(mir.blocks.len()) },
        fresh: Vec::new(),
        located: Default::default(),
        held: HeldLocations::new(locations),
        cold: false,
        signatures: FxHashMap::default(),
        functions: FxHashMap::default(),
        fused_tests: fused_tests(mir, order),
        fused_throws,
        late_values,
        notes: env.verify.then(Box::default),
    };
    lowering.create_roots();
    lowering.create_strips();
    lowering.create_held();
    lowering.prologue(&cfg, checks_stack);
    for &block in order {
        lowering.enter_loop(&cfg, block);
        lowering.held.enter(block);
        lowering.located.enter(&cfg, block);
        lowering.block(&cfg, block);
    }
    lowering.b.seal_all_blocks();
    let notes = lowering.notes.take();
    lowering.b.finalize(env.frontend);
    notes.map_or(Ok(()), |notes| verify::verify(env, function, &notes))?;
    Ok(has_mid_end)
}

impl Lowering<'_, '_> {
    /// The first block: takes the parameters, checks the stack and goes on as MIR's entry, or there, if that is the
    /// header of a loop.
    fn prologue(&mut self, cfg: &Cfg, checks_stack: bool) {
        let prologue = self.b.create_block();
        self.b.append_block_params_for_function_params(prologue);
        let is_entered_once = cfg.predecessors(self.mir.entry).is_empty();
        for &block in &cfg.order {
            if is_entered_once && block == self.mir.entry {
                continue;
            }
            let created = self.b.create_block();
            self.blocks[block.index()] = Some(created);
            let mir = self.mir;
            for &param in &mir.blocks[block.index()].params {
                self.b.append_block_param(created, Self::passed_type(mir.value_type(param)));
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
            self.values[param.index()] = Some(value);
            if matches!(mir.value_type(param), ValueType::Ref(_)) {
                let wide = self.widen(value);
                self.wide.insert(value, wide);
            }
            self.note_value(param);
            if let Some(number) = self.roots.reference(param) {
                self.define_reference(number, value);
            }
        }
        if checks_stack {
            self.check_stack(&params[1..]);
        }
        if is_entered_once {
            entry_params.iter().for_each(|&param| self.keep_in_slot(param));
        } else {
            let args: Vec<ir::BlockArg> = entry_params.iter().map(|&param| self.argument(param).into()).collect();
            let entry = self.target(mir.entry);
            self.b.ins().jump(entry, &args);
        }
    }

    fn block(&mut self, cfg: &Cfg, block: mir::Block) {
        let data = &self.mir.blocks[block.index()];
        let created = self.b.func.dfg.num_blocks();
        self.inline_allocation = self.may_allocate_inline && !data.cold;
        self.copies_inline = self.may_copy_inline && !data.cold;
        self.fresh.clear();
        self.read_lengths.clear();
        self.active_strips = self.strips.active(block);
        self.b.set_srcloc(SourceLoc::new(self.first_source(data)));
        // The entry goes on where the prologue ends.
        if let Some(first) = self.blocks[block.index()] {
            self.b.switch_to_block(first);
            if !self.held.in_front.contains_key(&block) {
                self.bases = self.bases_at_ends.enter(cfg, block);
            }
            for (number, &param) in data.params.iter().enumerate() {
                let passed = self.b.block_params(first)[number];
                self.values[param.index()] = Some(self.received(self.mir.value_type(param), passed));
                self.keep_root(param);
            }
        }
        for &inst in &data.insts {
            if self.fused_tests[inst.index()] || self.fused_throws[inst.index()] || self.late_values[inst.index()] {
                continue;
            }
            if self.delays_store(inst) {
                continue;
            }
            self.store_functions();
            let inst_data = &self.mir.insts[inst.index()];
            self.b.set_srcloc(SourceLoc::new(inst_data.source));
            self.inst(inst, inst_data);
            for &result in &inst_data.results {
                self.keep_root(result);
            }
        }
        self.store_functions();
        self.b.set_srcloc(SourceLoc::new(data.terminator_source));
        if let Some(terminator) = &data.terminator {
            self.start_strips(block, terminator);
        }
        let is_safepoint = matches!(data.terminator, Some(Terminator::TryCall { .. } | Terminator::Throw { .. }));
        self.located.leave(block, is_safepoint);
        self.bases_at_ends.leave(block, self.bases);
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
            Op::Vector(op) => {
                let args = self.value_list(&data.args);
                self.vector(*op, &args)
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
            Op::GlobalSet(global) => return self.global_set(*global, data.args[0]),

            Op::RefFunc(function) => self.ref_func(*function),
            Op::IsFunction(function, _) => {
                let (reference, function) = (arg(self, 0), self.ref_func(*function));
                let is_equal = self.b.ins().icmp(ir::condcodes::IntCC::Equal, reference, function);
                self.boolean(is_equal)
            }
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
            Op::ArrayGet(ty, extension) => self.array_get(inst, *ty, *extension, &data.args),
            Op::ArraySet(ty) => return self.array_set(inst, *ty, &data.args),
            Op::ArrayFill(ty) => {
                let args = self.value_list(&data.args);
                return self.array_fill(*ty, &args, key);
            }
            Op::ArrayCopy(ty, _) => {
                let args = self.value_list(&data.args);
                return self.array_copy(*ty, &args, key);
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
            Op::OsrEntry(offset) => self.osr_entry(*offset),
            Op::NoteTarget(call) => {
                let reference = arg(self, 0);
                return self.note_target(*call, reference);
            }
            Op::NoteRun(word) => return self.note_run(*word),
        };
        if let Some(&value) = data.results.first() {
            self.values[value.index()] = Some(result);
            if data.op.properties().collects == Collects::Allocating {
                self.note_fresh(value);
            }
        }
    }
}
