//! Timing the stops of the mutator and the slices of collections, and telling the observer of them.

use crate::core::Core;
use crate::observer::{CollectionKind, CycleTotals, GcEvent, GcSlice, GcStop, Phase, StopKind};
use crate::os::thread_time;
use crate::references::ReferenceModel;
use std::time::{Duration, Instant};

/// A slice of a collection under way.
pub(crate) struct Slice {
    phase: Phase,
    pub(crate) start: Instant,
    /// The thread's time at its start; `None` where nobody asks.
    cpu: Option<Duration>,
}

/// A stop of the mutator under way.
pub(crate) struct Stop {
    pub(crate) start: Instant,
    /// The thread's time at its start; `None` where nobody asks.
    cpu: Option<Duration>,
}

/// What the stops since the last full collection or cycle have come to, nursery collections apart.
#[derive(Debug, Default)]
pub(crate) struct CycleStops {
    totals: CycleTotals,
    /// When the first of them began.
    start: Option<Instant>,
    /// All pauses together.
    pause: Duration,
}

impl CycleStops {
    fn add(&mut self, kind: StopKind, start: Instant, wall: Duration) {
        let totals = &mut self.totals;
        totals.elapsed = start + wall - *self.start.get_or_insert(start);
        totals.slices += kind.is_slice() as u64;
        if kind.is_pause() {
            totals.longest_stop = totals.longest_stop.max(wall);
            self.pause += wall;
        } else {
            totals.idle += wall;
        }
        totals.shrunk_gaps += (kind == StopKind::ShrunkGap) as u64;
        totals.missed_deadline |= kind == StopKind::MissedDeadline;
    }
}

impl<M: ReferenceModel> Core<M> {
    /// The thread's time, if there is an observer to tell it.
    fn observed_time(&self) -> Option<Duration> {
        self.observer.as_ref().map(|_| thread_time())
    }

    /// Begins a stop: the mutator stands still from now on.
    pub(crate) fn start_stop(&self) -> Stop {
        Stop { start: Instant::now(), cpu: self.observed_time() }
    }

    /// Ends a stop, counts it, and tells the observer of it and of the slices in it; returns how long it took. The
    /// observer is foreign code: where it panics, nothing is half done.
    pub(crate) fn end_stop(&mut self, stop: Stop, kind: StopKind) -> Duration {
        let wall = stop.start.elapsed();
        let stats = &mut self.stats;
        let us = wall.as_micros() as u64;
        if kind.is_pause() {
            stats.pause_total_us += us;
            stats.longest_stop_us = stats.longest_stop_us.max(us);
        } else {
            stats.idle_us += us;
        }
        stats.slices += kind.is_slice() as u64;
        stats.shrunk_gaps += (kind == StopKind::ShrunkGap) as u64;
        stats.missed_deadlines += (kind == StopKind::MissedDeadline) as u64;
        if kind != StopKind::Nursery {
            self.cycle_stops.add(kind, stop.start, wall);
        }
        if let (Some(observer), Some(cpu)) = (&mut self.observer, stop.cpu) {
            let cpu = thread_time().saturating_sub(cpu);
            let mut slices = std::mem::take(&mut self.slices);
            slices.drain(..).for_each(|slice| observer.slice(&slice));
            self.slices = slices;
            observer.stop(&GcStop { start: stop.start.duration_since(self.made), wall, cpu, kind });
        }
        wall
    }

    /// Begins a slice of a collection.
    pub(crate) fn start_slice(&self, phase: Phase) -> Slice {
        Slice { phase, start: Instant::now(), cpu: self.observed_time() }
    }

    /// Ends a slice, which the observer is told of at the end of the stop; returns how long it took.
    pub(crate) fn end_slice(&mut self, slice: Slice) -> Duration {
        let Slice { phase, start, cpu } = slice;
        let wall = start.elapsed();
        if let Some(cpu) = cpu {
            let cpu = thread_time().saturating_sub(cpu);
            self.slices.push(GcSlice { phase, start: start.duration_since(self.made), wall, cpu });
        }
        wall
    }

