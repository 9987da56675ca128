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
//! * `recover`: the paper's step only ever gets smaller. With this it is at least a tenth of what the last stall has
//!   taken, so that the heap soon asks whether there is memory again; once it has grown past the size of that stall
//!   there is, and the step doubles at each collection, up to eight times what it was at first. Stalls in a row make
//!   it smaller once. (TCP's later rules do the same: BIC and CUBIC look for the last window quickly, and speed up
//!   beyond it.)
//!
//!   Nor does a new heap grow step by step. Until the first stall, a nursery collection leaves a limit of at least
//!   twice what the heap held: a full collection for each step would find the same live objects again and again,
//!   although memory has never been short. (TCP's slow start doubles its window in the same way.) This takes no memory
//!   beforehand: the next nursery collection asks again, when one nursery more is in use, and its stall ends the slow
//!   start for good. A heap without nursery collections would have filled such a limit before it asks, so it grows in
//!   steps.
//! * `memory`: the paper's rule runs into the same stall again and again, and comes down slowly where little of the
//!   heap is live. With this it remembers the size of the heap at the last stall, goes down to three quarters of it at
//!   once, and grows by an eighth of a step from 0.9 of it on, with `recover` by half of one, until it has grown past
//!   it.

use super::{Bounds, Cycle, Rule, Scavenge};
use crate::pressure::Signal;

crate::values::params! {
    /// Parameters of `isla-vista`.
    pub struct IslaVistaParams {
        /// The part of the base of steps that the limit grows by: from 0.001 to 1. The paper's is 0.02.
        pub grow: f64 = 0.02,
        /// The part of that base that a stall takes away: from 0 to 0.99. The paper's is 0.75.
        pub shrink: f64 = 0.75,
        /// The limit is well ahead of the heap until the first stall. Steps grow again after a stall, and more so once
        /// the heap has grown past its size then.
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
/// `recover`: in how many steps what a stall took is taken back, and the least that counts as taken, as one part in so
/// many of the heap: where the limit is at its floor already a stall takes nothing.
const WAY_BACK: f64 = 10.0;
const LEAST_TAKEN: u64 = 8;
/// `recover`: the longest step, over what it was at first.
const FASTEST: f64 = 8.0;
/// `recover`: the least limit behind a nursery collection before the first stall, over what the heap held.
const AHEAD: u64 = 2;
/// `memory`: from which part of the size at the last stall on the limit grows slowly, and by which part of a step,
/// without `recover` and with it.
const NEAR: f64 = 0.9;
const SLOWLY: [f64; 2] = [1.0 / 8.0, 1.0 / 2.0];
/// `memory`: which part of that size a stall leaves.
const LEFT: f64 = 0.75;

/// The rule.
#[derive(Debug)]
pub(super) struct IslaVista {
    params: IslaVistaParams,
    /// What a step is a part of, in bytes, and what it was at first.
    step_base: f64,
    first_step_base: f64,
    /// `recover`: the least step since the last stall, in bytes.
    pace: Option<f64>,
    /// The limit, and what was reserved, at the last collection that was free of stalls.
    last_limit: u64,
    last_reserved: u64,
    /// `recover`: whether there has been no stall yet.
    is_starting: bool,
    /// Whether the last collection had a stall.
    is_stalled: bool,
    /// The size at the last stall, until the heap has grown past it.
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
            pace: None,
            last_limit: bounds.minimum,
            last_reserved: 0,
            is_starting: params.recover,
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
        self.is_stalled = false;
        // A larger heap than the one that stalled: there is more memory now.
        let _ = self.stalled_at.take_if(|stalled_at| size > *stalled_at);
        let step = self.next_step();
        let next = (limit as f64 + self.slowed(limit, step)) as u64;
        next.min(limit.max(walked + step as u64))
    }

    /// The step after a collection that was free of stalls, in bytes.
    fn next_step(&mut self) -> f64 {
        let step = self.step_base * self.params.grow;
        let Some(pace) = &mut self.pace else { return step };
        if self.stalled_at.is_none() {
            *pace = (2.0 * *pace).min(FASTEST * self.first_step_base * self.params.grow);
        }
        step.max(*pace)
    }

    /// How much of a step is taken.
    fn slowed(&self, limit: u64, step: f64) -> f64 {
        let Some(stalled_at) = self.stalled_at.filter(|_| self.params.memory) else { return step };
        let quickly = (stalled_at as f64 * NEAR - limit as f64).clamp(0.0, step);
        quickly + (step - quickly) * SLOWLY[usize::from(self.params.recover)]
    }

    fn shrink(&mut self, limit: u64, Collection { size, .. }: Collection) -> u64 {
        if !(self.params.recover && self.is_stalled) {
            self.step_base -= self.step_base * self.params.shrink;
        }
        (self.is_starting, self.is_stalled, self.stalled_at) = (false, true, Some(size));
        self.last_limit = self.last_limit.saturating_sub(self.last_reserved).max(self.last_reserved).min(limit);
        if self.params.memory {
            self.last_limit = self.last_limit.min((size as f64 * LEFT) as u64);
        }
        if self.params.recover {
            let taken = size.saturating_sub(self.last_limit).max(size / LEAST_TAKEN);
            self.pace = Some(taken as f64 / WAY_BACK);
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
        let next = self.step(limit, Collection { size, walked: size.min(limit), reserved, live, stalled }, bounds);
        if self.is_starting { next.max(AHEAD * size) } else { next }
    }
}
