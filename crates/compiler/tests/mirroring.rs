//! Where objects may have two copies, compiled code stores in both, whichever it stores through: fields and elements of
//! every kind, in every layout, one by one and in loops.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod support;
mod world;

use legato_heap::plan::{AccessPlan, ArrayPlan, BarrierPlan};
use legato_heap::references::References;
use support::{divided, is_possible, spine_plans};
use world::{Instance, Polls, with_world};

const MAKE: usize = 0;
const FIELDS: usize = 1;
const NEAR: usize = 2;
const SET: usize = 3;
const FILL: usize = 4;
const GET: usize = 5;

/// Storage types with their sizes, and how an `i32` becomes a value of them, and one becomes an `i32`.
const KINDS: [(&str, u32, &str, &str); 7] = [
    ("i8", 1, "", "(array.get_u $a"),
    ("i16", 2, "", "(array.get_u $a"),
    ("i32", 4, "", "(array.get $a"),
    ("i64", 8, "i64.extend_i32_u", "(i32.wrap_i64 (array.get $a"),
    ("f32", 4, "f32.convert_i32_u", "(i32.trunc_f32_u (array.get $a"),
    ("f64", 8, "f64.convert_i32_u", "(i32.trunc_f64_u (array.get $a"),
    ("eqref", 4, "ref.i31", "(i31.get_u (ref.cast (ref i31) (array.get $a"),
];

/// A struct and an array in globals, and stores into them.
fn program(storage: &str, convert: &str, get: &str) -> String {
    let value = |local: &str| match convert {
        "" => format!("(local.get {local})"),
        _ => format!("({convert} (local.get {local}))"),
    };
    let fields = KINDS.map(|(storage, ..)| format!("(field (mut {storage}))")).concat();
    let set_fields: String = KINDS
        .iter()
        .enumerate()
        .map(|(number, (_, _, convert, _))| {
            let value = if convert.is_empty() { "(local.get 0)".into() } else { format!("({convert} (local.get 0))") };
            format!("(struct.set $s {number} (global.get $p) {value})")
        })
        .collect();
    let close = ")".repeat(get.matches('(').count() - get.matches(')').count());
    format!(
        "(module
        (type $s (struct {fields}))
        (type $a (array (mut {storage})))
        (global $p (mut (ref null $s)) (ref.null $s))
        (global $g (mut (ref null $a)) (ref.null $a))
        (func (export \"make\") (param i32)
          (global.set $p (struct.new_default $s))
          (global.set $g (array.new_default $a (local.get 0))))
        (func (export \"fields\") (param i32) {set_fields})
        (func (export \"near\") (param i32) (array.set $a (global.get $g) (i32.const 0) {first}))
        (func (export \"set\") (param i32 i32) (array.set $a (global.get $g) (local.get 0) {second}))
        (func (export \"fill\") (param $from i32) (param $to i32) (local $x (ref null $a))
          (local.set $x (global.get $g))
          (block $done (loop $l
            (br_if $done (i32.ge_s (local.get $from) (local.get $to)))
            (array.set $a (local.get $x) (local.get $from) {from})
            (if (i32.and (local.get $from) (i32.const 1)) (then (array.set $a (local.get $x) (local.get $from) {to})))
            (local.set $from (i32.add (local.get $from) (i32.const 1)))
            (br $l))))
        (func (export \"get\") (param i32) (result i32) {get} (global.get $g) (local.get 0){close}))",
        first = value("0"),
        second = value("1"),
        from = value("$from"),
        to = value("$to"),
    )
}

/// Calls `act`, and checks that the struct and the array in the globals are what their copies are.
fn check(instance: &mut Instance, pairs: [[u32; 2]; 2], what: &str, function: usize, params: &[i32]) {
    instance.call(function, params, 0).unwrap();
    for [old, new] in pairs {
        let [was, is] = with_world(|world| world.copies(old, new));
        assert_eq!(was, is, "{what}: function {function} of {params:?}");
    }
}

#[test]
fn both_copies_are_written() {
    let references = References::Replicating.plan();
    let store_barrier = BarrierPlan { mirror: references.mirror(), ..BarrierPlan::NONE };
    let layouts = spine_plans().into_iter().filter(|(_, arrays)| is_possible(references, *arrays));
    for (name, arrays) in [("contiguous".to_string(), ArrayPlan::Contiguous)].into_iter().chain(layouts) {
        for (storage, size, convert, get) in KINDS {
            let plan = AccessPlan { references, store_barrier, arrays, ..support::plan(References::Direct) };
            let text = program(storage, convert, get);
            let lengths = match arrays {
                ArrayPlan::Contiguous => vec![1, 10],
                ArrayPlan::Spines(plan) => {
                    vec![1, 10, divided(plan.layout, size, 1), divided(plan.layout, size, 2) + 3]
                }
            };
            for length in lengths {
                let what = format!("{name}, {length} of {storage}");
                let mut instance = Instance::new(&text, plan.clone(), Polls::Never);
                let length = length as i32;
                instance.call(MAKE, &[length], 0).unwrap();
                let pairs = [0, 1].map(|global| {
                    with_world(|world| {
                        let old = world.global(global);
                        [old, world.move_object(old)]
                    })
                });
                // Through the old copies, then through the new ones.
                for round in 0..2 {
                    with_world(|world| (0..2).for_each(|global| world.set_global(global, pairs[global][round])));
                    let value = 17 + round as i32;
                    check(&mut instance, pairs, &what, FIELDS, &[value]);
                    check(&mut instance, pairs, &what, NEAR, &[value + 2]);
                    check(&mut instance, pairs, &what, SET, &[length - 1, value + 4]);
                    check(&mut instance, pairs, &what, SET, &[length / 2, value + 6]);
                    let last = |instance: &mut Instance| instance.call(GET, &[length - 1], 1).unwrap();
                    for copy in [0, 1] {
                        with_world(|world| world.set_global(1, pairs[1][copy]));
                        assert_eq!(last(&mut instance), [if length == 1 { value + 6 } else { value + 4 }], "{what}");
                    }
                    with_world(|world| world.set_global(1, pairs[1][round]));
                    check(&mut instance, pairs, &what, FILL, &[0, length]);
                    for copy in [0, 1] {
                        with_world(|world| world.set_global(1, pairs[1][copy]));
                        let mask = if size == 1 { 0xff } else { 0xffff };
                        // The last index is odd where the length is even, and the length is stored at odd ones.
                        assert_eq!(last(&mut instance), [(length - length % 2) & mask], "{what}");
                    }
                }
            }
        }
    }
}
