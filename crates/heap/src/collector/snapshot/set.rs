//! Sets of references.

use crate::reference::Reference;

/// Cage bytes that a part of a set covers, and bytes for each bit.
const PART_LOG2: u32 = 16;
const BIT_LOG2: u32 = 2;
const WORDS: usize = 1 << (PART_LOG2 - BIT_LOG2 - 6);

/// A set of references to objects: bits, in parts that are there once they are needed.
#[derive(Clone, Default)]
pub(super) struct ReferenceSet {
    parts: Vec<Option<Box<[u64; WORDS]>>>,
    count: usize,
}

impl ReferenceSet {
    /// Adds a reference; whether it was missing.
    pub(super) fn insert(&mut self, reference: Reference) -> bool {
        let (part, word, bit) = place(reference);
        if part >= self.parts.len() {
            self.parts.resize(part + 1, None);
        }
        let word = &mut self.parts[part].get_or_insert_with(|| Box::new([0; WORDS]))[word];
        let is_new = *word & bit == 0;
        *word |= bit;
        self.count += usize::from(is_new);
        is_new
    }

    /// Whether a reference is in the set.
    pub(super) fn contains(&self, reference: Reference) -> bool {
        let (part, word, bit) = place(reference);
        self.parts.get(part).and_then(Option::as_ref).is_some_and(|words| words[word] & bit != 0)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = Reference> {
        let words = self.parts.iter().enumerate().flat_map(|(part, words)| {
            words.iter().flat_map(move |words| words.iter().enumerate().map(move |(index, &word)| (part, index, word)))
        });
        words.filter(|&(_, _, word)| word != 0).flat_map(|(part, index, word)| {
            let bits = (0..64).filter(move |bit| word >> bit & 1 != 0);
            bits.map(move |bit| Reference((((part * WORDS + index) * 64 + bit) as u32) << BIT_LOG2))
        })
    }
}

/// Part, word and bit of a reference.
fn place(Reference(bits): Reference) -> (usize, usize, u64) {
    let bit = bits >> BIT_LOG2;
    ((bits >> PART_LOG2) as usize, (bit >> 6) as usize % WORDS, 1 << (bit & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_is_there_and_nothing_else() {
        let all = [8, 12, 252, 256, 0xfffc, 0x10000, 0x1234_5678, 0xffff_fffc].map(Reference);
        let mut set = ReferenceSet::default();
        for reference in all {
            assert!(!set.contains(reference));
            assert!(set.insert(reference) && !set.insert(reference));
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), all);
        assert_eq!(set.len(), all.len());
        assert!(all.iter().all(|&reference| set.contains(reference)));
        assert!(!set.contains(Reference(16)) && !set.contains(Reference(0x8000_0000)));
    }
}
