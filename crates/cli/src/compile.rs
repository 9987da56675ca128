//! `legato compile`: machine code ahead of time.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use legato::{Config, Engine};

use crate::args::{CompileArgs, EngineArgs, heap_option};
use crate::exit::UsageError;
use crate::load::{self, Content};

/// Compiles a module to a file.
///
/// # Errors
///
/// If the module cannot be read or compiled, or the file not be written.
pub fn compile(args: &CompileArgs) -> Result<()> {
    if is_same(&args.file, &args.output) {
        let text = format!("{} is the module itself: write the machine code to another file", args.output.display());
        return Err(UsageError(text).into());
    }
    let engine = engine(&mut Config::new(), &args.engine)?;
    let code = match load::read(&args.file)? {
        Content::Wasm(wasm) => load::compile(&engine, &args.file, &wasm)?.serialize()?,
        Content::Precompiled(_) => bail!("{} is compiled already", args.file.display()),
    };
    write(&args.output, &code).with_context(|| format!("cannot write {}", args.output.display()))
}

/// Whether two names stand for one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let file = |path: &Path| path.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()));
    file(one).is_some() && file(one) == file(other)
}

/// Writes beside the file and renames, so that a program that is running from the old file keeps it, and no
/// half-written one is ever seen. Devices and the like are written to directly.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if path.exists() && !path.is_file() {
        return Ok(fs::write(path, bytes)?);
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.tmp", std::process::id()));
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    Ok(written?)
}

/// An engine as the command line asks for.
///
/// # Errors
///
/// A [`UsageError`] for heap options that are unknown or contradict each other.
pub fn engine(config: &mut Config, args: &EngineArgs) -> Result<Engine> {
    let ambient = ambient_heap()?;
    for (key, value) in &ambient {
        config.heap_option(key, value).map_err(|error| UsageError(format!("{HEAP}: {key}={value}: {error:#}")))?;
    }
    for (key, value) in &args.heap {
        config.heap_option(key, value).map_err(|error| UsageError(format!("--heap {key}={value}: {error:#}")))?;
    }
    config.compiler_verifier(args.verify_code);
    if let Some(bytes) = args.memory_reservation {
        config.memory_reservation(bytes as u64);
    }
    Engine::new(config).map_err(|error| {
        // With options given, their combination is the likely reason; without, it is the system.
        match (args.heap.is_empty(), ambient.is_empty()) {
            (true, true) => error,
            (false, true) => UsageError(format!("--heap: {error:#}")).into(),
            (true, false) => UsageError(format!("{HEAP}: {error:#}")).into(),
            (false, false) => UsageError(format!("{HEAP} and --heap: {error:#}")).into(),
        }
    })
}

/// The variable that holds options as `--heap` takes them.
const HEAP: &str = "LEGATO_HEAP";

/// What it holds.
fn ambient_heap() -> Result<Vec<(String, String)>, UsageError> {
    let options = env::var_os(HEAP).unwrap_or_default();
    let options = options.to_string_lossy();
    let wrong = |option: &str, why| UsageError(format!("{HEAP}: {option}: {why}"));
    let parts = options.split(',').filter(|option| !option.is_empty());
    parts.map(|option| heap_option(option).map_err(|why| wrong(option, why))).collect()
}
