//! Whose exception is pending, and for how long.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use legato::{AsContextMut, Caller, Engine, ExnRef, Instance, Linker, Module, Result, Rooted, Store, ThrownException};

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
