//! Calls by reference in code that has been compiled since they have led somewhere: they may lead elsewhere now.

use legato::{Compilation, Config, Engine, Func, Instance, Linker, Module, Result, Store, Trap, TypedFunc, Val};

use crate::heaps;

/// Methods of objects: `call` calls the method of each of four objects often, `caught` does so where exceptions are
/// caught. Some methods are small, throw, collect garbage, or call a method themselves; one is of the host.
const OBJECTS: &str = r#"(module
    (rec
        (type $method (func (param (ref $object)) (param i32) (result i32)))
        (type $object (sub (struct (field (mut (ref null $method))) (field (mut i32)) (field (mut (ref null $object)))))))
    (type $objects (array (mut (ref null $object))))
    (import "h" "gc" (func $gc))
    (import "h" "method" (func $of_host (type $method)))
    (tag $thrown (param i32))
    (table $methods (export "methods") 8 (ref null $method))
    (elem (table $methods) (i32.const 0) (ref null $method)
        (ref.func $value) (ref.func $negative) (ref.func $sum) (ref.func $throws) (ref.func $collects)
        (ref.func $delegates) (ref.func $of_host))
    (global $all (mut (ref null $objects)) (ref.null $objects))

    (func $value (type $method) (i32.add (struct.get $object 1 (local.get 0)) (local.get 1)))
    (func $negative (type $method) (i32.sub (i32.const 0) (struct.get $object 1 (local.get 0))))
    (func $sum (type $method)
        (i32.add (struct.get $object 1 (local.get 0)) (struct.get $object 1 (struct.get $object 2 (local.get 0)))))
    (func $throws (type $method) (throw $thrown (i32.mul (i32.const 2) (struct.get $object 1 (local.get 0)))))
    (func $collects (type $method)
        (call $gc)
        (i32.xor (local.get 1) (struct.get $object 1 (struct.get $object 2 (local.get 0)))))
    (func $delegates (type $method)
        (call_ref $method (ref.as_non_null (struct.get $object 2 (local.get 0))) (i32.const 5)
            (struct.get $object 0 (struct.get $object 2 (local.get 0)))))

    (func (export "make")
        (global.set $all (array.new_fixed $objects 4
            (struct.new $object (ref.null $method) (i32.const 10) (call $other (i32.const 1)))
            (struct.new $object (ref.null $method) (i32.const 200) (call $other (i32.const 2)))
            (struct.new $object (ref.null $method) (i32.const 3000) (call $other (i32.const 3)))
            (struct.new $object (ref.null $method) (i32.const 40000) (call $other (i32.const 4))))))
    (func $other (param i32) (result (ref $object))
        (struct.new $object (table.get $methods (i32.const 0)) (local.get 0) (ref.null $object)))
    (func (export "set") (param $object i32) (param $method i32)
        (struct.set $object 0 (array.get $objects (global.get $all) (local.get $object))
            (table.get $methods (local.get $method))))
    (func (export "clear") (param $object i32)
        (struct.set $object 0 (array.get $objects (global.get $all) (local.get $object)) (ref.null $method)))

    (func (export "call") (result i32)
        (local $i i32) (local $sum i32) (local $object (ref null $object))
        (loop $next
            (local.set $object (array.get $objects (global.get $all) (i32.and (local.get $i) (i32.const 3))))
            (local.set $sum (i32.add (i32.mul (local.get $sum) (i32.const 3))
                (call_ref $method (ref.as_non_null (local.get $object)) (local.get $i)
                    (struct.get $object 0 (local.get $object)))))
            (local.set $sum (i32.add (local.get $sum) (struct.get $object 1 (local.get $object))))
            (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 40))))
        (local.get $sum))
    (func (export "caught") (result i32)
        (local $i i32) (local $sum i32) (local $object (ref null $object))
        (loop $next
            (local.set $object (array.get $objects (global.get $all) (i32.and (local.get $i) (i32.const 3))))
            (block $after
                (local.set $sum (i32.add (i32.mul (local.get $sum) (i32.const 3)) (block $caught (result i32)
                    (local.set $sum (i32.sub (local.get $sum) (try_table (result i32) (catch $thrown $caught)
                        (call_ref $method (ref.as_non_null (local.get $object)) (local.get $i)
                            (struct.get $object 0 (local.get $object))))))
                    (br $after)))))
            (local.set $sum (i32.add (local.get $sum) (struct.get $object 1 (local.get $object))))
            (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 40))))
        (local.get $sum)))"#;

/// The methods that the four objects have, by their places in the table, one row after another.
const ROWS: [[i32; 4]; 9] = [
    [0, 0, 0, 0],
    [0, 1, 0, 1],
    [2, 2, 2, 0],
    [4, 1, 4, 0],
    [5, 5, 5, 5],
    [0, 1, 2, 4],
    [6, 0, 6, 1],
    [1, 1, 1, 1],
    [5, 2, 4, 6],
];

