//! Several processes of the same program in one group: heaps that find out how much there is for each, against the best
//! split of the memory that is made beforehand.

use super::group::Limit;
use super::runs::{Outcome, Running};
use super::subject::{BOTH, Bench, FIXED, PAPER, Rule, Subject};
use crate::contestants::agree;
use crate::measure;
use crate::stats;
use crate::tables::{Report, Row, Table, Unit, Verdict};

/// Maxima of heaps that are split beforehand, over the part of the group that each process has. A process has more than
/// its heap.
const SPLITS: [f64; 3] = [0.7, 0.8, 0.9];
/// The rules that are judged.
const JUDGED: [Rule; 2] = [PAPER, BOTH];
/// Their throughput over that of the best split.
const LEAST: f64 = 0.9;

/// One trial: all processes under one rule.
struct Trial {
    /// Runs in a minute, of all processes together.
    throughput: anyhow::Result<f64>,
    kills: u64,
}

/// Adds how each program runs beside itself, so many times.
pub(super) fn measure(bench: &Bench<'_>, report: &mut Report) {
    let columns = [
        ("group", Unit::Megabytes),
        ("best split", Unit::Ratio),
        ("its runs/min", Unit::Count),
        (PAPER.name, Unit::Ratio),
        (BOTH.name, Unit::Ratio),
        ("killed by the kernel", Unit::Count),
    ];
    let caption = format!(
        "throughput of all processes, over that of the best static split: fixed, at {SPLITS:?} of each one's part \
         of the group. The group has {} of the maximum that heaps have else, for each process",
        bench.options.share
    );
    let columns = columns.into_iter().map(|(name, unit)| (name.to_string(), unit)).collect();
    let mut table = Table::new("processes in one group", caption, columns);
    for program in bench.options.programs() {
        let subject = bench.subject(program);
        if let Some(why) = subject.as_ref().ok().and_then(|subject| bench.refusal(subject)) {
            report.notes.push(why);
            continue;
        }
        for &count in &bench.options.processes {
            let title = format!("{}, {count} processes", program.title());
            eprintln!("pressure: {title} ...");
            let rows = match &subject {
                Ok(subject) => row(bench, subject, &title, count),
                Err(error) => Ok(Row::failed(&title, error)),
            };
            table.rows.push(rows.unwrap_or_else(|error| Row::failed(&title, &error)));
        }
    }
    for (at, rule) in JUDGED.iter().enumerate() {
        let medians = table.column(3 + at).into_iter().map(|ratios| stats::median(&ratios));
        let value = medians.fold(f64::NAN, f64::min);
        let what = format!("{}: least throughput over the best static split >= {LEAST}", rule.name);
        report.verdicts.push(Verdict { what, value, met: value >= LEAST });
    }
    report.tables.push(table);
}

/// Runs of so many processes under each split and rule, in turns.
fn row(bench: &Bench<'_>, subject: &Subject, title: &str, count: usize) -> anyhow::Result<Row> {
    let group = bench.left(subject) * count as u64;
    let part = group / count as u64;
    let splits = SPLITS.map(|split| (FIXED, (part as f64 * split) as u64));
    let judged = JUDGED.map(|rule| (rule, bench.maximum(subject, bench.options.maximum)));
    let all: Vec<(Rule, u64)> = splits.into_iter().chain(judged).collect();
    let mut trials: Vec<Vec<Trial>> = all.iter().map(|_| Vec::new()).collect();
    for round in 0..bench.options.runs {
        for at in measure::turn(round, all.len()) {
            let (rule, maximum) = all[at];
            let trial = || trial(bench, subject, rule, maximum, count, group);
            trials[at].push(bench.retries.run(|trial| trial.kills, trial)?);
        }
    }
    let kills: u64 = trials.iter().flatten().map(|trial| trial.kills).sum();
    let judged = trials.split_off(SPLITS.len());
    let (split, best) = best(trials)?;
    let mut figures = vec![vec![group as f64], vec![split], best.clone()];
    let mut failures = Vec::new();
    for (rule, trials) in JUDGED.iter().zip(judged) {
        figures.push(match throughputs(trials) {
            Ok(own) => own.iter().zip(&best).map(|(own, best)| own / best).collect(),
            Err(error) => {
                failures.push(format!("{}: {error:#}", rule.name));
                Vec::new()
            }
        });
    }
    figures.push(vec![kills as f64]);
    let error = (!failures.is_empty()).then(|| failures.join("; "));
    Ok(Row { error, ..Row::new(title, figures) })
}

fn throughputs(trials: Vec<Trial>) -> anyhow::Result<Vec<f64>> {
    trials.into_iter().map(|trial| trial.throughput).collect()
}

/// The split with the most throughput, and that in each round. One in which the program has too little memory has none.
fn best(trials: Vec<Vec<Trial>>) -> anyhow::Result<(f64, Vec<f64>)> {
    let mut best: anyhow::Result<(f64, Vec<f64>)> = Err(anyhow::anyhow!("there are no runs"));
    for (split, trials) in SPLITS.into_iter().zip(trials) {
        let other = throughputs(trials);
        best = match (best, other) {
            (Ok(best), Ok(other)) if stats::median(&other) <= stats::median(&best.1) => Ok(best),
            (_, Ok(other)) => Ok((split, other)),
            (Ok(best), Err(_)) => Ok(best),
            (Err(_), Err(error)) => Err(error.context("no static split runs")),
        };
    }
    best
}

/// All processes begin at once; each one's throughput is the inverse of its time.
fn trial(
    bench: &Bench<'_>,
    subject: &Subject,
    rule: Rule,
    maximum: u64,
    count: usize,
    group: u64,
) -> anyhow::Result<Trial> {
    let command = bench.command(subject, rule, Some(maximum))?;
    let group = bench.groups.make(Limit::Memory(group))?;
    let running: anyhow::Result<Vec<Running<'_>>> = (0..count).map(|_| Running::start(&command, &group)).collect();
    let patience = bench.options.patience();
    let outcomes = running?.into_iter().map(|running| running.finish(patience));
    let outcomes = outcomes.collect::<anyhow::Result<Vec<Outcome>>>()?;
    agree(outcomes.iter().filter_map(Outcome::sample)).or_else(|error| {
        // Nothing is said where none came to its end.
        if outcomes.iter().all(|run| run.sample().is_none()) { Ok(()) } else { Err(error) }
    })?;
    let throughput = outcomes.iter().map(|run| run.seconds().map(|seconds| 60.0 / seconds)).sum();
    Ok(Trial { throughput, kills: group.kills() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trials(throughputs: &[Option<f64>]) -> Vec<Trial> {
        let throughput = |value: &Option<f64>| value.ok_or_else(|| anyhow::anyhow!("too little memory"));
        throughputs.iter().map(|value| Trial { throughput: throughput(value), kills: 0 }).collect()
    }

    #[test]
    fn the_best_split_is_one_that_always_runs() {
        let all = [trials(&[Some(1.0), Some(3.0)]), trials(&[Some(4.0), Some(2.0)]), trials(&[Some(9.0), None])];
        assert_eq!(best(all.into()).unwrap(), (SPLITS[1], vec![4.0, 2.0]));
        let late = [trials(&[None]), trials(&[None]), trials(&[Some(1.0)])];
        assert_eq!(best(late.into()).unwrap(), (SPLITS[2], vec![1.0]));
        let error = best([[None], [None], [None]].map(|one| trials(&one)).into()).unwrap_err();
        assert!(format!("{error:#}").contains("too little memory"));
    }
}
