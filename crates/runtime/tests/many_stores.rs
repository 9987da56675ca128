//! Many small stores in one process. It runs these tests alone, one after another: they count its mappings.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use legato::{Config, Engine, Instance, Module, Store};

/// A memory, a table, and objects.
const MODULE: &str = r#"
    (module
        (type $pair (struct (field (mut i32)) (field (mut (ref null $pair)))))
        (memory (export "memory") 1 4)
        (table 2 funcref)
        (elem (i32.const 0) $make)
        (global $kept (mut (ref null $pair)) (ref.null $pair))
        (func $make (param i32)
            (global.set $kept (struct.new $pair (local.get 0) (global.get $kept))))
        (func (export "run") (param $n i32) (result i32)
            (local $sum i32)
            (i32.store (i32.const 65532) (local.get $n))
            (loop $again
                (call_indirect (param i32) (local.get $n) (i32.const 0))
                (local.set $n (i32.sub (local.get $n) (i32.const 1)))
                (br_if $again (local.get $n)))
            (i32.add
                (struct.get $pair 0 (ref.as_non_null (global.get $kept)))
                (i32.load (i32.const 65532)))))
"#;

/// To be held by each test.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the system lets a process have of mappings.
fn most_mappings() -> usize {
    std::fs::read_to_string("/proc/sys/vm/max_map_count")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(65_530)
}

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count())
}

/// Makes so many stores, lets each run, and returns how many mappings each took.
fn stores(count: usize, heap: &[(&str, &str)]) -> Result<f64> {
    let mut config = Config::new();
    config.memory_reservation(0);
    for (key, value) in heap {
        config.heap_option(key, value)?;
    }
    let engine = Engine::new(&config)?;
    let module = Module::new(&engine, MODULE)?;
    let before = mappings();
    let mut stores = Vec::with_capacity(count);
    for _ in 0..count {
        let mut store = Store::try_new(&engine, ())?;
        let instance = Instance::new(&mut store, &module, &[])?;
        let run = instance.get_typed_func::<i32, i32>(&mut store, "run")?;
        assert_eq!(run.call(&mut store, 9)?, 10);
        stores.push((store, run));
    }
    let taken = (mappings() - before) as f64 / count as f64;
    for (store, run) in &mut stores {
        assert_eq!(run.call(store, 5)?, 6);
    }
    Ok(taken)
}

#[test]
fn a_small_store_takes_few_mappings() {
    let _alone = alone();
    for heap in [
        &[("max", "1M")][..],
        &[("max", "1M"), ("collector", "realtime")],
        &[("max", "64M"), ("collector", "mark-sweep")],
    ] {
        let taken = stores(500, heap).unwrap();
        assert!(taken < 4.1, "{heap:?}: {taken} mappings for each store");
    }
}

#[test]
fn twenty_thousand_small_stores() {
    const STORES: usize = 20_000;
    let _alone = alone();
    // Three mappings for each. Systems before Linux 6.13 need one more.
    let taken = stores(100, &[("max", "1M")]).unwrap();
    if (taken * STORES as f64) as usize + 2_000 > most_mappings() {
        eprintln!("left out: {taken} mappings for each of {STORES} stores are too many here");
        return;
    }
    stores(STORES, &[("max", "1M")]).unwrap();
}
