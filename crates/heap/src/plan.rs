//! The [`AccessPlan`]: everything a code generator must know of a heap, as plain data.
//!
//! A plan depends on the heap's configuration alone, never on a live heap, so that modules can be compiled ahead of
//! time. Compiled code reaches the heap through two addresses: the base of the cage and the [`MutatorContext`].

mod references;

pub use references::{
    CollectorWord, ForwardingWord, HandlePlan, HandleRun, HeaderWord, ObjectAt, ReferencePlan, SameObject,
};

use crate::layout::{OBJECT_ALIGNMENT, SpineLayout};
use crate::size_classes::MAX_SIZE_CLASSES;
use serde::{Deserialize, Serialize};

/// How compiled code reaches objects, allocates, stores and polls. Published by
/// [`HeapConfig::access_plan`](crate::HeapConfig::access_plan).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct AccessPlan {
    /// From a reference to its object.
    pub references: ReferencePlan,
    /// The layout of arrays.
    pub arrays: ArrayPlan,
    /// Whether accesses to elements are counted.
    pub counting: Option<CountingPlan>,
    /// The inline allocation sequence.
    pub allocation: AllocationPlan,
    /// Whether the memory between cursor and limit of a run is already zero, so that only the header and the non-zero
    /// fields of a new object need to be written.
    pub fresh_memory_is_zero: bool,
    /// What a store of a reference must do besides.
    pub store_barrier: BarrierPlan,
    /// Whether the bits of a reference may change at a safepoint. Where they may not, frames need only be readable by
    /// the collector: references stay in registers across calls.
    pub references_change_at_safepoints: bool,
    /// Whether an object may lie elsewhere behind a safepoint, whatever becomes of references to it: its address must
    /// be looked up anew then.
    pub objects_move_at_safepoints: bool,
    /// An access to an address below this offset of the cage faults: a null check for any field nearer than this costs
    /// no instruction. In bytes.
    pub null_guard_bytes: u32,
    /// How many iterations of a loop that counts may pass between two polls, at most. One under `stress-polls`.
    pub iterations_between_polls: u32,
}

/// The layout of arrays (axis `arrays`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum ArrayPlan {
    /// Header, length, elements.
    Contiguous,
    /// Spines and leaves.
    Spines(SpinePlan),
}

/// How compiled code reaches the elements of arrays that are divided into a spine and leaves.
///
/// A load masks the pointer's [`TAINT`](crate::layout::TAINT) where `copy_on_write` says that there may be one, and
/// reads from the zero leaf like from any other. A store to a leaf that must not be written calls
/// [`Heap::leaf_for_store`](crate::Heap::leaf_for_store) for the one to write to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct SpinePlan {
    /// Where the parts lie.
    pub layout: SpineLayout,
    /// The cage offset of the zero leaf, where pointers may lead to it. Without `copy_on_write` it must be told by this
    /// offset.
    pub zero_leaf: Option<u32>,
    /// Whether pointers may be tainted. Those to the zero leaf are, then.
    pub copy_on_write: bool,
}

impl SpinePlan {
    /// Whether a store may find a leaf that must not be written.
    pub fn checks_stores(&self) -> bool {
        self.copy_on_write || self.zero_leaf.is_some()
    }
}

/// A counted build: compiled code counts its accesses to elements in the [`AccessCounters`] of the [`MutatorContext`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct CountingPlan {
    /// Offset of the [`AccessCounters`] in the [`MutatorContext`].
    pub counters_offset: u32,
    /// An access to an element at a byte position below this one counts as fast (Z-Rays, Table 1).
    pub first_n: u32,
}

/// Accesses of compiled code to array elements, one by one; bulk operations are not among them.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AccessCounters {
    /// Loads within the first N bytes of an array.
    pub fast_reads: u64,
    /// Other loads.
    pub slow_reads: u64,
    /// Stores within the first N bytes of an array.
    pub fast_writes: u64,
    /// Other stores.
    pub slow_writes: u64,
}

