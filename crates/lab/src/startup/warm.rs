//! What compiling functions when they are called costs programs that run long.

use super::{Options, PEAK, WALL, column, commands::Commands, over};
use crate::contestants::worker;
use crate::measure;
use crate::programs::{PROGRAMS, Program};
use crate::stats;
use crate::tables::{Report, Row, Table, Unit, Verdict};
use anyhow::{Context, ensure};
use std::path::Path;

/// The programs that compute, each at a size that takes about a second.
const COMPUTE: [Program; 4] = [
    Program { language: "kotlin", name: "nbody", arguments: &["5000000"] },
    Program { language: "kotlin", name: "mandelbrot", arguments: &["1000"] },
    Program { language: "kotlin", name: "sha256", arguments: &["3000"] },
    Program { language: "kotlin", name: "matrix", arguments: &["800"] },
];

/// Times of code compiled when it was called over those of code compiled before.
const BOUND: f64 = 1.01;

/// What is compared: how `legato run` compiles.
const HOW: [&str; 2] = ["lazy", "eager"];

/// Adds the tables and verdicts.
///
/// # Errors
/// If no program is wanted.
pub(super) fn measure(options: &Options, commands: &Commands, report: &mut Report) -> anyhow::Result<()> {
    let programs = COMPUTE.iter().chain(&PROGRAMS).filter(|program| options.wants(&program.title()));
    let programs: Vec<&Program> = programs.collect();
    ensure!(!programs.is_empty(), "no program's name contains any of: {}", options.filter.join(", "));
    let columns = [
        ("whole command, eager", Unit::Seconds),
        ("lazy over it", Unit::Ratio),
        ("second run of the code, eager", Unit::Seconds),
        ("lazy over it", Unit::Ratio),
        ("peak memory of the command, eager", Unit::Megabytes),
        ("lazy over it", Unit::Ratio),
    ];
    let caption = "programs that run long: compiled when they are called (lazy), and before (eager); without a cache";
    let mut table = Table::new("warm", caption, columns.map(column).to_vec());
    for program in programs {
        let title = program.title();
        eprintln!("startup: {title} ...");
        table.rows.push(match row(program, options, commands) {
            Ok(row) => row,
            Err(error) => Row::failed(title, &error),
        });
    }
    table.conclude();
    for (at, what) in [(1, "whole commands"), (3, "second runs")] {
        let ratios = table.column(at);
        if !ratios.is_empty() {
            let value = stats::geometric_mean(&ratios).median;
            let what = format!("{what}, lazy over eager: geometric mean <= {BOUND}");
            report.verdicts.push(Verdict { what, value, met: value <= BOUND });
        }
    }
    report.tables.push(table);
    Ok(())
}

fn row(program: &Program, options: &Options, commands: &Commands) -> anyhow::Result<Row> {
    program.read(&options.examples, false)?;
    let module = options.examples.join("out").join(program.language).join(program.name).with_extension("wasm");
    let size: Vec<String> =
        if options.smallest { &[] } else { program.arguments }.iter().map(|&part| part.into()).collect();
    let export = (program.language == "java" && !size.is_empty()).then_some("sized");
    let (mut whole, mut second) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let mut output = None;
    for round in 0..=options.pairs {
        for index in measure::turn(round, HOW.len()) {
            let ended = commands.long(HOW[index], &module, export, &size)?;
            let sample = twice(HOW[index], &module, &program.command_line(size.iter().map(String::as_str)))?;
            let expected = output.get_or_insert_with(|| sample.output.clone());
            ensure!(!expected.is_empty() && *expected == sample.output, "the outputs differ, or there is none");
            if round > 0 {
                whole[index].push(ended);
                second[index].push(sample.runs.last().context("no run")?.run.wall);
            }
        }
    }
    let [lazy, eager] = &whole;
    let [second_lazy, second_eager] = second;
    let ratios = second_lazy.iter().zip(&second_eager).map(|(lazy, eager)| lazy / eager).collect();
    let figures = |figure: super::Figure| eager.iter().map(figure).collect();
    let columns =
        vec![figures(WALL), over(lazy, eager, WALL), second_eager, ratios, figures(PEAK), over(lazy, eager, PEAK)];
    Ok(Row::new(program.title(), columns))
}

/// Two runs of a program in one process, with the same code.
fn twice(how: &str, module: &Path, command_line: &[String]) -> anyhow::Result<worker::Sample> {
    worker::sample(worker::fresh(how, module, command_line)?)
}
