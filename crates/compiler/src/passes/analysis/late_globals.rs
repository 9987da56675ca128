//! Immutable globals that are best read where they are stored.

use crate::mir::{Block, Function, Op, Value};
use crate::module::ModuleInfo;
use crate::passes::support::use_counts;

const NONE: u32 = u32::MAX;

/// For each instruction whether it reads an immutable global only for new objects of its own block. Such a global is
/// read behind the allocation, as it is still the same there: its cell is a root, and the reference needs no slot and
/// no register meanwhile. Programs that make an array of all their strings have thousands of them.
pub(crate) fn late_globals(mir: &Function, info: &ModuleInfo, order: &[Block]) -> Vec<bool> {
    let mut late = vec![false; mir.insts.len()];
    // For each value that is such a global, the block that reads it, and how many fields and elements it becomes.
    let mut read_in = vec![NONE; mir.values.len()];
    let mut stores = vec![0; mir.values.len()];
    let mut candidates = Vec::new();
    for &block in order {
        for &inst in &mir.blocks[block.index()].insts {
            let data = &mir.insts[inst.index()];
            match data.op {
                Op::GlobalGet(global) if !info.globals[global.index()].mutable => {
                    read_in[data.results[0].index()] = block.index() as u32;
                    candidates.push((inst, data.results[0]));
                }
                Op::StructNew(_) | Op::ExceptionNew(_) | Op::ArrayNewFixed(_) => {
                    let args = data.args.iter().map(|&arg: &Value| mir.resolve(arg).index());
                    args.filter(|&arg| read_in[arg] == block.index() as u32).for_each(|arg| stores[arg] += 1);
                }
                _ => {}
            }
        }
    }
    candidates.retain(|(_, value)| stores[value.index()] > 0);
    if candidates.is_empty() {
        return late;
    }
    let uses = use_counts(mir, order);
    for (inst, value) in candidates {
        late[inst.index()] = uses[value.index()] == stores[value.index()];
    }
    late
}
