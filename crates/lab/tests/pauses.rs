//! `legato-lab pauses` with a small cache, in processes of their own.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn lab(options: &[&str]) -> Output {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut command = Command::new(env!("CARGO_BIN_EXE_legato-lab"));
    command.args(["pauses", "--legato-only", "--seconds", "60", "--examples"]).arg(examples).args(options);
    command.output().unwrap()
}

const SMALL: [&str; 6] = ["--entries", "2000", "--steps", "500", "--runs", "2"];

fn report(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// The figures of a row.
fn figures(row: &Value) -> Vec<f64> {
    let cells = row["cells"].as_array().unwrap().iter();
    cells.map(|cell| cell["median"].as_f64().unwrap_or(f64::NAN)).collect()
}

#[test]
fn gaps_are_told_for_every_heap_and_program() {
    let heaps = ["--configuration", "nursery=256K", "--configuration", "collector=mark-sweep"];
    let report = report(&lab(&[&SMALL[..], &heaps, &["--json"]].concat()));
    let tables = report["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 4, "two programs by two clocks: {report:#}");
    for table in tables {
        let rows = table["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 3, "two heaps and the machine: {report:#}");
        for row in rows {
            assert!(row["error"].is_null(), "{report:#}");
            let figures = figures(row);
            // Largest gap, that of the median run, 99.99 %, 99.9 %.
            assert!(figures[..4].is_sorted_by(|left, right| left >= right) && figures[3] > 0.0, "{report:#}");
            assert_eq!(row["runs"][0].as_array().unwrap().len(), 2);
            if figures.len() == 7 {
                let [rate, peak] = [figures[5], figures[6]];
                assert!(rate > 100.0 && peak > 2000.0 * 156.0, "{report:#}");
            }
        }
    }
    // The nursery's heap has targets, by two clocks: two beside memory, and one. Mark-sweep has none.
    let verdicts: Vec<&str> =
        report["verdicts"].as_array().unwrap().iter().map(|verdict| verdict["what"].as_str().unwrap()).collect();
    assert_eq!(verdicts.len(), 2 * 2 + 1 + 2, "{verdicts:#?}");
    assert!(verdicts.iter().all(|what| what.contains("nursery=256K")), "{verdicts:#?}");
    let notes = report["notes"].to_string();
    assert!(notes.contains("V8 was not measured") && notes.contains("the machine's own largest gap"), "{report:#}");
}

#[test]
fn what_cannot_be_measured_is_a_failure() {
    let options = [&SMALL[..], &["--no-replacement", "--configuration", "collector=mark-sweep"]].concat();
    let output = lab(&options);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let output = lab(&[&options[..], &["--configuration", "collector=none"]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("failed:") && text.contains("cache, nothing replaced, wall time"), "{text}");
}

#[test]
fn the_report_is_markdown_on_demand() {
    let output = lab(&[&SMALL[..], &["--program", "cache", "--configuration", "", "--markdown"]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("|  | largest gap | of the median run | 99.99 % | 99.9 % |"), "{text}");
    assert!(
        text.contains("\n|---|---|---|---|---|---|---|---|\n") && text.contains("| target | measured | |"),
        "{text}"
    );
}

#[test]
fn bounds_are_measured() {
    let output =
        lab(&["--bounds", "--fewer", "200", "--steps", "300", "--configuration", "collector=mark-sweep", "--json"]);
    let report = report(&output);
    assert!(output.status.success(), "{report:#}");
    let rows = report["tables"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 9, "{report:#}");
    for row in rows {
        assert!(row["error"].is_null() && figures(row)[0] > 0.0, "{report:#}");
    }
    let output = lab(&["--bounds", "--fewer", "200", "--steps", "1", "--filter", "no such row"]);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}
