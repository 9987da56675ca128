//! Small modules inside of this process, whose loops are measured.

use crate::engines::legato_config;
use crate::heaps::Configuration;
use crate::measure::Time;

/// An instance, whose every export takes four integers and returns one.
pub(super) struct Kernel {
    /// The heap's name, or the other engine's.
    pub(super) name: String,
    call: Box<Call>,
}

type Call = dyn FnMut(&str, [i32; 4]) -> anyhow::Result<i32>;
type Four = (i32, i32, i32, i32);

impl Kernel {
    /// An instance in Legato.
    ///
    /// # Errors
    /// If an option of the heap is wrong, or the module does not compile.
    pub(super) fn legato(configuration: &Configuration, wasm: &[u8]) -> anyhow::Result<Kernel> {
        let engine = legato::Engine::new(&legato_config(&configuration.heap)?)?;
        let module = legato::Module::new(&engine, wasm)?;
        let mut store = legato::Store::new(&engine, ());
        let instance = legato::Linker::new(&engine).instantiate(&mut store, &module)?;
        let call = move |name: &str, [a, b, c, d]: [i32; 4]| {
            instance.get_typed_func::<Four, i32>(&mut store, name)?.call(&mut store, (a, b, c, d))
        };
        Ok(Kernel { name: configuration.name.clone(), call: Box::new(call) })
    }

    /// An instance in wasmtime.
    ///
    /// # Errors
    /// If the module does not compile.
    #[cfg(feature = "peers")]
    pub(super) fn wasmtime(wasm: &[u8]) -> anyhow::Result<Kernel> {
        use crate::engines::{Engine, Wasmtime, wasmtime_error};
        let wasmtime = Wasmtime::new(&[])?;
        let module = wasmtime.compile(wasm)?;
        let mut store = wasmtime::Store::new(wasmtime.engine(), ());
        let instance = wasmtime::Instance::new(&mut store, &module, &[]).map_err(wasmtime_error)?;
        let call = move |name: &str, [a, b, c, d]: [i32; 4]| {
            let function = instance.get_typed_func::<Four, i32>(&mut store, name).map_err(wasmtime_error)?;
            function.call(&mut store, (a, b, c, d)).map_err(wasmtime_error)
        };
        Ok(Kernel { name: wasmtime.name(), call: Box::new(call) })
    }

    /// Calls an export.
    ///
    /// # Errors
    /// If there is no such export, or it traps.
    pub(super) fn call(&mut self, name: &str, arguments: [i32; 4]) -> anyhow::Result<i32> {
        (self.call)(name, arguments)
    }

    /// Calls an export: the seconds that it takes, and its result.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub(super) fn time(&mut self, name: &str, arguments: [i32; 4]) -> anyhow::Result<(f64, i32)> {
        let (time, result) = Time::of(|| self.call(name, arguments));
        Ok((time.wall, result?))
    }
}
