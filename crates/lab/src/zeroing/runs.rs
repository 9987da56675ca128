//! Runs of a program under every strategy, in turns.

use crate::engines::{Engine, Legato, legato_config};
use crate::measure;
use anyhow::{Context, ensure};
use legato::{GcEvent, GcObserver, Module};
use legato_heap::Zeroing;
use legato_test_matrix::{Measured, measured};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Legato under one strategy.
pub(super) struct Contestant {
    pub(super) zeroing: Zeroing,
    engine: Legato,
}

/// One run of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Seconds by the clock, of the entry alone.
    pub(super) wall: f64,
    /// Seconds of processor time of all threads, user's and system's, of the whole run.
    pub(super) processor: f64,
    /// Seconds that the mutator has zeroed memory, or waited for the helper.
    pub(super) zeroing: f64,
    /// Seconds that the helper has zeroed memory.
    pub(super) helper: f64,
}

impl Contestant {
    /// Every strategy of the test matrix, in the order of [`Zeroing::ALL`], under the generational collector with
    /// further heap options.
    ///
    /// # Errors
    /// If an option is wrong, or this host is not supported.
    pub(super) fn all(heap: &[String]) -> anyhow::Result<Vec<Contestant>> {
        let contestant = |zeroing: &Measured| {
            let own = ["collector=generational".to_string(), zeroing.settings.to_string()];
            let options: Vec<String> = own.into_iter().chain(heap.iter().cloned()).collect();
            let zeroing = legato_config(&options)?.heap_config().zeroing();
            Ok(Contestant { zeroing, engine: Legato::new(&options)? })
        };
        measured("zeroing").map(contestant).collect()
    }

    fn run(&self, module: &Module, arguments: &[String]) -> anyhow::Result<(Sample, Vec<u8>)> {
        let zeroing = Total::default();
        let before = processor_time();
        let mut after = before;
        let run = self
            .engine
            .start_observed_to_the_end(module, arguments, Box::new(zeroing.clone()), || after = processor_time())?;
        let (mutator, helper) = *zeroing.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sample = Sample {
            wall: run.run.wall,
            processor: (after - before).as_secs_f64(),
            zeroing: mutator.as_secs_f64(),
            helper: helper.as_secs_f64(),
        };
        Ok((sample, run.output))
    }
}

/// Runs a program so many times under each strategy, after one run of each that does not count. Returns a list of runs
/// for each strategy: runs at the same place stood beside one another.
///
/// # Errors
/// If the program fails under a strategy, or prints something else than under another.
pub(super) fn in_turns(
    wasm: &[u8],
    arguments: &[String],
    contestants: &[Contestant],
    rounds: usize,
) -> anyhow::Result<Vec<Vec<Sample>>> {
    let run = |index: usize, module: &Module| {
        contestants[index]
            .run(module, arguments)
            .with_context(|| format!("zeroing={}", contestants[index].zeroing.name()))
    };
    let mut modules = Vec::new();
    let mut expected = None;
    for (index, contestant) in contestants.iter().enumerate() {
        let module = contestant.engine.compile(wasm)?;
        let (_, output) = run(index, &module)?;
        ensure!(
            expected.get_or_insert_with(|| output.clone()) == &output,
            "prints something else under zeroing={}",
            contestant.zeroing.name()
        );
        modules.push(module);
    }
    let mut samples = vec![Vec::new(); contestants.len()];
    for round in 0..rounds {
        for index in measure::turn(round, contestants.len()) {
            let (sample, output) = run(index, &modules[index])?;
            ensure!(expected.as_ref() == Some(&output), "prints not the same in every run");
            samples[index].push(sample);
        }
    }
    Ok(samples)
}

/// Time spent on zeroing in one run, by the mutator and by the helper.
#[derive(Clone, Default)]
struct Total(Arc<Mutex<(Duration, Duration)>>);

impl GcObserver for Total {
    fn event(&mut self, event: &GcEvent) {
        let mut total = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        total.0 += event.zeroing;
        total.1 += event.concurrent_zeroing;
    }
}

/// Processor time of this process so far, user's and system's.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a variable of ours.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0, "the processor time of this process cannot be had");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
