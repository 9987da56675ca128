//! Every instruction that takes a reference, right behind a call that may collect: the checker of generated code finds
//! the reference loaded anew under every heap, and in the stack map where the instruction is a safepoint itself.

mod support;

use legato_compiler::compile;
use legato_heap::plan::AccessPlan;
use support::{all_plans, is_possible, options, plans, spine_plans};

const TYPES: &str = r#"
    (type $s (sub (struct (field $r (mut (ref null any))) (field $n (mut i32)))))
    (type $t (sub $s (struct (field $r (mut (ref null any))) (field $n (mut i32)) (field $more (mut i64)))))
    (type $a (array (mut i32)))
    (type $b (array (mut i8)))
    (type $v (array (mut (ref null any))))
    (type $f (func (param (ref null any)) (result (ref null any))))
    (import "host" "collect" (func $collect))
    (import "host" "keep" (func $keep (param (ref null any))))
    (tag $e (param (ref null any)))
    (table $x 10 20 (ref null any))
    (table $y 10 20 (ref null any))
    (table $functions 4 funcref)
    (global $g (mut (ref null any)) (ref.null any))
    (global $constant (ref $s) (struct.new $s (ref.null any) (i32.const 1)))
    (elem $items (ref null any) (global.get $constant) (ref.null any) (item (ref.i31 (i32.const 4))))
    (data $bytes "some bytes to be copied")
    (func $same (type $f) (local.get 0))
    (elem declare func $same)
"#;

