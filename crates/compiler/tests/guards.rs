//! The program's own bounds checks, on arrays whose first N bytes grow under compiled code's feet: each form of the
//! comparison, for numbers of several sizes and for references, with everything that a check and an access share with
//! their surroundings.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod support;
mod world;

use legato_compiler::artifact::TrapCode;
use legato_heap::plan::{AccessPlan, ArrayPlan};
use support::{growing_heaps, lengths};
use world::{Instance, Polls, with_world};

const NULL: Result<Vec<i32>, TrapCode> = Err(TrapCode::NullReference);
/// What functions return where an index is refused: `REFUSED` where it is not below the length, `NEGATIVE` where it is
/// negative, if they tell.
const REFUSED: i32 = -1000;
const NEGATIVE: i32 = -2000;

const NEW: usize = 0;
const COUNT: usize = 1;
const STORE: usize = 2;
const LOADS: std::ops::Range<usize> = 3..9;
const SETS: std::ops::Range<usize> = 9..14;
const SET_ZERO: usize = 14;
const SET_COMPUTED: usize = 15;
const UPDATE: usize = 16;
const SWAP: usize = 17;
const WITH_LENGTH: usize = 18;
const CONDITION: usize = 19;
const LATE: usize = 20;
const EARLY: usize = 21;
const GROWING: usize = 22;
const NESTED: usize = 23;
const SUM: usize = 24;
const SCATTER: usize = 25;
const NEW_AND_GET: usize = 26;

/// The comparisons of an index with a length, and whether they hold within the bounds. The signed ones come behind a
/// check for negative numbers.
const COMPARISONS: [(&str, bool, bool); 6] = [
    ("i32.lt_u (local.get $i) (array.len (local.get $a))", true, false),
    ("i32.ge_u (local.get $i) (array.len (local.get $a))", false, false),
    ("i32.gt_u (array.len (local.get $a)) (local.get $i)", true, false),
    ("i32.lt_s (local.get $i) (array.len (local.get $a))", true, true),
    ("i32.ge_s (local.get $i) (array.len (local.get $a))", false, true),
    ("i32.le_s (array.len (local.get $a)) (local.get $i)", false, true),
];

/// The start of a function's body: `$a` is the array in a global.
const ARRAY: &str = "(local $a (ref null $a)) (local.set $a (global.get $g))";

fn refuse_negative(index: &str) -> String {
    format!("(if (i32.lt_s (local.get ${index}) (i32.const 0)) (then (return (i32.const {NEGATIVE}))))")
}

/// Two signed checks of an index, as of a program that throws an exception.
fn check(array: &str, index: &str) -> String {
    format!(
        "{} (if (i32.ge_s (local.get ${index}) (array.len (local.get ${array}))) (then (return (i32.const {REFUSED}))))",
        refuse_negative(index)
    )
}

