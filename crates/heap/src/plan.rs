//! The [`AccessPlan`]: everything a code generator must know of a heap, as plain data.
//!
//! A plan depends on the heap's configuration alone, never on a live heap, so that modules can be compiled ahead of
//! time. Compiled code reaches the heap through two addresses: the base of the cage and the [`MutatorContext`].

use serde::{Deserialize, Serialize};

/// How compiled code reaches objects, allocates, stores and polls. Published by
/// [`HeapConfig::access_plan`](crate::HeapConfig::access_plan).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct AccessPlan {
    /// From a reference to its object.
    pub references: ReferencePlan,
    /// The layout of arrays.
    pub arrays: ArrayPlan,
    /// The inline allocation sequence.
    pub allocation: AllocationPlan,
    /// What a store of a reference into an object must do besides.
    pub store_barrier: BarrierPlan,
    /// Whether the bits of a reference may change at a safepoint. Where they may not, frames need only be readable by
    /// the collector: references stay in registers across calls.
    pub references_change_at_safepoints: bool,
    /// An access to an address below this offset of the cage faults: a null check for any field nearer than this costs
    /// no instruction. In bytes.
    pub null_guard_bytes: u32,
}

/// From a reference to its object (axis `references`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum ReferencePlan {
    /// The reference is the object's offset in the cage.
    Direct,
    /// The reference is the cage offset of a handle: one `u32` that holds the object's offset (Handles Revisited, section 3,
    /// thin handles). The object's collector word holds the offset of its handle.
    ThinHandles,
}

/// The layout of arrays (axis `arrays`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum ArrayPlan {
    /// Header, length, elements.
    Contiguous,
}

/// The inline allocation sequence.
///
/// Objects of one cell size are taken by bumping a cursor through a run of free memory. All `u32` fields named here lie
/// in the [`MutatorContext`]. If `limit - cursor < cell bytes` the slow path is called instead.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct AllocationPlan {
    /// Cell size of each class in bytes, ascending. An object takes the first class that holds it; a larger one always
    /// takes the slow path.
    pub cell_bytes: Vec<u32>,
    /// Offset in the [`MutatorContext`] of the first class's [`BumpRun`]; the others follow, 8 bytes each.
    pub runs_offset: u32,
    /// Whether the memory between cursor and limit is already zero, so that only the header and the non-zero fields
    /// need to be written.
    pub cells_are_zero: bool,
    /// With handles: offset in the [`MutatorContext`] of the [`BumpRun`] of free handles (4 bytes each), taken in the
    /// same way. `None` for direct references.
    pub handle_run_offset: Option<u32>,
}

impl AllocationPlan {
    /// The size class for an object of `bytes`, or `None` where only the slow path can allocate it.
    pub fn class_of(&self, bytes: u32) -> Option<usize> {
        let class = self.cell_bytes.partition_point(|&cell| cell < bytes);
        (class < self.cell_bytes.len()).then_some(class)
    }
}

/// What a store of a reference into an object must do besides.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum BarrierPlan {
    /// Nothing: the collector stops the mutator and traces everything.
    None,
}

/// A run of free memory that allocation bumps through. Cage offsets in bytes; empty when both are equal.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct BumpRun {
    /// The next free byte.
    pub cursor: u32,
    /// The end of the run.
    pub limit: u32,
}

/// The most size classes a heap may have.
pub const MAX_SIZE_CLASSES: usize = 48;

/// The words that compiled code and the heap share, one set for each heap (and so for each mutator).
#[repr(C)]
#[derive(Debug)]
pub struct MutatorContext {
    /// Function entries compare the stack pointer with this address and call the `poll` builtin when below it. Another
    /// thread raises it to `usize::MAX` to interrupt.
    pub stack_limit: std::sync::atomic::AtomicUsize,
    /// Loop back-edges call the `poll` builtin when this is not zero.
    pub poll: std::sync::atomic::AtomicU32,
    /// Free handles (handle models only).
    pub handle_run: BumpRun,
    /// Free memory for each size class.
    pub runs: [BumpRun; MAX_SIZE_CLASSES],
}

impl MutatorContext {
    /// Offset of [`stack_limit`](Self::stack_limit), 8 bytes.
    pub const STACK_LIMIT_OFFSET: u32 = std::mem::offset_of!(MutatorContext, stack_limit) as u32;
    /// Offset of [`poll`](Self::poll), 4 bytes.
    pub const POLL_OFFSET: u32 = std::mem::offset_of!(MutatorContext, poll) as u32;
    /// Offset of [`handle_run`](Self::handle_run).
    pub const HANDLE_RUN_OFFSET: u32 = std::mem::offset_of!(MutatorContext, handle_run) as u32;
    /// Offset of [`runs`](Self::runs).
    pub const RUNS_OFFSET: u32 = std::mem::offset_of!(MutatorContext, runs) as u32;
}
