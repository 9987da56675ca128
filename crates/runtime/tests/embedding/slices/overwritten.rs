//! What is overwritten while a cycle marks: for each place that a reference can lie in, and each way to overwrite it
//! there, a program that moves references from such places into objects that the cycle does not look at any more. All
//! of them must live. Without the barrier before one of these stores, those are lost that the cycle had not come to.

use legato::{AnyRef, I31, Module, OwnedRooted, Ref, Result, RootScope, Rooted, Val, WeakRooted};
use legato_test_matrix::Row;

use super::{COMMON, Host, Program, collectors, each_row, in_slices, nothing, store};

/// Groups of places, each overwritten at once, and how many there are in a group.
const GROUPS: usize = 40;
const PLACES: usize = 4;

/// What is done in turn. Values are moved a group at a time, with one allocation, so that many are moved before the
/// cycle has come to them.
const RUN: &str = r#"
  (type $four (struct (field (ref null $v)) (field (ref null $v)) (field (ref null $v)) (field (ref null $v))
    (field $next (ref null $four))))
  (global $other (ref $v) (struct.new $v (i32.const -1)))
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
    (call $align)
    (call $churn (i32.const 1000))
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

/// References that host code holds, in number: so many that a cycle visits them in several slices.
const HELD: i32 = 10_000;
/// Of them, so many are values.
const VALUES: i32 = 12;

#[test]
fn scoped_roots_that_end() {
    each_row(|row| {
        let mut program = Program::with_list(row, "", nothing)?;
        for wait in [0, 1, 2, 5] {
            let [new, hold] = ["new", "hold"].map(|name| program.instance.get_func(&mut program.store, name).unwrap());
            let new = new.typed::<i32, Option<Rooted<AnyRef>>>(&program.store)?;
            let hold = hold.typed::<Option<Rooted<AnyRef>>, ()>(&program.store)?;
            let [align, churn] =
                ["align", "churn"].map(|name| program.instance.get_func(&mut program.store, name).unwrap());
            let (align, churn) = (align.typed::<(), ()>(&program.store)?, churn.typed::<i32, ()>(&program.store)?);
            let mut scope = RootScope::new(&mut program.store);
            (0..HELD).for_each(|_| _ = AnyRef::from_i31(&mut scope, I31::wrapping_i32(1)));
            let values = (0..VALUES).map(|number| new.call(&mut scope, number)).collect::<Result<Vec<_>>>()?;
            align.call(&mut scope, ())?;
            align.call(&mut scope, ())?;
            churn.call(&mut scope, wait)?;
            values.iter().rev().try_for_each(|&value| hold.call(&mut scope, value))?;
            drop(scope);
            program.check_list(0, VALUES)?;
        }
        Ok(())
    });
}

#[test]
fn owned_roots_that_are_dropped() {
    each_row(|row| {
        let mut program = Program::with_list(row, "", nothing)?;
        let number = AnyRef::from_i31(&mut program.store, I31::wrapping_i32(1));
        let many = (0..HELD).map(|_| number.to_owned_rooted(&mut program.store)).collect::<Result<Vec<_>>>()?;
        let new = program.func::<i32, Option<Rooted<AnyRef>>>("new")?;
        let hold = program.func::<Option<Rooted<AnyRef>>, ()>("hold")?;
        for wait in [0, 1, 2, 5] {
            let mut values = Vec::new();
            for number in 0..VALUES {
                let mut scope = RootScope::new(&mut program.store);
                let value = new.call(&mut scope, number)?.unwrap();
                values.push(value.to_owned_rooted(&mut scope)?);
            }
            program.align()?;
            program.align()?;
            program.churn(wait)?;
            while let Some(value) = values.pop() {
                let mut scope = RootScope::new(&mut program.store);
                let value: OwnedRooted<AnyRef> = value;
                let value_now = value.to_rooted(&mut scope);
                drop(value);
                hold.call(&mut scope, Some(value_now))?;
            }
            program.check_list(0, VALUES)?;
        }
        drop(many);
        Ok(())
    });
}

#[test]
fn weak_references_that_are_read() {
    // Without slices by the clock, and with so much to mark that there is time to read.
    each_row(|row| {
        let mut program = Program::with_list(&row.with("schedule=work"), "", nothing)?;
        let new = program.func::<i32, Option<Rooted<AnyRef>>>("new")?;
        let number = program.func::<Option<Rooted<AnyRef>>, i32>("number")?;
        let [align, churn_more] =
            ["align", "churn"].map(|name| program.instance.get_func(&mut program.store, name).unwrap());
        let (align, churn) = (align.typed::<(), ()>(&program.store)?, churn_more.typed::<i32, ()>(&program.store)?);
        program.func::<i32, ()>("ballast")?.call(&mut program.store, 200)?;
        let mut read = 0;
        for wait in [10, 40] {
            let mut weak: Vec<WeakRooted<AnyRef>> = Vec::new();
            {
                let mut scope = RootScope::new(&mut program.store);
                for number in 0..VALUES {
                    let value = new.call(&mut scope, number)?.unwrap();
                    weak.push(value.to_weak_rooted(&mut scope)?);
                }
                align.call(&mut scope, ())?;
                // The snapshot of a cycle that finds them alive; they are no part of the next one's.
                churn.call(&mut scope, 2)?;
            }
            align.call(&mut program.store, ())?;
            churn.call(&mut program.store, wait)?;
            // Where the cycle has visited the host's roots by now, it does not come again.
            let mut scope = RootScope::new(&mut program.store);
            let mut values = Vec::new();
            for weak in &weak {
                values.extend(weak.to_rooted(&mut scope)?);
            }
            read += values.len();
            align.call(&mut scope, ())?;
            align.call(&mut scope, ())?;
            churn.call(&mut scope, 1000)?;
            for (expected, value) in (0..).zip(&values) {
                assert_eq!(number.call(&mut scope, Some(*value))?, expected);
            }
        }
        assert!(read > 0, "none has been read in time");
        program.store.verify_heap()?;
        Ok(())
    });
}
