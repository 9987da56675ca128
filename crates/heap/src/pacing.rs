//! When to collect the whole heap: when what is live and what has been handed out reach the limit that the axis
//! `sizing` sets.

use crate::config::HeapConfig;
use crate::machine::{MachineNotes, PressureReading};
use crate::observer::{Cause, CollectionKind, HeapStats};
use crate::os::limits::MachineLimit;
use crate::pressure::PressureSource;
use crate::sizing::{Collected, Gauge, HeapSize};
use std::time::{Duration, Instant};

/// An exhausted heap counts as out of memory after so many full collections in succession between which less than this
/// part of its maximum was handed out each time: what is free may lie in blocks of other sizes, and the program would
/// spend its time in collections.
const MOST_FUTILE: u32 = 16;
const LEAST_HANDED_OUT: u64 = 256;

/// So long after a full collection, memory is still kept that the heap held before it and does not need now: a program
/// that has let go of much often takes as much again soon, and each page that is given back costs a fault then.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// Bytes handed out, and when that is enough. What is handed out counts at once, whether the mutator has used it or
/// not.
#[derive(Debug)]
pub(crate) struct Pacer {
    sizing: HeapSize,
    /// Live after the last full collection.
    pub(crate) live: u64,
    /// Handed out since. In a generational heap: copied into the mature space, and large objects that have become old.
    pub(crate) allocated: u64,
    /// Handed out before the last full collection.
    allocated_before: u64,
    /// Handed out in all when memory was exhausted the last time, and live then.
    exhausted_at: u64,
    exhausted_live: u64,
    /// How many times in succession it has been exhausted again soon after.
    futile: u32,
    /// Pauses since the last full collection.
    pauses: Duration,
    /// When it ended.
    since: Instant,
    /// How large the heap was before it, in bytes.
    before: u64,
    /// Whether more free memory is kept since then than is left up to the limit.
    has_surplus: bool,
}

impl Pacer {
    /// A pacer for an empty heap.
    pub(crate) fn new(config: &HeapConfig) -> Pacer {
        Pacer {
            sizing: HeapSize::new(config.sizing, config.collector.attributes().is_generational(), config.bounds()),
            live: 0,
            allocated: 0,
            allocated_before: 0,
            exhausted_at: 0,
            exhausted_live: 0,
            futile: 0,
            pauses: Duration::ZERO,
            since: Instant::now(),
            before: 0,
            has_surplus: false,
        }
    }

