//! How much of the live heap each layout saves (Z-Rays, section 7.2.1 and table 4, right).
//!
//! The paper looks at the heap after every mebibyte of allocation. Here it is a heap that is collected whole as soon as
//! it has grown by a twentieth, or to a mebibyte, with a look after each collection; a look counts by what was
//! allocated before it.

use super::Options;
use crate::contestants::worker::Pause;
use crate::engines::legato_config;
use crate::heaps::{Comparison, Configuration, Entrant, enter};
use crate::programs::{Program, SPARSE};
use crate::stats;
use crate::tables::{self, Report, Row, Table, Unit, Verdict};
use anyhow::{Context, ensure};

/// A heap that is collected often, each time as a whole.
const OFTEN: [&str; 4] = ["collector=mark-sweep", "sizing=gc-ratio", "growth=1.05", "min=1M"];
/// What the paper saved in the mean.
const MEAN_BOUND: f64 = 0.06;
/// The program that is like the paper's `compress`, and what that saved.
const BEST: (&str, f64) = ("java/lzw", 0.49);

/// Adds the mean live heap of each program, and the part of it that each layout saves.
///
/// # Errors
/// If there is no place for files.
pub(super) fn compare(
    comparison: &Comparison,
    programs: &[&Program],
    options: &Options,
    report: &mut Report,
) -> anyhow::Result<()> {
    let often = Comparison {
        experiment: "footprint".into(),
        baseline: collected_often(&comparison.baseline)?,
        others: comparison.others.iter().map(collected_often).collect::<anyhow::Result<_>>()?,
    };
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let entrants = enter(&often, &folder)?;
    let shares = often.others.iter().map(|configuration| (configuration.name.clone(), Unit::Share));
    let columns = std::iter::once((often.baseline.name.clone(), Unit::Megabytes)).chain(shares).collect();
    let caption =
        format!("live heap under {}, in the mean over the run; part of it saved by the others", often.baseline.name);
    let mut table = Table::new("footprint", caption, columns);
    for program in programs {
        eprintln!("footprint: {} ...", program.title());
        table.rows.push(match row(program, &entrants, options) {
            Ok(row) => row,
            Err(error) => Row::failed(program.title(), &error),
        });
    }
    table.conclude();
    for (at, configuration) in often.others.iter().enumerate().filter(|(_, configuration)| configuration.saves) {
        let saved: Vec<(&str, f64)> =
            table.rows.iter().filter_map(|row| Some((row.subject.as_str(), *row.runs.get(at + 1)?.first()?))).collect();
        let mut judge = |what: &str, values: Vec<f64>, bound: f64| {
            if !values.is_empty() {
                let value = values.iter().sum::<f64>() / values.len() as f64;
                let what = format!("{}: part of the live heap saved, {what} >= {bound}", configuration.name);
                report.verdicts.push(Verdict { what, value, met: value >= bound });
            }
        };
        let of = |wanted: &dyn Fn(&str) -> bool| {
            saved.iter().filter(|(subject, _)| wanted(subject)).map(|(_, saved)| *saved).collect::<Vec<f64>>()
        };
        judge("sparse programs", of(&|subject| SPARSE.contains(&subject)), MEAN_BOUND);
        judge(BEST.0, of(&|subject| subject == BEST.0), BEST.1);
    }
    report.tables.push(table);
    Ok(())
}

/// The same heap collected often, without the parameters of what that replaces, such as a nursery's size.
///
/// # Errors
/// If an option is unknown.
fn collected_often(configuration: &Configuration) -> anyhow::Result<Configuration> {
    let mut often = configuration.with(&OFTEN);
    let settings = legato_config(&often.heap)?.heap_config().settings();
    let has = |option: &String| {
        settings.iter().any(|(key, _)| option.split_once('=').is_some_and(|(given, _)| given.trim() == *key))
    };
    often.heap.retain(has);
    Ok(often)
}

/// The baseline's mean live heap in bytes, and the part that each other heap saves.
fn row(program: &Program, entrants: &[anyhow::Result<Entrant<'_>>], options: &Options) -> anyhow::Result<Row> {
    let built = program.read(&options.turns.examples, false)?;
    let arguments = options.runs().command_line(program);
    let live = |entrant: &anyhow::Result<Entrant<'_>>| -> anyhow::Result<f64> {
        let entrant = entrant.as_ref().map_err(|error| anyhow::anyhow!("{}", tables::reason(error)))?;
        let prepared = entrant.prepare(program, &built)?;
        mean_live(&entrant.run(&prepared, &arguments, true)?.pauses)
    };
    let baseline = live(&entrants[0])?;
    let mut runs = vec![vec![baseline]];
    let mut failures = Vec::new();
    for entrant in &entrants[1..] {
        match live(entrant) {
            Ok(bytes) => runs.push(vec![1.0 - bytes / baseline]),
            Err(error) => {
                runs.push(Vec::new());
                failures.push(tables::reason(&error));
            }
        }
    }
    failures.dedup();
    Ok(Row { error: (!failures.is_empty()).then(|| failures.join("; ")), ..Row::new(program.title(), runs) })
}

/// What lives in the mean over all that was allocated, in bytes.
///
/// # Errors
/// If there was no collection to tell.
fn mean_live(collections: &[Pause]) -> anyhow::Result<f64> {
    let full = collections.iter().filter(|collection| collection.kind == "full");
    let looks: Vec<(f64, f64)> = full.filter_map(|full| Some((full.live? as f64, full.allocated? as f64))).collect();
    ensure!(!looks.is_empty(), "the program allocates too little: the heap was not collected");
    let allocated: f64 = looks.iter().map(|(_, allocated)| allocated).sum();
    if allocated == 0.0 {
        return Ok(stats::median(&looks.iter().map(|(live, _)| *live).collect::<Vec<_>>()));
    }
    Ok(looks.iter().map(|(live, allocated)| live * allocated).sum::<f64>() / allocated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_counts_by_what_was_allocated_before() {
        let collection = |kind: &str, live, allocated| Pause {
            kind: kind.into(),
            at: 0.0,
            seconds: 0.0,
            allocated: Some(allocated),
            live: Some(live),
        };
        let mean = mean_live(&[collection("full", 100, 3), collection("nursery", 9, 9), collection("full", 200, 1)]);
        assert_eq!(mean.unwrap(), 125.0);
        assert!(mean_live(&[collection("nursery", 9, 9)]).is_err());
    }
}
