//! `isla-vista` in simulated heaps with a nursery, several of which share the memory of a machine.

use super::simulated::{MAXIMUM, MIB, MINIMUM, Told};
use super::{Collected, HeapSize, IslaVistaParams, Sizing};
use crate::config::HeapConfig;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The nursery, and what each of its collections promotes, in bytes.
const NURSERY: u64 = 2 * MIB;
const PROMOTED: u64 = MIB / 2;
/// What is promoted while a cycle goes on is one part in so many of the heap.
const LEAD: u64 = 8;
/// Both extensions.
const BOTH: IslaVistaParams = IslaVistaParams { recover: true, memory: true, ..IslaVistaParams::DEFAULT };
const ISLA_VISTA: Sizing = Sizing::IslaVista(BOTH);

/// A heap whose program keeps so much of what it allocates.
struct Heap {
    size: HeapSize,
    stalls: Arc<AtomicBool>,
    /// What the program keeps in the end, what the last full collection has found live, and what the mature space
    /// holds, in bytes.
    keeps: u64,
    live: u64,
    held: u64,
    /// What has been promoted in all, and how long that and marking have taken, in the time that a byte takes: each
    /// byte that is promoted, and each live one that is marked.
    promoted: u64,
    time: u64,
    /// Full collections, and collections with a stall.
    full: usize,
    stalled: usize,
}

impl Heap {
    fn new(sizing: Sizing, maximum: u64, keeps: u64) -> Heap {
        let config = HeapConfig { sizing, min_bytes: MINIMUM, max_bytes: Some(maximum), ..HeapConfig::default() };
        let mut size = HeapSize::new(sizing, true, config.bounds());
        let stalls = Arc::new(AtomicBool::new(false));
        if let Some(gauge) = &mut size.gauge {
            gauge.replace(Box::new(Told(stalls.clone())));
        }
        Heap { size, stalls, keeps, live: 0, held: 0, promoted: 0, time: 0, full: 0, stalled: 0 }
    }

    /// What the last nursery collection found.
    fn used(&self) -> u64 {
        self.held + NURSERY
    }

    /// Runs up to the end of the next nursery collection, where there is so much memory for the heap, and of the full
    /// one that may follow: a cycle begins before the limit is reached, so that it ends there.
    fn run(&mut self, memory: u64) {
        self.held += PROMOTED;
        self.promoted += PROMOTED;
        self.time += PROMOTED;
        let used = self.used();
        self.ask(used > memory);
        self.size.scavenged(used, self.held);
        let (limit, since) = (self.size.limit(), self.held.saturating_sub(self.live));
        if self.held < limit && (self.held + self.held / LEAD < limit || since < limit.saturating_sub(self.live) / 4) {
            return;
        }
        self.ask(self.held > memory);
        let (size, live) = (self.held, self.keeps.min(self.promoted));
        (self.held, self.live) = (live, live);
        self.size.collected(Collected { size, live, pause: Duration::from_millis(1), ..Collected::default() });
        self.time += live;
        self.full += 1;
    }

    fn ask(&mut self, stalled: bool) {
        self.stalls.store(stalled, Ordering::Relaxed);
        self.stalled += usize::from(stalled);
        self.size.starts();
    }

    /// Runs until so much has been promoted.
    fn work(mut self, bytes: u64, memory: u64) -> Heap {
        while self.promoted < bytes {
            self.run(memory);
        }
        self
    }
}

#[test]
fn a_slow_start_needs_no_full_collections() {
    for keeps in [MIB, 20 * MIB, 100 * MIB] {
        let heap = Heap::new(ISLA_VISTA, MAXIMUM, keeps).work(MAXIMUM / 2, u64::MAX);
        assert_eq!((heap.full, heap.size.limit()), (0, MAXIMUM));
        // The paper's rule has one for each step.
        let heap = Heap::new(Sizing::IslaVista(IslaVistaParams::DEFAULT), MAXIMUM, keeps).work(MAXIMUM / 2, u64::MAX);
        assert!(heap.full > 0);
    }
}

