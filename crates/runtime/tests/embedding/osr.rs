//! On-stack replacement: loops of functions that are called once go on in optimised code, whatever they hold.

use std::sync::{Arc, Mutex};

use legato::{Cache, Caller, Compilation, CompileCause, Config, Engine, Instance, Linker, Module, Result, Store, Trap};
use legato::{Val, WasmBacktrace};

/// The functions that had code for a loop compiled, or found, one entry for each loop: whether it had been kept.
type Replaced = Arc<Mutex<Vec<(u32, bool)>>>;

/// An engine that compiles functions when they are called, with generated code checked, so that few iterations are
/// enough. Everything is compiled by the thread that runs the program: what happens is the same each time.
fn lazy() -> (Engine, Replaced) {
    observed(Config::new().compiler_verifier(true))
}

/// An engine that compiles functions when they are called, on the thread that calls them.
fn observed(config: &mut Config) -> (Engine, Replaced) {
    let replaced = Replaced::default();
    let noted = Arc::clone(&replaced);
    config.compilation(Compilation::Lazy).parallel_compilation(false);
    config.compile_observer(Arc::new(move |compiled| {
        if matches!(compiled.cause, CompileCause::Loop(_)) {
            noted.lock().unwrap().push((compiled.function, compiled.kept));
        }
    }));
    (Engine::new(config).unwrap(), replaced)
}

fn eager() -> Engine {
    Engine::new(Config::new().compiler_verifier(true)).unwrap()
}

