//! `legato compile`: machine code ahead of time.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use legato::{Config, Engine};

use crate::args::{CompileArgs, EngineArgs};
use crate::exit::UsageError;
use crate::load::{self, Content};

/// Compiles a module to a file.
///
/// # Errors
///
/// If the module cannot be read or compiled, or the file not be written.
pub fn compile(args: &CompileArgs) -> Result<()> {
    let engine = engine(&mut Config::new(), &args.engine)?;
    let code = match load::read(&args.file)? {
        Content::Wasm(wasm) => load::compile(&engine, &args.file, &wasm)?.serialize()?,
        Content::Precompiled(_) => bail!("{} is compiled already", args.file.display()),
    };
    write(&args.output, &code).with_context(|| format!("cannot write {}", args.output.display()))
}

/// Writes beside the file and renames, so that a program that is running from the old file keeps it, and no
/// half-written one is ever seen. Devices and the like are written to directly.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if path.exists() && !path.is_file() {
        return Ok(fs::write(path, bytes)?);
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.tmp", std::process::id()));
    fs::write(&beside, bytes)?;
    fs::rename(&beside, path).inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })?;
    Ok(())
}

/// An engine as the command line asks for.
///
/// # Errors
///
/// A [`UsageError`] for heap options that are unknown or contradict each other.
pub fn engine(config: &mut Config, args: &EngineArgs) -> Result<Engine> {
    for (key, value) in &args.heap {
        config.heap_option(key, value).map_err(|error| UsageError(format!("--heap {key}={value}: {error:#}")))?;
    }
    config.compiler_verifier(args.verify_code);
    Engine::new(config).map_err(|error| {
        // With options given, their combination is the likely reason; without, it is the system.
        if args.heap.is_empty() { error } else { UsageError(format!("--heap: {error:#}")).into() }
    })
}
