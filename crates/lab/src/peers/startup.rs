//! Start-up of the smallest program, as a whole process.

use super::Options;
use crate::measure::{self, Pairs, beside};
use crate::report::{Report, Row, Target};
use anyhow::Context;
use std::process::Command;

const EXPERIMENT: &str = "startup";
/// The smallest command there is.
const SMALLEST: &str = "(module (func (export \"_start\")))";

/// `legato run` against a runner around wasmtime that does nothing else: 15 ms more are allowed.
pub(super) fn measure(options: &Options, report: &mut Report) {
    eprintln!("{EXPERIMENT} ...");
    // Short runs: more of them, for the same effort.
    let pairs = options.pairs * 3;
    let subject = "smallest program";
    report.rows.push(match pairs_of(options, SMALLEST, pairs) {
        Ok(pairs) => Row::new(EXPERIMENT, subject, Some(Target::SecondsMore(0.015)), pairs),
        Err(error) => Row::failed(EXPERIMENT, subject, &error),
    });
}

fn pairs_of(options: &Options, text: &str, pairs: usize) -> anyhow::Result<Pairs> {
    let legato = match &options.legato {
        Some(path) => path.clone(),
        None => beside("legato").context("build it with: cargo build --release -p legato-cli")?,
    };
    let wasmtime = beside("legato-lab-wasmtime")?;
    let file = std::env::temp_dir().join(format!("legato-lab-{}.wasm", std::process::id()));
    std::fs::write(&file, wat::parse_str(text)?)?;
    let result = Pairs::run(
        pairs,
        || measure::process(Command::new(&legato).arg("run").arg(&file)),
        || measure::process(Command::new(&wasmtime).arg(&file)),
    );
    // The file is ours alone; that it stays behind would be no harm.
    let _ = std::fs::remove_file(&file);
    result
}
