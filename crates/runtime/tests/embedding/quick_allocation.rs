//! Objects of code that was compiled quickly, which are allocated by calls.

use legato::{Compilation, Config, Engine, Instance, Module, Result, Store};

/// Storage types, and how an element becomes an `i64`.
const ELEMENTS: [(&str, &str); 5] = [
    ("i8", "(i64.extend_i32_u (array.get_u $array (local.get $array) (local.get $index)))"),
    ("i16", "(i64.extend_i32_u (array.get_u $array (local.get $array) (local.get $index)))"),
    ("i32", "(i64.extend_i32_u (array.get $array (local.get $array) (local.get $index)))"),
    ("i64", "(array.get $array (local.get $array) (local.get $index))"),
    ("f64", "(i64.reinterpret_f64 (array.get $array (local.get $array) (local.get $index)))"),
];

/// Makes an array of a length, looks whether it is zero, and fills it for whatever comes to lie there next. Returns its
/// length, or more.
fn arrays(element: &str, get: &str) -> String {
    let full = match element {
        "i64" => "(i64.const -1)",
        "f64" => "(f64.const -1)",
        _ => "(i32.const -1)",
    };
    format!(
        r#"(module (type $array (array (mut {element})))
            (func (export "make") (param $length i32) (result i64)
                (local $array (ref null $array)) (local $index i32) (local $found i64)
                (local.set $array (array.new_default $array (local.get $length)))
                (loop $each
                    (if (i32.lt_u (local.get $index) (local.get $length)) (then
                        (local.set $found (i64.or (local.get $found) {get}))
                        (local.set $index (i32.add (local.get $index) (i32.const 1)))
                        (br $each))))
                (array.fill $array (local.get $array) (i32.const 0) {full} (local.get $length))
                (i64.add
                    (i64.extend_i32_u (array.len (local.get $array)))
                    (i64.shl (i64.extend_i32_u (i64.ne (local.get $found) (i64.const 0))) (i64.const 32)))))"#
    )
}

/// The same of structs with a few fields and with many, one of which leads to the struct before; returns zero.
const STRUCTS: &str = r#"(module
    (type $none (struct))
    (type $few (struct (field (mut i64)) (field (mut (ref null $few))) (field (mut i8))))
    (type $many (struct (field (mut (ref null $few)))
        (field (mut i64)) (field i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64)
        (field $last (mut i64))))
    (global $kept (mut (ref null $few)) (ref.null $few))
    (func (export "make") (param $round i32) (result i64) (local $few (ref $few)) (local $many (ref $many)) (local $found i64)
        (drop (struct.new $none))
        (local.set $few (struct.new_default $few))
        (local.set $many (struct.new_default $many))
        (local.set $found (i64.or (struct.get $few 0 (local.get $few)) (struct.get $many $last (local.get $many))))
        (local.set $found (i64.or (local.get $found)
            (i64.or (struct.get $many 1 (local.get $many)) (struct.get $many 12 (local.get $many)))))
        (if (i32.eqz (ref.is_null (struct.get $few 1 (local.get $few)))) (then unreachable))
        (if (i32.eqz (ref.is_null (struct.get $many 0 (local.get $many)))) (then unreachable))
        (struct.set $few 0 (local.get $few) (i64.const -1))
        (struct.set $few 2 (local.get $few) (i32.const -1))
        (struct.set $many $last (local.get $many) (i64.const -1))
        (struct.set $many 1 (local.get $many) (i64.const -1))
        ;; A list of at most 64.
        (if (i32.and (local.get $round) (i32.const 63))
            (then (struct.set $few 1 (local.get $few) (global.get $kept))))
        (global.set $kept (local.get $few))
        (local.get $found)))"#;

fn store(options: &[(&str, &str)], text: &str) -> Result<(Store<()>, Instance)> {
    let mut config = Config::new();
    config.compilation(Compilation::Lazy);
    for (key, value) in options {
        config.heap_option(key, value)?;
    }
    let engine = Engine::new(&config)?;
    let mut store = Store::new(&engine, ());
    let instance = Instance::new(&mut store, &Module::new(&engine, text)?, &[])?;
    Ok((store, instance))
}

#[test]
fn what_quick_code_makes_is_zero_and_of_its_length() -> Result<()> {
    let heaps: [&[(&str, &str)]; 6] = [
        &[("nursery", "64K")],
        &[("nursery", "64K"), ("zeroing", "bulk")],
        &[("collector", "mark-sweep"), ("min", "0")],
        &[("collector", "realtime"), ("min", "0")],
        &[("collector", "realtime"), ("references", "uni-handles"), ("min", "0")],
        &[("nursery", "64K"), ("arrays", "zrays")],
    ];
    for heap in heaps {
        let heap = [heap, &[("verify", "on"), ("max", "4M")]].concat();
        for (element, get) in ELEMENTS {
            let (mut store, instance) = store(&heap, &arrays(element, get))?;
            let make = instance.get_typed_func::<u32, u64>(&mut store, "make")?;
            // Fewer calls than it takes to be optimised, and beyond the largest that is allocated by a short way.
            for length in (0..300).chain((0..300).rev()) {
                assert_eq!(make.call(&mut store, length)?, u64::from(length), "{element} under {heap:?}");
            }
        }
        let (mut store, instance) = store(&heap, STRUCTS)?;
        let make = instance.get_typed_func::<u32, u64>(&mut store, "make")?;
        for round in 0..900 {
            assert_eq!(make.call(&mut store, round)?, 0, "round {round} under {heap:?}");
        }
        store.gc();
        assert!(store.heap_stats().collections > 1, "{heap:?}");
    }
    Ok(())
}

#[test]
fn a_counted_build_counts_what_quick_code_makes() -> Result<()> {
    for layout in ["contiguous", "zrays"] {
        let heap = [("count-accesses", "on"), ("arrays", layout)];
        let (mut store, instance) = store(&heap, &arrays("i16", ELEMENTS[1].1))?;
        let make = instance.get_typed_func::<u32, u64>(&mut store, "make")?;
        for length in 0..200 {
            make.call(&mut store, length)?;
        }
        assert_eq!(store.heap_stats().arrays.counted.allocated_bytes, 2 * (0..200).sum::<u64>(), "{layout}");
    }
    Ok(())
}
