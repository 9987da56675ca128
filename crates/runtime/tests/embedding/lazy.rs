//! Functions that are compiled when they are called: whatever can be a function's first call, compared with a module
//! that was compiled as a whole; threads that race for first calls.

use std::sync::{Arc, Barrier, Mutex};

use legato::{
    Caller, Compilation, CompileCause, Config, Engine, Extern, Func, Instance, Linker, Module, Result, Store,
    ThrownException, Trap, Val, WasmBacktrace,
};

type Log = Arc<Mutex<Vec<(u32, CompileCause)>>>;

/// An engine that notes which functions are compiled, and why.
fn lazy(parallel: bool) -> (Engine, Log) {
    let log = Log::default();
    let noted = Arc::clone(&log);
    let mut config = Config::new();
    config.compilation(Compilation::Lazy).compiler_verifier(true).parallel_compilation(parallel);
    config.compile_observer(Arc::new(move |compiled| noted.lock().unwrap().push((compiled.function, compiled.cause))));
    (Engine::new(&config).unwrap(), log)
}

/// Eager; lazy without and with help of other threads.
fn all() -> [Engine; 3] {
    [Engine::new(Config::new().compiler_verifier(true)).unwrap(), lazy(false).0, lazy(true).0]
}

/// Every function is called once only, and so at its first call.
const FIRST_CALLS: &str = r#"(module $first
    (type $pair (struct (field (mut i32)) (field (mut (ref null $pair)))))
    (type $many (func (param i32 i64 f32 f64 (ref null $pair) i32 f64 i64 f32 i32 i64 f64 i32 i64) (result f64)))
    (type $unary (func (param i32) (result i32)))
    (import "h" "again" (func $again (param i32) (result i32)))
    (import "h" "gc" (func $gc))
    (tag $tag (param i32))
    (table $table 4 funcref)
    (elem (i32.const 1) $by_table $wrong)
    (elem declare func $by_reference)
    (global $started (mut i32) (i32.const 0))
    (start $start)
    (func $start (global.set $started (i32.const 11)))
    (func (export "started") (result i32) (global.get $started))

    ;; Arguments in every register, and on the stack.
    (func $sum (type $many)
        (local $s f64)
        (call $gc)
        (local.set $s (f64.convert_i32_s (local.get 0)))
        (local.set $s (f64.add (f64.mul (local.get $s) (f64.const 3)) (f64.convert_i64_s (local.get 1))))
        (local.set $s (f64.add (f64.mul (local.get $s) (f64.const 3)) (f64.promote_f32 (local.get 2))))
        (local.set $s (f64.add (f64.mul (local.get $s) (f64.const 3)) (local.get 3)))
        (local.set $s (f64.add (f64.mul (local.get $s) (f64.const 3))
            (f64.convert_i32_s (struct.get $pair 0 (local.get 4)))))
        (local.set $s (f64.add (f64.mul (local.get $s) (f64.const 3)) (f64.convert_i32_s (local.get 5))))
        (local.set $s (f64.add (f64.mul (local.get $s) (f64.const 3)) (local.get 6)))
        (local.set $s (f64.add (f64.mul (local.get $s) (f64.const 3)) (f64.convert_i64_s (local.get 7))))
        (local.set $s (f64.add (f64.mul (local.get $s) (f64.const 3)) (f64.promote_f32 (local.get 8))))
        (local.set $s (f64.add (f64.mul (local.get $s) (f64.const 3)) (f64.convert_i32_s (local.get 9))))
        (local.set $s (f64.add (f64.mul (local.get $s) (f64.const 3)) (f64.convert_i64_s (local.get 10))))
        (local.set $s (f64.add (f64.mul (local.get $s) (f64.const 3)) (local.get 11)))
        (local.set $s (f64.add (f64.mul (local.get $s) (f64.const 3)) (f64.convert_i32_s (local.get 12))))
        (f64.add (f64.mul (local.get $s) (f64.const 3)) (f64.convert_i64_s (local.get 13))))
    (func $make (param i32) (result (ref $pair))
        (call $gc) (struct.new $pair (local.get 0) (ref.null $pair)))
    (func (export "arguments") (result f64)
        (call $sum (i32.const 1) (i64.const 2) (f32.const 3) (f64.const 4) (call $make (i32.const 5)) (i32.const 6)
            (f64.const 7) (i64.const 8) (f32.const 9) (i32.const 10) (i64.const 11) (f64.const 12) (i32.const 13)
            (i64.const 14)))
    (func $tail_sum (type $many)
        (return_call $tail_many (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4) (local.get 5)
            (local.get 6) (local.get 7) (local.get 8) (local.get 9) (local.get 10) (local.get 11) (local.get 12)
            (local.get 13)))
    (func $tail_many (type $many)
        (call $gc)
        (f64.add (f64.convert_i32_s (struct.get $pair 0 (local.get 4))) (f64.add (local.get 11)
            (f64.convert_i64_s (local.get 13)))))
    (func (export "tail") (result f64)
        (return_call $tail_sum (i32.const 1) (i64.const 2) (f32.const 3) (f64.const 4) (call $make (i32.const 5))
            (i32.const 6) (f64.const 7) (i64.const 8) (f32.const 9) (i32.const 10) (i64.const 11) (f64.const 12)
            (i32.const 13) (i64.const 14)))

    ;; More results than registers: the first argument is where to put them.
    (func $results (param i32) (result i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
        (call $gc)
        (local.get 0) (i32.const 2) (i32.const 3) (i32.const 4) (i32.const 5) (i32.const 6) (i32.const 7)
        (i32.const 8) (i32.const 9) (i32.const 10) (i32.const 11) (local.get 0))
    (func (export "results") (result i32)
        (call $results (i32.const 40))
        i32.sub i32.add i32.add i32.add i32.add i32.add i32.add i32.add i32.add i32.add i32.add)

    (func $throw (param i32) (call $gc) (throw $tag (local.get 0)))
    (func (export "caught") (result i32)
        (block $caught (result i32)
            (try_table (catch $tag $caught) (call $throw (i32.const 77)))
            (i32.const -1)))
    (func $throw_by_tail (param i32) (call $gc) (return_call $throw_again (local.get 0)))
    (func $throw_again (param i32) (call $gc) (throw $tag (local.get 0)))
    (func (export "uncaught") (call $throw_by_tail (i32.const 1)))

    (func $divide (param i32 i32) (result i32) (call $gc) (i32.div_s (local.get 0) (local.get 1)))
    (func $divide_outer (param i32) (result i32) (call $gc) (i32.add (i32.const 1)
        (call $divide (i32.const 1) (local.get 0))))
    (func (export "trap") (result i32) (call $divide_outer (i32.const 0)))
    (func $null (param (ref null $pair)) (result i32) (call $gc) (struct.get $pair 0 (local.get 0)))
    (func (export "null") (result i32) (call $null (ref.null $pair)))

    (func $by_table (type $unary) (call $gc) (i32.add (local.get 0) (i32.const 1)))
    (func $wrong (param i64) (call $gc))
    (func (export "table") (result i32) (call_indirect (type $unary) (i32.const 5) (i32.const 1)))
    (func (export "bad_signature") (result i32) (call_indirect (type $unary) (i32.const 5) (i32.const 2)))
    (func $by_reference (type $unary) (call $gc) (i32.mul (local.get 0) (i32.const 3)))
    (func (export "reference") (result i32)
        (call_ref $unary (i32.const 5) (select (result (ref null $unary)) (ref.func $by_reference) (ref.null $unary)
            (global.get $started))))
    (func (export "function") (result funcref) (table.get $table (i32.const 1)))

    (func (export "inner") (param i32) (result i32) (call $again_inner (local.get 0)))
    (func $again_inner (param i32) (result i32) (call $gc) (i32.add (local.get 0) (i32.const 100)))
    (func $calls_host (param i32) (result i32) (i32.add (call $again (local.get 0)) (i32.const 1)))
    (func (export "host") (result i32) (call $calls_host (i32.const 7)))

    ;; What is called first at the end of the stack.
    (func $deepest (param i32) (result i32) (call $gc) (i32.add (local.get 0) (i32.const 1)))
    (func $deep (param i32) (result i32)
        (if (result i32) (local.get 0)
            (then (i32.add (i32.const 1) (call $deep (i32.sub (local.get 0) (i32.const 1)))))
            (else (call $deepest (i32.const 0)))))
    (func (export "deep") (result i32) (call $deep (i32.const 4000)))
    (func $endless (param i32) (result i32)
        (i32.add (i32.const 1) (call $endless_too (i32.add (local.get 0) (i32.const 1)))))
    (func $endless_too (param i32) (result i32)
        (i32.add (i32.const 1) (call $endless (i32.add (local.get 0) (i32.const 1)))))
    (func (export "endless") (result i32) (call $endless (i32.const 0)))
)"#;

