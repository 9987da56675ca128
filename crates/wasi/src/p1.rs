//! Preview 1 by the names that users of wasmtime know.

pub use crate::ctx::WasiCtx as WasiP1Ctx;
pub use crate::linker::add_to_linker as add_to_linker_sync;
