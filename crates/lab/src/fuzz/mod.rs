//! Differential fuzzing: generated modules run in Legato and in wasmtime, and must do the same.
//!
//! A module comes from wasm-smith and a seed. Its functions and loops count down a global, so that every call ends at
//! the same point in both engines, and the harness gives each call a new budget. Then each engine instantiates the
//! module, calls every exported function with arguments that follow from the seed, and reports what came of it: values,
//! traps, exceptions, the budget that is left, the contents of memories and globals, the sizes of tables.
//!
//! The engines run in child processes: a crash or a hang is a result like any other, with its seed.

mod child;
mod compare;
mod legato;
mod module;
mod observation;
mod plan;
mod subject;
mod wasmtime;

use child::Message;
use compare::Calls;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Seed of the first module; the others have the seeds that follow.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many modules.
    #[arg(long, default_value_t = 2000)]
    pub count: u64,
    /// Processes that run modules at the same time. As many as processors by default.
    #[arg(long)]
    pub jobs: Option<usize>,
    /// Seconds after which a module's process is ended and the module reported as hanging.
    #[arg(long, default_value_t = 60)]
    pub timeout: u64,
    /// Loop iterations and calls that one call of an export may make. Beyond, it is inconclusive.
    #[arg(long, default_value_t = 2000)]
    pub budget: u32,
    /// Legato's heap, for instance collector=mark-sweep,references=thin-handles, with the heap's checks (verify=on)
    /// unless they are turned off here. By default each module runs under a row of the test matrix, by turns.
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE,...")]
    pub heap: Vec<String>,
    /// Where to save the modules that differ.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub save: PathBuf,
    /// Save every module, and print what both engines did.
    #[arg(long, short)]
    pub verbose: bool,
    /// Run the modules in this process and talk to the parent: for the command's own use.
    #[arg(long, hide = true)]
    pub child: bool,
}

/// Totals of a run.
#[derive(Debug, Default)]
struct Summary {
    modules: u64,
    calls: Calls,
    inconclusive: u64,
    differences: u64,
}

/// Fuzzes. Prints each difference as it is found, and a summary line. Returns whether there was none.
///
/// # Errors
/// If an option is wrong, a child cannot be started or a file not be written.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    if options.child {
        child::serve(options)?;
        return Ok(true);
    }
    // A wrong option is one error here, not one of each child.
    legato::check(&options.heap)?;
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
        total.modules += summary.modules;
        total.calls += summary.calls;
        total.inconclusive += summary.inconclusive;
        total.differences += summary.differences;
    }
    println!(
        "fuzz: {} modules from seed {}; calls compared: {} returned, {} trapped, {} threw; {} modules inconclusive, {} differences, {:.0} s",
        total.modules,
        options.seed,
        total.calls.returned,
        total.calls.trapped,
        total.calls.threw,
        total.inconclusive,
        total.differences,
        start.elapsed().as_secs_f64()
    );
    Ok(total.differences == 0)
}

/// Runs modules that no other thread runs in child processes: one as long as it lives, another after it.
fn drive(options: &Options, next: &AtomicU64) -> anyhow::Result<Summary> {
    let mut summary = Summary::default();
    let mut child = None;
    loop {
        let index = next.fetch_add(1, Relaxed);
        if index >= options.count {
            return Ok(summary);
        }
        let seed = options.seed.wrapping_add(index);
        let running = match &mut child {
            Some(child) => child,
            None => child.insert(child::start(options)?),
        };
        summary.modules += 1;
        let difference = match child::ask(running, seed, Duration::from_secs(options.timeout))? {
            Message::Same { calls } => {
                summary.calls += calls;
                continue;
            }
            Message::Inconclusive { calls, why } => {
                summary.calls += calls;
                summary.inconclusive += 1;
                if options.verbose {
                    println!("seed {seed}: inconclusive: {why}");
                }
                continue;
            }
            Message::Different { what } => what,
            Message::Ended { what, by_peer } => {
                child = None;
                if by_peer {
                    summary.inconclusive += 1;
                    println!("seed {seed}: wasmtime {what}: inconclusive");
                    continue;
                }
                format!("legato {what}")
            }
        };
        summary.differences += 1;
        let file = save(options, seed)?;
        println!(
            "seed {seed}: {difference}\n  module: {}\n  again: legato-lab fuzz --seed {seed} --count 1 --verbose --budget {} --heap {}",
            file.display(),
            options.budget,
            legato::heap(&options.heap, seed).join(",")
        );
    }
}

/// Writes the module of a seed.
fn save(options: &Options, seed: u64) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(&options.save)?;
    let file = options.save.join(format!("fuzz-{seed}.wasm"));
    std::fs::write(&file, module::generate(seed)?)?;
    Ok(file)
}
