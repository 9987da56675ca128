//! Code that is compiled function by function, at first calls.
//!
//! An image of this kind has a *table* (its first words, then a word for each function: the function's *entry*) and,
//! behind it, code: a *beginning* for each function, then whatever has been compiled, in the order of time. A beginning
//! jumps to the function's entry. That is compiled code, or else leads by [`arch::FIRST_CALL`] to [`first_called`],
//! which has the function compiled, changes the entry and goes on there, with all arguments where they were. Whoever
//! refers to a function by its beginning is therefore right for ever: function references, exports, calls in code that
//! was compiled before. No code is ever changed.
//!
//! Several threads may call a function first: one compiles, the others wait for it. Nothing is collected meanwhile,
//! since compiling is no safepoint.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use legato_compiler::OnDemand;
use legato_compiler::artifact::{CodeRange, CompiledFunction};
use legato_compiler::emit::{FunctionCode, Symbol};
use rustc_hash::FxHashMap;

use super::kept::KeptCode;
use super::parts::{Part, Parts};
use crate::vm::os::{GrowingCode, page_bytes};
use crate::vm::{Error, Unwind, activation, arch, signals};

/// Address space for code, in bytes: so much, and so much for each byte of the module.
const CODE_BYTES: usize = 64 << 20;
const CODE_BYTES_PER_BYTE: usize = 64;
/// Calls reach no farther, with some to spare.
const MAX_CODE_BYTES: usize = 2047 << 20;

/// Stack that compiling a function may take, in bytes.
const COMPILER_STACK: usize = 1 << 20;

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
    /// How long it took.
    pub time: Duration,
    /// Bytes of machine code.
    pub bytes: usize,
    /// Whether a thread that waited for it compiled it, at its first call; else it was compiled ahead.
    pub called: bool,
    /// Whether its code was kept by an earlier process, and has only been loaded.
    pub kept: bool,
}

