//! The size of the heap over time.

use legato_heap::GcEvent;
use maud::{Markup, html};

use super::axis::{Axis, from_seconds, size};
use super::chart::{Chart, legend};
use super::units::{bytes, count, time};
use super::{View, part};
use crate::over_time::OverTime;

/// Where the line of what is in use falls, from and to: for a cycle at its end, since the program allocates until then.
fn fall(event: &GcEvent) -> (f64, f64) {
    let end = event.end();
    let start = if event.cycle.is_some() { end } else { event.start };
    (start.as_secs_f64(), end.as_secs_f64())
}

/// In use, live, limit and committed.
pub(super) fn section(view: &View<'_>, over_time: &OverTime) -> Markup {
    let events = &over_time.events;
    let most = events.iter().map(|event| event.before_bytes.max(event.limit_bytes).max(event.committed_bytes)).max();
    let chart = Chart { x: Axis::seconds(view.wall), y: Axis::bytes(most.unwrap_or(0) as f64, size), height: 280.0 };
    // What was true after the last collection is true until the end, but for what was allocated since.
    let level = |height: fn(&GcEvent) -> u64| {
        let after = events.iter().map(move |event| (fall(event).1, height(event) as f64));
        after.chain(events.last().map(|event| (view.wall, height(event) as f64)))
    };
    let used = events.iter().flat_map(|event| {
        let (start, end) = fall(event);
        [(start, event.before_bytes as f64), (end, event.after_bytes as f64)]
    });
    let now = events.last().map(|event| (view.wall, (event.after_bytes + view.allocated_since()) as f64));
    let used = chart.line(std::iter::once((0.0, 0.0)).chain(used).chain(now));
    let live = chart.line(level(|event| event.after_bytes));
    let committed = chart.line(level(|event| event.committed_bytes));
    // In steps, since a limit holds until the next.
    let mut last = None;
    let limit = chart.line(level(|event| event.limit_bytes).flat_map(|(at, limit)| {
        let held = last.replace(limit).unwrap_or(limit);
        [(at, held), (at, limit)]
    }));
    let hints = over_time.moments.iter().filter(|(_, _, moment)| moment.collections > 0).map(|(from, to, moment)| {
        let text = format!(
            "at {}, collections: {}\nbefore at most {}, after at least {}\nlimit {}, committed {}",
            time(from_seconds(from)),
            count(moment.collections),
            bytes(moment.before_bytes),
            bytes(moment.after_bytes),
            bytes(moment.limit_bytes),
            bytes(moment.committed_bytes),
        );
        (from, to, text)
    });
    let drawing = html! {
        path class="area live" d=(chart.area(&live)) {}
        path class="used" d=(used) {}
        path class="live" d=(live) {}
        path class="committed" d=(committed) {}
        path class="dashed limit" d=(limit) {}
        (chart.hints(hints))
    };
    let marks =
        [("used", "in use"), ("live", "live after collections"), ("committed", "committed"), ("limit", "limit")];
    let contents = html! { (legend(marks)) (chart.draw("Size of the heap over time", &drawing)) };
    part("Heap", "In use before and after each collection; the next full collection starts at the limit.", &contents)
}
