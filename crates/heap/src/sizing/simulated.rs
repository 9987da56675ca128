//! `isla-vista` on a simulated machine: memory is short when the test says so.

use super::{Collected, HeapSize, IslaVistaParams, Sizing};
use crate::collector::Collector;
use crate::config::HeapConfig;
use crate::observer::CollectionKind;
use crate::pressure::{Moment, Pressure, PressureSource};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) const MIB: u64 = 1 << 20;
pub(super) const MINIMUM: u64 = 16 * MIB;
pub(super) const MAXIMUM: u64 = 1024 * MIB;

/// A source that says what the test has said last.
pub(super) struct Told(pub(super) Arc<AtomicBool>);

impl PressureSource for Told {
    fn name(&self) -> String {
        "a simulated machine".to_string()
    }

    fn read(&mut self, _: Moment) -> Pressure {
        if self.0.load(Ordering::Relaxed) { Pressure::Stall } else { Pressure::Clear }
    }
}

/// A heap without a nursery, which is filled up to its limit before each collection, on a machine whose memory the test
/// sets.
struct Machine {
    size: HeapSize,
    stalls: Arc<AtomicBool>,
    live: u64,
    /// What there is for the heap, in bytes.
    memory: u64,
}

impl Machine {
    fn new(params: IslaVistaParams) -> Machine {
        let (min_bytes, max_bytes) = (MINIMUM, Some(MAXIMUM));
        let sizing = Sizing::IslaVista(params);
        let config =
            HeapConfig { collector: Collector::MarkSweep, sizing, min_bytes, max_bytes, ..HeapConfig::default() };
        let mut size = HeapSize::new(sizing, false, config.bounds());
        let stalls = Arc::new(AtomicBool::new(false));
        size.gauge.as_mut().unwrap().replace(Box::new(Told(stalls.clone())));
        Machine { size, stalls, live: 0, memory: u64::MAX }
    }

    /// Fills the heap, which finds `live` bytes; says whether memory was short, whatever the machine has, and returns
    /// the new limit.
    fn collect(&mut self, live: u64, stalled: bool) -> u64 {
        self.stalls.store(stalled, Ordering::Relaxed);
        let size = self.size.limit().max(self.live);
        self.live = live;
        let pause = Duration::from_millis(1);
        self.size.starts();
        let limit = self.size.collected(Collected { size, live, pause, ..Collected::default() });
        assert_eq!(self.size.take_reading(CollectionKind::Full).map(|reading| reading.stalled), Some(stalled));
        assert_eq!(self.size.is_pressed(), stalled);
        limit
    }

    /// The same, with a stall where the heap had more than there is.
    fn run(&mut self, live: u64) -> (u64, bool) {
        let stalled = self.size.limit().max(self.live) > self.memory;
        (self.collect(live, stalled), stalled)
    }

    /// How many of so many collections have stalled.
    fn stalls_of(&mut self, live: u64, collections: usize) -> usize {
        (0..collections).filter(|_| self.run(live).1).count()
    }
}

/// The paper's rule as it stands in section 3.3, in fractions of bytes.
struct Paper {
    limit: f64,
    step_base: f64,
    last_limit: f64,
    last_reserved: f64,
}

impl Paper {
    fn collect(&mut self, reserved: f64, stalled: bool) {
        if stalled {
            self.limit = (self.last_limit - self.last_reserved).max(self.last_reserved);
            self.last_limit = self.limit;
            self.step_base -= self.step_base * 0.75;
        } else {
            (self.last_limit, self.last_reserved) = (self.limit, reserved);
            self.limit += self.step_base * 0.02;
        }
    }
}

fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 33) % below
}

