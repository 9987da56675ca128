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

use super::{CALLS, Finish, Lazy, Progress, Relaxed, State, Task};
use crate::vm::code::compiler_stack::with_compiler_stack;
use crate::vm::code::observe::CompileCause;

/// Iterations from one request to the next.
const ITERATIONS: i32 = 500;
/// The same where generated code is checked, for tests: loops of small programs are to be replaced, too.
const VERIFIED_ITERATIONS: i32 = 4;
/// A function whose loops have asked so often gets code for the one that has asked last. Most functions with hot loops
/// are called often, too: what their loops get is compiled in vain then, and the compiler has enough to do.
const REQUESTS: u32 = 32;
/// The same where generated code is checked.
const VERIFIED_REQUESTS: u32 = 2;
/// Its bytes for each further request: what takes long to compile must have run for longer.
const BYTES_PER_REQUEST: u32 = 10;
/// Each further loop of a function must be so many times as hot, but none more than so many times as the first. Those
/// that were left, since they had not run, need not be hotter.
const NEXT_LOOP: u32 = 8;
const LAST_LOOP: u32 = 64;
/// A function that has been called no more often gets code for its loop before it gets code for its next call.
const FEW_CALLS: i32 = 2;

/// A loop: its function, among the defined ones, and its offset in the module file.
pub(in super::super) type LoopKey = (u32, u32);

/// Functions whose loops have asked for code, or have some that was kept.
#[derive(Default)]
pub(super) struct Loops {
    functions: FxHashMap<u32, Function>,
    /// How many pieces of code have been compiled of loops, and of functions once more.
    pieces: usize,
}

/// A function with loops.
#[derive(Default)]
struct Function {
    /// Since some loop of it had code compiled.
    requests: u32,
    /// How many loops have had code compiled with which no other is left.
    whole: u32,
    /// Some loop's code is being compiled.
    under_way: bool,
    /// The loops that have code, at these offsets; `None` for one that has none and will not have any.
    entries: FxHashMap<u32, Option<u32>>,
}

impl Loops {
    fn has_room(&self, most: usize) -> bool {
        self.pieces < most
    }

    /// Takes room for one more piece of code, if there is any of so many.
    pub(super) fn take_room(&mut self, most: usize) -> bool {
        let is_there = self.has_room(most);
        self.pieces += usize::from(is_there);
        is_there
    }
}

impl Function {
    /// How many requests are enough to compile a loop of a function with a body of so many bytes.
    fn enough(&self, bytes: u32) -> u32 {
        let factor = NEXT_LOOP.saturating_pow(self.whole).min(LAST_LOOP);
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
        let tasks = self.asked(&mut self.lock(), key);
        for task in tasks.into_iter().flatten() {
            if !self.hand_over(task) {
                // Deep in the guest's recursion the compiler gets a stack of its own.
                if let Err(error) = with_compiler_stack(|| self.perform(task)) {
                    log::info!("a loop is not replaced: cannot make a thread: {error}");
                }
            }
        }
        let (defined, offset) = key;
        let state = self.lock();
        let found = state.loops.functions.get(&defined).and_then(|function| *function.entries.get(&offset)?);
        found.map_or(0, |code| self.address(code))
    }

    /// What is to be compiled since a loop has asked.
    fn asked(&self, state: &mut State, (defined, offset): LoopKey) -> [Option<Task>; 2] {
        let index = FuncIndex(self.compiler.info().imported_functions + defined);
        let asking = state.loops.functions.entry(defined).or_default();
        asking.requests += 1;
        let is_verified = self.compiler.is_verified();
        let enough = if is_verified { VERIFIED_REQUESTS } else { asking.enough(self.compiler.body_bytes(index)) };
        if asking.requests < enough || asking.under_way {
            return [None; 2];
        }
        asking.requests = 0;
        if asking.entries.contains_key(&offset) {
            // Each call asks once: there are many, of a function that has not been kept, or not with its loop.
            return [self.has_help().then(|| self.begin_to_improve(state, defined as usize)).flatten(), None];
        }
        if !state.loops.has_room(self.most_loops()) {
            return [None; 2];
        }
        let is_called_often = CALLS - self.words(defined as usize).counter.load(Relaxed) > FEW_CALLS;
        // Where the program has to wait for it, not for calls that may never come.
        let is_worth_it = match state.functions[defined as usize] {
            Progress::Quick(_) => is_called_often || self.has_help(),
            _ => false,
        };
        let improve = is_worth_it.then(|| self.begin_to_improve(state, defined as usize)).flatten();
        if improve.is_some() && is_called_often {
            return [improve, None];
        }
        if !state.loops.take_room(self.most_loops()) {
            return [improve, None];
        }
        state.loops.functions.entry(defined).or_default().under_way = true;
        [Some(Task::Loop((defined, offset))), improve.map(|_| Task::ImproveLater(defined))]
    }

    /// Has a loop that asks go on in code that was kept.
    pub(super) fn go_on(&self, state: &mut State, (defined, offset): LoopKey, start: u32) {
        state.loops.functions.entry(defined).or_default().entries.insert(offset, Some(start));
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
        let symbol = Symbol::Loop(function, offset);
        let mut attempt = Attempt { lazy: self, key, entry: None, is_whole: false };
        let placed = self.kept.code(symbol, Tier::Optimized, &self.compiler).and_then(|found| {
            let placed = self.publish(symbol, Finish::Final, &found.code)?;
            Ok((placed, found))
        });
        match placed {
            Ok((placed, found)) => {
                (attempt.entry, attempt.is_whole) = (Some(placed), !found.code.leaves_loops());
                self.tell(function, start, &found, CompileCause::Loop(offset));
            }
            Err(error) => self.leave_as_it_is(function, &error),
        }
    }
}

/// A loop that this thread compiles. However that ends, others of the function may be compiled then, and this one is
/// not tried again.
struct Attempt<'a> {
    lazy: &'a Lazy,
    key: LoopKey,
    entry: Option<u32>,
    is_whole: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let (defined, offset) = self.key;
        let mut state = self.lazy.lock();
        let function = state.loops.functions.entry(defined).or_default();
        function.under_way = false;
        function.whole += u32::from(self.is_whole);
        function.entries.insert(offset, self.entry);
    }
}

/// How many loops of a module with so many functions get code of their own, at most.
pub(in super::super) fn most_loops(functions: usize) -> usize {
    functions + 16
}
