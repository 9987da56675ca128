//! Code that a cache keeps, function by function, for hosts that load a module among others.

use std::sync::{Arc, Mutex};

use legato::{
    Cache, Compilation, Config, Engine, FieldType, Instance, Module, Mutability, Result, StorageType, Store, StructRef,
    StructRefPre, StructType, Val, ValType,
};

/// Tests of an object that the host has made, of types that it is of and is not of; a call through a table, whose
/// type the record of the function says; an allocation and a cast.
const TEXT: &str = r#"(module
    (type $pair (struct (field i32)))
    (type $other (struct (field i64)))
    (type $function (func (param i32) (result (ref $pair))))
    (type $unlike (func (param i32) (result i32)))
    (table 1 funcref)
    (elem (i32.const 0) $make)
    (func (export "run") (param anyref) (result i32)
        (i32.add
            (struct.get $pair 0 (ref.cast (ref $pair) (call_indirect (type $function) (i32.const 40) (i32.const 0))))
            (i32.add
                (ref.test (ref $pair) (local.get 0))
                (i32.mul (i32.const 10)
                    (i32.add
                        (ref.test (ref $other) (local.get 0))
                        (ref.test (ref $unlike) (table.get (i32.const 0))))))))
    (func $make (type $function) (struct.new $pair (local.get 0))))"#;

/// Runs the module in an engine that has so many types of another module. Returns for each piece of code whether it was
/// kept.
fn run(cache: &Cache, types: usize) -> Result<Vec<bool>> {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&kept);
    let mut config = Config::new();
    config.compilation(Compilation::Lazy).parallel_compilation(false);
    config.cache(Some(cache.clone()));
    config.compile_observer(Arc::new(move |compiled| noted.lock().unwrap().push(compiled.kept)));
    let engine = Engine::new(&config)?;
    let others: String = (1..=types).map(|count| format!("(type (struct {}))", "(field f32)".repeat(count))).collect();
    let _others = Module::new(&engine, format!("(module {others})"))?;
    let module = Module::new(&engine, TEXT)?;
    let mut store = Store::new(&engine, ());
    let instance = Instance::new(&mut store, &module, &[])?;
    let pair = StructType::new(&engine, [FieldType::new(Mutability::Const, StorageType::ValType(ValType::I32))])?;
    let pair = StructRefPre::new(&mut store, pair);
    let object = StructRef::new(&mut store, &pair, &[Val::I32(2)])?;
    let mut sum = [Val::I32(0)];
    let func = instance.get_func(&mut store, "run").expect("it is exported");
    func.call(&mut store, &[Val::AnyRef(Some(object.to_anyref()))], &mut sum)?;
    assert_eq!(sum[0].i32(), Some(41));
    drop((store, module));
    let kept = std::mem::take(&mut *kept.lock().unwrap());
    assert!(kept.len() >= 2, "both functions have been told");
    Ok(kept)
}

/// Code holds the ids that types have in its engine. Where they are others, a second kind of it is kept, which looks
/// them up.
#[test]
fn code_is_right_whatever_ids_types_have() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let cache = Cache::open(directory.path(), Cache::DEFAULT_LIMIT)?;
    for (types, is_kept) in [(0, false), (0, true), (3, false), (3, true), (5, true), (0, true)] {
        let kept = run(&cache, types)?;
        assert!(kept.iter().all(|&kept| kept == is_kept), "{types} types: {kept:?}");
    }
    Ok(())
}
