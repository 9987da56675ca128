//! Axis `references`: from a reference to its object, and back.

pub(crate) mod direct;
pub(crate) mod thin_handles;

use crate::blocks::BlockPool;
use crate::budget::{Budget, Done};
use crate::cage::Cage;
use crate::context::Context;
use crate::plan::{MutatorContext, ReferencePlan};
use crate::reference::Reference;

crate::values::values! {
    /// The values of the axis.
    #[derive(Eq, Hash)]
    pub enum References {
        /// A reference is the object's offset.
        Direct = "direct",
        /// A reference is the offset of a word that holds the object's offset.
        ThinHandles = "thin-handles",
    }
}

impl References {
    /// From a reference to its object, for a code generator.
    pub(crate) fn plan(self) -> ReferencePlan {
        match self {
            References::Direct => ReferencePlan::Direct,
            References::ThinHandles => ReferencePlan::ThinHandles,
        }
    }

    /// Offset in the [`MutatorContext`] of the run of free handles, where objects have handles.
    pub(crate) fn handle_run_offset(self) -> Option<u32> {
        match self {
            References::Direct => None,
            References::ThinHandles => Some(MutatorContext::HANDLE_RUN_OFFSET),
        }
    }

    /// Whether an object's collector word holds nothing of the model's, so that a layout may use it.
    pub(crate) fn leaves_collector_word_free(self) -> bool {
        match self {
            References::Direct => true,
            References::ThinHandles => false,
        }
    }
}

/// What the heap asks of a reference model. Every hot path is generic over it. Objects are named by their offset.
pub(crate) trait ReferenceModel: Default + Send {
    /// Whether an object owns a handle that must be released when it dies.
    const HANDLES: bool;

    /// The object that a reference names.
    ///
    /// # Safety
    /// `reference` names an object of the heap.
    unsafe fn object(cage: &Cage, reference: Reference) -> u32;

    /// The reference that names an object.
    ///
    /// # Safety
    /// `object` is an allocated object of the heap.
    unsafe fn reference(cage: &Cage, object: u32) -> Reference;

    /// Sees to it that [`bind`](Self::bind) can be called once. False where the pool has no memory for it.
    fn prepare(&mut self, pool: &mut BlockPool, context: &mut Context) -> bool;

    /// Gives a new object its identity, and writes its collector word.
    ///
    /// # Safety
    /// [`prepare`](Self::prepare) has returned true, and `object` is a free cell.
    unsafe fn bind(&mut self, cage: &Cage, context: &mut Context, object: u32) -> Reference;

    /// Takes the identity of a dead object back.
    ///
    /// # Safety
    /// `object` has a header and is neither live nor released yet.
    unsafe fn release(&mut self, pool: &mut BlockPool, object: u32);

    /// Once the blocks have been swept: gives back the memory of what has no use any more, in steps. `left`, `None` at
    /// first, is how much is to be looked at.
    fn sweep(&mut self, pool: &mut BlockPool, left: &mut Option<usize>, budget: &mut Budget) -> Done;

    /// Handles released since the last call.
    fn take_released(&mut self) -> u64;

    /// Bytes of blocks that the model occupies.
    fn occupied_bytes(&self) -> u64;

    /// Checks `reference` without trusting it; returns the offset that it leads to.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    fn check_reference(pool: &BlockPool, reference: Reference) -> Result<u32, String>;

    /// Checks the model's own structures. `is_object` tells whether an offset is the start of an allocated or dead but
    /// unswept object.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    fn check(&self, pool: &BlockPool, context: &Context, is_object: &dyn Fn(u32) -> bool) -> Result<(), String>;
}
