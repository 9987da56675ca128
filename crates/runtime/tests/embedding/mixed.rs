//! Frames of quick code among those of optimised code.

use std::sync::{Arc, Mutex};

use legato::{Compilation, CompileCause, Config, Engine, Linker, Module, Result, Store};

/// Handlers that are called for the first time, one after another.
const HANDLERS: u32 = 8;

/// `outer` holds five numbers across a call of a handler, which calls what throws: that holds others.
fn text() -> String {
    let handler = |name: &str| {
        format!(
            "(func ${name} (type $unary)
                (block $caught (result i64)
                    (try_table (catch $failed $caught) (call $throws (local.get 0)))
                    (unreachable)))"
        )
    };
    let others: Vec<String> = (0..HANDLERS).map(|number| format!("handler{number}")).collect();
    let held = |register: u32| format!("(local.set {register} (i64.rotl (local.get $x) (i64.const {})))", 7 * register);
    let sum = |register: u32| {
        format!("(local.set $x (i64.add (i64.mul (local.get $x) (i64.const 31)) (local.get {register})))")
    };
    let all = |part: &dyn Fn(u32) -> String, from: u32| (from..from + 5).map(part).collect::<String>();
    format!(
        r#"(module
            (type $unary (func (param i64) (result i64)))
            (import "h" "nothing" (func $nothing))
            (tag $failed (param i64))
            (table {size} funcref)
            (elem (i32.const 0) $usual {names})
            (func $throws (param $x i64) (local i64 i64 i64 i64 i64)
                {throws_held} (call $nothing) {throws_sum} (throw $failed (local.get $x)))
            {usual} {handlers}
            (func $outer (export "outer") (param $which i32) (param $x i64) (result i64) (local i64 i64 i64 i64 i64)
                {outer_held}
                (local.set $x (call_indirect (type $unary) (local.get $x) (local.get $which)))
                {outer_sum} (local.get $x)))"#,
        size = HANDLERS + 1,
        names = others.iter().map(|name| format!("${name} ")).collect::<String>(),
        throws_held = all(&held, 1),
        throws_sum = all(&sum, 1),
        usual = handler("usual"),
        handlers = others.iter().map(|name| handler(name)).collect::<String>(),
        outer_held = all(&held, 2),
        outer_sum = all(&sum, 2),
    )
}

/// An exception comes through frames that hold something in registers that calls preserve, and restores none: whoever
/// catches it has to.
#[test]
fn handlers_in_quick_code_preserve_what_their_callers_hold() -> Result<()> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&log);
    let mut config = Config::new();
    config.compilation(Compilation::Lazy).compiler_verifier(true).parallel_compilation(false);
    config.compile_observer(Arc::new(move |compiled| noted.lock().unwrap().push((compiled.function, compiled.cause))));
    let engine = Engine::new(&config)?;
    let mut linker = Linker::new(&engine);
    linker.func_wrap("h", "nothing", || {})?;
    let mut store = Store::new(&engine, ());
    let instance = linker.instantiate(&mut store, &Module::new(&engine, text())?)?;
    let outer = instance.get_typed_func::<(i32, i64), i64>(&mut store, "outer")?;
    let expected = outer.call(&mut store, (0, 12345))?;
    for _ in 0..5000 {
        assert_eq!(outer.call(&mut store, (0, 12345))?, expected);
    }
    let is_optimised = |function: u32| log.lock().unwrap().contains(&(function, CompileCause::Often));
    assert!(is_optimised(1) && is_optimised(3 + HANDLERS), "what throws and `outer` are optimised");
    for which in 1..=HANDLERS as i32 {
        assert_eq!(outer.call(&mut store, (which, 12345))?, expected, "handler {which}");
    }
    Ok(())
}