fn linked(engine: &Engine, text: &str) -> Result<(Store<()>, Instance)> {
    let mut store = Store::new(engine, ());
    let mut linker = Linker::new(engine);
    linker.func_wrap("h", "gc", |mut caller: Caller<'_, ()>| caller.gc())?;
    linker.func_wrap("h", "again", |mut caller: Caller<'_, ()>, value: i32| -> Result<i32> {
        let inner = caller.instance().unwrap().get_typed_func::<i32, i32>(&mut caller, "inner")?;
        Ok(inner.call(&mut caller, value)? * 2)
    })?;
    let instance = linker.instantiate(&mut store, &Module::new(engine, text)?)?;
    Ok((store, instance))
}

#[test]
fn first_calls_do_what_later_ones_do() -> Result<()> {
    let exports = [
        "started",
        "arguments",
        "tail",
        "results",
        "caught",
        "uncaught",
        "trap",
        "null",
        "table",
        "bad_signature",
        "reference",
        "host",
        "deep",
        "endless",
    ];
    let call = |engine: &Engine, export: &str, times: usize| -> Result<Vec<String>> {
        let (mut store, instance) = linked(engine, FIRST_CALLS)?;
        let func = instance.get_func(&mut store, export).unwrap();
        let mut results = vec![Val::I32(0); func.ty(&store).results().len()];
        let call = |_| match func.call(&mut store, &[], &mut results) {
            Ok(()) => format!("{results:?}"),
            Err(error) => {
                store.take_pending_exception();
                // Not their offsets: those of callers are not known where a function has been inlined; nor the parity
                // of endless ones.
                let trace = error.downcast_ref::<WasmBacktrace>();
                let frames = trace.map_or(&[][..], |trace| trace.frames());
                let mut frames: Vec<_> = frames.iter().map(|frame| frame.func_index()).collect();
                if frames.len() > 10 {
                    frames.sort_unstable();
                    frames.dedup();
                }
                format!("{}, frames {frames:?}, {}", error.root_cause(), error.is::<ThrownException>())
            }
        };
        Ok((0..times).map(call).collect())
    };
    let [eager, lazily @ ..] = all();
    for export in exports {
        let expected = call(&eager, export, 1)?;
        for lazy in &lazily {
            let found = call(lazy, export, 2)?;
            assert_eq!(found[0], expected[0], "{export}");
            assert_eq!(found[1], expected[0], "{export}, called again");
        }
    }
    Ok(())
}

