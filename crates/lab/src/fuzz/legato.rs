//! The engine under test.

use super::observation::{Observation, Outcome, observe as carry_out};
use super::plan::Plan;
use super::wasmtime::STACK;
use ::legato::{Compilation, Instance, Module, Store};
use legato_test_matrix::{FUZZ, Row};
use std::sync::LazyLock;

mod subject {
    super::super::subject::subject!(legato);
}

/// The heap for the module of a seed: these options, or else a row of the test matrix.
pub fn heap(options: &[String], seed: u64) -> Vec<String> {
    static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| FUZZ.rows());
    if !options.is_empty() {
        return options.to_vec();
    }
    let row = &ROWS[(seed % ROWS.len() as u64) as usize];
    row.settings().map(|(key, value)| format!("{key}={value}")).collect()
}

/// The engine with a heap of these options, which checks itself unless they say otherwise.
fn engine(heap: &[String], compilation: Compilation) -> anyhow::Result<::legato::Engine> {
    let mut options = vec!["verify=on".to_string()];
    options.extend_from_slice(heap);
    let mut config = crate::engines::legato_config(&options)?;
    config.max_wasm_stack(STACK).parallel_compilation(false).compiler_verifier(true).compilation(compilation);
    ::legato::Engine::new(&config)
}

/// Whether the options make a heap.
///
/// # Errors
/// If not.
pub fn check(heap: &[String]) -> anyhow::Result<()> {
    engine(heap, Compilation::Eager).map(drop)
}

/// Runs a module in Legato.
///
/// # Errors
/// If the engine does not start.
pub fn observe(wasm: &[u8], plan: &Plan, budget: u32, heap: &[String]) -> anyhow::Result<Observation> {
    // Every other module lazily, as its length will have it: the same one always in the same way.
    let compilation = if wasm.len().is_multiple_of(2) { Compilation::Lazy } else { Compilation::Eager };
    let engine = engine(heap, compilation)?;
    let module = match Module::new(&engine, wasm) {
        Ok(module) => module,
        Err(error) => return Ok(Observation::not_instantiated(Outcome::Failure(format!("{error:#}")))),
    };
    let mut store = Store::new(&engine, ());
    Ok(match Instance::new(&mut store, &module, &[]) {
        Ok(instance) => {
            let mut subject = subject::Engine { store, instance };
            let observation = carry_out(&mut subject, plan, budget);
            // What the calls left behind must be a sound heap; the heap's checks panic where it is not.
            subject.store.gc();
            observation
        }
        Err(error) => Observation::not_instantiated(subject::failed(&error)),
    })
}
