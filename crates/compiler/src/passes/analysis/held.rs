//! What loops hold of the places of objects, as [`locations`](super::locations) finds it out.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::mir::{Block, Value};

/// The place of an object that a loop holds.
pub(crate) struct Location {
    /// The reference, as it is known before the loop.
    pub(crate) reference: Value,
    /// What it is a form of: see [`root`].
    pub(crate) root: Value,
    /// Whether it may be null.
    pub(crate) nullable: bool,
}

/// The locations that the loops of a function hold.
#[derive(Default)]
pub(crate) struct LocationPlan {
    /// All of them.
    pub(crate) locations: Vec<Location>,
    /// By block: those of its loop, as a range of numbers.
    pub(super) held: FxHashMap<Block, (usize, usize)>,
    /// The headers of these loops.
    pub(super) headers: SmallVec<[Block; 4]>,
}

impl LocationPlan {
    /// The numbers of those that are held in a block: the same in all blocks of a loop.
    pub(crate) fn held(&self, block: Block) -> std::ops::Range<usize> {
        self.held.get(&block).map_or(0..0, |&(start, end)| start..end)
    }

    /// The headers of the loops that hold something.
    pub(crate) fn headers(&self) -> impl Iterator<Item = Block> + use<> {
        self.headers.clone().into_iter()
    }
}
