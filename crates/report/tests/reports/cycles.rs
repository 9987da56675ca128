//! What is said of incremental cycles: their stops, what they missed, and what was no pause.

use super::*;
use legato_heap::CycleTotals;

/// Tells of an incremental cycle that begins then: of slices of 300 us, one each ms, the last of them longer, with a
/// nursery collection in between.
fn tell_cycle(observer: &mut dyn GcObserver, start: Duration, kinds: &[StopKind]) {
    let at = |index: usize| start + Duration::from_millis(index as u64);
    for (index, &kind) in kinds.iter().enumerate() {
        let wall = if index + 1 == kinds.len() { us(700) } else { us(300) };
        if kind == StopKind::Nursery {
            tell(observer, &event(1, CollectionKind::Nursery, at(index), wall));
            continue;
        }
        let phase = if index == 0 { Phase::Snapshot } else { Phase::Mark };
        observer.slice(&GcSlice { phase, start: at(index), wall: wall - us(10), cpu: wall / 2 });
        observer.slice(&GcSlice { phase: Phase::Slots, start: at(index) + wall - us(10), wall: us(10), cpu: us(10) });
        observer.stop(&GcStop { start: at(index), wall, cpu: wall / 2, kind });
    }
    let slices = kinds.iter().filter(|kind| kind.is_slice()).count();
    let of = |kind| kinds.iter().filter(|of| **of == kind).count() as u64;
    let totals = CycleTotals {
        slices: slices as u64,
        elapsed: at(kinds.len() - 1) + us(700) - start,
        longest_stop: us(700),
        idle: us(300) * of(StopKind::Idle) as u32,
        shrunk_gaps: of(StopKind::ShrunkGap),
        missed_deadline: of(StopKind::MissedDeadline) > 0,
    };
    let pause = us(300) * (slices as u32 - 1) + us(700) - totals.idle;
    let phases =
        PhaseTimes { snapshot: us(290), mark: pause.saturating_sub(us(1000)), slots: us(50), ..PhaseTimes::default() };
    let event = event(2, CollectionKind::Cycle, start, pause);
    observer.event(&GcEvent { cycle: Some(totals), phases, ..event });
}

/// Of a cycle on schedule, and of one that fell behind.
fn cycles(observer: &mut dyn GcObserver) {
    use StopKind::{MissedDeadline, Nursery, ShrunkGap, Slice};
    tell_cycle(observer, BEGIN, &[Slice, Slice, Nursery, Slice, Slice]);
    tell_cycle(observer, BEGIN + Duration::from_secs(1), &[Slice, ShrunkGap, ShrunkGap, MissedDeadline]);
}

#[test]
fn what_cycles_missed_is_shown_wherever_pauses_are() {
    let recorder = GcRecorder::with_events();
    cycles(&mut recorder.clone());
    let report = report(&recorder, None);
    let statistics = &report.statistics;
    assert_eq!(statistics.cycles, Cycles { total: 2, slices: 8, shrunk_gaps: 2, missed_deadlines: 1 });
    assert_eq!(statistics.collections.by_kind, [("cycle".to_string(), 2), ("nursery".to_string(), 1)].into());
    let counts: Vec<_> = statistics.pauses.by_kind.iter().map(|(kind, pauses)| (kind.as_str(), pauses.count)).collect();
    assert_eq!(counts, [("missed-deadline", 1), ("nursery", 1), ("shrunk-gap", 2), ("slice", 5)]);
    // Stops, not whole cycles: the longest is 700 us, and the most in 5 ms is five of them.
    assert_eq!((statistics.pauses.all.count, statistics.pauses.all.wall.max_us), (9, 700.0));
    let utilisation = |ms| statistics.mmu.iter().find(|point| point.window_ms == ms).unwrap().utilisation.unwrap();
    near(utilisation(1), 0.3);
    near(utilisation(5), 1.0 - (4.0 * 0.3 + 0.7) / 5.0);
    near(statistics.gc_share * statistics.time.wall_s, (7.0 * 0.3 + 2.0 * 0.7) / 1e3);
    let slices = &statistics.phase_slices;
    assert_eq!((slices["slots"].count, slices["slots"].wall_us, slices["slots"].longest_us), (8, 80.0, 10.0));
    assert_eq!((slices["snapshot"].count, slices["mark"].count, slices["mark"].longest_us), (2, 6, 690.0));

    let text = report.to_string();
    let line = "cycles       2 in 8 slices, shrunk gaps 2, missed deadlines 1\n";
    assert!(text.contains(line), "{text}");
    let html = report.html();
    let page = parsed(&html);
    let tiles = texts(&page, ".tiles .behind");
    assert_eq!(tiles, ["missed deadlines1", "shrunk gaps2"]);
    // Above the chart over time, and above the distribution.
    let words = "Cycles: 2 in 8 slices, shrunk gaps 2, missed deadlines 1.";
    assert_eq!(texts(&page, "p.cycles.missed-deadline"), [words; 2]);
    let labels: Vec<_> =
        page.select(&Selector::parse("svg").unwrap()).filter_map(|svg| svg.attr("aria-label")).collect();
    for kind in ["nursery", "slice", "shrunk-gap", "missed-deadline"] {
        assert!(labels.contains(&format!("How many {kind} stops were how long").as_str()), "{labels:?}");
        assert_eq!(texts(&page, &format!("path.dots.{kind}")).len(), 1);
    }
    let longest = texts(&page, ".longest tr");
    assert_eq!(longest.len(), 10);
    assert!(longest[1].starts_with("700 µs350 µs1000.004 sslicemark 690 µs2limit"), "{}", longest[1]);
    assert!(longest[2].starts_with("700 µs350 µs1001.003 smissed-deadlinemark 690 µs2limit"), "{}", longest[2]);
    assert!(longest[9].ends_with("mark 290 µsin a cycle"), "{}", longest[9]);
    let rows = texts(&page, ".pauses tr");
    assert!(rows.iter().any(|row| row.starts_with("missed-deadlinewall1700 µs")), "{rows:?}");
    assert!(rows.iter().any(|row| row.starts_with("CPU350 µs350 µs")), "{rows:?}");
    assert!(!html.contains("NaN") && !html.contains("inf"), "a figure is no number");
}

