//! Stores whose heap has no address space yet: modules without objects, and what comes after them in the same store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use legato::{
    AnyRef, AsContextMut, Caller, Engine, ExternRef, Func, GcEvent, GcObserver, I31, Instance, InterruptHandle, Linker,
    MachineNotes, Module, Ref, Result, Store, ThrownException, Trap,
};

use super::{engine, heaps};

/// Needs no heap: tables of functions, a memory, calls of the host. Its code has references in locals alone.
const PLAIN: &str = r#"(module
    (type $number (func (result i32)))
    (import "h" "work" (func $work (param i32) (result i32)))
    (memory (export "memory") 1)
    (table (export "table") 3 funcref)
    (elem (i32.const 0) $seven)
    (func $seven (result i32) (i32.const 7))

    ;; The host works in each round; what it has put into the table is called, and what was there before.
    (func (export "rounds") (param $left i32) (result i32)
        (local $sum i32) (local $small i31ref) (local $any anyref) (local $external externref)
        (local.set $small (ref.i31 (i32.const 1)))
        (local.set $any (local.get $small))
        (loop $again
            ;; Each of these is 0.
            (local.set $sum (i32.add (local.get $sum) (ref.eq (local.get $small) (ref.null eq))))
            (local.set $sum (i32.add (local.get $sum) (ref.test (ref struct) (local.get $any))))
            (local.set $external (extern.convert_any (local.get $any)))
            (local.set $sum (i32.add (local.get $sum)
                (ref.test (ref array) (any.convert_extern (local.get $external)))))
            (local.set $sum (i32.add (local.get $sum) (i32.eqz (ref.eq
                (ref.cast (ref eq) (any.convert_extern (local.get $external))) (local.get $small)))))
            (local.set $any (select (result anyref) (ref.null any) (local.get $small) (ref.is_null (local.get $any))))
            (i32.store (i32.const 8) (i32.add (i32.load (i32.const 8)) (call $work (local.get $left))))
            (local.set $sum (i32.add (local.get $sum) (call_indirect (type $number) (i32.const 0))))
            (local.set $sum (i32.add (local.get $sum) (call_indirect (type $number) (i32.const 1))))
            (local.set $sum (i32.add (local.get $sum) (i31.get_u (local.get $small))))
            (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
        (i32.add (local.get $sum) (i32.load (i32.const 8))))

    ;; Null is found out by an access, before the host has worked and behind it.
    (func (export "null") (param $first i32)
        (local $null anyref)
        (if (local.get $first) (then (drop (ref.cast (ref struct) (local.get $null)))))
        (drop (call $work (i32.const 1)))
        (drop (ref.cast (ref array) (local.get $null))))

    ;; Whatever the host throws comes here, is kept over more of its work, and thrown on.
    (func (export "catch") (result i32)
        (local $caught exnref)
        (block $handler (result exnref)
            (try_table (catch_all_ref $handler) (return (call $work (i32.const -1))))
            unreachable)
        (local.set $caught)
        (drop (call $work (i32.const 2)))
        (throw_ref (local.get $caught))))
"#;

/// Makes objects, keeps them, and throws them.
const OBJECTS: &str = r#"(module
    (type $node (struct (field i32) (field (ref null $node))))
    (global $list (mut (ref null $node)) (ref.null $node))
    (tag $thrown (export "tag") (param i32 (ref $node)))
    (func $push (export "push") (result i32)
        (global.set $list (struct.new $node
            (i32.add (i32.const 1) (if (result i32) (ref.is_null (global.get $list))
                (then (i32.const 0)) (else (struct.get $node 0 (global.get $list)))))
            (global.get $list)))
        (struct.get $node 0 (global.get $list)))
    (func (export "throw") (result i32)
        (throw $thrown (i32.const 77) (struct.new $node (i32.const 78) (global.get $list))))
    (func (export "null") (result i32) (struct.get $node 0 (ref.null $node))))
"#;

/// The instances of the first module and, once the host has been asked for work, of the second.
#[derive(Default)]
struct Instances {
    plain: Option<Instance>,
    objects: Option<Instance>,
}

