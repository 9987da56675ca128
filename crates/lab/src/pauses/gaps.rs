//! What the program says of its own gaps: the times between the ends of its steps.

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use legato_report::UtilisationCurve;
use std::time::Duration;

/// Longer gaps count as this long in the percentiles; the largest is exact all the same. In nanoseconds.
const LONGEST: u64 = 3600 * 1_000_000_000;
/// Percentiles are off by one part in a thousand at most, beside the width of the program's buckets.
const DIGITS: u8 = 3;

/// One run of the program.
#[derive(Clone, Debug)]
pub struct Gaps {
    /// Steps.
    pub steps: u64,
    /// The sum of what the program has read: equal wherever the same program has done as many steps.
    pub sum: u64,
    /// Gaps by the monotonic clock.
    pub wall: Times,
    /// Gaps in processor time of the program's thread; `None` where the engine does not tell it.
    pub cpu: Option<Times>,
}

/// The gaps of one run by one clock.
#[derive(Clone, Debug)]
pub struct Times {
    /// All gaps together.
    pub total: Duration,
    /// The largest gap.
    pub largest: Duration,
    counts: Histogram<u64>,
    /// Long gaps, less the time that a step takes; `None` if the program had no room for all of them.
    pauses: Option<UtilisationCurve>,
}

impl Gaps {
    /// Reads what the program prints. The first lines of `examples/wat/cache.wat` say what that is.
    ///
    /// # Errors
    /// If it is something else.
    pub fn parse(output: &str) -> anyhow::Result<Gaps> {
        let [mut steps, mut sum, mut lost] = [None; 3];
        let [mut time, mut largest] = [None; 2];
        let (mut buckets, mut gaps) = (Vec::new(), Vec::new());
        for line in output.lines() {
            let parse = || -> anyhow::Result<(&str, Vec<u64>)> {
                let (name, numbers) = line.split_once(' ').context("no numbers")?;
                let numbers = numbers.split(' ').map(str::parse).collect::<Result<_, _>>()?;
                Ok((name, numbers))
            };
            let (name, numbers) = parse().with_context(|| format!("the program prints '{line}'"))?;
            match (name, numbers.as_slice()) {
                ("steps", &[count]) => steps = Some(count),
                ("sum", &[value]) => sum = Some(value),
                ("time", &[wall, cpu]) => time = Some([wall, cpu]),
                ("largest", &[wall, cpu]) => largest = Some([wall, cpu]),
                ("bucket", &[upper, wall, cpu]) => buckets.push((upper, [wall, cpu])),
                ("gap", &[wall_start, wall, cpu_start, cpu]) => gaps.push([(wall_start, wall), (cpu_start, cpu)]),
                ("lost", &[count]) => lost = Some(count),
                _ => anyhow::bail!("the program prints '{line}'"),
            }
        }
        let (time, largest) = (time.context("the program tells no time")?, largest.context("nor its largest gap")?);
        let is_complete = lost.context("the program's output has no end")? == 0;
        let times = |clock: usize| {
            let counts = buckets.iter().map(|(upper, counts)| (*upper, counts[clock]));
            let gaps = is_complete.then(|| gaps.iter().map(|gap| gap[clock]));
            Times::new(time[clock], largest[clock], counts, gaps)
        };
        let (steps, wall) = (steps.context("the program tells no steps")?, times(0));
        ensure!(wall.counts.len() == steps, "{} gaps for {steps} steps", wall.counts.len());
        let cpu = (time[1] > 0).then(|| times(1));
        Ok(Gaps { steps, sum: sum.context("the program tells no sum")?, wall, cpu })
    }

    /// Steps per second.
    pub fn rate(&self) -> f64 {
        self.steps as f64 / self.wall.total.as_secs_f64()
    }
}

impl Times {
    /// `buckets` are the longest gap of each bucket and how many are in it, `gaps` the long ones with their start; all
    /// in nanoseconds.
    fn new(
        total: u64,
        largest: u64,
        buckets: impl Iterator<Item = (u64, u64)>,
        gaps: Option<impl Iterator<Item = (u64, u64)>>,
    ) -> Times {
        let mut counts = Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("constant bounds are valid");
        for (upper, count) in buckets {
            counts.saturating_record_n(upper.min(largest), count);
        }
        let step = counts.value_at_quantile(0.5);
        let pauses = gaps.map(|gaps| {
            let mut pauses = UtilisationCurve::new();
            for (start, gap) in gaps {
                pauses.push(Duration::from_nanos(start), Duration::from_nanos(gap.saturating_sub(step)));
            }
            pauses
        });
        Times { total: Duration::from_nanos(total), largest: Duration::from_nanos(largest), counts, pauses }
    }