#[test]
fn a_backtrace_shows_callers_that_were_compiled_before_and_after() -> Result<()> {
    for engine in all() {
        let (mut store, instance) = linked(&engine, FIRST_CALLS)?;
        let trap = instance.get_typed_func::<(), i32>(&mut store, "trap")?;
        let error = trap.call(&mut store, ()).unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&Trap::IntegerDivisionByZero));
        let trace = error.downcast_ref::<WasmBacktrace>().unwrap();
        let names: Vec<_> = trace.frames().iter().map(|frame| frame.func_name()).collect();
        assert_eq!(names[..2], [Some("divide"), Some("divide_outer")]);
        assert!(trace.frames()[0].module_offset().is_some());
    }
    Ok(())
}

#[test]
fn only_what_is_called_is_compiled_by_its_caller_and_once() -> Result<()> {
    let (engine, log) = lazy(false);
    let (mut store, instance) = linked(&engine, FIRST_CALLS)?;
    let module = instance.module(&store).clone();
    let start = module.info().start.unwrap().0;
    let called = || -> Vec<u32> {
        let log = log.lock().unwrap();
        log.iter().filter(|(_, cause)| *cause == CompileCause::Called).map(|(function, _)| *function).collect()
    };
    assert_eq!(called(), [start]);
    let before = module.code_size();
    let function = instance.get_typed_func::<(), Option<Func>>(&mut store, "function")?.call(&mut store, ())?.unwrap();
    assert!(called().len() <= 2, "a reference is taken without compiling");
    for _ in 0..3 {
        assert_eq!(function.typed::<i32, i32>(&store)?.call(&mut store, 5)?, 6);
    }
    assert!(module.code_size() > before);
    let mut compiled: Vec<u32> = log.lock().unwrap().iter().map(|(function, _)| *function).collect();
    let count = compiled.len();
    compiled.sort_unstable();
    compiled.dedup();
    assert_eq!(compiled.len(), count, "each once");
    assert!(count < module.info().functions.len() - module.info().imported_functions as usize, "not all");
    Ok(())
}

