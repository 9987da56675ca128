//! Stops over time, and how they are distributed.

use std::fmt::Write;
use std::time::Duration;

use legato_heap::StopKind;
use maud::{Markup, html};

use super::axis::{Axis, from_seconds};
use super::chart::{Chart, legend, point};
use super::units::{count, time};
use super::{View, part};
use crate::over_time::{OverTime, Span};
use crate::pauses::{PauseHistogram, Stops};

/// Bars of the histogram in each decade.
const BARS: f64 = 12.0;

/// An axis for all stops.
fn axis(all: &Stops) -> Axis {
    Axis::durations(all.wall.min().as_secs_f64(), all.wall.max().as_secs_f64())
}

/// From the shortest to the longest stop of each column.
pub(super) fn over_time(view: &View<'_>, over_time: &OverTime) -> Markup {
    let stops = view.report.record.stops();
    let chart = Chart { x: Axis::seconds(view.wall), y: axis(&stops.with_idle()), height: 280.0 };
    let kinds: Vec<_> = stops.kinds().iter().map(|(kind, _)| *kind).collect();
    let mut paths: Vec<_> = kinds.iter().map(|&kind| (kind, String::new())).collect();
    let mut hints = Vec::new();
    for (from, to, moment) in over_time.moments.iter() {
        let mut hint = format!("at {}", time(from_seconds(from)));
        let to = to.min(view.wall);
        for (kind, path) in &mut paths {
            let Span { count: number, least, most } = moment.stops[*kind as usize];
            if number == 0 {
                continue;
            }
            let x = point(chart.across((from + to) / 2.0));
            let [low, high] = [least, most].map(|stop| point(chart.up(stop.as_secs_f64())));
            // A line of no length is drawn as a dot. Writing to a string does not fail.
            let _ = write!(path, "M{x},{low}V{high}");
            let _ = match number {
                1 => write!(hint, "\n1 {kind}: {}", time(most)),
                _ => write!(hint, "\n{} {kind}: {} to {}", count(number), time(least), time(most)),
            };
        }
        if moment.stops.iter().any(|span| span.count > 0) {
            hints.push((from, to, hint));
        }
    }
    let drawing = html! {
        @for (kind, path) in &paths {
            path class=(format!("dots {kind}")) d=(path) {}
        }
        (chart.hints(hints))
    };
    let contents = html! {
        (deadlines(view))
        (kinds_legend(&kinds))
        (chart.draw("Pauses over time", &drawing))
    };
    part("Pauses", "How long the mutator stood still at a time; a bar spans the stops of one moment.", &contents)
}

fn kinds_legend(kinds: &[StopKind]) -> Markup {
    let names: Vec<_> = kinds.iter().map(StopKind::to_string).collect();
    legend(names.iter().map(|name| (name.as_str(), name.as_str())))
}

/// What is said wherever pauses are: whether cycles kept to their schedule.
fn deadlines(view: &View<'_>) -> Markup {
    let cycles = view.report.statistics.cycles;
    html! {
        @if let Some(words) = cycles.describe() {
            p class=(if cycles.missed_deadlines > 0 { "cycles missed-deadline" } else { "cycles" }) { "Cycles: " (words) "." }
        }
    }
}

/// A histogram for each kind, one below the other with one axis, and their table.
pub(super) fn distribution(view: &View<'_>) -> Markup {
    let stops = view.report.record.stops();
    let (all, with_idle) = (stops.all(), stops.with_idle());
    let contents = html! {
        (deadlines(view))
        @for (kind, stops) in stops.kinds() {
            h3 { (kind) }
            (histogram(*kind, stops, &with_idle))
        }
        table class="pauses" {
            tr { th { "kind" } th { "" } th { "count" } th { "mean" } th { "p50" } th { "p90" } th { "p99" } th { "p99.9" } th { "max" } th { "total" } }
            @for (kind, stops) in stops.kinds() {
                (rows(&kind.to_string(), stops))
            }
            (rows("all", &all))
        }
    };
    let clocks = "How many stops were how long; both axes are logarithmic. Bars: by the clock on the wall. Line: the \
        time that the program's thread had a processor.";
    let given = if stops.count(StopKind::Idle) > 0 { " Idle: in time that the host gave; no pauses." } else { "" };
    part("Distribution of the pauses", &format!("{clocks}{given}"), &contents)
}

fn rows(name: &str, stops: &Stops) -> Markup {
    html! {
        (row(name, "wall", &count(stops.wall.count()), &stops.wall))
        (row("", "CPU", "", &stops.cpu))
    }
}

fn row(name: &str, clock: &str, number: &str, times: &PauseHistogram) -> Markup {
    html! {
        tr {
            td { (name) }
            td { (clock) }
            td { (number) }
            td { (time(times.mean())) }
            @for quantile in [0.5, 0.9, 0.99, 0.999] {
                td { (time(times.quantile(quantile))) }
            }
            td { (time(times.max())) }
            td { (time(times.total())) }
        }
    }
}

/// How many stops there are in each bar.
fn bars(times: &PauseHistogram, (low, high): (f64, f64)) -> Vec<u64> {
    let mut bars = vec![0u64; ((high / low).log10() * BARS).ceil() as usize];
    for (stop, count) in times.recorded() {
        let bar = ((stop.as_secs_f64().max(low) / low).log10() * BARS) as usize;
        let last = bars.len() - 1;
        bars[bar.min(last)] += count;
    }
    bars
}

fn histogram(kind: StopKind, stops: &Stops, all: &Stops) -> Markup {
    let x = axis(all);
    let (low, high) = x.ends();
    let edge = |bar: usize| (low * 10f64.powf(bar as f64 / BARS)).min(high);
    let (wall, cpu) = (bars(&stops.wall, (low, high)), bars(&stops.cpu, (low, high)));
    let most = wall.iter().chain(&cpu).copied().max().unwrap_or(0);
    let chart = Chart { x, y: Axis::log_counts(most), height: 150.0 };
    let markers = [("p50", stops.wall.quantile(0.5)), ("p99", stops.wall.quantile(0.99)), ("max", stops.wall.max())];
    let across = |bar: usize| point(chart.across(edge(bar)));
    let filled = |bars: &[u64]| -> Vec<(usize, u64)> {
        bars.iter().copied().enumerate().filter(|(_, number)| *number > 0).collect()
    };
    let mut outline = String::new();
    for (bar, number) in filled(&cpu) {
        let (left, right, top) = (across(bar), across(bar + 1), point(chart.up(number as f64)));
        // Writing to a string does not fail.
        let _ = write!(outline, "M{left},{top}H{right}");
    }
    let drawing = html! {
        g class=(kind) {
            @for (bar, number) in filled(&wall) {
                @let (left, right, top) = (across(bar), across(bar + 1), chart.up(number as f64));
                rect x=(point(left + 0.5)) width=(point((right - left - 1.0).max(1.0))) y=(point(top)) height=(point(chart.bottom() - top)) rx="1" {}
            }
        }
        @if !stops.cpu.max().is_zero() {
            path class="cpu" d=(outline) {}
        }
        (marker_lines(&chart, &markers))
        (chart.hints((0..wall.len()).filter(|&bar| wall[bar] + cpu[bar] > 0).map(|bar| {
            let (from, to) = (edge(bar), edge(bar + 1));
            let span = format!("{} to {}", time(from_seconds(from)), time(from_seconds(to)));
            (from, to, format!("{span}\nwall: {}\nCPU: {}", count(wall[bar]), count(cpu[bar])))
        })))
    };
    chart.draw(&format!("How many {kind} stops were how long"), &drawing)
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