    /// The gap, in seconds, that a share of `quantile` of all gaps does not exceed: no shorter than it is, and longer
    /// by the width of a bucket at most.
    pub fn quantile(&self, quantile: f64) -> f64 {
        Duration::from_nanos(self.counts.value_at_quantile(quantile)).min(self.largest).as_secs_f64()
    }

    /// The least share, from 0 to 1, of any window of this length that the program had for its steps: what a long gap
    /// takes more than the median step is a pause. `None` if the run was shorter, or had too many long gaps.
    pub fn utilisation(&self, window: Duration) -> Option<f64> {
        self.pauses.as_ref()?.minimum_utilisation(window, self.total)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A run of 1,000 steps of 10 us, but for two pauses of 990 us and 1,990 us, one millisecond apart.
    pub(crate) fn output(cpu: bool) -> String {
        let mut lines = vec!["steps 1000".to_string(), "sum 7".to_string()];
        let c = u64::from(cpu);
        lines.push(format!("time 12980000 {}", 12_980_000 * c));
        lines.push(format!("largest 2000000 {}", 2_000_000 * c));
        for (upper, count) in [(10_111, 998), (1_015_807, 1), (2_031_615, 1)] {
            lines.push(format!("bucket {upper} {count} {}", count * c));
        }
        lines.push(format!("gap 1000000 1000000 {} {}", 1_000_000 * c, 1_000_000 * c));
        lines.push(format!("gap 3000000 2000000 {} {}", 3_000_000 * c, 2_000_000 * c));
        lines.push("lost 0\n".to_string());
        lines.join("\n")
    }

    #[test]
    fn gaps_are_read() {
        let gaps = Gaps::parse(&output(true)).unwrap();
        assert_eq!((gaps.steps, gaps.sum), (1000, 7));
        for times in [&gaps.wall, gaps.cpu.as_ref().unwrap()] {
            assert!((times.quantile(0.5) - 10e-6).abs() < 0.12e-6, "{}", times.quantile(0.5));
            assert!((times.quantile(0.999) - 1e-3).abs() < 17e-6, "{}", times.quantile(0.999));
            // No bucket makes a gap longer than the largest.
            assert_eq!(times.quantile(0.9999), 2e-3);
            // 2.98 ms of pauses, less the two steps that they are in, fit a window of 10 ms.
            let utilisation = times.utilisation(Duration::from_millis(10)).unwrap();
            // The curve may say one part in a thousand less.
            assert!((0.7009..0.7021).contains(&utilisation), "{utilisation}");
            assert_eq!(times.utilisation(Duration::from_millis(1)), Some(0.0));
            assert_eq!(times.utilisation(Duration::from_secs(1)), None);
        }
        assert!((gaps.rate() - 1000.0 / 12.98e-3).abs() < 1e-6);
        assert!(Gaps::parse(&output(false)).unwrap().cpu.is_none());
    }

    #[test]
    fn what_is_missing_is_said() {
        let whole = output(true);
        for (line, what) in [
            ("steps", "steps"),
            ("sum", "sum"),
            ("time", "time"),
            ("largest", "largest"),
            ("bucket 1015807", "gaps for"),
            ("lost", "end"),
        ] {
            let rest: Vec<&str> = whole.lines().filter(|other| !other.starts_with(line)).collect();
            let error = Gaps::parse(&rest.join("\n")).unwrap_err();
            assert!(format!("{error:#}").contains(what), "without {line}: {error:#}");
        }
        for wrong in ["nothing", "steps x", "steps 1 2", "trap here"] {
            let error = Gaps::parse(&whole.replace("sum 7", wrong)).unwrap_err();
            assert!(format!("{error:#}").contains(wrong), "{error:#}");
        }
        let lost = Gaps::parse(&whole.replace("lost 0", "lost 1")).unwrap();
        assert_eq!(lost.wall.utilisation(Duration::from_millis(10)), None);
    }
}
