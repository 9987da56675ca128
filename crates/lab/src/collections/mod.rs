//! Differential fuzzing of collections: generated programs that allocate, under all heap configurations.
//!
//! A program consists of straight lines of steps with few uses of each reference and many collections between them, so
//! that a reference that compiled code uses after a collection without having loaded it again, or a store that a write
//! barrier forgot, leads to an object that is no longer there. Every use folds what it reads into a checksum. What a
//! program does must be the same as under mark-sweep with a heap so large that nothing is ever collected.
//!
//! Programs run in child processes: a crash is a result like any other, with its seed.

mod body;
mod bulk;
mod calls;
mod child;
mod control;
mod fold;
mod helpers;
mod host;
mod listing;
mod names;
mod program;
mod quiet;
mod reduce;
mod rows;
mod run;
mod signatures;
mod steps;
#[cfg(test)]
mod tests;
mod types;
mod values;

use child::{Calls, Examiner, Question, Verdict};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Seed of the first program; the others have the seeds that follow.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many programs.
    #[arg(long, default_value_t = 500)]
    pub count: u64,
    /// Run each program under this heap alone, for instance nursery=64K,stress=1; or under several, each with an
    /// option.
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub heap: Vec<String>,
    /// Heap configurations that each program runs under: some that follow from its seed, or all.
    #[arg(long, value_enum, default_value_t = Rows::Some)]
    pub rows: Rows,
    /// Processes that run programs at the same time. As many as processors by default.
    #[arg(long)]
    pub jobs: Option<usize>,
    /// Seconds after which a program's process is ended and the program reported as hanging.
    #[arg(long, default_value_t = 60)]
    pub timeout: u64,
    /// Where to save the programs that fail.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub save: PathBuf,
    /// Leave steps out of programs that fail, as long as they fail.
    #[arg(long)]
    pub reduce: bool,
    /// Leave out steps that hold these instructions, named as in wasm-encoder, for instance ArrayInitElem: for failures
    /// besides a known one.
    #[arg(long, value_delimiter = ',', value_name = "INSTRUCTION,...")]
    pub without: Vec<String>,
    /// Run a saved program, or the text of a module with the same imports and exports.
    #[arg(long, value_name = "FILE")]
    pub module: Option<PathBuf>,
    /// Print what the calls of each program did.
    #[arg(long, short)]
    pub verbose: bool,
    /// Run programs in this process and talk to the parent: for the command's own use.
    #[arg(long, hide = true)]
    pub child: bool,
}

/// Which heap configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Rows {
    /// The default with a small nursery, and two others.
    Some,
    /// All.
    All,
}

/// Totals of a run.
#[derive(Debug, Default)]
struct Summary {
    programs: u64,
    calls: Calls,
    failures: u64,
}

/// Fuzzes. Prints each failure as it is found, and a summary line. Returns whether there was none.
///
/// # Errors
/// If an option is wrong, a child cannot be started or a file not be written.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    if options.child {
        child::serve()?;
        return Ok(true);
    }
    for heap in &options.heap {
        // A wrong option is one error here, not one of each child.
        let heap: Vec<String> = heap.split(',').map(str::to_string).collect();
        ::legato::Engine::new(&crate::engines::legato_config(&heap)?)?;
    }
    let start = Instant::now();
    let jobs = options.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1);
    let next = AtomicU64::new(0);
    let summaries: Vec<anyhow::Result<Summary>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(|| drive(options, &next))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a driver does not panic")).collect()
    });
    let mut total = Summary::default();
    for summary in summaries {
        let summary = summary?;
        total.programs += summary.programs;
        total.failures += summary.failures;
        total.calls.returned += summary.calls.returned;
        total.calls.trapped += summary.calls.trapped;
        total.calls.threw += summary.calls.threw;
        total.calls.exhausted += summary.calls.exhausted;
    }
    println!(
        "fuzz-collections: {} programs from seed {}; calls: {} returned, {} trapped, {} threw, {} exhausted; {} failures, {:.0} s",
        total.programs,
        options.seed,
        total.calls.returned,
        total.calls.trapped,
        total.calls.threw,
        total.calls.exhausted,
        total.failures,
        start.elapsed().as_secs_f64()
    );
    Ok(total.failures == 0)
}

/// Runs programs that no other thread runs in child processes: one as long as it lives, another after it.
fn drive(options: &Options, next: &AtomicU64) -> anyhow::Result<Summary> {
    let limit = Duration::from_secs(options.timeout);
    let mut summary = Summary::default();
    let mut examiner = Examiner::default();
    let count = if options.module.is_some() { 1 } else { options.count };
    loop {
        let index = next.fetch_add(1, Relaxed);
        if index >= count {
            return Ok(summary);
        }
        let seed = options.seed.wrapping_add(index);
        let rows = match options.rows {
            _ if !options.heap.is_empty() => options.heap.clone(),
            Rows::Some => rows::selection(seed),
            Rows::All => rows::ROWS.clone(),
        };
        let (module, verbose) = (options.module.clone(), options.verbose);
        let without = options.without.clone();
        let question = Question { seed, dropped: Vec::new(), without, module, rows, verbose };
        summary.programs += 1;
        match examiner.ask(&question, limit)? {
            Verdict::Same(calls) => {
                summary.calls.returned += calls.returned;
                summary.calls.trapped += calls.trapped;
                summary.calls.threw += calls.threw;
                summary.calls.exhausted += calls.exhausted;
            }
            Verdict::Different { row, what } => {
                summary.failures += 1;
                report(options, &question, row, &what, limit)?;
            }
        }
    }
}

/// Prints a failure, and saves the program; a smaller one, too, if that is asked for.
fn report(options: &Options, question: &Question, row: String, what: &str, limit: Duration) -> anyhow::Result<()> {
    let seed = question.seed;
    println!("seed {seed}, under {row}: {what}");
    if let Some(module) = &question.module {
        println!("  module: {}", module.display());
        return Ok(());
    }
    std::fs::create_dir_all(&options.save)?;
    let file = options.save.join(format!("collections-{seed}.wasm"));
    std::fs::write(&file, question.wasm()?)?;
    let without = match &options.without[..] {
        [] => String::new(),
        without => format!(" --without {}", without.join(",")),
    };
    println!("  module: {}", file.display());
    println!("  again: legato-lab fuzz-collections --seed {seed} --count 1 --heap {row}{without}");
    if options.reduce {
        let question = Question { rows: vec![row.clone()], verbose: false, ..question.clone() };
        let (smaller, what) = reduce::reduce(&question, limit)?;
        let file = options.save.join(format!("collections-{seed}-reduced.wasm"));
        std::fs::write(&file, smaller.wasm()?)?;
        std::fs::write(file.with_extension("txt"), listing::listing(&smaller.wasm()?)?)?;
        println!(
            "  reduced: {}\n  again: legato-lab fuzz-collections --module {} --heap {row}\n  what it does: {}",
            file.display(),
            file.display(),
            what.as_deref().unwrap_or("the failure did not come again")
        );
    }
    Ok(())
}
