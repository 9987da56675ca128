//! Pauses over time, and how they are distributed.

use std::fmt::Write;
use std::time::Duration;

use maud::{Markup, html};

use super::axis::{Axis, from_seconds};
use super::chart::{Chart, legend, point};
use super::series::columns;
use super::units::{count, time};
use super::{View, class, part};
use crate::pauses::PauseHistogram;

/// Bars of the histogram in each decade.
const BARS: f64 = 12.0;

/// An axis for all pauses.
fn axis(view: &View<'_>) -> Axis {
    let all = view.report.record.all_pauses();
    Axis::durations(all.min().as_secs_f64(), all.max().as_secs_f64())
}

/// From the shortest to the longest pause of each column.
pub(super) fn over_time(view: &View<'_>) -> Markup {
    let chart = Chart { x: Axis::seconds(view.wall), y: axis(view), height: 280.0 };
    let kinds: Vec<_> = view.report.record.kinds().iter().map(|totals| totals.kind).collect();
    let mut paths: Vec<_> = kinds.iter().map(|&kind| (kind, String::new())).collect();
    let mut hints = Vec::new();
    for (from, to, group) in columns(view.events, view.wall) {
        let mut hint = format!("at {}", time(from_seconds(from)));
        for (kind, path) in &mut paths {
            let pauses = || group.iter().filter(|event| event.kind == *kind).map(|event| event.pause);
            let (Some(least), Some(most)) = (pauses().min(), pauses().max()) else { continue };
            let x = point(chart.across((from + to) / 2.0));
            let [low, high] = [least, most].map(|pause| point(chart.up(pause.as_secs_f64())));
            // A line of no length is drawn as a dot. Writing to a string does not fail.
            let _ = write!(path, "M{x},{low}V{high}");
            let number = pauses().count();
            let _ = match number {
                1 => write!(hint, "\n1 {kind}: {}", time(most)),
                _ => write!(hint, "\n{number} {kind}: {} to {}", time(least), time(most)),
            };
        }
        hints.push((from, to, hint));
    }
    let drawing = html! {
        @for (kind, path) in &paths {
            path class=(format!("dots {}", class(*kind))) d=(path) {}
        }
        (chart.hints(hints))
    };
    let names: Vec<_> = kinds.iter().map(|kind| (class(*kind), kind.to_string())).collect();
    let contents = html! {
        (legend(names.iter().map(|(class, name)| (*class, name.as_str()))))
        (chart.draw("Pauses over time", &drawing))
    };
    part("Pauses", "How long the mutator stood still; a bar spans the pauses of one moment.", &contents)
}

/// A histogram for each kind, with percentiles, and their table.
pub(super) fn distribution(view: &View<'_>) -> Markup {
    let contents = html! {
        @for totals in view.report.record.kinds() {
            h3 { (totals.kind) }
            (histogram(view, class(totals.kind), &totals.pauses))
        }
        table {
            tr { th { "kind" } th { "count" } th { "mean" } th { "p50" } th { "p90" } th { "p99" } th { "p99.9" } th { "max" } th { "total" } }
            @for totals in view.report.record.kinds() {
                (row(&totals.kind.to_string(), &totals.pauses))
            }
            (row("all", &view.report.record.all_pauses()))
        }
    };
    part("Distribution of the pauses", "How many pauses were how long.", &contents)
}

fn row(name: &str, pauses: &PauseHistogram) -> Markup {
    let mean = pauses.total().as_secs_f64() / pauses.count().max(1) as f64;
    html! {
        tr {
            td { (name) }
            td { (count(pauses.count())) }
            td { (time(from_seconds(mean))) }
            @for quantile in [0.5, 0.9, 0.99, 0.999] {
                td { (time(pauses.quantile(quantile))) }
            }
            td { (time(pauses.max())) }
            td { (time(pauses.total())) }
        }
    }
}

fn histogram(view: &View<'_>, class: &str, pauses: &PauseHistogram) -> Markup {
    let x = axis(view);
    let (low, high) = x.ends();
    let edge = |bar: usize| low * 10f64.powf(bar as f64 / BARS);
    let mut bars = vec![0u64; ((high / low).log10() * BARS).ceil() as usize];
    for (pause, count) in pauses.recorded() {
        let bar = ((pause.as_secs_f64().max(low) / low).log10() * BARS) as usize;
        let last = bars.len() - 1;
        bars[bar.min(last)] += count;
    }
    let most = bars.iter().copied().max().unwrap_or(0);
    let chart = Chart { x, y: Axis::counts(most), height: 180.0 };
    let markers = [("p50", pauses.quantile(0.5)), ("p99", pauses.quantile(0.99)), ("max", pauses.max())];
    let drawing = html! {
        g class=(class) {
            @for (bar, &number) in bars.iter().enumerate().filter(|(_, number)| **number > 0) {
                @let (left, right) = (chart.across(edge(bar)), chart.across(edge(bar + 1)));
                // However few they are, they are seen.
                @let top = chart.up(number as f64).min(chart.bottom() - 2.0);
                rect x=(point(left + 0.5)) width=(point(right - left - 1.0)) y=(point(top)) height=(point(chart.bottom() - top)) rx="1" {}
            }
        }
        (marker_lines(&chart, &markers))
        (chart.hints(bars.iter().enumerate().filter(|(_, number)| **number > 0).map(|(bar, &number)| {
            let (from, to) = (edge(bar), edge(bar + 1));
            (from, to, format!("{} to {}: {}", time(from_seconds(from)), time(from_seconds(to)), count(number)))
        })))
    };
    chart.draw("How many pauses were how long", &drawing)
}

/// Room for a label of a marker: across, and downwards.
const LABEL: (f64, f64) = (34.0, 14.0);

/// Lines at percentiles. Where labels would cover each other, the later one stands lower.
fn marker_lines(chart: &Chart, markers: &[(&str, Duration)]) -> Markup {
    let (_, top) = chart.y.ends();
    let mut lowered = 0.0;
    let mut last = f64::NEG_INFINITY;
    let placed: Vec<_> = markers
        .iter()
        .map(|(name, pause)| {
            let x = chart.across(pause.as_secs_f64());
            lowered = if x - last < LABEL.0 { lowered + LABEL.1 } else { 0.0 };
            last = x;
            (name, point(x), point(chart.up(top) + lowered))
        })
        .collect();
    html! {
        g class="marker" {
            @for (name, x, y) in placed {
                line x1=(x) x2=(x) y1=(y) y2=(chart.bottom()) {}
                text x=(x) y=(y - 2.0) { (name) }
            }
        }
    }
}
