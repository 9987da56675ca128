//! Bulk instructions on large ranges: they are done in pieces, and an interruption ends them between two.

use std::time::Duration;

use legato::{Engine, Instance, InterruptHandle, Linker, Module, Ref, Result, Store, Trap};

use legato_test_matrix::product;

use crate::engine;

/// The store's data: what the host function `now` interrupts.
type Armed = Option<InterruptHandle>;

/// Bytes of a piece of a memory or table, and of an array.
const PIECE: usize = 1 << 20;
const ARRAY_PIECE: usize = 16 << 20;

fn linked(engine: &Engine, text: &str) -> Result<(Store<Armed>, Instance)> {
    let mut linker = Linker::new(engine);
    linker.func_wrap("h", "now", |caller: legato::Caller<'_, Armed>| {
        if let Some(handle) = caller.data() {
            handle.interrupt();
        }
    })?;
    let mut store = Store::new(engine, None);
    let instance = linker.instantiate(&mut store, &Module::new(engine, text)?)?;
    Ok((store, instance))
}

/// Calls a function that calls `now` and executes a bulk instruction, with an interruption that comes just before the
/// latter.
fn interrupted(store: &mut Store<Armed>, instance: Instance, name: &str, params: [i32; 3]) -> Result<()> {
    *store.data_mut() = Some(store.interrupt_handle());
    let func = instance.get_typed_func::<(i32, i32, i32), ()>(&mut *store, name)?;
    let error = func.call(&mut *store, params.into()).unwrap_err();
    assert_eq!(error.downcast_ref::<Trap>(), Some(&Trap::Interrupt), "{name}: {error:?}");
    *store.data_mut() = None;
    Ok(())
}

/// The same without an interruption. The one before has been answered once and for all.
fn whole(store: &mut Store<Armed>, instance: Instance, name: &str, params: [i32; 3]) -> Result<()> {
    instance.get_typed_func::<(i32, i32, i32), ()>(&mut *store, name)?.call(store, params.into())
}

fn trap(error: legato::Error) -> Trap {
    *error.downcast_ref::<Trap>().unwrap_or_else(|| panic!("no trap: {error:?}"))
}

#[test]
fn memories() -> Result<()> {
    let data = "data".repeat(PIECE / 2);
    let text = format!(
        r#"(module
            (import "h" "now" (func $now))
            (memory (export "memory") 128)
            (data $data "{data}")
            (func (export "fill") (param i32 i32 i32)
                (call $now) (memory.fill (local.get 0) (local.get 1) (local.get 2)))
            (func (export "copy") (param i32 i32 i32)
                (call $now) (memory.copy (local.get 0) (local.get 1) (local.get 2)))
            (func (export "init") (param i32 i32 i32)
                (call $now) (memory.init $data (local.get 0) (local.get 1) (local.get 2))))"#
    );
    let (mut store, instance) = linked(&Engine::default(), &text)?;
    let memory = instance.get_memory(&mut store, "memory").unwrap();
    let pattern: Vec<u8> = (0..128 << 16).map(|index| (index % 251) as u8).collect();
    // The instruction, its parameters, whether the last piece comes first, and what it does.
    type Case<'a> = (&'a str, [usize; 3], bool, &'a dyn Fn(&mut [u8]));
    let cases: [Case; 5] = [
        ("fill", [7, 300, 3 * PIECE + 1], false, &|bytes| bytes[7..][..3 * PIECE + 1].fill(44)),
        ("copy", [0, 1000, 3 * PIECE], false, &|bytes| bytes.copy_within(1000..1000 + 3 * PIECE, 0)),
        ("copy", [1000, 0, 3 * PIECE], true, &|bytes| bytes.copy_within(0..3 * PIECE, 1000)),
        ("copy", [PIECE + 5, 5, 2 * PIECE], true, &|bytes| bytes.copy_within(5..5 + 2 * PIECE, PIECE + 5)),
        ("init", [9, 4, 2 * PIECE - 4], false, &|bytes| {
            bytes[9..][..2 * PIECE - 4].copy_from_slice(&data.as_bytes()[4..])
        }),
    ];
    for (name, params, backwards, act) in cases {
        let mut expected = pattern.clone();
        act(&mut expected);
        let [start, _, length] = params;
        let params = params.map(|param| param as i32);
        memory.write(&mut store, 0, &pattern)?;
        interrupted(&mut store, instance, name, params)?;
        let done = if backwards { start + length - PIECE..start + length } else { start..start + PIECE };
        let (data, all) = (memory.data(&store), 0..pattern.len());
        assert!(data[done.clone()] == expected[done.clone()], "{name} {params:?}");
        for rest in [all.start..done.start, done.end..all.end] {
            assert!(data[rest.clone()] == pattern[rest], "{name} {params:?}: more than a piece was written");
        }
        memory.write(&mut store, 0, &pattern)?;
        whole(&mut store, instance, name, params)?;
        assert!(memory.data(&store) == expected, "{name} {params:?}");
    }
    // Bounds are checked first.
    memory.write(&mut store, 0, &pattern)?;
    let size = pattern.len() as i32;
    for (name, params) in
        [("fill", [1, 1, size]), ("copy", [1, 0, size]), ("copy", [0, 1, size]), ("init", [0, 1, 2 << 20])]
    {
        assert_eq!(trap(whole(&mut store, instance, name, params).unwrap_err()), Trap::MemoryOutOfBounds);
        assert!(memory.data(&store) == pattern, "{name}");
    }
    Ok(())
}

