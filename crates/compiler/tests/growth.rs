//! First N bytes that grow, under compiled code's feet: exact traps on arrays in one piece and on spines that have
//! grown not at all, in part, or altogether, with WebAssembly's check of the index and with the program's own, in and
//! outside of loops.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod support;
mod world;

use legato_compiler::artifact::TrapCode;
use legato_heap::plan::{AccessPlan, ArrayPlan};
use support::{growing_heaps, lengths};
use world::{Instance, Polls, with_world};

const NEW: usize = 0;
const GET: usize = 1;
const SET: usize = 2;
const GUARDED: usize = 3;
const GUARDED_SET: usize = 4;
const SUM_OF_CALLS: usize = 5;
const GUARDED_SUM: usize = 6;
const SCATTER: usize = 7;
const IN_ORDER: usize = 8;
const COUNT: usize = 9;
const TWO: usize = 10;
const WHOLE: usize = 11;
const NEXT: usize = 12;
const FILLED: usize = 13;

const PROGRAM: &str = r#"(module
    (type $a (array (mut i32)))
    (type $r (array (mut (ref null $a))))
    (global $g (mut (ref null $a)) (ref.null $a))
    (global $count (mut i32) (i32.const 0))
    (func (export "new") (param $n i32) (global.set $g (array.new_default $a (local.get $n))))
    (func (export "get") (param $i i32) (result i32) (array.get $a (global.get $g) (local.get $i)))
    (func (export "set") (param $i i32) (param $v i32) (array.set $a (global.get $g) (local.get $i) (local.get $v)))
    ;; The program's own comparison, unsigned.
    (func (export "guarded") (param $i i32) (result i32) (local $a (ref null $a))
      (local.set $a (global.get $g))
      (if (result i32) (i32.lt_u (local.get $i) (array.len (local.get $a)))
        (then (array.get $a (local.get $a) (local.get $i))) (else (i32.const -1))))
    ;; The program's own comparisons, signed.
    (func (export "guarded_set") (param $i i32) (param $v i32) (result i32) (local $a (ref null $a))
      (local.set $a (global.get $g))
      (if (i32.lt_s (local.get $i) (i32.const 0)) (then (return (i32.const -2))))
      (if (i32.ge_s (local.get $i) (array.len (local.get $a))) (then (return (i32.const -1))))
      (array.set $a (local.get $a) (local.get $i) (local.get $v))
      (array.get $a (local.get $a) (local.get $i)))
    ;; A loop that calls.
    (func (export "sum_of_calls") (param $from i32) (param $to i32) (result i32) (local $a (ref null $a)) (local $s i32)
      (local.set $a (global.get $g))
      (block $done (loop $l
        (br_if $done (i32.ge_u (local.get $from) (local.get $to)))
        (local.set $s (i32.add (i32.mul (local.get $s) (i32.const 31))
          (call $next (array.get $a (local.get $a) (local.get $from)))))
        (local.set $from (i32.add (local.get $from) (i32.const 1)))
        (br $l)))
      (local.get $s))
    ;; A loop up to the length.
    (func (export "guarded_sum") (result i32) (local $a (ref null $a)) (local $s i32) (local $i i32)
      (local.set $a (global.get $g))
      (block $done (loop $l
        (br_if $done (i32.ge_u (local.get $i) (array.len (local.get $a))))
        (local.set $s (i32.add (i32.mul (local.get $s) (i32.const 31)) (array.get $a (local.get $a) (local.get $i))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $l)))
      (local.get $s))
    ;; Stores `$v`, `$v + 1`, ... at every `$step`-th place, around the array `$n` times over `$m`.
    (func (export "scatter") (param $m i32) (param $step i32) (param $v i32) (param $n i32) (local $a (ref null $a)) (local $i i32)
      (local.set $a (global.get $g))
      (block $done (loop $l
        (br_if $done (i32.eqz (local.get $n)))
        (array.set $a (local.get $a) (i32.rem_u (local.get $i) (local.get $m)) (local.get $v))
        (local.set $i (i32.add (local.get $i) (local.get $step)))
        (local.set $v (i32.add (local.get $v) (i32.const 1)))
        (local.set $n (i32.sub (local.get $n) (i32.const 1)))
        (br $l))))
    ;; The value comes before the store's checks.
    (func (export "in_order") (param $i i32)
      (array.set $a (global.get $g) (local.get $i)
        (block (result i32)
          (global.set $count (i32.add (global.get $count) (i32.const 1))) (global.get $count))))
    (func (export "count") (result i32) (global.get $count))
    ;; Two stores: the first is done before the second's check.
    (func (export "two") (param $i i32) (param $j i32)
      (array.set $a (global.get $g) (local.get $i) (i32.const 71))
      (array.set $a (global.get $g) (local.get $j) (i32.const 72)))
    ;; An array that is known to be in one piece.
    (func (export "whole") (param $i i32) (param $v i32) (result i32) (local $a (ref $a))
      (local.set $a (array.new_default $a (i32.const 100)))
      (array.set $a (local.get $a) (local.get $i) (local.get $v))
      (array.get $a (local.get $a) (local.get $i)))
    (func $next (export "next") (param $v i32) (result i32) (i32.add (local.get $v) (i32.const 1)))
    ;; A loop, perhaps of no turns, fills the array before it is accessed.
    (func (export "filled") (param $n i32) (param $i i32) (result i32) (local $r (ref $r))
      (local.set $r (array.new $r (global.get $g) (local.get $n)))
      (ref.eq (global.get $g) (array.get $r (local.get $r) (local.get $i)))))"#;