/// A title, and what is done behind the call with an object `$o`, arrays `$n` of numbers, `$m` of bytes and `$w` of
/// references, and a reference `$r`.
const USES: [(&str, &str); 63] = [
    ("struct.get", "(drop (struct.get $s $n (local.get $o)))"),
    ("struct.set", "(struct.set $s $r (local.get $o) (local.get $r))"),
    ("struct.new", "(local.set $o (struct.new $s (local.get $r) (i32.const 1)))"),
    (
        "struct.new of two",
        "(call $keep (struct.new $t (local.get $r) (i32.const 1) (i64.const 2))) (call $keep (local.get $r))",
    ),
    (
        "struct.set in a loop, too",
        "(struct.set $s $n (local.get $o) (i32.const 1)) (loop $l (struct.set $s $n (local.get $o) (local.get $i)) (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))",
    ),
    (
        "array.set in a loop that allocates",
        "(loop $l (array.set $a (local.get $n) (local.get $i) (struct.get $s $n (local.get $o))) (struct.set $s $r (local.get $o) (struct.new $s (local.get $r) (local.get $i))) (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))",
    ),
    (
        "array.get in a loop within another, which calls",
        "(loop $m (loop $l (local.set $r (array.get $v (local.get $w) (local.get $i))) (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1))))) (call $collect) (br_if $m (ref.is_null (local.get $r))))",
    ),
    (
        "struct.set behind a call on one way",
        "(struct.set $s $n (local.get $o) (i32.const 1)) (if (local.get $i) (then (call $collect) (array.set $a (local.get $n) (i32.const 0) (i32.const 1)))) (struct.set $s $n (local.get $o) (i32.const 2))",
    ),
    (
        "ref.is_null, by which a loop is left behind a call",
        "(loop $l (local.set $i (ref.is_null (local.get $r))) (call $collect) (if (local.get $i) (then (br $l))))",
    ),
    ("array.get", "(drop (array.get $a (local.get $n) (i32.const 1)))"),
    ("array.get at any index", "(drop (array.get $v (local.get $w) (local.get $i)))"),
    ("array.set", "(array.set $v (local.get $w) (local.get $i) (local.get $r))"),
    ("array.len", "(drop (array.len (local.get $n)))"),
    ("array.fill of numbers", "(array.fill $a (local.get $n) (i32.const 0) (i32.const 7) (i32.const 2))"),
    ("array.fill of references", "(array.fill $v (local.get $w) (i32.const 0) (local.get $r) (i32.const 2))"),
    ("array.copy", "(array.copy $a $a (local.get $n) (i32.const 0) (local.get $n) (i32.const 1) (i32.const 2))"),
    (
        "array.copy of references",
        "(array.copy $v $v (local.get $w) (i32.const 0) (local.get $w) (i32.const 1) (i32.const 2))",
    ),
    ("array.init_data", "(array.init_data $b $bytes (local.get $m) (i32.const 0) (i32.const 1) (i32.const 2))"),
    ("array.init_elem", "(array.init_elem $v $items (local.get $w) (i32.const 0) (i32.const 0) (i32.const 3))"),
    (
        "array.init_elem twice",
        "(array.init_elem $v $items (local.get $w) (i32.const 0) (i32.const 0) (i32.const 3)) (array.init_elem $v $items (local.get $w) (i32.const 0) (i32.const 0) (i32.const 3))",
    ),
    ("array.new", "(local.set $w (array.new $v (local.get $r) (i32.const 5)))"),
    ("array.new of any length", "(local.set $w (array.new $v (local.get $r) (local.get $i)))"),
    ("array.new, long", "(local.set $w (array.new $v (local.get $r) (i32.const 5000)))"),
    ("array.new_fixed", "(local.set $w (array.new_fixed $v 3 (local.get $r) (local.get $o) (local.get $r)))"),
    (
        "array.new_fixed, twice",
        "(call $keep (array.new_fixed $v 2 (array.new_fixed $v 1 (local.get $r)) (local.get $r)))",
    ),
    (
        "array.new_fixed of a global",
        "(local.set $w (array.new_fixed $v 3 (global.get $constant) (local.get $r) (global.get $constant)))",
    ),
    ("struct.new of a global", "(local.set $o (struct.new $s (global.get $constant) (i32.const 1)))"),
    ("array.new_data", "(local.set $m (array.new_data $b $bytes (i32.const 0) (i32.const 4)))"),
    ("array.new_elem", "(local.set $w (array.new_elem $v $items (i32.const 0) (i32.const 3)))"),
    ("ref.test", "(drop (ref.test (ref $t) (local.get $r)))"),
    ("ref.cast", "(drop (ref.cast (ref null $t) (local.get $o)))"),
    ("ref.eq", "(drop (ref.eq (local.get $o) (local.get $n)))"),
    ("ref.is_null", "(drop (ref.is_null (local.get $r)))"),
    ("ref.as_non_null", "(drop (ref.as_non_null (local.get $r)))"),
    ("br_on_null", "(block (drop (br_on_null 0 (local.get $r))))"),
    ("br_on_non_null", "(drop (block (result (ref any)) (br_on_non_null 0 (local.get $r)) (unreachable)))"),
    ("br_on_cast", "(drop (block (result (ref $s)) (br_on_cast 0 anyref (ref $s) (local.get $r)) (unreachable)))"),
    (
        "br_on_cast_fail",
        "(drop (block (result anyref) (br_on_cast_fail 0 anyref (ref $s) (local.get $r)) (drop) (ref.null any)))",
    ),
    ("i31.get", "(drop (i31.get_s (ref.cast (ref null i31) (local.get $r))))"),
    (
        "an i31 that may be null",
        "(local.set $c (ref.null i31)) (if (ref.test i31ref (local.get $r)) (then (local.set $c (ref.cast i31ref (local.get $r))))) (call $collect) (call $keep (local.get $c))",
    ),
    (
        "an i31 that is passed on behind a safepoint",
        "(local.set $c (ref.null i31)) (if (ref.test i31ref (local.get $r)) (then (local.set $c (ref.cast i31ref (local.get $r))))) (call $collect) (if (local.get $i) (then (local.set $c (ref.null i31)))) (call $keep (local.get $c))",
    ),
    ("ref.i31", "(local.set $r (ref.i31 (local.get $i)))"),
    ("extern.convert_any", "(drop (extern.convert_any (local.get $r)))"),
    ("any.convert_extern", "(local.set $r (any.convert_extern (extern.convert_any (local.get $r))))"),
    ("select", "(call $keep (select (result anyref) (local.get $r) (local.get $o) (local.get $i)))"),
    ("global.set", "(global.set $g (local.get $r))"),
    ("global.get", "(call $keep (global.get $constant))"),
    ("table.set", "(table.set $x (i32.const 1) (local.get $r))"),
    ("table.get", "(local.set $r (table.get $x (local.get $i)))"),
    ("table.grow", "(drop (table.grow $x (local.get $r) (i32.const 1)))"),
    ("table.fill", "(table.fill $x (i32.const 0) (local.get $r) (i32.const 5))"),
    ("table.copy", "(table.copy $x $y (i32.const 0) (i32.const 1) (i32.const 5))"),
    ("table.init", "(table.init $x $items (i32.const 0) (i32.const 0) (i32.const 3))"),
    ("call", "(call $keep (local.get $r)) (call $keep (local.get $w))"),
    ("call_indirect", "(drop (call_indirect $functions (type $f) (local.get $r) (local.get $i)))"),
    ("call_ref", "(drop (call_ref $f (local.get $r) (ref.func $same)))"),
    ("return_call", "(if (local.get $i) (then (return_call $keep (local.get $r))))"),
    ("throw", "(if (local.get $i) (then (throw $e (local.get $r))))"),
    (
        "try_table",
        "(drop (block $caught (result (ref null any)) (try_table (catch $e $caught) (call $keep (local.get $r)) (call $keep (local.get $w))) (local.get $w)))",
    ),
    (
        "throw_ref",
        "(block $out (block $caught (result exnref) (try_table (catch_all_ref $caught) (throw $e (local.get $r))) (br $out)) (call $keep (local.get $w)) (throw_ref))",
    ),
    (
        "a block that leads to a trap",
        "(if (local.get $i) (then (call $keep (local.get $r)) (local.set $o (struct.new $s (local.get $r) (local.get $i))) (call $keep (local.get $w)) (call $keep (local.get $o)) (call $keep (local.get $r)) (unreachable)))",
    ),
    (
        "a new object in a block that leads to a trap",
        "(if (local.get $i) (then (local.set $o (struct.new $s (local.get $r) (local.get $i))) (call $keep (local.get $r)) (call $keep (local.get $r)) (call $keep (local.get $o)) (unreachable)))",
    ),
    (
        "a loop",
        "(loop $l (call $keep (global.get $constant)) (call $keep (local.get $w)) (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))",
    ),
];

