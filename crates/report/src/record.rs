//! What a recorder remembered.

use std::collections::BTreeMap;
use std::time::Duration;

use legato_heap::{Cause, CollectionKind, GcEvent, GcSlice, GcStop, HeapStats, Phase, PhaseTimes, StopKind};

use crate::mmu::UtilisationCurve;
use crate::over_time::OverTime;
use crate::pauses::StopsByKind;
use crate::process::CpuTime;
use crate::statistics::{
    Allocation, Collections, Cycles, MarkingTimes, MemoryPeaks, PauseStatistics, PhaseSlices, Promotion, Statistics,
    Times, Utilisation, ZeroingTimes,
};

/// The windows of [`Statistics::mmu`], in milliseconds.
const MMU_WINDOWS_MS: [u64; 7] = [1, 2, 5, 10, 20, 50, 100];

/// What one kind of collection has come to.
#[derive(Clone, Debug)]
pub(crate) struct KindTotals {
    pub(crate) kind: CollectionKind,
    pub(crate) count: u64,
    /// All pauses together.
    pub(crate) pause: Duration,
    /// Sums, by name.
    pub(crate) phases: Vec<(&'static str, Duration)>,
}

/// What the slices of one phase have come to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PhaseTotals {
    pub(crate) phase: Phase,
    pub(crate) count: u64,
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    pub(crate) longest: Duration,
    /// Since the last stop.
    in_stop: Duration,
}

impl PhaseTotals {
    fn statistics(&self) -> PhaseSlices {
        let microseconds = |duration: Duration| duration.as_nanos() as f64 / 1e3;
        PhaseSlices {
            count: self.count,
            wall_us: microseconds(self.wall),
            cpu_us: microseconds(self.cpu),
            longest_us: microseconds(self.longest),
        }
    }
}

/// Sums over events, stops and slices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    kinds: Vec<KindTotals>,
    causes: Vec<(Cause, u64)>,
    phases: Vec<PhaseTotals>,
    stops: StopsByKind,
    curve: UtilisationCurve,
    /// As if the stops had taken their processor time alone.
    cpu_curve: UtilisationCurve,
    allocated_bytes: u64,
    promoted_bytes: u64,
    promoted_objects: u64,
    zeroing: Duration,
    concurrent_zeroing: Duration,
    concurrent_marking: Duration,
    peak_committed_bytes: u64,
    /// What happened when, if that is kept.
    over_time: Option<OverTime>,
}

impl Totals {
    /// Nothing yet. What happened when is kept in `over_time`, if it is there.
    pub(crate) fn new(over_time: Option<OverTime>) -> Totals {
        Totals { over_time, ..Totals::default() }
    }

    pub(crate) fn add(&mut self, event: &GcEvent) {
        let kind = match self.kinds.iter_mut().find(|totals| totals.kind == event.kind) {
            Some(kind) => kind,
            None => {
                let phases = PhaseTimes::default().named().to_vec();
                self.kinds.push(KindTotals { kind: event.kind, count: 0, pause: Duration::ZERO, phases });
                // Young before full, whichever came first.
                self.kinds.sort_by_key(|totals| totals.kind as u8);
                return self.add(event);
            }
        };
        kind.count += 1;
        kind.pause += event.pause;
        for ((_, sum), (_, phase)) in kind.phases.iter_mut().zip(event.phases.named()) {
            *sum += phase;
        }
        match self.causes.iter_mut().find(|(cause, _)| *cause == event.cause) {
            Some((_, count)) => *count += 1,
            None => self.causes.push((event.cause, 1)),
        }
        self.allocated_bytes += event.allocated_bytes;
        self.promoted_bytes += event.promoted_bytes;
        self.promoted_objects += event.promoted_objects;
        self.zeroing += event.zeroing;
        self.concurrent_zeroing += event.concurrent_zeroing;
        self.concurrent_marking += event.concurrent_marking;
        self.peak_committed_bytes = self.peak_committed_bytes.max(event.committed_bytes);
        if let Some(over_time) = &mut self.over_time {
            over_time.event(event);
        }
    }

