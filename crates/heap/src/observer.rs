//! What a heap reports: stops of the mutator, slices of collections, one event for each collection, and running totals.

use crate::machine::{MachineNotes, PressureReading};
pub use crate::phases::{Phase, PhaseTimes};
use crate::plan::AccessCounters;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// Why a collection happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The heap reached its limit.
    Limit,
    /// The nursery is full.
    Nursery,
    /// An allocation found no memory below the maximum.
    Exhaustion,
    /// The embedder or the program asked for it.
    Requested,
    /// The `stress` setting.
    Stress,
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Cause::Limit => "limit",
            Cause::Nursery => "nursery",
            Cause::Exhaustion => "exhaustion",
            Cause::Requested => "requested",
            Cause::Stress => "stress",
        })
    }
}

/// How much of the heap was collected.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CollectionKind {
    /// The young objects.
    Nursery,
    /// Everything, at once.
    Full,
    /// Everything, in slices between which the mutator ran: an incremental cycle.
    Cycle,
}

impl fmt::Display for CollectionKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            CollectionKind::Nursery => "nursery",
            CollectionKind::Full => "full",
            CollectionKind::Cycle => "cycle",
        })
    }
}

/// One finished collection. Sizes in bytes, cells counted whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct GcEvent {
    /// 1 for the heap's first collection.
    pub number: u64,
    /// Why it happened.
    pub cause: Cause,
    /// What was collected.
    pub kind: CollectionKind,
    /// When the mutator was stopped, for a cycle the first time, since the heap was made.
    pub start: Duration,
    /// Live after the last collection, plus what was handed out for allocation since.
    pub before_bytes: u64,
    /// Live now.
    pub after_bytes: u64,
    /// Size at which the next full collection starts.
    pub limit_bytes: u64,
    /// Handed out for allocation since the last collection. In a generational heap, nursery and full collections tell
    /// all of it, and cycles nothing.
    pub allocated_bytes: u64,
    /// Memory held from the operating system after the collection.
    pub committed_bytes: u64,
    /// How long the mutator stood still (verification not counted): of a cycle, all its stops together, but for idle
    /// ones.
    pub pause: Duration,
    /// What the stops of a cycle were, also of one that a full collection has broken off; `None` for a collection in
    /// one stop.
    pub cycle: Option<CycleTotals>,
    /// The pause's parts. What is not named in one of them is bookkeeping.
    pub phases: PhaseTimes,
    /// How long the mutator has zeroed memory, or waited for memory being zeroed, since the last collection. Not part
    /// of the pause. Zeroing inline in compiled code is not seen here.
    pub zeroing: Duration,
    /// How long the helper thread has zeroed memory since the last collection.
    pub concurrent_zeroing: Duration,
    /// How long the helper thread has marked in this cycle, by the clock. Not part of the pause.
    pub concurrent_marking: Duration,
    /// Objects found live: all of them in a full collection, the survivors of a nursery collection.
    pub marked_objects: u64,
    /// Bytes copied into the mature space.
    pub promoted_bytes: u64,
    /// Objects copied into the mature space.
    pub promoted_objects: u64,
    /// Bytes of cells that objects of the mature space have been moved to, so that their blocks become empty.
    pub moved_bytes: u64,
    /// Objects moved so.
    pub moved_objects: u64,
    /// Bytes of young blocks whose survivors stay young, where they are.
    pub aging_bytes: u64,
    /// Handles freed since the last event; lazy sweeping frees most of them after the collection that found their
    /// objects dead.
    pub freed_handles: u64,
    /// Host values dropped.
    pub dropped_externals: u64,
    /// What the machine said of memory pressure; `None` where nobody was asked, or nobody knows.
    pub pressure: Option<PressureReading>,
}

impl GcEvent {
    /// When the mutator ran on after it, since the heap was made.
    pub fn end(&self) -> Duration {
        self.start + self.cycle.map_or(self.pause, |cycle| cycle.elapsed)
    }
}

/// The stops of one incremental cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CycleTotals {
    /// How many slices it took.
    pub slices: u64,
    /// From the beginning of the first stop to the end of the last.
    pub elapsed: Duration,
    /// The longest stop that was a pause.
    pub longest_stop: Duration,
    /// Stops in time that the embedder gave, together. No part of the pause.
    pub idle: Duration,
    /// Slices that came earlier than the schedule says, or took longer: the cycle was behind it.
    pub shrunk_gaps: u64,
    /// Whether memory ran out first, so that the mutator stood still for the whole rest.
    pub missed_deadline: bool,
}

