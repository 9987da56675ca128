//! Copies of few elements, which compiled code makes itself: all lengths, places and overlaps, and what is outside.

use legato::{Instance, Module, Result, Store, Trap};

use crate::engines;

/// Elements of the two arrays: more than are copied in line of any kind.
const LENGTH: u32 = 36;

/// Of one kind of elements, a type with how a number becomes one and how it is read again: `reset` fills two arrays,
/// `copy` copies between them, or within the first, and returns a checksum of both.
fn program(element: &str, make: &str, get: &str, read: &str) -> String {
    format!(
        r#"(module
            (type $box (struct (field i32)))
            (type $array (array (mut {element})))
            (global $to (mut (ref null $array)) (ref.null $array))
            (global $from (mut (ref null $array)) (ref.null $array))
            (func $sum (param $array (ref null $array)) (param $sum i32) (result i32) (local $i i32)
                (loop $next
                    (local.set $sum (i32.add (i32.mul (local.get $sum) (i32.const 31))
                        ({get} $array (local.get $array) (local.get $i)) {read}))
                    (br_if $next (i32.lt_u
                        (local.tee $i (i32.add (local.get $i) (i32.const 1)))
                        (array.len (local.get $array)))))
                (local.get $sum))
            (func $fill (param $array (ref null $array)) (param $first i32) (local $i i32)
                (loop $next
                    (array.set $array (local.get $array) (local.get $i) (local.get $first) {make})
                    (local.set $first (i32.add (local.get $first) (i32.const 1)))
                    (br_if $next (i32.lt_u
                        (local.tee $i (i32.add (local.get $i) (i32.const 1)))
                        (array.len (local.get $array))))))
            (func (export "make") (param $length i32)
                (global.set $to (array.new_default $array (local.get $length)))
                (global.set $from (array.new_default $array (local.get $length))))
            (func (export "copy") (param $within i32) (param $to i32) (param $from i32) (param $length i32) (result i32)
                (call $fill (global.get $to) (i32.const 1))
                (call $fill (global.get $from) (i32.const 65))
                (if (local.get $within)
                    (then (array.copy $array $array (global.get $to) (local.get $to)
                        (global.get $to) (local.get $from) (local.get $length)))
                    (else (array.copy $array $array (global.get $to) (local.get $to)
                        (global.get $from) (local.get $from) (local.get $length))))
                (call $sum (global.get $from) (call $sum (global.get $to) (i32.const 0)))))"#
    )
}

fn sum(array: &[i32], sum: i32) -> i32 {
    array.iter().fold(sum, |sum, element| sum.wrapping_mul(31).wrapping_add(*element))
}

#[test]
fn copies_of_few_elements_are_those_of_many() -> Result<()> {
    let kinds = [
        ("i8", "", "array.get_u", ""),
        ("i16", "", "array.get_u", ""),
        ("i32", "", "array.get", ""),
        ("i64", "i64.extend_i32_u", "array.get", "i32.wrap_i64"),
        ("f64", "f64.convert_i32_u", "array.get", "i32.trunc_f64_u"),
        ("(ref null $box)", "struct.new $box", "array.get", "struct.get $box 0"),
        ("eqref", "ref.i31", "array.get", "ref.cast (ref i31) i31.get_u"),
    ];
    let lengths = || (0..=9).chain([12, 15, 16, 17, 24, 31, 32, 33, LENGTH]);
    let places = || (0..4).chain([7, 16, LENGTH - 4, LENGTH - 1, LENGTH]);
    for engine in engines() {
        for (element, make, get, read) in kinds {
            let mut store = Store::new(&engine, ());
            let module = Module::new(&engine, program(element, make, get, read))?;
            let instance = Instance::new(&mut store, &module, &[])?;
            instance.get_typed_func::<u32, ()>(&mut store, "make")?.call(&mut store, LENGTH)?;
            let copy = instance.get_typed_func::<(u32, u32, u32, u32), i32>(&mut store, "copy")?;
            for within in [0, 1] {
                for (length, to, from) in lengths()
                    .flat_map(|length| places().flat_map(move |to| places().map(move |from| (length, to, from))))
                {
                    let mut arrays: Vec<i32> = (1..=LENGTH as i32).collect();
                    let from_array: Vec<i32> = (65..65 + LENGTH as i32).collect();
                    let found = copy.call(&mut store, (within, to, from, length));
                    if to.max(from) + length > LENGTH {
                        let trap = found.unwrap_err().downcast::<Trap>()?;
                        assert_eq!(trap, Trap::ArrayOutOfBounds, "{element} {within} {to} {from} {length}");
                        continue;
                    }
                    let source = if within == 1 { arrays.clone() } else { from_array.clone() };
                    arrays[to as usize..][..length as usize]
                        .copy_from_slice(&source[from as usize..][..length as usize]);
                    let expected = sum(&from_array, sum(&arrays, 0));
                    assert_eq!(found?, expected, "{element} {within} {to} {from} {length}");
                }
            }
            // What is outside by far, or only where 32 bits pass over.
            for (to, from, length) in [
                (u32::MAX, 0, 0),
                (0, u32::MAX, 0),
                (u32::MAX, 0, 1),
                (0, u32::MAX, 1),
                (u32::MAX - 3, 0, 4),
                (0, u32::MAX - 3, 4),
                (0, 0, u32::MAX),
                (1, 1, u32::MAX),
            ] {
                let trap = copy.call(&mut store, (0, to, from, length)).unwrap_err().downcast::<Trap>()?;
                assert_eq!(trap, Trap::ArrayOutOfBounds, "{element} {to} {from} {length}");
            }
            store.verify_heap()?;
        }
    }
    Ok(())
}
