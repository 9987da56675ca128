//! Compiled code runs under every kind of heap (see [`world`]).
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod support;
mod world;

use support::all_plans;
use world::{Instance, Polls, with_world};

/// Runs under every plan and compares the results.
fn check(text: &str, params: &[i32], expected: &[i32]) {
    for (name, plan) in all_plans() {
        let mut instance = Instance::new(text, plan, Polls::Always);
        let results = instance.call(0, params, expected.len()).expect("does not trap");
        assert_eq!(results, expected, "{name}");
        with_world(|world| println!("{name}: {} collections, at most {} roots", world.collections, world.most_roots));
    }
}

#[test]
fn arithmetic_and_many_results() {
    let text = "(module (func (export \"f\") (param i32 i32)
        (result i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
        (local.get 0) (local.get 1) (call $many))
        (func $many (param i32 i32)
        (result i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
        (i32.add (local.get 0) (local.get 1)) (i32.sub (local.get 0) (local.get 1))
        (i32.div_s (local.get 0) (local.get 1)) (i32.rem_s (local.get 0) (local.get 1))
        (i32.clz (local.get 0)) (i32.popcnt (local.get 1)) (i32.rotl (local.get 0) (i32.const 4))
        (i32.trunc_f64_s (f64.nearest (f64.const 2.5))) (i32.trunc_sat_f32_u (f32.const -5))
        (i32.const 10) (i32.const 11) (i32.const 12) (i32.const 13) (i32.const 14) (i32.const 15) (i32.const 16)
        (i32.const 17) (i32.const 18) (i32.const 19) (i32.const 20)))";
    let expected = [-3, -11, -1, -3, 0, 1, -97, 2, 0, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20];
    check(text, &[-7, 4], &expected);
}

/// Builds binary trees whose halves wait on the stack while the other is built.
#[test]
fn trees_survive_collections() {
    let text = "(module
        (type $tree (struct (field (ref null $tree)) (field (ref null $tree)) (field i32)))
        (func (export \"f\") (param i32) (result i32)
          (local $a (ref null $tree)) (local $b (ref null $tree)) (local $i i32) (local $sum i32)
          (local.set $a (call $build (local.get 0) (i32.const 1)))
          (loop $again
            (local.set $b (call $build (i32.const 3) (local.get $i)))
            (local.set $sum (i32.add (local.get $sum) (call $count (local.get $b))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $i) (i32.const 5))))
          (i32.add (local.get $sum) (call $count (local.get $a))))
        (func $build (param $depth i32) (param $value i32) (result (ref null $tree))
          (if (i32.eqz (local.get $depth)) (then (return (ref.null $tree))))
          (struct.new $tree
            (call $build (i32.sub (local.get $depth) (i32.const 1)) (local.get $value))
            (call $build (i32.sub (local.get $depth) (i32.const 1)) (local.get $value))
            (local.get $value)))
        (func $count (param $t (ref null $tree)) (result i32)
          (if (ref.is_null (local.get $t)) (then (return (i32.const 0))))
          (i32.add (struct.get $tree 2 (local.get $t))
            (i32.add (call $count (struct.get $tree 0 (local.get $t)))
                     (call $count (struct.get $tree 1 (local.get $t)))))))";
    // 63 nodes of 1; five trees of 7 nodes of 0, 1, 2, 3, 4.
    check(text, &[6], &[63 + 7 * 10]);
}

