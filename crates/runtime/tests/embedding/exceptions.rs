//! Whose exception is pending, and for how long.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use legato::{
    AnyRef, AsContextMut, Caller, Compilation, Engine, ExnRef, HeapType, Instance, Linker, Module, Result, Rooted,
    Store, ThrownException, Trap,
};

use crate::engine;

/// `throw` throws an exception with a number and an object; `run_*` call host functions within a handler of all
/// exceptions, which returns -1 where there is one of another tag.
const MODULE: &str = r#"(module
    (type $box (struct (field i32)))
    (import "h" "swallow" (func $swallow))
    (import "h" "claim" (func $claim))
    (import "h" "keep" (func $keep (param i32)))
    (import "h" "again" (func $again (param i32)))
    (tag $tag (export "tag") (param i32 (ref $box)))
    (func $throw (export "throw") (param i32)
        (throw $tag (local.get 0) (struct.new $box (local.get 0))))
    (func (export "fine") (param i32))
    (func $swallowed_then_claimed (export "swallowed_then_claimed") (param i32) (call $swallow) (call $claim))
    (func $catch (param $which i32) (param $value i32) (result i32) (local $box (ref null $box))
        (block $caught (result i32 (ref $box))
            (try_table (catch $tag $caught)
                (if (i32.eqz (local.get $which))
                    (then (call $keep (local.get $value)))
                    (else (call $again (local.get $value)))))
            (return (i32.const -1)))
        (local.set $box)
        (i32.sub (i32.mul (i32.const 2) (struct.get $box 0 (local.get $box)))))
    (func (export "kept") (param i32) (result i32) (call $catch (i32.const 0) (local.get 0)))
    (func (export "thrown_again") (param i32) (result i32) (call $catch (i32.const 1) (local.get 0))))"#;

fn call(caller: &mut Caller<'_, ()>, name: &str, value: i32) -> Result<()> {
    let func = caller.instance().unwrap().get_typed_func::<i32, ()>(&mut *caller, name)?;
    func.call(caller, value)
}

fn linked(engine: &Engine) -> Result<(Store<()>, Instance)> {
    let mut linker = Linker::new(engine);
    linker.func_wrap("h", "swallow", |mut caller: Caller<'_, ()>| {
        assert!(call(&mut caller, "throw", 1).unwrap_err().is::<ThrownException>());
    })?;
    linker.func_wrap("h", "claim", |_: Caller<'_, ()>| -> Result<()> { Err(ThrownException.into()) })?;
    // What it throws is pending while other host functions run, swallow and claim, and while the collector moves
    // objects.
    linker.func_wrap("h", "keep", |mut caller: Caller<'_, ()>, value: i32| -> Result<()> {
        let error = call(&mut caller, "throw", value).unwrap_err();
        let claimed = call(&mut caller, "swallowed_then_claimed", 2).unwrap_err();
        assert!(claimed.is::<ThrownException>());
        caller.gc();
        Err(error)
    })?;
    linker.func_wrap("h", "again", |mut caller: Caller<'_, ()>, value: i32| -> Result<()> {
        call(&mut caller, "throw", value).unwrap_err();
        caller.gc();
        let exception = caller.as_context_mut().take_pending_exception().unwrap();
        call(&mut caller, "swallowed_then_claimed", 2).unwrap_err();
        assert!(caller.as_context_mut().take_pending_exception().is_none());
        Ok(caller.as_context_mut().throw(exception)?)
    })?;
    let mut store = Store::new(engine, ());
    let instance = linker.instantiate(&mut store, &Module::new(engine, MODULE)?)?;
    Ok((store, instance))
}

/// Every heap, at ease and under stress.
fn stores() -> Result<Vec<(Store<()>, Instance)>> {
    let heaps = crate::heaps();
    let engines = heaps.iter().flat_map(|heap| [engine(heap, ""), engine(heap, "stress=1")]);
    engines.map(|engine| linked(&engine)).collect()
}

fn payload(store: &mut Store<()>, exception: Rooted<ExnRef>) -> Result<Option<i32>> {
    Ok(exception.field(store, 0)?.i32())
}

