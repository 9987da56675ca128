//! Functions that are nowhere called once their bodies stand in place of their calls: they are not compiled. All others
//! are, however they are called.

use std::collections::BTreeMap;

use legato_compiler::{CompileOptions, compile};

/// The lengths of the code of the functions with names, in bytes.
fn lengths(optimize: bool) -> BTreeMap<String, u32> {
    let wasm = wat::parse_str(
        r#"(module
            (import "" "host" (func $host))
            (type $f (func (param i32) (result i32)))
            (tag $e)
            (table 1 funcref)
            (elem (i32.const 0) func $element)
            (elem declare func $referenced)
            (global (ref $f) (ref.func $global))
            (start $start)
            (func $inlined (param i32) (result i32) (i32.mul (local.get 0) (i32.const 3)))
            (func $only-in-uncalled (param i32) (result i32) (loop (call $host) (br_if 0 (local.get 0))) (local.get 0))
            (func $uncalled (param i32) (result i32) (call $only-in-uncalled (local.get 0)))
            (func $element (param i32) (result i32) (i32.add (local.get 0) (i32.const 3)))
            (func $referenced (param i32) (result i32) (i32.sub (local.get 0) (i32.const 3)))
            (func $global (param i32) (result i32) (i32.or (local.get 0) (i32.const 3)))
            (func $by-tail-call (param i32) (result i32) (i32.and (local.get 0) (i32.const 3)))
            (func $with-handler (param i32) (result i32) (loop (call $host) (br_if 0 (local.get 0))) (i32.const 3))
            (func $inlined-with-handler (param i32) (result i32) (i32.xor (local.get 0) (i32.const 3)))
            (func $long (param i32) (result i32) (loop (call $host) (br_if 0 (local.get 0))) (local.get 0))
            (func $start (call $host) (drop (call $long (i32.const 0))))
            (func $exported (export "exported") (param i32) (result i32)
                (drop (call_ref $f (local.get 0) (ref.func $referenced)))
                (block $caught
                    (drop (try_table (result i32) (catch $e $caught)
                        (call $with-handler (call $inlined-with-handler (local.get 0))))))
                (return_call $by-tail-call (call $inlined (local.get 0)))))"#,
    )
    .unwrap();
    let options = CompileOptions {
        features: Default::default(),
        checked_memories: false,
        plan: legato_heap::HeapConfig::default().access_plan(),
        optimize,
        parallel: true,
        verify: true,
    };
    let module = compile(&wasm, &options).unwrap();
    let name = |index: u32| module.info.names.functions[index as usize].clone();
    module.functions.iter().map(|function| (name(function.index), function.range.length)).collect()
}

#[test]
fn what_nothing_calls_is_not_compiled() {
    let compiled = lengths(true);
    let stub = compiled["uncalled"];
    assert!(stub < 8, "{compiled:?}");
    let stubs: Vec<_> = compiled.iter().filter(|&(_, &length)| length == stub).map(|(name, _)| name.as_str()).collect();
    assert_eq!(stubs, ["inlined", "inlined-with-handler", "only-in-uncalled", "uncalled"], "{compiled:?}");
}

/// Without optimisation nothing is inlined, and nothing left out.
#[test]
fn everything_is_compiled_without_optimisation() {
    let compiled = lengths(false);
    assert!(compiled.values().all(|&length| length > 8), "{compiled:?}");
}
