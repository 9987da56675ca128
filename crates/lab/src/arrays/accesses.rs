//! Single reads and writes of array elements (Z-Rays, section 7.1.4): within the part that a z-ray has inline, and
//! beyond it; in order, and at places all over; for every type of element.
//!
//! Both parts are windows of the same size in one array, small enough for the first-level cache, so that what differs
//! is the path.

use super::Options;
use super::elements::Element;
use super::kernel::Kernel;
use crate::heaps::{Comparison, Configuration};
use crate::measure;
use crate::tables::{self, Report, Row, Table, Unit};
use anyhow::ensure;

/// Bytes of the array.
const ARRAY: usize = 64 << 10;
/// Bytes that are accessed: the default part inline.
const WINDOW: usize = 4 << 10;
/// Where the windows begin: in bytes, with a name. The second begins at a place that begins no leaf.
const WINDOWS: [(&str, usize); 2] = [("inline (fast path)", 0), ("beyond (slow path)", (8 << 10) + 512)];
/// Exports of the module.
const LOOPS: [&str; 4] = ["read in order", "read at random", "write in order", "write at random"];

/// How much is accessed.
pub(super) struct Size {
    /// Accesses of one measurement.
    accesses: usize,
}

impl Size {
    pub(super) fn of(options: &Options) -> Size {
        Size { accesses: if options.turns.smallest { 20_000 } else { 20_000_000 } }
    }
}

/// Adds a table for each window, with a row for each type and loop.
pub(super) fn measure(comparison: &Comparison, size: &Size, rounds: usize, report: &mut Report) {
    let (configurations, failed) = comparison.usable();
    let baseline = &comparison.baseline.name;
    let mut columns = vec![(baseline.clone(), Unit::MillisecondsPerMillion)];
    for other in configurations.iter().filter(|configuration| **configuration != &comparison.baseline) {
        columns.push((format!("{}: overhead", other.name), Unit::MillisecondsPerMillion));
        columns.push((format!("{}: ratio", other.name), Unit::Ratio));
    }
    let has_baseline = configurations.first() == Some(&&comparison.baseline);
    for (window, start) in WINDOWS {
        let caption =
            format!("milliseconds for a million accesses under {baseline}, what the others take more, and their ratio");
        let mut table = Table::new(&format!("accesses, {window}"), caption, columns.clone());
        for element in Element::ALL.into_iter().filter(|_| has_baseline) {
            eprintln!("accesses: {window}, {} ...", element.name());
            match kernels(element, &configurations) {
                Ok(mut kernels) => {
                    let rows = LOOPS.map(|name| row(element, name, start, &mut kernels, size, rounds));
                    table.rows.extend(rows);
                }
                Err(error) => table.rows.push(Row::failed(element.name(), &error)),
            }
        }
        table.conclude();
        table.rows.extend(failed.iter().cloned());
        report.tables.push(table);
    }
}

/// The module for a type under every heap, with its array filled.
///
/// # Errors
/// If it does not compile or traps.
fn kernels(element: Element, configurations: &[&Configuration]) -> anyhow::Result<Vec<Kernel>> {
    let wasm = wat::parse_str(module(element))?;
    let kernel = |configuration: &&Configuration| {
        let mut kernel = Kernel::legato(configuration, &wasm)?;
        kernel.call("prepare", [(ARRAY / element.bytes()) as i32, 0, 0, 0])?;
        Ok(kernel)
    };
    configurations.iter().map(kernel).collect()
}

/// One loop over a window under every heap, in turns.
fn row(element: Element, name: &str, start: usize, kernels: &mut [Kernel], size: &Size, rounds: usize) -> Row {
    let subject = format!("{} {name}", element.name());
    let window = WINDOW / element.bytes();
    let passes = size.accesses.div_ceil(window);
    let arguments = [passes as i32, (start / element.bytes()) as i32, window as i32, 0];
    let mut measure = || -> anyhow::Result<Vec<Vec<f64>>> {
        let mut digests = Vec::new();
        for kernel in kernels.iter_mut() {
            digests.push(kernel.call(name, arguments)?);
        }
        ensure!(digests.iter().all(|digest| *digest == digests[0]), "the heaps differ: {digests:?}");
        let mut times = vec![Vec::new(); kernels.len()];
        for round in 0..rounds {
            for index in measure::turn(round, kernels.len()) {
                let (seconds, digest) = kernels[index].time(name, arguments)?;
                ensure!(digest == digests[0], "{}: not the same in every run", kernels[index].name);
                times[index].push(seconds * 1e9 / (passes * window) as f64);
            }
        }
        Ok(times)
    };
    let times = match measure() {
        Ok(times) => times,
        Err(error) => return Row::failed(format!("{subject}: {}", tables::reason(&error)), &error),
    };
    let mut runs = vec![times[0].clone()];
    for other in &times[1..] {
        runs.push(other.iter().zip(&times[0]).map(|(other, baseline)| other - baseline).collect());
        runs.push(other.iter().zip(&times[0]).map(|(other, baseline)| other / baseline).collect());
    }
    Row::new(subject, runs)
}