/// Functions on an array of this element type.
fn program(storage: &str, get: &str) -> String {
    let load = |index: &str| format!("({get} $a (local.get $a) (local.get ${index}))");
    let store = |value: &str| format!("(array.set $a (local.get $a) (local.get $i) {value})");
    let refused = format!("(i32.const {REFUSED})");
    let branch = |(comparison, holds_inside, is_signed): (&str, bool, bool), inside: &str| {
        let (then, otherwise) = if holds_inside { (inside, &*refused) } else { (&*refused, inside) };
        let before = if is_signed { refuse_negative("i") } else { String::new() };
        format!("{ARRAY} {before} (if (result i32) ({comparison}) (then {then}) (else {otherwise}))")
    };
    let mut functions = String::new();
    for comparison in COMPARISONS {
        let body = branch(comparison, &load("i"));
        functions += &format!("(func (param $i i32) (result i32) {body})\n");
    }
    for comparison in &COMPARISONS[..5] {
        let body = branch(*comparison, &format!("{} (i32.const 1)", store("(local.get $v)")));
        functions += &format!("(func (param $i i32) (param $v i32) (result i32) {body})\n");
    }
    let check = check("a", "i");
    let check_j = self::check("a", "j");
    let late = format!("(global.set $count (i32.add (global.get $count) (i32.const 1))) {}", load("i"));
    let set_zero = store("(i32.const 0)");
    let set_computed = store("(i32.mul (local.get $v) (i32.sub (local.get $i) (local.get $v)))");
    let update = store(&format!("(i32.add {} (local.get $v))", load("i")));
    let (at_i, at_j) = (load("i"), load("j"));
    exported(&format!(
        "(module
        (type $a (array (mut {storage})))
        (global $g (mut (ref null $a)) (ref.null $a))
        (global $count (mut i32) (i32.const 0))
        (func (param $n i32) (global.set $g (array.new_default $a (local.get $n))))
        (func (result i32) (global.get $count))
        (func $store (param $i i32) (param $v i32) (array.set $a (global.get $g) (local.get $i) (local.get $v)))
        {functions}
        ;; Constants and computed values are not there before the check.
        (func (param $i i32) (result i32) {ARRAY} {check} {set_zero} (i32.const 1))
        (func (param $i i32) (param $v i32) (result i32) {ARRAY} {check} {set_computed} (i32.const 1))
        (func (param $i i32) (param $v i32) (result i32) {ARRAY} {check} {update} {at_i})
        (func (param $i i32) (param $j i32) (result i32) (local $x i32) (local $y i32) {ARRAY}
          {check} (local.set $x {at_i})
          {check_j} (local.set $y {at_j})
          (array.set $a (local.get $a) (local.get $i) (local.get $y))
          (array.set $a (local.get $a) (local.get $j) (local.get $x))
          (i32.const 1))
        ;; The length is used otherwise.
        (func (param $i i32) (result i32) {ARRAY} {check}
          (i32.add (i32.mul {at_i} (i32.const 31)) (array.len (local.get $a))))
        ;; The comparison is used otherwise.
        (func (param $i i32) (result i32) (local $c i32) {ARRAY}
          (local.set $c (i32.lt_u (local.get $i) (array.len (local.get $a))))
          (if (local.get $c) (then (return (i32.add (i32.mul {at_i} (i32.const 2)) (local.get $c)))))
          (local.get $c))
        ;; Something happens between check and access.
        (func (param $i i32) (result i32) {ARRAY} {check} {late})
        ;; Something happens before the check.
        (func (param $i i32) (result i32) {ARRAY}
          (global.set $count (i32.add (global.get $count) (i32.const 1))) {check} {at_i})
        ;; The array grows between accesses.
        (func (param $i i32) (param $j i32) (param $v i32) (result i32) (local $s i32) {ARRAY}
          {check} (local.set $s {at_i})
          (call $store (local.get $j) (local.get $v))
          {check} (local.set $s (i32.add (i32.mul (local.get $s) (i32.const 31)) {at_i}))
          {check_j} (i32.add (i32.mul (local.get $s) (i32.const 31)) {at_j}))
        ;; An index out of the array itself.
        (func (param $i i32) (result i32) (local $j i32) {ARRAY} {check} (local.set $j {at_i}) {check_j} {at_j})
        ;; Every `$step`-th element, around the array.
        (func (param $step i32) (param $n i32) (result i32) (local $i i32) (local $s i32) {ARRAY}
          (block $done (loop $l
            (br_if $done (i32.eqz (local.get $n)))
            {check}
            (local.set $s (i32.add (i32.mul (local.get $s) (i32.const 31)) {at_i}))
            (local.set $i (i32.rem_u (i32.add (local.get $i) (local.get $step)) (array.len (local.get $a))))
            (local.set $n (i32.sub (local.get $n) (i32.const 1)))
            (br $l)))
          (local.get $s))
        (func (param $step i32) (param $v i32) (param $n i32) (result i32) (local $i i32) {ARRAY}
          (block $done (loop $l
            (br_if $done (i32.eqz (local.get $n)))
            {check}
            (array.set $a (local.get $a) (local.get $i) (local.get $v))
            (local.set $v (i32.add (local.get $v) (i32.const 1)))
            (local.set $i (i32.rem_u (i32.add (local.get $i) (local.get $step)) (array.len (local.get $a))))
            (local.set $n (i32.sub (local.get $n) (i32.const 1)))
            (br $l)))
          (i32.const 1))
        ;; The length is what the array was made with.
        (func (param $n i32) (param $i i32) (result i32) (local $a (ref $a))
          (local.set $a (array.new_default $a (local.get $n)))
          (global.set $g (local.get $a))
          (if (i32.ge_u (local.get $i) (local.get $n)) (then (return {refused})))
          {at_i}))"
    ))
}

