//! What the code of programs costs: the time to compile it, and its size.

use super::Options;
use super::configurations::Comparison;
use crate::engines::{Engine, Legato};
use crate::measure::{self, Time};
use crate::programs::Program;
use crate::tables::{Report, Row, Table, Unit};

/// Adds the time of compilation under the baseline, in turns with the others, and the size of the machine code.
///
/// # Errors
/// If there is an unknown option among those of a heap.
pub(super) fn compare(
    comparison: &Comparison,
    programs: &[&Program],
    options: &Options,
    report: &mut Report,
) -> anyhow::Result<()> {
    let engines = comparison.all().map(|configuration| Legato::new(&configuration.heap));
    let engines = engines.collect::<anyhow::Result<Vec<Legato>>>()?;
    let table = |what: &str, caption: &str, unit: Unit| {
        let ratios = comparison.others.iter().map(|configuration| (configuration.name.clone(), Unit::Ratio));
        let columns = std::iter::once((comparison.baseline.name.clone(), unit)).chain(ratios).collect();
        let caption = format!("{caption} under {}; under the others over it", comparison.baseline.name);
        Table::new(&format!("{}: {what}", comparison.experiment), caption, columns)
    };
    let mut times = table("compilation", "time of the compilation, on all processors", Unit::Seconds);
    let mut sizes = table("code", "machine code", Unit::Megabytes);
    for program in programs {
        eprintln!("{}: compiles {} ...", comparison.experiment, program.title());
        match compile(program, &engines, options) {
            Ok(compiled) => {
                times.rows.push(row(program, compiled.iter().map(|compiled| compiled.seconds.clone()).collect()));
                sizes.rows.push(row(program, compiled.iter().map(|compiled| vec![compiled.bytes as f64]).collect()));
            }
            Err(error) => times.rows.push(Row::failed(program.title(), &error)),
        }
    }
    times.conclude();
    sizes.conclude();
    report.tables.extend([times, sizes]);
    Ok(())
}

/// A program under one heap.
#[derive(Default)]
struct Compiled {
    /// Of each compilation.
    seconds: Vec<f64>,
    /// The machine code's.
    bytes: usize,
}

/// Compiles a program with each engine in turns, after one round that does not count.
///
/// # Errors
/// If there is no such program, or it does not compile.
fn compile(program: &Program, engines: &[Legato], options: &Options) -> anyhow::Result<Vec<Compiled>> {
    let wasm = program.read(&options.examples, false)?.wasm;
    let mut compiled: Vec<Compiled> = engines.iter().map(|_| Compiled::default()).collect();
    for round in 0..=options.pairs {
        for index in measure::turn(round, engines.len()) {
            let (time, module) = Time::of(|| engines[index].compile(&wasm));
            compiled[index].bytes = module?.code_size();
            if round > 0 {
                compiled[index].seconds.push(time.wall);
            }
        }
    }
    Ok(compiled)
}

/// The baseline's figures, and the ratios to them of the others'.
fn row(program: &Program, figures: Vec<Vec<f64>>) -> Row {
    let ratios = figures[1..].iter().map(|other| other.iter().zip(&figures[0]).map(|(a, b)| a / b).collect());
    Row::new(program.title(), std::iter::once(figures[0].clone()).chain(ratios).collect())
}
