//! Calls of functions, memories, tables, globals.

use legato::{
    AnyRef, Extern, Func, Global, GlobalType, Memory, MemoryType, Mutability, Ref, RefType, Result, Rooted, StructRef,
    StructRefPre, StructType, Table, TableType, Trap, V128, Val, ValType,
};

use crate::{engines, instance};

#[test]
fn arithmetic_of_every_type() -> Result<()> {
    for engine in engines() {
        let (mut store, instance) = instance(
            &engine,
            (),
            r#"(module
                (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
                (func (export "mul") (param i64 i64) (result i64) (i64.mul (local.get 0) (local.get 1)))
                (func (export "div") (param f64 f32) (result f64 f32)
                    (f64.div (local.get 0) (f64.const 3)) (f32.sqrt (local.get 1)))
                (func (export "vector") (param v128) (result v128) (local.get 0))
                (func $fac (export "fac") (param i64) (result i64)
                    (if (result i64) (i64.eqz (local.get 0))
                        (then (i64.const 1))
                        (else (i64.mul (local.get 0) (call $fac (i64.sub (local.get 0) (i64.const 1)))))))
                (func (export "swap") (param i32 i64 f32 f64) (result f64 f32 i64 i32)
                    (local.get 3) (local.get 2) (local.get 1) (local.get 0)))"#,
        )?;
        let add = instance.get_typed_func::<(i32, i32), i32>(&mut store, "add")?;
        assert_eq!(add.call(&mut store, (i32::MAX, 1))?, i32::MIN);
        let mul = instance.get_typed_func::<(u64, u64), u64>(&mut store, "mul")?;
        assert_eq!(mul.call(&mut store, (1 << 40, 1 << 20))?, 1 << 60);
        let div = instance.get_typed_func::<(f64, f32), (f64, f32)>(&mut store, "div")?;
        assert_eq!(div.call(&mut store, (1.0, 16.0))?, (1.0 / 3.0, 4.0));
        let vector = instance.get_typed_func::<V128, V128>(&mut store, "vector")?;
        assert_eq!(vector.call(&mut store, V128::from(1 << 100))?.as_u128(), 1 << 100);
        let fac = instance.get_typed_func::<i64, i64>(&mut store, "fac")?;
        assert_eq!(fac.call(&mut store, 20)?, 2_432_902_008_176_640_000);
        let swap = instance.get_func(&mut store, "swap").unwrap();
        let mut results = [Val::I32(0); 4];
        swap.call(&mut store, &[Val::I32(1), Val::I64(2), 3.0f32.into(), 4.0f64.into()], &mut results)?;
        assert_eq!(results[0].f64(), Some(4.0));
        assert_eq!(results[1].f32(), Some(3.0));
        assert_eq!(results[2].i64(), Some(2));
        assert_eq!(results[3].i32(), Some(1));
    }
    Ok(())
}

