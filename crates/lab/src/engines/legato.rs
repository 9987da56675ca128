//! Legato, with its defaults.

use super::{Engine, Run};
use ::legato::{Config, Module};

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

    fn start(&self, module: &Module, arguments: &[String]) -> anyhow::Result<Run> {
        command::start(&self.engine, module, arguments)
    }
}