/// A module with all its functions exported, for calls by number.
fn exported(program: &str) -> String {
    let functions = program.matches("(func ").count();
    let exports: String = (0..functions).map(|number| format!("(export \"{number}\" (func {number}))")).collect();
    format!("{} {exports})", program.trim_end().strip_suffix(')').expect("a module's end"))
}

/// What is read of a number that was stored.
type Read = fn(i32) -> i32;

/// Element types: their size, how they are declared and read, and what is read of a number that was stored.
const KINDS: [(u32, &str, &str, Read); 4] = [
    (4, "i32", "array.get", |value| value),
    (2, "i16", "array.get_s", |value| value as i16 as i32),
    (1, "i8", "array.get_u", |value| value as u8 as i32),
    (1, "i8", "array.get_s", |value| value as i8 as i32),
];

/// An array and what it should hold.
struct Model {
    instance: Instance,
    elements: Vec<i32>,
    read: Read,
    name: String,
}

impl Model {
    fn is(&mut self, function: usize, params: &[i32], expected: i32) {
        let actual = self.instance.call(function, params, 1);
        assert_eq!(actual, Ok(vec![expected]), "{}: function {function} of {params:?}", self.name);
    }

    fn set(&mut self, index: i32, value: i32) {
        self.elements[index as usize] = (self.read)(value);
    }

    fn get(&self, index: i32) -> Option<i32> {
        self.elements.get(usize::try_from(index).ok()?).copied()
    }

    /// What a check by two signed comparisons says.
    fn refused(index: i32) -> i32 {
        if index < 0 { NEGATIVE } else { REFUSED }
    }

    /// Everything but the loops at one index.
    fn check_at(&mut self, index: i32, value: i32) {
        let length = self.elements.len() as i32;
        let refused = Model::refused(index);
        for (function, (.., is_signed)) in LOADS.zip(COMPARISONS) {
            self.is(function, &[index], self.get(index).unwrap_or(if is_signed { refused } else { REFUSED }));
        }
        self.is(CONDITION, &[index], self.get(index).map_or(0, |element| 2 * element + 1));
        let length_too = self.get(index).map_or(refused, |element| element.wrapping_mul(31).wrapping_add(length));
        self.is(WITH_LENGTH, &[index], length_too);
        let late = self.get(index).unwrap_or(refused);
        let count = self.instance.call(COUNT, &[], 1).unwrap()[0];
        self.is(LATE, &[index], late);
        let counted = count + i32::from(self.get(index).is_some());
        self.is(COUNT, &[], counted);
        self.is(EARLY, &[index], late);
        self.is(COUNT, &[], counted + 1);
        let nested = self.get(index).map_or(refused, |at| self.get(at).unwrap_or(Model::refused(at)));
        self.is(NESTED, &[index], nested);

        let is_inside = self.get(index).is_some();
        for (number, (function, (.., is_signed))) in SETS.zip(COMPARISONS).enumerate() {
            let value = value + number as i32;
            let refused = if is_signed { refused } else { REFUSED };
            self.is(function, &[index, value], if is_inside { 1 } else { refused });
            if is_inside {
                self.set(index, value);
                self.is(LOADS.start, &[index], self.get(index).unwrap());
            }
        }
        let done = if is_inside { 1 } else { refused };
        self.is(SET_ZERO, &[index], done);
        if is_inside {
            self.set(index, 0);
            self.is(LOADS.start, &[index], 0);
        }
        self.is(SET_COMPUTED, &[index, value], done);
        if is_inside {
            self.set(index, value.wrapping_mul(index.wrapping_sub(value)));
            self.set(index, self.get(index).unwrap() + 3);
        }
        self.is(UPDATE, &[index, 3], self.get(index).unwrap_or(refused));
    }

    fn check_pair(&mut self, index: i32, other: i32, value: i32) {
        self.is(SWAP, &[index, other], 1);
        self.elements.swap(index as usize, other as usize);
        let before = self.get(index).unwrap();
        self.set(other, value);
        let behind = self.get(index).unwrap();
        let sum = before.wrapping_mul(31).wrapping_add(behind).wrapping_mul(31).wrapping_add(self.get(other).unwrap());
        self.is(GROWING, &[index, other, value], sum);
        // The first element has been read by then, and nothing is stored.
        let length = self.elements.len() as i32;
        self.is(SWAP, &[index, length], REFUSED);
        self.is(SWAP, &[-1, length], NEGATIVE);
    }

