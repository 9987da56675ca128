//! The page: one file of HTML with its style, its charts (SVG) and a few lines of script in it.

mod allocation;
mod axis;
mod chart;
mod heap;
mod mmu;
mod pauses;
mod phases;
mod series;
mod tables;
pub(crate) mod units;

use legato_heap::{CollectionKind, GcEvent};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::Report;

/// What the parts of the page draw from.
struct View<'a> {
    report: &'a Report,
    /// Every collection; none where they were not kept.
    events: &'a [GcEvent],
    /// Length of the run in seconds; more than nothing.
    wall: f64,
}

impl View<'_> {
    /// Bytes that the heap has counted as allocated since the last collection.
    fn allocated_since(&self) -> u64 {
        let told: u64 = self.events.iter().map(|event| event.allocated_bytes).sum();
        self.report.statistics.allocation.bytes.saturating_sub(told)
    }
}

/// The page as text.
pub(crate) fn render(report: &Report) -> String {
    let events = report.record.events();
    let wall = report.record.wall().as_secs_f64().max(1e-6);
    let view = View { report, events: events.unwrap_or_default(), wall };
    let collected = report.statistics.collections.total > 0;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Collections of " (report.program) }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                h1 { (report.program) }
                p { (report.outcome) " · " (report.machine) }
                (tables::tiles(&view))
                @if !collected {
                    section { p { "There was no collection." } }
                } @else if events.is_none() {
                    section { p { "The recorder kept no events, so there are no charts over time." } }
                } @else {
                    (heap::section(&view))
                    (pauses::over_time(&view))
                }
                @if collected {
                    (pauses::distribution(&view))
                }
                (mmu::section(&view))
                @if !view.events.is_empty() {
                    (allocation::section(&view))
                }
                @if collected {
                    (phases::section(&view))
                }
                @if !view.events.is_empty() {
                    (allocation::zeroing(&view))
                    (tables::longest(&view))
                }
                div class="pair" { (tables::configuration(&view)) (tables::totals(&view)) }
                div id="hint" {}
                script { (PreEscaped(include_str!("hints.js"))) }
            }
        }
    };
    page.into_string()
}

/// One part of the page.
fn part(title: &str, explanation: &str, contents: &Markup) -> Markup {
    html! {
        section {
            h2 { (title) }
            p { (explanation) }
            div class="scroll" { (contents) }
        }
    }
}

/// The class of a kind's marks.
fn class(kind: CollectionKind) -> &'static str {
    match kind {
        CollectionKind::Nursery => "nursery",
        CollectionKind::Full => "full",
        CollectionKind::Cycle => "cycle",
    }
}