/// The inline allocation sequence. All `u32` fields named here lie in the [`MutatorContext`]; if
/// `limit - cursor < bytes` of the [`BumpRun`] in question, the slow path is called instead.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum AllocationPlan {
    /// Objects of one cell size are taken by bumping a cursor through a run of free cells.
    SizeClasses {
        /// Cell size of each class in bytes, ascending. An object takes the first class that holds it; a larger one
        /// always takes the slow path.
        cell_bytes: Vec<u32>,
        /// Offset in the [`MutatorContext`] of the first class's [`BumpRun`]; the others follow, 8 bytes each.
        runs_offset: u32,
        /// Offset in the [`MutatorContext`] of the table of [`SizeRun`]s, for sizes known at run time only.
        sizes_offset: u32,
        /// Where each class has a queue of runs: the offset in the [`MutatorContext`] of the first class's queue, an
        /// address of 8 bytes as [`MutatorContext::queues`] describes it; the others follow. Where the run is used up,
        /// the next one of the queue takes its place, and the address moves on behind it; only where none is left, the
        /// slow path is called.
        queues_offset: Option<u32>,
    },
    /// Objects of every size are taken by bumping one cursor, rounded up to
    /// [`OBJECT_ALIGNMENT`].
    Bump {
        /// Offset in the [`MutatorContext`] of the [`BumpRun`].
        run_offset: u32,
        /// A larger object always takes the slow path, in bytes.
        max_bytes: u32,
    },
}

impl AllocationPlan {
    /// Where an object of `bytes` is allocated inline, and how many bytes it takes; `None` where only the slow path
    /// can allocate it.
    pub fn inline_run(&self, bytes: u32) -> Option<InlineRun> {
        match self {
            AllocationPlan::SizeClasses { cell_bytes, runs_offset, queues_offset, .. } => {
                let class = cell_bytes.partition_point(|&cell| cell < bytes);
                let run_offset = runs_offset + (class * size_of::<BumpRun>()) as u32;
                let queue_offset = queues_offset.map(|queues| queues + (class * size_of::<usize>()) as u32);
                cell_bytes.get(class).map(|&cell| InlineRun { run_offset, queue_offset, cell_bytes: cell })
            }
            &AllocationPlan::Bump { run_offset, max_bytes } => (bytes <= max_bytes).then(|| {
                let cell_bytes = bytes.next_multiple_of(OBJECT_ALIGNMENT);
                InlineRun { run_offset, queue_offset: None, cell_bytes }
            }),
        }
    }
}

/// The largest size in the table of [`SizeRun`]s, in bytes. To allocate a larger object inline would gain nothing
/// beside its contents.
pub const MAX_TABLE_BYTES: u32 = 1 << 10;
/// Entries of the table: one for each size, a multiple of [`OBJECT_ALIGNMENT`].
pub const TABLE_SIZES: usize = (MAX_TABLE_BYTES / OBJECT_ALIGNMENT) as usize + 1;

/// Where an object of a size known at run time only is allocated inline, under [`AllocationPlan::SizeClasses`]: entry
/// `n` of the table in the [`MutatorContext`] is for `n` times
/// [`OBJECT_ALIGNMENT`] bytes.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SizeRun {
    /// Offset of the [`BumpRun`] in the [`MutatorContext`].
    pub run_offset: u16,
    /// Bytes to bump by. 0 where there is no class for the size: compiled code does not ask for it.
    pub cell_bytes: u16,
}

impl SizeRun {
    /// The table for size classes with these cells, ascending.
    pub fn table(cell_bytes: &[u32]) -> [SizeRun; TABLE_SIZES] {
        std::array::from_fn(|words| {
            let class = cell_bytes.partition_point(|&cell| cell < words as u32 * OBJECT_ALIGNMENT);
            cell_bytes.get(class).map_or(SizeRun::default(), |&cell| SizeRun {
                run_offset: (MutatorContext::RUNS_OFFSET as usize + class * size_of::<BumpRun>()) as u16,
                cell_bytes: cell as u16,
            })
        })
    }
}

/// Where one object is allocated inline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InlineRun {
    /// Offset of the [`BumpRun`] in the [`MutatorContext`].
    pub run_offset: u32,
    /// Offset of its queue there, if it has one.
    pub queue_offset: Option<u32>,
    /// Bytes to bump by.
    pub cell_bytes: u32,
}

/// What a store must do besides, in parts that are independent of each other. Stores into an object that no safepoint
/// has passed since its allocation need none of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct BarrierPlan {
    /// Before a reference is overwritten: in objects, tables and globals. Where there is [`after`](BarrierPlan::after),
    /// too, not in young objects, as snapshots are taken when nothing is young.
    pub before: Option<SnapshotPlan>,
    /// What becomes of the reference that is stored, into whatever it is, and however new that is.
    pub heal: Option<HealPlan>,
    /// What becomes of the other copy of the object that is stored into, numbers included.
    pub mirror: Option<MirrorPlan>,
    /// After a reference has been stored: into objects and tables.
    pub after: Option<RememberedPlan>,
}

