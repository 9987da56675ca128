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
use crate::programs::{ARRAYS, PROGRAMS};
use crate::tables::Report;
use crate::turns::Turns;

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
    /// Which programs, and how often.
    #[command(flatten)]
    pub turns: Turns,
}

impl Options {
    fn chooses(&self) -> bool {
        let one = [self.ablate, self.footprint, self.characteristics, self.copy, self.accesses];
        one.contains(&true) || !self.sweep.is_empty()
    }

    fn runs(&self) -> Runs<'_> {
        Runs { examples: &self.turns.examples, pairs: self.turns.pairs, smallest: self.turns.smallest }
    }
}

/// Measures what the options ask for. What cannot be measured becomes a row with its error, an unknown layout among
/// others.
///
/// # Errors
/// If an option is wrong, or there is no place for files.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    options.turns.check()?;
    let mut report = Report::new(options.turns.pairs);
    let layouts = Comparison::layouts(options);
    if !options.chooses() {
        let all = options.turns.wanted(ARRAYS.iter().chain(&PROGRAMS))?;
        heaps::compare(&layouts, &all, &options.runs(), &mut report)?;
    }
    let array_programs = || options.turns.wanted(ARRAYS.iter());
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
        let all = options.turns.wanted(ARRAYS.iter().chain(&PROGRAMS))?;
        characteristics::count(&all, options, &mut report);
    }
    if options.copy {
        copy::measure(&layouts, &copy::Size::of(options), options.turns.pairs, &mut report);
    }
    if options.accesses {
        accesses::measure(&layouts, &accesses::Size::of(options), options.turns.pairs, &mut report);
    }
    Ok(report)
}

#[cfg(test)]
mod tests;