/// One line for people and for `grep`: sizes in KiB, rounded up, times in milliseconds, the start in seconds since the
/// heap was made. For a cycle with what its stops were, whether memory lasted for it, and how long a helper marked.
impl fmt::Display for GcEvent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = |bytes: u64| bytes.div_ceil(1024);
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        write!(
            formatter,
            "#{} {} ({}) at {:.3} s: {}K -> {}K (limit {}K, committed {}K), promoted {}K, zeroing {:.3} ms, pause {:.3} ms",
            self.number,
            self.kind,
            self.cause,
            self.start.as_secs_f64(),
            kib(self.before_bytes),
            kib(self.after_bytes),
            kib(self.limit_bytes),
            kib(self.committed_bytes),
            kib(self.promoted_bytes),
            ms(self.zeroing),
            ms(self.pause),
        )?;
        if self.moved_bytes > 0 {
            write!(formatter, ", moved {}K", kib(self.moved_bytes))?;
        }
        if let Some(totals) = self.cycle {
            let CycleTotals { slices, elapsed, longest_stop, idle, shrunk_gaps, missed_deadline } = totals;
            let deadline = if missed_deadline { "missed" } else { "met" };
            write!(
                formatter,
                " in {slices} slices over {:.3} ms, longest {:.3} ms, shrunk gaps {shrunk_gaps}, deadline {deadline}",
                ms(elapsed),
                ms(longest_stop),
            )?;
            if !idle.is_zero() {
                write!(formatter, ", idle {:.3} ms", ms(idle))?;
            }
            if !self.concurrent_marking.is_zero() {
                write!(formatter, ", helper {:.3} ms", ms(self.concurrent_marking))?;
            }
        }
        self.pressure.map_or(Ok(()), |reading| write!(formatter, ", {reading}"))
    }
}

/// A part of a collection that was not interrupted. Between two slices of a collection the mutator may have run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct GcSlice {
    /// What was done.
    pub phase: Phase,
    /// When the slice began, since the heap was made.
    pub start: Duration,
    /// How long it took.
    pub wall: Duration,
    /// Of it, what the mutator's thread had a processor for. Zero where the system does not tell.
    pub cpu: Duration,
}

/// What the mutator stood still for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopKind {
    /// A nursery collection. A cycle may begin behind it, or end its marking.
    Nursery,
    /// A slice of a cycle, on schedule.
    Slice,
    /// A slice that came earlier than the schedule says, or took longer, since the cycle was behind it.
    ShrunkGap,
    /// The whole rest of a cycle, or a collection of everything instead of it: memory ran out first.
    MissedDeadline,
    /// A collection of everything at once, or the rest of a cycle because somebody asked for it.
    Full,
    /// A part of a cycle in time that the embedder gave, as it had nothing else to do: a slice, or a nursery collection
    /// that the cycle needed. It is no pause.
    Idle,
}

impl StopKind {
    /// All of them.
    pub const ALL: [StopKind; 6] = [
        StopKind::Nursery,
        StopKind::Slice,
        StopKind::ShrunkGap,
        StopKind::MissedDeadline,
        StopKind::Full,
        StopKind::Idle,
    ];

    /// Whether it is a slice of a cycle, on schedule or not.
    pub const fn is_slice(self) -> bool {
        matches!(self, StopKind::Slice | StopKind::ShrunkGap | StopKind::MissedDeadline | StopKind::Idle)
    }

    /// Whether it kept the mutator from running: whether it counts for pauses, and for the mutator's utilisation.
    pub const fn is_pause(self) -> bool {
        !matches!(self, StopKind::Idle)
    }
}

impl fmt::Display for StopKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            StopKind::Nursery => "nursery",
            StopKind::Slice => "slice",
            StopKind::ShrunkGap => "shrunk-gap",
            StopKind::MissedDeadline => "missed-deadline",
            StopKind::Full => "full",
            StopKind::Idle => "idle",
        })
    }
}

/// One standstill of the mutator, verification not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct GcStop {
    /// When it began, since the heap was made.
    pub start: Duration,
    /// How long it took.
    pub wall: Duration,
    /// Of it, what the mutator's thread had a processor for. Zero where the system does not tell.
    pub cpu: Duration,
    /// What it was for.
    pub kind: StopKind,
}

/// Is told of every collection, when its work is done: a method that panics leaves the heap as usable as it was, and
/// the panic goes on to whoever has called the heap.
pub trait GcObserver: Send {
    /// Called once, when the heap gets the observer, or is opened. Nothing is done, unless implemented otherwise.
    fn machine(&mut self, notes: &MachineNotes) {
        let _ = notes;
    }

    /// Called at the end of a collection, while the mutator still stands.
    fn event(&mut self, event: &GcEvent);

    /// Called at the end of each stop, while the mutator still stands: behind the slices in it, and before the event
    /// of a collection that ends with it. Nothing is done, unless implemented otherwise.
    fn stop(&mut self, stop: &GcStop) {
        let _ = stop;
    }

    /// Called for each slice in a stop, in order, at the end of the stop: before that itself, and before the event of
    /// the collection. Nothing is done, unless implemented otherwise.
    fn slice(&mut self, slice: &GcSlice) {
        let _ = slice;
    }
}

