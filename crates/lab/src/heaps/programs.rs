//! Whole programs under each heap of a comparison, each run in a process of its own.

use super::{Comparison, Configuration, Runs};
use crate::contestants::worker::Sample;
use crate::contestants::{Contestant, Prepared, agree};
use crate::measure;
use crate::programs::{Built, Program};
use crate::stats::{self, Ratio};
use crate::tables::{self, Report, Row, Table, Unit, Verdict};
use anyhow::Context;
use std::path::PathBuf;
use tempfile::TempDir;

/// A heap that takes part, with a folder for its compiled programs.
pub(crate) struct Entrant<'a> {
    pub(crate) configuration: &'a Configuration,
    contestant: Contestant,
    folder: PathBuf,
}

impl Entrant<'_> {
    /// Compiles a program, and checks that it does what it does on a JVM.
    ///
    /// # Errors
    /// If it does not compile, fails, or prints something else.
    pub(crate) fn prepare(&self, program: &Program, built: &Built) -> anyhow::Result<Prepared> {
        let prepared = self.contestant.prepare(&built.wasm, &self.folder)?;
        self.contestant.check(&prepared, built, &program.command_line([]))?;
        Ok(prepared)
    }

    /// Runs a prepared program; with `observe`, the sample has the collections.
    ///
    /// # Errors
    /// If it fails.
    pub(crate) fn run(&self, prepared: &Prepared, arguments: &[String], observe: bool) -> anyhow::Result<Sample> {
        self.contestant.run(prepared, arguments, observe, 1)
    }
}

/// An engine for every heap, or why there is none.
///
/// # Errors
/// If a folder cannot be made.
pub(crate) fn enter<'a>(
    comparison: &'a Comparison,
    folder: &TempDir,
) -> anyhow::Result<Vec<anyhow::Result<Entrant<'a>>>> {
    let entrant = |(index, configuration): (usize, &'a Configuration)| {
        let folder = folder.path().join(index.to_string());
        std::fs::create_dir(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let contestant = Contestant::legato(&configuration.heap);
        Ok(contestant.map(|contestant| Entrant { configuration, contestant, folder }))
    };
    comparison.all().enumerate().map(entrant).collect()
}

/// Adds the times of the programs, their memory, and what follows for each heap.
///
/// # Errors
/// If there is no place for files.
pub(crate) fn compare(
    comparison: &Comparison,
    programs: &[&Program],
    how: &Runs<'_>,
    report: &mut Report,
) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let mut summary = Table::new(
        &comparison.experiment,
        format!("over {}: all programs together", comparison.baseline.name),
        ["geometric mean", "slowest", "fastest"].map(|name| (name.to_string(), Unit::Ratio)).to_vec(),
    );
    let mut entrants = Vec::new();
    for (configuration, entrant) in comparison.all().zip(enter(comparison, &folder)?) {
        match entrant {
            Ok(entrant) => entrants.push(entrant),
            Err(error) => summary.rows.push(Row::failed(&configuration.name, &error)),
        }
    }
    let has_baseline = entrants.first().is_some_and(|first| first.configuration == &comparison.baseline);
    if has_baseline {
        let columns = |unit: Unit| {
            let ratios = entrants[1..].iter().map(|entrant| (entrant.configuration.name.clone(), Unit::Ratio));
            std::iter::once((comparison.baseline.name.clone(), unit)).chain(ratios).collect::<Vec<_>>()
        };
        let name = &comparison.baseline.name;
        let caption = format!("time of the program's entry under {name}; times under the others over it");
        let mut times = Table::new(&format!("{}: time", comparison.experiment), caption, columns(Unit::Seconds));
        let caption = format!("peak resident memory of the process under {name}; that under the others over it");
        let mut memory = Table::new(&format!("{}: memory", comparison.experiment), caption, columns(Unit::Megabytes));
        for program in programs {
            eprintln!("{}: {} ...", comparison.experiment, program.title());
            match measure(program, &entrants, how) {
                Ok(runs) => {
                    times.rows.push(row(program, &runs, |sample| Some(sample.runs.first()?.run.wall)));
                    // What has failed is told once.
                    let resident = row(program, &runs, |sample| sample.peak_resident.map(|bytes| bytes as f64));
                    memory.rows.push(Row { error: None, ..resident });
                }
                Err(error) => times.rows.push(Row::failed(program.title(), &error)),
            }
        }
        times.conclude();
        memory.conclude();
        for (at, entrant) in entrants.iter().enumerate().skip(1) {
            conclude(entrant.configuration, at, &times, &mut summary, &mut report.verdicts);
        }
        report.tables.extend([times, memory]);
    }
    report.tables.push(summary);
    Ok(())
}

