//! Watching the collector: the log, the figures and the page, however the program ends.

mod support;

use std::fs;
use std::path::Path;

use scraper::{Html, Selector};
use serde_json::Value;
use support::{Lab, Outcome};

/// Makes lists of 1,000 cells in a loop: so many of them, then what `end` does. `live` keeps every cell.
fn lists(count: u64, live: bool, end: &str) -> String {
    let link = if live { "(global.get $list)" } else { "(ref.null $cell)" };
    format!(
        r#"(module
             (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
             (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
             (memory (export "memory") 1)
             (type $cell (struct (field i64) (field (ref null $cell))))
             (global $list (mut (ref null $cell)) (ref.null $cell))
             (func (export "_start") (local $n i64)
               (loop $more
                 (global.set $list (struct.new $cell (i64.const 1) {link}))
                 (local.set $n (i64.add (local.get $n) (i64.const 1)))
                 (br_if $more (i64.lt_u (local.get $n) (i64.const {count}000))))
               {end}))"#
    )
}

/// The figures: the last line on standard error.
#[track_caller]
fn stats(outcome: &Outcome) -> Value {
    let line = outcome.err.lines().last().unwrap_or_else(|| panic!("nothing was said: {outcome:?}"));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// The page's figures in boxes.
#[track_caller]
fn tiles(path: &Path) -> Vec<String> {
    let page = Html::parse_document(&fs::read_to_string(path).unwrap());
    assert!(page.errors.is_empty(), "{:?}", page.errors);
    let tiles = Selector::parse(".tiles div").unwrap();
    page.select(&tiles).map(|tile| tile.text().collect()).collect()
}

#[test]
fn log_figures_and_page_agree() {
    let lab = Lab::new();
    let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/wat/trees.wat");
    let expected = fs::read_to_string(trees.with_extension("expected")).unwrap();
    let trees = trees.to_str().unwrap();
    for heap in [
        "min=2M,collector=mark-sweep",
        "min=2M,collector=generational,nursery=1M,full=stop",
        "min=2M,collector=generational,nursery=1M",
    ] {
        let in_slices = heap.ends_with("nursery=1M");
        let watch = ["run", "--heap", heap, "--gc-log", "--gc-stats=json", "--gc-report", "gc.html", trees];
        let outcome = lab.legato(&watch).expect(0, &expected, &["gc #1 "]);
        let stats = stats(&outcome);
        let lines: Vec<_> = outcome.err.lines().filter(|line| line.starts_with("gc #")).collect();
        assert!(lines.len() > 5, "{outcome:?}");
        for total in [&stats["collections"]["total"], &stats["heap"]["collections"]] {
            assert_eq!(*total, lines.len(), "{outcome:?}");
        }
        if !in_slices {
            assert_eq!(stats["pauses"]["all"]["count"], lines.len(), "{outcome:?}");
            assert_eq!(stats["cycles"]["slices"], 0, "{outcome:?}");
        }
        for (name, heap) in [("total", "cycles")]
            .into_iter()
            .chain(["slices", "shrunk_gaps", "missed_deadlines"].map(|name| (name, name)))
        {
            assert_eq!(stats["cycles"][name], stats["heap"][heap], "{outcome:?}");
        }
        assert!(tiles(&lab.path().join("gc.html")).contains(&format!("collections{}", lines.len())));
        let kinds = stats["collections"]["by_kind"].as_object().unwrap();
        assert_eq!(kinds.contains_key("nursery"), heap.contains("generational"), "{outcome:?}");
        let of_kind = |kind: &str| lines.iter().filter(|line| line.contains(&format!(" {kind} ("))).count();
        assert!(kinds.iter().all(|(kind, count)| *count == of_kind(kind)), "{outcome:?}");
        assert_eq!(stats["outcome"], "ended");
        assert_eq!(stats["program"], trees);
        assert_eq!(stats["configuration"]["min"], "2M");
        let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value} is no number: {outcome:?}"));
        let (heap, pauses) = (&stats["heap"], &stats["pauses"]["all"]);
        // The heap's sum is of whole microseconds.
        let sums = number(&pauses["total_us"]) - number(&heap["pause_total_us"]);
        assert!((0.0..=number(&pauses["count"])).contains(&sums), "{outcome:?}");
        let ascending = ["p50_us", "p90_us", "p99_us", "p99_9_us", "max_us"].map(|name| number(&pauses[name]));
        assert!(ascending[0] > 0.0 && ascending.is_sorted(), "{outcome:?}");
        let longest = number(&pauses["max_us"]) - number(&heap["longest_stop_us"]);
        assert!((0.0..1.0).contains(&longest), "{outcome:?}");
        assert!(number(&pauses["cpu"]["total_us"]) > 0.0, "{outcome:?}");
        assert!(number(&stats["phase_slices"]["mark"]["count"]) >= number(&heap["full_collections"]), "{outcome:?}");
        let windows: Vec<_> =
            stats["mmu"].as_array().unwrap().iter().map(|point| number(&point["window_ms"])).collect();
        assert_eq!(windows, [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        let share = number(&stats["gc_share"]);
        assert!(share > 0.0 && share < 1.0, "{outcome:?}");
        assert!(number(&stats["allocation"]["bytes"]) >= number(&heap["allocated_bytes"]), "{outcome:?}");
        let peak = number(&stats["memory"]["peak_resident_bytes"]);
        assert!(peak > number(&stats["memory"]["peak_committed_bytes"]) / 2.0, "{outcome:?}");
        assert!(number(&stats["time"]["wall_s"]) > 0.0, "{outcome:?}");
    }
}

#[test]
fn text_to_read() {
    let lab = Lab::new();
    let outcome = lab.run(&["--gc-stats=text", "--heap", "min=1M"], &lists(500, false, ""), &[]);
    outcome.expect(0, "", &["module.wat: ended", "collections", "p99.9", "MMU", "allocated"]);
    lab.run(&["--gc-stats=xml"], "(module)", &[]).expect(2, "", &["json", "text"]);
}

/// Where there are no objects, there is a heap by its settings alone.
#[test]
fn a_program_without_objects() {
    let lab = Lab::new();
    let text = r#"(module
        (table 1 funcref) (elem (i32.const 0) $nothing) (memory (export "memory") 1)
        (func $nothing) (func (export "_start") (call_indirect (i32.const 0))))"#;
    let watch = ["--gc-stats=json", "--gc-report", "gc.html", "--gc-log", "--heap", "max=64M,min=2M"];
    let outcome = lab.run(&watch, text, &[]);
    assert_eq!((outcome.status, outcome.err.lines().count()), (0, 1), "{outcome:?}");
    let stats = stats(&outcome);
    let heap = &stats["heap"];
    assert_eq!((&heap["maximum_bytes"], &heap["limit_bytes"]), (&Value::from(64 << 20), &Value::from(2 << 20)));
    let zeros = ["used_bytes", "committed_bytes", "immortal_bytes", "live_bytes", "collections", "externals"];
    assert_eq!(zeros.map(|name| heap[name].as_u64()), [Some(0); 6], "{stats:#}");
    assert!(!tiles(&lab.path().join("gc.html")).is_empty());
    let outcome = lab.run(&["--gc-stats=text", "--heap", "min=1M"], text, &[]);
    outcome.expect(0, "", &["module.wat: ended", "collections  0\n", "heap 0 B"]);
}

#[test]
fn told_however_the_program_ends() {
    let lab = Lab::new();
    let endless = "(loop $spin (br $spin))";
    let sleeping = "(i64.store (i32.const 24) (i64.const 60000000000))
                    (drop (call $poll (i32.const 0) (i32.const 100) (i32.const 1) (i32.const 200)))";
    for (end, live, options, status, ended) in [
        ("unreachable", false, &[][..], 134, "unreachable"),
        ("(call $exit (i32.const 7))", false, &[], 7, "exited with status 7"),
        ("", true, &["--heap", "max=8M"], 134, "allocation"),
        (endless, false, &["--timeout", "1s"], 124, "did not end within 1s"),
        (sleeping, false, &["--timeout", "1s"], 124, "did not end within 1s"),
    ] {
        let page = lab.path().join("gc.html");
        let watch = ["--gc-stats=json", "--gc-report", "gc.html", "--heap", "min=1M,nursery=1M"];
        // Enough to fill the heap; otherwise little, so that it is done long before the time is over.
        let count = if live { 500 } else { 100 };
        let outcome = lab.run(&[&watch, options].concat(), &lists(count, live, end), &[]);
        assert_eq!(outcome.status, status, "{end}: {outcome:?}");
        let stats = stats(&outcome);
        assert!(stats["outcome"].as_str().unwrap().contains(ended), "{end}: {outcome:?}");
        assert!(stats["heap"].is_object(), "{end}: {outcome:?}");
        assert!(stats["collections"]["total"].as_u64().unwrap() > 0, "{end}: {outcome:?}");
        assert!(tiles(&page).contains(&format!("collections{}", stats["collections"]["total"])), "{end}");
        fs::remove_file(page).unwrap();
    }
}

#[test]
fn reports_that_cannot_be_written() {
    let lab = Lab::new();
    let says = "(func (export \"_start\") unreachable)";
    for path in ["absent/gc.html", "."] {
        // The program has not run, or it would have trapped.
        let module = format!("(module {says})");
        lab.run(&["--gc-report", path], &module, &[]).expect(1, "", &["cannot write the report", path, "--gc-report"]);
    }
    if cfg!(target_os = "linux") {
        let full = ["--gc-report", "/dev/full", "--gc-stats=json"];
        lab.run(&full, "(module)", &[]).expect(1, "", &["cannot write the report /dev/full"]);
        let trapped = lab.run(&full, &format!("(module {says})"), &[]);
        let trapped = trapped.expect(134, "", &["unreachable", "cannot write the report /dev/full"]);
        assert_eq!(stats(&trapped)["collections"]["total"], 0);
    }
}

#[test]
fn an_old_report_is_replaced_whole() {
    let lab = Lab::new();
    let path = lab.file("gc.html", "x".repeat(1 << 20));
    lab.run(&["--gc-report", "gc.html"], "(module)", &[]).expect(0, "", &[]);
    assert!(fs::read_to_string(&path).unwrap().ends_with("</html>"));
    let _ = tiles(&path);
}

#[test]
fn programs_that_do_not_start_leave_reports_alone() {
    let lab = Lab::new();
    let path = lab.file("gc.html", "old");
    lab.run(&["--gc-report", "gc.html", "--gc-stats=json"], "(module (func (result i32)))", &[]).expect(
        1,
        "",
        &["type"],
    );
    assert_eq!(fs::read_to_string(path).unwrap(), "old");
}
