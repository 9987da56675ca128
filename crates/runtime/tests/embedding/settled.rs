//! Calls through globals that hold a function that does nothing most of the time, as initialisers of classes are.

use legato::{Compilation, Config, Engine, Func, Linker, Module, Mutability, Result, Store, Trap, Val};

use crate::heaps;

/// `$initialize` runs its initialiser once, which collects garbage; `$changing` is guessed wrongly at times; the host
/// sets `open`.
const CLASSES: &str = r#"(module
    (type $initializer (func))
    (type $node (struct (field (mut i32)) (field (ref null $node))))
    (import "h" "gc" (func $gc))
    (global $runs (mut i32) (i32.const 0))
    (global $initialize (mut (ref null $initializer)) (ref.func $class))
    (global $changing (mut (ref null $initializer)) (ref.func $count))
    (global $open (export "open") (mut (ref null $initializer)) (ref.func $nothing))
    (elem declare func $nothing $count)
    (func $nothing)
    (func $count (global.set $runs (i32.add (global.get $runs) (i32.const 1))))
    (func $class
        (global.set $initialize (ref.func $nothing))
        (call $count)
        (call $gc))
    ;; A method that is inlined.
    (func $value (param $node (ref null $node)) (result i32)
        (call_ref $initializer (global.get $initialize))
        (struct.get $node 0 (local.get $node)))

    ;; What a list of 40 nodes sums up to. It is made anew in each round, and in use while the class is initialised.
    (func (export "list") (result i32)
        (local $i i32) (local $sum i32) (local $head (ref null $node)) (local $at (ref null $node))
        (loop $make
            (local.set $head (struct.new $node (local.get $i) (local.get $head)))
            (br_if $make (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 40))))
        (local.set $at (local.get $head))
        (loop $next
            (local.set $sum (i32.add (local.get $sum) (call $value (local.get $at))))
            (br_if $next (i32.eqz (ref.is_null (local.tee $at (struct.get $node 1 (local.get $at)))))))
        ;; The head is read again.
        (i32.add (local.get $sum) (call $value (local.get $head))))
    (func (export "again") (global.set $initialize (ref.func $class)))
    (func (export "runs") (result i32) (global.get $runs))

    (func (export "calm") (global.set $changing (ref.func $nothing)))
    (func (export "stir") (global.set $changing (ref.func $count)))
    (func (export "clear") (global.set $changing (ref.null $initializer)))
    (func (export "change") (result i32)
        (local $left i32)
        (local.set $left (i32.const 50))
        (loop $more
            (call_ref $initializer (global.get $changing))
            (br_if $more (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
        (global.get $runs))

    (func (export "shut") (global.set $open (ref.func $nothing)))
    (func (export "called") (call_ref $initializer (global.get $open))))"#;

fn engines() -> Vec<Engine> {
    let mut engines = Vec::new();
    for heap in heaps() {
        for compilation in [Compilation::Eager, Compilation::Lazy] {
            let mut config = Config::new();
            config.compilation(compilation).compiler_verifier(true).heap(heap.with("verify=on").heap());
            engines.push(Engine::new(&config).unwrap());
        }
    }
    engines
}

#[test]
fn initialisers_run_once_whatever_they_move() -> Result<()> {
    for engine in engines() {
        let mut store = Store::new(&engine, ());
        let mut linker = Linker::new(&engine);
        linker.func_wrap("h", "gc", |mut caller: legato::Caller<'_, ()>| caller.gc())?;
        let instance = linker.instantiate(&mut store, &Module::new(&engine, CLASSES)?)?;
        let list = instance.get_typed_func::<(), i32>(&mut store, "list")?;
        let runs = instance.get_typed_func::<(), i32>(&mut store, "runs")?;
        let again = instance.get_typed_func::<(), ()>(&mut store, "again")?;
        for round in 1..=3 {
            // Often enough for code that is compiled when it is called to be replaced.
            for _ in 0..30 {
                assert_eq!(list.call(&mut store, ())?, 39 * 40 / 2 + 39);
                assert_eq!(runs.call(&mut store, ())?, round);
            }
            again.call(&mut store, ())?;
        }
    }
    Ok(())
}

#[test]
fn what_else_a_global_holds_is_called() -> Result<()> {
    for engine in engines() {
        let mut store = Store::new(&engine, ());
        let mut linker = Linker::new(&engine);
        linker.func_wrap("h", "gc", || ())?;
        let instance = linker.instantiate(&mut store, &Module::new(&engine, CLASSES)?)?;
        let change = instance.get_typed_func::<(), i32>(&mut store, "change")?;
        for (set, runs) in [("calm", 50), ("stir", 100), ("calm", 100), ("stir", 150)] {
            if runs == 50 {
                assert_eq!(change.call(&mut store, ())?, 50, "it counts at first");
            }
            instance.get_typed_func::<(), ()>(&mut store, set)?.call(&mut store, ())?;
            assert_eq!(change.call(&mut store, ())?, runs, "{set}");
        }
        instance.get_typed_func::<(), ()>(&mut store, "clear")?.call(&mut store, ())?;
        let null = change.call(&mut store, ()).unwrap_err();
        assert_eq!(null.downcast_ref(), Some(&Trap::NullReference));
    }
    Ok(())
}

#[test]
fn what_the_host_sets_is_called() -> Result<()> {
    for engine in engines() {
        let mut store = Store::new(&engine, 0);
        let mut linker = Linker::new(&engine);
        linker.func_wrap("h", "gc", || ())?;
        let instance = linker.instantiate(&mut store, &Module::new(&engine, CLASSES)?)?;
        let open = instance.get_global(&mut store, "open").expect("exported");
        assert_eq!(open.ty(&store).mutability(), Mutability::Var);
        let called = instance.get_typed_func::<(), ()>(&mut store, "called")?;
        let counts = Func::wrap(&mut store, |mut caller: legato::Caller<'_, i32>| *caller.data_mut() += 1);
        for _ in 0..20 {
            called.call(&mut store, ())?;
        }
        open.set(&mut store, Val::FuncRef(Some(counts)))?;
        for _ in 0..20 {
            called.call(&mut store, ())?;
        }
        instance.get_typed_func::<(), ()>(&mut store, "shut")?.call(&mut store, ())?;
        called.call(&mut store, ())?;
        assert_eq!(*store.data(), 20);
    }
    Ok(())
}

/// A class whose uses are known to come one after the other: what it is initialised by, what comes between two uses,
/// and how often it has been initialised once both have been made, twice.
const USES: [(&str, &str, &str, [i32; 2]); 7] = [
    ("it settles for good", SETTLES, "", [1, 1]),
    ("it is made anew by a function of the module", SETTLES, "(global.set $class (ref.func $initialize))", [2, 3]),
    ("it is made anew by a function that is passed", SETTLES, "(call $set (ref.func $initialize))", [2, 3]),
    ("it is made anew by the host", SETTLES, "(call $host)", [2, 3]),
    (
        "it settles at its third use",
        "(if (i32.eq (global.get $runs) (i32.const 3)) (then (global.set $class (ref.func $nothing))))",
        "",
        [2, 3],
    ),
    ("it settles at the end of its initialiser", "(call $nothing) (global.set $class (ref.func $nothing))", "", [1, 1]),
    ("it settles where nobody comes", "(return) (global.set $class (ref.func $nothing))", "", [2, 4]),
];

const SETTLES: &str = "(global.set $class (ref.func $nothing))";

#[test]
fn uses_behind_others_initialise_what_does_not_stay_initialised() -> Result<()> {
    for engine in engines() {
        for (what, settles, between, runs) in USES {
            let by_host = between == "(call $host)";
            let set = if between.contains("$set") { "(global.set $class (local.get 0))" } else { "" };
            // Counting comes before what settles late, and behind what settles at once.
            let count = "(global.set $runs (i32.add (global.get $runs) (i32.const 1)))";
            let initialize = if settles == SETTLES { [settles, count] } else { [count, settles] }.concat();
            let text = format!(
                r#"(module
                (type $initializer (func))
                (import "h" "host" (func $host))
                (global $runs (mut i32) (i32.const 0))
                (global $class {} (mut (ref null $initializer)) (ref.func $initialize))
                (elem declare func $nothing)
                (func $nothing)
                (func $initialize (export "initialize") {initialize})
                (func $set (param (ref null $initializer)) {set})
                (func $use (call_ref $initializer (global.get $class)))
                ;; One use behind the other; in a loop; where the first one may not have been made.
                (func (export "straight") (result i32) (call $use) {between} (call $use) (global.get $runs))
                (func (export "loop") (result i32) (local $left i32)
                  (local.set $left (i32.const 2))
                  (loop $more
                    (call $use)
                    (if (i32.eq (local.get $left) (i32.const 2)) (then {between}))
                    (br_if $more (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
                  (global.get $runs))
                (func (export "perhaps") (param i32) (result i32)
                  (if (local.get 0) (then (call $use)))
                  {between} (call $use) (global.get $runs)))"#,
                if by_host { r#"(export "class")"# } else { "" }
            );
            let module = Module::new(&engine, &text)?;
            // The second time, code that was compiled for what the first instance did begins anew.
            for name in ["straight", "loop", "perhaps", "straight", "loop", "perhaps"] {
                let mut store = Store::new(&engine, ());
                let mut linker = Linker::new(&engine);
                linker.func_wrap("h", "host", |mut caller: legato::Caller<'_, ()>| -> Result<()> {
                    let export = |name| move |caller: &mut legato::Caller<'_, ()>| caller.get_export(name);
                    let initialize = export("initialize")(&mut caller).and_then(legato::Extern::into_func);
                    let class = export("class")(&mut caller).and_then(legato::Extern::into_global);
                    class.expect("exported").set(&mut caller, Val::FuncRef(initialize))
                })?;
                let instance = linker.instantiate(&mut store, &module)?;
                let params = if name == "perhaps" { vec![Val::I32(1)] } else { Vec::new() };
                let used = instance.get_func(&mut store, name).expect("exported");
                let mut found = [Val::I32(0)];
                if name == "perhaps" {
                    let mut store = Store::new(&engine, ());
                    let other = linker.instantiate(&mut store, &module)?;
                    let used = other.get_typed_func::<i32, i32>(&mut store, name)?;
                    assert_eq!(used.call(&mut store, 0)?, 1, "{what}: {name}, at the second use");
                }
                for (round, runs) in runs.into_iter().enumerate() {
                    used.call(&mut store, &params, &mut found)?;
                    assert_eq!(found[0].i32(), Some(runs), "{what}: {name}, round {round}");
                }
                // Often enough for code that was compiled quickly to be replaced.
                let each = i32::from(!between.is_empty()) + 2 * i32::from(settles.starts_with("(return)"));
                for round in 1..1_500 {
                    used.call(&mut store, &params, &mut found)?;
                    assert_eq!(found[0].i32(), Some(runs[1] + each * round), "{what}: {name}, round {round}");
                }
            }
        }
    }
    Ok(())
}

/// What was read from a class's global before the class was initialised initialises it each time that it is called.
#[test]
fn an_initialiser_that_was_read_before_runs_again() -> Result<()> {
    const STALE: &str = r#"(module
        (type $initializer (func))
        (global $runs (mut i32) (i32.const 0))
        (global $class (mut (ref null $initializer)) (ref.func $initialize))
        (elem declare func $nothing)
        (func $nothing)
        (func $initialize
            (global.set $class (ref.func $nothing))
            (global.set $runs (i32.add (global.get $runs) (i32.const 1))))
        (func $use (call_ref $initializer (global.get $class)))
        (func (export "again") (global.set $runs (i32.const 0)))
        ;; Called twice; used, and called behind; called in a loop; compared once more, and the former called.
        (func (export "twice") (result i32) (local $read (ref null $initializer))
            (local.set $read (global.get $class))
            (call_ref $initializer (local.get $read)) (call_ref $initializer (local.get $read))
            (call $use) (global.get $runs))
        (func (export "behind") (result i32) (local $read (ref null $initializer))
            (local.set $read (global.get $class))
            (call $use) (call_ref $initializer (local.get $read)) (call $use) (global.get $runs))
        (func (export "loop") (result i32) (local $read (ref null $initializer)) (local $left i32)
            (local.set $read (global.get $class))
            (local.set $left (i32.const 2))
            (loop $more
                (call_ref $initializer (local.get $read))
                (br_if $more (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
            (call $use) (global.get $runs)))"#;
    for engine in engines() {
        let module = Module::new(&engine, STALE)?;
        // The second time, code that was compiled for what the first instance did begins anew.
        for name in ["twice", "behind", "loop", "twice", "behind", "loop"] {
            let mut store = Store::new(&engine, ());
            let instance = Linker::new(&engine).instantiate(&mut store, &module)?;
            let used = instance.get_typed_func::<(), i32>(&mut store, name)?;
            assert_eq!(used.call(&mut store, ())?, 2, "{name}");
            instance.get_typed_func::<(), ()>(&mut store, "again")?.call(&mut store, ())?;
            for _ in 0..1_500 {
                assert_eq!(used.call(&mut store, ())?, 0, "{name}, once it is settled");
            }
        }
    }
    Ok(())
}
