//! What a module imports, and who provides it: the hosts that it asks for, modules given with `--preload`, stubs.

use std::fmt::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use legato::{Engine, ExternType, ImportType, Linker, Module, Store};

use crate::args::RunArgs;
use crate::host::Host;
use crate::load::{self, Content};

/// A call of a function that nobody provides (`--stub-unknown-imports`).
#[derive(Debug)]
pub struct StubCalled(String);

impl fmt::Display for StubCalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trap: {} was called, which nobody provides (--stub-unknown-imports)", self.0)
    }
}

impl std::error::Error for StubCalled {}

/// Finds a provider for every import of the program.
///
/// # Errors
///
/// If an import has none: all of them are named. If a preloaded module cannot be loaded or linked.
pub fn linker(args: &RunArgs, store: &mut Store<Host>, module: &Module) -> Result<Linker<Host>> {
    let mut linker = Linker::new(store.engine());
    legato_wasi::add_to_linker(&mut linker, |host: &mut Host| &mut host.wasi)?;
    if legato_teavm::is_teavm_module(module) {
        legato_teavm::add_to_linker(&mut linker, &mut *store, module, |host: &mut Host| &mut host.teavm)?;
    }
    if legato_moonbit::is_moonbit_module(module) {
        legato_moonbit::add_to_linker(&mut linker, module, |host: &mut Host| (&mut host.moonbit, &mut host.wasi))?;
    }
    // A preloaded module may provide what a host provides too.
    linker.allow_shadowing(true);
    for (count, (name, file)) in args.preloads.iter().enumerate() {
        let preloaded = preload(store.engine(), file)?;
        provide(args, count, &mut linker, &preloaded, &file.display().to_string())?;
        linker.module(&mut *store, name, &preloaded).with_context(|| format!("cannot preload {}", file.display()))?;
    }
    provide(args, args.preloads.len(), &mut linker, module, &args.file().display().to_string())?;
    Ok(linker)
}

/// Compiles a module that provides imports.
fn preload(engine: &Engine, file: &std::path::Path) -> Result<Module> {
    match load::read(file)? {
        Content::Wasm(wasm) => load::compile(engine, file, &wasm),
        Content::Precompiled(_) => bail!("{} holds machine code: --preload takes .wasm or .wat", file.display()),
    }
}

/// Stubs what may be stubbed, and fails if anything has no provider then. Of the modules that are to be preloaded, the
/// linker has the first `preloaded`.
fn provide(args: &RunArgs, preloaded: usize, linker: &mut Linker<Host>, module: &Module, file: &str) -> Result<()> {
    let mut missing = Vec::new();
    for import in module.imports() {
        let (from, name) = (import.module(), import.name());
        if linker.is_defined(from, name) {
            continue;
        }
        match import.ty() {
            ExternType::Func(ty) if args.stub_unknown_imports => {
                let shown = format!("`{from}.{name}`");
                linker.func_new(from, name, ty, move |_, _, _| Err(StubCalled(shown.clone()).into()))?;
            }
            _ => missing.push(import),
        }
    }
    if missing.is_empty() { Ok(()) } else { bail!("{}", describe(&missing, file, args, preloaded)) }
}

/// All that is missing, grouped by where it is imported from, and what to do about it.
fn describe(missing: &[ImportType<'_>], file: &str, args: &RunArgs, preloaded: usize) -> String {
    let mut modules: Vec<&str> = missing.iter().map(ImportType::module).collect();
    modules.sort_unstable();
    modules.dedup();
    let mut text = format!("{file} imports what nobody provides:");
    for module in modules {
        for import in missing.iter().filter(|import| import.module() == module) {
            let _ = write!(text, "\n  {module}.{}  {}", import.name(), import.ty());
        }
        let (before, behind) = args.preloads.split_at(preloaded);
        let of_name = |(name, _): &&(String, PathBuf)| name == module;
        // The first behind is the one that imports.
        let advice = match (before.iter().rfind(of_name), behind.iter().skip(1).find(of_name)) {
            (Some((_, provider)), _) => format!("{} does not export it", provider.display()),
            (None, Some((_, provider))) => {
                format!("--preload {module}={} has to come before {file}, if it is to provide this", provider.display())
            }
            (None, None) => advice(module),
        };
        let _ = write!(text, "\n    {advice}");
    }
    let functions_only = missing.iter().all(|import| matches!(import.ty(), ExternType::Func(_)));
    if functions_only && !args.stub_unknown_imports {
        text.push_str("\nWith --stub-unknown-imports it runs until it calls one of them");
    }
    text
}

/// Where the imports from a module usually come from.
fn advice(module: &str) -> String {
    match module {
        "wasi_snapshot_preview1" => "WASI preview 1 has no such call".into(),
        "wasi_unstable" => "this is WASI before preview 1: compile for preview 1 (wasm32-wasip1, wasm-wasi)".into(),
        "js_code" | "intrinsics" => {
            "Kotlin's target wasm-js imports this from JavaScript: compile for wasm-wasi".into()
        }
        "wasm:js-string" | "_" => "these are JavaScript's strings: compile without JavaScript's string builtins".into(),
        "teavm" | "teavmJso" => {
            "TeaVM takes this from JavaScript: leave `main(String[])` out of the main class, and see docs/guides/java.md"
                .into()
        }
        "teavmAsync" => "Java's threads need JavaScript's event loop: do the work in one thread".into(),
        _ if module.starts_with("wasi:") => {
            "this is WASI preview 2, of the component model: compile for preview 1".into()
        }
        _ if module.starts_with("__moonbit_") => "MoonBit's host has no such function here".into(),
        _ => format!("a module that exports this provides it: --preload {module}=FILE"),
    }
}
