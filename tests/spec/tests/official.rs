//! The official suite, every directive, under each reference model with `verify` on.

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

#[test]
fn direct() {
    run_suite("direct", &[("references", "direct")]);
}

#[test]
fn thin_handles() {
    run_suite("thin-handles", &[("references", "thin-handles")]);
}

#[test]
fn direct_under_stress() {
    run_suite("direct, stress", &[("references", "direct"), ("stress", "7")]);
}

#[test]
fn thin_handles_under_stress() {
    run_suite("thin-handles, stress", &[("references", "thin-handles"), ("stress", "7")]);
}
