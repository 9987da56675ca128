//! Rows from axes: every combination, or so few that all pairs are covered.

use crate::axes::{Axis, find, value};
use crate::row::Row;

/// A row, and which values it has.
struct Combination {
    row: Row,
    values: Values,
}

/// Every combination of the values of these axes, in their order; the last axis changes fastest.
///
/// # Panics
/// If there is no axis of a name.
pub fn product(axes: &[&str]) -> Vec<Row> {
    combinations(&named(axes)).into_iter().map(|combination| combination.row).collect()
}

/// Rows such that every two values of two of these axes that can stand in one row do in one of them. The modes, each
/// `KEY=VALUE,...`, are the values of one axis more, if there are any.
///
/// # Panics
/// If there is no axis of a name.
pub fn pairs(axes: &[&str], modes: &[&'static str]) -> Vec<Row> {
    let mut axes = named(axes);
    axes.push(own("mode", modes));
    cover(&axes)
}

/// An axis that is not one of [`AXES`](crate::AXES).
pub(crate) fn own(name: &'static str, values: &[&'static str]) -> Axis {
    Axis { name, values: values.iter().copied().map(value).collect(), is_parameter: false }
}

fn named(names: &[&str]) -> Vec<Axis> {
    names.iter().map(|name| find(name).clone()).collect()
}

/// Every combination that counts.
fn combinations(axes: &[Axis]) -> Vec<Combination> {
    /// Of the values behind `first`, those of the first of `axes` begin.
    fn extend(axes: &[Axis], first: usize, so_far: Combination, found: &mut Vec<Combination>) {
        let Some((axis, axes)) = axes.split_first() else { return found.push(so_far) };
        let before = found.len();
        for (value, number) in axis.values.iter().zip(first..) {
            if let Some(row) = so_far.row.and(value.settings) {
                let values = so_far.values | 1 << number;
                extend(axes, first + axis.values.len(), Combination { row, values }, found);
            }
        }
        // No value has a say.
        if found.len() == before {
            extend(axes, first + axis.values.len(), so_far, found);
        }
    }
    let mut found = Vec::new();
    extend(axes, 0, Combination { row: Row::default(), values: 0 }, &mut found);
    found
}

/// All pairs of these axes: takes the first of those combinations that have the most pairs which none before it has,
/// until there is none.
pub(crate) fn cover(axes: &[Axis]) -> Vec<Row> {
    let combinations = combinations(axes);
    let mut pairs = Pairs::of(axes);
    // Of the pairs of each combination at most so many are new: the number only falls.
    let mut bounds: Vec<u32> = combinations.iter().map(|found| pairs.new_in(found.values)).collect();
    let mut rows = Vec::new();
    loop {
        let (mut most, mut best) = (0, 0);
        for (index, bound) in bounds.iter_mut().enumerate() {
            if *bound > most {
                *bound = pairs.new_in(combinations[index].values);
                if *bound > most {
                    (most, best) = (*bound, index);
                }
            }
        }
        if most == 0 {
            return rows;
        }
        pairs.cover(combinations[best].values);
        rows.push(combinations[best].row.clone());
    }
}

/// Values of axes: a bit for each, in the order of [`numbered`].
type Values = u128;

/// The values of all axes, with their axes.
fn numbered(axes: &[Axis]) -> impl Iterator<Item = (usize, &Axis)> {
    axes.iter().flat_map(|axis| axis.values.iter().map(move |_| axis)).enumerate()
}

/// The pairs that are still to be covered: for each value its partners among those behind it. Itself is one of them, so
/// that a row of one value has a pair.
struct Pairs(Vec<Values>);

impl Pairs {
    fn of(axes: &[Axis]) -> Pairs {
        let counts = |one: &Axis, other: &Axis| one.name == "collector" || one.is_parameter == other.is_parameter;
        let partners = |(value, axis): (usize, &Axis)| {
            let behind = numbered(axes).filter(|(other, of)| *other >= value && counts(axis, of));
            behind.map(|(other, _)| 1 << other).fold(0, |all, one: Values| all | one)
        };
        Pairs(numbered(axes).map(partners).collect())
    }

    /// How many of a row's pairs are to be covered.
    fn new_in(&self, row: Values) -> u32 {
        bits(row).map(|value| (self.0[value] & row).count_ones()).sum()
    }

    /// Takes a row's pairs away.
    fn cover(&mut self, row: Values) {
        bits(row).for_each(|value| self.0[value] &= !row);
    }
}

/// The numbers of the bits that are set.
fn bits(mut values: Values) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (values != 0).then_some(values.trailing_zeros() as usize)?;
        values &= values - 1;
        Some(lowest)
    })
}
