//! The engines behind one interface, so that both contestants run through the same code.

mod command;
mod legato;
#[cfg(feature = "peers")]
mod wasmtime;

pub use self::legato::{Legato, config as legato_config};
#[cfg(feature = "peers")]
pub use self::wasmtime::Wasmtime;
#[cfg(feature = "peers")]
pub(crate) use self::wasmtime::error as wasmtime_error;

use crate::measure::Time;

/// An engine that compiles modules and runs commands.
pub trait Engine {
    /// A compiled module.
    type Module;

    /// Name and version.
    fn name(&self) -> String;

    /// Compiles a module with everything that the engine does by default, threads included.
    ///
    /// # Errors
    /// If the module is invalid or not supported.
    fn compile(&self, wasm: &[u8]) -> anyhow::Result<Self::Module>;

    /// Instantiates a module in a new store, with [`Wasi`](crate::wasi::Wasi) as its host, and calls `_start`.
    ///
    /// # Errors
    /// If the module has no `_start`, traps, or exits with another code than 0.
    fn start(&self, module: &Self::Module, arguments: &[String]) -> anyhow::Result<Run>;
}

/// One run of a command.
#[derive(Clone, Debug)]
pub struct Run {
    /// Instantiation, start function included.
    pub instantiation: Time,
    /// The call of `_start`.
    pub run: Time,
    /// What the program printed.
    pub output: Vec<u8>,
}
