//! Stores of references: none but the ones that [`barrier`](crate::lower::barrier) makes.

use cranelift_codegen::ir;

use super::Code;
use crate::lower::access::Region;

pub(super) fn check(code: &Code) -> Result<(), String> {
    let function = code.function;
    let mut insts = function.layout.blocks().flat_map(|block| function.layout.block_insts(block));
    match insts.find(|&inst| is_store(function, inst) && !code.notes.stores.contains(&inst)) {
        None => Ok(()),
        Some(store) => Err(format!("{} stores without a barrier", code.show(store))),
    }
}

/// Whether an instruction stores where there may be references to objects.
fn is_store(function: &ir::Function, inst: ir::Inst) -> bool {
    let (data, dfg) = (&function.dfg.insts[inst], &function.dfg);
    let region = data.memflags_data(dfg).and_then(|flags| flags.alias_region());
    data.opcode().can_store()
        && region.is_some_and(|region| Region::is_seen_by_barrier(dfg.alias_regions[region].user_id))
}
