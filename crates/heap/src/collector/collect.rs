//! What a heap asks of its collector.

use crate::barrier::WriteBarrier;
use crate::blocks::Release;
use crate::budget::{Budget, Done, finish};
use crate::core::Core;
use crate::error::AllocationError;
use crate::external::HostValue;
use crate::observer::{Cause, HeapStats};
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::roots::Roots;
use crate::spaces::Contents;
use crate::spaces::leaves::LeafKind;
use crate::type_table::TypeTable;
use crate::types::TypeId;
use crate::verify::due::When;
use crate::verify::{Check, VerifyError};

/// A heap with one collector and one reference model: how it allocates, collects, and counts. What has a body here is
/// the same for all.
pub(crate) trait Collect {
    /// The reference model.
    type Model: ReferenceModel;
    /// The barrier of stores of the heap's own.
    type Barrier: WriteBarrier;

    /// What it shares with other collectors.
    fn core(&self) -> &Core<Self::Model>;

    /// The same, to be changed.
    fn core_mut(&mut self) -> &mut Core<Self::Model>;

    /// Allocates an object of `bytes` with its header, zeroed but for large ones with other contents; returns its
    /// offset. For arrays, the caller writes the length before the next allocation. May collect.
    fn allocate(
        &mut self,
        id: TypeId,
        bytes: u32,
        contents: Contents,
        roots: &mut dyn Roots,
    ) -> Result<u32, AllocationError>;

    /// As [`Heap::allocate_immortal`](crate::Heap::allocate_immortal).
    fn allocate_immortal(&mut self, bytes: u32) -> Result<u32, AllocationError>;

    /// Is told of the slot of a host value that has just been allocated.
    fn external_allocated(&mut self, _slot: u32) {}

    /// Whether a nursery collection may move the object, or find it dead.
    fn is_young(&self, _object: Reference) -> bool {
        false
    }

    /// Collects, as much as is needed, until `leaves` leaves can be had.
    fn reserve_leaves(&mut self, leaves: u64, kind: LeafKind, roots: &mut dyn Roots) -> Result<(), AllocationError>;

    /// Collects the whole heap.
    fn collect(&mut self, cause: Cause, roots: &mut dyn Roots);

    /// As [`Heap::trim`](crate::Heap::trim).
    fn trim(&mut self, roots: &mut dyn Roots) -> u64 {
        let before = self.core().pool.committed_bytes();
        self.collect(Cause::Requested, roots);
        self.release_nursery();
        let (core, mut release) = (self.core_mut(), Release::new(0));
        finish(|budget| core.pool.release_to_system(&mut release, budget));
        finish(|budget| core.marking.trim(budget));
        before.saturating_sub(core.pool.committed_bytes())
    }

    /// Gives the pool what the nursery, if there is one, holds and has not allocated in.
    fn release_nursery(&mut self) {}

    /// Collects because so much has been handed out in leaves, as much as that takes.
    fn collect_leaves(&mut self, roots: &mut dyn Roots) {
        self.collect(Cause::Limit, roots);
    }

    /// Collects where host values have brought enough memory outside of the heap.
    fn collect_externals(&mut self, roots: &mut dyn Roots) {
        if self.core().externals.are_many() {
            self.collect(Cause::Limit, roots);
        }
    }

    /// Collects because `stress` asks for it.
    fn collect_stressed(&mut self, roots: &mut dyn Roots) {
        self.collect(Cause::Stress, roots);
    }

    /// As [`Heap::visit_older_frames`](crate::Heap::visit_older_frames): with
    /// [`FRAMES_AHEAD`](crate::roots::FRAMES_AHEAD) units, where frames have been left for later.
    fn visit_older_frames(&mut self, _roots: &mut dyn Roots) {}

    /// What stores of references into the object at an offset do besides.
    fn barrier(&self, object: u32) -> Self::Barrier;

    /// Empties the store buffer, where there is one.
    fn flush_store_buffer(&mut self) {}

    /// Bytes that the last collection has found live, and those handed out since.
    fn size(&self) -> u64;

    /// Running totals.
    fn stats(&self) -> HeapStats;

    /// Checks the heap, and the roots if given.
    fn check(&self, roots: Option<&mut dyn Roots>) -> Check;

