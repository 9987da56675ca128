//! What an instance costs, of a module that is compiled already: a store of its own, the instance, its end, and a
//! second instance in the same store.

use crate::stats;
use crate::tables::{Report, Row, Table, Unit, Verdict};
use anyhow::ensure;
use legato::{Engine, InstancePre, Linker, Module, Store};
use std::fmt::Write as _;
use std::time::Instant;

/// What to measure, and how often.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Instances of each module.
    #[arg(long, default_value_t = 200)]
    pub rounds: usize,
    /// Print the report as JSON, all runs included.
    #[arg(long)]
    pub json: bool,
}

/// A second or later instance of [`MEASURED`] is to be made within this time, in seconds.
const BOUND: f64 = 0.0002;

/// The functions and the bytes of data of each module. All functions are in a table.
const MODULES: [(u32, u32); 4] = [(1, 0), (1000, 0), (1000, 64 << 10), (1000, 4 << 20)];
/// Those that the bound is for.
const MEASURED: std::ops::RangeFrom<usize> = 1..;

/// Measures everything.
///
/// # Errors
/// If an option is wrong, or there is no memory.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    ensure!(options.rounds > 0, "--rounds must be at least 1");
    let mut report = Report::new(options.rounds);
    let columns = ["store", "instance", "second instance", "end of the store"];
    let caption = "a module that is compiled already: a new store and an instance, another one there, and their end";
    let columns = columns.map(|name| (name.to_string(), Unit::Milliseconds)).to_vec();
    let mut table = Table::new("instances", caption, columns);
    let engine = Engine::default();
    for (number, (functions, bytes)) in MODULES.into_iter().enumerate() {
        let module = Module::new(&engine, module(functions, bytes))?;
        let ready = Linker::new(&engine).instantiate_pre(&module)?;
        let mut columns = vec![Vec::new(); 4];
        // The first one pays for what is done once.
        for round in 0..=options.rounds {
            let times = times(&engine, &ready)?;
            if round > 0 {
                columns.iter_mut().zip(times).for_each(|(column, time)| column.push(time));
            }
        }
        let name = format!("{functions} functions, {} KiB of data", bytes >> 10);
        if MEASURED.contains(&number) {
            let value = stats::median(&columns[1]) * 1e3;
            let what = format!("{name}: milliseconds for an instance < {}", BOUND * 1e3);
            report.verdicts.push(Verdict { what, value, met: value < BOUND * 1e3 });
        }
        table.rows.push(Row::new(name, columns));
    }
    report.tables.push(table);
    Ok(report)
}

/// A module in text form.
fn module(functions: u32, bytes: u32) -> String {
    let mut text =
        format!("(module (memory {}) (table {functions} funcref) (elem (i32.const 0) func", 1 + (bytes >> 16));
    let mut bodies = String::new();
    for number in 0..functions {
        let _ = write!(text, " {number}");
        let _ = write!(bodies, "(func (param i32) (result i32) (i32.add (local.get 0) (i32.const {number})))");
    }
    let _ = write!(text, ") {bodies}");
    if bytes > 0 {
        let _ = write!(text, "(data (i32.const 0) \"{}\")", "legato!?".repeat(bytes as usize / 8));
    }
    text + ")"
}

/// Seconds for each column.
fn times(engine: &Engine, ready: &InstancePre<()>) -> anyhow::Result<[f64; 4]> {
    let mut last = Instant::now();
    let mut lap = || std::mem::replace(&mut last, Instant::now()).elapsed().as_secs_f64();
    let mut store = Store::new(engine, ());
    let made = lap();
    ready.instantiate(&mut store)?;
    let first = lap();
    ready.instantiate(&mut store)?;
    let second = lap();
    drop(store);
    Ok([made, first, second, lap()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_is_measured() {
        let report = run(&Options { rounds: 2, json: false }).unwrap();
        assert_eq!(report.tables[0].rows.len(), MODULES.len());
        for row in &report.tables[0].rows {
            assert!(row.runs.len() == 4 && row.runs.iter().flatten().all(|&time| time > 0.0), "{row:?}");
        }
        assert_eq!(report.verdicts.len(), MODULES.len() - 1);
        assert!(run(&Options { rounds: 0, json: false }).is_err());
    }
}