fn instance(compilation: Compilation, heap: legato::HeapConfig) -> Result<(Store<()>, Instance)> {
    let mut config = Config::new();
    config.compilation(compilation).compiler_verifier(true).heap(heap);
    let engine = Engine::new(&config)?;
    let mut store = Store::new(&engine, ());
    let mut linker = Linker::new(&engine);
    linker.func_wrap("h", "gc", |mut caller: legato::Caller<'_, ()>| caller.gc())?;
    let module = Module::new(&engine, OBJECTS)?;
    let ty = module.imports().find_map(|import| match import.ty() {
        legato::ExternType::Func(ty) if import.name() == "method" => Some(ty),
        _ => None,
    });
    let method = Func::new(&mut store, ty.expect("it is imported"), |_, params, results| {
        results[0] = Val::I32(params[1].unwrap_i32() * 7);
        Ok(())
    });
    linker.define(&store, "h", "method", method)?;
    let instance = linker.instantiate(&mut store, &module)?;
    instance.get_typed_func::<(), ()>(&mut store, "make")?.call(&mut store, ())?;
    Ok((store, instance))
}

/// What the rows give, with each row called twice, in this order of rows.
fn results(store: &mut Store<()>, instance: Instance, rows: impl Iterator<Item = usize>) -> Result<Vec<i32>> {
    let set: TypedFunc<(i32, i32), ()> = instance.get_typed_func(&mut *store, "set")?;
    let call: TypedFunc<(), i32> = instance.get_typed_func(&mut *store, "call")?;
    let caught: TypedFunc<(), i32> = instance.get_typed_func(&mut *store, "caught")?;
    let mut results = Vec::new();
    for row in rows {
        for (object, method) in (0..).zip(ROWS[row]) {
            set.call(&mut *store, (object, method))?;
        }
        for _ in 0..2 {
            results.extend([call.call(&mut *store, ())?, caught.call(&mut *store, ())?]);
        }
        // One object throws, which nobody catches in one of the two.
        set.call(&mut *store, (2, 3))?;
        assert!(call.call(&mut *store, ()).is_err());
        results.push(caught.call(&mut *store, ())?);
    }
    Ok(results)
}

#[test]
fn calls_lead_elsewhere_than_before() -> Result<()> {
    let (mut store, eager) = instance(Compilation::Eager, heaps()[0].heap())?;
    let expected: Vec<Vec<i32>> =
        (0..ROWS.len()).map(|row| results(&mut store, eager, std::iter::once(row))).collect::<Result<_>>()?;
    for heap in heaps() {
        // Whatever comes first is what compiled code expects.
        for first in 0..ROWS.len() {
            let (mut store, lazy) = instance(Compilation::Lazy, heap.with("verify=on").heap())?;
            let rows = || (first..ROWS.len()).chain(0..first);
            let wanted: Vec<i32> = rows().flat_map(|row| expected[row].iter().copied()).collect();
            assert_eq!(results(&mut store, lazy, rows())?, wanted, "row {first} first, {heap:?}");
        }
    }
    Ok(())
}

#[test]
fn null_is_no_function_that_was_expected() -> Result<()> {
    let (mut store, lazy) = instance(Compilation::Lazy, heaps()[0].heap())?;
    let before = results(&mut store, lazy, std::iter::once(0))?;
    lazy.get_typed_func::<i32, ()>(&mut store, "clear")?.call(&mut store, 1)?;
    for name in ["call", "caught"] {
        let null = lazy.get_typed_func::<(), i32>(&mut store, name)?.call(&mut store, ()).unwrap_err();
        assert_eq!(null.downcast_ref(), Some(&Trap::NullReference), "{name}");
    }
    assert_eq!(results(&mut store, lazy, std::iter::once(0))?, before);
    Ok(())
}

/// What is noted of another module's function is its number there: here that is no function to which there is a
/// reference, or one of another type, or none.
#[test]
fn functions_of_other_modules_have_numbers_of_their_own() -> Result<()> {
    let mut config = Config::new();
    // Another thread would not tell of a panic.
    config.compilation(Compilation::Lazy).compiler_verifier(true).parallel_compilation(false);
    let engine = Engine::new(&config)?;
    let callers = r#"(module
        (type $of (func (param i32) (result i32)))
        (func $referred (type $of) (i32.add (local.get 0) (i32.const 1)))
        (func $not_referred (type $of) (i32.add (local.get 0) (i32.const 100)))
        (func $other (param f64))
        (func (export "apply") (param $f (ref $of)) (result i32) (local $i i32) (local $sum i32)
            (loop $next
                (local.set $sum (call_ref $of (local.get $sum) (local.get $f)))
                (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 60))))
            (local.get $sum))
        (elem declare func $referred)
        (export "own" (func $referred)))"#;
    let callees = r#"(module
        (type $of (func (param i32) (result i32)))
        (func (export "0") (type $of) (i32.add (local.get 0) (i32.const 2)))
        (func (export "1") (type $of) (i32.add (local.get 0) (i32.const 3)))
        (func (export "2") (type $of) (i32.add (local.get 0) (i32.const 4)))
        (func (export "3") (type $of) (i32.add (local.get 0) (i32.const 5)))
        (func)
        (func (export "5") (type $of) (i32.add (local.get 0) (i32.const 6))))"#;
    for name in ["0", "1", "2", "3", "5"] {
        let mut store = Store::new(&engine, ());
        let callers = Instance::new(&mut store, &Module::new(&engine, callers)?, &[])?;
        let callees = Instance::new(&mut store, &Module::new(&engine, callees)?, &[])?;
        let apply = callers.get_func(&mut store, "apply").expect("exported");
        let own = callers.get_func(&mut store, "own").expect("exported");
        let other = callees.get_func(&mut store, name).expect("exported");
        let step = if name == "5" { 6 } else { 2 + name.parse::<i32>()? };
        for (function, step) in [(other, step), (own, 1), (other, step)] {
            let mut results = [Val::I32(0)];
            apply.call(&mut store, &[Val::FuncRef(Some(function))], &mut results)?;
            assert_eq!(results[0].unwrap_i32(), 60 * step, "{name}");
        }
    }
    Ok(())
}
