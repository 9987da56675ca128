//! `legato-lab fuzz-collections`: some programs under all heap configurations together, and what it says of a failure.

use std::path::Path;
use std::process::{Command, Output};

fn fuzz(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_legato-lab"));
    command.arg("fuzz-collections").args(arguments).arg("--save").arg(folder).output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn programs_do_the_same_under_every_heap() {
    let folder = tempfile::tempdir().unwrap();
    let output = fuzz(folder.path(), &["--seed", "1", "--count", "40"]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("40 programs from seed 1"), "{}", text(&output));
}

#[test]
fn a_program_that_never_ends_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let module = folder.path().join("endless.wat");
    let text_of_module = r#"(module
        (global (export "sum") (mut i64) (i64.const 0))
        (global (export "fuel") (mut i32) (i32.const 0))
        (func (export "nests") (result i64) (loop (br 0)) (unreachable)))"#;
    std::fs::write(&module, text_of_module).unwrap();
    let output = fuzz(folder.path(), &["--module", module.to_str().unwrap(), "--timeout", "1"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("gave no answer within 1 s"), "{}", text(&output));
}

#[test]
fn a_wrong_heap_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let output = fuzz(folder.path(), &["--heap", "nursery=plenty"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("nursery"), "{}", text(&output));
}