#[test]
fn wrong_types_are_refused() -> Result<()> {
    let engine = &engines()[0];
    let (mut store, instance) =
        instance(engine, (), r#"(module (func (export "f") (param i32 (ref null i31)) (result i64) (i64.const 0)))"#)?;
    let f = instance.get_func(&mut store, "f").unwrap();
    let mut results = [Val::I32(0)];
    let wrong = f.call(&mut store, &[Val::I64(1), Val::AnyRef(None)], &mut results).unwrap_err();
    assert_eq!(format!("{wrong:#}"), "parameter 0: type mismatch: expected i32, found i64");
    let pair = StructType::new(engine, [])?;
    let pair = StructRefPre::new(&store, pair);
    let pair = StructRef::new(&mut store, &pair, &[])?;
    let wrong = f.call(&mut store, &[Val::I32(1), pair.into()], &mut results).unwrap_err();
    let wrong = format!("{wrong:#}");
    assert!(wrong.starts_with("parameter 1: type mismatch: expected (ref null i31), found (ref "), "{wrong}");
    let any = f.typed::<(i32, Option<Rooted<AnyRef>>), i64>(&store)?;
    let wrong = any.call(&mut store, (1, Some(pair.to_anyref()))).unwrap_err().to_string();
    assert!(wrong.starts_with("type mismatch: parameter 1 is (ref null i31), not (ref "), "{wrong}");
    let numbers = Table::new(&mut store, TableType::new(RefType::I31REF, 1, None), Ref::Any(None))?;
    let wrong = numbers.set(&mut store, 0, pair.to_anyref().into()).unwrap_err().to_string();
    assert!(wrong.starts_with("type mismatch: the element is (ref null i31), not (ref "), "{wrong}");
    assert!(f.call(&mut store, &[Val::I32(1)], &mut results).is_err());
    assert!(f.call(&mut store, &[Val::I32(1), Val::AnyRef(None)], &mut []).is_err());
    assert!(f.typed::<(i64, i64), i64>(&store).is_err());
    assert!(f.typed::<i32, i64>(&store).is_err());
    assert!(f.typed::<(i32, Option<legato::I31>), i64>(&store).is_ok());
    Ok(())
}

#[test]
fn what_is_left_to_a_function_happens_once() -> Result<()> {
    let text = r#"(module
        (type $numbers (array (mut i32)))
        (type $text (struct (field $hash (mut i32)) (field $code i32)))
        (global $squares (mut (ref null $numbers)) (ref.null $numbers))
        (global $made (mut i32) (i32.const 0))
        (global $asked (mut i32) (i32.const 0))
        (func $square (param $number i32) (result i32) (local $at i32)
          (if (ref.is_null (global.get $squares)) (then
            (global.set $squares (array.new_default $numbers (i32.const 10)))
            (loop $next
              (global.set $made (i32.add (global.get $made) (i32.const 1)))
              (array.set $numbers (global.get $squares) (local.get $at) (i32.mul (local.get $at) (local.get $at)))
              (local.set $at (i32.add (local.get $at) (i32.const 1)))
              (br_if $next (i32.lt_u (local.get $at) (i32.const 10))))))
          (array.get $numbers (global.get $squares) (local.get $number)))
        (func $hash (param $text (ref $text)) (result i32) (local $at i32) (local $hash i32)
          (global.set $asked (i32.add (global.get $asked) (i32.const 1)))
          (if (i32.eqz (struct.get $text $hash (local.get $text))) (then
            (loop $next
              (local.set $hash (i32.add (i32.mul (local.get $hash) (i32.const 31)) (struct.get $text $code (local.get $text))))
              (local.set $at (i32.add (local.get $at) (i32.const 1)))
              (br_if $next (i32.lt_u (local.get $at) (i32.const 3))))
            (global.set $made (i32.add (global.get $made) (i32.const 100)))
            (struct.set $text $hash (local.get $text) (local.get $hash))))
          (struct.get $text $hash (local.get $text)))
        (func (export "run") (result i32 i32 i32) (local $text (ref $text)) (local $at i32) (local $sum i32)
          (local.set $text (struct.new $text (i32.const 0) (i32.const 5)))
          (loop $next
            (local.set $sum (i32.add (local.get $sum)
              (i32.add (call $square (local.get $at)) (call $hash (local.get $text)))))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br_if $next (i32.lt_u (local.get $at) (i32.const 10))))
          (local.get $sum) (global.get $made) (global.get $asked)))"#;
    let hash = (5 * 31 + 5) * 31 + 5;
    for engine in engines() {
        let (mut store, instance) = instance(&engine, (), text)?;
        let run = instance.get_typed_func::<(), (i32, i32, i32)>(&mut store, "run")?;
        let sum = 10 * hash + (0..10).map(|number| number * number).sum::<i32>();
        assert_eq!(run.call(&mut store, ())?, (sum, 110, 10));
        assert_eq!(run.call(&mut store, ())?, (sum, 210, 20), "the squares are there, another text is not");
    }
    Ok(())
}

