//! References in compiled code over collections, where few other tests keep one: operands of bulk instructions,
//! immutable globals in deep nests of loops, slots of old objects by the million.

use legato::{Compilation, Config, Engine, Instance, Module, Ref, Store, Trap, Val};
use legato_test_matrix::{Row, pairs, product};

/// Calls the export `run` of a module in text form.
fn run(row: &Row, text: &str) -> anyhow::Result<i32> {
    let engine = Engine::new(Config::new().compiler_verifier(true).heap(row.heap()))?;
    let mut store = Store::new(&engine, ());
    let instance = Instance::new(&mut store, &Module::new(&engine, text)?, &[])?;
    instance.get_typed_func::<(), i32>(&mut store, "run")?.call(&mut store, ())
}

/// Small heaps with every layout of arrays.
fn layouts() -> Vec<Row> {
    let axes = ["collector", "references", "arrays", "first-n", "nursery", "barrier", "aging"];
    pairs(&axes, &["min=256K", "min=256K,stress=3"])
}

/// Heaps that move objects whenever they may, a slice of a cycle at each allocation.
fn moving() -> Vec<Row> {
    let rows: Vec<_> =
        product(&["collector", "references"]).iter().filter_map(|row| row.and("stress-move=on")).collect();
    assert!(!rows.is_empty());
    rows.iter().map(|row| row.with("stress=1")).collect()
}

/// Types, and a function that allocates so much that the nursery is collected.
const COMMON: &str = r#"
    (type $s (struct (field $n (mut i32))))
    (type $a (array (mut i32)))
    (type $b (array (mut i8)))
    (type $v (array (mut anyref)))
    (global $garbage (mut anyref) (ref.null any))
    (func $collect (local $i i32)
      (loop $l (global.set $garbage (array.new_default $a (i32.const 100)))
        (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 1000)))))"#;

#[test]
fn bulk_instructions_find_their_operands_behind_a_collection() {
    let text = format!(
        r#"(module {COMMON}
          (elem $items anyref (item (struct.new $s (i32.const 3))) (item (ref.i31 (i32.const 4))))
          (data $bytes "abcdefgh")
          (func (export "run") (result i32)
            (local $v (ref null $v)) (local $w (ref null $v)) (local $a (ref null $a)) (local $b (ref null $b)) (local $s (ref null $s))
            (local.set $v (array.new_default $v (i32.const 1000)))
            (local.set $w (array.new_default $v (i32.const 1000)))
            (local.set $a (array.new_default $a (i32.const 1000)))
            (local.set $b (array.new_default $b (i32.const 1000)))
            (local.set $s (struct.new $s (i32.const 5)))
            (call $collect)
            (array.init_elem $v $items (local.get $v) (i32.const 900) (i32.const 0) (i32.const 2))
            (call $collect)
            (array.copy $v $v (local.get $w) (i32.const 500) (local.get $v) (i32.const 900) (i32.const 2))
            (call $collect)
            (array.fill $v (local.get $w) (i32.const 700) (local.get $s) (i32.const 200))
            (call $collect)
            (array.fill $a (local.get $a) (i32.const 100) (i32.const 6) (i32.const 800))
            (call $collect)
            (array.init_data $b $bytes (local.get $b) (i32.const 400) (i32.const 1) (i32.const 7))
            (call $collect)
            (struct.get $s $n (ref.cast (ref $s) (array.get $v (local.get $w) (i32.const 500))))
            (i31.get_s (ref.cast (ref i31) (array.get $v (local.get $w) (i32.const 501))))
            (i32.add (i32.mul (i32.const 10)))
            (struct.get $s $n (ref.cast (ref $s) (array.get $v (local.get $w) (i32.const 899))))
            (i32.add (i32.mul (i32.const 10)))
            (array.get $a (local.get $a) (i32.const 899))
            (i32.add (i32.mul (i32.const 10)))
            (array.get_u $b (local.get $b) (i32.const 406))
            (i32.add (i32.mul (i32.const 100)))))"#
    );
    for layout in layouts() {
        let result = run(&layout, &text).unwrap_or_else(|error| panic!("{layout}: {error:?}"));
        assert_eq!(result, 3 + 10 * (4 + 5 + 6) + 100 * i32::from(b'h'), "{layout}");
    }
}

