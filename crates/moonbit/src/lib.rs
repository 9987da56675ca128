//! The host of MoonBit programs (target `wasm-gc`).
//!
//! Such a program imports `spectest.print_char` to print and, where it uses them, arguments, environment, time and
//! files from modules called `__moonbit_*_unstable`: the interface of MoonBit's own runner. It exports its entry as
//! `_start`. [`is_moonbit_module`] recognises one, [`add_to_linker`] provides what it imports.
//!
//! What the program has of its host is a [`WasiCtx`](legato_wasi::WasiCtx): its streams, arguments and environment, and
//! the directories that it was given. It reaches no file beside these.
//!
//! ```no_run
//! use legato::{Engine, Linker, Module, Store};
//! use legato_moonbit::MoonBitCtx;
//! use legato_wasi::{WasiCtx, WasiCtxBuilder};
//!
//! struct Host {
//!     wasi: WasiCtx,
//!     moonbit: MoonBitCtx,
//! }
//!
//! # fn main() -> anyhow::Result<()> {
//! let engine = Engine::default();
//! let module = Module::from_file(&engine, "program.wasm")?;
//! let mut builder = WasiCtxBuilder::new();
//! builder.inherit_stdio().arg("program.wasm");
//! let host = Host { wasi: builder.build(), moonbit: MoonBitCtx::default() };
//! let mut store = Store::new(&engine, host);
//! let mut linker = Linker::new(&engine);
//! legato_moonbit::add_to_linker(&mut linker, &module, |host: &mut Host| (&mut host.moonbit, &mut host.wasi))?;
//! let instance = linker.instantiate(&mut store, &module)?;
//! instance.get_typed_func::<(), ()>(&mut store, "_start")?.call(&mut store, ())?;
//! # Ok(())
//! # }
//! ```
//!
//! A program that calls `exit` ends with the error [`I32Exit`](legato_wasi::I32Exit). A panic is the trap of an
//! `unreachable` instruction.

mod console;
mod files;
mod imports;
mod values;

pub use imports::{add_to_linker, is_moonbit_module};
pub use values::Closure;

/// What a MoonBit program has of its host beside a [`WasiCtx`](legato_wasi::WasiCtx): where it is in a character, and
/// what the last call about a file brought.
#[derive(Default)]
pub struct MoonBitCtx {
    console: console::Console,
    files: files::Results,
}
