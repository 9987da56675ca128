//! The oracle.

use super::observation::{Observation, Outcome, observe as carry_out};
use super::plan::Plan;
use wasmtime::{Collector, Config, Instance, Module, Store};

mod subject {
    super::super::subject::subject!(wasmtime);
}

/// Bytes of stack that a guest may use: enough for nearly any recursion within the budget.
pub const STACK: usize = 2 << 20;

/// Runs a module in wasmtime.
///
/// # Errors
/// If wasmtime does not start.
pub fn observe(wasm: &[u8], plan: &Plan, budget: u32) -> anyhow::Result<Observation> {
    let mut config = Config::new();
    config.wasm_gc(true).wasm_function_references(true).wasm_exceptions(true).wasm_tail_call(true);
    config.wasm_memory64(true).wasm_multi_memory(true).wasm_extended_const(true);
    config.max_wasm_stack(STACK).collector(Collector::DeferredReferenceCounting);
    // Small modules: threads cost more than they bring.
    config.parallel_compilation(false);
    let engine = wasmtime::Engine::new(&config).map_err(crate::engines::wasmtime_error)?;
    let module = match Module::new(&engine, wasm) {
        Ok(module) => module,
        Err(error) => {
            return Ok(Observation::not_instantiated(Outcome::Failure(format!("{error:#}"))));
        }
    };
    let mut store = Store::new(&engine, ());
    Ok(match Instance::new(&mut store, &module, &[]) {
        Ok(instance) => carry_out(&mut subject::Engine { store, instance }, plan, budget),
        Err(error) => Observation::not_instantiated(subject::failed(&error)),
    })
}
