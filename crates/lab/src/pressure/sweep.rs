//! Times over the maximum of the heap: the paper's figures 1 to 3, and its table 3.

use super::group::Limit;
use super::paper;
use super::runs::Outcome;
use super::subject::{BASE, Bench, PAPER, Rule, Subject};
use crate::measure;
use crate::tables::{Report, Row, Table, Unit};

/// Maxima, over what the program takes by itself.
const MAXIMA: [f64; 6] = [0.5, 0.75, 1.0, 1.5, 2.0, 3.0];
/// Those of table 3: the paper's 80 and 240 MB.
const SMALL: usize = 2;
const LARGE: usize = 5;
/// What is measured at each maximum.
const SERIES: [(&str, Rule, bool); 4] = [
    ("base, free", BASE, false),
    ("base, pressed", BASE, true),
    ("iv, free", PAPER, false),
    ("iv, pressed", PAPER, true),
];

/// Adds a curve for each program, and table 3.
pub(super) fn measure(bench: &Bench<'_>, report: &mut Report) {
    let small = format!("{} x", MAXIMA[SMALL]);
    let large = format!("{} x", MAXIMA[LARGE]);
    let columns = paper::speedup_columns(&small, &large);
    let mut speedups = Table::new("table 3", "times of gc-ratio over times of isla-vista, by the maximum", columns);
    for program in bench.options.programs() {
        eprintln!("pressure: {} ...", program.title());
        let subject = match bench.subject(program) {
            Ok(subject) => subject,
            Err(error) => {
                speedups.rows.push(Row::failed(program.title(), &error));
                continue;
            }
        };
        if let Some(why) = bench.refusal(&subject) {
            report.notes.push(why);
            continue;
        }
        match sweep(bench, &subject) {
            Ok(points) => {
                let own = subject.own / 1_000_000;
                let caption = format!(
                    "seconds over the maximum of the heap, as a multiple of the {own} MB that the program takes; \
                     pressed in {} of that (figures 1 and 3); the baseline's slowdown (figure 2)",
                    bench.options.share * bench.options.maximum
                );
                let series = SERIES.iter().map(|(name, ..)| (name.to_string(), Unit::Seconds));
                let slowdown = ("base, pressed / free".to_string(), Unit::Ratio);
                let mut curve = Table::new(&subject.title, caption, series.chain([slowdown]).collect());
                curve.rows = MAXIMA.iter().zip(&points).map(|(times, runs)| point(*times, runs)).collect();
                speedups.rows.push(speedup(&subject.title, &points[SMALL], &points[LARGE]));
                report.tables.push(curve);
            }
            Err(error) => speedups.rows.push(Row::failed(program.title(), &error)),
        }
    }
    speedups.conclude();
    report.tables.extend([speedups, paper::table_3()]);
}

/// Seconds of each series at one maximum, in the order of the rounds; none of a series that failed.
type Point = [Vec<f64>; SERIES.len()];

fn sweep(bench: &Bench<'_>, subject: &Subject) -> anyhow::Result<Vec<Point>> {
    let mut points = Vec::new();
    for times in MAXIMA {
        let maximum = Some(bench.maximum(subject, times));
        let mut runs: [Vec<Outcome>; SERIES.len()] = Default::default();
        for round in 0..bench.options.runs {
            for at in measure::turn(round, SERIES.len()) {
                let (_, rule, is_pressed) = SERIES[at];
                let limit = if is_pressed { bench.squeezed(subject) } else { Limit::None };
                runs[at].push(bench.run(subject, rule, maximum, limit)?);
            }
        }
        // A heap that is too small for the program has no time.
        points.push(runs.map(|runs| runs.iter().map(Outcome::seconds).collect::<Result<_, _>>().unwrap_or_default()));
    }
    Ok(points)
}

/// The ratios of two series, round by round; none where one of them failed.
fn over(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a / b).collect()
}

fn point(times: f64, runs: &Point) -> Row {
    let slowdown = over(&runs[1], &runs[0]);
    Row::new(format!("{times} x"), runs.iter().cloned().chain([slowdown]).collect())
}

fn speedup(title: &str, small: &Point, large: &Point) -> Row {
    let pairs = [(1, 3), (0, 3), (0, 2)];
    let both = |(base, iv): (usize, usize)| [small, large].map(|point| over(&point[base], &point[iv]));
    Row::new(title, pairs.into_iter().flat_map(both).collect())
}
