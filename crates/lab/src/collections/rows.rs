//! The heap configurations under which programs run.

use crate::random::Random;

/// The configuration that no program collects under: what it does is right by definition.
pub const ORACLE: &str = "collector=mark-sweep,min=2G,max=4G";

/// The first runs with each program, the others with some.
pub const ROWS: [&str; 32] = [
    "nursery=64K",
    "nursery=64K,stress=1",
    "nursery=64K,stress=2",
    "nursery=64K,stress=3",
    "nursery=64K,stress=7",
    "nursery=64K,stress=5,stress-polls=on",
    "nursery=64K,stress=29,verify=on",
    "nursery=64K,verify=on",
    "nursery=64K,barrier=cards,stress=5",
    "nursery=64K,barrier=cards,aging=25,stress=31,verify=on",
    "nursery=64K,aging=25",
    "nursery=appel,min=256K,stress=5",
    "nursery=appel,min=256K,aging=25,barrier=cards",
    "nursery=64K,zeroing=hot-path,stress=7",
    "nursery=64K,zeroing=bulk,stress=7",
    "nursery=64K,zeroing=non-temporal,stress=7",
    "nursery=64K,zeroing=concurrent,stress=7",
    "nursery=64K,zeroing=adaptive",
    "nursery=64K,arrays=zrays,first-n=0,leaf=256,stress=5",
    "nursery=64K,arrays=zrays,first-n=0,leaf=256,copy-on-write=on",
    "nursery=64K,arrays=zrays,first-n=64,first-n-grows=off,leaf=256,stress=5",
    "nursery=64K,arrays=zrays,first-n=64,first-n-grows=off,leaf=256,copy-on-write=on,stress=3,stress-polls=on",
    "nursery=64K,arrays=arraylets,leaf=256,lazy=off,stress=5",
    "nursery=64K,arrays=arraylets,leaf=256,lazy=on,barrier=cards,aging=25,stress=3",
    "nursery=64K,arrays=mapped,mapped-from=32K,stress=5",
    "nursery=64K,arrays=zrays,first-n=0,leaf=64K,native-views=double-map,stress=5",
    "collector=mark-sweep,references=direct,min=256K,stress=3",
    "collector=mark-sweep,references=thin-handles,min=256K,stress=3",
    "collector=mark-sweep,references=thin-handles,arrays=zrays,first-n=0,first-n-grows=off,leaf=256,stress=5",
    "collector=mark-sweep,arrays=arraylets,leaf=256,stress=37,verify=on",
    "collector=snapshot,min=256K,stress=3",
    "collector=snapshot,arrays=zrays,first-n=64,leaf=256,copy-on-write=on,min=256K,stress=7",
];

/// Rows besides the first that a program runs under.
const SOME: usize = 2;

/// The rows for the program of a seed: the first, and some that follow from the seed. Every row has its turn.
pub fn selection(seed: u64) -> Vec<String> {
    let others = ROWS.len() - 1;
    let first = seed as usize % others;
    // The others lie at distances that change from round to round.
    let mut random = Random::new(seed / others as u64);
    let mut rows = vec![ROWS[0].to_string()];
    let mut position = first;
    for _ in 0..SOME {
        rows.push(ROWS[1 + position % others].to_string());
        position += 1 + random.below(others / SOME);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_configuration() {
        for row in ROWS.iter().chain([&ORACLE]) {
            let options: Vec<String> = row.split(',').map(str::to_string).collect();
            let config = crate::engines::legato_config(&options).unwrap_or_else(|error| panic!("{row}: {error:#}"));
            config.heap_config().validate().unwrap_or_else(|error| panic!("{row}: {error}"));
        }
    }

    #[test]
    fn every_row_has_its_turn() {
        let mut seen = std::collections::HashMap::new();
        for seed in 0..500 {
            let rows = selection(seed);
            assert_eq!(rows.len(), 1 + SOME);
            rows.into_iter().for_each(|row| *seen.entry(row).or_insert(0) += 1);
        }
        assert_eq!(seen.len(), ROWS.len());
        assert!(seen.values().all(|&times| times > 20), "{seen:?}");
    }
}
