//! The forms of a value: a reference in 32 and in 64 bits, a condition as a number. Who has one form may ask for another
//! at any time. It is made right behind the value itself, so that it is good wherever the value is, once for all who
//! ask, and only if something uses it: most references lead to objects, and are never needed in 32 bits.

use cranelift_codegen::ir::function::FunctionStencil;
use cranelift_codegen::ir::{self, InstructionData, Opcode};
use cranelift_entity::EntityRef;
use rustc_hash::FxHashMap;

use super::Lowering;

/// The forms asked for so far.
#[derive(Default)]
pub(super) struct Forms {
    /// By operation and value.
    of: FxHashMap<(Opcode, ir::Value), ir::Value>,
    /// What makes them, not yet in any block.
    made: Vec<ir::Inst>,
}

impl Lowering<'_, '_> {
    /// The form of a value that an operation without effect makes, of type `ty`.
    pub(super) fn form(&mut self, opcode: Opcode, ty: ir::Type, value: ir::Value) -> ir::Value {
        if let Some(&found) = self.forms.of.get(&(opcode, value)) {
            return found;
        }
        let dfg = &mut self.b.func.dfg;
        let inst = dfg.make_inst(InstructionData::Unary { opcode, arg: value });
        dfg.make_inst_results(inst, ty);
        let form = dfg.first_result(inst);
        self.forms.made.push(inst);
        self.forms.of.insert((opcode, value), form);
        form
    }

    /// Puts the forms that are used into blocks, when everything else is there.
    pub(super) fn place_forms(&mut self) {
        let made = std::mem::take(&mut self.forms.made);
        let used = self.used_forms(&made);
        let mut placed: FxHashMap<(Opcode, ir::Value), ir::Value> = FxHashMap::default();
        let FunctionStencil { dfg, layout, .. } = &mut self.b.func.stencil;
        // What a form is made of comes before it.
        for (inst, _) in made.into_iter().zip(used).filter(|&(_, used)| used) {
            let opcode = dfg.insts[inst].opcode();
            let value = dfg.resolve_aliases(dfg.inst_args(inst)[0]);
            let form = dfg.first_result(inst);
            if let Some(&same) = placed.get(&(opcode, value)) {
                dfg.detach_inst_results(inst);
                dfg.change_to_alias(form, same);
                continue;
            }
            placed.insert((opcode, value), form);
            let behind = match dfg.value_def(value) {
                ir::ValueDef::Result(definition, _) => layout.next_inst(definition),
                ir::ValueDef::Param(block, _) => layout.first_inst(block),
                ir::ValueDef::Union(..) => unreachable!("unions come with optimisation"),
            };
            layout.insert_inst(inst, behind.expect("a block ends with what defines nothing"));
        }
    }

    /// For each of these forms whether something uses it.
    fn used_forms(&self, made: &[ir::Inst]) -> Vec<bool> {
        let FunctionStencil { dfg, layout, .. } = &self.b.func.stencil;
        let mut is_used = vec![false; dfg.num_values()];
        let mut note = |value: ir::Value| {
            is_used[dfg.resolve_aliases(value).index()] = true;
        };
        for inst in layout.blocks().flat_map(|block| layout.block_insts(block)) {
            dfg.inst_values(inst).for_each(&mut note);
        }
        let mut used = vec![false; made.len()];
        for (&inst, used) in made.iter().zip(&mut used).rev() {
            *used = is_used[dfg.first_result(inst).index()];
            if *used {
                is_used[dfg.resolve_aliases(dfg.inst_args(inst)[0]).index()] = true;
            }
        }
        used
    }
}