impl BarrierPlan {
    /// Nothing: the collector stops the mutator and traces everything.
    pub const NONE: BarrierPlan = BarrierPlan { before: None, heal: None, mirror: None, after: None };
}

/// Old copies of objects that have moved (Brooks 1984): while references to them are looked for, none is stored anew.
///
/// Where the `u32` at `state_offset` has [`MutatorContext::STALE`] set, and a reference to an object is to be stored,
/// neither null nor an immediate, what the word at `forwarding_offset` from it says is stored instead, or behind it,
/// before anybody can see it. It may be at other times, too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct HealPlan {
    /// Offset of [`MutatorContext::barrier_state`].
    pub state_offset: u32,
    /// Where an object, or an old copy, says where the object is.
    pub forwarding_offset: u32,
    /// How it says so.
    pub word: ForwardingWord,
}

/// Two equal copies of objects that have moved (Nettles and O'Toole 1993; Handles Revisited, section 5.2): a read
/// touches either, a store writes both.
///
/// Where the `u32` at `state_offset` has [`MutatorContext::REPLICAS`] set, and a field or an element of an object is
/// stored that lies in the object itself, it is stored at the same place from the word at `other_offset` from the
/// object, less its lowest bit, as well. An object without another copy holds its own offset there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct MirrorPlan {
    /// Offset of [`MutatorContext::barrier_state`].
    pub state_offset: u32,
    /// Where an object says where its other copy is.
    pub other_offset: u32,
}

/// Snapshot at the beginning (Yuasa 1990): while the collector marks what was reachable at some moment, it is told of
/// each reference that is overwritten.
///
/// Where the `u32` at `state_offset` has [`MutatorContext::MARKING`] set, and the slot holds a reference to an object,
/// neither null nor an immediate, pushes that reference to the buffer, and calls
/// [`Heap::flush_overwritten`](crate::Heap::flush_overwritten) when that is full.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct SnapshotPlan {
    /// Offset of [`MutatorContext::barrier_state`].
    pub state_offset: u32,
    /// Offset in the [`MutatorContext`] of the buffer's [`BufferWords`].
    pub buffer_offset: u32,
}

impl SnapshotPlan {
    /// With the words that every [`MutatorContext`] has for it.
    pub const IN_CONTEXT: SnapshotPlan = SnapshotPlan {
        state_offset: MutatorContext::BARRIER_STATE_OFFSET,
        buffer_offset: MutatorContext::OVERWRITTEN_OFFSET,
    };
}

/// Generations: where the value stored is young, an old object is remembered. Arrays set the byte of the card that the
/// element lies in to 1; structs that of the card that their header lies in, or, with a store buffer, push the cage
/// offset of the slot to that, if the object is old.
///
/// For cage offset `o`, the age lies at `cage base - ages_below + (o >> block_log2)` and the card at
/// `cage base - cards_below + (o >> card_log2)`, a byte each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct RememberedPlan {
    /// Distance in bytes from the table of ages up to the cage's base. An age is not 0 where objects are young; null is
    /// old, and an immediate may be taken for either.
    pub ages_below: u32,
    /// Binary logarithm of a block's bytes.
    pub block_log2: u8,
    /// Distance in bytes from the card table up to the cage's base.
    pub cards_below: u32,
    /// Binary logarithm of a card's bytes.
    pub card_log2: u8,
    /// Offset in the [`MutatorContext`] of the store buffer's [`BufferWords`], where there is one. Who fills it calls
    /// [`Heap::flush_store_buffer`](crate::Heap::flush_store_buffer).
    pub store_buffer: Option<u32>,
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

/// A buffer of the write barrier's as compiled code sees it: entries of `u32` are written from `cursor` up to `limit`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct BufferWords {
    /// Address of the next free entry.
    pub cursor: usize,
    /// Address behind the last entry. Whoever makes the cursor equal to it has the heap empty the buffer.
    pub limit: usize,
}

