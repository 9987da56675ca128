//! What the heap asks of a reference model, and what follows from its plan.

use super::handle_policies::HandleParams;
use crate::blocks::{BlockKind, BlockPool, block_of};
use crate::budget::{Budget, Done};
use crate::cage::Cage;
use crate::context::Context;
use crate::layout::COLLECTOR_WORD_OFFSET;
use crate::plan::{CollectorWord, ForwardingWord, ReferencePlan, SameObject};
use crate::reference::Reference;
use crate::types::TypeId;

/// What the heap asks of a reference model. Every hot path is generic over it. Objects are named by their offset.
pub(crate) trait ReferenceModel: Default + Send {
    /// Where things lie. What has a body here goes by it, and so does compiled code.
    const PLAN: ReferencePlan;

    /// Whether an object owns a handle that must be released when it dies.
    const HANDLES: bool = Self::PLAN.handles.is_some();

    /// Whether references may lead to old copies, until they are healed.
    const FORWARDS: bool = matches!(Self::PLAN.same, SameObject::Canonical { .. });

    /// Whether old copies are read, and so are kept equal to the new ones, until there are none.
    const REPLICATES: bool = matches!(Self::PLAN.same, SameObject::Canonical { word: ForwardingWord::OtherCopy, .. });

    /// The reference that an object has now, of which old ones may be left.
    ///
    /// # Safety
    /// `reference` is null, an immediate, or names an object of the heap.
    #[inline(always)]
    unsafe fn current(cage: &Cage, reference: Reference) -> Reference {
        match Self::PLAN.same {
            // SAFETY: the word lies in the header of an object, or of an old copy.
            SameObject::Canonical { offset, word } if reference.is_object() => unsafe {
                word.current(reference, cage.read(reference.0 + offset))
            },
            _ => reference,
        }
    }

    /// The object that a reference names.
    ///
    /// # Safety
    /// `reference` names an object of the heap.
    #[inline(always)]
    unsafe fn object(cage: &Cage, reference: Reference) -> u32 {
        // SAFETY: the plan's words of a reference to an object are aligned and accessible.
        Self::PLAN.object(reference, |offset| unsafe { cage.read(offset) })
    }

    /// The type id in the header, read through the reference.
    ///
    /// # Safety
    /// As for [`object`](Self::object).
    #[inline(always)]
    unsafe fn type_id(cage: &Cage, reference: Reference) -> TypeId {
        // SAFETY: the plan's words of a reference to an object are aligned and accessible, and so is its header.
        unsafe { TypeId(cage.read(Self::PLAN.type_id(reference, |offset| cage.read(offset)))) }
    }

    /// Whether two references are the same: both null, one immediate, or to one object.
    ///
    /// # Safety
    /// Those that are neither null nor immediates name objects of the heap.
    #[inline(always)]
    unsafe fn same(cage: &Cage, left: Reference, right: Reference) -> bool {
        // SAFETY: the plan's words of a reference to an object are aligned and accessible.
        Self::PLAN.same(left, right, |offset| unsafe { cage.read(offset) })
    }

    /// The reference that names an object.
    ///
    /// # Safety
    /// `object` is an allocated object of the heap.
    #[inline(always)]
    unsafe fn reference(cage: &Cage, object: u32) -> Reference {
        match Self::PLAN.collector_word {
            CollectorWord::Zero => Reference(object),
            // SAFETY: every object has a header.
            CollectorWord::Reference => Reference(unsafe { cage.read(object + COLLECTOR_WORD_OFFSET) }),
        }
    }

    /// Has an object that was copied from `from` to `to`, collector word and all, be found at `to`. Returns the
    /// reference that leads there from now on: slots that hold another one are rewritten by the collector.
    ///
    /// # Safety
    /// Both are cells that hold the object, and its references are valid but for the move.
    unsafe fn retarget(cage: &Cage, from: u32, to: u32) -> Reference;

    /// Checks `reference` without trusting it; returns the offset that it leads to.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    fn check_reference(pool: &BlockPool, reference: Reference) -> Result<u32, String>;

    // What follows is different for models that have handles alone.

