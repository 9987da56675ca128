//! Small modules, run on every heap configuration.

use legato_compiler::artifact::TrapCode;
use legato_heap::HeapConfig;

use super::{Host, Run, heaps};
use crate::vm::{Unwind, ValueCell, activation, frames};

fn each(wat: &str, test: impl Fn(&Run)) {
    for heap in heaps() {
        let run = Run::new(&heap, wat, vec![]);
        test(&run);
        test(&run);
    }
}

fn names(addresses: &[usize]) -> Vec<String> {
    frames::resolve(addresses).into_iter().map(|frame| frame.function_name.unwrap_or_default()).collect()
}

#[test]
fn numbers_and_calls() {
    let wat = r#"(module
        (func $factorial (export "factorial") (param i64) (result i64)
            (if (result i64) (i64.eqz (local.get 0)) (then (i64.const 1))
                (else (i64.mul (local.get 0) (call $factorial (i64.sub (local.get 0) (i64.const 1)))))))
        (func (export "fibonacci") (param i32) (result i64) (local i64 i64 i64)
            (local.set 2 (i64.const 1))
            (loop
                (local.set 3 (i64.add (local.get 1) (local.get 2)))
                (local.set 1 (local.get 2))
                (local.set 2 (local.get 3))
                (br_if 0 (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
            (local.get 1))
        (func (export "hypotenuse") (param f64 f64) (result f64)
            (f64.sqrt (f64.add (f64.mul (local.get 0) (local.get 0)) (f64.mul (local.get 1) (local.get 1)))))
        (func $even (export "even") (param i32) (result i32)
            (if (result i32) (i32.eqz (local.get 0)) (then (i32.const 1))
                (else (return_call $odd (i32.sub (local.get 0) (i32.const 1))))))
        (func $odd (param i32) (result i32)
            (if (result i32) (i32.eqz (local.get 0)) (then (i32.const 0))
                (else (return_call $even (i32.sub (local.get 0) (i32.const 1)))))))"#;
    each(wat, |run| {
        assert_eq!(run.call("factorial", &[20]).unwrap(), 2_432_902_008_176_640_000);
        assert_eq!(run.call("fibonacci", &[90]).unwrap(), 2_880_067_194_370_816_120);
        let five = run.call("hypotenuse", &[3f64.to_bits(), 4f64.to_bits()]).unwrap();
        assert_eq!(f64::from_bits(five), 5.0);
        assert_eq!(run.call("even", &[1_000_001]).unwrap(), 0);
    });
}

#[test]
fn traps_with_backtraces() {
    let wat = r#"(module $traps
        (type $point (struct (field i32) (field (mut i32))))
        (type $bytes (array (mut i8)))
        (type $unary (func (param i32) (result i32)))
        (memory 1)
        (table 4 funcref)
        (elem (i32.const 1) $outer $other)
        (func $other)
        (func $inner (param i32) (result i32) (i32.div_s (i32.const 7) (local.get 0)))
        (func $outer (export "outer") (param i32) (result i32) (i32.add (call $inner (local.get 0)) (i32.const 1)))
        (func (export "unreachable") unreachable)
        (func (export "load") (param i32) (result i32) (i32.load offset=4 (local.get 0)))
        (func (export "store") (param i32) (i64.store (local.get 0) (i64.const 1)))
        (func (export "null") (result i32) (struct.get $point 1 (ref.null $point)))
        (func (export "element") (param i32) (result i32)
            (array.get_u $bytes (array.new $bytes (i32.const 9) (i32.const 3)) (local.get 0)))
        (func (export "null length") (result i32) (array.len (ref.null $bytes)))
        (func (export "cast") (result i32)
            (struct.get $point 0 (ref.cast (ref $point) (array.new $bytes (i32.const 9) (i32.const 3)))))
        (func (export "indirect") (param i32) (result i32) (call_indirect (type $unary) (i32.const 1) (local.get 0)))
        (func (export "truncate") (param f64) (result i32) (i32.trunc_f64_s (local.get 0)))
        (func (export "endless") (param i32) (result i32) (call $recurse (local.get 0)))
        (func $recurse (param i32) (result i32) (i32.add (call $recurse (local.get 0)) (i32.const 1))))"#;
    each(wat, |run| {
        assert_eq!(run.call("outer", &[7]).unwrap(), 2);
        let record = run.trap("outer", &[0]);
        assert_eq!(record.code, TrapCode::IntegerDivisionByZero);
        let frames = frames::resolve(&record.frames);
        // The optimiser may have put one into the other.
        assert_eq!(frames.last().unwrap().function_name.as_deref(), Some("outer"));
        assert_eq!(frames[0].module_name.as_deref(), Some("traps"));
        assert!(frames[0].wasm_offset.is_some());
        let code = |name, arguments: &[u64]| run.trap(name, arguments).code;
        assert_eq!(code("unreachable", &[]), TrapCode::Unreachable);
        assert_eq!(run.call("load", &[65528]).unwrap(), 0);
        assert_eq!(code("load", &[65529]), TrapCode::MemoryOutOfBounds);
        assert_eq!(code("load", &[u32::MAX as u64]), TrapCode::MemoryOutOfBounds);
        assert_eq!(code("store", &[65529]), TrapCode::MemoryOutOfBounds);
        assert_eq!(code("null", &[]), TrapCode::NullReference);
        assert_eq!(run.call("element", &[2]).unwrap(), 9);
        assert_eq!(code("element", &[3]), TrapCode::ArrayOutOfBounds);
        assert_eq!(code("null length", &[]), TrapCode::NullReference);
        assert_eq!(code("cast", &[]), TrapCode::CastFailure);
        assert_eq!(run.call("indirect", &[1]).unwrap(), 8);
        assert_eq!(code("indirect", &[2]), TrapCode::BadSignature);
        assert_eq!(code("indirect", &[3]), TrapCode::IndirectCallToNull);
        assert_eq!(code("indirect", &[4]), TrapCode::TableOutOfBounds);
        assert_eq!(code("truncate", &[f64::NAN.to_bits()]), TrapCode::BadConversionToInteger);
        let record = run.trap("endless", &[1]);
        assert_eq!(record.code, TrapCode::StackOverflow);
        assert_eq!(record.frames.len(), frames::MAX_BACKTRACE_FRAMES);
        assert_eq!(names(&record.frames)[100], "recurse");
    });
}

#[test]
fn objects_survive_collections() {
    let wat = r#"(module
        (rec (type $list (struct (field $value i64) (field $next (mut (ref null $list))))))
        (type $lists (array (mut (ref null $list))))
        (func $build (param $n i32) (param $factor i64) (result (ref null $list)) (local $head (ref null $list))
            (loop $again
                (local.set $head (struct.new $list
                    (i64.mul (local.get $factor) (i64.extend_i32_u (local.get $n))) (local.get $head)))
                (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
            (local.get $head))
        (func $sum (param $list (ref null $list)) (result i64) (local $sum i64)
            (block $end
                (loop $again
                    (br_if $end (ref.is_null (local.get $list)))
                    (local.set $sum (i64.add (local.get $sum) (struct.get $list $value (local.get $list))))
                    (local.set $list (struct.get $list $next (local.get $list)))
                    (br $again)))
            (local.get $sum))
        (func (export "lists") (param $n i32) (result i64)
            (local $all (ref $lists)) (local $i i32) (local $sum i64)
            (local.set $all (array.new_default $lists (i32.const 10)))
            (loop $again
                (array.set $lists (local.get $all) (local.get $i)
                    (call $build (local.get $n) (i64.extend_i32_u (local.get $i))))
                (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 10))))
            (loop $again
                (local.set $i (i32.sub (local.get $i) (i32.const 1)))
                (local.set $sum (i64.add (local.get $sum) (call $sum (array.get $lists (local.get $all) (local.get $i)))))
                (br_if $again (local.get $i)))
            (local.get $sum)))"#;
    each(wat, |run| {
        // The sum of i * k over i below 10 and k from 1 to 40.
        assert_eq!(run.call("lists", &[40]).unwrap(), 45 * 820);
    });
}

