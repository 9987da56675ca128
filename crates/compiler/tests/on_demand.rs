//! What is known of a module before its functions are compiled, kept as bytes.

mod support;

use legato_compiler::abi::Builtin;
use legato_compiler::emit::Symbol;
use legato_compiler::{CompileOptions, OnDemand, Tier};
use legato_heap::references::References;
use support::*;

/// A field that always holds one function, which is called directly then; a function that is inlined; a loop; data; a
/// global that settles on a function that does nothing.
const MODULE: &str = r#"(module
    (type $method (func (result i32)))
    (type $table (struct (field (ref $method)) (field (mut i32)) (field i64)))
    (import "host" "f" (func (param i32)))
    (memory 1)
    (data (i32.const 8) "bytes")
    (global $shared (ref $table) (struct.new $table (ref.func $seven) (i32.const 1) (i64.const 2)))
    (func $seven (type $method) (i32.const 7))
    (func (export "run") (param i32) (result i32)
        (local $table (ref $table))
        (local.set $table (struct.new $table (ref.func $seven) (local.get 0) (i64.const 2)))
        (loop (call 0 (local.get 0))
            (br_if 0 (local.tee 0 (i32.sub (local.get 0) (call_ref $method (struct.get $table 0 (local.get $table)))))))
        (call_ref $initializer (global.get $initialize))
        (struct.get $table 1 (global.get $shared)))
    (type $initializer (func))
    (func $nothing)
    (elem declare func $nothing)
    (global $initialize (mut (ref null $initializer)) (ref.func $first))
    (func $first (global.set $initialize (ref.func $nothing))))"#;

fn bytes(compiler: &OnDemand, function: u32, tier: Tier) -> Vec<u8> {
    compiler.compile(Symbol::Function(function), tier).unwrap().to_bytes().unwrap()
}

#[test]
fn what_is_kept_compiles_the_same_code() {
    let wasm = wat::parse_str(MODULE).unwrap();
    for optimize in [false, true] {
        let options = CompileOptions { optimize, ..options(plan(References::Direct)) };
        let made = OnDemand::new(&wasm, &options).unwrap();
        let kept = made.to_bytes().unwrap();
        let loaded = OnDemand::from_bytes(&kept, &wasm, &options).unwrap().expect("they are the right bytes");
        assert_eq!(loaded.info(), made.info());
        assert!(loaded.sources().eq(made.sources()));
        assert_eq!(loaded.to_bytes(), Some(kept), "nothing is lost");
        for function in 1..3 {
            for tier in [Tier::Quick, Tier::Optimized] {
                assert_eq!(bytes(&loaded, function, tier), bytes(&made, function, tier), "{function} {tier:?}");
            }
        }
    }
}

#[test]
fn what_is_something_else_is_not_used() {
    let wasm = wat::parse_str(MODULE).unwrap();
    let options = options(plan(References::Direct));
    let kept = OnDemand::new(&wasm, &options).unwrap().to_bytes().unwrap();
    let is_used = |kept: &[u8], wasm: &[u8]| OnDemand::from_bytes(kept, wasm, &options).unwrap().is_some();
    assert!(is_used(&kept, &wasm));
    assert!(!is_used(&[], &wasm) && !is_used(&kept[..kept.len() / 2], &wasm));
    assert!(!is_used(&kept, &wasm[..wasm.len() / 2]), "bodies lie within the module");
}

/// What initialises, and runs once, is long and has no loops: inline barriers would make it longer. What may be called
/// often has them inline.
#[test]
fn long_quick_functions_without_loops_store_references_by_calls() {
    let stores = "(struct.set $s 0 (local.get 0) (local.get 0))
        (array.set $a (local.get 1) (i32.const 0) (local.get 0))"
        .repeat(200);
    let short = &stores[..stores.len() / 200];
    let wasm = wat::parse_str(format!(
        r#"(module
        (type $s (struct (field (mut (ref null $s)))))
        (type $a (array (mut (ref null $s))))
        (func (param (ref $s) (ref $a)) {stores})
        (func (param (ref $s) (ref $a)) {short})
        (func (param (ref $s) (ref $a) i32) (loop {stores} (br_if 0 (local.get 2)))))"#
    ))
    .unwrap();
    let plans: Vec<_> = all_plans().into_iter().filter(|(_, plan)| plan.store_barrier.after.is_some()).collect();
    assert!(!plans.is_empty());
    for (title, plan) in plans {
        let compiler = OnDemand::new(&wasm, &CompileOptions { optimize: true, ..options(plan) }).unwrap();
        let calls = |function, tier| {
            let code = compiler.compile(Symbol::Function(function), tier).unwrap();
            [Builtin::StoreField, Builtin::StoreElement].map(|builtin| {
                let symbol = Symbol::Builtin(builtin as u32);
                code.symbols().filter(|&called| called == symbol).count()
            })
        };
        assert_eq!(calls(0, Tier::Quick), [200, 200], "{title}");
        for (function, tier) in [(0, Tier::Optimized), (1, Tier::Quick), (2, Tier::Quick)] {
            assert_eq!(calls(function, tier), [0, 0], "{title}: {function} {tier:?}");
        }
    }
}
