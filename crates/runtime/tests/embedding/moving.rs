//! Objects that move while the program runs: stores that must not keep references to old copies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use legato::{Compilation, CompileCause, Config, Engine, Result};
use legato_test_matrix::product;

use crate::{engine, instance};

/// What stores the object that is in the local `$node`, new copies of which a cycle makes all the time. The result of
/// each is kept, and holds the object.
const STORES: [(&str, &str); 7] = [
    (
        "a field of a new struct",
        "(array.set $list (global.get $kept) (local.get $i) (struct.new $pair (local.get $node)))",
    ),
    (
        "a field",
        "(local.set $pair (struct.new $pair (ref.null $node)))
         (struct.set $pair 0 (local.get $pair) (local.get $node))
         (array.set $list (global.get $kept) (local.get $i) (local.get $pair))",
    ),
    ("an element", "(array.set $list (global.get $kept) (local.get $i) (local.get $node))"),
    (
        "elements of a new array",
        "(array.set $list (global.get $kept) (local.get $i) (array.new $nodes (local.get $node) (i32.const 5)))",
    ),
    (
        "elements that are given",
        "(array.set $list (global.get $kept) (local.get $i)
            (array.new_fixed $nodes 2 (local.get $node) (local.get $node)))",
    ),
    (
        "elements that are copied",
        "(local.set $nodes (array.new_default $nodes (i32.const 3)))
         (array.copy $nodes $nodes (local.get $nodes) (i32.const 1) (global.get $all) (local.get $i) (i32.const 1))
         (array.set $list (global.get $kept) (local.get $i) (local.get $nodes))",
    ),
    (
        "a table, and a global",
        "(table.set (i32.const 2) (local.get $node)) (global.set $last (local.get $node))
         (table.copy (i32.const 0) (i32.const 1) (i32.const 3))
         (table.fill (i32.const 4) (global.get $last) (i32.const 2))
         (array.set $list (global.get $kept) (local.get $i) (table.get (i32.const 5)))",
    ),
];

#[test]
fn no_store_keeps_a_reference_to_an_old_copy() -> Result<()> {
    for (what, store) in STORES {
        let text = format!(
            r#"(module
            (type $node (sub (struct (field $number (mut i32)))))
            (type $pair (sub (struct (field $node (mut (ref null $node))))))
            (type $nodes (array (mut (ref null $node)))) (type $list (array (mut (ref null eq))))
            (table 6 (ref null $node))
            (global $all (mut (ref null $nodes)) (ref.null $nodes)) (global $last (mut (ref null $node)) (ref.null $node))
            (global $kept (mut (ref null $list)) (ref.null $list))
            (global $garbage (mut (ref null $node)) (ref.null $node))
            (func (export "run") (param $count i32) (param $rounds i32) (result i32)
                (local $i i32) (local $sum i32)
                (local $node (ref null $node)) (local $pair (ref null $pair)) (local $nodes (ref null $nodes))
                (global.set $all (array.new_default $nodes (local.get $count)))
                (global.set $kept (array.new_default $list (local.get $count)))
                (loop $each
                    (array.set $nodes (global.get $all) (local.get $i) (struct.new $node (local.get $i)))
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (br_if $each (i32.lt_u (local.get $i) (local.get $count))))
                (loop $round
                    (local.set $i (i32.const 0))
                    (loop $each
                        (local.set $node (array.get $nodes (global.get $all) (local.get $i)))
                        (global.set $garbage (struct.new $node (i32.const 0)))
                        {store}
                        (local.set $sum (i32.add (local.get $sum) (struct.get $node 0 (local.get $node))))
                        (local.set $i (i32.add (local.get $i) (i32.const 1)))
                        (br_if $each (i32.lt_u (local.get $i) (local.get $count))))
                    (local.set $rounds (i32.sub (local.get $rounds) (i32.const 1)))
                    (br_if $round (local.get $rounds)))
                (local.get $sum)))"#
        );
        for heap in product(&["collector", "references"]).iter().filter_map(|row| row.and("stress-move=on")) {
            // A unit at each allocation: a cycle goes on while the elements are read, and what they hold is stored.
            let engine = engine(&heap, "stress=1");
            let (mut store, instance) = instance(&engine, (), &text)?;
            let run = instance.get_typed_func::<(i32, i32), i32>(&mut store, "run")?;
            assert_eq!(run.call(&mut store, (300, 4))?, 4 * 300 * 299 / 2, "{what}, {heap}");
            store.verify_heap()?;
            let stats = store.heap_stats();
            assert!(stats.cycles > 1 && stats.moved_objects > 300, "{what}, {heap}: {stats:?}");
        }
    }
    Ok(())
}

