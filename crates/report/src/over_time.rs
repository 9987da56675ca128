//! What the charts over time are drawn from, in bounded memory.

use std::collections::BTreeSet;
use std::time::Duration;

use legato_heap::{GcEvent, GcStop, Phase, StopKind};

use crate::columns::{Columns, Merge};

/// Collections are all kept up to this number.
pub(crate) const MOST_EVENTS: usize = 16_384;
/// Of more, those that stand out in each of so many parts of the time.
const PARTS: u32 = 1024;
/// How many of the longest stops are kept.
const LONGEST: usize = 20;

/// Stops of one kind in a column.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) count: u64,
    pub(crate) least: Duration,
    pub(crate) most: Duration,
}

/// What happened in a column.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moment {
    /// Stops that began in it, in the order of [`StopKind::ALL`].
    pub(crate) stops: [Span; StopKind::ALL.len()],
    /// Collections that ended in it.
    pub(crate) collections: u64,
    /// Of these, the greatest size before one, and the least after one.
    pub(crate) before_bytes: u64,
    pub(crate) after_bytes: u64,
    /// Of the last of these.
    pub(crate) limit_bytes: u64,
    pub(crate) committed_bytes: u64,
    /// Handed out in it, in bytes.
    pub(crate) allocated: f64,
    /// Times in seconds.
    pub(crate) zeroing: f64,
    pub(crate) concurrent_zeroing: f64,
}

impl Merge for Span {
    fn merge(&mut self, next: Span) {
        if self.count == 0 {
            *self = next;
        } else if next.count > 0 {
            self.count += next.count;
            self.least = self.least.min(next.least);
            self.most = self.most.max(next.most);
        }
    }
}

impl Merge for Moment {
    fn merge(&mut self, next: Moment) {
        for (span, next) in self.stops.iter_mut().zip(next.stops) {
            span.merge(next);
        }
        self.allocated += next.allocated;
        self.zeroing += next.zeroing;
        self.concurrent_zeroing += next.concurrent_zeroing;
        if next.collections > 0 {
            self.after_bytes =
                if self.collections == 0 { next.after_bytes } else { self.after_bytes.min(next.after_bytes) };
            self.before_bytes = self.before_bytes.max(next.before_bytes);
            (self.limit_bytes, self.committed_bytes) = (next.limit_bytes, next.committed_bytes);
            self.collections += next.collections;
        }
    }
}

/// A stop, and what it was about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongStop {
    pub(crate) stop: GcStop,
    /// What most of it was spent on, and how long.
    pub(crate) most: Option<(Phase, Duration)>,
    /// The collection that ended with it.
    pub(crate) event: Option<GcEvent>,
}

/// What happened when.
#[derive(Clone, Debug)]
pub(crate) struct OverTime {
    pub(crate) moments: Columns<Moment>,
    pub(crate) events: Vec<GcEvent>,
    longest: Vec<LongStop>,
    /// The last stop, if it was a pause, as long as its event may come.
    last: Option<LongStop>,
    /// When the last collection ended.
    last_end: Duration,
}

impl OverTime {
    pub(crate) fn new() -> OverTime {
        OverTime {
            moments: Columns::new(),
            events: Vec::new(),
            longest: Vec::new(),
            last: None,
            last_end: Duration::ZERO,
        }
    }

    /// Adds a stop, with what most of it was spent on.
    pub(crate) fn stop(&mut self, stop: &GcStop, most: Option<(Phase, Duration)>) {
        let span = Span { count: 1, least: stop.wall, most: stop.wall };
        self.moments.at(stop.start).stops[stop.kind as usize].merge(span);
        let pause = stop.kind.is_pause().then_some(LongStop { stop: *stop, most, event: None });
        if let Some(last) = std::mem::replace(&mut self.last, pause) {
            keep(&mut self.longest, last);
        }
    }

    pub(crate) fn event(&mut self, event: &GcEvent) {
        if let Some(last) = &mut self.last
            && last.event.is_none()
        {
            last.event = Some(*event);
        }
        let end = event.end();
        // During a cycle the mutator allocates.
        let until = if event.cycle.is_some() { end } else { event.start };
        self.moments.spread(self.last_end, until, |moment, share| {
            moment.allocated += event.allocated_bytes as f64 * share;
            moment.zeroing += event.zeroing.as_secs_f64() * share;
            moment.concurrent_zeroing += event.concurrent_zeroing.as_secs_f64() * share;
        });
        self.last_end = self.last_end.max(end);
        self.moments.at(end).merge(Moment {
            collections: 1,
            before_bytes: event.before_bytes,
            after_bytes: event.after_bytes,
            limit_bytes: event.limit_bytes,
            committed_bytes: event.committed_bytes,
            ..Moment::default()
        });
        self.events.push(*event);
        if self.events.len() > MOST_EVENTS {
            thin(&mut self.events);
        }
    }

    /// The longest stops, the longest first.
    pub(crate) fn longest(&self) -> Vec<LongStop> {
        let mut longest = self.longest.clone();
        longest.extend(self.last);
        longest.sort_by_key(|long| (std::cmp::Reverse(long.stop.wall), long.stop.start));
        longest.truncate(LONGEST);
        longest
    }
}

