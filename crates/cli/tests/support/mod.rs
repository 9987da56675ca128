//! Runs the built binary.

#![allow(dead_code, reason = "each test file uses its part")]

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

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
        self.start(self.command(env!("CARGO_BIN_EXE_legato")).args(args)).end(input)
    }

    /// A command in this directory, and in an environment that is the same on all machines. Compiled code is kept in
    /// `cache`.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path())
            .env("LEGATO_TEST", "from outside")
            .env("LEGATO_CACHE", self.path().join("cache"))
            .env_remove("LEGATO_LOG");
        command
    }

    pub fn start(&self, command: &mut Command) -> Running {
        Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Writes a module in text form and runs it with options before and arguments after.
    pub fn run(&self, options: &[&str], text: &str, args: &[&str]) -> Outcome {
        self.file("module.wat", text);
        self.legato(&[&["run"], options, &["module.wat"], args].concat())
    }
}

/// A command that has not ended yet.
pub struct Running(pub Child);

impl Running {
    /// Gives it all its input and waits.
    pub fn end(mut self, input: &str) -> Outcome {
        // A program that does not read its input closes the pipe: no matter.
        let _ = self.0.stdin.take().unwrap().write_all(input.as_bytes());
        let output = self.0.wait_with_output().unwrap();
        Outcome {
            status: output.status.code().unwrap_or_else(|| panic!("killed: {output:?}")),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
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
