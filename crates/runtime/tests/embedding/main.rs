//! The embedding API, with modules in the text format, under every collector and reference model.

mod bulk;
mod calls;
mod closed;
mod collections;
mod copies;
mod deep;
mod entered;
mod exceptions;
mod fibers;
mod functions;
mod gc;
mod host;
mod images;
mod kept;
mod lazy;
mod limits;
mod linking;
mod mixed;
mod modules;
mod moving;
mod osr;
mod pieces;
mod quick_allocation;
mod replicas;
mod settled;
mod slices;
mod snapshots;
mod stops;
mod targets;
mod types;
mod vectors;
mod views;
mod weak;

use legato::{Config, Engine, Instance, Linker, Module, Result, Store};
use legato_test_matrix::{Row, product};

/// Collectors and reference models. Where objects can move, all do in each cycle.
fn heaps() -> Vec<Row> {
    let rows = product(&["collector", "references"]).into_iter();
    rows.map(|row| row.and("stress-move=on").unwrap_or(row)).collect()
}

/// One engine for each collector and reference model, with the heap verified after each collection.
fn engines() -> Vec<Engine> {
    heaps().iter().map(|heap| engine(heap, "")).collect()
}

/// An engine with a verified heap and these further settings.
fn engine(heap: &Row, settings: &'static str) -> Engine {
    let heap = heap.with("verify=on").with(settings).heap();
    Engine::new(Config::new().compiler_verifier(true).heap(heap)).unwrap()
}

/// A store with `data` and an instance of a module that imports nothing.
fn instance<T: 'static>(engine: &Engine, data: T, text: &str) -> Result<(Store<T>, Instance)> {
    let mut store = Store::new(engine, data);
    let module = Module::new(engine, text)?;
    let instance = Linker::new(engine).instantiate(&mut store, &module)?;
    Ok((store, instance))
}
