//! Results as tables of figures with intervals, and as JSON.

use crate::stats::{self, Ratio};
use legato_report::Machine;
use serde::Serialize;
use std::fmt;

/// What some experiments have found out.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where it was measured.
    pub machine: Machine,
    /// One table for each experiment.
    pub tables: Vec<Table>,
    /// The bounds on the figures.
    pub verdicts: Vec<Verdict>,
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
    /// 10^6 bytes.
    Megabytes,
    /// Seconds.
    Seconds,
    /// Seconds, always shown in milliseconds.
    Milliseconds,
    /// Milliseconds that a million operations take.
    MillisecondsPerMillion,
    /// A part of the whole, 1 for all; shown in percent.
    Share,
    /// A number of things.
    Count,
    /// A quotient of two times or sizes.
    Ratio,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was measured.
    pub subject: String,
    /// Medians with 95 % intervals, one for each column; not a number where there is no result. Empty if nothing has
    /// one.
    pub cells: Vec<Ratio>,
    /// The single runs behind each cell.
    pub runs: Vec<Vec<f64>>,
    /// Why there is no result, or not every one.
    pub error: Option<String>,
}

/// A bound, and whether it holds.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// What is bounded, the bound included.
    pub what: String,
    /// The value.
    pub value: f64,
    /// Whether it is within the bound.
    pub met: bool,
}

impl Report {
    /// A report on this machine, with notes where its figures are not worth quoting. `rounds` is how often each thing
    /// is to be measured.
    pub(crate) fn new(rounds: usize) -> Report {
        let mut report = Report::empty();
        if rounds < 10 {
            report.notes.insert(0, format!("{rounds} runs are too few for a figure to quote"));
        }
        report
    }

    /// A report on this machine, of figures that do not want many rounds.
    pub(crate) fn empty() -> Report {
        let mut notes = Vec::new();
        if cfg!(debug_assertions) {
            notes.push("built without --release: these figures mean nothing".into());
        }
        Report { machine: Machine::this(), tables: Vec::new(), verdicts: Vec::new(), notes }
    }

    /// The same report in Markdown, for `docs/measurements.md`.
    pub fn markdown(&self) -> String {
        let mut text = format!("{}\n", self.machine);
        for table in &self.tables {
            let line = |cells: &mut dyn Iterator<Item = String>| {
                cells.fold("|".to_string(), |line, cell| format!("{line} {cell} |")) + "\n"
            };
            text += &format!("\n{}: {}\n\n", table.experiment, table.caption);
            let names = table.columns.iter().map(|(name, _)| name.clone());
            text += &line(&mut std::iter::once(String::new()).chain(names));
            text += &format!("|{}\n", "---|".repeat(table.columns.len() + 1));
            for row in table.rows.iter().chain(&table.summary) {
                let cells = row.cells.iter().zip(&table.columns).map(|(cell, (_, unit))| show(*cell, *unit));
                let failed = row.error.iter().map(|error| format!("failed: {error}"));
                text += &line(&mut std::iter::once(row.subject.clone()).chain(cells).chain(failed));
            }
        }
        if !self.verdicts.is_empty() {
            text += "\n| target | measured | |\n|---|---|---|\n";
        }
        for Verdict { what, value, met } in &self.verdicts {
            text += &format!("| {what} | {value:.3} | {} |\n", if *met { "met" } else { "missed" });
        }
        self.notes.iter().fold(text, |text, note| format!("{text}\nnote: {note}\n"))
    }

    /// Whether everything could be measured.
    pub fn is_complete(&self) -> bool {
        self.tables.iter().flat_map(|table| &table.rows).all(|row| row.error.is_none())
    }

    /// Whether everything could be measured and every bound holds.
    pub fn all_met(&self) -> bool {
        self.is_complete() && self.verdicts.iter().all(|verdict| verdict.met)
    }
}

