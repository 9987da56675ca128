//! Reading modules, told apart by content.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use legato::{Engine, Module};

use crate::args::STANDARD;

/// What a file holds.
pub enum Content {
    /// A module's binary form, translated from text where the file has that.
    Wasm(Vec<u8>),
    /// Machine code made by `legato compile`.
    Precompiled(Vec<u8>),
}

const WASM_MAGIC: &[u8] = b"\0asm";

/// The most bytes that are read of a file.
const MOST_BYTES: u64 = 1 << 30;
/// So many bytes tell what a file is. A text has no zeros among them.
const FIRST_BYTES: u64 = 64;

/// Reads a file and says what it is.
///
/// # Errors
///
/// If it cannot be read, is none of the forms that we know, or is text with a mistake in it.
pub fn read(path: &Path) -> Result<Content> {
    let name = path.display();
    if path.is_dir() {
        bail!("{name} is a directory: name a module in it (.wasm, .wat or a precompiled file)");
    }
    let bytes = bytes(path)?;
    if bytes.is_empty() {
        bail!("{name} is empty: expected a module (.wasm, .wat or a precompiled file)");
    }
    if Module::is_precompiled(&bytes) {
        return Ok(Content::Precompiled(bytes));
    }
    if bytes.starts_with(WASM_MAGIC) {
        // After the magic: version 1, layer 0 for modules, layer 1 for components.
        if bytes.get(6..8) == Some(&[1, 0]) {
            bail!("{name} is a WebAssembly component: legato runs core modules, so compile for WASI preview 1 instead");
        }
        return Ok(Content::Wasm(bytes));
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) if looks_like_text(text) => match wat::parse_str(text) {
            Ok(bytes) => Ok(Content::Wasm(bytes)),
            Err(mut error) => {
                error.set_path(path);
                Err(anyhow::Error::new(error).context(format!("{name} has a mistake in its text")))
            }
        },
        _ => {
            let shown: Vec<_> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            bail!(
                "{name} is no WebAssembly: it begins with the bytes {}, but a module begins with 00 61 73 6d (.wasm) or with \
                 a parenthesis (.wat)",
                shown.join(" ")
            )
        }
    }
}

/// The bytes of a file, or of standard input. If the first say that it is neither a module nor a text, they are all, as
/// a device may go on for ever.
///
/// # Errors
///
/// If it cannot be read, or is too long.
pub fn bytes(path: &Path) -> Result<Vec<u8>> {
    let name = path.display();
    let read = || -> io::Result<Vec<u8>> {
        let file: Box<dyn Read> =
            if path == STANDARD { Box::new(io::stdin().lock()) } else { Box::new(File::open(path)?) };
        let mut file = file.take(MOST_BYTES + 1);
        let mut bytes = Vec::new();
        file.by_ref().take(FIRST_BYTES).read_to_end(&mut bytes)?;
        if bytes.starts_with(WASM_MAGIC) || Module::is_precompiled(&bytes) || !bytes.contains(&0) {
            file.read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    };
    let bytes = read().with_context(|| format!("cannot read {name}"))?;
    if bytes.len() as u64 > MOST_BYTES {
        bail!("{name} is larger than the {} MiB that are read of a file", MOST_BYTES >> 20);
    }
    Ok(bytes)
}

/// Whether the first thing in the text, comments and space apart, is a parenthesis.
fn looks_like_text(text: &str) -> bool {
    let mut rest = text.trim_start();
    loop {
        if let Some(comment) = rest.strip_prefix(";;") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after).trim_start();
        } else if rest.starts_with("(;") {
            return true;
        } else {
            return rest.starts_with('(');
        }
    }
}

/// Compiles the module that a file holds, which is not machine code.
///
/// # Errors
///
/// If it is invalid, or uses what the engine does not support.
pub fn compile(engine: &Engine, path: &Path, wasm: &[u8]) -> Result<Module> {
    Module::new(engine, wasm).with_context(|| format!("cannot compile {}", path.display()))
}

/// Takes a module as it was compiled. Its machine code will run as it is.
///
/// # Errors
///
/// If it is damaged, or was compiled for another engine, machine or version.
///
/// # Safety
///
/// Whoever asks for this has said that the file is trusted.
pub unsafe fn precompiled(engine: &Engine, path: &Path, bytes: &[u8]) -> Result<Module> {
    // SAFETY: passed on to the caller.
    unsafe { Module::deserialize(engine, bytes) }.with_context(|| format!("cannot load {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::looks_like_text;

    #[test]
    fn text_is_recognised_after_comments() {
        for text in ["(module)", "  ;; hello\n(module)", "(; (; ;) ;) (module)", ";;\n;;\n\n ( module)"] {
            assert!(looks_like_text(text), "{text}");
        }
        for text in ["", "hello", ";; only a comment", "#!/bin/sh\n(x)"] {
            assert!(!looks_like_text(text), "{text}");
        }
    }
}
