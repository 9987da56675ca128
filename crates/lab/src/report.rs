//! Results as a table and as JSON.

use crate::measure::{Pairs, Time};
use crate::stats::{self, Ratio};
use legato_report::Machine;
use serde::Serialize;

/// What one experiment found out.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where it was measured.
    pub machine: Machine,
    /// The first contestant, with its version.
    pub a: String,
    /// The second contestant, with its version.
    pub b: String,
    /// One row for each thing measured.
    pub rows: Vec<Row>,
    /// What is worth saying besides: inputs that are missing, for instance.
    pub notes: Vec<String>,
}

/// One comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The experiment.
    pub experiment: &'static str,
    /// The program or module.
    pub subject: String,
    /// Median wall time of the first contestant in seconds.
    pub a: Option<f64>,
    /// Median wall time of the second.
    pub b: Option<f64>,
    /// Median user CPU of the first in seconds.
    pub a_user: Option<f64>,
    /// Median user CPU of the second.
    pub b_user: Option<f64>,
    /// Wall time of the first over that of the second.
    pub ratio: Option<Ratio>,
    /// What the row must satisfy, if there is such a bound.
    pub target: Option<Target>,
    /// Why there is no result.
    pub error: Option<String>,
    /// The runs themselves.
    pub runs: Pairs,
}

/// A bound on a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Target {
    /// On the median ratio.
    Ratio(f64),
    /// On the first contestant's median wall time in seconds.
    Seconds(f64),
    /// On the difference of the median wall times in seconds.
    SecondsMore(f64),
}

impl Row {
    /// A row of runs in pairs.
    pub fn new(experiment: &'static str, subject: impl Into<String>, target: Option<Target>, runs: Pairs) -> Row {
        let column = |runs: &[Time], value: fn(&Time) -> f64| runs.iter().map(value).collect::<Vec<f64>>();
        let median = |values: &[f64]| (!values.is_empty()).then(|| stats::median(values));
        let (a, b) = (column(&runs.a, |t| t.wall), column(&runs.b, |t| t.wall));
        Row {
            experiment,
            subject: subject.into(),
            ratio: (!a.is_empty() && a.len() == b.len()).then(|| stats::ratio(&a, &b)),
            a: median(&a),
            b: median(&b),
            a_user: median(&column(&runs.a, |t| t.user)),
            b_user: median(&column(&runs.b, |t| t.user)),
            target,
            error: None,
            runs,
        }
    }

    /// A row that could not be measured.
    pub fn failed(experiment: &'static str, subject: impl Into<String>, error: &anyhow::Error) -> Row {
        let mut row = Row::new(experiment, subject, None, Pairs::default());
        row.error = Some(format!("{error:#}"));
        row
    }

    /// Whether the target is met; `None` without a target.
    pub fn met(&self) -> Option<bool> {
        match self.target? {
            Target::Ratio(bound) => Some(self.ratio?.median <= bound),
            Target::Seconds(bound) => Some(self.a? < bound),
            Target::SecondsMore(bound) => Some(self.a? - self.b? < bound),
        }
    }
}

impl Report {
    /// An empty report on this machine.
    pub fn new(a: String, b: String) -> Report {
        Report { machine: Machine::this(), a, b, rows: Vec::new(), notes: Vec::new() }
    }

    /// Whether no row failed or missed its target.
    pub fn all_met(&self) -> bool {
        self.rows.iter().all(|row| row.error.is_none() && row.met() != Some(false))
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (a, b) = (first_word(&self.a), first_word(&self.b));
        writeln!(f, "{}", self.machine)?;
        writeln!(f, "{} against {}; medians; ratio with its 95 % interval\n", self.a, self.b)?;
        let width = self.rows.iter().map(|row| row.subject.len()).max().unwrap_or(0).max(8);
        let mut experiment = "";
        for row in &self.rows {
            if row.experiment != experiment {
                experiment = row.experiment;
                writeln!(
                    f,
                    "{experiment:<width$}  {a:>12} {b:>12}  {:<22} {:>10} {:>10}  target",
                    "ratio", "user", "user"
                )?;
            }
            write!(f, "  {:<w$}", row.subject, w = width - 2)?;
            if let Some(error) = &row.error {
                writeln!(f, "  failed: {error}")?;
                continue;
            }
            let ratio = row.ratio.map_or(String::new(), |ratio| ratio.to_string());
            write!(f, "  {:>12} {:>12}  {ratio:<22}", seconds(row.a), seconds(row.b))?;
            write!(f, " {:>10} {:>10}", seconds(row.a_user), seconds(row.b_user))?;
            let target = match row.target {
                None => String::new(),
                Some(Target::Ratio(bound)) => format!("  <= {bound}"),
                Some(Target::Seconds(bound)) => format!("  < {bound} s"),
                Some(Target::SecondsMore(bound)) => {
                    let more = row.a.zip(row.b).map_or(f64::NAN, |(a, b)| (a - b) * 1e3);
                    format!("  {more:+.2} ms, < +{:.0} ms", bound * 1e3)
                }
            };
            let verdict = match row.met() {
                None => "",
                Some(true) => ": met",
                Some(false) => ": MISSED",
            };
            writeln!(f, "{target}{verdict}")?;
        }
        for note in &self.notes {
            writeln!(f, "\nnote: {note}")?;
        }
        Ok(())
    }
}

fn first_word(name: &str) -> &str {
    name.split_whitespace().next().unwrap_or(name)
}

/// A time with a fitting unit.
fn seconds(time: Option<f64>) -> String {
    match time {
        None => "-".into(),
        Some(t) if t < 1e-3 => format!("{:.1} us", t * 1e6),
        Some(t) if t < 1.0 => format!("{:.2} ms", t * 1e3),
        Some(t) => format!("{t:.3} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(a: f64, b: f64) -> Pairs {
        let time = |wall| Time { wall, user: wall / 2.0 };
        Pairs { a: vec![time(a); 3], b: vec![time(b); 3] }
    }

    #[test]
    fn targets_judge_what_they_say() {
        let met = |target, a, b| Row::new("x", "y", Some(target), pairs(a, b)).met();
        assert_eq!(met(Target::Ratio(1.15), 1.1, 1.0), Some(true));
        assert_eq!(met(Target::Ratio(1.15), 1.2, 1.0), Some(false));
        assert_eq!(met(Target::Seconds(3.0), 2.0, 1.0), Some(true));
        assert_eq!(met(Target::SecondsMore(0.015), 0.030, 0.010), Some(false));
    }

    #[test]
    fn the_table_shows_failures_and_misses() {
        let mut report = Report::new("legato 0".into(), "other 1".into());
        report.rows.push(Row::new("run", "fast", Some(Target::Ratio(1.15)), pairs(1.0, 1.0)));
        assert!(report.all_met());
        report.rows.push(Row::new("run", "slow", Some(Target::Ratio(1.15)), pairs(2.0, 1.0)));
        report.rows.push(Row::failed("run", "broken", &anyhow::anyhow!("why")));
        let text = report.to_string();
        assert!(text.contains("MISSED") && text.contains("failed: why") && !report.all_met(), "{text}");
        serde_json::to_string(&report).unwrap();
    }
}
