//! Loops that count poll every so many iterations, and do as often what they do in unoptimised code, which polls in
//! each: up and down, to limits beside the least and the greatest number, with the comparison first or last.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod support;
mod world;

use legato_heap::plan::AccessPlan;
use legato_heap::references::References;
use world::{Instance, Polls, with_world};

/// No loop is left to run for longer: those that never end are among them.
const MOST: i32 = 150;

const COMPARISONS: [&str; 10] = ["lt_s", "lt_u", "le_s", "le_u", "gt_s", "gt_u", "ge_s", "ge_u", "ne", "eq"];

/// Where in the loop the comparison is made.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    First,
    BehindEffects,
    Last,
    /// Where the loop begins with another way out.
    LastOfTwo,
}

/// A function that counts from its first parameter to its second, and sums what it has counted in an array that a
/// collection moves.
fn counting(comparison: &str, step: i32, place: Place, is_exchanged: bool, ahead: i32, limit: &str) -> String {
    let count = "(local.set $i (i32.add (local.get $i) (i32.const STEP)))".replace("STEP", &step.to_string());
    let compared = match ahead {
        0 => "(local.get $i)".to_string(),
        _ => format!("(i32.add (local.get $i) (i32.const {ahead}))"),
    };
    let operands = if is_exchanged { format!("{limit} {compared}") } else { format!("{compared} {limit}") };
    let goes_on = format!("(i32.{comparison} {operands})");
    let sum = "(array.set $a (local.get $a) (i32.const 0)
                 (i32.add (i32.mul (array.get $a (local.get $a) (i32.const 0)) (i32.const 31)) (local.get $i)))";
    let round = "(br_if $out
                   (i32.gt_u (local.tee $rounds (i32.add (local.get $rounds) (i32.const 1))) (i32.const MOST)))"
        .replace("MOST", &MOST.to_string());
    let body = match place {
        Place::First => format!("(loop $on (br_if $out (i32.eqz {goes_on})) {sum} {round} {count} (br $on))"),
        Place::BehindEffects => format!("(loop $on {sum} (br_if $out (i32.eqz {goes_on})) {round} {count} (br $on))"),
        Place::Last => format!("(loop $on {sum} {round} {count} (br_if $on {goes_on}))"),
        Place::LastOfTwo => format!("(loop $on {round} {sum} {count} (br_if $on {goes_on}))"),
    };
    format!(
        "(func (export \"f\") (param $i i32) (param $n i32) (result i32 i32 i32)
           (local $a (ref null $a)) (local $rounds i32)
           (local.set $a (array.new $a (i32.const 1) (i32.const 2)))
           (block $out {body})
           (local.get $i) (local.get $rounds) (array.get $a (local.get $a) (i32.const 0)))"
    )
}

fn functions() -> Vec<String> {
    let mut functions = Vec::new();
    for comparison in COMPARISONS {
        for step in [1, -1] {
            let places = [Place::First, Place::BehindEffects, Place::Last, Place::LastOfTwo];
            for (place, ahead) in places.map(|place| (place, 0)).into_iter().chain([(Place::First, step)]) {
                let is_exchanged = ahead != 0;
                functions.push(counting(comparison, step, place, is_exchanged, ahead, "(local.get $n)"));
            }
            functions.push(counting(comparison, step, Place::First, false, 0, "(i32.const 60)"));
        }
        functions.push(counting(comparison, 2, Place::First, false, 0, "(local.get $n)"));
    }
    functions
}

/// Where loops begin, and where they end.
fn ranges() -> Vec<[i32; 2]> {
    let mut ranges = Vec::new();
    for around in [0, i32::MAX, i32::MIN] {
        for length in [0, 1, 2, 31, 32, 65] {
            let (to, from) = (around.wrapping_add(1), around.wrapping_sub(length));
            ranges.extend([[from, to], [to, from], [around, from], [from, around]]);
        }
    }
    ranges
}

fn outcomes(mut instance: Instance) -> Vec<Vec<i32>> {
    ranges().iter().map(|range| instance.call(0, range, 3).expect("no loop traps")).collect()
}

#[test]
fn loops_do_what_they_do_unoptimized() {
    let plan = support::moving(References::Brooks);
    for function in functions() {
        let text = format!("(module (type $a (array (mut i32))) {function})");
        let expected = outcomes(Instance::compiled(&text, plan.clone(), Polls::Never, false));
        for iterations_between_polls in [1, 32] {
            let plan = AccessPlan { iterations_between_polls, ..plan.clone() };
            let actual = outcomes(Instance::compiled(&text, plan, Polls::Always, true));
            for ((actual, expected), range) in actual.iter().zip(&expected).zip(ranges()) {
                assert_eq!(actual, expected, "{iterations_between_polls}, {range:?}: {text}");
            }
        }
    }
}