/// The words that compiled code and the heap share, one set for each heap (and so for each mutator).
#[repr(C)]
#[derive(Debug)]
pub struct MutatorContext {
    /// Function entries compare the stack pointer with this address and call the `poll` builtin when below it. Another
    /// thread raises it to `usize::MAX` to interrupt.
    pub stack_limit: std::sync::atomic::AtomicUsize,
    /// Loop back-edges call the `poll` builtin when this is not zero; where loops count, one in
    /// [`AccessPlan::iterations_between_polls`] looks.
    pub poll: std::sync::atomic::AtomicU32,
    /// What stores have to do ([`SnapshotPlan`], [`HealPlan`] and [`MirrorPlan`] only): bits,
    /// [`MARKING`](Self::MARKING), [`STALE`](Self::STALE) and [`REPLICAS`](Self::REPLICAS). Changes at safepoints
    /// alone.
    pub barrier_state: u32,
    /// The store buffer ([`RememberedPlan::store_buffer`] only).
    pub store_buffer: BufferWords,
    /// Accesses to elements ([`AccessPlan::counting`] only).
    pub accesses: AccessCounters,
    /// Free handles (handle models only).
    pub handle_run: BumpRun,
    /// Free memory for each size class; with [`AllocationPlan::Bump`], the first one is the only one.
    pub runs: [BumpRun; MAX_SIZE_CLASSES],
    /// References that have been overwritten ([`SnapshotPlan`] only).
    pub overwritten: BufferWords,
    /// Which of [`runs`](Self::runs) serves which size ([`AllocationPlan::SizeClasses`] only). Constant.
    pub sizes: [SizeRun; TABLE_SIZES],
    /// Free handles of arrays (models with other handles for arrays only).
    pub array_handle_run: BumpRun,
    /// For each size class, the address of the [`BumpRun`] that follows the one in [`runs`](Self::runs); an empty run,
    /// whose 8 bytes are 0, is the end ([`AllocationPlan::SizeClasses`] with queues only). Behind them the same for
    /// [`handle_run`](Self::handle_run) and [`array_handle_run`](Self::array_handle_run) (models with these only).
    pub queues: [usize; MutatorContext::QUEUES],
}

impl MutatorContext {
    /// [`barrier_state`](Self::barrier_state): a snapshot is being marked.
    pub const MARKING: u32 = 1;
    /// [`barrier_state`](Self::barrier_state): references to old copies are healed.
    pub const STALE: u32 = 2;
    /// [`barrier_state`](Self::barrier_state): there are two copies of some objects, both of which may be read.
    pub const REPLICAS: u32 = 4;

    /// Offset of [`stack_limit`](Self::stack_limit), 8 bytes.
    pub const STACK_LIMIT_OFFSET: u32 = std::mem::offset_of!(MutatorContext, stack_limit) as u32;
    /// Offset of [`poll`](Self::poll), 4 bytes.
    pub const POLL_OFFSET: u32 = std::mem::offset_of!(MutatorContext, poll) as u32;
    /// Offset of [`store_buffer`](Self::store_buffer).
    pub const STORE_BUFFER_OFFSET: u32 = std::mem::offset_of!(MutatorContext, store_buffer) as u32;
    /// Offset of [`barrier_state`](Self::barrier_state), 4 bytes.
    pub const BARRIER_STATE_OFFSET: u32 = std::mem::offset_of!(MutatorContext, barrier_state) as u32;
    /// Offset of [`overwritten`](Self::overwritten).
    pub const OVERWRITTEN_OFFSET: u32 = std::mem::offset_of!(MutatorContext, overwritten) as u32;
    /// Offset of [`accesses`](Self::accesses).
    pub const ACCESSES_OFFSET: u32 = std::mem::offset_of!(MutatorContext, accesses) as u32;
    /// Offset of [`handle_run`](Self::handle_run).
    pub const HANDLE_RUN_OFFSET: u32 = std::mem::offset_of!(MutatorContext, handle_run) as u32;
    /// Offset of [`array_handle_run`](Self::array_handle_run).
    pub const ARRAY_HANDLE_RUN_OFFSET: u32 = std::mem::offset_of!(MutatorContext, array_handle_run) as u32;
    /// Offset of [`runs`](Self::runs).
    pub const RUNS_OFFSET: u32 = std::mem::offset_of!(MutatorContext, runs) as u32;
    /// Offset of [`queues`](Self::queues).
    pub const QUEUES_OFFSET: u32 = std::mem::offset_of!(MutatorContext, queues) as u32;
    /// How many [`queues`](Self::queues) there are.
    pub const QUEUES: usize = MAX_SIZE_CLASSES + 2;

    /// Offset of the queue behind [`handle_run`](Self::handle_run), or [`array_handle_run`](Self::array_handle_run).
    pub(crate) const fn handle_queue_offset(of_arrays: bool) -> u32 {
        Self::QUEUES_OFFSET + ((MAX_SIZE_CLASSES + of_arrays as usize) * size_of::<usize>()) as u32
    }
    /// Offset of [`sizes`](Self::sizes).
    pub const SIZES_OFFSET: u32 = std::mem::offset_of!(MutatorContext, sizes) as u32;
}