/// Immutable globals are read behind the allocation that they are for, mutable ones before.
#[test]
fn globals_become_elements() {
    let text = "(module
        (type $box (struct (field i32)))
        (type $row (array (mut (ref null $box))))
        (global $a (ref $box) (struct.new $box (i32.const 0)))
        (global $b (ref $box) (struct.new $box (i32.const 0)))
        (global $m (mut (ref null $box)) (ref.null $box))
        (func (export \"make\") (param i32) (global.set $m (struct.new $box (local.get 0))))
        (func (export \"sum\") (param $rounds i32) (result i32)
          (local $row (ref null $row)) (local $i i32) (local $sum i32)
          (loop $more
            (local.set $row (array.new_fixed $row 4
              (global.get $a)
              (global.get $m)
              (block (result (ref null $box))
                (global.set $m (struct.new $box (local.get $i)))
                (global.get $a))
              (global.get $b)))
            (local.set $sum (i32.add (local.get $sum) (i32.add
              (i32.add (struct.get $box 0 (array.get $row (local.get $row) (i32.const 0)))
                       (struct.get $box 0 (array.get $row (local.get $row) (i32.const 1))))
              (i32.add (struct.get $box 0 (array.get $row (local.get $row) (i32.const 2)))
                       (struct.get $box 0 (array.get $row (local.get $row) (i32.const 3)))))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $more (i32.lt_u (local.get $i) (local.get $rounds))))
          (local.get $sum)))";
    for (name, plan) in all_plans() {
        let mut instance = Instance::new(text, plan, Polls::Always);
        // What the runtime would do for the immutable ones.
        for (global, value) in [(0, 3), (1, 5), (2, 7)] {
            instance.call(0, &[value], 0).unwrap();
            with_world(|world| world.set_global(global, world.global(2)));
        }
        // Each round sees what the one before has set.
        assert_eq!(instance.call(1, &[20], 1).unwrap(), [20 * (3 + 3 + 5) + 7 + (0..19).sum::<i32>()], "{name}");
    }
}

/// Arrays of arrays, casts, a reference carried round a loop, references that live across cold safepoints only.
#[test]
fn arrays_and_casts_survive_collections() {
    let text = "(module
        (type $base (sub (struct (field i32))))
        (type $derived (sub $base (struct (field i32) (field i32))))
        (type $cells (array (mut (ref null $base))))
        (type $rows (array (mut (ref null $cells))))
        (func (export \"f\") (param $n i32) (result i32 i32)
          (local $rows (ref null $rows)) (local $row (ref null $cells)) (local $i i32) (local $sum i32) (local $derived i32)
          (local $last (ref null $base)) (local $next (ref null $base))
          (local.set $rows (array.new_default $rows (local.get $n)))
          (loop $outer
            (local.set $row (array.new_fixed $cells 3
              (struct.new $base (local.get $i)) (struct.new $derived (local.get $i) (i32.const 7)) (local.get $last)))
            (array.set $rows (local.get $rows) (local.get $i) (local.get $row))
            (local.set $next (struct.new $derived (i32.const 100) (local.get $i)))
            (local.set $last (select (result (ref null $base)) (local.get $next) (local.get $last)
              (i32.and (local.get $i) (i32.const 1))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $outer (i32.lt_u (local.get $i) (local.get $n))))
          (local.set $i (i32.const 0))
          (loop $sum
            (local.set $row (array.get $rows (local.get $rows) (local.get $i)))
            (local.set $sum (i32.add (local.get $sum) (struct.get $base 0 (array.get $cells (local.get $row) (i32.const 1)))))
            (if (ref.test (ref $derived) (array.get $cells (local.get $row) (i32.const 2)))
              (then (local.set $derived (i32.add (local.get $derived)
                (struct.get $derived 1 (ref.cast (ref $derived) (array.get $cells (local.get $row) (i32.const 2))))))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $sum (i32.lt_u (local.get $i) (local.get $n))))
          (local.get $sum) (local.get $derived)))";
    // Rows 0..8: the sum of 0..8; the last odd number before each row from row 2 on: 1 1 3 3 5 5.
    check(text, &[8], &[28, 18]);
}

/// What was loaded from a field is loaded again after each kind of write through another reference to the object.
#[test]
fn loads_see_what_aliases_store() {
    let text = "(module
        (type $base (sub (struct (field $count (mut i32)))))
        (type $derived (sub $base (struct (field (mut i32)) (field $byte (mut i8)))))
        (type $objects (array (mut (ref null $base))))
        (func (export \"f\") (param $n i32) (result i32 i32 i32 i32 i32 i32)
          (local $o (ref null $base)) (local $p (ref null $base)) (local $before i32) (local $sum i32) (local $i i32)
          (local $all (ref null $objects))
          (local.set $o (struct.new $derived (i32.const 1) (i32.const 0)))
          (local.set $all (array.new_fixed $objects 1 (local.get $o)))
          (local.set $p (array.get $objects (local.get $all) (i32.const 0)))
          ;; A store.
          (local.set $before (struct.get $base $count (local.get $o)))
          (struct.set $derived 0 (ref.cast (ref $derived) (local.get $p)) (i32.const 7))
          (i32.add (i32.mul (local.get $before) (i32.const 100)) (struct.get $base $count (local.get $o)))
          ;; A loop.
          (local.set $i (local.get $n))
          (loop $next
            (local.set $sum (i32.add (local.get $sum) (struct.get $base $count (local.get $o))))
            (struct.set $base $count (local.get $p) (local.get $i))
            (br_if $next (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
          (local.get $sum)
          ;; One side of a diamond.
          (local.set $before (struct.get $base $count (local.get $o)))
          (if (local.get $n) (then (struct.set $base $count (local.get $p) (i32.const 20))))
          (i32.add (i32.mul (local.get $before) (i32.const 100)) (struct.get $base $count (local.get $o)))
          ;; A call.
          (local.set $before (struct.get $base $count (local.get $o)))
          (call $count_down (local.get $p) (local.get $n))
          (i32.add (i32.mul (local.get $before) (i32.const 100)) (struct.get $base $count (local.get $o)))
          ;; A packed field does not hold what was stored.
          (struct.set $derived $byte (ref.cast (ref $derived) (local.get $o)) (i32.const 0x1ff))
          (struct.get_s $derived $byte (ref.cast (ref $derived) (local.get $o)))
          (struct.get_u $derived $byte (ref.cast (ref $derived) (local.get $o))))
        (func $count_down (param $p (ref null $base)) (param $n i32)
          (struct.set $base $count (local.get $p) (i32.sub (struct.get $base $count (local.get $p)) (i32.const 1)))
          (if (local.get $n) (then (call $count_down (local.get $p) (i32.sub (local.get $n) (i32.const 1)))))))";
    // The loop reads 7, 4, 3, 2 and leaves 1. Five calls count from 20 to 15.
    check(text, &[4], &[107, 16, 120, 2015, -1, 255]);
}

/// Looks at the sign of the difference of two comparisons, in all ways.
#[test]
fn orders() {
    type Relation = fn(&i32, &i32) -> bool;
    const RELATIONS: [(&str, Relation); 6] =
        [("lt_s", i32::lt), ("le_s", i32::le), ("eq", i32::eq), ("ne", i32::ne), ("ge_s", i32::ge), ("gt_s", i32::gt)];
    // The comparison that counts as 1, and the one that counts as -1.
    let pairs = [("ge", "le"), ("le", "ge"), ("gt", "lt"), ("lt", "gt"), ("ge", "lt"), ("ge", "ge")];
    // Type, sign, pair, and whether the second one's operands are exchanged.
    let orders = ["i32", "i64"].into_iter().flat_map(|ty| {
        let signs = ["s", "u"].into_iter().flat_map(move |sign| pairs.map(|pair| (ty, sign, pair)));
        signs.flat_map(|(ty, sign, pair)| [false, true].map(|exchanged| (ty, sign, pair, exchanged)))
    });
    let holds = |relation: &str, x: i64, y: i64| match relation {
        "lt" => x < y,
        "le" => x <= y,
        "ge" => x >= y,
        _ => x > y,
    };
    for (ty, sign, (positive, negative), exchanged) in orders {
        let [x, y] = [0, 1].map(|number| match ty {
            "i32" => format!("(local.get {number})"),
            _ => format!("(i64.extend_i32_s (local.get {number}))"),
        });
        let [a, b] = if exchanged { [&y, &x] } else { [&x, &y] };
        let order = format!("(i32.sub ({ty}.{positive}_{sign} {x} {y}) ({ty}.{negative}_{sign} {a} {b}))");
        let mut body = String::from("(i32.const 0)");
        for (relation, _) in RELATIONS {
            for constant in -2..=2 {
                let found = format!("(i32.{relation} {order} (i32.const {constant}))");
                body = format!("(i32.or (i32.shl {body} (i32.const 1)) {found})");
            }
        }
        body = format!("(i32.or (i32.shl {body} (i32.const 1)) (i32.eqz {order}))");
        let text = format!("(module (func (export \"f\") (param i32 i32) (result i32) {body}))");
        let mut instance = Instance::new(&text, all_plans()[0].1.clone(), Polls::Always);
        for (x, y) in [(1, 2), (2, 1), (3, 3), (-1, 1), (1, -1), (i32::MIN, i32::MAX), (-1, -1)] {
            let wide = |value: i32| match sign {
                "s" => i64::from(value),
                _ => i64::from(value as u32),
            };
            let [a, b] = if exchanged { [y, x] } else { [x, y] };
            let order = i32::from(holds(positive, wide(x), wide(y))) - i32::from(holds(negative, wide(a), wide(b)));
            let found = RELATIONS.into_iter().flat_map(|(_, is)| (-2..=2).map(move |constant| is(&order, &constant)));
            let expected = found.chain([order == 0]).fold(0, |bits, found| bits << 1 | i32::from(found));
            let actual = instance.call(0, &[x, y], 1).expect("does not trap");
            assert_eq!(actual, [expected], "{ty} {sign} {positive} {negative} {exchanged}: {x}, {y}");
        }
    }
}