#[test]
fn an_immutable_global_in_a_deep_nest_of_loops_is_read_anew() {
    const DEPTH: usize = 10;
    let mut body =
        String::from("(local.set $sum (i32.add (local.get $sum) (struct.get $s $n (global.get $constant))))");
    for level in (0..DEPTH).rev() {
        let call = if level == 0 { "(call_indirect $t (type $f) (i32.const 0))" } else { "" };
        body = format!(
            "(local.set $i{level} (i32.const 0)) (loop $l{level} {call} {body}
               (br_if $l{level} (i32.lt_u (local.tee $i{level} (i32.add (local.get $i{level}) (i32.const 1))) (i32.const 2))))"
        );
    }
    let locals: String = (0..DEPTH).map(|level| format!("(local $i{level} i32)")).collect();
    let text = format!(
        r#"(module {COMMON} (type $f (func)) (table $t 1 funcref) (elem (i32.const 0) $collect)
          (global $constant (ref $s) (struct.new $s (i32.const 7)))
          (func (export "run") (result i32) (local $sum i32) {locals} {body} (local.get $sum)))"#
    );
    for layout in layouts() {
        let result = run(&layout, &text).unwrap_or_else(|error| panic!("{layout}: {error:?}"));
        assert_eq!(result, 7 << DEPTH, "{layout}");
    }
}

#[test]
fn a_million_stores_of_young_into_old_objects_are_remembered() {
    // 2^18 old objects with 4 slots each, all of them stored to once, and one a second time: one slot more than the
    // longest list.
    let text = r#"(module
      (type $n (struct (field $n i32)))
      (type $o (struct (field $next (ref null $o)) (field $a (mut (ref null $n))) (field $b (mut (ref null $n)))
        (field $c (mut (ref null $n))) (field $d (mut (ref null $n)))))
      (import "host" "gc" (func $gc))
      (func $sum (param $n (ref null $n)) (result i32) (struct.get $n $n (local.get $n)))
      (func (export "run") (result i32) (local $i i32) (local $list (ref null $o)) (local $o (ref null $o)) (local $young (ref null $n)) (local $sum i32)
        (loop $build
          (local.set $list (struct.new $o (local.get $list) (ref.null $n) (ref.null $n) (ref.null $n) (ref.null $n)))
          (br_if $build (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 262144))))
        (call $gc)
        (local.set $young (struct.new $n (i32.const 1)))
        (local.set $o (local.get $list))
        (loop $store
          (struct.set $o $a (local.get $o) (local.get $young))
          (struct.set $o $b (local.get $o) (local.get $young))
          (struct.set $o $c (local.get $o) (local.get $young))
          (struct.set $o $d (local.get $o) (local.get $young))
          (br_if $store (i32.eqz (ref.is_null (local.tee $o (struct.get $o $next (local.get $o)))))))
        (struct.set $o $a (local.get $list) (local.get $young))
        (call $gc)
        (local.set $o (local.get $list))
        (loop $read
          (local.set $sum (i32.add (local.get $sum) (i32.add
            (i32.add (call $sum (struct.get $o $a (local.get $o))) (call $sum (struct.get $o $b (local.get $o))))
            (i32.add (call $sum (struct.get $o $c (local.get $o))) (call $sum (struct.get $o $d (local.get $o)))))))
          (br_if $read (i32.eqz (ref.is_null (local.tee $o (struct.get $o $next (local.get $o)))))))
        (local.get $sum)))"#;
    let engine = Engine::new(Config::new().heap_option("verify", "on").unwrap()).unwrap();
    let mut store = Store::new(&engine, ());
    let gc = legato::Func::wrap(&mut store, |mut caller: legato::Caller<'_, ()>| caller.gc());
    let instance = Instance::new(&mut store, &Module::new(&engine, text).unwrap(), &[gc.into()]).unwrap();
    let run = instance.get_typed_func::<(), i32>(&mut store, "run").unwrap();
    assert_eq!(run.call(&mut store, ()).unwrap(), 1 << 20);
}