/// Running totals of one heap. Sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct HeapStats {
    /// Collections so far.
    pub collections: u64,
    /// Of these, full ones in one stop.
    pub full_collections: u64,
    /// Of all, incremental cycles.
    pub cycles: u64,
    /// Stops that were slices of cycles, of the cycle under way too.
    pub slices: u64,
    /// Cycles that memory did not last for: the mutator stood still for their rest.
    pub missed_deadlines: u64,
    /// Slices that came earlier than the schedule says, or took longer, since their cycle was behind it.
    pub shrunk_gaps: u64,
    /// Live after the last collection; old objects count until a full collection finds them dead.
    pub live_bytes: u64,
    /// Objects that the last collection found live; old ones count until a full collection finds them dead.
    pub live_objects: u64,
    /// Handed out for allocation since the heap was made (cells and blocks counted whole).
    pub allocated_bytes: u64,
    /// In blocks taken from the pool: objects, their gaps, handles, immortal records. The leaf of zeros that all arrays
    /// share is not counted: it is never written.
    pub used_bytes: u64,
    /// Memory held from the operating system.
    pub committed_bytes: u64,
    /// Size at which the next full collection starts.
    pub limit_bytes: u64,
    /// The most that the heap may take.
    pub maximum_bytes: u64,
    /// Collections at which the machine was asked about memory pressure.
    pub pressure_readings: u64,
    /// Of these, those at which memory had been short.
    pub pressure_stalls: u64,
    /// What asking has cost, in microseconds.
    pub pressure_us: u64,
    /// Copied into the mature space so far.
    pub promoted_bytes: u64,
    /// Objects moved within the mature space so far, so that their blocks became empty.
    pub moved_objects: u64,
    /// Bytes of the cells that they were moved to.
    pub moved_bytes: u64,
    /// Taken by immortal records.
    pub immortal_bytes: u64,
    /// In blocks of handles.
    pub handle_bytes: u64,
    /// Objects allocated by the heap itself rather than by inline code.
    pub slow_allocations: u64,
    /// Of these, large objects.
    pub large_allocations: u64,
    /// Address space of mapped arrays.
    pub mapped_bytes: u64,
    /// Of it, what has memory by the last count.
    pub mapped_memory_bytes: u64,
    /// Pages of zeros in live mapped arrays that have been given back to the operating system so far.
    pub mapped_zeros_bytes: u64,
    /// Copied between mapped arrays by sharing pages so far.
    pub mapped_shared_bytes: u64,
    /// Host values alive.
    pub externals: u64,
    /// Weak references that have not been dropped.
    pub weak_references: u64,
    /// All stops that were pauses together, each in whole microseconds.
    pub pause_total_us: u64,
    /// The longest of them, in microseconds.
    pub longest_stop_us: u64,
    /// Stops in time that the embedder gave together, each in whole microseconds.
    pub idle_us: u64,
    /// What the mutator has spent on zeroing or on waiting for it, in microseconds; inline zeroing apart.
    pub zeroing_us: u64,
    /// What the helper thread has spent on zeroing, in microseconds.
    pub concurrent_zeroing_us: u64,
    /// What the helper thread has spent on marking, in microseconds.
    pub concurrent_marking_us: u64,
    /// Arrays that do not lie in one piece, and accesses to arrays.
    pub arrays: ArrayStats,
}

/// What has become of the leaves of arrays, since the heap was made, in leaves; and accesses, where they are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ArrayStats {
    /// Bytes of leaves in use; those of dead arrays count until a collection finds them.
    pub leaf_bytes: u64,
    /// Leaves allocated, with their array or at a store.
    pub leaves_allocated: u64,
    /// Leaves that were left out when an array was allocated (Z-Rays, section 4.4).
    pub leaves_lazy: u64,
    /// Of these and of those given up, leaves allocated at a store.
    pub leaves_on_store: u64,
    /// Of the same, leaves that the growing first N bytes of a spine have taken in instead.
    pub leaves_grown: u64,
    /// Leaves of zeros that the collector has freed (Z-Rays, section 4.5).
    pub leaves_compressed: u64,
    /// Leaves shared instead of copied (Z-Rays, section 4.7).
    pub leaves_shared: u64,
    /// Leaves allocated because a shared one was to be written.
    pub leaves_unshared: u64,
    /// Arrays whose leaves have been mapped a second time for native code (A Guide to Double Map Arraylets).
    pub views_made: u64,
    /// Of these, views that are still mapped; those of dead arrays count until a collection finds them.
    pub views_alive: u64,
    /// Bytes of address space that these views take.
    pub view_bytes: u64,
    /// Requests for a view that were met by a copy for lack of memory or mappings.
    pub view_fallbacks: u64,
    /// Arrays copied out for native code.
    pub view_copies: u64,
    /// Accesses of compiled code to elements; zero unless they are counted.
    pub accesses: AccessCounters,
    /// What arrays were allocated and copied; zero unless accesses are counted.
    pub counted: CountedArrays,
}

/// Arrays allocated and copied, in bytes of elements (Z-Rays, tables 1 and 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CountedArrays {
    /// In arrays.
    pub allocated_bytes: u64,
    /// Of these, in arrays of numbers.
    pub allocated_number_bytes: u64,
    /// Of all, in arrays of more than the first N bytes.
    pub allocated_large_bytes: u64,
    /// Copied by `array.copy`.
    pub copied_bytes: u64,
    /// Of these, written beyond the first N bytes.
    pub copied_beyond_bytes: u64,
}
