//! Axis `references`: from a reference to its object, and back. A value is a file here, with the
//! [`ReferencePlan`] that compiled code goes by, and a row in [`References`].

pub(crate) mod brooks;
pub(crate) mod direct;
pub(crate) mod fat_handles;
pub mod handle_policies;
pub(crate) mod replicating;
pub(crate) mod thin_handles;
pub(crate) mod uni_handles;

use crate::blocks::{BLOCK_BYTES, BlockKind, BlockPool, block_of};
use crate::budget::{Budget, Done};
use crate::cage::Cage;
use crate::context::Context;
use crate::layout::{ARRAY_LENGTH_OFFSET, COLLECTOR_WORD_OFFSET, TYPE_ID_OFFSET};
use crate::plan::{CollectorWord, ForwardingWord, HeaderWord, ObjectAt, ReferencePlan, SameObject};
use crate::reference::Reference;
use crate::spaces::handles::{FREE, HandleSpace, Layout};
use crate::types::TypeId;
use handle_policies::{HandleParams, HandleRelease};
use std::marker::PhantomData;

crate::values::values! {
    /// The values of the axis.
    #[derive(Eq, Hash)]
    pub enum References {
        /// A reference is the object's offset.
        Direct = "direct",
        /// A reference is the object's offset, or that of an old copy, which holds the new one's.
        Brooks = "brooks",
        /// A reference is the object's offset, or that of an old copy, which is kept equal.
        Replicating = "replicating",
        /// A reference is the offset of a word that holds the object's offset.
        ThinHandles = "thin-handles",
        /// A reference is the offset of a copy of the header, with the object's offset.
        FatHandles = "fat-handles",
        /// A reference is the offset of the type with the object's offset.
        UniHandles = "uni-handles",
    }
}

impl References {
    /// How compiled code finds objects by such references.
    pub const fn plan(self) -> ReferencePlan {
        match self {
            References::Direct => direct::Direct::PLAN,
            References::Brooks => brooks::Brooks::PLAN,
            References::Replicating => replicating::Replicating::PLAN,
            References::ThinHandles => thin_handles::ThinHandles::PLAN,
            References::FatHandles => fat_handles::FatHandles::PLAN,
            References::UniHandles => uni_handles::UniHandles::PLAN,
        }
    }

