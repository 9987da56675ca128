//! The figures of one heap, as JSON and as text.
//!
//! Names end in their unit where they have one: `_us` microseconds, `_ms` milliseconds, `_s` seconds, `_bytes`. Shares
//! lie between 0 and 1.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use legato_heap::HeapStats;
use serde::Serialize;

use crate::page::units::{bytes, count, percent, rate, time};

/// The figures of one heap, from the making of its recorder on.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Statistics {
    /// How many collections.
    pub collections: Collections,
    /// What incremental cycles were, and whether they kept to their schedule.
    pub cycles: Cycles,
    /// How long the mutator stood still at a time: its stops.
    pub pauses: PauseStatistics,
    /// Parts of all pauses by name, summed, in microseconds: see [`PhaseTimes`](legato_heap::PhaseTimes).
    pub phases_us: BTreeMap<String, f64>,
    /// Slices by [`Phase`](legato_heap::Phase); phases that did not occur are left out.
    pub phase_slices: BTreeMap<String, PhaseSlices>,
    /// Minimum mutator utilisation for windows of growing length.
    pub mmu: Vec<Utilisation>,
    /// Share of the wall time that the mutator stood still for collections.
    pub gc_share: f64,
    /// What was allocated.
    pub allocation: Allocation,
    /// What was copied into the mature space.
    pub promotion: Promotion,
    /// What zeroing memory took.
    pub zeroing: ZeroingTimes,
    /// What was marked beside the mutator.
    pub marking: MarkingTimes,
    /// The most memory.
    pub memory: MemoryPeaks,
    /// How long the program ran.
    pub time: Times,
    /// The heap's own totals. `None` (`null`) if the heap could not be asked: the program was still running.
    pub heap: Option<HeapStats>,
}

/// How many collections there were.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Collections {
    /// All.
    pub total: u64,
    /// By [`CollectionKind`](legato_heap::CollectionKind); kinds that did not occur are left out.
    pub by_kind: BTreeMap<String, u64>,
    /// By [`Cause`](legato_heap::Cause); causes that did not occur are left out.
    pub by_cause: BTreeMap<String, u64>,
}

/// Incremental cycles.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Cycles {
    /// How many have ended.
    pub total: u64,
    /// Stops that were slices of cycles, of one under way too.
    pub slices: u64,
    /// Of these, slices that came earlier than the schedule says, or took longer, since the cycle was behind it.
    pub shrunk_gaps: u64,
    /// Of these, whole rests of cycles for which memory did not last.
    pub missed_deadlines: u64,
}

/// All stops and those of each kind.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PauseStatistics {
    /// All stops but idle ones, which are in time that the embedder gave.
    pub all: Pauses,
    /// By [`StopKind`](legato_heap::StopKind); kinds that did not occur are left out.
    pub by_kind: BTreeMap<String, Pauses>,
}

/// Stops of the mutator.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Pauses {
    /// How many.
    pub count: u64,
    /// By the clock on the wall. Its fields stand beside `count` in JSON.
    #[serde(flatten)]
    pub wall: Distribution,
    /// What the mutator's thread had a processor for: without what other programs took from it. All 0 where the system
    /// does not tell.
    pub cpu: Distribution,
}

/// A distribution of times, in microseconds. Percentiles are exact to one part in a thousand, the rest to a nanosecond;
/// all are 0 where there was none.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Distribution {
    /// All together.
    pub total_us: f64,
    /// Arithmetic mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p99_9_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// The slices of one phase.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PhaseSlices {
    /// How many.
    pub count: u64,
    /// All together by the clock on the wall, in microseconds.
    pub wall_us: f64,
    /// What the mutator's thread had a processor for, in microseconds.
    pub cpu_us: f64,
    /// The longest by the clock on the wall, in microseconds.
    pub longest_us: f64,
}

/// A point of the curve of minimum mutator utilisation (Cheng and Blelloch, PLDI 2001).
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Utilisation {
    /// Length of the window, in milliseconds.
    pub window_ms: u64,
    /// The least share of any such window that was the mutator's, too low by 0.001 at most. `None` (`null`) if the
    /// program did not run that long.
    pub utilisation: Option<f64>,
    /// The same if each stop had taken its processor time alone: without what other programs took from it. `None` also
    /// where the system does not tell.
    pub cpu_utilisation: Option<f64>,
}

/// What was handed out for allocation.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Allocation {
    /// Bytes, up to the last collection if `heap` is missing.
    pub bytes: u64,
    /// Bytes per second of wall time.
    pub bytes_per_second: f64,
}

/// What was copied into the mature space.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Promotion {
    /// Bytes.
    pub bytes: u64,
    /// Objects.
    pub objects: u64,
    /// Share of the allocated bytes.
    pub share: f64,
}

/// What zeroing took. Zeroing inline in compiled code is not seen.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct ZeroingTimes {
    /// The mutator's time, in microseconds: it zeroed, or waited for memory being zeroed.
    pub mutator_us: f64,
    /// The helper thread's time, in microseconds.
    pub concurrent_us: f64,
    /// The mutator's time as a share of the wall time.
    pub mutator_share: f64,
}

