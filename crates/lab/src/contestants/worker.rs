//! One run of a program in a process of its own, so that its memory is its own and its heap is fresh.
//!
//! The module was compiled before, by the parent: the process loads machine code, and its peak memory has no compiler
//! in it.

#[cfg(feature = "peers")]
use crate::engines::Wasmtime;
use crate::engines::{Engine, Legato, Run};
use crate::measure::{Time, monotonic};
use anyhow::Context;
use legato::{GcEvent, GcObserver};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// What the process is to run.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The engine.
    #[arg(long)]
    pub engine: Name,
    /// The engine's heap options.
    #[arg(long, value_delimiter = ',')]
    pub heap: Vec<String>,
    /// Report every collection.
    #[arg(long)]
    pub observe: bool,
    /// The file holds a module in binary form, which this process compiles, as this says, and runs twice.
    #[arg(long)]
    pub compile: Option<Compile>,
    /// The compiled module.
    pub file: PathBuf,
    /// The command line, program name first.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<String>,
}

/// An engine that runs inside of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Name {
    /// Legato.
    Legato,
    /// wasmtime.
    #[cfg(feature = "peers")]
    Wasmtime,
}

/// When Legato compiles functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Compile {
    /// When they are called.
    Lazy,
    /// Before.
    Eager,
}

/// What a process has measured. The script for Node.js prints the same document.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Compilation, where it happened in this process.
    pub compilation: Option<Time>,
    /// The runs, one after the other in instances of their own.
    pub runs: Vec<Timing>,
    /// What each of them printed.
    pub output: String,
    /// The process's peak resident memory after the first run, in bytes. `None` where the system does not tell.
    pub peak_resident: Option<u64>,
    /// Every collection, if asked for and if the engine tells.
    pub pauses: Vec<Pause>,
    /// Bytes that live at most, by the collections; `None` if the engine does not tell.
    pub live: Option<u64>,
    /// When the program was entered, in seconds of [`monotonic`]; `None` if the process does not tell.
    pub entered: Option<f64>,
}

/// The times of one run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Timing {
    /// Instantiation.
    pub instantiation: Time,
    /// The call of the entry.
    pub run: Time,
}

/// One collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pause {
    /// What the engine calls this kind of collection.
    pub kind: String,
    /// When it began, in seconds since the program was entered.
    pub at: f64,
    /// How long the program stood still.
    pub seconds: f64,
    /// Bytes allocated since the last collection, if the engine tells.
    pub allocated: Option<u64>,
    /// Bytes that live after it, if the engine tells.
    pub live: Option<u64>,
}

/// Bytes of stack for a program that is compiled here, as under `legato run`, and for what it calls.
const GUEST_STACK: usize = 8 << 20;
const HOST_STACK: usize = 4 << 20;

