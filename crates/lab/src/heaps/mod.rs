//! Heaps of Legato beside each other: programs under each, over their times under one of them.

mod programs;

pub(crate) use self::programs::{Entrant, compare, enter};

use crate::engines::Legato;
use crate::programs::Program;
use crate::tables::Row;
use std::path::Path;

/// A heap, and what it must satisfy.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// Name for tables.
    pub name: String,
    /// Its options, each `KEY=VALUE`.
    pub heap: Vec<String>,
    /// Bound on the geometric mean of the programs' times over the baseline's.
    pub mean: Option<f64>,
    /// Bound on the slowest program's time over the baseline's.
    pub slowest: Option<f64>,
    /// Bound, from below, on the speed of `array.copy` over that of `memcpy`.
    pub copy: Option<f64>,
    /// Whether it is to save as much of the heap as in the paper.
    pub saves: bool,
}

/// Heaps over one other.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Name of the experiment.
    pub experiment: String,
    /// What the others are compared with.
    pub baseline: Configuration,
    /// In the order of the table.
    pub others: Vec<Configuration>,
}

/// How programs are run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runs<'a> {
    /// The folder with the example programs.
    pub(crate) examples: &'a Path,
    /// Runs of each program under each heap, in turns.
    pub(crate) pairs: usize,
    /// At its smallest size.
    pub(crate) smallest: bool,
}

impl Runs<'_> {
    /// The command line of a program.
    pub(crate) fn command_line(&self, program: &Program) -> Vec<String> {
        let arguments = if self.smallest { &[] } else { program.arguments };
        program.command_line(arguments.iter().copied())
    }
}

impl Configuration {
    /// A heap of these options, separated by commas, followed by those for all heaps; nothing is demanded of it.
    pub fn new(name: impl Into<String>, own: &str, all: &[String]) -> Configuration {
        let own = own.split(',').map(str::trim).filter(|option| !option.is_empty()).map(String::from);
        let heap = own.chain(all.iter().cloned()).collect();
        Configuration { name: name.into(), heap, mean: None, slowest: None, copy: None, saves: false }
    }

    /// The same heap with further options.
    pub(crate) fn with(&self, options: &[&str]) -> Configuration {
        let mut result = self.clone();
        result.heap.extend(options.iter().map(|option| option.to_string()));
        result
    }
}

impl Comparison {
    /// The heaps that there are, and a row for each that there is not: because of an unknown option, for instance.
    pub(crate) fn usable(&self) -> (Vec<&Configuration>, Vec<Row>) {
        let (mut usable, mut failed) = (Vec::new(), Vec::new());
        for configuration in self.all() {
            match Legato::new(&configuration.heap) {
                Ok(_) => usable.push(configuration),
                Err(error) => failed.push(Row::failed(&configuration.name, &error)),
            }
        }
        (usable, failed)
    }

    /// The baseline, then the others.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Configuration> {
        std::iter::once(&self.baseline).chain(&self.others)
    }
}
