//! One program under one heap configuration.

use super::host::{Host, linker};
use super::names::FUEL_OF_A_CALL;
use ::legato::{Compilation, Engine, Instance, Module, Store, ThrownException, Trap, Val};
use anyhow::Context;

/// What the host is called for, in this order, on each instance.
const CALLS: [&str; 9] = ["nests", "run-0", "observe", "run-1", "run-2", "run-0", "observe", "run-1", "observe"];
/// Instances of the module, one after another in one store: the second starts with a heap that has been in use.
const INSTANCES: usize = 2;

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It returned.
    Value(i64),
    /// It trapped.
    Trap(String),
    /// It threw.
    Exception,
    /// Out of memory or stack: nothing that a program's meaning determines.
    Exhausted(String),
    /// The engine failed in a way that no program gives it a reason for.
    Failure(String),
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The export.
    pub export: &'static str,
    /// How it ended.
    pub outcome: Outcome,
    /// The checksum afterwards.
    pub sum: i64,
}

/// Runs a program, and gives back what its calls did. The list ends early if an instance could not be made.
///
/// # Errors
/// If `heap` is no heap configuration.
pub fn run(wasm: &[u8], heap: &str, optimize: bool) -> anyhow::Result<Vec<Call>> {
    let options: Vec<String> = heap.split(',').map(str::to_string).collect();
    let mut config = crate::engines::legato_config(&options)?;
    // Every other program lazily, the same one always in the same way: quick code, and loops that are replaced.
    let compilation = if wasm.len().is_multiple_of(2) { Compilation::Lazy } else { Compilation::Eager };
    config.parallel_compilation(false).compiler_verifier(true).optimize(optimize).compilation(compilation);
    let engine = Engine::new(&config)?;
    let failure = |error: anyhow::Error| vec![Call { export: "module", outcome: ended(&error), sum: 0 }];
    let module = match Module::new(&engine, wasm) {
        Ok(module) => module,
        Err(error) => return Ok(failure(error)),
    };
    let mut store = Store::new(&engine, Host::default());
    let linker = linker(&engine)?;
    let mut calls = Vec::new();
    for _ in 0..INSTANCES {
        let instance = match linker.instantiate(&mut store, &module) {
            Ok(instance) => instance,
            Err(error) => return Ok(failure(error)),
        };
        for export in CALLS {
            calls.push(call(&mut store, &instance, export)?);
        }
    }
    // What is left behind must be a sound heap: with checks, they fail here if it is not.
    store.gc();
    Ok(calls)
}

fn call(store: &mut Store<Host>, instance: &Instance, export: &'static str) -> anyhow::Result<Call> {
    let function = instance.get_func(&mut *store, export).context("an exported function")?;
    let fuel = instance.get_global(&mut *store, "fuel").context("the exported fuel")?;
    let sum = instance.get_global(&mut *store, "sum").context("the exported checksum")?;
    fuel.set(&mut *store, Val::I32(FUEL_OF_A_CALL))?;
    let mut results = [Val::I64(0)];
    let outcome = match function.call(&mut *store, &[], &mut results) {
        Ok(()) => Outcome::Value(results[0].unwrap_i64()),
        Err(error) => {
            store.take_pending_exception();
            ended(&error)
        }
    };
    store.data_mut().returned();
    Ok(Call { export, outcome, sum: sum.get(&mut *store).unwrap_i64() })
}

fn ended(error: &anyhow::Error) -> Outcome {
    if error.is::<ThrownException>() {
        return Outcome::Exception;
    }
    match error.downcast_ref::<Trap>() {
        Some(trap @ (Trap::StackOverflow | Trap::Interrupt | Trap::AllocationFailure | Trap::AllocationTooLarge)) => {
            Outcome::Exhausted(trap.to_string())
        }
        Some(Trap::Internal) | None => Outcome::Failure(format!("{error:#}")),
        Some(trap) => Outcome::Trap(trap.to_string()),
    }
}

/// What differs between a program's calls and those of the oracle; `None` if nothing does, as far as they can be
/// compared.
pub fn difference(calls: &[Call], oracle: &[Call]) -> Option<String> {
    for (number, (call, right)) in (1..).zip(calls.iter().zip(oracle)) {
        if matches!(call.outcome, Outcome::Exhausted(_)) || matches!(right.outcome, Outcome::Exhausted(_)) {
            return None;
        }
        if call != right || matches!(call.outcome, Outcome::Failure(_)) {
            return Some(format!("call {number}:\n  this row: {call:?}\n  oracle:   {right:?}"));
        }
    }
    (calls.len() != oracle.len()).then(|| format!("{} calls, the oracle {}", calls.len(), oracle.len()))
}