/// Instantiates the second module at the first call, puts its function into the first one's table, and makes objects.
/// Throws one where the argument is negative.
fn work(mut caller: Caller<'_, Instances>, objects: &Module, argument: i32) -> Result<i32> {
    let instance = match caller.data().objects {
        Some(instance) => instance,
        None => {
            let instance = Instance::new(&mut caller, objects, &[])?;
            caller.data_mut().objects = Some(instance);
            let push = instance.get_func(&mut caller, "push");
            let plain = caller.data().plain.expect("it calls");
            let table = plain.get_table(&mut caller, "table").expect("exported");
            table.set(&mut caller, 1, Ref::Func(push))?;
            instance
        }
    };
    if argument < 0 {
        return instance.get_typed_func::<(), i32>(&mut caller, "throw")?.call(&mut caller, ());
    }
    for _ in 0..100 {
        ExternRef::new(&mut caller, argument)?;
    }
    caller.as_context_mut().gc();
    Ok(argument)
}

/// Every kind of heap, verified, and under stress.
fn engines() -> Vec<Engine> {
    let heaps = heaps();
    let stressed = heaps.iter().map(|heap| engine(heap, "stress=3,stress-polls=on"));
    heaps.iter().map(|heap| engine(heap, "")).chain(stressed).collect()
}

/// A store with an instance of the first module, which has not run yet.
fn plain(engine: &Engine) -> Result<(Store<Instances>, Instance)> {
    let objects = Module::new(engine, OBJECTS)?;
    let mut linker = Linker::new(engine);
    linker
        .func_wrap("h", "work", move |caller: Caller<'_, Instances>, argument: i32| work(caller, &objects, argument))?;
    let mut store = Store::new(engine, Instances::default());
    let instance = linker.instantiate(&mut store, &Module::new(engine, PLAIN)?)?;
    store.data_mut().plain = Some(instance);
    Ok((store, instance))
}

#[test]
fn objects_come_while_code_without_any_is_active() -> Result<()> {
    for engine in engines() {
        let (mut store, instance) = plain(&engine)?;
        store.gc();
        let rounds = instance.get_typed_func::<i32, i32>(&mut store, "rounds")?;
        // The work sums up to 55, and the new function counts its calls.
        assert_eq!(rounds.call(&mut store, 10)?, 10 * 7 + 55 + 10 + 55);
        store.verify_heap()?;
        assert!(store.heap_stats().collections > 0);
        assert_eq!(rounds.call(&mut store, 1)?, 7 + 11 + 1 + 55 + 1);
    }
    Ok(())
}

#[test]
fn null_traps_in_code_that_was_active_before_there_were_objects() -> Result<()> {
    for engine in engines() {
        let (mut store, instance) = plain(&engine)?;
        let null = instance.get_typed_func::<i32, ()>(&mut store, "null")?;
        for first in [1, 0, 0, 1] {
            let error = null.call(&mut store, first).unwrap_err();
            assert_eq!(error.downcast_ref(), Some(&Trap::CastFailure), "{error:?}");
            assert_eq!(store.data().objects.is_some(), store.heap_stats().collections > 0);
        }
        let objects = store.data().objects.expect("made by the first's work");
        let error = objects.get_typed_func::<(), i32>(&mut store, "null")?.call(&mut store, ()).unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&Trap::NullReference), "{error:?}");
    }
    Ok(())
}

#[test]
fn exceptions_pass_code_that_was_active_before_there_were_objects() -> Result<()> {
    for engine in engines() {
        let (mut store, instance) = plain(&engine)?;
        let catch = instance.get_typed_func::<(), i32>(&mut store, "catch")?;
        for _ in 0..2 {
            let error = catch.call(&mut store, ()).unwrap_err();
            assert!(error.is::<ThrownException>(), "{error:?}");
            let thrown = store.take_pending_exception().expect("thrown");
            let tag = store.data().objects.and_then(|objects| objects.get_tag(&mut store, "tag"));
            assert!(legato::Tag::eq(&thrown.tag(&mut store)?, &tag.expect("exported"), &store));
            assert_eq!(thrown.field(&mut store, 0)?.i32(), Some(77));
            store.gc();
        }
    }
    Ok(())
}

