//! What is overwritten while a cycle marks: for each place that a reference can lie in, and each way to overwrite it
//! there, a program that moves references from such places into objects that the cycle does not look at any more. All
//! of them must live. Without the barrier before one of these stores, those are lost that the cycle had not come to.

use legato::{Module, Ref, Result, Val};
use legato_test_matrix::Row;

use super::{COMMON, Host, Program, collectors, in_slices, nothing, store};

/// Groups of places, each overwritten at once, and how many there are in a group.
const GROUPS: usize = 40;
const PLACES: usize = 4;

/// What is done in turn. Values are moved a group at a time, with one allocation, so that many are moved before the
/// cycle has come to them.
const RUN: &str = r#"
  (type $four (struct (field (ref null $v)) (field (ref null $v)) (field (ref null $v)) (field (ref null $v))
    (field $next (ref null $four))))
  (global $other (ref $v) (struct.new $v (i32.const -1)))
  ;; What has been moved, for `check`.
  (global $moved (mut (ref null $four)) (ref.null $four))
  (func $number (param $g i32) (param $k i32) (result i32)
    (i32.add (i32.mul (local.get $g) (i32.const 4)) (local.get $k)))
  (func $is (param $value (ref null $v)) (param $g i32) (param $k i32)
    (if (i32.ne (struct.get $v $n (local.get $value)) (call $number (local.get $g) (local.get $k)))
      (then (unreachable))))
  (func (export "run") (param $groups i32) (param $wait i32)
    (local $list (ref null $four)) (local $g i32)
    (loop $more
      (call $build (local.get $g))
      (br_if $more (i32.lt_u (local.tee $g (i32.add (local.get $g) (i32.const 1))) (local.get $groups))))
    (call $align)
    (call $align)
    (call $churn (local.get $wait))
    (loop $group
      (local.set $g (i32.sub (local.get $g) (i32.const 1)))
      ;; What is new while a cycle marks is marked, and not looked at.
      (local.set $list (struct.new $four
        (call $get (local.get $g) (i32.const 0)) (call $get (local.get $g) (i32.const 1))
        (call $get (local.get $g) (i32.const 2)) (call $get (local.get $g) (i32.const 3)) (local.get $list)))
      (call $delete (local.get $g))
      (br_if $group (local.get $g)))
    (call $align)
    (global.set $moved (local.get $list)))
  (func (export "check") (param $groups i32)
    (local $list (ref null $four)) (local $g i32)
    (call $align)
    (call $reuse)
    (local.set $list (global.get $moved))
    (loop $group
      (call $is (struct.get $four 0 (local.get $list)) (local.get $g) (i32.const 0))
      (call $is (struct.get $four 1 (local.get $list)) (local.get $g) (i32.const 1))
      (call $is (struct.get $four 2 (local.get $list)) (local.get $g) (i32.const 2))
      (call $is (struct.get $four 3 (local.get $list)) (local.get $g) (i32.const 3))
      (local.set $list (struct.get $four $next (local.get $list)))
      (call $check (local.get $g))
      (br_if $group (i32.lt_u (local.tee $g (i32.add (local.get $g) (i32.const 1))) (local.get $groups)))))"#;
/// Nothing more to check of a group.
const NO_CHECK: &str = "(func $check (param i32))";

/// The heaps for arrays.
fn layouts() -> Vec<Row> {
    in_slices(&["arrays", "first-n", "leaf-savings"])
}

/// Runs the program of some places, whose functions are `$build` (of a group), `$get` (of a group and a number in it)
/// and `$delete` (of a group).
fn check(rows: &[Row], groups: usize, places: &str, host: Host) {
    check_all(rows, groups, &format!("{places} {NO_CHECK}"), host);
}

/// As [`check`], with a function `$check` of each group in the end.
fn check_all(rows: &[Row], groups: usize, places: &str, host: Host) {
    assert!(rows.len() > 1);
    for row in rows {
        let run = || -> Result<()> {
            let (mut store, cycles) = store(row);
            let module = Module::new(store.engine(), format!("(module {COMMON} {RUN} {places})"))?;
            for wait in [0, 3, 30, 100] {
                let mut program = Program::new(store, &module, &cycles, host)?;
                program.func::<(i32, i32), ()>("run")?.call(&mut program.store, (groups as i32, wait))?;
                // Right behind the cycle: the next one would mark again what has been lost and not overwritten.
                program.store.verify_heap()?;
                program.func::<i32, ()>("check")?.call(&mut program.store, groups as i32)?;
                program.store.verify_heap()?;
                store = program.store;
            }
            Ok(())
        };
        run().unwrap_or_else(|error| panic!("{row}: {error:?}"));
    }
}

