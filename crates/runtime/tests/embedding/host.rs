//! Host functions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use legato::{
    AsContextMut, Caller, Compilation, Config, Engine, Extern, ExternRef, Func, FuncType, Instance, Linker, Module,
    Result, Rooted, Store, Trap, V128, Val, ValType, WasmBacktrace,
};

use crate::engines;

#[test]
fn closures_of_many_shapes() -> Result<()> {
    for engine in engines() {
        let mut store = Store::new(&engine, vec![0i64]);
        let mut linker = Linker::new(&engine);
        linker.func_wrap("h", "none", || {})?;
        linker.func_wrap("h", "log", |mut caller: Caller<'_, Vec<i64>>, value: i64| caller.data_mut().push(value))?;
        linker.func_wrap("h", "mix", |a: i32, b: f64, c: f32, d: u64, e: V128| (e, d, c, b, a))?;
        linker.func_wrap(
            "h",
            "many",
            |a: i32, b: i64, c: i32, d: i64, e: i32, f: i64, g: i32, h: i64, i: i32, j: i64| {
                a as i64 + b + c as i64 + d + e as i64 + f + g as i64 + h + i as i64 + j
            },
        )?;
        linker.func_wrap("h", "object", |value: Option<Rooted<ExternRef>>| value)?;
        let ty = FuncType::new(&engine, [ValType::I32, ValType::I32], [ValType::I32, ValType::I32]);
        linker.func_new("h", "swap", ty, |_, params, results| {
            results.copy_from_slice(&[params[1], params[0]]);
            Ok(())
        })?;
        let module = Module::new(
            &engine,
            r#"(module
                (import "h" "none" (func $none))
                (import "h" "log" (func $log (param i64)))
                (import "h" "mix" (func $mix (param i32 f64 f32 i64 v128) (result v128 i64 f32 f64 i32)))
                (import "h" "many" (func $many (param i32 i64 i32 i64 i32 i64 i32 i64 i32 i64) (result i64)))
                (import "h" "object" (func $object (param externref) (result externref)))
                (import "h" "swap" (func $swap (param i32 i32) (result i32 i32)))
                (func (export "run") (param externref) (result i64) (local v128 i64 f32 f64 i32)
                    (call $none)
                    (call $mix (i32.const 7) (f64.const 0.5) (f32.const 0.25) (i64.const -1) (local.get 1))
                    (local.set 5) (local.set 4) (local.set 3) (local.set 2) (local.set 1)
                    (call $log (i64.extend_i32_s (local.get 5)))
                    (call $log (local.get 2))
                    (call $log (i64.trunc_f64_s (f64.mul (f64.const 16) (f64.add (local.get 4) (f64.promote_f32 (local.get 3))))))
                    (call $log (i64.extend_i32_u (i32.eqz (ref.is_null (call $object (local.get 0))))))
                    (call $swap (i32.const 3) (i32.const 5)) (i32.sub) (local.set 5)
                    (call $log (i64.extend_i32_s (local.get 5)))
                    (call $many (i32.const 1) (i64.const 2) (i32.const 3) (i64.const 4) (i32.const 5)
                        (i64.const 6) (i32.const 7) (i64.const 8) (i32.const 9) (i64.const 10))))"#,
        )?;
        let instance = linker.instantiate(&mut store, &module)?;
        let run = instance.get_typed_func::<Option<Rooted<ExternRef>>, i64>(&mut store, "run")?;
        let value = ExternRef::new(&mut store, ())?;
        assert_eq!(run.call(&mut store, Some(value))?, 55);
        assert_eq!(*store.data(), [0, 7, -1, 12, 1, 2]);
        assert_eq!(store.into_data().len(), 6);
    }
    Ok(())
}

