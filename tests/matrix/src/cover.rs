//! Rows from axes: every combination, or so few that all pairs are covered.

use crate::axes::{Axis, Value, find, value};
use crate::row::Row;
use std::collections::HashSet;

/// A row, and which value it has of each axis.
struct Combination {
    row: Row,
    /// The position of its value among those of each axis; none where no value has a say.
    values: Vec<Option<usize>>,
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
    fn extend(axes: &[Axis], row: Row, values: &mut Vec<Option<usize>>, found: &mut Vec<Combination>) {
        let Some(axis) = axes.get(values.len()) else {
            return found.push(Combination { row, values: values.clone() });
        };
        let with = |value: &Value| row.and(value.settings);
        let mut rows: Vec<(Option<usize>, Row)> = Vec::new();
        rows.extend(axis.values.iter().enumerate().filter_map(|(at, value)| Some((Some(at), with(value)?))));
        if rows.is_empty() {
            rows.push((None, row));
        }
        for (value, row) in rows {
            values.push(value);
            extend(axes, row, values, found);
            values.pop();
        }
    }
    let mut found = Vec::new();
    extend(axes, Row::default(), &mut Vec::new(), &mut found);
    found
}

/// All pairs of these axes: takes the first of those combinations that have the most pairs which none before it has,
/// until there is none.
pub(crate) fn cover(axes: &[Axis]) -> Vec<Row> {
    let combinations: Vec<(Row, Vec<Pair>)> =
        combinations(axes).into_iter().map(|found| (found.row, pairs_in(axes, &found.values))).collect();
    let mut covered: HashSet<Pair> = HashSet::new();
    // Of the pairs of each combination at most so many are new: the number only falls.
    let mut bounds: Vec<usize> = combinations.iter().map(|(_, pairs)| pairs.len()).collect();
    let mut rows = Vec::new();
    loop {
        let (mut most, mut best) = (0, 0);
        for (index, bound) in bounds.iter_mut().enumerate() {
            if *bound > most {
                *bound = combinations[index].1.iter().filter(|pair| !covered.contains(*pair)).count();
                if *bound > most {
                    (most, best) = (*bound, index);
                }
            }
        }
        if most == 0 {
            return rows;
        }
        covered.extend(&combinations[best].1);
        rows.push(combinations[best].0.clone());
    }
}

/// Two values of a row, each a number that no other value of any axis has.
type Pair = [u16; 2];

/// The pairs of a row with these values, each a position among those of its axis. A row of one value has it twice.
fn pairs_in(axes: &[Axis], values: &[Option<usize>]) -> Vec<Pair> {
    let own: Vec<(&Axis, u16)> = (0u16..)
        .zip(axes.iter().zip(values))
        .filter_map(|(at, (axis, value))| Some((axis, at << 8 | (*value)? as u16)))
        .collect();
    let counts = |one: &Axis, other: &Axis| one.name == "collector" || one.is_parameter == other.is_parameter;
    let mut pairs = Vec::new();
    for (nth, (axis, value)) in own.iter().enumerate() {
        pairs.push([*value, *value]);
        let others = own[nth + 1..].iter().filter(|(other, _)| counts(axis, other));
        pairs.extend(others.map(|(_, other)| [*value, *other]));
    }
    pairs
}
