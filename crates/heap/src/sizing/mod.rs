//! Axis `sizing`: how large the heap may grow before a full collection.
//!
//! Both collectors ask `HeapSize` for the limit, and tell it of each full collection: what was live, and how the time
//! since the full collection before divides into collecting and running. A value of the axis is a rule in a module of
//! its own.

mod fixed;
mod gc_ratio;

pub use gc_ratio::GcRatioParams;

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
    }
}

/// What a full collection found out.
#[derive(Clone, Copy, Debug)]
struct Cycle {
    /// Bytes live after it.
    live: u64,
    /// As many of these have been handed out while it marked: they count as live, whether they are or not.
    born: u64,
    /// Share of the time since the full collection before that went into collections, this one included: 0 to 1.
    load: f64,
}

/// What the configuration says of sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The limit is never lower than this, in bytes.
    pub(crate) minimum: u64,
    /// Nor higher than this, in bytes.
    pub(crate) maximum: u64,
}

/// A value of the axis.
trait Rule: fmt::Debug + Send {
    /// The limit of an empty heap, in bytes.
    fn first(&self, bounds: &Bounds) -> u64;

    /// The limit that follows `limit` after a full collection, in bytes. The minimum and the maximum are the caller's
    /// to heed.
    fn next(&mut self, limit: u64, cycle: Cycle, bounds: &Bounds) -> u64;
}

/// The limit of one heap.
#[derive(Debug)]
pub(crate) struct HeapSize {
    bounds: Bounds,
    limit: u64,
    rule: Box<dyn Rule>,
}

impl HeapSize {
    /// The limit of an empty heap, whose collector is generational or is not.
    pub(crate) fn new(sizing: Sizing, is_generational: bool, bounds: Bounds) -> HeapSize {
        let rule: Box<dyn Rule> = match sizing {
            Sizing::Fixed => Box::new(fixed::Fixed),
            Sizing::GcRatio(params) => Box::new(gc_ratio::GcRatio::new(params, is_generational)),
        };
        let limit = rule.first(&bounds).clamp(bounds.minimum, bounds.maximum);
        HeapSize { bounds, limit, rule }
    }

    /// The size at which the next full collection starts, in bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// To be called after each full collection that found `live` bytes, `born` of them handed out meanwhile. `gc` is
    /// the time of all collections since the full one before, nursery collections included; `mutator` all other time
    /// since. Returns the new limit in bytes.
    pub(crate) fn collected(&mut self, live: u64, born: u64, gc: Duration, mutator: Duration) -> u64 {
        let (gc, mutator) = (gc.as_secs_f64(), mutator.as_secs_f64());
        // Without a measurable time there is no load.
        let load = if gc > 0.0 { gc / (gc + mutator) } else { 0.0 };
        let next = self.rule.next(self.limit, Cycle { live, born: born.min(live), load }, &self.bounds);
        self.limit = next.clamp(self.bounds.minimum, self.bounds.maximum);
        self.limit
    }
}

#[cfg(test)]
mod tests;
