//! What every collector's heap consists of: configuration, types, blocks, the mature space of small objects, host
//! values, totals.

mod exhaustion;
mod statistics;

use crate::ages::Ages;
use crate::arrays::elements::Elements;
use crate::arrays::{MappedParams, SpineMode, TakenLeaves};
use crate::barrier::Overwritten;
use crate::blocks::{BlockKind, BlockPool, block_of};
use crate::budget::finish;
use crate::collector::helper::thread::MarkingHelper;
use crate::collector::marking::{Alone, MarkStack, Marker};
use crate::collector::schedule::Helpers;
use crate::config::HeapConfig;
use crate::context::Context;
use crate::error::{AllocationError, HeapError};
use crate::external::{Externals, HostValue};
use crate::layout::{self, ARRAY_LENGTH_OFFSET, HEADER_BYTES, TYPE_ID_OFFSET};
use crate::observer::{CountedArrays, GcObserver, GcSlice, HeapStats, Phase, PhaseTimes};
use crate::os::limits::{AddressSpace, MachineLimit};
use crate::pacing::Pacer;
use crate::plan::HeaderWord;
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::references::replicating::Replicas;
use crate::reporting::CycleStops;
use crate::roots::{RootCursor, Roots};
use crate::spaces::Contents;
use crate::spaces::immortal::ImmortalSpace;
use crate::spaces::large;
use crate::spaces::leaves::{LeafKind, LeafSpace};
use crate::spaces::mapped::{Mapped, MappedSpace};
use crate::spaces::run_queues::RunQueues;
use crate::spaces::small::SmallSpace;
use crate::type_table::TypeTable;
use crate::types::{TypeId, TypeKind};
use crate::verify::due::Checks;
use crate::views::DoubleMaps;
use crate::weak::WeakTable;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

/// Binary logarithm of the smallest leaf's bytes.
const LEAST_LEAF_LOG2: u8 = 8;
/// The part of the heap that is set aside for leaves that stores need: a store cannot collect, and polls ask for a
/// collection before the reserve is used up.
const LEAF_RESERVE: u32 = 64;
/// Overwritten references that may wait to be marked before a poll is asked for.
const MOST_OVERWRITTEN: usize = 1 << 13;
/// So many times as many may wait before they are marked whatever the schedule says: half a megabyte.
const SWAMPED: usize = 16;
/// The most that is set aside, in blocks.
const MOST_LEAF_RESERVE: u32 = 32;

/// The parts that all collectors share, with reference model `M`.
pub(crate) struct Core<M> {
    /// Dropped first: its thread may be reading the memory of the others.
    pub(crate) helper: MarkingHelper,
    pub(crate) config: HeapConfig,
    pub(crate) types: Arc<TypeTable>,
    pub(crate) pool: BlockPool,
    pub(crate) context: Context,
    pub(crate) model: M,
    pub(crate) small: SmallSpace,
    /// Runs that compiled code takes by itself, where it does.
    pub(crate) queues: RunQueues,
    /// What becomes of arrays that do not lie in one piece; `None` where all do.
    pub(crate) spines: Option<SpineMode>,
    pub(crate) leaves: LeafSpace,
    /// How much may be allocated in leaves before a collection is asked for, in bytes.
    pub(crate) leaf_budget: u64,
    pub(crate) taken: TakenLeaves,
    /// A kind of leaf that a store has found none of, or of which there are soon none: a poll collects.
    pub(crate) lacking: Option<LeafKind>,
    /// Spines whose leaves are being moved inline.
    pub(crate) moving_inline: Vec<u32>,
    pub(crate) counted: CountedArrays,
    pub(crate) mapped: MappedSpace,
    /// The second mappings of leaves.
    pub(crate) views: DoubleMaps,
    pub(crate) externals: Externals,
    pub(crate) weak: WeakTable,
    /// What a snapshot barrier has recorded.
    pub(crate) overwritten: Overwritten,
    pub(crate) immortal: ImmortalSpace,
    pub(crate) pacer: Pacer,
    pub(crate) observer: Option<Box<dyn GcObserver>>,
    /// What the maximum follows, where nobody has set it.
    pub(crate) machine_limit: Option<MachineLimit>,
    pub(crate) stats: HeapStats,
    /// When the heap was verified.
    pub(crate) checks: Checks,
    /// Slices of the stop under way, where there is an observer to be told of them.
    pub(crate) slices: Vec<GcSlice>,
    /// The stops of the cycle under way.
    pub(crate) cycle_stops: CycleStops,
    /// When the heap was made.
    pub(crate) made: Instant,
    pub(crate) marking: MarkStack,
    /// Whether objects have been moved, and references to old copies of them may be left.
    pub(crate) has_stale: bool,
    /// Where there are two copies of objects.
    pub(crate) replicas: Replicas,
    /// Whether a sweep has begun and not ended.
    pub(crate) is_sweeping: bool,
    /// Allocations and polls left until the next collection under `stress`.
    stress_left: u32,
    /// A random number, for `stress-polls`.
    polls: u32,
}