#[test]
fn step_by_step_it_is_the_papers_rule() {
    for seed in 0..50 {
        let (mut machine, mut state) = (Machine::new(IslaVistaParams::DEFAULT), seed);
        let (minimum, maximum) = (MINIMUM as f64, MAXIMUM as f64);
        let mut paper = Paper { limit: minimum, step_base: maximum - minimum, last_limit: minimum, last_reserved: 0.0 };
        let mut shrunk = 0;
        for _ in 0..200 {
            // What is live stays so far below the limit that its floor is out of the way.
            let live = random(&mut state, (paper.limit / 3.0) as u64);
            let stalled = random(&mut state, 8) == 0;
            paper.collect(live as f64, stalled);
            let limit = machine.collect(live, stalled);
            // The bounds are not the paper's.
            paper.limit = paper.limit.clamp((live + live / 8).max(MINIMUM) as f64, maximum);
            assert!((limit as f64 - paper.limit).abs() < 1000.0, "{limit}, not {}", paper.limit);
            shrunk += u64::from(stalled);
        }
        assert!(shrunk > 10);
    }
}

#[test]
fn one_stall_and_then_another() {
    let mut machine = Machine::new(IslaVistaParams::DEFAULT);
    let step = (MAXIMUM - MINIMUM) / 50;
    assert_eq!(machine.collect(4 * MIB, false), MINIMUM + step);
    assert_eq!(machine.collect(5 * MIB, false), MINIMUM + 2 * step);
    // The nursery of the last collection without a stall, as there was one from 5 MiB to the limit then.
    assert_eq!(machine.collect(6 * MIB, true), MINIMUM + step - 5 * MIB);
    assert_eq!(machine.collect(6 * MIB, true), MINIMUM + step - 10 * MIB, "again");
    // Two stalls have left a sixteenth of the step.
    let limit = machine.size.limit();
    assert_eq!(machine.collect(6 * MIB, false), limit + step / 16);
}

#[test]
fn without_pressure_it_grows_to_the_maximum_and_stays() {
    for params in
        [IslaVistaParams::DEFAULT, IslaVistaParams { recover: true, memory: true, ..IslaVistaParams::DEFAULT }]
    {
        let mut machine = Machine::new(params);
        let limits: Vec<u64> = (0..100).map(|_| machine.run(20 * MIB).0).collect();
        assert!(limits.is_sorted(), "{limits:?}");
        assert_eq!(limits[51..], [MAXIMUM; 49]);
    }
}

#[test]
fn bounds_hold_whatever_happens() {
    for seed in 0..100 {
        let mut state = seed;
        let params = IslaVistaParams {
            grow: [0.001, 0.02, 1.0][random(&mut state, 3) as usize],
            shrink: [0.0, 0.75, 0.99][random(&mut state, 3) as usize],
            recover: random(&mut state, 2) == 0,
            memory: random(&mut state, 2) == 0,
            ..IslaVistaParams::DEFAULT
        };
        let mut machine = Machine::new(params);
        for _ in 0..300 {
            let live = random(&mut state, MAXIMUM);
            let stalled = random(&mut state, 3) == 0;
            let limit = match random(&mut state, 2) {
                0 => machine.collect(live, stalled),
                _ => {
                    // A nursery collection, which may leave more in the mature space than the limit.
                    machine.stalls.store(stalled, Ordering::Relaxed);
                    machine.size.starts();
                    let mature = machine.live + random(&mut state, 32 * MIB);
                    assert_eq!(machine.size.scavenged(mature + random(&mut state, 32 * MIB), mature), stalled);
                    machine.size.limit()
                }
            };
            assert!((MINIMUM..=MAXIMUM).contains(&limit), "{limit}");
            assert!(limit >= (machine.live + machine.live / 8).min(MAXIMUM), "{limit} over {}", machine.live);
        }
    }
}

