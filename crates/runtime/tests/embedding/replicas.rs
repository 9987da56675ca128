//! Objects with two copies: each store that there is reaches both, which the heap's verification compares.

use legato::{AnyRef, I31, Result, Rooted, Val};
use legato_test_matrix::{Row, product};

use crate::{engine, instance};

/// Objects of a kind.
const OBJECTS: i32 = 12;

/// What writes to the struct `$s` and the arrays of the number `$i`: once for each way of writing. `$v` is another
/// number each time.
const STORES: [(&str, &str); 20] = [
    ("a field of 8 bits", "(struct.set $s 0 (local.get $s) (local.get $v))"),
    ("a field of 16 bits", "(struct.set $s 1 (local.get $s) (local.get $v))"),
    ("an i32 field", "(struct.set $s 2 (local.get $s) (local.get $v))"),
    ("an i64 field", "(struct.set $s 3 (local.get $s) (i64.extend_i32_u (local.get $v)))"),
    ("an f32 field", "(struct.set $s 4 (local.get $s) (f32.convert_i32_u (local.get $v)))"),
    ("an f64 field", "(struct.set $s 5 (local.get $s) (f64.convert_i32_u (local.get $v)))"),
    ("a reference field", "(struct.set $s 6 (local.get $s) (ref.i31 (local.get $v)))"),
    ("bytes", "(array.set $b (local.get $b) (local.get $at) (local.get $v))"),
    ("halves", "(array.set $h (local.get $h) (local.get $at) (local.get $v))"),
    ("words", "(array.set $w (local.get $w) (local.get $at) (local.get $v))"),
    ("long words", "(array.set $q (local.get $q) (local.get $at) (i64.extend_i32_u (local.get $v)))"),
    ("floats", "(array.set $f (local.get $f) (local.get $at) (f32.convert_i32_u (local.get $v)))"),
    ("doubles", "(array.set $d (local.get $d) (local.get $at) (f64.convert_i32_u (local.get $v)))"),
    ("references", "(array.set $r (local.get $r) (local.get $at) (ref.i31 (local.get $v)))"),
    (
        "two words in each turn of a loop",
        "(local.set $j (i32.const 0))
         (loop $on
           (array.set $w (local.get $w) (local.get $j) (local.get $v))
           (array.set $w (local.get $w) (i32.add (local.get $j) (i32.const 1)) (i32.sub (i32.const 0) (local.get $v)))
           (local.set $j (i32.add (local.get $j) (i32.const 2)))
           (br_if $on (i32.lt_u (local.get $j) (i32.sub (array.len (local.get $w)) (i32.const 1)))))",
    ),
    (
        "filled",
        "(array.fill $w (local.get $w) (local.get $at) (local.get $v) (i32.const 3))
         (array.fill $r (local.get $r) (local.get $at) (ref.i31 (local.get $v)) (i32.const 3))",
    ),
    (
        "copied",
        "(array.set $w (local.get $other) (i32.const 0) (local.get $v))
         (array.copy $w $w (local.get $w) (local.get $at) (local.get $other) (i32.const 0) (i32.const 3))
         (array.copy $w $w (local.get $w) (i32.const 0) (local.get $w) (i32.const 1) (local.get $at))",
    ),
    (
        "whole arrays copied",
        ";; Leaves of its own are given up for those of zeros.
         (array.set $w (local.get $w) (i32.shr_u (array.len (local.get $w)) (i32.const 1)) (local.get $v))
         (array.fill $w (local.get $other) (i32.const 0) (i32.const 0) (array.len (local.get $w)))
         (array.copy $w $w (local.get $w) (i32.const 0) (local.get $other) (i32.const 0) (array.len (local.get $w)))
         ;; Leaves are shared, and given up.
         (array.set $w (local.get $other) (i32.shr_u (array.len (local.get $w)) (i32.const 1)) (local.get $v))
         (array.copy $w $w (local.get $w) (i32.const 0) (local.get $other) (i32.const 0) (array.len (local.get $w)))
         (if (i32.and (local.get $v) (i32.const 1)) (then
           (array.set $w (local.get $w) (i32.const 1) (local.get $v))
           (array.fill $w (local.get $w) (i32.const 0) (i32.const 0) (array.len (local.get $w)))))",
    ),
    (
        "from a data segment",
        "(array.init_data $b $bytes (local.get $b) (local.get $at)
           (i32.and (local.get $v) (i32.const 7)) (i32.const 3))",
    ),
    (
        "from an element segment",
        "(array.init_elem $r $refs (local.get $r) (local.get $at)
           (i32.and (local.get $v) (i32.const 3)) (i32.const 3))",
    ),
];