#[test]
fn a_swallowed_exception_is_not_thrown_by_another_host_function() -> Result<()> {
    for (mut store, instance) in stores()? {
        let run = instance.get_typed_func::<i32, ()>(&mut store, "swallowed_then_claimed")?;
        let error = run.call(&mut store, 0).unwrap_err();
        assert!(error.is::<ThrownException>(), "the host function's own error: {error:?}");
        assert!(!store.has_pending_exception());
    }
    Ok(())
}

#[test]
fn what_is_pending_outlasts_the_host_functions_called_meanwhile() -> Result<()> {
    for (mut store, instance) in stores()? {
        for name in ["kept", "thrown_again"] {
            let run = instance.get_typed_func::<i32, i32>(&mut store, name)?;
            assert_eq!(run.call(&mut store, 77)?, 77 - 2 * 77, "{name}");
        }
        assert!(!store.has_pending_exception());
        store.verify_heap()?;
    }
    Ok(())
}

#[test]
fn an_uncaught_exception_tells_where_it_was_thrown() -> Result<()> {
    let text = r#"(module $m (tag $t) (func $thrower (throw $t)) (func $caught (export "run") (call $thrower)))"#;
    for (backtrace, expected) in [(true, vec![Some("thrower"), Some("caught")]), (false, vec![])] {
        let engine = Engine::new(legato::Config::new().optimize(false).wasm_backtrace(backtrace))?;
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &Module::new(&engine, text)?, &[])?;
        let error = instance.get_typed_func::<(), ()>(&mut store, "run")?.call(&mut store, ()).unwrap_err();
        assert!(error.is::<ThrownException>(), "{error:?}");
        let found = error.downcast_ref::<legato::WasmBacktrace>();
        let names: Vec<_> = found.iter().flat_map(|found| found.frames()).map(legato::FrameInfo::func_name).collect();
        assert_eq!(names, expected);
    }
    Ok(())
}

#[test]
fn an_exception_that_is_thrown_again_tells_where_it_was_thrown_first() -> Result<()> {
    let text = r#"(module $m
        (type $box (struct (field i32)))
        (import "h" "collect" (func $collect))
        (tag $tag (param (ref $box)))
        (tag $other (param (ref $box)))
        (func $deep (throw $tag (struct.new $box (i32.const 7))))
        (func $thrower (call $deep))
        (func $caught (result (ref $box))
            (block $caught (result (ref $box)) (try_table (catch $tag $caught) (call $thrower)) (unreachable)))
        (func $again (export "again")
            (block $caught (result (ref $box)) (try_table (catch $tag $caught) (call $thrower)) (return))
            (throw $tag))
        (func $finally (export "finally")
            (block $caught (result exnref) (try_table (catch_all_ref $caught) (call $again)) (return))
            (throw_ref))
        (func $outer (export "outer") (call $finally))
        (func $anew (export "anew")
            (block $caught (result (ref $box)) (try_table (catch $tag $caught) (call $thrower)) (return))
            (drop) (throw $tag (struct.new $box (i32.const 7))))
        (func $as_other (export "as_other")
            (block $caught (result (ref $box)) (try_table (catch $tag $caught) (call $thrower)) (return))
            (throw $other))
        (tag $plain)
        (func $deep_plain (throw $plain))
        (func $catches_plain (block $caught (try_table (catch $plain $caught) (call $deep_plain))))
        (func $throws_plain (throw $plain))
        (func $siblings (export "siblings") (call $catches_plain) (call $throws_plain))
        (global $kept (mut (ref null $box)) (ref.null $box))
        (func $keeps (global.set $kept (call $caught)))
        (func $throws_kept (throw $tag (ref.as_non_null (global.get $kept))))
        (func $cousins (export "cousins") (call $keeps) (call $throws_kept))
        (func $finally_plain (export "finally_plain")
            (block $caught (result exnref) (try_table (catch_all_ref $caught) (call $deep_plain)) (return))
            (throw_ref))
        (func $elsewhere (export "elsewhere") (throw $tag (call $caught)))
        (func $late (export "late")
            (block $caught (result (ref $box)) (try_table (catch $tag $caught) (call $thrower)) (return))
            (call $collect) (throw $tag)))"#;
    // Optimised code may throw to a handler of the same function without anybody's help.
    for compilation in [Compilation::Eager, Compilation::Lazy] {
        let engine = Engine::new(legato::Config::new().optimize(false).compilation(compilation))?;
        let mut linker = Linker::new(&engine);
        linker.func_wrap("h", "collect", |mut caller: Caller<'_, ()>| caller.as_context_mut().gc())?;
        let mut store = Store::new(&engine, ());
        let instance = linker.instantiate(&mut store, &Module::new(&engine, text)?)?;
        let cases: [(&str, &[&str]); 10] = [
            ("again", &["deep", "thrower", "again"]),
            ("finally", &["deep", "thrower", "again", "finally"]),
            ("outer", &["deep", "thrower", "again", "finally", "outer"]),
            ("finally_plain", &["deep_plain", "finally_plain"]),
            // These throw something else, or from elsewhere.
            ("siblings", &["throws_plain", "siblings"]),
            ("cousins", &["throws_kept", "cousins"]),
            ("anew", &["anew"]),
            ("as_other", &["as_other"]),
            ("elsewhere", &["elsewhere"]),
            // References that the collector may have changed say nothing any more.
            ("late", &["late"]),
        ];
        for (name, expected) in cases.into_iter().cycle().take(20) {
            let error = instance.get_typed_func::<(), ()>(&mut store, name)?.call(&mut store, ()).unwrap_err();
            assert!(error.is::<ThrownException>(), "{error:?}");
            let found = error.downcast_ref::<legato::WasmBacktrace>().expect("a backtrace");
            let names: Vec<_> = found.frames().iter().filter_map(legato::FrameInfo::func_name).collect();
            assert_eq!(names, expected, "{name}, {compilation:?}");
        }
    }
    Ok(())
}

