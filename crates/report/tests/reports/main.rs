//! Events made by hand give figures that can be worked out by hand, in every form of a report.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use legato_heap::{
    Cause, CollectionKind, GcEvent, GcObserver, GcSlice, GcStop, HeapConfig, HeapStats, Phase, PhaseTimes, StopKind,
};
use legato_report::{Cycles, Fanout, GcLog, GcRecorder, Report};
use scraper::{Html, Selector};

mod cycles;

const MIB: u64 = 1 << 20;

const fn us(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}

fn event(number: u64, kind: CollectionKind, start: Duration, pause: Duration) -> GcEvent {
    let nursery = kind == CollectionKind::Nursery;
    GcEvent {
        number,
        cause: if nursery { Cause::Nursery } else { Cause::Limit },
        kind,
        start,
        before_bytes: 24 * MIB,
        after_bytes: 20 * MIB,
        limit_bytes: 64 * MIB,
        allocated_bytes: 4 * MIB,
        committed_bytes: 32 * MIB + number,
        pause,
        cycle: None,
        phases: PhaseTimes { roots: pause / 10, evacuate: pause / 2, ..PhaseTimes::default() },
        zeroing: us(50),
        concurrent_zeroing: us(20),
        concurrent_marking: us(30),
        marked_objects: 1000,
        promoted_bytes: if nursery { MIB } else { 0 },
        promoted_objects: if nursery { 1024 } else { 0 },
        moved_objects: 0,
        moved_bytes: 0,
        aging_bytes: 0,
        freed_handles: 0,
        dropped_externals: 0,
        pressure: None,
    }
}

/// When the first collection may begin: so late that no test is still running by then, whatever holds it up.
const BEGIN: Duration = Duration::from_secs(1000);

/// One collection every 10 ms, pauses of 1 us, 2 us and so on; every hundredth is full and takes a thousand times as
/// long.
fn events(count: u64) -> impl Iterator<Item = GcEvent> {
    (1..=count).map(|number| {
        let full = number % 100 == 0;
        let kind = if full { CollectionKind::Full } else { CollectionKind::Nursery };
        let pause = us(if full { 1000 * (number / 100) } else { number % 100 });
        event(number, kind, BEGIN + Duration::from_millis(10 * number), pause)
    })
}

/// Tells of a collection in one stop, for half of which there was a processor.
fn tell(observer: &mut dyn GcObserver, event: &GcEvent) {
    let kind = if event.kind == CollectionKind::Nursery { StopKind::Nursery } else { StopKind::Full };
    observer.stop(&GcStop { start: event.start, wall: event.pause, cpu: event.pause / 2, kind });
    observer.event(event);
}

fn recorded(events: impl IntoIterator<Item = GcEvent>) -> GcRecorder {
    let recorder = GcRecorder::with_events();
    let mut observer = recorder.clone();
    events.into_iter().for_each(|event| tell(&mut observer, &event));
    recorder
}

fn report(recorder: &GcRecorder, heap: Option<HeapStats>) -> Report {
    Report::new("trees.wasm", "ended", HeapConfig::default().settings(), recorder.record(), heap)
}

/// Parses a page, which must be without a mistake.
#[track_caller]
fn parsed(html: &str) -> Html {
    let page = Html::parse_document(html);
    assert!(page.errors.is_empty(), "{:?}", page.errors);
    page
}

fn texts(page: &Html, selector: &str) -> Vec<String> {
    let selector = Selector::parse(selector).unwrap();
    page.select(&selector).map(|element| element.text().collect()).collect()
}

#[track_caller]
fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() <= expected.abs() * 1e-3, "{value} is not {expected}");
}