/// Bytes of the object of an array under a layout.
#[inline(always)]
pub(crate) fn object_bytes(spines: Option<SpineMode>, element_bytes: u32, length: u32) -> u64 {
    match spines {
        Some(mode) => mode.layout.object_bytes(element_bytes, length),
        None => layout::array_object_bytes(element_bytes, length),
    }
}

impl<M: ReferenceModel> Core<M> {
    /// The parts of an empty heap. The configuration is valid.
    pub(crate) fn new(config: &HeapConfig, types: Arc<TypeTable>) -> Result<Core<M>, HeapError> {
        let spines = config.spines();
        let mut pool = BlockPool::new(config.maximum(), config.extent(AddressSpace::of_process()))?;
        if config.allows_huge_pages() {
            pool.allow_huge_pages();
        }
        let leaves = LeafSpace::new(spines.map_or(LEAST_LEAF_LOG2, |mode| mode.layout.leaf_log2));
        if spines.is_some() {
            let reserve = leaves.group_blocks().max(pool.available() / LEAF_RESERVE).min(MOST_LEAF_RESERVE);
            pool.prepare_leaves(leaves.leaf_bytes(), reserve.max(leaves.group_blocks()))?;
        }
        let maps_twice = spines.is_some() && config.native_views.double_map().is_some();
        if maps_twice {
            pool.cage.allow_sharing()?;
        }
        let mapped = match (spines.map(|mode| mode.layout).filter(|layout| layout.grows), config.arrays.mapped()) {
            (Some(layout), _) => Mapped::Spines(layout),
            (None, Some(MappedParams { from, sharing })) => Mapped::Arrays { from, sharing },
            (None, None) => Mapped::Nothing,
        };
        let (mut model, mut context) = (M::default(), Context::new());
        model.start(config.handles, config.verify, &mut context);
        let core = Core {
            helper: MarkingHelper::new(Helpers::None, false),
            config: config.clone(),
            types,
            pool,
            context,
            model,
            small: SmallSpace::new(config.stress.is_some()),
            queues: RunQueues::default(),
            spines,
            leaves,
            leaf_budget: config.min_bytes.min(config.maximum()),
            taken: TakenLeaves::default(),
            lacking: None,
            moving_inline: Vec::new(),
            counted: CountedArrays::default(),
            mapped: MappedSpace::new(mapped),
            views: DoubleMaps::new(maps_twice),
            externals: Externals::default(),
            weak: WeakTable::default(),
            overwritten: Overwritten::default(),
            immortal: ImmortalSpace::default(),
            pacer: Pacer::new(config),
            observer: None,
            machine_limit: None,
            stats: HeapStats::default(),
            checks: Checks::default(),
            slices: Vec::new(),
            cycle_stops: CycleStops::default(),
            made: Instant::now(),
            marking: MarkStack::new(),
            has_stale: false,
            replicas: Replicas::new(M::REPLICATES),
            is_sweeping: false,
            stress_left: config.stress.unwrap_or(0),
            polls: 1,
        };
        if config.stress_polls {
            core.context.stress_polls(true);
        }
        Ok(core)
    }

    /// Bytes of a struct or exception. Panics for other types.
    pub(crate) fn struct_bytes(&self, id: TypeId) -> u32 {
        let record = self.types.record(id);
        let has_fields = [TypeKind::Struct, TypeKind::Exception].map(|kind| kind as u32).contains(&record.kind);
        assert!(has_fields, "{id:?} is neither a struct nor an exception");
        record.bytes
    }

