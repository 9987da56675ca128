//! What memory pressure costs under each rule for the heap's size: the experiments of Isla Vista (section 4) on this
//! machine.
//!
//! The paper locks most of the machine's memory; here programs run in memory groups that have less than they take by
//! themselves, beside a swap file.
//!
//! * `squeeze`: the examples that allocate, in a group of a share of their memory: time, collections, page faults
//!   (table 2).
//! * `sweep`: the same over the maximum of the heap (figures 1 to 3, table 3).
//! * `container`: a group without swap of little more than what lives, and heaps that find their maximum out.
//!
//! All other heaps are given their maximum: one that found it out would know the group's limit, and what Isla Vista is
//! for is memory that others take. Whoever ends the command by a signal has to end the swap (`swapoff`) and remove its
//! file and the groups by hand.

mod container;
mod group;
mod paper;
mod runs;
mod squeeze;
mod subject;
mod swap;
mod sweep;

use self::group::Groups;
use self::subject::{Bench, PROGRAMS};
use self::swap::SwapFile;
use crate::programs::Program;
use crate::tables::Report;
use anyhow::{Context, ensure};
use std::path::PathBuf;
use std::time::Duration;

/// What to measure, and how often. Without a choice of experiments it is the programs under each rule.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Times over the maximum of the heap, with and without pressure: the paper's figures 1 to 3 and table 3.
    #[arg(long)]
    pub sweep: bool,
    /// Runs in a group without swap that has half more than what lives, with `max=auto`: none may be killed.
    #[arg(long, conflicts_with = "sweep")]
    pub container: bool,
    /// Runs of each program under each rule, in turns.
    #[arg(long, default_value_t = 5)]
    pub runs: usize,
    /// The memory of the group, as a share of the maximum of heaps: of what programs take by themselves under `fixed`
    /// and `isla-vista`.
    #[arg(long, default_value_t = 0.8)]
    pub share: f64,
    /// The maximum of heaps, over the memory that the program takes by itself under `gc-ratio`.
    #[arg(long, default_value_t = 2.0)]
    pub maximum: f64,
    /// Seconds after which a run is ended: its time counts as that.
    #[arg(long, default_value_t = 60.0)]
    pub patience: f64,
    /// Only programs whose name contains one of these.
    #[arg(long, value_delimiter = ',', value_name = "PART,...")]
    pub filter: Vec<String>,
    /// The folder with the example programs.
    #[arg(long, default_value = "examples", value_name = "DIR")]
    pub examples: PathBuf,
    /// Run everything at its smallest size: to see that it works.
    #[arg(long)]
    pub smallest: bool,
    /// Further options of every heap: see `legato run --help`.
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE,...")]
    pub heap: Vec<String>,
    /// The folder of the swap file. By default that for temporary files, which must not be memory itself.
    #[arg(long, value_name = "DIR")]
    pub swap: Option<PathBuf>,
    /// MiB of the swap file; 0: there is swap already.
    #[arg(long, default_value_t = 2048, value_name = "MIB")]
    pub swap_size: u64,
    /// A folder in which memory groups can be made. By default where the system has them.
    #[arg(long, value_name = "DIR")]
    pub group: Option<PathBuf>,
    /// Print the report in Markdown.
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print the report as JSON, all runs included.
    #[arg(long)]
    pub json: bool,
}

impl Options {
    fn programs(&self) -> Vec<&'static Program> {
        let wants = |title: &str| self.filter.is_empty() || self.filter.iter().any(|part| title.contains(part));
        PROGRAMS.iter().filter(|program| wants(&program.title())).collect()
    }

    fn patience(&self) -> Duration {
        Duration::from_secs_f64(self.patience)
    }

    fn check(&self) -> anyhow::Result<()> {
        ensure!(self.runs > 0, "--runs must be at least 1");
        ensure!(self.share > 0.0 && self.share.is_finite(), "--share must be above 0");
        ensure!(self.maximum > 0.0 && self.maximum.is_finite(), "--maximum must be above 0");
        ensure!((1.0..=86400.0).contains(&self.patience), "--patience must be 1 second to a day");
        ensure!(!self.programs().is_empty(), "no program's name contains any of: {}", self.filter.join(", "));
        Ok(())
    }
}

/// Measures what the options ask for. What cannot be measured becomes a row with its error.
///
/// # Errors
/// If an option is wrong, or the machine has no memory groups or swap, or does not let us have them.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    options.check()?;
    let groups = Groups::find(options.group.as_deref())?;
    let folder = options.swap.clone().unwrap_or_else(std::env::temp_dir);
    let _swap = match options.swap_size {
        mib if mib > 0 && !options.container => Some(SwapFile::new(&folder, mib)?),
        _ => None,
    };
    measure(options, &groups)
}

/// The experiments, where there are groups and swap.
fn measure(options: &Options, groups: &Groups) -> anyhow::Result<Report> {
    let mut report = Report::empty();
    if options.runs < 5 {
        report.notes.push(format!("{} runs are too few for a figure to quote", options.runs));
    }
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let bench = Bench::new(options, groups, folder.path());
    if options.container {
        container::measure(&bench, &mut report);
    } else if options.sweep {
        sweep::measure(&bench, &mut report);
    } else {
        squeeze::measure(&bench, &mut report);
    }
    Ok(report)
}
