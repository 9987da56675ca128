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

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::Report;

/// What the parts of the page draw from.
struct View<'a> {
    report: &'a Report,
    /// Length of the run in seconds; more than nothing.
    wall: f64,
}

impl View<'_> {
    /// Bytes that the heap has counted as allocated since the last collection.
    fn allocated_since(&self) -> u64 {
        self.report.statistics.allocation.bytes.saturating_sub(self.report.record.allocated_bytes())
    }
}

/// The page as text.
pub(crate) fn render(report: &Report) -> String {
    let wall = report.record.wall().as_secs_f64().max(1e-6);
    let view = View { report, wall };
    let stopped = report.statistics.pauses.all.count > 0;
    let over_time = report.record.over_time().filter(|_| stopped);
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
                @if !stopped {
                    section { p { "There was no collection." } }
                } @else if let Some(over_time) = over_time {
                    (heap::section(&view, over_time))
                    (pauses::over_time(&view, over_time))
                } @else {
                    section { p { "The recorder kept no events, so there are no charts over time." } }
                }
                @if stopped {
                    (pauses::distribution(&view))
                }
                (mmu::section(&view))
                @if let Some(over_time) = over_time {
                    (allocation::section(&view, over_time))
                }
                @if stopped {
                    (phases::section(&view))
                }
                @if let Some(over_time) = over_time {
                    (allocation::zeroing(&view, over_time))
                    (tables::longest(over_time))
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
