//! The configuration of a heap: one field for each axis, and the parameters.

mod settings;

pub(crate) use settings::size_text;

use crate::arrays::{ArrayParams, Arrays, SpineMode};
use crate::blocks::{BLOCK_BYTES, MAX_HEAP_BYTES, ZERO_LEAF};
use crate::cage::NULL_GUARD_BYTES;
use crate::cards::{CARD_LOG2, CARD_TABLE_BELOW};
use crate::collector::Collector;
use crate::collector::generational::{AGE_TABLE_BELOW, Barrier, GenerationalParams, Nursery};
use crate::error::HeapError;
use crate::plan::{
    AccessPlan, AllocationPlan, ArrayPlan, BarrierPlan, CountingPlan, MutatorContext, RememberedPlan, SpinePlan,
};
use crate::references::References;
use crate::size_classes::{self, MAX_SMALL_BYTES};
use crate::sizing::Sizing;
use crate::views::NativeViews;
use crate::zeroing::{Zeroing, ZeroingParams};

/// How a heap works. Fill the fields you care about over `HeapConfig::default()`.
#[derive(Clone, PartialEq, Debug)]
pub struct HeapConfig {
    /// Axis `collector`.
    pub collector: Collector,
    /// Axis `references`.
    pub references: References,
    /// Axis `arrays`.
    pub arrays: Arrays,
    /// Axis `native-views`.
    pub native_views: NativeViews,
    /// Axis `zeroing`. `None` is the collector's own: `bulk` for mark-sweep, which takes no other.
    pub zeroing: Option<Zeroing>,
    /// Axis `sizing`.
    pub sizing: Sizing,
    /// Parameters of `generational`.
    pub generational: GenerationalParams,
    /// Parameters of `zeroing`.
    pub zeroing_params: ZeroingParams,
    /// Parameters of `arrays` and `native-views`.
    pub array_params: ArrayParams,
    /// Compiled code counts its accesses to array elements, by position.
    pub count_accesses: bool,
    /// The most memory that objects, handles and immortal records may take, in bytes. Exhaustion is an
    /// [`AllocationError`](crate::AllocationError).
    pub max_bytes: u64,
    /// No collection starts by itself below this size, in bytes; a smaller `max_bytes` takes its place.
    pub min_bytes: u64,
    /// After a collection, the next one starts when the heap is this many times the size of what survived.
    pub growth: f64,
    /// Walk and check the whole heap after each collection (before it, too, under `stress`). Panics where an
    /// invariant is broken. Cells of dead objects are cleared at once, so that a reference that the roots missed
    /// shows soon. Memory that a collection has emptied may be made inaccessible: whoever reads through such a
    /// reference then ends the process with a fault, where otherwise whatever lies there would be read.
    pub verify: bool,
    /// Collect at every n-th allocation or poll. Allocation then always takes the slow path.
    pub stress: Option<u32>,
    /// Under `stress`: count loop back-edges too. Allocations raise and lower the poll word at random.
    pub stress_polls: bool,
}

impl Default for HeapConfig {
    fn default() -> HeapConfig {
        HeapConfig {
            collector: Collector::Generational,
            references: References::Direct,
            arrays: Arrays::Contiguous,
            native_views: NativeViews::Copy,
            zeroing: None,
            sizing: Sizing::GcRatio,
            generational: GenerationalParams::default(),
            zeroing_params: ZeroingParams::default(),
            array_params: ArrayParams::default(),
            count_accesses: false,
            max_bytes: 2 << 30,
            min_bytes: 16 << 20,
            growth: 2.0,
            verify: false,
            stress: None,
            stress_polls: false,
        }
    }
}

/// The smallest maximum: some blocks for different sizes, handles and records.
const MIN_MAX_BYTES: u64 = 8 * BLOCK_BYTES as u64;
/// The fewest leaves that a heap must have room for.
const LEAST_LEAVES: u64 = 4;
/// The smallest nursery: a block to allocate in, and one to go on in.
const MIN_NURSERY_BYTES: u64 = 2 * BLOCK_BYTES as u64;

impl HeapConfig {
    /// Checks the combination.
    ///
    /// # Errors
    /// [`HeapError::InvalidConfig`] with one sentence.
    pub fn validate(&self) -> Result<(), HeapError> {
        let invalid = |sentence: String| Err(HeapError::InvalidConfig(sentence));
        if self.max_bytes < MIN_MAX_BYTES {
            return invalid(format!("max is {} bytes, but a heap needs at least {MIN_MAX_BYTES}", self.max_bytes));
        }
        if self.max_bytes > 4 << 30 {
            return invalid(format!("max is {} bytes, but 32-bit references reach 4G alone", self.max_bytes));
        }
        if !(1.05..=100.0).contains(&self.growth) {
            return invalid(format!("growth is {}, but it must lie between 1.05 and 100", self.growth));
        }
        if self.collector == Collector::Generational && self.references != References::Direct {
            return invalid(format!(
                "collector=generational moves objects and takes references=direct alone: for {} add collector=mark-sweep",
                self.references.name()
            ));
        }
        if let (Collector::MarkSweep, Some(zeroing)) = (self.collector, self.zeroing)
            && zeroing != Zeroing::Bulk
        {
            let name = zeroing.name();
            return invalid(format!(
                "collector=mark-sweep zeroes what it sweeps and takes zeroing=bulk alone, not {name}"
            ));
        }
        if let Nursery::Fixed(bytes) = self.generational.nursery
            && bytes < MIN_NURSERY_BYTES
        {
            return invalid(format!("nursery is {bytes} bytes, but needs at least {MIN_NURSERY_BYTES}"));
        }
        if self.generational.aging > 90 {
            return invalid(format!("aging is {} percent, but must be at most 90", self.generational.aging));
        }
        self.zeroing_params.validate()?;
        self.array_params.validate()?;
        self.validate_leaves()?;
        self.validate_growth()?;
        self.validate_views()?;
        if self.stress == Some(0) {
            return invalid("stress is 0, but it says at every how many allocations to collect".to_string());
        }
        if self.stress_polls && self.stress.is_none() {
            return invalid("stress-polls is on, but stress is not set".to_string());
        }
        Ok(())
    }

