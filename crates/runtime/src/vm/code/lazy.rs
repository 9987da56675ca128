//! Code that is compiled function by function, at first calls.
//!
//! An image of this kind has a *table* (a head, then a few words for each function, one of which is its *entry*) and,
//! behind it, code: a *beginning* for each function, then whatever has been compiled, in the order of time. A beginning
//! jumps to the function's entry. That is compiled code, or else leads by [`arch::FIRST_CALL`] to [`first_called`],
//! which has the function compiled, changes the entry and goes on there, with all arguments where they were. Whoever
//! refers to a function by its beginning is therefore right for ever: function references, exports, calls in code that
//! was compiled before. No code is ever changed. Whoever learns of a function when it has been compiled for good gets
//! the address of that code.
//!
//! A function is compiled quickly at first. Its beginning then counts the calls, and when there have been [`CALLS`] of
//! them, it is compiled anew, with all optimisations. Its loops count as well, and are replaced while they run
//! ([`loops`]). [Other threads](super::ahead) compile anew, and what a function that has been called for the first time
//! calls itself.
//!
//! Code that an earlier process has kept is put in place at once ([`place`]).
//!
//! Several threads may call a function first: one compiles, the others wait for it. Nothing is collected meanwhile,
//! since compiling is no safepoint.

mod loops;
mod place;
mod publish;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use legato_compiler::emit::Symbol;
use legato_compiler::module::{ExportKind, FuncIndex};
use legato_compiler::{OnDemand, Tier};
use rustc_hash::FxHashMap;

use self::loops::Loops;
pub(super) use self::loops::{LoopKey, most_loops};
use super::ahead::{self, Task};
use super::compiler_stack::with_compiler_stack;
use super::kept::{Found, KeptCode};
use super::observe::{CompileCause, Compiled, Observers};
use super::parts::Parts;
use super::room::code_bytes;
use crate::vm::arch::Words;
use crate::vm::os::{GrowingCode, page_bytes};
use crate::vm::{Error, Unwind, activation, arch, interrupt};

/// So many exported functions are compiled ahead.
const MOST_EXPORTS: usize = 8;

/// After so many calls a function that was compiled quickly is compiled anew.
const CALLS: i32 = 1000;

/// A module's functions, compiled or not.
pub(super) struct Lazy {
    me: Weak<Lazy>,
    memory: GrowingCode,
    compiler: OnDemand,
    parts: Arc<Parts>,
    state: Mutex<State>,
    /// Some function is no longer being compiled.
    finished: Condvar,
    observers: Observers,
    pub(super) kept: KeptCode,
}

struct State {
    /// Where the next piece of code may begin.
    end: usize,
    /// Of each defined function.
    functions: Vec<Progress>,
    /// Trampolines that have been compiled.
    trampolines: FxHashMap<Symbol, u32>,
    loops: Loops,
}

#[derive(Clone)]
enum Progress {
    New,
    /// Some thread compiles it.
    UnderWay,
    /// Compiled, and not called yet.
    Ready(Ready),
    /// Compiled quickly, at this offset, and called.
    Quick(u32),
    /// Optimised, at this offset, and called, when some of its loops had not run yet. Calls are not counted any more.
    Provisional(u32),
    /// One of these, and to be compiled anew.
    Improving(u32),
    /// Compiled for good, at this offset, and called.
    Done(u32),
    /// The compiler refuses it, for this reason.
    Failed(Arc<str>),
}

/// How much has been done for some code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Finish {
    Quick,
    /// It is optimised, but leaves loops that had not run yet.
    Provisional,
    Final,
}

impl Finish {
    fn of(found: &Found) -> Finish {
        match found.tier {
            Tier::Quick => Finish::Quick,
            Tier::Optimized if found.code.leaves_loops() => Finish::Provisional,
            Tier::Optimized => Finish::Final,
        }
    }
}

