//! `legato-lab pressure` with whole programs in folders that stand for memory groups: nothing is limited there.
#![cfg(target_os = "linux")]

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
      (global.set $last (array.new $ints (local.get $i) (i32.const 2000)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $i) (i32.const 5000))))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 64)))))"#;

/// A folder of examples in which `kotlin/lru` is the program above, and another for groups.
fn folders() -> [tempfile::TempDir; 2] {
    let [examples, groups] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let out = examples.path().join("out/kotlin");
    std::fs::create_dir_all(&out).unwrap();
    std::fs::write(out.join("lru.wasm"), wat::parse_str(PROGRAM).unwrap()).unwrap();
    std::fs::write(out.join("lru.expected"), "done\n").unwrap();
    std::fs::write(groups.path().join("cgroup.controllers"), "memory\n").unwrap();
    [examples, groups]
}

fn lab(examples: &Path, groups: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_legato-lab"));
    command.args(["pressure", "--json", "--runs", "2", "--smallest", "--swap-size", "0", "--examples"]).arg(examples);
    command.arg("--group").arg(groups).args(options).output().unwrap()
}

fn report(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Subjects and runs of a table's rows.
fn rows(report: &Value, experiment: &str) -> Vec<(String, Vec<Vec<f64>>)> {
    let tables = report["tables"].as_array().unwrap();
    let table = tables.iter().find(|table| table["experiment"] == experiment);
    let table = table.unwrap_or_else(|| panic!("no {experiment} in {report:#}"));
    let row = |row: &Value| {
        assert!(row["error"].is_null(), "{row}");
        (row["subject"].as_str().unwrap().to_string(), serde_json::from_value(row["runs"].clone()).unwrap())
    };
    table["rows"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn every_rule_is_run_with_pressure_and_without() {
    let [examples, groups] = folders();
    let report = report(&lab(examples.path(), groups.path(), &["--filter", "lru"]));
    for (experiment, columns) in [("with pressure", 3 + 5), ("without pressure", 4)] {
        let [(subject, runs)] = &rows(&report, experiment)[..] else { panic!("not one program in {report:#}") };
        assert_eq!((subject.as_str(), runs.len()), ("kotlin/lru", columns));
        assert!(runs[runs.len() - 1].len() == 2 && runs.iter().flatten().all(|&figure| figure >= 0.0), "{runs:?}");
    }
    let trade = rows(&report, "collections and page faults");
    assert_eq!(trade.len(), 5);
    assert!(trade.iter().all(|(_, runs)| runs[0].len() == 2 && runs[0][0] > 0.0), "no nursery collections: {trade:?}");
    let paper = report["tables"].as_array().unwrap().last().unwrap();
    assert!(paper["rows"].as_array().unwrap().len() == 12, "{paper}");
    // Each run had a group of its own: the program by itself, and two rounds of five rules with pressure and without.
    // The first was made to see whether groups can be made.
    let count = |file: &str| {
        let folders = std::fs::read_dir(groups.path()).unwrap().map(|entry| entry.unwrap().path());
        folders.filter(|folder| folder.join(file).exists()).count()
    };
    assert_eq!((count("cgroup.procs"), count("memory.max")), (1 + 2 * 5 * 2, 1 + 2 * 5));
}

#[test]
fn the_maximum_of_the_heap_is_swept() {
    let [examples, groups] = folders();
    let report = report(&lab(examples.path(), groups.path(), &["--filter", "lru", "--sweep"]));
    let curve = rows(&report, "kotlin/lru");
    assert_eq!(curve.len(), 6);
    assert!(curve.iter().all(|(_, runs)| runs.len() == 5 && runs.iter().all(|runs| runs.len() == 2)), "{curve:?}");
    assert_eq!(rows(&report, "table 3")[0].1.len(), 6);
    assert_eq!(rows(&report, "the paper's table 3").len(), 6);
}

#[test]
fn containers_have_no_swap() {
    let [examples, groups] = folders();
    let report = report(&lab(examples.path(), groups.path(), &["--filter", "lru", "--container"]));
    let [(_, runs)] = &rows(&report, "containers")[..] else { panic!("not one program in {report:#}") };
    assert_eq!([&runs[2], &runs[3], &runs[4]], [&[2.0], &[0.0], &[0.0]], "runs, killed, failed");
    let folders = std::fs::read_dir(groups.path()).unwrap().map(|entry| entry.unwrap().path());
    let without = folders.filter_map(|folder| std::fs::read_to_string(folder.join("memory.swap.max")).ok());
    assert_eq!(without.collect::<Vec<_>>(), ["0", "0"]);
}

#[test]
fn a_machine_without_groups_is_no_failure_of_the_program() {
    let [examples, nothing] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let output = lab(examples.path(), nothing.path(), &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2) && said.contains("no memory groups") && said.lines().count() == 1,
        "{said}"
    );
}

#[test]
fn what_has_not_been_built_is_a_row_with_its_reason() {
    let [examples, groups] = folders();
    let output = lab(examples.path(), groups.path(), &["--filter", "kotlin/trees"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("build kotlin/trees"), "{output:?}");
}
