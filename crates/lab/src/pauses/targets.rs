//! What is demanded of Legato's gaps: constants, and the sentences that say whether they are kept.

use super::Program;
use super::gaps::{Gaps, Times};
use super::runs::Run;
use crate::stats;
use crate::tables::Verdict;
use std::time::Duration;

/// What is demanded of a heap while values are replaced. Times in seconds, by either clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Targets {
    /// The largest gap is shorter.
    largest: f64,
    /// 99.99 % of all gaps are shorter.
    p9999: f64,
    /// The program has at least this share of any [`WINDOW`].
    utilisation: Option<f64>,
}

const DEFAULT: Targets = Targets { largest: 3e-3, p9999: 1e-3, utilisation: None };
const REALTIME: Targets = Targets { largest: 1e-3, p9999: 0.5e-3, utilisation: Some(0.7) };
/// Every gap is shorter where nothing is replaced, in seconds.
const LARGEST_KEPT: f64 = 1e-3;
/// The windows of which the worst utilisation is told.
pub(super) const WINDOW: Duration = Duration::from_millis(10);
/// Peak resident memory over what lives, at most.
const MEMORY: f64 = 1.5;
/// Bytes that live for each entry: a reference in the table, the entry, its value, each in its cell.
pub(super) const ENTRY_BYTES: u64 = 4 + 24 + 128;

/// The gaps of a run by one clock, if there is such a clock.
type Clock = fn(&Gaps) -> Option<&Times>;

impl Targets {
    /// What is demanded of a heap of these options. Nothing of collectors that stop for a full collection: they are
    /// measured for comparison.
    pub(super) fn of(heap: &[String]) -> Option<Targets> {
        let value = |key: &str| {
            let mut values = heap.iter().filter_map(|option| option.trim().strip_prefix(key)?.strip_prefix('='));
            values.next_back().map(str::trim)
        };
        match (value("collector"), value("full")) {
            (Some("realtime"), _) => Some(REALTIME),
            (None | Some("generational"), None | Some("incremental")) => Some(DEFAULT),
            _ => None,
        }
    }

    /// The worst of all runs, beside each demand. What could not be measured is not met.
    pub(super) fn judge(self, name: &str, program: Program, runs: &[Run]) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        let title = program.title();
        let mut judge = |what: String, value: Option<f64>, met: fn(f64, f64) -> bool, bound: f64| {
            let value = value.unwrap_or(f64::NAN);
            verdicts.push(Verdict { what: format!("{name}: {title}: {what}"), value, met: met(value, bound) });
        };
        let clocks: [(&str, Clock); 2] = [("wall", |gaps| Some(&gaps.wall)), ("CPU", |gaps| gaps.cpu.as_ref())];
        for (clock, times) in clocks {
            let all = |value: fn(&Times) -> Option<f64>, worse: fn(f64, f64) -> f64| {
                let values = runs.iter().map(|run| times(&run.gaps).and_then(value));
                values.collect::<Option<Vec<f64>>>()?.into_iter().reduce(worse)
            };
            let below = |value: f64, bound: f64| value < bound;
            let (largest, p9999) = match program {
                Program::Cache => (self.largest, Some(self.p9999)),
                Program::Kept | Program::Still => (LARGEST_KEPT, None),
            };
            let milliseconds = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1e3);
            let value = all(|times| Some(times.largest.as_secs_f64()), f64::max);
            judge(format!("largest gap ({clock}) < {} ms", largest * 1e3), milliseconds(value), below, largest * 1e3);
            if let Some(p9999) = p9999 {
                let value = milliseconds(all(|times| Some(times.quantile(0.9999)), f64::max));
                judge(format!("99.99 % of gaps ({clock}) < {} ms", p9999 * 1e3), value, below, p9999 * 1e3);
            }
            if let (Program::Cache, Some(share)) = (program, self.utilisation) {
                let value = all(|times| times.utilisation(WINDOW), f64::min);
                let what = format!("utilisation in every {} ms ({clock}) >= {share}", WINDOW.as_millis());
                judge(what, value, |value, bound| value >= bound, share);
            }
        }
        verdicts
    }
}