/// The module for a type of elements. `prepare(elements, _, _, _)` makes and fills the array. The loops take how often
/// to pass over the window, its first element, and how many it has (a power of two); they return a digest of what they
/// have read, or of an element written.
fn module(element: Element) -> String {
    let (declarations, value_type) = (element.declarations(), element.value_type());
    let at_random = "(i32.add (local.get $from)
                       (i32.and (local.get $state) (i32.sub (local.get $count) (i32.const 1))))";
    // Five times the last one plus one goes through all places, in an order that is not theirs, and takes one
    // instruction: accesses must not hide behind the search for a place.
    let random = "(local.set $state (i32.add (i32.const 1)
                    (i32.add (local.get $state) (i32.shl (local.get $state) (i32.const 2)))))";
    let read = |index: &str| {
        let digest = element.digest(&element.get("(local.get $array)", index));
        format!("(local.set $sum (i32.add (local.get $sum) {digest}))")
    };
    let write = |index: &str| format!("(array.set $array (local.get $array) {index} (local.get $value))");
    // In order, the loop runs over places of the array; at random, it counts.
    let function = |name: &str, start: &str, end: &str, step: &str, result: &str| {
        format!(
            r#"(func (export "{name}") (param $passes i32) (param $from i32) (param $count i32) (param i32) (result i32)
                (local $array (ref null $array)) (local $value {value_type})
                (local $i i32) (local $end i32) (local $state i32) (local $sum i32)
                (local.set $array (global.get $one))
                (local.set $value {first})
                (local.set $end {end})
                (loop $pass
                  (local.set $i {start})
                  (loop $more
                    {step}
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (br_if $more (i32.lt_u (local.get $i) (local.get $end))))
                  (local.set $passes (i32.sub (local.get $passes) (i32.const 1)))
                  (br_if $pass (local.get $passes)))
                {result})"#,
            first = element.get("(local.get $array)", "(i32.const 0)"),
        )
    };
    let place = "(local.get $i)";
    let (first, last) = ("(local.get $from)", "(i32.add (local.get $from) (local.get $count))");
    let (zero, count) = ("(i32.const 0)", "(local.get $count)");
    let written = element.digest(&element.get("(local.get $array)", first));
    let functions = [
        function(LOOPS[0], first, last, &read(place), "(local.get $sum)"),
        function(LOOPS[1], zero, count, &format!("{random} {}", read(at_random)), "(local.get $sum)"),
        function(LOOPS[2], first, last, &write(place), &written),
        function(LOOPS[3], zero, count, &format!("{random} {}", write(at_random)), &written),
    ]
    .join("\n");
    // Never 0, so that every part of the array is really there.
    let value = element.of("(i32.or (local.get $i) (i32.const 1))");
    format!(
        r#"(module
          {declarations}
          (func (export "prepare") (param $elements i32) (param i32 i32 i32) (result i32) (local $i i32)
            (global.set $one (array.new_default $array (local.get $elements)))
            (loop $more
              (array.set $array (global.get $one) (local.get $i) {value})
              (local.set $i (i32.add (local.get $i) (i32.const 1)))
              (br_if $more (i32.lt_u (local.get $i) (local.get $elements))))
            (i32.const 0))
          {functions})"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_read_what_was_written() {
        let heap = Configuration::new("default", "", &[]);
        for element in [Element::I32, Element::I64] {
            let mut kernel = kernels(element, &[&heap]).unwrap().remove(0);
            // Elements 4 to 7 hold 5, 5, 7, 7; the second pass adds the same.
            assert_eq!(kernel.call("read in order", [2, 4, 4, 0]).unwrap(), 48, "{element:?}");
            assert_eq!(kernel.call("read at random", [2, 4, 4, 0]).unwrap(), 48, "{element:?}");
            // Element 0, which is 1, goes everywhere.
            assert_eq!(kernel.call("write in order", [1, 4, 4, 0]).unwrap(), 1, "{element:?}");
            assert_eq!(kernel.call("read in order", [1, 4, 4, 0]).unwrap(), 4, "{element:?}");
            assert_eq!(kernel.call("write at random", [100, 8, 4, 0]).unwrap(), 1, "{element:?}");
            assert_eq!(kernel.call("read in order", [1, 8, 4, 0]).unwrap(), 4, "{element:?}");
            // Past the windows everything is as it was.
            assert_eq!(kernel.call("read in order", [1, 12, 4, 0]).unwrap(), 56, "{element:?}");
        }
    }
}