    /// Bytes of an array of `length` elements. Panics for other types.
    ///
    /// # Errors
    /// [`AllocationError::TooLong`] where it has too many elements, [`AllocationError::TooLarge`] where they do not fit
    /// 32 bits.
    pub(crate) fn array_bytes(&self, id: TypeId, length: u32) -> Result<u32, AllocationError> {
        let record = self.types.record(id);
        assert!(record.kind == TypeKind::Array as u32, "{id:?} is no array");
        if length > layout::MOST_ELEMENTS {
            return Err(AllocationError::TooLong { length });
        }
        let (bytes, maximum) = (self.array_object_bytes(record.bytes, length), self.config.maximum());
        u32::try_from(bytes).map_err(|_| AllocationError::TooLarge { bytes, maximum })
    }

    /// Bytes of the object of an array: of its spine, where it is divided.
    #[inline(always)]
    pub(crate) fn array_object_bytes(&self, element_bytes: u32, length: u32) -> u64 {
        object_bytes(self.spines, element_bytes, length)
    }

    /// How many leaves a new array takes at once.
    ///
    /// # Errors
    /// [`AllocationError::TooLarge`] where an empty heap would not hold them.
    pub(crate) fn eager_leaves(&self, id: TypeId, length: u32) -> Result<(u64, LeafKind), AllocationError> {
        let record = self.types.record(id);
        let kind = if record.reference_map != 0 { LeafKind::References } else { LeafKind::Numbers };
        let divides = |mode: &SpineMode| mode.layout.divides(record.bytes, length);
        match self.spines.filter(divides) {
            Some(mode) if !mode.lazy && !mode.layout.grows => {
                let leaves = u64::from(mode.layout.spine(record.bytes, length).leaves);
                let (bytes, maximum) = (leaves << mode.layout.leaf_log2, self.pool.most_bytes());
                if bytes > maximum { Err(AllocationError::TooLarge { bytes, maximum }) } else { Ok((leaves, kind)) }
            }
            _ => Ok((0, kind)),
        }
    }

    /// Bytes that a new object counts for if it is large: its blocks, or what of them is touched at once; 0 if it is
    /// small.
    pub(crate) fn large_size(&self, bytes: u32, contents: Contents) -> u64 {
        match contents {
            Contents::Reserved => self.mapped.memory_of_reserved(bytes).into(),
            Contents::Zeroed | Contents::Unwritten => large::size_of(bytes),
        }
    }

    /// Refuses objects that an empty heap could not hold.
    pub(crate) fn check_size(&self, bytes: u32, contents: Contents) -> Result<(), AllocationError> {
        let bytes = if contents == Contents::Reserved { self.large_size(bytes, contents) } else { bytes.into() };
        let maximum = self.pool.most_bytes();
        if bytes > maximum { Err(AllocationError::TooLarge { bytes, maximum }) } else { Ok(()) }
    }

    /// How many leaves are needed before elements can be written, if they cannot be had without a collection.
    pub(crate) fn lacking_leaves(&self, elements: &Elements, start: u32, length: u32) -> Option<(u64, LeafKind)> {
        elements.parts.spine()?;
        let (from, to) = elements.positions(start, length)?;
        let most = ((to - from) >> self.spines?.layout.leaf_log2) + 2;
        if !self.is_lacking(most, elements.kind) {
            return None;
        }
        let needed = self.leaves_needed(&elements.parts, from, to);
        self.is_lacking(needed, elements.kind).then_some((needed, elements.kind))
    }

    /// Whether so many leaves cannot be had without a collection.
    pub(crate) fn is_lacking(&self, needed: u64, kind: LeafKind) -> bool {
        let is_over = self.leaves.allocated_bytes() > self.leaf_budget;
        needed > 0 && (is_over || needed > self.leaves.available(kind, &self.pool))
    }

    /// Counts a new array, in a counted build.
    pub(crate) fn count_array(&mut self, id: TypeId, length: u32) {
        if !self.config.count_accesses {
            return;
        }
        let record = self.types.record(id);
        let bytes = u64::from(record.bytes) * u64::from(length);
        self.counted.allocated_bytes += bytes;
        if record.reference_map == 0 {
            self.counted.allocated_number_bytes += bytes;
        }
        if bytes > u64::from(self.config.arrays.counted_first_n()) {
            self.counted.allocated_large_bytes += bytes;
        }
    }