#[test]
fn a_limit_counts_as_far_as_the_heap_has_filled_it() {
    let mut machine = Machine::new(IslaVistaParams::DEFAULT);
    let step = (MAXIMUM - MINIMUM) / 50;
    let scavenged = |machine: &mut Machine, before, mature, stalled| {
        machine.stalls.store(stalled, Ordering::Relaxed);
        machine.size.scavenged(before, mature);
        machine.size.limit()
    };
    // A small nursery is collected a hundred times, of a heap that holds little.
    let limits: Vec<u64> = (0..100).map(|_| scavenged(&mut machine, 12 * MIB, 8 * MIB, false)).collect();
    assert!(limits.iter().all(|&limit| limit == 12 * MIB + step), "a step ahead: {limits:?}");
    // It is promoted into more and more: the limit stays ahead, so that no full collection comes.
    assert_eq!(scavenged(&mut machine, 44 * MIB, 40 * MIB, false), 12 * MIB + 2 * step);
    // Memory is short: what is promoted is to be collected at once.
    assert_eq!(scavenged(&mut machine, 48 * MIB, 44 * MIB, true), 40 * MIB);
    assert!(machine.size.is_pressed());
    assert_eq!(machine.size.ceiling(), 48 * MIB, "a cycle is to end before the next stall");
    let full = Collected { size: 44 * MIB, live: 10 * MIB, ..Collected::default() };
    machine.stalls.store(false, Ordering::Relaxed);
    assert_eq!(machine.size.collected(full), 40 * MIB + step / 4);
    assert!(!machine.size.is_pressed());
    assert_eq!(machine.size.ceiling(), MAXIMUM);
}

#[test]
fn pressure_from_outside_is_made_room_for() {
    let mut machine = Machine::new(IslaVistaParams::DEFAULT);
    assert_eq!(machine.stalls_of(40 * MIB, 60), 0);
    assert_eq!(machine.size.limit(), MAXIMUM);
    machine.memory = 200 * MIB;
    // Each of the stalls, which follow each other, makes room for what is live.
    assert_eq!(machine.stalls_of(40 * MIB, 100), 21);
    let limit = machine.size.limit();
    assert!((180 * MIB..=200 * MIB).contains(&limit), "{limit}");
    // It ends. The paper's steps have become so small that the limit does not come back.
    machine.memory = u64::MAX;
    assert_eq!(machine.stalls_of(40 * MIB, 100), 0);
    assert!(machine.size.limit() - limit < MIB);
    // With both switches it comes down faster, and back.
    let mut machine = Machine::new(IslaVistaParams { recover: true, memory: true, ..IslaVistaParams::DEFAULT });
    machine.stalls_of(40 * MIB, 60);
    machine.memory = 200 * MIB;
    let stalls = machine.stalls_of(40 * MIB, 20);
    assert!((4..=8).contains(&stalls), "{stalls} stalls");
    assert!((120 * MIB..=220 * MIB).contains(&machine.size.limit()), "{}", machine.size.limit());
    machine.memory = u64::MAX;
    let limits: Vec<u64> = (0..40).map(|_| machine.run(40 * MIB).0).collect();
    assert_eq!(limits.last(), Some(&MAXIMUM), "{limits:?}");
}

/// Bytes that a program allocates in the time of one, if the collector takes as long for a live byte: of a heap with
/// this limit.
fn throughput(limit: u64, live: u64) -> f64 {
    (limit - live) as f64 / limit as f64
}

#[test]
fn throughput_is_back_within_twenty_collections() {
    // However long there was pressure: when it ends, the heap may have looked for memory just before.
    for (pressed, live) in (1..60).flat_map(|pressed| [20, 60, 100].map(|live| (pressed, live * MIB))) {
        let mut machine = Machine::new(IslaVistaParams { recover: true, memory: true, ..IslaVistaParams::DEFAULT });
        machine.stalls_of(live, 60);
        machine.memory = 200 * MIB;
        machine.stalls_of(live, pressed);
        machine.memory = u64::MAX;
        let is_back = |limit| throughput(limit, live) >= 0.9 * throughput(MAXIMUM, live);
        let needed = (1..).find(|_| is_back(machine.run(live).0)).unwrap();
        assert!(needed <= 20, "{needed} collections after {pressed} with pressure, {live} bytes live");
        machine.stalls_of(live, 25);
        assert_eq!(machine.size.limit(), MAXIMUM);
    }
}

