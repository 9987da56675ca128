//! Runs one program as the command would, with its output in memory.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result, ensure};
use legato::{Compilation, Config, Engine, HeapConfig, Linker, Module, Store};
use legato_moonbit::MoonBitCtx;
use legato_teavm::TeaVmCtx;
use legato_wasi::{Access, I32Exit, Output, OutputPipe, WasiCtx, WasiCtxBuilder};

/// What a program's host functions work on.
struct Host {
    wasi: WasiCtx,
    teavm: TeaVmCtx,
    moonbit: MoonBitCtx,
}

/// What a program did.
pub struct Ended {
    /// What it printed to standard output.
    pub output: Vec<u8>,
    /// Collections during its life.
    pub collections: u64,
}

/// The compiled module, with an engine of its own. Compiled once for all heaps that want the same code.
fn compiled(path: &Path, heap: HeapConfig) -> Result<Module> {
    type Cache = Mutex<HashMap<(PathBuf, String), Arc<Vec<u8>>>>;
    static CACHE: OnceLock<Cache> = OnceLock::new();
    let key = (path.to_path_buf(), format!("{:?}", heap.access_plan()));
    let engine = Engine::new(Config::new().heap(heap))?;
    let cache = CACHE.get_or_init(Cache::default);
    let found = cache.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    if let Some(precompiled) = found {
        // SAFETY: serialised below, by this process.
        return unsafe { Module::deserialize(&engine, precompiled.as_slice()) };
    }
    let module = Module::from_file(&engine, path)?;
    let precompiled = Arc::new(module.serialize()?);
    cache.lock().unwrap_or_else(PoisonError::into_inner).insert(key, precompiled);
    Ok(module)
}

/// Runs the module at `path` (binary or text) on a heap of this configuration, to its end.
///
/// If there is a folder `data` among the sources of the same name, the guest may read it.
///
/// # Errors
/// Those of compilation and linking; a trap, an uncaught exception, or an exit code other than 0.
pub fn run(path: &Path, heap: HeapConfig) -> Result<Ended> {
    start(path, compiled(path, heap)?)
}

/// As [`run`], on the default heap, with each function compiled when it is first called.
///
/// # Errors
/// As [`run`].
pub fn run_lazily(path: &Path) -> Result<Ended> {
    let engine = Engine::new(Config::new().compilation(Compilation::Lazy).compiler_verifier(true))?;
    start(path, Module::from_file(&engine, path)?)
}

fn start(path: &Path, module: Module) -> Result<Ended> {
    let engine = module.engine().clone();

    let output = OutputPipe::new();
    let mut wasi = WasiCtxBuilder::new();
    wasi.arg(path.file_name().context("a file")?.to_string_lossy());
    wasi.stdout(Output::Pipe(output.clone())).stderr(Output::Inherit);
    let stem = path.file_stem().context("a file")?;
    let data = path.ancestors().nth(3).context("a path below examples/")?.join("kotlin").join(stem).join("data");
    if data.is_dir() {
        wasi.preopened_dir(&data, "/", Access::ReadOnly)?;
    }
    let teavm = TeaVmCtx::new(output.clone(), std::io::stderr());
    let mut store = Store::new(&engine, Host { wasi: wasi.build(), teavm, moonbit: MoonBitCtx::default() });
    let mut linker = Linker::new(&engine);
    legato_wasi::add_to_linker(&mut linker, |host: &mut Host| &mut host.wasi)?;
    let entry = if legato_teavm::is_teavm_module(&module) {
        legato_teavm::add_to_linker(&mut linker, &mut store, &module, |host: &mut Host| &mut host.teavm)?;
        "run"
    } else {
        "_start"
    };
    if legato_moonbit::is_moonbit_module(&module) {
        legato_moonbit::add_to_linker(&mut linker, &module, |host: &mut Host| (&mut host.moonbit, &mut host.wasi))?;
    }
    let instance = linker.instantiate(&mut store, &module)?;
    let start = instance.get_typed_func::<(), ()>(&mut store, entry)?;
    if let Err(error) = start.call(&mut store, ()) {
        let exit = error.downcast_ref::<I32Exit>().map(|exit| exit.0);
        ensure!(exit == Some(0), error);
    }
    store.data_mut().wasi.flush()?;
    store.data_mut().teavm.flush()?;
    Ok(Ended { output: output.contents(), collections: store.heap_stats().collections })
}