#[test]
fn tables_are_remembered_where_they_have_been_written() {
    // Every way to write to a table, each in elements of their own, between collections that nothing else would bring a
    // reference over.
    let text = format!(
        r#"(module {COMMON}
          (table $t 1000 2000 anyref) (table $u 1000 anyref) (table $fixed 1000 1000 anyref)
          (elem $items anyref (item (struct.new $s (i32.const 1))) (item (struct.new $s (i32.const 2))))
          (elem (table $t) (i32.const 50) anyref (item (struct.new $s (i32.const 9))) (item (struct.new $s (i32.const 10))))
          (func $new (param i32) (result (ref $s)) (struct.new $s (local.get 0)))
          (func $at (param $index i32) (result i32)
            (struct.get $s $n (ref.cast (ref $s) (table.get $t (local.get $index)))))
          (func (export "run") (result i32) (local $sum i32) (local $i i32)
            (call $collect)
            (local.set $sum (i32.add (call $at (i32.const 50)) (call $at (i32.const 51))))
            (loop $again
              (table.set $t (i32.const 100) (call $new (i32.const 3)))
              (table.set $fixed (i32.const 999) (call $new (i32.const 4)))
              (table.fill $t (i32.const 290) (call $new (i32.const 5)) (i32.const 300))
              (table.set $u (i32.const 700) (call $new (i32.const 6)))
              (call $collect)
              (table.copy $t $u (i32.const 800) (i32.const 700) (i32.const 1))
              (table.set $u (i32.const 10) (call $new (i32.const 7)))
              (table.copy $t $u (i32.const 900) (i32.const 10) (i32.const 1))
              (drop (table.grow $t (call $new (i32.const 8)) (i32.const 100)))
              (table.init $t $items (i32.const 700) (i32.const 0) (i32.const 2))
              (call $collect)
              (call $collect)
              (local.set $sum (i32.add (local.get $sum) (call $at (i32.const 100))))
              (local.set $sum (i32.add (local.get $sum) (struct.get $s $n (ref.cast (ref $s) (table.get $fixed (i32.const 999))))))
              (local.set $sum (i32.add (local.get $sum) (call $at (i32.const 589))))
              (local.set $sum (i32.add (local.get $sum) (call $at (i32.const 800))))
              (local.set $sum (i32.add (local.get $sum) (call $at (i32.const 900))))
              (local.set $sum (i32.add (local.get $sum) (call $at (i32.sub (table.size $t) (i32.const 1)))))
              (local.set $sum (i32.add (local.get $sum) (call $at (i32.const 700))))
              (local.set $sum (i32.add (local.get $sum) (call $at (i32.const 701))))
              (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 3))))
            (local.get $sum)))"#
    );
    let modes = ["min=256K", "min=256K,verify=on", "min=256K,verify=on,stress=1"];
    for row in pairs(&["collector", "references", "nursery", "barrier", "aging"], &modes) {
        let result = run(&row, &text).unwrap_or_else(|error| panic!("{row}: {error:?}"));
        assert_eq!(result, 9 + 10 + 3 * (1 + 2 + 3 + 4 + 5 + 6 + 7 + 8), "{row}");
    }
}

#[test]
fn what_roots_lose_while_a_snapshot_is_marked_is_told() -> anyhow::Result<()> {
    // Objects that one root alone leads to: with the snapshot collector, a cycle begins behind each collection, and at
    // its end looks for all that was there.
    let text = r#"(module
        (type $s (struct (field i32)))
        (global $g (export "global") (mut anyref) (struct.new $s (i32.const 1)))
        (table $t (export "table") 2 anyref (struct.new $s (i32.const 2)))
        (elem $e anyref (item (struct.new $s (i32.const 3))))
        (func (export "global.set") (global.set $g (struct.new $s (i32.const 4))))
        (func (export "table.set") (table.set $t (i32.const 0) (struct.new $s (i32.const 5))))
        (func (export "table.fill") (table.fill $t (i32.const 0) (ref.null any) (i32.const 2)))
        (func (export "elem.drop") (elem.drop $e)))"#;
    for engine in crate::engines() {
        let (mut store, instance) = crate::instance(&engine, (), text)?;
        for name in ["global.set", "table.set", "table.fill", "elem.drop"] {
            store.gc();
            instance.get_typed_func::<(), ()>(&mut store, name)?.call(&mut store, ())?;
        }
        let (global, table) = (instance.get_global(&mut store, "global"), instance.get_table(&mut store, "table"));
        store.gc();
        global.unwrap().set(&mut store, Val::AnyRef(None))?;
        instance.get_typed_func::<(), ()>(&mut store, "table.set")?.call(&mut store, ())?;
        store.gc();
        table.unwrap().set(&mut store, 0, Ref::Any(None))?;
        store.gc();
    }
    Ok(())
}

