//! Axis `sizing`: how large the heap may grow before a full collection.
//!
//! Collectors ask `HeapSize` for the limit, and tell it of each collection: of full ones what was live, and how the
//! time since the full collection before divides into collecting and running; of nursery collections what they have
//! walked. A value of the axis is a rule in a module of its own. One of them asks the machine, too, whether memory is
//! short (`gauge.rs`). Above all rules is the maximum, which the machine's limits set unless somebody else does
//! (`ceiling.rs`).

mod balanced;
pub(crate) mod ceiling;
mod fixed;
mod gauge;
mod gc_ratio;
mod isla_vista;

pub use balanced::BalancedParams;
pub(crate) use gauge::Gauge;
pub use gc_ratio::GcRatioParams;
pub use isla_vista::IslaVistaParams;

use crate::machine::PressureReading;
use crate::observer::CollectionKind;
use std::fmt;
use std::time::Duration;

crate::values::values! {
    /// The values of the axis.
    pub enum Sizing {
        /// The limit is the maximum.
        Fixed = "fixed",
        /// After each full collection the limit grows or shrinks with the share of the heap that is live and the share
        /// of time that went into collecting.
        GcRatio(GcRatioParams) = "gc-ratio",
        /// The limit grows at every collection, and shrinks where the machine is short of memory.
        IslaVista(IslaVistaParams) = "isla-vista",
        /// After each full collection the limit is what is live and a square root of what is allocated.
        Balanced(BalancedParams) = "balanced",
    }
}

/// What a full collection found out. Sizes in bytes.
#[derive(Clone, Copy, Debug)]
struct Cycle {
    /// Live after it.
    live: u64,
    /// What the heap held before it.
    size: u64,
    /// Handed out since the full collection before.
    allocated: u64,
    /// As many of these have been handed out while it marked: they count as live, whether they are or not.
    born: u64,
    /// Share of the time since the full collection before that went into collections, this one included: 0 to 1.
    load: f64,
    /// How long this one took, and how long the program has run since the one before.
    pause: Duration,
    mutator: Duration,
    /// Whether memory was short.
    stalled: bool,
}

/// What a nursery collection found out. Sizes in bytes.
#[derive(Clone, Copy, Debug)]
struct Scavenge {
    /// What the heap held before it.
    before: u64,
    /// What the mature space holds now.
    mature: u64,
    /// What the last full collection found live.
    live: u64,
    /// Whether memory was short.
    stalled: bool,
}

/// A full collection, as a heap tells of it. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Collected {
    /// What the heap held before it, and what is live after it.
    pub(crate) size: u64,
    pub(crate) live: u64,
    /// Handed out since the full collection before, and of that while this one marked.
    pub(crate) allocated: u64,
    pub(crate) born: u64,
    /// Nursery collections since the full one before.
    pub(crate) pauses: Duration,
    /// The collection itself.
    pub(crate) pause: Duration,
    /// All other time since.
    pub(crate) mutator: Duration,
}

/// What the configuration says of sizes, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The limit is never lower than this.
    pub(crate) minimum: u64,
    /// Nor higher than this.
    pub(crate) maximum: u64,
    /// The nursery, where its size is fixed; 0 in other heaps.
    pub(crate) nursery: u64,
}

/// A value of the axis. The minimum and the maximum are the caller's to heed.
trait Rule: fmt::Debug + Send {
    /// The limit of an empty heap, in bytes.
    fn first(&self, bounds: &Bounds) -> u64;

    /// The limit that follows `limit` after a full collection, in bytes.
    fn next(&mut self, limit: u64, cycle: Cycle, bounds: &Bounds) -> u64;

    /// The limit that follows `limit` after a nursery collection, in bytes: the same, for most.
    fn scavenged(&mut self, limit: u64, _: Scavenge, _: &Bounds) -> u64 {
        limit
    }
}

/// The limit of one heap.
#[derive(Debug)]
pub(crate) struct HeapSize {
    bounds: Bounds,
    limit: u64,
    rule: Box<dyn Rule>,
    /// Who knows whether memory is short; `None` where the rule does not ask.
    pub(crate) gauge: Option<Gauge>,
    /// What was said at the last nursery collection and at the last full one, until it is taken.
    scavenge_reading: Option<PressureReading>,
    full_reading: Option<PressureReading>,
    /// Whether memory has been short since the last full collection that it was not short for.
    is_pressed: bool,
    /// The size at the last stall, in bytes.
    stalled_at: u64,
    /// What the last full collection found live, in bytes.
    live: u64,
}

