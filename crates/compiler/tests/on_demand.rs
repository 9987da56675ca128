//! What is known of a module before its functions are compiled, kept as bytes.

mod support;

use std::sync::atomic::Ordering;

use legato_compiler::abi::{Builtin, TARGETS};
use legato_compiler::emit::Symbol;
use legato_compiler::{CompileOptions, OnDemand, Tier};
use legato_heap::plan::{AccessPlan, ArrayPlan};
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

/// Values that loops make when they are first asked for: where they are made already, callers find them in line. Not so
/// where a loop runs each time, or in a long body.
#[test]
fn what_is_made_once_is_found_in_line() {
    let caller = |before: &str, inside: &str| {
        let wasm = wat::parse_str(format!(
            r#"(module
            (type $s (struct (field $hash (mut i32))))
            (func $hash (param $s (ref $s)) (result i32) (local $hash i32)
                {before}
                (if (i32.eqz (struct.get $s 0 (local.get $s))) (then
                    (loop (br_if 0 (i32.lt_u (local.tee $hash (i32.add (local.get $hash) (i32.const 7))) (i32.const 90))))
                    {inside}
                    (struct.set $s 0 (local.get $s) (local.get $hash))))
                (struct.get $s 0 (local.get $s)))
            (func (param (ref $s)) (result i32) (call $hash (local.get 0))))"#
        ));
        let options = CompileOptions { optimize: true, ..options(plan(References::Direct)) };
        let compiler = OnDemand::new(&wasm.unwrap(), &options).unwrap();
        compiler.compile(Symbol::Function(1), Tier::Optimized).unwrap().length()
    };
    let called = caller(
        "(loop (br_if 0 (i32.lt_u (local.tee $hash (i32.add (local.get $hash) (i32.const 7))) (i32.const 9))))",
        "",
    );
    let long = "(local.set $hash (i32.mul (local.get $hash) (local.get $hash)))".repeat(80);
    assert_eq!(caller("", &long), called, "a long body is not looked at");
    assert!(caller("", "") > called, "{called} bytes call");
    let somewhat_long = "(local.set $hash (i32.mul (local.get $hash) (local.get $hash)))".repeat(50);
    assert_eq!(caller("", &somewhat_long), caller("", ""), "what is left to the function does not count");
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

/// The elements of a table of strings, say, are in globals that are mostly made one after the other.
#[test]
fn long_quick_functions_without_loops_have_globals_stored_into_new_arrays_by_calls() {
    const GLOBALS: usize = 1200;
    let globals = "(global (ref $s) (struct.new $s))".repeat(GLOBALS);
    let get = |global: usize| format!("(global.get {global})");
    let null = "(ref.null $s)".to_string();
    // How many calls there are, and the elements.
    let cases: Vec<(usize, Vec<String>)> = vec![
        (1, (0..600).map(get).collect()),
        (100, (0..600).map(|number| get(2 * number)).collect()),
        (2, (0..600).map(|number| if number == 300 { null.clone() } else { get(number) }).collect()),
        (0, (0..600).map(|number| if number < 15 { get(number) } else { null.clone() }).collect()),
        (0, (0..100).map(get).collect()),
    ];
    let functions = cases.iter().map(|(_, elements)| {
        format!("(func (result (ref $v)) (array.new_fixed $v {} {}))", elements.len(), elements.concat())
    });
    let text = format!(
        "(module (type $s (struct)) (type $v (array (mut (ref null $s)))) {globals} {})",
        functions.collect::<String>()
    );
    let wasm = wat::parse_str(text).unwrap();
    let spines =
        spine_plans().into_iter().map(|(title, arrays)| (title, AccessPlan { arrays, ..plan(References::Direct) }));
    let all = all_plans().into_iter().map(|(title, plan)| (title.to_string(), plan)).chain(spines);
    let mut may_grow = 0;
    for (title, plan) in all {
        // Where the array may grow when it is written.
        let grows = matches!(plan.arrays, ArrayPlan::Spines(spines) if spines.checks_stores());
        may_grow += usize::from(grows);
        let compiler = OnDemand::new(&wasm, &CompileOptions { optimize: true, ..options(plan) }).unwrap();
        let calls = |function, tier| {
            let code = compiler.compile(Symbol::Function(function as u32), tier).unwrap();
            code.symbols().filter(|&called| called == Symbol::Builtin(Builtin::InitialiseElements as u32)).count()
        };
        for (function, (count, _)) in cases.iter().enumerate() {
            assert_eq!(calls(function, Tier::Quick), if grows { 0 } else { *count }, "{title}: {function}");
            assert_eq!(calls(function, Tier::Optimized), 0, "{title}: {function}");
        }
    }
    assert!(may_grow > 0);
}

