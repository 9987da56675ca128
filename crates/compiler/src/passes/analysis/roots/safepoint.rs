//! Where the collector may look at a frame, and how often.

use rustc_hash::FxHashMap;

use crate::mir::{Block, Inst, Terminator};

/// A place where the collector may look at the frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum SafepointKey {
    /// The stack check before the entry block.
    Entry,
    /// An instruction.
    Inst(Inst),
    /// The terminator of a block.
    Terminator(Block),
}

/// How often a safepoint is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Temperature {
    /// Whenever its instruction is executed.
    Hot,
    /// Only on a cold path of its instruction.
    Cold,
    /// Whenever its instruction is executed, which lies in a cold block.
    OutOfLine,
}

/// The operations of a function at which garbage may be collected, with how often: what lowering knows of its heap.
pub(crate) type Safepoints = FxHashMap<Inst, Temperature>;

/// Whether a block's end is a safepoint.
pub(super) fn is_safepoint(terminator: Option<&Terminator>) -> bool {
    matches!(terminator, Some(Terminator::TryCall { .. } | Terminator::Throw { .. }))
}