impl HeapSize {
    /// The limit of an empty heap, whose collector is generational or is not.
    pub(crate) fn new(sizing: Sizing, is_generational: bool, bounds: Bounds) -> HeapSize {
        let rule: Box<dyn Rule> = match sizing {
            Sizing::Fixed => Box::new(fixed::Fixed),
            Sizing::GcRatio(params) => Box::new(gc_ratio::GcRatio::new(params, is_generational)),
            Sizing::IslaVista(params) => Box::new(isla_vista::IslaVista::new(params, &bounds)),
            Sizing::Balanced(params) => Box::new(balanced::Balanced::new(params)),
        };
        let gauge = match sizing {
            Sizing::IslaVista(params) => Some(Gauge::new(params.pressure)),
            _ => None,
        };
        let limit = rule.first(&bounds).clamp(bounds.minimum, bounds.maximum);
        HeapSize {
            bounds,
            limit,
            rule,
            gauge,
            scavenge_reading: None,
            full_reading: None,
            is_pressed: false,
            stalled_at: 0,
            live: 0,
        }
    }

    /// The size at which the next full collection starts, in bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether memory has been short since the last full collection that it was not short for: the next one is to look
    /// for all that can be given back.
    pub(crate) fn is_pressed(&self) -> bool {
        self.is_pressed
    }

    /// What the heap should not grow beyond before the next full collection ends, in bytes: the maximum, or less where
    /// memory has been short.
    pub(crate) fn ceiling(&self) -> u64 {
        if self.is_pressed { self.stalled_at.clamp(self.limit, self.bounds.maximum) } else { self.bounds.maximum }
    }

    /// What the machine said at the last nursery collection, or at the last full one, once.
    pub(crate) fn take_reading(&mut self, kind: CollectionKind) -> Option<PressureReading> {
        if kind == CollectionKind::Nursery { self.scavenge_reading.take() } else { self.full_reading.take() }
    }

    /// To be called as a collection in one stop begins.
    pub(crate) fn starts(&mut self) {
        if let Some(gauge) = &mut self.gauge {
            gauge.before();
        }
    }

    /// To be called after each full collection. Returns the new limit in bytes.
    pub(crate) fn collected(&mut self, collected: Collected) -> u64 {
        let Collected { size, live, allocated, born, pauses, pause, mutator } = collected;
        let gc = (pauses + pause).as_secs_f64();
        // Without a measurable time there is no load.
        let load = if gc > 0.0 { gc / (gc + mutator.as_secs_f64()) } else { 0.0 };
        self.full_reading = self.gauge.as_mut().and_then(Gauge::after);
        let stalled = self.full_reading.is_some_and(|reading| reading.stalled);
        (self.live, self.is_pressed, self.stalled_at) = (live, stalled, size);
        let born = born.min(live);
        let cycle = Cycle { live, size, allocated, born, load, pause, mutator, stalled };
        let next = self.rule.next(self.limit, cycle, &self.bounds);
        self.set(next)
    }

    /// To be called after each nursery collection of a heap that held `before` bytes, which has left `mature` bytes in
    /// the mature space. Returns whether memory was short.
    pub(crate) fn scavenged(&mut self, before: u64, mature: u64) -> bool {
        self.scavenge_reading = self.gauge.as_mut().and_then(Gauge::after);
        let stalled = self.scavenge_reading.is_some_and(|reading| reading.stalled);
        if stalled {
            (self.is_pressed, self.stalled_at) = (true, before);
        }
        let next = self.rule.scavenged(self.limit, Scavenge { before, mature, live: self.live, stalled }, &self.bounds);
        self.set(next);
        stalled
    }

    fn set(&mut self, limit: u64) -> u64 {
        self.limit = limit.clamp(self.bounds.minimum, self.bounds.maximum);
        self.limit
    }
}

#[cfg(test)]
mod shared;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