/// Boxes, each with a value.
const BOXES: &str = r#"
  (global $boxes (ref $boxes) (array.new_default $boxes (i32.const 160)))
  (func $box (param $g i32) (param $k i32) (result (ref null $box))
    (array.get $boxes (global.get $boxes) (call $number (local.get $g) (local.get $k))))
  (func $build (param $g i32) (local $k i32)
    (loop $more
      (array.set $boxes (global.get $boxes) (call $number (local.get $g) (local.get $k))
        (struct.new $box (call $new (call $number (local.get $g) (local.get $k)))))
      (br_if $more (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 1))) (i32.const 4)))))
  (func $get (param $g i32) (param $k i32) (result (ref null $v))
    (struct.get $box $in (call $box (local.get $g) (local.get $k))))"#;

#[test]
fn fields() {
    let delete = r#"(func $delete (param $g i32) (local $k i32) (local $other (ref null $v))
        ;; Null and another object in turn.
        (if (i32.and (local.get $g) (i32.const 1)) (then (local.set $other (global.get $other))))
        (loop $more
          (struct.set $box $in (call $box (local.get $g) (local.get $k)) (local.get $other))
          (br_if $more (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 1))) (i32.const 4)))))"#;
    check(&collectors(), GROUPS, &format!("{BOXES} {delete}"), nothing);
}

#[test]
fn fields_that_the_host_sets() {
    let delete = r#"(func $delete (param $g i32) (local $k i32)
        (loop $more
          (call $host (i32.const 0) (call $box (local.get $g) (local.get $k)))
          (br_if $more (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 1))) (i32.const 4)))))"#;
    check(&collectors(), GROUPS, &format!("{BOXES} {delete}"), |mut caller, _, object| {
        let object = object.unwrap().unwrap_struct(&caller)?;
        object.set_field(&mut caller, 0, Val::AnyRef(None))
    });
}

/// Arrays so long that every layout has leaves, each with four values: at the beginning or at the end.
fn arrays(delete: &str) -> String {
    format!(
        r#"(global $arrays (ref $arrays) (array.new_default $arrays (i32.const 40)))
          (global $nulls (ref $refs) (array.new_default $refs (i32.const 5000)))
          (func $array (param $g i32) (result (ref null $refs)) (array.get $arrays (global.get $arrays) (local.get $g)))
          (func $base (param $g i32) (result i32)
            (select (i32.const 4990) (i32.const 0) (i32.and (local.get $g) (i32.const 1))))
          (func $build (param $g i32) (local $k i32) (local $array (ref null $refs))
            (local.set $array (array.new_default $refs (i32.const 5000)))
            (array.set $arrays (global.get $arrays) (local.get $g) (local.get $array))
            (loop $more
              (array.set $refs (local.get $array) (i32.add (call $base (local.get $g)) (local.get $k))
                (call $new (call $number (local.get $g) (local.get $k))))
              (br_if $more (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 1))) (i32.const 4)))))
          (func $get (param $g i32) (param $k i32) (result (ref null $v))
            (array.get $refs (call $array (local.get $g)) (i32.add (call $base (local.get $g)) (local.get $k))))
          (func $delete (param $g i32) (local $a (ref null $refs)) (local $i i32) (local $end i32)
            (local.set $a (call $array (local.get $g)))
            (local.set $i (call $base (local.get $g)))
            (local.set $end (i32.add (local.get $i) (i32.const 4)))
            {delete})"#
    )
}

/// Arrays in the layouts: fewer, as they are large.
const ARRAYS: usize = 16;

#[test]
fn elements() {
    let delete = "(array.set $refs (local.get $a) (local.get $i) (ref.null $v))
        (array.set $refs (local.get $a) (i32.add (local.get $i) (i32.const 1)) (global.get $other))
        (array.set $refs (local.get $a) (i32.add (local.get $i) (i32.const 2)) (ref.null $v))
        (array.set $refs (local.get $a) (i32.add (local.get $i) (i32.const 3)) (global.get $other))";
    check(&layouts(), ARRAYS, &arrays(delete), nothing);
}

