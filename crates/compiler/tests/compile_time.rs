//! Compile time is near-linear in code size: a start function that initialises thousands of globals with object graphs.

mod support;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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

fn measure(globals: usize) -> Duration {
    let (bytes, instructions) = module(globals);
    let mut best = Duration::MAX;
    for _ in 0..2 {
        let mut options = options(plans()[0].clone());
        options.verify = false;
        options.parallel = true;
        let start = Instant::now();
        let module = compile(&bytes, &options).expect("compiles");
        best = best.min(start.elapsed());
        assert!(module.stack_maps.entries.len() > globals);
    }
    println!("{globals} globals, {instructions} instructions: {best:?}");
    best
}

#[test]
fn near_linear_in_code_size() {
    for globals in [50, 250] {
        measure(globals);
    }
    let small = measure(400);
    let large = measure(3200);
    assert!(
        large < small * 16,
        "eight times the code took {:.1} times the time",
        large.as_secs_f64() / small.as_secs_f64()
    );
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
        for plan in plans() {
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
                module.stack_maps.entries.len(),
                module.stack_maps.slots.len(),
                module.traps.len(),
            );
        }
    }
}
