//! The file by which `perf` knows compiled functions: `/tmp/perf-PID.map`, a line for each piece of code with its
//! address, its length and its name.
//!
//! Source: Linux, tools/perf/Documentation/jit-interface.txt.
//!
//! Limits: lines are only added. Code of modules that are dropped keeps its lines, and what comes to lie there later is
//! named by the later line.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, OnceLock, PoisonError};

use legato_compiler::abi::Builtin;
use legato_compiler::artifact::{CodeRange, CompiledModule};
use legato_compiler::module::ModuleInfo;

use super::code::CodeImage;
use crate::vm::Error;

/// The process's map.
#[derive(Debug)]
pub struct PerfMap {
    file: Mutex<File>,
}

/// There is one for a process, whatever engines it has.
static MAP: OnceLock<PerfMap> = OnceLock::new();
/// Held while it is made: who comes first empties what an older process of this number has left.
static MAKING: Mutex<()> = Mutex::new(());

impl PerfMap {
    /// The map of this process, which is made when it is asked for first.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn of_process() -> Result<&'static PerfMap, Error> {
        let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(map) = MAP.get() {
            return Ok(map);
        }
        let path = format!("/tmp/perf-{}.map", std::process::id());
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(path).map_err(|source| Error::System { what: "making /tmp/perf-PID.map", source })?;
        Ok(MAP.get_or_init(|| PerfMap { file: Mutex::new(file) }))
    }

    /// Tells of all code of a module that has been compiled as a whole.
    pub(crate) fn note_image(&self, image: &CodeImage) {
        let module = image.module();
        let pieces = image.functions().map(|function| (function.range, function_name(&module.info, function.index)));
        let start = image.start();
        self.note(
            pieces.chain(trampolines(module)).map(|(range, name)| (start + range.start as usize, range.length, name)),
        );
    }

    /// Tells of a piece of code: its address, its bytes, its name.
    pub(crate) fn note(&self, pieces: impl IntoIterator<Item = (usize, u32, String)>) {
        let mut lines = String::new();
        for (address, bytes, name) in pieces {
            let name: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            let _ = writeln!(lines, "{address:x} {bytes:x} {name}");
        }
        // That nobody can profile it is no reason to stop a program.
        let _ = self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(lines.as_bytes());
    }
}

/// What a function is called: its name in the name section, or its number.
pub(crate) fn function_name(info: &ModuleInfo, index: u32) -> String {
    match info.names.functions.get(index as usize) {
        Some(name) if !name.is_empty() => name.clone(),
        _ => format!("wasm-function[{index}]"),
    }
}

/// What the trampoline of a builtin is called.
pub(crate) fn builtin_name(number: u32) -> String {
    Builtin::ALL.get(number as usize).map_or("legato builtin".to_owned(), |builtin| format!("legato {builtin:?}"))
}

fn trampolines(module: &CompiledModule) -> impl Iterator<Item = (CodeRange, String)> {
    let builtins = module.builtins.iter().enumerate().map(|(number, &range)| (range, builtin_name(number as u32)));
    let signatures = module.trampolines.iter();
    let calls = signatures.flat_map(|of| [(of.entry, "legato entry".to_owned()), (of.exit, "legato exit".to_owned())]);
    builtins.chain(calls).filter(|(range, _)| range.length > 0)
}
