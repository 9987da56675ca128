//! Allocation and zeroing over time.

use maud::{Markup, html};

use super::axis::{Axis, from_seconds, rate};
use super::chart::{Chart, legend};
use super::series::{rate_columns, rates};
use super::units::{self, percent, time};
use super::{View, part};
use crate::over_time::{Moment, OverTime};

/// An amount for each span of time.
fn amounts(over_time: &OverTime, amount: fn(&Moment) -> f64) -> impl Iterator<Item = (f64, f64, f64)> {
    over_time.moments.iter().map(move |(from, to, moment)| (from, to, amount(moment)))
}

fn columns(view: &View<'_>) -> usize {
    rate_columns(view.report.statistics.collections.total)
}

/// Where column `index` of `count` begins and ends, in seconds.
fn column(view: &View<'_>, index: usize, count: usize) -> (f64, f64) {
    let width = view.wall / count as f64;
    (index as f64 * width, (index + 1) as f64 * width)
}

/// A line through the middles of the columns.
fn line(view: &View<'_>, chart: &Chart, values: &[f64]) -> String {
    chart.line(values.iter().enumerate().map(|(index, &value)| {
        let (from, to) = column(view, index, values.len());
        ((from + to) / 2.0, value)
    }))
}

fn greatest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// The allocation rate.
pub(super) fn section(view: &View<'_>, over_time: &OverTime) -> Markup {
    let last_end = over_time.events.last().map_or(0.0, |event| event.end().as_secs_f64());
    let since = (last_end, view.wall, view.allocated_since() as f64);
    let values = rates(amounts(over_time, |moment| moment.allocated).chain([since]), view.wall, columns(view));
    let chart = Chart { x: Axis::seconds(view.wall), y: Axis::bytes(greatest(&values), rate), height: 220.0 };
    let line = line(view, &chart, &values);
    let hints = values.iter().enumerate().map(|(index, &value)| {
        let (from, to) = column(view, index, values.len());
        (from, to, format!("at {}: {}", time(from_seconds(from)), units::rate(value)))
    });
    let drawing = html! {
        path class="area p3" d=(chart.area(&line)) {}
        path class="p3" d=(line) {}
        (chart.hints(hints))
    };
    let contents = chart.draw("Allocation rate over time", &drawing);
    part("Allocation rate", "Bytes handed out for allocation per second, pauses included.", &contents)
}

/// What zeroing took.
pub(super) fn zeroing(view: &View<'_>, over_time: &OverTime) -> Markup {
    let zeroing = view.report.statistics.zeroing;
    let title = "Zeroing";
    if zeroing.mutator_us == 0.0 && zeroing.concurrent_us == 0.0 {
        let explanation = "None was seen: memory is zeroed inline in compiled code, or while it is swept.";
        return part(title, explanation, &Markup::default());
    }
    let columns = columns(view);
    let mutator = rates(amounts(over_time, |moment| moment.zeroing), view.wall, columns);
    let helper = rates(amounts(over_time, |moment| moment.concurrent_zeroing), view.wall, columns);
    let most = greatest(&mutator).max(greatest(&helper));
    let chart = Chart { x: Axis::seconds(view.wall), y: Axis::shares(most), height: 200.0 };
    let hints = mutator.iter().zip(&helper).enumerate().map(|(index, (&mutator, &helper))| {
        let (from, to) = column(view, index, columns);
        let text =
            format!("at {}\nmutator {}\nhelper thread {}", time(from_seconds(from)), percent(mutator), percent(helper));
        (from, to, text)
    });
    let drawing = html! {
        path class="p4" d=(line(view, &chart, &mutator)) {}
        path class="p2" d=(line(view, &chart, &helper)) {}
        (chart.hints(hints))
    };
    let contents = html! {
        (legend([("p4", "mutator: zeroing, or waiting for it"), ("p2", "helper thread")]))
        (chart.draw("Zeroing over time", &drawing))
    };
    part(title, "Share of each thread's time; zeroing inline in compiled code is not seen.", &contents)
}