/// What was marked beside the mutator.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct MarkingTimes {
    /// The helper thread's time, in microseconds.
    pub concurrent_us: f64,
}

/// The most memory there was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct MemoryPeaks {
    /// The most memory that the heap held from the operating system after a collection or at the end.
    pub peak_committed_bytes: u64,
    /// The most physical memory of the process. `None` (`null`) where the system does not tell.
    pub peak_resident_bytes: Option<u64>,
}

/// How long the program ran, in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Times {
    /// By the clock on the wall.
    pub wall_s: f64,
    /// Processor time of the process outside the kernel, all threads together.
    pub user_cpu_s: f64,
    /// Processor time of the process in the kernel.
    pub system_cpu_s: f64,
}

impl Cycles {
    /// The same in words; `None` if there was none.
    pub(crate) fn describe(&self) -> Option<String> {
        let Cycles { total, slices, shrunk_gaps, missed_deadlines } = self;
        let [total, slices, shrunk_gaps, missed_deadlines] =
            [total, slices, shrunk_gaps, missed_deadlines].map(|number| count(*number));
        (self.slices > 0).then(|| {
            format!("{total} in {slices} slices, shrunk gaps {shrunk_gaps}, missed deadlines {missed_deadlines}")
        })
    }
}

/// A table for people; for programs there is JSON.
impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |counts: &BTreeMap<String, u64>| {
            counts.iter().map(|(name, number)| format!("{name} {}", count(*number))).collect::<Vec<_>>().join(", ")
        };
        let Collections { total, by_kind, by_cause } = &self.collections;
        write!(f, "collections  {}", count(*total))?;
        if *total > 0 {
            write!(f, " ({}; because of {})", list(by_kind), list(by_cause))?;
        }
        writeln!(f)?;
        if let Some(cycles) = self.cycles.describe() {
            writeln!(f, "cycles       {cycles}")?;
        }
        let time_us = |us: f64| time(Duration::from_secs_f64(us / 1e6));
        let heads = ["count", "mean", "p50", "p90", "p99", "p99.9", "max", "total"];
        write!(f, "{:<17}", "pauses")?;
        for head in heads {
            write!(f, " {head:>10}")?;
        }
        writeln!(f)?;
        let kinds = self.pauses.by_kind.iter().map(|(name, pauses)| (name.as_str(), pauses));
        for (name, pauses) in kinds.chain([("all", &self.pauses.all)]) {
            for (name, count, times) in [(name, count(pauses.count), pauses.wall), ("  CPU", "".into(), pauses.cpu)] {
                write!(f, "  {name:<15} {count:>10}")?;
                let Distribution { total_us, mean_us, p50_us, p90_us, p99_us, p99_9_us, max_us } = times;
                for us in [mean_us, p50_us, p90_us, p99_us, p99_9_us, max_us, total_us] {
                    write!(f, " {:>10}", time_us(us))?;
                }
                writeln!(f)?;
            }
        }
        let points = |utilisation: fn(&Utilisation) -> Option<f64>| {
            let shown = |point| utilisation(point).map_or("-".to_string(), percent);
            let points = self.mmu.iter().map(|point| format!("{} ms {}", point.window_ms, shown(point)));
            points.collect::<Vec<_>>().join(", ")
        };
        writeln!(f, "MMU          {}", points(|point| point.utilisation))?;
        writeln!(f, "  CPU        {}", points(|point| point.cpu_utilisation))?;
        let phases = self.phases_us.iter().filter(|(_, us)| **us > 0.0);
        let phases = phases.map(|(name, us)| format!("{name} {}", time_us(*us)));
        if *total > 0 {
            writeln!(f, "phases       {}", phases.collect::<Vec<_>>().join(", "))?;
        }
        writeln!(f, "GC           {} of the time", percent(self.gc_share))?;
        let Allocation { bytes: allocated, bytes_per_second } = self.allocation;
        writeln!(f, "allocated    {} ({})", bytes(allocated), rate(bytes_per_second))?;
        let Promotion { bytes: promoted, objects, share } = self.promotion;
        writeln!(f, "promoted     {} ({} objects, {})", bytes(promoted), count(objects), percent(share))?;
        let ZeroingTimes { mutator_us, concurrent_us, mutator_share } = self.zeroing;
        let (mutator, helper) = (time_us(mutator_us), time_us(concurrent_us));
        writeln!(f, "zeroing      mutator {mutator} ({}), helper thread {helper}", percent(mutator_share))?;
        if self.marking.concurrent_us > 0.0 {
            writeln!(f, "marking      helper thread {}", time_us(self.marking.concurrent_us))?;
        }
        let resident = self.memory.peak_resident_bytes.map_or("unknown".to_string(), bytes);
        writeln!(f, "memory       heap {}, process {resident}", bytes(self.memory.peak_committed_bytes))?;
        for (name, value) in self.heap.iter().flat_map(crate::arrays::describe) {
            writeln!(f, "{name:<12} {value}")?;
        }
        let Times { wall_s, user_cpu_s, system_cpu_s } = self.time;
        write!(f, "time         {wall_s:.3} s, user {user_cpu_s:.3} s, system {system_cpu_s:.3} s")
    }
}
