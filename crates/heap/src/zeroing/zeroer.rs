//! The zeroing of one heap's nursery by the strategy that the heap was made with.

use super::handover::{self, Owner};
use super::stores::{LINE_BYTES, Stores};
use super::{ConcurrentParams, NonTemporalParams, Zeroing};
use crate::threads::idle::IdleContexts;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Memory to be zeroed: whole pages, usually a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ZeroRange {
    /// The first byte, at a multiple of 4 KiB.
    pub(crate) address: *mut u8,
    /// A multiple of 4 KiB.
    pub(crate) bytes: usize,
}

// SAFETY: a range is only an address; whoever writes there has the contract of `Zeroer::start_cycle`.
unsafe impl Send for ZeroRange {}
// SAFETY: a range is only an address; whoever writes there has the contract of `Zeroer::start_cycle`.
unsafe impl Sync for ZeroRange {}

/// Time spent on zeroing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ZeroingTimes {
    /// By the mutator: zeroing, and waiting for the helper.
    pub(crate) mutator: Duration,
    /// By the helper thread, by the clock.
    pub(crate) helper: Duration,
}

/// Zeroes a nursery's dirty blocks before the allocator takes them, in cycles: one from each collection to the next.
///
/// Under [`Zeroing::HotPath`] all methods do nothing.
pub(crate) struct Zeroer {
    strategy: Zeroing,
    /// Bytes that the helper zeroes at a time.
    unit_bytes: usize,
    /// What the mutator zeroes with.
    stores: Stores,
    cycle: Cycle,
    /// What the allocator will take in the current cycle, or could have in the last.
    ranges: Vec<ZeroRange>,
    /// How many of the ranges, from the first, have been zeroed whole.
    zeroed: usize,
    /// From the first concurrent cycle on.
    concurrent: Option<Concurrent>,
    /// `adaptive` alone.
    idle: Option<IdleContexts>,
    times: ZeroingTimes,
}

/// Who zeroes until the next collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cycle {
    /// Nobody: stopped, or nothing to do.
    Stopped,
    /// The mutator, a range at a time.
    Mutator,
    /// The helper, ahead of the mutator.
    Helper,
}

impl Zeroer {
    /// A zeroer without a cycle. It starts its helper thread with the first cycle that has use for one.
    pub(crate) fn new(strategy: Zeroing) -> Zeroer {
        let (stores, unit_bytes) = match strategy {
            Zeroing::HotPath | Zeroing::Bulk => (Stores::Ordinary, 0),
            Zeroing::NonTemporal(NonTemporalParams { stream_bytes }) => (Stores::streaming(stream_bytes), 0),
            Zeroing::Concurrent(ConcurrentParams { unit_bytes, stream_bytes })
            | Zeroing::Adaptive(ConcurrentParams { unit_bytes, stream_bytes }) => {
                (Stores::streaming(stream_bytes), unit_bytes as usize)
            }
        };
        Zeroer {
            strategy,
            unit_bytes,
            stores,
            cycle: Cycle::Stopped,
            ranges: Vec::new(),
            zeroed: 0,
            concurrent: None,
            idle: matches!(strategy, Zeroing::Adaptive(_)).then(IdleContexts::new),
            times: ZeroingTimes::default(),
        }
    }

    /// Starts a cycle. `ranges` are the dirty blocks, in the order in which the allocator will take them.
    ///
    /// # Safety
    /// Until the cycle is stopped, or the zeroer dropped, every range stays writable, and nobody uses one but after
    /// [`wait_for`](Self::wait_for) it. Ranges do not overlap.
    pub(crate) unsafe fn start_cycle(&mut self, ranges: Vec<ZeroRange>) {
        self.stop();
        debug_assert!(ranges.iter().all(|range| is_whole(*range)), "ranges that are no whole pages");
        let concurrently = match self.strategy {
            Zeroing::HotPath => return,
            Zeroing::Bulk | Zeroing::NonTemporal(_) => false,
            Zeroing::Concurrent(_) => true,
            Zeroing::Adaptive(_) => self.idle.as_mut().is_some_and(|idle| idle.any(false)),
        };
        self.zeroed = 0;
        self.ranges = ranges;
        self.cycle = Cycle::Mutator;
        if concurrently {
            if self.concurrent.is_none() {
                self.concurrent = Concurrent::start(self.stores);
            }
            // Without a thread, the mutator zeroes; the next cycle asks for one again.
            if let Some(concurrent) = &mut self.concurrent {
                concurrent.start_cycle(&self.ranges, self.unit_bytes);
                self.cycle = Cycle::Helper;
            }
        }
    }

    /// Returns once range `index` of the cycle is zero. The allocator asks for the ranges in their order; those before
    /// `index` are zero then, too, or in use.
    pub(crate) fn wait_for(&mut self, index: usize) {
        if self.cycle == Cycle::Stopped || index < self.zeroed {
            return;
        }
        let start = Instant::now();
        match &mut self.concurrent {
            Some(concurrent) if self.cycle == Cycle::Helper => concurrent.obtain(self.zeroed, index),
            _ => {
                for range in &self.ranges[self.zeroed..=index] {
                    // SAFETY: nobody uses the range yet, by the contract of `start_cycle`; the stores are available.
                    unsafe { self.stores.zero(range.address, range.bytes) };
                }
            }
        }
        self.zeroed = index + 1;
        self.times.mutator += start.elapsed();
    }

