//! The engines of a comparison, each behind a process: every run has a process of its own with a fresh heap.

pub mod worker;

use self::worker::{Name, Sample};
use crate::engines::{Engine, Legato};
#[cfg(feature = "peers")]
use crate::engines::{Node, Wasmtime};
use crate::measure::Time;
use crate::programs::Built;
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An engine that takes part.
pub enum Contestant {
    /// Legato, with a heap of these options.
    Legato {
        /// The engine that compiles.
        engine: Legato,
        /// Options of the heap.
        heap: Vec<String>,
    },
    /// wasmtime, with a heap of these options.
    #[cfg(feature = "peers")]
    Wasmtime {
        /// The engine that compiles.
        engine: Wasmtime,
        /// Options of the heap.
        heap: Vec<String>,
    },
    /// V8.
    #[cfg(feature = "peers")]
    Node {
        /// The executable.
        node: Node,
        /// The script that it runs.
        runner: PathBuf,
    },
}

/// A program that a contestant can run at once.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The module: compiled, for the contestants that compile ahead of time.
    file: PathBuf,
    /// Time of compilation ahead of time.
    pub compilation: Option<Time>,
}

impl Contestant {
    /// Legato with a heap of these options.
    ///
    /// # Errors
    /// If an option is unknown or does not go with another, or this host is not supported.
    pub fn legato(heap: &[String]) -> anyhow::Result<Contestant> {
        Ok(Contestant::Legato { engine: Legato::new(heap)?, heap: heap.to_vec() })
    }

    /// wasmtime with a heap of these options.
    ///
    /// # Errors
    /// If an option is unknown, or this host is not supported.
    #[cfg(feature = "peers")]
    pub fn wasmtime(heap: &[String]) -> anyhow::Result<Contestant> {
        Ok(Contestant::Wasmtime { engine: Wasmtime::new(heap)?, heap: heap.to_vec() })
    }

    /// V8. `folder` holds its files.
    ///
    /// # Errors
    /// If Node.js cannot be had, or there is no place for files.
    #[cfg(feature = "peers")]
    pub fn v8(node: Option<&Path>, folder: &Path) -> anyhow::Result<Contestant> {
        Ok(Contestant::Node { node: Node::find(node)?, runner: Node::write_runner(folder)? })
    }

    /// The engines in the order of the report: Legato, wasmtime, V8, each with its default collector. `folder` holds
    /// their files.
    ///
    /// # Errors
    /// If one of them cannot be had.
    #[cfg(feature = "peers")]
    pub fn all(heap: &[String], node: Option<&Path>, folder: &Path) -> anyhow::Result<[Contestant; 3]> {
        let v8 = Contestant::v8(node, folder)?;
        Ok([Contestant::legato(heap)?, Contestant::wasmtime(&[])?, v8])
    }

    /// Name and version.
    pub fn name(&self) -> String {
        match self {
            Contestant::Legato { engine, .. } => engine.name(),
            #[cfg(feature = "peers")]
            Contestant::Wasmtime { engine, .. } => engine.name(),
            #[cfg(feature = "peers")]
            Contestant::Node { node, .. } => node.name(),
        }
    }

    /// Compiles a module and puts the result in a file of the folder: one folder serves one contestant of a kind.
    ///
    /// # Errors
    /// If the module does not compile, or the file cannot be written.
    pub fn prepare(&self, wasm: &[u8], folder: &Path) -> anyhow::Result<Prepared> {
        let (file, bytes, compilation) = match self {
            Contestant::Legato { engine, .. } => compile(engine, wasm, "legato")?,
            #[cfg(feature = "peers")]
            Contestant::Wasmtime { engine, .. } => compile(engine, wasm, "wasmtime")?,
            // V8 compiles while it runs.
            #[cfg(feature = "peers")]
            Contestant::Node { .. } => ("module.wasm", wasm.to_vec(), None),
        };
        let file = folder.join(file);
        std::fs::write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(Prepared { file, compilation })
    }

    /// Checks that a program does what it does on a JVM, at its smallest size.
    ///
    /// # Errors
    /// If it fails or prints something else.
    pub fn check(&self, prepared: &Prepared, built: &Built, arguments: &[String]) -> anyhow::Result<()> {
        let sample = self.run(prepared, arguments, false, 1)?;
        anyhow::ensure!(
            sample.output == built.expected,
            "prints {:?}, but on the JVM {:?}",
            shortened(&sample.output),
            shortened(&built.expected)
        );
        Ok(())
    }

    /// Runs a program in a process of its own. In V8 it runs so many times there, in the other engines once: their code
    /// does not change by running. With `observe`, the sample has the collections.
    ///
    /// # Errors
    /// If the program fails.
    pub fn run(
        &self,
        prepared: &Prepared,
        arguments: &[String],
        observe: bool,
        v8_runs: usize,
    ) -> anyhow::Result<Sample> {
        worker::sample(self.command(prepared, arguments, observe, v8_runs)?)
    }

    /// The process of [`run`](Self::run), which prints a [`Sample`].
    ///
    /// # Errors
    /// If this program's own file cannot be found.
    pub(crate) fn command(
        &self,
        prepared: &Prepared,
        arguments: &[String],
        observe: bool,
        #[cfg_attr(not(feature = "peers"), expect(unused_variables, reason = "V8 is one of the peers"))] v8_runs: usize,
    ) -> anyhow::Result<Command> {
        Ok(match self {
            Contestant::Legato { heap, .. } => worker::command(Name::Legato, heap, observe, &prepared.file, arguments)?,
            #[cfg(feature = "peers")]
            Contestant::Wasmtime { heap, .. } => {
                worker::command(Name::Wasmtime, heap, observe, &prepared.file, arguments)?
            }
            #[cfg(feature = "peers")]
            Contestant::Node { node, runner } => node.command(runner, observe, v8_runs, &prepared.file, arguments),
        })
    }
}

/// The first words of an output, for a message.
pub(crate) fn shortened(output: &str) -> String {
    output.chars().take(200).collect()
}

/// A fast wrong answer is not a result: every run of every contestant prints the same.
///
/// # Errors
/// If two outputs differ, or are empty.
pub(crate) fn agree<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> anyhow::Result<()> {
    let mut outputs = samples.into_iter().map(|sample| sample.output.as_str());
    let first = outputs.next().unwrap_or_default();
    anyhow::ensure!(!first.is_empty(), "the program prints nothing");
    for other in outputs {
        anyhow::ensure!(other == first, "the outputs differ: {:?} against {:?}", shortened(first), shortened(other));
    }
    Ok(())
}

type Compiled = (&'static str, Vec<u8>, Option<Time>);

fn compile<E: Engine>(engine: &E, wasm: &[u8], file: &'static str) -> anyhow::Result<Compiled> {
    let (time, module) = Time::of(|| engine.compile(wasm));
    Ok((file, engine.save(&module?)?, Some(time)))
}
