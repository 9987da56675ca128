//! What makes a collector's work long in one place: each case as a program.

use std::fmt::Write;

/// Makes a case's own part of the program from its number.
type Source = fn(u32) -> String;

/// What is beside the ring, and what heap it wants.
#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) name: &'static str,
    /// How many there are of whatever it is.
    pub(super) count: u32,
    /// Options of the heap, behind those of the configuration.
    pub(super) heap: &'static [&'static str],
    source: Source,
}

/// Functions that a case does not have: `touch` and `run`.
const NO_TOUCH: &str = "(func $touch)";
const RUN: &str = "(func (export \"run\") (param i32) (call $steps))";

pub(super) const CASES: [Case; 9] = [
    Case { name: "the ring alone", count: 1, heap: &[], source: |_| format!("(func $build) {NO_TOUCH} {RUN}") },
    Case { name: "a table of references", count: 1_000_000, heap: &[], source: table },
    Case { name: "globals", count: 10_000, heap: &[], source: globals },
    Case { name: "an array of references", count: 10_000_000, heap: &[], source: array },
    Case { name: DEEP, count: super::STACK, heap: &[], source: deep },
    Case { name: "host values, as many more dropped at once", count: 100_000, heap: &[], source: externals },
    // Each takes a block of address space, and memory for one page.
    Case {
        name: "mapped arrays",
        count: 100_000,
        heap: &["arrays=mapped", "mapped-from=32K", "max=4G"],
        source: mapped,
    },
    Case {
        name: "double-mapped views",
        count: 100_000,
        heap: &["arrays=arraylets", "leaf=4K", "native-views=double-map", "max=3G"],
        source: views,
    },
    // 128 bytes each, and 4 in an array: a heap of 1 GB that shrinks to the ring's 10 MB. It is collected again soon.
    Case {
        name: "values of 128 bytes, dropped at once",
        count: 8_000_000,
        heap: &["max=3G", "growth=1.1"],
        source: shrinking,
    },
];

/// The case whose number is bytes of stack.
pub(super) const DEEP: &str = "bytes of stack in recursion";

impl Case {
    /// The program, with so many of what the case is about.
    pub(super) fn module(&self, count: u32) -> String {
        format!("(module {}\n{})", include_str!("guest.wat"), (self.source)(count))
    }
}

/// A function `build` that does something for each index below the count.
fn build(count: u32, before: &str, each: &str) -> String {
    format!(
        "(func $build (local $at i32) {before}
           (loop $more
             {each}
             (local.set $at (i32.add (local.get $at) (i32.const 1)))
             (br_if $more (i32.lt_u (local.get $at) (i32.const {count})))))"
    )
}

fn table(count: u32) -> String {
    let build = build(count, "", "(table.set $table (local.get $at) (call $new))");
    format!(
        "(table $table {count} (ref null $value)) {build} {RUN}
         (func $touch (table.set $table (call $any (i32.const {count})) (call $new)))"
    )
}

fn globals(count: u32) -> String {
    let mut text = String::new();
    for at in 0..count {
        let _ = writeln!(text, "(global $g{at} (mut (ref null $value)) (ref.null $value))");
    }
    // Functions of a hundred stores each: one of ten thousand would tell more of the compiler than of the collector.
    let mut calls = String::new();
    for first in (0..count).step_by(100) {
        let _ = writeln!(calls, "(call $build{first})");
        let _ = write!(text, "(func $build{first}");
        for at in first..count.min(first + 100) {
            let _ = write!(text, " (global.set $g{at} (call $new))");
        }
        text.push_str(")\n");
    }
    format!("{text} (func $build {calls}) {RUN} (func $touch (global.set $g0 (call $new)))")
}

fn array(count: u32) -> String {
    let each = "(array.set $values (global.get $all) (local.get $at)
        (array.get $values (global.get $ring) (i32.rem_u (local.get $at) (array.len (global.get $ring)))))";
    let before = format!("(global.set $all (array.new_default $values (i32.const {count}))) (call $fill)");
    let build = build(count, &before, each);
    format!(
        "(global $all (mut (ref $values)) (array.new_fixed $values 0)) {build} {RUN}
         (func $fill (local $at i32)
           (loop $more
             (array.set $values (global.get $ring) (local.get $at) (call $new))
             (local.set $at (i32.add (local.get $at) (i32.const 1)))
             (br_if $more (i32.lt_u (local.get $at) (array.len (global.get $ring))))))
         (func $touch (array.set $values (global.get $all) (call $any (i32.const {count})) (call $new)))"
    )
}

/// Every frame holds an object of its own.
fn deep(_: u32) -> String {
    format!(
        "(func $build) {NO_TOUCH}
         (func $down (export \"run\") (param $depth i32)
           (local $held (ref $value))
           (local.set $held (call $new))
           (if (local.get $depth)
             (then (call $down (i32.sub (local.get $depth) (i32.const 1))))
             (else (call $steps)))
           (if (i64.ne (array.get $value (local.get $held) (i32.const 13)) (i64.const 1)) (then (unreachable))))"
    )
}

/// As many host values in each of two arrays, of which one goes as soon as the measurement begins.
fn externals(count: u32) -> String {
    let new = format!("(array.new_default $externals (i32.const {count}))");
    let before = format!("(global.set $all {new}) (global.set $gone {new})");
    let each = "(array.set $externals (global.get $all) (local.get $at) (call $external))
        (array.set $externals (ref.as_non_null (global.get $gone)) (local.get $at) (call $external))";
    let build = build(count, &before, each);
    format!(
        "(global $all (mut (ref $externals)) (array.new_fixed $externals 0))
         (global $gone (mut (ref null $externals)) (ref.null $externals))
         {build}
         (func (export \"run\") (param i32) (global.set $gone (ref.null $externals)) (call $steps))
         (func $touch (array.set $externals (global.get $all) (call $any (i32.const {count})) (call $external)))"
    )
}

/// Arrays in a large one; each that is replaced is garbage. `seen` is done with every new one.
fn arrays(count: u32, elements: u32, seen: &str) -> String {
    let before = format!("(global.set $all (array.new_default $values (i32.const {count})))");
    let build = build(count, &before, "(call $put (local.get $at))");
    format!(
        "(global $all (mut (ref $values)) (array.new_fixed $values 0)) {build} {RUN}
         (func $put (param $at i32)
           (local $new (ref $value))
           (local.set $new (array.new_default $value (i32.const {elements})))
           (array.set $value (local.get $new) (i32.const 0) (i64.const 1))
           {seen}
           (array.set $values (global.get $all) (local.get $at) (local.get $new)))
         (func $touch (call $put (call $any (i32.const {count}))))"
    )
}

fn mapped(count: u32) -> String {
    // With header and length 32 KiB exactly.
    arrays(count, 4094, "")
}

fn views(count: u32) -> String {
    arrays(count, 1024, "(call $view (local.get $new))")
}

fn shrinking(count: u32) -> String {
    let before = format!("(global.set $gone (array.new_default $values (i32.const {count})))");
    let each = "(array.set $values (ref.as_non_null (global.get $gone)) (local.get $at) (call $new))";
    let build = build(count, &before, each);
    format!(
        "(global $gone (mut (ref null $values)) (ref.null $values)) {build} {NO_TOUCH}
         (func (export \"run\") (param i32) (global.set $gone (ref.null $values)) (call $steps))"
    )
}