/// Runs of one program under each heap, in turns, after one of each that does not count: the samples, or why there are
/// none.
///
/// # Errors
/// If there is no such program, or it fails under the baseline.
fn measure(
    program: &Program,
    entrants: &[Entrant<'_>],
    how: &Runs<'_>,
) -> anyhow::Result<Vec<Result<Vec<Sample>, String>>> {
    let built = program.read(how.examples, false)?;
    let arguments = how.command_line(program);
    let mut prepared = Vec::new();
    let mut runs = Vec::new();
    let failure = |entrant: &Entrant<'_>, error: &anyhow::Error| {
        format!("{}: {}", entrant.configuration.name, tables::reason(error))
    };
    for entrant in entrants {
        let ready = entrant.prepare(program, &built);
        runs.push(ready.as_ref().map(|_| Vec::new()).map_err(|error| failure(entrant, error)));
        prepared.push(ready.ok());
    }
    // The first round does not count: whoever comes first after the compilations finds a machine that is not at rest.
    for round in 0..=how.pairs {
        for index in measure::turn(round, entrants.len()) {
            let (Some(ready), Ok(samples)) = (&prepared[index], &mut runs[index]) else { continue };
            match entrants[index].run(ready, &arguments, false) {
                Ok(_) if round == 0 => {}
                Ok(sample) => samples.push(sample),
                Err(error) => runs[index] = Err(failure(&entrants[index], &error)),
            }
        }
    }
    let baseline = runs[0].clone().map_err(anyhow::Error::msg)?;
    for (entrant, runs) in entrants.iter().zip(&mut runs) {
        if let Ok(samples) = runs
            && let Err(error) = agree(baseline.iter().chain(samples.iter()))
        {
            *runs = Err(failure(entrant, &error));
        }
    }
    // A program that prints nothing has failed, whatever the heap.
    if let Err(reason) = &runs[0] {
        anyhow::bail!("{reason}");
    }
    Ok(runs)
}

/// One figure of the baseline's runs, and its ratios to it of the others'.
fn row(program: &Program, runs: &[Result<Vec<Sample>, String>], figure: fn(&Sample) -> Option<f64>) -> Row {
    let figures = |runs: &Result<Vec<Sample>, String>| -> Vec<f64> {
        let samples = runs.as_ref().map_or(&[][..], Vec::as_slice);
        samples.iter().map(figure).collect::<Option<_>>().unwrap_or_default()
    };
    let baseline = figures(&runs[0]);
    let ratios = runs[1..].iter().map(|runs| figures(runs).iter().zip(&baseline).map(|(a, b)| a / b).collect());
    let failures: Vec<&str> = runs.iter().filter_map(|runs| runs.as_ref().err()).map(String::as_str).collect();
    let mut row = Row::new(program.title(), std::iter::once(baseline.clone()).chain(ratios).collect());
    row.error = (!failures.is_empty()).then(|| failures.join("; "));
    row
}

/// Adds a heap's row to the summary, and judges it.
fn conclude(
    configuration: &Configuration,
    column: usize,
    times: &Table,
    summary: &mut Table,
    verdicts: &mut Vec<Verdict>,
) {
    let measured = times.rows.iter().filter(|row| row.runs.get(column).is_some_and(|runs| !runs.is_empty()));
    let mut ratios: Vec<Ratio> = measured.map(|row| row.cells[column]).collect();
    ratios.sort_by(|a, b| a.median.total_cmp(&b.median));
    let (Some(fastest), Some(slowest)) = (ratios.first(), ratios.last()) else {
        let error = anyhow::anyhow!("no program could be measured");
        summary.rows.push(Row::failed(&configuration.name, &error));
        return;
    };
    let mean = stats::geometric_mean(&times.column(column));
    let name = &configuration.name;
    let missing = times.rows.len() - ratios.len();
    let error = (missing > 0).then(|| format!("{missing} of {} programs", times.rows.len()));
    summary.rows.push(Row { cells: vec![mean, *slowest, *fastest], error, ..Row::new(name, Vec::new()) });
    for (what, value, bound) in [
        ("geometric mean", mean.median, configuration.mean),
        ("slowest program", slowest.median, configuration.slowest),
    ] {
        let verdict = |bound| Verdict { what: format!("{name}: {what} <= {bound}"), value, met: value <= bound };
        verdicts.extend(bound.map(verdict));
    }
}