#[test]
fn memories() -> Result<()> {
    for engine in engines() {
        let (mut store, instance) = instance(
            &engine,
            7,
            r#"(module
                (memory (export "memory") 1 3)
                (memory $wide i64 1)
                (data (i32.const 8) "hello")
                (data $passive "world")
                (func (export "load") (param i32) (result i32) (i32.load8_u (local.get 0)))
                (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
                (func (export "init") (memory.init $passive (i32.const 16) (i32.const 0) (i32.const 5)) (data.drop $passive))
                (func (export "copy") (param i32 i32 i32) (memory.copy (local.get 0) (local.get 1) (local.get 2)))
                (func (export "fill") (param i32 i32 i32) (memory.fill (local.get 0) (local.get 1) (local.get 2)))
                (func (export "wide") (param i64 i64) (result i64)
                    (i64.store $wide (local.get 0) (local.get 1))
                    (i64.load $wide (local.get 0))))"#,
        )?;
        let memory = instance.get_memory(&mut store, "memory").unwrap();
        assert_eq!(&memory.data(&store)[8..13], b"hello");
        let load = instance.get_typed_func::<i32, i32>(&mut store, "load")?;
        assert_eq!(load.call(&mut store, 8)?, b'h' as i32);
        let outside = load.call(&mut store, 65536).unwrap_err();
        assert_eq!(outside.downcast_ref::<Trap>(), Some(&Trap::MemoryOutOfBounds));
        assert!(load.call(&mut store, -1).is_err());
        let grow = instance.get_typed_func::<i32, i32>(&mut store, "grow")?;
        assert_eq!(grow.call(&mut store, 1)?, 1);
        assert_eq!(grow.call(&mut store, 2)?, -1);
        assert_eq!(load.call(&mut store, 65536)?, 0);
        assert_eq!(memory.grow(&mut store, 1)?, 2);
        assert!(memory.grow(&mut store, 1).is_err());
        assert_eq!(memory.size(&store), 3);
        let init = instance.get_typed_func::<(), ()>(&mut store, "init")?;
        init.call(&mut store, ())?;
        assert_eq!(&memory.data(&store)[16..21], b"world");
        assert!(init.call(&mut store, ()).unwrap_err().is::<Trap>());
        let copy = instance.get_typed_func::<(i32, i32, i32), ()>(&mut store, "copy")?;
        copy.call(&mut store, (9, 8, 5))?;
        assert_eq!(&memory.data(&store)[8..14], b"hhello");
        assert!(copy.call(&mut store, (0, 3 * 65536 - 1, 2)).is_err());
        let fill = instance.get_typed_func::<(i32, i32, i32), ()>(&mut store, "fill")?;
        fill.call(&mut store, (100, 0x1ff, 2))?;
        assert_eq!(&memory.data(&store)[99..103], [0, 255, 255, 0]);
        memory.write(&mut store, 0, b"abc")?;
        let mut buffer = [0; 3];
        memory.read(&store, 0, &mut buffer)?;
        assert_eq!(&buffer, b"abc");
        assert!(memory.write(&mut store, 3 * 65536 - 2, b"abc").is_err());
        let (data, number) = memory.data_and_store_mut(&mut store);
        data[0] = 1;
        *number += 1;
        assert_eq!(*store.data(), 8);
        let wide = instance.get_typed_func::<(i64, i64), i64>(&mut store, "wide")?;
        assert_eq!(wide.call(&mut store, (65528, 99))?, 99);
        assert!(wide.call(&mut store, (65529, 99)).is_err());
        assert!(wide.call(&mut store, (-8, 99)).is_err());
    }
    Ok(())
}

#[test]
fn memories_that_move_are_found_again() -> Result<()> {
    const FAR: u64 = 1 << 31;
    for engine in engines() {
        let (mut store, instance) = instance(
            &engine,
            (),
            r#"(module
                (memory $small 1 3)
                (memory $large i64 1)
                (func (export "grow") (param i32) (result i32) (memory.grow $small (local.get 0)))
                (func (export "grow large") (param i64) (result i64) (memory.grow $large (local.get 0)))
                (func (export "keep") (param i32 i64) (result i64)
                    (i64.store $small (local.get 0) (i64.const 5))
                    (i64.store $large (local.get 1) (i64.const 6))
                    (i64.add (i64.load $small (local.get 0)) (i64.load $large (local.get 1))))
                (func (export "grow and load") (param i64 i64 i64) (result i64)
                    (i64.store $large (local.get 0) (i64.const 7))
                    (drop (memory.grow $large (local.get 2)))
                    (i64.store $large (local.get 1) (i64.const 8))
                    (i64.add (i64.load $large (local.get 0)) (i64.load $large (local.get 1)))))"#,
        )?;
        let keep = instance.get_typed_func::<(u32, u64), i64>(&mut store, "keep")?;
        let grow = instance.get_typed_func::<i32, i32>(&mut store, "grow")?;
        let grow_large = instance.get_typed_func::<u64, i64>(&mut store, "grow large")?;
        let grow_and_load = instance.get_typed_func::<(u64, u64, u64), i64>(&mut store, "grow and load")?;
        let outside = |store: &mut legato::Store<()>, small: u32, large: u64| {
            let error = keep.call(store, (small, large)).unwrap_err();
            assert_eq!(error.downcast_ref(), Some(&Trap::MemoryOutOfBounds));
        };
        outside(&mut store, 65536, 0);
        assert_eq!(grow.call(&mut store, 2)?, 1);
        assert_eq!(grow.call(&mut store, 1)?, -1);
        outside(&mut store, 65536, 65536);
        outside(&mut store, 65536, u64::MAX - 3);
        // Beyond the first reservation, within one function.
        assert_eq!(grow_and_load.call(&mut store, (8, FAR, 1 << 15))?, 15);
        assert_eq!(grow_large.call(&mut store, 1 << 50)?, -1);
        assert_eq!(keep.call(&mut store, (3 * 65536 - 8, FAR))?, 11);
    }
    Ok(())
}