#[test]
fn exceptions_unwind_to_their_handlers() {
    let wat = r#"(module
        (type $box (struct (field i32)))
        (tag $number (param i32))
        (tag $object (param (ref $box) i64))
        (func $throw (param i32)
            (if (i32.eqz (local.get 0)) (then (throw $number (i32.const 41))))
            (if (i32.eq (local.get 0) (i32.const 1))
                (then (throw $object (struct.new $box (i32.const 17)) (i64.const 3)))))
        (func $deep (param i32 i32)
            (if (local.get 1)
                (then (call $deep (local.get 0) (i32.sub (local.get 1) (i32.const 1))))
                (else (call $throw (local.get 0)))))
        (func (export "catch") (param i32) (result i32) (local $kept (ref $box))
            (local.set $kept (struct.new $box (i32.const 1000)))
            (block $object (result (ref $box) i64)
                (block $number (result i32)
                    (try_table (catch $number $number) (catch $object $object)
                        (call $deep (local.get 0) (i32.const 20)))
                    (return (struct.get $box 0 (local.get $kept))))
                (return (i32.add (struct.get $box 0 (local.get $kept)))))
            (i32.wrap_i64)
            (local.set 0)
            (struct.get $box 0)
            (i32.add (local.get 0))
            (i32.add (struct.get $box 0 (local.get $kept))))
        (func $rethrow (param i32)
            (block $all (result exnref)
                (try_table (catch_all_ref $all) (call $deep (local.get 0) (i32.const 3)))
                (return))
            (drop (struct.new $box (i32.const 5)))
            (throw_ref))
        (func (export "rethrow") (param i32) (result i32)
            (block $number (result i32)
                (try_table (catch $number $number) (call $rethrow (local.get 0)))
                (return (i32.const -1))))
        (func (export "null") (throw_ref (ref.null exn))))"#;
    each(wat, |run| {
        assert_eq!(run.call("catch", &[0]).unwrap(), 1041);
        assert_eq!(run.call("catch", &[1]).unwrap(), 1020);
        assert_eq!(run.call("catch", &[2]).unwrap(), 1000);
        assert_eq!(run.call("rethrow", &[0]).unwrap(), 41);
        assert_eq!(run.call("rethrow", &[2]).unwrap(), u32::MAX as u64);
        let uncaught = run.call("rethrow", &[1]);
        assert!(matches!(uncaught, Err(Unwind::Exception(_))), "{uncaught:?}");
        assert_eq!(run.trap("null", &[]).code, TrapCode::NullReference);
    });
}