fn keep(longest: &mut Vec<LongStop>, stop: LongStop) {
    if longest.len() < LONGEST {
        longest.push(stop);
    } else if let Some(least) = longest.iter_mut().min_by_key(|long| long.stop.wall)
        && least.stop.wall < stop.stop.wall
    {
        *least = stop;
    }
}

/// Leaves of the collections in each part of the time the first and the last, the one with the longest pause, the
/// largest heap before and the smallest after: a chart of them looks as one of all.
fn thin(events: &mut Vec<GcEvent>) {
    let Some(last) = events.last() else { return };
    let width = (last.end() / PARTS).as_nanos().max(1);
    let part = |event: &GcEvent| event.end().as_nanos() / width;
    let mut kept = BTreeSet::new();
    let mut first = 0;
    for group in events.chunk_by(|a, b| part(a) == part(b)) {
        let numbered = || group.iter().zip(first..);
        let standing_out = [
            numbered().max_by_key(|(event, _)| event.pause),
            numbered().max_by_key(|(event, _)| event.before_bytes),
            numbered().min_by_key(|(event, _)| event.after_bytes),
        ];
        kept.extend(standing_out.into_iter().flatten().map(|(_, index)| index));
        kept.extend([first, first + group.len() - 1]);
        first += group.len();
    }
    *events = kept.into_iter().map(|index| events[index]).collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use legato_heap::{Cause, CollectionKind, PhaseTimes};

    /// A collection of 1 ms in each 10 ms; its pause, size before and size after are given.
    fn event(number: u64, pause_us: u64, before_bytes: u64, after_bytes: u64) -> GcEvent {
        GcEvent {
            number,
            cause: Cause::Nursery,
            kind: CollectionKind::Nursery,
            start: Duration::from_millis(10 * number),
            before_bytes,
            after_bytes,
            limit_bytes: 1000,
            allocated_bytes: 10,
            committed_bytes: 2000,
            pause: Duration::from_micros(pause_us),
            cycle: None,
            phases: PhaseTimes::default(),
            zeroing: Duration::from_millis(1),
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

    #[test]
    fn of_many_collections_those_stay_that_stand_out() {
        let mut over_time = OverTime::new();
        let last = 300_000;
        for number in 1..=last {
            let event = match number {
                77_777 => event(number, 9_000, 500, 100),
                88_888 => event(number, 1_000, 900, 100),
                99_999 => event(number, 1_000, 500, 3),
                _ => event(number, 1_000, 500, 100),
            };
            over_time.event(&event);
            assert!(over_time.events.len() <= MOST_EVENTS);
        }
        let numbers: Vec<_> = over_time.events.iter().map(|event| event.number).collect();
        assert!(numbers.is_sorted() && numbers.len() > PARTS as usize);
        for number in [1, 77_777, 88_888, 99_999, last] {
            assert!(numbers.binary_search(&number).is_ok(), "collection {number} is lost");
        }
        let moments: Vec<_> = over_time.moments.iter().map(|(.., moment)| moment).collect();
        assert_eq!(moments.iter().map(|moment| moment.collections).sum::<u64>(), last);
        let sum = |amount: fn(&Moment) -> f64| moments.iter().map(|moment| amount(moment)).sum::<f64>();
        assert!((sum(|moment| moment.allocated) / (10.0 * last as f64) - 1.0).abs() < 1e-9);
        assert!((sum(|moment| moment.zeroing) / (1e-3 * last as f64) - 1.0).abs() < 1e-9);
        assert_eq!(moments.iter().map(|moment| moment.before_bytes).max(), Some(900));
        let after = moments.iter().filter(|moment| moment.collections > 0).map(|moment| moment.after_bytes);
        assert_eq!(after.min(), Some(3));
    }

    #[test]
    fn few_collections_are_all_kept() {
        let mut over_time = OverTime::new();
        for number in 1..=MOST_EVENTS as u64 {
            over_time.event(&event(number, 1, 2, 1));
        }
        assert!(over_time.events.iter().map(|event| event.number).eq(1..=MOST_EVENTS as u64));
    }

    #[test]
    fn the_longest_stops_are_kept_with_their_collections() {
        let mut over_time = OverTime::new();
        for number in 1..=1000u64 {
            // In no order, the longest being the 500th or so.
            let wall = Duration::from_micros(number * 7919 % 1009);
            let start = Duration::from_millis(10 * number);
            over_time.stop(&GcStop { start, wall, cpu: wall, kind: StopKind::Slice }, Some((Phase::Mark, wall)));
            if number % 2 == 0 {
                over_time.event(&event(number, 1, 2, 1));
            }
        }
        let mut expected: Vec<_> = (1..=1000u64).map(|number| (number * 7919 % 1009, number)).collect();
        expected.sort_by_key(|(wall, _)| std::cmp::Reverse(*wall));
        let longest = over_time.longest();
        assert_eq!(longest.len(), LONGEST);
        for (long, (wall, number)) in longest.iter().zip(expected) {
            assert_eq!(long.stop.wall, Duration::from_micros(wall));
            assert_eq!(long.event.map(|event| event.number), (number % 2 == 0).then_some(number));
        }
    }
}
