//! Where the module's calls by reference have led so far.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use smallvec::SmallVec;

use crate::abi::TARGETS;
use crate::module::FuncIndex;

/// The functions that quick code has noted at each call by reference, in whichever instance of the module. Code writes
/// while other threads read: what they find is a guess.
pub(super) struct Targets {
    /// Where the calls lie in the module file, ascending. A call's place among them is its number.
    calls: Vec<u32>,
    /// [`TARGETS`] words for each call: [`FuncRef::number`](crate::abi::FuncRef::number) of a function, or 0.
    noted: Box<[AtomicU32]>,
}

impl Targets {
    /// None yet, of calls at these offsets in the module file, which ascend.
    pub(super) fn new(calls: Vec<u32>) -> Targets {
        debug_assert!(calls.is_sorted(), "bodies are scanned in their order");
        let noted = (0..calls.len() * TARGETS).map(|_| AtomicU32::new(0)).collect();
        Targets { calls, noted }
    }

    /// The offsets that it was made from.
    pub(super) fn calls(&self) -> &[u32] {
        &self.calls
    }

    /// Where code notes functions.
    pub(super) fn noted(&self) -> &[AtomicU32] {
        &self.noted
    }

    /// The number of the call at this offset in the module file.
    pub(super) fn number(&self, offset: u32) -> Option<u32> {
        self.calls.binary_search(&offset).ok().map(|number| number as u32)
    }

    fn words(&self, calls: Range<usize>) -> &[AtomicU32] {
        &self.noted[calls.start * TARGETS..calls.end * TARGETS]
    }

    /// The numbers of the calls in this part of the module file.
    fn numbers(&self, part: Range<u32>) -> Range<usize> {
        let [start, end] = [part.start, part.end].map(|offset| self.calls.partition_point(|&call| call < offset));
        start..end
    }

    /// Whether there are calls in this part of the module file, and none of them has led to any function of a module.
    pub(super) fn are_untried(&self, part: Range<u32>) -> bool {
        let calls = self.numbers(part);
        !calls.is_empty() && self.words(calls).iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    /// Whether there is such a call in this part of the module file.
    pub(super) fn has_untried(&self, part: Range<u32>) -> bool {
        self.numbers(part).any(|call| self.words(call..call + 1).iter().all(|word| word.load(Ordering::Relaxed) == 0))
    }

    /// The functions that the call at this offset has led to; some are missing where several share a word.
    pub(super) fn of_call(&self, offset: u32) -> SmallVec<[FuncIndex; TARGETS]> {
        let Some(number) = self.number(offset) else { return SmallVec::new() };
        let noted = self.words(number as usize..number as usize + 1);
        let functions = noted.iter().filter_map(|word| word.load(Ordering::Relaxed).checked_sub(1));
        functions.map(FuncIndex).collect()
    }
}
