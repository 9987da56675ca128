//! Compile time of real modules.

use super::{Options, kotlin_examples};
use crate::engines::Engine;
use crate::measure::{Pairs, Time};
use crate::report::{Report, Row, Target};

const EXPERIMENT: &str = "compile";

/// Every Kotlin example, from bytes to code that can run: 1.5 times wasmtime's time is allowed. The last row is all of
/// them together.
pub(super) fn measure(options: &Options, a: &impl Engine, b: &impl Engine, report: &mut Report) -> anyhow::Result<()> {
    let mut whole = Pairs::default();
    let mut counted = 0;
    let inputs = kotlin_examples(options, report)?;
    for input in inputs.iter().filter(|input| options.wants(&input.name)) {
        eprintln!("{EXPERIMENT}: {} ...", input.name);
        let runs = Pairs::run(options.pairs, || compile(a, &input.wasm), || compile(b, &input.wasm));
        match runs {
            Ok(runs) => {
                add(&mut whole.a, &runs.a);
                add(&mut whole.b, &runs.b);
                counted += 1;
                let subject = format!("{} ({} KB)", input.name, input.wasm.len() / 1000);
                report.rows.push(Row::new(EXPERIMENT, subject, Some(Target::Ratio(1.5)), runs));
            }
            Err(error) => report.rows.push(Row::failed(EXPERIMENT, &input.name, &error)),
        }
    }
    if counted > 1 {
        report.rows.push(Row::new(EXPERIMENT, format!("all {counted}"), Some(Target::Ratio(1.5)), whole));
    }
    Ok(())
}

/// One compilation. The module is dropped outside of the time.
pub(super) fn compile<E: Engine>(engine: &E, wasm: &[u8]) -> anyhow::Result<Time> {
    let (time, module) = Time::of(|| engine.compile(wasm));
    module.map(|_| time).map_err(|error| error.context(engine.name()))
}

fn add(sum: &mut Vec<Time>, runs: &[Time]) {
    sum.resize(runs.len(), Time::default());
    for (sum, run) in sum.iter_mut().zip(runs) {
        sum.wall += run.wall;
        sum.user += run.user;
    }
}
