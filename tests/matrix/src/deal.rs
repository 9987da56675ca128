//! Parts of a suite, dealt to its rows.

use std::collections::BTreeSet;

use crate::row::Row;

/// For each row which of so many parts of a suite run under it: one, and others where settings of it would meet them
/// nowhere. So every setting meets every part, as it would a value of one axis more.
pub fn deal(rows: &[Row], parts: usize) -> Vec<BTreeSet<usize>> {
    let settings: Vec<BTreeSet<_>> = rows.iter().map(|row| row.heap().settings().into_iter().collect()).collect();
    // The settings that have met each part.
    let mut met = vec![BTreeSet::new(); parts];
    let mut dealt = vec![BTreeSet::new(); rows.len()];
    for (row, dealt) in dealt.iter_mut().enumerate() {
        // Parts that are equally new to the row take turns.
        let turns = (0..parts).map(|turn| (row + turn) % parts);
        let Some(part) = turns.min_by_key(|&part| settings[row].intersection(&met[part]).count()) else { continue };
        met[part].extend(settings[row].iter().cloned());
        dealt.insert(part);
    }
    for (row, dealt) in dealt.iter_mut().enumerate().rev() {
        for (part, met) in met.iter_mut().enumerate().filter(|(_, met)| !settings[row].is_subset(met)) {
            met.extend(settings[row].iter().cloned());
            dealt.insert(part);
        }
    }
    dealt
}
