//! The official suite, every directive, under each row of the test matrix, and once with functions compiled when they
//! are called: a test for each, named by its settings, so that they run side by side and
//! `cargo test -p legato-spec-tests thin-handles` runs some, `... compilation` those that are compiled when called.
//! What the vector instructions compute is the same in every heap: their files run compiled ahead (`vectors`), and when
//! called. The environment variable `LEGATO_SPEC` names a part of the files' names.

use std::process::ExitCode;

use legato::{Compilation, Config, Engine};
use legato_spec_tests::suite;
use legato_test_matrix::{OFFICIAL, Row};
use legato_wast::Counts;
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let eager = |row: Row| {
        Trial::test(row.to_string(), move || run_suite(&row.to_string(), &configuration(&row), suite::files()))
    };
    let mut trials: Vec<_> = OFFICIAL.rows().into_iter().map(eager).collect();
    trials.push(Trial::test("compilation=lazy", || {
        let files = suite::files().into_iter().chain(suite::vector_files());
        let mut config = Config::new();
        run_suite("compilation=lazy", config.compilation(Compilation::Lazy).compiler_verifier(true), files.collect())
    }));
    trials.push(Trial::test("vectors", || {
        run_suite("vectors", Config::new().compiler_verifier(true), suite::vector_files())
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn configuration(row: &Row) -> Config {
    Config::new().heap(row.heap()).clone()
}

fn run_suite(row: &str, config: &Config, all: Vec<suite::File>) -> Result<(), Failed> {
    let mut config = config.clone();
    let engine = Engine::new(&config).expect("an engine");
    let engine_before_multi_memory = Engine::new(config.wasm_multi_memory(false)).expect("an engine");
    let only = std::env::var("LEGATO_SPEC").unwrap_or_default();
    let (mut total, mut files, mut failures) = (Counts::default(), 0, Vec::new());
    for file in all {
        let path = format!("{}/{}", file.group, file.file.name());
        if !path.contains(&only) {
            continue;
        }
        files += 1;
        let engine = if file.multi_memory { &engine } else { &engine_before_multi_memory };
        let counts =
            legato_wast::run(engine, file.file.raw(), |line, error| failures.push(format!("{path}:{line}: {error:#}")));
        match counts {
            Ok(counts) => total += counts,
            Err(error) => failures.push(format!("{path}: {error:#}")),
        }
    }
    println!("official suite ({row}): {files} files, {} directives passed, {} failed", total.passed, total.failed);
    if files == 0 {
        return Err(format!("no file matches LEGATO_SPEC={only}").into());
    }
    if !failures.is_empty() {
        return Err(format!("{} failures:\n{}", failures.len(), failures.join("\n")).into());
    }
    Ok(())
}
