use super::*;

/// The thread's time, as a test has it.
pub(super) mod clock {
    use std::cell::Cell;
    use std::time::Duration;

    thread_local! {
        static TIME: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    pub(crate) fn time() -> Duration {
        TIME.get()
    }

    pub(crate) fn advance(time: Duration) {
        TIME.set(TIME.get() + time);
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);

fn fill(size: u64, limit: u64, allocated: u64) -> Fill {
    Fill { size, live: 1 << 20, limit, maximum: 64 << 20, addresses: 4 << 30, allocated }
}

/// Polls every microsecond, with slices of 310 us. The thread has a processor when `runs` says so. Returns when the
/// slices began and ended, with what they cost besides, by the clock and by the thread's time.
fn slices(runs: impl Fn(u32) -> bool) -> Vec<[(Duration, Duration); 2]> {
    let mut scheduler = Scheduler::new(CycleParams::DEFAULT);
    scheduler.thread_time = clock::time;
    let first = Instant::now() + 1000 * MILLISECOND;
    scheduler.start(fill(2 << 20, 4 << 20, 1 << 20), first);
    let (mut now, mut slices) = (first, Vec::new());
    for micros in 0..200_000 {
        now += Duration::from_micros(1);
        if !runs(micros) {
            continue;
        }
        clock::advance(Duration::from_micros(1));
        if let Some((_, is_early)) = scheduler.slice(fill(2 << 20, 4 << 20, 1 << 20), now) {
            assert!(!is_early, "there is memory enough");
            let (start, start_of_thread) = (now, clock::time());
            now += Duration::from_micros(310);
            clock::advance(Duration::from_micros(310));
            scheduler.stopped(start, now);
            let besides = Duration::from_micros(310 / 8);
            slices.push([(start - first, now + besides - first), (start_of_thread, clock::time() + besides)]);
        }
    }
    slices
}

/// What slices take at most of a window of 10 ms, by one of the clocks.
fn most(slices: &[[(Duration, Duration); 2]], clock: usize) -> Duration {
    let used = |from: Duration| -> Duration {
        let to = from + 10 * MILLISECOND;
        slices.iter().map(|slice| slice[clock]).map(|(start, end)| end.min(to).saturating_sub(start.max(from))).sum()
    };
    slices.iter().map(|slice| used(slice[clock].0)).max().expect("there are slices")
}

/// What may be. The first ones are not expected to exceed their quantum.
const MOST: Duration = Duration::from_micros(3012);

#[test]
fn slices_leave_every_window_its_share() {
    let slices = slices(|_| true);
    assert!(slices.len() > 170, "{} slices", slices.len());
    assert!(most(&slices, 0) <= MOST, "{:?} of 10 ms", most(&slices, 0));
}

#[test]
fn the_share_is_one_of_processor_time_too() {
    // Others have the processor for 4 of 6 ms: then time goes by that is not the mutator's.
    let slices = slices(|micros| micros / 1000 % 6 < 2);
    assert!(slices.len() > 50, "{} slices", slices.len());
    for clock in [0, 1] {
        assert!(most(&slices, clock) <= MOST, "{:?} of 10 ms", most(&slices, clock));
    }
}

#[test]
fn what_is_not_urgent_waits_for_the_mutators_share() {
    let mut scheduler = Scheduler::new(CycleParams::DEFAULT);
    scheduler.thread_time = clock::time;
    let now = Instant::now() + 1000 * MILLISECOND;
    clock::advance(MILLISECOND);
    assert!(scheduler.may_stop(now));
    clock::advance(MILLISECOND);
    scheduler.stopped(now, now + MILLISECOND);
    let soon = now + 2 * MILLISECOND;
    clock::advance(MILLISECOND);
    assert!(!scheduler.may_stop(soon));
    assert_eq!(scheduler.urgent_stop(true, false, soon), None);
    assert_eq!(scheduler.urgent_stop(true, true, soon), Some(true), "that does not wait");
    let (later, none) = (now + 20 * MILLISECOND, None);
    assert!(!scheduler.may_stop(later), "the thread has had no processor");
    clock::advance(20 * MILLISECOND);
    assert_eq!(scheduler.urgent_stop(false, false, later + MILLISECOND), none);
    assert_eq!(scheduler.urgent_stop(true, false, later + 20 * MILLISECOND), Some(false));
}

#[test]
fn floods_do_not_wait_where_no_share_is_promised() {
    let mut scheduler = Scheduler::without_share(CycleParams::DEFAULT);
    let now = Instant::now() + MILLISECOND;
    scheduler.thread_time = clock::time;
    clock::advance(MILLISECOND);
    scheduler.stopped(now, now + MILLISECOND);
    assert!(!scheduler.may_stop(now + MILLISECOND));
    assert_eq!(scheduler.urgent_stop(true, false, now + MILLISECOND), Some(false));
    assert_eq!(scheduler.urgent_stop(false, false, now + MILLISECOND), None);
}

#[test]
fn gaps_shrink_where_memory_would_run_out() {
    let mut scheduler = Scheduler::new(CycleParams::DEFAULT);
    let now = Instant::now() + MILLISECOND;
    scheduler.thread_time = clock::time;
    clock::advance(MILLISECOND);
    // Sixteen mebibytes a millisecond, and three of 64 left.
    scheduler.start(fill(61 << 20, 4 << 20, 16 << 20), now);
    scheduler.stopped(now, now + MILLISECOND);
    let due = |scheduler: &mut Scheduler, size, micros| {
        clock::advance(Duration::from_micros(micros));
        scheduler.slice(fill(size, 4 << 20, 16 << 20), now + MILLISECOND + Duration::from_micros(micros))
    };
    assert!(due(&mut scheduler, 2 << 20, 0).is_none());
    assert!(due(&mut scheduler, 61 << 20, 200).is_some_and(|(_, is_early)| is_early));
    // As much memory as anybody wants, and addresses for one mebibyte.
    let few = Fill { maximum: 4 << 30, addresses: 1 << 20, ..fill(8 << 20, 4 << 20, 16 << 20) };
    let at = now + MILLISECOND + Duration::from_micros(400);
    clock::advance(Duration::from_micros(200));
    assert!(scheduler.slice(few, at).is_some_and(|(_, is_early)| is_early));
}

#[test]
fn work_follows_allocation() {
    let params = CycleParams { schedule: Schedule::Work, ..CycleParams::DEFAULT };
    let mut scheduler = Scheduler::new(params);
    let now = Instant::now();
    scheduler.start(fill(8 << 20, 10 << 20, 0), now);
    assert!(scheduler.slice(fill(8 << 20, 10 << 20, 0), now).is_none());
    let mut slices = 0;
    while scheduler.slice(fill(9 << 20, 10 << 20, 1 << 20), now).is_some() {
        slices += 1;
    }
    assert!((16..64).contains(&slices), "paid in {slices} slices");
    // Where the maximum is far away, the limit counts.
    let far = |size, allocated| Fill { maximum: 4 << 30, ..fill(size, 10 << 20, allocated) };
    scheduler.start(far(8 << 20, 2 << 20), now);
    assert!(scheduler.slice(far(9 << 20, 3 << 20), now).is_some());
    (0..1000).for_each(|_| scheduler.stopped(now, now + MILLISECOND));
    assert!(scheduler.may_stop(now + MILLISECOND), "no share is left to the mutator");
}

/// Nursery collections hand out much at once, of objects that are smaller than expected, and all of it lives.
#[test]
fn work_keeps_up_with_what_is_born_in_a_cycle() {
    const STEP: u64 = 512 << 10;
    const LIMIT: u64 = 16 << 20;
    let params = CycleParams { schedule: Schedule::Work, ..CycleParams::DEFAULT };
    for start in [1 << 20, LIMIT / 2, LIMIT] {
        let mut scheduler = Scheduler::new(params);
        let now = Instant::now();
        let far = |size, allocated| Fill { maximum: 4 << 30, ..fill(size, LIMIT, allocated) };
        scheduler.start(far(start, start), now);
        let (mut size, mut done) = (start, 0);
        // A unit for each object of 16 bytes.
        while done < size / 16 {
            size += STEP;
            for _ in 0..16 {
                let Some((mut budget, false)) = scheduler.slice(far(size, size), now) else { break };
                while !budget.is_exhausted() {
                    budget.spend(1);
                }
                assert!(budget.spent < 16 * SLICE_UNITS, "a slice of {} units", budget.spent);
                done += budget.spent;
            }
            assert!(size < 2 * LIMIT, "the cycle that began at {start} has marked {done} of {} objects", size / 16);
        }
    }
}

#[test]
fn a_cycle_begins_before_the_limit_is_reached() {
    let scheduler = Scheduler::new(CycleParams::DEFAULT);
    let now = Instant::now() + MILLISECOND;
    assert!(!scheduler.is_cycle_due(fill(1 << 20, 32 << 20, 0), now), "nothing has been allocated");
    assert!(scheduler.is_cycle_due(fill(32 << 20, 32 << 20, 31 << 20), now), "the limit");
    assert!(scheduler.is_cycle_due(fill(16 << 20, 32 << 20, 15 << 20), now), "so fast, it will be reached");
    let later = now + Duration::from_secs(1000);
    assert!(!scheduler.is_cycle_due(fill(16 << 20, 32 << 20, 15 << 20), later), "slowly");
    let few = Fill { addresses: 1 << 20, ..fill(4 << 20, 1 << 30, 3 << 20) };
    assert!(scheduler.is_cycle_due(few, now), "no addresses are left for what comes");
    assert!(!scheduler.is_cycle_due(few, later), "slowly");
}