#[test]
fn a_new_call_of_the_embedder_forgets_the_exception_of_the_last() -> Result<()> {
    for (mut store, instance) in stores()? {
        let throw = instance.get_typed_func::<i32, ()>(&mut store, "throw")?;
        let fine = instance.get_typed_func::<i32, ()>(&mut store, "fine")?;
        assert!(throw.call(&mut store, 1).unwrap_err().is::<ThrownException>());
        assert!(store.has_pending_exception());
        fine.call(&mut store, 0)?;
        assert!(!store.has_pending_exception());
        for value in [3, 4] {
            throw.call(&mut store, value).unwrap_err();
        }
        store.gc();
        let exception = store.take_pending_exception().unwrap();
        assert_eq!(payload(&mut store, exception)?, Some(4));
        assert!(store.take_pending_exception().is_none());
    }
    Ok(())
}

#[test]
fn an_error_whose_destructor_panics_ends_the_call_with_that_panic() -> Result<()> {
    #[derive(Debug)]
    struct Bomb;
    impl fmt::Display for Bomb {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bomb")
        }
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any("dropped");
        }
    }
    let engine = engine(&crate::heaps()[0], "");
    let mut linker = Linker::new(&engine);
    linker.func_wrap("h", "throw", |mut caller: Caller<'_, ()>| -> Result<()> {
        let func = caller.instance().unwrap().get_typed_func::<(), ()>(&mut caller, "throw")?;
        Err(func.call(&mut caller, ()).unwrap_err().context(Bomb))
    })?;
    let text = r#"(module (import "h" "throw" (func $host)) (tag $tag)
        (func (export "throw") (throw $tag))
        (func (export "run") (call $host)))"#;
    let mut store = Store::new(&engine, ());
    let instance = linker.instantiate(&mut store, &Module::new(&engine, text)?)?;
    let run = instance.get_typed_func::<(), ()>(&mut store, "run")?;
    let panic = catch_unwind(AssertUnwindSafe(|| run.call(&mut store, ()))).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"dropped"));
    let throw = instance.get_typed_func::<(), ()>(&mut store, "throw")?;
    assert!(throw.call(&mut store, ()).unwrap_err().is::<ThrownException>());
    Ok(())
}