/// Told of each function that has been compiled, by the thread that did it.
pub type CompileObserver = dyn Fn(&Compiled<'_>) + Send + Sync;

/// A module's functions, compiled or not.
pub(super) struct Lazy {
    memory: GrowingCode,
    compiler: OnDemand,
    parts: Arc<Parts>,
    state: Mutex<State>,
    /// Some function is no longer being compiled.
    finished: Condvar,
    observer: Option<Arc<CompileObserver>>,
    pub(super) kept: KeptCode,
}

struct State {
    /// Where the next piece of code may begin.
    end: usize,
    /// Of each defined function.
    functions: Vec<Progress>,
    /// Trampolines that have been compiled.
    trampolines: FxHashMap<Symbol, u32>,
}

#[derive(Clone)]
enum Progress {
    New,
    UnderWay,
    /// At this offset.
    Done(u32),
    /// The compiler refuses it, for this reason.
    Failed(Arc<str>),
}

/// The first words of a table.
#[repr(C)]
struct TableHead {
    first_call: Option<unsafe extern "C" fn()>,
    lazy: *const Lazy,
}

impl Lazy {
    /// Reserves memory for the module, and makes the beginnings of its functions. The parts get what is compiled.
    pub(super) fn new(
        compiler: OnDemand,
        observer: Option<Arc<CompileObserver>>,
        kept: KeptCode,
        parts: Arc<Parts>,
    ) -> Result<Arc<Lazy>, Error> {
        let count = compiler.sources().len();
        let data_bytes = (size_of::<TableHead>() + count * size_of::<usize>()).next_multiple_of(page_bytes());
        let code_bytes = compiler.module_bytes().saturating_mul(CODE_BYTES_PER_BYTE).saturating_add(CODE_BYTES);
        let memory = GrowingCode::reserve(data_bytes, code_bytes.min(MAX_CODE_BYTES - data_bytes))?;
        let table = memory.data() as usize;
        let slots = memory.code() as usize;
        let beginnings = arch::lazy_beginnings(slots, table, table + size_of::<TableHead>(), count);
        memory.write(0, &beginnings)?;
        let state =
            State { end: beginnings.len(), functions: vec![Progress::New; count], trampolines: FxHashMap::default() };
        let finished = Condvar::new();
        let lazy = Arc::new(Lazy { memory, compiler, parts, state: Mutex::new(state), finished, observer, kept });
        let head = TableHead { first_call: arch::FIRST_CALL, lazy: &*lazy };
        // SAFETY: the data is writable, long enough, and nobody else knows it yet.
        unsafe { lazy.memory.data().cast::<TableHead>().write(head) };
        for defined in 0..count {
            lazy.entry(defined).store(slots + arch::SLOT_BYTES * defined + arch::SLOT_UNCOMPILED, Ordering::Relaxed);
        }
        Ok(lazy)
    }

    pub(super) fn compiler(&self) -> &OnDemand {
        &self.compiler
    }

    /// Where the code lies that offsets count from.
    pub(super) fn code(&self) -> *const u8 {
        self.memory.code()
    }

    /// Bytes of address space for code.
    pub(super) fn code_bytes(&self) -> usize {
        self.memory.code_bytes()
    }

    /// Offset at which a defined function can be called, now and later.
    pub(super) fn beginning(&self, defined: usize) -> u32 {
        (arch::SLOT_BYTES * defined) as u32
    }

    /// The word that says where a defined function goes on.
    fn entry(&self, defined: usize) -> &AtomicUsize {
        let entries = self.memory.data().wrapping_add(size_of::<TableHead>()).cast::<AtomicUsize>();
        // SAFETY: there is a word for each function, zero at first, that is accessed atomically from here on.
        unsafe { &*entries.add(defined) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What is left half-done by a panic has no part in the state yet.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a function compiled that is called for the first time. Errors: the compiler refuses it, or the system
    /// refuses memory.
    fn called(&self, defined: usize) -> Result<*const u8, Arc<str>> {
        let room = signals::thread_stack().map_or(0, |stack| arch::stack_pointer().saturating_sub(stack.start));
        let offset = if room >= COMPILER_STACK {
            self.compile(defined, true)?
        } else {
            // Deep in the guest's recursion: the compiler gets a stack of its own.
            std::thread::scope(|scope| {
                let thread = std::thread::Builder::new().stack_size(4 * COMPILER_STACK);
                let thread = thread.spawn_scoped(scope, || self.compile(defined, true));
                let thread = thread.map_err(|error| Arc::from(format!("cannot make a thread: {error}")))?;
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })?
        };
        Ok(self.code().wrapping_add(offset as usize))
    }

    /// Compiles a function, or waits for the thread that is doing so; returns its offset.
    fn compile(&self, defined: usize, called: bool) -> Result<u32, Arc<str>> {
        let mut state = self.lock();
        loop {
            match &state.functions[defined] {
                Progress::New => break,
                Progress::UnderWay => {
                    state = self.finished.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                Progress::Done(offset) => return Ok(*offset),
                Progress::Failed(reason) => return Err(reason.clone()),
            }
        }
        state.functions[defined] = Progress::UnderWay;
        drop(state);
        let claim = Claim { lazy: self, defined };
        let start = Instant::now();
        let index = self.compiler.info().imported_functions + defined as u32;
        let compiled = self
            .kept
            .code(Symbol::Function(index), &self.compiler)
            .and_then(|(code, kept)| Ok((self.publish(Symbol::Function(index), &code)?, code.length(), kept)));
        let (progress, result) = match compiled {
            Ok((offset, bytes, kept)) => {
                self.entry(defined).store(self.code() as usize + offset as usize, Ordering::Release);
                if let Some(observer) = &self.observer {
                    let names = &self.compiler.info().names.functions;
                    let name = names.get(index as usize).map(String::as_str).filter(|name| !name.is_empty());
                    observer(&Compiled { function: index, name, start, time: start.elapsed(), bytes, called, kept });
                }
                (Progress::Done(offset), Ok(offset))
            }
            Err(error) => {
                let reason: Arc<str> = format!("cannot compile a function at its first call: {error:#}").into();
                (Progress::Failed(reason.clone()), Err(reason))
            }
        };
        self.lock().functions[defined] = progress;
        drop(claim);
        result
    }

    /// Puts compiled code in place; returns its offset.
    fn publish(&self, symbol: Symbol, code: &FunctionCode) -> anyhow::Result<u32> {
        for called in code.symbols() {
            if !matches!(called, Symbol::Function(_)) && !self.lock().trampolines.contains_key(&called) {
                let (trampoline, _) = self.kept.code(called, &self.compiler)?;
                self.publish(called, &trampoline)?;
            }
        }
        let mut state = self.lock();
        if let Some(&offset) = state.trampolines.get(&symbol) {
            // Another thread was faster.
            return Ok(offset);
        }
        let start = state.end.next_multiple_of(code.alignment() as usize);
        let end = start + code.length();
        anyhow::ensure!(end < self.code_bytes(), "the module's code passes {} MiB", self.code_bytes() >> 20);
        let imported = self.compiler.info().imported_functions;
        let (bytes, tables) = code.place(start as u32, |target| match target {
            _ if target == symbol => start as u32,
            Symbol::Function(index) => {
                let defined = (index - imported) as usize;
                match state.functions[defined] {
                    Progress::Done(offset) => offset,
                    _ => self.beginning(defined),
                }
            }
            trampoline => state.trampolines[&trampoline],
        })?;
        self.memory.write(start, &bytes)?;
        arch::synchronize_code(self.code().wrapping_add(start), bytes.len());
        let functions = match symbol {
            Symbol::Function(index) => {
                let range = CodeRange { start: start as u32, length: bytes.len() as u32 };
                vec![CompiledFunction { range, index, source: code.source() }]
            }
            _ => {
                state.trampolines.insert(symbol, start as u32);
                Vec::new()
            }
        };
        self.parts.add(Part { start: start as u32, end: end as u32, functions, tables });
        // No piece touches the next: a return address behind the last instruction is this one's.
        state.end = end + 1;
        Ok(start as u32)
    }
}

impl std::fmt::Debug for Lazy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lazy").field("memory", &self.memory).finish_non_exhaustive()
    }
}

/// A function that this thread compiles. However that ends, others stop waiting.
struct Claim<'a> {
    lazy: &'a Lazy,
    defined: usize,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let progress = &mut self.lazy.lock().functions[self.defined];
        if matches!(progress, Progress::UnderWay) {
            *progress = Progress::New;
        }
        self.lazy.finished.notify_all();
    }
}

/// What [`arch::FIRST_CALL`] calls: returns the code of the function with this number among the defined ones. `fp` is
/// the frame pointer of its frame.
///
/// # Safety
/// Compiled code, or an entry trampoline, has called the function by its beginning; its image is alive.
pub(crate) unsafe extern "C" fn first_called(table: *const u8, defined: u32, fp: *const usize) -> *const u8 {
    // SAFETY: the table's head leads to the image's own, which lives as long as code of it runs. What is dropped here
    // is dropped before the call is given up.
    unsafe {
        let lazy = &*(*table.cast::<TableHead>()).lazy;
        let unwind = match catch_unwind(AssertUnwindSafe(|| lazy.called(defined as usize))) {
            Ok(Ok(code)) => return code,
            Ok(Err(reason)) => Unwind::Error(anyhow::anyhow!("{reason}")),
            Err(panic) => Unwind::Panic(panic),
        };
        // As a trampoline that leaves compiled code.
        let store = (*activation::current()).store;
        ((*store).last_exit_fp, (*store).last_exit_pc) = (*fp, *fp.add(1));
        activation::set_pending(unwind);
        activation::raise()
    }
}
