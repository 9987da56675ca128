use legato::{Engine, Instance, Linker, Module, Store};

use super::*;

#[test]
fn special_values_are_javas() {
    assert!(pow(1.0, f64::NAN).is_nan());
    assert!(pow(-1.0, f64::INFINITY).is_nan());
    assert_eq!(pow(f64::NAN, 0.0), 1.0);
    assert_eq!(pow(2.0, 10.0), 1024.0);
    assert!(sign(-0.0).is_sign_negative());
}

/// The functions that Wasm has instructions for.
struct Instructions {
    store: Store<()>,
    instance: Instance,
}

impl Instructions {
    fn new() -> Instructions {
        let engine = Engine::default();
        let unary = ["abs", "ceil", "floor", "rint", "sqrt", "trunc"]
            .map(|name| format!(r#"(import "teavmMath" "{name}" (func (param f64) (result f64)))"#));
        let binary =
            ["max", "min"].map(|name| format!(r#"(import "teavmMath" "{name}" (func (param f64 f64) (result f64)))"#));
        let program = format!("(module {} {})", unary.concat(), binary.concat());
        let program = Module::new(&engine, program).unwrap();
        let library = instructions(&engine, &program).unwrap().unwrap();
        assert!(Module::same(&library, &instructions(&engine, &program).unwrap().unwrap()), "there is one for all");
        let mut store = Store::new(&engine, ());
        let instance = Linker::new(&engine).instantiate(&mut store, &library).unwrap();
        Instructions { store, instance }
    }

    fn unary(&mut self, name: &str, x: f64) -> f64 {
        let function = self.instance.get_typed_func::<f64, f64>(&mut self.store, name).unwrap();
        function.call(&mut self.store, x).unwrap()
    }

    fn binary(&mut self, name: &str, x: f64, y: f64) -> f64 {
        let function = self.instance.get_typed_func::<(f64, f64), f64>(&mut self.store, name).unwrap();
        function.call(&mut self.store, (x, y)).unwrap()
    }
}

#[test]
fn there_are_no_instructions_that_the_program_does_not_import() {
    let engine = Engine::default();
    let exports = |imports: &str| -> Option<Vec<String>> {
        let program = Module::new(&engine, format!("(module {imports})")).unwrap();
        let library = instructions(&engine, &program).unwrap()?;
        Some(library.exports().map(|export| export.name().to_owned()).collect())
    };
    let sqrt = r#"(import "teavmMath" "sqrt" (func (param f64) (result f64)))"#;
    let floor = r#"(import "other" "floor" (func (param f64) (result f64)))"#;
    let sin = r#"(import "teavmMath" "sin" (func (param f64) (result f64)))"#;
    assert_eq!(exports(&[sin, sqrt, floor].concat()), Some(vec!["sqrt".to_owned()]));
    assert_eq!(exports(&[sin, floor].concat()), None);
}

#[test]
fn instructions_do_what_java_does() {
    let mut wasm = Instructions::new();
    // Each of them with its results for these.
    let arguments = [-0.0, 0.5, -0.5, 1.5, 2.5, -2.7, 4.0, 1e300, f64::INFINITY];
    let unary: [(&str, [f64; 9]); 5] = [
        ("abs", [0.0, 0.5, 0.5, 1.5, 2.5, 2.7, 4.0, 1e300, f64::INFINITY]),
        ("ceil", [-0.0, 1.0, -0.0, 2.0, 3.0, -2.0, 4.0, 1e300, f64::INFINITY]),
        ("floor", [-0.0, 0.0, -1.0, 1.0, 2.0, -3.0, 4.0, 1e300, f64::INFINITY]),
        ("rint", [-0.0, 0.0, -0.0, 2.0, 2.0, -3.0, 4.0, 1e300, f64::INFINITY]),
        ("trunc", [-0.0, 0.0, -0.0, 1.0, 2.0, -2.0, 4.0, 1e300, f64::INFINITY]),
    ];
    for (name, results) in unary {
        for (x, result) in arguments.into_iter().zip(results) {
            assert_eq!(wasm.unary(name, x).to_bits(), result.to_bits(), "{name}({x})");
        }
        assert!(wasm.unary(name, f64::NAN).is_nan());
    }
    assert!(wasm.unary("sqrt", -1.0).is_nan());
    for (x, y, least, greatest) in [(1.0, 2.0, 1.0, 2.0), (0.0, -0.0, -0.0, 0.0), (-0.0, 0.0, -0.0, 0.0)] {
        assert_eq!(wasm.binary("min", x, y).to_bits(), f64::to_bits(least), "min({x}, {y})");
        assert_eq!(wasm.binary("max", x, y).to_bits(), f64::to_bits(greatest), "max({x}, {y})");
    }
    for name in ["min", "max"] {
        assert!(wasm.binary(name, 1.0, f64::NAN).is_nan() && wasm.binary(name, f64::NAN, 1.0).is_nan());
    }
}

#[test]
fn random_numbers_fill_the_unit_interval() {
    let mut state = seed();
    let numbers: Vec<f64> = (0..10_000).map(|_| random(&mut state)).collect();
    assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
    let mean = numbers.iter().sum::<f64>() / 10_000.0;
    assert!((0.45..0.55).contains(&mean), "{mean}");
}

/// What Java's `StrictMath` gives; `vectors/Vectors.java` beside the file has printed it:
/// `javac Vectors.java && java Vectors 40 > strict_math.txt`.
const VECTORS: &str = include_str!("vectors/strict_math.txt");

#[test]
fn results_are_javas_to_the_last_bit() {
    let mut wrong = Vec::new();
    let mut wasm = Instructions::new();
    for line in VECTORS.lines() {
        let (name, bits) = line.split_once(' ').unwrap();
        let numbers: Vec<f64> =
            bits.split(' ').map(|bits| f64::from_bits(u64::from_str_radix(bits, 16).unwrap())).collect();
        let (result, expected) = match numbers[..] {
            [x, expected] => (unary(name).map_or_else(|| wasm.unary(name, x), |function| function(x)), expected),
            [x, y, expected] => (binary(name).unwrap()(x, y), expected),
            _ => panic!("{line}"),
        };
        let is_same = result.to_bits() == expected.to_bits() || result.is_nan() && expected.is_nan();
        // Beyond 2^20 halves of pi the reduction is another one.
        let is_large = matches!(name, "sin" | "cos") && numbers[0].abs() > 1.6e6;
        if !(is_same || is_large && result.to_bits().abs_diff(expected.to_bits()) <= 1) {
            wrong.push(format!("{line}: {result:e} instead of {expected:e}"));
        }
    }
    assert!(wrong.is_empty(), "{} results: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
    assert!(VECTORS.lines().count() > 2000);
}

/// Java has none of these: what V8's port of fdlibm gives.
#[test]
fn functions_of_javascript_alone() {
    for &(name, x, expected) in JAVASCRIPT {
        let result = unary(name).unwrap()(x);
        assert_eq!(result.to_bits(), expected.to_bits(), "{name}({x}): {result:e} instead of {expected:e}");
    }
}

#[allow(clippy::approx_constant, reason = "what has been printed")]
const JAVASCRIPT: &[(&str, f64, f64)] = &[
    ("acosh", 1.0, 0.0),
    ("acosh", 1.1, 0.4435682543851154),
    ("acosh", 1.5, 0.9624236501192069),
    ("acosh", 2.0, 1.3169578969248166),
    ("acosh", 3.0, 1.7627471740390859),
    ("acosh", 7.25, 2.669358110903154),
    ("acosh", 10.0, 2.993222846126381),
    ("acosh", 100000.0, 12.206072645505174),
    ("acosh", 10000000000.0, 23.7189981105004),
    ("acosh", 1e300, 691.4686750787736),
    ("asinh", 0.1, 0.09983407889920758),
    ("asinh", -0.3, -0.29567304756342244),
    ("asinh", 0.5, 0.48121182505960347),
    ("asinh", 0.9, 0.8088669356527824),
    ("asinh", 0.99, 0.8742848121872949),
    ("asinh", 1.0, 0.881373587019543),
    ("asinh", 1.1, 0.9503469298211343),
    ("asinh", 1.5, 1.1947632172871094),
    ("asinh", 2.0, 1.4436354751788103),
    ("asinh", 3.0, 1.8184464592320668),
    ("asinh", 7.25, 2.678871313462426),
    ("asinh", 10.0, 2.99822295029797),
    ("asinh", 100000.0, 12.206072645555174),
    ("asinh", 10000000000.0, 23.7189981105004),
    ("asinh", 1e300, 691.4686750787736),
    ("asinh", 3e-9, 3e-9),
    ("atanh", 0.1, 0.10033534773107558),
    ("atanh", -0.3, -0.30951960420311175),
    ("atanh", 0.5, 0.5493061443340548),
    ("atanh", 0.9, 1.4722194895832204),
    ("atanh", 0.99, 2.6466524123622457),
    ("atanh", 3e-9, 3e-9),
    ("log2", 0.1, -3.321928094887362),
    ("log2", 0.5, -1.0),
    ("log2", 0.9, -0.15200309344504995),
    ("log2", 0.99, -0.014499569695115089),
    ("log2", 1.0, 0.0),
    ("log2", 1.1, 0.13750352374993502),
    ("log2", 1.5, 0.5849625007211562),
    ("log2", 2.0, 1.0),
    ("log2", 3.0, 1.584962500721156),
    ("log2", 7.25, 2.8579809951275723),
    ("log2", 10.0, 3.321928094887362),
    ("log2", 100000.0, 16.609640474436812),
    ("log2", 10000000000.0, 33.219280948873624),
    ("log2", 1e300, 996.5784284662087),
    ("log2", 3e-9, -28.312390353265105),
];