#[test]
fn elements_behind_a_check_of_the_program() {
    let delete = "(loop $more
        (if (i32.lt_u (local.get $i) (array.len (local.get $a)))
          (then (array.set $refs (local.get $a) (local.get $i) (ref.null $v))))
        (br_if $more (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $end))))";
    check(&layouts(), ARRAYS, &arrays(delete), nothing);
}

#[test]
fn elements_in_loops_over_whole_arrays() {
    // Up and down, over constant and varying distances.
    let up = "(local.set $i (i32.const 0))
        (loop $more
          (array.set $refs (local.get $a) (local.get $i) (ref.null $v))
          (br_if $more (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (array.len (local.get $a)))))";
    let down = "(local.set $i (array.len (local.get $a)))
        (loop $more
          (local.set $i (i32.sub (local.get $i) (i32.const 1)))
          (array.set $refs (local.get $a) (local.get $i) (ref.null $v))
          (br_if $more (local.get $i)))";
    // Two at a time, of which one is where the other has been checked to lie.
    let two = "(local.set $i (i32.const 0))
        (loop $more
          (array.set $refs (local.get $a) (local.get $i) (ref.null $v))
          (array.set $refs (local.get $a) (i32.add (local.get $i) (i32.const 1)) (global.get $other))
          (br_if $more (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 2))) (array.len (local.get $a)))))";
    // So short that the cycle does not go on meanwhile.
    let four = "(loop $more
          (array.set $refs (local.get $a) (local.get $i) (ref.null $v))
          (array.set $refs (local.get $a) (i32.add (local.get $i) (i32.const 1)) (global.get $other))
          (br_if $more (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 2))) (local.get $end))))";
    for delete in [up, down, two, four] {
        check(&layouts(), ARRAYS, &arrays(delete), nothing);
    }
}

#[test]
fn elements_that_are_filled() {
    let some = "(array.fill $refs (local.get $a) (local.get $i) (ref.null $v) (i32.const 4))";
    let all = "(array.fill $refs (local.get $a) (i32.const 0) (global.get $other) (array.len (local.get $a)))";
    check(&layouts(), ARRAYS, &arrays(some), nothing);
    check(&layouts(), ARRAYS, &arrays(all), nothing);
}

#[test]
fn elements_that_are_copied_over() {
    let some =
        "(array.copy $refs $refs (local.get $a) (local.get $i) (global.get $nulls) (i32.const 100) (i32.const 4))";
    let all = "(array.copy $refs $refs
        (local.get $a) (i32.const 0) (global.get $nulls) (i32.const 0) (array.len (local.get $a)))";
    let moved = "(array.copy $refs $refs (local.get $a) (i32.const 1) (local.get $a) (i32.const 0) (i32.const 4999))
        (array.copy $refs $refs (local.get $a) (i32.const 0) (local.get $a) (i32.const 100) (i32.const 2000))
        (array.copy $refs $refs (local.get $a) (i32.const 4900) (local.get $a) (i32.const 2000) (i32.const 100))";
    check(&layouts(), ARRAYS, &arrays(some), nothing);
    check(&layouts(), ARRAYS, &arrays(all), nothing);
    check(&layouts(), ARRAYS, &arrays(moved), nothing);
}

#[test]
fn leaves_that_another_array_shares() {
    // A copy, of which the cycle knows that it is new, keeps the leaves that the array gives up.
    let delete = "(local.set $copy (array.new_default $refs (i32.const 5000)))
        (array.copy $refs $refs (local.get $copy) (i32.const 0) (local.get $a) (i32.const 0) (i32.const 5000))
        (array.set $arrays (global.get $copies) (local.get $g) (local.get $copy))
        (array.fill $refs (local.get $a) (i32.const 0) (ref.null $v) (i32.const 5000))";
    let places = arrays(delete).replace("(local $i i32)", "(local $i i32) (local $copy (ref $refs))");
    let check = "(global $copies (ref $arrays) (array.new_default $arrays (i32.const 40)))
        (func $check (param $g i32) (local $k i32) (local $garbage (ref null $refs))
          (if (i32.eqz (local.get $g)) (then
            (loop $more
              (local.set $garbage (array.new_default $refs (i32.const 5000)))
              (array.fill $refs (local.get $garbage) (i32.const 0) (global.get $other) (i32.const 5000))
              (br_if $more (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 1))) (i32.const 20))))))
          (local.set $k (i32.const 0))
          (loop $more
            (call $is (array.get $refs (array.get $arrays (global.get $copies) (local.get $g))
                (i32.add (call $base (local.get $g)) (local.get $k))) (local.get $g) (local.get $k))
            (br_if $more (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 1))) (i32.const 4)))))";
    let mut rows = layouts();
    rows.retain(|row| row.settings().any(|setting| setting == ("copy-on-write", "on")));
    check_all(&rows, ARRAYS, &format!("{places} {check}"), nothing);
}