const OUTSIDE: Result<Vec<i32>, TrapCode> = Err(TrapCode::ArrayOutOfBounds);
const NULL: Result<Vec<i32>, TrapCode> = Err(TrapCode::NullReference);

/// An array and what it should hold.
struct Model {
    instance: Instance,
    elements: Vec<i32>,
    name: String,
}

impl Model {
    fn new(name: &str, plan: &AccessPlan, polls: Polls, length: u32) -> Model {
        let mut instance = Instance::new(PROGRAM, plan.clone(), polls);
        instance.call(NEW, &[length as i32], 0).unwrap();
        Model { instance, elements: vec![0; length as usize], name: format!("{name}, {polls:?}, {length}") }
    }

    fn call(&mut self, function: usize, params: &[i32], results: usize) -> Result<Vec<i32>, TrapCode> {
        self.instance.call(function, params, results)
    }

    fn scatter(&mut self, step: usize, value: i32, count: usize) {
        let length = self.elements.len();
        let params = [length as i32, step as i32, value, count as i32];
        assert_eq!(self.call(SCATTER, &params, 0), Ok(vec![]), "{}", self.name);
        for number in 0..count {
            self.elements[number * step % length] = value + number as i32;
        }
    }

    fn sum(&self, by: i32) -> i32 {
        self.elements.iter().fold(0i32, |sum, &value| sum.wrapping_mul(31).wrapping_add(value + by))
    }

    /// Every access at and around the end, and both loops over everything.
    fn check(&mut self) {
        let name = self.name.clone();
        let length = self.elements.len() as i32;
        for index in [0, 1, 15, 16, 17, 79, 80, 81, length / 2, length - 2, length - 1] {
            let Some(&expected) = self.elements.get(index as usize) else { continue };
            let expected = Ok(vec![expected]);
            assert_eq!(self.call(GET, &[index], 1), expected, "{name}: {index}");
            assert_eq!(self.call(GUARDED, &[index], 1), expected, "{name}: {index}");
        }
        for index in [length, length + 1, length + 1000, i32::MAX, i32::MIN, -1] {
            assert_eq!(self.call(GET, &[index], 1), OUTSIDE, "{name}: {index}");
            assert_eq!(self.call(SET, &[index, 0], 0), OUTSIDE, "{name}: {index}");
            assert_eq!(self.call(SET, &[index, 5], 0), OUTSIDE, "{name}: {index}");
            assert_eq!(self.call(GUARDED, &[index], 1), Ok(vec![-1]), "{name}: {index}");
            let refused = if index < 0 { -2 } else { -1 };
            assert_eq!(self.call(GUARDED_SET, &[index, 6], 1), Ok(vec![refused]), "{name}: {index}");
        }
        assert_eq!(self.call(SUM_OF_CALLS, &[0, length], 1), Ok(vec![self.sum(1)]), "{name}");
        assert_eq!(self.call(SUM_OF_CALLS, &[length - 1, length + 1], 1), OUTSIDE, "{name}");
        assert_eq!(self.call(GUARDED_SUM, &[], 1), Ok(vec![self.sum(0)]), "{name}");
    }
}

#[test]
fn accesses_are_exact_while_arrays_grow() {
    for (name, plan, layout) in growing_heaps() {
        for length in lengths(layout, 4) {
            for polls in [Polls::Never, Polls::AfterLeaves] {
                let mut model = Model::new(&name, &plan, polls, length);
                model.check();
                // From the end, so that leaves come first; then all over; then from the start.
                for index in [length - 1, length / 2, length / 3] {
                    let set = model.call(GUARDED_SET, &[index as i32, 8], 1);
                    assert_eq!(set, Ok(vec![8]), "{}", model.name);
                    model.elements[index as usize] = 8;
                }
                model.check();
                model.scatter(67, 1, 40);
                model.check();
                model.scatter(1, 1000, length as usize);
                model.check();
                let grown = with_world(|world| world.grown);
                // Without the zero leaf, nothing asks for leaves, and arrays grow at collections only.
                let ArrayPlan::Spines(spines) = plan.arrays else { unreachable!("a plan with spines") };
                if layout.divides(4, length) && spines.checks_stores() {
                    assert!(grown > 0, "{}: the array has not grown", model.name);
                }
            }
        }
    }
}

