//! Wasm to native code, by way of MIR and Cranelift. Learns from the heap, as data, what code to emit per access.

pub mod abi;
pub mod artifact;
mod driver;
pub mod emit;
mod error;
mod lower;
pub mod mir;
pub mod module;
mod on_demand;
mod options;
pub mod passes;
pub mod sources;
pub mod translate;

pub use driver::{Generated, compile, compile_observed, translate_module};
pub use emit::compile_trampolines;
pub use error::CompileError;
pub use on_demand::{OnDemand, Tier};
pub use options::{CompileOptions, Features};
