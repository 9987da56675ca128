//! Several instances: imports, exports, start functions, limits.

use legato::{
    ArrayType, Extern, FieldType, Finality, FuncType, Global, GlobalType, HeapType, Instance, Linker, Module,
    Mutability, Ref, RefType, Result, Store, StoreLimits, StoreLimitsBuilder, StructType, Table, TableType, Tag,
    TagType, Trap, Val, ValType,
};

use crate::{engine, engines, instance};

#[test]
fn instances_share_what_they_export() -> Result<()> {
    for engine in engines() {
        let mut store = Store::new(&engine, ());
        let library = Module::new(
            &engine,
            r#"(module
                (memory (export "memory") 1)
                (global (export "counter") (mut i32) (i32.const 0))
                (table (export "table") 2 funcref)
                (tag (export "tag") (param i32))
                (func (export "throw") (param i32) (throw 0 (local.get 0)))
                (func (export "store") (param i32 i32) (i32.store (local.get 0) (local.get 1))))"#,
        )?;
        let user = Module::new(
            &engine,
            r#"(module
                (import "lib" "store" (func $store (param i32 i32)))
                (import "lib" "memory" (memory 1))
                (import "lib" "counter" (global $counter (mut i32)))
                (import "lib" "table" (table 1 funcref))
                (import "lib" "tag" (tag $tag (param i32)))
                (import "lib" "throw" (func $throw (param i32)))
                (elem (i32.const 1) $store)
                (func (export "run") (result i32)
                    (call $store (i32.const 0) (i32.const 77))
                    (global.set $counter (i32.add (global.get $counter) (i32.const 1)))
                    (i32.load (i32.const 0)))
                (func (export "catch") (result i32)
                    (block $handler (result i32)
                        (try_table (catch $tag $handler) (call $throw (i32.const 5)))
                        (i32.const 0))))"#,
        )?;
        let mut linker = Linker::new(&engine);
        let lib = linker.instantiate(&mut store, &library)?;
        linker.instance(&mut store, "lib", lib)?;
        let instance = linker.instantiate(&mut store, &user)?;
        assert_eq!(instance.get_typed_func::<(), i32>(&mut store, "run")?.call(&mut store, ())?, 77);
        assert_eq!(instance.get_typed_func::<(), i32>(&mut store, "catch")?.call(&mut store, ())?, 5);
        assert_eq!(lib.get_global(&mut store, "counter").unwrap().get(&mut store).i32(), Some(1));
        let names: Vec<String> = lib.exports(&mut store).map(|export| export.name().to_string()).collect();
        assert_eq!(names, ["memory", "counter", "table", "tag", "throw", "store"]);
        let table = lib.get_table(&mut store, "table").unwrap();
        assert!(table.get(&mut store, 1).unwrap().as_func().is_some());
        assert!(lib.get_tag(&mut store, "tag").is_some() && lib.get_tag(&mut store, "table").is_none());
        linker.alias_module("lib", "other")?;
        assert!(linker.alias("lib", "store", "other", "store").is_err());
        let pre = linker.instantiate_pre(&user)?;
        pre.instantiate(&mut store)?;
    }
    Ok(())
}

