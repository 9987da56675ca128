//! Run time of programs: those that compute, and those that live in the heap.

use super::{Input, Options, kotlin_examples};
use crate::engines::{Engine, Run};
use crate::measure::Pairs;
use crate::report::{Report, Row, Target};

/// Programs that hardly allocate, in text form and in Kotlin.
const COMPUTE: [&str; 4] = ["nbody", "sha256", "mandelbrot", "matrix"];
/// Programs in text form that allocate.
const HEAP: [&str; 3] = ["list", "trees", "shapes"];
/// Kotlin programs that allocate.
const HEAP_KOTLIN: [&str; 5] = ["trees", "collections", "strings", "json", "arrays"];

/// Programs that compute: the run time may be 1.15 times wasmtime's.
pub(super) fn compute(options: &Options, a: &impl Engine, b: &impl Engine, report: &mut Report) -> anyhow::Result<()> {
    let inputs = inputs(options, &COMPUTE, &COMPUTE, report)?;
    measure("compute", Some(Target::Ratio(1.15)), &inputs, options, a, b, report);
    Ok(())
}

/// Programs that live in the heap. No bound: the collectors differ.
pub(super) fn heap(options: &Options, a: &impl Engine, b: &impl Engine, report: &mut Report) -> anyhow::Result<()> {
    let inputs = inputs(options, &HEAP, &HEAP_KOTLIN, report)?;
    measure("heap", None, &inputs, options, a, b, report);
    Ok(())
}

fn inputs(options: &Options, wat: &[&str], kotlin: &[&str], report: &mut Report) -> anyhow::Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for name in wat {
        let path = options.examples.join("wat").join(name).with_extension("wat");
        match std::fs::read(&path) {
            Ok(text) => inputs.push(Input {
                name: format!("{name}.wat"),
                wasm: wat::parse_bytes(&text)?.into_owned(),
                arguments: vec![(*name).into()],
            }),
            Err(error) => report.notes.push(format!("{}: {error}", path.display())),
        }
    }
    inputs.extend(kotlin_examples(options, report)?.into_iter().filter(|input| kotlin.contains(&input.name.as_str())));
    Ok(inputs)
}

fn measure(
    experiment: &'static str,
    target: Option<Target>,
    inputs: &[Input],
    options: &Options,
    a: &impl Engine,
    b: &impl Engine,
    report: &mut Report,
) {
    for input in inputs.iter().filter(|input| options.wants(&input.name)) {
        eprintln!("{experiment}: {} ...", input.name);
        report.rows.push(match pairs(input, options.pairs, a, b) {
            Ok(pairs) => Row::new(experiment, &input.name, target, pairs),
            Err(error) => Row::failed(experiment, &input.name, &error),
        });
    }
}

/// Runs of `_start` alone: compilation and instantiation are not part of it.
fn pairs(input: &Input, pairs: usize, a: &impl Engine, b: &impl Engine) -> anyhow::Result<Pairs> {
    let module_a = a.compile(&input.wasm).map_err(|error| error.context(a.name()))?;
    let module_b = b.compile(&input.wasm).map_err(|error| error.context(b.name()))?;
    let run_a = || a.start(&module_a, &input.arguments).map_err(|error| error.context(a.name()));
    let run_b = || b.start(&module_b, &input.arguments).map_err(|error| error.context(b.name()));
    agree(&run_a()?, &run_b()?)?;
    Pairs::run(pairs, || Ok(run_a()?.run), || Ok(run_b()?.run))
}

/// A fast wrong answer is not a result.
fn agree(a: &Run, b: &Run) -> anyhow::Result<()> {
    anyhow::ensure!(!a.output.is_empty(), "the program prints nothing");
    if a.output != b.output {
        let text = |run: &Run| String::from_utf8_lossy(&run.output).chars().take(200).collect::<String>();
        anyhow::bail!("the outputs differ:\n{}\n--- against ---\n{}", text(a), text(b));
    }
    Ok(())
}
