//! What programs do with arrays, counted by compiled code (Z-Rays, tables 1 and 4).
//!
//! Two runs of each program, neither timed: with z-rays, and with copy-on-write too.

use super::Options;
use crate::engines::{Engine, Legato};
use crate::heaps::Comparison;
use crate::programs::Program;
use crate::tables::{Report, Row, Table, Unit};
use legato::HeapStats;
use legato_heap::arrays::ZRayParams;

/// Adds the tables.
pub(super) fn count(programs: &[&Program], options: &Options, report: &mut Report) {
    let columns = |columns: &[(&str, Unit)]| columns.iter().map(|(name, unit)| (name.to_string(), *unit)).collect();
    let mut uses = Table::new(
        "characteristics",
        "what is allocated, how elements are accessed (fast: within the first N bytes), what array.copy copies",
        columns(&[
            ("allocated", Unit::Megabytes),
            ("in arrays", Unit::Share),
            ("of numbers", Unit::Share),
            ("in large ones", Unit::Share),
            ("accesses, 10^6", Unit::Count),
            ("fast writes", Unit::Share),
            ("slow writes", Unit::Share),
            ("fast reads", Unit::Share),
            ("slow reads", Unit::Share),
            ("copied", Unit::Megabytes),
            ("copied beyond N", Unit::Share),
        ]),
    );
    let mut leaves = Table::new(
        "leaves",
        "of the leaves that arrays have room for: never allocated; of those allocated: given up as zeros; of those copied whole or in part: shared",
        columns(&[
            ("room for", Unit::Megabytes),
            ("never allocated", Unit::Share),
            ("compressed", Unit::Share),
            ("shared", Unit::Share),
            ("unshared", Unit::Share),
        ]),
    );
    let [plain, sharing] = Comparison::counted(options);
    for program in programs {
        eprintln!("characteristics: {} ...", program.title());
        match totals(program, &plain, options).and_then(|plain| Ok((plain, totals(program, &sharing, options)?))) {
            Ok((plain, sharing)) => {
                uses.rows.push(use_of(program, &plain));
                leaves.rows.push(leaves_of(program, &plain, &sharing));
            }
            Err(error) => uses.rows.push(Row::failed(program.title(), &error)),
        }
    }
    report.tables.extend([uses, leaves]);
}

fn totals(program: &Program, heap: &[String], options: &Options) -> anyhow::Result<HeapStats> {
    let built = program.read(&options.turns.examples, false)?;
    let engine = Legato::new(heap)?;
    engine.totals(&engine.compile(&built.wasm)?, &options.runs().command_line(program))
}

/// A part of a whole; nothing where the whole is nothing.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn use_of(program: &Program, stats: &HeapStats) -> Row {
    let (counted, accesses) = (stats.arrays.counted, stats.arrays.accesses);
    let all = accesses.fast_reads + accesses.slow_reads + accesses.fast_writes + accesses.slow_writes;
    // Leaves that were never allocated are part of what a program asked for.
    let allocated = stats.allocated_bytes.max(counted.allocated_bytes);
    let cells = [
        allocated as f64,
        share(counted.allocated_bytes, allocated),
        share(counted.allocated_number_bytes, allocated),
        share(counted.allocated_large_bytes, allocated),
        all as f64 / 1e6,
        share(accesses.fast_writes, all),
        share(accesses.slow_writes, all),
        share(accesses.fast_reads, all),
        share(accesses.slow_reads, all),
        counted.copied_bytes as f64,
        share(counted.copied_beyond_bytes, counted.copied_bytes),
    ];
    Row::new(program.title(), cells.map(|cell| vec![cell]).to_vec())
}

fn leaves_of(program: &Program, plain: &HeapStats, sharing: &HeapStats) -> Row {
    let (lazy, shared) = (plain.arrays, sharing.arrays);
    let leaf_bytes = f64::from(ZRayParams::DEFAULT.leaf_bytes);
    // A leaf that was given up may be allocated again: more may have been allocated at stores than were left out.
    let left_out = lazy.leaves_lazy.saturating_sub(lazy.leaves_on_store + lazy.leaves_grown);
    let copied = shared.leaves_shared * leaf_bytes as u64;
    let cells = [
        lazy.leaves_lazy as f64 * leaf_bytes,
        share(left_out, lazy.leaves_lazy),
        share(lazy.leaves_compressed, lazy.leaves_allocated),
        share(copied, sharing.arrays.counted.copied_beyond_bytes),
        share(shared.leaves_unshared, shared.leaves_shared),
    ];
    Row::new(program.title(), cells.map(|cell| vec![cell]).to_vec())
}
