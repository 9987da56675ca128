//! The curve of minimum mutator utilisation.

use maud::{Markup, html};

use super::axis::{Axis, from_seconds};
use super::chart::Chart;
use super::units::{percent, time};
use super::{View, part};

/// The shortest window, in seconds.
const SHORTEST: f64 = 1e-4;
/// The longest: beyond it, a curve says little.
const LONGEST: f64 = 100.0;
/// Points in each decade.
const POINTS: f64 = 40.0;

/// The curve.
pub(super) fn section(view: &View<'_>) -> Markup {
    let record = &view.report.record;
    let longest = view.wall.clamp(10.0 * SHORTEST, LONGEST);
    let chart = Chart { x: Axis::durations(SHORTEST, longest), y: Axis::whole_share(), height: 240.0 };
    let count = ((longest / SHORTEST).log10() * POINTS) as usize;
    let windows = (0..=count).map(|index| SHORTEST * 10f64.powf(index as f64 / POINTS));
    let points: Vec<_> = windows
        .filter_map(|window| {
            let utilisation = record.timeline().minimum_utilisation(from_seconds(window), record.wall())?;
            Some((window, utilisation))
        })
        .collect();
    let line = chart.line(points.iter().copied());
    let half = 10f64.powf(0.5 / POINTS);
    let hints = points.iter().map(|&(window, utilisation)| {
        let text = format!("any {}: at least {}", time(from_seconds(window)), percent(utilisation));
        (window / half, window * half, text)
    });
    let drawing = html! {
        path class="area live" d=(chart.area(&line)) {}
        path class="live" d=(line) {}
        (chart.hints(hints))
    };
    let contents = html! {
        (chart.draw("Minimum mutator utilisation over the length of the window", &drawing))
        table {
            tr { th { "window" } @for point in &view.report.statistics.mmu { th { (point.window_ms) " ms" } } }
            tr {
                td { "at least" }
                @for point in &view.report.statistics.mmu { td { (point.utilisation.map_or("–".to_string(), percent)) } }
            }
        }
    };
    let explanation = "The least share of any window of time, by its length, that was left to the program.";
    part("Minimum mutator utilisation", explanation, &contents)
}