    /// Ends the cycle: when this returns, nobody writes to the ranges any more. May wait for the helper to finish a
    /// unit.
    pub(crate) fn stop(&mut self) {
        if let (Cycle::Helper, Some(concurrent)) = (self.cycle, &mut self.concurrent) {
            let start = Instant::now();
            self.zeroed = concurrent.stop();
            self.times.mutator += start.elapsed();
            let helper = concurrent.take_time();
            self.times.helper += helper;
            if let Some(idle) = &mut self.idle {
                idle.helper_worked(helper);
            }
        }
        self.cycle = Cycle::Stopped;
    }

    /// After [`stop`](Self::stop): whether range `index` of the cycle was zeroed whole.
    pub(crate) fn zeroed(&self, index: usize) -> bool {
        debug_assert_eq!(self.cycle, Cycle::Stopped, "asked before the helper was stopped");
        index < self.zeroed
    }

    /// What zeroing took since the last call. The helper's share counts from the cycle's stop on.
    pub(crate) fn take_times(&mut self) -> ZeroingTimes {
        std::mem::take(&mut self.times)
    }
}

impl fmt::Debug for Zeroer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("Zeroer");
        debug.field("strategy", &self.strategy).field("stores", &self.stores).field("cycle", &self.cycle);
        debug.field("ranges", &self.ranges.len()).finish_non_exhaustive()
    }
}

fn is_whole(range: ZeroRange) -> bool {
    let page = LINE_BYTES * 64;
    (range.address as usize).is_multiple_of(page) && range.bytes.is_multiple_of(page)
}

/// The helper thread, and the hand-over with it.
struct Concurrent {
    owner: Owner<Vec<ZeroRange>>,
    thread: Option<JoinHandle<()>>,
    stores: Stores,
    /// One past the last unit of each range.
    ends: Vec<u32>,
    /// What the helper has worked since [`take_time`](Self::take_time), in nanoseconds.
    time: Arc<AtomicU64>,
}

impl Concurrent {
    /// Starts the thread; `None` where the system has none to give.
    fn start(stores: Stores) -> Option<Concurrent> {
        let owner = Owner::new(Vec::new());
        let helper = owner.helper();
        let time = Arc::new(AtomicU64::new(0));
        let total = time.clone();
        let run = move || {
            helper.run(|units, unit| {
                let start = Instant::now();
                zero_unit(stores, units, unit);
                total.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
            })
        };
        let thread = std::thread::Builder::new().name("legato-zeroing".to_string()).spawn(run).ok()?;
        Some(Concurrent { owner, thread: Some(thread), stores, ends: Vec::new(), time })
    }

    fn start_cycle(&mut self, ranges: &[ZeroRange], unit_bytes: usize) {
        let ends = &mut self.ends;
        ends.clear();
        self.owner.start(|units| {
            units.clear();
            for range in ranges {
                units.extend((0..range.bytes).step_by(unit_bytes).map(|at| ZeroRange {
                    address: range.address.wrapping_add(at),
                    bytes: unit_bytes.min(range.bytes - at),
                }));
                ends.push(units.len() as u32);
            }
            // 2^31 units of 4 KiB are more than any heap has; `start` asserts it.
            units.len() as u32
        });
    }

    /// Obtains ranges `first` to `last`.
    fn obtain(&mut self, first: usize, last: usize) {
        let start = if first == 0 { 0 } else { self.ends[first - 1] };
        let stores = self.stores;
        self.owner.obtain(start..self.ends[last], |units, unit| zero_unit(stores, units, unit));
    }

    /// Stops the helper. Returns how many ranges, from the first, were zeroed whole.
    fn stop(&mut self) -> usize {
        let units = self.owner.stop();
        self.ends.partition_point(|&end| end <= units)
    }

    fn take_time(&self) -> Duration {
        // Whoever has stopped the helper has acquired everything that it did.
        Duration::from_nanos(self.time.swap(0, Ordering::Relaxed))
    }
}

/// Zeroes a unit that the hand-over has given to the caller.
fn zero_unit(stores: Stores, units: &[ZeroRange], unit: u32) {
    let ZeroRange { address, bytes } = units[unit as usize];
    // SAFETY: the hand-over gives a unit to one side, once in a cycle, and the program gets it only when it is
    // finished; the memory is writable by the contract of `Zeroer::start_cycle`. The stores are available.
    unsafe { stores.zero(address, bytes) }
}

impl Drop for Concurrent {
    fn drop(&mut self) {
        self.owner.stop();
        self.owner.end();
        if let Some(thread) = self.thread.take() {
            // Its panic, if any, has been reported, and there is nothing left to do with it.
            let _ = thread.join();
        }
    }
}

const _: () = assert!(handover::MAX_UNITS as u64 >= (4u64 << 30) / (4 << 10), "every page of a cage is a unit");
