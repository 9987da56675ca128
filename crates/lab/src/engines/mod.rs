//! The engines behind one interface, so that both contestants run through the same code.

mod command;
mod host;
mod legato;
#[cfg(feature = "peers")]
mod node;
#[cfg(feature = "peers")]
mod wasmtime;

pub(crate) use self::host::TEAVM_HEAP_OFFSET;
pub use self::legato::{Legato, config as legato_config};
#[cfg(feature = "peers")]
pub use self::node::Node;
#[cfg(feature = "peers")]
pub use self::wasmtime::Wasmtime;
#[cfg(feature = "peers")]
pub(crate) use self::wasmtime::error as wasmtime_error;

use crate::measure::Time;
use std::path::Path;

/// An engine in this process that compiles modules and runs programs.
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

    /// The compiled module as bytes that [`load`](Self::load) takes.
    ///
    /// # Errors
    /// If it cannot be encoded.
    fn save(&self, module: &Self::Module) -> anyhow::Result<Vec<u8>>;

    /// Loads a compiled module from a file.
    ///
    /// # Errors
    /// If the file cannot be read, or was made by an engine with another configuration.
    ///
    /// # Safety
    /// The file's content comes unaltered from [`save`](Self::save): it is machine code.
    unsafe fn load(&self, file: &Path) -> anyhow::Result<Self::Module>;

    /// Instantiates a module in a new store and calls its entry. A program with WASI is given its arguments, of which
    /// the first is its name, and entered at `_start`. A Java program compiled by TeaVM has its size as an argument:
    /// with one, `sized` is called, else `run`.
    ///
    /// # Errors
    /// If the module has no such entry, traps, or exits with another code than 0.
    fn start(&self, module: &Self::Module, arguments: &[String]) -> anyhow::Result<Run>;
}

/// One run of a program.
#[derive(Clone, Debug)]
pub struct Run {
    /// Instantiation, start function included.
    pub instantiation: Time,
    /// The call of the entry.
    pub run: Time,
    /// What the program printed.
    pub output: Vec<u8>,
}
