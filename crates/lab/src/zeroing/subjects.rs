//! The programs that run: microbenchmarks, and every example.

use crate::programs::{self, PROGRAMS};
use std::path::Path;

/// A program to run.
pub(super) struct Subject {
    pub(super) title: String,
    /// The module, or why there is none.
    pub(super) wasm: anyhow::Result<Vec<u8>>,
    /// The command line, program name first.
    pub(super) arguments: Vec<String>,
}

/// Examples that need more of a host than the lab has, and what.
const LEFT_OUT: [(&str, &str); 3] =
    [("kotlin/files", "files"), ("kotlin/coroutines", "a clock to wait for"), ("java/lua", "weak references")];

/// The paper's microbenchmarks (figure 1), which allocate `count` arrays of eight integers each. They trap where an
/// array is not what it should be.
///
/// # Errors
/// If a text is no module.
pub(super) fn microbenchmarks(count: u32) -> anyhow::Result<Vec<Subject>> {
    let texts = [
        ("initnone", include_str!("initnone.wat")),
        ("initfresh", include_str!("initfresh.wat")),
        ("initstale", include_str!("initstale.wat")),
    ];
    let subject = |(name, text): (&str, &str)| {
        let wasm = wat::parse_str(text.replace("COUNT)", &format!("{count})")))?;
        Ok(Subject { title: name.into(), wasm: Ok(wasm), arguments: vec![name.into()] })
    };
    texts.into_iter().map(subject).collect()
}

/// The examples in text form and what `examples/build` has made of the others, in the order of their names, and notes
/// of what is missing. Those that have a size for measurements run at it, unless they are to be `smallest`.
///
/// # Errors
/// If a folder cannot be read.
pub(super) fn examples(examples: &Path, smallest: bool) -> anyhow::Result<(Vec<Subject>, Vec<String>)> {
    let (mut subjects, mut notes) = (Vec::new(), Vec::new());
    for name in names(&examples.join("wat"), "wat")? {
        let wasm = wat::parse_file(examples.join("wat").join(&name).with_extension("wat")).map_err(Into::into);
        subjects.push(Subject { title: format!("wat/{name}"), wasm, arguments: vec![name] });
    }
    for language in ["kotlin", "java"] {
        let names = names(&examples.join("out").join(language), "wasm")?;
        if names.is_empty() {
            let examples = examples.display();
            notes
                .push(format!("no {language} programs in {examples}/out: build them with {examples}/build {language}"));
        }
        // Binaryen's forms stand beside the programs themselves.
        for name in names.into_iter().filter(|name| !name.ends_with(".opt")) {
            let title = format!("{language}/{name}");
            if let Some((_, lacking)) = LEFT_OUT.iter().find(|(left_out, _)| *left_out == title) {
                notes.push(format!("{title} is left out: it needs {lacking}, which the lab's host does not have"));
                continue;
            }
            let sized = PROGRAMS.iter().find(|program| program.title() == title && !smallest);
            let sizes = sized.map_or(&[][..], |program| program.arguments);
            let wasm = programs::read(examples, language, &name, false).map(|built| built.wasm);
            let arguments = std::iter::once(name).chain(sizes.iter().map(|size| size.to_string())).collect();
            subjects.push(Subject { title, wasm, arguments });
        }
    }
    Ok((subjects, notes))
}

/// Names without the extension of the files in a folder that have it; none where there is no such folder.
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
