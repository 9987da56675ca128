//! Many collections in few columns of time.

use legato_heap::GcEvent;

/// Columns that a chart over time has room for.
pub(super) const COLUMNS: usize = 240;

/// When the collection began, in seconds.
pub(super) fn start(event: &GcEvent) -> f64 {
    event.start.as_secs_f64()
}

/// When it ended.
pub(super) fn end(event: &GcEvent) -> f64 {
    (event.start + event.pause).as_secs_f64()
}

/// The collections that began in each column of time, empty columns left out: from, to (seconds), collections.
pub(super) fn columns(events: &[GcEvent], wall: f64) -> impl Iterator<Item = (f64, f64, &[GcEvent])> {
    let width = wall / COLUMNS as f64;
    let column = move |event: &GcEvent| ((start(event) / width) as usize).min(COLUMNS - 1);
    events.chunk_by(move |a, b| column(a) == column(b)).map(move |group| {
        let from = column(&group[0]) as f64 * width;
        (from, from + width, group)
    })
}

/// Columns for rates of what happens between collections: wide enough for several, so that a column is not all pause.
pub(super) fn rate_columns(events: &[GcEvent]) -> usize {
    (events.len() / 4).clamp(12, COLUMNS / 2)
}

/// Spreads amounts evenly over their spans of time (from, to, amount), and sums what falls into each of so many
/// columns: an amount per second for each.
pub(super) fn rates(spans: impl IntoIterator<Item = (f64, f64, f64)>, wall: f64, columns: usize) -> Vec<f64> {
    let width = wall / columns as f64;
    let mut sums = vec![0.0; columns];
    for (from, to, amount) in spans {
        let to = to.max(from);
        let first = ((from / width) as usize).min(columns - 1);
        let last = ((to / width) as usize).min(columns - 1);
        if first == last {
            sums[first] += amount;
            continue;
        }
        for (column, sum) in sums.iter_mut().enumerate().take(last + 1).skip(first) {
            let left = (column as f64 * width).max(from);
            // The last column takes what lies beyond it.
            let right = if column == last { to } else { (column + 1) as f64 * width };
            *sum += amount * (right - left).max(0.0) / (to - from);
        }
    }
    sums.iter().map(|sum| sum / width).collect()
}

/// The spans between collections, from the end of one to the start of the next, with an amount of each event.
pub(super) fn between(events: &[GcEvent], amount: impl Fn(&GcEvent) -> f64) -> impl Iterator<Item = (f64, f64, f64)> {
    let mut last_end = 0.0;
    events.iter().map(move |event| {
        let span = (last_end, start(event), amount(event));
        last_end = end(event);
        span
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_by_spreading() {
        let spans = [(0.0, 0.5, 10.0), (0.5, 0.5, 1.0), (0.7, 9.99, 100.0), (9.99, 12.0, 4.0)];
        let rates = rates(spans, 10.0, 100);
        let sum: f64 = rates.iter().map(|rate| rate * 0.1).sum();
        assert!((sum - 115.0).abs() < 1e-9, "{sum}");
        assert!((rates[3] - 20.0).abs() < 1e-9, "{}", rates[3]);
    }
}