#[test]
fn another_thread_interrupts_a_fill_long_before_its_end() -> Result<()> {
    // The addresses of 4 GiB, of which little is ever touched.
    let text = r#"(module
        (import "h" "now" (func $now))
        (memory (export "memory") 65536)
        (func (export "fill") (param i32 i32 i32)
            (memory.fill (i32.const 0) (local.get 0) (i32.const -1)))
        (func (export "fine") (param i32 i32 i32)))"#;
    let (mut store, instance) = linked(&Engine::default(), text)?;
    let _deadline = store.set_deadline(Duration::from_millis(20));
    assert_eq!(trap(whole(&mut store, instance, "fill", [7, 0, 0]).unwrap_err()), Trap::Interrupt);
    let bytes = instance.get_memory(&mut store, "memory").unwrap().data(&store);
    assert_eq!((bytes[0], bytes[u32::MAX as usize - 1]), (7, 0));
    whole(&mut store, instance, "fine", [0; 3])
}

#[test]
fn tables() -> Result<()> {
    const COUNT: usize = 1 << 20;
    const PIECE_LENGTH: usize = PIECE / 4;
    let segment = "$f ".repeat(2 * PIECE_LENGTH);
    let text = format!(
        r#"(module
            (import "h" "now" (func $now))
            (table $table (export "table") {COUNT} funcref)
            (elem $segment func {segment})
            (func $f (export "f"))
            (func (export "prepare") (param $i i32) (param i32 i32)
                (table.fill (i32.const 0) (ref.null func) (table.size))
                (loop $next
                    (table.set (local.get $i) (ref.func $f))
                    (br_if $next (i32.lt_u
                        (local.tee $i (i32.add (local.get $i) (i32.const 7)))
                        (i32.const {COUNT})))))
            (func (export "fill") (param i32 i32 i32)
                (call $now) (table.fill (local.get 0) (ref.func $f) (local.get 2)))
            (func (export "copy") (param i32 i32 i32)
                (call $now) (table.copy (local.get 0) (local.get 1) (local.get 2)))
            (func (export "init") (param i32 i32 i32)
                (call $now) (table.init $segment (local.get 0) (local.get 1) (local.get 2)))
            (func (export "grow") (param i32 i32 i32)
                (call $now) (drop (table.grow (ref.func $f) (local.get 2)))))"#
    );
    let (mut store, instance) = linked(&Engine::default(), &text)?;
    let table = instance.get_table(&mut store, "table").unwrap();
    let contents = |store: &mut Store<Armed>| -> Vec<bool> {
        let is_set = |index| matches!(table.get(&mut *store, index), Some(Ref::Func(Some(_))));
        (0..COUNT as u64).map(is_set).collect()
    };
    let pattern: Vec<bool> = (0..COUNT).map(|index| index % 7 == 0).collect();
    let two = 2 * PIECE_LENGTH;
    type Case<'a> = (&'a str, [usize; 3], bool, &'a dyn Fn(&mut [bool]));
    let cases: [Case; 4] = [
        ("fill", [3, 0, two], false, &|elements| elements[3..][..two].fill(true)),
        ("copy", [0, 10, two], false, &|elements| elements.copy_within(10..10 + two, 0)),
        ("copy", [10, 0, two], true, &|elements| elements.copy_within(0..two, 10)),
        ("init", [3, 0, two], false, &|elements| elements[3..][..two].fill(true)),
    ];
    for (name, params, backwards, act) in cases {
        let mut expected = pattern.clone();
        act(&mut expected);
        let [start, _, length] = params;
        let params = params.map(|param| param as i32);
        whole(&mut store, instance, "prepare", [0; 3])?;
        interrupted(&mut store, instance, name, params)?;
        let done = if backwards { start + length - PIECE_LENGTH..start + length } else { start..start + PIECE_LENGTH };
        let found = contents(&mut store);
        assert!(found[done.clone()] == expected[done.clone()], "{name} {params:?}");
        assert!(found[..done.start] == pattern[..done.start] && found[done.end..] == pattern[done.end..], "{name}");
        whole(&mut store, instance, "prepare", [0; 3])?;
        whole(&mut store, instance, name, params)?;
        assert!(contents(&mut store) == expected, "{name} {params:?}");
    }
    interrupted(&mut store, instance, "grow", [0, 0, two as i32])?;
    assert_eq!(table.size(&store), COUNT as u64);
    whole(&mut store, instance, "grow", [0, 0, two as i32])?;
    assert_eq!(table.size(&store), (COUNT + two) as u64);
    let last = table.get(&mut store, (COUNT + two - 1) as u64).unwrap();
    assert!(matches!(last, Ref::Func(Some(_))));
    Ok(())
}