/// The tables of methods of a program's classes are filled by one function.
#[test]
fn long_quick_functions_without_loops_store_functions_into_what_globals_hold_by_calls() {
    let set = |object: &str, field: usize| format!("(struct.set $s {field} {object} (ref.func $f))");
    let tables = |count| (0..count).map(|number| set("(global.get $g)", number % 3)).collect::<String>();
    let other = "(drop (call $f))";
    // How many calls there are, and the function.
    let cases = [
        (60, tables(300)),
        // A store by itself is made inline.
        (0, format!("{}{other}", set("(global.get $g)", 0)).repeat(200)),
        (200, format!("{}{other}", tables(2)).repeat(200)),
        (400, format!("{}{other}", tables(6) + &tables(1)).repeat(200)),
        (0, set("(global.get $null)", 0).repeat(300)),
        (0, set("(global.get $mutable)", 0).repeat(300)),
        (0, set("(local.get 0)", 0).repeat(300)),
        (0, tables(10)),
        (0, format!("(loop {} (br_if 0 (call $f)))", tables(300))),
    ];
    let functions = cases.iter().map(|(_, stores)| format!("(func (param (ref $s)) {stores})")).collect::<String>();
    let wasm = wat::parse_str(format!(
        "(module (type $t (func (result i32)))
        (type $s (struct (field (mut (ref null $t))) (field (mut (ref null $t))) (field (mut (ref null $t)))))
        (global $g (ref $s) (struct.new_default $s))
        (global $null (ref null $s) (struct.new_default $s))
        (global $mutable (mut (ref $s)) (struct.new_default $s))
        {functions}
        (elem declare func $f)
        (func $f (type $t) (i32.const 7)))"
    ))
    .unwrap();
    for (title, plan) in all_plans() {
        let compiler = OnDemand::new(&wasm, &CompileOptions { optimize: true, ..options(plan) }).unwrap();
        let calls = |function, tier| {
            let code = compiler.compile(Symbol::Function(function as u32), tier).unwrap();
            code.symbols().filter(|&called| called == Symbol::Builtin(Builtin::StoreFunctions as u32)).count()
        };
        for (function, (count, _)) in cases.iter().enumerate() {
            assert_eq!(calls(function, Tier::Quick), *count, "{title}: {function}");
            assert_eq!(calls(function, Tier::Optimized), 0, "{title}: {function}");
        }
    }
}

#[test]
fn what_the_runtime_is_told_of_globals_fits() {
    use legato_compiler::abi::{FunctionStore, GlobalRange};
    for (first, count) in [(0, 1), (7, 3), ((1 << 24) - 1, GlobalRange::LONGEST)] {
        let range = GlobalRange { first, count };
        assert_eq!(GlobalRange::of_word(range.word()), range);
    }
    assert_eq!(GlobalRange::of_word(0).count, 0);
    let most = (1 << 24) - 1;
    for (global, offset, record) in [(0, 8, 0), (1, 12, 2), (most, (1 << 16) - 4, most)] {
        let store = FunctionStore { global, offset, record };
        assert_eq!(FunctionStore::of_word(store.word().unwrap()), store);
        assert_ne!(store.word(), Some(0));
    }
    for (global, offset, record) in [(1 << 24, 8, 0), (0, 1 << 16, 0), (0, 8, 1 << 24), (0, 0, 0)] {
        assert_eq!(FunctionStore { global, offset, record }.word(), None);
    }
}

/// Two calls by reference, and functions that they may lead to, each with a number of its own.
const CALLS: &str = r#"(module
    (type $of (func (param i32) (result i32)))
    (elem declare func $first $second)
    (func $first (type $of) (i32.add (local.get 0) (i32.const 0x5a5a0001)))
    (func $second (type $of) (i32.add (local.get 0) (i32.const 0x5a5a0002)))
    (func (export "run") (param (ref $of) i32) (result i32)
        (call_ref $of (call_ref $of (local.get 1) (local.get 0)) (local.get 0))))"#;

/// How often the numbers of the two functions stand in the optimised code of one.
fn marks(compiler: &OnDemand, function: u32) -> [usize; 2] {
    let code = bytes(compiler, function, Tier::Optimized);
    [0x5a5a_0001_u32, 0x5a5a_0002].map(|mark| code.windows(4).filter(|bytes| *bytes == mark.to_le_bytes()).count())
}

/// Quick code notes what calls lead to; optimised code has inlined it, if these are few.
#[test]
fn noted_targets_are_inlined() {
    let compiler = OnDemand::new(&wat::parse_str(CALLS).unwrap(), &options(plan(References::Direct))).unwrap();
    let inlined = || marks(&compiler, 2);
    let noted = compiler.profile();
    assert_eq!(noted.len(), 2 * TARGETS + 2, "there are no loops, and a word counts each call");
    assert_eq!(inlined(), [0, 0], "nothing has been noted");
    // One more than the function's index.
    noted[1].store(1, Ordering::Relaxed);
    assert_eq!(inlined(), [1, 0]);
    noted[2].store(2, Ordering::Relaxed);
    noted[TARGETS + 2].store(2, Ordering::Relaxed);
    assert_eq!(inlined(), [1, 2]);
    // What is no function of the module, or of another type, and then too many.
    noted[TARGETS + 3].store(1000, Ordering::Relaxed);
    noted[TARGETS + 4].store(u32::MAX, Ordering::Relaxed);
    assert_eq!(inlined(), [1, 2]);
    (0..TARGETS).for_each(|word| noted[word].store(1 + word as u32 % 3, Ordering::Relaxed));
    assert_eq!(inlined(), [0, 1]);
}