/// A function that has been compiled for the first time.
#[derive(Clone)]
struct Ready {
    offset: u32,
    finish: Finish,
    /// The defined functions that it calls.
    callees: Arc<[u32]>,
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
        observers: Observers,
        kept: KeptCode,
        parts: Arc<Parts>,
    ) -> Result<Arc<Lazy>, Error> {
        let count = compiler.sources().len();
        let data_bytes = (size_of::<TableHead>() + count * size_of::<Words>()).next_multiple_of(page_bytes());
        let code_bytes = code_bytes(compiler.module_bytes(), count, data_bytes);
        let memory = GrowingCode::reserve(data_bytes, code_bytes, observers.perf_map.is_some())?;
        let (table, start) = (memory.data() as usize, memory.code() as usize);
        let beginnings = arch::beginnings(start, table, table + size_of::<TableHead>(), count);
        memory.write(0, &beginnings)?;
        if let Some(map) = observers.perf_map {
            map.note([(start, beginnings.len() as u32, "legato beginnings".to_owned())]);
        }
        let functions = vec![Progress::New; count];
        let state = Mutex::new(State {
            end: beginnings.len(),
            functions,
            trampolines: FxHashMap::default(),
            loops: Loops::default(),
        });
        let finished = Condvar::new();
        let lazy = Arc::new_cyclic(|me| {
            let me = Weak::clone(me);
            Lazy { me, memory, compiler, parts, state, finished, observers, kept }
        });
        let head = TableHead { first_call: arch::FIRST_CALL, lazy: &*lazy };
        // SAFETY: the data is writable, long enough, and nobody else knows it yet.
        unsafe { lazy.memory.data().cast::<TableHead>().write(head) };
        for defined in 0..count {
            lazy.words(defined).entry.store(lazy.address(lazy.beginning(defined)) + arch::UNCOMPILED, Relaxed);
        }
        // What cannot be placed is compiled when it is called.
        if let Err(error) = lazy.place_kept() {
            log::info!("cached code is not used: {error:#}");
        }
        lazy.guess_entries();
        Ok(lazy)
    }

    /// Has calls of a function go to its code.
    fn go_to(&self, state: &mut State, defined: usize, offset: u32, finish: Finish) {
        let code = self.address(offset);
        let words = self.words(defined);
        match finish {
            Finish::Quick => {
                state.functions[defined] = Progress::Quick(offset);
                words.counted.store(code, Relaxed);
                words.counter.store(CALLS, Relaxed);
                words.entry.store(self.address(self.beginning(defined)) + arch::COUNTING, Release);
            }
            Finish::Provisional => {
                state.functions[defined] = Progress::Provisional(offset);
                words.entry.store(code, Release);
            }
            Finish::Final => {
                state.functions[defined] = Progress::Done(offset);
                words.entry.store(code, Release);
            }
        }
    }

    /// The start function will be called; some export, too.
    fn guess_entries(&self) {
        let info = self.compiler.info();
        let exports = info.exports.iter().filter_map(|(_, export)| match export {
            ExportKind::Func(function) => Some(*function),
            _ => None,
        });
        let defined = |function: FuncIndex| function.0.checked_sub(info.imported_functions);
        let entries: Vec<u32> = info.start.into_iter().chain(exports.take(MOST_EXPORTS)).filter_map(defined).collect();
        self.guess(&entries);
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
        (arch::BEGINNING_BYTES * defined) as u32
    }

    /// Offset at which somebody can call a defined function who has its address from now on: its code, where that is
    /// for good.
    pub(super) fn callable(&self, defined: usize) -> u32 {
        match self.lock().functions[defined] {
            Progress::Done(offset) => offset,
            _ => self.beginning(defined),
        }
    }

    fn address(&self, offset: u32) -> usize {
        self.code() as usize + offset as usize
    }

    /// The words that the beginning of a defined function looks at.
    fn words(&self, defined: usize) -> &Words {
        let words = self.memory.data().wrapping_add(size_of::<TableHead>()).cast::<Words>();
        // SAFETY: there are words for each function, zero at first, that are accessed atomically from here on.
        unsafe { &*words.add(defined) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What is left half-done by a panic has no part in the state yet.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a function goes on that is called for the first time, or whose calls have been counted. Errors: the
    /// compiler refuses it, or the system refuses memory.
    fn called(&self, defined: usize) -> Result<usize, Arc<str>> {
        let mut state = self.lock();
        loop {
            match state.functions[defined].clone() {
                Progress::New => {
                    drop(state);
                    // Deep in the guest's recursion the compiler gets a stack of its own.
                    with_compiler_stack(|| self.compile(defined, CompileCause::Called)).map_err(no_thread)??;
                    state = self.lock();
                }
                Progress::UnderWay => state = self.finished.wait(state).unwrap_or_else(PoisonError::into_inner),
                Progress::Ready(ready) => return Ok(self.enter(state, defined, &ready)),
                Progress::Quick(offset) => {
                    if self.words(defined).counter.load(Relaxed) <= 0
                        && let Some(task) = self.begin_to_improve(&mut state, defined)
                    {
                        drop(state);
                        if !self.hand_over(task) {
                            with_compiler_stack(|| self.improve(defined)).map_err(no_thread)?;
                        }
                    }
                    return Ok(self.address(offset));
                }
                Progress::Provisional(offset) | Progress::Improving(offset) | Progress::Done(offset) => {
                    return Ok(self.address(offset));
                }
                Progress::Failed(reason) => return Err(reason),
            }
        }
    }

    /// Has calls of a function go to its code from now on. Returns its address.
    fn enter(&self, mut state: MutexGuard<'_, State>, defined: usize, ready: &Ready) -> usize {
        self.go_to(&mut state, defined, ready.offset, ready.finish);
        drop(state);
        self.guess(&ready.callees);
        self.address(ready.offset)
    }

    /// Has functions compiled that are likely to be called soon, unless they are already.
    fn guess(&self, functions: &[u32]) {
        if !self.compiler.is_parallel() {
            return;
        }
        let state = self.lock();
        let is_new = |function: &u32| matches!(state.functions[*function as usize], Progress::New);
        let new: Vec<u32> = functions.iter().copied().filter(is_new).collect();
        drop(state);
        let imported = self.compiler.info().imported_functions;
        let is_slow = |&function: &u32| self.compiler.first_tier(FuncIndex(imported + function)) == Tier::Optimized;
        let (slow, quick): (Vec<u32>, Vec<u32>) = new.into_iter().partition(is_slow);
        ahead::guess(&self.me, &slow, &quick);
    }

    /// Whether other threads compile for this module, too.
    fn has_help(&self) -> bool {
        self.compiler.is_parallel() && ahead::are_there()
    }

    /// Has another thread do something that is needed often; returns whether one will.
    fn hand_over(&self, task: Task) -> bool {
        self.compiler.is_parallel() && ahead::add(&self.me, task)
    }

    /// Does what was asked for.
    pub(super) fn perform(&self, task: Task) {
        match task {
            Task::Prepare(defined) => self.prepare(defined as usize),
            Task::Improve(defined) | Task::ImproveLater(defined) => self.improve(defined as usize),
            Task::Loop(key) => self.compile_loop(key),
        }
    }

    /// Compiles a function ahead, if nobody has begun to.
    fn prepare(&self, defined: usize) {
        // Whoever calls it learns why it could not be compiled.
        let _ = self.compile(defined, CompileCause::Ahead);
    }

    /// Compiles a function, if nobody has begun to.
    fn compile(&self, defined: usize, cause: CompileCause) -> Result<(), Arc<str>> {
        let mut state = self.lock();
        if !matches!(state.functions[defined], Progress::New) {
            return Ok(());
        }
        state.functions[defined] = Progress::UnderWay;
        drop(state);
        let claim = Claim { lazy: self, defined };
        let imported = self.compiler.info().imported_functions;
        let tier = self.compiler.first_tier(FuncIndex(imported + defined as u32));
        let (progress, result) = match self.compile_in(defined, tier, cause) {
            Ok((offset, found)) => {
                let mut callees: Vec<u32> = found
                    .code
                    .symbols()
                    .filter_map(|symbol| match symbol {
                        Symbol::Function(index) => Some(index - imported),
                        _ => None,
                    })
                    .collect();
                callees.dedup();
                (Progress::Ready(Ready { offset, finish: Finish::of(&found), callees: callees.into() }), Ok(()))
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

    /// Begins to compile a function anew, unless it has been begun: its calls are not counted any more.
    fn begin_to_improve(&self, state: &mut State, defined: usize) -> Option<Task> {
        let offset = match state.functions[defined] {
            Progress::Quick(offset) => offset,
            // There is room for so many pieces.
            Progress::Provisional(offset) if state.loops.take_room(self.most_loops()) => offset,
            _ => return None,
        };
        state.functions[defined] = Progress::Improving(offset);
        self.words(defined).entry.store(self.address(offset), Release);
        Some(Task::Improve(defined as u32))
    }

    /// Compiles a function anew that was compiled quickly.
    fn improve(&self, defined: usize) {
        match self.compile_in(defined, Tier::Optimized, CompileCause::Often) {
            Ok((offset, found)) => self.go_to(&mut self.lock(), defined, offset, Finish::of(&found)),
            Err(error) => self.leave_as_it_is(self.compiler.info().imported_functions + defined as u32, &error),
        }
    }

    /// A function's code, or that of a loop, stays as it is, as better code cannot be made. Panics where code is
    /// checked: nothing else would tell that a check has failed.
    fn leave_as_it_is(&self, function: u32, error: &anyhow::Error) {
        assert!(!self.compiler.is_verified(), "function {function} cannot be optimised: {error:#}");
        log::info!("function {function} is not optimised: {error:#}");
    }

    /// Compiles a function, or finds code of that tier or a better one that was kept, and puts it in place. Returns its
    /// offset.
    fn compile_in(&self, defined: usize, tier: Tier, cause: CompileCause) -> anyhow::Result<(u32, Found)> {
        let start = Instant::now();
        let function = self.compiler.info().imported_functions + defined as u32;
        let symbol = Symbol::Function(function);
        let mut found = self.kept.code(symbol, tier, &self.compiler)?;
        if cause == CompileCause::Often && found.kept && Finish::of(&found) != Finish::Final {
            found = self.kept.compile(symbol, tier, &self.compiler)?;
        }
        let offset = self.publish(symbol, Finish::of(&found), &found.code)?;
        self.tell(function, start, &found, cause);
        Ok((offset, found))
    }
}

/// Where no thread can be made that has the stack which the compiler takes.
fn no_thread(error: std::io::Error) -> Arc<str> {
    Arc::from(format!("cannot make a thread: {error}"))
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
            Ok(Ok(code)) => return code as *const u8,
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