#[test]
fn imports_that_do_not_fit() -> Result<()> {
    let engine = &engines()[0];
    let mut store = Store::new(engine, ());
    let library = Module::new(
        engine,
        r#"(module
            (type $base (sub (func))) (type $below (sub $base (func)))
            (func (export "f") (type $below))
            (memory (export "m") 2 5) (memory (export "m64") i64 1)
            (table (export "t") 2 4 funcref)
            (global (export "const") anyref (ref.null any))
            (global (export "var") (mut i32) (i32.const 0))
            (tag (export "tag") (param i32)))"#,
    )?;
    let mut linker = Linker::new(engine);
    linker.module(&mut store, "l", &library)?;
    let mut check = |import: &str| -> Result<Instance> {
        let types = "(type $base (sub (func))) (type $below (sub $base (func))) (type $final (func))";
        linker.instantiate(&mut store, &Module::new(engine, format!("(module {types} (import \"l\" {import}))"))?)
    };
    for fits in [
        r#""f" (func (type $below))"#,
        r#""f" (func (type $base))"#,
        r#""m" (memory 1)"#,
        r#""m" (memory 2 5)"#,
        r#""m" (memory 0 9)"#,
        r#""m64" (memory i64 1)"#,
        r#""t" (table 1 4 funcref)"#,
        r#""const" (global anyref)"#,
        r#""var" (global (mut i32))"#,
        r#""tag" (tag (param i32))"#,
    ] {
        check(fits)?;
    }
    for wrong in [
        r#""f" (func (param i32))"#,
        r#""f" (func (type $final))"#,
        r#""f" (memory 1)"#,
        r#""m" (memory 3)"#,
        r#""m" (memory 1 4)"#,
        r#""m" (memory i64 1)"#,
        r#""m64" (memory 1)"#,
        r#""t" (table 1 3 funcref)"#,
        r#""t" (table 3 funcref)"#,
        r#""t" (table 1 externref)"#,
        r#""const" (global eqref)"#,
        r#""const" (global (mut anyref))"#,
        r#""var" (global i32)"#,
        r#""var" (global (mut i64))"#,
        r#""tag" (tag (param i64))"#,
    ] {
        let error = check(wrong).map(|_| ()).expect_err(wrong);
        assert!(format!("{error:#}").contains("incompatible import type for `l::"), "{wrong}: {error:#}");
    }
    let error = check(r#""nothing" (func)"#).unwrap_err();
    assert!(format!("{error:#}").contains("unknown import: `l::nothing`"), "{error:#}");
    Ok(())
}

/// Counts its calls.
const COUNTER: &str = r#"(module
    (global $count (export "count") (mut i32) (i32.const 0))
    (func (export "next") (result i32)
        (global.set $count (i32.add (global.get $count) (i32.const 1)))
        (global.get $count)))"#;

#[test]
fn exports_are_defined_for_any_store() -> Result<()> {
    for engine in engines() {
        let library = Module::shared(&engine, COUNTER)?;
        let mut linker = Linker::new(&engine);
        linker.define_export("l", "next", &library, "next")?.define_export("l", "value", &library, "count")?;
        linker.alias("l", "next", "l", "again")?;
        let user = Module::new(
            &engine,
            r#"(module
                (import "l" "next" (func $next (result i32)))
                (import "l" "again" (func $again (result i32)))
                (import "l" "value" (global $value (mut i32)))
                (func (export "run") (result i32)
                    (i32.add (i32.mul (call $next) (i32.const 100)) (i32.mul (call $again) (i32.const 10)))
                    (global.get $value)
                    i32.add))"#,
        )?;
        let ready = linker.instantiate_pre(&user)?;
        for _ in 0..2 {
            // Each store has its own instance of the library, which is none of those that are counted.
            let mut store = Store::new(&engine, StoreLimitsBuilder::new().instances(2).build());
            store.limiter(|limits| limits);
            let run = |instance: Instance, store: &mut Store<StoreLimits>| -> Result<i32> {
                instance.get_typed_func::<(), i32>(&mut *store, "run")?.call(store, ())
            };
            let first = ready.instantiate(&mut store)?;
            assert_eq!(run(first, &mut store)?, 122);
            let second = linker.clone().instantiate(&mut store, &user)?;
            assert_eq!(run(second, &mut store)?, 344, "one instance in the store, whoever asks for it");
            let other = Linker::new(&engine).define_export("m", "n", &library, "next")?.get(&mut store, "m", "n");
            let other = other.and_then(Extern::into_func).unwrap().typed::<(), i32>(&store)?;
            assert_eq!(other.call(&mut store, ())?, 5);
            let error = linker.instantiate(&mut store, &user).unwrap_err();
            assert!(format!("{error:#}").contains("a store may hold 2 instances"), "{error:#}");
        }
    }
    Ok(())
}

/// The library's instance is made when others fill the store already.
#[test]
fn instances_of_libraries_are_not_counted() -> Result<()> {
    let engine = &engines()[0];
    let mut store = Store::new(engine, StoreLimitsBuilder::new().instances(1).build());
    store.limiter(|limits| limits);
    Instance::new(&mut store, &Module::new(engine, "(module)")?, &[])?;
    let mut linker = Linker::new(engine);
    linker.define_export("l", "next", &Module::new(engine, COUNTER)?, "next")?;
    assert!(linker.get(&mut store, "l", "next").is_some());
    assert!(linker.instantiate(&mut store, &Module::new(engine, "(module)")?).is_err());
    Ok(())
}

