//! How compile time grows with the length of one function.

use super::{Options, compile::compile};
use crate::engines::Engine;
use crate::generate;
use crate::measure::Pairs;
use crate::report::{Report, Row, Target};
use crate::stats;

const EXPERIMENT: &str = "linearity";
/// Globals that the start function initialises.
const SIZES: [u32; 3] = [750, 1500, 3000];
/// wasmtime takes part only below this time in seconds, expected from half the size: beyond, it would be minutes.
const PATIENCE: f64 = 20.0;
/// Growth is near-linear if doubling the size costs at most 2^1.2 times the time.
const NEAR_LINEAR: f64 = 1.2;

/// A start function of 100,000, 200,000 and 400,000 instructions; the largest within 3 s.
pub(super) fn measure(options: &Options, a: &impl Engine, b: &impl Engine, report: &mut Report) {
    let mut points = Vec::new();
    let mut peer_expected = 0.0;
    for globals in SIZES {
        eprintln!("{EXPERIMENT}: {globals} globals ...");
        let wasm = generate::start_function(globals);
        let target = (globals == 3000).then_some(Target::Seconds(3.0));
        let subject = format!("{globals} globals");
        let runs = (0..options.pairs.min(5)).map(|_| compile(a, &wasm)).collect::<anyhow::Result<Vec<_>>>();
        let runs = match runs {
            Ok(runs) => runs,
            Err(error) => {
                report.rows.push(Row::failed(EXPERIMENT, subject, &error));
                continue;
            }
        };
        let mut pairs = Pairs { a: runs, b: Vec::new() };
        if peer_expected < PATIENCE {
            match compile(b, &wasm) {
                Ok(time) => {
                    // Four times: what a quadratic compiler takes for twice the size.
                    peer_expected = 4.0 * time.wall;
                    pairs.b.push(time);
                }
                Err(error) => report.notes.push(format!("{} at {globals} globals: {error:#}", b.name())),
            }
        }
        let row = Row::new(EXPERIMENT, subject, target, pairs);
        // User CPU: what else runs on the machine is not growth.
        points.extend(row.a_user.map(|time| (f64::from(globals), time)));
        report.rows.push(row);
    }
    if points.len() > 1 {
        let exponent = stats::growth_exponent(&points);
        let verdict = if exponent <= NEAR_LINEAR { "near-linear" } else { "NOT near-linear" };
        report.notes.push(format!("{}: compile time (user CPU) grows with size^{exponent:.2}: {verdict}", a.name()));
    }
}