#[test]
fn the_caller_is_the_importing_instance() -> Result<()> {
    for engine in engines() {
        let mut store = Store::new(&engine, Vec::<u8>::new());
        let mut linker = Linker::new(&engine);
        linker.func_wrap("h", "read", |mut caller: Caller<'_, Vec<u8>>, at: u32| -> Result<u32> {
            let Some(Extern::Memory(memory)) = caller.get_export("memory") else { anyhow::bail!("no memory") };
            let (bytes, seen) = memory.data_and_store_mut(&mut caller);
            seen.push(bytes[at as usize]);
            Ok(bytes[at as usize].into())
        })?;
        let text = |byte: &str| {
            format!(
                r#"(module
                    (import "h" "read" (func $read (param i32) (result i32)))
                    (memory (export "memory") 1)
                    (data (i32.const 3) "{byte}")
                    (table (export "table") 1 funcref) (elem (i32.const 0) $read)
                    (func (export "run") (result i32) (call $read (i32.const 3)))
                    (func (export "indirect") (result i32)
                        (call_indirect (param i32) (result i32) (i32.const 3) (i32.const 0))))"#
            )
        };
        for byte in ["a", "b"] {
            let instance = linker.instantiate(&mut store, &Module::new(&engine, text(byte))?)?;
            for name in ["run", "indirect"] {
                let run = instance.get_typed_func::<(), i32>(&mut store, name)?;
                assert_eq!(run.call(&mut store, ())?, byte.as_bytes()[0] as i32);
            }
        }
        assert_eq!(store.data(), b"aabb");
        let read = linker.get(&mut store, "h", "read").unwrap().into_func().unwrap();
        let error = read.call(&mut store, &[Val::I32(0)], &mut [Val::I32(0)]).unwrap_err();
        assert_eq!(error.to_string(), "no memory", "the host has no exports");
    }
    Ok(())
}

const NESTED: &str = r#"(module $nested
    (import "h" "back" (func $back (param i32) (result i32)))
    (func $inner (export "inner") (param i32) (result i32)
        (if (result i32) (local.get 0)
            (then (call $back (local.get 0)))
            (else (unreachable))))
    (func $outer (export "outer") (param i32) (result i32) (call $inner (local.get 0)))
    (func (export "tail") (param i32) (result i32) (return_call $back (local.get 0))))"#;

#[test]
fn calls_nest_and_errors_travel_through() -> Result<()> {
    for engine in engines() {
        let mut store = Store::new(&engine, ());
        let mut linker = Linker::new(&engine);
        linker.func_wrap("h", "back", |mut caller: Caller<'_, ()>, depth: i32| -> Result<i32> {
            let outer = caller.get_export("outer").unwrap().into_func().unwrap();
            match depth {
                1000 => anyhow::bail!("far enough"),
                2000 => return Ok(99),
                _ => {}
            }
            caller.gc();
            let outer = outer.typed::<i32, i32>(&caller)?;
            let frames = WasmBacktrace::capture(&caller);
            let result = outer.call(&mut caller, depth - 1);
            assert_eq!(WasmBacktrace::capture(&caller), frames, "as before the inner call");
            result
        })?;
        let instance = linker.instantiate(&mut store, &Module::new(&engine, NESTED)?)?;
        let outer = instance.get_typed_func::<i32, i32>(&mut store, "outer")?;
        let error = outer.call(&mut store, 3).unwrap_err();
        assert_eq!(error.downcast_ref::<Trap>(), Some(&Trap::UnreachableCodeReached));
        let backtrace = error.downcast_ref::<WasmBacktrace>().unwrap();
        let names: Vec<_> = backtrace.frames().iter().map(|frame| frame.func_name().unwrap_or("?")).collect();
        assert_eq!(names, ["inner", "outer"].repeat(4));
        assert_eq!(backtrace.frames()[0].module_name(), Some("nested"));
        assert!(backtrace.frames()[0].module_offset().is_some());
        assert!(format!("{error:?}").contains("nested!inner"), "{error:?}");

        let error = outer.call(&mut store, 1000).unwrap_err();
        assert!(format!("{error:#}").contains("far enough"), "{error:#}");
        assert_eq!(error.downcast_ref::<WasmBacktrace>().unwrap().frames().len(), 2);
        assert_eq!(outer.call(&mut store, 2000)?, 99);

        // The caller's frame is gone.
        let tail = instance.get_typed_func::<i32, i32>(&mut store, "tail")?;
        let error = tail.call(&mut store, 1000).unwrap_err();
        assert!(format!("{error:#}").contains("far enough"), "{error:#}");
        assert_eq!(error.downcast_ref::<WasmBacktrace>(), None);
        assert_eq!(tail.call(&mut store, 2000)?, 99);
        let error = tail.call(&mut store, 1).unwrap_err();
        assert_eq!(error.downcast_ref::<WasmBacktrace>().unwrap().frames().len(), 2);
    }
    Ok(())
}

