//! Vectors of 128 bits where the heap, calls and safepoints meet them. What each instruction computes is the official
//! suite's business.

use legato::{Compilation, Config, Engine, Instance, Module, Result, Store, Trap, V128};
use legato_test_matrix::{Row, product};

use super::{heaps, instance};

const TEXT: &str = r#"(module
    (type $node (struct (field $value (mut v128)) (field i8) (field $next (ref null $node))))
    (type $array (array (mut v128)))
    (type $many (func (param v128 v128 v128 v128 v128 v128 v128 v128 v128 v128 v128 i32) (result v128 i32 v128)))
    (tag $thrown (param v128 (ref null $node)))
    (memory (export "memory") 1 1)
    (global $global (mut v128) (v128.const i32x4 1 2 3 4))
    (global $nodes (ref $array) (array.new $array (v128.const i64x2 5 6) (i32.const 3)))
    (table funcref (elem $many))

    ;; Vectors that live while objects are made.
    (func $list (export "list") (param $count i32) (result v128)
        (local $list (ref null $node)) (local $sum v128) (local $step v128)
        (local.set $step (i32x4.splat (i32.const 1)))
        (loop $each
            (local.set $list (struct.new $node (local.get $step) (i32.const -1) (local.get $list)))
            (local.set $sum (i32x4.add (local.get $sum) (local.get $step)))
            (local.set $step (i32x4.add (local.get $step) (v128.const i32x4 1 2 3 4)))
            (br_if $each (local.tee $count (i32.sub (local.get $count) (i32.const 1)))))
        (global.set $global (local.get $sum))
        (loop $each
            (local.set $sum (i32x4.sub (local.get $sum) (struct.get $node $value (local.get $list))))
            (struct.set $node $value (local.get $list) (v128.not (struct.get $node $value (local.get $list))))
            (local.set $list (struct.get $node $next (local.get $list)))
            (br_if $each (i32.eqz (ref.is_null (local.get $list)))))
        ;; Zero by now.
        (i32x4.add (global.get $global) (local.get $sum)))

    ;; Elements, one by one, in ranges and in copies.
    (func (export "array") (param $length i32) (result v128)
        (local $array (ref $array)) (local $other (ref $array)) (local $at i32) (local $sum v128)
        (local.set $array (array.new_default $array (local.get $length)))
        (local.set $other (array.new $array (v128.const i32x4 7 7 7 7) (local.get $length)))
        (loop $each
            (array.set $array (local.get $array) (local.get $at) (i32x4.splat (local.get $at)))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br_if $each (i32.lt_u (local.get $at) (local.get $length))))
        ;; Half of the numbers, the rest sevens but for the last, which is all ones.
        (array.copy $array $array (local.get $other) (i32.const 0) (local.get $array) (i32.const 0)
            (i32.shr_u (local.get $length) (i32.const 1)))
        (array.fill $array (local.get $other) (i32.sub (local.get $length) (i32.const 1)) (v128.const i64x2 -1 -1)
            (i32.const 1))
        (local.set $at (i32.const 0))
        (loop $each
            (local.set $sum (i32x4.add (local.get $sum) (array.get $array (local.get $other) (local.get $at))))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br_if $each (i32.lt_u (local.get $at) (local.get $length))))
        (local.get $sum))

    (func (export "fixed") (param v128 v128) (result v128)
        (i8x16.shuffle 0 16 1 17 2 18 3 19 4 20 5 21 6 22 7 23
            (array.get $array (array.new_fixed $array 2 (local.get 0) (local.get 1)) (i32.const 1))
            (array.get $array (global.get $nodes) (i32.const 2))))

    (func $raise (param v128) (throw $thrown (local.get 0) (ref.null $node)))
    (func (export "catch") (param v128) (result v128)
        (block $caught (result v128 (ref null $node))
            (try_table (catch $thrown $caught) (call $raise (local.get 0)))
            (unreachable))
        (drop))

    (func $many (type $many)
        (call $collect)
        (i8x16.sub (local.get 10) (local.get 0)) (local.get 11) (v128.xor (local.get 7) (local.get 8)))
    (func $collect (drop (call $list (i32.const 50))))
    (func (export "call") (param $x v128) (result v128 i32 v128)
        (call_indirect (type $many)
            (local.get $x) (local.get $x) (local.get $x) (local.get $x) (local.get $x) (local.get $x) (local.get $x)
            (local.get $x) (i8x16.splat (i32.const 255)) (local.get $x) (i8x16.add (local.get $x) (local.get $x))
            (i32.const 12) (i32.const 0)))

    ;; A loop that is replaced while it runs, with vectors that come along.
    (func (export "dot") (param $floats i32) (result f32) (local $at i32) (local $sum v128) (local $scale v128)
        (local.set $scale (f32x4.splat (f32.const 0.5)))
        (loop $each
            (local.set $sum (f32x4.add (local.get $sum) (f32x4.mul (local.get $scale)
                (f32x4.mul (v128.load (i32.and (local.get $at) (i32.const 0xfff0)))
                    (v128.load (i32.and (local.get $at) (i32.const 0xfff0)))))))
            (local.set $at (i32.add (local.get $at) (i32.const 16)))
            (br_if $each (i32.lt_u (local.get $at) (i32.shl (local.get $floats) (i32.const 2)))))
        (f32.add
            (f32.add (f32x4.extract_lane 0 (local.get $sum)) (f32x4.extract_lane 1 (local.get $sum)))
            (f32.add (f32x4.extract_lane 2 (local.get $sum)) (f32x4.extract_lane 3 (local.get $sum)))))

    ;; Accesses of 16, 8, 4, 2 and 1 bytes.
    (func (export "load") (param i32) (result v128) (v128.load offset=4 (local.get 0)))
    (func (export "store") (param i32 v128) (v128.store offset=4 (local.get 0) (local.get 1)))
    (func (export "half") (param i32) (result v128) (v128.load16x4_s (local.get 0)))
    (func (export "load lane of 1") (param i32 v128) (result v128) (v128.load8_lane 15 (local.get 0) (local.get 1)))
    (func (export "store lane of 1") (param i32 v128) (v128.store8_lane 15 (local.get 0) (local.get 1)))
    (func (export "store lane of 2") (param i32 v128) (v128.store16_lane 7 (local.get 0) (local.get 1)))
    (func (export "store lane of 4") (param i32 v128) (v128.store32_lane 3 (local.get 0) (local.get 1)))
    (func (export "store lane of 8") (param i32 v128) (v128.store64_lane 1 (local.get 0) (local.get 1)))
    (func (export "load lane of 2") (param i32 v128) (result v128)
        (v128.load16_lane 7 (local.get 0) (local.get 1)))
    (func (export "load lane of 4") (param i32 v128) (result v128)
        (v128.load32_lane 3 (local.get 0) (local.get 1)))
    (func (export "load lane of 8") (param i32 v128) (result v128)
        (v128.load64_lane 1 (local.get 0) (local.get 1)))
    (func (export "splat of 4") (param i32) (result v128) (v128.load32_splat (local.get 0)))
    (func (export "zero of 8") (param i32) (result v128) (v128.load64_zero (local.get 0))))"#;

