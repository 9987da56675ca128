//! Programs in a group of a share of the memory that they take by themselves, under each rule.

use super::group::Limit;
use super::paper;
use super::peers::{self, Peer};
use super::runs::Outcome;
use super::subject::{BASE, BOTH, Bench, FIXED, PAPER, RULES, Rule, Subject};
use crate::contestants::agree;
use crate::contestants::worker::Sample;
use crate::measure;
use crate::programs::Program;
use crate::stats;
use crate::tables::{Report, Row, Table, Unit, Verdict, reason};
use std::process::Command;

/// Isla Vista under pressure, over the baseline without it (the paper's is 2).
const MOST_PRESSED: f64 = 1.3;
/// How many times as long others take that swap.
const LEAST_GAIN: f64 = 3.0;
/// Isla Vista over the baseline, both without pressure.
const MOST_FREE: f64 = 1.02;
/// From so many major faults on a run counts as one that swaps.
const SWAPS: f64 = 1000.0;

/// The runs of one program, each list in the order of the rounds: without pressure and with, for each rule.
struct Squeezed {
    free: Vec<Vec<Outcome>>,
    pressed: Vec<Vec<Outcome>>,
}

/// Adds what the rules make of pressure to the report.
pub(super) fn measure(bench: &Bench<'_>, report: &mut Report) {
    let names = names(bench);
    let over_base = || names.iter().map(|name| (name.to_string(), Unit::Ratio));
    let share = bench.options.share;
    let alone = [("takes", Unit::Megabytes), ("lives", Unit::Megabytes), ("gc-ratio, free", Unit::Seconds)];
    let columns = alone.map(|(name, unit)| (name.to_string(), unit)).into_iter().chain(over_base()).collect();
    let caption = format!(
        "times in a group of {share} of the maximum of heaps, over gc-ratio's without pressure; that maximum is {} times \
         what the program takes by itself under gc-ratio",
        bench.options.maximum
    );
    let mut pressed = Table::new("with pressure", caption, columns);
    let caption = "times over gc-ratio's, both without pressure";
    let mut free = Table::new("without pressure", caption, over_base().skip(1).collect());
    let caption = "what each rule trades for what, with pressure; the paper's table 2";
    let mut trade = Table::new("collections and page faults", caption, paper::trade_columns());
    let mut faults: Vec<Vec<f64>> = Vec::new();
    for program in bench.options.programs() {
        eprintln!("pressure: {} ...", program.title());
        let subject = match bench.subject(program) {
            Ok(subject) => subject,
            Err(error) => {
                pressed.rows.push(Row::failed(program.title(), &error));
                continue;
            }
        };
        if let Some(why) = bench.refusal(&subject) {
            report.notes.push(why);
            continue;
        }
        let peers = match peers_of(bench, program, &subject, report) {
            Ok(peers) => peers,
            Err(error) => {
                pressed.rows.push(Row::failed(program.title(), &error));
                continue;
            }
        };
        match squeeze(bench, &subject, &peers).and_then(|runs| rows(&names, &subject, &runs)) {
            Ok(rows) => {
                pressed.rows.push(rows.pressed);
                free.rows.push(rows.free);
                trade.rows.extend(rows.trade);
                faults.push(rows.faults);
                report.notes.extend(rows.notes);
            }
            Err(error) => pressed.rows.push(Row::failed(program.title(), &error)),
        }
    }
    judge(&pressed, &free, &faults, report);
    pressed.conclude();
    free.conclude();
    report.tables.extend([pressed, free, trade, paper::table_2()]);
}