/// Inlined functions have frames with the offsets that they would have by themselves, and so have the calls.
#[test]
fn a_backtrace_is_the_same_whatever_was_inlined() -> Result<()> {
    let text = r#"(module $m
        (import "h" "fail" (func $fail))
        (tag $e)
        (func $divide (param i32) (result i32) (i32.div_s (i32.const 1) (local.get 0)))
        (func $twice (param i32) (result i32) (i32.add (call $divide (i32.const 1)) (call $divide (local.get 0))))
        (func $caught (param i32) (result i32)
            (block $h (try_table (catch $e $h) (return (call $twice (local.get 0))))) (i32.const 0))
        (func $fails (call $fail))
        (func $fails_too (if (i32.eqz (global.get 0)) (then (call $fails))))
        (global i32 (i32.const 0))
        ;; What traps is far behind what is branched on.
        (func $checked (param i32) (result i32)
            (if (if (result i32) (i32.lt_s (local.get 0) (i32.const 0))
                    (then (i32.const 1))
                    (else (i32.ge_s (local.get 0) (i32.const 8))))
                (then (nop) (unreachable)))
            (i32.mul (local.get 0) (i32.const 3)))
        (func (export "checks") (local $i i32) (local $sum i32)
            (loop $each
                (local.set $sum (i32.add (local.get $sum) (call $checked (local.get $i))))
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br $each)))
        (func (export "divides") (drop (call $twice (i32.const 2))) (drop (call $twice (i32.const 0))))
        (func (export "tries") (drop (call $caught (i32.const 0))))
        (func (export "fails") (call $fails_too)))"#;
    let frames = |error: anyhow::Error| -> Vec<_> {
        let backtrace = error.downcast_ref::<WasmBacktrace>().unwrap();
        let frames = backtrace.frames().iter();
        frames.map(|frame| (frame.func_name().map(String::from), frame.module_offset().unwrap())).collect()
    };
    let mut expected = None;
    let [eager, lazy] = [Compilation::Eager, Compilation::Lazy];
    for (optimize, compilation) in [(false, eager), (true, eager), (false, lazy), (true, lazy)] {
        let engine = Engine::new(Config::new().optimize(optimize).compilation(compilation))?;
        let mut linker = Linker::new(&engine);
        linker.func_wrap("h", "fail", || -> Result<()> { anyhow::bail!("the host's") })?;
        let mut store = Store::new(&engine, ());
        let instance = linker.instantiate(&mut store, &Module::new(&engine, text)?)?;
        // Lazy code is replaced in the meantime.
        for _ in 0..200 {
            let mut found = Vec::new();
            for name in ["divides", "tries", "fails", "checks"] {
                let run = instance.get_typed_func::<(), ()>(&mut store, name)?;
                found.push(frames(run.call(&mut store, ()).unwrap_err()));
            }
            assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [3, 4, 3, 2]);
            assert_eq!(expected.get_or_insert_with(|| found.clone()), &found, "{optimize}, {compilation:?}");
        }
    }
    Ok(())
}

#[test]
fn every_type_passes_both_ways_in_registers_and_on_the_stack() -> Result<()> {
    const COUNT: usize = 20;
    let cycle = || [ValType::I32, ValType::F64, ValType::I64, ValType::V128, ValType::F32].into_iter().cycle();
    let types: Vec<ValType> = cycle().take(COUNT).collect();
    let names = |types: &[ValType]| types.iter().map(ValType::to_string).collect::<Vec<_>>().join(" ");
    let reversed: Vec<ValType> = types.iter().rev().cloned().collect();
    let arguments: String = (0..COUNT).map(|index| format!("(local.get {index})")).collect();
    let ty = format!("(type $reverse (func (param {}) (result {})))", names(&types), names(&reversed));
    let text = format!(
        r#"(module {ty}
            (import "h" "reverse" (func $reverse (type $reverse)))
            (func (export "call") (type $reverse) (call $reverse {arguments}))
            (func (export "tail") (type $reverse) (return_call $reverse {arguments})))"#
    );
    for optimize in [false, true] {
        let engine = Engine::new(Config::new().optimize(optimize).compiler_verifier(true))?;
        let mut store = Store::new(&engine, ());
        let ty = FuncType::new(&engine, types.clone(), reversed.clone());
        let reverse = Func::new(&mut store, ty, |_, params, results| {
            anyhow::ensure!(params[0].i32() != Some(99), "refused");
            results.iter_mut().zip(params.iter().rev()).for_each(|(result, param)| *result = *param);
            Ok(())
        });
        let instance = Instance::new(&mut store, &Module::new(&engine, &text)?, &[reverse.into()])?;
        let value = |index: usize| {
            let bits = u128::from_le_bytes([index as u8 + 1; 16]);
            match types[index] {
                ValType::I32 => Val::I32(bits as i32),
                ValType::I64 => Val::I64(bits as i64),
                ValType::F32 => Val::F32(bits as u32),
                ValType::F64 => Val::F64(bits as u64),
                _ => Val::V128(bits.into()),
            }
        };
        let mut params: Vec<Val> = (0..COUNT).map(value).collect();
        let bits = |value: &Val| format!("{value:?}");
        for name in ["call", "tail"] {
            let func = instance.get_func(&mut store, name).unwrap();
            let mut results = vec![Val::I32(0); COUNT];
            params[0] = Val::I32(1);
            func.call(&mut store, &params, &mut results)?;
            assert!(results.iter().map(bits).eq(params.iter().rev().map(bits)), "{name}: {results:?}");
            params[0] = Val::I32(99);
            let error = func.call(&mut store, &params, &mut results).unwrap_err();
            assert_eq!(error.root_cause().to_string(), "refused");
        }
    }
    Ok(())
}

