//! What a recorder remembered.

use std::collections::BTreeMap;
use std::time::Duration;

use legato_heap::{Cause, CollectionKind, GcEvent, HeapStats, PhaseTimes};

use crate::mmu::PauseTimeline;
use crate::pauses::PauseHistogram;
use crate::process::CpuTime;
use crate::statistics::{
    Allocation, Collections, MemoryPeaks, PauseStatistics, Promotion, Statistics, Times, Utilisation, ZeroingTimes,
};

/// The windows of [`Statistics::mmu`], in milliseconds.
const MMU_WINDOWS_MS: [u64; 7] = [1, 2, 5, 10, 20, 50, 100];

/// What one kind of collection has come to.
#[derive(Clone, Debug)]
pub(crate) struct KindTotals {
    pub(crate) kind: CollectionKind,
    pub(crate) pauses: PauseHistogram,
    /// Sums, by name.
    pub(crate) phases: Vec<(&'static str, Duration)>,
}

/// Sums over events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    kinds: Vec<KindTotals>,
    causes: Vec<(Cause, u64)>,
    timeline: PauseTimeline,
    allocated_bytes: u64,
    promoted_bytes: u64,
    promoted_objects: u64,
    zeroing: Duration,
    concurrent_zeroing: Duration,
    peak_committed_bytes: u64,
    /// Every event, if they are kept.
    events: Option<Vec<GcEvent>>,
}

impl Totals {
    /// Nothing yet. Events are kept in `events`, if it is there.
    pub(crate) fn new(events: Option<Vec<GcEvent>>) -> Totals {
        Totals { events, ..Totals::default() }
    }

    pub(crate) fn add(&mut self, event: &GcEvent) {
        let kind = match self.kinds.iter_mut().find(|totals| totals.kind == event.kind) {
            Some(kind) => kind,
            None => {
                let phases = PhaseTimes::default().named().to_vec();
                self.kinds.push(KindTotals { kind: event.kind, pauses: PauseHistogram::new(), phases });
                // Young before full, whichever came first.
                self.kinds.sort_by_key(|totals| totals.kind as u8);
                return self.add(event);
            }
        };
        kind.pauses.record(event.pause);
        for ((_, sum), (_, phase)) in kind.phases.iter_mut().zip(event.phases.named()) {
            *sum += phase;
        }
        match self.causes.iter_mut().find(|(cause, _)| *cause == event.cause) {
            Some((_, count)) => *count += 1,
            None => self.causes.push((event.cause, 1)),
        }
        self.timeline.push(event.start, event.pause);
        self.allocated_bytes += event.allocated_bytes;
        self.promoted_bytes += event.promoted_bytes;
        self.promoted_objects += event.promoted_objects;
        self.zeroing += event.zeroing;
        self.concurrent_zeroing += event.concurrent_zeroing;
        self.peak_committed_bytes = self.peak_committed_bytes.max(event.committed_bytes);
        if let Some(events) = &mut self.events {
            events.push(*event);
        }
    }
}

/// What a [`GcRecorder`](crate::GcRecorder) remembered, up to the moment when it was asked.
#[derive(Clone, Debug)]
pub struct Record {
    totals: Totals,
    wall: Duration,
    cpu: CpuTime,
    peak_resident_bytes: Option<u64>,
}

impl Record {
    pub(crate) fn new(totals: Totals, wall: Duration, cpu: CpuTime, peak_resident_bytes: Option<u64>) -> Record {
        // The heap may have been made a little before the recorder.
        let wall = wall.max(totals.timeline.end());
        Record { totals, wall, cpu, peak_resident_bytes }
    }

    /// How long the recorder had been there.
    pub fn wall(&self) -> Duration {
        self.wall
    }

    /// Every collection, oldest first; `None` if the recorder did not keep them.
    pub fn events(&self) -> Option<&[GcEvent]> {
        self.totals.events.as_deref()
    }

    /// When the mutator stood still.
    pub fn timeline(&self) -> &PauseTimeline {
        &self.totals.timeline
    }

    pub(crate) fn kinds(&self) -> &[KindTotals] {
        &self.totals.kinds
    }

    /// The pauses of all kinds.
    pub(crate) fn all_pauses(&self) -> PauseHistogram {
        let mut all = PauseHistogram::new();
        for kind in &self.totals.kinds {
            all.add(&kind.pauses);
        }
        all
    }

    /// The figures. The heap's own totals, if given, count what happened since the last collection too.
    pub fn statistics(&self, heap: Option<HeapStats>) -> Statistics {
        let totals = &self.totals;
        let microseconds = |duration: Duration| duration.as_nanos() as f64 / 1e3;
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let wall_s = self.wall.as_secs_f64();
        let all = self.all_pauses().statistics();
        let allocated = totals.allocated_bytes.max(heap.map_or(0, |heap| heap.allocated_bytes));
        let mutator_us = microseconds(totals.zeroing).max(heap.map_or(0.0, |heap| heap.zeroing_us as f64));
        let concurrent_us =
            microseconds(totals.concurrent_zeroing).max(heap.map_or(0.0, |heap| heap.concurrent_zeroing_us as f64));
        let mut phases_us = BTreeMap::new();
        for (name, duration) in totals.kinds.iter().flat_map(|kind| &kind.phases) {
            *phases_us.entry(name.to_string()).or_insert(0.0) += microseconds(*duration);
        }
        Statistics {
            collections: Collections {
                total: all.count,
                by_kind: totals.kinds.iter().map(|kind| (kind.kind.to_string(), kind.pauses.count())).collect(),
                by_cause: totals.causes.iter().map(|(cause, count)| (cause.to_string(), *count)).collect(),
            },
            pauses: PauseStatistics {
                all,
                by_kind: totals.kinds.iter().map(|kind| (kind.kind.to_string(), kind.pauses.statistics())).collect(),
            },
            phases_us,
            mmu: MMU_WINDOWS_MS
                .map(|window_ms| Utilisation {
                    window_ms,
                    utilisation: totals.timeline.minimum_utilisation(Duration::from_millis(window_ms), self.wall),
                })
                .to_vec(),
            gc_share: share(totals.timeline.paused().as_secs_f64(), wall_s),
            allocation: Allocation { bytes: allocated, bytes_per_second: share(allocated as f64, wall_s) },
            promotion: Promotion {
                bytes: totals.promoted_bytes,
                objects: totals.promoted_objects,
                share: share(totals.promoted_bytes as f64, allocated as f64),
            },
            zeroing: ZeroingTimes { mutator_us, concurrent_us, mutator_share: share(mutator_us / 1e6, wall_s) },
            memory: MemoryPeaks {
                peak_committed_bytes: totals.peak_committed_bytes.max(heap.map_or(0, |heap| heap.committed_bytes)),
                peak_resident_bytes: self.peak_resident_bytes,
            },
            time: Times {
                wall_s,
                user_cpu_s: self.cpu.user.as_secs_f64(),
                system_cpu_s: self.cpu.system.as_secs_f64(),
            },
            heap,
        }
    }
}