/// Handlers below and above frames without any, with an object of the handler's function that lives over the throw.
const HANDLERS: &str = r#"(module
    (import "h" "call" (func $host (param i32)))
    (type $box (struct (field i32)))
    (tag $number (param i32))
    (tag $object (param (ref $box) i64))
    (func $throw (param i32)
        (if (i32.eqz (local.get 0)) (then (throw $number (i32.const 41))))
        (if (i32.eq (local.get 0) (i32.const 1))
            (then (throw $object (struct.new $box (i32.const 17)) (i64.const 3))))
        (if (i32.gt_s (local.get 0) (i32.const 2)) (then (call $host (local.get 0)))))
    (func $deep (export "deep") (param i32 i32)
        (if (local.get 1)
            (then (call $deep (local.get 0) (i32.sub (local.get 1) (i32.const 1))))
            (else (call $throw (local.get 0)))))
    (func (export "catch") (param i32) (result i32) (local $kept (ref $box))
        (local.set $kept (struct.new $box (i32.const 1000)))
        (block $object (result (ref $box) i64)
            (block $number (result i32)
                (try_table (catch $number $number) (catch $object $object)
                    (call $deep (local.get 0) (i32.const 20)))
                (return (struct.get $box 0 (local.get $kept))))
            (return (i32.add (struct.get $box 0 (local.get $kept)))))
        (i32.wrap_i64)
        (local.set 0)
        (struct.get $box 0)
        (i32.add (local.get 0))
        (i32.add (struct.get $box 0 (local.get $kept))))
    (func $rethrow (param i32)
        (block $all (result exnref)
            (try_table (catch_all_ref $all) (call $deep (local.get 0) (i32.const 3)))
            (return))
        (drop (struct.new $box (i32.const 5)))
        (throw_ref))
    (func (export "rethrow") (param i32) (result i32)
        (block $number (result i32)
            (try_table (catch $number $number) (call $rethrow (local.get 0)))
            (return (i32.const -1)))))"#;

#[test]
fn exceptions_unwind_to_the_handler_of_their_tag() -> Result<()> {
    // What throws is a deep frame, or inlined where it is caught, and calls the host from there.
    let (deep, inlined) = ("(call $deep (local.get 0) (i32.const 20))", "(call $throw (local.get 0))");
    assert!(HANDLERS.contains(deep));
    let texts = [HANDLERS.to_string(), HANDLERS.replace(deep, inlined)];
    let heaps = crate::heaps();
    for engine in heaps.iter().flat_map(|heap| [engine(heap, ""), engine(heap, "stress=1")]) {
        let mut linker = Linker::new(&engine);
        linker.func_wrap("h", "call", |mut caller: Caller<'_, ()>, what: i32| -> Result<()> {
            match what {
                3 => anyhow::bail!("the host's"),
                4 => Err(Trap::Interrupt.into()),
                // An activation in between that has no handler.
                _ => {
                    let deep = caller.instance().unwrap().get_typed_func::<(i32, i32), ()>(&mut caller, "deep")?;
                    deep.call(&mut caller, (what - 10, 3))
                }
            }
        })?;
        for text in &texts {
            let mut store = Store::new(&engine, ());
            let instance = linker.instantiate(&mut store, &Module::new(&engine, text)?)?;
            let catch = instance.get_typed_func::<i32, i32>(&mut store, "catch")?;
            let rethrow = instance.get_typed_func::<i32, i32>(&mut store, "rethrow")?;
            for _ in 0..2 {
                for within in [0, 10] {
                    assert_eq!(catch.call(&mut store, within)?, 1041);
                    assert_eq!(catch.call(&mut store, within + 1)?, 1020);
                    assert_eq!(rethrow.call(&mut store, within)?, 41);
                    assert!(rethrow.call(&mut store, within + 1).unwrap_err().is::<ThrownException>(), "another tag's");
                }
                assert_eq!(catch.call(&mut store, 2)?, 1000);
                assert_eq!(rethrow.call(&mut store, 2)?, -1);
                // Neither are exceptions.
                for run in [&catch, &rethrow] {
                    assert_eq!(run.call(&mut store, 3).unwrap_err().root_cause().to_string(), "the host's");
                    let trap = run.call(&mut store, 4).unwrap_err();
                    assert_eq!(trap.downcast_ref(), Some(&Trap::Interrupt));
                }
            }
            store.verify_heap()?;
        }
    }
    Ok(())
}