#[test]
fn elements_that_a_segment_is_copied_to() {
    let segment = "(elem $nulls_of_segment (ref null $v)
        (item (ref.null $v)) (item (ref.null $v)) (item (ref.null $v)) (item (ref.null $v)))";
    let delete = "(array.init_elem $refs $nulls_of_segment (local.get $a) (local.get $i) (i32.const 0) (i32.const 4))";
    check(&layouts(), ARRAYS, &format!("{segment} {}", arrays(delete)), nothing);
}

#[test]
fn elements_that_the_host_sets() {
    let delete = "(call $host (local.get $i) (local.get $a))";
    check(&layouts(), ARRAYS, &arrays(delete), |mut caller, first, array| {
        let array = array.unwrap().unwrap_array(&caller)?;
        (first as u32..first as u32 + 4).try_for_each(|index| array.set(&mut caller, index, Val::AnyRef(None)))
    });
}

/// A table, of which so many elements are visited at once, and each group has as many.
fn table(delete: &str) -> String {
    format!(
        r#"(table $t (export "table") 10240 (ref null $v))
          (table $nulls (export "nulls") 10240 (ref null $v))
          (elem $segment (ref null $v)
            (item (ref.null $v)) (item (ref.null $v)) (item (ref.null $v)) (item (ref.null $v)))
          (func $place (param $g i32) (param $k i32) (result i32)
            (i32.add (i32.mul (local.get $g) (i32.const 256)) (local.get $k)))
          (func $build (param $g i32) (local $k i32)
            (loop $more
              (table.set $t (call $place (local.get $g) (local.get $k))
                (call $new (call $number (local.get $g) (local.get $k))))
              (br_if $more (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 1))) (i32.const 4)))))
          (func $get (param $g i32) (param $k i32) (result (ref null $v))
            (table.get $t (call $place (local.get $g) (local.get $k))))
          (func $delete (param $g i32) (local $i i32)
            (local.set $i (call $place (local.get $g) (i32.const 0)))
            {delete})"#
    )
}

#[test]
fn elements_of_tables() {
    let set = "(table.set $t (local.get $i) (ref.null $v))
        (table.set $t (i32.add (local.get $i) (i32.const 1)) (global.get $other))
        (table.set $t (i32.add (local.get $i) (i32.const 2)) (ref.null $v))
        (table.set $t (i32.add (local.get $i) (i32.const 3)) (global.get $other))";
    let fill = "(table.fill $t (local.get $i) (ref.null $v) (i32.const 4))";
    let copy = "(table.copy $t $nulls (local.get $i) (i32.const 7) (i32.const 4))";
    let moved = "(table.copy $t $t (local.get $i) (i32.add (local.get $i) (i32.const 9)) (i32.const 4))";
    let init = "(table.init $t $segment (local.get $i) (i32.const 0) (i32.const 4))";
    for delete in [set, fill, copy, moved, init] {
        check(&collectors(), GROUPS, &table(delete), nothing);
    }
}

#[test]
fn elements_of_tables_that_grow() {
    // Growing overwrites nothing, but moves the elements: what is visited by then stays visited, and the rest waits.
    let delete = "(drop (table.grow $t (global.get $other) (i32.const 100)))
        (table.fill $t (local.get $i) (ref.null $v) (i32.const 4))";
    check(&collectors(), GROUPS, &table(delete), nothing);
}