#[test]
fn known_figures() {
    let statistics = report(&recorded(events(200)), None).statistics;
    assert_eq!(statistics.collections.total, 200);
    assert_eq!(statistics.collections.by_kind, [("nursery".to_string(), 198), ("full".to_string(), 2)].into());
    assert_eq!(statistics.collections.by_cause, [("nursery".to_string(), 198), ("limit".to_string(), 2)].into());
    let nursery = &statistics.pauses.by_kind["nursery"];
    // Each of 1 to 99 us twice.
    near(nursery.wall.p50_us, 50.0);
    near(nursery.wall.p90_us, 90.0);
    near(nursery.wall.p99_us, 99.0);
    assert_eq!(
        (nursery.count, nursery.wall.max_us, nursery.wall.mean_us, nursery.wall.total_us),
        (198, 99.0, 50.0, 9900.0)
    );
    let all = &statistics.pauses.all;
    near(all.wall.p99_us, 99.0);
    near(all.wall.p99_9_us, 2000.0);
    near(all.cpu.p99_9_us, 1000.0);
    assert_eq!((all.count, all.wall.max_us, all.wall.total_us), (200, 2000.0, 12900.0));
    assert_eq!((all.cpu.max_us, all.cpu.total_us), (1000.0, 6450.0));
    assert_eq!(statistics.cycles, Cycles { total: 0, slices: 0, shrunk_gaps: 0, missed_deadlines: 0 });
    near(statistics.phases_us["roots"], 1290.0);
    near(statistics.phases_us["evacuate"], 6450.0);
    assert_eq!(statistics.phases_us["sweep"], 0.0);
    // The longest pause of 2 ms fills windows of 1 and 2 ms. One of 10 ms holds it alone, one of 20 ms the one before
    // too.
    let utilisations: Vec<_> = statistics.mmu.iter().map(|point| point.utilisation.unwrap()).collect();
    near(utilisations[0], 0.0);
    near(utilisations[1], 0.0);
    near(utilisations[2], 0.6);
    near(utilisations[3], 0.8);
    near(utilisations[4], 1.0 - (2.0 + 0.099) / 20.0);
    let utilisations: Vec<_> = statistics.mmu.iter().map(|point| point.cpu_utilisation.unwrap()).collect();
    near(utilisations[0], 0.0);
    near(utilisations[1], 0.5);
    near(utilisations[4], 1.0 - (1.0 + 0.0495) / 20.0);
    near(statistics.time.wall_s, 1002.002);
    near(statistics.gc_share, 0.0129 / 1002.002);
    assert_eq!(statistics.allocation.bytes, 800 * MIB);
    near(statistics.allocation.bytes_per_second, 800.0 * MIB as f64 / 1002.002);
    assert_eq!((statistics.promotion.bytes, statistics.promotion.objects), (198 * MIB, 198 * 1024));
    near(statistics.promotion.share, 198.0 / 800.0);
    assert_eq!((statistics.zeroing.mutator_us, statistics.zeroing.concurrent_us), (10_000.0, 4_000.0));
    assert_eq!(statistics.marking.concurrent_us, 6_000.0);
    near(statistics.zeroing.mutator_share, 0.01 / 1002.002);
    assert_eq!(statistics.memory.peak_committed_bytes, 32 * MIB + 200);
    assert!(statistics.memory.peak_resident_bytes.unwrap() > MIB);
    assert_eq!(statistics.heap, None);
}

#[test]
fn the_heap_counts_what_came_after_the_last_collection() {
    let heap = HeapStats {
        allocated_bytes: 1000 * MIB,
        committed_bytes: 99 * MIB,
        zeroing_us: 77_000,
        ..HeapStats::default()
    };
    let statistics = report(&recorded(events(10)), Some(heap)).statistics;
    assert_eq!(statistics.allocation.bytes, 1000 * MIB);
    assert_eq!(statistics.memory.peak_committed_bytes, 99 * MIB);
    assert_eq!(statistics.zeroing.mutator_us, 77_000.0);
    assert_eq!(statistics.heap, Some(heap));
}