#[test]
fn time_that_the_host_gave_is_no_pause() {
    let recorder = GcRecorder::with_events();
    let log = Shared::default();
    for observer in [&mut recorder.clone() as &mut dyn GcObserver, &mut GcLog::new(log.clone())] {
        tell_cycle(observer, BEGIN, &[StopKind::Idle, StopKind::Idle, StopKind::Slice]);
    }
    let report = report(&recorder, None);
    let pauses = &report.statistics.pauses;
    assert_eq!((pauses.by_kind["idle"].count, pauses.by_kind["idle"].wall.total_us), (2, 600.0));
    assert_eq!((pauses.all.count, pauses.all.wall.total_us), (1, 700.0));
    assert_eq!(report.statistics.cycles.slices, 3);
    near(report.statistics.gc_share * report.statistics.time.wall_s, 0.7e-3);
    let utilisation = report.statistics.mmu.iter().find(|point| point.window_ms == 5).unwrap().utilisation;
    near(utilisation.unwrap(), 1.0 - 0.7 / 5.0);
    let html = report.html();
    let page = parsed(&html);
    assert_eq!(texts(&page, "path.dots.idle").len(), 1);
    assert_eq!(texts(&page, ".longest tr").len(), 2, "its head, and the slice");
    assert!(html.contains("in time that the host gave"));
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let says = "pause 0.700 ms in 3 slices over 2.700 ms, longest 0.700 ms, shrunk gaps 0, deadline met, idle 0.600 ms, \
        helper 0.030 ms, utilisation 93.0 % in the worst 10 ms";
    assert!(log.contains(says), "{log}");
}

#[test]
fn cycles_on_schedule_say_so_too() {
    let recorder = GcRecorder::with_events();
    tell_cycle(&mut recorder.clone(), BEGIN, &[StopKind::Slice; 3]);
    let html = report(&recorder, None).html();
    let page = parsed(&html);
    assert!(texts(&page, ".tiles div").contains(&"missed deadlines0".to_string()));
    assert_eq!(texts(&page, ".tiles .behind"), [""; 0]);
    assert_eq!(texts(&page, "p.cycles"), ["Cycles: 1 in 3 slices, shrunk gaps 0, missed deadlines 0."; 2]);
    assert_eq!(texts(&page, "p.missed-deadline"), [""; 0]);
}

#[test]
fn the_log_has_a_line_for_each_cycle() {
    let log = Shared::default();
    let mut observer = GcLog::new(log.clone());
    // What came before the cycle does not count in its worst window.
    tell(&mut observer, &event(1, CollectionKind::Nursery, BEGIN - Duration::from_secs(1), Duration::from_millis(9)));
    cycles(&mut observer);
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines.len(), 4, "{log}");
    assert!(lines[1].starts_with("gc #1 nursery") && lines[1].ends_with("pause 0.300 ms"), "{log}");
    // All stops of the cycle lie in one window, that of the nursery too.
    assert_eq!(
        lines[2],
        "gc #2 cycle (limit) at 1000.000 s: 24576K -> 20480K (limit 65536K, committed 32769K), promoted 0K, \
         zeroing 0.050 ms, pause 1.600 ms in 4 slices over 4.700 ms, longest 0.700 ms, shrunk gaps 0, deadline met, \
         helper 0.030 ms, utilisation 81.0 % in the worst 10 ms"
    );
    let missed = "in 4 slices over 3.700 ms, longest 0.700 ms, shrunk gaps 2, deadline missed, helper 0.030 ms, \
                  utilisation 84.0 %";
    assert!(lines[3].contains(missed), "{log}");
}

#[test]
fn a_cycle_that_a_full_collection_breaks_off_is_not_hidden() {
    let (log, recorder) = (Shared::default(), GcRecorder::with_events());
    let mut observer = Fanout::new().with(GcLog::new(log.clone())).with(recorder.clone());
    let at = |ms| BEGIN + Duration::from_millis(ms);
    for (ms, wall, kind) in [(0, us(500), StopKind::Slice), (5, us(4000), StopKind::MissedDeadline)] {
        observer.stop(&GcStop { start: at(ms), wall, cpu: wall, kind });
    }
    let totals = CycleTotals {
        slices: 2,
        elapsed: Duration::from_millis(9),
        longest_stop: us(4000),
        idle: Duration::ZERO,
        shrunk_gaps: 0,
        missed_deadline: true,
    };
    observer.event(&GcEvent { cycle: Some(totals), ..event(1, CollectionKind::Full, BEGIN, us(4500)) });
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.starts_with("gc #1 full (limit)"), "{log}");
    assert!(log.ends_with("deadline missed, helper 0.030 ms, utilisation 55.0 % in the worst 10 ms\n"), "{log}");
    let report = report(&recorder, None);
    assert_eq!(report.statistics.cycles, Cycles { total: 0, slices: 2, shrunk_gaps: 0, missed_deadlines: 1 });
    assert!(report.to_string().contains("missed deadlines 1"), "{report}");
    assert_eq!(texts(&parsed(&report.html()), ".tiles .behind"), ["missed deadlines1"]);
}