    pub(crate) fn add_stop(&mut self, stop: &GcStop) {
        self.stops.record(stop);
        if stop.kind.is_pause() {
            self.curve.push(stop.start, stop.wall);
            self.cpu_curve.push(stop.start, stop.cpu);
        }
        let longest = self.phases.iter().max_by_key(|totals| totals.in_stop).filter(|totals| !totals.in_stop.is_zero());
        let most = longest.map(|totals| (totals.phase, totals.in_stop));
        self.phases.iter_mut().for_each(|totals| totals.in_stop = Duration::ZERO);
        if let Some(over_time) = &mut self.over_time {
            over_time.stop(stop, most);
        }
    }

    pub(crate) fn add_slice(&mut self, slice: &GcSlice) {
        let totals = match self.phases.iter_mut().find(|totals| totals.phase == slice.phase) {
            Some(totals) => totals,
            None => {
                let (phase, none) = (slice.phase, Duration::ZERO);
                self.phases.push(PhaseTotals { phase, count: 0, wall: none, cpu: none, longest: none, in_stop: none });
                return self.add_slice(slice);
            }
        };
        totals.count += 1;
        totals.wall += slice.wall;
        totals.cpu += slice.cpu;
        totals.longest = totals.longest.max(slice.wall);
        totals.in_stop += slice.wall;
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
        let wall = wall.max(totals.curve.end());
        Record { totals, wall, cpu, peak_resident_bytes }
    }

    /// How long the recorder had been there.
    pub fn wall(&self) -> Duration {
        self.wall
    }

    /// Collections, oldest first; `None` if the recorder did not keep them. Of more than 16,384, those that stand out:
    /// in each part of the time the first, the last, the longest, that with the largest heap before and that with the
    /// smallest after.
    pub fn events(&self) -> Option<&[GcEvent]> {
        self.totals.over_time.as_ref().map(|over_time| over_time.events.as_slice())
    }

    /// The share that was left to the mutator.
    pub fn utilisation(&self) -> &UtilisationCurve {
        &self.totals.curve
    }

    /// The share that would have been left to the mutator if each stop had taken its processor time alone; `None` where
    /// the system does not tell.
    pub(crate) fn cpu_utilisation(&self) -> Option<&UtilisationCurve> {
        let curve = &self.totals.cpu_curve;
        let is_told = !curve.stopped().is_zero() || self.totals.curve.stopped().is_zero();
        is_told.then_some(curve)
    }

