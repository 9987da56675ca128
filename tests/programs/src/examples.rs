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

/// The languages that are compiled, and the commands that this takes.
const COMPILED: [(&str, &[&str]); 3] =
    [("kotlin", &["javac", "mvn"]), ("java", &["javac", "mvn"]), ("moonbit", &["node", "npm"])];

/// The programs of a language: `wat`, `kotlin`, `java` or `moonbit`. Compiles what has changed first.
///
/// Without a JDK and Maven there are none in Kotlin and Java, without Node.js none in MoonBit, and the reason is printed;
/// where the environment variable `CI` is set, that is a failure.
pub fn programs(language: &str) -> Vec<Program> {
    if language == "wat" {
        return collect(&folder().join("wat"), "wat", "wat");
    }
    static BUILT: OnceLock<Vec<&str>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let mut languages = Vec::new();
        for (language, commands) in COMPILED {
            match commands.iter().find(|command| !has(command)) {
                Some(missing) => {
                    assert!(std::env::var_os("CI").is_none(), "CI must have the command {missing}");
                    eprintln!("no command {missing}: the programs in {language} are not run");
                }
                None => languages.push(language),
            }
        }
        if !languages.is_empty() {
            let status = Command::new(folder().join("build")).args(&languages).status();
            assert!(status.expect("examples/build can be started").success(), "examples/build failed");
        }
        languages
    });
    if !built.contains(&language) {
        return Vec::new();
    }
    let programs = collect(&folder().join("out").join(language), language, "wasm");
    assert!(!programs.is_empty(), "examples/build made no {language} program");
    programs
}

fn has(command: &str) -> bool {
    // The JDK knows it with one dash, Node.js with two, npm and Maven with both.
    let version = if matches!(command, "node" | "npm") { "--version" } else { "-version" };
    Command::new(command).arg(version).output().is_ok_and(|output| output.status.success())
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
