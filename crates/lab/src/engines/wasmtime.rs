//! wasmtime, with its defaults and the proposals that Kotlin's modules need, and any of its collectors.

use super::{Engine, Run};
use anyhow::{Context, anyhow, bail};
use std::path::Path;
use wasmtime::{Collector, Config, Module};

mod command {
    super::super::command::command!(wasmtime);
}

/// wasmtime 48.
pub struct Wasmtime {
    engine: wasmtime::Engine,
    /// The heap's options, as given.
    heap: String,
}

impl Wasmtime {
    /// An engine with wasmtime's defaults, but for a heap of the options given: `collector=copying`, which is the
    /// default, or `collector=reference-counting`, the deferred one.
    ///
    /// # Errors
    /// If an option is unknown, or this host is not supported.
    pub fn new(heap: &[String]) -> anyhow::Result<Wasmtime> {
        let mut config = Config::new();
        config.wasm_gc(true).wasm_function_references(true).wasm_exceptions(true);
        for option in heap {
            config.collector(match option.as_str() {
                "collector=copying" => Collector::Copying,
                "collector=reference-counting" => Collector::DeferredReferenceCounting,
                _ => bail!("wasmtime has no heap option '{option}'"),
            });
        }
        Ok(Wasmtime { engine: wasmtime::Engine::new(&config).map_err(error)?, heap: heap.join(",") })
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
        let heap = if self.heap.is_empty() { String::new() } else { format!(" ({})", self.heap) };
        format!("wasmtime 48{heap}")
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

#[cfg(test)]
mod tests {
    use super::*;

    /// More garbage than any heap of 4 GiB holds.
    const PROGRAM: &str = r#"(module
      (type $bytes (array (mut i8)))
      (func (export "_start") (local $left i32)
        (local.set $left (i32.const 70000))
        (loop $more
          (drop (array.new_default $bytes (i32.const 65536)))
          (local.set $left (i32.sub (local.get $left) (i32.const 1)))
          (br_if $more (local.get $left)))))"#;

    #[test]
    fn every_collector_collects() {
        let wasm = wat::parse_str(PROGRAM).unwrap();
        for heap in ["collector=copying", "collector=reference-counting"] {
            let engine = Wasmtime::new(&[heap.to_string()]).unwrap();
            assert!(engine.name().contains(heap), "{}", engine.name());
            let module = engine.compile(&wasm).unwrap();
            engine.start(&module, &[]).unwrap();
        }
        assert!(Wasmtime::new(&["collector=realtime".to_string()]).is_err());
    }
}
