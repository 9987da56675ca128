//! The results as tables and as JSON.

use super::runs::{Contestant, Sample};
use crate::stats::{self, Ratio};
use legato_heap::Zeroing;
use legato_report::Machine;
use serde::Serialize;
use std::fmt;

/// What the experiments have found out.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where it was measured.
    pub machine: Machine,
    /// One table for each experiment.
    pub tables: Vec<Table>,
    /// What is worth saying besides: inputs that are missing, for instance.
    pub notes: Vec<String>,
}

/// One experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// Its name.
    pub experiment: String,
    /// What the figures are.
    pub caption: String,
    /// The columns, each with the unit of its figures.
    pub columns: Vec<(String, Unit)>,
    /// One row for each thing measured.
    pub rows: Vec<Row>,
    /// Over all rows.
    pub summary: Vec<Row>,
}

/// What a figure is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Unit {
    /// 10^9 bytes in a second.
    GigabytesPerSecond,
    /// Seconds.
    Seconds,
    /// A part of the whole, 1 for all; shown in percent.
    Share,
    /// A quotient of two times.
    Ratio,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was measured.
    pub subject: String,
    /// Medians with 95 % intervals, one for each column. Empty if there is an error.
    pub cells: Vec<Ratio>,
    /// The single runs behind each cell.
    pub runs: Vec<Vec<f64>>,
    /// Why there is no result.
    pub error: Option<String>,
}

impl Report {
    /// Whether everything could be measured.
    pub fn is_complete(&self) -> bool {
        self.tables.iter().flat_map(|table| &table.rows).all(|row| row.error.is_none())
    }
}

impl Row {
    /// A row of runs, a list for each column: medians with bootstrapped intervals.
    pub(super) fn new(subject: impl Into<String>, runs: Vec<Vec<f64>>) -> Row {
        let cells = runs.iter().map(|runs| stats::ratio(runs, &vec![1.0; runs.len()])).collect();
        Row { subject: subject.into(), cells, runs, error: None }
    }

    fn failed(subject: &str, error: &anyhow::Error) -> Row {
        // What was done, and why it failed; a backtrace in between would not fit a table.
        let (what, why) = (error.to_string(), error.root_cause().to_string());
        let error = if what == why { why } else { format!("{what}: {why}") };
        Row { error: Some(error), ..Row::new(subject, Vec::new()) }
    }
}

impl Table {
    /// A table for rows made by [`total`].
    pub(super) fn total(experiment: &str, contestants: &[Contestant]) -> Table {
        let mut columns = vec![("bulk".to_string(), Unit::Seconds)];
        let others = contestants.iter().filter(|contestant| contestant.zeroing != Zeroing::Bulk);
        columns.extend(others.map(|contestant| (contestant.zeroing.name().to_string(), Unit::Ratio)));
        let caption = "time of the program under bulk zeroing; times under the other strategies over it".to_string();
        Table { experiment: experiment.into(), caption, columns, rows: Vec::new(), summary: Vec::new() }
    }

    /// A table for rows made by [`cost`].
    pub(super) fn cost(experiment: &str, contestants: &[Contestant]) -> Table {
        let mut columns = Vec::new();
        for contestant in contestants {
            let name = contestant.zeroing.name();
            columns.extend(match contestant.zeroing {
                Zeroing::HotPath => vec![],
                Zeroing::Bulk | Zeroing::NonTemporal => vec![(name.to_string(), Unit::Share)],
                Zeroing::Concurrent | Zeroing::Adaptive => {
                    vec![(format!("{name}: all"), Unit::Share), (format!("{name}: mutator"), Unit::Share)]
                }
            });
        }
        let caption =
            "time spent on zeroing over processor time (user's and system's) of the whole run; inline zeroing \
                       (hot-path) cannot be told apart: see its total time"
                .to_string();
        Table { experiment: experiment.into(), caption, columns, rows: Vec::new(), summary: Vec::new() }
    }

    /// Adds what all rows say together: geometric means of ratios; of shares the mean and the maximum of the medians.
    pub(super) fn conclude(&mut self) {
        let measured: Vec<&Row> = self.rows.iter().filter(|row| row.error.is_none()).collect();
        if measured.is_empty() {
            return;
        }
        let column = |at: usize| measured.iter().map(move |row| row.cells[at].median);
        let exactly = |value: f64| Ratio { median: value, low: value, high: value };
        let row =
            |subject: &str, cells: Vec<Ratio>| Row { subject: subject.into(), cells, runs: Vec::new(), error: None };
        if self.columns.iter().any(|(_, unit)| *unit == Unit::Ratio) {
            let mean = |(at, (_, unit)): (usize, &(String, Unit))| match unit {
                Unit::Ratio => {
                    stats::geometric_mean(&measured.iter().map(|row| row.runs[at].clone()).collect::<Vec<_>>())
                }
                _ => exactly(column(at).sum()),
            };
            self.summary = vec![row("sum; geometric means", self.columns.iter().enumerate().map(mean).collect())];
        } else {
            let columns = 0..self.columns.len();
            let mean = columns.clone().map(|at| exactly(column(at).sum::<f64>() / measured.len() as f64)).collect();
            let maximum = columns.map(|at| exactly(column(at).fold(0.0, f64::max))).collect();
            self.summary = vec![row("mean", mean), row("maximum", maximum)];
        }
    }
}