/// Loops that keep where their objects lie, while each of their safepoints may move them: a struct, an array that may
/// be null before the loop, and one that is null, which the loop finds. `caught` enters its loop from a call that
/// returns or throws.
const KEEPING: &str = r#"(module
    (type $node (sub (struct (field $number (mut i32)))))
    (type $numbers (array (mut i32)))
    (tag $odd)
    (global $garbage (mut (ref null $node)) (ref.null $node))
    (func $fill (param $node (ref $node)) (param $numbers (ref null $numbers)) (param $count i32)
        (local $i i32)
        (loop $each
            (array.set $numbers (local.get $numbers) (local.get $i) (local.get $i))
            (struct.set $node 0 (local.get $node)
                (i32.add (struct.get $node 0 (local.get $node)) (array.get $numbers (local.get $numbers) (local.get $i))))
            (global.set $garbage (struct.new $node (local.get $i)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $each (i32.lt_u (local.get $i) (local.get $count)))))
    (func $sum (param $numbers (ref $numbers)) (param $node (ref $node)) (result i32)
        (local $i i32) (local $sum i32)
        (loop $each
            (local.set $sum (i32.add (local.get $sum) (array.get $numbers (local.get $numbers) (local.get $i))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $each (i32.lt_u (local.get $i) (array.len (local.get $numbers)))))
        (i32.add (local.get $sum) (struct.get $node 0 (local.get $node))))
    (func (export "run") (param $count i32) (result i32)
        (local $node (ref $node)) (local $numbers (ref $numbers))
        (local.set $node (struct.new $node (i32.const 0)))
        (local.set $numbers (array.new_default $numbers (local.get $count)))
        (call $fill (local.get $node) (local.get $numbers) (local.get $count))
        (call $sum (local.get $numbers) (local.get $node)))
    (func $throws (param $count i32)
        (global.set $garbage (struct.new $node (local.get $count)))
        (if (i32.and (local.get $count) (i32.const 1)) (then (throw $odd))))
    (func (export "caught") (param $count i32) (result i32)
        (local $node (ref $node)) (local $numbers (ref $numbers)) (local $i i32)
        (local.set $node (struct.new $node (i32.const 0)))
        (local.set $numbers (array.new_default $numbers (local.get $count)))
        (block $odd (try_table (catch $odd $odd) (call $throws (local.get $count))))
        (loop $each
            (array.set $numbers (local.get $numbers) (local.get $i) (local.get $i))
            (struct.set $node 0 (local.get $node) (i32.add (struct.get $node 0 (local.get $node)) (local.get $i)))
            (global.set $garbage (struct.new $node (local.get $i)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $each (i32.lt_u (local.get $i) (local.get $count))))
        (call $sum (local.get $numbers) (local.get $node)))
    (func (export "spin")
        (local $node (ref $node)) (local $numbers (ref $numbers)) (local $i i32)
        (local.set $node (struct.new $node (i32.const 0)))
        (local.set $numbers (array.new_default $numbers (i32.const 16)))
        (loop $each
            (array.set $numbers (local.get $numbers) (i32.and (local.get $i) (i32.const 15)) (local.get $i))
            (struct.set $node 0 (local.get $node)
                (i32.add (struct.get $node 0 (local.get $node))
                    (array.get $numbers (local.get $numbers) (i32.and (local.get $i) (i32.const 15)))))
            (if (i32.ne (struct.get $node 0 (local.get $node)) (i32.div_s
                    (i32.mul (local.get $i) (i32.add (local.get $i) (i32.const 1))) (i32.const 2)))
                (then (unreachable)))
            (global.set $garbage (struct.new $node (local.get $i)))
            (local.set $i (i32.rem_u (i32.add (local.get $i) (i32.const 1)) (i32.const 10000)))
            (if (i32.eqz (local.get $i)) (then (struct.set $node 0 (local.get $node) (i32.const 0))))
            (br $each)))
    (func (export "fail")
        (call $fill (struct.new $node (i32.const 0)) (ref.null $numbers) (i32.const 5))))"#;

#[test]
fn loops_find_what_is_moved_while_they_run() -> Result<()> {
    for heap in product(&["collector", "references"]).iter().filter_map(|row| row.and("stress-move=on")) {
        // Compiled as a whole; and when called, so that loops are entered on the stack, from code of the first tier.
        for compilation in [Compilation::Eager, Compilation::Lazy] {
            let mut config = Config::new();
            let replaced = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&replaced);
            config.compiler_verifier(true).heap(heap.with("verify=on").with("stress=1").heap());
            config.compilation(compilation).parallel_compilation(false);
            config.compile_observer(Arc::new(move |compiled| {
                let is_loop = matches!(compiled.cause, CompileCause::Loop(_));
                counted.fetch_add(usize::from(is_loop), Ordering::Relaxed);
            }));
            let (mut store, instance) = instance(&Engine::new(&config)?, (), KEEPING)?;
            for (name, count) in [("run", 3000), ("caught", 1500), ("caught", 1501)] {
                let run = instance.get_typed_func::<i32, i32>(&mut store, name)?;
                assert_eq!(
                    run.call(&mut store, count)?,
                    count * (count - 1),
                    "{name} {count}, {compilation:?}, {heap}"
                );
            }
            store.verify_heap()?;
            let stats = store.heap_stats();
            assert!(stats.cycles > 10 && stats.moved_objects > 10, "{heap}: {stats:?}");
            let fail = instance.get_typed_func::<(), ()>(&mut store, "fail")?;
            let error = fail.call(&mut store, ()).expect_err("the array is null");
            assert_eq!(error.downcast_ref(), Some(&legato::Trap::NullReference), "{heap}");
            let is_lazy = matches!(compilation, Compilation::Lazy) && cfg!(target_arch = "x86_64");
            assert_eq!(replaced.load(Ordering::Relaxed) > 2, is_lazy, "{compilation:?}, {heap}");
        }
    }
    Ok(())
}

/// Another thread ends a loop that keeps where its objects lie, wherever it is.
#[test]
fn loops_that_keep_locations_are_interrupted() -> Result<()> {
    for heap in product(&["collector", "references"]).iter().filter_map(|row| row.and("stress-move=on")) {
        for compilation in [Compilation::Eager, Compilation::Lazy] {
            let mut config = Config::new();
            config.compiler_verifier(true).heap(heap.with("verify=on").with("stress=3").heap());
            config.compilation(compilation).parallel_compilation(false);
            let (mut store, instance) = instance(&Engine::new(&config)?, (), KEEPING)?;
            let spin = instance.get_typed_func::<(), ()>(&mut store, "spin")?;
            let run = instance.get_typed_func::<i32, i32>(&mut store, "run")?;
            for milliseconds in [3, 11] {
                let deadline = store.set_deadline(Duration::from_millis(milliseconds));
                let error = spin.call(&mut store, ()).expect_err("interrupted");
                drop(deadline);
                assert_eq!(error.downcast_ref(), Some(&legato::Trap::Interrupt), "{compilation:?}, {heap}: {error:#}");
                store.verify_heap()?;
                assert_eq!(run.call(&mut store, 100)?, 100 * 99, "{compilation:?}, {heap}");
            }
            // On a busy machine no cycle may have ended before the interruptions.
            for _ in 0..1000 {
                if store.heap_stats().moved_objects == 0 {
                    assert_eq!(run.call(&mut store, 100)?, 100 * 99, "{compilation:?}, {heap}");
                }
            }
            assert!(store.heap_stats().moved_objects > 0, "{heap}");
        }
    }
    Ok(())
}
