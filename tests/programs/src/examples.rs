//! Finds the example programs and what they must print.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A program and its expected output.
#[derive(Clone)]
pub struct Program {
    /// `language/name`.
    pub name: String,
    /// The module, binary or text.
    pub module: PathBuf,
    /// What it must print.
    pub expected: Vec<u8>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().expect("the folder examples/")
}

/// The programs of a language: `wat`, `kotlin` or `java`. Compiles what has changed first.
///
/// Without a JDK and Maven there are none in Kotlin and Java, and the reason is printed; where the environment variable
/// `CI` is set, that is a failure.
pub fn programs(language: &str) -> Vec<Program> {
    if language == "wat" {
        return collect(&folder().join("wat"), "wat", "wat");
    }
    static BUILT: OnceLock<bool> = OnceLock::new();
    let built = *BUILT.get_or_init(|| {
        if !has("javac") || !has("mvn") {
            assert!(std::env::var_os("CI").is_none(), "CI must have a JDK and Maven");
            eprintln!("no JDK or no Maven: the Kotlin and Java programs are not run");
            return false;
        }
        let status = Command::new(folder().join("build")).status().expect("examples/build can be started");
        assert!(status.success(), "examples/build failed");
        true
    });
    if !built {
        return Vec::new();
    }
    let programs = collect(&folder().join("out").join(language), language, "wasm");
    assert!(!programs.is_empty(), "examples/build made no {language} program");
    programs
}

fn has(command: &str) -> bool {
    Command::new(command).arg("-version").output().is_ok_and(|output| output.status.success())
}

fn collect(folder: &Path, language: &str, extension: &str) -> Vec<Program> {
    let mut programs = Vec::new();
    for entry in folder.read_dir().unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let module = entry.expect("a readable folder").path();
        let stem = module.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_string();
        // `NAME.opt.wasm` is the same program after another optimiser.
        if module.extension().is_none_or(|found| found != extension) || stem.ends_with(".opt") {
            continue;
        }
        let expected = module.with_extension("expected");
        let expected = std::fs::read(&expected).unwrap_or_else(|error| panic!("{}: {error}", expected.display()));
        programs.push(Program { name: format!("{language}/{stem}"), module, expected });
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    programs
}