    fn check_all(&mut self) {
        let length = self.elements.len();
        for step in [1, 67] {
            let sum = |sum: i32, number| sum.wrapping_mul(31).wrapping_add(self.elements[number * step % length]);
            let sum = (0..length).fold(0, sum);
            self.is(SUM, &[step as i32, length as i32], sum);
        }
    }

    fn scatter(&mut self, step: usize, value: i32, count: usize) {
        self.is(SCATTER, &[step as i32, value, count as i32], 1);
        for number in 0..count {
            let index = number * step % self.elements.len();
            self.set(index as i32, value + number as i32);
        }
    }

    /// Everything, on an array of zeros that comes to be written all over.
    fn check_while_growing(&mut self) {
        let length = self.elements.len() as i32;
        self.check_all();
        // From the end, so that leaves come first.
        for index in [length - 1, length / 2, length / 3, 17, 1, 0] {
            self.check_at(index, 70 + index);
        }
        for index in [length, length + 1, length + 1000, i32::MAX, i32::MIN, -1] {
            self.check_at(index, 5);
        }
        self.check_pair(0, length - 1, 91);
        self.check_pair(length / 2, length / 3, 92);
        self.check_all();
        self.scatter(67, 1, 40);
        self.check_all();
        self.scatter(1, 100, length as usize);
        self.check_all();
        for index in [length - 1, length / 2, 0, length] {
            self.check_at(index, 7);
        }
    }
}

fn checks_stores(plan: &AccessPlan) -> bool {
    matches!(plan.arrays, ArrayPlan::Spines(spines) if spines.checks_stores())
}

#[test]
fn guarded_accesses_are_exact_while_arrays_grow() {
    for (size, storage, get, read) in KINDS {
        let program = program(storage, get);
        for (name, plan, layout) in growing_heaps() {
            for polls in [Polls::Never, Polls::AfterLeaves] {
                let instance = Instance::new(&program, plan.clone(), polls);
                let mut model = Model { instance, elements: Vec::new(), read, name: String::new() };
                for length in lengths(layout, size) {
                    let grown = with_world(|world| world.grown);
                    model.instance.call(NEW, &[length as i32], 0).unwrap();
                    model.elements = vec![0; length as usize];
                    model.name = format!("{name}, {get} {storage}, {polls:?}, {length}");
                    model.check_while_growing();
                    if layout.divides(size, length) && checks_stores(&plan) {
                        let grown = with_world(|world| world.grown) - grown;
                        assert!(grown > 0, "{}: the array has not grown", model.name);
                    }
                    let length = length as i32;
                    for (index, expected) in [(0, 0), (length - 1, 0), (length, REFUSED), (-1, REFUSED)] {
                        model.is(NEW_AND_GET, &[length, index], expected);
                    }
                }
            }
        }
    }
}

#[test]
fn null_arrays_trap() {
    let program = program("i32", "array.get");
    for (name, plan, _) in growing_heaps() {
        let mut instance = Instance::new(&program, plan, Polls::Never);
        for (function, (.., is_signed)) in LOADS.zip(COMPARISONS).chain(SETS.zip(COMPARISONS)) {
            let params: &[i32] = if SETS.contains(&function) { &[5, 1] } else { &[5] };
            assert_eq!(instance.call(function, params, 1), NULL, "{name}: function {function}");
            // Whether the index is negative is asked first.
            let negative: Vec<i32> = params.iter().map(|&param| -param).collect();
            let expected = if is_signed { Ok(vec![NEGATIVE]) } else { NULL };
            assert_eq!(instance.call(function, &negative, 1), expected, "{name}: function {function}");
        }
        for function in [SET_ZERO, WITH_LENGTH, CONDITION, LATE, NESTED] {
            assert_eq!(instance.call(function, &[0], 1), NULL, "{name}: function {function}");
        }
        assert_eq!(instance.call(COUNT, &[], 1), Ok(vec![0]), "{name}");
        assert_eq!(instance.call(EARLY, &[0], 1), NULL, "{name}");
        assert_eq!(instance.call(COUNT, &[], 1), Ok(vec![1]), "{name}");
        assert_eq!(instance.call(STORE, &[0, 0], 0), NULL, "{name}");
    }
}