fn lanes(value: V128) -> [u32; 4] {
    [0, 32, 64, 96].map(|shift| (value.as_u128() >> shift) as u32)
}

/// Engines for all collectors with all reference models, and all layouts of arrays, that collect now and then, and such
/// that compile functions when they are called.
fn engines() -> impl Iterator<Item = Engine> {
    let layouts = product(&["arrays"]);
    let settings = |row: Row| row.with("verify=on").with("stress=13");
    let engine = move |(row, compilation)| {
        let mut config = Config::new();
        config.compilation(compilation).compiler_verifier(true).heap(settings(row).heap());
        Engine::new(&config).unwrap()
    };
    let lazy = layouts.clone().into_iter().map(|row| (row, Compilation::Lazy));
    heaps().into_iter().chain(layouts).map(|row| (row, Compilation::Eager)).chain(lazy).map(engine)
}

#[test]
fn objects_hold_vectors() -> Result<()> {
    for engine in engines() {
        let (mut store, instance) = instance(&engine, (), TEXT)?;
        let list = instance.get_typed_func::<u32, V128>(&mut store, "list")?;
        // 1, 1 + step, 1 + 2 step ...
        let sum = |step: u32| 200 + step * (199 * 200 / 2);
        assert_eq!(lanes(list.call(&mut store, 200)?), [1, 2, 3, 4].map(sum));
        let array = instance.get_typed_func::<u32, V128>(&mut store, "array")?;
        for length in [2_u32, 9, 300, 5000] {
            let half = length / 2;
            let sum = (half * (half - 1) / 2 + 7 * (length - half - 1)).wrapping_sub(1);
            assert_eq!(lanes(array.call(&mut store, length)?), [sum; 4], "{length} elements");
        }
        let fixed = instance.get_typed_func::<(V128, V128), V128>(&mut store, "fixed")?;
        let mixed = fixed.call(&mut store, (V128::from(0), V128::from(0x0807_0605_0403_0201)))?;
        assert_eq!(mixed.as_u128(), 0x0008_0007_0006_0005_0004_0003_0002_0501);
    }
    Ok(())
}

#[test]
fn vectors_are_thrown_and_passed() -> Result<()> {
    let x = V128::from(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);
    for engine in engines() {
        let (mut store, instance) = instance(&engine, (), TEXT)?;
        let catch = instance.get_typed_func::<V128, V128>(&mut store, "catch")?;
        assert_eq!(catch.call(&mut store, x)?.as_u128(), x.as_u128());
        let call = instance.get_typed_func::<V128, (V128, u32, V128)>(&mut store, "call")?;
        let (first, number, last) = call.call(&mut store, x)?;
        assert_eq!((first.as_u128(), number, last.as_u128()), (x.as_u128(), 12, !x.as_u128()));
    }
    Ok(())
}

