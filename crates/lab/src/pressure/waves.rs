//! Pressure that comes and goes: while a program runs, another process of its group takes memory, and gives it back.
//!
//! The program (`examples/wat/cache.wat`) does the same step all the time and allocates as much in each, so its
//! collections tell its throughput (see `progress`).

use super::ballast::{self, Ballast};
use super::group::Limit;
use super::progress::{Back, Progress, Wave};
use super::runs::{Outcome, Running};
use super::subject::{BOTH, Bench, PAPER, RULES, Rule, Subject};
use crate::measure::{self, monotonic};
use crate::pauses;
use crate::stats;
use crate::tables::{Report, Row, Table, Unit, Verdict};
use anyhow::Context;
use std::time::Duration;

/// How often memory is taken in a run.
const WAVES: usize = 3;
/// Entries of the program's cache, of 156 bytes.
const ENTRIES: &str = "500000";
/// The same where it only is to be seen that everything works.
const FEW_ENTRIES: &str = "20000";
/// The group's memory over the maximum of the heap: all the process fits in, with room for others.
const GROUP: f64 = 1.5;
/// The part of the throughput that is to come back, and the collections that it may take.
const PART: f64 = 0.9;
const MOST: f64 = 20.0;
/// Throughput is looked at in parts of a wave.
const WINDOWS: f64 = 5.0;
/// How long the program runs before the first wave, over the length of a wave: heaps that begin small have grown then.
const FIRST: f64 = 3.0;
/// How long it runs in all: with a wave's length between waves and after them, and a little more.
const LENGTH: f64 = FIRST + 2.0 * WAVES as f64 + 1.0;

/// What a rule's runs have shown; a wave each, but for the throughput before.
#[derive(Default)]
struct Shown {
    before: Vec<f64>,
    pressed: Vec<f64>,
    after: Vec<f64>,
    back: Vec<Back>,
    faults: Vec<f64>,
    /// Runs in which the kernel killed somebody, also when they were repeated.
    killed: f64,
}

/// Adds what the rules make of waves of pressure.
pub(super) fn measure(bench: &Bench<'_>, report: &mut Report) -> anyhow::Result<()> {
    let columns = [
        ("before, MB/s", Unit::Count),
        ("with pressure, over before", Unit::Ratio),
        ("after, over before", Unit::Ratio),
        ("waves", Unit::Count),
        ("full collections until back", Unit::Count),
        ("collections until back", Unit::Count),
        ("time until back", Unit::Seconds),
        ("waves not back", Unit::Count),
        ("major faults", Unit::Count),
        ("runs killed", Unit::Count),
    ];
    let built = pauses::program(&bench.options.examples)?;
    let entries = if bench.options.smallest { FEW_ENTRIES } else { ENTRIES };
    let line = |seconds: f64| ["cache", entries, "0", "0", &format!("{}", seconds.ceil())].map(String::from).to_vec();
    // By itself it takes in a few seconds what it ever takes.
    let mut subject = bench.subject_of("cache", &built, "cache", line(bench.options.wave.min(5.0)))?;
    let maximum = bench.maximum(&subject, bench.options.maximum);
    let group = (maximum as f64 * GROUP) as u64;
    let ballast = group.saturating_sub(bench.left(&subject));
    subject.arguments = line(bench.options.wave * LENGTH + WAVES as f64 * ballast::seconds(ballast));
    let caption = format!(
        "a cache in which {} MB live, heaps of at most {} MB in a group of {}, {WAVES} times for {} s another process \
         locks {} MB of it; throughput is what the program allocates, and back at {PART} of that before, over the next \
         {} s",
        subject.live / 1_000_000,
        maximum / 1_000_000,
        group / 1_000_000,
        bench.options.wave,
        ballast / 1_000_000,
        bench.options.wave / WINDOWS
    );
    let columns = columns.into_iter().map(|(name, unit)| (name.to_string(), unit)).collect();
    let mut table = Table::new("waves of pressure", caption, columns);
    let mut shown: Vec<anyhow::Result<Shown>> = RULES.iter().map(|_| Ok(Shown::default())).collect();
    for round in 0..bench.options.runs {
        for at in measure::turn(round, RULES.len()) {
            let Ok(so_far) = &mut shown[at] else { continue };
            eprintln!("pressure: waves, run {} of {} ...", round + 1, RULES[at].name);
            let run = || run(bench, &subject, RULES[at], group, ballast);
            let done = bench.retries.run(|(_, kills)| *kills, run).and_then(|(run, kills)| {
                if kills > 0 {
                    so_far.killed += 1.0;
                    return Ok(());
                }
                let (run, waves) = run?;
                so_far.add(&run, &waves, bench.options.wave)
            });
            if let Err(error) = done {
                shown[at] = Err(error);
            }
        }
    }
    for (rule, shown) in RULES.iter().zip(shown) {
        table.rows.push(match shown {
            Ok(shown) => {
                if [PAPER, BOTH].contains(rule) {
                    report.verdicts.push(verdict(*rule, &shown));
                }
                shown.row(rule.name)
            }
            Err(error) => Row::failed(rule.name, &error),
        });
    }
    report.tables.push(table);
    Ok(())
}

