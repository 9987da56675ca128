//! Arrays of spines and leaves in compiled code: every element kind, every part of an array, under every kind of heap.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod support;
mod world;

use std::fmt::Write;

use legato_heap::layout::SpineLayout;
use legato_heap::plan::{AccessPlan, ArrayPlan, CountingPlan};
use support::{divided, is_possible, plans, spine_plans};
use world::{Instance, Polls, with_world};

/// An element type: its name in text form, the name of its loads, and how it comes from a value of type `boundary` and
/// goes back to one. The engine executes no vector instructions: vectors cross the boundary as they are.
struct Kind {
    storage: &'static str,
    boundary: &'static str,
    get: &'static str,
    from: &'static str,
    back: &'static str,
    bytes: u32,
}

const fn kind(storage: &'static str, get: &'static str, from: &'static str, back: &'static str, bytes: u32) -> Kind {
    Kind { storage, boundary: "i32", get, from, back, bytes }
}

/// Every kind. `$v` stands for the value; 0 becomes the type's zero.
const KINDS: [Kind; 8] = [
    kind("i8", "array.get_u", "(local.get $v)", "$v", 1),
    kind("i16", "array.get_s", "(local.get $v)", "$v", 2),
    kind("i32", "array.get", "(local.get $v)", "$v", 4),
    kind("i64", "array.get", "(i64.extend_i32_u (local.get $v))", "(i32.wrap_i64 $v)", 8),
    kind("f32", "array.get", "(f32.reinterpret_i32 (local.get $v))", "(i32.reinterpret_f32 $v)", 4),
    kind("f64", "array.get", "(f64.convert_i32_u (local.get $v))", "(i32.trunc_f64_u $v)", 8),
    Kind { boundary: "v128", ..kind("v128", "array.get", "(local.get $v)", "$v", 16) },
    kind("(ref null $box)", "array.get", "(call $box (local.get $v))", "(call $unbox $v)", 4),
];

/// The number of each function of [`program`].
const NEW_DEFAULT: usize = 0;
const NEW: usize = 1;
const SET: usize = 2;
const GET: usize = 3;
const FILL: usize = 4;
const KEEP: usize = 5;
const COPY: usize = 6;
const CLEAR: usize = 7;
const NEW_FIXED: usize = 8;

