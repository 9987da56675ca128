//! The official suite, every directive, under each heap configuration with `verify` on.

use std::io::Write;

use legato::{Config, Engine, HeapConfig};
use legato_spec_tests::{Counts, script, suite};

fn run_suite(name: &str, heap: &[(&str, &str)]) {
    let mut config = HeapConfig::default();
    for (key, value) in heap.iter().chain(&[("verify", "on")]) {
        config.set(key, value).expect("a valid setting");
    }
    let mut config = Config::new().heap(config).clone();
    let engine = Engine::new(&config).expect("an engine");
    let engine_before_multi_memory = Engine::new(config.wasm_multi_memory(false)).expect("an engine");
    let only = std::env::var("LEGATO_SPEC").unwrap_or_default();
    let (mut total, mut files, mut failures) = (Counts::default(), 0, Vec::new());
    for file in suite::files() {
        let path = format!("{}/{}", file.group, file.file.name());
        if !path.contains(&only) {
            continue;
        }
        files += 1;
        let engine = if file.multi_memory { &engine } else { &engine_before_multi_memory };
        let counts =
            script::run(engine, file.file.raw(), |line, error| failures.push(format!("{path}:{line}: {error:#}")));
        match counts {
            Ok(counts) => total += counts,
            Err(error) => failures.push(format!("{path}: {error:#}")),
        }
    }
    // Past the harness's capture: the counts belong in every log.
    let mut stdout = std::io::stdout().lock();
    for skipped in suite::SKIPPED {
        writeln!(stdout, "official suite ({name}): skipped {}/{}: {}", skipped.group, skipped.file, skipped.reason)
            .unwrap();
    }
    writeln!(
        stdout,
        "official suite ({name}): {files} files, {} directives passed, {} failed",
        total.passed, total.failed
    )
    .unwrap();
    drop(stdout);
    assert!(files > 0, "no file matches LEGATO_SPEC={only}");
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// One test for each heap configuration, so that they run side by side.
macro_rules! configurations {
    ($($test:ident: $($key:literal = $value:literal),+;)+) => { $(
        #[test]
        fn $test() {
            run_suite(&stringify!($test).replace('_', " "), &[$(($key, $value)),+]);
        }
    )+ };
}

configurations! {
    mark_sweep_direct: "collector" = "mark-sweep", "references" = "direct";
    mark_sweep_direct_stress: "collector" = "mark-sweep", "references" = "direct", "stress" = "7";
    mark_sweep_thin_handles: "collector" = "mark-sweep", "references" = "thin-handles";
    mark_sweep_thin_handles_stress: "collector" = "mark-sweep", "references" = "thin-handles", "stress" = "7";
    generational: "collector" = "generational";
    generational_polls: "collector" = "generational", "stress" = "5", "stress-polls" = "on";
    generational_cards_aging: "collector" = "generational", "barrier" = "cards", "aging" = "25", "stress" = "7";
    generational_hot_path_fixed:
        "collector" = "generational", "zeroing" = "hot-path", "nursery" = "64K", "stress" = "7";
    generational_hot_path_appel:
        "collector" = "generational", "zeroing" = "hot-path", "nursery" = "appel", "stress" = "7";
    generational_bulk_fixed:
        "collector" = "generational", "zeroing" = "bulk", "nursery" = "64K", "stress" = "7";
    generational_bulk_appel:
        "collector" = "generational", "zeroing" = "bulk", "nursery" = "appel", "stress" = "7";
    generational_non_temporal_fixed:
        "collector" = "generational", "zeroing" = "non-temporal", "nursery" = "64K", "stress" = "7";
    generational_non_temporal_appel:
        "collector" = "generational", "zeroing" = "non-temporal", "nursery" = "appel", "stress" = "7";
    generational_concurrent_fixed:
        "collector" = "generational", "zeroing" = "concurrent", "nursery" = "64K", "stress" = "7";
    generational_concurrent_appel:
        "collector" = "generational", "zeroing" = "concurrent", "nursery" = "appel", "stress" = "7";
    generational_adaptive_fixed:
        "collector" = "generational", "zeroing" = "adaptive", "nursery" = "64K", "stress" = "7";
    generational_adaptive_appel:
        "collector" = "generational", "zeroing" = "adaptive", "nursery" = "appel", "stress" = "7";
    zrays:
        "arrays" = "zrays", "first-n" = "64", "leaf" = "256", "first-n-grows" = "off", "stress" = "7";
    zrays_copy_on_write:
        "arrays" = "zrays", "first-n" = "64", "leaf" = "256", "copy-on-write" = "on", "first-n-grows" = "off",
        "stress" = "5", "stress-polls" = "on";
    zrays_without_first_n:
        "arrays" = "zrays", "first-n" = "0", "leaf" = "256", "copy-on-write" = "on", "first-n-grows" = "off",
        "nursery" = "64K", "stress" = "7";
    zrays_growing:
        "arrays" = "zrays", "first-n" = "0", "leaf" = "256", "copy-on-write" = "on", "nursery" = "64K", "stress" = "7";
    zrays_growing_mark_sweep:
        "arrays" = "zrays", "first-n" = "64", "leaf" = "256", "collector" = "mark-sweep", "stress" = "7";
    zrays_mark_sweep:
        "arrays" = "zrays", "first-n" = "64", "leaf" = "256", "first-n-grows" = "off",
        "collector" = "mark-sweep", "stress" = "7";
    zrays_thin_handles:
        "arrays" = "zrays", "first-n" = "0", "leaf" = "256", "collector" = "mark-sweep",
        "references" = "thin-handles", "stress" = "7";
    zrays_by_default: "arrays" = "zrays";
    arraylets: "arrays" = "arraylets", "leaf" = "256", "stress" = "7";
    arraylets_lazy_cards:
        "arrays" = "arraylets", "leaf" = "256", "lazy" = "on", "barrier" = "cards", "aging" = "25", "stress" = "7";
    arraylets_thin_handles:
        "arrays" = "arraylets", "leaf" = "256", "collector" = "mark-sweep", "references" = "thin-handles", "stress" = "7";
    double_map:
        "arrays" = "zrays", "first-n" = "0", "leaf" = "64K", "native-views" = "double-map", "stress" = "7";
    double_map_at_allocation:
        "arrays" = "arraylets", "leaf" = "64K", "native-views" = "double-map", "view-creation" = "allocation", "stress" = "7";
    mapped: "arrays" = "mapped", "mapped-from" = "32K", "stress" = "7";
}