#[test]
fn json_has_the_figures_under_their_names() {
    let report = report(&recorded(events(200)), Some(HeapStats { live_objects: 7, ..HeapStats::default() }));
    let json = report.json();
    assert!(!json.contains('\n'));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["program"], "trees.wasm");
    assert_eq!(json["outcome"], "ended");
    assert_eq!(json["configuration"]["collector"], "generational");
    assert_eq!(json["collections"]["total"], 200);
    assert_eq!(json["collections"]["by_kind"]["full"], 2);
    assert_eq!(json["pauses"]["all"]["max_us"], 2000.0);
    assert_eq!(json["pauses"]["all"]["cpu"]["max_us"], 1000.0);
    assert_eq!(json["cycles"]["missed_deadlines"], 0);
    assert_eq!(json["pauses"]["by_kind"]["nursery"]["count"], 198);
    assert_eq!(json["mmu"][3]["window_ms"], 10);
    near(json["mmu"][3]["utilisation"].as_f64().unwrap(), 0.8);
    assert_eq!(json["heap"]["live_objects"], 7);
    assert!(json["machine"]["processors"].as_u64().unwrap() > 0);
    for (object, fields) in [
        ("allocation", &["bytes", "bytes_per_second"][..]),
        ("promotion", &["bytes", "objects", "share"]),
        ("zeroing", &["mutator_us", "concurrent_us", "mutator_share"]),
        ("marking", &["concurrent_us"]),
        ("memory", &["peak_committed_bytes", "peak_resident_bytes"]),
        ("time", &["wall_s", "user_cpu_s", "system_cpu_s"]),
        ("cycles", &["total", "slices", "shrunk_gaps", "missed_deadlines"]),
    ] {
        for field in fields {
            assert!(json[object][field].is_number(), "{object}.{field}: {json}");
        }
    }
}

#[test]
fn text_has_the_figures() {
    let text = report(&recorded(events(200)), None).to_string();
    for part in
        ["trees.wasm: ended", "nursery 198", "2.00 ms", "10 ms 80.0 %", "10 ms 90.0 %", "800 MiB", "198 MiB", "10.0 ms"]
    {
        assert!(text.contains(part), "`{part}` is missing:\n{text}");
    }
}

#[test]
fn the_page_is_well_formed_and_has_the_figures() {
    let html = report(&recorded(events(200)), None).html();
    let page = parsed(&html);
    let tiles = texts(&page, ".tiles div").join("\n");
    for tile in ["collections200", "longest pause2.00 ms", "utilisation in 10 ms80.0 %"] {
        assert!(tiles.contains(tile), "`{tile}` is missing:\n{tiles}");
    }
    let svg = Selector::parse("svg").unwrap();
    let charts: Vec<_> = page.select(&svg).filter_map(|svg| svg.attr("aria-label")).collect();
    for chart in ["Size of the heap", "Pauses over time", "Minimum mutator", "Allocation rate", "Zeroing"] {
        assert!(charts.iter().any(|label| label.starts_with(chart)), "{chart}: {charts:?}");
    }
    // A header and twenty of the two hundred, the longest first.
    let longest = texts(&page, ".longest tr");
    assert_eq!(longest.len(), 21);
    assert!(longest[1].starts_with("2.00 ms1.00 ms1002.000 sfullevacuate 1.00 ms200limit24 MiB"), "{}", longest[1]);
    assert!(longest[2].starts_with("1.00 ms500 µs1001.000 sfull"), "{}", longest[2]);
    assert!(texts(&page, ".names tr").iter().any(|row| row == "collectorgenerational"));
    assert!(!html.contains("NaN") && !html.contains("inf"), "a figure is no number");
}

