//! What becomes of free handles: the policies of Handles Revisited (section 3.3), as far as they differ without lists
//! of free handles.
//!
//! The paper threads a list through all free handles, and finds that it should keep those of a block together
//! (*consecutive*), in the order of their addresses (*rebuilt*). Here allocation scans a block for runs of free
//! handles: so both hold always, and cost nothing. What is left to choose is here. Beside the defaults, these exist to
//! repeat the paper's table 8 (`legato-lab handles --policies`).
//!
//! Beside the paper's policies there is one without any visit of handles, [`HandleRelease::Lazy`], the default:
//! marking sets a bit for each handle, and allocation takes those whose bits are clear. With cells, a cycle visits each
//! dead object in blocks that have become empty, in a pass of its own each handle, and meanwhile the program fills
//! others, which the next cycle has to visit.

use crate::values::{params, values};

values! {
    /// When handles of dead objects become free, and where they are found again.
    #[derive(Eq, Hash)]
    pub enum HandleRelease {
        /// When marking ends: a handle that is not marked is free, and found by its bit when handles are needed. Thin
        /// handles, of which two share a bit, are released as under `independent` in its place.
        Lazy = "lazy",
        /// When their objects' cells are swept.
        WithCells = "with-cells",
        /// In a pass of its own over the blocks of handles, before cells are swept (*independent release*).
        Independent = "independent",
        /// When their objects' cells are swept. The one released last is taken first, wherever it lies, and no block is
        /// given back (*naive release*).
        Naive = "naive",
    }
}

values! {
    /// Which blocks with free handles are taken from first.
    #[derive(Eq, Hash)]
    pub enum HandleOrder {
        /// As handles have become free in them.
        Released = "released",
        /// Those with few free handles, so that others become empty (*sorting*).
        Fullest = "fullest",
        /// Those with many (*reverse sorting*).
        Emptiest = "emptiest",
    }
}

values! {
    /// Which blocks are kept though all their handles are free, ready for use (*pre-initialised caching*).
    #[derive(Eq, Hash)]
    pub enum HandleCache {
        /// None.
        None = "none",
        /// Some.
        Some = "some",
        /// All.
        All = "all",
    }
}

params! {
    /// Parameters of reference models with handles.
    pub struct HandleParams {
        /// When handles become free.
        pub release: HandleRelease = HandleRelease::Lazy,
        /// Which are taken first.
        pub order: HandleOrder = HandleOrder::Released,
        /// Which empty blocks are kept.
        pub cache: HandleCache = HandleCache::None,
    }
}

/// How many empty blocks [`HandleCache::Some`] keeps.
const SOME: usize = 8;

impl HandleCache {
    /// Whether another empty block is kept beside so many.
    pub(crate) fn keeps(self, kept: usize) -> bool {
        match self {
            HandleCache::None => false,
            HandleCache::Some => kept < SOME,
            HandleCache::All => true,
        }
    }
}
