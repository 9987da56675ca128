//! Tables 2 to 7 of Handles Revisited as one: geometric means over replication, each beside the paper's.
//!
//! The paper has no table for direct references: nothing moves there. They take part for what handles cost at all.

use super::Options;
use super::runs::{self, Figure, mean};
use crate::programs::Program;
use crate::stats::Ratio;
use crate::tables::{Report, Row, Table, Unit, Verdict};

/// The models in the order of the columns; the first is the baseline.
const MODELS: [&str; 6] = ["replicating", "brooks", "uni-handles", "fat-handles", "thin-handles", "direct"];
const REPLICATING: usize = 0;
const BROOKS: usize = 1;
const UNI: usize = 2;
const DIRECT: usize = 5;

/// A row: its name, what it is of a run, and the paper's geometric means over replication for brooks, uni-sized, fat
/// and thin handles.
type Measure = (&'static str, Figure, [f64; 4]);

/// What is demanded of uni-sized handles: its name, what it is of a run, over which model, and the most that it may
/// be.
type Demand = (&'static str, Figure, usize, f64);

const DEMANDS: [Demand; 5] = [
    ("uni-handles over brooks: time", |run| run.time, BROOKS, 1.0),
    ("uni-handles over brooks: cycles", |run| run.cycles, BROOKS, 1.02),
    ("uni-handles over brooks: bytes moved", |run| run.moved_bytes, BROOKS, 0.05),
    ("uni-handles over brooks: time of a cycle", |run| run.collector / run.cycles, BROOKS, 1.1),
    ("uni-handles over direct: time", |run| run.time, DIRECT, 1.05),
];

const NONE: f64 = f64::NAN;

/// Table 2 is of the paper's platform A, 3 of its platform C; the others are of one.
const MEASURES: [Measure; 10] = [
    ("time (table 2)", |run| run.time, [1.018, 1.018, 1.061, 1.133]),
    ("time (table 3)", |run| run.time, [1.021, 1.052, 1.086, 1.102]),
    ("bytes moved (4)", |run| run.moved_bytes, [NONE, 0.05, 0.06, 0.04]),
    ("cycles (5)", |run| run.cycles, [1.0, 1.09, 1.33, 1.01]),
    ("collector's time (6)", |run| run.collector, [1.045, 1.322, 1.78, 1.399]),
    ("the same for each cycle (6)", |run| run.collector / run.cycles, [1.05, 1.242, 1.393, 1.43]),
    ("mutator's time (6)", |run| run.time - run.collector, [1.021, 1.046, 1.049, 1.076]),
    ("marking for each cycle (7)", |run| run.mark / run.cycles, [1.14, 1.467, 1.8, 1.381]),
    ("sweeping for each cycle (7)", |run| run.sweep / run.cycles, [0.999, 1.163, 1.18, 1.374]),
    ("compacting for each cycle (7)", |run| run.compact / run.cycles, [1.065, 0.463, 0.555, 0.348]),
];

/// Adds the table, and what is demanded of uni-sized handles.
pub(super) fn measure(programs: &[&Program], options: &Options, report: &mut Report) {
    let all = runs::all(programs, &MODELS.map(|model| options.model(model)), options, report);
    let parameters = options.whose_parameters();
    let columns = MODELS[1..].iter().flat_map(|model| {
        let paper = (*model != MODELS[DIRECT]).then(|| (format!("{model}, paper"), Unit::Ratio));
        std::iter::once((model.to_string(), Unit::Ratio)).chain(paper)
    });
    let mut table = Table::new(
        "tables 2 to 7",
        format!("over replication, with {parameters} parameters, geometric means of {} programs", all.len()),
        columns.collect(),
    );
    for (name, of, paper) in MEASURES {
        let cells = (1..MODELS.len()).flat_map(|model| {
            let paper = paper.get(model - 1).map(|&paper| Ratio::exactly(paper));
            std::iter::once(mean(&all, of, model, REPLICATING)).chain(paper)
        });
        table.rows.push(Row { subject: name.into(), cells: cells.collect(), runs: Vec::new(), error: None });
    }
    report.tables.push(table);

    for (what, of, over, most) in DEMANDS {
        let value = mean(&all, of, UNI, over).median;
        report.verdicts.push(Verdict { what: format!("{what} <= {most}"), value, met: value <= most });
    }
}