#[test]
fn elements_of_tables_that_the_host_sets() {
    let delete = "(call $host (local.get $i) (ref.null any))";
    let hosts: [Host; 3] = [
        |mut caller, first, _| {
            let table = caller.get_export("table").unwrap().into_table().unwrap();
            (first as u64..first as u64 + 4).try_for_each(|index| table.set(&mut caller, index, Ref::Any(None)))
        },
        |mut caller, first, _| {
            let table = caller.get_export("table").unwrap().into_table().unwrap();
            table.fill(&mut caller, first as u64, Ref::Any(None), 4)
        },
        |mut caller, first, _| {
            let [table, nulls] = ["table", "nulls"].map(|name| caller.get_export(name).unwrap().into_table().unwrap());
            legato::Table::copy(&mut caller, &table, first as u64, &nulls, 0, 4)
        },
    ];
    for host in hosts {
        check(&collectors(), GROUPS, &table(delete), host);
    }
}

/// Functions that choose by a number between pieces of code.
fn choose(parameters: &str, result: &str, number: &str, choices: &[String]) -> String {
    let mut text = String::from("(unreachable)");
    let labels: String = (0..choices.len()).map(|index| format!("$c{index} ")).collect();
    for (index, choice) in choices.iter().enumerate() {
        let inner = if index == 0 { format!("(br_table {labels} {number})") } else { text };
        text = format!("(block $c{index} {inner}) {choice} (return)");
    }
    format!("{parameters} {result} {text} (unreachable)")
}

/// A global for each place.
fn globals(delete: impl Fn(usize) -> String) -> String {
    let count = GROUPS * PLACES;
    let globals: String =
        (0..count).map(|at| format!("(global $g{at} (export \"g{at}\") (mut (ref null $v)) (ref.null $v))")).collect();
    let all = |of: &dyn Fn(usize) -> String| (0..count).map(of).collect::<Vec<_>>();
    let number = "(call $number (local.get $g) (local.get $k))";
    let both = "(param $g i32) (param $k i32)";
    let set = choose(both, "", number, &all(&|at| format!("(global.set $g{at} (call $new (i32.const {at})))")));
    let get = choose(both, "(result (ref null $v))", number, &all(&|at| format!("(global.get $g{at})")));
    let delete = choose(both, "", number, &all(&delete));
    let each = |function: &str| {
        format!(
            "(func ${function} (param $g i32) (local $k i32)
               (loop $more
                 (call ${function}_one (local.get $g) (local.get $k))
                 (br_if $more (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 1))) (i32.const 4)))))"
        )
    };
    format!(
        "{globals} (func $build_one {set}) (func $get {get}) (func $delete_one {delete}) {} {}",
        each("build"),
        each("delete")
    )
}

#[test]
fn globals_that_are_set() {
    let set = globals(|at| format!("(global.set $g{at} (ref.null $v))"));
    check(&collectors(), GROUPS, &set, nothing);
    let host = globals(|at| format!("(call $host (i32.const {at}) (ref.null any))"));
    check(&collectors(), GROUPS, &host, |mut caller, at, _| {
        let global = caller.get_export(&format!("g{at}")).unwrap().into_global().unwrap();
        global.set(&mut caller, Val::AnyRef(None))
    });
}

#[test]
fn segments_that_are_dropped() {
    let mut segments = String::new();
    for group in 0..GROUPS {
        let item = |k| format!("(item (struct.new $v (i32.const {})))", group * PLACES + k);
        segments += &format!("(elem $e{group} (ref null $v) {})", (0..PLACES).map(item).collect::<String>());
    }
    let all = |of: &dyn Fn(usize) -> String| (0..GROUPS).map(of).collect::<Vec<_>>();
    let of_segment = |group| format!("(array.new_elem $refs $e{group} (i32.const 0) (i32.const 4))");
    let get = choose("(param $g i32)", "(result (ref $refs))", "(local.get $g)", &all(&of_segment));
    let drop = choose("(param $g i32)", "", "(local.get $g)", &all(&|group| format!("(elem.drop $e{group})")));
    let text = format!(
        "{segments} (func $build (param i32)) (func $items {get}) (func $delete {drop})
         (func $get (param $g i32) (param $k i32) (result (ref null $v))
           (array.get $refs (call $items (local.get $g)) (local.get $k)))"
    );
    check(&collectors(), GROUPS, &text, nothing);
}
