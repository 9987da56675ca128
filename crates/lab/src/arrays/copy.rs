//! The speed of `array.copy` in compiled code, over that of `memcpy` in the same process.
//!
//! Two arrays of a mebibyte, or one that is moved within itself by three elements. `memcpy` copies as many bytes from
//! one piece of memory to another, each at the start of a page; how fast it (`memmove`, rather) does the same as the
//! array is a column of its own. All memory was touched before. Engines and `memcpy` take turns.

use super::Options;
use super::elements::Element;
use super::kernel::Kernel;
use crate::heaps::{Comparison, Configuration};
use crate::measure::{self, Time};
use crate::tables::{self, Report, Row, Table, Unit, Verdict};
use anyhow::ensure;

/// How much is copied.
pub(super) struct Size {
    /// Bytes of each array.
    bytes: usize,
    /// Copies of one measurement.
    times: i32,
    elements: &'static [Element],
}

impl Size {
    pub(super) fn of(options: &Options) -> Size {
        let elements = &[Element::I8, Element::I32, Element::I64, Element::Reference];
        if options.turns.smallest {
            Size { bytes: 40_000, times: 2, elements }
        } else {
            Size { bytes: 1 << 20, times: 200, elements }
        }
    }
}

/// From where to where. Offsets are in elements.
#[derive(Clone, Copy, Debug)]
struct Shape {
    name: &'static str,
    /// The export that copies.
    export: &'static str,
    from: usize,
    to: usize,
}

const SHIFT: usize = 3;

const SHAPES: [Shape; 4] = [
    Shape { name: "to another", export: "between", from: 0, to: 0 },
    Shape { name: "to another, shifted", export: "between", from: 0, to: SHIFT },
    Shape { name: "within, upwards", export: "within", from: 0, to: SHIFT },
    Shape { name: "within, downwards", export: "within", from: SHIFT, to: 0 },
];

impl Shape {
    /// Elements that are moved in an array of so many.
    fn length(self, elements: usize) -> usize {
        elements - self.from.max(self.to)
    }

    /// Arguments of the exports for an array of so many elements.
    fn arguments(self, times: i32, elements: usize) -> [i32; 4] {
        [times, self.to as i32, self.from as i32, self.length(elements) as i32]
    }
}

/// Adds a row for each type and shape, with a column for each heap.
pub(super) fn measure(comparison: &Comparison, size: &Size, rounds: usize, report: &mut Report) {
    let (configurations, failed) = comparison.usable();
    let mut columns = vec![("memcpy".to_string(), Unit::GigabytesPerSecond), ("memcpy, alike".into(), Unit::Ratio)];
    columns.extend(configurations.iter().map(|configuration| (configuration.name.clone(), Unit::Ratio)));
    if cfg!(feature = "peers") {
        columns.push(("wasmtime".into(), Unit::Ratio));
    }
    let caption = format!("array.copy of {} KiB: bytes in a second over those of memcpy", size.bytes >> 10);
    let mut table = Table::new("copy", caption, columns);
    for element in size.elements {
        let mut kernels = kernels(*element, &configurations);
        for shape in SHAPES {
            let subject = format!("{} {}", element.name(), shape.name);
            eprintln!("copy: {subject} ...");
            table.rows.push(row(subject, *element, shape, &mut kernels, size, rounds));
        }
    }
    for (at, configuration) in configurations.iter().enumerate() {
        judge(configuration, at + 2, &table, &mut report.verdicts);
    }
    table.conclude();
    table.rows.extend(failed);
    report.tables.push(table);
}

/// The slowest copy of a heap must keep its bound.
fn judge(configuration: &Configuration, column: usize, table: &Table, verdicts: &mut Vec<Verdict>) {
    let Some(bound) = configuration.copy else { return };
    let measured = table.rows.iter().filter(|row| row.runs.get(column).is_some_and(|runs| !runs.is_empty()));
    let slowest = measured.min_by(|a, b| a.cells[column].median.total_cmp(&b.cells[column].median));
    if let Some(row) = slowest {
        let value = row.cells[column].median;
        let what = format!("{}: array.copy over memcpy, slowest ({}) >= {bound}", configuration.name, row.subject);
        verdicts.push(Verdict { what, value, met: value >= bound });
    }
}