/// Each export is a loop, or several, that run often enough in one call.
const LOOPS: &str = r#"(module
    (type $node (struct (field (mut i32)) (field (mut (ref null $node)))))
    (type $cells (array (mut i32)))
    (import "h" "gc" (func $gc))
    (tag $odd (param i32 (ref null $node)))

    ;; Every type of number; one that no one reads any more, a constant, one that is read before alone.
    (func (export "numbers") (param $a i32) (param $b i64) (param $c f32) (param $d f64) (result i64)
        (local $i i32) (local $step i32) (local $dead i64) (local $before i32)
        (local.set $step (i32.const 3))
        (local.set $before (i32.mul (local.get $a) (i32.const 7)))
        (local.set $a (i32.add (local.get $a) (local.get $before)))
        (loop $more
            (local.set $dead (i64.extend_i32_s (local.get $i)))
            (local.set $a (i32.add (i32.mul (local.get $a) (i32.const 5)) (local.get $step)))
            (local.set $b (i64.xor (i64.rotl (local.get $b) (i64.const 9)) (i64.extend_i32_u (local.get $a))))
            (local.set $c (f32.add (f32.mul (local.get $c) (f32.const 0.5)) (f32.convert_i32_s (local.get $i))))
            (local.set $d (f64.sub (f64.promote_f32 (local.get $c)) (f64.div (local.get $d) (f64.const 3))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $more (i32.lt_u (local.get $i) (i32.const 300))))
        (i64.add (i64.add (local.get $b) (i64.reinterpret_f64 (local.get $d)))
            (i64.add (i64.extend_i32_u (i32.reinterpret_f32 (local.get $c))) (i64.extend_i32_s (local.get $step)))))

    ;; References, one of a type without null; collections, which move what they lead to.
    (func (export "references") (param i32 i64 f32 f64) (result i64)
        (local $i i32) (local $head (ref null $node)) (local $fixed (ref $node)) (local $never (ref $cells))
        (local $sum i64)
        (local.set $fixed (struct.new $node (i32.const 1000) (ref.null $node)))
        (loop $more
            (local.set $head (struct.new $node (local.get $i) (local.get $head)))
            (if (i32.eqz (i32.rem_u (local.get $i) (i32.const 16))) (then (call $gc)))
            (struct.set $node 0 (local.get $fixed)
                (i32.add (struct.get $node 0 (local.get $fixed)) (struct.get $node 0 (local.get $head))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $more (i32.lt_u (local.get $i) (i32.const 200))))
        (local.set $never (array.new_default $cells (i32.const 1)))
        (loop $walk
            (local.set $sum (i64.add (i64.mul (local.get $sum) (i64.const 3))
                (i64.extend_i32_s (struct.get $node 0 (local.get $head)))))
            (local.set $head (struct.get $node 1 (local.get $head)))
            (br_if $walk (i32.eqz (ref.is_null (local.get $head)))))
        (i64.add (i64.add (local.get $sum) (i64.extend_i32_s (struct.get $node 0 (local.get $fixed))))
            (i64.extend_i32_u (array.len (local.get $never)))))

    ;; Loops in loops: whichever is replaced, what comes after the inner one is the outer one's rest, and begins anew.
    (func (export "nested") (param $seed i32) (param i64 f32 f64) (result i64)
        (local $i i32) (local $j i32) (local $k i32) (local $sum i64)
        (loop $outer
            (local.set $j (i32.const 0))
            (if (i32.and (local.get $i) (i32.const 1))
                (then
                    (loop $middle
                        (local.set $k (local.get $j))
                        (block $done
                            (loop $inner
                                (local.set $sum (i64.add (i64.mul (local.get $sum) (i64.const 31))
                                    (i64.extend_i32_s (i32.xor (local.get $k) (local.get $seed)))))
                                (br_if $done (i32.eqz (local.get $k)))
                                (local.set $k (i32.sub (local.get $k) (i32.const 1)))
                                (br $inner)))
                        (local.set $j (i32.add (local.get $j) (i32.const 1)))
                        (br_if $middle (i32.lt_u (local.get $j) (i32.const 9)))))
                (else (local.set $sum (i64.add (local.get $sum) (i64.extend_i32_s (local.get $i))))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $outer (i32.lt_u (local.get $i) (i32.const 21))))
        (local.get $sum))

    ;; A handler around a loop, and one within: both catch what is thrown after the replacement.
    (func $throws (param $i i32) (param $node (ref null $node))
        (if (i32.eqz (i32.rem_u (local.get $i) (i32.const 13))) (then (throw $odd (local.get $i) (local.get $node)))))
    (func (export "handlers") (param i32 i64 f32 f64) (result i64)
        (local $i i32) (local $sum i64) (local $node (ref null $node)) (local $caught i32)
        (local.set $node (struct.new $node (i32.const 5) (ref.null $node)))
        (block $outside (result i32 (ref null $node))
            (try_table (catch $odd $outside)
                (loop $more
                    (block $inside (result i32 (ref null $node))
                        (try_table (catch $odd $inside)
                            (call $throws (i32.add (local.get $i) (i32.const 1)) (local.get $node)))
                        (i32.const 1) (local.get $node))
                    (struct.get $node 0)
                    i32.add
                    (local.set $caught)
                    (local.set $sum
                        (i64.add (i64.mul (local.get $sum) (i64.const 5)) (i64.extend_i32_s (local.get $caught))))
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (if (i32.gt_u (local.get $i) (i32.const 150)) (then (call $throws (i32.const 26) (local.get $node))))
                    (br $more)))
            (unreachable))
        drop
        (local.set $caught)
        (i64.add (local.get $sum) (i64.extend_i32_s (local.get $caught))))

    ;; A call of itself is one of the whole function.
    (func $tree (export "recursive") (param $depth i32) (param $b i64) (param $c f32) (param $d f64) (result i64)
        (local $i i32) (local $sum i64)
        (local.set $sum (i64.const 1))
        (if (i32.gt_u (local.get $depth) (i32.const 3)) (then (local.set $depth (i32.const 3))))
        (if (i32.eqz (local.get $depth)) (then (return (local.get $b))))
        (loop $more
            (local.set $sum (i64.add (i64.mul (local.get $sum) (i64.const 7))
                (call $tree (i32.sub (local.get $depth) (i32.const 1)) (i64.extend_i32_u (local.get $i)) (f32.const 0)
                    (f64.const 0))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $more (i32.lt_u (local.get $i) (i32.const 12))))
        (local.get $sum))

    ;; A trap in the loop, far behind its beginning.
    (func $traps (export "traps") (param $i i32) (param i64 f32 f64) (result i64) (local $sum i32)
        (local.set $i (i32.const 100))
        (loop $more
            (local.set $sum (i32.add (local.get $sum) (i32.div_s (i32.const 1000) (local.get $i))))
            (local.set $i (i32.sub (local.get $i) (i32.const 1)))
            (br $more))
        unreachable)

    ;; More results than registers, and a loop below operands.
    (func $many (param $n i32) (result i64 i64 i64 i64 i64 i64 i64 i64 i64 f64) (local $a i64) (local $b f64)
        (loop $more
            (local.set $a (i64.add (i64.mul (local.get $a) (i64.const 3)) (i64.extend_i32_s (local.get $n))))
            (local.set $b (f64.add (local.get $b) (f64.const 0.25)))
            (br_if $more (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
        (local.get $a) (i64.const 1) (i64.const 2) (local.get $a) (i64.const 4) (i64.const 5) (i64.const 6) (i64.const 7)
        (local.get $a) (local.get $b))
    (func (export "results") (param i32 i64 f32 f64) (result i64) (local $sum f64)
        (call $many (i32.const 90))
        (local.set $sum)
        i64.xor i64.add i64.xor i64.sub i64.xor i64.add i64.sub i64.xor
        (i64.add (i64.trunc_f64_s (local.get $sum))))
    (func $below (export "below") (param $n i32) (param i64 f32 f64) (result i64) (local $sum i64)
        (local.set $n (i32.const 100))
        (i64.const 77)
        (loop $more
            (local.set $sum (i64.add (local.get $sum) (i64.extend_i32_s (local.get $n))))
            (br_if $more (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
        (i64.add (local.get $sum)))

    ;; Loops with parameters, below operands, one in another: references among them.
    (func (export "operands") (param i32 i64 f32 f64) (result i64) (local $i i32) (local $j i32) (local $sum i64)
        (i64.const 41)
        (struct.new $node (i32.const 9) (ref.null $node))
        (i32.const 100)
        (loop $outer (param i32) (result i32)
            (local.set $i)
            (struct.new $node (local.get $i) (ref.null $node))
            (local.set $j (i32.const 12))
            (local.get $i)
            (loop $inner (param i32) (result i32)
                (i32.mul (i32.const 3))
                (if (i32.eqz (i32.rem_u (local.get $j) (i32.const 5))) (then (call $gc)))
                (br_if $inner (local.tee $j (i32.sub (local.get $j) (i32.const 1)))))
            (local.set $j)
            struct.get $node 0
            local.get $j
            i32.add
            i64.extend_i32_s
            (i64.add (i64.mul (local.get $sum) (i64.const 7)))
            (local.set $sum)
            (i32.sub (local.get $i) (i32.const 1))
            (br_if $outer (i32.gt_s (local.get $i) (i32.const 1))))
        drop
        struct.get $node 0
        i64.extend_i32_s
        i64.add
        (i64.add (local.get $sum)))

    ;; Loops that have not run yet when the first is replaced: they call what nobody has called before.
    (type $of (func (param i32) (result i32)))
    (elem declare func $double $collects)
    (func $double (type $of) (i32.mul (local.get 0) (i32.const 2)))
    (func $collects (type $of) (call $gc) (i32.add (local.get 0) (i32.const 7)))
    (func (export "later") (param i32 i64 f32 f64) (result i64)
        (local $i i32) (local $j i32) (local $sum i32) (local $head (ref null $node)) (local $f (ref null $of))
        (local $fixed (ref $node))
        (local.set $fixed (struct.new $node (i32.const 3) (ref.null $node)))
        (loop $first
            (local.set $head (struct.new $node (local.get $i) (local.get $head)))
            (br_if $first (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 60))))
        (local.set $f (ref.func $double))
        (loop $second
            (local.set $sum (i32.xor (i32.mul (local.get $sum) (i32.const 5))
                (call_ref $of (struct.get $node 0 (local.get $head)) (local.get $f))))
            (local.set $head (struct.get $node 1 (local.get $head)))
            (br_if $second (i32.eqz (ref.is_null (local.get $head)))))
        (local.set $f (ref.func $collects))
        (loop $third
            (local.set $j (i32.const 20))
            (local.set $head (struct.new $node (local.get $i) (local.get $head)))
            (loop $fourth
                (local.set $sum (i32.add (local.get $sum) (i32.add (struct.get $node 0 (local.get $fixed))
                    (i32.add (call_ref $of (local.get $j) (local.get $f)) (struct.get $node 0 (local.get $head))))))
                (br_if $fourth (local.tee $j (i32.sub (local.get $j) (i32.const 1)))))
            (local.set $f (ref.func $double))
            (br_if $third (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
        (i64.extend_i32_s (local.get $sum)))
)"#;

/// With 60 locals, most of them on the stack when they are passed on; each is changed in the loop.
fn many_locals() -> String {
    let locals: String = (0..60).map(|n| format!("(local $x{n} i64) (local $f{n} f64) ")).collect();
    let begin: String = (0..60).map(|n| format!("(local.set $x{n} (i64.const {n})) ")).collect();
    let step: String = (0..60)
        .map(|n| {
            let next = (n + 1) % 60;
            format!(
                "(local.set $x{n} (i64.add (i64.mul (local.get $x{n}) (i64.const 3)) (local.get $x{next})))
                 (local.set $f{n} (f64.add (local.get $f{next}) (f64.convert_i64_s (local.get $x{n}))))"
            )
        })
        .collect();
    let sum: String =
        (0..60).map(|n| format!("(local.get $x{n}) i64.xor (local.get $f{n}) i64.trunc_sat_f64_s i64.add ")).collect();
    format!(
        "(module (func (export \"many locals\") (param i32 i64 f32 f64) (result i64) (local $i i32) {locals} {begin}
            (loop $more {step}
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br_if $more (i32.lt_u (local.get $i) (i32.const 50))))
            (i64.const 0) {sum}))"
    )
}

fn linked(engine: &Engine, text: &str) -> Result<(Store<()>, Instance)> {
    let mut store = Store::new(engine, ());
    let mut linker = Linker::new(engine);
    linker.func_wrap("h", "gc", |mut caller: Caller<'_, ()>| caller.gc())?;
    let instance = linker.instantiate(&mut store, &Module::new(engine, text)?)?;
    Ok((store, instance))
}

/// What a function returns, or why it fails and in which functions.
fn outcome(engine: &Engine, text: &str, export: &str) -> Result<String> {
    let (mut store, instance) = linked(engine, text)?;
    let func = instance.get_func(&mut store, export).unwrap();
    let mut results = [Val::I64(0)];
    let params = [Val::I32(5), Val::I64(6), Val::F32(7.5f32.to_bits()), Val::F64(8.25f64.to_bits())];
    Ok(match func.call(&mut store, &params, &mut results) {
        Ok(()) => format!("{results:?}"),
        Err(error) => {
            let trace = error.downcast_ref::<WasmBacktrace>().unwrap();
            let frames: Vec<_> =
                trace.frames().iter().map(|frame| (frame.func_name(), frame.module_offset())).collect();
            format!("{}, {frames:?}", error.root_cause())
        }
    })
}

#[test]
fn loops_mean_the_same_when_they_are_replaced() -> Result<()> {
    let exports =
        ["numbers", "references", "nested", "handlers", "recursive", "traps", "results", "below", "operands", "later"];
    let many = many_locals();
    let cases = exports.iter().map(|&export| (LOOPS, export)).chain([(many.as_str(), "many locals")]);
    for (text, export) in cases {
        let (engine, replaced) = lazy();
        assert_eq!(outcome(&engine, text, export)?, outcome(&eager(), text, export)?, "{export}");
        let count = replaced.lock().unwrap().len();
        assert!(count > usize::from(export == "later"), "{export}: {count} loops replaced");
    }
    Ok(())
}

/// A cache keeps the code of loops; another engine puts it in place, and loops go on there without being compiled.
#[test]
fn code_of_loops_is_kept() -> Result<()> {
    // Enough iterations where nothing is checked: the cache is not used where the compiler's work is.
    let text = r#"(module
        (type $node (struct (field i32) (field (ref null $node))))
        (import "h" "gc" (func $gc))
        (func (export "run") (param $n i32) (param i64 f32 f64) (result i64)
            (local $i i32) (local $j i32) (local $sum i64) (local $head (ref null $node))
            (loop $outer
                (local.set $j (i32.const 0))
                (loop $inner
                    (local.set $sum (i64.add (i64.mul (local.get $sum) (i64.const 3)) (i64.extend_i32_s (local.get $n))))
                    (local.set $j (i32.add (local.get $j) (i32.const 1)))
                    (br_if $inner (i32.lt_u (local.get $j) (i32.const 3000))))
                (local.set $head (struct.new $node (local.get $i) (local.get $head)))
                (if (i32.eqz (i32.rem_u (local.get $i) (i32.const 64))) (then (call $gc)))
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br_if $outer (i32.lt_u (local.get $i) (i32.const 200))))
            (loop $walk
                (local.set $sum (i64.xor (i64.rotl (local.get $sum) (i64.const 5))
                    (i64.extend_i32_s (struct.get $node 0 (local.get $head)))))
                (local.set $head (struct.get $node 1 (local.get $head)))
                (br_if $walk (i32.eqz (ref.is_null (local.get $head)))))
            (local.get $sum)))"#;
    let directory = tempfile::tempdir()?;
    let cache = Cache::open(directory.path(), Cache::DEFAULT_LIMIT)?;
    let run = || -> Result<_> {
        let (engine, replaced) = observed(Config::new().cache(Some(cache.clone())));
        let outcome = outcome(&engine, text, "run")?;
        let replaced = std::mem::take(&mut *replaced.lock().unwrap());
        Ok((outcome, replaced))
    };
    let expected = outcome(&eager(), text, "run")?;
    assert_eq!(run()?, (expected.clone(), vec![(1, false)]));
    assert_eq!(run()?, (expected, vec![(1, true)]));
    Ok(())
}

#[test]
fn a_trap_in_a_replaced_loop_is_told_with_its_place() -> Result<()> {
    let (engine, replaced) = lazy();
    let (mut store, instance) = linked(&engine, LOOPS)?;
    let func = instance.get_func(&mut store, "traps").unwrap();
    let params = [Val::I32(0), Val::I64(0), Val::F32(0), Val::F64(0)];
    let error = func.call(&mut store, &params, &mut [Val::I64(0)]).unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&Trap::IntegerDivisionByZero));
    assert_eq!(error.downcast_ref::<WasmBacktrace>().unwrap().frames()[0].func_name(), Some("traps"));
    assert_eq!(replaced.lock().unwrap().len(), 1);
    Ok(())
}

/// Where other threads compile, and nothing is checked: a loop that runs until it has been replaced.
#[test]
fn a_running_loop_is_replaced_by_another_thread() -> Result<()> {
    let text = r#"(module
        (import "h" "stop" (func $stop (result i32)))
        (func (export "run") (result i64) (local $sum i64)
            (loop $more
                (local.set $sum (i64.add (local.get $sum) (i64.const 3)))
                (br_if $more (i32.eqz (call $stop))))
            (local.get $sum)))"#;
    let replaced = Replaced::default();
    let noted = Arc::clone(&replaced);
    let mut config = Config::new();
    config.compilation(Compilation::Lazy);
    config.compile_observer(Arc::new(move |compiled| {
        if matches!(compiled.cause, CompileCause::Loop(_)) {
            noted.lock().unwrap().push((compiled.function, compiled.kept));
        }
    }));
    let engine = Engine::new(&config)?;
    let mut store = Store::new(&engine, 0u64);
    let mut linker = Linker::new(&engine);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    linker.func_wrap("h", "stop", move |mut caller: Caller<'_, u64>| {
        *caller.data_mut() += 1;
        let late = std::time::Instant::now() > deadline;
        i32::from(late || (!replaced.lock().unwrap().is_empty() && caller.data().is_multiple_of(100_000)))
    })?;
    let instance = linker.instantiate(&mut store, &Module::new(&engine, text)?)?;
    let run = instance.get_typed_func::<(), i64>(&mut store, "run")?;
    let sum = run.call(&mut store, ())?;
    assert_eq!(sum as u64, 3 * *store.data());
    assert!(std::time::Instant::now() < deadline, "the loop has not been replaced");
    Ok(())
}