/// The process's own part: runs, and prints the sample.
///
/// # Errors
/// If the module cannot be loaded or the program fails.
pub fn serve(options: &Options) -> anyhow::Result<()> {
    if let Some(compile) = options.compile {
        return std::thread::scope(|scope| {
            let guest = std::thread::Builder::new().stack_size(GUEST_STACK + HOST_STACK);
            let served = guest.spawn_scoped(scope, || serve_twice(options, compile))?.join();
            served.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
    }
    let collections = Collections::default();
    let run = match options.engine {
        Name::Legato => {
            let engine = Legato::new(&options.heap)?;
            // SAFETY: the parent wrote the file a moment ago, with `save`, into a folder of its own.
            let module = unsafe { engine.load(&options.file)? };
            if options.observe {
                engine.start_observed(&module, &options.arguments, Box::new(collections.clone()))?
            } else {
                engine.start(&module, &options.arguments)?
            }
        }
        #[cfg(feature = "peers")]
        Name::Wasmtime => {
            let engine = Wasmtime::new(&options.heap)?;
            // SAFETY: the parent wrote the file a moment ago, with `save`, into a folder of its own.
            let module = unsafe { engine.load(&options.file)? };
            engine.start(&module, &options.arguments)?
        }
    };
    let Run { instantiation, run, output } = run;
    let entered = monotonic() - run.wall;
    let found = std::mem::take(&mut *collections.0.lock().unwrap_or_else(PoisonError::into_inner));
    let sample = Sample {
        compilation: None,
        runs: vec![Timing { instantiation, run }],
        output: String::from_utf8_lossy(&output).into_owned(),
        peak_resident: peak_resident(),
        live: live(&found),
        pauses: found.iter().map(|event| pause(event, &instantiation)).collect(),
        entered: Some(entered),
    };
    println!("{}", serde_json::to_string(&sample)?);
    Ok(())
}

/// As [`serve`], of code that is compiled here.
fn serve_twice(options: &Options, compile: Compile) -> anyhow::Result<()> {
    let compilation = match compile {
        Compile::Lazy => legato::Compilation::Lazy,
        Compile::Eager => legato::Compilation::Eager,
    };
    let engine = Legato::compiling(&options.heap, compilation, GUEST_STACK)?;
    let wasm = std::fs::read(&options.file).with_context(|| format!("cannot read {}", options.file.display()))?;
    let (compilation, module) = Time::of(|| engine.compile(&wasm));
    let module = module?;
    let (first, second) = (engine.start(&module, &options.arguments)?, engine.start(&module, &options.arguments)?);
    let sample = Sample {
        compilation: Some(compilation),
        runs: [&first, &second].map(|run| Timing { instantiation: run.instantiation, run: run.run }).to_vec(),
        output: String::from_utf8_lossy(&first.output).into_owned(),
        peak_resident: peak_resident(),
        pauses: Vec::new(),
        live: None,
        entered: None,
    };
    println!("{}", serde_json::to_string(&sample)?);
    Ok(())
}

/// Legato's collections, as they happened.
#[derive(Clone, Default)]
struct Collections(Arc<Mutex<Vec<GcEvent>>>);

impl GcObserver for Collections {
    fn event(&mut self, event: &GcEvent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(*event);
    }
}

/// The heap is made just before instantiation, and the program is entered just after it.
fn pause(event: &GcEvent, instantiation: &Time) -> Pause {
    Pause {
        kind: event.kind.to_string(),
        at: event.start.as_secs_f64() - instantiation.wall,
        seconds: event.pause.as_secs_f64(),
        allocated: Some(event.allocated_bytes),
        live: Some(event.after_bytes),
    }
}

/// What full collections found live, at most: other collections count the dead of the mature space as well.
fn live(events: &[GcEvent]) -> Option<u64> {
    let full = events.iter().filter(|event| event.kind == legato::CollectionKind::Full);
    full.map(|event| event.after_bytes).max()
}

/// Peak resident memory of this process in bytes. Not `getrusage`'s: that begins with the parent's, across `exec`.
fn peak_resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

/// The parent's part: a command that runs this program as a worker.
///
/// # Errors
/// If this program's own file cannot be found.
pub(super) fn command(
    engine: Name,
    heap: &[String],
    observe: bool,
    module: &Path,
    arguments: &[String],
) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["worker", "--engine"]).arg(match engine {
        Name::Legato => "legato",
        #[cfg(feature = "peers")]
        Name::Wasmtime => "wasmtime",
    });
    if !heap.is_empty() {
        command.arg("--heap").arg(heap.join(","));
    }
    if observe {
        command.arg("--observe");
    }
    command.arg(module).arg("--").args(arguments);
    Ok(command)
}

/// A command that runs this program as a worker which compiles a module so (`lazy` or `eager`) and runs it twice.
///
/// # Errors
/// If this program's own file cannot be found.
pub(crate) fn fresh(how: &str, module: &Path, arguments: &[String]) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["worker", "--engine", "legato", "--compile", how]).arg(module).arg("--").args(arguments);
    Ok(command)
}

/// Runs a worker, of whichever engine, to its end.
///
/// # Errors
/// If it cannot be started, fails (with what it said) or does not print a sample.
pub(crate) fn sample(mut command: Command) -> anyhow::Result<Sample> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {}", command.get_program().display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        // A panic's first line names the thread and the place, the next one says why.
        let lines = said.lines().take_while(|line| !line.contains("stack backtrace:"));
        let lines: Vec<&str> = lines.filter(|line| !line.trim().is_empty()).take(6).collect();
        anyhow::bail!("{}: {}", output.status, lines.join("; "));
    }
    let sample: Sample = serde_json::from_slice(&output.stdout).context("the worker printed no result")?;
    anyhow::ensure!(!sample.runs.is_empty(), "the worker did not run the program");
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_resident_counts_what_was_touched() {
        let Some(before) = peak_resident() else { return };
        let touched = std::hint::black_box(vec![1u8; 64 << 20]);
        let after = peak_resident().unwrap();
        assert!(after >= before.max(touched.len() as u64), "{before} {after}");
    }

    #[test]
    fn a_worker_that_fails_is_quoted() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo because >&2; exit 3"]);
        let error = sample(command).unwrap_err().to_string();
        assert!(error.contains("because") && error.contains('3'), "{error}");
        let mut silent = Command::new("true");
        silent.arg("x");
        assert!(sample(silent).unwrap_err().to_string().contains("printed no result"));
    }
}
