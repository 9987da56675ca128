//! Loops over arrays that grow, under compiled code's feet: wherever the elements of an iteration lie, in the spine or
//! in leaves, a program does what it does on contiguous arrays, its traps and what it has done before them included.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod support;
mod world;

use std::collections::HashMap;

use legato_compiler::artifact::TrapCode;
use legato_heap::plan::AccessPlan;
use support::{growing_heaps, lengths};
use world::{Instance, Polls};

const NEW: usize = 0;
const POKE: usize = 1;
const CHECK: usize = 2;
/// The functions under test: three numbers in, one out.
const FIRST: usize = 3;

const PROGRAM: &str = r#"(module
    (type $a (array (mut i32)))
    (type $b (array (mut i8)))
    (type $w (array (mut i64)))
    (type $r (array (mut (ref null $a))))
    (type $s (struct (field (mut (ref null $a)))))
    (global $a (mut (ref null $a)) (ref.null $a))
    (global $b (mut (ref null $b)) (ref.null $b))
    (global $w (mut (ref null $w)) (ref.null $w))
    (global $r (mut (ref null $r)) (ref.null $r))
    (global $s (mut (ref null $s)) (ref.null $s))
    (global $effects (mut i32) (i32.const 0))
    (func (export "new") (param $n i32)
      (global.set $a (array.new_default $a (local.get $n)))
      (global.set $b (array.new_default $b (local.get $n)))
      (global.set $w (array.new_default $w (local.get $n)))
      (global.set $r (array.new_default $r (local.get $n)))
      (global.set $s (struct.new $s (global.get $a)))
      (global.set $effects (i32.const 0)))
    (func (export "poke") (param $i i32) (param $v i32)
      (array.set $a (global.get $a) (local.get $i) (local.get $v))
      (array.set $b (global.get $b) (local.get $i) (local.get $v))
      (array.set $w (global.get $w) (local.get $i) (i64.extend_i32_s (local.get $v)))
      (array.set $r (global.get $r) (local.get $i) (global.get $a)))
    ;; Everything there is to see, without a loop in which accesses are made.
    (func (export "check") (param $n i32) (result i32) (local $i i32) (local $s i32)
      (loop $l
        (if (i32.lt_u (local.get $i) (local.get $n)) (then
          (local.set $s (call $mix (local.get $s) (call $one (local.get $i))))
          (local.set $i (i32.add (local.get $i) (i32.const 1)))
          (br $l))))
      (call $mix (local.get $s) (global.get $effects)))

    ;; A product of matrices: values of outer loops are used in those within and behind them.
    (func (export "product") (param $n i32) (param $k i32) (param $seed i32) (result i32)
      (local $i i32) (local $j i32) (local $x i32) (local $row i32) (local $sum i32) (local $last i32)
      (loop $rows
        (local.set $row (i32.mul (local.get $i) (local.get $k)))
        (local.set $j (i32.const 0))
        (loop $columns
          (local.set $sum (local.get $seed))
          (local.set $x (i32.const 0))
          (loop $inner
            (local.set $sum (i32.add (local.get $sum) (i32.mul
              (array.get $a (global.get $a) (i32.add (local.get $row) (local.get $x)))
              (array.get_s $b (global.get $b) (i32.add (i32.mul (local.get $x) (local.get $k)) (local.get $j))))))
            (br_if $inner (i32.lt_s (local.tee $x (i32.add (local.get $x) (i32.const 1))) (local.get $k))))
          (array.set $w (global.get $w) (i32.add (local.get $row) (local.get $j)) (i64.extend_i32_s (local.get $sum)))
          (local.set $last (i32.add (local.get $last) (local.get $sum)))
          (br_if $columns (i32.lt_s (local.tee $j (i32.add (local.get $j) (i32.const 1))) (local.get $k))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $rows (i32.and (i32.lt_s (local.get $i) (local.get $k))
          (i32.lt_s (i32.add (local.get $row) (local.get $k)) (local.get $n)))))
      (call $mix (local.get $last) (i32.add (local.get $row) (local.get $j))))

    ;; Effects between accesses: none is done twice, none left out.
    (func (export "effects") (param $n i32) (param $step i32) (param $seed i32) (result i32)
      (local $i i32) (local $x i32) (local $rounds i32)
      (local.set $rounds (i32.const 40))
      (loop $l
        (local.set $x (array.get $a (global.get $a) (local.get $i)))
        (global.set $effects (i32.add (global.get $effects) (i32.const 1)))
        (local.set $x (i32.add (local.get $x) (array.get_u $b (global.get $b) (i32.rem_u (i32.add (local.get $i) (i32.const 5)) (local.get $n)))))
        (array.set $a (global.get $a) (local.get $i) (i32.add (local.get $x) (local.get $seed)))
        (global.set $effects (i32.add (global.get $effects) (i32.const 1000)))
        (array.set $w (global.get $w) (i32.rem_u (i32.mul (local.get $i) (i32.const 7)) (local.get $n))
          (i64.add (i64.extend_i32_s (local.get $x))
            (array.get $w (global.get $w) (i32.rem_u (i32.add (local.get $i) (i32.const 3)) (local.get $n)))))
        (local.set $i (i32.add (local.get $i) (local.get $step)))
        (local.set $rounds (i32.sub (local.get $rounds) (i32.const 1)))
        (br_if $l (local.get $rounds)))
      (local.get $i))

    ;; A sieve: the inner loop is left at different places, and what it has computed is used behind it.
    (func (export "sieve") (param $n i32) (param $most i32) (param $seed i32) (result i32)
      (local $p i32) (local $m i32) (local $found i32) (local $b (ref null $b))
      (local.set $b (global.get $b))
      (local.set $p (i32.const 2))
      (block $done (loop $primes
        (br_if $done (i32.ge_s (local.get $p) (local.get $n)))
        (local.set $m (i32.add (local.get $p) (local.get $p)))
        (if (i32.eqz (array.get_u $b (local.get $b) (local.get $p))) (then
          (local.set $found (i32.add (local.get $found) (i32.const 1)))
          (block $out (loop $multiples
            (br_if $out (i32.ge_s (local.get $m) (i32.sub (local.get $n) (i32.and (local.get $seed) (i32.const 3)))))
            (array.set $b (local.get $b) (local.get $m) (i32.const 1))
            (local.set $m (i32.add (local.get $m) (local.get $p)))
            (br_if $done (i32.ge_s (local.get $found) (local.get $most)))
            (br $multiples)))))
        (local.set $p (i32.add (local.get $p) (i32.const 1)))
        (br $primes)))
      (call $mix (local.get $found) (i32.add (local.get $m) (local.get $p))))

    ;; Insertion sort: reads, writes and a way out in the inner loop.
    (func (export "sort") (param $n i32) (param $count i32) (param $seed i32) (result i32)
      (local $i i32) (local $j i32) (local $x i32) (local $a (ref null $a))
      (local.set $a (global.get $a))
      (local.set $i (i32.const 1))
      (block $done (loop $l
        (br_if $done (i32.ge_u (local.get $i) (local.get $count)))
        (local.set $j (i32.rem_u (i32.mul (local.get $i) (local.get $seed)) (local.get $n)))
        (local.set $x (array.get $a (local.get $a) (local.get $j)))
        (array.set $a (local.get $a) (local.get $j) (array.get $a (local.get $a) (local.get $i)))
        (local.set $j (local.get $i))
        (block $placed (loop $move
          (br_if $placed (i32.le_s (local.get $j) (i32.const 0)))
          (br_if $placed (i32.le_s (array.get $a (local.get $a) (i32.sub (local.get $j) (i32.const 1))) (local.get $x)))
          (array.set $a (local.get $a) (local.get $j) (array.get $a (local.get $a) (i32.sub (local.get $j) (i32.const 1))))
          (local.set $j (i32.sub (local.get $j) (i32.const 1)))
          (br $move)))
        (array.set $a (local.get $a) (local.get $j) (local.get $x))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $l)))
      (i32.add (local.get $i) (local.get $j)))

    ;; The program's own checks, as compilers of languages with exceptions make them, of an array that a field holds.
    (func (export "guarded") (param $n i32) (param $step i32) (param $seed i32) (result i32)
      (local $i i32) (local $rounds i32) (local $sum i32) (local $x (ref null $a))
      (local.set $rounds (i32.const 50))
      (loop $l
        (local.set $x (struct.get $s 0 (global.get $s)))
        (if (i32.lt_s (local.get $i) (i32.const 0)) (then (return (i32.const -1))))
        (if (i32.ge_s (local.get $i) (array.len (local.get $x))) (then (return (i32.const -2))))
        (local.set $sum (call $mix (local.get $sum) (array.get $a (local.get $x) (local.get $i))))
        (if (i32.ge_s (local.get $i) (array.len (local.get $x))) (then (return (i32.const -3))))
        (array.set $a (local.get $x) (local.get $i) (i32.xor (local.get $sum) (local.get $seed)))
        (local.set $i (i32.sub (i32.add (local.get $i) (local.get $step)) (i32.and (local.get $rounds) (i32.const 1))))
        (br_if $l (local.tee $rounds (i32.sub (local.get $rounds) (i32.const 1)))))
      (local.get $sum))

    ;; A machine with states, calls and references: what lives over calls, and stores that are remembered.
    (func (export "machine") (param $n i32) (param $step i32) (param $seed i32) (result i32)
      (local $pc i32) (local $state i32) (local $rounds i32) (local $acc i32) (local $held (ref null $a))
      (local.set $rounds (i32.const 60))
      (local.set $state (local.get $seed))
      (block $halt (loop $l
        (br_if $halt (i32.eqz (local.get $rounds)))
        (local.set $rounds (i32.sub (local.get $rounds) (i32.const 1)))
        (block $next
        (block $three (block $two (block $one (block $zero
          (br_table $zero $one $two $three $zero (i32.and (local.get $state) (i32.const 3))))
          (local.set $acc (call $mix (local.get $acc) (array.get $a (global.get $a) (local.get $pc))))
          (br $next))
          (array.set $a (global.get $a) (local.get $pc) (i32.add (array.get $a (global.get $a) (local.get $pc)) (local.get $acc)))
          (br $next))
          (local.set $held (array.get $r (global.get $r) (local.get $pc)))
          (if (ref.is_null (local.get $held))
            (then (array.set $r (global.get $r) (local.get $pc) (array.new $a (local.get $state) (i32.const 3))))
            (else (local.set $acc (i32.add (local.get $acc) (array.get $a (local.get $held) (i32.const 0))))))
          (br $next))
          (array.set $r (global.get $r) (i32.sub (i32.sub (local.get $n) (local.get $pc)) (i32.const 1)) (local.get $held))
          (array.set $b (global.get $b) (local.get $pc) (local.get $acc)))
        (local.set $pc (i32.rem_u (i32.add (local.get $pc) (local.get $step)) (local.get $n)))
        (local.set $state (i32.add (local.get $state) (i32.const 1)))
        (br $l)))
      (call $mix (local.get $acc) (local.get $pc)))

    ;; A loop behind a loop: what the first computes, the second uses; and an access behind both.
    (func (export "row") (param $n i32) (param $from i32) (param $seed i32) (result i32)
      (local $i i32) (local $x i32) (local $y i32) (local $a (ref null $a))
      (local.set $a (global.get $a))
      (local.set $i (local.get $from))
      (block $done (loop $up
        (br_if $done (i32.ge_s (local.get $i) (local.get $n)))
        (array.set $a (local.get $a) (local.get $i) (i32.add (local.get $i) (local.get $seed)))
        (local.set $x (i32.mul (local.get $i) (i32.const 3)))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $up)))
      (block $end (loop $down
        (local.set $i (i32.sub (local.get $i) (i32.const 1)))
        (br_if $end (i32.lt_s (local.get $i) (i32.const 0)))
        (local.set $y (call $mix (i32.add (local.get $y) (local.get $x)) (array.get $a (local.get $a) (local.get $i))))
        (br_if $down (i32.ne (i32.and (local.get $y) (i32.const 63)) (i32.const 17)))))
      (i32.add (local.get $y) (array.get $a (local.get $a) (i32.sub (local.get $n) (i32.const 1)))))

    ;; One element before and behind a loop within: what has been found of it before need not hold behind, nor what has been read.
    (func (export "around") (param $n i32) (param $step i32) (param $seed i32) (result i32)
      (local $i i32) (local $j i32) (local $x i32) (local $a (ref null $a))
      (local.set $a (global.get $a))
      (block $done (loop $l
        (br_if $done (i32.ge_s (local.get $i) (local.get $n)))
        (local.set $x (array.get $a (local.get $a) (local.get $i)))
        (local.set $j (i32.const 0))
        (if (i32.and (local.get $i) (i32.const 1)) (then (loop $inner
          (local.set $x (call $mix (local.get $x) (array.get_s $b (global.get $b) (i32.add (local.get $i) (local.get $j)))))
          (br_if $inner (i32.lt_s (local.tee $j (i32.add (local.get $j) (i32.const 1))) (i32.const 3))))))
        (array.set $a (local.get $a) (local.get $i) (i32.add (local.get $x) (local.get $seed)))
        (local.set $i (i32.add (local.get $i) (local.get $step)))
        (br $l)))
      (call $mix (local.get $i) (local.get $j)))

    ;; A call with a handler ends a block, and is done once.
    (func (export "tried") (param $n i32) (param $step i32) (param $seed i32) (result i32)
      (local $i i32) (local $x i32) (local $a (ref null $a)) (local $w (ref null $w))
      (local.set $a (global.get $a))
      (local.set $w (global.get $w))
      (block $done (loop $l
        (br_if $done (i32.ge_s (local.get $i) (local.get $n)))
        (local.set $x (array.get $a (local.get $a) (local.get $i)))
        (block $on
          (block $caught (try_table (catch_all $caught) (call $count (local.get $seed))) (br $on))
          (return (i32.const -9)))
        (local.set $x (i32.add (local.get $x) (i32.wrap_i64 (array.get $w (local.get $w) (local.get $i)))))
        (array.set $w (local.get $w) (local.get $i) (i64.extend_i32_s (local.get $x)))
        (local.set $i (i32.add (local.get $i) (local.get $step)))
        (br_if $l (i32.gt_s (local.get $step) (i32.const 0)))))
      (local.get $x))

    ;; A search with several ways out: what it has found so far is used behind each.
    (func (export "search") (param $n i32) (param $most i32) (param $seed i32) (result i32)
      (local $i i32) (local $x i32) (local $y i32) (local $sum i32) (local $a (ref null $a))
      (local.set $a (global.get $a))
      (block $end
        (block $large (block $odd (loop $l
          (local.set $x (array.get $a (local.get $a) (local.get $i)))
          (br_if $odd (i32.eq (i32.and (local.get $x) (i32.const 31)) (local.get $seed)))
          (local.set $sum (i32.add (local.get $sum) (local.tee $y (i32.xor (local.get $x) (local.get $i)))))
          (global.set $effects (i32.add (global.get $effects) (i32.const 1)))
          (br_if $large (i32.gt_s (array.get_s $b (global.get $b) (local.get $i)) (i32.const 90)))
          (br_if $l (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $most)))
          (br $end)))
          (return (call $mix (local.get $x) (i32.add (local.get $y) (local.get $i)))))
        (local.set $sum (i32.mul (local.get $sum) (i32.const 17))))
      (call $mix (local.get $sum) (call $mix (local.get $y) (local.get $i))))

    ;; Rounds over two arrays of different elements, one of which runs out: what has been done by then stays done, and is done once.
    (func (export "rounds") (param $n i32) (param $ahead i32) (param $seed i32) (result i32)
      (local $i i32) (local $k i32) (local $last i64) (local $scale f64) (local $a (ref null $a)) (local $w (ref null $w))
      (local.set $a (global.get $a))
      (local.set $w (global.get $w))
      (local.set $scale (f64.const 1.5))
      (loop $again
        (local.set $i (local.get $k))
        (block $done (loop $l
          (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
          (local.set $last (i64.add (local.get $last) (array.get $w (local.get $w) (local.get $i))))
          (array.set $a (local.get $a) (local.get $i) (i32.add (local.get $i) (local.get $seed)))
          (local.set $scale (f64.add (local.get $scale) (f64.convert_i64_s (local.get $last))))
          (array.set $w (local.get $w) (i32.add (local.get $i) (local.get $ahead))
            (i64.add (local.get $last) (i64.extend_i32_s (array.get $a (local.get $a) (local.get $i)))))
          (local.set $i (i32.add (local.get $i) (i32.const 1)))
          (br_if $l (i32.ne (i32.and (local.get $i) (i32.const 127)) (i32.const 127)))))
        (local.set $k (i32.add (local.get $k) (i32.const 29)))
        (br_if $again (i32.lt_s (local.get $k) (i32.const 100))))
      (call $mix (i32.wrap_i64 (local.get $last)) (call $mix (local.get $i) (i32.trunc_sat_f64_s (local.get $scale)))))

    ;; References, a field, and states that a switch tells apart.
    (func (export "mark") (param $n i32) (param $step i32) (param $seed i32) (result i32)
      (local $i i32) (local $state i32) (local $held (ref null $a)) (local $r (ref null $r))
      (local.set $r (global.get $r))
      (loop $l
        (local.set $held (array.get $r (local.get $r) (local.get $i)))
        (block $next (block $two (block $one (block $zero
          (br_table $zero $one $two (local.get $state)))
          (local.set $state (i32.add (ref.is_null (local.get $held)) (i32.const 1)))
          (br $next))
          (array.set $r (local.get $r) (local.get $i) (ref.null $a))
          (local.set $state (i32.const 2))
          (br $next))
          (struct.set $s 0 (global.get $s) (local.get $held))
          (array.set $r (local.get $r) (local.get $i) (global.get $a))
          (local.set $state (i32.and (local.get $seed) (i32.const 1))))
        (local.set $seed (i32.add (local.get $seed) (i32.const 1)))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $l (i32.lt_s (local.get $i) (local.get $n))))
      (call $mix (local.get $state) (i32.add (ref.is_null (local.get $held)) (i32.mul (local.get $step) (local.get $i)))))

    ;; Down an array in place, and past its start: what has been done by then stays done.
    (func (export "fall") (param $n i32) (param $past i32) (param $seed i32) (result i32)
      (local $i i32) (local $x i32) (local $a (ref null $a)) (local $b (ref null $b))
      (local.set $a (global.get $a))
      (local.set $b (global.get $b))
      (local.set $i (i32.sub (local.get $n) (i32.const 2)))
      (loop $l
        (local.set $x (i32.add (local.get $x) (array.get $a (local.get $a) (i32.add (local.get $i) (i32.const 1)))))
        (global.set $effects (i32.add (global.get $effects) (i32.const 1)))
        (if (i32.eqz (i32.and (local.get $x) (i32.const 7))) (then
          (array.set $b (local.get $b) (i32.sub (local.get $i) (i32.const 1)) (local.get $x))))
        (array.set $a (local.get $a) (local.get $i) (i32.add (local.get $x) (array.get $a (local.get $a) (local.get $i))))
        (array.set $b (local.get $b) (local.get $i) (i32.add (local.get $x) (local.get $seed)))
        (local.set $i (i32.sub (local.get $i) (i32.const 1)))
        (br_if $l (i32.ge_s (local.get $i) (i32.sub (i32.const 1) (i32.and (local.get $past) (i32.const 3))))))
      (call $mix (local.get $x) (local.get $i)))

    (func $count (param $n i32)
      (loop $l
        (global.set $effects (i32.add (global.get $effects) (i32.const 1)))
        (br_if $l (i32.gt_s (local.tee $n (i32.sub (local.get $n) (i32.const 1))) (i32.const 0)))))
    (func $mix (param $s i32) (param $x i32) (result i32)
      (i32.add (i32.mul (local.get $s) (i32.const 31)) (local.get $x)))
    (func $one (param $i i32) (result i32)
      (call $mix (call $mix (call $mix
        (array.get $a (global.get $a) (local.get $i))
        (array.get_s $b (global.get $b) (local.get $i)))
        (i32.wrap_i64 (array.get $w (global.get $w) (local.get $i))))
        (ref.is_null (array.get $r (global.get $r) (local.get $i))))))"#;

