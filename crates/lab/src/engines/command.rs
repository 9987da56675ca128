//! How a command runs, written once for both engines: Legato's API has wasmtime's names and shapes.

/// Defines `start` for the crate `$engine`: instantiation with [`Wasi`](crate::wasi::Wasi) as the host, then `_start`.
macro_rules! command {
    ($engine:ident) => {
        use super::super::Run;
        use crate::measure::Time;
        use crate::wasi::{Exit, MODULE, Wasi};
        use ::$engine::{Caller, Engine, Error, Extern, Linker, Module, Result, Store};

        type Host<'a> = Caller<'a, Wasi>;

        /// Runs a command once, in a store of its own.
        pub(super) fn start(engine: &Engine, module: &Module, arguments: &[String]) -> Result<Run> {
            let mut linker = Linker::new(engine);
            link(&mut linker)?;
            linker.define_unknown_imports_as_traps(module)?;
            let mut store = Store::new(engine, Wasi::new(arguments));
            let (instantiation, instance) = Time::of(|| linker.instantiate(&mut store, module));
            let start = instance?.get_typed_func::<(), ()>(&mut store, "_start")?;
            let (run, result) = Time::of(|| start.call(&mut store, ()));
            match result {
                Err(error) if error.downcast_ref::<Exit>() != Some(&Exit(0)) => return Err(error),
                _ => {}
            }
            Ok(Run { instantiation, run, output: store.into_data().output })
        }

        /// Defines the functions of [`Wasi`].
        fn link(linker: &mut Linker<Wasi>) -> Result<()> {
            linker.func_wrap(MODULE, "fd_write", |mut caller: Host<'_>, a: i32, b: i32, c: i32, d: i32| {
                call(&mut caller, |wasi, memory| wasi.fd_write(memory, a, b, c, d))
            })?;
            linker.func_wrap(MODULE, "random_get", |mut caller: Host<'_>, a: i32, b: i32| {
                call(&mut caller, |wasi, memory| wasi.random_get(memory, a, b))
            })?;
            linker.func_wrap(MODULE, "clock_time_get", |mut caller: Host<'_>, a: i32, b: i64, c: i32| {
                call(&mut caller, |wasi, memory| wasi.clock_time_get(memory, a, b, c))
            })?;
            linker.func_wrap(MODULE, "args_sizes_get", |mut caller: Host<'_>, a: i32, b: i32| {
                call(&mut caller, |wasi, memory| wasi.args_sizes_get(memory, a, b))
            })?;
            linker.func_wrap(MODULE, "args_get", |mut caller: Host<'_>, a: i32, b: i32| {
                call(&mut caller, |wasi, memory| wasi.args_get(memory, a, b))
            })?;
            linker.func_wrap(MODULE, "environ_sizes_get", |mut caller: Host<'_>, a: i32, b: i32| {
                call(&mut caller, |wasi, memory| wasi.environ_sizes_get(memory, a, b))
            })?;
            linker.func_wrap(MODULE, "environ_get", |mut caller: Host<'_>, a: i32, b: i32| {
                call(&mut caller, |wasi, memory| wasi.environ_get(memory, a, b))
            })?;
            linker.func_wrap(MODULE, "proc_exit", |code: i32| -> Result<()> { Err(Error::new(Exit(code))) })?;
            Ok(())
        }

        /// Calls the host with the caller's memory.
        fn call(caller: &mut Host<'_>, work: impl FnOnce(&mut Wasi, &mut [u8]) -> i32) -> Result<i32> {
            let Some(Extern::Memory(memory)) = caller.get_export("memory") else {
                return Err(Error::msg("the program exports no memory"));
            };
            let (memory, wasi) = memory.data_and_store_mut(caller);
            Ok(work(wasi, memory))
        }
    };
}

pub(super) use command;
