//! What quick code has noted so far: where the module's calls by reference have led, and how often calls and loops have
//! run.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::abi::TARGETS;
use crate::module::FuncIndex;

/// Code reaches a word by its distance from the first in an instruction: 31 bits of bytes.
const MAX_WORDS: usize = (i32::MAX as usize).div_ceil(size_of::<u32>());

/// What code takes notes of: offsets in the module file, ascending. The place of a site in its list is its number.
#[derive(Default, Debug, Serialize, Deserialize)]
pub(super) struct Sites {
    /// The calls by reference.
    references: Vec<u32>,
    /// The calls that are counted: all by reference, and some direct ones.
    calls: Vec<u32>,
    /// Where loops begin.
    loops: Vec<u32>,
}

/// The same of one body, before it is known which direct calls are counted.
#[derive(Default, Debug)]
pub(super) struct BodySites {
    /// The calls with the functions that they lead to, where they are direct.
    pub(super) calls: Vec<(u32, Option<u32>)>,
    pub(super) loops: Vec<u32>,
}

impl Sites {
    /// Those of a module's bodies, which come in their order. `is_counted`: whether direct calls of a function are.
    pub(super) fn of<'a>(bodies: impl Iterator<Item = &'a BodySites>, is_counted: impl Fn(u32) -> bool) -> Sites {
        let mut sites = Sites::default();
        for body in bodies {
            for &(offset, callee) in &body.calls {
                sites.references.extend(callee.is_none().then_some(offset));
                sites.calls.extend(callee.is_none_or(&is_counted).then_some(offset));
            }
            sites.loops.extend_from_slice(&body.loops);
        }
        debug_assert!(sites.calls.is_sorted() && sites.loops.is_sorted(), "bodies come in their order");
        sites
    }

    /// The words that their notes take.
    fn words(&self) -> usize {
        self.references.len() * TARGETS + self.loops.len() + self.calls.len()
    }
}

/// What quick code has noted, in whichever instance of the module. Code writes while other threads read: what they find
/// is a guess.
pub(super) struct Profile {
    sites: Sites,
    /// [`TARGETS`] words for each call by reference: [`FuncRef::number`](crate::abi::FuncRef::number) of a function,
    /// or 0. Then one for each loop and one for each call that is counted: how often it has run.
    noted: Box<[AtomicU32]>,
}

impl Profile {
    /// Nothing yet, of these sites; of none where their words were beyond what code reaches.
    pub(super) fn new(mut sites: Sites) -> Profile {
        if sites.words() > MAX_WORDS {
            sites = Sites::default();
        }
        Profile { noted: (0..sites.words()).map(|_| AtomicU32::new(0)).collect(), sites }
    }

    /// The sites that it was made from.
    pub(super) fn sites(&self) -> &Sites {
        &self.sites
    }

    /// Where code notes what it does.
    pub(super) fn noted(&self) -> &[AtomicU32] {
        &self.noted
    }

    /// The number of the call by reference at this offset in the module file.
    pub(super) fn reference(&self, offset: u32) -> Option<u32> {
        self.sites.references.binary_search(&offset).ok().map(|number| number as u32)
    }

    fn loop_word(&self, offset: u32) -> Option<u32> {
        let number = self.sites.loops.binary_search(&offset).ok()?;
        Some((self.sites.references.len() * TARGETS + number) as u32)
    }

    fn call_word(&self, offset: u32) -> Option<u32> {
        let number = self.sites.calls.binary_search(&offset).ok()?;
        Some((self.sites.references.len() * TARGETS + self.sites.loops.len() + number) as u32)
    }

    /// The word that counts how often the loop or the call at this offset runs.
    pub(super) fn word(&self, offset: u32) -> Option<u32> {
        self.loop_word(offset).or_else(|| self.call_word(offset))
    }

    fn count(&self, word: u32) -> u32 {
        self.noted[word as usize].load(Ordering::Relaxed)
    }

    /// How often the loop at this offset has run in code that counts it.
    pub(super) fn loop_count(&self, offset: u32) -> u32 {
        self.loop_word(offset).map_or(0, |word| self.count(word))
    }

    /// How often the call at this offset has been made in code that counts it, if it is one that is counted.
    pub(super) fn call_count(&self, offset: u32) -> Option<u32> {
        self.call_word(offset).map(|word| self.count(word))
    }

    /// Whether there are calls by reference in this part of the module file.
    pub(super) fn has_references(&self, part: &Range<u32>) -> bool {
        let references = &self.sites.references;
        references.get(references.partition_point(|&call| call < part.start)).is_some_and(|call| part.contains(call))
    }

    /// Whether there are loops in this part of the module file that have not run.
    pub(super) fn has_untried(&self, part: &Range<u32>) -> bool {
        let loops = &self.sites.loops;
        let first = loops.partition_point(|&begin| begin < part.start);
        loops[first..].iter().take_while(|begin| part.contains(begin)).any(|&begin| self.loop_count(begin) == 0)
    }

    /// The functions that the call by reference at this offset has led to; some are missing where several share a word.
    pub(super) fn of_call(&self, offset: u32) -> SmallVec<[FuncIndex; TARGETS]> {
        let Some(number) = self.reference(offset) else { return SmallVec::new() };
        let noted = &self.noted[number as usize * TARGETS..][..TARGETS];
        let functions = noted.iter().filter_map(|word| word.load(Ordering::Relaxed).checked_sub(1));
        functions.map(FuncIndex).collect()
    }
}