/// How many functions there are to test, and the numbers of some.
const FUNCTIONS: usize = 13;
const PRODUCT: usize = 0;
const SIEVE: usize = 2;
const SORT: usize = 3;
const ROW: usize = 6;

/// What a run of the program shows: for each call its outcome, and all that can be seen afterwards.
type Shown = Vec<(Result<Vec<i32>, TrapCode>, Result<Vec<i32>, TrapCode>)>;

/// Makes arrays of `length` elements, writes to them at `poked`, and calls a function: with numbers within the arrays,
/// up to their end, beyond it, and before them.
fn run(instance: &mut Instance, length: i32, poked: &[i32], function: usize) -> Shown {
    instance.call(NEW, &[length], 0).unwrap();
    for (number, &index) in poked.iter().enumerate() {
        instance.call(POKE, &[index, 3 + 5 * number as i32], 0).unwrap();
    }
    let root = (f64::from(length).sqrt() as i32).clamp(1, 12);
    let params = match function {
        PRODUCT => [root, root, 13, root],
        SIEVE => [3, 1000, 9, 2],
        SORT => [length.min(40), length.min(90), length + 1, 0],
        ROW => [0, (length - 60).max(0), length - 1, -1],
        _ => [(length / 41).max(1), length / 7 + 1, length, -1],
    };
    let mut shown = Vec::new();
    for (number, param) in params.into_iter().enumerate() {
        let beyond = i32::from(function == ROW && number == 1);
        let outcome = instance.call(FIRST + function, &[length + beyond, param, 7 + number as i32], 1);
        shown.push((outcome, instance.call(CHECK, &[length], 1)));
    }
    shown
}

