//! The heap configurations under which programs run.

use crate::random::Random;
use legato_test_matrix::FUZZ_COLLECTIONS;
use std::sync::LazyLock;

/// The configuration that no program collects under: what it does is right by definition.
pub const ORACLE: &str = "collector=mark-sweep,min=2G,max=4G";

/// The rows of the test matrix. The first runs with each program, the others with some.
pub static ROWS: LazyLock<Vec<String>> =
    LazyLock::new(|| FUZZ_COLLECTIONS.rows().iter().map(ToString::to_string).collect());

/// Rows besides the first that a program runs under.
const SOME: usize = 2;

/// The rows for the program of a seed: the first, and some that follow from the seed. Every row has its turn.
pub fn selection(seed: u64) -> Vec<String> {
    let others = ROWS.len() - 1;
    let first = seed as usize % others;
    // The others lie at distances that change from round to round.
    let mut random = Random::new(seed / others as u64);
    let mut rows = vec![ROWS[0].clone()];
    let mut position = first;
    for _ in 0..SOME {
        rows.push(ROWS[1 + position % others].clone());
        position += 1 + random.below(others / SOME);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oracle_is_a_configuration() {
        let options: Vec<String> = ORACLE.split(',').map(str::to_string).collect();
        crate::engines::legato_config(&options).unwrap().heap_config().validate().unwrap();
    }

    #[test]
    fn every_row_has_its_turn() {
        let mut seen = std::collections::HashMap::new();
        const PROGRAMS: u64 = 500;
        for seed in 0..PROGRAMS {
            let rows = selection(seed);
            assert_eq!(rows.len(), 1 + SOME);
            rows.into_iter().for_each(|row| *seen.entry(row).or_insert(0) += 1);
        }
        assert_eq!(seen.len(), ROWS.len());
        let fair = PROGRAMS as usize * SOME / (ROWS.len() - 1);
        assert!(seen.values().all(|&times| times >= fair * 9 / 10), "{fair} each, but {seen:?}");
    }
}
