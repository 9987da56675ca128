//! Valid programs that want too much: stack, memory, time.

use crate::{assert_traps, engine, run, run_for};
use legato::{Trap, Val};
use std::time::{Duration, Instant};

/// What exhaustion of the heap may be called.
const EXHAUSTED: [Trap; 2] = [Trap::AllocationFailure, Trap::AllocationTooLarge];

#[test]
fn deep_recursion_is_stack_overflow() {
    let engine = engine();
    for text in [
        // The plainest.
        "(module (func $f (export \"run\") (call $f)))",
        // Not a tail call, and with something to keep in the frame.
        "(module (func $f (param i64 f64) (result i64) (i64.add (local.get 0)
           (call $f (i64.add (local.get 0) (i64.const 1)) (local.get 1))))
           (func (export \"run\") (result i64) (call $f (i64.const 1) (f64.const 2))))",
        // Through a table, and through a reference.
        "(module (table 1 funcref) (elem (i32.const 0) $f) (type $t (func))
           (func $f (export \"run\") (call_indirect (type $t) (i32.const 0))))",
        "(module (type $t (func)) (elem declare func $f)
           (func $f (type $t) (call_ref $t (ref.func $f)))
           (func (export \"run\") (call $f)))",
        // With references in the frames, which a collection on the way must find.
        "(module (type $s (struct (field i32)))
           (func $f (param (ref $s)) (result i32)
             (i32.add (call $f (struct.new $s (i32.const 1))) (struct.get $s 0 (local.get 0))))
           (func (export \"run\") (result i32) (call $f (struct.new $s (i32.const 1)))))",
        // A handler in every frame does not catch it.
        "(module (func $f (export \"run\") (block $h (try_table (catch_all $h) (call $f)))))",
        // As a start function.
        "(module (func $f (call $f)) (start $f) (func (export \"run\")))",
    ] {
        assert_traps(&engine, text, &[Trap::StackOverflow]);
    }
}

#[test]
fn deep_recursion_with_large_frames_is_stack_overflow() {
    // Each frame holds hundreds of values across the call: it must not reach beyond the guard of the thread's stack.
    let locals: String = (0..800).map(|i| format!("(local $l{i} f64)")).collect();
    let sets: String =
        (0..800).map(|i| format!("(local.set $l{i} (f64.mul (local.get $x) (f64.const {i})))")).collect();
    let sum = (0..800).fold("(f64.const 0)".to_string(), |sum, i| format!("(f64.add {sum} (local.get $l{i}))"));
    let text = format!(
        "(module (func $f (param $x f64) (result f64) {locals} {sets}
           (f64.add (call $f (f64.add (local.get $x) (f64.const 1))) {sum}))
           (func (export \"run\") (result f64) (call $f (f64.const 1))))"
    );
    assert_traps(&engine(), &text, &[Trap::StackOverflow]);
}

#[test]
fn tail_calls_do_not_take_stack() {
    let text = "(module (func $even (param i32) (result i32)
        (if (i32.eqz (local.get 0)) (then (return (i32.const 1))))
        (return_call $odd (i32.sub (local.get 0) (i32.const 1))))
      (func $odd (param i32) (result i32)
        (if (i32.eqz (local.get 0)) (then (return (i32.const 0))))
        (return_call $even (i32.sub (local.get 0) (i32.const 1))))
      (func (export \"run\") (result i32) (call $even (i32.const 3000000))))";
    assert!(matches!(run(&engine(), text).unwrap()[..], [Val::I32(1)]));
}

#[test]
fn endless_loops_end_at_the_deadline() {
    let engine = engine();
    for text in [
        "(module (func (export \"run\") (loop (br 0))))",
        // Nothing but tail calls.
        "(module (func $f (export \"run\") (return_call $f)))",
        // Allocation that leaves nothing behind.
        "(module (type $s (struct (field i64))) (func (export \"run\") (loop (drop (struct.new_default $s)) (br 0))))",
        // Exceptions, thrown and caught.
        "(module (tag $t) (func (export \"run\")
           (loop $again (block $h (try_table (catch $t $h) (throw $t))) (br $again))))",
        // A start function.
        "(module (func $f (loop (br 0))) (start $f) (func (export \"run\")))",
        // Two loops in one another, each of them left now and then.
        "(module (func (export \"run\") (local i32) (loop $outer (loop $inner
           (local.set 0 (i32.add (local.get 0) (i32.const 1)))
           (br_if $inner (i32.rem_u (local.get 0) (i32.const 1000))) (br $outer)))))",
    ] {
        let start = Instant::now();
        let error = run_for(&engine, text, Duration::from_millis(200)).expect_err("the loop is interrupted");
        assert_eq!(error.downcast_ref::<Trap>(), Some(&Trap::Interrupt), "{text}: {error:?}");
        assert!(start.elapsed() < Duration::from_secs(20), "{text}: after {:?}", start.elapsed());
    }
}

#[test]
fn allocation_without_end_is_a_trap() {
    let engine = engine();
    for text in [
        // Everything here can be observed: a compiler may leave out an allocation that nobody sees. A list that is
        // kept:
        "(module (type $n (struct (field (ref null $n)) (field i64))) (global $g (export \"g\") (mut (ref null $n)) (ref.null $n))
           (func (export \"run\") (loop (global.set $g (struct.new $n (global.get $g) (i64.const 1))) (br 0))))",
        // Kept by a local alone.
        "(module (type $n (struct (field (ref null $n))))
           (func (export \"run\") (result (ref null $n)) (local $list (ref null $n)) (local $i i32)
             (loop (local.set $list (struct.new $n (local.get $list)))
               (br_if 0 (local.tee $i (i32.add (local.get $i) (i32.const 1)))))
             (local.get $list)))",
        // Larger and larger arrays.
        "(module (type $a (array (mut i64))) (global $g (export \"g\") (mut (ref null $a)) (ref.null $a))
           (func (export \"run\") (local $n i32)
             (loop (local.set $n (i32.add (i32.mul (local.get $n) (i32.const 2)) (i32.const 1)))
               (global.set $g (array.new_default $a (local.get $n))) (br 0))))",
        // A tree that grows at every leaf.
        "(module (type $t (struct (field (mut (ref null $t))) (field (mut (ref null $t)))))
           (func $grow (result (ref null $t)) (struct.new $t (call $half) (call $half)))
           (global $depth (mut i32) (i32.const 0))
           (func $half (result (ref null $t)) (local $r (ref null $t))
             (if (i32.ge_u (global.get $depth) (i32.const 26)) (then (return (ref.null $t))))
             (global.set $depth (i32.add (global.get $depth) (i32.const 1)))
             (local.set $r (call $grow))
             (global.set $depth (i32.sub (global.get $depth) (i32.const 1)))
             (local.get $r))
           (func (export \"run\") (result (ref null $t)) (call $grow)))",
        // References in a table.
        "(module (type $a (array i8)) (table $t (export \"t\") 100000 (ref null $a)) (func (export \"run\") (local $i i32)
           (loop (table.set $t (local.get $i) (array.new_default $a (i32.const 10000)))
             (local.set $i (i32.add (local.get $i) (i32.const 1))) (br 0))))",
    ] {
        assert_traps(&engine, text, &EXHAUSTED);
    }
}

#[test]
fn huge_arrays_are_a_trap() {
    let engine = engine();
    for element in ["i8", "i16", "i32", "i64", "f64", "anyref"] {
        for length in ["-1", "0x7fffffff", "0x20000001", "100000000"] {
            let text = format!(
                "(module (type $a (array (mut {element})))
                   (func (export \"run\") (result (ref $a)) (array.new_default $a (i32.const {length}))))"
            );
            assert_traps(&engine, &text, &EXHAUSTED);
        }
    }
}

#[test]
fn a_long_list_is_no_danger_to_the_collector() {
    // Marking by recursion would overflow the host's stack.
    let text =
        "(module (type $n (struct (field (ref null $n)))) (global $g (export \"g\") (mut (ref null $n)) (ref.null $n))
      (func (export \"run\") (result i32) (local $i i32)
        (loop (global.set $g (struct.new $n (global.get $g)))
          (br_if 0 (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 1000000))))
        (local.get $i)))";
    assert!(matches!(run(&engine(), text).unwrap()[..], [Val::I32(1_000_000)]));
}

#[test]
fn memories_and_tables_grow_within_their_limits_only() {
    let engine = engine();
    let grow = |declaration: &str, instruction: &str| {
        let text = format!("(module {declaration} (func (export \"run\") (result i64) {instruction}))");
        run(&engine, &text).map(|results| results[0].unwrap_i64())
    };
    let refused = [
        ("(memory 1)", "(i64.extend_i32_s (memory.grow (i32.const 65535)))"),
        ("(memory 1)", "(i64.extend_i32_s (memory.grow (i32.const -1)))"),
        ("(memory i64 1)", "(memory.grow (i64.const 0x7fffffffffff))"),
        ("(memory i64 1)", "(memory.grow (i64.const -1))"),
        ("(table 1 funcref)", "(i64.extend_i32_s (table.grow (ref.null func) (i32.const -1)))"),
        ("(table 1 externref)", "(i64.extend_i32_s (table.grow (ref.null extern) (i32.const 0x7fffffff)))"),
        ("(table i64 1 funcref)", "(table.grow (ref.null func) (i64.const -1))"),
    ];
    for (declaration, instruction) in refused {
        assert_eq!(grow(declaration, instruction).unwrap(), -1, "{declaration} {instruction}");
    }
    // More than the store's limits from the beginning: not instantiated.
    for declaration in
        ["(memory 65536)", "(memory i64 0x1000000000000)", "(memory i64 0x100000000)", "(table 0xffffffff funcref)"]
    {
        assert!(grow(declaration, "(i64.const 0)").is_err(), "{declaration}");
    }
}

#[test]
fn accesses_far_outside_are_traps() {
    let engine = engine();
    for (declaration, instruction, trap) in [
        ("(memory 1)", "(drop (i64.load offset=0xffffffff (i32.const -1)))", Trap::MemoryOutOfBounds),
        ("(memory i64 1)", "(drop (i64.load offset=0xffffffffffffffff (i64.const -1)))", Trap::MemoryOutOfBounds),
        ("(memory i64 1)", "(drop (i32.load8_u (i64.const 0x7fffffffffffffff)))", Trap::MemoryOutOfBounds),
        ("(memory 1)", "(memory.fill (i32.const 1) (i32.const 0) (i32.const -1))", Trap::MemoryOutOfBounds),
        ("(memory 1)", "(memory.copy (i32.const 1) (i32.const 0) (i32.const -1))", Trap::MemoryOutOfBounds),
        ("(memory i64 1)", "(memory.copy (i64.const -8) (i64.const -8) (i64.const 16))", Trap::MemoryOutOfBounds),
        ("(table 1 funcref)", "(drop (table.get 0 (i32.const -1)))", Trap::TableOutOfBounds),
        ("(table i64 1 funcref)", "(drop (table.get 0 (i64.const 0x100000000)))", Trap::TableOutOfBounds),
        (
            "(type $a (array (mut i64)))",
            "(array.set $a (array.new_default $a (i32.const 3)) (i32.const -1) (i64.const 1))",
            Trap::ArrayOutOfBounds,
        ),
        (
            "(type $a (array (mut i64)))",
            "(array.fill $a (array.new_default $a (i32.const 3)) (i32.const 2) (i64.const 1) (i32.const -1))",
            Trap::ArrayOutOfBounds,
        ),
        (
            "(type $a (array (mut i8)))",
            "(array.copy $a $a (array.new_default $a (i32.const 3)) (i32.const -1)
               (array.new_default $a (i32.const 3)) (i32.const 1) (i32.const 2))",
            Trap::ArrayOutOfBounds,
        ),
    ] {
        assert_traps(&engine, &format!("(module {declaration} (func (export \"run\") {instruction}))"), &[trap]);
    }
}

#[test]
fn fields_far_from_a_null_are_null_references() {
    // The last field lies beyond any guard page behind address 0.
    let fields = "(field i64) ".repeat(9_000);
    let text = format!(
        "(module (type $s (struct {fields})) (func (export \"run\") (result i64) (local (ref null $s))
           (struct.get $s 8999 (local.get 0))))"
    );
    assert_traps(&engine(), &text, &[Trap::NullReference]);
    let text = "(module (type $a (array i64)) (func (export \"run\") (result i64) (local (ref null $a))
      (array.get $a (local.get 0) (i32.const 0x7ffffff))))";
    assert_traps(&engine(), text, &[Trap::NullReference]);
}
