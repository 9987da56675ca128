//! Figures in boxes and tables.

use maud::{Markup, html};

use super::units::{bytes, count, percent, rate, time};
use super::{View, part};
use crate::over_time::{LongStop, OverTime};

/// The figures that matter most.
pub(super) fn tiles(view: &View<'_>) -> Markup {
    let statistics = &view.report.statistics;
    let stops = view.report.record.stops().all();
    let cycles = statistics.cycles;
    let ten = statistics.mmu.iter().find(|point| point.window_ms == 10).and_then(|point| point.utilisation);
    let tiles = [
        ("ran for", time(view.report.record.wall())),
        ("collections", count(statistics.collections.total)),
        ("in collections", percent(statistics.gc_share)),
        ("median pause", time(stops.wall.quantile(0.5))),
        ("99th percentile", time(stops.wall.quantile(0.99))),
        ("longest pause", time(stops.wall.max())),
        ("longest pause, CPU", time(stops.cpu.max())),
        ("utilisation in 10 ms", ten.map_or("–".to_string(), percent)),
        ("allocated", rate(statistics.allocation.bytes_per_second)),
        ("heap at most", bytes(statistics.memory.peak_committed_bytes)),
        ("process at most", statistics.memory.peak_resident_bytes.map_or("unknown".to_string(), bytes)),
    ];
    // Shown as soon as there may be any.
    let schedule = [("missed deadlines", cycles.missed_deadlines), ("shrunk gaps", cycles.shrunk_gaps)];
    let schedule = schedule.into_iter().filter(|_| cycles.slices > 0);
    html! {
        dl class="tiles" {
            @for (name, figure) in &tiles {
                div { dt { (name) } dd { (figure) } }
            }
            @for (name, number) in schedule {
                div class=[(number > 0).then_some("behind")] { dt { (name) } dd { (count(number)) } }
            }
        }
    }
}

/// The longest stops.
pub(super) fn longest(over_time: &OverTime) -> Markup {
    let contents = html! {
        table class="longest" {
            tr {
                @for head in ["pause", "CPU", "at", "kind", "most of it", "number", "cause", "before", "after", "promoted", "live objects"] {
                    th { (head) }
                }
            }
            @for long in over_time.longest() {
                tr {
                    td { (time(long.stop.wall)) }
                    td { (time(long.stop.cpu)) }
                    td { (format!("{:.3} s", long.stop.start.as_secs_f64())) }
                    td { (long.stop.kind) }
                    td { (most(&long)) }
                    @if let Some(event) = long.event {
                        td { (count(event.number)) }
                        td { (event.cause) }
                        td { (bytes(event.before_bytes)) }
                        td { (bytes(event.after_bytes)) }
                        td { (bytes(event.promoted_bytes)) }
                        td { (count(event.marked_objects)) }
                    } @else {
                        td colspan="6" { "in a cycle" }
                    }
                }
            }
        }
    };
    part("Longest pauses", "", &contents)
}

/// What most of a stop was spent on: by its collection's phases if it was one, else by its slices'.
fn most(long: &LongStop) -> String {
    let whole = long.event.filter(|event| event.cycle.is_none());
    let named = whole.and_then(|event| event.phases.named().into_iter().max_by_key(|(_, duration)| *duration));
    match (named, long.most) {
        (Some((name, duration)), _) => format!("{name} {}", time(duration)),
        (None, Some((phase, duration))) => format!("{phase} {}", time(duration)),
        (None, None) => String::new(),
    }
}

fn names(title: &str, rows: &[(String, String)]) -> Markup {
    html! {
        section {
            h2 { (title) }
            table class="names" {
                @for (name, value) in rows {
                    tr { th { (name) } td { (value) } }
                }
            }
        }
    }
}

/// The heap's parameters, and the machine.
pub(super) fn configuration(view: &View<'_>) -> Markup {
    let machine = &view.report.machine;
    let settings = view.report.configuration.iter().map(|(key, value)| (key.to_string(), value.clone()));
    let machine = [
        ("processor", machine.processor.clone()),
        ("processors", machine.processors.to_string()),
        ("memory", bytes(machine.memory)),
        ("system", machine.system.clone()),
        ("legato", env!("CARGO_PKG_VERSION").to_string()),
    ];
    let rows: Vec<_> = settings.chain(machine.map(|(name, value)| (name.to_string(), value))).collect();
    names("Configuration and machine", &rows)
}

/// Sums over the whole run.
pub(super) fn totals(view: &View<'_>) -> Markup {
    let statistics = &view.report.statistics;
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut row = |name: &str, value: String| rows.push((name.to_string(), value));
    for (cause, number) in &statistics.collections.by_cause {
        row(&format!("collections because of {cause}"), count(*number));
    }
    row("allocated", bytes(statistics.allocation.bytes));
    let promotion = statistics.promotion;
    row("promoted", format!("{} ({})", bytes(promotion.bytes), percent(promotion.share)));
    let zeroing = statistics.zeroing;
    let us = |us: f64| time(super::axis::from_seconds(us / 1e6));
    row("zeroing by the mutator", format!("{} ({})", us(zeroing.mutator_us), percent(zeroing.mutator_share)));
    row("zeroing by the helper thread", us(zeroing.concurrent_us));
    row("marking by the helper thread", us(statistics.marking.concurrent_us));
    row("user time", format!("{:.3} s", statistics.time.user_cpu_s));
    row("system time", format!("{:.3} s", statistics.time.system_cpu_s));
    if let Some(heap) = statistics.heap {
        row("live after the last collection", bytes(heap.live_bytes));
        row("immortal", bytes(heap.immortal_bytes));
        row("handles", bytes(heap.handle_bytes));
        row("allocated outside compiled code", format!("{} objects", count(heap.slow_allocations)));
        row("large objects", count(heap.large_allocations));
        for (name, value) in crate::arrays::describe(&heap) {
            row(name, value);
        }
    }
    names("Totals", &rows)
}