#[test]
fn panics_reach_the_host_and_the_store_lives_on() -> Result<()> {
    for engine in engines() {
        let mut store = Store::new(&engine, ());
        let mut linker = Linker::new(&engine);
        linker.func_wrap("h", "back", |value: i32| -> i32 {
            if value == 5 {
                std::panic::panic_any("five");
            }
            value
        })?;
        let instance = linker.instantiate(&mut store, &Module::new(&engine, NESTED)?)?;
        let outer = instance.get_typed_func::<i32, i32>(&mut store, "outer")?;
        let panic = catch_unwind(AssertUnwindSafe(|| outer.call(&mut store, 5))).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"five"));
        assert_eq!(outer.call(&mut store, 6)?, 6);
    }
    Ok(())
}

#[test]
fn host_functions_are_values() -> Result<()> {
    for engine in engines() {
        let mut store = Store::new(&engine, ());
        let module = Module::new(
            &engine,
            r#"(module
                (type $f (func (param i64) (result i64)))
                (func (export "apply") (param (ref null $f) i64) (result i64) (call_ref $f (local.get 1) (local.get 0)))
                (func (export "tail") (param (ref null $f) i64) (result i64)
                    (return_call_ref $f (local.get 1) (local.get 0)))
                (func $inc (export "inc") (type $f) (i64.add (local.get 0) (i64.const 1)))
                (elem declare func $inc)
                (func (export "get") (result funcref) (ref.func $inc)))"#,
        )?;
        let instance = Instance::new(&mut store, &module, &[])?;
        let apply = instance.get_typed_func::<(Option<Func>, i64), i64>(&mut store, "apply")?;
        let tail = instance.get_typed_func::<(Option<Func>, i64), i64>(&mut store, "tail")?;
        let state = Arc::new(3i64);
        let host = Func::wrap(&mut store, move |value: i64| value * *state);
        assert_eq!(apply.call(&mut store, (Some(host), 5))?, 15);
        assert_eq!(tail.call(&mut store, (Some(host), 6))?, 18);
        let inc = instance.get_func(&mut store, "inc").unwrap();
        assert_eq!(apply.call(&mut store, (Some(inc), 5))?, 6);
        let get = instance.get_typed_func::<(), Option<Func>>(&mut store, "get")?;
        assert_eq!(get.call(&mut store, ())?, Some(inc));
        let null = apply.call(&mut store, (None, 1)).unwrap_err();
        assert_eq!(null.downcast_ref::<Trap>(), Some(&Trap::NullReference));
        let wrong = Func::wrap(&mut store, || {});
        assert!(apply.call(&mut store, (Some(wrong), 5)).is_err());
        let direct = host.typed::<i64, i64>(&store)?;
        assert_eq!(direct.call(&mut store.as_context_mut(), 7)?, 21);
        assert!(
            Func::wrap(&mut store, || -> Result<()> { anyhow::bail!("no") }).call(&mut store, &[], &mut []).is_err()
        );
    }
    Ok(())
}