/// A call deep in a host thread's small stack: there is no room for the compiler, which gets a stack of its own.
#[test]
fn a_first_call_on_a_small_stack() {
    let run = || -> Result<i32> {
        let (engine, _) = lazy(false);
        let (mut store, instance) = linked(&engine, FIRST_CALLS)?;
        instance.get_typed_func::<(), i32>(&mut store, "host")?.call(&mut store, ())
    };
    let thread = std::thread::Builder::new().stack_size(640 << 10).spawn(run).unwrap();
    assert_eq!(thread.join().unwrap().unwrap(), 215);
}

/// The first call of a signature has its trampolines compiled: on a stack of their own, too.
#[test]
fn a_first_call_on_a_tiny_stack() -> Result<()> {
    for is_lazy in [false, true] {
        let mut config = Config::new();
        config.compilation(if is_lazy { Compilation::Lazy } else { Compilation::Eager });
        let engine = Engine::new(&config)?;
        let module =
            Module::new(&engine, r#"(module (func (export "run") (result i64 f32) (i64.const 1) (f32.const 2)))"#)?;
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &module, &[])?;
        let run = move || instance.get_typed_func::<(), (i64, f32)>(&mut store, "run")?.call(&mut store, ());
        let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(run)?;
        match thread.join().expect("no panic") {
            Ok(results) => assert_eq!(results, (1, 2.0)),
            Err(error) => assert_eq!(error.downcast_ref(), Some(&Trap::StackOverflow), "{error:#}"),
        }
    }
    Ok(())
}

#[test]
fn threads_race_for_first_calls() -> Result<()> {
    const FUNCTIONS: usize = 60;
    const THREADS: usize = 6;
    let mut text = "(module (func $f0 (param i32) (result i32) (local.get 0))".to_string();
    for number in 1..FUNCTIONS {
        // Too large to be inlined.
        text += &format!(
            "(func $f{number} (param i32) (result i32) (local $i i32)
                (loop $again
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (br_if $again (i32.lt_u (local.get $i) (i32.const 3))))
                (i32.add (local.get $i) (call $f{} (i32.mul (local.get 0) (i32.const 3)))))",
            number - 1
        );
    }
    text += &format!("(func (export \"run\") (param i32) (result i32) (call $f{} (local.get 0))))", FUNCTIONS - 1);
    for round in 0..6 {
        let (engine, log) = lazy(round % 2 == 0);
        let module = Module::new(&engine, &text)?;
        let barrier = Barrier::new(THREADS);
        let results: Vec<i32> = std::thread::scope(|scope| {
            let race = || -> Result<i32> {
                let mut store = Store::new(&engine, ());
                let instance = Instance::new(&mut store, &module, &[])?;
                let run = instance.get_typed_func::<i32, i32>(&mut store, "run")?;
                barrier.wait();
                run.call(&mut store, 1)
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(race)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Result<_>>()
        })?;
        let expected = (1..FUNCTIONS).fold(1i32, |value, _| value.wrapping_mul(3)).wrapping_add(3 * 59);
        assert_eq!(results, [expected; THREADS]);
        // Loops are replaced, and whole functions compiled anew, besides.
        let is_first = |cause| matches!(cause, CompileCause::Called | CompileCause::Ahead);
        let log = log.lock().unwrap();
        let mut compiled: Vec<u32> =
            log.iter().filter(|(_, cause)| is_first(*cause)).map(|(function, _)| *function).collect();
        let count = compiled.len();
        compiled.sort_unstable();
        compiled.dedup();
        assert_eq!(compiled.len(), count, "each once");
    }
    Ok(())
}

