//! Stores: none of references but the ones that [`barrier`](crate::lower::barrier) makes, none of them without what
//! comes before and after but into young objects; and where objects may have two copies, none into an object that is
//! not made in the other copy.

use cranelift_codegen::ir::{self, InstructionData, Opcode};
use legato_heap::MutatorContext;

use super::code::Code;
use super::notes::Mirrored;
use crate::lower::access::Region;
use crate::lower::env::ModuleEnv;

pub(super) fn check(env: &ModuleEnv, code: &Code) -> Result<(), String> {
    let function = code.function;
    let are_mirrored = env.plan.store_barrier.mirror.is_some();
    for inst in function.layout.blocks().flat_map(|block| function.layout.block_insts(block)) {
        if !is_store(function, inst, are_mirrored) {
            continue;
        }
        match code.notes.stores.get(&inst) {
            None => return Err(format!("{} stores without a barrier", code.show(inst))),
            Some(Mirrored::Not) => return Err(format!("{} is not mirrored", code.show(inst))),
            Some(&Mirrored::By(mirror)) => check_mirror(code, inst, mirror)?,
            Some(&Mirrored::Heals(first)) if !follows_at_once(code, first, inst) => {
                return Err(format!("{} heals what {} has stored too late", code.show(inst), code.show(first)));
            }
            Some(Mirrored::NeedNotBe | Mirrored::Mirrors | Mirrored::Heals(_)) => {}
        }
        match code.notes.young.get(&inst) {
            Some(&age) if !is_reached_by_age(code, inst, age) => {
                return Err(format!("{} stores without a barrier into what may be old", code.show(inst)));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a store's block is entered only where this age is not 0, with no safepoint since the age was loaded.
fn is_reached_by_age(code: &Code, store: ir::Inst, age: ir::Value) -> bool {
    let (layout, dfg) = (&code.function.layout, &code.function.dfg);
    let block = layout.inst_block(store).expect("an instruction of the function");
    let age = dfg.resolve_aliases(age);
    let Some(load) = dfg.value_def(age).inst() else { return false };
    let region = dfg.insts[load].memflags_data(dfg).and_then(|flags| flags.alias_region());
    let is_age = region.is_some_and(|region| Region::is_ages(dfg.alias_regions[region].user_id));
    let mut entries = code.graph.pred_iter(block);
    let (Some(entry), None) = (entries.next(), entries.next()) else { return false };
    let is_branch = match dfg.insts[entry.inst] {
        InstructionData::Brif { arg, blocks: [young, _], .. } => {
            dfg.resolve_aliases(arg) == age && young.block(&dfg.value_lists) == block
        }
        _ => false,
    };
    is_age
        && is_branch
        && layout.inst_block(load) == Some(entry.block)
        && !code.has_safepoint(entry.block, code.positions[&load]..u32::MAX)
        && !code.has_safepoint(block, 0..code.positions[&store])
}

/// Whether an instruction stores where there may be references to objects, or, with `into_any`, into objects at all.
fn is_store(function: &ir::Function, inst: ir::Inst, into_any: bool) -> bool {
    let (data, dfg) = (&function.dfg.insts[inst], &function.dfg);
    let region = data.memflags_data(dfg).and_then(|flags| flags.alias_region());
    data.opcode().can_store()
        && region.is_some_and(|region| {
            let number = dfg.alias_regions[region].user_id;
            Region::is_seen_by_barrier(number) || into_any && Region::is_in_objects(number)
        })
}

/// A store's block ends with a branch on whether there are objects with two copies, and a block that stores the same is
/// reached from there, sooner or later; there is no safepoint in between.
fn check_mirror(code: &Code, store: ir::Inst, mirror: ir::Inst) -> Result<(), String> {
    let (layout, dfg) = (&code.function.layout, &code.function.dfg);
    let block = layout.inst_block(store).expect("an instruction of the function");
    let healed = &code.notes.healed;
    let is_same = |inst: ir::Inst| {
        let value = dfg.inst_args(inst)[0];
        let value = dfg.resolve_aliases(healed.get(&value).copied().unwrap_or(value));
        (dfg.insts[inst].opcode(), value, dfg.insts[inst].memflags_data(dfg).and_then(|flags| flags.alias_region()))
    };
    let branch = layout.last_inst(block).expect("a block with a store");
    match dfg.insts[branch] {
        InstructionData::Brif { arg, .. } if asks_for_replicas(code, arg) => {}
        _ => return Err(format!("{} is not followed by a test for replicas", code.show(store))),
    }
    match follows_at_once(code, store, mirror) {
        false => Err(format!("{} is mirrored nowhere", code.show(store))),
        true if is_same(store) == is_same(mirror) => Ok(()),
        true => Err(format!("{} is not what mirrors {}", code.show(mirror), code.show(store))),
    }
}

/// Whether an instruction comes behind a store, in a block that is reached from the store's end of its own one, with no
/// safepoint in between.
fn follows_at_once(code: &Code, store: ir::Inst, then: ir::Inst) -> bool {
    let (layout, dfg) = (&code.function.layout, &code.function.dfg);
    let (from, to) = (layout.inst_block(store), layout.inst_block(then));
    let (Some(from), Some(to)) = (from, to) else { return false };
    if code.has_safepoint(from, code.positions[&store]..u32::MAX) || code.has_safepoint(to, 0..code.positions[&then]) {
        return false;
    }
    let mut reached = vec![from];
    let mut next = 0;
    while let Some(&block) = reached.get(next) {
        if let Some(inst) = layout.last_inst(block) {
            let calls = dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
            for block in calls.iter().map(|call| call.block(&dfg.value_lists)) {
                if block == to {
                    return true;
                }
                if !reached.contains(&block) && reached.len() < MOST_BLOCKS && !code.has_safepoint(block, 0..u32::MAX) {
                    reached.push(block);
                }
            }
        }
        next += 1;
    }
    false
}

/// No more blocks are looked at for what follows a store: those between it and its mirror, which heal the reference and
/// find the place, and as many on the other way.
const MOST_BLOCKS: usize = 32;

/// Whether a value is bits of the state of barriers, among them that which says that objects have two copies.
fn asks_for_replicas(code: &Code, value: ir::Value) -> bool {
    let dfg = &code.function.dfg;
    let definition = |value| dfg.value_def(dfg.resolve_aliases(value)).inst();
    let Some(band) = definition(value) else { return false };
    let [state, bit] = *dfg.inst_args(band) else { return false };
    let is_state = definition(state).is_some_and(|load| {
        let region = dfg.insts[load].memflags_data(dfg).and_then(|flags| flags.alias_region());
        region.is_some_and(|region| Region::is_barrier_state(dfg.alias_regions[region].user_id))
    });
    let is_bit = definition(bit).is_some_and(|inst| match dfg.insts[inst] {
        InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => {
            imm.bits() & i64::from(MutatorContext::REPLICAS) != 0
        }
        _ => false,
    });
    dfg.insts[band].opcode() == Opcode::Band && is_state && is_bit
}