/// The rare long one is not lost among them.
#[test]
fn millions_of_stops_fit_on_a_page() {
    let recorder = GcRecorder::with_events();
    let mut observer = recorder.clone();
    for number in 0..1_000_000u64 {
        let (wall, kind) = if number == 777_777 { (us(900), StopKind::ShrunkGap) } else { (us(100), StopKind::Slice) };
        let start = BEGIN + Duration::from_millis(number);
        observer.slice(&GcSlice { phase: Phase::Mark, start, wall, cpu: wall });
        observer.stop(&GcStop { start, wall, cpu: wall, kind });
    }
    let report = report(&recorder, None);
    let all = report.statistics.pauses.all;
    assert_eq!((all.count, all.wall.max_us), (1_000_000, 900.0));
    near(all.wall.p99_9_us, 100.0);
    let html = report.html();
    assert!(html.len() < 500_000, "{} bytes", html.len());
    let page = parsed(&html);
    let path = Selector::parse("path.dots.shrunk-gap").unwrap();
    assert!(page.select(&path).next().unwrap().attr("d").unwrap().contains('V'));
    assert!(texts(&page, ".longest tr")[1].starts_with("900 µs900 µs1777.777 sshrunk-gapmark 900 µsin a cycle"));
}

#[test]
fn the_page_loads_nothing_from_elsewhere() {
    let html = report(&recorded(events(5)), None).html();
    for outside in ["http:", "https:", "src=", "href=", "@import", "url("] {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[test]
fn a_hundred_thousand_collections_fit_on_a_page() {
    let large = report(&recorded(events(100_000)), None).html();
    assert!(large.len() < 500_000, "{} bytes", large.len());
    let page = parsed(&large);
    // The longest of all is not lost in the crowd: 1000 ms, at the top of its axis.
    assert!(texts(&page, ".tiles div").contains(&"longest pause1.00 s".to_string()));
    let top = Selector::parse("path.dots.full").unwrap();
    let path = page.select(&top).next().unwrap().attr("d").unwrap();
    assert!(path.ends_with("V12"), "{path}");
}

#[test]
fn pages_of_unusual_runs_are_well_formed() {
    let instant = event(1, CollectionKind::Full, Duration::ZERO, Duration::ZERO);
    for (events, says) in [
        (vec![], "There was no collection."),
        (vec![instant], "ran for"),
        (vec![event(1, CollectionKind::Full, us(5), Duration::from_secs(3000))], "3000 s"),
    ] {
        let html = report(&recorded(events), None).html();
        parsed(&html);
        assert!(html.contains(says), "{says}");
        assert!(!html.contains("NaN") && !html.contains("inf"), "a figure is no number");
    }
    let mut without_events = GcRecorder::new();
    events(3).for_each(|event| tell(&mut without_events, &event));
    let html = report(&without_events, None).html();
    parsed(&html);
    assert!(html.contains("kept no events"));
    let hostile = Report::new("<script>&\"", "<b>", Vec::new(), recorded(events(2)).record(), None).html();
    parsed(&hostile);
    assert!(!hostile.contains("<script>&") && !hostile.contains("<b>"));
}

/// Text that the test can read while a log writes it.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn everyone_hears_of_every_collection() {
    let log = Shared::default();
    let (first, second) = (GcRecorder::with_events(), GcRecorder::new());
    let mut observer = Fanout::new().with(GcLog::new(log.clone())).with(first.clone()).with(second.clone());
    assert!(!observer.is_empty() && Fanout::new().is_empty());
    let events: Vec<_> = events(3).collect();
    events.iter().for_each(|event| tell(&mut observer, event));
    assert_eq!(first.record().events(), Some(&events[..]));
    assert_eq!(second.record().events(), None);
    assert_eq!(second.record().statistics(None).collections.total, 3);
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(
        lines[1],
        "gc #2 nursery (nursery) at 1000.020 s: 24576K -> 20480K (limit 65536K, committed 32769K), promoted 1024K, \
         zeroing 0.050 ms, pause 0.002 ms"
    );
    assert_eq!(lines.len(), 3);
}

#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
    events(2).for_each(|event| tell(&mut GcLog::new(Broken), &event));
}
