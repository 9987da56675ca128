//! `legato-lab arrays` with whole programs, which run in processes of their own, at tiny sizes.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// A program in place of an example: fills arrays, drops them, and prints a line.
const PROGRAM: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\08\00\00\00\05\00\00\00done\n")
  (type $ints (array (mut i32)))
  (global $last (mut (ref null $ints)) (ref.null $ints))
  (func (export "_start") (local $i i32)
    (loop $more
      (global.set $last (array.new $ints (local.get $i) (i32.const 5000)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $i) (i32.const 2000))))
    (if (i32.ne (array.get $ints (global.get $last) (i32.const 4999)) (i32.const 1999)) (then (unreachable)))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 64)))))"#;

/// A folder of examples in which `kotlin/fft` is the program above.
fn examples(expected: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out/kotlin");
    std::fs::create_dir_all(&out).unwrap();
    std::fs::write(out.join("fft.wasm"), wat::parse_str(PROGRAM).unwrap()).unwrap();
    std::fs::write(out.join("fft.expected"), expected).unwrap();
    folder
}

fn lab(examples: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_legato-lab"));
    command.args(["arrays", "--pairs", "2", "--smallest", "--json", "--examples"]).arg(examples).args(options);
    command.output().unwrap()
}

fn report(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// The median in a cell of a table.
fn cell(report: &Value, table: usize, row: usize, column: usize) -> f64 {
    let cell = &report["tables"][table]["rows"][row]["cells"][column]["median"];
    cell.as_f64().unwrap_or_else(|| panic!("no figure in table {table}, row {row}, column {column} of {report:#}"))
}

/// Heaps that differ in other things than arrays.
const HEAPS: [&str; 6] = [
    "--baseline",
    "nursery=1M",
    "--configuration",
    "collector=mark-sweep",
    "--configuration",
    "barrier=cards,nursery=1M",
];

#[test]
fn programs_run_under_every_heap() {
    let examples = examples("done\n");
    let output = lab(examples.path(), &[&HEAPS[..], &["--filter", "kotlin/fft"]].concat());
    let report = report(&output);
    assert!(output.status.success(), "{report:#}");
    // Times, memory, and what both heaps come to.
    assert_eq!(report["tables"].as_array().unwrap().len(), 3);
    for (table, rows, columns) in [(0, 1, 3), (1, 1, 3), (2, 2, 3)] {
        assert_eq!(report["tables"][table]["rows"].as_array().unwrap().len(), rows, "{report:#}");
        for row in 0..rows {
            for column in 0..columns {
                assert!(cell(&report, table, row, column) > 0.0, "{report:#}");
            }
        }
    }
    assert_eq!(report["tables"][0]["rows"][0]["runs"][0].as_array().unwrap().len(), 2);
}

#[test]
fn every_layout_prints_the_same() {
    let examples = examples("done\n");
    let report = report(&lab(examples.path(), &["--filter", "kotlin/fft"]));
    // Whether a bound is kept is not for a test to say.
    let errors: Vec<&Value> = report["tables"].as_array().unwrap().iter().map(|table| &table["rows"]).collect();
    let errors = errors.iter().flat_map(|rows| rows.as_array().unwrap()).filter(|row| !row["error"].is_null());
    assert_eq!(errors.count(), 0, "{report:#}");
    for column in 0..7 {
        assert!(cell(&report, 0, 0, column) > 0.0, "{report:#}");
    }
}

#[test]
fn the_live_heap_is_looked_at() {
    let examples = examples("done\n");
    let options = ["--baseline", "nursery=1M", "--configuration", "references=thin-handles", "--footprint"];
    let output = lab(examples.path(), &[&options[..], &["--filter", "kotlin/fft"]].concat());
    let report = report(&output);
    assert!(output.status.success(), "{report:#}");
    // One array of 20,000 bytes lives, or two, and the collector counts whole blocks.
    let live = cell(&report, 0, 0, 0);
    assert!((20_000.0..400_000.0).contains(&live), "{live}");
    // Another model of references saves no part of an array.
    assert!(cell(&report, 0, 0, 1).abs() < 0.5, "{report:#}");
}

#[test]
fn an_unknown_heap_is_a_row_with_its_error_and_the_others_are_measured() {
    let examples = examples("done\n");
    let options = [&HEAPS[..], &["--configuration", "colour=green", "--filter", "kotlin/fft"]].concat();
    let output = lab(examples.path(), &options);
    let report = report(&output);
    assert_eq!(output.status.code(), Some(1), "{report:#}");
    assert!(cell(&report, 0, 0, 2) > 0.0);
    let summary = report["tables"][2]["rows"].as_array().unwrap();
    let failed: Vec<&Value> = summary.iter().filter(|row| !row["error"].is_null()).collect();
    assert_eq!((summary.len(), failed.len()), (3, 1), "{report:#}");
    assert!(failed[0]["error"].as_str().unwrap().contains("colour"), "{report:#}");
}

#[test]
fn a_wrong_output_and_a_missing_program_are_no_results() {
    let examples = examples("something else\n");
    // All programs but one have not been built.
    let output =
        lab(examples.path(), &["--baseline", "nursery=1M", "--configuration", "nursery=2M", "--filter", "kotlin"]);
    let report = report(&output);
    assert_eq!(output.status.code(), Some(1), "{report:#}");
    let rows = report["tables"][0]["rows"].as_array().unwrap();
    let error = |name: &str| {
        let row = rows.iter().find(|row| row["subject"] == name).unwrap();
        row["error"].as_str().unwrap().to_string()
    };
    assert!(error("kotlin/fft").contains("on the JVM"), "{report:#}");
    assert!(error("kotlin/matrix").contains("build kotlin/matrix"), "{report:#}");
}