/// A module with a function for each use. Everything that is used is used again behind a second call.
fn module() -> String {
    let functions: String = USES
        .iter()
        .map(|(title, what)| {
            format!(
                r#"(func (export "{title}") (param $i i32) (param $r anyref)
                  (local $o (ref null $s)) (local $n (ref null $a)) (local $m (ref null $b)) (local $w (ref null $v)) (local $c i31ref)
                  (local.set $o (struct.new $s (local.get $r) (local.get $i)))
                  (local.set $n (array.new $a (i32.const 3) (i32.const 10)))
                  (local.set $m (array.new_default $b (local.get $i)))
                  (local.set $w (array.new_default $v (i32.const 10)))
                  (call $collect)
                  {what}
                  (call $collect)
                  {what}
                  (if (local.get $i) (then {what})))"#
            )
        })
        .collect();
    format!("(module {TYPES} {functions})")
}

#[test]
fn references_are_loaded_anew_behind_safepoints() {
    let wasm = wat::parse_str(module()).expect("the module is well-formed");
    let mut compiled = 0;
    for (number, (name, plan)) in all_plans().into_iter().enumerate() {
        // Layouts and reference models meet in a few heaps.
        let some = spine_plans().into_iter().step_by(if number < plans().len() { 1 } else { 5 });
        for (title, arrays) in some.chain([("in one piece".to_owned(), plan.arrays)]) {
            if !is_possible(plan.references, arrays) {
                continue;
            }
            for optimize in [true, false] {
                let mut options = options(AccessPlan { arrays, ..plan.clone() });
                options.optimize = optimize;
                compile(&wasm, &options)
                    .unwrap_or_else(|error| panic!("{name}, {title}, optimize: {optimize}: {error}"));
                compiled += 1;
            }
        }
    }
    assert!(compiled > 100, "{compiled} heaps");
}