/// A row of [`Table::total`]. The samples are those of every strategy in the order of [`Zeroing::ALL`].
pub(super) fn total(subject: &str, samples: &anyhow::Result<Vec<Vec<Sample>>>) -> Row {
    let samples = match samples {
        Ok(samples) => samples,
        Err(error) => return Row::failed(subject, error),
    };
    let walls = |zeroing: usize| samples[zeroing].iter().map(|sample| sample.wall);
    let bulk = Zeroing::ALL.iter().position(|&zeroing| zeroing == Zeroing::Bulk).expect("bulk is a strategy");
    let others = (0..samples.len()).filter(|&index| index != bulk);
    let mut runs = vec![walls(bulk).collect()];
    runs.extend(others.map(|index| walls(index).zip(walls(bulk)).map(|(other, bulk)| other / bulk).collect()));
    Row::new(subject, runs)
}

/// A row of [`Table::cost`]. The samples are as for [`total`].
pub(super) fn cost(subject: &str, samples: &anyhow::Result<Vec<Vec<Sample>>>) -> Row {
    let samples = match samples {
        Ok(samples) => samples,
        Err(error) => return Row::failed(subject, error),
    };
    let share = |samples: &[Sample], part: fn(&Sample) -> f64| {
        samples.iter().map(|sample| part(sample) / sample.processor).collect::<Vec<f64>>()
    };
    let mut runs = Vec::new();
    for (&zeroing, samples) in Zeroing::ALL.iter().zip(samples) {
        if zeroing != Zeroing::HotPath {
            runs.push(share(samples, |sample| sample.zeroing + sample.helper));
        }
        if matches!(zeroing, Zeroing::Concurrent | Zeroing::Adaptive) {
            runs.push(share(samples, |sample| sample.zeroing));
        }
    }
    Row::new(subject, runs)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\nmedians with their 95 % intervals", self.machine)?;
        for table in &self.tables {
            write!(f, "\n{table}")?;
        }
        for note in &self.notes {
            writeln!(f, "\nnote: {note}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.experiment, self.caption)?;
        let rows = || self.rows.iter().chain(&self.summary);
        let first = rows().map(|row| row.subject.len()).max().unwrap_or(0);
        write!(f, "  {:first$}", "")?;
        let width = |name: &str| name.len().max(24);
        for (name, _) in &self.columns {
            write!(f, "  {name:>0$}", width(name))?;
        }
        writeln!(f)?;
        for row in rows() {
            write!(f, "  {:first$}", row.subject)?;
            if let Some(error) = &row.error {
                writeln!(f, "  failed: {error}")?;
                continue;
            }
            for (cell, (name, unit)) in row.cells.iter().zip(&self.columns) {
                write!(f, "  {:>1$}", show(*cell, *unit), width(name))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// A figure with its interval, where it has one.
fn show(cell: Ratio, unit: Unit) -> String {
    let one = |value: f64| match unit {
        Unit::GigabytesPerSecond => format!("{value:.2} GB/s"),
        Unit::Seconds if cell.median < 1e-3 => format!("{:.1} us", value * 1e6),
        Unit::Seconds if cell.median < 1.0 => format!("{:.2} ms", value * 1e3),
        Unit::Seconds => format!("{value:.3} s"),
        Unit::Share => format!("{:.2} %", value * 100.0),
        Unit::Ratio => format!("{value:.3}"),
    };
    let bare = |value: f64| one(value).split(' ').next().unwrap_or_default().to_string();
    if cell.low == cell.high {
        return one(cell.median);
    }
    format!("{} [{}, {}]", one(cell.median), bare(cell.low), bare(cell.high))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Vec<Sample>> {
        // Under the strategies in their order: 1 s, 2 s, 3 s and so on, a tenth of it zeroing, half of that by the helper.
        let sample = |seconds: f64| Sample {
            wall: seconds,
            processor: seconds,
            zeroing: seconds * 0.05,
            helper: seconds * 0.05,
        };
        (1..=Zeroing::ALL.len()).map(|seconds| vec![sample(seconds as f64); 3]).collect()
    }

    #[test]
    fn columns_and_cells_belong_together() {
        let contestants = Contestant::all(&[]).unwrap();
        let (mut total_table, mut cost_table) =
            (Table::total("total", &contestants), Table::cost("cost", &contestants));
        total_table.rows.push(total("x", &Ok(samples())));
        cost_table.rows.push(cost("x", &Ok(samples())));
        total_table.rows.push(total("y", &Err(anyhow::anyhow!("why"))));
        for table in [&mut total_table, &mut cost_table] {
            table.conclude();
            assert!(table.rows[..1].iter().chain(&table.summary).all(|row| row.cells.len() == table.columns.len()));
        }
        let medians = |row: &Row| row.cells.iter().map(|cell| cell.median).collect::<Vec<f64>>();
        assert_eq!(medians(&total_table.rows[0]), [2.0, 0.5, 1.5, 2.0, 2.5], "bulk, then the others over it");
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let shares = medians(&cost_table.rows[0]);
        assert!(shares.iter().zip([0.1, 0.1, 0.1, 0.05, 0.1, 0.05]).all(|(&a, b)| near(a, b)), "{shares:?}");
        let text = total_table.to_string() + &cost_table.to_string();
        assert!(text.contains("failed: why") && text.contains("10.00 %") && text.contains("2.000 s"), "{text}");
        let report = Report { machine: Machine::this(), tables: vec![total_table, cost_table], notes: Vec::new() };
        assert!(!report.is_complete());
        serde_json::to_string(&report).unwrap();
    }
}
