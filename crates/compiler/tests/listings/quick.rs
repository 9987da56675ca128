//! Code of the quick tier, which is made in one pass.

use std::fmt::Write;

use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
use legato_compiler::abi::Builtin;
use legato_compiler::emit::{FunctionCode, Symbol};
use legato_compiler::{OnDemand, Tier};
use legato_heap::HeapConfig;

use super::compare;
use super::support::options;

/// Stores a reference, sums an array, makes an object, and calls with a handler and by reference; the first
/// has arguments on the stack.
const MODULE: &str = r#"(module
  (type $cell (struct (field $value (mut i32)) (field $next (mut (ref null $cell)))))
  (type $numbers (array (mut f64)))
  (tag $failed (param i32))
  (func $many (param i32 i32 i32 i32 i32 i32 i64) (result i64)
    (i64.add (local.get 6) (i64.extend_i32_u (i32.sub (local.get 0) (local.get 5)))))
  (func $set (param $cell (ref $cell)) (param $next (ref null $cell))
    (struct.set $cell $next (local.get $cell) (local.get $next)))
  (func $sum (param $numbers (ref $numbers)) (result f64) (local $index i32) (local $sum f64)
    (loop $more
      (if (i32.lt_u (local.get $index) (array.len (local.get $numbers)))
        (then
          (local.set $sum
            (f64.add (local.get $sum) (array.get $numbers (local.get $numbers) (local.get $index))))
          (local.set $index (i32.add (local.get $index) (i32.const 1)))
          (br $more))))
    (local.get $sum))
  (func $push (param $next (ref null $cell)) (result (ref $cell))
    (struct.new $cell (i32.const 7) (local.get $next)))
  (func $caught (param $value i32) (result i32)
    (block $handler (result i32)
      (try_table (catch $failed $handler)
        (drop (call $many (local.get $value) (i32.const 1) (i32.const 2) (i32.const 3) (i32.const 4) (i32.const 5)
          (i64.const 6))))
      (i32.mul (local.get $value) (i32.const 3))))
  (type $of (func (param i32) (result i32)))
  (func $apply (param $callee (ref $of)) (param $value i32) (result i32)
    (call_ref $of (local.get $value) (local.get $callee)))
  (func $cast (param $object (ref any)) (result i32)
    (struct.get $cell $value (ref.cast (ref $cell) (local.get $object))))
  (type $shape (sub (struct)))
  (type $circle (sub $shape (struct (field f64))))
  (func $is (param $object (ref $shape)) (result i32) (ref.test (ref $circle) (local.get $object)))
  (table $table 1 funcref)
  (func $indirect (param $index i32) (result i32) (call_indirect $table (type $of) (i32.const 1) (local.get $index)))
  (func $array (param $length i32) (result (ref $numbers)) (array.new_default $numbers (local.get $length)))
)"#;

#[test]
fn quick() {
    let module = module(HeapConfig::default());
    let mut text = String::new();
    for (index, name) in ["many", "set", "sum", "push", "caught", "apply"].into_iter().enumerate() {
        writeln!(text, "; {name}").unwrap();
        list(&mut text, &module.compile(Symbol::Function(index as u32), Tier::Quick).unwrap());
    }
    compare("quick", &text);
}

/// Code for one engine, which holds the engine's ids of types: allocation, a cast, a test of a type that may have
/// subtypes elsewhere, a call through a table.
#[test]
fn known_type_ids() {
    let mut module = module(HeapConfig::default());
    let ids = (1..=module.info().types.len() as u32).map(|number| 0x1000 * number).collect();
    module.set_type_ids(ids);
    let mut text = String::new();
    for tier in [Tier::Quick, Tier::Optimized] {
        for (index, name) in [(3, "push"), (6, "cast"), (7, "is"), (8, "indirect"), (9, "array")] {
            writeln!(text, "; {name}, {tier:?}").unwrap();
            list(&mut text, &module.compile(Symbol::Function(index), tier).unwrap());
        }
    }
    compare("known-type-ids", &text);
}

/// What quick code calls for each object.
#[test]
fn quick_allocation() {
    let mut text = String::new();
    for collector in ["generational", "realtime"] {
        let mut config = HeapConfig::default();
        config.set("collector", collector).unwrap();
        let module = module(config);
        for builtin in [Builtin::AllocateStruct, Builtin::AllocateArray] {
            writeln!(text, "; {builtin:?}, collector={collector}").unwrap();
            list(&mut text, &module.compile(Symbol::Builtin(builtin as u32), Tier::Optimized).unwrap());
        }
    }
    compare("quick-allocation", &text);
}

fn module(config: HeapConfig) -> OnDemand {
    let mut options = options(config.access_plan());
    options.verify = false;
    OnDemand::new(&wat::parse_str(MODULE).unwrap(), &options).unwrap()
}

fn list(text: &mut String, code: &FunctionCode) {
    // Calls lead to where they stand.
    let (bytes, tables) = code.place(0, |_| 0).unwrap();
    let mut formatter = IntelFormatter::new();
    for instruction in &mut Decoder::with_ip(64, &bytes, 0, DecoderOptions::NONE) {
        let mut line = String::new();
        formatter.format(&instruction, &mut line);
        writeln!(text, "{:>5x}  {line}", instruction.ip()).unwrap();
    }
    for entry in &tables.stack_maps.entries {
        let slots = &tables.stack_maps.slots[entry.first as usize..][..entry.count as usize];
        writeln!(text, "; at {:x} references lie {slots:?} below the frame pointer", entry.offset).unwrap();
    }
    for site in &tables.call_sites.entries {
        writeln!(text, "; at {:x} {site:?}", site.offset).unwrap();
    }
}
