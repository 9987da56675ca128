//! Tables 2 to 7 of Handles Revisited as one: geometric means over replication, each beside the paper's.
//!
//! The paper has no table for direct references: nothing moves there. They take part for what handles cost at all.

use super::Options;
use crate::engines::{Engine, Legato};
use crate::measure::turn;
use crate::programs::Program;
use crate::stats::{self, Ratio};
use crate::tables::{Report, Row, Table, Unit, Verdict, reason};
use anyhow::ensure;
use legato::{GcEvent, GcObserver};
use std::sync::{Arc, Mutex, PoisonError};

/// The models in the order of the columns; the first is the baseline.
const MODELS: [&str; 6] = ["replicating", "brooks", "uni-handles", "fat-handles", "thin-handles", "direct"];
const REPLICATING: usize = 0;
const BROOKS: usize = 1;
const UNI: usize = 2;
const DIRECT: usize = 5;

/// What one run shows. Times in seconds.
#[derive(Clone, Copy, Default)]
struct Figures {
    time: f64,
    collector: f64,
    cycles: f64,
    moved_bytes: f64,
    mark: f64,
    sweep: f64,
    compact: f64,
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
type Figure = fn(&Figures) -> f64;

/// A row: its name, what it is of a run, and the paper's geometric means over replication for brooks, uni-sized, fat
/// and thin handles.
type Measure = (&'static str, Figure, [f64; 4]);

/// What is demanded of uni-sized handles: its name, what it is of a run, over which model, and the most that it may
/// be.
type Demand = (&'static str, Figure, usize, f64);

const DEMANDS: [Demand; 5] = [
    ("uni-handles over brooks: time", |run| run.time, BROOKS, 1.0),
    ("uni-handles over brooks: cycles", |run| run.cycles, BROOKS, 1.02),
    ("uni-handles over brooks: bytes moved", |run| run.moved_bytes, BROOKS, 0.05),
    ("uni-handles over brooks: time of a cycle", |run| run.collector / run.cycles, BROOKS, 1.1),
    ("uni-handles over direct: time", |run| run.time, DIRECT, 1.05),
];

const NONE: f64 = f64::NAN;

/// Table 2 is of the paper's platform A, 3 of its platform C; the others are of one.
const MEASURES: [Measure; 10] = [
    ("time (table 2)", |run| run.time, [1.018, 1.018, 1.061, 1.133]),
    ("time (table 3)", |run| run.time, [1.021, 1.052, 1.086, 1.102]),
    ("bytes moved (4)", |run| run.moved_bytes, [NONE, 0.05, 0.06, 0.04]),
    ("cycles (5)", |run| run.cycles, [1.0, 1.09, 1.33, 1.01]),
    ("collector's time (6)", |run| run.collector, [1.045, 1.322, 1.78, 1.399]),
    ("the same for each cycle (6)", |run| run.collector / run.cycles, [1.05, 1.242, 1.393, 1.43]),
    ("mutator's time (6)", |run| run.time - run.collector, [1.021, 1.046, 1.049, 1.076]),
    ("marking for each cycle (7)", |run| run.mark / run.cycles, [1.14, 1.467, 1.8, 1.381]),
    ("sweeping for each cycle (7)", |run| run.sweep / run.cycles, [0.999, 1.163, 1.18, 1.374]),
    ("compacting for each cycle (7)", |run| run.compact / run.cycles, [1.065, 0.463, 0.555, 0.348]),
];

/// Runs of one program: by model, then by round.
type Runs = Vec<Vec<Figures>>;

/// Adds the table, and what is demanded of uni-sized handles.
pub(super) fn measure(programs: &[&Program], options: &Options, report: &mut Report) {
    let mut all: Vec<Runs> = Vec::new();
    for program in programs {
        eprintln!("handles: {} ...", program.title());
        match runs(program, options) {
            Ok(runs) => all.push(runs),
            Err(error) => report.notes.push(format!("{} is left out: {}", program.title(), reason(&error))),
        }
    }
    let parameters = if options.paper { "the paper's" } else { "the usual" };
    let columns = MODELS[1..].iter().flat_map(|model| {
        let paper = (*model != MODELS[DIRECT]).then(|| (format!("{model}, paper"), Unit::Ratio));
        std::iter::once((model.to_string(), Unit::Ratio)).chain(paper)
    });
    let mut table = Table::new(
        "tables 2 to 7",
        format!("over replication, with {parameters} parameters, geometric means of {} programs", all.len()),
        columns.collect(),
    );
    for (name, of, paper) in MEASURES {
        let cells = (1..MODELS.len()).flat_map(|model| {
            let paper = paper.get(model - 1).map(|&paper| Ratio::exactly(paper));
            std::iter::once(mean(&all, of, model, REPLICATING)).chain(paper)
        });
        table.rows.push(Row { subject: name.into(), cells: cells.collect(), runs: Vec::new(), error: None });
    }
    report.tables.push(table);

    for (what, of, over, most) in DEMANDS {
        let value = mean(&all, of, UNI, over).median;
        report.verdicts.push(Verdict { what: format!("{what} <= {most}"), value, met: value <= most });
    }
}

/// One figure of a model over that of another, the geometric mean over all programs where both have some of it.
fn mean(all: &[Runs], of: Figure, model: usize, over: usize) -> Ratio {
    let ratios = |runs: &Runs| -> Vec<f64> {
        let pairs = runs[model].iter().zip(&runs[over]);
        pairs.map(|(own, other)| of(own) / of(other)).filter(|ratio| *ratio > 0.0 && ratio.is_finite()).collect()
    };
    let programs: Vec<Vec<f64>> = all.iter().map(ratios).filter(|ratios| !ratios.is_empty()).collect();
    stats::geometric_mean(&programs)
}

/// Runs of a program under each model, in turns, after one of each that does not count.
///
/// # Errors
/// If it does not run under some model, or prints something else there.
fn runs(program: &Program, options: &Options) -> anyhow::Result<Runs> {
    let built = program.read(&options.turns.examples, false)?;
    let arguments = options.runs().command_line(program);
    let mut engines = Vec::with_capacity(MODELS.len());
    for model in MODELS {
        let engine = Legato::new(&options.model(model).heap)?;
        let module = engine.compile(&built.wasm)?;
        engines.push((engine, module));
    }
    let mut runs: Runs = vec![Vec::new(); MODELS.len()];
    let mut expected = None;
    for round in 0..=options.turns.pairs {
        for model in turn(round, MODELS.len()) {
            let (engine, module) = &engines[model];
            let observer = Observer::default();
            let run = engine.start_observed(module, &arguments, Box::new(observer.clone()))?;
            let expected = expected.get_or_insert_with(|| run.output.clone());
            ensure!(*expected == run.output, "it prints something else under {}", MODELS[model]);
            let figures = *observer.0.lock().unwrap_or_else(PoisonError::into_inner);
            if round > 0 {
                runs[model].push(Figures { time: run.run.wall, ..figures });
            }
        }
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_programs_that_have_some() {
        let runs = |times: [f64; 6], moved: f64| -> Runs {
            let figures = |time| vec![Figures { time, moved_bytes: moved, ..Figures::default() }; 2];
            times.map(figures).into()
        };
        let all = [runs([1.0, 2.0, 4.0, 1.0, 1.0, 1.0], 0.0), runs([1.0, 8.0, 4.0, 1.0, 1.0, 1.0], 7.0)];
        let time = |model, over| mean(&all, |run| run.time, model, over).median;
        assert!((time(BROOKS, REPLICATING) - 4.0).abs() < 1e-9);
        assert!((time(UNI, BROOKS) - 1.0).abs() < 1e-9);
        assert_eq!(mean(&all, |run| run.moved_bytes, BROOKS, REPLICATING).median, 1.0, "nothing moves in one");
    }
}
