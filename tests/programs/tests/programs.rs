//! Every example program prints what it must, under every heap configuration.

use legato_program_tests::examples::{self, Program};
use legato_program_tests::guest;
use legato_program_tests::matrix::{Row, layouts_and_zeroing, stressed, verified};

/// Runs the programs under each configuration; the number of collections must be at least one in all.
fn check(programs: &[Program], rows: &[Row]) {
    for row in rows {
        let start = std::time::Instant::now();
        let mut collections = 0;
        let mut failures = Vec::new();
        for program in programs {
            match guest::run(&program.module, row.heap()) {
                Ok(ended) => {
                    collections += ended.collections;
                    if ended.output != program.expected {
                        failures.push(format!("{}: {}", program.name, difference(&ended.output, &program.expected)));
                    }
                }
                Err(error) => failures.push(format!("{}: {error:?}", program.name)),
            }
        }
        println!("{:6.1} s, {collections} collections: {}", start.elapsed().as_secs_f64(), row.name);
        assert!(failures.is_empty(), "under `{}`:\n{}", row.name, failures.join("\n"));
        assert!(programs.is_empty() || collections > 0, "under `{}`: no program collected", row.name);
    }
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

#[test]
fn text_programs_verified() {
    check(&examples::text_programs(), &verified());
}

#[test]
fn text_programs_under_stress() {
    check(&examples::text_programs(), &stressed());
}

/// The programs that live by arrays, those in text form first.
const ARRAY_PROGRAMS: [&str; 13] = [
    "wat/matrix",
    "wat/sha256",
    "java/jzlib",
    "java/bzip2",
    "java/images",
    "java/lzw",
    "java/wheel",
    "kotlin/matrix",
    "kotlin/fft",
    "kotlin/sorting",
    "kotlin/builders",
    "kotlin/sha256",
    "kotlin/documents",
];

#[test]
fn array_programs_under_every_layout_and_zeroing_strategy() {
    let compiled = ["java", "kotlin"].map(examples::compiled_programs).concat();
    let names = if compiled.is_empty() { &ARRAY_PROGRAMS[..2] } else { &ARRAY_PROGRAMS[..] };
    let mut programs = [examples::text_programs(), compiled].concat();
    programs.retain(|program| names.contains(&program.name.as_str()));
    assert_eq!(programs.len(), names.len(), "a program has another name");
    check(&programs, &layouts_and_zeroing());
}

#[test]
fn kotlin_programs_verified() {
    check(&examples::compiled_programs("kotlin"), &verified());
}

#[test]
fn kotlin_programs_under_stress() {
    check(&examples::compiled_programs("kotlin"), &stressed());
}

#[test]
fn java_programs_verified() {
    check(&examples::compiled_programs("java"), &verified());
}

#[test]
fn java_programs_under_stress() {
    check(&examples::compiled_programs("java"), &stressed());
}
