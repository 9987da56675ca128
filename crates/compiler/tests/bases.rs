//! Base addresses that one way into a block has loaded, and another has not: the code generator's verifier refuses code
//! that takes one from where it is not always made.

mod support;

use legato_compiler::compile;
use support::{options, plans};

#[test]
fn a_base_address_is_used_only_where_every_way_has_loaded_it() {
    let wasm = wat::parse_str(
        r#"(module
            (type $pair (struct (field (mut i32)) (field (mut i32))))
            (memory 1)
            (func (export "then") (param $it (ref $pair)) (param i32) (result i32)
                (if (local.get 1) (then (struct.set $pair 0 (local.get $it) (i32.const 1))))
                (struct.get $pair 1 (local.get $it)))
            (func (export "else") (param $it (ref $pair)) (param i32) (result i32)
                (if (local.get 1) (then) (else (struct.set $pair 0 (local.get $it) (i32.const 1))))
                (struct.get $pair 1 (local.get $it)))
            (func (export "both") (param $it (ref $pair)) (param i32) (result i32)
                (if (local.get 1)
                    (then (struct.set $pair 0 (local.get $it) (i32.const 1)))
                    (else (struct.set $pair 0 (local.get $it) (i32.const 2))))
                (struct.get $pair 1 (local.get $it)))
            (func (export "memory") (param i32) (result i32)
                (if (local.get 0) (then (i32.store (local.get 0) (i32.const 1))))
                (i32.load (i32.const 8)))
            (func (export "cases") (param $it (ref $pair)) (param i32) (result i32)
                (block $end (block $two (block $one (block $none
                    (br_table $none $one $two $end (local.get 1)))
                    (struct.set $pair 0 (local.get $it) (i32.const 1)))
                    (struct.set $pair 0 (local.get $it) (i32.const 2)) (br $end))
                    (i32.store (local.get 1) (i32.const 1)))
                (i32.add (struct.get $pair 1 (local.get $it)) (i32.load (i32.const 8)))))"#,
    )
    .unwrap();
    for (name, plan) in plans() {
        assert_eq!(compile(&wasm, &options(plan)).expect(name).functions.len(), 5);
    }
}