/// The way out of each loop leads straight into the next.
#[test]
fn loops_follow_each_other() {
    let next = "(loop $next
        (local.set $x (i32.xor (i32.mul (local.get $x) (i32.const 31)) (local.get $i)))
        (br_if $next (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))";
    let again = "(loop $again
        (local.set $x (i32.add (i32.mul (local.get $x) (i32.const 7)) (local.get $n)))
        (br_if $again (i32.gt_s (local.tee $n (i32.sub (local.get $n) (i32.const 1))) (i32.const -70))))";
    let functions = [(1, 1), (2, 0), (0, 2), (3, 3)].map(|(nexts, agains)| {
        let loops = next.repeat(nexts) + &again.repeat(agains) + &next.repeat(nexts);
        format!(
            "(module (func (export \"f\") (param $i i32) (param $n i32) (result i32 i32 i32) (local $x i32)
               {loops} (local.get $x) (local.get $i) (local.get $n)))"
        )
    });
    for text in functions {
        let plan = support::plan(References::Direct);
        let called = |plan: AccessPlan, optimize: bool| {
            Instance::compiled(&text, plan, Polls::Always, optimize).call(0, &[0, 100], 3).expect("it does not trap")
        };
        let expected = called(plan.clone(), false);
        for iterations_between_polls in [1, 32, 256] {
            assert_eq!(called(AccessPlan { iterations_between_polls, ..plan.clone() }, true), expected, "{text}");
        }
    }
}

/// How often a loop polls that counts from one number to another.
fn polls(text: &str, [from, to]: [i32; 2], iterations_between_polls: u32) -> u32 {
    let plan = AccessPlan { iterations_between_polls, ..support::plan(References::Direct) };
    let mut instance = Instance::compiled(text, plan, Polls::Always, true);
    instance.call(0, &[from, to], 1).expect("it does not trap");
    with_world(|world| world.collections)
}

#[test]
fn counted_loops_poll_now_and_then_and_others_in_each_iteration() {
    let counted = |goes_on: &str| {
        format!(
            "(module (func (export \"f\") (param $i i32) (param $n i32) (result i32) (local $x i32)
               (loop $on
                 (local.set $x (i32.xor (i32.mul (local.get $x) (i32.const 31)) (local.get $i)))
                 (local.set $i (i32.add (local.get $i) (i32.const 1)))
                 (br_if $on {goes_on}))
               (local.get $x)))"
        )
    };
    let up = counted("(i32.lt_s (local.get $i) (local.get $n))");
    for (iterations, between, expected) in [(1000, 256, 3), (1000, 1, 999), (256, 256, 0), (258, 256, 1), (1, 1, 0)] {
        let polls = polls(&up, [0, iterations], between);
        assert_eq!(polls, expected, "{iterations} iterations, {between} between polls");
    }
    // What leaves it first does not count.
    let two =
        up.replace("(loop $on", "(loop $on (br_if 1 (local.get $x) (i32.eq (local.get $x) (i32.const 77))) (drop)");
    assert_eq!([256, 1].map(|between| polls(&two, [0, 1000], between)), [3, 999]);
    // Between these lie more numbers than a signed one can say; it leaves after a hundred.
    let leaves = "(if (i32.eq (local.get $i) (i32.const -2147483548)) (then (return (local.get $x))))";
    let far = up
        .replace("(module", "(module (global $effect (mut i32) (i32.const 0))")
        .replace("(loop $on", &format!("(loop $on (global.set $effect (local.get $i)) {leaves}"));
    assert_eq!(polls(&far, [i32::MIN, i32::MAX], 32), 3);
    // It might never end.
    let to_the_last = counted("(i32.le_s (local.get $i) (local.get $n))");
    assert_eq!(polls(&to_the_last, [0, 1000], 256), 1001);
    // So few iterations that none polls.
    let short = "(module (func (export \"f\") (param i32) (param i32) (result i32) (local $i i32) (local $x i32)
        (loop $on
          (local.set $x (i32.xor (i32.mul (local.get $x) (i32.const 31)) (local.get $i)))
          (br_if $on (i32.ne (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 64))))
        (local.get $x)))";
    assert_eq!([256, 64, 1].map(|between| polls(short, [0, 0], between)), [0, 0, 63]);
}