#[test]
fn functions_go_to_other_instances() -> Result<()> {
    let (engine, _) = lazy(false);
    let (mut store, instance) = linked(&engine, FIRST_CALLS)?;
    let inner = instance.get_func(&mut store, "inner").unwrap();
    let text = r#"(module (import "m" "f" (func $f (param i32) (result i32)))
        (func (export "run") (result i32) (call $f (i32.const 5))))"#;
    let other = Instance::new(&mut store, &Module::new(&engine, text)?, &[Extern::Func(inner)])?;
    assert_eq!(other.get_typed_func::<(), i32>(&mut store, "run")?.call(&mut store, ())?, 105);
    Ok(())
}

#[test]
fn an_invalid_function_is_refused_before_anything_runs() {
    let texts = [
        "(module (func (export \"f\")) (func (result i32) (i64.const 1)))",
        "(module (func (export \"f\")) (func (i32.add)))",
        "(module (func (drop (i8x16.splat (i64.const 1)))))",
        "(module (memory 1) (func (drop (i32.atomic.load (i32.const 0)))))",
        "(module (func (struct.new 5) drop))",
        "(module (func (ref.null 9) drop))",
        "(module (func (global.get 3) drop))",
    ];
    for text in texts {
        let refused = all().map(|engine| format!("{:#}", Module::new(&engine, text).unwrap_err()));
        assert!(refused.iter().all(|error| *error == refused[0]), "{refused:?}");
    }
}

#[test]
fn a_lazy_module_is_serialised_as_a_whole() -> Result<()> {
    let [eager, lazily @ ..] = all();
    let expected = Module::new(&eager, FIRST_CALLS)?.serialize()?;
    for lazy in &lazily {
        let (mut store, instance) = linked(lazy, FIRST_CALLS)?;
        instance.get_typed_func::<(), i32>(&mut store, "table")?.call(&mut store, ())?;
        assert_eq!(instance.module(&store).serialize()?, expected);
    }
    Ok(())
}

/// The type of a vtable's field is the same for all objects: the call is direct, and whether it is found out by a scan
/// or by passes is no matter.
#[test]
fn constant_fields_are_found_by_the_scan() -> Result<()> {
    let text = r#"(module
        (rec (type $method (func (param (ref $object)) (result i32)))
             (type $vtable (sub (struct (field (ref $method)))))
             (type $object (sub (struct (field (ref $vtable)) (field (mut i32))))))
        (type $other (sub $object (struct (field (ref $vtable)) (field (mut i32)) (field i64))))
        (elem declare func $one $two)
        (global $table (ref $vtable) (struct.new $vtable (ref.func $one)))
        (func $one (type $method) (i32.const 1))
        (func $two (type $method) (i32.const 2))
        (func $new (param i32) (result (ref $object))
            (if (result (ref $object)) (local.get 0)
                (then (struct.new $object (global.get $table) (block (result i32) (i32.const 5))))
                (else (struct.new $other
                    (struct.new $vtable (ref.func $two)) (if (result i32) (local.get 0) (then (i32.const 1))
                        (else (i32.const 2))) (i64.const 0)))))
        (func (export "run") (param i32) (result i32) (local $object (ref null $object))
            (local.set $object (call $new (local.get 0)))
            (call_ref $method (ref.as_non_null (local.get $object))
                (struct.get $vtable 0 (struct.get $object 0 (local.get $object))))))"#;
    for engine in all() {
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &Module::new(&engine, text)?, &[])?;
        let run = instance.get_typed_func::<i32, i32>(&mut store, "run")?;
        assert_eq!((run.call(&mut store, 1)?, run.call(&mut store, 0)?), (1, 2));
    }
    Ok(())
}