#[test]
fn tables_and_indirect_calls() -> Result<()> {
    for engine in engines() {
        let (mut store, instance) = instance(
            &engine,
            (),
            r#"(module
                (type $unary (func (param i32) (result i32)))
                (table $t (export "table") 4 6 funcref)
                (elem (table $t) (i32.const 0) func $inc $double $nothing)
                (elem $passive funcref (ref.func $double) (ref.null func))
                (func $inc (type $unary) (i32.add (local.get 0) (i32.const 1)))
                (func $double (type $unary) (i32.mul (local.get 0) (i32.const 2)))
                (func $nothing)
                (func (export "call") (param i32 i32) (result i32)
                    (call_indirect $t (type $unary) (local.get 1) (local.get 0)))
                (func (export "init") (table.init $t $passive (i32.const 3) (i32.const 0) (i32.const 1)))
                (func (export "drop") (elem.drop $passive))
                (func (export "grow") (param i32) (result i32) (table.grow $t (ref.func $inc) (local.get 0)))
                (func (export "copy") (param i32 i32 i32) (table.copy $t $t (local.get 0) (local.get 1) (local.get 2)))
                (func (export "get_null") (result i32) (ref.is_null (table.get $t (i32.const 3)))))"#,
        )?;
        let call = instance.get_typed_func::<(i32, i32), i32>(&mut store, "call")?;
        assert_eq!(call.call(&mut store, (0, 20))?, 21);
        assert_eq!(call.call(&mut store, (1, 20))?, 40);
        let trap = |error: legato::Error| *error.downcast_ref::<Trap>().unwrap();
        assert_eq!(trap(call.call(&mut store, (2, 20)).unwrap_err()), Trap::BadSignature);
        assert_eq!(trap(call.call(&mut store, (3, 20)).unwrap_err()), Trap::IndirectCallToNull);
        assert_eq!(trap(call.call(&mut store, (4, 20)).unwrap_err()), Trap::TableOutOfBounds);
        let null = instance.get_typed_func::<(), i32>(&mut store, "get_null")?;
        assert_eq!(null.call(&mut store, ())?, 1);
        let init = instance.get_typed_func::<(), ()>(&mut store, "init")?;
        init.call(&mut store, ())?;
        assert_eq!(call.call(&mut store, (3, 20))?, 40);
        instance.get_typed_func::<(), ()>(&mut store, "drop")?.call(&mut store, ())?;
        assert_eq!(trap(init.call(&mut store, ()).unwrap_err()), Trap::TableOutOfBounds);
        let grow = instance.get_typed_func::<i32, i32>(&mut store, "grow")?;
        assert_eq!(grow.call(&mut store, 2)?, 4);
        assert_eq!(grow.call(&mut store, 1)?, -1);
        assert_eq!(call.call(&mut store, (5, 20))?, 21);

        let table = instance.get_table(&mut store, "table").unwrap();
        assert_eq!(table.size(&store), 6);
        let host = Func::wrap(&mut store, |value: i32| value - 1);
        table.set(&mut store, 0, Ref::Func(Some(host)))?;
        assert_eq!(call.call(&mut store, (0, 20))?, 19);
        let double = *table.get(&mut store, 1).unwrap().as_func().unwrap();
        assert_eq!(double.typed::<i32, i32>(&store)?.call(&mut store, 4)?, 8);
        assert!(table.get(&mut store, 6).is_none());
        assert!(table.set(&mut store, 0, Ref::Any(None)).is_err());
        table.fill(&mut store, 0, Ref::Func(Some(double)), 3)?;
        assert_eq!(call.call(&mut store, (2, 3))?, 6);
        let copy = instance.get_typed_func::<(i32, i32, i32), ()>(&mut store, "copy")?;
        copy.call(&mut store, (5, 0, 1))?;
        assert_eq!(call.call(&mut store, (5, 3))?, 6);
    }
    Ok(())
}