/// Long functions without loops, as initialisers are, store references by calls where they are compiled quickly: new
/// objects into old ones, which the nursery's collections find; and null over what a snapshot had, which the collector
/// of tests looks for.
#[test]
fn what_a_long_initialiser_stores_and_overwrites_is_told() {
    const COUNT: usize = 200;
    let stores = |new: &dyn Fn(usize) -> String| {
        let stores = (0..COUNT).map(|number| {
            let new = new(number);
            format!(
                "(array.set $v (local.get $v) (i32.const {number}) {new}) (struct.set $box $n (local.get $b) {new})
                (local.set $b (ref.as_non_null (struct.get $box $next (local.get $b))))"
            )
        });
        stores.collect::<String>()
    };
    let (set, clear) =
        (stores(&|number| format!("(struct.new $s (i32.const {number}))")), stores(&|_| "(ref.null any)".to_string()));
    let text = format!(
        r#"(module {COMMON}
          (type $box (struct (field $n (mut anyref)) (field $next (mut (ref null $box)))))
          (global $v (mut (ref null $v)) (ref.null $v))
          (global $b (mut (ref null $box)) (ref.null $box))
          (func $set (param $v (ref null $v)) (param $b (ref null $box)) {set})
          (func $clear (param $v (ref null $v)) (param $b (ref null $box)) {clear})
          (func $sum (param $v (ref null $v)) (param $b (ref null $box)) (result i32) (local $i i32) (local $sum i32)
            (loop $l
              (local.set $sum (i32.add (local.get $sum) (struct.get $s $n (ref.cast (ref $s)
                (array.get $v (local.get $v) (local.get $i))))))
              (local.set $sum (i32.add (local.get $sum) (struct.get $s $n (ref.cast (ref $s)
                (struct.get $box $n (local.get $b))))))
              (local.set $b (struct.get $box $next (local.get $b)))
              (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const {COUNT}))))
            (local.get $sum))
          (func (export "run") (result i32) (local $i i32)
            (global.set $v (array.new_default $v (i32.const {COUNT})))
            (loop $l
              (global.set $b (struct.new $box (ref.null any) (global.get $b)))
              (br_if $l (i32.le_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const {COUNT}))))
            (call $collect)
            (call $set (global.get $v) (global.get $b))
            (call $collect)
            (call $sum (global.get $v) (global.get $b)))
          (func (export "clear") (call $clear (global.get $v) (global.get $b)))
          (func (export "null") (call $set (array.new_default $v (i32.const {COUNT})) (ref.null $box)))
          (func (export "short") (call $set (array.new_default $v (i32.const 0)) (struct.new_default $box))))"#
    );
    let rows = crate::heaps().into_iter().map(|row| row.with("verify=on")).chain(layouts());
    for row in rows {
        let mut config = Config::new();
        config.compilation(Compilation::Lazy).compiler_verifier(true).heap(row.heap());
        let (mut store, instance) = crate::instance(&Engine::new(&config).unwrap(), (), &text).unwrap();
        let sum = instance.get_typed_func::<(), i32>(&mut store, "run").unwrap().call(&mut store, ());
        assert_eq!(sum.unwrap_or_else(|error| panic!("{row}: {error:?}")), (COUNT * (COUNT - 1)) as i32, "{row}");
        store.gc();
        for (export, trap) in
            [("clear", None), ("null", Some(Trap::NullReference)), ("short", Some(Trap::ArrayOutOfBounds))]
        {
            let result = instance.get_typed_func::<(), ()>(&mut store, export).unwrap().call(&mut store, ());
            let found = result.err().map(|error| *error.downcast_ref::<Trap>().unwrap());
            assert_eq!(found, trap, "{row}: {export}");
            store.gc();
        }
    }
}

