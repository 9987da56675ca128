//! What zeroing costs, and which strategy is the best: the experiments of Why Nothing Matters (sections 4 to 6) on this
//! machine.
//!
//! * `bandwidth`: how fast memory can be zeroed, with ordinary and with streaming stores (figure 3).
//! * `init`: the microbenchmarks `initnone`, `initfresh` and `initstale` (figures 1, 5 and 9).
//! * `cost`: the direct cost of zeroing, as a share of the processor time of each program (table 3, left).
//! * `total`: the time of each program under each strategy over that under `bulk` (table 3, right, and table 4).
//!
//! The paper measures hot-path zeroing by its total time alone, for its instructions cannot be told apart from the
//! allocation sequence (section 4.3). So it is here: it has no row of its own in `cost`.

mod bandwidth;
mod report;
mod runs;
mod subjects;

use crate::tables::Report;
use crate::turns::Turns;
use runs::{Contestant, Sample};
use subjects::Subject;

/// What to measure, and how often.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Only these experiments: bandwidth, init, cost, total. All by default.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    pub only: Vec<String>,
    /// Arrays that each microbenchmark allocates. The paper's 64 million by default.
    #[arg(long, default_value_t = 64 << 20, value_name = "COUNT")]
    pub arrays: u32,
    /// Which programs, and how often.
    #[command(flatten)]
    pub turns: Turns,
}

/// Names of the experiments, in the order in which they run.
pub const EXPERIMENTS: [&str; 4] = ["bandwidth", "init", "cost", "total"];

impl Options {
    fn includes(&self, experiment: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == experiment)
    }
}

/// Measures what the options ask for. What cannot be measured becomes a row with its error.
///
/// # Errors
/// If an option is wrong, or the engine does not start.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    for name in &options.only {
        let known = EXPERIMENTS.join(", ");
        anyhow::ensure!(EXPERIMENTS.contains(&name.as_str()), "no experiment '{name}'; there are {known}");
    }
    options.turns.check()?;
    anyhow::ensure!(options.arrays > 0, "--arrays must be at least 1");
    let mut report = Report::new(options.turns.pairs);
    if options.includes("bandwidth") {
        eprintln!("bandwidth ...");
        report.tables.push(bandwidth::measure(options.turns.pairs));
    }
    let contestants = Contestant::all(&options.turns.heap)?;
    if options.includes("init") {
        let mut total = report::total_table("init", &contestants);
        for subject in
            subjects::microbenchmarks(options.arrays)?.iter().filter(|subject| options.turns.wants(&subject.title))
        {
            let samples = measure("init", subject, &contestants, options.turns.pairs);
            total.rows.push(report::total(&subject.title, &samples));
        }
        report.tables.push(total);
    }
    if options.includes("cost") || options.includes("total") {
        programs(options, &contestants, &mut report)?;
    }
    Ok(report)
}

/// The experiments `cost` and `total`, from the same runs.
fn programs(options: &Options, contestants: &[Contestant], report: &mut Report) -> anyhow::Result<()> {
    let (subjects, notes) = subjects::examples(&options.turns.examples, options.turns.smallest)?;
    report.notes.extend(notes);
    let (mut cost, mut total) = (report::cost_table("cost", contestants), report::total_table("total", contestants));
    for subject in subjects.iter().filter(|subject| options.turns.wants(&subject.title)) {
        let samples = measure("programs", subject, contestants, options.turns.pairs);
        cost.rows.push(report::cost(&subject.title, &samples));
        total.rows.push(report::total(&subject.title, &samples));
    }
    cost.conclude();
    total.conclude();
    let tables = [("cost", cost), ("total", total)];
    report.tables.extend(tables.into_iter().filter(|(name, _)| options.includes(name)).map(|(_, table)| table));
    Ok(())
}

/// Runs of one program, a list for each strategy.
fn measure(
    experiment: &str,
    subject: &Subject,
    contestants: &[Contestant],
    rounds: usize,
) -> anyhow::Result<Vec<Vec<Sample>>> {
    eprintln!("{experiment}: {} ...", subject.title);
    runs::in_turns(
        subject.wasm.as_deref().map_err(|error| anyhow::anyhow!("{error}"))?,
        &subject.arguments,
        contestants,
        rounds,
    )
}

#[cfg(test)]
mod tests;
