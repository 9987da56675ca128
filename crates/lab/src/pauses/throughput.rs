//! What slices cost: the programs of `legato-lab allocation` under heaps whose full collections stop the program, and
//! under those whose collections come in slices.

use super::Options;
use crate::heaps::{self, Comparison, Configuration, Runs};
use crate::programs::{PROGRAMS, Program};
use crate::tables::Report;
use anyhow::ensure;

/// Runs of each program under each heap, where the options do not say.
const PAIRS: usize = 10;

/// What is compared, and what is demanded.
fn comparisons(options: &Options) -> [Comparison; 2] {
    let new = |heap: &str| Configuration::new(heap, heap, &options.heap);
    let over = |experiment: &str, baseline: &str, other: Configuration| Comparison {
        experiment: experiment.to_string(),
        baseline: new(baseline),
        others: vec![other],
    };
    let incremental = Configuration { mean: Some(1.02), slowest: Some(1.05), ..new("full=incremental") };
    let realtime = Configuration { mean: Some(1.35), slowest: Some(1.8), ..new("collector=realtime") };
    [over("in slices", "full=stop", incremental), over("realtime", "collector=generational", realtime)]
}

/// Adds the tables and verdicts.
///
/// # Errors
/// If no program is wanted, or there is no place for files.
pub(super) fn measure(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let wants = |title: &str| options.filter.is_empty() || options.filter.iter().any(|part| title.contains(part));
    let programs: Vec<&Program> = PROGRAMS.iter().filter(|program| wants(&program.title())).collect();
    ensure!(!programs.is_empty(), "no program's name contains any of: {}", options.filter.join(", "));
    let pairs = options.runs.unwrap_or(PAIRS);
    let runs = Runs { examples: &options.examples, pairs, smallest: options.smallest };
    for comparison in comparisons(options) {
        heaps::compare(&comparison, &programs, &runs, report)?;
    }
    Ok(())
}