fn program(store: &str) -> String {
    format!(
        r#"(module
        (type $s (struct (field (mut i8)) (field (mut i16)) (field (mut i32)) (field (mut i64)) (field (mut f32))
                         (field (mut f64)) (field (mut (ref null eq)))))
        (type $b (array (mut i8))) (type $h (array (mut i16))) (type $w (array (mut i32))) (type $q (array (mut i64)))
        (type $f (array (mut f32)))
        (type $d (array (mut f64))) (type $r (array (mut (ref null eq))))
        (type $all (array (mut (ref null eq))))
        (data $bytes "abcdefghijklmnop")
        (elem $refs (ref null eq) (ref.i31 (i32.const 1)) (ref.i31 (i32.const 2)) (ref.i31 (i32.const 3))
          (ref.i31 (i32.const 4)) (ref.i31 (i32.const 5)) (ref.i31 (i32.const 6)) (ref.i31 (i32.const 7)))
        (global $all (mut (ref null $all)) (ref.null $all))
        (global $garbage (mut (ref null $s)) (ref.null $s))
        (func $get (export "get") (param $kind i32) (param $i i32) (result anyref)
          (array.get $all (global.get $all)
            (i32.add (local.get $i) (i32.mul (local.get $kind) (i32.const {OBJECTS})))))
        (func $put (param $kind i32) (param $i i32) (param $object (ref null eq))
          (array.set $all (global.get $all)
            (i32.add (local.get $i) (i32.mul (local.get $kind) (i32.const {OBJECTS}))) (local.get $object)))
        (func (export "make") (param $length i32) (local $i i32)
          (global.set $all (array.new_default $all (i32.const {})))
          (loop $each
            (call $put (i32.const 0) (local.get $i) (struct.new_default $s))
            (call $put (i32.const 1) (local.get $i) (array.new_default $b (local.get $length)))
            (call $put (i32.const 2) (local.get $i) (array.new_default $w (local.get $length)))
            (call $put (i32.const 3) (local.get $i) (array.new_default $d (local.get $length)))
            (call $put (i32.const 4) (local.get $i) (array.new_default $r (local.get $length)))
            (call $put (i32.const 5) (local.get $i) (array.new_default $w (local.get $length)))
            (call $put (i32.const 6) (local.get $i) (array.new_default $h (local.get $length)))
            (call $put (i32.const 7) (local.get $i) (array.new_default $q (local.get $length)))
            (call $put (i32.const 8) (local.get $i) (array.new_default $f (local.get $length)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $each (i32.lt_u (local.get $i) (i32.const {OBJECTS})))))
        ;; A unit of a cycle each.
        (func (export "churn") (param $count i32)
          (loop $on
            (global.set $garbage (struct.new_default $s))
            (local.set $count (i32.sub (local.get $count) (i32.const 1)))
            (br_if $on (local.get $count))))
        (func (export "store") (param $v i32) (param $at i32) (local $i i32)
          (local $s (ref null $s)) (local $b (ref null $b)) (local $w (ref null $w)) (local $d (ref null $d))
          (local $r (ref null $r)) (local $other (ref null $w)) (local $h (ref null $h)) (local $q (ref null $q))
          (local $f (ref null $f)) (local $j i32)
          (loop $each
            (local.set $s (ref.cast (ref $s) (call $get (i32.const 0) (local.get $i))))
            (local.set $b (ref.cast (ref $b) (call $get (i32.const 1) (local.get $i))))
            (local.set $w (ref.cast (ref $w) (call $get (i32.const 2) (local.get $i))))
            (local.set $d (ref.cast (ref $d) (call $get (i32.const 3) (local.get $i))))
            (local.set $r (ref.cast (ref $r) (call $get (i32.const 4) (local.get $i))))
            (local.set $other (ref.cast (ref $w) (call $get (i32.const 5) (local.get $i))))
            (local.set $h (ref.cast (ref $h) (call $get (i32.const 6) (local.get $i))))
            (local.set $q (ref.cast (ref $q) (call $get (i32.const 7) (local.get $i))))
            (local.set $f (ref.cast (ref $f) (call $get (i32.const 8) (local.get $i))))
            {store}
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $each (i32.lt_u (local.get $i) (i32.const {OBJECTS}))))))"#,
        9 * OBJECTS
    )
}

