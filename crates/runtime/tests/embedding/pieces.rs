//! Heaps in pieces: what lives lies scattered, and most runs of free cells are of one cell.

use std::time::Duration;

use legato::Result;
use legato_test_matrix::{Row, product};

use crate::{engine, instance};

/// Objects in the program's table: structs, and arrays whose length is known late.
const COUNT: i32 = 4000;

/// `fill` makes the objects of some numbers anew, `drop` gives them up, `check` traps unless every object there is has
/// the contents that its number gives it. The numbers are those from `from` on, `step` apart.
const TEXT: &str = r#"(module
    (type $pair (struct (field $number (mut i64)) (field $other (mut i64))))
    (type $words (array (mut i64)))
    (type $all (array (mut eqref)))
    (global $all (mut (ref null $all)) (ref.null $all))
    (func (export "start") (param $count i32)
        (global.set $all (array.new_default $all (local.get $count))))
    (func $make (param $number i32) (param $length i32) (result eqref)
        (local $words (ref null $words)) (local $pair (ref null $pair))
        (if (i32.and (local.get $number) (i32.const 2)) (then
            ;; Whether new memory is zero, too.
            (local.set $words (array.new_default $words (local.get $length)))
            (if (i32.eqz (i64.eqz (array.get $words (local.get $words) (i32.const 1)))) (then unreachable))
            (array.set $words (local.get $words) (i32.const 0) (i64.extend_i32_u (local.get $number)))
            (return (local.get $words))))
        (local.set $pair (struct.new_default $pair))
        (if (i32.eqz (i64.eqz (struct.get $pair $other (local.get $pair)))) (then unreachable))
        (struct.set $pair $number (local.get $pair) (i64.extend_i32_u (local.get $number)))
        (local.get $pair))
    (func (export "fill") (param $from i32) (param $step i32)
        (loop $next
            (array.set $all (global.get $all) (local.get $from) (call $make (local.get $from) (i32.const 2)))
            (local.set $from (i32.add (local.get $from) (local.get $step)))
            (br_if $next (i32.lt_u (local.get $from) (array.len (global.get $all))))))
    (func (export "drop") (param $from i32) (param $step i32)
        (loop $next
            (array.set $all (global.get $all) (local.get $from) (ref.null eq))
            (local.set $from (i32.add (local.get $from) (local.get $step)))
            (br_if $next (i32.lt_u (local.get $from) (array.len (global.get $all))))))
    (func (export "check") (result i32)
        (local $number i32) (local $any eqref) (local $found i64) (local $count i32)
        (loop $next
            (local.set $any (array.get $all (global.get $all) (local.get $number)))
            (if (i32.eqz (ref.is_null (local.get $any))) (then
                (local.set $count (i32.add (local.get $count) (i32.const 1)))
                (if (i32.and (local.get $number) (i32.const 2))
                    (then (local.set $found
                        (array.get $words (ref.cast (ref $words) (local.get $any)) (i32.const 0))))
                    (else (local.set $found (struct.get $pair $number (ref.cast (ref $pair) (local.get $any))))))
                (if (i64.ne (local.get $found) (i64.extend_i32_u (local.get $number))) (then unreachable))))
            (local.set $number (i32.add (local.get $number) (i32.const 1)))
            (br_if $next (i32.lt_u (local.get $number) (array.len (global.get $all)))))
        (local.get $count)))"#;

/// The heaps that are collected in slices, and allocate in cells.
fn heaps() -> Vec<Row> {
    let is_realtime = |row: &Row| matches!(row.heap().collector, legato::Collector::Realtime(_));
    let rows: Vec<Row> = product(&["collector", "references"]).into_iter().filter(is_realtime).collect();
    assert!(rows.len() >= 6, "every reference model goes with the collector");
    rows
}

#[test]
fn compiled_code_takes_runs_by_itself() -> Result<()> {
    for heap in heaps() {
        let engine = engine(&heap, "schedule=work,min=8M");
        let (mut store, instance) = instance(&engine, (), TEXT)?;
        let [fill, drop] = ["fill", "drop"].map(|name| instance.get_typed_func::<(i32, i32), ()>(&mut store, name));
        let (fill, drop) = (fill?, drop?);
        let check = instance.get_typed_func::<(), i32>(&mut store, "check")?;
        instance.get_typed_func::<i32, ()>(&mut store, "start")?.call(&mut store, COUNT)?;
        fill.call(&mut store, (0, 1))?;
        // Every second of the structs, and of the arrays: they have cells of one size.
        drop.call(&mut store, (0, 4))?;
        drop.call(&mut store, (2, 4))?;
        store.gc();
        let before = store.heap_stats();
        fill.call(&mut store, (0, 4))?;
        fill.call(&mut store, (2, 4))?;
        let stats = store.heap_stats();
        assert_eq!(stats.collections, before.collections, "{heap}");
        let slow = stats.slow_allocations - before.slow_allocations;
        // Free handles lie scattered, too, and have no queue.
        let has_handles = heap.heap().references.plan().handles.is_some();
        assert!(has_handles || slow < COUNT as u64 / 2 / 32, "{heap}: {slow} of {} objects", COUNT / 2);
        assert_eq!(check.call(&mut store, ())?, COUNT, "{heap}");
        store.verify_heap()?;
    }
    Ok(())
}

#[test]
fn runs_that_wait_while_cycles_begin_and_end() -> Result<()> {
    for heap in heaps() {
        let engine = engine(&heap, "schedule=work,min=256K");
        let (mut store, instance) = instance(&engine, (), TEXT)?;
        let [fill, drop] = ["fill", "drop"].map(|name| instance.get_typed_func::<(i32, i32), ()>(&mut store, name));
        let (fill, drop) = (fill?, drop?);
        let check = instance.get_typed_func::<(), i32>(&mut store, "check")?;
        instance.get_typed_func::<i32, ()>(&mut store, "start")?.call(&mut store, COUNT)?;
        fill.call(&mut store, (0, 1))?;
        let mut cycles = 0;
        for round in 0..30 {
            drop.call(&mut store, (round % 2, 2))?;
            store.gc();
            // Up to here, some of the runs of the queues have been taken, and others wait while cycles begin.
            for part in 0..4 {
                fill.call(&mut store, (round % 2 + 2 * part, 8))?;
                (0..part * round).for_each(|_| _ = store.collect_some(Duration::ZERO));
                check.call(&mut store, ())?;
            }
            cycles = store.heap_stats().cycles;
            while !store.collect_some(Duration::from_secs(1)) {}
            assert_eq!(check.call(&mut store, ())?, COUNT, "{heap}");
            store.verify_heap()?;
        }
        assert!(cycles > 0 && store.heap_stats().slices > 0, "{heap}: no cycle has had slices");
    }
    Ok(())
}
