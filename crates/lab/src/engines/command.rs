//! How a program runs, written once for both engines: Legato's API has wasmtime's names and shapes.

/// Defines `start` for the crate `$engine`: instantiation with [`Host`](super::host::Host), then the program's entry.
macro_rules! command {
    ($engine:ident) => {
        use super::super::Run;
        use super::super::host::{Host, INSTRUCTIONS, Math, TEAVM_HEAP_OFFSET, math};
        use crate::measure::Time;
        use crate::wasi::{Exit, MODULE, Wasi};
        use ::$engine::{
            Caller, Engine, Error, Extern, ExternType, Global, Instance, Linker, Memory, Module, Result, Store, Val,
        };
        use std::time::{SystemTime, UNIX_EPOCH};

        type Call<'a> = Caller<'a, Host>;

        /// Runs a program once, in a store of its own, which `prepare` sees before the run and `finish` after it.
        pub(super) fn start(
            engine: &Engine,
            module: &Module,
            arguments: &[String],
            prepare: impl FnOnce(&mut Store<Host>),
            finish: impl FnOnce(&mut Store<Host>),
        ) -> Result<Run> {
            let mut linker = Linker::new(engine);
            let mut store = Store::new(engine, Host::new(arguments));
            prepare(&mut store);
            let is_teavm = module.imports().any(|import| import.module() == "teavmMemory");
            if is_teavm {
                link_teavm(&mut linker, &mut store, module)?;
            } else {
                link(&mut linker)?;
                link_moonbit(&mut linker)?;
            }
            let is_sized = module.get_export("sized").is_some();
            linker.define_unknown_imports_as_traps(module)?;
            let (instantiation, instance) = Time::of(|| linker.instantiate(&mut store, module));
            let instance = instance?;
            let (run, result) = match arguments.get(1) {
                Some(size) if is_sized => call_entry(&mut store, &instance, "sized", (size.parse::<i32>()?,)),
                _ if is_teavm => call_entry(&mut store, &instance, "run", ()),
                _ => call_entry(&mut store, &instance, "_start", ()),
            }?;
            match result {
                Err(error) if error.downcast_ref::<Exit>() != Some(&Exit(0)) => return Err(error),
                _ => {}
            }
            finish(&mut store);
            Ok(Run { instantiation, run, output: store.into_data().into_output() })
        }

        /// Calls an export and measures the call alone.
        fn call_entry<P: ::$engine::WasmParams>(
            store: &mut Store<Host>,
            instance: &Instance,
            name: &str,
            parameters: P,
        ) -> Result<(Time, Result<()>)> {
            let entry = instance.get_typed_func::<P, ()>(&mut *store, name)?;
            Ok(Time::of(|| entry.call(&mut *store, parameters)))
        }

        /// Provides what a Java program compiled by TeaVM imports.
        fn link_teavm(linker: &mut Linker<Host>, store: &mut Store<Host>, module: &Module) -> Result<()> {
            let instructions = Module::new(linker.engine(), INSTRUCTIONS)?;
            let instructions = Instance::new(&mut *store, &instructions, &[])?;
            for import in module.imports() {
                let (from, name) = (import.module(), import.name());
                match (from, name, import.ty()) {
                    ("env", "memory", ExternType::Memory(ty)) => {
                        let memory = Memory::new(&mut *store, ty)?;
                        linker.define(&*store, from, name, memory)?;
                    }
                    ("teavmMemory", _, ExternType::Global(ty)) => {
                        let value = if name == "heapOffset" { TEAVM_HEAP_OFFSET } else { i32::MAX };
                        let global = Global::new(&mut *store, ty, Val::I32(value))?;
                        linker.define(&*store, from, name, global)?;
                    }
                    ("teavmMemory", "notifyHeapResized", _) => {
                        linker.func_wrap(from, name, |_: Call<'_>| {})?;
                    }
                    ("teavmConsole", "putcharStdout" | "putcharStderr", _) => {
                        linker.func_wrap(from, name, |mut caller: Call<'_>, unit: i32| {
                            caller.data_mut().console.push(unit as u16);
                        })?;
                    }
                    ("teavmDate", "currentTimeMillis", _) => {
                        linker.func_wrap(from, name, |_: Call<'_>| -> f64 {
                            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as f64
                        })?;
                    }
                    ("teavmMath", ..) => {
                        if let Some(function) = instructions.get_export(&mut *store, name) {
                            linker.define(&*store, from, name, function)?;
                            continue;
                        }
                        match math(name) {
                            Some(Math::Unary(function)) => {
                                linker.func_wrap(from, name, move |_: Call<'_>, x: f64| -> f64 { function(x) })?;
                            }
                            Some(Math::Binary(function)) => {
                                let function = move |_: Call<'_>, x: f64, y: f64| -> f64 { function(x, y) };
                                linker.func_wrap(from, name, function)?;
                            }
                            None => {}
                        }
                    }
                    _ => {}
                }
            }
            Ok(())
        }

        /// Defines what a MoonBit program imports that only prints.
        fn link_moonbit(linker: &mut Linker<Host>) -> Result<()> {
            linker.func_wrap("spectest", "print_char", |mut caller: Call<'_>, unit: i32| {
                caller.data_mut().console.push(unit as u16);
            })?;
            Ok(())
        }

        /// Defines the functions of [`Wasi`].
        fn link(linker: &mut Linker<Host>) -> Result<()> {
            linker.func_wrap(MODULE, "fd_write", |mut caller: Call<'_>, a: i32, b: i32, c: i32, d: i32| {
                call(&mut caller, |wasi, memory| wasi.fd_write(memory, a, b, c, d))
            })?;
            linker.func_wrap(MODULE, "random_get", |mut caller: Call<'_>, a: i32, b: i32| {
                call(&mut caller, |wasi, memory| wasi.random_get(memory, a, b))
            })?;
            linker.func_wrap(MODULE, "clock_time_get", |mut caller: Call<'_>, a: i32, b: i64, c: i32| {
                call(&mut caller, |wasi, memory| wasi.clock_time_get(memory, a, b, c))
            })?;
            linker.func_wrap(MODULE, "args_sizes_get", |mut caller: Call<'_>, a: i32, b: i32| {
                call(&mut caller, |wasi, memory| wasi.args_sizes_get(memory, a, b))
            })?;
            linker.func_wrap(MODULE, "args_get", |mut caller: Call<'_>, a: i32, b: i32| {
                call(&mut caller, |wasi, memory| wasi.args_get(memory, a, b))
            })?;
            linker.func_wrap(MODULE, "environ_sizes_get", |mut caller: Call<'_>, a: i32, b: i32| {
                call(&mut caller, |wasi, memory| wasi.environ_sizes_get(memory, a, b))
            })?;
            linker.func_wrap(MODULE, "environ_get", |mut caller: Call<'_>, a: i32, b: i32| {
                call(&mut caller, |wasi, memory| wasi.environ_get(memory, a, b))
            })?;
            linker.func_wrap(MODULE, "proc_exit", |code: i32| -> Result<()> { Err(Error::new(Exit(code))) })?;
            Ok(())
        }

        /// Calls the host with the caller's memory.
        fn call(caller: &mut Call<'_>, work: impl FnOnce(&mut Wasi, &mut [u8]) -> i32) -> Result<i32> {
            let Some(Extern::Memory(memory)) = caller.get_export("memory") else {
                return Err(Error::msg("the program exports no memory"));
            };
            let (memory, host) = memory.data_and_store_mut(caller);
            Ok(work(&mut host.wasi, memory))
        }
    };
}

pub(super) use command;
