//! The frame of a chart: grid, labels, and paths in it. As SVG, coloured by the page's style sheet.

use std::fmt::Write;

use maud::{Markup, html};

use super::axis::Axis;

const WIDTH: f64 = 880.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 26.0;

/// Axes and the space for what is drawn between them.
pub(super) struct Chart {
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// In the units of the SVG's view box, as everything here.
    pub(super) height: f64,
}

impl Chart {
    /// Where a value of the horizontal axis lies.
    pub(super) fn across(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (WIDTH - LEFT - RIGHT)
    }

    /// Where a value of the vertical axis lies.
    pub(super) fn up(&self, value: f64) -> f64 {
        let bottom = self.height - BOTTOM;
        bottom - self.y.place(value) * (bottom - TOP)
    }

    /// The bottom of the drawing.
    pub(super) fn bottom(&self) -> f64 {
        self.height - BOTTOM
    }

    /// The chart with its contents. `description` is for those who do not see it.
    pub(super) fn draw(&self, description: &str, contents: &Markup) -> Markup {
        let (right, bottom) = (WIDTH - RIGHT, self.bottom());
        html! {
            svg viewBox=(format!("0 0 {WIDTH} {}", self.height)) role="img" aria-label=(description) {
                g class="grid" {
                    @for (place, label) in self.y.ticks() {
                        @let y = point(bottom - place * (bottom - TOP));
                        line x1=(LEFT) x2=(right) y1=(y) y2=(y) {}
                        text x=(LEFT - 8.0) y=(y) class="left" { (label) }
                    }
                    @for (place, label) in self.x.ticks() {
                        @let x = point(LEFT + place * (right - LEFT));
                        line x1=(x) x2=(x) y1=(bottom) y2=(bottom + 4.0) {}
                        text x=(x) y=(bottom + 18.0) class="below" { (label) }
                    }
                }
                (contents)
            }
        }
    }

    /// A line through points that do not go backwards, as a path. Of the points in one column of pixels, the first, the
    /// last, the lowest and the highest are kept, which draws the same picture (Jugel et al., "M4: A
    /// Visualization-Oriented Time Series Data Aggregation", VLDB 2014).
    pub(super) fn line(&self, points: impl IntoIterator<Item = (f64, f64)>) -> String {
        let mut path = String::new();
        let mut column: Option<Column> = None;
        for (x, y) in points {
            let (x, y) = (self.across(x), self.up(y));
            match &mut column {
                Some(column) if column.x.floor() == x.floor() => column.add(x, y),
                _ => {
                    if let Some(column) = column.replace(Column::new(x, y)) {
                        column.draw(&mut path);
                    }
                }
            }
        }
        if let Some(column) = column {
            column.draw(&mut path);
        }
        path
    }

    /// The area beneath a line.
    pub(super) fn area(&self, line: &str) -> String {
        let first = line.strip_prefix('M').and_then(|rest| rest.split([',', 'L']).next());
        let last = line.rsplit(['M', 'L']).next().and_then(|point| point.split(',').next());
        match (first, last) {
            (Some(first), Some(last)) => {
                let bottom = point(self.bottom());
                format!("{line}L{last},{bottom}L{first},{bottom}Z")
            }
            _ => String::new(),
        }
    }

    /// Invisible columns that say something to whom points at them.
    pub(super) fn hints(&self, columns: impl IntoIterator<Item = (f64, f64, String)>) -> Markup {
        html! {
            g class="hints" {
                @for (from, to, text) in columns {
                    @let (from, to) = (self.across(from), self.across(to));
                    rect x=(point(from)) width=(point((to - from).max(1.0))) y=(TOP) height=(self.bottom() - TOP) {
                        title { (text) }
                    }
                }
            }
        }
    }
}

/// The points of a line in one column of pixels.
struct Column {
    x: f64,
    first: f64,
    low: f64,
    high: f64,
    last_x: f64,
    last: f64,
}

impl Column {
    fn new(x: f64, y: f64) -> Column {
        Column { x, first: y, low: y, high: y, last_x: x, last: y }
    }

    fn add(&mut self, x: f64, y: f64) {
        self.low = self.low.min(y);
        self.high = self.high.max(y);
        (self.last_x, self.last) = (x, y);
    }

    fn draw(&self, path: &mut String) {
        let middle = (self.x + self.last_x) / 2.0;
        let all = [(self.x, self.first), (middle, self.low), (middle, self.high), (self.last_x, self.last)];
        let mut previous = String::new();
        for (x, y) in all {
            let next = format!("{},{}", point(x), point(y));
            if next != previous {
                let start = if path.is_empty() { 'M' } else { 'L' };
                // Writing to a string does not fail.
                let _ = write!(path, "{start}{next}");
                previous = next;
            }
        }
    }
}

/// A coordinate to a tenth.
pub(super) fn point(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// What the colours mean: class of the mark, and name.
pub(super) fn legend<'a>(marks: impl IntoIterator<Item = (&'a str, &'a str)>) -> Markup {
    html! {
        p class="legend" {
            @for (class, name) in marks {
                span class=(class) { i {} (name) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        Chart { x: Axis::seconds(10.0), y: Axis::whole_share(), height: 200.0 }
    }

    #[test]
    fn a_line_of_many_points_keeps_its_extremes() {
        let chart = chart();
        let points = (0..1_000_000).map(|index| {
            let peak = if index == 123_456 { 1.0 } else { 0.5 };
            (f64::from(index) * 1e-5, peak)
        });
        let path = chart.line(points);
        assert!(path.len() < 100_000, "{}", path.len());
        assert!(path.contains(&format!(",{}", point(chart.up(1.0)))), "the peak is lost");
        assert!(chart.area(&path).ends_with('Z'));
    }

    #[test]
    fn few_points_stay_what_they_are() {
        let chart = chart();
        let path = chart.line([(0.0, 0.0), (5.0, 1.0), (10.0, 0.0)]);
        let [left, middle, right] = [0.0, 5.0, 10.0].map(|x| point(chart.across(x)));
        let (bottom, top) = (point(chart.up(0.0)), point(chart.up(1.0)));
        assert_eq!(path, format!("M{left},{bottom}L{middle},{top}L{right},{bottom}"));
        assert_eq!(chart.area(&path), format!("{path}L{right},{bottom}L{left},{bottom}Z"));
        assert_eq!(chart.area(&chart.line([])), "");
    }
}
