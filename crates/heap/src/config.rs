//! The configuration of a heap: one field for each axis, whose values carry their parameters, and what every heap has.

mod field;
mod given;
mod keys;
mod settings;
#[cfg(test)]
mod tests;

pub use given::Given;

use crate::arrays::{Arrays, SpineMode};
use crate::blocks::{BLOCK_BYTES, MAX_HEAP_BYTES, ZERO_LEAF};
use crate::cage::{Extent, MOST_FITTED, NULL_GUARD_BYTES};
use crate::collector::Collector;
use crate::collector::generational::params::{GenerationalParams, Nursery};
use crate::collector::schedule::Defragment;
use crate::error::HeapError;
use crate::os::limits::{self, AddressSpace, MachineLimit};
use crate::plan::{AccessPlan, ArrayPlan, BarrierPlan, CountingPlan, MutatorContext, SpinePlan};
use crate::references::References;
use crate::references::handle_policies::HandleParams;
use crate::sizing::{Bounds, GcRatioParams, Sizing, ceiling};
use crate::views::NativeViews;
use crate::zeroing::Zeroing;

/// How a heap works. Fill the fields you care about over `HeapConfig::default()`.
#[derive(Clone, PartialEq, Debug)]
pub struct HeapConfig {
    /// Axis `collector`.
    pub collector: Collector,
    /// Axis `references`.
    pub references: References,
    /// Parameters of `references`, where it has handles.
    pub handles: HandleParams,
    /// Axis `arrays`.
    pub arrays: Arrays,
    /// Axis `native-views`.
    pub native_views: NativeViews,
    /// Axis `zeroing`. `None` is the collector's own.
    pub zeroing: Option<Zeroing>,
    /// Axis `sizing`.
    pub sizing: Sizing,
    /// Compiled code counts its accesses to array elements, by position.
    pub count_accesses: bool,
    /// A heap that grows beyond 8 MiB gets memory in huge pages, where the system has some, which a thread touches
    /// ahead of the program: at most 4 MiB more than the heap has taken. Not where arrays count on untouched pages
    /// without memory (`mapped`, z-rays that grow), nor where leaves are mapped twice.
    pub huge_pages: bool,
    /// The most memory that objects, handles and immortal records may take, in bytes. Exhaustion is an
    /// [`AllocationError`](crate::AllocationError). [`Arrays::Mapped`] may exceed it between collections. `None` is
    /// what the machine has for this process, looked up when the heap is made: 2 GiB, or 7/8 of the lowest limit of its
    /// memory groups or of physical memory, less what the process has already. Where address space is limited, a heap
    /// that does not leave enough of it takes half of what is left, and has at most 1 GiB.
    pub max_bytes: Option<u64>,
    /// No collection starts by itself below this size, in bytes; a smaller `max_bytes` takes its place.
    pub min_bytes: u64,
    /// Walk and check the whole heap after each collection (before it, too, under `stress`). Panics where an
    /// invariant is broken. Cells of dead objects are cleared at once, so that a reference that the roots missed
    /// shows soon. Memory that a collection has emptied may be made inaccessible: whoever reads through such a
    /// reference then ends the process with a fault, where otherwise whatever lies there would be read.
    pub verify: bool,
    /// Under `verify`: check when at least this much has been allocated since the last check, in percent of the heap's
    /// size; 0 checks each time. What checks cost then stays in proportion to what a program allocates, however much
    /// lives.
    pub verify_after: u32,
    /// Collect at every n-th allocation or poll. Allocation then always takes the slow path.
    pub stress: Option<u32>,
    /// Under `stress`: count loop back-edges too. Allocations raise and lower the poll word at random.
    pub stress_polls: bool,
    /// Move every object that lives in a block of cells in each cycle, where references let objects move.
    pub stress_move: bool,
    /// What [`set`](Self::set) was given of parameters; nothing to fill in.
    pub given: Given,
}

impl Default for HeapConfig {
    fn default() -> HeapConfig {
        HeapConfig {
            collector: Collector::Generational(GenerationalParams::DEFAULT),
            references: References::Direct,
            handles: HandleParams::DEFAULT,
            arrays: Arrays::Contiguous,
            native_views: NativeViews::Copy,
            zeroing: None,
            sizing: Sizing::GcRatio(GcRatioParams::DEFAULT),
            count_accesses: false,
            huge_pages: true,
            max_bytes: None,
            min_bytes: 16 << 20,
            verify: false,
            verify_after: 0,
            stress: None,
            stress_polls: false,
            stress_move: false,
            given: Given::default(),
        }
    }
}

