//! Modules of unusual shape: very deep, very long, very many. Refused with an error or compiled, in bounded time.

use crate::{engine, run};
use legato::{Module, Val};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Compiles on a thread with the stack that an ordinary thread has, and tells how long it took.
fn compiles(text: String) -> (anyhow::Result<()>, Duration) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
        // The text format's own parser is recursive: it is not what is tested here.
        let parse = std::thread::Builder::new().stack_size(1 << 30).spawn(move || wat::parse_str(&text).unwrap());
        let wasm = parse.unwrap().join().unwrap();
        let start = Instant::now();
        let result = Module::new(&engine(), &wasm).map(drop);
        (result, start.elapsed())
    });
    thread.unwrap().join().expect("compilation does not panic")
}

/// As long as a hostile module of a hundred kilobytes may take to compile, on a slow machine without optimisation.
const PATIENCE: Duration = Duration::from_secs(60);

#[track_caller]
fn assert_compiles(text: String) {
    let (result, time) = compiles(text);
    result.unwrap();
    assert!(time < PATIENCE, "{time:?}");
}

#[test]
fn deeply_nested_blocks() {
    let depth = 20_000;
    assert_compiles(format!("(module (func {} nop {}))", "block ".repeat(depth), "end ".repeat(depth)));
    assert_compiles(format!("(module (func {} nop {}))", "loop ".repeat(depth), "end ".repeat(depth)));
    assert_compiles(format!(
        "(module (func (param i32) {} nop {}))",
        "local.get 0 if ".repeat(depth),
        "end ".repeat(depth)
    ));
}

#[test]
fn deep_expressions() {
    let depth = 30_000;
    let text = format!(
        "(module (func (export \"run\") (result i32) i32.const 1 {} {}))",
        "i32.const 1 ".repeat(depth),
        "i32.add ".repeat(depth)
    );
    assert!(matches!(run(&engine(), &text).unwrap()[..], [Val::I32(30_001)]));
}

#[test]
fn a_branch_table_with_many_targets() {
    let mut text = String::from("(module (func (export \"run\") (result i32) (block $a (block $b (br_table");
    for i in 0..50_000 {
        text.push_str(if i % 3 == 0 { " $a" } else { " $b" });
    }
    text.push_str(" (i32.const 49998))) (return (i32.const 1))) (i32.const 2)))");
    assert!(matches!(run(&engine(), &text).unwrap()[..], [Val::I32(2)]));
}

#[test]
fn many_locals_of_references() {
    assert_compiles(format!("(module (func {}))", "(local anyref) ".repeat(40_000)));
    let many = compiles(format!("(module (func {}))", "(local i32) ".repeat(60_000))).0;
    assert!(many.is_err(), "the specification's usual limit of 50,000 locals holds");
}

#[test]
fn many_functions_types_and_globals() {
    let mut text = String::from("(module");
    for i in 0..5_000 {
        let _ = write!(text, "(type $t{i} (struct (field i32) (field (ref null $t{i}))))");
        let _ = write!(text, "(global (ref null $t{i}) (ref.null $t{i}))");
        let _ = write!(text, "(func (result (ref $t{i})) (struct.new $t{i} (i32.const {i}) (ref.null $t{i})))");
    }
    text.push(')');
    assert_compiles(text);
}

#[test]
fn a_long_chain_of_subtypes_is_limited_by_the_specification() {
    let chain = |length: usize| {
        let mut text = String::from("(module (type $t0 (sub (struct)))");
        for i in 1..=length {
            let _ = write!(text, "(type $t{i} (sub $t{} (struct)))", i - 1);
        }
        let _ = write!(
            text,
            "(func (export \"run\") (result i32) (local anyref)
               (local.set 0 (struct.new_default $t{length})) (ref.test (ref $t1) (local.get 0))))"
        );
        text
    };
    assert!(matches!(run(&engine(), &chain(60)).unwrap()[..], [Val::I32(1)]));
    assert!(run(&engine(), &chain(200)).is_err());
}

#[test]
fn many_parameters_and_results() {
    let types = "i64 ".repeat(900);
    let values: String = (0..900).fold(String::new(), |mut text, i| {
        let _ = write!(text, "(i64.const {i})");
        text
    });
    let gets: String = (0..900).fold(String::new(), |mut text, i| {
        let _ = write!(text, "(local.get {i})");
        text
    });
    let text = format!(
        "(module (func $f (param {types}) (result {types}) {gets})
           (func (export \"run\") (result {types}) {values} (call $f)))"
    );
    let results = run(&engine(), &text).unwrap();
    assert!(results.iter().enumerate().all(|(i, value)| value.unwrap_i64() == i as i64));
}

#[test]
fn a_wide_array_literal() {
    let text = format!(
        "(module (type $a (array i32)) (func (export \"run\") (result i32) {}
           (array.get $a (array.new_fixed $a 10000) (i32.const 9999))))",
        "(i32.const 7) ".repeat(10_000)
    );
    assert!(matches!(run(&engine(), &text).unwrap()[..], [Val::I32(7)]));
}

#[test]
fn a_long_start_function() {
    let wasm = legato_lab::generate::start_function(100);
    let engine = engine();
    let module = Module::new(&engine, &wasm).unwrap();
    let mut store = legato::Store::new(&engine, ());
    let instance = legato::Instance::new(&mut store, &module, &[]).unwrap();
    let check = instance.get_typed_func::<(), i32>(&mut store, "check").unwrap();
    assert_eq!(check.call(&mut store, ()).unwrap(), 100);
}
