//! What the layouts of arrays cost and save: the experiments of Z-Rays (section 7) on this machine.
//!
//! * `programs`: the examples under each layout, over contiguous arrays (figure 4); with `--sweep` under other sizes of
//!   leaves (figure 6) and of the part inline (figure 7), with `--ablate` with one optimisation less (figure 5).
//! * `footprint`: how much of the live heap each layout saves (table 4, right).
//! * `characteristics`: what the programs allocate, access and copy, and what becomes of leaves (tables 1 and 4, left).
//! * `copy`: the speed of `array.copy`, over that of `memcpy`.
//! * `accesses`: single reads and writes, within and beyond the part inline (section 7.1.4).

mod accesses;
mod characteristics;
mod configurations;
mod copy;
mod elements;
mod footprint;
mod kernel;

pub use self::configurations::Sweep;

use crate::heaps::{self, Comparison, Runs};
use crate::programs::{ARRAYS, PROGRAMS, Program};
use crate::tables::Report;
use anyhow::ensure;
use std::path::PathBuf;

/// What to measure, and how often. Without a choice of experiments it is the programs under every layout.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The programs that live by arrays under other parameters of z-rays: the paper's figures 6 (leaf) and 7 (first-n).
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    pub sweep: Vec<Sweep>,
    /// The same under z-rays with one optimisation less, over z-rays with all of them: the paper's figure 5.
    #[arg(long)]
    pub ablate: bool,
    /// How much of the live heap each layout saves.
    #[arg(long)]
    pub footprint: bool,
    /// What the programs allocate, access and copy, counted, and what becomes of leaves: the paper's tables 1 and 4.
    #[arg(long)]
    pub characteristics: bool,
    /// `array.copy` of a mebibyte over memcpy.
    #[arg(long)]
    pub copy: bool,
    /// Single reads and writes, within and beyond the part of a z-ray that is inline.
    #[arg(long)]
    pub accesses: bool,
    /// The heap that others are compared with, in place of contiguous arrays.
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub baseline: Option<String>,
    /// A heap to compare, in place of the usual layouts; may be given more than once.
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub configuration: Vec<String>,
    /// Runs of each program under each heap, in turns.
    #[arg(long, default_value_t = 10)]
    pub pairs: usize,
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
    /// Print the report as JSON, all runs included.
    #[arg(long)]
    pub json: bool,
}

impl Options {
    fn chooses(&self) -> bool {
        let one = [self.ablate, self.footprint, self.characteristics, self.copy, self.accesses];
        one.contains(&true) || !self.sweep.is_empty()
    }

    /// Those of the programs that are wanted.
    ///
    /// # Errors
    /// If it is none.
    fn wanted(&self, programs: impl Iterator<Item = &'static Program>) -> anyhow::Result<Vec<&'static Program>> {
        let wants = |title: &str| self.filter.is_empty() || self.filter.iter().any(|part| title.contains(part));
        let programs: Vec<&Program> = programs.filter(|program| wants(&program.title())).collect();
        ensure!(!programs.is_empty(), "no program's name contains any of: {}", self.filter.join(", "));
        Ok(programs)
    }

    fn runs(&self) -> Runs<'_> {
        Runs { examples: &self.examples, pairs: self.pairs, smallest: self.smallest }
    }
}

/// Measures what the options ask for. What cannot be measured becomes a row with its error, an unknown layout among
/// others.
///
/// # Errors
/// If an option is wrong, or there is no place for files.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    ensure!(options.pairs > 0, "--pairs must be at least 1");
    let mut report = Report::new(options.pairs);
    let layouts = Comparison::layouts(options);
    if !options.chooses() {
        let all = options.wanted(ARRAYS.iter().chain(&PROGRAMS))?;
        heaps::compare(&layouts, &all, &options.runs(), &mut report)?;
    }
    let array_programs = || options.wanted(ARRAYS.iter());
    for sweep in &options.sweep {
        heaps::compare(&Comparison::sweep(*sweep, options), &array_programs()?, &options.runs(), &mut report)?;
    }
    if options.ablate {
        heaps::compare(&Comparison::ablation(options), &array_programs()?, &options.runs(), &mut report)?;
    }
    if options.footprint {
        footprint::compare(&layouts, &array_programs()?, options, &mut report)?;
    }
    if options.characteristics {
        let all = options.wanted(ARRAYS.iter().chain(&PROGRAMS))?;
        characteristics::count(&all, options, &mut report);
    }
    if options.copy {
        copy::measure(&layouts, &copy::Size::of(options), options.pairs, &mut report);
    }
    if options.accesses {
        accesses::measure(&layouts, &accesses::Size::of(options), options.pairs, &mut report);
    }
    Ok(report)
}

#[cfg(test)]
mod tests;
