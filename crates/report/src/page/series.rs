//! What happened over time in few columns.

/// Columns that a chart over time has room for.
const COLUMNS: usize = 240;

/// Columns for rates of what happens between so many collections: wide enough for several, so that a column is not all
/// pause.
pub(super) fn rate_columns(collections: u64) -> usize {
    (collections / 4).clamp(12, COLUMNS as u64 / 2) as usize
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
