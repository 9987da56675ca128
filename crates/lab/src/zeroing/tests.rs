//! The whole command at tiny sizes.

use super::{Options, run};
use crate::tables::Report;
use crate::turns::Turns;
use std::path::PathBuf;

fn options(only: &[&str], filter: &[&str]) -> Options {
    let strings = |list: &[&str]| list.iter().map(|part| part.to_string()).collect::<Vec<String>>();
    let examples = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    let turns = Turns { pairs: 2, filter: strings(filter), examples, smallest: true, heap: Vec::new(), json: false };
    Options { only: strings(only), arrays: 300_000, turns }
}

fn check(report: &Report, experiments: &[&str]) {
    assert!(report.is_complete(), "{report}");
    assert_eq!(report.tables.iter().map(|table| table.experiment.as_str()).collect::<Vec<_>>(), experiments);
    for table in &report.tables {
        for row in table.rows.iter().chain(&table.summary) {
            let fine = |value: f64| value.is_finite() && value >= 0.0;
            assert!(
                row.cells.len() == table.columns.len() && row.cells.iter().all(|cell| fine(cell.median)),
                "{report}"
            );
        }
    }
}

#[test]
fn microbenchmarks_run_under_every_strategy() {
    let report = run(&options(&["init"], &[])).unwrap();
    check(&report, &["init"]);
    assert_eq!(report.tables[0].rows.len(), 3);
}

#[test]
fn programs_have_a_cost_and_a_time() {
    let report = run(&options(&["cost", "total"], &["wat/trees"])).unwrap();
    check(&report, &["cost", "total"]);
    // Binary trees fill the nursery many times: somebody has zeroed it.
    assert!(report.tables[0].rows[0].cells[0].median > 0.0, "{report}");
}

#[test]
fn wrong_options_are_explained() {
    let error = |options: Options| run(&options).unwrap_err().to_string();
    assert!(error(options(&["bandwith"], &[])).contains("no experiment 'bandwith'"));
    let mut none = options(&[], &[]);
    none.turns.pairs = 0;
    assert!(error(none).contains("--pairs"));
    assert!(error(Options { arrays: 0, ..options(&[], &[]) }).contains("--arrays"));
    let mut unknown = options(&["init"], &[]);
    unknown.turns.heap = vec!["zeroing".into()];
    assert!(error(unknown).contains("KEY=VALUE"));
}