/// Whether the program is at least as fast as in V8, by the medians of the runs.
pub(super) fn throughput(name: &str, program: Program, runs: &[Run], v8: &[Run]) -> Verdict {
    let rate = |runs: &[Run]| stats::median(&runs.iter().map(|run| run.gaps.rate()).collect::<Vec<_>>());
    let value = rate(runs) / rate(v8);
    Verdict { what: format!("{name}: {}: steps/s over V8's >= 1", program.title()), value, met: value >= 1.0 }
}

/// Whether peak resident memory, in any run, is within bounds.
pub(super) fn memory(name: &str, program: Program, runs: &[Run], entries: u32) -> Verdict {
    let live = u64::from(entries) * ENTRY_BYTES;
    let peaks = runs.iter().map(|run| run.peak_resident).collect::<Option<Vec<u64>>>();
    let peak = peaks.and_then(|peaks| peaks.into_iter().max());
    let value = peak.map_or(f64::NAN, |peak| peak as f64 / live as f64);
    let what = format!("{name}: {}: peak memory over {:.0} MB live <= {MEMORY}", program.title(), live as f64 / 1e6);
    Verdict { what, value, met: value <= MEMORY }
}

#[cfg(test)]
mod tests {
    use super::super::gaps::tests::output;
    use super::*;

    fn heap(text: &str) -> Vec<String> {
        text.split(',').filter(|option| !option.is_empty()).map(String::from).collect()
    }

    fn run(cpu: bool) -> Run {
        Run { gaps: Gaps::parse(&output(cpu)).unwrap(), peak_resident: Some(2 * ENTRY_BYTES * 1000) }
    }

    fn met(verdicts: &[Verdict]) -> Vec<bool> {
        verdicts.iter().map(|verdict| verdict.met).collect()
    }

    #[test]
    fn heaps_have_the_targets_of_their_collector() {
        assert_eq!(Targets::of(&[]), Some(DEFAULT));
        assert_eq!(Targets::of(&heap("collector=generational,full=incremental,nursery=1M")), Some(DEFAULT));
        assert_eq!(Targets::of(&heap("nursery=1M, collector=realtime")), Some(REALTIME));
        assert_eq!(Targets::of(&heap("full=stop")), None);
        assert_eq!(Targets::of(&heap("collector=realtime,collector=mark-sweep")), None);
    }

    #[test]
    fn gaps_are_judged_by_both_clocks() {
        // Gaps up to 2 ms: largest, 99.99 %, utilisation.
        assert_eq!(met(&DEFAULT.judge("", Program::Cache, &[run(true)])), [true, false, true, false]);
        assert_eq!(met(&REALTIME.judge("", Program::Cache, &[run(true)])), [false, false, true, false, false, true]);
        assert_eq!(met(&DEFAULT.judge("", Program::Kept, &[run(true)])), [false, false]);
        // One run without the clock: nothing is known.
        let unknown = DEFAULT.judge("x", Program::Cache, &[run(true), run(false)]);
        assert_eq!(met(&unknown), [true, false, false, false]);
        assert_eq!(unknown[0].what, "x: cache: largest gap (wall) < 3 ms");
        assert!((unknown[0].value - 2.0).abs() < 1e-9 && unknown[2].value.is_nan());
    }

    #[test]
    fn speed_and_memory_are_judged() {
        assert!(throughput("", Program::Cache, &[run(true)], &[run(false)]).met);
        let mut faster = run(true);
        faster.gaps.steps += 1;
        assert!(!throughput("", Program::Cache, &[run(true)], &[faster]).met);
        assert!(!memory("", Program::Cache, &[run(true)], 1000).met);
        assert!(memory("", Program::Cache, &[run(true)], 1334).met);
        let unknown = Run { peak_resident: None, ..run(true) };
        assert!(!memory("", Program::Cache, &[run(true), unknown], 1_000_000).met);
    }
}