#[test]
fn tags_and_types_have_the_names_of_the_name_section() -> Result<()> {
    let engine = Engine::default();
    let module = Module::new(
        &engine,
        r#"(module
            (type $point (struct (field i32)))
            (type $one (struct (field i64)))
            (type $two (struct (field i64)))
            (type (struct (field f32)))
            (tag $first) (tag $second (export "second")) (tag (export "third"))
            (func (export "make") (param i32) (result anyref)
                (if (i32.eq (local.get 0) (i32.const 0)) (then (return (struct.new_default $point))))
                (if (i32.eq (local.get 0) (i32.const 1)) (then (return (struct.new_default $two))))
                (struct.new_default 3)))"#,
    )?;
    let mut store = Store::new(&engine, ());
    let instance = Instance::new(&mut store, &module, &[])?;
    let tags = ["second", "third"].map(|name| instance.get_tag(&mut store, name).unwrap());
    assert_eq!(tags.map(|tag| tag.name(&store)), [Some("second"), None]);
    // Known by the module that exports it, though another imports it without a name, or with another.
    let importer = Module::new(&engine, r#"(module (import "" "" (tag $other)) (import "" "" (tag)))"#)?;
    Instance::new(&mut store, &importer, &[tags[1].into(), tags[0].into()])?;
    assert_eq!(tags.map(|tag| tag.name(&store)), [Some("second"), Some("other")]);

    let make = instance.get_typed_func::<i32, Option<Rooted<AnyRef>>>(&mut store, "make")?;
    let mut name = |which| -> Result<_> {
        let ty = make.call(&mut store, which)?.expect("an object").ty(&store)?;
        assert!(
            Module::new(&Engine::default(), "(module (type $point (struct (field i32))))")?.type_name(&ty).is_none()
        );
        Ok(module.type_name(&ty))
    };
    // Two names for one type are none.
    assert_eq!([name(0)?, name(1)?, name(2)?], [Some("point"), None, None]);
    assert_eq!(module.type_name(&HeapType::Any), None);
    Ok(())
}

/// Exceptions of a single reference are made as they are thrown: what they carry is kept and moved by the collection
/// that making them may bring, also in a handler of the same function, and where it is null or no object.
#[test]
fn exceptions_that_are_made_by_their_throw() -> Result<()> {
    let text = r#"(module
        (type $box (struct (field i32)))
        (tag $tag (param anyref)) (tag $other (param anyref))
        (func $box (param i32) (result anyref) (struct.new $box (local.get 0)))
        (func $throw (param i32)
            (if (i32.eqz (local.get 0)) (then (throw $tag (ref.null any))))
            (if (i32.eq (local.get 0) (i32.const 1)) (then (throw $tag (ref.i31 (i32.const 500)))))
            (throw $tag (call $box (local.get 0))))
        (func (export "run") (param $n i32) (result i32) (local $sum i32) (local $caught anyref) (local $kept anyref)
            (loop $more
                (local.set $kept (call $box (local.get $n)))
                (local.set $caught (block $there (result anyref)
                    (try_table (catch $tag $there) (call $throw (local.get $n)))
                    (unreachable)))
                (if (ref.test (ref $box) (local.get $caught)) (then
                    (local.set $sum (i32.add (local.get $sum)
                        (struct.get $box 0 (ref.cast (ref $box) (local.get $caught)))))))
                (local.set $caught (block $here (result anyref)
                    (try_table (catch $other $here) (throw $other (call $box (i32.const 7))))
                    (unreachable)))
                (local.set $sum (i32.sub (i32.add (local.get $sum)
                    (struct.get $box 0 (ref.cast (ref $box) (local.get $caught))))
                    (struct.get $box 0 (ref.cast (ref $box) (local.get $kept)))))
                (br_if $more (i32.ge_s (local.tee $n (i32.sub (local.get $n) (i32.const 1))) (i32.const 0))))
            (local.get $sum)))"#;
    let heaps = crate::heaps();
    for engine in heaps.iter().flat_map(|heap| [engine(heap, ""), engine(heap, "stress=1")]) {
        let (mut store, instance) = crate::instance(&engine, (), text)?;
        // Each of 41 rounds gives 7; where no object is thrown, what it would have carried is missing: 1 and 0.
        assert_eq!(instance.get_typed_func::<i32, i32>(&mut store, "run")?.call(&mut store, 40)?, 41 * 7 - 1);
    }
    Ok(())
}

