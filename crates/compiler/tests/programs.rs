//! Whole programs through the front end, with times. `LEGATO_PROGRAMS` names a folder of modules (searched two levels
//! deep); without it a generated program has to do.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use legato_compiler::module::ParsedModule;
use legato_compiler::{CompileOptions, translate_module};

fn options(optimize: bool, verify: bool) -> CompileOptions {
    CompileOptions {
        features: Default::default(),
        checked_memories: false,
        plan: legato_heap::HeapConfig::default().access_plan(),
        optimize,
        parallel: true,
        verify,
    }
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

fn measure(name: &str, wasm: &[u8]) {
    let started = Instant::now();
    let parsed = ParsedModule::parse(wasm, Default::default()).unwrap();
    let parse = started.elapsed();
    let started = Instant::now();
    let plain = translate_module(&parsed, &options(false, false)).unwrap();
    let translate = started.elapsed();
    let started = Instant::now();
    let optimized = translate_module(&parsed, &options(true, false)).unwrap();
    let optimize = started.elapsed();
    let count = |functions: &[legato_compiler::mir::Function]| -> usize {
        functions.iter().flat_map(|function| &function.blocks).map(|block| block.insts.len()).sum()
    };
    println!(
        "{name}: {} KiB, parse {parse:?}, translate {translate:?} ({} instructions), with passes {optimize:?} ({})",
        wasm.len() >> 10,
        count(&plain),
        count(&optimized),
    );
    translate_module(&parsed, &options(true, true)).unwrap();
}

#[test]
fn programs() {
    let mut found = Vec::new();
    if let Some(folder) = std::env::var_os("LEGATO_PROGRAMS") {
        modules(Path::new(&folder), 2, &mut found);
    }
    found.sort();
    for path in found {
        measure(&path.display().to_string(), &std::fs::read(&path).unwrap());
    }
}

/// Initialises thousands of globals with object graphs, as the start functions of large Kotlin programs do.
#[test]
fn large_start_function() {
    let globals = 3000;
    let mut wat = String::from(
        "(module (type $node (struct (field (mut i32)) (field (mut (ref null $node)))))
           (type $array (array (mut (ref null $node))))
           (func $make (param i32) (result (ref $node)) (struct.new $node (local.get 0) (ref.null $node)))",
    );
    for number in 0..globals {
        writeln!(wat, "(global $g{number} (mut (ref null $array)) (ref.null $array))").unwrap();
    }
    wat.push_str("(func $start (local $a (ref null $array)) (local $n (ref null $node)) (local $i i32)\n");
    for number in 0..globals {
        writeln!(wat, "(local.set $a (array.new $array (ref.null $node) (i32.const 8)))").unwrap();
        for element in 0..8 {
            writeln!(
                wat,
                "(local.set $n (call $make (i32.const {element})))
                 (struct.set $node 1 (local.get $n) (local.get $n))
                 (if (i32.eqz (struct.get $node 0 (local.get $n))) (then (local.set $i (i32.const {number}))))
                 (array.set $array (local.get $a) (i32.const {element}) (local.get $n))"
            )
            .unwrap();
        }
        writeln!(wat, "(global.set $g{number} (local.get $a))").unwrap();
    }
    wat.push_str(") (start $start))");
    measure("generated start function", &wat::parse_str(&wat).unwrap());
}

/// A long chain of calls under one handler, and deep nests: what makes simple algorithms quadratic.
#[test]
fn hostile_shapes() {
    let mut calls =
        String::from("(module (tag $e) (func $f) (func (local i32 i32 i32) (block $h (try_table (catch_all $h)\n");
    for number in 0..20_000 {
        writeln!(calls, "(call $f) (local.set {} (i32.const {number}))", number % 3).unwrap();
    }
    calls.push_str(")) (drop (local.get 0)) (drop (local.get 1))))");
    measure("calls under a handler", &wat::parse_str(&calls).unwrap());

    let depth = 3_000;
    let mut nest = String::from("(module (func (param i32) (local i32)\n");
    for _ in 0..depth {
        nest.push_str("loop (local.set 1 (i32.add (local.get 1) (i32.const 1)))\n");
    }
    nest.push_str("(local.get 0) br_table");
    for level in 0..depth {
        write!(nest, " {level}").unwrap();
    }
    nest.push('\n');
    nest.push_str(&"end\n".repeat(depth));
    nest.push_str("))");
    measure("a nest of loops", &wat::parse_str(&nest).unwrap());

    let count = 600;
    let mut objects = String::from(
        "(module (type $s (struct (field (mut i32)))) (import \"h\" \"f\" (func $f))
        (func (export \"f\") (param i32) (result i32) (local $sum i32)\n",
    );
    for number in 0..count {
        writeln!(objects, "(local $o{number} (ref null $s))").unwrap();
    }
    for number in 0..count {
        writeln!(objects, "(local.set $o{number} (struct.new $s (local.get 0)))").unwrap();
    }
    objects.push_str(&"(if (local.get 0) (then (call $f)))\n".repeat(count));
    for number in 0..count {
        writeln!(objects, "(local.set $sum (i32.add (local.get $sum) (struct.get $s 0 (local.get $o{number}))))")
            .unwrap();
    }
    objects.push_str("(local.get $sum)))");
    measure("objects that live long", &wat::parse_str(&objects).unwrap());
}