/// `$a` is an array of numbers, element `i` being `7 * i` once it is prepared; `moved` counts those that are as after a
/// copy.
const ARRAYS: &str = r#"(module
    (import "h" "now" (func $now))
    (type $array (array (mut i32)))
    (type $objects (array (mut anyref)))
    (type $bytes (array (mut i8)))
    (global $a (mut (ref null $array)) (ref.null $array))
    (global $o (mut (ref null $objects)) (ref.null $objects))
    (global $b (mut (ref null $bytes)) (ref.null $bytes))
    (data $data "DATA")
    (func (export "prepare") (param i32 i32) (param $length i32) (local $i i32)
        (global.set $a (array.new_default $array (local.get $length)))
        (global.set $o (array.new_default $objects (local.get $length)))
        (loop $next
            (array.set $array (global.get $a) (local.get $i) (i32.mul (i32.const 7) (local.get $i)))
            (br_if $next (i32.lt_u
                (local.tee $i (i32.add (local.get $i) (i32.const 1)))
                (local.get $length)))))
    (func (export "moved") (param $to i32) (param $from i32) (param $length i32) (result i32) (local $count i32)
        (loop $next
            (local.set $length (i32.sub (local.get $length) (i32.const 1)))
            (local.set $count (i32.add (local.get $count) (i32.eq
                (array.get $array (global.get $a) (i32.add (local.get $to) (local.get $length)))
                (i32.mul (i32.const 7) (i32.add (local.get $from) (local.get $length))))))
            (br_if $next (local.get $length)))
        (local.get $count))
    (func (export "filled") (param i32 i32) (param $length i32) (result i32) (local $count i32)
        (loop $next
            (local.set $length (i32.sub (local.get $length) (i32.const 1)))
            (local.set $count (i32.add (local.get $count)
                (ref.test (ref i31) (array.get $objects (global.get $o) (local.get $length)))))
            (br_if $next (local.get $length)))
        (local.get $count))
    (func (export "length") (param i32 i32 i32) (result i32)
        (if (ref.is_null (global.get $a)) (then (return (i32.const -1))))
        (array.len (global.get $a)))
    (func (export "bytes") (param i32 i32) (param $length i32) (result i32) (local $sum i32)
        (if (ref.is_null (global.get $b)) (then (return (i32.const -1))))
        (loop $next
            (local.set $length (i32.sub (local.get $length) (i32.const 1)))
            (local.set $sum (i32.add (local.get $sum)
                (array.get_u $bytes (global.get $b) (local.get $length))))
            (br_if $next (local.get $length)))
        (local.get $sum))
    (func (export "copy") (param i32 i32 i32)
        (call $now)
        (array.copy $array $array (global.get $a) (local.get 0) (global.get $a) (local.get 1) (local.get 2)))
    (func (export "fill") (param i32 i32 i32)
        (call $now)
        (array.fill $objects (global.get $o) (local.get 0) (ref.i31 (local.get 1)) (local.get 2)))
    (func (export "new") (param i32 i32 i32)
        (global.set $a (ref.null $array))
        (call $now)
        (global.set $a (array.new $array (local.get 1) (local.get 2))))
    (func (export "new_data") (param i32 i32 i32)
        (global.set $b (ref.null $bytes))
        (call $now)
        (global.set $b (array.new_data $bytes $data (local.get 1) (local.get 2))))
    (func (export "init_data") (param i32 i32 i32)
        (global.set $b (array.new_default $bytes (local.get 2)))
        (call $now)
        (array.init_data $bytes $data (global.get $b) (i32.const 0) (local.get 1) (local.get 2))))"#;

