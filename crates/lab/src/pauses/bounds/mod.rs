//! The largest stops beside what makes a collector's work long in one place: large tables, many globals, large arrays,
//! deep stacks, many host values, many mapped arrays and views, and a heap that shrinks.
//!
//! Two views: slices as the collector tells them ([`GcObserver::slice`]), and the gaps between the program's steps.
//! What is prepared beforehand is not measured. No figure has a target here: those are on the programs.

mod cases;
mod world;

use self::cases::{CASES, Case};
use self::world::Stops;
use super::Options;
use crate::stats::Ratio;
use crate::tables::{Report, Row, Table, Unit, reason};
use anyhow::{Context, ensure};
use std::time::Duration;

/// Bytes of stack for programs.
const STACK: u32 = 64 << 20;
/// Bytes of stack for the thread: what programs may take, and more.
const THREAD_STACK: usize = STACK as usize + (16 << 20);
/// References in the ring: 9 MB with what they refer to.
const RING: u32 = 65_536;

/// Measures every case under every heap, a table for each heap.
///
/// # Errors
/// If no case is wanted, or the system has no thread.
pub(super) fn measure(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let wants = |name: &str| options.filter.is_empty() || options.filter.iter().any(|part| name.contains(part));
    let cases: Vec<&Case> = CASES.iter().filter(|case| wants(case.name)).collect();
    ensure!(!cases.is_empty(), "no row's name contains any of: {}", options.filter.join(", "));
    let tables = std::thread::scope(|scope| {
        let work = || options.heaps().iter().map(|heap| table(heap, &cases, options)).collect::<Vec<Table>>();
        let thread = std::thread::Builder::new().stack_size(THREAD_STACK).spawn_scoped(scope, work);
        let thread = thread.context("cannot start a thread with a large stack")?;
        thread.join().map_err(|_| anyhow::anyhow!("the thread has panicked"))
    })?;
    report.tables.extend(tables);
    Ok(())
}

fn table(heap: &[String], cases: &[&Case], options: &Options) -> Table {
    let name = if heap.is_empty() { "the default heap".to_string() } else { heap.join(",") };
    let columns = [
        ("largest gap", Unit::Milliseconds),
        ("largest gap, CPU", Unit::Milliseconds),
        ("largest slice", Unit::Milliseconds),
        ("largest slice, CPU", Unit::Milliseconds),
        ("slices", Unit::Count),
        ("of them early", Unit::Count),
        ("collected at once", Unit::Count),
    ];
    let columns = columns.map(|(name, unit)| (name.to_string(), unit)).to_vec();
    let caption = "gaps are the program's own, slices the collector's word; the phase of the longest slice, by CPU time, is in brackets";
    let mut table = Table::new(&format!("stops, {name}"), caption, columns);
    let seconds = Duration::from_secs(options.seconds.unwrap_or(10).into());
    for case in cases {
        let (count, ring) = ((case.count / options.fewer).max(1), (RING / options.fewer).max(1));
        let title = format!("{count} {}", case.name);
        eprintln!("pauses: {title}, {name} ...");
        table.rows.push(match world::run(case, count, ring, heap, seconds, options.steps) {
            Ok(stops) => row(&title, &stops),
            Err(error) => Row { error: Some(reason(&error)), ..Row::new(title, Vec::new()) },
        });
    }
    table
}

fn row(title: &str, stops: &Stops) -> Row {
    let seconds = |duration: Duration| duration.as_secs_f64();
    let values = [
        seconds(stops.largest),
        seconds(stops.largest_cpu),
        seconds(stops.slice),
        seconds(stops.slice_cpu),
        stops.slices as f64,
        stops.early as f64,
        stops.at_once as f64,
    ];
    let phase = stops.phase.map_or(String::new(), |phase| format!(" ({phase:?})"));
    Row {
        subject: format!("{title}{phase}"),
        cells: values.map(Ratio::exactly).to_vec(),
        runs: values.map(|value| vec![value]).to_vec(),
        error: None,
    }
}

#[cfg(test)]
mod tests;