/// The smallest maximum: some blocks for different sizes, handles and records.
const MIN_MAX_BYTES: u64 = 8 * BLOCK_BYTES as u64;
/// The largest: 32-bit references reach no further.
const MAX_BYTES: u64 = 4 << 30;
/// The smallest nursery: a block to allocate in, and one to go on in.
const MIN_NURSERY_BYTES: u64 = 2 * BLOCK_BYTES as u64;
/// See [`AccessPlan::iterations_between_polls`]: even where each waits for memory, they take tens of microseconds.
const ITERATIONS_BETWEEN_POLLS: u32 = 256;

impl HeapConfig {
    /// Checks each parameter, and the combination.
    ///
    /// # Errors
    /// [`HeapError::InvalidConfig`] with one sentence.
    pub fn validate(&self) -> Result<(), HeapError> {
        self.validate_keys()?;
        self.validate_references()?;
        self.validate_zeroing()?;
        if let Some(sentence) = self.arrays.obstacle(self.native_views, self.references, self.maximum()) {
            return Err(HeapError::invalid(sentence));
        }
        self.validate_moving()?;
        if self.stress_polls && self.stress.is_none() {
            return Err(HeapError::invalid("stress-polls is on, but stress is not set".to_string()));
        }
        Ok(())
    }

    /// Whether the collector takes the reference model.
    fn validate_references(&self) -> Result<(), HeapError> {
        let (collector, references) = (self.collector, self.references);
        let taken = collector.attributes().references();
        if taken.values.contains(&references) {
            return Ok(());
        }
        let takes = |other: &&Collector| other.attributes().references().values.contains(&references);
        let others = Collector::ALL.iter().filter(|other| !other.is_for_tests()).filter(takes);
        let others: Vec<_> = others.map(|other| other.name()).collect();
        Err(HeapError::invalid(format!(
            "collector={} {} and takes references={} alone: for {} add collector={}",
            collector.name(),
            taken.because,
            taken.names(References::name),
            references.name(),
            others.join(" or "),
        )))
    }

    /// Whether objects are moved at all, where it is said how.
    fn validate_moving(&self) -> Result<(), HeapError> {
        let is_realtime = matches!(self.collector, Collector::Realtime(_));
        if is_realtime && self.collector.attributes().moves_objects(self.references) {
            return Ok(());
        }
        let setting = match self.defragment() {
            _ if self.stress_move => "stress-move=on",
            Some(Defragment::Eager) => "defragment=eager",
            _ => return Ok(()),
        };
        Err(HeapError::invalid(format!(
            "{setting} moves objects that are not young, but collector={} with references={} does not: set \
             collector=realtime and references=brooks, replicating, thin-handles, fat-handles or uni-handles",
            self.collector.name(),
            self.references.name()
        )))
    }

    /// What is moved within the mature space; `None` where the collector has no such choice.
    pub(crate) fn defragment(&self) -> Option<Defragment> {
        if let Collector::Realtime(params) = self.collector { Some(params.defragment) } else { None }
    }

    /// Whether the collector takes the zeroing strategy.
    fn validate_zeroing(&self) -> Result<(), HeapError> {
        let (zeroing, taken) = (self.zeroing().name(), self.collector.attributes().zeroing());
        if taken.values.iter().any(|taken| taken.name() == zeroing) {
            return Ok(());
        }
        Err(HeapError::invalid(format!(
            "collector={} {} and takes zeroing={} alone, not {zeroing}",
            self.collector.name(),
            taken.because,
            taken.names(Zeroing::name)
        )))
    }