    /// Whether an object's collector word holds nothing of the model's, so that a layout may use it.
    pub(crate) fn leaves_collector_word_free(self) -> bool {
        self.plan().collector_word == CollectorWord::Zero
    }
}

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

    /// Has handles be released, kept and taken by these policies. Before anything else.
    fn set_policies(&mut self, _policies: HandleParams) {}

    /// Where identities of dead objects are taken back independently of their cells: takes them back, before any cell
    /// is swept, in steps. `block`, 0 at first, is where to go on.
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
fn check_forwarding<M: ReferenceModel>(pool: &BlockPool, reference: Reference) -> Result<u32, String> {
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

/// Handles looked at that count as much as one object.
const HANDLES_PER_UNIT: u32 = 32;

/// What the plans of models with handles have in common, but for the handles: no reference ever changes, and a new
/// object holds its own.
pub(crate) const PLAN_OF_HANDLES: ReferencePlan = ReferencePlan {
    object: ObjectAt::Through { offset: 0 },
    type_id: HeaderWord::InObject { offset: TYPE_ID_OFFSET },
    array_length: HeaderWord::InObject { offset: ARRAY_LENGTH_OFFSET },
    same: SameObject::Bits,
    handles: None,
    collector_word: CollectorWord::Reference,
};

/// What a model with handles puts there.
pub(crate) trait HandleLayout: Default + Send {
    /// Has handles, and finds an object through one.
    const PLAN: ReferencePlan;
}

/// The handles of a heap.
#[derive(Debug)]
pub(crate) struct Handles<L> {
    /// Of structs, and of arrays where these have their own.
    spaces: [HandleSpace; 2],
    released: u64,
    /// Whether handles are released independently of cells.
    independent: bool,
    layout: PhantomData<L>,
}

impl<L> Default for Handles<L> {
    fn default() -> Handles<L> {
        Handles::new(HandleParams::DEFAULT)
    }
}

impl<L> Handles<L> {
    fn new(policies: HandleParams) -> Handles<L> {
        let spaces = [false, true].map(|of_arrays| HandleSpace::new(of_arrays, policies));
        let independent = policies.release == HandleRelease::Independent;
        Handles { spaces, released: 0, independent, layout: PhantomData }
    }
}

impl<L: HandleLayout> Handles<L> {
    const LAYOUT: Layout = Layout::of(&L::PLAN);
}

impl<L: HandleLayout> ReferenceModel for Handles<L> {
    const PLAN: ReferencePlan = L::PLAN;

    #[inline(always)]
    unsafe fn retarget(cage: &Cage, _from: u32, to: u32) -> Reference {
        // SAFETY: the collector word has been copied: the handle's offset, by the contract.
        unsafe {
            let handle = Self::reference(cage, to);
            cage.write(handle.0 + Self::LAYOUT.object, to);
            handle
        }
    }

    #[inline(always)]
    fn prepare(&mut self, pool: &mut BlockPool, context: &mut Context, is_array: bool) -> bool {
        let of_arrays = Self::LAYOUT.of_arrays(is_array);
        let run = context.handle_run(of_arrays);
        run.cursor < run.limit || self.spaces[of_arrays as usize].refill(pool, &Self::LAYOUT, run)
    }

    #[inline(always)]
    unsafe fn bind(&mut self, cage: &Cage, context: &mut Context, object: u32, is_array: bool) {
        let of_arrays = Self::LAYOUT.of_arrays(is_array);
        let run = context.handle_run(of_arrays);
        let handle = run.cursor;
        debug_assert!(handle < run.limit);
        run.cursor += Self::LAYOUT.bytes(of_arrays);
        // SAFETY: the run holds free handles, and the cell is the caller's.
        unsafe {
            cage.write(handle + Self::LAYOUT.object, object);
            cage.write(object + COLLECTOR_WORD_OFFSET, handle);
            if let HeaderWord::AtReference { offset } = L::PLAN.type_id {
                cage.write(handle + offset, cage.read(object + TYPE_ID_OFFSET));
            }
        }
    }

    #[inline(always)]
    fn releases(&self) -> bool {
        !self.independent
    }

    #[inline]
    unsafe fn release(&mut self, pool: &mut BlockPool, object: u32) {
        if !self.releases() {
            return;
        }
        // SAFETY: an object with a header has been bound: its collector word is its handle.
        let handle = unsafe { pool.cage.read(object + COLLECTOR_WORD_OFFSET) };
        let block = block_of(handle);
        assert!(pool.info(block).kind == BlockKind::Handles, "object {object:#x} has no handle, but {handle:#x}");
        let named = handle + Self::LAYOUT.object;
        // SAFETY: the handle lies in a block of handles.
        unsafe {
            debug_assert_eq!(pool.cage.read(named), object, "the handle {handle:#x} names another object");
            pool.cage.write(named, FREE);
        }
        self.released += 1;
        let space = pool.info(block).class as usize;
        self.spaces[space].freed(pool, block, handle);
    }

    fn set_policies(&mut self, policies: HandleParams) {
        *self = Handles::new(policies);
    }

    fn release_dead(&mut self, pool: &mut BlockPool, block: &mut u32, budget: &mut Budget) -> Done {
        while self.independent && *block < pool.frontier() {
            if budget.is_exhausted() {
                return Done::No;
            }
            if pool.info(*block).kind == BlockKind::Handles {
                let of_arrays = pool.info(*block).class == 1;
                let space = &mut self.spaces[of_arrays as usize];
                self.released += space.release_dead(pool, &Self::LAYOUT, *block);
                budget.spend(u64::from(BLOCK_BYTES / Self::LAYOUT.bytes(of_arrays) / HANDLES_PER_UNIT));
            }
            budget.spend(1);
            *block += 1;
        }
        Done::Yes
    }

    fn sweep(&mut self, pool: &mut BlockPool, left: &mut Option<[usize; 2]>, budget: &mut Budget) -> Done {
        let left = left.get_or_insert([0, 1].map(|space| self.spaces[space].queue.len()));
        for (space, left) in self.spaces.iter_mut().zip(left) {
            if space.sweep(pool, &Self::LAYOUT, left, budget) == Done::No {
                return Done::No;
            }
        }
        Done::Yes
    }

    fn take_released(&mut self) -> u64 {
        std::mem::take(&mut self.released)
    }

    fn take_given_back_bytes(&mut self) -> u64 {
        let blocks = self.spaces.iter_mut().map(|space| std::mem::take(&mut space.given_back));
        blocks.map(|blocks| u64::from(blocks) * u64::from(BLOCK_BYTES)).sum()
    }

    fn occupied_bytes(&self) -> u64 {
        self.spaces.iter().map(|space| u64::from(space.blocks) * u64::from(BLOCK_BYTES)).sum()
    }

    fn check_reference(pool: &BlockPool, reference: Reference) -> Result<u32, String> {
        let block = block_of(reference.0);
        let is_handle = block < pool.frontier() && {
            let info = pool.info(block);
            info.kind == BlockKind::Handles && reference.0.is_multiple_of(Self::LAYOUT.bytes(info.class == 1))
        };
        if !is_handle {
            return Err("it is not the offset of a handle".to_string());
        }
        // SAFETY: the word lies in a block of handles.
        match unsafe { pool.cage.read(reference.0 + Self::LAYOUT.object) } {
            FREE => Err("its handle is free".to_string()),
            object => Ok(object),
        }
    }

    fn check(&self, pool: &BlockPool, context: &Context, is_object: &dyn Fn(u32) -> bool) -> Result<(), String> {
        let mut blocks = [0; 2];
        for block in 0..pool.frontier() {
            if pool.info(block).kind == BlockKind::Handles {
                let of_arrays = pool.info(block).class == 1;
                blocks[of_arrays as usize] += 1;
                let run = context.handle_run_now(of_arrays);
                self.spaces[of_arrays as usize].check(&L::PLAN, pool, block, run, is_object)?;
            }
        }
        let counted = [0, 1].map(|space| self.spaces[space].blocks);
        if blocks != counted {
            return Err(format!("there are {blocks:?} handle blocks, but {counted:?} are counted"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::brooks::Brooks;
    use super::direct::Direct;
    use super::fat_handles::FatHandles;
    use super::replicating::Replicating;
    use super::thin_handles::ThinHandles;
    use super::uni_handles::UniHandles;
    use super::*;
    use crate::collector::Collect;
    use crate::collector::mark_sweep::MarkSweep;
    use crate::plan::ObjectAt;
    use crate::{HeapConfig, NoRoots, TypeInfo, TypeShape, TypeTable};

    fn check_moving<M: ReferenceModel>() {
        let types = TypeTable::new().unwrap();
        let id = types.register(TypeInfo { shape: TypeShape::Struct(vec![]), supertype: None }).unwrap();
        let mut heap = MarkSweep::<M>::new(&HeapConfig::default(), types).unwrap();
        let [before, other] = [(); 2].map(|()| heap.allocate_struct(id, &mut NoRoots).unwrap());
        let to = heap.allocate_immortal(16).unwrap();
        let cage = &heap.core.pool.cage;
        // SAFETY: both are objects, and `to` has room for one.
        unsafe {
            assert!(M::same(cage, before, before) && !M::same(cage, before, other));
            let from = M::object(cage, before);
            (0..16).step_by(4).for_each(|word| cage.write(to + word, cage.read(from + word)));
            let now = M::retarget(cage, from, to);
            assert_eq!((M::object(cage, now), M::reference(cage, to), M::type_id(cage, now)), (to, now, id));
            assert!(!M::same(cage, now, other));
            if M::PLAN.object != ObjectAt::Itself {
                assert_eq!(M::object(cage, before), to);
            }
            if M::PLAN.lets_objects_move() {
                assert_eq!(M::current(cage, before), now);
                assert!(M::same(cage, before, now) && M::same(cage, now, before));
            }
        }
    }

    #[test]
    fn an_object_that_has_moved_is_found_where_it_is() {
        check_moving::<Direct>();
        check_moving::<Brooks>();
        check_moving::<Replicating>();
        check_moving::<ThinHandles>();
        check_moving::<FatHandles>();
        check_moving::<UniHandles>();
    }
}