    /// Bytes handed out for allocation, up to the last collection.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.totals.allocated_bytes
    }

    pub(crate) fn kinds(&self) -> &[KindTotals] {
        &self.totals.kinds
    }

    pub(crate) fn phases(&self) -> &[PhaseTotals] {
        &self.totals.phases
    }

    pub(crate) fn stops(&self) -> &StopsByKind {
        &self.totals.stops
    }

    pub(crate) fn over_time(&self) -> Option<&OverTime> {
        self.totals.over_time.as_ref()
    }

    fn utilisation_in(&self, window_ms: u64) -> Utilisation {
        let least = |curve: &UtilisationCurve| curve.minimum_utilisation(Duration::from_millis(window_ms), self.wall);
        let cpu_utilisation = self.cpu_utilisation().and_then(least);
        Utilisation { window_ms, utilisation: least(self.utilisation()), cpu_utilisation }
    }

    fn cycles(&self) -> Cycles {
        let Totals { kinds, stops, .. } = &self.totals;
        Cycles {
            total: kinds.iter().filter(|kind| kind.kind == CollectionKind::Cycle).map(|kind| kind.count).sum(),
            slices: StopKind::ALL.into_iter().filter(|kind| kind.is_slice()).map(|kind| stops.count(kind)).sum(),
            shrunk_gaps: stops.count(StopKind::ShrunkGap),
            missed_deadlines: stops.count(StopKind::MissedDeadline),
        }
    }

    /// The figures. The heap's own totals, if given, count what happened since the last collection too.
    pub fn statistics(&self, heap: Option<HeapStats>) -> Statistics {
        let totals = &self.totals;
        let microseconds = |duration: Duration| duration.as_nanos() as f64 / 1e3;
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let wall_s = self.wall.as_secs_f64();
        let allocated = totals.allocated_bytes.max(heap.map_or(0, |heap| heap.allocated_bytes));
        let mutator_us = microseconds(totals.zeroing).max(heap.map_or(0.0, |heap| heap.zeroing_us as f64));
        let concurrent_us =
            microseconds(totals.concurrent_zeroing).max(heap.map_or(0.0, |heap| heap.concurrent_zeroing_us as f64));
        let marking_us =
            microseconds(totals.concurrent_marking).max(heap.map_or(0.0, |heap| heap.concurrent_marking_us as f64));
        let mut phases_us = BTreeMap::new();
        for (name, duration) in totals.kinds.iter().flat_map(|kind| &kind.phases) {
            *phases_us.entry(name.to_string()).or_insert(0.0) += microseconds(*duration);
        }
        let stops = totals.stops.kinds().iter();
        Statistics {
            collections: Collections {
                total: totals.kinds.iter().map(|kind| kind.count).sum(),
                by_kind: totals.kinds.iter().map(|kind| (kind.kind.to_string(), kind.count)).collect(),
                by_cause: totals.causes.iter().map(|(cause, count)| (cause.to_string(), *count)).collect(),
            },
            cycles: self.cycles(),
            pauses: PauseStatistics {
                all: totals.stops.all().statistics(),
                by_kind: stops.map(|(kind, stops)| (kind.to_string(), stops.statistics())).collect(),
            },
            phases_us,
            phase_slices: totals.phases.iter().map(|phase| (phase.phase.to_string(), phase.statistics())).collect(),
            mmu: MMU_WINDOWS_MS.map(|window_ms| self.utilisation_in(window_ms)).to_vec(),
            gc_share: share(totals.curve.stopped().as_secs_f64(), wall_s),
            allocation: Allocation { bytes: allocated, bytes_per_second: share(allocated as f64, wall_s) },
            promotion: Promotion {
                bytes: totals.promoted_bytes,
                objects: totals.promoted_objects,
                share: share(totals.promoted_bytes as f64, allocated as f64),
            },
            zeroing: ZeroingTimes { mutator_us, concurrent_us, mutator_share: share(mutator_us / 1e6, wall_s) },
            marking: MarkingTimes { concurrent_us: marking_us },
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::MOST_COLUMNS;
    use crate::over_time::MOST_EVENTS;
    use crate::statistics::Distribution;

    /// What is kept of everything: pieces of windows, columns, collections. Histograms have a fixed size for each kind.
    fn entries(totals: &Totals) -> (usize, usize) {
        let over_time = totals.over_time.as_ref().unwrap();
        let kept = over_time.moments.iter().count() + over_time.events.len() + over_time.longest().len();
        let (pieces, bound) = totals.curve.pieces();
        let (cpu_pieces, cpu_bound) = totals.cpu_curve.pieces();
        (pieces + cpu_pieces + kept, bound + cpu_bound + MOST_COLUMNS + MOST_EVENTS + 20)
    }

    #[test]
    fn ten_million_stops_take_no_more_memory_than_a_few() {
        let mut totals = Totals::new(Some(OverTime::new()));
        let mut before = 0;
        for number in 0..10_000_000u64 {
            // 10 us in each 30 us, and once 2 ms.
            let wall = Duration::from_micros(if number == 5_000_000 { 2_000 } else { 10 });
            let start = Duration::from_micros(30 * number);
            totals.add_slice(&GcSlice { phase: Phase::Mark, start, wall, cpu: wall });
            totals.add_stop(&GcStop { start, wall, cpu: wall / 2, kind: StopKind::Slice });
            if number == 1_000_000 {
                before = entries(&totals).0;
            }
        }
        let (kept, bound) = entries(&totals);
        // The longest windows were not full yet.
        assert!(before > 10_000 && kept < 3 * before && kept <= bound, "{before}, then {kept} of {bound}");
        let record = Record::new(totals, Duration::ZERO, CpuTime::now(), None);
        let statistics = record.statistics(None);
        let Distribution { p99_9_us, max_us, .. } = statistics.pauses.all.wall;
        assert!((p99_9_us / 10.0 - 1.0).abs() < 1e-3 && max_us == 2000.0, "{statistics:?}");
        assert_eq!((statistics.cycles.slices, statistics.phase_slices["mark"].count), (10_000_000, 10_000_000));
        let utilisation = |ms| record.utilisation().minimum_utilisation(Duration::from_millis(ms), record.wall());
        assert_eq!((utilisation(1), utilisation(2)), (Some(0.0), Some(0.0)));
        // Of 20 ms, those 2 and a third of the rest.
        assert!((utilisation(20).unwrap() - 0.6).abs() < 2e-3 && utilisation(20).unwrap() <= 0.6);
        assert!((utilisation(100_000).unwrap() - 2.0 / 3.0).abs() < 2e-3);
    }
}
