//! `--compile-log`.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result};
use legato::{CompileCause, CompileObserver, Compiled};

/// Writes a line for each function that is compiled, with the time since now.
///
/// # Errors
///
/// If the file cannot be written.
pub fn observer(file: Option<&Path>) -> Result<Arc<CompileObserver>> {
    let start = Instant::now();
    let output: Box<dyn Write + Send> = match file {
        Some(file) => Box::new(File::create(file).with_context(|| format!("cannot write {}", file.display()))?),
        None => Box::new(io::stderr()),
    };
    let output = Mutex::new(output);
    Ok(Arc::new(move |compiled| {
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        // A log that cannot be written is no reason to stop the program.
        let _ = output.write_all(line(start, compiled).as_bytes());
    }))
}

fn line(start: Instant, compiled: &Compiled<'_>) -> String {
    let at = compiled.start.saturating_duration_since(start).as_secs_f64() * 1e3;
    let took = compiled.time.as_secs_f64() * 1e3;
    let name = compiled.name.map(|name| format!(" {name}")).unwrap_or_default();
    let tier = if compiled.quickly { "quick" } else { "optimised" };
    let kept = if compiled.kept { " from the cache" } else { "" };
    let cause = match compiled.cause {
        CompileCause::Called => "called",
        CompileCause::Ahead => "ahead",
        CompileCause::Often => "called often",
        CompileCause::Loop(_) => "in a loop",
        CompileCause::Before => "before",
    };
    let Compiled { function, bytes, .. } = compiled;
    format!("[compile] {at:.3} ms: function {function}{name}: {tier}{kept}, {took:.3} ms, {bytes} bytes, {cause}\n")
}
