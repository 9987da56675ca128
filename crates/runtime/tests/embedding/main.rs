//! The embedding API, with modules in the text format, under every collector and reference model.

mod calls;
mod collections;
mod gc;
mod host;
mod linking;
mod modules;
mod stops;
mod views;

use legato::{Config, Engine, Instance, Linker, Module, Result, Store};

/// Collectors and reference models.
const HEAPS: [&str; 3] = ["generational/direct", "mark-sweep/direct", "mark-sweep/thin-handles"];

/// One engine for each collector and reference model, with the heap verified after each collection.
fn engines() -> Vec<Engine> {
    HEAPS.map(|heap| engine(heap, &[])).into()
}

/// An engine with a verified heap, one of [`HEAPS`], and these options.
fn engine(heap: &str, options: &[(&str, &str)]) -> Engine {
    let (collector, references) = heap.split_once('/').unwrap();
    let mut config = Config::new();
    config.compiler_verifier(true).heap_option("collector", collector).unwrap();
    config.heap_option("references", references).unwrap().heap_option("verify", "on").unwrap();
    for (key, value) in options {
        config.heap_option(key, value).unwrap();
    }
    Engine::new(&config).unwrap()
}

/// A store with `data` and an instance of a module that imports nothing.
fn instance<T: 'static>(engine: &Engine, data: T, text: &str) -> Result<(Store<T>, Instance)> {
    let mut store = Store::new(engine, data);
    let module = Module::new(engine, text)?;
    let instance = Linker::new(engine).instantiate(&mut store, &module)?;
    Ok((store, instance))
}