/// The module for a type in every engine, or why there is none.
fn kernels(element: Element, configurations: &[&Configuration]) -> Vec<anyhow::Result<Kernel>> {
    let wasm = match wat::parse_str(module(element)) {
        Ok(wasm) => wasm,
        Err(error) => return vec![Err(error.into())],
    };
    let kernels = configurations.iter().map(|configuration| Kernel::legato(configuration, &wasm));
    #[cfg(feature = "peers")]
    let kernels = kernels.chain(std::iter::once_with(|| Kernel::wasmtime(&wasm)));
    kernels.collect()
}

/// One copy in every engine, in turns with `memcpy`.
fn row(
    subject: String,
    element: Element,
    shape: Shape,
    kernels: &mut [anyhow::Result<Kernel>],
    size: &Size,
    rounds: usize,
) -> Row {
    let elements = size.bytes / element.bytes();
    let mut failures = Vec::new();
    let mut ready = Vec::new();
    for kernel in kernels.iter_mut() {
        let checked = match kernel {
            Ok(kernel) => check(kernel, shape, elements).map_err(|error| error.context(kernel.name.clone())),
            Err(error) => Err(anyhow::anyhow!("{}", tables::reason(error))),
        };
        ready.push(checked.is_ok());
        failures.extend(checked.err().map(|error| tables::reason(&error)));
    }
    let mut native = Native::new(size.bytes);
    let bytes = shape.length(elements) * element.bytes();
    let offsets = [shape.to * element.bytes(), shape.from * element.bytes()];
    // The contestants are memcpy, memcpy alike, and the kernels.
    const NATIVE: usize = 2;
    let mut seconds = vec![Vec::new(); NATIVE + kernels.len()];
    for round in 0..rounds {
        for index in measure::turn(round, seconds.len()) {
            let time = match index {
                0 => Ok(native.time("between", [0, 0], bytes, size.times)),
                1 => Ok(native.time(shape.export, offsets, bytes, size.times)),
                _ => match &mut kernels[index - NATIVE] {
                    Ok(kernel) if ready[index - NATIVE] => {
                        kernel.time(shape.export, shape.arguments(size.times, elements)).map(|(time, _)| time)
                    }
                    _ => continue,
                },
            };
            match time {
                Ok(time) => seconds[index].push(time),
                Err(error) => {
                    ready[index - NATIVE] = false;
                    failures.push(tables::reason(&error));
                    seconds[index].clear();
                }
            }
        }
    }
    let memcpy = &seconds[0];
    let copied = bytes as f64 * f64::from(size.times);
    let bandwidth = memcpy.iter().map(|seconds| copied / seconds / 1e9).collect();
    let ratios = seconds[1..].iter().map(|own| memcpy.iter().zip(own).map(|(memcpy, own)| memcpy / own).collect());
    let mut row = Row::new(subject, std::iter::once(bandwidth).chain(ratios).collect());
    row.error = (!failures.is_empty()).then(|| failures.join("; "));
    row
}

/// Fills the arrays anew, copies once, and compares what was copied.
///
/// # Errors
/// If an export traps, or the copy is wrong.
fn check(kernel: &mut Kernel, shape: Shape, elements: usize) -> anyhow::Result<()> {
    let arguments = shape.arguments(1, elements);
    kernel.call("prepare", [elements as i32, i32::from(shape.export == "between"), 0, 0])?;
    kernel.call(shape.export, arguments)?;
    let same = kernel.call(&format!("compare {}", shape.export), arguments)?;
    ensure!(same == arguments[3], "element {same} of {} is not as it was copied", arguments[3]);
    Ok(())
}

/// Memory outside of every heap.
struct Native {
    one: Vec<u8>,
    other: Vec<u8>,
}

/// Bytes of a page: more than any alignment that memcpy may like.
const PAGE: usize = 4096;

impl Native {
    fn new(bytes: usize) -> Native {
        Native { one: vec![1; bytes + PAGE], other: vec![2; bytes + PAGE] }
    }

