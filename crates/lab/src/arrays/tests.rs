//! The command at tiny sizes, in this process. Whole programs need processes of their own: see `tests/arrays.rs`.

use super::{Comparison, Options, Sweep, run};
use crate::heaps::Configuration;
use crate::tables::Report;
use crate::turns::Turns;
use std::path::PathBuf;

fn options() -> Options {
    Options {
        sweep: Vec::new(),
        ablate: false,
        footprint: false,
        characteristics: false,
        copy: false,
        accesses: false,
        baseline: Some("nursery=1M".into()),
        configuration: vec!["collector=mark-sweep".into(), "barrier=cards,nursery=1M".into()],
        turns: turns(2),
    }
}

fn turns(pairs: usize) -> Turns {
    let examples = PathBuf::from("nowhere");
    Turns { pairs, filter: Vec::new(), examples, smallest: true, heap: Vec::new(), json: false }
}

/// Every row has a figure in every column.
fn check(report: &Report) {
    assert!(report.is_complete(), "{report}");
    for table in &report.tables {
        assert!(!table.rows.is_empty());
        for row in &table.rows {
            assert_eq!(row.cells.len(), table.columns.len(), "{report}");
            assert!(row.cells.iter().all(|cell| cell.median.is_finite()), "{report}");
        }
    }
}

#[test]
fn copies_are_measured_for_every_type_and_shape() {
    let report = run(&Options { copy: true, ..options() }).unwrap();
    check(&report);
    let columns = 5 + usize::from(cfg!(feature = "peers"));
    assert_eq!((report.tables[0].rows.len(), report.tables[0].columns.len()), (16, columns), "{report}");
    assert!(report.tables[0].rows.iter().flat_map(|row| &row.cells).all(|cell| cell.median > 0.0), "{report}");
}

#[test]
fn accesses_are_measured_on_both_paths() {
    let report = run(&Options { accesses: true, ..options() }).unwrap();
    check(&report);
    assert_eq!(report.tables.iter().map(|table| table.rows.len()).collect::<Vec<_>>(), [24, 24]);
    assert!(report.tables.iter().flat_map(|table| &table.rows).all(|row| row.cells[0].median > 0.0), "{report}");
}

#[test]
fn a_program_that_cannot_be_read_is_a_row_with_its_error() {
    let turns = Turns { filter: vec!["kotlin/fft".into()], ..turns(2) };
    let report = run(&Options { characteristics: true, turns, ..options() }).unwrap();
    assert!(!report.is_complete());
    let failed = &report.tables[0].rows[0];
    assert!(failed.subject == "kotlin/fft" && failed.error.is_some(), "{report}");
}

#[test]
fn an_unknown_heap_is_a_row_with_its_error() {
    let unknown = || vec!["colour=green".to_string(), "collector=mark-sweep".to_string()];
    let report = run(&Options { copy: true, accesses: true, configuration: unknown(), ..options() }).unwrap();
    assert!(!report.is_complete());
    for table in &report.tables {
        let (failed, measured): (Vec<_>, Vec<_>) = table.rows.iter().partition(|row| row.error.is_some());
        assert_eq!(failed.len(), 1, "{report}");
        assert!(failed[0].error.as_ref().is_some_and(|error| error.contains("colour")), "{report}");
        assert!(measured.len() >= 16 && table.columns.len() >= 3, "{report}");
    }
    // Without its baseline, nothing can be said of a heap.
    let baseline = Some("colour=green".to_string());
    let report = run(&Options { accesses: true, baseline, configuration: unknown(), ..options() }).unwrap();
    assert!(report.tables.iter().all(|table| table.rows.iter().all(|row| row.error.is_some())), "{report}");
}

#[test]
fn the_comparisons_are_the_papers() {
    let turns = Turns { heap: vec!["nursery=1M".into()], ..turns(2) };
    let usual = Options { baseline: None, configuration: Vec::new(), turns, ..options() };
    let layouts = Comparison::layouts(&usual);
    assert_eq!(layouts.baseline.heap, ["arrays=contiguous", "nursery=1M"]);
    assert_eq!(layouts.others.len(), 8);
    assert_eq!((layouts.others[0].mean, layouts.others[1].mean), (Some(1.03), Some(1.04)));
    let last = |comparison: &Comparison| {
        let heaps =
            comparison.others.iter().map(|configuration| configuration.heap[configuration.heap.len() - 2].clone());
        heaps.collect::<Vec<String>>()
    };
    let leaves = last(&Comparison::sweep(Sweep::Leaf, &usual));
    assert_eq!((leaves.len(), leaves[0].as_str(), leaves[8].as_str()), (9, "leaf=256", "leaf=65536"));
    let first = last(&Comparison::sweep(Sweep::FirstN, &usual));
    assert_eq!((first.len(), first[0].as_str(), first[12].as_str()), (13, "first-n=64", "first-n=262144"));
    let ablation = Comparison::ablation(&usual);
    assert!(ablation.baseline.heap.contains(&"copy-on-write=on".to_string()));
    assert_eq!(last(&ablation).len(), 6);
    let named = Comparison::layouts(&options());
    assert_eq!(named.others[1].heap, ["barrier=cards", "nursery=1M"]);
    assert_eq!(Configuration::new("x", "a=b", &[]).with(&["c=d"]).heap, ["a=b", "c=d"]);
}

#[test]
fn wrong_options_are_explained() {
    let error = |options: Options| run(&options).unwrap_err().to_string();
    let nothing = Turns { filter: vec!["nothing".into()], ..turns(2) };
    assert!(error(Options { turns: turns(0), ..options() }).contains("--pairs"));
    assert!(error(Options { turns: nothing, ..options() }).contains("nothing"));
}
