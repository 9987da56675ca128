//! Loops that walk through arrays of spines and leaves: across every boundary, in both directions, over one array under
//! two names, with collections that move it in the middle, and with traps at exactly the right index.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod support;
mod world;

use legato_compiler::artifact::TrapCode;
use legato_heap::layout::SpineLayout;
use legato_heap::plan::{AccessPlan, ArrayPlan};
use legato_heap::references::References;
use support::{divided, is_possible, plans, spine_plans};
use world::{Instance, Polls, with_world};

const FILL: usize = 0;
const SUM: usize = 1;
const COPY: usize = 2;
const SHIFT: usize = 3;
const DOWN: usize = 4;
const SPARSE: usize = 5;
const NEIGHBOURS: usize = 6;
const PAIRS: usize = 7;
const NEW: usize = 8;
const SWAP: usize = 9;
const SAME: usize = 10;
const GET: usize = 11;
const WINDOW: usize = 12;
const WRAP: usize = 13;
const CONSTANT: usize = 14;
const ALIAS: usize = 15;

/// Loops over the arrays in two globals, of element type `storage`.
fn program(storage: &str, get: &str) -> String {
    let a = |index: &str| format!("({get} $a (local.get $x) {index})");
    let b = |index: &str| format!("({get} $a (local.get $y) {index})");
    let i = "(local.get $i)";
    let arrays = "(local $x (ref null $a)) (local $y (ref null $a)) (local $s i32)
        (local.set $x (global.get $g)) (local.set $y (global.get $h))";
    // Counts `$i` up from `$from` to below `$to`.
    let up = |step: u32, body: &str| {
        format!(
            "{arrays} (local.set $i (local.get $from))
            (block $done (loop $l
              (br_if $done (i32.ge_s {i} (local.get $to)))
              {body}
              (local.set $i (i32.add {i} (i32.const {step})))
              (br $l)))"
        )
    };
    let add = |value: String| format!("(local.set $s (i32.add (i32.mul (local.get $s) (i32.const 31)) {value}))");
    let plus = |index: &str, by: i32| format!("(i32.add {index} (i32.const {by}))");
    let result = "(local.get $s)";
    let range = "(param $from i32) (param $to i32)";
    let fill = up(1, &format!("(array.set $a (local.get $x) {i} (i32.add (local.get $v) {i}))"));
    let sum = up(1, &add(a(i)));
    let copy = up(1, &format!("(array.set $a (local.get $x) {i} {})", b(i)));
    let shift = up(1, &format!("(array.set $a (local.get $x) {} {})", plus(i, 1), a(i)));
    let down = format!(
        "{arrays} (local.set $i (i32.sub (local.get $to) (i32.const 1)))
        (block $done (loop $l
          (br_if $done (i32.lt_s {i} (local.get $from)))
          {}
          (array.set $a (local.get $y) {i} (local.get $s))
          (local.set $i (i32.sub {i} (i32.const 1)))
          (br $l)))",
        add(a(i))
    );
    // Reads everything, writes now and then.
    let sparse = up(
        1,
        &format!(
            "{} (if (i32.eqz (i32.rem_u {i} (local.get $v)))
              (then (array.set $a (local.get $x) {i} (i32.add (local.get $s) (i32.const 1)))))",
            add(a(i))
        ),
    );
    let neighbours = up(
        1,
        &format!(
            "(array.set $a (local.get $y) {i} (i32.add {} (i32.add {} {})))",
            a(&plus(i, -1)),
            a(i),
            a(&plus(i, 1))
        ),
    );
    let twice = format!("(i32.shl {i} (i32.const 1))");
    let pairs =
        up(1, &format!("(array.set $a (local.get $x) {} {}) {}", plus(&twice, 1), a(&twice), add(a(&plus(&twice, 1)))));
    // Reads through one name what it writes through the other.
    let same = up(
        1,
        &format!(
            "{} (array.set $a (local.get $y) {i} (i32.add (local.get $v) {i})) {} {}",
            add(a(i)),
            add(a(i)),
            add(b(i))
        ),
    );
    let window = up(
        3,
        &format!(
            "(array.set $a (local.get $x) (i32.add {i} (local.get $v)) {i}) {}",
            add(a(&format!("(i32.add (local.get $v) {i})")))
        ),
    );
    // Passes the greatest number: what lies behind is only the start again where no check has trapped.
    let wrap = format!(
        "{arrays} (local.set $i (local.get $from))
        (loop $l
          (if (i32.lt_u {i} (local.get $v)) (then {}))
          (local.set $i (i32.add {i} (i32.const 16)))
          (br_if $l (i32.ne {i} (local.get $to))))",
        add(a(i))
    );
    let constant = up(1, &format!("{} (array.set $a (local.get $x) (i32.const 3) {i}) {}", add(a(i)), add(a(i))));
    format!(
        "(module
        (type $a (array (mut {storage})))
        (global $g (mut (ref null $a)) (ref.null $a))
        (global $h (mut (ref null $a)) (ref.null $a))
        (func (export \"fill\") {range} (param $v i32) (local $i i32) {fill})
        (func (export \"sum\") {range} (result i32) (local $i i32) {sum} {result})
        (func (export \"copy\") {range} (local $i i32) {copy})
        (func (export \"shift\") {range} (local $i i32) {shift})
        (func (export \"down\") {range} (result i32) (local $i i32) {down} {result})
        (func (export \"sparse\") {range} (param $v i32) (result i32) (local $i i32) {sparse} {result})
        (func (export \"neighbours\") {range} (local $i i32) {neighbours})
        (func (export \"pairs\") {range} (result i32) (local $i i32) {pairs} {result})
        (func (export \"new\") (param $n i32) (global.set $g (array.new_default $a (local.get $n))))
        (func (export \"swap\") (local $x (ref null $a))
          (local.set $x (global.get $g)) (global.set $g (global.get $h)) (global.set $h (local.get $x)))
        (func (export \"same\") {range} (param $v i32) (result i32) (local $i i32) {same} {result})
        (func (export \"get\") (param $i i32) (result i32) ({get} $a (global.get $g) (local.get $i)))
        (func (export \"window\") {range} (param $v i32) (result i32) (local $i i32) {window} {result})
        (func (export \"wrap\") {range} (param $v i32) (result i32) (local $i i32) {wrap} {result})
        (func (export \"constant\") {range} (result i32) (local $i i32) {constant} {result})
        (func (export \"alias\") (global.set $h (global.get $g))))"
    )
}

/// The heaps of these tests: with and without moving, each layout.
fn heaps() -> Vec<(String, AccessPlan)> {
    let mut heaps = Vec::new();
    for (name, plan) in plans() {
        for (layout, arrays) in spine_plans() {
            // One heap that does not move is enough, but for the handles.
            let is_wanted = plan.references == References::Direct.plan() || layout.contains("shared");
            if is_wanted && is_possible(plan.references, arrays) {
                heaps.push((format!("{name}, {layout}"), AccessPlan { arrays, ..plan.clone() }));
            }
        }
    }
    heaps
}

fn layout(plan: &AccessPlan) -> SpineLayout {
    match plan.arrays {
        ArrayPlan::Spines(plan) => plan.layout,
        ArrayPlan::Contiguous => panic!("a plan with spines"),
    }
}

fn mix(sum: i32, value: i32) -> i32 {
    sum.wrapping_mul(31).wrapping_add(value)
}

/// Two arrays, and what they should hold.
struct Model {
    instance: Instance,
    /// What a packed element keeps of a number.
    mask: i32,
    x: Vec<i32>,
    y: Vec<i32>,
    name: String,
}

impl Model {
    fn new(name: &str, kind: &(&str, &str, i32), plan: &AccessPlan, polls: Polls, length: usize) -> Model {
        let instance = Instance::new(&program(kind.0, kind.1), plan.clone(), polls);
        let name = format!("{name}, {}, {polls:?}, {length}", kind.0);
        let mut model = Model { instance, mask: kind.2, x: vec![0; length], y: vec![0; length], name };
        for _ in 0..2 {
            model.call(NEW, &[length as i32], 0);
            model.call(SWAP, &[], 0);
        }
        model
    }

    fn call(&mut self, function: usize, params: &[i32], results: usize) -> Vec<i32> {
        self.instance.call(function, params, results).unwrap_or_else(|trap| panic!("{}: {trap:?}", self.name))
    }

    fn swap(&mut self) {
        self.call(SWAP, &[], 0);
        std::mem::swap(&mut self.x, &mut self.y);
    }

    fn fill(&mut self, from: usize, to: usize, value: i32) {
        self.call(FILL, &[from as i32, to as i32, value], 0);
        for index in from..to {
            self.x[index] = (value + index as i32) & self.mask;
        }
    }

    /// Checks both arrays, the first by single loads too.
    fn check(&mut self) {
        for _ in 0..2 {
            let expected = self.x.iter().fold(0, |sum, &value| mix(sum, value));
            let found = self.call(SUM, &[0, self.x.len() as i32], 1)[0];
            if found != expected {
                for index in 0..self.x.len() {
                    assert_eq!(self.call(GET, &[index as i32], 1)[0], self.x[index], "{}: element {index}", self.name);
                }
                panic!("{}: the loop that sums sees something else than single loads", self.name);
            }
            self.swap();
        }
    }
}

const I8: (&str, &str, i32) = ("i8", "array.get_u", 0xff);
const I16: (&str, &str, i32) = ("i16", "array.get_u", 0xffff);
const I32: (&str, &str, i32) = ("i32", "array.get", -1);

/// Every heap, kind and interval of polls, with an array of several parts.
fn for_each(mut test: impl FnMut(Model, SpineLayout, usize)) {
    for (name, plan) in heaps() {
        let layout = layout(&plan);
        for kind in [&I8, &I32] {
            let size = match kind.0 {
                "i8" => 1,
                _ => 4,
            };
            let leaf = (layout.leaf_bytes() / size) as usize;
            let [two, one] = [2, 1].map(|leaves| divided(layout, size, leaves) as usize);
            for (polls, length) in [(Polls::Never, two), (Polls::AfterLeaves, one + leaf / 2)] {
                test(Model::new(&name, kind, &plan, polls, length), layout, leaf);
            }
        }
    }
}

#[test]
fn loops_cross_every_boundary() {
    for_each(|mut model, _, leaf| {
        let length = model.x.len();
        model.check();
        model.fill(0, length, 5);
        model.check();
        // From one part into another.
        for start in [1, length.saturating_sub(leaf + 3), length - 1] {
            model.fill(start, length, 1000 + start as i32);
            model.check();
        }
        model.swap();
        model.call(COPY, &[1, length as i32], 0);
        let y = model.y.clone();
        model.x[1..].copy_from_slice(&y[1..]);
        model.check();
        model.call(SHIFT, &[2, length as i32 - 1], 0);
        for index in 2..length - 1 {
            model.x[index + 1] = model.x[index];
        }
        model.check();
    });
}

#[test]
fn loops_run_down() {
    for_each(|mut model, _, _| {
        let length = model.x.len();
        model.fill(0, length, 77);
        let found = model.call(DOWN, &[0, length as i32], 1)[0];
        let mut sum = 0;
        for index in (0..length).rev() {
            sum = mix(sum, model.x[index]);
            model.y[index] = sum & model.mask;
        }
        assert_eq!(found, sum, "{}", model.name);
        model.check();
    });
}

#[test]
fn several_accesses_share_a_strip() {
    for_each(|mut model, _, _| {
        let length = model.x.len();
        let found = model.call(SPARSE, &[0, length as i32, 29], 1)[0];
        let mut sum = 0;
        for index in 0..length {
            sum = mix(sum, model.x[index]);
            if index % 29 == 0 {
                model.x[index] = sum.wrapping_add(1) & model.mask;
            }
        }
        assert_eq!(found, sum, "{}", model.name);
        model.check();
        model.call(NEIGHBOURS, &[1, length as i32 - 1], 0);
        for index in 1..length - 1 {
            let sum = model.x[index - 1].wrapping_add(model.x[index]).wrapping_add(model.x[index + 1]);
            model.y[index] = sum & model.mask;
        }
        model.check();
        let found = model.call(PAIRS, &[0, length as i32 / 2], 1)[0];
        let mut sum = 0;
        for index in 0..length / 2 {
            model.x[2 * index + 1] = model.x[2 * index];
            sum = mix(sum, model.x[2 * index + 1]);
        }
        assert_eq!(found, sum, "{}", model.name);
        let from = length as i32 / 2;
        let (start, end) = (-from, length as i32 - 2 * from);
        let found = model.call(WINDOW, &[start, end, from], 1)[0];
        let mut sum = 0;
        for index in (start..end).step_by(3) {
            model.x[(index + from) as usize] = index & model.mask;
            sum = mix(sum, index & model.mask);
        }
        assert_eq!(found, sum, "{}", model.name);
        let found = model.call(CONSTANT, &[0, length as i32], 1)[0];
        let mut sum = 0;
        for index in 0..length {
            sum = mix(sum, model.x[index]);
            model.x[3] = index as i32 & model.mask;
            sum = mix(sum, model.x[index]);
        }
        assert_eq!(found, sum, "{}", model.name);
        model.check();
    });
}

/// One array under two names: what one name reads from the zero leaf, the other replaces.
#[test]
fn one_array_under_two_names() {
    for_each(|mut model, _, _| {
        let length = model.x.len();
        model.call(ALIAS, &[], 0);
        let found = model.call(SAME, &[0, length as i32, 9], 1)[0];
        let mut sum = 0;
        for index in 0..length {
            let value = (9 + index as i32) & model.mask;
            sum = mix(mix(mix(sum, 0), value), value);
            model.x[index] = value;
        }
        assert_eq!(found, sum, "{}", model.name);
        model.y = model.x.clone();
        model.check();
    });
}

#[test]
fn traps_come_at_the_right_index() {
    for_each(|mut model, _, _| {
        let length = model.x.len() as i32;
        let outside = Err(TrapCode::ArrayOutOfBounds);
        assert_eq!(model.instance.call(FILL, &[1, length + 9, 3], 0), outside, "{}", model.name);
        for index in 1..length {
            model.x[index as usize] = (3 + index) & model.mask;
        }
        model.check();
        assert_eq!(model.instance.call(SUM, &[length - 3, length + 1], 1), outside);
        assert_eq!(model.instance.call(SUM, &[-1, 1], 1), outside);
        assert_eq!(model.instance.call(SHIFT, &[length - 2, length], 0), outside);
        model.x[length as usize - 1] = model.x[length as usize - 2];
        model.check();
        assert_eq!(model.instance.call(DOWN, &[-1, length], 1), outside);
        assert!(model.instance.call(WRAP, &[-32, 64, -64], 1).is_ok(), "{}", model.name);
        assert_eq!(model.instance.call(WRAP, &[0, 0, -64], 1), outside, "{}", model.name);
    });
}

/// A loop that never comes to access a null array does not fault; one that does traps.
#[test]
fn null_arrays_trap_when_they_are_accessed() {
    for (name, plan) in heaps() {
        let mut instance = Instance::new(&program("i32", "array.get"), plan, Polls::Never);
        assert_eq!(instance.call(SUM, &[0, 0], 1), Ok(vec![0]), "{name}");
        let null = Err(TrapCode::NullReference);
        assert_eq!(instance.call(SUM, &[0, 1], 1), null, "{name}");
        assert_eq!(instance.call(COPY, &[0, 1], 0), null, "{name}");
        instance.call(NEW, &[100], 0).unwrap();
        assert_eq!(instance.call(COPY, &[0, 1], 0), null, "{name}");
        assert_eq!(instance.call(SUM, &[0, 100], 1), Ok(vec![0]), "{name}");
    }
}

/// Collections at every back-edge.
#[test]
fn collections_in_the_middle() {
    for (name, plan) in heaps() {
        let layout = layout(&plan);
        let length = (divided(layout, 2, 1) + 22) as usize;
        let mut model = Model::new(&name, &I16, &plan, Polls::Always, length);
        // Each iteration takes room.
        let start = length.saturating_sub(700);
        model.fill(start, length, 500);
        model.swap();
        model.call(COPY, &[start as i32, length as i32], 0);
        model.x = model.y.clone();
        model.check();
        let collections = with_world(|world| world.collections);
        assert!(collections > length as u32, "{}: {collections} collections", model.name);
    }
}