#[test]
fn memories_grow() {
    let wat = r#"(module
        (memory $small 1 3)
        (memory $large i64 1)
        (func (export "grow") (param i32) (result i32) (memory.grow $small (local.get 0)))
        (func (export "grow large") (param i64) (result i64) (memory.grow $large (local.get 0)))
        (func (export "keep") (param i32 i64) (result i64)
            (i64.store $small (local.get 0) (i64.const 5))
            (i64.store $large (local.get 1) (i64.const 6))
            (i64.add (i64.load $small (local.get 0)) (i64.load $large (local.get 1)))))"#;
    for heap in heaps() {
        let run = Run::new(&heap, wat, vec![]);
        assert_eq!(run.trap("keep", &[65536, 0]).code, TrapCode::MemoryOutOfBounds);
        assert_eq!(run.call("grow", &[2]).unwrap(), 1);
        assert_eq!(run.call("grow", &[1]).unwrap(), u32::MAX as u64);
        assert_eq!(run.trap("keep", &[65536, 65536]).code, TrapCode::MemoryOutOfBounds);
        assert_eq!(run.trap("keep", &[65536, u64::MAX - 3]).code, TrapCode::MemoryOutOfBounds);
        // Beyond the first reservation, so that the memory moves.
        assert_eq!(run.call("grow large", &[1 << 15]).unwrap(), 1);
        assert_eq!(run.call("grow large", &[1 << 50]).unwrap(), u64::MAX);
        assert_eq!(run.call("keep", &[3 * 65536 - 8, 1 << 31]).unwrap(), 11);
    }
}

#[test]
fn host_functions_are_called_and_call_back() {
    let wat = r#"(module
        (import "host" "mix" (func $mix (param i32 f64 i64) (result i64)))
        (type $box (struct (field i64)))
        (func $use (export "use") (param i32) (result i64) (local $kept (ref $box))
            (local.set $kept (struct.new $box (i64.const 7)))
            (i64.add (call $mix (local.get 0) (f64.const 0.5) (i64.const 100)) (struct.get $box 0 (local.get $kept))))
        (func (export "tail") (param i32) (result i64)
            (return_call $mix (local.get 0) (f64.const 0.25) (i64.const 10))))"#;
    for heap in heaps() {
        let mix: Host = Box::new(|run, cells| {
            let word = |cell: &ValueCell| u64::from_le_bytes(cell.0[..8].try_into().unwrap());
            let depth = word(&cells[0]) as u32;
            let (half, hundred) = (f64::from_bits(word(&cells[1])), word(&cells[2]));
            if depth == 99 {
                return Err(Unwind::Error(anyhow::anyhow!("enough")));
            }
            let inner = if depth > 0 { run.call("use", &[depth as u64 - 1])? } else { 0 };
            let result = inner + hundred + (half * 4.0) as u64;
            cells[0].0[..8].copy_from_slice(&result.to_le_bytes());
            Ok(())
        });
        let run = Run::new(&heap, wat, vec![(3, mix)]);
        assert_eq!(run.call("use", &[0]).unwrap(), 109);
        assert_eq!(run.call("use", &[5]).unwrap(), 6 * 109);
        assert_eq!(run.call("tail", &[0]).unwrap(), 11);
        assert!(matches!(run.call("use", &[99]), Err(Unwind::Error(_))));
        assert!(matches!(run.call("tail", &[99]), Err(Unwind::Error(_))));
        assert!(!activation::is_active(run.store()));
    }
}

#[test]
fn loops_and_recursion_are_interrupted() {
    let wat = r#"(module
        (func (export "loop") (loop (br 0)))
        (func $count (param i32) (result i32)
            (if (result i32) (local.get 0)
                (then (i32.add (call $count (i32.sub (local.get 0) (i32.const 1))) (i32.const 1)))
                (else (i32.const 0))))
        (func (export "recursion") (loop (drop (call $count (i32.const 100))) (br 0))))"#;
    for name in ["loop", "recursion"] {
        let run = Run::new(&HeapConfig::default(), wat, vec![]);
        let handle = run.interrupt().clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            handle.interrupt();
        });
        assert_eq!(run.trap(name, &[]).code, TrapCode::Interrupt);
        thread.join().unwrap();
    }
}
