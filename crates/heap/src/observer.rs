//! What a heap reports: one event for each collection, and running totals.

use std::fmt;
use std::time::Duration;

/// Why a collection happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cause {
    /// The heap reached its threshold.
    Threshold,
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
            Cause::Threshold => "threshold",
            Cause::Exhaustion => "exhaustion",
            Cause::Requested => "requested",
            Cause::Stress => "stress",
        })
    }
}

/// How much of the heap was collected.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CollectionKind {
    /// Everything.
    Full,
}

impl fmt::Display for CollectionKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            CollectionKind::Full => "full",
        })
    }
}

/// One finished collection. Sizes in bytes, cells counted whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GcEvent {
    /// 1 for the heap's first collection.
    pub number: u64,
    /// Why it happened.
    pub cause: Cause,
    /// What was collected.
    pub kind: CollectionKind,
    /// Live after the last collection, plus what was handed out for allocation since.
    pub before_bytes: u64,
    /// Live now.
    pub after_bytes: u64,
    /// Size at which the next collection starts.
    pub threshold_bytes: u64,
    /// Memory held from the operating system after the collection.
    pub committed_bytes: u64,
    /// How long the mutator stood still (verification not counted).
    pub pause: Duration,
    /// Objects found live.
    pub marked_objects: u64,
    /// Handles freed since the last event; lazy sweeping frees most of them after the collection that found their
    /// objects dead.
    pub freed_handles: u64,
    /// Host values dropped.
    pub dropped_externals: u64,
}

impl fmt::Display for GcEvent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = |bytes: u64| bytes.div_ceil(1024);
        write!(
            formatter,
            "#{} {} ({}): {}K -> {}K (next at {}K, committed {}K), {} objects, {:.3} ms",
            self.number,
            self.kind,
            self.cause,
            kib(self.before_bytes),
            kib(self.after_bytes),
            kib(self.threshold_bytes),
            kib(self.committed_bytes),
            self.marked_objects,
            self.pause.as_secs_f64() * 1e3,
        )
    }
}

/// Is told of every collection.
pub trait GcObserver: Send {
    /// Called at the end of a collection, while the mutator still stands.
    fn event(&mut self, event: &GcEvent);
}

/// Running totals of one heap. Sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeapStats {
    /// Collections so far.
    pub collections: u64,
    /// Live after the last collection.
    pub live_bytes: u64,
    /// Objects that the last collection found live.
    pub live_objects: u64,
    /// Handed out for allocation since the heap was made (cells and blocks counted whole).
    pub allocated_bytes: u64,
    /// In blocks taken from the pool: objects, their gaps, handles, immortal records.
    pub used_bytes: u64,
    /// Memory held from the operating system.
    pub committed_bytes: u64,
    /// Size at which the next collection starts.
    pub threshold_bytes: u64,
    /// Taken by immortal records.
    pub immortal_bytes: u64,
    /// In blocks of handles.
    pub handle_bytes: u64,
    /// Objects allocated by the heap itself rather than by inline code.
    pub slow_allocations: u64,
    /// Of these, large objects.
    pub large_allocations: u64,
    /// Host values alive.
    pub externals: u64,
    /// All pauses together, in microseconds.
    pub pause_total_us: u64,
    /// The longest pause, in microseconds.
    pub pause_max_us: u64,
}