/// A larger body is inlined at calls that are made often.
#[test]
fn hot_calls_take_larger_bodies() {
    let step = "(local.set 0 (i32.rotl (i32.xor (local.get 0) (local.get 1)) (local.get 0)))".repeat(30);
    let module = format!(
        r#"(module
            (func $large (param i32 i32) (result i32)
                {step}
                (i32.add (local.get 0) (i32.const 0x5a5a0001)))
            (func (export "run") (param i32) (result i32)
                (i32.add (call $large (local.get 0) (i32.const 1)) (call $large (local.get 0) (i32.const 2)))))"#
    );
    // In code for tests, a few calls are many.
    let options = CompileOptions { verify: false, ..options(plan(References::Direct)) };
    let compiler = OnDemand::new(&wat::parse_str(module).unwrap(), &options).unwrap();
    let [first, second] = compiler.profile() else { panic!("a word counts each call") };
    assert_eq!(marks(&compiler, 1), [0, 0]);
    first.store(1499, Ordering::Relaxed);
    assert_eq!(marks(&compiler, 1), [0, 0]);
    first.store(1500, Ordering::Relaxed);
    assert_eq!(marks(&compiler, 1), [1, 0]);
    second.store(u32::MAX, Ordering::Relaxed);
    assert_eq!(marks(&compiler, 1), [2, 0]);
}

/// A function with many small calls grows by four times its size, so that all of them are inlined.
#[test]
fn many_small_calls_are_all_inlined() {
    let body = "(local.set 1 (i32.add (i32.mul (local.get 1) (local.get 0)) (local.get 0)))".repeat(5);
    let call = "(call $small) (i32.const 3) (i32.mul) (i32.const 5) (i32.add)";
    let module = format!(
        r#"(module
            (func $small (param i32) (result i32) (local i32)
                {body} (i32.xor (local.get 1) (i32.const 0x5a5a0001)))
            (func (export "run") (param i32) (result i32) (local.get 0) {}))"#,
        call.repeat(60)
    );
    let options = CompileOptions { verify: false, ..options(plan(References::Direct)) };
    assert_eq!(marks(&OnDemand::new(&wat::parse_str(module).unwrap(), &options).unwrap(), 1), [60, 0]);
}

/// Functions that only call another one count for no depth, where three others do; two that call each other for ever
/// are left some time.
#[test]
fn forwarders_count_for_no_depth() {
    let caller = |forward: &str| {
        let forwarders: String = (1..=5)
            .map(|number| format!("(func $f{number} (param i32) (result i32) (call $f{} {forward}))", number - 1))
            .collect();
        let module = format!(
            r#"(module
                (func $f0 (param i32) (result i32) (i32.xor (local.get 0) (i32.const 0x5a5a0001)))
                {forwarders}
                (func (export "run") (param i32) (result i32) (call $f5 (local.get 0)))
                (func $left (param i32) (result i32) (call $right (local.get 0)))
                (func $right (param i32) (result i32) (call $left (local.get 0)))
                (func (export "ever") (param i32) (result i32) (call $left (local.get 0))))"#
        );
        let options = CompileOptions { verify: false, ..options(plan(References::Direct)) };
        let compiler = OnDemand::new(&wat::parse_str(module).unwrap(), &options).unwrap();
        assert_eq!(marks(&compiler, 9), [0, 0]);
        marks(&compiler, 6)
    };
    assert_eq!(caller("(local.get 0)"), [1, 0]);
    assert_eq!(caller("(i32.add (local.get 0) (i32.const 1))"), [0, 0]);
}

/// What makes something once and is too large but for hot calls is inlined without that at others, as before there were
/// any.
#[test]
fn bodies_for_hot_calls_hide_no_smaller_ones() {
    let operations = 60;
    let made = format!("{}(local.get 0){}", "(i32.mul ".repeat(operations), " (local.get 0))".repeat(operations));
    let caller = |inside: &str| {
        let module = format!(
            r#"(module
                (global $made (mut i32) (i32.const 0))
                (func $get (param i32) (result i32)
                    (if (i32.eqz (global.get $made)) (then (global.set $made {inside})))
                    (i32.add (global.get $made) (i32.const 0x5a5a0001)))
                (func (export "run") (param i32) (result i32) (call $get (local.get 0))))"#
        );
        let options = CompileOptions { verify: false, ..options(plan(References::Direct)) };
        marks(&OnDemand::new(&wat::parse_str(module).unwrap(), &options).unwrap(), 1)
    };
    assert_eq!(caller("(local.get 0)"), [1, 0]);
    assert_eq!(caller(&made), [1, 0]);
}