#[test]
fn globals_of_host_and_guest() -> Result<()> {
    for engine in engines() {
        let mut store = legato::Store::new(&engine, ());
        let ty = GlobalType::new(ValType::I64, Mutability::Var);
        let shared = Global::new(&mut store, ty, Val::I64(5))?;
        let module = legato::Module::new(
            &engine,
            r#"(module
                (import "h" "shared" (global $shared (mut i64)))
                (global $own (export "own") i32 (i32.add (i32.const 40) (i32.const 2)))
                (global $copy (export "copy") i32 (global.get $own))
                (func (export "bump") (global.set $shared (i64.add (global.get $shared) (i64.const 1)))))"#,
        )?;
        let instance = legato::Instance::new(&mut store, &module, &[Extern::Global(shared)])?;
        instance.get_typed_func::<(), ()>(&mut store, "bump")?.call(&mut store, ())?;
        assert_eq!(shared.get(&mut store).i64(), Some(6));
        shared.set(&mut store, Val::I64(-1))?;
        assert!(shared.set(&mut store, Val::I32(1)).is_err());
        let copy = instance.get_global(&mut store, "copy").unwrap();
        assert_eq!(copy.get(&mut store).i32(), Some(42));
        assert!(copy.set(&mut store, Val::I32(1)).is_err());
    }
    Ok(())
}

#[test]
fn things_of_the_host() -> Result<()> {
    let engine = &engines()[0];
    let mut store = legato::Store::new(engine, ());
    let memory = Memory::new(&mut store, MemoryType::new(1, Some(2)))?;
    memory.data_mut(&mut store)[5] = 9;
    let element = legato::RefType::FUNCREF;
    let table = Table::new(&mut store, legato::TableType::new(element, 2, None), Ref::Func(None))?;
    let module = legato::Module::new(
        engine,
        r#"(module
            (import "h" "m" (memory 1)) (import "h" "t" (table 1 funcref))
            (func (export "get") (result i32) (i32.load8_u (i32.const 5)))
            (func (export "grow") (result i32) (memory.grow (i32.const 1)))
            (func (export "size") (result i32) (table.size 0)))"#,
    )?;
    let instance = legato::Instance::new(&mut store, &module, &[memory.into(), table.into()])?;
    assert_eq!(instance.get_typed_func::<(), i32>(&mut store, "get")?.call(&mut store, ())?, 9);
    assert_eq!(instance.get_typed_func::<(), i32>(&mut store, "grow")?.call(&mut store, ())?, 1);
    assert_eq!(memory.size(&store), 2);
    table.grow(&mut store, 3, Ref::Func(None))?;
    assert_eq!(instance.get_typed_func::<(), i32>(&mut store, "size")?.call(&mut store, ())?, 5);
    Ok(())
}

#[test]
fn tail_calls_take_no_stack() -> Result<()> {
    for engine in engines() {
        let (mut store, instance) = instance(
            &engine,
            (),
            r#"(module
                (type $f (func (param i64 i64) (result i64)))
                (table 1 funcref) (elem (i32.const 0) $count)
                (func $count (export "count") (type $f)
                    (if (result i64) (i64.eqz (local.get 0))
                        (then (local.get 1))
                        (else (return_call_indirect (type $f)
                            (i64.sub (local.get 0) (i64.const 1)) (i64.add (local.get 1) (i64.const 2)) (i32.const 0))))))"#,
        )?;
        let count = instance.get_typed_func::<(i64, i64), i64>(&mut store, "count")?;
        assert_eq!(count.call(&mut store, (1_000_000, 0))?, 2_000_000);
    }
    Ok(())
}

/// Ranges that a table does not have are named, and nothing is written.
#[test]
fn tables_name_ranges_that_they_do_not_have() -> Result<()> {
    let mut store = legato::Store::new(&legato::Engine::default(), ());
    let of = |length| TableType::new(RefType::FUNCREF, length, None);
    let short = Table::new(&mut store, of(3), Ref::Func(None))?;
    let long = Table::new(&mut store, of(9), Ref::Func(None))?;
    let double = Func::wrap(&mut store, |number: i32| 2 * number);
    let begin = "out of bounds table access: ";
    let error = short.fill(&mut store, 1, Ref::Func(Some(double)), 3).unwrap_err();
    assert_eq!(format!("{error:#}"), format!("{begin}3 elements from 1 on, of the 3 of the table"));
    assert!(matches!(short.get(&mut store, 1), Some(Ref::Func(None))));
    let error = Table::copy(&mut store, &long, 0, &short, 1, 3).unwrap_err();
    assert_eq!(format!("{error:#}"), format!("{begin}3 elements from 1 on, of the 3 of the table copied from"));
    let error = Table::copy(&mut store, &short, 2, &long, 5, 2).unwrap_err();
    assert_eq!(format!("{error:#}"), format!("{begin}2 elements from 2 on, of the 3 of the table copied to"));
    Ok(())
}
