//! The comparison as a table and as JSON.

use crate::contestants::worker::Sample;
use crate::measure::Time;
use crate::stats::{self, Ratio};
use crate::tables::Verdict;
use legato_report::Machine;
use serde::Serialize;
use std::fmt;

/// What the comparison has found out. Contestants are in the order Legato, wasmtime, V8.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where it was measured.
    pub machine: Machine,
    /// Names and versions.
    pub contestants: [String; 3],
    /// Peak memory of each with a program that does nothing, in bytes.
    pub baseline: [Option<u64>; 3],
    /// One row for each program.
    pub rows: Vec<Row>,
    /// Geometric mean of Legato's times over wasmtime's.
    pub over_wasmtime: Option<Ratio>,
    /// Geometric mean of Legato's times over V8's first runs.
    pub over_v8: Option<Ratio>,
    /// Geometric mean of Legato's times over V8's second runs in a process.
    pub over_v8_warm: Option<Ratio>,
    /// What the means must satisfy.
    pub verdicts: Vec<Verdict>,
    /// What is worth saying besides.
    pub notes: Vec<String>,
}

/// One program.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `language/name`.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// What each contestant did; nothing if there is an error.
    pub columns: Option<[Column; 3]>,
    /// Legato's time over wasmtime's.
    pub over_wasmtime: Option<Ratio>,
    /// Legato's time over V8's first run.
    pub over_v8: Option<Ratio>,
    /// Legato's time over V8's second run in a process.
    pub over_v8_warm: Option<Ratio>,
    /// Why there is no result.
    pub error: Option<String>,
}

/// One contestant's runs of one program.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// Times of the entry, each in a process of its own.
    pub runs: Vec<Time>,
    /// Times of a second run in each process; empty where there is none.
    pub warm: Vec<Time>,
    /// Compilation ahead of time.
    pub compilation: Option<Time>,
    /// Median peak resident memory after the first run, in bytes.
    pub peak_resident: Option<u64>,
}

impl Column {
    /// The runs of these samples, the first of each apart from the second.
    pub fn new(samples: &[Sample], compilation: Option<Time>) -> Column {
        let peaks: Vec<f64> =
            samples.iter().filter_map(|sample| sample.peak_resident).map(|peak| peak as f64).collect();
        Column {
            runs: samples.iter().filter_map(|sample| sample.runs.first()).map(|timing| timing.run).collect(),
            warm: samples.iter().filter_map(|sample| sample.runs.get(1)).map(|timing| timing.run).collect(),
            compilation,
            peak_resident: (!peaks.is_empty()).then(|| stats::median(&peaks) as u64),
        }
    }
}

fn walls(runs: &[Time]) -> Vec<f64> {
    runs.iter().map(|time| time.wall).collect()
}

/// Ratios run by run.
fn ratios(a: &[Time], b: &[Time]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a.wall / b.wall).collect()
}

impl Row {
    /// A row of the contestants' runs.
    pub fn new(program: String, arguments: Vec<String>, columns: [Column; 3]) -> Row {
        let [legato, wasmtime, v8] = &columns;
        let ratio = |other: &[Time]| {
            (other.len() == legato.runs.len()).then(|| stats::ratio(&walls(&legato.runs), &walls(other)))
        };
        Row {
            program,
            arguments,
            over_wasmtime: ratio(&wasmtime.runs),
            over_v8: ratio(&v8.runs),
            over_v8_warm: ratio(&v8.warm),
            columns: Some(columns),
            error: None,
        }
    }

    /// A program that could not be measured.
    pub fn failed(program: String, arguments: Vec<String>, error: &anyhow::Error) -> Row {
        let error = Some(format!("{error:#}"));
        Row { program, arguments, columns: None, over_wasmtime: None, over_v8: None, over_v8_warm: None, error }
    }
}

