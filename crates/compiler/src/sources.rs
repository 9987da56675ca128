//! Where in the module file instructions come from, also those of inlined functions.
//!
//! A source is a `u32`: the instruction's offset in the module file, or, where its function was inlined, a number with
//! the top bit set that a table of [`Sources`] explains. (Module files are smaller than 2 GiB.)

use std::iter;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// The bit of sources that stand in the table.
const INLINED: u32 = 1 << 31;

/// Instructions that were inlined: the offset of each in the module file, and the source of the call that its function
/// was inlined at. That call, if inlined itself, stands before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sources(Vec<(u32, u32)>);

impl Sources {
    /// Adds an instruction at this offset in the module file, of a function that was inlined at the call with source
    /// `call`. Returns its source.
    pub fn add(&mut self, offset: u32, call: u32) -> u32 {
        self.0.push((offset, call));
        INLINED | (self.0.len() as u32 - 1)
    }

    fn inlined(&self, source: u32) -> Option<(u32, u32)> {
        (source & INLINED != 0).then(|| self.0.get((source ^ INLINED) as usize).copied()).flatten()
    }

    /// The offsets in the module file of a source's instruction and of the calls that it was inlined at, from the
    /// innermost to that in the function which has the code.
    pub fn offsets(&self, source: u32) -> impl Iterator<Item = u32> + '_ {
        let mut next = Some(source);
        iter::from_fn(move || {
            let source = next?;
            let inlined = self.inlined(source);
            next = inlined.map(|(_, call)| call);
            Some(inlined.map_or(source, |(offset, _)| offset))
        })
    }

    /// The sources of the calls that a source's instruction was inlined at, from the innermost on.
    pub fn calls(&self, source: u32) -> impl Iterator<Item = u32> + '_ {
        iter::successors(self.inlined(source), |&(_, call)| self.inlined(call)).map(|(_, call)| call)
    }

    /// Whether every number of the table, and this source, stands for an instruction.
    pub fn explain(&self, source: u32) -> bool {
        source & INLINED == 0 || self.inlined(source).is_some()
    }

    /// Whether every call stands before what was inlined there.
    pub fn are_sound(&self) -> bool {
        let calls = self.0.iter().enumerate();
        calls.into_iter().all(|(number, &(_, call))| call & INLINED == 0 || (call ^ INLINED) < number as u32)
    }
}

/// Sources of one table, made those of another.
pub struct Moved<'a> {
    from: &'a Sources,
    /// What they are inlined at, on the way.
    call: Option<u32>,
    known: FxHashMap<u32, u32>,
}

impl<'a> Moved<'a> {
    /// For sources of the table `from`: those of a function that is inlined at the call with the source `call`, or
    /// stays where it is.
    pub fn new(from: &'a Sources, call: Option<u32>) -> Moved<'a> {
        Moved { from, call, known: FxHashMap::default() }
    }

    /// What a source is in the table `to`, always the same one.
    pub fn source(&mut self, source: u32, to: &mut Sources) -> u32 {
        let inlined = self.from.inlined(source);
        let (offset, call) = match (inlined, self.call) {
            (None, None) => return source,
            (None, Some(call)) => (source, call),
            (Some(inlined), _) => inlined,
        };
        if let Some(&known) = self.known.get(&source) {
            return known;
        }
        let call = if inlined.is_some() { self.source(call, to) } else { call };
        let moved = to.add(offset, call);
        self.known.insert(source, moved);
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_what_was_inlined_twice() {
        // At 40 in the outermost function 20 was inlined, whose call at 21 was 10 before.
        let (mut inner, mut outer) = (Sources::default(), Sources::default());
        let source = inner.add(10, 21);
        let mut moved = Moved::new(&inner, Some(40));
        let moved = [20, source, source].map(|source| moved.source(source, &mut outer));
        assert_eq!(moved[1], moved[2]);
        assert_eq!(
            moved.map(|source| outer.offsets(source).collect::<Vec<_>>())[..2],
            [vec![20, 40], vec![10, 21, 40]]
        );
        assert_eq!(moved.map(|source| outer.calls(source).count()), [1, 2, 2]);
        // Behind those of another function, only what is named.
        let mut all = Sources::default();
        all.add(1, 2);
        let mut kept = Moved::new(&outer, None);
        let kept = [7, moved[1]].map(|source| kept.source(source, &mut all));
        assert_eq!(kept.map(|source| all.offsets(source).collect::<Vec<_>>()), [vec![7], vec![10, 21, 40]]);
        assert!(all.are_sound() && kept.iter().all(|&source| all.explain(source)));
        assert!(!Sources::default().explain(kept[1]) && !Sources(vec![(1, kept[1])]).are_sound());
    }
}
