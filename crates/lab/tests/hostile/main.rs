//! Hostile input: whatever a module is or does, the host gets an error and lives on.

mod files;
mod programs;
mod shapes;
mod targets;

use legato::{Config, Engine, Instance, Linker, Module, Store, StoreLimits, StoreLimitsBuilder, Trap, Val};
use std::time::Duration;

/// An engine whose heap may grow to 64 MB.
fn engine() -> Engine {
    let mut config = Config::new();
    config.heap_option("max", "64M").unwrap();
    Engine::new(&config).unwrap()
}

/// A store whose instances may take little.
fn store(engine: &Engine) -> Store<StoreLimits> {
    let limits = StoreLimitsBuilder::new().memory_size(64 << 20).table_elements(1 << 20).build();
    let mut store = Store::new(engine, limits);
    store.limiter(|limits| limits);
    store
}

/// Calls the export `run` of a module in text form, with a deadline, and asserts that engine and store go on working
/// afterwards.
fn run(engine: &Engine, text: &str) -> anyhow::Result<Vec<Val>> {
    run_for(engine, text, Duration::from_secs(60))
}

fn run_for(engine: &Engine, text: &str, limit: Duration) -> anyhow::Result<Vec<Val>> {
    let module = Module::new(engine, text)?;
    let mut store = store(engine);
    let result = call(&mut store, &module, limit);
    // What has filled the heap may be alive still: then only other stores go on.
    let full = |error: &anyhow::Error| error.downcast_ref::<Trap>() == Some(&Trap::AllocationFailure);
    if !result.as_ref().is_err_and(full) {
        lives_on(engine, &mut store);
    }
    lives_on(engine, &mut self::store(engine));
    result
}

fn call(store: &mut Store<StoreLimits>, module: &Module, limit: Duration) -> anyhow::Result<Vec<Val>> {
    let deadline = store.set_deadline(limit);
    let instance = Instance::new(&mut *store, module, &[])?;
    let run = instance.get_func(&mut *store, "run").expect("the program exports 'run'");
    let mut results = vec![Val::I32(0); run.ty(&*store).results().len()];
    let outcome = run.call(&mut *store, &[], &mut results);
    drop(deadline);
    store.interrupt_handle().clear();
    outcome.map(|()| results)
}

/// An ordinary program still works: it allocates, calls and loops.
fn lives_on(engine: &Engine, store: &mut Store<StoreLimits>) {
    const ORDINARY: &str = r#"(module
      (type $node (struct (field $value i32) (field $next (ref null $node))))
      (func (export "run") (result i32)
        (local $i i32) (local $list (ref null $node)) (local $sum i32)
        (loop $build
          (local.set $list (struct.new $node (local.get $i) (local.get $list)))
          (br_if $build (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 100))))
        (loop $add
          (local.set $sum (i32.add (local.get $sum) (struct.get $node $value (local.get $list))))
          (local.set $list (struct.get $node $next (local.get $list)))
          (br_if $add (i32.eqz (ref.is_null (local.get $list)))))
        (local.get $sum)))"#;
    let module = Module::new(engine, ORDINARY).unwrap();
    store.gc();
    let results = call(store, &module, Duration::from_secs(60)).expect("the store lives on");
    assert!(matches!(results[..], [Val::I32(4950)]), "{results:?}");
}

/// Asserts that a program ends in one of these traps.
#[track_caller]
fn assert_traps(engine: &Engine, text: &str, expected: &[Trap]) {
    let error = run(engine, text).expect_err("the program traps");
    match error.downcast_ref::<Trap>() {
        Some(trap) => assert!(expected.contains(trap), "{trap:?} instead of {expected:?}: {text}"),
        None => panic!("no trap: {error:?}: {text}"),
    }
}

/// Instantiates a module and calls every function that it exports with zeros and nulls, whatever comes of it. Imports
/// are there, but trap.
fn call_all(engine: &Engine, module: &Module) {
    let mut linker = Linker::new(engine);
    let mut store = store(engine);
    let _deadline = store.set_deadline(Duration::from_millis(500));
    if linker.define_unknown_imports_as_traps(module).is_err() {
        return;
    }
    let Ok(instance) = linker.instantiate(&mut store, module) else {
        return;
    };
    let names: Vec<String> = module.exports().map(|export| export.name().to_string()).collect();
    for name in names {
        let Some(function) = instance.get_func(&mut store, &name) else {
            continue;
        };
        let ty = function.ty(&store);
        let arguments: Option<Vec<Val>> = ty.params().map(|ty| Val::default_for_ty(&ty)).collect();
        let Some(arguments) = arguments else { continue };
        let mut results = vec![Val::I32(0); ty.results().len()];
        // An error is as good as a result here.
        let _ = function.call(&mut store, &arguments, &mut results);
    }
    store.gc();
}
