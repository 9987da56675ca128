//! Medians, and intervals of a ratio by bootstrap.

use crate::random::Random;
use serde::Serialize;

/// Resamples of one bootstrap: enough that the ends of the interval are stable in the third digit.
const RESAMPLES: usize = 10_000;

/// The ratio of two quantities that were measured in pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Median of the pairs' ratios.
    pub median: f64,
    /// Lower end of the 95 % interval of the median.
    pub low: f64,
    /// Upper end of the 95 % interval of the median.
    pub high: f64,
}

impl Ratio {
    /// A single figure: an interval of no width.
    pub fn exactly(value: f64) -> Ratio {
        Ratio { median: value, low: value, high: value }
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3} [{:.3}, {:.3}]", self.median, self.low, self.high)
    }
}

/// The median. NaN of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// The ratio of `a` to `b`, pair by pair: run i of `a` stood beside run i of `b`, so that what disturbed the machine
/// disturbed both. The interval is the bootstrap's 2.5th and 97.5th percentile over the pairs, with a fixed seed.
///
/// # Panics
/// If the slices differ in length.
pub fn ratio(a: &[f64], b: &[f64]) -> Ratio {
    assert_eq!(a.len(), b.len(), "runs come in pairs");
    let ratios: Vec<f64> = a.iter().zip(b).map(|(a, b)| a / b).collect();
    if ratios.is_empty() {
        return Ratio { median: f64::NAN, low: f64::NAN, high: f64::NAN };
    }
    let (low, high) = bootstrap(|random, sample| {
        resample(&ratios, random, sample);
        median(sample)
    });
    Ratio { median: median(&ratios), low, high }
}

/// The geometric mean, over programs, of the median ratio of each, as the result's `median`. The ratios were measured
/// in pairs: one list of them for each program. The interval is the bootstrap's over the pairs within each program: it
/// tells how well these programs were measured, not how well they stand for others. NaN of nothing.
pub fn geometric_mean(programs: &[Vec<f64>]) -> Ratio {
    if programs.is_empty() || programs.iter().any(Vec::is_empty) {
        return Ratio { median: f64::NAN, low: f64::NAN, high: f64::NAN };
    }
    let mean = |logarithms: f64| (logarithms / programs.len() as f64).exp();
    let (low, high) = bootstrap(|random, sample| {
        let medians = programs.iter().map(|ratios| {
            resample(ratios, random, sample);
            median(sample).ln()
        });
        mean(medians.sum())
    });
    Ratio { median: mean(programs.iter().map(|ratios| median(ratios).ln()).sum()), low, high }
}

/// Fills `sample` with as many values as there are, each drawn from all of them.
fn resample(values: &[f64], random: &mut Random, sample: &mut Vec<f64>) {
    sample.clear();
    sample.extend((0..values.len()).map(|_| values[random.below(values.len())]));
}

/// The 2.5th and 97.5th percentile of a statistic over resamples, with a fixed seed.
fn bootstrap(mut statistic: impl FnMut(&mut Random, &mut Vec<f64>) -> f64) -> (f64, f64) {
    let mut random = Random::new(0x1e6a70);
    let mut sample = Vec::new();
    let mut values: Vec<f64> = (0..RESAMPLES).map(|_| statistic(&mut random, &mut sample)).collect();
    values.sort_by(f64::total_cmp);
    (percentile(&values, 0.025), percentile(&values, 0.975))
}

/// The value below which this part of sorted values lies, by the nearest rank. NaN of nothing.
pub fn percentile(sorted: &[f64], part: f64) -> f64 {
    match sorted.len() {
        0 => f64::NAN,
        n => sorted[((n - 1) as f64 * part).round() as usize],
    }
}

/// The exponent k of y ~ x^k by least squares in logarithms: 1 is linear, 2 quadratic.
pub fn growth_exponent(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let logs: Vec<(f64, f64)> = points.iter().map(|&(x, y)| (x.ln(), y.ln())).collect();
    let mean_x = logs.iter().map(|p| p.0).sum::<f64>() / n;
    let mean_y = logs.iter().map(|p| p.1).sum::<f64>() / n;
    let covariance: f64 = logs.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    let variance: f64 = logs.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    covariance / variance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_constant_ratio_has_an_interval_of_no_width() {
        let b: Vec<f64> = (1..=12).map(f64::from).collect();
        let a: Vec<f64> = b.iter().map(|x| 1.5 * x).collect();
        assert_eq!(ratio(&a, &b), Ratio { median: 1.5, low: 1.5, high: 1.5 });
    }

    #[test]
    fn the_interval_encloses_the_true_ratio_about_nineteen_times_in_twenty() {
        let mut random = Random::new(3);
        let mut noise = || 1.0 + 0.1 * (random.below(2001) as f64 / 1000.0 - 1.0);
        let hits = (0..100)
            .filter(|_| {
                let a: Vec<f64> = (0..20).map(|_| 1.2 * noise()).collect();
                let b: Vec<f64> = (0..20).map(|_| noise()).collect();
                let ratio = ratio(&a, &b);
                ratio.low <= 1.2 && 1.2 <= ratio.high
            })
            .count();
        assert!((85..=100).contains(&hits), "{hits}");
    }

    #[test]
    fn geometric_means() {
        let mean = geometric_mean(&[vec![2.0; 5], vec![0.5; 5]]);
        assert!((mean.median - 1.0).abs() < 1e-12 && (mean.high - mean.low).abs() < 1e-12, "{mean:?}");
        let mean = geometric_mean(&[vec![1.0, 2.0, 4.0], vec![8.0; 3]]);
        assert!((mean.median - 4.0).abs() < 1e-12 && mean.low < 4.0 && mean.high > 4.0, "{mean:?}");
        assert!(geometric_mean(&[]).median.is_nan() && geometric_mean(&[vec![]]).median.is_nan());
    }

    #[test]
    fn percentiles() {
        let values: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|part| percentile(&values, part)), [0.0, 50.0, 99.0, 100.0]);
        assert_eq!(percentile(&[7.0], 0.5), 7.0);
        assert!(percentile(&[], 0.5).is_nan());
    }

    #[test]
    fn exponents() {
        let square: Vec<(f64, f64)> = [1.0, 2.0, 4.0].iter().map(|&x: &f64| (x, 3.0 * x * x)).collect();
        assert!((growth_exponent(&square) - 2.0).abs() < 1e-9);
    }
}
