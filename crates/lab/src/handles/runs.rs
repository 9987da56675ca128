//! Runs of a program under several heaps, in turns, all in one process, with what the collector tells of each.

use super::Options;
use crate::engines::{Engine, Legato};
use crate::heaps::Configuration;
use crate::measure::turn;
use crate::programs::Program;
use crate::stats::{self, Ratio};
use crate::tables::{Report, reason};
use anyhow::ensure;
use legato::{GcEvent, GcObserver, HeapStats};
use std::sync::{Arc, Mutex, PoisonError};

/// What one run shows. Times in seconds.
#[derive(Clone, Copy, Default)]
pub(super) struct Figures {
    pub(super) time: f64,
    pub(super) collector: f64,
    pub(super) cycles: f64,
    pub(super) moved_bytes: f64,
    pub(super) mark: f64,
    pub(super) sweep: f64,
    pub(super) compact: f64,
    /// Bytes of blocks of handles at the end.
    pub(super) handle_bytes: f64,
    /// The part of these that handles of live objects have.
    pub(super) handles_in_use: f64,
}

/// Bytes of a fat handle, of either size.
const FAT_HANDLE_BYTES: f64 = 8.0;

impl Figures {
    fn conclude(self, time: f64, stats: &HeapStats) -> Figures {
        let handle_bytes = stats.handle_bytes as f64;
        let handles_in_use = stats.live_objects as f64 * FAT_HANDLE_BYTES / handle_bytes;
        Figures { time, handle_bytes, handles_in_use, ..self }
    }
}

/// Adds up what a heap tells.
#[derive(Clone, Default)]
struct Observer(Arc<Mutex<Figures>>);

impl GcObserver for Observer {
    fn event(&mut self, event: &GcEvent) {
        let mut figures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        figures.cycles += 1.0;
        figures.collector += event.pause.as_secs_f64();
        figures.moved_bytes += event.moved_bytes as f64;
        figures.mark += event.phases.mark.as_secs_f64();
        figures.sweep += event.phases.sweep.as_secs_f64();
        figures.compact += (event.phases.defragment + event.phases.heal).as_secs_f64();
    }
}

/// What is asked of a run.
pub(super) type Figure = fn(&Figures) -> f64;

/// Runs of one program: by heap, then by round.
pub(super) type Runs = Vec<Vec<Figures>>;

/// Runs of every program under each heap. A program that cannot be measured is left out, with a note that says why.
pub(super) fn all(programs: &[&Program], heaps: &[Configuration], options: &Options, report: &mut Report) -> Vec<Runs> {
    let mut all = Vec::new();
    for program in programs {
        eprintln!("handles: {} ...", program.title());
        match runs(program, heaps, options) {
            Ok(runs) => all.push(runs),
            Err(error) => report.notes.push(format!("{} is left out: {}", program.title(), reason(&error))),
        }
    }
    all
}

/// Runs of a program under each heap, in turns, after one of each that does not count.
///
/// # Errors
/// If it does not run under some heap, or prints something else there.
fn runs(program: &Program, heaps: &[Configuration], options: &Options) -> anyhow::Result<Runs> {
    let built = program.read(&options.turns.examples, false)?;
    let arguments = options.runs().command_line(program);
    let size = options.size(program)?;
    let mut engines = Vec::with_capacity(heaps.len());
    for heap in heaps {
        let engine = Legato::new(&[heap.heap.as_slice(), &size].concat())?;
        let module = engine.compile(&built.wasm)?;
        engines.push((engine, module));
    }
    let mut runs: Runs = vec![Vec::new(); heaps.len()];
    let mut expected = None;
    for round in 0..=options.turns.pairs {
        for index in turn(round, heaps.len()) {
            let (engine, module) = &engines[index];
            let observer = Observer::default();
            let (run, stats) = engine.start_counted(module, &arguments, Box::new(observer.clone()))?;
            let expected = expected.get_or_insert_with(|| run.output.clone());
            ensure!(*expected == run.output, "it prints something else under {}", heaps[index].name);
            let figures = *observer.0.lock().unwrap_or_else(PoisonError::into_inner);
            if round > 0 {
                runs[index].push(figures.conclude(run.run.wall, &stats));
            }
        }
    }
    Ok(runs)
}

/// One figure under a heap over that under another, the geometric mean over all programs where both have some of it.
pub(super) fn mean(all: &[Runs], of: Figure, heap: usize, over: usize) -> Ratio {
    let ratios = |runs: &Runs| -> Vec<f64> {
        let pairs = runs[heap].iter().zip(&runs[over]);
        pairs.map(|(own, other)| of(own) / of(other)).filter(|ratio| *ratio > 0.0 && ratio.is_finite()).collect()
    };
    let programs: Vec<Vec<f64>> = all.iter().map(ratios).filter(|ratios| !ratios.is_empty()).collect();
    stats::geometric_mean(&programs)
}

/// One figure under a heap, the median over all programs of their medians; not a number where none has it.
pub(super) fn median(all: &[Runs], of: Figure, heap: usize) -> f64 {
    let of_program = |runs: &Runs| -> Option<f64> {
        let figures: Vec<f64> = runs[heap].iter().map(of).filter(|figure| figure.is_finite()).collect();
        (!figures.is_empty()).then(|| stats::median(&figures))
    };
    let programs: Vec<f64> = all.iter().filter_map(of_program).collect();
    if programs.is_empty() { f64::NAN } else { stats::median(&programs) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_programs() -> [Runs; 2] {
        let runs = |times: [f64; 3], moved: f64| -> Runs {
            let figures = |time| vec![Figures { time, moved_bytes: moved, ..Figures::default() }; 2];
            times.map(figures).into()
        };
        [runs([1.0, 2.0, 4.0], 0.0), runs([1.0, 8.0, 4.0], 7.0)]
    }

    #[test]
    fn ratios_are_of_programs_that_have_some() {
        let all = two_programs();
        let time = |heap, over| mean(&all, |run| run.time, heap, over).median;
        assert!((time(1, 0) - 4.0).abs() < 1e-9);
        assert!((time(2, 1) - 1.0).abs() < 1e-9);
        assert_eq!(mean(&all, |run| run.moved_bytes, 1, 0).median, 1.0, "nothing moves in one");
    }

    #[test]
    fn medians_are_of_programs_that_have_one() {
        let all = two_programs();
        assert_eq!(median(&all, |run| run.time, 1), 5.0);
        assert_eq!(median(&all, |run| 7.0 / run.moved_bytes, 0), 1.0, "one program divides by nothing");
        assert!(median(&all, |_| f64::NAN, 0).is_nan());
    }
}
