//! Which blocks of cells are to be emptied, so that what lives in them lies closer together.
//!
//! A sweep that classifies blocks sets *candidates* aside, by how full they are: out of the allocator's reach, since
//! what is allocated there would have to be moved too (which Handles Revisited, section 6.3, found its collector to
//! do). When it is over, so many are kept, the emptiest first, as the free cells of the others can hold the objects of;
//! the rest is allocated in as ever. Where the pool has no memory, allocation takes candidates as well.

use crate::size_classes::MAX_SIZE_CLASSES;

/// Steps of how full a block is.
const STEPS: u32 = 8;
/// With [`Choice::Sparse`], blocks are emptied that are in one of so many lowest steps: at most 25 % full.
const SPARSE: u32 = 2;

/// What is to be emptied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Choice {
    /// Nothing.
    #[default]
    None,
    /// Blocks that are nearly empty.
    Sparse,
    /// As many as can be.
    Most,
    /// All, as a test of whatever may hold the address of an object.
    All,
}

/// The candidates of one class.
#[derive(Debug, Default)]
struct Class {
    /// By how full they are.
    steps: [Vec<u32>; STEPS as usize],
    /// Marked cells in the candidates, free cells in other blocks.
    live: u64,
    free: u64,
}

/// The blocks that are to be emptied.
#[derive(Debug)]
pub(crate) struct Candidates {
    choice: Choice,
    classes: Box<[Class]>,
    /// The block that is being emptied, and its class. Nobody allocates there.
    emptying: Option<(usize, u32)>,
}

impl Candidates {
    /// None.
    pub(crate) fn new() -> Candidates {
        Candidates {
            choice: Choice::None,
            classes: std::iter::repeat_with(Class::default).take(MAX_SIZE_CLASSES).collect(),
            emptying: None,
        }
    }

    /// Forgets all, and looks for others from now on.
    pub(crate) fn start(&mut self, choice: Choice) {
        (self.choice, self.emptying) = (choice, None);
        for class in &mut self.classes {
            class.steps.iter_mut().for_each(Vec::clear);
            (class.live, class.free) = (0, 0);
        }
    }

    /// Looks at a block of so many cells, some of which are marked; whether it is a candidate.
    pub(crate) fn consider(&mut self, block: u32, class: usize, marked: u32, cells: u32) -> bool {
        let step = (marked * STEPS).div_ceil(cells) - 1;
        let is_candidate = match self.choice {
            Choice::None => false,
            Choice::Sparse => step < SPARSE,
            Choice::Most => marked < cells,
            Choice::All => true,
        };
        let class = &mut self.classes[class];
        if is_candidate {
            class.steps[step as usize].push(block);
            class.live += u64::from(marked);
        } else {
            class.free += u64::from(cells - marked);
        }
        is_candidate
    }

    /// The fullest candidate of a class, which is none any more.
    pub(crate) fn take_fullest(&mut self, class: usize) -> Option<u32> {
        self.classes[class].steps.iter_mut().rev().find_map(Vec::pop)
    }

    /// The fullest candidate of a class, of so many cells each, which is none any more: one where what the candidates
    /// hold would not fit elsewhere. `count` counts the marked cells of a block.
    pub(crate) fn take_surplus(&mut self, class: usize, cells: u32, count: impl Fn(u32) -> u32) -> Option<u32> {
        let room = &self.classes[class];
        if self.choice == Choice::All || room.live <= room.free {
            return None;
        }
        let block = self.take_fullest(class)?;
        let marked = count(block);
        let room = &mut self.classes[class];
        room.live -= u64::from(marked);
        room.free += u64::from(cells - marked);
        Some(block)
    }

    /// The block of a class that is being emptied: the emptiest candidate, if there was none.
    pub(crate) fn emptying(&mut self, class: usize) -> Option<u32> {
        if self.emptying.is_none() {
            self.emptying = self.classes[class].steps.iter_mut().find_map(Vec::pop).map(|block| (class, block));
        }
        self.emptying.map(|(_, block)| block)
    }

    /// The block that is being emptied is a candidate no more.
    pub(crate) fn emptied(&mut self) {
        self.emptying = None;
    }

    /// The candidates of a class.
    pub(crate) fn of(&self, class: usize) -> impl Iterator<Item = &u32> {
        let emptying = self.emptying.iter().filter(move |(of, _)| *of == class).map(|(_, block)| block);
        self.classes[class].steps.iter().flatten().chain(emptying)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emptiest_are_emptied_as_far_as_others_have_room() {
        let mut candidates = Candidates::new();
        candidates.start(Choice::Sparse);
        assert!(!candidates.consider(40, 0, 26, 100) && candidates.consider(41, 0, 25, 100));
        assert!(candidates.consider(42, 0, 1, 100) && candidates.consider(43, 0, 13, 100));
        assert!(!candidates.consider(44, 1, 99, 100) && candidates.consider(45, 1, 2, 100));
        assert_eq!(candidates.take_surplus(0, 100, |_| 25), None, "74 cells are free, 39 objects are to be moved");
        assert_eq!(candidates.take_surplus(1, 100, |_| 2), Some(45), "one cell is free, for two objects");
        assert_eq!([candidates.emptying(0); 2], [Some(42); 2]);
        assert_eq!(candidates.of(0).count(), 3);
        candidates.emptied();
        assert_eq!((candidates.emptying(0), candidates.take_fullest(0)), (Some(43), Some(41)));
        assert_eq!((candidates.take_fullest(0), candidates.emptying(0)), (None, Some(43)), "it is nobody else's");
        candidates.start(Choice::Most);
        assert!(candidates.emptying(0).is_none() && !candidates.consider(40, 0, 100, 100));
        candidates.start(Choice::All);
        assert!(candidates.consider(40, 0, 100, 100) && candidates.take_surplus(0, 100, |_| 100).is_none());
    }
}