/// All runs with arrays of one length.
fn runs(plan: &AccessPlan, polls: Polls, length: i32) -> Vec<Shown> {
    let mut instance = Instance::new(PROGRAM, plan.clone(), polls);
    let everywhere: Vec<i32> = (0..length).collect();
    let beginning = &everywhere[..length as usize / 3];
    let sparse = [length - 1, length / 2, length / 3];
    // All of a long array takes long.
    let dense = if length > 5_000 { beginning } else { &everywhere };
    let poked = [&[][..], &sparse, dense];
    poked
        .into_iter()
        .flat_map(|poked| (0..FUNCTIONS).map(move |function| (poked, function)))
        .map(|(poked, function)| run(&mut instance, length, poked, function))
        .collect()
}

#[test]
fn loops_do_what_they_do_on_contiguous_arrays() {
    let contiguous = support::plan(legato_heap::references::References::Direct);
    let mut on_contiguous: HashMap<i32, Vec<Shown>> = HashMap::new();
    for (name, plan, layout) in growing_heaps() {
        for length in lengths(layout, 4).into_iter().skip(1) {
            let length = length as i32;
            let expected = &*on_contiguous.entry(length).or_insert_with(|| runs(&contiguous, Polls::Never, length));
            for polls in [Polls::Never, Polls::AfterLeaves] {
                for (number, (shown, expected)) in runs(&plan, polls, length).iter().zip(expected).enumerate() {
                    let (poked, function) = (number / FUNCTIONS, number % FUNCTIONS);
                    assert_eq!(shown, expected, "{name}, {polls:?}: function {function}, {length} elements, {poked}");
                }
            }
        }
    }
}
