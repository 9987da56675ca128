//! Compiling, inspecting and precompiling modules.

use legato::{CompileError, Engine, ExternType, Linker, Module, Result, Store, ValType};

use crate::{engine, engines};

#[test]
fn modules_say_what_they_import_and_export() -> Result<()> {
    let engine = &engines()[0];
    let module = Module::new(
        engine,
        r#"(module $named
            (import "a" "f" (func (param i32 externref) (result i64)))
            (import "a" "m" (memory 1 2))
            (global (export "g") (mut f32) (f32.const 0))
            (table (export "t") 1 2 anyref)
            (func (export "run") (result i32) (i32.const 1))
            (@custom "extra" "bytes"))"#,
    )?;
    assert_eq!(module.name(), Some("named"));
    let imports: Vec<_> = module.imports().collect();
    assert_eq!((imports[0].module(), imports[0].name()), ("a", "f"));
    let ExternType::Func(ty) = imports[0].ty() else { panic!("a function") };
    assert_eq!(ty.params().collect::<Vec<_>>(), [ValType::I32, ValType::EXTERNREF]);
    assert_eq!(ty.to_string(), "(func (param i32 (ref null extern)) (result i64))");
    assert_eq!(imports[1].ty().memory().unwrap().maximum(), Some(2));
    let names: Vec<_> = module.exports().map(|export| export.name().to_string()).collect();
    assert_eq!(names, ["g", "t", "run"]);
    assert!(module.get_export("t").unwrap().table().is_some() && module.get_export("nothing").is_none());
    assert_eq!(module.custom_section("extra"), Some(b"bytes".as_slice()));
    assert!(module.code_size() > 0);
    Ok(())
}

#[test]
fn bad_modules_are_errors_that_say_where() {
    let engine = &engines()[0];
    let error = Module::new(engine, "(module (func (result i32) (i64.const 1)))").unwrap_err();
    assert!(matches!(error.downcast_ref::<CompileError>(), Some(CompileError::Invalid { .. })), "{error:?}");
    let error = Module::new(engine, "(module (memory 1) (func (drop (i32.atomic.load (i32.const 0)))))").unwrap_err();
    assert!(format!("{error}").contains("threads support is not enabled"), "{error:?}");
    assert!(Module::new(engine, "(module (func $f (call $g)))").unwrap_err().to_string().contains("unknown func"));
    assert!(Module::new(engine, b"\0asm\x01\0\0\0\x05").is_err());
    assert!(Module::from_binary(engine, b"").is_err());
    assert!(Module::from_file(engine, "no/such/file.wasm").unwrap_err().to_string().contains("no/such/file.wasm"));
}

#[test]
fn precompiled_modules_run_and_are_checked() -> Result<()> {
    let text = r#"(module
        (import "h" "f" (func $f (param i32) (result i32)))
        (type $s (struct (field i32)))
        (memory 1) (data (i32.const 0) "x")
        (func (export "run") (param i32) (result i32)
            (i32.add (struct.get $s 0 (struct.new $s (call $f (local.get 0)))) (i32.load8_u (i32.const 0)))))"#;
    let engines = engines();
    for engine in &engines {
        let bytes = engine.precompile_module(text.as_bytes())?;
        assert!(Module::is_precompiled(&bytes));
        // SAFETY: the bytes come from `precompile_module`.
        let module = unsafe { Module::deserialize(engine, &bytes)? };
        let mut linker = Linker::new(engine);
        linker.func_wrap("h", "f", |value: i32| value + 1)?;
        let mut store = Store::new(engine, ());
        let instance = linker.instantiate(&mut store, &module)?;
        assert_eq!(instance.get_typed_func::<i32, i32>(&mut store, "run")?.call(&mut store, 1)?, 2 + 'x' as i32);
        assert_eq!(module.serialize()?, bytes);

        let error = Module::new(engine, &bytes).unwrap_err().to_string();
        assert_eq!(error, "this is a precompiled module, which `Module::deserialize` loads");
        // SAFETY: these are refused before any code is looked at.
        unsafe {
            assert!(Module::deserialize(engine, b"\0asm").unwrap_err().to_string().contains("not a precompiled"));
            assert!(Module::deserialize(engine, &bytes[..bytes.len() / 2]).is_err());
            let mut other = bytes.clone();
            other[8] ^= 1;
            assert!(Module::deserialize(engine, other).unwrap_err().to_string().contains("another version"));
        }
    }
    let bytes = engines[0].precompile_module(text.as_bytes())?;
    // SAFETY: the bytes come from `precompile_module`.
    let error = unsafe { Module::deserialize(&engines[1], bytes) }.unwrap_err();
    assert!(error.to_string().contains("another heap"), "{error}");
    Ok(())
}

#[test]
fn engines_of_contradictory_configuration_are_refused() {
    let mut config = legato::Config::new();
    assert!(config.heap_option("references", "magic").is_err());
    config.heap_option("max", "1K").unwrap();
    assert!(Engine::new(&config).is_err());
    assert_eq!(engine(&crate::heaps()[0], "").config().heap_config().references, legato::References::Direct);
}

#[test]
fn types_are_told_by_their_shapes() -> Result<()> {
    let text = r#"(module
        (rec (type $node (struct (field i32) (field (mut i16)) (field (mut (ref null $node)))))
            (type $visit (func (param (ref $node)) (result i64))))
        (type $nodes (array (mut (ref $node))))
        (type $wide (struct (field i8 i8 i8 i8 i8 i8 i8 i8 i8)))
        (import "m" "a" (func (param (ref $node) (ref null $nodes) (ref $visit) (ref $wide)) (result f64))))"#;
    let module = Module::new(&Engine::default(), text)?;
    let shown = module.imports().next().unwrap().ty().to_string();
    // Numbers depend on what else an engine knows.
    let mut parts = shown.split('#');
    let first = parts.next().unwrap().to_string();
    let told = parts.fold(first, |told, part| told + "#" + part.trim_start_matches(|c: char| c.is_ascii_digit()));
    assert_eq!(
        told,
        "(func (param (ref (struct # (field i32) (field (mut i16)) (field (mut (ref null (struct #)))))) \
         (ref null (array # (mut (ref (struct #))))) \
         (ref (func # (param (ref (struct #))) (result i64))) \
         (ref (struct # (field i8) (field i8) (field i8) (field i8) (field i8) (field i8) (field i8) (field i8) ...))) \
         (result f64))"
    );
    Ok(())
}