    /// What a code generator must know. Depends on the axes alone, so that code compiled for one heap runs on every
    /// heap of an equal plan.
    pub fn access_plan(&self) -> AccessPlan {
        let collector = self.collector.attributes();
        let arrays = match self.spines() {
            None => ArrayPlan::Contiguous,
            Some(spines) => ArrayPlan::Spines(SpinePlan {
                layout: spines.layout,
                zero_leaf: spines.has_zero_leaf().then_some(ZERO_LEAF),
                copy_on_write: spines.copy_on_write,
            }),
        };
        let counting =
            CountingPlan { counters_offset: MutatorContext::ACCESSES_OFFSET, first_n: self.arrays.counted_first_n() };
        let references = self.references.plan();
        let moves_objects = collector.moves_objects(self.references);
        AccessPlan {
            references,
            arrays,
            counting: self.count_accesses.then_some(counting),
            allocation: collector.allocation(),
            fresh_memory_is_zero: self.zeroing() != Zeroing::HotPath,
            store_barrier: BarrierPlan {
                heal: if moves_objects { references.heal() } else { None },
                mirror: if moves_objects { references.mirror() } else { None },
                ..collector.store_barrier()
            },
            references_change_at_safepoints: moves_objects && references.handles.is_none(),
            objects_move_at_safepoints: moves_objects,
            null_guard_bytes: NULL_GUARD_BYTES,
            iterations_between_polls: if self.stress_polls { 1 } else { ITERATIONS_BETWEEN_POLLS },
        }
    }

    /// The same heap, without what it was given by name.
    fn bare(&self) -> HeapConfig {
        HeapConfig { given: Given::default(), ..*self }
    }

    /// The zeroing strategy: the one asked for, or the collector's own.
    pub fn zeroing(&self) -> Zeroing {
        self.zeroing.unwrap_or(self.collector.attributes().zeroing().values[0])
    }

    /// What becomes of arrays that do not lie in one piece; `None` where all do.
    pub(crate) fn spines(&self) -> Option<SpineMode> {
        self.arrays.spines(self.native_views, self.references)
    }

    /// What is said of the heap's size.
    pub(crate) fn bounds(&self) -> Bounds {
        let maximum = self.maximum();
        let nursery = match self.collector {
            Collector::Generational(GenerationalParams { nursery: Nursery::Fixed(bytes), .. }) => {
                bytes.min(maximum / 4)
            }
            _ => 0,
        };
        Bounds { minimum: self.min_bytes.min(maximum), maximum, nursery }
    }

    /// The usable maximum: `max_bytes`, or what the cage holds. Where there is none yet, the most that it may become.
    pub(crate) fn maximum(&self) -> u64 {
        self.max_bytes.unwrap_or(ceiling::MOST_BYTES).min(MAX_HEAP_BYTES)
    }

    /// Whether objects may have addresses without memory: arrays of some layouts have.
    fn is_roomy(&self) -> bool {
        !matches!((self.arrays, self.native_views), (Arrays::Contiguous, NativeViews::Copy))
    }

    /// Whether memory may lie in huge pages.
    pub(crate) fn allows_huge_pages(&self) -> bool {
        self.huge_pages && !self.is_roomy() && self.native_views.double_map().is_none()
    }

    /// How much address space the cage has, in a process whose address space has this limit.
    pub(crate) fn extent(&self, space: Option<AddressSpace>) -> Extent {
        let maximum = self.maximum();
        match ceiling::share(space) {
            _ if !self.is_roomy() => Extent::fitting(maximum),
            Some(share) if maximum <= MOST_FITTED => Extent::roomy(maximum, share),
            _ => Extent::WHOLE,
        }
    }

    /// The same with a maximum, and the machine's limit where it comes from that.
    pub(crate) fn with_maximum(&self) -> (HeapConfig, Option<MachineLimit>) {
        if self.max_bytes.is_some() {
            return (self.clone(), None);
        }
        self.with_maximum_of(limits::lowest(), limits::resident(), AddressSpace::of_process())
    }

    /// The same with the maximum that it gets where there is none, in a process that has `resident` bytes of memory,
    /// under these limits; and the limit that it comes from.
    fn with_maximum_of(
        &self,
        memory: Option<MachineLimit>,
        resident: u64,
        space: Option<AddressSpace>,
    ) -> (HeapConfig, Option<MachineLimit>) {
        let most = ceiling::maximum(memory.as_ref(), resident);
        let within = |space: AddressSpace| {
            let maximum = ceiling::within(most, ceiling::share(Some(space))?, self.is_roomy());
            (maximum < most).then(|| (maximum, Some(space.limit())))
        };
        let (maximum, limit) = space.and_then(within).unwrap_or((most, memory));
        (HeapConfig { max_bytes: Some(maximum), ..self.clone() }, limit)
    }
}