    /// As [`Heap::allocate_struct`](crate::Heap::allocate_struct).
    fn allocate_struct(&mut self, id: TypeId, roots: &mut dyn Roots) -> Result<Reference, AllocationError> {
        let object = self.allocate(id, self.core().struct_bytes(id), Contents::Zeroed, roots)?;
        Ok(self.core().new_reference(object))
    }

    /// As [`Heap::allocate_array`](crate::Heap::allocate_array), with any contents.
    fn allocate_array(
        &mut self,
        id: TypeId,
        length: u32,
        contents: Contents,
        roots: &mut dyn Roots,
    ) -> Result<Reference, AllocationError> {
        let bytes = self.core().array_bytes(id, length)?;
        let (leaves, kind) = self.core().eager_leaves(id, length)?;
        let held = self.core().contents_of_array(id, length, contents);
        // The spine may take a block that leaves were to have, say a nursery's first one; or there are as many blocks
        // as large leaves need, but scattered. Then once more.
        for is_last in [false, true] {
            if leaves > 0 {
                self.reserve_leaves(leaves, kind, roots)?;
            }
            let array = self.allocate(id, bytes, held, roots)?;
            if self.core_mut().finish_array(array, id, length, kind, contents) {
                return Ok(self.core().new_reference(array));
            }
            if !is_last {
                self.collect(Cause::Exhaustion, roots);
            }
        }
        Err(self.core().out_of_leaves(self.size()))
    }

    /// As [`Heap::allocate_external`](crate::Heap::allocate_external).
    fn allocate_external(
        &mut self,
        value: HostValue,
        outside: u64,
        roots: &mut dyn Roots,
    ) -> Result<Reference, AllocationError> {
        self.collect_externals(roots);
        let bytes = self.core().types.record(TypeTable::EXTERNAL).bytes;
        let object = self.allocate(TypeTable::EXTERNAL, bytes, Contents::Zeroed, roots)?;
        let slot = self.core_mut().bind_external(object, value, outside);
        self.external_allocated(slot);
        Ok(self.core().new_reference(object))
    }

    /// As [`Heap::poll`](crate::Heap::poll).
    fn poll(&mut self, roots: &mut dyn Roots) {
        self.core_mut().context.lower_poll();
        if let Some(&object) = self.core().moving_inline.last() {
            let barrier = self.barrier(object);
            self.core_mut().move_some_inline(object, barrier);
        }
        self.tick(roots);
        self.slice(roots);
        if let Some(kind) = self.core_mut().lacking.take() {
            let leaves = self.core().leaves.group_leaves();
            // Where there are none, the next store that needs one says so.
            let _ = self.reserve_leaves(leaves.into(), kind, roots);
        }
        if self.core().leaves.allocated_bytes() > self.core().leaf_budget {
            self.collect_leaves(roots);
        }
    }

    /// Collects for a while, where a slice of a cycle is due.
    fn slice(&mut self, _roots: &mut dyn Roots) {}

    /// Goes on with a cycle as far as `budget` allows, or begins one that is worth it; says whether nothing is left to
    /// do.
    fn collect_some(&mut self, _budget: &mut Budget, _roots: &mut dyn Roots) -> Done {
        Done::Yes
    }

    /// What the cycle under way is to do next.
    #[cfg(test)]
    fn phase(&self) -> &'static str {
        "waiting"
    }

    /// Counts an allocation or a poll under `stress`.
    fn tick(&mut self, roots: &mut dyn Roots) {
        if self.core_mut().is_stressed() {
            self.collect_stressed(roots);
        }
    }

    /// As [`Heap::verify`](crate::Heap::verify).
    fn verify(&self, roots: Option<&mut dyn Roots>) -> Result<(), VerifyError> {
        self.check(roots).map_err(VerifyError)
    }

    /// Verifies the heap if it is to be verified, and a check is due.
    ///
    /// # Panics
    /// If an invariant is broken.
    fn verify_if_due(&self, when: When, roots: Option<&mut dyn Roots>) {
        let core = self.core();
        if core.config.verify
            && core.checks.is_due(when, self.stats().allocated_bytes, self.size(), core.config.verify_after)
            && let Err(error) = self.check(roots)
        {
            panic!("verification {when} a collection after {} others: {error}", core.stats.collections);
        }
    }
}
