//! Programs in the style of wasmtime's users: what they wrote for it compiles with the crates' names changed.

use legato::{
    AnyRef, AsContextMut, Caller, Config, Engine, ExternRef, Func, HeapType, I31, Instance, Linker, Module, Ref,
    Result, Rooted, Store, StructRef, StructRefPre, Val, bail, ensure, format_err,
};
use legato_wasi::WasiCtxBuilder;
use legato_wasi::p1::{self, WasiP1Ctx};

#[test]
fn a_store_of_its_own() -> Result<()> {
    let mut store = Store::<()>::default();
    let module = Module::new(
        store.engine(),
        r#"(module (import "" "" (func $host (result i32))) (func (export "run") (result i32) (call $host)))"#,
    )?;
    let host = Func::wrap(&mut store, || 7);
    let instance = Instance::new(&mut store, &module, &[host.into()])?;
    let run = instance.get_func(&mut store, "run").ok_or_else(|| format_err!("no function `run`"))?;
    ensure!(run.typed::<(), i32>(&store)?.call(&mut store, ())? == 7, "the host's number");

    #[derive(Default)]
    struct Data {
        count: u32,
    }
    assert_eq!(Store::<Data>::default().data().count, 0);
    Ok(())
}

#[test]
fn a_command_with_wasi() -> Result<()> {
    let engine = Engine::default();
    let mut linker: Linker<WasiP1Ctx> = Linker::new(&engine);
    p1::add_to_linker_sync(&mut linker, |ctx| ctx)?;
    let wasi = WasiCtxBuilder::new().inherit_stdio().inherit_args().env("A", "1").build_p1();
    let mut store = Store::new(&engine, wasi);
    let module = Module::new(
        &engine,
        r#"(module
            (import "wasi_snapshot_preview1" "args_sizes_get" (func $args (param i32 i32) (result i32)))
            (memory (export "memory") 1)
            (func (export "arguments") (result i32)
              (drop (call $args (i32.const 0) (i32.const 4))) (i32.load (i32.const 0)))
            (func (export "_start")))"#,
    )?;
    linker.module(&mut store, "", &module)?;
    linker.get_default(&mut store, "")?.typed::<(), ()>(&store)?.call(&mut store, ())?;
    let instance = linker.instantiate(&mut store, &module)?;
    let arguments = instance.get_typed_func::<(), i32>(&mut store, "arguments")?.call(&mut store, ())?;
    assert_eq!(arguments as usize, std::env::args().count());

    // A builder is as new after it was used.
    let mut builder = WasiCtxBuilder::new();
    builder.arg("one");
    assert_eq!(builder.build().arguments(), ["one"]);
    assert!(builder.build().arguments().is_empty());
    Ok(())
}

#[test]
fn the_language_by_switches() -> Result<()> {
    let mut config = Config::new();
    config.wasm_gc(true).wasm_function_references(true).wasm_exceptions(true).wasm_tail_call(true);
    config.wasm_reference_types(true).wasm_memory64(true).wasm_multi_value(true).wasm_bulk_memory(true);
    config.wasm_extended_const(true).wasm_multi_memory(true);
    let engine = Engine::new(&config)?;
    Module::new(&engine, "(module (type (struct)) (memory 1) (memory i64 1))")?;

    // What cannot be turned off is refused, and not ignored.
    let Err(error) = Engine::new(config.wasm_gc(false).wasm_tail_call(false)) else {
        bail!("an engine without objects");
    };
    let said = "modules may always use garbage-collected objects, tail calls: it cannot be turned off";
    assert_eq!(error.to_string(), said);
    Engine::new(config.wasm_gc(true).wasm_tail_call(true))?;
    Ok(())
}

#[test]
fn references_of_any_kind() -> Result<()> {
    let mut store = Store::<()>::default();
    let host = ExternRef::new(&mut store, "value")?;
    let number = AnyRef::from_i31(&mut store, I31::wrapping_u32(5));
    let func = Func::wrap(&mut store, || {});

    let reference = Ref::from(Some(host));
    assert!(Rooted::ref_eq(&store, reference.unwrap_extern().unwrap(), &host)?);
    assert!(Rooted::ref_eq(&store, Ref::from(number).unwrap_any().unwrap(), &number)?);
    assert!(Ref::from(func).unwrap_func().is_some());
    assert!(Ref::from(None::<Rooted<AnyRef>>).unwrap_any().is_none());
    assert!(Ref::from(None::<Rooted<ExternRef>>).is_null());
    assert!(Ref::null(&HeapType::Exn).unwrap_exn().is_none());
    let wrong = std::panic::catch_unwind(|| Ref::from(None::<Func>).unwrap_any().is_none());
    assert!(wrong.is_err());
    Ok(())
}

#[test]
fn objects_made_by_the_host() -> Result<()> {
    let mut store = Store::<u32>::default();
    let module = Module::new(
        store.engine(),
        r#"(module
            (type $point (struct (field i32) (field (mut i32))))
            (import "host" "point" (func $point (param i32) (result (ref $point))))
            (func (export "sum") (param i32) (result i32) (local $p (ref null $point))
              (local.set $p (call $point (local.get 0)))
              (i32.add (struct.get $point 0 (local.get $p)) (struct.get $point 1 (local.get $p)))))"#,
    )?;
    let mut linker = Linker::new(store.engine());
    let import = module.imports().next().unwrap();
    let ty = import.ty().func().unwrap().clone();
    let result = ty.result(0).unwrap();
    let point = result.as_ref().unwrap().heap_type().as_concrete_struct().unwrap().clone();
    linker.func_new("host", "point", ty, move |mut caller: Caller<'_, u32>, params, results| {
        *caller.data_mut() += 1;
        let allocator = StructRefPre::new(&mut caller, point.clone());
        let object = StructRef::new(caller.as_context_mut(), &allocator, &[params[0], Val::I32(10)])?;
        results[0] = Val::AnyRef(Some(object.to_anyref()));
        Ok(())
    })?;
    let instance = linker.instantiate(&mut store, &module)?;
    let sum = instance.get_typed_func::<i32, i32>(&mut store, "sum")?;
    assert_eq!(sum.call(&mut store, 32)?, 42);
    assert_eq!(*store.data(), 1);
    Ok(())
}
