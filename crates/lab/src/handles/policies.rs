//! What becomes of free handles: the configurations of Handles Revisited, table 8 and figure 3, under uni-sized
//! handles, over the paper's best one. Beside each time stands the paper's, on its platform B.
//!
//! `Norebuild` is not among them: here nothing is threaded through free handles, and what the paper rebuilds into the
//! order of addresses is never in another.

use super::Options;
use super::runs::{self, mean, median};
use crate::heaps::Configuration;
use crate::programs::Program;
use crate::stats::Ratio;
use crate::tables::{Report, Row, Table, Unit};

/// A configuration: its name in the paper, its options, and the paper's geometric mean over `Indep`.
const POLICIES: [(&str, &str, f64); 9] = [
    ("Indep", "handle-release=independent,handle-cache=some", 1.0),
    ("IndepNopreinit", "handle-release=independent,handle-cache=none", 1.006),
    ("IndepMaxpreinit", "handle-release=independent,handle-cache=all", 1.009),
    ("Noindep", "handle-release=with-cells,handle-order=fullest,handle-cache=some", 1.059),
    ("NoindepNopreinit", "handle-release=with-cells,handle-order=fullest,handle-cache=none", 1.059),
    ("NoindepMaxpreinit", "handle-release=with-cells,handle-order=fullest,handle-cache=all", 1.067),
    ("NoindepNosort", "handle-release=with-cells,handle-order=released,handle-cache=some", 1.056),
    ("NoindepRevsort", "handle-release=with-cells,handle-order=emptiest,handle-cache=some", 1.051),
    ("NaiveRelease", "handle-release=naive", 1.261),
];

/// What is used without any of these options.
const USUAL: &str = "the usual ones";

/// Adds the table: times, the collector's part, and what handles occupy.
pub(super) fn measure(programs: &[&Program], options: &Options, report: &mut Report) {
    let heaps = heaps(options);
    let all = runs::all(programs, &heaps, options, report);
    let columns = [
        ("time", Unit::Ratio),
        ("paper", Unit::Ratio),
        ("collector's time", Unit::Ratio),
        ("sweeping", Unit::Ratio),
        ("blocks of handles", Unit::Megabytes),
        ("of these in use", Unit::Share),
    ];
    let mut table = Table::new(
        "table 8 and figure 3",
        format!(
            "policies of the handle space with {} parameters, geometric means of {} programs over {}; blocks of handles \
             at the end, and the part that live objects have of them, medians of the programs",
            options.whose_parameters(),
            all.len(),
            POLICIES[0].0
        ),
        columns.map(|(name, unit)| (name.to_string(), unit)).to_vec(),
    );
    for (at, heap) in heaps.iter().enumerate() {
        let paper = POLICIES.get(at).map_or(f64::NAN, |(_, _, paper)| *paper);
        let cells = vec![
            mean(&all, |run| run.time, at, 0),
            Ratio::exactly(paper),
            mean(&all, |run| run.collector, at, 0),
            mean(&all, |run| run.sweep, at, 0),
            Ratio::exactly(median(&all, |run| run.handle_bytes, at)),
            Ratio::exactly(median(&all, |run| run.handles_in_use, at)),
        ];
        table.rows.push(Row { subject: heap.name.clone(), cells, runs: Vec::new(), error: None });
    }
    report.tables.push(table);
}

/// The policies, and the usual ones.
pub(super) fn heaps(options: &Options) -> Vec<Configuration> {
    let heap = |name: &str, own: &str| {
        let own = format!("collector=realtime,references=uni-handles,{own},{}", options.parameters());
        Configuration::new(name, &own, &options.turns.heap)
    };
    POLICIES.iter().map(|(name, own, _)| heap(name, own)).chain([heap(USUAL, "")]).collect()
}
