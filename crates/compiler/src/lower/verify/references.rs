//! Where references are used, and what lies between there and their definitions.

use cranelift_codegen::ir::{self, Opcode};
use rustc_hash::{FxHashMap, FxHashSet};

use super::code::Code;

/// Uses of a value: the block, and the position up to which safepoints lie before the use.
type Uses = FxHashMap<ir::Value, Vec<(ir::Block, u32)>>;

pub(super) fn check(code: &Code) -> Result<(), String> {
    if code.moving {
        check_loads(code)?;
    }
    if code.objects_move {
        let from: Vec<_> = if code.moving { code.references.keys().copied().collect() } else { Vec::new() };
        check_values(code, &derived(code, from.into_iter().chain(code.addresses.iter().copied())), &stale)?;
    }
    if !code.moving {
        check_values(code, &code.references.keys().copied().collect(), &unmapped)?;
    }
    Ok(())
}

/// What is wrong with a use of a value behind a safepoint that lies behind its definition.
type Problem = dyn Fn(&Code, ir::Value, ir::Inst) -> Result<(), String>;

fn check_values(code: &Code, values: &FxHashSet<ir::Value>, problem: &Problem) -> Result<(), String> {
    let uses = uses(code, values);
    // In the order of the values, so that the error is always the same.
    let mut values: Vec<_> = uses.keys().copied().collect();
    values.sort_unstable_by_key(|value| value.as_u32());
    values.into_iter().try_for_each(|value| check_value(code, value, &uses[&value], problem))
}

/// No load of a reference may be moved over a safepoint, by which the cell may have changed.
fn check_loads(code: &Code) -> Result<(), String> {
    let dfg = &code.function.dfg;
    for &reference in code.references.keys() {
        if let ir::ValueDef::Result(inst, _) = dfg.value_def(reference)
            && let Some(flags) = dfg.insts[inst].memflags_data(dfg)
            && (flags.readonly() || flags.can_move())
        {
            return Err(format!("the reference that {} loads may change, but the load may be moved", code.show(inst)));
        }
    }
    Ok(())
}

/// Values, and all that is computed from them: of references, and of addresses of objects, the addresses of their
/// parts.
fn derived(code: &Code, from: impl Iterator<Item = ir::Value>) -> FxHashSet<ir::Value> {
    let (function, notes) = (code.function, code.notes);
    let dfg = &function.dfg;
    // Who is computed from whom.
    let mut results: FxHashMap<ir::Value, Vec<ir::Value>> = FxHashMap::default();
    for block in function.layout.blocks() {
        for inst in function.layout.block_insts(block) {
            if is_computation(dfg.insts[inst].opcode()) {
                for &arg in dfg.inst_args(inst) {
                    results.entry(dfg.resolve_aliases(arg)).or_default().extend(dfg.inst_results(inst));
                }
            }
            for call in dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables) {
                let params = dfg.block_params(call.block(&dfg.value_lists));
                for (arg, &param) in call.args(&dfg.value_lists).zip(params) {
                    if let Some(arg) = arg.as_value() {
                        results.entry(dfg.resolve_aliases(arg)).or_default().push(param);
                    }
                }
            }
        }
    }
    let is_exempt = |value: &ir::Value| notes.numbers.contains(value) || notes.guarded.contains(value);
    let mut work: Vec<_> = from.filter(|value| !is_exempt(value)).collect();
    let mut derived: FxHashSet<_> = work.iter().copied().collect();
    while let Some(value) = work.pop() {
        for &result in results.get(&value).into_iter().flatten() {
            if !is_exempt(&result) && derived.insert(result) {
                work.push(result);
            }
        }
    }
    derived
}

/// Whether an operation on a reference makes an address, or the same reference in another form.
fn is_computation(opcode: Opcode) -> bool {
    use Opcode::*;
    matches!(
        opcode,
        Iadd | Isub | Imul | Band | Bor | Bxor | Ishl | Ushr | Sshr | Uextend | Sextend | Ireduce | Select | Bitcast
    )
}

