//! On-stack replacement: a function that was compiled quickly is left in the middle of a loop, for optimised code that
//! goes on there. So a function that is called once and runs for long need not be waited for at its call.
//!
//! Loops in quick code count iterations, all of an instance's together. Whichever is at its header when the count is
//! over asks here: the more often a function's loops ask, the hotter they are.

use std::time::Instant;

use legato_compiler::Tier;
use legato_compiler::emit::Symbol;
use legato_compiler::module::FuncIndex;
use rustc_hash::FxHashMap;

use super::{CALLS, CompileCause, Lazy, Progress, Relaxed, Release, State, Task, with_stack};
use crate::vm::code::kept::Found;

/// Iterations from one request to the next.
const ITERATIONS: i32 = 500;
/// The same where generated code is checked, for tests: loops of small programs are to be replaced, too.
const VERIFIED_ITERATIONS: i32 = 4;
/// A function whose loops have asked so often gets code for the one that has asked last.
const REQUESTS: u32 = 2;
/// Its bytes for each further request: what takes long to compile must have run for longer.
const BYTES_PER_REQUEST: u32 = 500;
/// Each further loop of a function must be so many times as hot.
const NEXT_LOOP: u32 = 8;
/// A function that has been called no more often gets code for its loop before it gets code for its next call.
const FEW_CALLS: i32 = 2;

/// A loop: its function, among the defined ones, and its offset in the module file.
pub(in super::super) type LoopKey = (u32, u32);

/// Functions whose loops have asked for code.
#[derive(Default)]
pub(super) struct Loops {
    functions: FxHashMap<u32, Function>,
    /// How many loops have had code compiled.
    compiled: usize,
}

/// A function with loops.
#[derive(Default)]
struct Function {
    /// Since some loop of it had code compiled.
    requests: u32,
    /// Some loop's code is being compiled.
    under_way: bool,
    /// The loops that have code, at these offsets; `None` for one that has none and will not have any.
    entries: FxHashMap<u32, Option<u32>>,
}

impl Function {
    /// How many requests are enough to compile a loop of a function with a body of so many bytes.
    fn enough(&self, bytes: u32) -> u32 {
        let factor = NEXT_LOOP.saturating_pow(self.entries.len() as u32);
        (REQUESTS + bytes / BYTES_PER_REQUEST).saturating_mul(factor)
    }
}

impl Lazy {
    /// Iterations until some loop asks again.
    pub(in super::super) fn iterations(&self) -> i32 {
        if self.compiler.is_verified() { VERIFIED_ITERATIONS } else { ITERATIONS }
    }

    /// The address of the code that goes on in a loop of a function; 0 where it is to stay where it is.
    pub(in super::super) fn loop_entry(&self, key: LoopKey) -> usize {
        let (defined, offset) = key;
        let imported = self.compiler.info().imported_functions;
        let bytes = self.compiler.body_bytes(FuncIndex(imported + defined));
        let mut state = self.lock();
        let State { loops, functions, .. } = &mut *state;
        let asking = loops.functions.entry(defined).or_default();
        if let Some(found) = asking.entries.get(&offset) {
            return found.map_or(0, |code| self.address(code));
        }
        asking.requests += 1;
        let enough = if self.compiler.is_verified() { REQUESTS } else { asking.enough(bytes) };
        if asking.requests < enough || asking.under_way || loops.compiled >= self.most_loops() {
            return 0;
        }
        asking.requests = 0;
        let is_called_often = CALLS - self.words(defined as usize).counter.load(Relaxed) > FEW_CALLS;
        let progress = &mut functions[defined as usize];
        // Where the program has to wait for it, not for calls that may never come.
        let improve = if let Progress::Quick(quick) = *progress
            && (is_called_often || self.has_help())
        {
            // Its calls need not be counted any more.
            *progress = Progress::Improving(quick);
            self.words(defined as usize).entry.store(self.address(quick), Release);
            Some(Task::Improve(defined))
        } else {
            None
        };
        let tasks = if improve.is_some() && is_called_often {
            [improve, None]
        } else {
            loops.compiled += 1;
            asking.under_way = true;
            [Some(Task::Loop(key)), improve]
        };
        drop(state);
        for task in tasks.into_iter().flatten() {
            if !self.hand_over(task) {
                // Deep in the guest's recursion the compiler gets a stack of its own.
                let done = with_stack(|| {
                    self.perform(task);
                    Ok(())
                });
                if let Err(reason) = done {
                    log::info!("a loop is not replaced: {reason}");
                }
            }
        }
        let state = self.lock();
        let found = state.loops.functions.get(&defined).and_then(|function| *function.entries.get(&offset)?);
        found.map_or(0, |code| self.address(code))
    }

    /// How many loops get code of their own, at most: there is room for so many pieces.
    pub(in super::super) fn most_loops(&self) -> usize {
        most_loops(self.compiler.sources().len())
    }

    /// Compiles what comes after the header of a loop.
    pub(super) fn compile_loop(&self, key: LoopKey) {
        let start = Instant::now();
        let (defined, offset) = key;
        let function = self.compiler.info().imported_functions + defined;
        let compiled = self.compiler.compile_loop(FuncIndex(function), offset).map_err(anyhow::Error::from);
        let placed = compiled.and_then(|code| {
            let placed = self.publish(Symbol::Function(function), Tier::Optimized, &code, false)?;
            Ok((placed, code))
        });
        let entry = match placed {
            Ok((placed, code)) => {
                let found = Found { code, tier: Tier::Optimized, kept: false };
                self.tell(function, start, &found, CompileCause::Loop(offset));
                Some(placed)
            }
            Err(error) => {
                log::info!("a loop of function {function} stays as it is: {error:#}");
                None
            }
        };
        let mut state = self.lock();
        let function = state.loops.functions.entry(defined).or_default();
        function.under_way = false;
        function.entries.insert(offset, entry);
    }
}

/// How many loops of a module with so many functions get code of their own, at most.
pub(in super::super) fn most_loops(functions: usize) -> usize {
    functions + 16
}
