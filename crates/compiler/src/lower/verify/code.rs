//! What both parts of the checker ask of a function's code.

use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::{self, InstructionData};
use rustc_hash::FxHashMap;

use super::notes::Notes;
use crate::abi::Builtin;
use crate::lower::env::{ModuleEnv, Symbol};
use crate::mir::Value;

/// A function's code, with what both parts of the checker ask of it.
pub(super) struct Code<'a> {
    pub(super) function: &'a ir::Function,
    pub(super) notes: &'a Notes,
    /// The noted references, without aliases.
    pub(super) references: FxHashMap<ir::Value, Option<Value>>,
    /// Whether references change at safepoints.
    pub(super) moving: bool,
    /// Whether objects move at safepoints, whatever becomes of references.
    pub(super) objects_move: bool,
    /// Where objects lie, without aliases.
    pub(super) addresses: Vec<ir::Value>,
    pub(super) graph: ControlFlowGraph,
    /// The position of each instruction in its block, from 1 on. Parameters are defined at 0.
    pub(super) positions: FxHashMap<ir::Inst, u32>,
    /// The safepoints of each block, in order.
    pub(super) safepoints: FxHashMap<ir::Block, Vec<ir::Inst>>,
}

impl<'a> Code<'a> {
    pub(super) fn new(env: &ModuleEnv, function: &'a ir::Function, notes: &'a Notes) -> Code<'a> {
        let mut positions = FxHashMap::default();
        let mut safepoints = FxHashMap::default();
        for block in function.layout.blocks() {
            let insts = || function.layout.block_insts(block);
            positions.extend(insts().zip(1..));
            safepoints.insert(block, insts().filter(|&inst| is_safepoint(env, function, inst)).collect());
        }
        let resolve = |value: &ir::Value| function.dfg.resolve_aliases(*value);
        let references = notes.references.iter().map(|(value, &what)| (resolve(value), what)).collect();
        let addresses = notes.addresses.iter().map(resolve).collect();
        let moving = env.plan.references_change_at_safepoints;
        Code {
            function,
            notes,
            references,
            moving,
            objects_move: env.plan.objects_move_at_safepoints,
            addresses,
            graph: ControlFlowGraph::with_function(function),
            positions,
            safepoints,
        }
    }

    /// Whether there is a safepoint at one of these positions of a block.
    pub(super) fn has_safepoint(&self, block: ir::Block, between: std::ops::Range<u32>) -> bool {
        self.safepoints[&block].iter().any(|safepoint| between.contains(&self.positions[safepoint]))
    }

    /// An instruction as text, for errors.
    pub(super) fn show(&self, inst: ir::Inst) -> String {
        let block = self.function.layout.inst_block(inst).expect("an instruction of the function");
        format!("`{}` of {block}", self.function.dfg.display_inst(inst))
    }
}

/// Whether an instruction may collect before it is over.
fn is_safepoint(env: &ModuleEnv, function: &ir::Function, inst: ir::Inst) -> bool {
    match function.dfg.insts[inst] {
        InstructionData::Call { func_ref, opcode: ir::Opcode::Call, .. }
        | InstructionData::TryCall { func_ref, .. } => {
            let ir::ExternalName::User(name) = &function.dfg.ext_funcs[func_ref].name else {
                unreachable!("compiled code calls nothing but compiled code and trampolines")
            };
            match Symbol::of(&function.params.user_named_funcs()[*name]) {
                Symbol::Function(_) | Symbol::Loop(..) => true,
                Symbol::Builtin(number) | Symbol::Cold(number) => may_collect(env, Builtin::ALL[number as usize]),
            }
        }
        InstructionData::CallIndirect { opcode: ir::Opcode::CallIndirect, .. } => true,
        InstructionData::TryCallIndirect { .. } => true,
        // Nothing is used behind a tail call.
        _ => false,
    }
}

fn may_collect(env: &ModuleEnv, builtin: Builtin) -> bool {
    let reserves_leaves = matches!(builtin, Builtin::ArrayFill | Builtin::ArrayCopy | Builtin::ArrayInitData);
    builtin.signature().safepoint || reserves_leaves && env.bulk_collects()
}
