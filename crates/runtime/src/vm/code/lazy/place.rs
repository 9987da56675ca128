//! Code that was kept, put in place before anything runs: all of it at once, so that nobody waits for it one by one.

use std::collections::BTreeSet;
use std::time::Instant;

use legato_compiler::Tier;
use legato_compiler::artifact::{CodeRange, CodeTables, CompiledFunction};
use legato_compiler::emit::Symbol;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Finish, Lazy};
use crate::vm::arch;
use crate::vm::code::kept::Found;
use crate::vm::code::observe::CompileCause;
use crate::vm::code::parts::Part;

impl Lazy {
    /// Puts all code in place that was kept, in one piece: its functions are as if they had been called.
    pub(super) fn place_kept(&self) -> anyhow::Result<()> {
        let mut found = self.kept.found();
        if found.is_empty() {
            return Ok(());
        }
        let imported = self.compiler.info().imported_functions;
        let defined = |index: u32| index.checked_sub(imported).map(|defined| defined as usize);
        let mut state = self.lock();
        let count = state.functions.len();
        found.retain(|(symbol, ..)| match symbol {
            Symbol::Function(index) | Symbol::Loop(index, _) => defined(*index).is_some_and(|defined| defined < count),
            Symbol::Builtin(_) | Symbol::Cold(_) => true,
        });
        // Functions come first: what they need may have to be compiled.
        let there: FxHashSet<Symbol> = found.iter().map(|(symbol, ..)| *symbol).collect();
        let needed = found.iter().flat_map(|(_, found)| found.code.symbols());
        let missing: BTreeSet<Symbol> =
            needed.filter(|symbol| !matches!(symbol, Symbol::Function(_)) && !there.contains(symbol)).collect();
        for symbol in missing {
            found.push((symbol, self.kept.code(symbol, Tier::Optimized, &self.compiler)?));
        }

        // Where each is to lie, so that they can refer to each other. None touches the next.
        let begin = state.end;
        let mut end = begin;
        let mut starts: Vec<u32> = Vec::with_capacity(found.len());
        for (_, Found { code, .. }) in &found {
            let start = end.next_multiple_of(code.alignment() as usize);
            starts.push(start as u32);
            end = start + code.length() + 1;
        }
        anyhow::ensure!(end < self.code_bytes(), "the module's code passes {} MiB", self.code_bytes() >> 20);
        // Calls of code that was compiled quickly are counted.
        let direct = found.iter().zip(&starts).filter(|((_, found), _)| Finish::of(found) == Finish::Final);
        let places: FxHashMap<Symbol, u32> = direct.map(|((symbol, _), &start)| (*symbol, start)).collect();

        let mut bytes = vec![0; end - begin];
        let mut tables = CodeTables::default();
        let mut functions = Vec::new();
        for ((symbol, Found { code, .. }), &start) in found.iter().zip(&starts) {
            let place = &mut bytes[start as usize - begin..][..code.length()];
            code.place_in(place, &mut tables, start, |target| match (places.get(&target), target) {
                (Some(&start), _) => start,
                (None, Symbol::Function(index)) => self.beginning((index - imported) as usize),
                (None, trampoline) => unreachable!("{trampoline:?} is among them"),
            })?;
            if let Symbol::Function(index) | Symbol::Loop(index, _) = *symbol {
                let range = CodeRange { start, length: code.length() as u32 };
                functions.push(CompiledFunction { range, index, source: code.source() });
            }
        }
        self.memory.write(begin, &bytes)?;
        arch::synchronize_code(self.code().wrapping_add(begin), bytes.len());
        self.parts.add(Part { start: begin as u32, end: end as u32 - 1, functions, tables });
        state.end = end;
        for ((symbol, found), &start) in found.iter().zip(&starts) {
            self.map(*symbol, Finish::of(found), start, found.code.length());
            match *symbol {
                Symbol::Function(index) => {
                    self.go_to(&mut state, (index - imported) as usize, start, Finish::of(found));
                    self.tell(index, Instant::now(), found, CompileCause::Ahead);
                }
                Symbol::Loop(index, offset) => {
                    self.go_on(&mut state, (index - imported, offset), start);
                    self.tell(index, Instant::now(), found, CompileCause::Loop(offset));
                }
                trampoline => _ = state.trampolines.insert(trampoline, start),
            }
        }
        Ok(())
    }
}