#[test]
fn exports_that_cannot_be_defined() -> Result<()> {
    let engine = &engines()[0];
    let mut linker = Linker::<()>::new(engine);
    let mut says = |module: &Module, export: &str, says: &str| {
        let error = linker.define_export("l", "f", module, export).map(drop).unwrap_err();
        assert!(error.to_string().contains(says), "{error:#}");
    };
    let other = Module::new(&legato::Engine::default(), COUNTER)?;
    let importing = Module::new(engine, r#"(module (import "a" "b" (func)) (export "f" (func 0)))"#)?;
    says(&other, "next", "belongs to another engine");
    says(&importing, "f", "may import nothing");
    says(&Module::new(engine, COUNTER)?, "f", "no export `f`");

    // One that fails to start does so each time, and then counts as the instance that it is.
    let failing = Module::new(engine, r#"(module (func $f (export "f") (unreachable)) (start $f))"#)?;
    linker.define_export("l", "f", &failing, "f")?;
    let mut store = Store::new(engine, ());
    let user = Module::new(engine, r#"(module (import "l" "f" (func)))"#)?;
    for _ in 0..2 {
        let error = linker.instantiate(&mut store, &user).unwrap_err();
        assert_eq!(error.downcast_ref::<Trap>(), Some(&Trap::UnreachableCodeReached));
    }
    linker.allow_shadowing(true).define_export("l", "f", &Module::new(engine, COUNTER)?, "next")?;
    let error = linker.instantiate(&mut store, &user).unwrap_err();
    assert!(format!("{error:#}").contains("incompatible import type for `l::f`"), "{error:#}");
    Ok(())
}

#[test]
fn unknown_imports_may_trap_late() -> Result<()> {
    let engine = &engines()[0];
    let mut store = Store::new(engine, ());
    let module = Module::new(
        engine,
        r#"(module (import "a" "b" (func $f (param i32) (result i32)))
            (func (export "run") (result i32) (call $f (i32.const 1)))
            (func (export "other") (result i32) (i32.const 1)))"#,
    )?;
    let mut linker = Linker::new(engine);
    assert!(linker.instantiate(&mut store, &module).is_err());
    linker.define_unknown_imports_as_traps(&module)?;
    let instance = linker.instantiate(&mut store, &module)?;
    assert_eq!(instance.get_typed_func::<(), i32>(&mut store, "other")?.call(&mut store, ())?, 1);
    let error = instance.get_typed_func::<(), i32>(&mut store, "run")?.call(&mut store, ()).unwrap_err();
    assert!(format!("{error:#}").contains("unknown import: `a::b`"), "{error:#}");
    assert!(linker.func_wrap("a", "b", || {}).is_err());
    linker.allow_shadowing(true).func_wrap("a", "b", |value: i32| value)?;
    Ok(())
}

#[test]
fn start_functions_and_failing_segments() -> Result<()> {
    for engine in engines() {
        let (mut store, started) = instance(
            &engine,
            (),
            r#"(module
                (global $g (export "g") (mut i32) (i32.const 1))
                (func $start (global.set $g (i32.const 9)))
                (start $start))"#,
        )?;
        assert_eq!(started.get_global(&mut store, "g").unwrap().get(&mut store).i32(), Some(9));

        let trap = |text: &str| *instance(&engine, (), text).unwrap_err().downcast_ref::<Trap>().unwrap();
        assert_eq!(trap("(module (func $f (unreachable)) (start $f))"), Trap::UnreachableCodeReached);
        assert_eq!(trap(r#"(module (memory 1) (data (i32.const 65535) "ab"))"#), Trap::MemoryOutOfBounds);
        assert_eq!(trap("(module (table 1 funcref) (func $f) (elem (i32.const 1) $f))"), Trap::TableOutOfBounds);

        // What was written before the failure stays, functions included.
        let memory = legato::Memory::new(&mut store, legato::MemoryType::new(1, None))?;
        let table = started.module(&store).exports().len();
        assert_eq!(table, 1);
        let module = Module::new(
            &engine,
            r#"(module (import "" "" (memory 1)) (data (i32.const 0) "kept") (data (i32.const 70000) "lost"))"#,
        )?;
        assert!(Instance::new(&mut store, &module, &[Extern::Memory(memory)]).is_err());
        assert_eq!(&memory.data(&store)[..4], b"kept");
    }
    Ok(())
}

#[test]
fn constant_expressions() -> Result<()> {
    for heap in crate::heaps() {
        let engine = engine(&heap, "stress=1");
        let (mut store, instance) = instance(
            &engine,
            (),
            r#"(module
                (type $point (struct (field i32) (field (mut f64)) (field i8)))
                (type $points (array (mut (ref null $point))))
                (type $bytes (array i8))
                (global $two i64 (i64.mul (i64.const 2) (i64.sub (i64.const 3) (i64.const 2))))
                (global $p (export "p") (ref $point) (struct.new $point (i32.const 5) (f64.const 1.5) (i32.const 300)))
                (global $all (ref $points) (array.new_fixed $points 3
                    (global.get $p) (struct.new_default $point) (global.get $p)))
                (global $many (ref $points) (array.new $points (global.get $p) (i32.const 10)))
                (global $bytes (ref $bytes) (array.new $bytes (i32.const 258) (i32.const 5)))
                (global $number (ref i31) (ref.i31 (i32.const -7)))
                (global $outer externref (extern.convert_any (global.get $number)))
                (table $t 3 (ref null $point) (struct.new $point (i32.const 8) (f64.const 0) (i32.const 0)))
                (func (export "two") (result i64) (global.get $two))
                (func (export "x") (result i32) (i32.add
                    (i32.add
                        (struct.get $point 0 (array.get $points (global.get $all) (i32.const 2)))
                        (struct.get $point 0 (array.get $points (global.get $many) (i32.const 9))))
                    (i32.add
                        (struct.get_u $point 2 (array.get $points (global.get $all) (i32.const 0)))
                        (i32.add
                            (array.get_u $bytes (global.get $bytes) (i32.const 4))
                            (struct.get $point 0 (table.get $t (i32.const 2)))))))
                (func (export "number") (result i32)
                    (i31.get_s (ref.cast (ref i31) (any.convert_extern (global.get $outer))))))"#,
        )?;
        store.gc();
        assert_eq!(instance.get_typed_func::<(), i64>(&mut store, "two")?.call(&mut store, ())?, 2);
        assert_eq!(instance.get_typed_func::<(), i32>(&mut store, "x")?.call(&mut store, ())?, 5 + 5 + 44 + 2 + 8);
        assert_eq!(instance.get_typed_func::<(), i32>(&mut store, "number")?.call(&mut store, ())?, -7);
        let p = instance.get_global(&mut store, "p").unwrap().get(&mut store).unwrap_any_ref().unwrap();
        assert_eq!(p.unwrap_struct(&store)?.field(&mut store, 1)?.f64(), Some(1.5));
    }
    Ok(())
}

#[test]
fn limits_hold() -> Result<()> {
    let engine = &engines()[0];
    let limits: StoreLimits =
        StoreLimitsBuilder::new().memory_size(2 << 16).table_elements(5).instances(3).memories(2).tables(1).build();
    let mut store = Store::new(engine, limits);
    store.limiter(|limits| limits);
    let linker = Linker::new(engine);
    let module = Module::new(
        engine,
        r#"(module (memory 1) (table 3 funcref)
            (func (export "memory") (param i32) (result i32) (memory.grow (local.get 0)))
            (func (export "table") (param i32) (result i32) (table.grow (ref.null func) (local.get 0))))"#,
    )?;
    let instance = linker.instantiate(&mut store, &module)?;
    let memory = instance.get_typed_func::<i32, i32>(&mut store, "memory")?;
    assert_eq!(memory.call(&mut store, 1)?, 1);
    assert_eq!(memory.call(&mut store, 1)?, -1);
    let table = instance.get_typed_func::<i32, i32>(&mut store, "table")?;
    assert_eq!(table.call(&mut store, 2)?, 3);
    assert_eq!(table.call(&mut store, 1)?, -1);
    // The table is refused after the memory was made: what there is of the instance stays harmless.
    let error = linker.instantiate(&mut store, &module).unwrap_err();
    assert!(format!("{error:#}").contains("resource limit exceeded"), "{error:#}");
    store.gc();
    assert_eq!(memory.call(&mut store, 1)?, -1);
    *store.data_mut() = StoreLimitsBuilder::new().memory_size(2 << 16).trap_on_grow_failure(true).instances(3).build();
    let error = memory.call(&mut store, 1).unwrap_err();
    assert!(format!("{error:#}").contains("may not grow"), "{error:#}");
    let empty = Module::new(engine, "(module)")?;
    linker.instantiate(&mut store, &empty)?;
    linker.instantiate(&mut store, &empty)?;
    assert!(linker.instantiate(&mut store, &empty).is_err());
    Ok(())
}

#[test]
fn things_of_another_store_are_refused() -> Result<()> {
    let engine = &engines()[0];
    let (mut a, one) = instance(engine, (), r#"(module (func (export "f")))"#)?;
    let mut b = Store::new(engine, ());
    let f = one.get_func(&mut a, "f").unwrap();
    let module = Module::new(engine, r#"(module (import "" "" (func)))"#)?;
    assert!(Instance::new(&mut b, &module, &[Extern::Func(f)]).is_err());
    assert!(Linker::new(engine).define(&b, "x", "f", f).is_err());
    let other = legato::Engine::default();
    assert!(Instance::new(&mut Store::new(&other, ()), &module, &[]).is_err());
    Ok(())
}

#[test]
fn types_of_another_engine_are_refused() -> Result<()> {
    let (engine, other) = (legato::Engine::default(), legato::Engine::default());
    let mut store = Store::new(&engine, ());
    let foreign_func = FuncType::new(&other, [ValType::I32], []);
    let foreign = RefType::new(true, HeapType::ConcreteFunc(foreign_func.clone()));
    let content = ValType::Ref(foreign.clone());
    let field = || FieldType::new(Mutability::Const, content.clone().into());
    let results = [
        Global::new(&mut store, GlobalType::new(content.clone(), Mutability::Var), Val::FuncRef(None)).map(drop),
        Table::new(&mut store, TableType::new(foreign.clone(), 1, None), Ref::Func(None)).map(drop),
        Tag::new(&mut store, &TagType::new(foreign_func.clone())).map(drop),
        Linker::new(&engine)
            .func_new("h", "f", foreign_func.clone(), |_: legato::Caller<'_, ()>, _, _| Ok(()))
            .map(drop),
        StructType::new(&engine, [field()]).map(drop),
        ArrayType::with_finality_and_supertype(&engine, Finality::Final, None, field()).map(drop),
        FuncType::with_finality_and_supertype(&engine, Finality::Final, None, [content.clone()], []).map(drop),
        FuncType::with_finality_and_supertype(&engine, Finality::Final, None, [], [content.clone()]).map(drop),
        Val::FuncRef(None).matches_ty(&store, &content).map(drop),
        Ref::Func(None).matches_ty(&store, &foreign).map(drop),
    ];
    for (index, result) in results.into_iter().enumerate() {
        let error = result.expect_err(&index.to_string());
        assert!(error.to_string().contains("belongs to another engine"), "{index}: {error}");
    }
    let own = HeapType::ConcreteFunc(FuncType::new(&engine, [ValType::I32], []));
    assert!(!foreign.heap_type().matches(&own) && own.matches(&HeapType::Func));
    Ok(())
}

/// A type that a module does not extend is compared with first. Another module may extend it: its objects, and its
/// functions, are of the type all the same.
#[test]
fn casts_know_subtypes_of_other_modules() -> Result<()> {
    let base = r#"(type $base (sub (struct (field i32))))
        (type $elements (sub (array (mut i32))))
        (type $of (sub (func (result eqref))))"#;
    let asks = format!(
        r#"(module {base}
            (func (export "is") (param eqref) (result i32) (ref.test (ref $base) (local.get 0)))
            (func (export "get") (param eqref) (result i32)
                (struct.get $base 0 (ref.cast (ref $base) (local.get 0))))
            (func (export "branch") (param eqref) (result i32)
                (block $is (result (ref $base))
                    (br_on_cast $is eqref (ref $base) (local.get 0))
                    (return (i32.const -1)))
                (struct.get $base 0))
            (func (export "length") (param eqref) (result i32)
                (array.len (ref.cast (ref $elements) (local.get 0))))
            (func (export "call") (param funcref) (result eqref)
                (call_ref $of (ref.cast (ref $of) (local.get 0)))))"#
    );
    let makes = format!(
        r#"(module {base}
            (type $derived (sub $base (struct (field i32) (field i64))))
            (type $further (sub final $derived (struct (field i32) (field i64) (field i64))))
            (type $other (sub (struct (field i64))))
            (type $more (sub final $elements (array (mut i32))))
            (type $narrow (sub final $of (func (result (ref i31)))))
            (func (export "derived") (result eqref) (struct.new $derived (i32.const 5) (i64.const 6)))
            (func (export "further") (result eqref) (struct.new $further (i32.const 7) (i64.const 8) (i64.const 9)))
            (func (export "base") (result eqref) (struct.new $base (i32.const 4)))
            (func (export "other") (result eqref) (struct.new $other (i64.const 1)))
            (func (export "more") (result eqref) (array.new $more (i32.const 1) (i32.const 12)))
            (func $narrow (export "narrow") (type $narrow) (ref.i31 (i32.const 3)))
            (func (export "function") (result funcref) (ref.func $narrow)))"#
    );
    for engine in engines() {
        let mut store = Store::new(&engine, ());
        let [asks, makes] = [&asks, &makes].map(|text| Module::new(&engine, text));
        let asks = Instance::new(&mut store, &asks?, &[])?;
        let makes = Instance::new(&mut store, &makes?, &[])?;
        let mut call = |instance: Instance, name: &str, args: &[Val]| -> Result<Val> {
            let mut results = [Val::I32(0)];
            instance.get_func(&mut store, name).unwrap().call(&mut store, args, &mut results)?;
            Ok(results[0])
        };
        for (name, number) in [("base", Some(4)), ("derived", Some(5)), ("further", Some(7)), ("other", None)] {
            let object = call(makes, name, &[])?;
            assert_eq!(call(asks, "is", &[object])?.unwrap_i32(), i32::from(number.is_some()), "{name}");
            assert_eq!(call(asks, "branch", &[object])?.unwrap_i32(), number.unwrap_or(-1), "{name}");
            match number {
                Some(number) => assert_eq!(call(asks, "get", &[object])?.unwrap_i32(), number, "{name}"),
                None => {
                    let error = call(asks, "get", &[object]).unwrap_err();
                    assert_eq!(error.downcast_ref::<Trap>(), Some(&Trap::CastFailure));
                }
            }
        }
        let more = call(makes, "more", &[])?;
        assert_eq!(call(asks, "length", &[more])?.unwrap_i32(), 12);
        let function = call(makes, "function", &[])?;
        let found = call(asks, "call", &[function])?;
        assert!(matches!(found, Val::AnyRef(Some(_))), "{found:?}");
    }
    Ok(())
}

/// A module that cannot be instantiated is told which of its segments does not fit where.
#[test]
fn segments_out_of_bounds_are_named() {
    let modules = [
        (
            r#"(module (memory 1) (data (i32.const 0) "a") (data (i32.const 65535) "bcd"))"#,
            "data segment 1: 3 bytes from 65535 on",
            Trap::MemoryOutOfBounds,
        ),
        (
            "(module (table 1 funcref) (func $f) (elem (i32.const 1) func $f $f))",
            "element segment 0: 2 elements from 1 on",
            Trap::TableOutOfBounds,
        ),
    ];
    for engine in engines() {
        for (text, message, trap) in modules {
            let module = Module::new(&engine, text).unwrap();
            let error = Instance::new(&mut Store::new(&engine, ()), &module, &[]).unwrap_err();
            assert_eq!(error.downcast_ref(), Some(&trap));
            assert!(format!("{error:#}").contains(message), "{error:#}");
        }
    }
}
