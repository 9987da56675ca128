//! What the pauses were spent on.

use std::time::Duration;

use maud::{Markup, html};

use super::chart::legend;
use super::units::{count, percent, time};
use super::{View, part};

/// Classes of the phases, in their order; the last is that of what is no phase.
const CLASSES: [&str; 11] = ["p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11"];
const REST: &str = "bookkeeping";

/// A bar and a row of a table for each kind of collection.
pub(super) fn section(view: &View<'_>) -> Markup {
    let kinds: Vec<_> = view
        .report
        .record
        .kinds()
        .iter()
        .map(|totals| {
            let pauses = totals.pause;
            let named: Duration = totals.phases.iter().map(|(_, duration)| *duration).sum();
            let rest = (REST, pauses.saturating_sub(named));
            let phases: Vec<_> = totals.phases.iter().copied().chain([rest]).collect();
            (totals.kind, phases, pauses)
        })
        .collect();
    // Those that occurred, with their places in the lists above.
    let occurred: Vec<_> = kinds.first().map_or(Vec::new(), |(_, phases, _)| {
        let names = phases.iter().map(|(name, _)| *name).enumerate();
        names.filter(|&(index, _)| kinds.iter().any(|(_, phases, _)| !phases[index].1.is_zero())).collect()
    });
    let class = |index: usize| CLASSES[index.min(CLASSES.len() - 1)];
    let contents = html! {
        (legend(occurred.iter().map(|&(index, name)| (class(index), name))))
        @for (kind, phases, pauses) in &kinds {
            h3 { (kind) }
            div class="stack" role="img" aria-label=(format!("Phases of {kind} collections")) {
                @for (index, (name, duration)) in phases.iter().enumerate().filter(|(_, (_, duration))| !duration.is_zero()) {
                    @let share = duration.as_secs_f64() / pauses.as_secs_f64();
                    span class=(class(index)) style=(format!("flex: {share:.5} 0 0")) title=(format!("{name}: {}, {}", time(*duration), percent(share))) {}
                }
            }
        }
        table {
            tr { th { "kind" } @for (_, name) in &occurred { th { (name) } } th { "all" } }
            @for (kind, phases, pauses) in &kinds {
                tr {
                    td { (kind) }
                    @for (index, _) in &occurred { td { (time(phases[*index].1)) } }
                    td { (time(*pauses)) }
                }
            }
        }
        (slices(view))
    };
    part("Phases", "What all pauses together were spent on.", &contents)
}

/// A table of the slices by phase.
fn slices(view: &View<'_>) -> Markup {
    let phases = view.report.record.phases();
    html! {
        @if !phases.is_empty() {
            table class="slices" {
                tr { th { "phase" } th { "uninterrupted parts" } th { "wall" } th { "CPU" } th { "longest" } }
                @for totals in phases {
                    tr {
                        td { (totals.phase) }
                        td { (count(totals.count)) }
                        td { (time(totals.wall)) }
                        td { (time(totals.cpu)) }
                        td { (time(totals.longest)) }
                    }
                }
            }
        }
    }
}
