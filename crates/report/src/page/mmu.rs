//! The curve of minimum mutator utilisation.

use std::fmt::Write;
use std::time::Duration;

use maud::{Markup, html};

use super::axis::{Axis, from_seconds};
use super::chart::{Chart, legend, point};
use super::units::{percent, time};
use super::{View, part};
use crate::UtilisationCurve;

/// The curve.
pub(super) fn section(view: &View<'_>) -> Markup {
    let record = &view.report.record;
    let curve = record.utilisation();
    let points_of = |curve: &UtilisationCurve| -> Vec<(f64, f64)> {
        let point = |window: Duration| Some((window.as_secs_f64(), curve.minimum_utilisation(window, record.wall())?));
        curve.windows().filter_map(point).collect()
    };
    let points = points_of(curve);
    let cpu = record.cpu_utilisation().map(points_of);
    let [shortest, longest] =
        [curve.windows().next(), curve.windows().last()].map(|window| window.map_or(0.0, |w| w.as_secs_f64()));
    let x = Axis::durations(shortest, points.last().map_or(longest, |last| last.0).max(10.0 * shortest));
    let chart = Chart { x, y: Axis::whole_share(), height: 240.0 };
    let line = chart.line(points.iter().copied());
    let mut dots = String::new();
    for &(window, share) in &points {
        // A line of no length is drawn as a dot. Writing to a string does not fail.
        let _ = write!(dots, "M{},{}h0", point(chart.across(window)), point(chart.up(share)));
    }
    // Half of the way to the neighbours, by ratio.
    let reach = 1.2;
    let hints = points.iter().map(|&(window, utilisation)| {
        let text = format!("any {}: at least {}", time(from_seconds(window)), percent(utilisation));
        (window / reach, window * reach, text)
    });
    let drawing = html! {
        path class="area live" d=(chart.area(&line)) {}
        path class="live" d=(line) {}
        path class="dots live" d=(dots) {}
        @if let Some(cpu) = cpu {
            path class="dashed cpu" d=(chart.line(cpu)) {}
        }
        (chart.hints(hints))
    };
    let contents = html! {
        (legend([("live", "by the clock"), ("cpu", "by processor time")]))
        (chart.draw("Minimum mutator utilisation over the length of the window", &drawing))
        table {
            tr { th { "window" } @for point in &view.report.statistics.mmu { th { (point.window_ms) " ms" } } }
            tr {
                td { "at least" }
                @for point in &view.report.statistics.mmu { td { (point.utilisation.map_or("–".to_string(), percent)) } }
            }
            tr {
                td { "by processor time" }
                @for point in &view.report.statistics.mmu { td { (point.cpu_utilisation.map_or("–".to_string(), percent)) } }
            }
        }
    };
    let explanation = "The least share of any window of time, by its length, that was left to the program; dashed, as if \
        no other program had taken the processor from a stop.";
    part("Minimum mutator utilisation", explanation, &contents)
}
