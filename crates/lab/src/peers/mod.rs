//! Legato beside wasmtime: programs, compile time, growth of compile time, start-up.
//!
//! Every figure comes from runs in alternation in one process (start-up: of whole processes), as medians with 95 %
//! intervals of the ratio. Both engines run with their defaults, compile on all processors, and have the same host
//! functions.

mod compile;
mod linearity;
mod programs;
mod startup;

use crate::engines::{Engine, Legato, Wasmtime};
use crate::report::Report;
use std::path::PathBuf;

/// What to measure, and how often.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Pairs of runs for each row.
    #[arg(long, default_value_t = 10)]
    pub pairs: usize,
    /// Only these experiments: compute, heap, compile, linearity, startup. All by default.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    pub only: Vec<String>,
    /// Only programs whose name contains one of these.
    #[arg(long, value_delimiter = ',', value_name = "PART,...")]
    pub filter: Vec<String>,
    /// The folder with the example programs.
    #[arg(long, default_value = "examples", value_name = "DIR")]
    pub examples: PathBuf,
    /// The `legato` command whose start-up is measured. By default the one beside this command.
    #[arg(long, value_name = "FILE")]
    pub legato: Option<PathBuf>,
    /// Legato's heap, for the runs: see `legato run --help`.
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE,...")]
    pub heap: Vec<String>,
    /// Print the report as JSON, all runs included.
    #[arg(long)]
    pub json: bool,
}

/// Names of the experiments, in the order in which they run.
pub const EXPERIMENTS: [&str; 5] = ["compute", "heap", "compile", "linearity", "startup"];

impl Options {
    /// Whether a program is asked for.
    fn wants(&self, name: &str) -> bool {
        self.filter.is_empty() || self.filter.iter().any(|part| name.contains(part.as_str()))
    }
}

/// Measures what the options ask for. What cannot be measured becomes a row with its error.
///
/// # Errors
/// If an option is wrong, or an engine does not start.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    for name in &options.only {
        anyhow::ensure!(
            EXPERIMENTS.contains(&name.as_str()),
            "no experiment '{name}'; there are {}",
            EXPERIMENTS.join(", ")
        );
    }
    anyhow::ensure!(options.pairs > 0, "--pairs must be at least 1");
    let legato = Legato::new(&options.heap)?;
    let wasmtime = Wasmtime::new(&[])?;
    let mut report = Report::new(legato.name(), wasmtime.name());
    if options.pairs < 10 {
        report.notes.push(format!("{} pairs are too few for a figure to quote", options.pairs));
    }
    if cfg!(debug_assertions) {
        report.notes.push("built without --release: these figures mean nothing".into());
    }
    for experiment in EXPERIMENTS {
        if !options.only.is_empty() && !options.only.iter().any(|name| name == experiment) {
            continue;
        }
        match experiment {
            "compute" => programs::compute(options, &legato, &wasmtime, &mut report)?,
            "heap" => programs::heap(options, &legato, &wasmtime, &mut report)?,
            "compile" => compile::measure(options, &legato, &wasmtime, &mut report)?,
            "linearity" => linearity::measure(options, &legato, &wasmtime, &mut report),
            _ => startup::measure(options, &mut report),
        }
    }
    Ok(report)
}

/// A module that an experiment works on.
struct Input {
    /// Shown in the report.
    name: String,
    wasm: Vec<u8>,
    /// The command line, program name first.
    arguments: Vec<String>,
}

/// The Kotlin examples that have been built, in order of their names. Notes in the report if there are none.
fn kotlin_examples(options: &Options, report: &mut Report) -> anyhow::Result<Vec<Input>> {
    let folder = options.examples.join("out/kotlin");
    let mut inputs = Vec::new();
    let entries = std::fs::read_dir(&folder).into_iter().flatten();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "wasm") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            inputs.push(Input { arguments: vec![name.clone()], name, wasm: std::fs::read(&path)? });
        }
    }
    inputs.sort_by(|a, b| a.name.cmp(&b.name));
    let note =
        format!("no Kotlin programs in {}: build them with {}/build", folder.display(), options.examples.display());
    if inputs.is_empty() && !report.notes.contains(&note) {
        report.notes.push(note);
    }
    Ok(inputs)
}