#[test]
fn a_slow_start_is_ahead_of_what_is_in_use_and_no_further() {
    let mut heap = Heap::new(ISLA_VISTA, MAXIMUM, MAXIMUM);
    let step = (MAXIMUM - MINIMUM) / 50;
    // However often a small nursery is collected.
    for _ in 0..100 {
        heap.size.scavenged(12 * MIB, 11 * MIB);
        assert_eq!(heap.size.limit(), 12 * MIB + step);
    }
    while heap.size.limit() < MAXIMUM {
        heap.run(u64::MAX);
        assert_eq!(heap.size.limit(), (2 * heap.used()).max(heap.used() + step).clamp(12 * MIB + step, MAXIMUM));
    }
    assert_eq!(heap.full, 0);
}

#[test]
fn a_slow_start_ends_for_good_at_the_first_stall() {
    for memory in [60, 100, 200, 400, 800].map(|memory| memory * MIB) {
        let mut heap = Heap::new(ISLA_VISTA, MAXIMUM, 20 * MIB);
        while heap.stalled == 0 {
            heap.run(memory);
            assert!(heap.used() <= memory + PROMOTED, "the stall is seen at once, however far the limit was ahead");
        }
        let (full, most) = (heap.full, heap.size.limit());
        assert!(full <= 1 && most < memory * 9 / 10, "{most} of {memory}");
        // From here on it takes steps.
        for _ in 0..20_000 {
            let limit = heap.size.limit();
            heap.run(memory);
            // At each of two collections.
            let steps = 2 * (8 * (MAXIMUM - MINIMUM) / 50);
            assert!(heap.size.limit() <= limit + steps, "{limit} of {memory}");
            assert!(heap.used() <= memory + NURSERY, "{} of {memory}", heap.used());
        }
        assert!(heap.stalled < heap.full, "{} stalls in {} full collections", heap.stalled, heap.full);
    }
    // A stall at the very beginning is one, too.
    let mut heap = Heap::new(ISLA_VISTA, MAXIMUM, 20 * MIB);
    heap.run(0);
    heap.run(u64::MAX);
    assert_eq!(heap.size.limit(), MINIMUM);
}

/// Heaps that run at once until each has promoted so much: the sum of their throughputs, bytes in the time of one, and
/// the stalls of all. They share the memory, and are short of it where all of them hold more.
fn shared(sizing: Sizing, maximum: u64, count: usize, keeps: u64, memory: u64, work: u64) -> (f64, usize) {
    let mut heaps: Vec<Heap> = (0..count).map(|_| Heap::new(sizing, maximum, keeps)).collect();
    let is_running = |heap: &Heap| heap.promoted < work;
    while let Some(next) = (0..count).filter(|&at| is_running(&heaps[at])).min_by_key(|&at| heaps[at].time) {
        let others = heaps.iter().enumerate().filter(|&(at, heap)| at != next && is_running(heap));
        let held: u64 = others.map(|(_, heap)| heap.used()).sum();
        heaps[next].run(memory.saturating_sub(held));
    }
    let throughput = heaps.iter().map(|heap| heap.promoted as f64 / heap.time as f64).sum();
    (throughput, heaps.iter().map(|heap| heap.stalled).sum())
}

#[test]
fn heaps_that_share_a_machine_are_as_fast_as_a_split() {
    for (count, work) in [2, 4, 8].into_iter().flat_map(|count| [180, 600, 3000].map(|work| (count, work * MIB))) {
        for (keeps, each) in [(20, 120), (40, 200), (100, 280)].map(|(keeps, each)| (keeps * MIB, each * MIB)) {
            let memory = each * count as u64;
            let run = |sizing, maximum| shared(sizing, maximum, count, keeps, memory, work);
            let (split, _) = run(Sizing::Fixed, each - NURSERY);
            let (own, stalls) = run(ISLA_VISTA, 5 * each / 4);
            let what = format!("{count} heaps with {keeps} live of {each}, {work} bytes");
            assert!(own >= 0.95 * split && stalls <= count, "{what}: {} of a split, {stalls} stalls", own / split);
            // Short runs need the slow start for that.
            let (steps, _) = run(Sizing::IslaVista(IslaVistaParams::DEFAULT), 5 * each / 4);
            assert!(steps < 0.8 * split || work > 600 * MIB, "{what}: {} of a split in steps", steps / split);
        }
    }
}