#[test]
fn the_host_makes_the_first_object() -> Result<()> {
    for engine in engines() {
        let mut store = Store::new(&engine, ());
        let doubled = Func::wrap(&mut store, |number: i32| number * 2);
        assert_eq!(doubled.typed::<i32, i32>(&store)?.call(&mut store, 4)?, 8);
        let small = AnyRef::from_i31(&mut store, I31::wrapping_u32(5));
        assert!(small.is_i31(&store)?);
        let object = ExternRef::new(&mut store, String::from("first"))?;
        let kept = object.to_owned_rooted(&mut store)?;
        store.gc();
        store.verify_heap()?;
        let object = kept.to_rooted(&mut store);
        assert_eq!(object.data(&store)?.and_then(|data| data.downcast_ref::<String>()).unwrap(), "first");
        assert_eq!(small.unwrap_i31(&store)?.get_u32(), 5);
    }
    Ok(())
}

/// Counts what it is told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<(usize, usize)>>);

impl GcObserver for Told {
    fn machine(&mut self, _: &MachineNotes) {
        self.0.lock().unwrap().0 += 1;
    }

    fn event(&mut self, _: &GcEvent) {
        self.0.lock().unwrap().1 += 1;
    }
}

#[test]
fn a_store_without_objects_answers_as_one_with_an_empty_heap() -> Result<()> {
    for engine in engines() {
        let mut store = Store::new(&engine, ());
        let told = Told::default();
        store.set_gc_observer(Box::new(told.clone()));
        store.gc();
        assert!(store.collect_some(Duration::from_millis(1)));
        assert_eq!(store.trim(), 0);
        store.verify_heap()?;
        let stats = store.heap_stats();
        assert_eq!((stats.collections, stats.committed_bytes, stats.used_bytes, stats.live_bytes), (0, 0, 0, 0));
        assert!(0 < stats.limit_bytes && stats.limit_bytes <= stats.maximum_bytes);
        assert_eq!(*told.0.lock().unwrap(), (0, 0));
        // Small integers are no objects, but have weak references that belong to the heap.
        let small = AnyRef::from_i31(&mut store, I31::wrapping_u32(5));
        let weak = small.to_weak_rooted(&mut store)?;
        store.gc();
        assert!(weak.to_rooted(&mut store)?.is_some());
        assert_eq!(store.heap_stats().weak_references, 1);
        let told = *told.0.lock().unwrap();
        assert!(told.0 == 1 && told.1 > 0, "{told:?}");
    }
    Ok(())
}

#[test]
fn interruption_outlives_the_opening() -> Result<()> {
    let engine = Engine::default();
    let mut linker = Linker::<Option<InterruptHandle>>::new(&engine);
    linker.func_wrap("h", "open", |mut caller: Caller<'_, Option<InterruptHandle>>| {
        if let Some(handle) = caller.data_mut().take() {
            handle.interrupt();
        }
        ExternRef::new(&mut caller, 1).map(|_| ())
    })?;
    let text = r#"(module (import "h" "open" (func $open))
        (func (export "spin") (local $left i32)
            (local.set $left (i32.const 100_000_000))
            (call $open)
            (loop $again (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))))"#;
    let module = Module::new(&engine, text)?;
    let mut store = Store::new(&engine, None);
    // At first one that came just before the heap was opened; then another, and one for code that came later.
    let first = linker.instantiate(&mut store, &module)?;
    for instance in [Some(first), Some(first), None] {
        *store.data_mut() = Some(store.interrupt_handle());
        let instance = instance.map_or_else(|| linker.instantiate(&mut store, &module), Ok)?;
        let spin = instance.get_typed_func::<(), ()>(&mut store, "spin")?;
        let error = spin.call(&mut store, ()).expect_err("interrupted");
        assert_eq!(error.downcast_ref(), Some(&Trap::Interrupt));
    }
    Ok(())
}
