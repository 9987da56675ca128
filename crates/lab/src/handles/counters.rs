//! What collectors do under each model, counted in one run of each program (Handles Revisited, tables 4 to 6).

use super::Options;
use crate::engines::{Engine, Legato};
use crate::heaps::Comparison;
use crate::programs::Program;
use crate::tables::{Report, Row, Table, Unit};
use legato::HeapStats;

/// Adds a table for each model.
pub(super) fn count(models: &Comparison, programs: &[&Program], options: &Options, report: &mut Report) {
    for model in models.all() {
        let columns = [
            ("cycles", Unit::Count),
            ("collector's time", Unit::Seconds),
            ("for each cycle", Unit::Seconds),
            ("allocated", Unit::Megabytes),
            ("moved", Unit::Megabytes),
            ("objects moved", Unit::Count),
            ("handles", Unit::Megabytes),
        ];
        let mut table = Table::new(
            &format!("{}: {}", models.experiment, model.name),
            "what the collector does in one run; handles: their blocks at the end",
            columns.iter().map(|(name, unit)| (name.to_string(), *unit)).collect(),
        );
        for program in programs {
            eprintln!("{}: {} ...", table.experiment, program.title());
            table.rows.push(match totals(program, &model.heap, options) {
                Ok(stats) => row(program, &stats),
                Err(error) => Row::failed(program.title(), &error),
            });
        }
        report.tables.push(table);
    }
}

fn totals(program: &Program, heap: &[String], options: &Options) -> anyhow::Result<HeapStats> {
    let built = program.read(&options.turns.examples, false)?;
    let engine = Legato::new(&[heap, &options.size(program)?].concat())?;
    engine.totals(&engine.compile(&built.wasm)?, &options.runs().command_line(program))
}

fn row(program: &Program, stats: &HeapStats) -> Row {
    let seconds = stats.pause_total_us as f64 / 1e6;
    let cells = [
        stats.collections as f64,
        seconds,
        if stats.collections == 0 { 0.0 } else { seconds / stats.collections as f64 },
        stats.allocated_bytes as f64,
        stats.moved_bytes as f64,
        stats.moved_objects as f64,
        stats.handle_bytes as f64,
    ];
    Row::new(program.title(), cells.into_iter().map(|cell| vec![cell]).collect())
}