#[test]
fn vectors_come_along_where_a_loop_is_replaced() -> Result<()> {
    let engine = Engine::new(Config::new().compilation(Compilation::Lazy).compiler_verifier(true))?;
    let (mut store, instance) = instance(&engine, (), TEXT)?;
    let memory = instance.get_memory(&mut store, "memory").unwrap();
    for (number, float) in memory.data_mut(&mut store).chunks_mut(4).enumerate() {
        float.copy_from_slice(&((number % 4) as f32).to_le_bytes());
    }
    let dot = instance.get_typed_func::<u32, f32>(&mut store, "dot")?;
    // (0 + 1 + 4 + 9) / 2 for each vector: whole numbers below 2^24 in each lane.
    for vectors in [1, 1 << 10, 1 << 20, 3 << 18] {
        assert_eq!(dot.call(&mut store, 4 * vectors)?, 7.0 * vectors as f32, "{vectors} vectors");
    }
    Ok(())
}

#[test]
fn vectors_are_loaded_and_stored_within_the_memory() -> Result<()> {
    const BYTES: u32 = 1 << 16;
    let x = V128::from(0x7071_7273_7475_7677_7879_7a7b_7c7d_7e7f);
    let checked = |memory_reservation| {
        let mut config = Config::new();
        config.memory_reservation(memory_reservation);
        Engine::new(&config)
    };
    // With addresses that are all mapped or guarded, and with checks.
    for engine in [Engine::new(&Config::new())?, checked(0)?] {
        let (mut store, instance) = instance(&engine, (), TEXT)?;
        let memory = instance.get_memory(&mut store, "memory").unwrap();
        let is_outside = |error: legato::Error| error.downcast_ref() == Some(&Trap::MemoryOutOfBounds);
        for (name, bytes) in [
            ("store", 16),
            ("store lane of 8", 8),
            ("store lane of 4", 4),
            ("store lane of 2", 2),
            ("store lane of 1", 1),
        ] {
            // The one that stores everything has an offset.
            let last = BYTES - bytes - if bytes == 16 { 4 } else { 0 };
            let function = instance.get_typed_func::<(u32, V128), ()>(&mut store, name)?;
            memory.data_mut(&mut store).fill(0x11);
            assert!(is_outside(function.call(&mut store, (last + 1, x)).unwrap_err()), "{name}");
            assert!(memory.data(&store).iter().all(|&byte| byte == 0x11), "{name} stores what lies inside");
            function.call(&mut store, (last, x))?;
            let stored = memory.data(&store)[(BYTES - bytes) as usize..].to_vec();
            // The highest lane.
            assert_eq!(stored, x.as_u128().to_le_bytes()[16 - bytes as usize..], "{name}");
            assert_eq!(memory.data(&store)[(BYTES - bytes) as usize - 1], 0x11, "{name}");
        }
        for (at, byte) in memory.data_mut(&mut store)[BYTES as usize - 16..].iter_mut().enumerate() {
            *byte = at as u8;
        }
        let zeros = V128::from(0);
        for bytes in [1, 2, 4, 8] {
            let name = format!("load lane of {bytes}");
            let function = instance.get_typed_func::<(u32, V128), V128>(&mut store, &name)?;
            assert!(is_outside(function.call(&mut store, (BYTES - bytes + 1, x)).unwrap_err()), "{name}");
            let loaded = function.call(&mut store, (BYTES - bytes, zeros))?.as_u128().to_le_bytes();
            let (rest, lane) = loaded.split_at(16 - bytes as usize);
            assert!(rest.iter().all(|&byte| byte == 0), "{name}");
            assert!(lane.iter().zip(16 - bytes as u8..).all(|(&byte, at)| byte == at), "{name}: {lane:?}");
        }
        let whole: [(&str, u32, u128); 4] = [
            ("load", 20, 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100),
            ("half", 8, 0x0000_0f0e_0000_0d0c_0000_0b0a_0000_0908),
            ("splat of 4", 4, 0x0f0e_0d0c_0f0e_0d0c_0f0e_0d0c_0f0e_0d0c),
            ("zero of 8", 8, 0x0f0e_0d0c_0b0a_0908),
        ];
        for (name, bytes, expected) in whole {
            let function = instance.get_typed_func::<u32, V128>(&mut store, name)?;
            assert!(is_outside(function.call(&mut store, BYTES - bytes + 1).unwrap_err()), "{name}");
            assert_eq!(function.call(&mut store, BYTES - bytes)?.as_u128(), expected, "{name}");
        }
    }
    Ok(())
}

/// A module without a heap that uses vectors alone.
#[test]
fn vectors_need_no_heap() -> Result<()> {
    let engine = Engine::default();
    let text = r#"(module (func (export "f") (param v128) (result i32) (i8x16.bitmask (local.get 0))))"#;
    let mut store = Store::new(&engine, ());
    let instance = Instance::new(&mut store, &Module::new(&engine, text)?, &[])?;
    let function = instance.get_typed_func::<V128, u32>(&mut store, "f")?;
    assert_eq!(function.call(&mut store, V128::from(0x80 << 120 | 0x80))?, 0x8001);
    Ok(())
}
