//! What happened over time, in a bounded number of columns.

use std::time::Duration;

use crate::mmu::nanoseconds;

/// Columns there are at most.
pub(crate) const MOST_COLUMNS: usize = 512;
/// Width of the columns at first, in nanoseconds.
const FIRST_WIDTH: u64 = 1 << 16;

/// What is in a column, and can become a part of a wider one.
pub(crate) trait Merge: Default {
    /// Takes in what happened next.
    fn merge(&mut self, next: Self);
}

/// Columns of equal width from the start on. When time runs out of them, each two become one.
#[derive(Clone, Debug)]
pub(crate) struct Columns<T> {
    width: u64,
    columns: Vec<T>,
}

impl<T: Merge> Columns<T> {
    pub(crate) fn new() -> Columns<T> {
        Columns { width: FIRST_WIDTH, columns: Vec::new() }
    }

    /// The column of a time.
    pub(crate) fn at(&mut self, time: Duration) -> &mut T {
        let index = self.index(nanoseconds(time));
        &mut self.columns[index]
    }

    /// Spreads something evenly from a time to another: `add` is called with each column between, and its share.
    pub(crate) fn spread(&mut self, from: Duration, to: Duration, mut add: impl FnMut(&mut T, f64)) {
        let (from, to) = (nanoseconds(from), nanoseconds(to.max(from)));
        // The last first, since columns may become wider.
        let last = self.index(to);
        let first = self.index(from);
        for index in first..=last {
            let left = (index as u64 * self.width).max(from);
            let right = if index == last { to } else { (index as u64 + 1) * self.width };
            let share = if to == from { 1.0 } else { (right - left) as f64 / (to - from) as f64 };
            add(&mut self.columns[index], share);
        }
    }

    fn index(&mut self, time: u64) -> usize {
        while time / self.width >= MOST_COLUMNS as u64 {
            let mut narrow = std::mem::take(&mut self.columns).into_iter();
            while let Some(mut column) = narrow.next() {
                column.merge(narrow.next().unwrap_or_default());
                self.columns.push(column);
            }
            self.width *= 2;
        }
        let index = (time / self.width) as usize;
        if index >= self.columns.len() {
            self.columns.resize_with(index + 1, T::default);
        }
        index
    }

    /// Each column, with where it begins and ends, in seconds.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (f64, f64, &T)> {
        let width = self.width as f64 / 1e9;
        self.columns.iter().enumerate().map(move |(index, column)| {
            let from = index as f64 * width;
            (from, from + width, column)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sum, and the order in which it came together.
    #[derive(Clone, Default, Debug)]
    struct Sum(f64, Vec<u64>);

    impl Merge for Sum {
        fn merge(&mut self, next: Sum) {
            self.0 += next.0;
            self.1.extend(next.1);
        }
    }

    #[test]
    fn few_columns_hold_all_in_its_order() {
        let mut columns = Columns::<Sum>::new();
        for number in 0..100_000u64 {
            let column = columns.at(Duration::from_micros(number * number / 100));
            column.0 += 1.0;
            column.1.push(number);
        }
        assert!(columns.columns.len() <= MOST_COLUMNS && columns.columns.len() > MOST_COLUMNS / 2);
        assert_eq!(columns.iter().map(|(_, _, sum)| sum.0).sum::<f64>(), 100_000.0);
        assert!(columns.iter().flat_map(|(_, _, sum)| &sum.1).is_sorted());
        for (from, to, sum) in columns.iter() {
            let mut times = sum.1.iter().map(|number| (number * number / 100) as f64 / 1e6);
            // Up to rounding.
            assert!(times.all(|time| time > from - 1e-9 && time < to + 1e-9), "{from} to {to}: {sum:?}");
        }
    }

    #[test]
    fn nothing_is_lost_by_spreading() {
        let mut columns = Columns::<Sum>::new();
        let ms = Duration::from_millis;
        for (from, to, amount) in [(0, 500, 10.0), (500, 500, 1.0), (700, 9990, 100.0), (9990, 9000, 4.0)] {
            columns.spread(ms(from), ms(to), |column, share| column.0 += amount * share);
        }
        let sum = |low, high| {
            columns.iter().filter(|(from, ..)| (low..high).contains(from)).map(|(_, _, sum)| sum.0).sum::<f64>()
        };
        assert!((sum(0.0, 20.0) - 115.0).abs() < 1e-9);
        assert!((sum(5.0, 6.0) - 100.0 / 9.29).abs() < 0.3, "{}", sum(5.0, 6.0));
    }
}