#[test]
fn pressure_that_stays_is_not_asked_for_too_often() {
    for live in [20, 60, 100] {
        let mut machine = Machine::new(IslaVistaParams { recover: true, memory: true, ..IslaVistaParams::DEFAULT });
        machine.memory = 200 * MIB;
        machine.stalls_of(live * MIB, 50);
        let stalls = machine.stalls_of(live * MIB, 400);
        assert!((10..=40).contains(&stalls), "{stalls} stalls with {live} MiB live");
    }
}

#[test]
fn steps_recover_after_a_stall() {
    let mut machine = Machine::new(IslaVistaParams { recover: true, ..IslaVistaParams::DEFAULT });
    machine.memory = 200 * MIB;
    machine.stalls_of(40 * MIB, 60);
    machine.memory = u64::MAX;
    assert_eq!(machine.stalls_of(40 * MIB, 100), 0);
    assert_eq!(machine.size.limit(), MAXIMUM);
    // The step is never more than it was at first.
    let mut fresh = Machine::new(IslaVistaParams { recover: true, ..IslaVistaParams::DEFAULT });
    let limits: Vec<u64> = (0..40).map(|_| fresh.run(MIB).0).collect();
    assert!(limits.windows(2).all(|pair| pair[1] - pair[0] <= (MAXIMUM - MINIMUM) / 50 + 1), "{limits:?}");
}

#[test]
fn the_size_at_the_last_stall_is_remembered() {
    let both = |memory| {
        let mut machine = Machine::new(IslaVistaParams { recover: true, memory, ..IslaVistaParams::DEFAULT });
        machine.memory = 400 * MIB;
        machine.stalls_of(40 * MIB, 400)
    };
    let (with, without) = (both(true), both(false));
    assert!(3 * with <= 2 * without, "{with} stalls, and {without} without memory");
    // Where there is more memory again, it is forgotten.
    let mut machine = Machine::new(IslaVistaParams { recover: true, memory: true, ..IslaVistaParams::DEFAULT });
    machine.memory = 200 * MIB;
    machine.stalls_of(40 * MIB, 100);
    machine.memory = u64::MAX;
    machine.stalls_of(40 * MIB, 200);
    assert_eq!(machine.size.limit(), MAXIMUM);
}

#[test]
fn a_false_alarm_costs_a_few_collections() {
    let mut machine = Machine::new(IslaVistaParams { recover: true, memory: true, ..IslaVistaParams::DEFAULT });
    machine.stalls_of(40 * MIB, 60);
    let limit = machine.collect(40 * MIB, true);
    assert_eq!(limit, MAXIMUM * 3 / 4);
    assert_eq!(machine.stalls_of(40 * MIB, 60), 0);
    assert_eq!(machine.size.limit(), MAXIMUM);
}

#[test]
fn what_it_asks_is_counted() {
    /// Takes its time.
    struct Slow;

    impl PressureSource for Slow {
        fn name(&self) -> String {
            "slow".to_string()
        }

        fn read(&mut self, _: Moment) -> Pressure {
            std::thread::sleep(Duration::from_millis(2));
            Pressure::Clear
        }
    }

    let mut machine = Machine::new(IslaVistaParams::DEFAULT);
    machine.size.gauge.as_mut().unwrap().replace(Box::new(Slow));
    machine.size.starts();
    machine.size.scavenged(MIB, MIB);
    let reading = machine.size.take_reading(CollectionKind::Nursery).unwrap();
    assert!(reading.cost >= Duration::from_millis(4), "both moments: {reading:?}");
    let totals = machine.size.gauge.as_ref().unwrap().totals();
    assert_eq!((totals.readings, totals.stalls, totals.cost), (1, 0, reading.cost));
    // Other rules ask nobody.
    let config = HeapConfig { max_bytes: Some(MAXIMUM), ..HeapConfig::default() };
    for &sizing in Sizing::ALL {
        let mut size = HeapSize::new(sizing, false, config.bounds());
        assert_eq!(size.gauge.is_some(), matches!(sizing, Sizing::IslaVista(_)));
        size.starts();
        size.collected(Collected::default());
        assert!(size.take_reading(CollectionKind::Full).is_none() || size.gauge.is_some());
    }
}
