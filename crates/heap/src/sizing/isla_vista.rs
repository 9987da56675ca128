//! The value `isla-vista`: the limit grows by a step at each collection that was free of stalls, and shrinks at once
//! where memory was short.
//!
//! Source: Isla Vista, section 3.3. There, *reserved* is the size of the mature space after a collection, and
//! `step_base` is at first what the limit can grow by in all:
//!
//! | collection | what it does |
//! |---|---|
//! | free of stalls | `last_limit = limit; last_reserved = reserved; limit += step_base * grow` |
//! | with a stall | `limit = max(last_limit - last_reserved, last_reserved); step_base -= step_base * shrink` |
//!
//! Stalls in a row take from what is left each time, down to what was reserved: `last_limit` is the limit that they
//! have come to. (The paper says that they shrink the heap successively, and not how.)
//!
//! In the paper's heap each collection has walked all memory up to the limit, as the nursery is half of what is free
//! and the copy reserve the other half: a collection free of stalls shows that there is so much memory. A heap with a
//! nursery of its own size collects that while it holds much less than the limit, which shows nothing of the rest. So
//! behind a nursery collection a limit counts as far as the heap has filled it: it is never more than a step ahead, and
//! `last_limit` is no more than was in use. (TCP, whose rule this is, does the same with a window that the sender does
//! not fill: RFC 7661.) Behind a full collection, which comes when the limit is reached, this is the paper's rule to
//! the letter.
//!
//! A floor is added, for a limit at what is live would collect for ever: an eighth of it more, and at least four
//! nurseries. So are two switches, off by default:
//!
//! * `recover`: the paper's step only ever gets smaller. With this it doubles, up to what it was at first, after eight
//!   collections in a row that were free of stalls; and stalls in a row make it smaller once.
//! * `memory`: the paper's rule runs into the same stall again and again, and comes down slowly where little of the
//!   heap is live. With this it remembers the size of the heap at the last stall, goes down to three quarters of it at
//!   once, and grows by an eighth of a step from 0.9 of it on, until it has grown past it.

use super::{Bounds, Cycle, Rule, Scavenge};
use crate::pressure::Signal;

crate::values::params! {
    /// Parameters of `isla-vista`.
    pub struct IslaVistaParams {
        /// The part of the base of steps that the limit grows by: from 0.001 to 1. The paper's is 0.02.
        pub grow: f64 = 0.02,
        /// The part of that base that a stall takes away: from 0 to 0.99. The paper's is 0.75.
        pub shrink: f64 = 0.75,
        /// Steps grow again after collections that were free of stalls.
        pub recover: bool = false,
        /// The size at the last stall is approached slowly.
        pub memory: bool = false,
        /// The source of memory pressure that is asked if the machine has it; others stand in for it.
        pub pressure: Signal = Signal::Auto,
    }
}

/// The least room above what is live: so many nurseries, and one part in so many of it.
const ROOM_NURSERIES: u64 = 4;
const ROOM_PART: u64 = 8;
/// `recover`: collections free of stalls in a row until the step doubles.
const CLEAN: u32 = 8;
/// `memory`: from which part of the size at the last stall on the limit grows slowly, and by which part of a step.
const NEAR: f64 = 0.9;
const SLOWLY: f64 = 1.0 / 8.0;
/// `memory`: which part of that size a stall leaves.
const LEFT: f64 = 0.75;

/// The rule.
#[derive(Debug)]
pub(super) struct IslaVista {
    params: IslaVistaParams,
    /// What a step is a part of, in bytes, and what it was at first.
    step_base: f64,
    first_step_base: f64,
    /// The limit, and what was reserved, at the last collection that was free of stalls.
    last_limit: u64,
    last_reserved: u64,
    /// Collections free of stalls since the last doubling or stall.
    clean: u32,
    /// Whether the last collection had a stall.
    is_stalled: bool,
    /// `memory`: the size at the last stall.
    stalled_at: Option<u64>,
}

/// What a collection of any kind tells the rule, in bytes.
#[derive(Clone, Copy, Debug)]
struct Collection {
    /// What the heap held before it, and as how much of the limit that counts.
    size: u64,
    walked: u64,
    /// What it holds now: the paper's reserved space.
    reserved: u64,
    /// What the last full collection found live.
    live: u64,
    stalled: bool,
}

impl IslaVista {
    /// The rule for an empty heap.
    pub(super) fn new(params: IslaVistaParams, bounds: &Bounds) -> IslaVista {
        let step_base = (bounds.maximum - bounds.minimum) as f64;
        IslaVista {
            params,
            step_base,
            first_step_base: step_base,
            last_limit: bounds.minimum,
            last_reserved: 0,
            clean: 0,
            is_stalled: false,
            stalled_at: None,
        }
    }

    /// The limit that follows a collection.
    fn step(&mut self, limit: u64, collection: Collection, bounds: &Bounds) -> u64 {
        let next = match collection.stalled {
            true => self.shrink(limit, collection),
            false => self.grow(limit, collection),
        };
        let room = (ROOM_NURSERIES * bounds.nursery).max(collection.live / ROOM_PART);
        next.max(collection.live + room)
    }

    fn grow(&mut self, limit: u64, Collection { size, walked, reserved, .. }: Collection) -> u64 {
        (self.last_limit, self.last_reserved) = (walked, reserved);
        (self.is_stalled, self.clean) = (false, self.clean + 1);
        if self.params.recover && self.clean >= CLEAN {
            self.clean = 0;
            self.step_base = (2.0 * self.step_base).min(self.first_step_base);
        }
        let step = self.step_base * self.params.grow;
        let next = (limit as f64 + self.slowed(limit, size, step)) as u64;
        next.min(limit.max(walked + step as u64))
    }

    /// How much of a step is taken.
    fn slowed(&mut self, limit: u64, size: u64, step: f64) -> f64 {
        let Some(stalled_at) = self.stalled_at else { return step };
        if size > stalled_at {
            // There is more memory now.
            self.stalled_at = None;
            return step;
        }
        let quickly = (stalled_at as f64 * NEAR - limit as f64).clamp(0.0, step);
        quickly + (step - quickly) * SLOWLY
    }

    fn shrink(&mut self, limit: u64, Collection { size, .. }: Collection) -> u64 {
        if !(self.params.recover && self.is_stalled) {
            self.step_base -= self.step_base * self.params.shrink;
        }
        (self.is_stalled, self.clean) = (true, 0);
        self.last_limit = self.last_limit.saturating_sub(self.last_reserved).max(self.last_reserved).min(limit);
        if self.params.memory {
            self.stalled_at = Some(size);
            self.last_limit = self.last_limit.min((size as f64 * LEFT) as u64);
        }
        self.last_limit
    }
}

impl Rule for IslaVista {
    fn first(&self, bounds: &Bounds) -> u64 {
        bounds.minimum
    }

    fn next(&mut self, limit: u64, cycle: Cycle, bounds: &Bounds) -> u64 {
        let Cycle { size, live, stalled, .. } = cycle;
        self.step(limit, Collection { size, walked: limit, reserved: live, live, stalled }, bounds)
    }

    fn scavenged(&mut self, limit: u64, scavenge: Scavenge, bounds: &Bounds) -> u64 {
        let Scavenge { before: size, mature: reserved, live, stalled } = scavenge;
        self.step(limit, Collection { size, walked: size.min(limit), reserved, live, stalled }, bounds)
    }
}