    /// Sees to it that [`bind`](Self::bind) can be called once, for an array or for another object. False where the
    /// pool has no memory for it.
    #[inline(always)]
    fn prepare(&mut self, _pool: &mut BlockPool, _context: &mut Context, _is_array: bool) -> bool {
        true
    }

    /// Gives a new object its identity, and writes its collector word.
    ///
    /// # Safety
    /// [`prepare`](Self::prepare) has returned true for such an object, and `object` is a free cell with its type id.
    #[inline(always)]
    unsafe fn bind(&mut self, cage: &Cage, _context: &mut Context, object: u32, _is_array: bool) {
        let word = match Self::PLAN.collector_word {
            CollectorWord::Zero => 0,
            CollectorWord::Reference => object,
        };
        // SAFETY: the cell is the caller's.
        unsafe { cage.write(object + COLLECTOR_WORD_OFFSET, word) };
    }

    /// Before anything else: has handles be released, kept and taken by these policies; with `clears_dead`, those of
    /// dead objects lead nowhere, however they become free.
    fn start(&mut self, _policies: HandleParams, _clears_dead: bool, _context: &mut Context) {}

    /// Whether marking sets the bits of handles, as of objects.
    #[inline(always)]
    fn marks_handles(&self) -> bool {
        false
    }

    /// As a cycle begins to mark: what the mutator has been given and not used counts as born from now on.
    fn mark_born(&self, _pool: &mut BlockPool, _context: &Context) {}

    /// As marking ends, before anything is swept: what the mutator has been given and not used is free, and what is
    /// free beside it is to be found anew.
    fn retire(&mut self, _pool: &mut BlockPool, _context: &mut Context) {}

    /// Where identities of dead objects are taken back independently of their cells: takes them back, or finds out
    /// where there are any, before any cell is swept, in steps. `block`, 0 at first, is where to go on.
    fn release_dead(&mut self, _pool: &mut BlockPool, _block: &mut u32, _budget: &mut Budget) -> Done {
        Done::Yes
    }

    /// Whether identities of dead objects are taken back as their cells are swept, by [`release`](Self::release).
    #[inline(always)]
    fn releases(&self) -> bool {
        false
    }

    /// Takes the identity of a dead object back.
    ///
    /// # Safety
    /// `object` has a header and is neither live nor released yet.
    #[inline(always)]
    unsafe fn release(&mut self, _pool: &mut BlockPool, _object: u32) {}

    /// Once the blocks have been swept: gives back the memory of what has no use any more, in steps. `left`, `None` at
    /// first, is how much is to be looked at.
    fn sweep(&mut self, _pool: &mut BlockPool, _left: &mut Option<[usize; 2]>, _budget: &mut Budget) -> Done {
        Done::Yes
    }

    /// Handles released since the last call.
    fn take_released(&mut self) -> u64 {
        0
    }

    /// Bytes of blocks that the model has given back to the pool since the last call.
    fn take_given_back_bytes(&mut self) -> u64 {
        0
    }

    /// Bytes of blocks that the model occupies.
    fn occupied_bytes(&self) -> u64 {
        0
    }

    /// Checks the model's own structures. `is_object` tells whether an offset is the start of an allocated or dead but
    /// unswept object.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    fn check(&self, _pool: &BlockPool, _context: &Context, _is_object: &dyn Fn(u32) -> bool) -> Result<(), String> {
        Ok(())
    }
}

/// As [`ReferenceModel::check_reference`], of a model whose references are offsets of objects and old copies.
pub(super) fn check_forwarding<M: ReferenceModel>(pool: &BlockPool, reference: Reference) -> Result<u32, String> {
    let block = block_of(reference.0);
    let is_taken = reference.0.is_multiple_of(8)
        && block < pool.frontier()
        && matches!(pool.info(block).kind, BlockKind::Small | BlockKind::LargeHead | BlockKind::MappedHead);
    if !is_taken {
        return Err("it is not the offset of an object".to_string());
    }
    // SAFETY: the block holds objects, whose memory is accessible.
    Ok(unsafe { M::current(&pool.cage, reference) }.0)
}
