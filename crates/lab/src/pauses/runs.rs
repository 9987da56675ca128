//! The program in every engine, in turns, and its figures as tables.

use super::gaps::{Gaps, Times};
use super::targets::{self, Targets, WINDOW};
use super::{Options, Program};
use crate::contestants::{Contestant, Prepared};
use crate::measure::turn;
use crate::programs::Built;
use crate::stats::{self, Ratio};
use crate::tables::{Report, Row, Table, Unit, reason};
use anyhow::{Context, ensure};
use std::path::Path;

/// Runs of the program in each engine, where the options do not say.
const RUNS: usize = 3;

/// One run of the program.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) gaps: Gaps,
    /// Peak resident memory of its process, in bytes.
    pub(super) peak_resident: Option<u64>,
}

/// An engine with one of its heaps.
struct Subject {
    name: String,
    /// What is demanded of it.
    targets: Option<Targets>,
    kind: Kind,
    /// What runs the program, compiled; or why there is none.
    ready: anyhow::Result<(Contestant, Prepared)>,
}

/// What stands for what.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An engine among others.
    Engine,
    /// The one whose speed is the measure.
    V8,
    /// The machine: the program without allocation, so that no collector has anything to do. Its gaps are others'.
    Machine,
}

/// Runs every program, and adds its tables and verdicts.
pub(super) fn compare(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let built = super::program(&options.examples)?;
    let subjects = subjects(options, &built, folder.path())?;
    for &program in options.programs() {
        let runs = in_turns(program, options, &subjects);
        let rows: Vec<(&Subject, &anyhow::Result<Vec<Run>>)> = subjects.iter().zip(&runs).collect();
        report.tables.push(table(program, &rows, "wall", &WALL));
        report.tables.push(table(program, &rows, "CPU", &CPU));
        judge(program, options, &rows, report);
    }
    Ok(())
}

/// Legato under each heap, then the peers.
fn subjects(options: &Options, built: &Built, folder: &Path) -> anyhow::Result<Vec<Subject>> {
    let mut subjects = Vec::new();
    let mut add = |name: &str, targets: Option<Targets>, kind: Kind, contestant: anyhow::Result<Contestant>| {
        // A folder serves one contestant of a kind.
        let own = folder.join(subjects.len().to_string());
        std::fs::create_dir(&own).with_context(|| format!("cannot make {}", own.display()))?;
        let name = match (&contestant, kind) {
            (_, Kind::Machine) | (Err(_), _) => name.to_string(),
            (Ok(contestant), _) => contestant.name(),
        };
        eprintln!("pauses: {name} is compiled and checked ...");
        let ready = contestant.and_then(|contestant| {
            let prepared = contestant.prepare(&built.wasm, &own)?;
            contestant.check(&prepared, built, &["cache".into()])?;
            Ok((contestant, prepared))
        });
        subjects.push(Subject { name, targets, kind, ready });
        anyhow::Ok(())
    };
    for heap in options.heaps() {
        let name = format!("legato ({})", heap.join(","));
        add(&name, Targets::of(&heap), Kind::Engine, Contestant::legato(&heap))?;
    }
    // This collector has no thread, and the heap is below its limit.
    add(
        "the machine (nothing is allocated)",
        None,
        Kind::Machine,
        Contestant::legato(&["collector=mark-sweep".into()]),
    )?;
    #[cfg(feature = "peers")]
    if !options.legato_only {
        for heap in ["collector=copying", "collector=reference-counting"] {
            add(heap, None, Kind::Engine, Contestant::wasmtime(&[heap.to_string()]))?;
        }
        add("V8", None, Kind::V8, Contestant::v8(options.node.as_deref(), folder))?;
    }
    Ok(subjects)
}

/// The runs of each subject, or why there are none. One that has failed is not asked again.
fn in_turns(program: Program, options: &Options, subjects: &[Subject]) -> Vec<anyhow::Result<Vec<Run>>> {
    let mut runs: Vec<anyhow::Result<Vec<Run>>> = subjects.iter().map(|_| Ok(Vec::new())).collect();
    for round in 0..options.runs.unwrap_or(RUNS) {
        for index in turn(round, subjects.len()) {
            let Subject { name, kind, ready, .. } = &subjects[index];
            let Ok(done) = &mut runs[index] else { continue };
            eprintln!("pauses: {}, run {} of {name} ...", program.title(), round + 1);
            match ready.as_ref().map_err(|error| anyhow::Error::msg(reason(error))).and_then(|ready| {
                let (contestant, prepared) = ready;
                let program = if *kind == Kind::Machine { Program::Still } else { program };
                run(contestant, prepared, program, options)
            }) {
                Ok(run) => done.push(run),
                Err(error) => runs[index] = Err(error),
            }
        }
    }
    runs
}

