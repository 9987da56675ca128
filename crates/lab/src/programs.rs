//! The example programs that allocate or live by arrays, and their sizes for a measurement.

use crate::engines::TEAVM_HEAP_OFFSET;
use anyhow::{Context, ensure};
use serde::Deserialize;
use std::path::Path;

/// A program by its place among the examples.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// `kotlin`, `java` or `moonbit`.
    pub language: &'static str,
    /// Name of the folder and of the module.
    pub name: &'static str,
    /// Arguments of a measurement. Without arguments the program does the little work of which the expected output is
    /// known.
    pub arguments: &'static [&'static str],
}

const fn kotlin(name: &'static str, arguments: &'static [&'static str]) -> Program {
    Program { language: "kotlin", name, arguments }
}

const fn java(name: &'static str, arguments: &'static [&'static str]) -> Program {
    Program { language: "java", name, arguments }
}

const fn moonbit(name: &'static str, arguments: &'static [&'static str]) -> Program {
    Program { language: "moonbit", name, arguments }
}

/// The programs that allocate, each at a size that takes V8 about a second (binary trees of depth 20: ten).
pub const PROGRAMS: [Program; 12] = [
    kotlin("trees", &["20"]),
    kotlin("persistent", &["300000"]),
    kotlin("events", &["500000"]),
    kotlin("words", &["40000"]),
    kotlin("lambdas", &["300000"]),
    kotlin("lru", &["20", "1000000"]),
    java("expressions", &["60000"]),
    java("graph", &["200"]),
    java("interpreter", &["1000"]),
    java("streamish", &["100000"]),
    java("matrixobj", &["5000"]),
    moonbit("trees", &["18"]),
];

/// The programs that live by large arrays, each at a size that takes Legato about a second.
pub const ARRAYS: [Program; 11] = [
    java("jzlib", &["1500000"]),
    java("bzip2", &["1200000"]),
    kotlin("matrix", &["800"]),
    kotlin("fft", &["1048576"]),
    kotlin("sorting", &["1000000"]),
    kotlin("builders", &["30000"]),
    java("images", &["1800"]),
    kotlin("sha256", &["3000"]),
    kotlin("documents", &["2000"]),
    java("lzw", &["500"]),
    java("wheel", &["6000000"]),
];

/// Those of [`ARRAYS`] most of whose array memory is never used, like that of the benchmarks `xalan` and `compress`
/// (Z-Rays, section 7.2.1).
pub const SPARSE: [&str; 3] = ["kotlin/documents", "java/lzw", "java/wheel"];

/// The program whose nursery collections are measured: a cache that is always full.
pub const CACHE: Program = kotlin("lru", &[]);

/// A program's module and what it prints at its smallest size.
#[derive(Clone, Debug)]
pub struct Built {
    /// The module's bytes.
    pub wasm: Vec<u8>,
    /// Output of a run without arguments, from a JVM or from Node.js.
    pub expected: String,
}

impl Program {
    /// `language/name`.
    pub fn title(&self) -> String {
        format!("{}/{}", self.language, self.name)
    }

    /// The command line with these arguments: the program's name comes first.
    pub fn command_line<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        std::iter::once(self.name).chain(arguments).map(String::from).collect()
    }

    /// Reads what `examples/build` made; `optimized` asks for Binaryen's form of a Kotlin program.
    ///
    /// # Errors
    /// If it has not been built, or is a Java program with more static data than the lab's hosts provide for.
    pub fn read(&self, examples: &Path, optimized: bool) -> anyhow::Result<Built> {
        read(examples, self.language, self.name, optimized)
    }
}

/// As [`Program::read`], for any example.
///
/// # Errors
/// As [`Program::read`].
pub fn read(examples: &Path, language: &str, name: &str, optimized: bool) -> anyhow::Result<Built> {
    let file = examples.join("out").join(language).join(name);
    let extension = if optimized && language == "kotlin" { "opt.wasm" } else { "wasm" };
    let build = if optimized { "build --optimize" } else { "build" };
    let hint = || format!("build it with {}/{build} {language}/{name}", examples.display());
    let wasm = std::fs::read(file.with_extension(extension)).with_context(hint)?;
    let expected = std::fs::read_to_string(file.with_extension("expected")).with_context(hint)?;
    let data = teavm_data(&wasm)?;
    ensure!(
        data <= TEAVM_HEAP_OFFSET as u32,
        "{language}/{name} has {data} bytes of static data: more than the lab's host leaves room for"
    );
    Ok(Built { wasm, expected })
}

/// Bytes of static data of a program compiled by TeaVM, which tells them in a custom section; 0 of others.
fn teavm_data(wasm: &[u8]) -> anyhow::Result<u32> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Requirements {
        data_size: u32,
    }
    for payload in wasmparser::Parser::new(0).parse_all(wasm) {
        if let wasmparser::Payload::CustomSection(section) = payload?
            && section.name() == "teavm.memoryRequirements"
        {
            let requirements: Requirements = serde_json::from_slice(section.data())?;
            return Ok(requirements.data_size);
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_data_is_read_from_the_custom_section() {
        let module = |json: &str| {
            let text = format!("(module (@custom \"teavm.memoryRequirements\" {json:?}))");
            wat::parse_str(text).unwrap()
        };
        assert_eq!(teavm_data(&module(r#"{"min":33,"dataSize":52710}"#)).unwrap(), 52710);
        assert_eq!(teavm_data(&wat::parse_str("(module)").unwrap()).unwrap(), 0);
        assert!(teavm_data(&module("{")).is_err());
    }

    #[test]
    fn a_missing_program_says_how_to_build_it() {
        let error = PROGRAMS[0].read(Path::new("nowhere"), false).unwrap_err();
        assert!(format!("{error:#}").contains("nowhere/build kotlin/trees"), "{error:#}");
    }
}