    /// Seconds that it takes to copy so often as the export of this name does. Offsets, of the target and of the
    /// source, are in bytes.
    fn time(&mut self, export: &str, [to, from]: [usize; 2], length: usize, times: i32) -> f64 {
        let page = |bytes: &[u8]| bytes.as_ptr().align_offset(PAGE);
        let (one, other) = (page(&self.one), page(&self.other));
        let (one, other) = (&mut self.one[one..], &mut self.other[other..]);
        let (time, ()) = Time::of(|| {
            for _ in 0..times {
                if export == "between" {
                    other[to..to + length].copy_from_slice(&std::hint::black_box(&*one)[from..from + length]);
                    std::hint::black_box(&mut *other);
                } else {
                    std::hint::black_box(&mut *one).copy_within(from..from + length, to);
                }
            }
        });
        time.wall
    }
}

/// The module for a type of elements. `prepare(elements, apart, _, _)` makes two arrays that hold the same, or the
/// second of them nothing; the other exports take the times, the places of target and source, and how many elements.
/// What is compared is the target with the source as it was: within an array, with the other array.
fn module(element: Element) -> String {
    let get = |array: &str, place: &str| {
        element.get(&format!("(global.get {array})"), &format!("(i32.add (local.get {place}) (local.get $i))"))
    };
    let copy = |target: &str| {
        format!(
            "(loop $more
               (array.copy $array $array (global.get {target}) (local.get $to)
                 (global.get $one) (local.get $from) (local.get $length))
               (local.set $times (i32.sub (local.get $times) (i32.const 1)))
               (br_if $more (local.get $times)))
             (i32.const 0)"
        )
    };
    let compare = |target: &str, source: &str| {
        let equal = element.equal(&get(target, "$to"), &get(source, "$from"));
        format!(
            "(local $i i32)
             (loop $more
               (if (i32.eqz {equal}) (then (return (local.get $i))))
               (local.set $i (i32.add (local.get $i) (i32.const 1)))
               (br_if $more (i32.lt_u (local.get $i) (local.get $length))))
             (local.get $i)"
        )
    };
    let parameters = "(param $times i32) (param $to i32) (param $from i32) (param $length i32) (result i32)";
    let (declarations, value_type) = (element.declarations(), element.value_type());
    // Never 0, so that no part of the array can be left out.
    let value = element.of("(i32.or (local.get $i) (i32.const 1))");
    let (between, within) = (copy("$other"), copy("$one"));
    let (compare_between, compare_within) = (compare("$other", "$one"), compare("$one", "$other"));
    format!(
        r#"(module
          {declarations}
          (func (export "prepare") (param $elements i32) (param $apart i32) (param i32 i32) (result i32)
            (local $i i32) (local $value {value_type})
            (global.set $one (array.new_default $array (local.get $elements)))
            (global.set $other (array.new_default $array (local.get $elements)))
            ;; Garbage enough that a moving collector has moved the arrays.
            (loop $more
              (drop (struct.new $box (local.get $i)))
              (local.set $i (i32.add (local.get $i) (i32.const 1)))
              (br_if $more (i32.lt_u (local.get $i) (i32.const 500000))))
            (local.set $i (i32.const 0))
            (loop $more
              (local.set $value {value})
              (array.set $array (global.get $one) (local.get $i) (local.get $value))
              (if (i32.eqz (local.get $apart))
                (then (array.set $array (global.get $other) (local.get $i) (local.get $value))))
              (local.set $i (i32.add (local.get $i) (i32.const 1)))
              (br_if $more (i32.lt_u (local.get $i) (local.get $elements))))
            (i32.const 0))
          (func (export "between") {parameters} {between})
          (func (export "within") {parameters} {within})
          (func (export "compare between") {parameters} {compare_between})
          (func (export "compare within") {parameters} {compare_within}))"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_copy_is_noticed() {
        for element in Element::ALL {
            let wasm = wat::parse_str(module(element)).unwrap();
            let options = Configuration::new("default", "", &[]);
            let mut kernel = Kernel::legato(&options, &wasm).unwrap();
            for shape in SHAPES {
                check(&mut kernel, shape, 3_000).unwrap();
                // Another place is another content.
                let mut arguments = shape.arguments(1, 2_000);
                arguments[2] += 500;
                let same = kernel.call(&format!("compare {}", shape.export), arguments).unwrap();
                assert!(same < arguments[3], "{element:?} {shape:?}: {same}");
            }
        }
    }
}