/// An array of what globals hold, in ranges up and down, with other elements between them.
#[test]
fn what_a_long_initialiser_makes_of_globals_is_kept() {
    const GLOBALS: usize = 300;
    const COUNT: usize = 2 * GLOBALS;
    const ARRAYS: usize = 20;
    // The number in an element's object; `None`: the element is null.
    let number = |element: usize| (element % 97 != 50).then(|| element.min(COUNT - 1 - element));
    let globals: String = (0..GLOBALS)
        .map(|number| format!("(global $g{number} (ref $s) (struct.new $s (i32.const {number})))"))
        .collect();
    let elements = (0..COUNT).map(|element| match number(element) {
        Some(number) => format!("(global.get $g{number})"),
        None => "(ref.null any)".to_string(),
    });
    let elements: String = elements.collect();
    let text = format!(
        r#"(module {COMMON} {globals}
          (global $v (mut (ref null $v)) (ref.null $v))
          (func $make (result (ref $v)) (array.new_fixed $v {COUNT} {elements}))
          (func $sum (param $v (ref null $v)) (result i32) (local $i i32) (local $sum i32) (local $e anyref)
            (loop $l
              (local.set $e (array.get $v (local.get $v) (local.get $i)))
              (if (i32.eqz (ref.is_null (local.get $e))) (then
                (local.set $sum (i32.add (local.get $sum)
                  (i32.mul (local.get $i) (struct.get $s $n (ref.cast (ref $s) (local.get $e))))))))
              (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const {COUNT}))))
            (local.get $sum))
          (func $some (local $i i32)
            (loop $l (global.set $garbage (array.new_default $a (i32.const 10)))
              (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 200)))))
          (func (export "run") (result i32) (local $i i32) (local $sum i32)
            (global.set $v (array.new_default $v (i32.const {ARRAYS})))
            (loop $l
              (array.set $v (global.get $v) (local.get $i) (call $make))
              (call $some)
              (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const {ARRAYS}))))
            (call $collect)
            (loop $l
              (local.set $i (i32.sub (local.get $i) (i32.const 1)))
              (local.set $sum (i32.add (local.get $sum)
                (call $sum (ref.cast (ref $v) (array.get $v (global.get $v) (local.get $i))))))
              (br_if $l (local.get $i)))
            (local.get $sum)))"#
    );
    let expected: usize = (0..COUNT).filter_map(|element| Some(element * number(element)?)).sum();
    let rows = crate::heaps().into_iter().chain(moving()).map(|row| row.with("verify=on")).chain(layouts());
    for row in rows {
        let mut config = Config::new();
        config.compilation(Compilation::Lazy).compiler_verifier(true).heap(row.heap());
        let (mut store, instance) = crate::instance(&Engine::new(&config).unwrap(), (), &text).unwrap();
        let run = instance.get_typed_func::<(), i32>(&mut store, "run").unwrap();
        // Of objects that no collection has seen, and of others.
        for _ in 0..2 {
            let sum = run.call(&mut store, ()).unwrap_or_else(|error| panic!("{row}: {error:?}"));
            assert_eq!(sum, (ARRAYS * expected) as i32, "{row}");
        }
    }
}

/// Tables of methods, which are filled by one function with collections between.
#[test]
fn what_a_long_initialiser_stores_of_functions_is_called() {
    const TABLES: usize = 40;
    const METHODS: usize = 7;
    let method = |table: usize, field: usize| (table * METHODS + field * 3) % 100;
    let names: String = (0..100).map(|number| format!("$f{number} ")).collect();
    let methods: String = (0..100).map(|number| format!("(func $f{number} (type $t) (i32.const {number}))")).collect();
    let globals: String =
        (0..TABLES).map(|table| format!("(global $g{table} (ref $table) (struct.new_default $table))")).collect();
    let stores = (0..TABLES * METHODS).map(|number| {
        let (table, field) = (number / METHODS, number % METHODS);
        // Overwritten at once: stores are made in order.
        let before = if number % 5 == 0 {
            format!("(struct.set $table {field} (global.get $g{table}) (ref.func $f99))")
        } else {
            String::new()
        };
        // Read at once.
        let read = match number % 53 {
            0 => format!("(call $collect) (drop (call_ref $t (struct.get $table {field} (global.get $g{table}))))"),
            _ if number % 4 == 0 => "(global.set $garbage (array.new_default $a (i32.const 1)))".to_string(),
            _ => String::new(),
        };
        let function = method(table, field);
        format!("{before}(struct.set $table {field} (global.get $g{table}) (ref.func $f{function})){read}")
    });
    let stores: String = stores.collect();
    let calls = (0..TABLES * METHODS).map(|number| {
        let (table, field) = (number / METHODS, number % METHODS);
        let get = format!("(struct.get $table {field} (global.get $g{table}))");
        format!("(local.set $sum (i32.add (local.get $sum) (i32.mul (i32.const {number}) (call_ref $t {get}))))")
    });
    let calls: String = calls.collect();
    let fields = "(field (mut (ref null $t)))".repeat(METHODS);
    let text = format!(
        r#"(module (type $t (func (result i32))) {COMMON}
          (type $table (struct {fields}))
          {globals}
          (func $fill {stores})
          {methods}
          (elem declare func {names})
          (func (export "run") (result i32) (local $sum i32)
            (call $fill)
            (call $collect)
            {calls}
            (local.get $sum)))"#
    );
    let expected: usize = (0..TABLES * METHODS).map(|number| number * method(number / METHODS, number % METHODS)).sum();
    let rows = crate::heaps().into_iter().chain(moving()).map(|row| row.with("verify=on")).chain(layouts());
    for row in rows {
        let mut config = Config::new();
        config.compilation(Compilation::Lazy).compiler_verifier(true).heap(row.heap());
        let (mut store, instance) = crate::instance(&Engine::new(&config).unwrap(), (), &text).unwrap();
        let sum = instance.get_typed_func::<(), i32>(&mut store, "run").unwrap().call(&mut store, ());
        assert_eq!(sum.unwrap_or_else(|error| panic!("{row}: {error:?}")), expected as i32, "{row}");
    }
}