    /// Whether the heap has room for some leaves.
    fn validate_leaves(&self) -> Result<(), HeapError> {
        let Some(leaf) = self.spines().map(|spines| u64::from(spines.layout.leaf_bytes())) else { return Ok(()) };
        if self.max_bytes < LEAST_LEAVES * leaf {
            return Err(HeapError::InvalidConfig(format!(
                "max is {} bytes, but leaves of {leaf} bytes need at least {}: set a smaller leaf or a larger max",
                self.max_bytes,
                LEAST_LEAVES * leaf
            )));
        }
        Ok(())
    }

    /// Whether the first bytes of spines can grow, where that is asked for.
    fn validate_growth(&self) -> Result<(), HeapError> {
        let grows = self.arrays == Arrays::ZRays && self.array_params.first_n_grows == Some(true);
        let obstacle = match (self.references.leaves_collector_word_free(), self.native_views) {
            (true, NativeViews::Copy) => return Ok(()),
            (true, _) => "a header word and leaves in one place: set native-views=copy",
            (false, _) => "the header word that handles take: set references=direct",
        };
        if !grows {
            return Ok(());
        }
        Err(HeapError::InvalidConfig(format!("first-n-grows=on needs {obstacle}, or first-n-grows=off")))
    }

    /// Whether the leaves can be mapped a second time.
    fn validate_views(&self) -> Result<(), HeapError> {
        let invalid = |sentence: String| Err(HeapError::InvalidConfig(sentence));
        let Some(spines) = self.spines().filter(|_| self.native_views == NativeViews::DoubleMap) else { return Ok(()) };
        let (leaf, page) = (spines.layout.leaf_bytes(), crate::os::page_bytes());
        if leaf < page {
            return invalid(format!(
                "native-views=double-map maps whole pages of {page} bytes: set leaf to at least that, not {leaf}"
            ));
        }
        if spines.layout.first_n > 0 {
            return invalid(
                "native-views=double-map maps leaves, but the first bytes lie in the spine: set first-n=0".to_string(),
            );
        }
        if spines.lazy && self.array_params.views_at_allocation(self.native_views) {
            return invalid("view-creation=allocation maps the leaves of a new array: set lazy=off".to_string());
        }
        Ok(())
    }

    /// What a code generator must know. Depends on the axes alone, so that code compiled for one heap runs on every
    /// heap of an equal plan.
    pub fn access_plan(&self) -> AccessPlan {
        let allocation = match self.collector {
            Collector::MarkSweep => AllocationPlan::SizeClasses {
                cell_bytes: size_classes::cell_bytes().to_vec(),
                runs_offset: MutatorContext::RUNS_OFFSET,
            },
            Collector::Generational => {
                AllocationPlan::Bump { run_offset: MutatorContext::RUNS_OFFSET, max_bytes: MAX_SMALL_BYTES }
            }
        };
        let remembered = RememberedPlan {
            ages_below: AGE_TABLE_BELOW,
            block_log2: BLOCK_BYTES.trailing_zeros() as u8,
            cards_below: CARD_TABLE_BELOW,
            card_log2: CARD_LOG2,
        };
        let store_barrier = match (self.collector, self.generational.barrier) {
            (Collector::MarkSweep, _) => BarrierPlan::None,
            (Collector::Generational, Barrier::Cards) => BarrierPlan::Cards(remembered),
            (Collector::Generational, Barrier::StoreBuffer) => {
                BarrierPlan::StoreBuffer(remembered, MutatorContext::STORE_BUFFER_OFFSET)
            }
        };
        let arrays = match self.spines() {
            None => ArrayPlan::Contiguous,
            Some(spines) => ArrayPlan::Spines(SpinePlan {
                layout: spines.layout,
                zero_leaf: spines.has_zero_leaf().then_some(ZERO_LEAF),
                copy_on_write: spines.copy_on_write,
            }),
        };
        let counting =
            CountingPlan { counters_offset: MutatorContext::ACCESSES_OFFSET, first_n: self.array_params.first_n };
        AccessPlan {
            references: self.references.plan(),
            arrays,
            counting: self.count_accesses.then_some(counting),
            allocation,
            fresh_memory_is_zero: self.zeroing() != Zeroing::HotPath,
            store_barrier,
            references_change_at_safepoints: self.collector == Collector::Generational,
            null_guard_bytes: NULL_GUARD_BYTES,
        }
    }

    /// The zeroing strategy: the one asked for, or the collector's own.
    pub fn zeroing(&self) -> Zeroing {
        self.zeroing.unwrap_or(match self.collector {
            Collector::MarkSweep => Zeroing::Bulk,
            Collector::Generational => Zeroing::HotPath,
        })
    }

    /// What becomes of arrays that do not lie in one piece; `None` where all do.
    pub(crate) fn spines(&self) -> Option<SpineMode> {
        self.arrays.spines(&self.array_params, self.native_views, self.references)
    }

    /// The usable maximum: `max_bytes`, or what the cage holds.
    pub(crate) fn maximum(&self) -> u64 {
        self.max_bytes.min(MAX_HEAP_BYTES)
    }
}
