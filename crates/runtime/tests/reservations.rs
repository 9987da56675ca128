//! What stores reserve of addresses. The only test of its process, whose addresses it counts.
#![cfg(target_os = "linux")]

use std::time::Duration;

use legato::{
    Caller, Config, Engine, ExternRef, Func, Global, GlobalType, HeapType, Instance, Linker, Module, Mutability, Ref,
    RefType, Result, Store, Table, TableType, Val, ValType,
};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Functions in tables, a memory, imports and references to functions, but nothing that leads to an object.
const PLAIN: &str = r#"(module
    (type $number (func (result i32)))
    (import "h" "twice" (func $twice (param i32) (result i32)))
    (memory (export "memory") 1 4)
    (table $any 8 funcref)
    (table $typed 2 (ref null $number))
    (global $kept (mut (ref null $number)) (ref.func $seven))
    (elem (table $any) (i32.const 0) func $seven)
    (func $seven (export "seven") (result i32) (i32.const 7))
    (func (export "run") (result i32)
        (table.set $typed (i32.const 0) (global.get $kept))
        (i32.store (i32.const 65532) (call $twice (i32.const 4)))
        (drop (table.grow $any (ref.func $seven) (i32.const 100)))
        (i32.add
            (i32.add (call_indirect $any (type $number) (i32.const 107)) (i32.load (i32.const 65532)))
            (call_ref $number (table.get $typed (i32.const 0))))))
"#;

/// What each of these needs a heap for.
const WITH_OBJECTS: [&str; 9] = [
    "(module (type (struct)))",
    "(module (type (array i8)))",
    "(module (tag))",
    "(module (func (export \"f\") (param externref)))",
    "(module (func (result anyref) (unreachable)))",
    "(module (table 1 externref))",
    "(module (table 1 i31ref))",
    "(module (global (mut exnref) (ref.null exn)))",
    "(module (type $f (func (param structref))) (table 1 (ref null $f)))",
];

/// The addresses that this process has reserved, in bytes.
fn reserved() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("a size");
    line.trim().strip_suffix(" kB").and_then(|kib| kib.parse::<u64>().ok()).expect("in KiB") << 10
}

/// A store that does all that needs no heap.
fn plain(engine: &Engine, module: &Module) -> Result<Store<i32>> {
    let mut linker = Linker::new(engine);
    linker.func_wrap("h", "twice", |caller: Caller<'_, i32>, number: i32| *caller.data() + 2 * number)?;
    let mut store = Store::new(engine, 0);
    let instance = linker.instantiate(&mut store, module)?;
    assert_eq!(instance.get_typed_func::<(), i32>(&mut store, "run")?.call(&mut store, ())?, 7 + 8 + 7);
    let function = Func::wrap(&mut store, || 3);
    Table::new(&mut store, TableType::new(RefType::FUNCREF, 5, None), Ref::Func(Some(function)))?;
    let ty = ValType::Ref(RefType::new(true, HeapType::Extern));
    Global::new(&mut store, GlobalType::new(ty, Mutability::Var), Val::ExternRef(None))?;
    store.gc();
    assert!(store.collect_some(Duration::ZERO) && store.collect_some(Duration::MAX) && store.trim() == 0);
    Ok(store)
}

#[test]
fn stores_without_objects_reserve_no_heap() -> Result<()> {
    let mut config = Config::new();
    let config = config.heap_option("max", "2G")?.memory_reservation(MIB).parallel_compilation(false);
    let engine = Engine::new(config)?;
    let module = Module::new(&engine, PLAIN)?;
    // What the first one needs beside.
    drop(plain(&engine, &module)?);
    let before = reserved();
    let mut store = plain(&engine, &module)?;
    let taken = reserved() - before;
    assert!(taken < 8 * MIB, "{taken} bytes");
    // So many heaps would not fit the addresses of a process.
    let stores = (0..2500).map(|_| plain(&engine, &module)).collect::<Result<Vec<_>>>()?;
    let taken = reserved() - before;
    assert!(taken < 2501 * 8 * MIB, "{taken} bytes");
    drop(stores);

    for text in WITH_OBJECTS {
        let mut store = Store::new(&engine, 0);
        let before = reserved();
        Instance::new(&mut store, &Module::new(&engine, text)?, &[])?;
        assert!(reserved() - before >= 72 * GIB, "{text}");
    }
    let before = reserved();
    ExternRef::new(&mut store, 1)?;
    let taken = reserved() - before;
    assert!((72 * GIB..73 * GIB).contains(&taken), "{taken} bytes");
    ExternRef::new(&mut store, 2)?;
    Instance::new(&mut store, &Module::new(&engine, WITH_OBJECTS[0])?, &[])?;
    assert!(reserved() - before < 73 * GIB, "a store has one heap");
    Ok(())
}
