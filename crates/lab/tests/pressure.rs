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
    command.args(["pressure", "--json", "--smallest", "--legato-only", "--swap-size", "0", "--examples"]).arg(examples);
    if !options.contains(&"--runs") {
        command.args(["--runs", "2"]);
    }
    command.arg("--group").arg(groups).args(options).output().unwrap()
}

/// Whether a process runs: one that has ended, but that nobody has waited for, does not.
fn runs(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next()).is_some_and(|state| !"ZX".contains(state))
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

#[test]
fn memory_is_taken_and_given_back_in_waves() {
    let [_, groups] = folders();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let report = report(&lab(&examples, groups.path(), &["--waves", "--wave", "0.3", "--runs", "1"]));
    let rules = rows(&report, "waves of pressure");
    assert_eq!(rules.len(), 5);
    for (rule, runs) in &rules {
        let waves = runs[3][0] as usize;
        assert!((1..=3).contains(&waves) && runs[0][0] > 0.0, "{rule}: {runs:?}");
        assert_eq!([runs[1].len(), runs[2].len(), runs[4].len()], [waves; 3], "{rule}");
    }
    // The program by itself, and for each rule one group with it and three times another process.
    let folders = std::fs::read_dir(groups.path()).unwrap().map(|entry| entry.unwrap().path());
    let limits = folders.filter(|folder| folder.join("memory.max").exists() && folder.join("cgroup.procs").exists());
    assert_eq!(limits.count(), 5);
}

#[test]
fn several_processes_share_a_group() {
    let [examples, groups] = folders();
    let report = report(&lab(examples.path(), groups.path(), &["--filter", "lru", "--processes", "2,3"]));
    let rows = rows(&report, "processes in one group");
    let titles: Vec<&str> = rows.iter().map(|(title, _)| title.as_str()).collect();
    assert_eq!(titles, ["kotlin/lru, 2 processes", "kotlin/lru, 3 processes"]);
    for (title, runs) in &rows {
        let lengths: Vec<usize> = runs.iter().map(Vec::len).collect();
        assert_eq!(lengths, [1, 1, 2, 2, 2, 1], "{title}");
        assert!(runs.iter().flatten().all(|&figure| figure >= 0.0), "{title}: {runs:?}");
    }
    let share = |at: usize| rows[at].1[0][0];
    assert!((share(1) / share(0) - 1.5).abs() < 0.01, "{} over {}", share(1), share(0));
}

#[test]
fn a_signal_ends_what_runs_in_groups() {
    /// Prints its line, and given arguments does not end.
    const ENDLESS: &str = r#"(module
      (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))
      (memory (export "memory") 1)
      (data (i32.const 0) "\08\00\00\00\05\00\00\00done\n")
      (func (export "_start")
        (drop (call $sizes (i32.const 32) (i32.const 36)))
        (loop $for_ever (br_if $for_ever (i32.gt_u (i32.load (i32.const 32)) (i32.const 1))))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 64)))))"#;
    let [examples, groups] = folders();
    std::fs::write(examples.path().join("out/kotlin/lru.wasm"), wat::parse_str(ENDLESS).unwrap()).unwrap();
    for (signal, status) in [("-TERM", 143), ("-INT", 130)] {
        let files = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_legato-lab"));
        command.args(["pressure", "--swap-size", "0", "--patience", "600", "--legato-only", "--filter", "lru"]);
        command.arg("--examples").arg(examples.path()).arg("--group").arg(groups.path());
        let mut lab = command.env("TMPDIR", files.path()).spawn().unwrap();
        // The first group was made to see whether groups can be made.
        let procs = groups.path().join(format!("legato-lab-{}-1/cgroup.procs", lab.id()));
        let process = loop {
            assert!(lab.try_wait().unwrap().is_none(), "it ended by itself");
            match std::fs::read_to_string(&procs) {
                Ok(process) if process.ends_with('\n') => break process.trim().to_string(),
                _ => std::thread::sleep(std::time::Duration::from_millis(10)),
            }
        };
        assert!(runs(&process));
        assert!(Command::new("kill").args([signal, &lab.id().to_string()]).status().unwrap().success());
        assert_eq!(lab.wait().unwrap().code(), Some(status));
        while runs(&process) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(std::fs::read_dir(files.path()).unwrap().count(), 0, "files are left");
    }
}
