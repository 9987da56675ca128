//! Files: every call works on whole files, below the directories that the program was given.

use std::io;

use legato_wasi::{PathKind, WasiCtx};

use crate::values::{Bytes, Text, Texts};

/// What the last call brought. Calls answer with a status; what they read, and why they failed, is asked for after.
#[derive(Default)]
pub(crate) struct Results {
    pub content: Bytes,
    pub names: Vec<String>,
    pub error: String,
}

/// The status of a call that failed.
pub(crate) const FAILED: i32 = -1;

impl Results {
    /// The status of a call, whose error is kept.
    pub fn status<V>(&mut self, result: io::Result<V>, keep: impl FnOnce(&mut Self, V) -> i32) -> i32 {
        match result {
            Ok(value) => keep(self, value),
            Err(error) => {
                self.error = error.to_string();
                FAILED
            }
        }
    }

    pub fn content(&self) -> Bytes {
        self.content.clone()
    }

    pub fn names(&self) -> Texts {
        texts(&self.names)
    }

    pub fn error(&self) -> Text {
        Text::from(self.error.as_str())
    }
}

/// Whether a path leads to this kind of thing.
pub(crate) fn is(wasi: &WasiCtx, path: &str, kind: PathKind) -> io::Result<bool> {
    wasi.path_kind(path).map(|found| found == kind)
}

/// Strings for the program.
pub(crate) fn texts<S: AsRef<str>>(strings: &[S]) -> Texts {
    Texts(strings.iter().map(|string| Text::from(string.as_ref())).collect())
}