impl Row {
    /// A row of runs, a list for each column: medians with bootstrapped intervals.
    pub(crate) fn new(subject: impl Into<String>, runs: Vec<Vec<f64>>) -> Row {
        let cells = runs.iter().map(|runs| stats::ratio(runs, &vec![1.0; runs.len()])).collect();
        Row { subject: subject.into(), cells, runs, error: None }
    }

    /// A row without a result.
    pub(crate) fn failed(subject: impl Into<String>, error: &anyhow::Error) -> Row {
        Row { error: Some(reason(error)), ..Row::new(subject, Vec::new()) }
    }

    /// A row of single figures.
    pub(crate) fn exactly(subject: &str, values: impl IntoIterator<Item = f64>) -> Row {
        let cells = values.into_iter().map(Ratio::exactly).collect();
        Row { subject: subject.into(), cells, runs: Vec::new(), error: None }
    }
}

/// What was done, and why it failed; a backtrace in between would not fit a table.
pub(crate) fn reason(error: &anyhow::Error) -> String {
    let (what, why) = (error.to_string(), error.root_cause().to_string());
    if what == why { why } else { format!("{what}: {why}") }
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(experiment: &str, caption: impl Into<String>, columns: Vec<(String, Unit)>) -> Table {
        let (rows, summary) = (Vec::new(), Vec::new());
        Table { experiment: experiment.into(), caption: caption.into(), columns, rows, summary }
    }

    /// Runs of one column, a list for each row that has some.
    pub(crate) fn column(&self, at: usize) -> Vec<Vec<f64>> {
        let runs = self.rows.iter().filter_map(|row| row.runs.get(at));
        runs.filter(|runs| !runs.is_empty()).cloned().collect()
    }

    /// Adds what all rows say together: geometric means of ratios, and sums of seconds and bytes; where there is no
    /// ratio, the mean and the maximum of the medians.
    pub(crate) fn conclude(&mut self) {
        if self.rows.iter().all(|row| row.cells.is_empty()) {
            return;
        }
        let columns = 0..self.columns.len();
        let medians = |at: usize| self.column(at).iter().map(|runs| stats::median(runs)).collect::<Vec<f64>>();
        let sum = |at: usize| medians(at).iter().sum::<f64>();
        self.summary = if self.columns.iter().any(|(_, unit)| *unit == Unit::Ratio) {
            let summable = |unit: Unit| matches!(unit, Unit::Seconds | Unit::Megabytes);
            let has_sums = self.columns.iter().any(|(_, unit)| summable(*unit));
            let name = if has_sums { "sum; geometric means" } else { "geometric means" };
            let mut means = Row::exactly(name, columns.map(sum));
            for (at, (_, unit)) in self.columns.iter().enumerate() {
                if !summable(*unit) {
                    let ratios = if *unit == Unit::Ratio { self.column(at) } else { Vec::new() };
                    means.cells[at] = stats::geometric_mean(&ratios);
                }
            }
            vec![means]
        } else {
            let mean = columns.clone().map(|at| sum(at) / medians(at).len() as f64);
            let maximum = columns.map(|at| medians(at).into_iter().fold(f64::NAN, f64::max));
            vec![Row::exactly("mean", mean), Row::exactly("maximum", maximum)]
        };
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\nmedians with their 95 % intervals", self.machine)?;
        for table in &self.tables {
            write!(f, "\n{table}")?;
        }
        if !self.verdicts.is_empty() {
            writeln!(f)?;
        }
        for verdict in &self.verdicts {
            writeln!(f, "{verdict}")?;
        }
        for note in &self.notes {
            writeln!(f, "\nnote: {note}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:.3}, {}", self.what, self.value, if self.met { "met" } else { "MISSED" })
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
            for (cell, (name, unit)) in row.cells.iter().zip(&self.columns) {
                write!(f, "  {:>1$}", show(*cell, *unit), width(name))?;
            }
            match &row.error {
                Some(error) if row.cells.is_empty() => writeln!(f, "  failed: {error}")?,
                Some(error) => writeln!(f, "\n    failed: {error}")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

/// A figure with its interval, where it has one.
fn show(cell: Ratio, unit: Unit) -> String {
    let one = |value: f64| match unit {
        Unit::GigabytesPerSecond => format!("{value:.2} GB/s"),
        Unit::Megabytes => format!("{:.1} MB", value / 1e6),
        Unit::Seconds if cell.median < 1e-3 => format!("{:.1} us", value * 1e6),
        Unit::Seconds if cell.median < 1.0 => format!("{:.2} ms", value * 1e3),
        Unit::Seconds => format!("{value:.3} s"),
        Unit::Milliseconds => format!("{:.3} ms", value * 1e3),
        Unit::MillisecondsPerMillion => format!("{value:.3} ms"),
        Unit::Share => format!("{:.2} %", value * 100.0),
        Unit::Ratio => format!("{value:.3}"),
        Unit::Count => format!("{value:.1}"),
    };
    let bare = |value: f64| one(value).split(' ').next().unwrap_or_default().to_string();
    if cell.median.is_nan() {
        return "-".into();
    }
    if cell.low == cell.high {
        return one(cell.median);
    }
    format!("{} [{}, {}]", one(cell.median), bare(cell.low), bare(cell.high))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = vec![("base".to_string(), Unit::Seconds), ("other".to_string(), Unit::Ratio)];
        let mut table = Table::new("time", "what it takes", columns);
        table.rows.push(Row::new("a", vec![vec![2.0; 3], vec![0.5; 3]]));
        table.rows.push(Row::new("b", vec![vec![3.0; 3], vec![2.0; 3]]));
        table
    }

    #[test]
    fn rows_are_summed_up() {
        let mut table = table();
        table.conclude();
        let medians: Vec<f64> = table.summary[0].cells.iter().map(|cell| cell.median).collect();
        assert!(medians[0] == 5.0 && (medians[1] - 1.0).abs() < 1e-9, "{medians:?}");
        table.columns[1].1 = Unit::Share;
        table.conclude();
        let text = table.to_string();
        assert!(text.contains("125.00 %") && text.contains("200.00 %") && text.contains("2.500 s"), "{text}");
    }

    #[test]
    fn what_is_missing_is_left_out_of_means_and_shown() {
        let mut table = table();
        let partial = Row { error: Some("other: why".into()), ..Row::new("c", vec![vec![1.0; 3], vec![]]) };
        table.rows.push(partial);
        table.rows.push(Row::failed("d", &anyhow::anyhow!("inner").context("outer")));
        table.conclude();
        assert!((table.summary[0].cells[1].median - 1.0).abs() < 1e-9, "{table}");
        let text = table.to_string();
        assert!(text.contains("-\n    failed: other: why") && text.contains("failed: outer: inner"), "{text}");
        let mut empty = Table::new("none", "", vec![("x".into(), Unit::Ratio)]);
        empty.conclude();
        assert!(empty.summary.is_empty());
    }

    #[test]
    fn a_report_is_judged() {
        let mut report = Report::new(10);
        report.tables.push(table());
        report.verdicts.push(Verdict { what: "a <= 1".into(), value: 0.5, met: true });
        assert!(report.all_met());
        report.verdicts.push(Verdict { what: "b <= 1".into(), value: 2.0, met: false });
        assert!(report.is_complete() && !report.all_met() && report.to_string().contains("b <= 1: 2.000, MISSED"));
        report.tables[0].rows.push(Row::failed("c", &anyhow::anyhow!("why")));
        assert!(!report.is_complete());
        let markdown = report.markdown();
        for line in ["| a | 2.000 s | 0.500 |\n", "| c | failed: why |\n", "| b <= 1 | 2.000 | missed |\n"] {
            assert!(markdown.contains(line), "{markdown}");
        }
        serde_json::to_string(&report).unwrap();
    }
}
