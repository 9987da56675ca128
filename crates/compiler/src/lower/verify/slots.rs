//! What the root slots hold: a forward analysis.

use cranelift_codegen::ir;
use rustc_hash::FxHashMap;

use super::code::Code;
use super::notes::SlotAccess;
use crate::mir::Value;

/// For each slot the MIR value whose current reference it holds, on every path up to a point.
type Contents = FxHashMap<u32, Value>;

pub(super) fn check(code: &Code) -> Result<(), String> {
    if code.notes.slots.is_empty() && code.notes.maps.is_empty() {
        return Ok(());
    }
    let entry = code.function.layout.entry_block().expect("a function has an entry");
    let mut at_start: FxHashMap<ir::Block, Contents> = FxHashMap::default();
    at_start.insert(entry, Contents::default());
    let mut work = vec![entry];
    // Contents become only less known: this ends.
    while let Some(block) = work.pop() {
        let mut contents = at_start[&block].clone();
        for inst in code.function.layout.block_insts(block) {
            step(code, inst, &mut contents);
        }
        for successor in code.graph.succ_iter(block) {
            match at_start.get_mut(&successor) {
                None => {
                    at_start.insert(successor, contents.clone());
                    work.push(successor);
                }
                Some(known) => {
                    let before = known.len();
                    known.retain(|slot, value| contents.get(slot) == Some(value));
                    if known.len() < before {
                        work.push(successor);
                    }
                }
            }
        }
    }
    for block in code.function.layout.blocks() {
        let Some(mut contents) = at_start.remove(&block) else { continue };
        for inst in code.function.layout.block_insts(block) {
            check_inst(code, inst, &contents)?;
            step(code, inst, &mut contents);
        }
    }
    Ok(())
}

/// What an instruction does to the slots.
fn step(code: &Code, inst: ir::Inst, contents: &mut Contents) {
    if let Some(&SlotAccess::Store(slot, value)) = code.notes.slots.get(&inst) {
        contents.insert(slot, value);
    }
    let block = code.function.layout.inst_block(inst).expect("an instruction of the function");
    if code.safepoints[&block].contains(&inst) {
        // What the collector does not find there is not what it was.
        let map = code.notes.maps.get(&inst);
        contents.retain(|slot, _| map.is_some_and(|map| map.iter().any(|(mapped, _)| mapped == slot)));
    }
}

fn check_inst(code: &Code, inst: ir::Inst, contents: &Contents) -> Result<(), String> {
    if let Some(&SlotAccess::Load(slot, value)) = code.notes.slots.get(&inst)
        && contents.get(&slot) != Some(&value)
    {
        return Err(format!("{} takes slot {slot} to hold {value:?}: {:?}", code.show(inst), contents.get(&slot)));
    }
    let Some(map) = code.notes.maps.get(&inst) else { return Ok(()) };
    for &(slot, value) in map {
        if contents.get(&slot) != Some(&value) {
            let found = contents.get(&slot);
            return Err(format!("the stack map of {} takes slot {slot} to hold {value:?}: {found:?}", code.show(inst)));
        }
    }
    let noted = map.len();
    let mapped = code.function.dfg.user_stack_map_entries(inst).map_or(0, |entries| entries.len());
    if noted != mapped {
        return Err(format!("the stack map of {} has {mapped} slots, not {noted}", code.show(inst)));
    }
    Ok(())
}