fn run(contestant: &Contestant, prepared: &Prepared, program: Program, options: &Options) -> anyhow::Result<Run> {
    let sample = contestant.run(prepared, &program.command_line(options), false, 1)?;
    let gaps = Gaps::parse(&sample.output)?;
    ensure!(gaps.steps > 0, "the program has done no step");
    Ok(Run { gaps, peak_resident: sample.peak_resident })
}

/// A figure of the table: of each run, and of all together.
struct Figure {
    name: &'static str,
    unit: Unit,
    of: fn(&Run) -> Option<f64>,
    over: fn(&[f64]) -> f64,
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::min)
}

const fn figure(name: &'static str, unit: Unit, of: fn(&Run) -> Option<f64>, over: fn(&[f64]) -> f64) -> Figure {
    Figure { name, unit, of, over }
}

fn largest(times: &Times) -> f64 {
    times.largest.as_secs_f64()
}

const UTILISATION: &str = "least share of 10 ms";

/// What the machine itself does now and then is in some runs, and not in the median one.
const MEDIAN: &str = "of the median run";

static WALL: [Figure; 7] = [
    figure("largest gap", Unit::Milliseconds, |run| Some(largest(&run.gaps.wall)), most),
    figure(MEDIAN, Unit::Milliseconds, |run| Some(largest(&run.gaps.wall)), stats::median),
    figure("99.99 %", Unit::Milliseconds, |run| Some(run.gaps.wall.quantile(0.9999)), stats::median),
    figure("99.9 %", Unit::Milliseconds, |run| Some(run.gaps.wall.quantile(0.999)), stats::median),
    figure(UTILISATION, Unit::Share, |run| run.gaps.wall.utilisation(WINDOW), least),
    figure("steps/s", Unit::Count, |run| Some(run.gaps.rate()), stats::median),
    figure("peak memory", Unit::Megabytes, |run| Some(run.peak_resident? as f64), most),
];

static CPU: [Figure; 5] = [
    figure("largest gap", Unit::Milliseconds, |run| run.gaps.cpu.as_ref().map(largest), most),
    figure(MEDIAN, Unit::Milliseconds, |run| run.gaps.cpu.as_ref().map(largest), stats::median),
    figure("99.99 %", Unit::Milliseconds, |run| Some(run.gaps.cpu.as_ref()?.quantile(0.9999)), stats::median),
    figure("99.9 %", Unit::Milliseconds, |run| Some(run.gaps.cpu.as_ref()?.quantile(0.999)), stats::median),
    figure(UTILISATION, Unit::Share, |run| run.gaps.cpu.as_ref()?.utilisation(WINDOW), least),
];

fn table(program: Program, rows: &[(&Subject, &anyhow::Result<Vec<Run>>)], clock: &str, figures: &[Figure]) -> Table {
    let caption = match clock {
        "wall" => "the largest gap, the least utilisation and the peak of all runs; else medians of the runs",
        _ => "the same gaps in processor time of the program's thread, where the engine tells it",
    };
    let columns = figures.iter().map(|figure| (figure.name.to_string(), figure.unit)).collect();
    let mut table = Table::new(&format!("{}, {clock} time", program.title()), caption, columns);
    table.rows.extend(rows.iter().map(|(subject, runs)| match runs {
        Ok(runs) => row(&subject.name, runs, figures),
        Err(error) => Row::failed(&subject.name, error),
    }));
    table
}

fn row(name: &str, runs: &[Run], figures: &[Figure]) -> Row {
    let values: Vec<Vec<f64>> = figures.iter().map(|figure| runs.iter().filter_map(figure.of).collect()).collect();
    let cells = figures.iter().zip(&values).map(|(figure, values)| Ratio::exactly((figure.over)(values))).collect();
    Row { subject: name.into(), cells, runs: values, error: None }
}

/// Adds the verdicts, and a note of what is not judged.
fn judge(program: Program, options: &Options, rows: &[(&Subject, &anyhow::Result<Vec<Run>>)], report: &mut Report) {
    let v8 = rows.iter().find_map(|(subject, runs)| runs.as_ref().ok().filter(|_| subject.kind == Kind::V8));
    if v8.is_none() {
        report.notes.push(format!("{}: steps per second are not judged, for V8 was not measured", program.title()));
    }
    for (subject, runs) in rows {
        if let (Kind::Machine, Ok(runs)) = (subject.kind, runs) {
            let gaps: Vec<f64> = runs.iter().map(|run| largest(&run.gaps.wall) * 1e3).collect();
            report.notes.push(format!(
                "{}: where nothing is allocated, the machine's own largest gap is {:.1} ms; up to that, a gap may be nobody's fault here",
                program.title(),
                most(&gaps)
            ));
        }
        let (Some(targets), Ok(runs)) = (subject.targets, runs) else { continue };
        report.verdicts.extend(targets.judge(&subject.name, program, runs));
        report.verdicts.extend(v8.map(|v8| targets::throughput(&subject.name, program, runs, v8)));
        if program == Program::Cache {
            report.verdicts.push(targets::memory(&subject.name, program, runs, options.entries));
        }
    }
}
