//! Large modules: a start function that initialises thousands of globals with object graphs, and whole programs.

mod support;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use legato_compiler::compile;
use support::{options, plans};

/// A module whose start function gives `globals` globals an object graph each, with about 130 instructions for each.
fn module(globals: usize) -> (Vec<u8>, usize) {
    let mut text = String::from(
        "(module (type $leaf (struct (field i32) (field (mut f64)))) (type $array (array (mut (ref null $leaf))))
         (type $node (struct (field (ref null $node)) (field (ref null $array)) (field (mut i64))))\n",
    );
    for number in 0..globals {
        writeln!(text, "(global $g{number} (mut (ref null $node)) (ref.null $node))").unwrap();
    }
    text.push_str("(func $helper (param (ref null $node)) (result (ref null $node)) (local.get 0))\n");
    text.push_str("(func $start (local $n (ref null $node)) (local $a (ref null $array))\n");
    let mut instructions = 0;
    for number in 0..globals {
        text.push_str("(local.set $n (ref.null $node))\n");
        for depth in 0..5 {
            writeln!(
                text,
                "(local.set $a (array.new_fixed $array 4
                   (struct.new $leaf (i32.const {depth}) (f64.const 1.5)) (struct.new $leaf (i32.const 2) (f64.const 2))
                   (struct.new $leaf (i32.const {number}) (f64.const 3)) (ref.null $leaf)))
                 (local.set $n (struct.new $node (local.get $n) (local.get $a) (i64.const {number})))
                 (struct.set $node 2 (local.get $n) (i64.add (i64.const 1) (struct.get $node 2 (local.get $n))))"
            )
            .unwrap();
            instructions += 24;
        }
        writeln!(text, "(global.set $g{number} (call $helper (local.get $n)))").unwrap();
        instructions += 5;
    }
    text.push_str(") (start $start))");
    (wat::parse_str(&text).expect("assembles"), instructions)
}

/// Bytes of machine code of the module.
fn code_bytes(globals: usize) -> usize {
    let (bytes, instructions) = module(globals);
    let mut options = options(plans()[0].1.clone());
    options.verify = false;
    options.parallel = true;
    let module = compile(&bytes, &options).expect("compiles");
    assert!(module.tables.stack_maps.entries.len() > globals);
    println!("{globals} globals, {instructions} instructions: {} bytes", module.code.len());
    module.code.len()
}

/// Time is the lab's to measure; what the test holds is that nothing in the result grows faster than the module.
#[test]
fn code_is_linear_in_the_modules_size() {
    let (small, large) = (code_bytes(400), code_bytes(3200));
    assert!(large < small * 9, "eight times the module gave {small} and {large} bytes of code");
}

fn modules(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && depth > 0 {
            modules(&path, depth - 1, found);
        } else if path.extension().is_some_and(|extension| extension == "wasm") {
            found.push(path);
        }
    }
}

/// Whole programs from the folder that `LEGATO_PROGRAMS` names (searched two levels deep): each is compiled under every
/// plan with verification, and timed without.
#[test]
fn whole_programs() {
    let mut found = Vec::new();
    if let Some(folder) = std::env::var_os("LEGATO_PROGRAMS") {
        modules(Path::new(&folder), 2, &mut found);
    }
    found.sort();
    for path in found {
        let bytes = std::fs::read(&path).expect("readable");
        for (_, plan) in plans() {
            let mut options = options(plan);
            options.parallel = true;
            compile(&bytes, &options).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            options.verify = false;
            let start = Instant::now();
            let module = compile(&bytes, &options).expect("compiles as before");
            println!(
                "{}, {:?}: {} KiB to {} KiB of code in {:?}; {} functions, {} safepoints with {} slots, {} traps",
                path.display(),
                options.plan.references,
                bytes.len() >> 10,
                module.code.len() >> 10,
                start.elapsed(),
                module.functions.len(),
                module.tables.stack_maps.entries.len(),
                module.tables.stack_maps.slots.len(),
                module.tables.traps.len(),
            );
        }
    }
}
