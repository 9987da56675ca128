//! The options that all commands have which compare whole programs under several heaps or engines.

use std::path::PathBuf;

use anyhow::ensure;

use crate::programs::Program;

/// Which programs run, how often, and how the result is told.
#[derive(Clone, Debug, clap::Args)]
pub struct Turns {
    /// Runs of each program on each side, in turns.
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
    /// Further options of every heap of Legato's: see `legato run --help`.
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE,...")]
    pub heap: Vec<String>,
    /// Print the report as JSON, all runs included.
    #[arg(long)]
    pub json: bool,
}

impl Turns {
    /// Refuses what cannot be measured.
    ///
    /// # Errors
    /// If there are to be no runs.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(self.pairs > 0, "--pairs must be at least 1");
        Ok(())
    }

    /// Whether a program is asked for.
    pub fn wants(&self, title: &str) -> bool {
        self.filter.is_empty() || self.filter.iter().any(|part| title.contains(part.as_str()))
    }

    /// Those of the programs that are asked for.
    ///
    /// # Errors
    /// If it is none.
    pub fn wanted(&self, programs: impl Iterator<Item = &'static Program>) -> anyhow::Result<Vec<&'static Program>> {
        let programs: Vec<&Program> = programs.filter(|program| self.wants(&program.title())).collect();
        ensure!(!programs.is_empty(), "no program's name contains any of: {}", self.filter.join(", "));
        Ok(programs)
    }
}
