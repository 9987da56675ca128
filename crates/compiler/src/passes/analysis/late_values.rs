//! Constants, immutable globals and references to functions that are best brought into registers where they are stored.

use legato_heap::layout::StorageKind;

use crate::mir::{Block, Function, InstData, NullCheck, Op, Value};
use crate::module::ModuleInfo;
use crate::passes::support::use_counts;

const NONE: u32 = u32::MAX;
const ANY: u32 = u32::MAX - 1;

/// For each instruction whether it reads an immutable global only for new objects, or is a constant only for new
/// objects of its own block. Such a value is made behind the allocation: a global is still the same there, as its cell
/// is a root; and the value needs no slot and no register meanwhile, though a loop may lie in between. Programs that
/// make an array of all their strings, or tables of numbers, have thousands of them.
///
/// With `functions`, stores of references to functions into what such globals hold count like fields of new objects:
/// calls make them, see [`Builtin::StoreFunctions`](crate::abi::Builtin::StoreFunctions).
///
/// With `constants`, all of these are made where they are used: none lives across a call.
pub(crate) fn late_values(
    mir: &Function,
    info: &ModuleInfo,
    order: &[Block],
    functions: bool,
    constants: bool,
) -> Vec<bool> {
    let is_late = |data: &InstData| constants && matches!(data.op, Op::Const(_));
    let mut late: Vec<bool> = mir.insts.iter().map(is_late).collect();
    // For each such value, the block that new objects are to be of, and how many of their fields and elements it
    // becomes.
    let mut made_in = vec![NONE; mir.values.len()];
    let mut stores = vec![0; mir.values.len()];
    let mut candidates = Vec::new();
    for &block in order {
        let is_here = |made_in: u32| made_in == ANY || made_in == block.index() as u32;
        for &inst in &mir.blocks[block.index()].insts {
            let data = &mir.insts[inst.index()];
            match data.op {
                Op::GlobalGet(global) if !info.globals[global.index()].mutable => {
                    made_in[data.results[0].index()] = ANY;
                    candidates.push((inst, data.results[0], u32::MAX));
                }
                // One that many objects share stays in its register.
                Op::Const(_) if !constants => {
                    made_in[data.results[0].index()] = block.index() as u32;
                    candidates.push((inst, data.results[0], 1));
                }
                Op::RefFunc(_) if functions => {
                    made_in[data.results[0].index()] = block.index() as u32;
                    candidates.push((inst, data.results[0], u32::MAX));
                }
                Op::StructSet(ty, field, NullCheck::Elided) if functions => {
                    let storage = info.struct_fields(ty)[field as usize].storage;
                    let args = [0, 1].map(|arg: usize| mir.resolve(data.args[arg]).index());
                    if info.storage_kind(storage) == StorageKind::Immortal
                        && args.iter().all(|&arg| is_here(made_in[arg]))
                    {
                        args.into_iter().for_each(|arg| stores[arg] += 1);
                    }
                }
                Op::StructNew(_) | Op::ExceptionNew(_) | Op::ArrayNewFixed(_) => {
                    let args = data.args.iter().map(|&arg: &Value| mir.resolve(arg).index());
                    args.filter(|&arg| is_here(made_in[arg])).for_each(|arg| stores[arg] += 1);
                }
                _ => {}
            }
        }
    }
    candidates.retain(|&(_, value, most)| (1..=most).contains(&stores[value.index()]));
    if candidates.is_empty() {
        return late;
    }
    let uses = use_counts(mir, order);
    for (inst, value, _) in candidates {
        late[inst.index()] = uses[value.index()] == stores[value.index()];
    }
    late
}