/// A function that is inlined makes and throws an exception of its own: `run` does not catch it, `caught` does, once in
/// each of many rounds.
const ACCESSOR: &str = r#"(module
    (type $numbers (array (mut i32)))
    (type $error (struct (field $at i32) (field $length i32) (field $twice i32)))
    (tag $failed (export "failed") (param (ref $error)))
    (global $numbers (ref $numbers) (array.new $numbers (i32.const 7) (i32.const 10)))
    (func $twice (param i32) (result i32)
        (loop $up (br_if $up (i32.lt_s (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 5))))
        (i32.mul (local.get 0) (i32.const 2)))
    (func $get (param $numbers (ref $numbers)) (param $at i32) (result i32)
        (if (i32.ge_u (local.get $at) (array.len (local.get $numbers))) (then
            (throw $failed (struct.new $error
                (local.get $at) (array.len (local.get $numbers)) (call $twice (local.get $at))))))
        (array.get $numbers (local.get $numbers) (local.get $at)))
    (func $run (export "run") (param $at i32) (result i32)
        (i32.add (call $get (global.get $numbers) (local.get $at)) (i32.const 1)))
    (func (export "caught") (param $rounds i32) (result i32)
        (local $sum i32) (local $error (ref null $error))
        (loop $next
            (block $done
                (local.set $error (block $failed (result (ref $error))
                    (local.set $sum (i32.add (local.get $sum) (try_table (result i32) (catch $failed $failed)
                        (call $get (global.get $numbers) (i32.rem_u (local.get $rounds) (i32.const 11))))))
                    (br $done)))
                (local.set $sum (i32.add (local.get $sum) (i32.sub
                    (struct.get $error $twice (local.get $error)) (struct.get $error $length (local.get $error))))))
            (br_if $next (local.tee $rounds (i32.sub (local.get $rounds) (i32.const 1)))))
        (local.get $sum)))"#;

#[test]
fn an_inlined_function_throws_what_it_throws_otherwise() -> Result<()> {
    for compilation in [Compilation::Eager, Compilation::Lazy] {
        let engine = Engine::new(legato::Config::new().compilation(compilation))?;
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &Module::new(&engine, ACCESSOR)?, &[])?;
        let run = instance.get_typed_func::<i32, i32>(&mut store, "run")?;
        for round in 0..3000 {
            assert_eq!(run.call(&mut store, round % 10)?, 8);
        }
        let error = run.call(&mut store, 12).unwrap_err();
        let found = error.downcast_ref::<legato::WasmBacktrace>();
        let names: Vec<_> = found.iter().flat_map(|found| found.frames()).map(legato::FrameInfo::func_name).collect();
        assert_eq!(names, [Some("get"), Some("run")], "{compilation:?}");
        let exception = store.take_pending_exception().unwrap();
        let payload = exception.field(&mut store, 0)?;
        let error = payload.unwrap_any_ref().unwrap().as_struct(&store)?.unwrap();
        let fields: Vec<_> = error.fields(&mut store)?.iter().map(|field| field.unwrap_i32()).collect();
        assert_eq!(fields, [12, 10, 26]);
        let caught = instance.get_typed_func::<i32, i32>(&mut store, "caught")?;
        // In each eleven rounds ten elements, and one exception at 10: 22 less the length.
        assert_eq!(caught.call(&mut store, 11_000)?, 1000 * (70 + 22 - 10), "{compilation:?}");
        store.verify_heap()?;
    }
    Ok(())
}