    /// Counts a copy to the byte positions `[from, to)` of an array, in a counted build.
    #[inline]
    pub(crate) fn count_copy(&mut self, from: u64, to: u64) {
        if self.config.count_accesses {
            self.counted.copied_bytes += to - from;
            self.counted.copied_beyond_bytes +=
                to.saturating_sub(from.max(self.config.arrays.counted_first_n().into()));
        }
    }

    /// What the memory of an array is to hold that is allocated with `contents`: spines are finished here.
    pub(crate) fn contents_of_array(&self, id: TypeId, length: u32, contents: Contents) -> Contents {
        match self.spines.map(|mode| mode.layout) {
            Some(layout) if layout.divides(self.types.record(id).bytes, length) => match contents {
                _ if !layout.grows => Contents::Zeroed,
                Contents::Zeroed if self.spines.is_some_and(|mode| mode.lazy) => Contents::Reserved,
                _ => Contents::Unwritten,
            },
            _ => contents,
        }
    }

    /// Makes the object at `array`, which has just been allocated, an array of `length` elements; false where it was to
    /// have leaves and there are none.
    pub(crate) fn finish_array(
        &mut self,
        array: u32,
        id: TypeId,
        length: u32,
        kind: LeafKind,
        contents: Contents,
    ) -> bool {
        self.set_array_length(array, length);
        self.start_inline_length(array, self.types.record(id).bytes, length, contents);
        let finished = self.initialise_array(array, kind);
        if finished {
            self.count_array(id, length);
            self.view_new_array(array);
        }
        finished
    }

    /// Prepares the pointers of a new array that has its length; false where it was to have leaves and there are none.
    fn initialise_array(&mut self, array: u32, kind: LeafKind) -> bool {
        if self.spines.is_none() {
            return true;
        }
        // SAFETY: the array has just been allocated.
        let parts = unsafe { self.trusted_elements(array) }.parts;
        self.initialise_spine(&parts, kind, Contents::Zeroed)
    }

    /// The error for a leaf that is not to be had.
    pub(crate) fn out_of_leaves(&self, live: u64) -> AllocationError {
        self.out_of_memory(self.leaves.leaf_bytes(), live)
    }

    /// The reference to a new object.
    #[inline(always)]
    pub(crate) fn new_reference(&self, object: u32) -> Reference {
        // SAFETY: the object has just been allocated.
        unsafe { M::reference(&self.pool.cage, object) }
    }

    /// Writes the length of a new array.
    pub(crate) fn set_array_length(&self, object: u32, length: u32) {
        // SAFETY: the array has just been allocated, with room for the length, and with its identity.
        unsafe {
            self.pool.cage.write(object + ARRAY_LENGTH_OFFSET, length);
            if let (Some(_), HeaderWord::AtReference { offset }) = (M::PLAN.handles, M::PLAN.array_length) {
                self.pool.cage.write(self.new_reference(object).0 + offset, length);
            }
        }
    }

    /// Makes a free cell an object of type `id`, by writing its header.
    ///
    /// # Safety
    /// The cell is free and large enough, and the model was prepared.
    pub(crate) unsafe fn start_object(&mut self, object: u32, id: TypeId) {
        // SAFETY: by the contract.
        unsafe {
            self.pool.cage.write(object + TYPE_ID_OFFSET, id.0);
            let is_array = self.types.record(id).kind == TypeKind::Array as u32;
            self.model.bind(&self.pool.cage, &mut self.context, object, is_array);
        }
    }

    /// Puts a host value behind the new object at `object`; returns its slot.
    pub(crate) fn bind_external(&mut self, object: u32, value: HostValue, outside: u64) -> u32 {
        let slot = self.externals.insert(value, outside, self.new_reference(object));
        // SAFETY: the object has just been allocated; its one field follows the header.
        unsafe { self.pool.cage.write(object + HEADER_BYTES, slot) };
        slot
    }

    /// Before roots are overwritten that a collector may visit later than the stack: each of `references`.
    #[inline]
    pub(crate) fn before_root_store(&mut self, references: impl Iterator<Item = Reference>) {
        if self.context.is_marking() {
            references.for_each(|reference| self.overwritten.record(reference));
        }
    }

