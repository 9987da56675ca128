//! The checker of generated code: no reference is used behind a safepoint at which it may have changed, and the
//! collector finds every reference that is used behind one.
//!
//! It walks the finished Cranelift IR of a function and knows nothing of how the roots were planned: [`notes`] tells it
//! which values are references, everything else it finds out by itself. From there:
//!
//! * what is computed from a reference (the address of an object or an element) is as good as the reference;
//! * where references change, no path leads from the definition of such a value over a safepoint to a use;
//! * where they do not, every safepoint on such a path has the reference in its stack map;
//! * a slot in a stack map has been stored to on every path, with the value that it is for, and so has a slot that is
//!   loaded from;
//! * there, too, no load of a reference is `readonly` or `can_move`: Cranelift would move it over a safepoint;
//! * whatever stores where there may be references goes through [`barrier`](super::barrier).
//!
//! On wherever compilations are verified: in all tests and in fuzzing.

mod notes;
mod references;
mod slots;
mod stores;

use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::{self, InstructionData};
use rustc_hash::FxHashMap;

pub(super) use notes::Notes;

use super::env::{ModuleEnv, Symbol};
use crate::abi::Builtin;
use crate::mir::Value;

/// Checks the code of a function. The error says what is wrong, and where.
pub(super) fn verify(env: &ModuleEnv, function: &ir::Function, notes: &Notes) -> Result<(), String> {
    let code = Code::new(env, function, notes);
    references::check(&code)?;
    slots::check(&code)?;
    stores::check(&code)
}

/// A function's code, with what both parts of the checker ask of it.
struct Code<'a> {
    function: &'a ir::Function,
    notes: &'a Notes,
    /// The noted references, without aliases.
    references: FxHashMap<ir::Value, Option<Value>>,
    /// Whether references change at safepoints.
    moving: bool,
    graph: ControlFlowGraph,
    /// The position of each instruction in its block, from 1 on. Parameters are defined at 0.
    positions: FxHashMap<ir::Inst, u32>,
    /// The safepoints of each block, in order.
    safepoints: FxHashMap<ir::Block, Vec<ir::Inst>>,
}

impl<'a> Code<'a> {
    fn new(env: &ModuleEnv, function: &'a ir::Function, notes: &'a Notes) -> Code<'a> {
        let mut positions = FxHashMap::default();
        let mut safepoints = FxHashMap::default();
        for block in function.layout.blocks() {
            let insts = || function.layout.block_insts(block);
            positions.extend(insts().zip(1..));
            safepoints.insert(block, insts().filter(|&inst| is_safepoint(env, function, inst)).collect());
        }
        let resolve = |value: &ir::Value| function.dfg.resolve_aliases(*value);
        let references = notes.references.iter().map(|(value, &what)| (resolve(value), what)).collect();
        let moving = env.plan.references_change_at_safepoints;
        Code {
            function,
            notes,
            references,
            moving,
            graph: ControlFlowGraph::with_function(function),
            positions,
            safepoints,
        }
    }

    /// An instruction as text, for errors.
    fn show(&self, inst: ir::Inst) -> String {
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
                Symbol::Function(_) => true,
                Symbol::Builtin(number) | Symbol::Cold(number) => may_collect(env, Builtin::ALL[number as usize]),
                Symbol::Outlined(..) => false,
            }
        }
        InstructionData::CallIndirect { opcode: ir::Opcode::CallIndirect, .. } => true,
        InstructionData::TryCallIndirect { .. } => true,
        // Nothing is used behind a tail call.
        _ => false,
    }
}

fn may_collect(env: &ModuleEnv, builtin: Builtin) -> bool {
    let makes_room = matches!(builtin, Builtin::ArrayFill | Builtin::ArrayCopy | Builtin::ArrayInitData);
    builtin.signature().safepoint || makes_room && env.bulk_collects()
}