/// Arrays of references to boxes, each with its number.
const REFERENCES: &str = r#"(module
    (type $box (struct (field i32)))
    (type $r (array (mut (ref null $box))))
    (global $g (mut (ref null $r)) (ref.null $r))
    (func (param $n i32) (global.set $g (array.new_default $r (local.get $n))))
    (func (param $i i32) (param $v i32) (result i32) (local $a (ref null $r))
      (local.set $a (global.get $g))
      (if (i32.lt_s (local.get $i) (i32.const 0)) (then (return (i32.const -2000))))
      (if (i32.ge_s (local.get $i) (array.len (local.get $a))) (then (return (i32.const -1000))))
      (array.set $r (local.get $a) (local.get $i) (struct.new $box (local.get $v)))
      (i32.const 1))
    ;; What is loaded lives across collections, and is stored again elsewhere.
    (func (param $i i32) (param $j i32) (result i32)
      (local $a (ref null $r)) (local $x (ref null $box)) (local $y (ref null $box))
      (local.set $a (global.get $g))
      (if (i32.lt_s (local.get $i) (i32.const 0)) (then (return (i32.const -2000))))
      (if (i32.ge_s (local.get $i) (array.len (local.get $a))) (then (return (i32.const -1000))))
      (local.set $x (array.get $r (local.get $a) (local.get $i)))
      (if (ref.is_null (local.get $x)) (then (return (i32.const -3))))
      (local.set $y (struct.new $box (i32.const 1)))
      (if (i32.lt_u (local.get $j) (array.len (local.get $a)))
        (then
          (local.set $y (array.get $r (local.get $a) (local.get $j)))
          (array.set $r (local.get $a) (local.get $j) (local.get $x))
          (array.set $r (local.get $a) (local.get $i) (local.get $y))))
      (call $collect)
      (i32.add
        (i32.mul (struct.get $box 0 (local.get $x)) (i32.const 31))
        (struct.get $box 0 (local.get $y))))
    (func $collect (drop (struct.new $box (i32.const 7))))
    ;; The sum of all, with a collection behind each.
    (func (result i32) (local $a (ref null $r)) (local $x (ref null $box)) (local $i i32) (local $s i32)
      (local.set $a (global.get $g))
      (block $done (loop $l
        (br_if $done (i32.ge_u (local.get $i) (array.len (local.get $a))))
        (local.set $x (array.get $r (local.get $a) (local.get $i)))
        (call $collect)
        (if (i32.eqz (ref.is_null (local.get $x)))
          (then (local.set $s (i32.add (i32.mul (local.get $s) (i32.const 31)) (struct.get $box 0 (local.get $x))))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $l)))
      (local.get $s)))"#;

#[test]
fn references_are_found_behind_guards() {
    let program = exported(REFERENCES);
    let [new, set, swap, sum] = [0, 1, 2, 4];
    for (name, plan, layout) in growing_heaps() {
        for length in lengths(layout, 4) {
            let mut instance = Instance::new(&program, plan.clone(), Polls::AfterLeaves);
            let name = format!("{name}, {length}");
            let length = length as i32;
            instance.call(new, &[length], 0).unwrap();
            let mut elements: Vec<Option<i32>> = vec![None; length as usize];
            let mut is = |function, params: &[i32], expected: i32| {
                let actual = instance.call(function, params, 1);
                assert_eq!(actual, Ok(vec![expected]), "{name}: function {function} of {params:?}");
            };
            for index in [length - 1, length / 2, length / 3, 0] {
                is(set, &[index, 100 + index], 1);
                elements[index as usize] = Some(100 + index);
            }
            is(set, &[length, 1], REFUSED);
            is(set, &[-1, 1], NEGATIVE);
            is(swap, &[length, 0], REFUSED);
            is(swap, &[-1, 0], NEGATIVE);
            for (index, other) in [(0, length - 1), (length / 2, length / 3), (length / 3, 0)] {
                let [x, y] = [index, other].map(|index| elements[index as usize].unwrap());
                is(swap, &[index, other], x * 31 + y);
                elements.swap(index as usize, other as usize);
                is(swap, &[index, length], elements[index as usize].unwrap() * 31 + 1);
            }
            for index in (0..length).step_by(7) {
                if elements[index as usize].is_none() {
                    is(swap, &[index, 0], -3);
                }
                is(set, &[index, index], 1);
                elements[index as usize] = Some(index);
            }
            let expected = elements.iter().flatten().fold(0i32, |sum, value| sum.wrapping_mul(31).wrapping_add(*value));
            is(sum, &[], expected);
        }
    }
}