/// The values that anything depends on but computations of references and parameters of blocks that nothing depends on:
/// what is passed to other parameters is not used.
fn live_params(function: &ir::Function) -> FxHashSet<ir::Value> {
    let dfg = &function.dfg;
    let mut passed: FxHashMap<ir::Value, Vec<ir::Value>> = FxHashMap::default();
    let mut work = Vec::new();
    for inst in function.layout.blocks().flat_map(|block| function.layout.block_insts(block)) {
        let args = dfg.inst_args(inst).iter().map(|&arg| dfg.resolve_aliases(arg));
        if is_computation(dfg.insts[inst].opcode()) {
            passed.entry(dfg.first_result(inst)).or_default().extend(args);
        } else {
            work.extend(args);
        }
        for call in dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables) {
            let params = dfg.block_params(call.block(&dfg.value_lists));
            for (arg, &param) in call.args(&dfg.value_lists).zip(params) {
                passed.entry(param).or_default().extend(arg.as_value().map(|arg| dfg.resolve_aliases(arg)));
            }
        }
    }
    let mut live = FxHashSet::default();
    while let Some(value) = work.pop() {
        if let Some(args) = passed.get(&value)
            && live.insert(value)
        {
            work.extend(args);
        }
    }
    live
}

fn uses(code: &Code, values: &FxHashSet<ir::Value>) -> Uses {
    let function = code.function;
    let dfg = &function.dfg;
    let live = live_params(function);
    let mut uses = Uses::default();
    let mut note = |value: ir::Value, block, position| {
        let value = dfg.resolve_aliases(value);
        if values.contains(&value) {
            uses.entry(value).or_default().push((block, position));
        }
    };
    for block in function.layout.blocks() {
        for inst in function.layout.block_insts(block) {
            let position = code.positions[&inst];
            dfg.inst_args(inst).iter().for_each(|&arg| note(arg, block, position - 1));
            // What a call passes on to where it returns is used behind it.
            for call in dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables) {
                let params = dfg.block_params(call.block(&dfg.value_lists));
                for (arg, _) in call.args(&dfg.value_lists).zip(params).filter(|(_, param)| live.contains(param)) {
                    if let Some(arg) = arg.as_value() {
                        note(arg, block, position);
                    }
                }
            }
        }
    }
    uses
}

/// Explores from each use back to the definition, and looks at the safepoints on the way.
fn check_value(code: &Code, value: ir::Value, uses: &[(ir::Block, u32)], problem: &Problem) -> Result<(), String> {
    let (def_block, defined) = match code.function.dfg.value_def(value) {
        ir::ValueDef::Result(inst, _) => {
            (code.function.layout.inst_block(inst).expect("a definition in the function"), code.positions[&inst])
        }
        ir::ValueDef::Param(block, _) => (block, 0),
        ir::ValueDef::Union(..) => unreachable!("unions come with optimisation"),
    };
    let mut explored = FxHashSet::default();
    let mut work = uses.to_vec();
    while let Some((block, position)) = work.pop() {
        let is_defining = block == def_block && position >= defined;
        for &safepoint in &code.safepoints[&block] {
            let at = code.positions[&safepoint];
            if at <= position && !(is_defining && at <= defined) {
                problem(code, value, safepoint)?;
            }
        }
        if is_defining {
            continue;
        }
        for predecessor in code.graph.pred_iter(block) {
            if explored.insert(predecessor.block) {
                work.push((predecessor.block, u32::MAX));
            }
        }
    }
    Ok(())
}

/// The collector may have moved the object.
fn stale(code: &Code, value: ir::Value, safepoint: ir::Inst) -> Result<(), String> {
    Err(format!(
        "{value} is a reference or an address within an object, which {} may change, and is used behind it",
        code.show(safepoint)
    ))
}

/// The collector has not found the reference, unless the stack map says where it is.
fn unmapped(code: &Code, value: ir::Value, safepoint: ir::Inst) -> Result<(), String> {
    let Some(&Some(reference)) = code.references.get(&value) else { return Ok(()) };
    let is_found = code.notes.maps.get(&safepoint).is_some_and(|map| map.iter().any(|&(_, found)| found == reference));
    if is_found {
        return Ok(());
    }
    Err(format!("the reference {value} is used behind {}, whose stack map has it not", code.show(safepoint)))
}