#[test]
fn effects_keep_their_order() {
    for (name, plan, layout) in growing_heaps() {
        for length in lengths(layout, 4) {
            let mut model = Model::new(&name, &plan, Polls::Never, length);
            let end = length as i32;
            assert_eq!(model.call(IN_ORDER, &[end], 0), OUTSIDE, "{name}");
            assert_eq!(model.call(COUNT, &[], 1), Ok(vec![1]), "{name}");
            assert_eq!(model.call(IN_ORDER, &[end - 1], 0), Ok(vec![]), "{name}");
            assert_eq!(model.call(GET, &[end - 1], 1), Ok(vec![2]), "{name}");
            assert_eq!(model.call(TWO, &[end - 1, end], 0), OUTSIDE, "{name}");
            assert_eq!(model.call(GET, &[end - 1], 1), Ok(vec![71]), "{name}");
            assert_eq!(model.call(TWO, &[-1, 0], 0), OUTSIDE, "{name}");
            let first = if length == 1 { 71 } else { 0 };
            assert_eq!(model.call(GET, &[0], 1), Ok(vec![first]), "{name}");
        }
    }
}

#[test]
fn null_arrays_trap() {
    for (name, plan, _) in growing_heaps() {
        let mut instance = Instance::new(PROGRAM, plan, Polls::Never);
        for index in [0, 5, -1] {
            assert_eq!(instance.call(GET, &[index], 1), NULL, "{name}");
            assert_eq!(instance.call(SET, &[index, 1], 0), NULL, "{name}");
            assert_eq!(instance.call(GUARDED, &[index], 1), NULL, "{name}");
            assert_eq!(instance.call(TWO, &[index, 0], 0), NULL, "{name}");
            assert_eq!(instance.call(IN_ORDER, &[index], 0), NULL, "{name}");
        }
        assert_eq!(instance.call(COUNT, &[], 1), Ok(vec![3]), "{name}");
        assert_eq!(instance.call(GUARDED_SET, &[-1, 1], 1), Ok(vec![-2]), "{name}");
        assert_eq!(instance.call(GUARDED_SET, &[1, 1], 1), NULL, "{name}");
        assert_eq!(instance.call(SUM_OF_CALLS, &[0, 0], 1), Ok(vec![0]), "{name}");
        assert_eq!(instance.call(SUM_OF_CALLS, &[0, 1], 1), NULL, "{name}");
        assert_eq!(instance.call(GUARDED_SUM, &[], 1), NULL, "{name}");
        assert_eq!(instance.call(SCATTER, &[10, 3, 1, 1], 0), NULL, "{name}");
        // The remainder traps before the array is looked at.
        assert_eq!(instance.call(SCATTER, &[0, 3, 1, 1], 0), Err(TrapCode::IntegerDivisionByZero), "{name}");
    }
}

/// Arrays of a known length that is not divided are checked against that length alone.
#[test]
fn arrays_known_to_be_in_one_piece() {
    for (name, plan, _) in growing_heaps() {
        let mut instance = Instance::new(PROGRAM, plan, Polls::Never);
        for index in [0, 1, 63, 64, 99] {
            assert_eq!(instance.call(WHOLE, &[index, 7], 1), Ok(vec![7]), "{name}");
        }
        for index in [100, 101, -1] {
            assert_eq!(instance.call(WHOLE, &[index, 7], 1), OUTSIDE, "{name}");
        }
        assert_eq!(instance.call(NEXT, &[1], 1), Ok(vec![2]), "{name}");
    }
}

/// What is read of an array in the loop that fills it is not known behind the loop.
#[test]
fn a_new_array_is_accessed_behind_the_loop_that_fills_it() {
    for (name, plan, _) in growing_heaps() {
        let mut instance = Instance::new(PROGRAM, plan, Polls::Never);
        instance.call(NEW, &[7], 0).unwrap();
        for length in [0, 1, 15, 16, 5000] {
            for index in [0, 14, length - 1, length, length + 1] {
                let expected = if (0..length).contains(&index) { Ok(vec![1]) } else { OUTSIDE };
                assert_eq!(instance.call(FILLED, &[length, index], 1), expected, "{name}: {index} of {length}");
            }
        }
    }
}
