//! Legato, with its defaults.

use super::{Engine, Run};
use ::legato::{Compilation, Config, GcObserver, HeapStats, Module};
use std::path::Path;

mod command {
    super::super::command::command!(legato);
}

/// The engine that the lab is about.
pub struct Legato {
    engine: ::legato::Engine,
    /// The heap's options, as given.
    heap: String,
}

impl Legato {
    /// An engine with Legato's defaults, but for a heap of the options given: each `KEY=VALUE`.
    ///
    /// # Errors
    /// If an option is unknown, or this host is not supported.
    pub fn new(heap: &[String]) -> anyhow::Result<Legato> {
        Ok(Legato { engine: ::legato::Engine::new(&config(heap)?)?, heap: heap.join(",") })
    }

    /// As [`new`](Self::new), with functions compiled then, and so many bytes of stack for guests. Threads that run
    /// them must have more.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn compiling(heap: &[String], compilation: Compilation, stack: usize) -> anyhow::Result<Legato> {
        let mut config = config(heap)?;
        config.compilation(compilation).max_wasm_stack(stack);
        Ok(Legato { engine: ::legato::Engine::new(&config)?, heap: heap.join(",") })
    }

    /// As [`start`](Engine::start), with every collection told to `observer`.
    ///
    /// # Errors
    /// As [`start`](Engine::start).
    pub fn start_observed(
        &self,
        module: &Module,
        arguments: &[String],
        observer: Box<dyn GcObserver>,
    ) -> anyhow::Result<Run> {
        command::start(&self.engine, module, arguments, |store| store.set_gc_observer(observer), |_| {})
    }

    /// As [`start_observed`](Self::start_observed), with the heap's totals at the end.
    ///
    /// # Errors
    /// As [`start`](Engine::start).
    pub fn start_counted(
        &self,
        module: &Module,
        arguments: &[String],
        observer: Box<dyn GcObserver>,
    ) -> anyhow::Result<(Run, HeapStats)> {
        let mut totals = HeapStats::default();
        let observe = |store: &mut ::legato::Store<_>| store.set_gc_observer(observer);
        let run = command::start(&self.engine, module, arguments, observe, |store| totals = store.heap_stats())?;
        Ok((run, totals))
    }

    /// Runs a program to its end, and returns the heap's totals.
    ///
    /// # Errors
    /// As [`start`](Engine::start).
    pub fn totals(&self, module: &Module, arguments: &[String]) -> anyhow::Result<HeapStats> {
        let mut totals = HeapStats::default();
        command::start(&self.engine, module, arguments, |_| {}, |store| totals = store.heap_stats())?;
        Ok(totals)
    }

    /// As [`start_observed`](Self::start_observed), with one collection more after the program's end, so that the
    /// observer is told of all that happened. `ended` is called in between.
    ///
    /// # Errors
    /// As [`start`](Engine::start).
    pub fn start_observed_to_the_end(
        &self,
        module: &Module,
        arguments: &[String],
        observer: Box<dyn GcObserver>,
        ended: impl FnOnce(),
    ) -> anyhow::Result<Run> {
        let finish = |store: &mut ::legato::Store<_>| {
            ended();
            store.gc();
        };
        command::start(&self.engine, module, arguments, |store| store.set_gc_observer(observer), finish)
    }
}

/// Legato's default configuration with a heap of the options given: each `KEY=VALUE`.
///
/// # Errors
/// If an option is unknown.
pub fn config(heap: &[String]) -> anyhow::Result<Config> {
    let mut config = Config::new();
    for option in heap {
        let Some((key, value)) = option.split_once('=') else {
            anyhow::bail!("heap option '{option}' is not of the form KEY=VALUE");
        };
        config.heap_option(key.trim(), value.trim())?;
    }
    Ok(config)
}

impl Engine for Legato {
    type Module = Module;

    fn name(&self) -> String {
        let heap = if self.heap.is_empty() { String::new() } else { format!(" ({})", self.heap) };
        format!("legato {}{heap}", env!("CARGO_PKG_VERSION"))
    }

    fn compile(&self, wasm: &[u8]) -> anyhow::Result<Module> {
        Module::new(&self.engine, wasm)
    }

    fn save(&self, module: &Module) -> anyhow::Result<Vec<u8>> {
        module.serialize()
    }

    unsafe fn load(&self, file: &Path) -> anyhow::Result<Module> {
        // SAFETY: the caller's promise.
        unsafe { Module::deserialize_file(&self.engine, file) }
    }

    fn start(&self, module: &Module, arguments: &[String]) -> anyhow::Result<Run> {
        command::start(&self.engine, module, arguments, |_| {}, |_| {})
    }
}