/// The heap in each layout of arrays, with small leaves, and an array length for each.
fn layouts() -> Vec<(Row, &'static str, i32)> {
    let replicating = |row: &Row| row.to_string().contains("references=replicating");
    let row = || product(&["collector", "references"]).into_iter().find(replicating).expect("a row of the matrix");
    let layouts = [
        ("arrays=contiguous", 9),
        ("arrays=contiguous", 300),
        ("arrays=mapped", 300),
        ("arrays=arraylets,leaf=256,lazy=off", 83),
        ("arrays=arraylets,leaf=256,lazy=on", 300),
        ("arrays=zrays,first-n=64,leaf=256", 83),
        ("arrays=zrays,first-n=512,leaf=256", 300),
        ("arrays=zrays,first-n=64,leaf=256,lazy=off,fast-copy=off", 300),
        ("arrays=zrays,first-n=64,leaf=256,copy-on-write=off", 300),
        ("arrays=zrays,first-n=64,leaf=256,copy-on-write=on,zero-compression=on", 300),
    ];
    layouts.into_iter().map(|(layout, length)| (row(), layout, length)).collect()
}

/// Calls `act` while cycles go on, with a number that is another one each time, and verifies the heap behind it.
fn between_units(
    text: &str,
    mut act: impl FnMut(&mut legato::Store<()>, &legato::Instance, i32, i32) -> Result<()>,
    what: &str,
) -> Result<()> {
    for (row, layout, length) in layouts() {
        let row = row.and("stress-move=on").expect("what moves can be stressed");
        let engine = engine(&row.with(layout), "stress=1");
        let (mut store, instance) = instance(&engine, (), text)?;
        let make = instance.get_typed_func::<i32, ()>(&mut store, "make")?;
        let churn = instance.get_typed_func::<i32, ()>(&mut store, "churn")?;
        make.call(&mut store, length)?;
        for round in 1..40 {
            churn.call(&mut store, 17)?;
            act(&mut store, &instance, round, [0, 2, length / 2, length - 3][round as usize % 4])?;
            store.verify_heap().unwrap_or_else(|problem| panic!("{what}, {layout}, {length}: {problem}"));
        }
        let stats = store.heap_stats();
        assert!(stats.cycles > 1 && stats.moved_objects > 50, "{what}, {layout}: {stats:?}");
    }
    Ok(())
}

#[test]
fn compiled_code_stores_in_both_copies() -> Result<()> {
    for (what, store) in STORES {
        let store_all = |store: &mut legato::Store<()>, instance: &legato::Instance, value, at| {
            instance.get_typed_func::<(i32, i32), ()>(&mut *store, "store")?.call(store, (value, at))
        };
        between_units(&program(store), store_all, what)?;
    }
    Ok(())
}

#[test]
fn hosts_store_in_both_copies() -> Result<()> {
    const WAYS: [&str; 7] = ["numbers", "references", "elements", "element references", "bytes", "a slice", "a view"];
    for (way, what) in WAYS.into_iter().enumerate() {
        let act = |store: &mut legato::Store<()>, instance: &legato::Instance, value: i32, at: i32| {
            let get = instance.get_typed_func::<(i32, i32), Option<Rooted<AnyRef>>>(&mut *store, "get")?;
            let at = at as u32;
            for number in 0..OBJECTS {
                let mut scope = legato::RootScope::new(&mut *store);
                let mut of = |kind| get.call(&mut scope, (kind, number)).map(|object| object.expect("an object"));
                let (object, words, doubles, references) = (of(0)?, of(2)?, of(3)?, of(4)?);
                let object = object.unwrap_struct(&scope)?;
                let [words, doubles, references] =
                    [words, doubles, references].map(|array| array.unwrap_array(&scope).expect("an array"));
                let boxed = AnyRef::from_i31(&mut scope, I31::wrapping_i32(value));
                match way {
                    0 => {
                        object.set_field(&mut scope, 0, Val::I32(value))?;
                        object.set_field(&mut scope, 5, Val::F64(f64::from(value).to_bits()))?;
                    }
                    1 => object.set_field(&mut scope, 6, Val::AnyRef(Some(boxed)))?,
                    2 => {
                        words.set(&mut scope, at, Val::I32(value))?;
                        doubles.set(&mut scope, at, Val::F64(f64::from(value).to_bits()))?;
                    }
                    3 => references.set(&mut scope, at, Val::AnyRef(Some(boxed)))?,
                    4 => words.write_bytes(&mut scope, at, &[value as u8; 12])?,
                    5 => words.with_slice_mut(&mut scope, |words: &mut [i32]| words.fill(value))?,
                    _ => {
                        doubles.with_slice_mut(&mut scope, |doubles: &mut [f64]| doubles[at as usize] = value.into())?
                    }
                }
            }
            Ok(())
        };
        between_units(&program(""), act, what)?;
    }
    Ok(())
}
