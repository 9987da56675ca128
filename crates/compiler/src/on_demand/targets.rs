//! Where the module's calls by reference have led so far, and which loops have run.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use smallvec::SmallVec;

use crate::abi::TARGETS;
use crate::module::FuncIndex;

/// What quick code has noted, in whichever instance of the module. Code writes while other threads read: what they find
/// is a guess.
pub(super) struct Targets {
    /// Where the calls by reference lie in the module file, ascending. A call's place among them is its number.
    calls: Vec<u32>,
    /// Where the loops begin, in the same way.
    loops: Vec<u32>,
    /// [`TARGETS`] words for each call: [`FuncRef::number`](crate::abi::FuncRef::number) of a function, or 0. Then one
    /// for each loop: not 0 if it has run.
    noted: Box<[AtomicU32]>,
}

impl Targets {
    /// None yet, of calls and loops at these offsets in the module file, which ascend.
    pub(super) fn new(calls: Vec<u32>, loops: Vec<u32>) -> Targets {
        debug_assert!(calls.is_sorted() && loops.is_sorted(), "bodies are scanned in their order");
        let noted = (0..calls.len() * TARGETS + loops.len()).map(|_| AtomicU32::new(0)).collect();
        Targets { calls, loops, noted }
    }

    /// The offsets of calls and loops that it was made from.
    pub(super) fn sites(&self) -> [&[u32]; 2] {
        [&self.calls, &self.loops]
    }

    /// Where code notes what it does.
    pub(super) fn noted(&self) -> &[AtomicU32] {
        &self.noted
    }

    /// The number of the call at this offset in the module file.
    pub(super) fn call(&self, offset: u32) -> Option<u32> {
        self.calls.binary_search(&offset).ok().map(|number| number as u32)
    }

    /// The word of the loop at this offset in the module file.
    pub(super) fn loop_word(&self, offset: u32) -> Option<u32> {
        let number = self.loops.binary_search(&offset).ok()?;
        Some((self.calls.len() * TARGETS + number) as u32)
    }

    /// Whether the loop at this offset has run in quick code.
    pub(super) fn has_run(&self, offset: u32) -> bool {
        self.loop_word(offset).is_some_and(|word| self.noted[word as usize].load(Ordering::Relaxed) != 0)
    }

    /// Whether there are calls by reference in this part of the module file.
    pub(super) fn has_calls(&self, part: &Range<u32>) -> bool {
        self.calls.get(self.calls.partition_point(|&call| call < part.start)).is_some_and(|call| part.contains(call))
    }

    /// Whether there are loops in this part of the module file that have not run.
    pub(super) fn has_untried(&self, part: &Range<u32>) -> bool {
        let first = self.loops.partition_point(|&begin| begin < part.start);
        self.loops[first..].iter().take_while(|begin| part.contains(begin)).any(|&begin| !self.has_run(begin))
    }

    /// The functions that the call at this offset has led to; some are missing where several share a word.
    pub(super) fn of_call(&self, offset: u32) -> SmallVec<[FuncIndex; TARGETS]> {
        let Some(number) = self.call(offset) else { return SmallVec::new() };
        let noted = &self.noted[number as usize * TARGETS..][..TARGETS];
        let functions = noted.iter().filter_map(|word| word.load(Ordering::Relaxed).checked_sub(1));
        functions.map(FuncIndex).collect()
    }
}
