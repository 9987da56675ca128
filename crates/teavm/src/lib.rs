//! The host of Java programs that TeaVM compiled to Wasm GC (target `WEBASSEMBLY_GC`), without JavaScript.
//!
//! Such a module imports a memory, a console, a clock, mathematics and, where the program uses them, weak references.
//! It exports its entry as `run`. [`is_teavm_module`] recognises one, [`add_to_linker`] provides what it imports.
//!
//! ```no_run
//! use legato::{Engine, Linker, Module, Store};
//! use legato_teavm::TeaVmCtx;
//!
//! # fn main() -> anyhow::Result<()> {
//! let engine = Engine::default();
//! let module = Module::from_file(&engine, "program.wasm")?;
//! let mut store = Store::new(&engine, TeaVmCtx::inherit_stdio());
//! let mut linker = Linker::new(&engine);
//! legato_teavm::add_to_linker(&mut linker, &mut store, &module, |ctx| ctx)?;
//! let instance = linker.instantiate(&mut store, &module)?;
//! instance.get_typed_func::<(), ()>(&mut store, "run")?.call(&mut store, ())?;
//! # Ok(())
//! # }
//! ```
//!
//! # Weak references
//!
//! A `java.lang.ref.WeakReference` is cleared by the collection that finds its target dead. Its queue is told when the
//! program next calls the host: to create a weak reference or to look at one, to ask for the time, to print a line. A
//! program that waits for its queue without any of these waits for ever. `System.gc()` does nothing in programs that
//! TeaVM has compiled: who wants a collection allocates, or has the embedder call [`Store::gc`](legato::Store::gc).
//! Soft references are strong: TeaVM makes them so.

mod console;
mod exception;
mod imports;
mod math;
mod memory;
mod weak;

pub use console::TeaVmCtx;
pub use exception::{exception_message, exception_text};
pub use imports::{add_to_linker, is_teavm_module};
