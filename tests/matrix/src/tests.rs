use super::*;
use legato_heap::{Arrays, Collector, HeapConfig, NativeViews, References, Sizing, ViewCreation, Zeroing};
use std::collections::HashSet;
use std::sync::LazyLock;

const SUITES: [Suite; 4] = [OFFICIAL, PROGRAMS, FUZZ_COLLECTIONS, FUZZ];
/// The files under `rows/` that keep their rows.
const FILES: [&str; 4] = ["official", "programs", "fuzz_collections", "fuzz"];
static ROWS: LazyLock<[Vec<Row>; 4]> = LazyLock::new(|| {
    std::thread::scope(|scope| {
        let made = SUITES.map(|suite| scope.spawn(move || suite.made()));
        made.map(|rows| rows.join().unwrap())
    })
});

/// Every parameter of every row.
fn parameters(rows: &[Row]) -> Vec<HashSet<(&'static str, String)>> {
    rows.iter().map(|row| row.heap().settings().into_iter().collect()).collect()
}

/// The settings in a text.
fn split(settings: &'static str) -> impl Iterator<Item = (&'static str, String)> {
    settings.split(',').filter_map(|one| one.split_once('=')).map(|(key, value)| (key, value.to_string()))
}

fn names<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> Vec<&'static str> {
    all.iter().copied().map(name).collect()
}

#[test]
fn every_value_that_the_heap_knows_is_in_every_suite() {
    let known = [
        ("collector", names(Collector::ALL, Collector::name)),
        ("references", names(References::ALL, References::name)),
        ("arrays", names(Arrays::ALL, Arrays::name)),
        ("native-views", names(NativeViews::ALL, NativeViews::name)),
        ("view-creation", names(ViewCreation::ALL, ViewCreation::name)),
        ("zeroing", names(Zeroing::ALL, Zeroing::name)),
        ("sizing", names(Sizing::ALL, Sizing::name)),
    ];
    for (suite, rows) in SUITES.iter().zip(ROWS.iter()) {
        let rows = parameters(rows);
        let known = known.iter().filter(|(key, _)| suite.has(key));
        for (key, value) in known.flat_map(|(key, values)| values.iter().map(move |value| (key, value))) {
            if !suite.has(&format!("{key}={value}")) {
                continue;
            }
            let has = rows.iter().any(|row| row.contains(&(*key, value.to_string())));
            assert!(has, "{key}={value} is in no row: add it to AXES");
        }
        let axes = AXES.iter().filter(|axis| suite.has(axis.name));
        for value in axes.flat_map(|axis| axis.values.iter()).filter(|value| suite.has(value.settings)) {
            let own = match value.settings {
                "nursery=64K" => suite.nursery,
                _ => suite.sized(value),
            };
            assert!(rows.iter().any(|row| split(own).all(|setting| row.contains(&setting))), "{own}");
        }
    }
}

#[test]
fn every_key_is_in_the_matrix() {
    // Sizes and modes, which suites set.
    let mut keys = HashSet::from(["max", "min", "growth", "verify", "verify-after", "stress", "stress-polls"]);
    let values = AXES.iter().flat_map(|axis| axis.values.iter());
    keys.extend(values.flat_map(|value| split(value.settings)).map(|(key, _)| key));
    for (key, _) in parameters(&ROWS[0]).iter().flatten() {
        assert!(keys.contains(key), "no row sets {key}: make it an axis, or a parameter of a value");
    }
}

#[test]
fn every_two_values_that_go_together_stand_in_one_row() {
    let rows = parameters(&ROWS[0]);
    let axes: Vec<&Axis> = AXES.iter().filter(|axis| !axis.is_parameter).collect();
    let mut together = 0;
    for (nth, one) in axes.iter().enumerate() {
        for (a, other) in one.values.iter().flat_map(|a| axes[nth + 1..].iter().map(move |other| (a, other))) {
            for b in other.values.iter() {
                let Some(pair) = product(&[]).remove(0).and(a.settings).and_then(|row| row.and(b.settings)) else {
                    continue;
                };
                together += 1;
                // A leaf of 64 KiB takes the place of a smaller one.
                let settings = [a, b].into_iter().flat_map(|value| split(value.settings));
                let pair = pair.heap().settings();
                let settings: Vec<_> = settings.filter(|one| one.0 != "leaf" && pair.contains(one)).collect();
                let stands = rows.iter().any(|row| settings.iter().all(|setting| row.contains(setting)));
                assert!(stands, "{} with {}", a.settings, b.settings);
            }
        }
    }
    assert!(together > 100);
}