impl Report {
    /// A report without rows.
    pub fn new(machine: Machine, contestants: [String; 3]) -> Report {
        Report {
            machine,
            contestants,
            baseline: [None; 3],
            rows: Vec::new(),
            over_wasmtime: None,
            over_v8: None,
            over_v8_warm: None,
            verdicts: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Forms the means over the rows, and judges them: a third of wasmtime's time in the mean and no program slower;
    /// 1.3 times V8's in the mean.
    pub fn conclude(&mut self) {
        let mean = |other: fn(&[Column; 3]) -> &[Time]| {
            let columns = self.rows.iter().filter_map(|row| row.columns.as_ref());
            let programs: Vec<Vec<f64>> = columns.map(|columns| ratios(&columns[0].runs, other(columns))).collect();
            Some(stats::geometric_mean(&programs)).filter(|mean| !mean.median.is_nan())
        };
        self.over_wasmtime = mean(|columns| &columns[1].runs);
        self.over_v8 = mean(|columns| &columns[2].runs);
        self.over_v8_warm = mean(|columns| &columns[2].warm);
        let worst = self.rows.iter().filter_map(|row| Some(row.over_wasmtime?.median)).reduce(f64::max);
        let mut judge = |what: &str, value: Option<f64>, bound: f64| {
            if let Some(value) = value {
                self.verdicts.push(Verdict { what: what.into(), value, met: value <= bound });
            }
        };
        judge("geometric mean over wasmtime <= 1/3", self.over_wasmtime.map(|mean| mean.median), 1.0 / 3.0);
        judge("slowest program over wasmtime <= 1", worst, 1.0);
        judge("geometric mean over V8 <= 1.3", self.over_v8.map(|mean| mean.median), 1.3);
    }

    /// Whether no row failed and every bound holds.
    pub fn all_met(&self) -> bool {
        self.rows.iter().all(|row| row.error.is_none()) && self.verdicts.iter().all(|verdict| verdict.met)
    }
}

fn milliseconds(runs: &[Time], value: fn(&Time) -> f64) -> String {
    let values: Vec<f64> = runs.iter().map(value).collect();
    if values.is_empty() { "-".into() } else { format!("{:.1}", stats::median(&values) * 1e3) }
}

fn megabytes(bytes: Option<u64>) -> String {
    bytes.map_or("-".into(), |bytes| format!("{:.0}", bytes as f64 / 1e6))
}

fn shown(ratio: Option<Ratio>) -> String {
    ratio.map_or(String::new(), |ratio| ratio.to_string())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.machine)?;
        writeln!(f, "{}", self.contestants.join(", "))?;
        writeln!(f, "medians of runs in turns; ratios of Legato's time to the other's with 95 % intervals\n")?;
        self.write_times(f)?;
        self.write_resources(f)?;
        for verdict in &self.verdicts {
            writeln!(f, "{verdict}")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

impl Report {
    /// Width of the first column.
    fn width(&self) -> usize {
        let titles = self.rows.iter().map(|row| row.title().len());
        titles.chain(["geometric mean".len()]).max().unwrap_or(0)
    }

    fn write_times(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.width();
        writeln!(
            f,
            "{:<width$} {:>10} {:>11}  {:<22} {:>10}  {:<22} {:>10}  ratio",
            "program", "legato ms", "wasmtime ms", "ratio", "node ms", "ratio", "warm ms"
        )?;
        let line = |f: &mut fmt::Formatter<'_>, title: &str, times: [String; 4], ratios: [Option<Ratio>; 3]| {
            let [legato, wasmtime, v8, warm] = times;
            let [a, b, c] = ratios.map(shown);
            writeln!(f, "{title:<width$} {legato:>10} {wasmtime:>11}  {a:<22} {v8:>10}  {b:<22} {warm:>10}  {c}")
        };
        for row in &self.rows {
            if let Some([legato, wasmtime, v8]) = &row.columns {
                let times =
                    [&legato.runs, &wasmtime.runs, &v8.runs, &v8.warm].map(|runs| milliseconds(runs, |t| t.wall));
                line(f, &row.title(), times, [row.over_wasmtime, row.over_v8, row.over_v8_warm])?;
            } else {
                writeln!(f, "{:<width$} failed: {}", row.title(), row.error.as_deref().unwrap_or_default())?;
            }
        }
        let means = [self.over_wasmtime, self.over_v8, self.over_v8_warm];
        line(f, "geometric mean", Default::default(), means)?;
        writeln!(f)
    }

    fn write_resources(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.width();
        writeln!(f, "{:<width$} {:^32} {:^32}", "", "user CPU, ms", "peak resident memory, MB")?;
        let heads = ["legato", "wasmtime", "node"].map(|name| format!("{name:>10}")).join(" ");
        writeln!(f, "{:<width$} {heads} {heads}", "program")?;
        let cells = |cells: [String; 3]| cells.map(|cell| format!("{cell:>10}")).join(" ");
        for row in &self.rows {
            let Some(columns) = &row.columns else { continue };
            let user = columns.each_ref().map(|column| milliseconds(&column.runs, |time| time.user));
            let peak = columns.each_ref().map(|column| megabytes(column.peak_resident));
            writeln!(f, "{:<width$} {} {}", row.title(), cells(user), cells(peak))?;
        }
        writeln!(f, "{:<width$} {:32} {}\n", "(no program)", "", cells(self.baseline.map(megabytes)))
    }
}

impl Row {
    fn title(&self) -> String {
        std::iter::once(self.program.as_str())
            .chain(self.arguments.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(runs: &[f64]) -> Column {
        let time = |wall: &f64| Time { wall: *wall, user: *wall };
        let runs: Vec<Time> = runs.iter().map(time).collect();
        Column { warm: runs.clone(), runs, compilation: None, peak_resident: Some(30_000_000) }
    }

    fn report(rows: Vec<Row>) -> Report {
        let names = ["legato 0", "wasmtime 48", "node 26"].map(String::from);
        let mut report = Report::new(Machine::this(), names);
        report.rows = rows;
        report.conclude();
        report
    }

    fn row(name: &str, legato: f64, wasmtime: f64, v8: f64) -> Row {
        let columns = [legato, wasmtime, v8].map(|time| column(&[time; 4]));
        Row::new(name.into(), vec!["9".into()], columns)
    }

    #[test]
    fn means_are_judged() {
        let good = report(vec![row("a", 1.0, 16.0, 1.0), row("b", 1.0, 1.0, 1.0)]);
        assert!(good.all_met(), "{good}");
        assert!((good.over_wasmtime.unwrap().median - 0.25).abs() < 1e-9);
        // The mean is good enough, but one program is slower.
        let slower = report(vec![row("a", 1.0, 50.0, 1.0), row("b", 1.0, 0.9, 1.0)]);
        assert_eq!(slower.verdicts.iter().map(|verdict| verdict.met).collect::<Vec<_>>(), [true, false, true]);
        assert!(!report(vec![row("a", 1.0, 9.0, 0.7)]).all_met());
    }

    #[test]
    fn a_failure_is_shown_and_is_no_success() {
        let failed = Row::failed("c".into(), Vec::new(), &anyhow::anyhow!("why"));
        let report = report(vec![row("a", 1.0, 9.0, 1.0), failed]);
        let text = report.to_string();
        assert!(!report.all_met() && text.contains("failed: why") && text.contains("a 9"), "{text}");
        assert!(text.contains("1000.0") && text.contains("9000.0") && text.contains("0.111"), "{text}");
        serde_json::to_string(&report).unwrap();
    }
}
