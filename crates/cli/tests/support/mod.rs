//! Runs the built binary.

#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A directory of modules to run.
pub struct Lab {
    dir: TempDir,
}

/// What the command did.
#[derive(Debug)]
pub struct Outcome {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Lab {
    pub fn new() -> Self {
        Lab { dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, contents).unwrap();
        path
    }

    /// Runs `legato` in this directory.
    pub fn legato(&self, args: &[&str]) -> Outcome {
        self.legato_with_input(args, "")
    }

    pub fn legato_with_input(&self, args: &[&str], input: &str) -> Outcome {
        let mut child = Command::new(env!("CARGO_BIN_EXE_legato"))
            .args(args)
            .current_dir(self.path())
            .env("LEGATO_TEST", "from outside")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A program that does not read its input closes the pipe: no matter.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        Outcome {
            status: output.status.code().unwrap_or_else(|| panic!("killed: {output:?}")),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Writes a module in text form and runs it with options before and arguments after.
    pub fn run(&self, options: &[&str], text: &str, args: &[&str]) -> Outcome {
        self.file("module.wat", text);
        self.legato(&[&["run"], options, &["module.wat"], args].concat())
    }
}

impl Outcome {
    /// Checks status and output, and that errors say something.
    #[track_caller]
    pub fn expect(self, status: i32, out: &str, err: &[&str]) -> Self {
        assert_eq!(self.status, status, "{self:#?}");
        assert_eq!(self.out, out, "{self:#?}");
        for part in err {
            assert!(self.err.contains(part), "`{part}` is missing: {self:#?}");
        }
        assert!(!self.err.contains("panicked"), "{self:#?}");
        if err.is_empty() {
            assert_eq!(self.err, "", "{self:#?}");
        }
        self
    }
}