/// Functions on one array in a global, and a second one.
fn program(kind: &Kind, fixed: &[usize]) -> String {
    let Kind { storage, boundary, get, from, back, .. } = kind;
    let got = back.replace("$v", &format!("({get} $a (global.get $g) (local.get $i))"));
    let mut text = format!(
        "(module
        (type $box (struct (field i32)))
        (type $a (array (mut {storage})))
        (global $g (mut (ref null $a)) (ref.null $a))
        (global $h (mut (ref null $a)) (ref.null $a))
        (func (export \"new_default\") (param $n i32) (global.set $g (array.new_default $a (local.get $n))))
        (func (export \"new\") (param $n i32) (param $v {boundary}) (global.set $g (array.new $a {from} (local.get $n))))
        (func (export \"set\") (param $i i32) (param $v {boundary}) (array.set $a (global.get $g) (local.get $i) {from}))
        (func (export \"get\") (param $i i32) (result {boundary}) {got})
        (func (export \"fill\") (param $i i32) (param $n i32) (param $v {boundary})
          (array.fill $a (global.get $g) (local.get $i) {from} (local.get $n)))
        (func (export \"keep\") (global.set $h (global.get $g)))
        (func (export \"copy\") (param $i i32) (param $j i32) (param $n i32)
          (array.copy $a $a (global.get $g) (local.get $i) (global.get $h) (local.get $j) (local.get $n)))
        (func (export \"clear\") (param $i i32)
          (array.set $a (global.get $g) (local.get $i) (array.get{} $a (array.new_default $a (i32.const 1)) (i32.const 0))))
        ",
        get.trim_start_matches("array.get"),
    );
    for &length in fixed {
        let values: String = (0..length)
            .map(|number| match number % 7 {
                3 => format!("(array.get{} $a (array.new_default $a (i32.const 1)) (i32.const 0)) ", &get[9..]),
                _ => format!("{from} "),
            })
            .collect();
        write!(
            text,
            "(func (export \"fixed{length}\") (param $v {boundary}) (global.set $g (array.new_fixed $a {length} {values})))"
        )
        .unwrap();
    }
    write!(
        text,
        "(func $box (param $v i32) (result (ref null $box))
          (if (result (ref null $box)) (local.get $v)
            (then (struct.new $box (local.get $v))) (else (ref.null $box))))
        (func $unbox (param $b (ref null $box)) (result i32)
          (if (result i32) (ref.is_null (local.get $b)) (then (i32.const 0)) (else (struct.get $box 0 (local.get $b))))))"
    )
    .unwrap();
    text
}

/// Every heap with every layout.
fn heaps() -> Vec<(String, AccessPlan)> {
    let mut heaps = Vec::new();
    for (name, plan) in plans() {
        for (layout, arrays) in spine_plans() {
            if is_possible(plan.references, arrays) {
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

/// Indexes next to the boundaries between an array's parts.
fn indexes(layout: SpineLayout, size: u32, length: u32) -> Vec<u32> {
    let (first, leaf) = (layout.first_n / size, layout.leaf_bytes() / size);
    let mut around = vec![0, length];
    around.extend((0..4).chain(33..36).map(|number| first + number * leaf));
    let near = around.iter().flat_map(|&at| [at.saturating_sub(1), at, at + 1]);
    let mut indexes: Vec<u32> = near.filter(|&index| index < length).collect();
    indexes.sort_unstable();
    indexes.dedup();
    indexes
}

/// An array and what it should hold.
struct Model {
    instance: Instance,
    elements: Vec<i32>,
    name: String,
}

impl Model {
    fn call(&mut self, function: usize, params: &[i32], results: usize) -> Vec<i32> {
        self.instance.call(function, params, results).unwrap_or_else(|trap| panic!("{}: {trap:?}", self.name))
    }

    fn set(&mut self, index: u32, value: i32) {
        self.call(SET, &[index as i32, value], 0);
        self.elements[index as usize] = value;
    }

    /// Checks every element, of long arrays every so many.
    fn check(&mut self) {
        let length = self.elements.len();
        let step = if length > 2000 { 17 } else { 1 };
        for index in (0..length).step_by(step).chain(length.saturating_sub(20)..length) {
            let found = self.call(GET, &[index as i32], 1)[0];
            assert_eq!(found, self.elements[index], "{}: element {index}", self.name);
        }
    }
}

/// Lengths next to the sizes at which arrays are divided otherwise.
fn lengths(layout: SpineLayout, size: u32) -> Vec<u32> {
    let (first, leaf) = (layout.first_n / size, layout.leaf_bytes() / size);
    if layout.grows {
        let divided = divided(layout, size, 1);
        let longest = (1..divided).rev().find(|&length| !layout.divides(size, length)).expect("short arrays are whole");
        return vec![1, longest, longest + 1, divided + leaf / 2];
    }
    let mut lengths = vec![1, first + 1, first + leaf, first + 2 * leaf + leaf / 2];
    lengths.extend((first > 0).then_some(first));
    lengths.dedup();
    lengths
}

#[test]
fn loads_and_stores_reach_their_elements() {
    for (name, plan) in heaps() {
        let layout = layout(&plan);
        for kind in &KINDS {
            let instance = Instance::new(&program(kind, &[]), plan.clone(), Polls::Never);
            let mut model = Model { instance, elements: Vec::new(), name: format!("{name}, {}", kind.storage) };
            for length in lengths(layout, kind.bytes) {
                model.call(NEW_DEFAULT, &[length as i32], 0);
                model.elements = vec![0; length as usize];
                let indexes = indexes(layout, kind.bytes, length);
                for (number, &index) in indexes.iter().enumerate() {
                    model.set(index, number as i32 + 1);
                }
                model.check();
                for &index in indexes.iter().step_by(2) {
                    model.call(CLEAR, &[index as i32], 0);
                    model.elements[index as usize] = 0;
                }
                model.check();
                let outside = model.instance.call(GET, &[length as i32], 1);
                assert_eq!(outside, Err(legato_compiler::artifact::TrapCode::ArrayOutOfBounds), "{}", model.name);
            }
        }
    }
}

#[test]
fn new_arrays_are_filled() {
    for (name, plan) in heaps() {
        let layout = layout(&plan);
        for kind in &KINDS {
            let lengths = lengths(layout, kind.bytes);
            // The longer ones take long to compile.
            let fixed: Vec<usize> =
                lengths.iter().map(|&length| length as usize).filter(|&length| length < 200).collect();
            let instance = Instance::new(&program(kind, &fixed), plan.clone(), Polls::Never);
            let mut model = Model { instance, elements: Vec::new(), name: format!("{name}, {}", kind.storage) };
            model.call(NEW, &[0, 7], 0);
            for length in lengths {
                model.call(NEW, &[length as i32, 77], 0);
                model.elements = vec![77; length as usize];
                model.check();
                let (start, count) = (length / 3, length / 2);
                model.call(FILL, &[start as i32, count as i32, 55], 0);
                model.elements[start as usize..][..count as usize].fill(55);
                model.check();
                let Some(number) = fixed.iter().position(|&fixed| fixed == length as usize) else { continue };
                model.call(NEW_FIXED + number, &[33], 0);
                for (number, element) in model.elements.iter_mut().enumerate() {
                    *element = if number % 7 == 3 { 0 } else { 33 };
                }
                model.check();
            }
        }
    }
}

/// Arrays of known elements that are so long that they are divided where the first N bytes grow.
#[test]
fn long_fixed_arrays() {
    for (name, plan) in heaps() {
        let layout = layout(&plan);
        for kind in KINDS.iter().filter(|kind| layout.grows && ["v128", "f64"].contains(&kind.storage)) {
            let length = divided(layout, kind.bytes, 1) as usize + 5;
            let instance = Instance::new(&program(kind, &[length]), plan.clone(), Polls::Never);
            let elements = (0..length).map(|number| if number % 7 == 3 { 0 } else { 33 }).collect();
            let mut model = Model { instance, elements, name: format!("{name}, {}", kind.storage) };
            model.call(NEW_FIXED, &[33], 0);
            model.check();
            model.set(length as u32 - 1, 4);
            model.check();
        }
    }
}

/// Storing zeros to leaves of zeros asks for no leaf; anything else asks once.
#[test]
fn zero_stores_allocate_nothing() {
    for (name, plan) in heaps() {
        let ArrayPlan::Spines(spines) = plan.arrays else { continue };
        if spines.zero_leaf.is_none() {
            continue;
        }
        for kind in &KINDS {
            let instance = Instance::new(&program(kind, &[]), plan.clone(), Polls::Never);
            let length = divided(spines.layout, kind.bytes, 3);
            let mut model =
                Model { instance, elements: vec![0; length as usize], name: format!("{name}, {}", kind.storage) };
            model.call(NEW_DEFAULT, &[length as i32], 0);
            // Every element of the long arrays that grow would take long; every leaf is written.
            let step = if spines.layout.grows { 7 } else { 1 };
            for index in (0..length).step_by(step) {
                model.set(index, 0);
            }
            with_world(|world| assert_eq!((world.asked, world.leaves), (0, 0), "{}", model.name));
            for index in (0..length).step_by(step) {
                model.set(index, 9);
            }
            model.check();
            let (asked, leaves, grown) = with_world(|world| (world.asked, world.leaves, world.grown));
            if spines.layout.grows {
                assert!(asked + grown > 3 && leaves <= asked, "{}: {asked} asked for, {leaves} there", model.name);
            } else {
                assert_eq!((asked, leaves), (3, 3), "{}", model.name);
            }
        }
    }
}

/// What two arrays share changes in neither when the other is written.
#[test]
fn shared_leaves_are_copied_before_they_are_written() {
    for (name, plan) in heaps() {
        let ArrayPlan::Spines(spines) = plan.arrays else { continue };
        for kind in &KINDS {
            let instance = Instance::new(&program(kind, &[]), plan.clone(), Polls::Never);
            let length = divided(spines.layout, kind.bytes, 3);
            let mut model =
                Model { instance, elements: vec![5; length as usize], name: format!("{name}, {}", kind.storage) };
            model.call(NEW, &[length as i32, 5], 0);
            model.call(KEEP, &[], 0);
            model.call(NEW_DEFAULT, &[length as i32], 0);
            model.call(COPY, &[0, 0, length as i32], 0);
            let (leaves, shared) = with_world(|world| (world.leaves, world.shared));
            if spines.copy_on_write {
                assert!(spines.layout.grows || (leaves, shared) == (3, 3), "{}: {shared} shared", model.name);
                assert!(shared > 0, "{}: nothing is shared", model.name);
            }
            for index in (0..length).step_by(3) {
                model.set(index, index as i32 % 2);
            }
            model.check();
            // Back over the array that has not been written since.
            model.call(COPY, &[0, 0, length as i32], 0);
            model.elements.fill(5);
            model.check();
        }
    }
}

/// A counted build tells accesses by their position, whatever the layout.
#[test]
fn accesses_are_counted() {
    let mut plans: Vec<AccessPlan> = heaps().into_iter().map(|(_, plan)| plan).collect();
    plans.extend(support::plans().map(|(_, plan)| plan));
    for plan in plans {
        let counting = CountingPlan { counters_offset: legato_heap::MutatorContext::ACCESSES_OFFSET, first_n: 64 };
        let plan = AccessPlan { counting: Some(counting), ..plan };
        let kind = &KINDS[3];
        let mut instance = Instance::new(&program(kind, &[]), plan, Polls::Never);
        instance.call(NEW_DEFAULT, &[200], 0).unwrap();
        for index in 0..20 {
            instance.call(SET, &[index, index], 0).unwrap();
        }
        for index in 5..11 {
            instance.call(GET, &[index], 1).unwrap();
        }
        let found = instance.accesses();
        let counts = [found.fast_writes, found.slow_writes, found.fast_reads, found.slow_reads];
        assert_eq!(counts, [8, 12, 3, 3]);
    }
}