    /// Empties the buffer of overwritten references. Asks for a poll where many wait, so that they are marked.
    pub(crate) fn flush_overwritten(&mut self) {
        self.overwritten.flush(&mut self.context);
        if self.is_flooded() {
            self.context.raise_poll();
        }
    }

    /// Whether so many overwritten references wait that some are to be marked, as soon as the mutator has its share.
    pub(crate) fn is_flooded(&self) -> bool {
        self.overwritten.len() > MOST_OVERWRITTEN
    }

    /// Whether so many wait that some are to be marked at once: the mutator overwrites more than is marked in the time
    /// that is not its share.
    pub(crate) fn is_swamped(&self) -> bool {
        self.overwritten.len() > MOST_OVERWRITTEN * SWAMPED
    }

    /// Whether a sweep under way is going to free what lies at `object`, where an object has been.
    pub(crate) fn is_condemned(&self, object: u32) -> bool {
        let block = block_of(object);
        let is_awaited = match self.pool.info(block).kind {
            BlockKind::Small => self.small.is_unclassified(&self.pool, block),
            kind => kind.is_head() && !self.pool.is_fresh(block),
        };
        self.is_sweeping && is_awaited && !self.pool.marks.get(object)
    }

    /// At an allocation, under `stress-polls`: raises the poll word or lowers it, at random, so that compiled code
    /// takes both ways of its polls in any order.
    pub(crate) fn toggle_poll(&mut self) {
        if !self.config.stress_polls {
            return;
        }
        // Marsaglia's xorshift.
        self.polls ^= self.polls << 13;
        self.polls ^= self.polls >> 17;
        self.polls ^= self.polls << 5;
        self.context.stress_polls(self.polls & 1 != 0);
    }

    /// Counts an allocation or a poll; whether `stress` asks for a collection now.
    pub(crate) fn is_stressed(&mut self) -> bool {
        let Some(every) = self.config.stress else { return false };
        self.stress_left -= 1;
        if self.stress_left > 0 {
            return false;
        }
        self.stress_left = every;
        true
    }

    /// Whether `stress` asks for a collection at the next allocation or poll.
    pub(crate) fn will_be_stressed(&self) -> bool {
        self.config.stress.is_some() && self.stress_left <= 1
    }

    /// Clears the mark bits, and marks every object that the roots reach.
    pub(crate) fn mark(&mut self, roots: &mut dyn Roots, phases: &mut PhaseTimes) {
        let slice = self.start_slice(Phase::Roots);
        let mut cursor = 0;
        finish(|budget| self.pool.marks.clear(&mut cursor, budget));
        let mut marker = self.marker();
        roots.visit_frames(&mut marker);
        let mut cursor = RootCursor::default();
        finish(|budget| roots.visit_slots(&mut marker, &mut cursor, budget));
        phases.add(Phase::Roots, self.end_slice(slice));
        let slice = self.start_slice(Phase::Mark);
        finish(|budget| self.marker().step(budget));
        finish(|budget| self.marking.trim(budget));
        self.taken.compressed += self.marking.take_tally().compressed;
        phases.add(Phase::Mark, self.end_slice(slice));
    }

    /// What marks, in steps: first what it is shown as roots, then what these reach.
    pub(crate) fn marker(&mut self) -> Marker<'_, M, Alone<'_>> {
        self.marker_of_old(None)
    }

    /// The same, where there may be young objects: these are left out.
    pub(crate) fn marker_of_old<'a>(&'a mut self, ages: Option<&'a Ages>) -> Marker<'a, M, Alone<'a>> {
        debug_assert!(!self.helper.is_given(), "the helper marks");
        Marker {
            heap: Alone { pool: &mut self.pool, views: &self.views },
            types: &self.types,
            stack: &mut self.marking,
            spines: self.spines,
            ages,
            heals: M::FORWARDS && self.has_stale,
            marks_handles: self.model.marks_handles(),
            model: PhantomData,
        }
    }

    /// Takes blocks for an object of `bytes`, which is large; `None` where the pool has no such run.
    pub(crate) fn allocate_large(&mut self, bytes: u32, contents: Contents) -> Option<u32> {
        match self.mapped.takes(bytes) {
            true => self.mapped.allocate(&mut self.pool, bytes, contents),
            false => large::allocate(&mut self.pool, bytes, contents),
        }
    }
}