/// Functions are compiled anew when they are called often, from wherever, and mean the same before and after; a call of
/// itself counts.
#[test]
fn what_is_called_often_is_compiled_anew() -> Result<()> {
    let text = r#"(module
        (type $unary (func (param i32) (result i32)))
        (table funcref (elem $called $indirect))
        (func $called (type $unary)
            (if (result i32) (i32.and (local.get 0) (i32.const 1))
                (then (i32.rotl (i32.mul (local.get 0) (i32.const 5)) (i32.const 3)))
                (else (i32.xor (i32.add (local.get 0) (i32.const 77)) (i32.shr_u (local.get 0) (i32.const 3))))))
        (func $indirect (type $unary) (i32.add (i32.mul (local.get 0) (i32.const 31)) (i32.const 1)))
        (func $fib (export "fib") (param i32) (result i32)
            (if (result i32) (i32.lt_u (local.get 0) (i32.const 2)) (then (local.get 0))
                (else (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1)))
                    (call $fib (i32.sub (local.get 0) (i32.const 2)))))))
        (func (export "run") (param $times i32) (result i32) (local $sum i32)
            (loop $again
                (local.set $sum (call_indirect (type $unary) (local.get $sum) (i32.and (local.get $times) (i32.const 1))))
                (local.set $times (i32.sub (local.get $times) (i32.const 1)))
                (br_if $again (local.get $times)))
            (local.get $sum)))"#;
    let mut expected = None;
    for (engine, log) in [(all().into_iter().next().unwrap(), Log::default()), lazy(false), lazy(true)] {
        let is_eager = expected.is_none();
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &Module::new(&engine, text)?, &[])?;
        let fib = instance.get_typed_func::<i32, i32>(&mut store, "fib")?;
        let run = instance.get_typed_func::<i32, i32>(&mut store, "run")?;
        let found = (fib.call(&mut store, 20)?, run.call(&mut store, 100)?, run.call(&mut store, 5000)?);
        assert_eq!(found, *expected.get_or_insert(found));
        let twice =
            |function: u32| log.lock().unwrap().iter().filter(|(compiled, _)| *compiled == function).count() == 2;
        // Other threads come to it when they come to it.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !is_eager && !(0..3).all(twice) {
            assert!(std::time::Instant::now() < deadline, "{log:?}");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let found = (fib.call(&mut store, 20)?, run.call(&mut store, 100)?, run.call(&mut store, 5000)?);
        assert_eq!(Some(found), expected);
    }
    Ok(())
}

/// An instance may be made while its functions are quick code, or when they are compiled for good.
#[test]
fn references_of_later_instances_lead_to_code_that_is_there_for_good() {
    let (engine, log) = lazy(false);
    let module = Module::new(
        &engine,
        r#"(module
            (type $of (func (param i32) (result i32)))
            (table funcref (elem $twice))
            (func $twice (type $of) (i32.mul (local.get 0) (i32.const 2)))
            (func (export "run") (type $of) (call_indirect (type $of) (local.get 0) (i32.const 0))))"#,
    )
    .unwrap();
    let mut store = Store::new(&engine, ());
    let often = || log.lock().unwrap().iter().filter(|&&it| it == (0, CompileCause::Often)).count();
    // Compiled at the first call by the first instance, counted by the second, and as it stays in the third.
    for (calls, expected) in [(1, 0), (2000, 1), (2000, 1)] {
        let instance = Instance::new(&mut store, &module, &[]).unwrap();
        let run = instance.get_typed_func::<i32, i32>(&mut store, "run").unwrap();
        for call in 0..calls {
            assert_eq!(run.call(&mut store, call).unwrap(), 2 * call);
        }
        assert_eq!(often(), expected);
    }
}

/// A method with many branches, each with a value of its own, which calls itself as soon as it can: frames of quick
/// code are small enough for it.
#[test]
fn recursion_through_large_functions_bears_a_thousand_calls() {
    let choose = |number: u32| {
        format!(
            "(local.set $sum (i32.add (i32.mul (local.get $sum) (i32.const 3))
                (if (result i32) (i32.and (i32.add (local.get $n) (local.get $sum)) (i32.const {number}))
                    (then (i32.xor (local.get $sum) (i32.const {number})))
                    (else (i32.rotl (local.get $n) (local.get $sum))))))"
        )
    };
    let text = format!(
        r#"(module (func $down (export "down") (param $n i32) (result i32) (local $sum i32)
            {}
            (if (local.get $n) (then
                (return (i32.add (local.get $sum) (call $down (i32.sub (local.get $n) (i32.const 1)))))))
            (local.get $sum)))"#,
        (1..=300).map(choose).collect::<String>()
    );
    let mut found = Vec::new();
    for compilation in [Compilation::Eager, Compilation::Lazy] {
        let engine = Engine::new(Config::new().compilation(compilation)).unwrap();
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &Module::new(&engine, &text).unwrap(), &[]).unwrap();
        let down = instance.get_typed_func::<i32, i32>(&mut store, "down").unwrap();
        found.push(down.call(&mut store, 1000).unwrap());
    }
    assert_eq!(found[0], found[1]);
}
