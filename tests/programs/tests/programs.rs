//! Every example program prints what it must, under rows of the test matrix, and once with functions compiled when
//! they are called: a test for each language and row, so that `cargo test -p legato-program-tests wat` or
//! `... thin-handles` runs some. Every setting of the matrix meets the programs of every language.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use legato_program_tests::{examples, guest, guest::Ended};
use legato_test_matrix::{PROGRAMS, deal};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let rows = PROGRAMS.rows();
    let mut trials = Vec::new();
    for (row, parts) in rows.iter().zip(deal(&rows, LANGUAGES.len())) {
        for language in parts.into_iter().map(|part| LANGUAGES[part]) {
            let row = row.clone();
            trials.push(Trial::test(format!("{language} under {row}"), move || {
                check(language, &row.to_string(), |path| guest::run(path, row.heap()))
            }));
        }
    }
    let lazy = "compilation=lazy";
    for language in LANGUAGES {
        let lazily = move || check(language, lazy, guest::run_lazily);
        trials.push(Trial::test(format!("{language} under {lazy}"), lazily));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The languages of the programs. A row runs those of one, and of others where a setting of it would meet them under no
/// other row.
const LANGUAGES: [&str; 4] = ["wat", "java", "kotlin", "moonbit"];

/// Runs the programs of a language by `run`; the number of collections must be at least one in all.
fn check(language: &str, row: &str, run: impl Fn(&Path) -> anyhow::Result<Ended>) -> Result<(), Failed> {
    let start = Instant::now();
    let programs = examples::programs(language);
    let mut collections = 0;
    let mut failures = Vec::new();
    for program in &programs {
        match run(&program.module) {
            Ok(ended) => {
                collections += ended.collections;
                if ended.output != program.expected {
                    failures.push(format!("{}: {}", program.name, difference(&ended.output, &program.expected)));
                }
            }
            Err(error) => failures.push(format!("{}: {error:?}", program.name)),
        }
    }
    println!("{language}, {:6.1} s, {collections} collections: {row}", start.elapsed().as_secs_f64());
    if failures.is_empty() && !programs.is_empty() && collections == 0 {
        failures.push("no program collected".to_string());
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

/// Names the first line that differs.
fn difference(actual: &[u8], expected: &[u8]) -> String {
    let (actual, expected) = (String::from_utf8_lossy(actual), String::from_utf8_lossy(expected));
    let (mut actual, mut expected) = (actual.lines(), expected.lines());
    for line in 1.. {
        match (actual.next(), expected.next()) {
            (None, None) => break,
            (a, b) if a == b => {}
            (a, b) => return format!("line {line} is {a:?}, expected {b:?}"),
        }
    }
    "line ends differ".to_string()
}
