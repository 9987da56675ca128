//! wasmtime, with its defaults and the proposals that Kotlin's modules need.

use super::{Engine, Run};
use anyhow::{Context, anyhow};
use std::path::Path;
use wasmtime::{Config, Module};

mod command {
    super::super::command::command!(wasmtime);
}

/// wasmtime 48.
pub struct Wasmtime {
    engine: wasmtime::Engine,
}

impl Wasmtime {
    /// An engine with wasmtime's defaults.
    ///
    /// # Errors
    /// If this host is not supported.
    pub fn new() -> anyhow::Result<Wasmtime> {
        let mut config = Config::new();
        config.wasm_gc(true).wasm_function_references(true).wasm_exceptions(true);
        Ok(Wasmtime { engine: wasmtime::Engine::new(&config).map_err(error)? })
    }
}

impl Wasmtime {
    /// wasmtime's own engine.
    pub(crate) fn engine(&self) -> &wasmtime::Engine {
        &self.engine
    }
}

/// wasmtime's error as the lab's, with all its causes.
pub(crate) fn error(error: wasmtime::Error) -> anyhow::Error {
    anyhow!("{error:?}")
}

impl Engine for Wasmtime {
    type Module = Module;

    fn name(&self) -> String {
        "wasmtime 48".into()
    }

    fn compile(&self, wasm: &[u8]) -> anyhow::Result<Module> {
        Module::new(&self.engine, wasm).map_err(error)
    }

    fn save(&self, module: &Module) -> anyhow::Result<Vec<u8>> {
        module.serialize().map_err(error)
    }

    unsafe fn load(&self, file: &Path) -> anyhow::Result<Module> {
        // SAFETY: the caller's promise.
        unsafe { Module::deserialize_file(&self.engine, file) }.map_err(error)
    }

    fn start(&self, module: &Module, arguments: &[String]) -> anyhow::Result<Run> {
        command::start(&self.engine, module, arguments, |_| {}, |_| {}).map_err(error).context("wasmtime")
    }
}
