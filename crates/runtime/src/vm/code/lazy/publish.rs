//! Code that has just been compiled, put in place and told of.

use std::time::Instant;

use legato_compiler::Tier;
use legato_compiler::artifact::{CodeRange, CompiledFunction};
use legato_compiler::emit::{FunctionCode, Symbol};

use super::{Finish, Lazy, Progress};
use crate::vm::arch;
use crate::vm::code::kept::Found;
use crate::vm::code::observe::{CompileCause, Compiled, name_of};
use crate::vm::code::parts::Part;
use crate::vm::perf_map::{builtin_name, function_name};

impl Lazy {
    /// Tells the observer of a function that has been compiled, or found, since then.
    pub(super) fn tell(&self, function: u32, start: Instant, found: &Found, cause: CompileCause) {
        let Some(observer) = &self.observers.observer else { return };
        let name = name_of(self.compiler.info(), function);
        let (time, bytes, quickly) = (start.elapsed(), found.code.length(), found.tier == Tier::Quick);
        observer(&Compiled { function, name, start, time, bytes, quickly, cause, kept: found.kept });
    }

    /// Names the code for a profiler, where that is asked for: a function may have several pieces.
    pub(super) fn map(&self, symbol: Symbol, finish: Finish, offset: u32, bytes: usize) {
        if let Some(map) = self.observers.perf_map {
            let function = |index| function_name(self.compiler.info(), index);
            let name = match symbol {
                Symbol::Function(index) if finish == Finish::Quick => format!("{} (quick)", function(index)),
                Symbol::Function(index) => function(index),
                Symbol::Loop(index, _) => format!("{} (in a loop)", function(index)),
                Symbol::Builtin(number) | Symbol::Cold(number) => builtin_name(number),
            };
            map.note([(self.address(offset), bytes as u32, name)]);
        }
    }

    /// Puts compiled code in place; returns its offset.
    pub(super) fn publish(&self, symbol: Symbol, finish: Finish, code: &FunctionCode) -> anyhow::Result<u32> {
        for called in code.symbols() {
            if !matches!(called, Symbol::Function(_)) && !self.lock().trampolines.contains_key(&called) {
                let trampoline = self.kept.code(called, Tier::Optimized, &self.compiler)?.code;
                self.publish(called, Finish::Final, &trampoline)?;
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
            // Calls of itself count, too.
            _ if target == symbol && finish == Finish::Final => start as u32,
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
        self.map(symbol, finish, start as u32, bytes.len());
        let functions = match symbol {
            Symbol::Function(index) | Symbol::Loop(index, _) => {
                let range = CodeRange { start: start as u32, length: bytes.len() as u32 };
                vec![CompiledFunction { range, index, source: code.source() }]
            }
            Symbol::Builtin(_) | Symbol::Cold(_) => {
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
