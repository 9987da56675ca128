//! Other engines in the same groups: V8 with the same module, and a JVM with the program that the module was made from.
//! Both are given the maximum that all heaps have; else they are as they are by default.

use super::Options;
#[cfg(feature = "peers")]
use crate::contestants::Contestant;
use crate::contestants::worker;
use crate::programs::{Built, Program};
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Their names for tables. Without the feature `peers` there are none.
const NAMES: &[&str] = if cfg!(feature = "peers") { &["V8", "JVM, G1"] } else { &[] };

/// Runs a Java program, and prints what the lab's other workers do.
const RUNNER: &str = include_str!("Runner.java");
/// All that examples need of TeaVM's classes: nothing of it is there at run time.
const EXPORT: &str = "package org.teavm.interop;\npublic @interface Export { String name(); }\n";

/// The names of those that take part.
pub(super) fn names(options: &Options) -> &'static [&'static str] {
    if options.legato_only { &[] } else { NAMES }
}

/// Makes the process that runs a program with these arguments, in a heap of so many bytes at most.
type Make = Box<dyn Fn(u64, &[String]) -> anyhow::Result<Command>>;

/// Makes an engine ready for a program; the folder is for files.
type Maker = fn(&Options, &Program, &Built, &Path) -> anyhow::Result<Peer>;

/// An engine that can run one program.
pub(super) struct Peer {
    make: Make,
}

impl Peer {
    /// The process; `arguments` starts with the program's name.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(super) fn command(&self, maximum: u64, arguments: &[String]) -> anyhow::Result<Command> {
        (self.make)(maximum, arguments)
    }

    /// Checks that a program does what it should, at its smallest size.
    fn check(self, maximum: u64, program: &Program, built: &Built) -> anyhow::Result<Peer> {
        let sample = worker::sample(self.command(maximum, &program.command_line([]))?)?;
        ensure!(sample.output == built.expected, "the program prints something else");
        Ok(self)
    }
}

/// The engines for a program, in the order of [`names`], or why one does not run it. `folder` is for files.
pub(super) fn all(
    options: &Options,
    program: &Program,
    built: &Built,
    maximum: u64,
    folder: &Path,
) -> Vec<anyhow::Result<Peer>> {
    let makers: [Maker; 2] = [v8, jvm];
    let peers = names(options).iter().zip(makers);
    peers.map(|(_, make)| make(options, program, built, folder)?.check(maximum, program, built)).collect()
}

#[cfg(feature = "peers")]
fn v8(options: &Options, _: &Program, built: &Built, folder: &Path) -> anyhow::Result<Peer> {
    let contestant = Contestant::v8(options.node.as_deref(), folder)?;
    let prepared = contestant.prepare(&built.wasm, folder)?;
    let make = move |maximum: u64, arguments: &[String]| {
        let mut command = contestant.command(&prepared, arguments, true, 1)?;
        command.env("NODE_OPTIONS", format!("--max-old-space-size={}", maximum >> 20));
        Ok(command)
    };
    Ok(Peer { make: Box::new(make) })
}

#[cfg(not(feature = "peers"))]
fn v8(_: &Options, _: &Program, _: &Built, _: &Path) -> anyhow::Result<Peer> {
    anyhow::bail!("built without the feature peers")
}

/// The JDK's own compiler makes the classes, without any library: of programs that need one there is no plain version.
fn jvm(options: &Options, program: &Program, _: &Built, folder: &Path) -> anyhow::Result<Peer> {
    ensure!(program.language == "java", "there is no version of it in Java");
    let classes = folder.join("classes");
    std::fs::create_dir_all(&classes).with_context(|| format!("cannot make the folder {}", classes.display()))?;
    let mut sources = Vec::new();
    for (name, text) in [("Runner.java", RUNNER), ("Export.java", EXPORT)] {
        let file = folder.join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        sources.push(file);
    }
    for part in [program.name, "shared"] {
        sources.extend(java_files(&options.examples.join("java").join(part))?);
    }
    let compiled = Command::new("javac").arg("-d").arg(&classes).args(&sources).output();
    let compiled = compiled.context("cannot start javac, which makes a plain version of the program")?;
    let said = String::from_utf8_lossy(&compiled.stderr);
    let why = said.lines().next().unwrap_or_default();
    ensure!(compiled.status.success(), "javac does not compile it without libraries: {why}");
    let make = move |maximum: u64, arguments: &[String]| {
        let mut command = Command::new("java");
        // In a group it would choose another collector, and a fourth of the group for its maximum.
        command.args(["-XX:+UseG1GC", "-XX:-UseContainerSupport"]).arg(format!("-Xmx{}k", maximum >> 10));
        command.arg("-cp").arg(&classes).arg("Runner").args(arguments.iter().skip(1));
        Ok(command)
    };
    Ok(Peer { make: Box::new(make) })
}

fn java_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "java"));
    files.sort();
    Ok(files)
}