/// Whatever runs a program, by its column: the rules, then other engines.
fn names(bench: &Bench<'_>) -> Vec<&'static str> {
    RULES.iter().map(|rule| rule.name).chain(peers::names(bench.options).iter().copied()).collect()
}

/// The other engines, in the order of their columns; `None` of one that does not run the program, with a note.
fn peers_of(
    bench: &Bench<'_>,
    program: &Program,
    subject: &Subject,
    report: &mut Report,
) -> anyhow::Result<Vec<Option<Peer>>> {
    let maximum = bench.maximum(subject, bench.options.maximum);
    let built = program.read(&bench.options.examples, false)?;
    let all = peers::all(bench.options, program, &built, maximum, &bench.files(&subject.title)?);
    let named = peers::names(bench.options).iter().zip(all);
    let known = named.map(|(name, peer)| {
        peer.map_err(|error| report.notes.push(format!("{}, {name}: {}", subject.title, reason(&error)))).ok()
    });
    Ok(known.collect())
}

/// Runs of one program under each rule and in each engine, with and without pressure, in turns. An engine that does not
/// run it has none.
fn squeeze(bench: &Bench<'_>, subject: &Subject, peers: &[Option<Peer>]) -> anyhow::Result<Squeezed> {
    let maximum = bench.maximum(subject, bench.options.maximum);
    let rules = RULES.iter().map(|rule| bench.command(subject, *rule, Some(maximum)).map(Some));
    let others =
        peers.iter().map(|peer| peer.as_ref().map(|peer| peer.command(maximum, &subject.arguments)).transpose());
    let commands = rules.chain(others).collect::<anyhow::Result<Vec<Option<Command>>>>()?;
    let mut all: Vec<Vec<Outcome>> = commands.iter().chain(&commands).map(|_| Vec::new()).collect();
    for round in 0..bench.options.runs {
        for at in measure::turn(round, all.len()) {
            let limit = if at < commands.len() { Limit::None } else { bench.squeezed(subject) };
            let Some(command) = &commands[at % commands.len()] else { continue };
            all[at].push(bench.observe(command, limit)?);
        }
    }
    let pressed = all.split_off(commands.len());
    let runs = Squeezed { free: all, pressed };
    agree(runs.free.iter().chain(&runs.pressed).flatten().filter_map(Outcome::sample))?;
    Ok(runs)
}

/// What is said of one program.
struct Rows {
    pressed: Row,
    free: Row,
    trade: Vec<Row>,
    /// Median major faults with pressure, for each rule.
    faults: Vec<f64>,
    notes: Vec<String>,
}

fn rows(names: &[&str], subject: &Subject, runs: &Squeezed) -> anyhow::Result<Rows> {
    let title = &subject.title;
    let base = seconds(&runs.free[0])?;
    let mut failures = Vec::new();
    let mut over_base = |how: &str, runs: &[Vec<Outcome>]| {
        let ratios = names.iter().zip(runs).map(|(name, runs)| match seconds(runs) {
            Ok(times) => times.iter().zip(&base).map(|(time, base)| time / base).collect(),
            Err(error) => {
                failures.push(format!("{name}, {how}: {error:#}"));
                Vec::new()
            }
        });
        ratios.collect::<Vec<Vec<f64>>>()
    };
    let free = over_base("free", &runs.free).split_off(1);
    let pressed = over_base("pressed", &runs.pressed);
    let alone = [vec![subject.own as f64], vec![subject.live as f64], base.clone()];
    let mut pressed = Row::new(title, alone.into_iter().chain(pressed).collect());
    pressed.error = (!failures.is_empty()).then(|| failures.join("; "));
    let ran = || names.iter().copied().zip(&runs.pressed).filter(|(_, runs)| !runs.is_empty());
    let trade = ran().map(|(name, runs)| trade(title, name, runs)).collect();
    let faults = runs.pressed.iter().map(|runs| stats::median(&faults(runs))).collect();
    let late = |(name, runs): (&str, &Vec<Outcome>)| {
        let late = runs.iter().filter(|run| run.is_late()).count();
        (late > 0).then(|| format!("{title}, {name}: {late} of {} runs were ended by --patience", runs.len()))
    };
    let notes = ran().filter_map(late).collect();
    Ok(Rows { pressed, free: Row::new(title, free), trade, faults, notes })
}

fn seconds(runs: &[Outcome]) -> anyhow::Result<Vec<f64>> {
    runs.iter().map(Outcome::seconds).collect()
}

fn faults(runs: &[Outcome]) -> Vec<f64> {
    runs.iter().map(|run| run.major_faults as f64).collect()
}

/// A row of table 2 for a rule or an engine. Runs that were ended tell of no collection.
fn trade(title: &str, name: &str, runs: &[Outcome]) -> Row {
    let samples: Vec<&Sample> = runs.iter().filter_map(Outcome::sample).collect();
    let of = |nursery: bool| {
        let pauses = |sample: &&Sample| {
            let pauses =
                sample.pauses.iter().filter(|pause| ["nursery", "minor"].contains(&pause.kind.as_str()) == nursery);
            pauses.fold((0.0, 0.0), |(count, time), pause| (count + 1.0, time + pause.seconds))
        };
        let (counts, times): (Vec<f64>, Vec<f64>) = samples.iter().map(pauses).unzip();
        [counts, times]
    };
    let figures = of(true).into_iter().chain(of(false)).chain([faults(runs)]).collect();
    Row::new(format!("{title}, {name}"), figures)
}

/// Where a rule stands among the others.
fn at(rule: Rule) -> usize {
    RULES.iter().position(|&other| other == rule).unwrap_or(0)
}

/// What is demanded of Isla Vista: of all programs together, but for the gain over others, which is of each program
/// where they swap.
fn judge(pressed: &Table, free: &Table, faults: &[Vec<f64>], report: &mut Report) {
    const FIRST: usize = 3;
    let mut verdict = |what: String, value: f64, met: bool| report.verdicts.push(Verdict { what, value, met });
    for rule in [PAPER, BOTH] {
        let own = FIRST + at(rule);
        let medians = |ratios: Vec<Vec<f64>>| ratios.iter().map(|ratios| stats::median(ratios)).collect::<Vec<f64>>();
        let worst = medians(pressed.column(own)).into_iter().fold(f64::NAN, f64::max);
        verdict(
            format!("{}: slowest program with pressure, over gc-ratio without <= {MOST_PRESSED} [paper: 2]", rule.name),
            worst,
            worst <= MOST_PRESSED,
        );
        for other in [FIXED, BASE] {
            let measured = pressed.rows.iter().filter(|row| !row.cells.is_empty());
            let swapping = measured.zip(faults).filter(|(_, faults)| faults[at(other)] >= SWAPS);
            let gains = swapping.filter_map(|(row, _)| {
                let [theirs, ours] = [FIRST + at(other), own].map(|column| row.cells.get(column));
                Some(theirs?.median / ours?.median)
            });
            let gains: Vec<f64> = gains.filter(|gain| gain.is_finite()).collect();
            if gains.is_empty() {
                continue;
            }
            let least = gains.iter().copied().fold(f64::NAN, f64::min);
            let (programs, other) = (gains.len(), other.name);
            let what = format!("{}: least gain over {other} in {programs} programs where it swaps", rule.name);
            verdict(format!("{what} >= {LEAST_GAIN}"), least, least >= LEAST_GAIN);
        }
        let mean = stats::geometric_mean(&free.column(at(rule) - 1)).median;
        let what = format!("{}: geometric mean without pressure, over gc-ratio <= {MOST_FREE}", rule.name);
        verdict(what, mean, mean <= MOST_FREE);
    }
}
