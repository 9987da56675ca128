//! All example programs that there are, as files.

use crate::programs;
use anyhow::Context;
use std::path::{Path, PathBuf};

/// A program and what it prints without arguments.
pub(super) struct Example {
    /// `language/name`.
    pub(super) title: String,
    /// The module in binary form.
    pub(super) file: PathBuf,
    /// Its output.
    pub(super) expected: String,
}

/// Programs that need more than the lab's host in Node.js has.
const NOT_IN_NODE: [(&str, &str); 1] = [("kotlin/files", "the host in Node.js has no files")];

impl Example {
    /// Why Node.js cannot run it.
    pub(super) fn why_not_in_node(&self) -> Option<&'static str> {
        NOT_IN_NODE.iter().find(|(title, _)| *title == self.title).map(|(_, why)| *why)
    }
}

/// What `examples/build` made, Binaryen's forms apart, and the programs in text form, in order of their titles. The
/// binary forms of those are written to `folder`. A language that has not been built is noted.
///
/// # Errors
/// If a program cannot be read, or `folder` not be written to.
pub(super) fn all(examples: &Path, folder: &Path, notes: &mut Vec<String>) -> anyhow::Result<Vec<Example>> {
    let mut all = Vec::new();
    for language in ["java", "kotlin", "moonbit"] {
        let names = names(&examples.join("out").join(language), "wasm")?;
        if names.is_empty() {
            let build = examples.join("build");
            notes.push(format!("no programs in {language}: build them with {} {language}", build.display()));
        }
        for name in names.into_iter().filter(|name| !name.ends_with(".opt")) {
            let expected = programs::read(examples, language, &name, false)?.expected;
            let file = examples.join("out").join(language).join(&name).with_extension("wasm");
            all.push(Example { title: format!("{language}/{name}"), file, expected });
        }
    }
    let texts = examples.join("wat");
    for name in names(&texts, "wat")? {
        let text = texts.join(&name).with_extension("wat");
        let read =
            |path: &Path| std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
        let file = folder.join(&name).with_extension("wasm");
        std::fs::write(&file, wat::parse_str(read(&text)?)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
        let expected = read(&text.with_extension("expected"))?;
        all.push(Example { title: format!("wat/{name}"), file, expected });
    }
    Ok(all)
}

/// Names of the files in a folder with this extension, without it, in order. None of a folder that is not there.
fn names(folder: &Path, extension: &str) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == extension) {
            names.push(path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}