#[test]
fn rows_are_heaps_that_their_names_make() {
    for rows in ROWS.iter() {
        let names: HashSet<String> = rows.iter().map(Row::to_string).collect();
        assert_eq!(names.len(), rows.len(), "a row is there twice");
        for row in rows {
            let mut heap = HeapConfig::default();
            for (key, value) in row.settings() {
                heap.set(key, value).unwrap();
            }
            heap.validate().unwrap();
            assert_eq!(heap.settings(), row.heap().settings(), "{row}");
        }
    }
}

/// Tests take as long as there are rows: a line in `AXES` that makes many more should do so knowingly.
#[test]
fn rows_are_made_from_the_axes() {
    for ((suite, file), made) in SUITES.iter().zip(FILES).zip(ROWS.iter()) {
        let names: String = made.iter().map(|row| format!("{row}\n")).collect();
        if std::env::var_os("LEGATO_BLESS").is_some() {
            std::fs::write(format!("{}/rows/{file}.txt", env!("CARGO_MANIFEST_DIR")), names).unwrap();
            continue;
        }
        let kept = suite.rows();
        assert_eq!(names, suite.kept, "{file}: run with LEGATO_BLESS=1 if this is meant");
        assert!(made.iter().map(|row| row.heap().settings()).eq(kept.iter().map(|row| row.heap().settings())));
    }
}

#[test]
fn products_have_every_combination_that_is_a_heap() {
    let rows = product(&["collector", "references"]);
    let names: Vec<String> = rows.iter().map(Row::to_string).collect();
    let with = |collector: &'static str, models: &[&str]| {
        let others = models.iter().map(move |model| format!("collector={collector},references={model}"));
        [format!("collector={collector}")].into_iter().chain(others).collect::<Vec<_>>()
    };
    let handles = ["thin-handles", "fat-handles", "uni-handles"];
    let expected = [
        vec!["default".to_string()],
        with("mark-sweep", &handles),
        with("realtime", &[&["brooks", "replicating"], &handles[..]].concat()),
        with("snapshot", &["thin-handles"]),
    ];
    assert_eq!(names, expected.concat());
    assert!(rows[0].and("nursery=64K").is_some() && rows[1].and("nursery=64K").is_none(), "which has no nursery");
    assert_eq!(rows[1].with("verify=on").with("verify=off").to_string(), "collector=mark-sweep");
    // A smaller list of axes, none of which is the collector.
    assert!(pairs(&["arrays", "zeroing"], &[]).len() >= 25);
    assert_eq!(pairs(&["sizing"], &["verify=on", "stress=1"]).len(), 8);
}

#[test]
fn what_is_measured_is_a_heap() {
    for axis in AXES {
        let values: Vec<&Measured> = measured(axis.name).collect();
        assert!(values.is_empty() || values.len() >= axis.values.len(), "every value of {} or none", axis.name);
        values.iter().for_each(|value| _ = product(&[])[0].with(value.settings));
    }
}

#[test]
fn every_setting_of_a_row_meets_every_part() {
    let rows = PROGRAMS.rows();
    for parts in 1..5 {
        let dealt = deal(&rows, parts);
        for setting in parameters(&rows).into_iter().flatten() {
            let having = rows.iter().zip(&dealt).filter(|(row, _)| row.heap().settings().contains(&setting));
            let met: HashSet<usize> = having.flat_map(|(_, dealt)| dealt.iter().copied()).collect();
            assert_eq!(met, (0..parts).collect(), "{setting:?}");
        }
        let most = rows.len() + rows.len() / 4 * (parts - 1);
        assert!(dealt.iter().map(|dealt| dealt.len()).sum::<usize>() <= most, "{dealt:?}");
    }
}
