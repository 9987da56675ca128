//! Who is told of what is compiled, and what.

use std::sync::Arc;
use std::time::{Duration, Instant};

use legato_compiler::Generated;
use legato_compiler::module::ModuleInfo;

use crate::vm::perf_map::PerfMap;

/// What is told of a function that has been compiled.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Compiled<'a> {
    /// Its index in the module.
    pub function: u32,
    /// Its name, from the name section.
    pub name: Option<&'a str>,
    /// When its compilation began.
    pub start: Instant,
    /// How long it took. Where the whole module is compiled before, the passes over its MIR are not counted.
    pub time: Duration,
    /// Bytes of machine code.
    pub bytes: usize,
    /// Whether it was compiled quickly, without most optimisations.
    pub quickly: bool,
    /// Why it was compiled.
    pub cause: CompileCause,
    /// Whether its code was kept by an earlier process, and has only been loaded.
    pub kept: bool,
}

/// Why a function was compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompileCause {
    /// It was called, by the thread that compiled it.
    Called,
    /// It is likely to be called soon.
    Ahead,
    /// It has been called often.
    Often,
    /// It has been for long in this loop, given by its offset in the module file: this code goes on there.
    Loop(u32),
    /// The whole module was compiled, before any of it runs.
    Before,
}

/// Told of each function that has been compiled, by the thread that did it.
pub type CompileObserver = dyn Fn(&Compiled<'_>) + Send + Sync;

/// Who is told of what is compiled.
#[derive(Clone, Default)]
pub(crate) struct Observers {
    pub(crate) observer: Option<Arc<CompileObserver>>,
    pub(crate) perf_map: Option<&'static PerfMap>,
}

impl<'a> Compiled<'a> {
    /// A function of a module that is compiled as a whole.
    pub(crate) fn before(Generated { function, info, start, bytes, .. }: &Generated<'a>) -> Compiled<'a> {
        Compiled {
            function: *function,
            name: name_of(info, *function),
            start: *start,
            time: start.elapsed(),
            bytes: *bytes,
            quickly: false,
            cause: CompileCause::Before,
            kept: false,
        }
    }
}

/// A function's name from the name section, if it has one.
pub(super) fn name_of(info: &ModuleInfo, function: u32) -> Option<&str> {
    info.names.functions.get(function as usize).map(String::as_str).filter(|name| !name.is_empty())
}