/// When memory was taken and given back, by the monotonic clock.
type Times = Vec<[f64; 2]>;

/// A run, or why there is none, and how many processes the kernel has killed in it.
fn run(
    bench: &Bench<'_>,
    subject: &Subject,
    rule: Rule,
    limit: u64,
    ballast: u64,
) -> anyhow::Result<(anyhow::Result<(Outcome, Times)>, u64)> {
    let maximum = bench.maximum(subject, bench.options.maximum);
    let command = bench.command(subject, rule, Some(maximum))?;
    let group = bench.groups.make(Limit::Memory(limit))?;
    let pause = |length: f64| std::thread::sleep(Duration::from_secs_f64(length * bench.options.wave));
    let patience = bench.options.patience();
    let run = || {
        let running = Running::start(&command, &group)?;
        let mut times = Vec::new();
        pause(FIRST);
        for _ in 0..WAVES {
            let begin = monotonic();
            let held = Ballast::take(ballast, !bench.options.smallest, &group, patience)?;
            pause(1.0);
            times.push([begin, held.give_back()?]);
            pause(1.0);
        }
        Ok((running.finish(patience + Duration::from_secs_f64(LENGTH * bench.options.wave))?, times))
    };
    let run = run();
    Ok((run, group.kills()))
}

impl Shown {
    /// Adds a run in waves of this length.
    fn add(&mut self, run: &Outcome, times: &Times, length: f64) -> anyhow::Result<()> {
        run.seconds()?;
        let sample = run.sample().context("the run took too long: see --patience")?;
        let entered = sample.entered.context("the process does not tell when the program began")?;
        let progress = Progress::of(&sample.pauses);
        let window = length / WINDOWS;
        let first = times.first().context("there were no waves")?[0] - entered;
        // The wave's length just before: what comes earlier may be the filling of the cache.
        let windows = (1..=WINDOWS as usize).map(|at| first - window * at as f64);
        let rates: Vec<f64> = windows.filter_map(|from| progress.rate(from.max(0.0), from + window)).collect();
        let before = stats::median(&rates);
        anyhow::ensure!(before > 0.0, "the program did nothing before the first wave");
        self.before.push(before / 1e6);
        self.faults.push(run.major_faults as f64);
        for (at, &[begin, end]) in times.iter().enumerate() {
            let until = times.get(at + 1).map_or(end + length, |next| next[0]);
            let wave = Wave { begin: begin - entered, end: end - entered, until: until - entered };
            // The last ones may be later than the program's end, where memory was slow to get.
            let Some(back) = progress.back(&wave, window, before * PART) else { break };
            self.back.push(back);
            self.pressed.extend(progress.rate(wave.begin, wave.end).map(|rate| rate / before));
            self.after.extend(progress.rate(wave.end, wave.until).map(|rate| rate / before));
        }
        anyhow::ensure!(!self.back.is_empty(), "the program ended within the first wave");
        Ok(())
    }

    fn row(self, name: &str) -> Row {
        let of = |figure: fn(&Back) -> f64| self.back.iter().map(figure).collect::<Vec<f64>>();
        let full = of(|back| back.full as f64);
        let (all, seconds) = (of(|back| back.collections as f64), of(|back| back.seconds));
        let late = vec![self.back.iter().filter(|back| back.is_late).count() as f64];
        let waves = vec![self.back.len() as f64];
        Row::new(
            name,
            vec![
                self.before,
                self.pressed,
                self.after,
                waves,
                full,
                all,
                seconds,
                late,
                self.faults,
                vec![self.killed],
            ],
        )
    }
}

/// Collections that walk the heap count: its limit hardly moves at those of the nursery, of which there are hundreds in
/// a second.
fn verdict(rule: Rule, shown: &Shown) -> Verdict {
    let full: Vec<f64> =
        shown.back.iter().map(|back| if back.is_late { f64::INFINITY } else { back.full as f64 }).collect();
    let value = stats::median(&full);
    let what = format!("{}: full collections until {PART} of the throughput is back, median <= {MOST}", rule.name);
    Verdict { what, value, met: value <= MOST }
}