#[test]
fn arrays() -> Result<()> {
    const PIECE_LENGTH: i32 = (ARRAY_PIECE / 4) as i32;
    const LENGTH: i32 = PIECE_LENGTH + 500_000;
    const BYTES: i32 = ARRAY_PIECE as i32 + 100;
    let text = ARRAYS.replace("DATA", &"a".repeat(BYTES as usize));
    let layouts = product(&["arrays"]);
    let layouts = layouts.iter().map(|layout| engine(layout, ""));
    for engine in crate::engines().into_iter().chain(layouts) {
        let (mut store, instance) = linked(&engine, &text)?;
        let ask = |store: &mut Store<Armed>, name: &str, params: [i32; 3]| -> Result<i32> {
            instance.get_typed_func::<(i32, i32, i32), i32>(&mut *store, name)?.call(store, params.into())
        };
        for (to, from) in [(0, 1000), (1000, 0)] {
            let params = [to, from, LENGTH - 1000];
            whole(&mut store, instance, "prepare", [0, 0, LENGTH])?;
            interrupted(&mut store, instance, "copy", params)?;
            assert_eq!(ask(&mut store, "moved", params)?, PIECE_LENGTH);
            store.verify_heap()?;
            whole(&mut store, instance, "prepare", [0, 0, LENGTH])?;
            whole(&mut store, instance, "copy", params)?;
            assert_eq!(ask(&mut store, "moved", params)?, LENGTH - 1000);
        }
        interrupted(&mut store, instance, "fill", [0, 5, LENGTH])?;
        assert_eq!(ask(&mut store, "filled", [0, 0, LENGTH])?, PIECE_LENGTH);
        store.gc();
        whole(&mut store, instance, "fill", [0, 5, LENGTH])?;
        assert_eq!(ask(&mut store, "filled", [0, 0, LENGTH])?, LENGTH);
        // Bounds are checked first.
        whole(&mut store, instance, "prepare", [0, 0, LENGTH])?;
        for (name, params) in [("fill", [1, 5, LENGTH]), ("copy", [1, 0, LENGTH]), ("copy", [0, 1, LENGTH])] {
            assert_eq!(trap(whole(&mut store, instance, name, params).unwrap_err()), Trap::ArrayOutOfBounds);
        }
        assert_eq!(ask(&mut store, "filled", [0, 0, LENGTH])?, 0);
        assert_eq!(ask(&mut store, "moved", [0, 0, LENGTH])?, LENGTH);

        interrupted(&mut store, instance, "new", [0, 0, LENGTH])?;
        store.verify_heap()?;
        store.gc();
        assert_eq!(ask(&mut store, "length", [0; 3])?, -1);
        whole(&mut store, instance, "new", [0, 0, LENGTH])?;
        assert_eq!(ask(&mut store, "length", [0; 3])?, LENGTH);
        interrupted(&mut store, instance, "new_data", [0, 0, BYTES])?;
        store.verify_heap()?;
        assert_eq!(ask(&mut store, "bytes", [0, 0, BYTES])?, -1);
        interrupted(&mut store, instance, "init_data", [0, 0, BYTES])?;
        assert_eq!(ask(&mut store, "bytes", [0, 0, BYTES])?, ARRAY_PIECE as i32 * 97);
        for name in ["new_data", "init_data"] {
            whole(&mut store, instance, name, [0, 0, BYTES])?;
            assert_eq!(ask(&mut store, "bytes", [0, 0, BYTES])?, BYTES * 97, "{name}");
        }
        store.verify_heap()?;
    }
    Ok(())
}