    /// Live after the last full collection plus handed out since, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.live + self.allocated
    }

    /// Handed out in all.
    pub(crate) fn allocated_total(&self) -> u64 {
        self.allocated_before + self.allocated
    }

    /// Counts that memory is exhausted, with so many bytes handed out in all, and is to be collected at once.
    pub(crate) fn count_exhaustion(&mut self, handed_out: u64, maximum: u64) {
        let is_futile = handed_out - self.exhausted_at < maximum / LEAST_HANDED_OUT;
        self.futile = if is_futile { self.futile.saturating_add(1) } else { 0 };
        (self.exhausted_at, self.exhausted_live) = (handed_out, self.live);
    }

    /// Whether such collections have been for too little too often, and the last one has not freed more.
    pub(crate) fn is_futile(&self, maximum: u64) -> bool {
        self.futile >= MOST_FUTILE && self.live + maximum / LEAST_HANDED_OUT >= self.exhausted_live
    }

    /// Size at which the next full collection starts, in bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.sizing.limit()
    }

    /// How much the heap may grow before the next full collection, in bytes.
    pub(crate) fn headroom(&self) -> u64 {
        self.limit().saturating_sub(self.size())
    }

    /// How much free memory is to be kept after a full collection, in bytes: what is left up to the limit, and `more`.
    /// Where the heap was collected because it had reached its limit, and the rule does not ask whether memory is
    /// short, at least as much as it held before, until the next one or for a [while](Self::has_old_surplus).
    pub(crate) fn memory_to_keep(&mut self, cause: Cause, more: u64) -> u64 {
        let needed = self.headroom() + more;
        let lag = cause == Cause::Limit && self.sizing.gauge.is_none();
        let before = if lag { self.before.saturating_sub(self.size()) } else { 0 };
        self.has_surplus = before > needed;
        needed.max(before)
    }

    /// Whether memory is kept that the heap held before the last full collection, and that has been a while.
    pub(crate) fn has_old_surplus(&self, now: Instant) -> bool {
        self.has_surplus && now.saturating_duration_since(self.since) > KEPT_FOR
    }

    /// As if the last full collection were so much longer ago.
    #[cfg(test)]
    pub(crate) fn grow_old(&mut self, by: Duration) {
        self.since = self.since.checked_sub(by).expect("the machine has run for longer");
    }

    /// That has been given back.
    pub(crate) fn surplus_is_gone(&mut self) {
        self.has_surplus = false;
    }

    /// Whether handing out `bytes` more calls for a collection first. Never right after one, so that allocation makes
    /// progress.
    pub(crate) fn is_due(&self, bytes: u64) -> bool {
        self.allocated > 0 && self.size() + bytes > self.limit()
    }

    /// Counts bytes handed out.
    pub(crate) fn charge(&mut self, bytes: u64) {
        self.allocated += bytes;
    }

    /// Is told that a collection in one stop begins.
    pub(crate) fn starts(&mut self) {
        self.sizing.starts();
    }

    /// Sets the next limit after a nursery collection of a heap that held `before` bytes, once what has been copied is
    /// counted. Returns whether memory was short, so that all is to be given back at once that is not needed.
    pub(crate) fn scavenged(&mut self, before: u64) -> bool {
        self.sizing.scavenged(before, self.size())
    }

    /// Counts the pause of a nursery collection.
    pub(crate) fn paused(&mut self, pause: Duration) {
        self.pauses += pause;
    }

    /// Sets the next limit after a full collection that found `live` bytes, and has stopped the mutator for `pause` so
    /// far. `allocated` bytes had been handed out since the one before when it was known what is live, `born` of them
    /// while it was being found out.
    pub(crate) fn collected(&mut self, live: u64, allocated: u64, born: u64, pause: Duration) {
        let size = self.size();
        self.before = size;
        self.live = live;
        self.allocated_before += allocated;
        self.allocated -= allocated;
        let pauses = std::mem::take(&mut self.pauses);
        let now = Instant::now();
        let mutator = now.duration_since(std::mem::replace(&mut self.since, now)).saturating_sub(pauses + pause);
        self.sizing.collected(Collected { size, live, allocated, born, pauses, pause, mutator });
    }

    /// What the heap should not grow beyond before the next full collection ends, in bytes: its maximum, or less where
    /// memory has been short.
    pub(crate) fn ceiling(&self) -> u64 {
        self.sizing.ceiling()
    }

    /// Whether memory has been short since the last full collection that it was not short for.
    pub(crate) fn is_pressed(&self) -> bool {
        self.sizing.is_pressed()
    }

    /// What the machine said of memory at the last nursery collection, or at the last full one, once.
    pub(crate) fn take_reading(&mut self, kind: CollectionKind) -> Option<PressureReading> {
        self.sizing.take_reading(kind)
    }

    /// Has this source asked for memory pressure from now on, if the rule asks any.
    pub(crate) fn set_source(&mut self, source: Box<dyn PressureSource>) {
        if let Some(gauge) = &mut self.sizing.gauge {
            gauge.replace(source);
        }
    }

    /// What is known of the machine by a heap with this maximum, which may come from this limit.
    pub(crate) fn machine_notes(&self, maximum_bytes: u64, limit: Option<MachineLimit>) -> MachineNotes {
        let gauge = self.sizing.gauge.as_ref();
        let missing = gauge.map_or(Vec::new(), |gauge| gauge.missing().to_vec());
        MachineNotes { maximum_bytes, limit, pressure: gauge.map(Gauge::names), missing }
    }

    /// Adds the limit, and what has been asked of the machine, to running totals.
    pub(crate) fn add_to(&self, stats: &mut HeapStats) {
        let totals = self.sizing.gauge.as_ref().map(Gauge::totals).unwrap_or_default();
        stats.limit_bytes = self.limit();
        stats.pressure_readings = totals.readings;
        stats.pressure_stalls = totals.stalls;
        stats.pressure_us = totals.cost.as_micros() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sizing;

    #[test]
    fn a_collection_is_due_at_the_limit() {
        let config = HeapConfig { min_bytes: 1000, max_bytes: Some(1 << 20), ..HeapConfig::default() };
        let mut pacer = Pacer::new(&config);
        assert!(!pacer.is_due(5000), "an empty heap has nothing to collect");
        pacer.charge(900);
        assert!(!pacer.is_due(100) && pacer.is_due(101));
        assert_eq!((pacer.size(), pacer.headroom()), (900, 100));
        pacer.paused(Duration::from_millis(1));
        pacer.collected(800, 900, 0, Duration::from_millis(1));
        assert!((1000..=1600).contains(&pacer.limit()), "{}", pacer.limit());
        assert_eq!((pacer.size(), pacer.allocated_total()), (800, 900));
        pacer.collected(1 << 20, 0, 0, Duration::ZERO);
        assert_eq!(pacer.limit(), 1 << 20);
    }

    #[test]
    fn what_the_heap_held_before_is_kept_for_a_while() {
        let collected = |sizing| {
            let config = HeapConfig { sizing, ..HeapConfig::default() };
            let mut pacer = Pacer::new(&config);
            pacer.charge(64 << 20);
            pacer.collected(1 << 20, 64 << 20, 0, Duration::ZERO);
            pacer
        };
        let mut pacer = collected(HeapConfig::default().sizing);
        assert!(pacer.headroom() < 62 << 20);
        assert_eq!(pacer.memory_to_keep(Cause::Limit, 5), 63 << 20);
        let now = Instant::now();
        assert!(!pacer.has_old_surplus(now) && pacer.has_old_surplus(now + 2 * KEPT_FOR));
        assert_eq!(pacer.memory_to_keep(Cause::Requested, 5), pacer.headroom() + 5);
        assert!(!pacer.has_old_surplus(now + 2 * KEPT_FOR), "nothing more is kept where it was asked for");
        pacer.collected(1 << 20, 0, 0, Duration::ZERO);
        assert_eq!(pacer.memory_to_keep(Cause::Limit, 5), pacer.headroom() + 5, "it held no more before the next one");
        let mut pacer = collected(Sizing::IslaVista(Default::default()));
        assert_eq!(pacer.memory_to_keep(Cause::Limit, 0), pacer.headroom(), "others may need it");
    }

    #[test]
    fn a_fixed_limit_is_the_maximum() {
        let config = HeapConfig { max_bytes: Some(1 << 20), sizing: Sizing::Fixed, ..HeapConfig::default() };
        let mut pacer = Pacer::new(&config);
        pacer.collected(10, 0, 0, Duration::ZERO);
        assert_eq!(pacer.limit(), config.maximum());
    }
}