    /// Counts a finished collection, whose last stop has ended, and tells the observer of it. The number of `event` is
    /// set here, and what the machine says of memory; of a cycle, ended or broken off by a full collection, also what
    /// its stops say: start, pause, totals.
    pub(crate) fn report(&mut self, mut event: GcEvent) {
        let stats = &mut self.stats;
        stats.collections += 1;
        event.number = stats.collections;
        event.pressure = self.pacer.take_reading(event.kind);
        stats.full_collections += (event.kind == CollectionKind::Full) as u64;
        stats.cycles += (event.kind == CollectionKind::Cycle) as u64;
        stats.moved_objects += event.moved_objects;
        stats.moved_bytes += event.moved_bytes;
        if event.kind != CollectionKind::Nursery {
            let CycleStops { totals, start, pause } = std::mem::take(&mut self.cycle_stops);
            if let (Some(start), true) = (start, totals.slices > 0) {
                event.start = start.duration_since(self.made);
                (event.cycle, event.pause) = (Some(totals), pause);
            }
        }
        if let Some(observer) = &mut self.observer {
            observer.event(&event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::{Cause, GcObserver, PhaseTimes};
    use crate::references::direct::Direct;
    use crate::{HeapConfig, TypeTable};
    use std::sync::{Arc, Mutex};

    /// What an observer is told.
    #[derive(Default)]
    struct Told {
        stops: Vec<GcStop>,
        events: Vec<GcEvent>,
    }

    struct Notes(Arc<Mutex<Told>>);

    impl GcObserver for Notes {
        fn event(&mut self, event: &GcEvent) {
            self.0.lock().unwrap().events.push(*event);
        }

        fn stop(&mut self, stop: &GcStop) {
            self.0.lock().unwrap().stops.push(*stop);
        }
    }

    fn event(kind: CollectionKind) -> GcEvent {
        GcEvent {
            number: 0,
            cause: Cause::Limit,
            kind,
            start: Duration::ZERO,
            before_bytes: 0,
            after_bytes: 0,
            limit_bytes: 0,
            allocated_bytes: 0,
            committed_bytes: 0,
            pause: Duration::ZERO,
            cycle: None,
            phases: PhaseTimes::default(),
            zeroing: Duration::ZERO,
            concurrent_zeroing: Duration::ZERO,
            concurrent_marking: Duration::ZERO,
            marked_objects: 0,
            promoted_bytes: 0,
            promoted_objects: 0,
            moved_objects: 0,
            moved_bytes: 0,
            aging_bytes: 0,
            freed_handles: 0,
            dropped_externals: 0,
            pressure: None,
        }
    }

    /// Makes a stop of at least so many microseconds.
    fn stop(core: &mut Core<Direct>, kind: StopKind, us: u64) -> Duration {
        let stop = core.start_stop();
        while stop.start.elapsed() < Duration::from_micros(us) {}
        core.end_stop(stop, kind)
    }

    #[test]
    fn a_cycle_is_the_sum_of_its_stops() {
        use StopKind::{Full, Idle, MissedDeadline, Nursery, ShrunkGap, Slice};
        let mut core = Core::<Direct>::new(&HeapConfig::default(), TypeTable::new().unwrap()).unwrap();
        let told = Arc::<Mutex<Told>>::default();
        core.observer = Some(Box::new(Notes(told.clone())));
        // What belongs to none: a full collection.
        stop(&mut core, Full, 3000);
        core.report(event(CollectionKind::Full));
        assert_eq!(told.lock().unwrap().events[0].cycle, None);
        let mut pauses = Vec::new();
        let (ended, broken_off) = (CollectionKind::Cycle, CollectionKind::Full);
        for (kind, kinds, slices, shrunk_gaps, missed_deadline) in [
            (ended, &[Slice, Nursery, Slice][..], 2, 0, false),
            (ended, &[Slice, ShrunkGap, ShrunkGap, Nursery, MissedDeadline], 4, 2, true),
            (ended, &[Slice, Full], 1, 0, false),
            (ended, &[Slice, Idle, Nursery, Idle], 3, 0, false),
            (ended, &[Idle, Idle], 2, 0, false),
            (broken_off, &[Slice, ShrunkGap, MissedDeadline], 3, 1, true),
        ] {
            let mut own = Vec::new();
            let before = core.made.elapsed();
            for (index, &kind) in kinds.iter().enumerate() {
                let wall = stop(&mut core, kind, 20 * (1 + index as u64));
                pauses.push(wall);
                if kind == Nursery {
                    core.report(event(CollectionKind::Nursery));
                } else {
                    own.push((kind, wall));
                }
            }
            core.report(event(kind));
            let cycle = *told.lock().unwrap().events.last().unwrap();
            let [paused, given] = [true, false]
                .map(|is_pause| own.iter().filter(move |(kind, _)| (*kind != Idle) == is_pause).map(|(_, wall)| *wall));
            let longest_stop = paused.clone().max().unwrap_or_default();
            let idle = given.sum();
            let elapsed = cycle.end() - cycle.start;
            let totals = CycleTotals { slices, elapsed, longest_stop, idle, shrunk_gaps, missed_deadline };
            assert_eq!(cycle.cycle, Some(totals));
            assert_eq!(cycle.pause, paused.sum());
            assert!(elapsed >= pauses[pauses.len() - kinds.len()..].iter().sum(), "{cycle:?}");
            assert!(before <= cycle.start && cycle.end() <= core.made.elapsed(), "{cycle:?}");
        }
        let stats = core.stats();
        assert_eq!((stats.collections, stats.full_collections, stats.cycles), (10, 2, 5));
        assert_eq!((stats.slices, stats.shrunk_gaps, stats.missed_deadlines), (15, 3, 2));
        let stops = &told.lock().unwrap().stops;
        assert_eq!(stops.len(), 20);
        assert_eq!(stops[1..].iter().map(|stop| stop.wall).collect::<Vec<_>>(), pauses);
        let us = |stop: &GcStop| stop.wall.as_micros() as u64;
        let pauses = stops.iter().filter(|stop| stop.kind != Idle).map(us);
        assert_eq!((stats.pause_total_us, Some(stats.longest_stop_us)), (pauses.clone().sum(), pauses.max()));
        assert_eq!(stats.idle_us, stops.iter().filter(|stop| stop.kind == Idle).map(us).sum());
        assert!(stats.idle_us > 0);
        for pair in stops.windows(2) {
            assert!(pair[0].start + pair[0].wall <= pair[1].start, "{pair:?}");
        }
        // The two clocks are read one after the other.
        let slack = Duration::from_millis(20);
        assert!(stops.iter().all(|stop| stop.cpu <= stop.wall + slack), "{stops:?}");
        assert!(stops[0].cpu > Duration::ZERO || cfg!(not(unix)), "the thread was running all the time");
    }

    #[test]
    fn a_line_tells_of_a_cycle_and_its_deadline() {
        let one_stop = event(CollectionKind::Full).to_string();
        assert!(one_stop.ends_with(", pause 0.000 ms"), "{one_stop}");
        let totals = CycleTotals {
            slices: 212,
            elapsed: Duration::from_millis(500),
            longest_stop: Duration::from_micros(312),
            idle: Duration::ZERO,
            shrunk_gaps: 3,
            missed_deadline: true,
        };
        let cycle = |totals| {
            let pause = Duration::from_millis(35);
            GcEvent { pause, cycle: Some(totals), ..event(CollectionKind::Cycle) }.to_string()
        };
        let missed = cycle(totals);
        assert!(missed.starts_with("#0 cycle (limit)"), "{missed}");
        let tail = ", pause 35.000 ms in 212 slices over 500.000 ms, longest 0.312 ms, shrunk gaps 3, deadline missed";
        assert!(missed.ends_with(tail), "{missed}");
        assert!(cycle(CycleTotals { missed_deadline: false, ..totals }).ends_with(", deadline met"));
        let idle = Duration::from_micros(1500);
        assert!(cycle(CycleTotals { idle, ..totals }).ends_with(", deadline missed, idle 1.500 ms"));
    }

    #[test]
    fn phases_have_places_of_their_own() {
        let phases = [
            Phase::Evacuate,
            Phase::Roots,
            Phase::Snapshot,
            Phase::Slots,
            Phase::Mark,
            Phase::Terminate,
            Phase::Values,
            Phase::Sweep,
            Phase::Release,
        ];
        for phase in phases {
            let mut times = PhaseTimes::default();
            times.add(phase, Duration::from_millis(1));
            times.add(phase, Duration::from_millis(2));
            let spent: Vec<_> = times.named().into_iter().filter(|(_, time)| !time.is_zero()).collect();
            assert_eq!(spent, [(phase.to_string().as_str(), Duration::from_millis(3))]);
        }
    }
}
