//! Arrays as slices of the host, under every layout.

use std::panic::{AssertUnwindSafe, catch_unwind};

use legato::{
    ArrayRef, ArrayRefPre, ArrayType, Engine, FieldType, Linker, Module, Mutability, Result, RootScope, Rooted,
    StorageType, Store, Val, ValType, ViewElement,
};

use legato_test_matrix::{pairs, product};

use crate::{engine, heaps};

/// An engine for each layout and kind of view with each collector and reference model, and for all pairs of their
/// parameters.
fn engines(settings: &'static str) -> Vec<Engine> {
    let mut rows = product(&["collector", "references", "arrays", "first-n", "native-views"]);
    let parameters = ["first-n", "lazy", "leaf-savings", "native-views", "view-creation"];
    rows.extend(pairs(&[&["collector", "references", "arrays"], &parameters[..]].concat(), &[]));
    // There are no leaves to be mapped.
    rows.extend(heaps().iter().map(|heap| heap.with("arrays=mapped,native-views=double-map")));
    rows.iter().map(|row| engine(row, settings)).collect()
}

fn is_double_mapped(engine: &Engine) -> bool {
    let config = engine.config().heap_config();
    let settings = config.settings();
    settings.iter().any(|(key, value)| *key == "native-views" && value == "double-map")
        && settings.iter().any(|(key, _)| *key == "leaf")
}

fn array_type(engine: &Engine, element: impl Into<StorageType>, mutability: Mutability) -> ArrayType {
    ArrayType::new(engine, FieldType::new(mutability, element.into()))
}

/// Writes through slices of `T`, and compares with what the array says of its elements.
fn round_trip<T: ViewElement + PartialEq>(
    engine: &Engine,
    element: StorageType,
    default: Val,
    number: fn(u32) -> T,
    bits: fn(Val) -> u64,
    expected: fn(T) -> u64,
) -> Result<()> {
    let mut store = Store::new(engine, ());
    let allocator = ArrayRefPre::new(&store, array_type(engine, element, Mutability::Var));
    for length in [0, 1, 15, 300, 70_000] {
        let array = ArrayRef::new(&mut store, &allocator, &default, length)?;
        array.with_slice_mut(&mut store, |elements: &mut [T]| {
            assert_eq!(elements.len(), length as usize);
            assert!(elements.iter().all(|&element| element == number(0)));
            elements.iter_mut().zip(0..).for_each(|(element, index)| *element = number(index));
        })?;
        store.gc();
        for index in [0, 1, length / 2, length.saturating_sub(1)] {
            if index < length {
                assert_eq!(bits(array.get(&mut store, index)?), expected(number(index)));
            }
        }
        if length > 3 {
            array.set(&mut store, 3, default)?;
        }
        array.with_slice(&mut store, |elements: &[T]| {
            for (index, &element) in (0..).zip(elements) {
                assert!(element == if index == 3 { number(0) } else { number(index) }, "element {index} of {length}");
            }
        })?;
    }
    store.verify_heap()?;
    Ok(())
}

#[test]
fn every_type_of_element_round_trips() -> Result<()> {
    fn i32(value: Val) -> u64 {
        value.unwrap_i32() as u32 as u64
    }
    fn i64(value: Val) -> u64 {
        value.unwrap_i64() as u64
    }
    for engine in engines("") {
        let zero = Val::I32(0);
        round_trip(&engine, StorageType::I8, zero, |n| n as u8, i32, u64::from)?;
        round_trip(&engine, StorageType::I8, zero, |n| n as i8, i32, |n| n as u8 as u64)?;
        round_trip(&engine, StorageType::I16, zero, |n| n as u16, i32, u64::from)?;
        round_trip(&engine, StorageType::I16, zero, |n| n as i16, i32, |n| n as u16 as u64)?;
        round_trip(&engine, ValType::I32.into(), zero, |n| n, i32, u64::from)?;
        round_trip(&engine, ValType::I32.into(), zero, |n| n as i32, i32, |n| n as u32 as u64)?;
        round_trip(&engine, ValType::I64.into(), Val::I64(0), |n| n as u64, i64, |n| n)?;
        round_trip(&engine, ValType::I64.into(), Val::I64(0), |n| -i64::from(n), i64, |n| n as u64)?;
        let f32 = |value: Val| value.unwrap_f32().to_bits().into();
        round_trip(&engine, ValType::F32.into(), Val::F32(0), |n| n as f32, f32, |n| n.to_bits().into())?;
        let f64 = |value: Val| value.unwrap_f64().to_bits();
        round_trip(&engine, ValType::F64.into(), Val::F64(0), f64::from, f64, f64::to_bits)?;
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_said_in_a_sentence() -> Result<()> {
    for engine in engines("") {
        let mut store = Store::new(&engine, ());
        let make = |store: &mut Store<()>, element: StorageType, mutability, value: Val| {
            let allocator = ArrayRefPre::new(&*store, array_type(&engine, element, mutability));
            ArrayRef::new(store, &allocator, &value, 100)
        };
        let doubles = make(&mut store, ValType::F64.into(), Mutability::Var, Val::F64(0))?;
        let references = make(&mut store, ValType::ANYREF.into(), Mutability::Var, Val::AnyRef(None))?;
        let functions = make(&mut store, ValType::FUNCREF.into(), Mutability::Var, Val::FuncRef(None))?;
        let constants = make(&mut store, StorageType::I8, Mutability::Const, Val::I32(7))?;
        let says = |error: legato::Error, sentence: &str| assert_eq!(error.to_string(), sentence);
        let error = doubles.with_slice(&mut store, |_: &[i64]| ()).unwrap_err();
        says(error, "an array of f64 cannot be seen as a slice of i64");
        let error = references.with_slice_mut(&mut store, |_: &mut [u32]| ()).unwrap_err();
        says(error, "an array of references cannot be seen as a slice of u32");
        assert!(functions.with_slice(&mut store, |_: &[u32]| ()).is_err());
        let error = constants.with_slice_mut(&mut store, |_: &mut [u8]| ()).unwrap_err();
        says(error, "an array of immutable elements cannot be seen as a mutable slice");
        assert_eq!(constants.with_slice(&mut store, |bytes: &[u8]| bytes.to_vec())?, [7; 100]);
        constants.with_view::<u8, _, _>(&mut store, |view| {
            assert_eq!(view.as_slice(), [7; 100]);
            assert!(view.as_mut_slice().is_err());
            Ok(())
        })?;
        let mut scope = RootScope::new(&mut store);
        let inner = doubles.to_owned_rooted(&mut scope)?.to_rooted(&mut scope);
        drop(scope);
        assert!(inner.with_slice(&mut store, |_: &[f64]| ()).is_err(), "its scope has ended");
        let mut other = Store::new(&engine, ());
        assert!(doubles.with_slice(&mut other, |_: &[f64]| ()).is_err());
    }
    Ok(())
}

/// A guest with an array of its own, which it hands to the host.
const GUEST: &str = r#"(module
  (type $doubles (array (mut f64)))
  (import "host" "edit" (func $edit (param (ref array) i32)))
  (func (export "new") (param i32) (result (ref array)) (array.new_default $doubles (local.get 0)))
  (func (export "get") (param (ref array) i32) (result f64)
    (array.get $doubles (ref.cast (ref $doubles) (local.get 0)) (local.get 1)))
  (func (export "set") (param (ref array) i32 f64)
    (array.set $doubles (ref.cast (ref $doubles) (local.get 0)) (local.get 1) (local.get 2)))
  (func (export "churn") (param $count i32)
    (loop $again
      (drop (array.new_default $doubles (i32.const 500)))
      (br_if $again (local.tee $count (i32.sub (local.get $count) (i32.const 1))))))
  ;; Sums what the host has left of an array of `length` ones, each time with other elements doubled.
  (func (export "run") (param $length i32) (param $rounds i32) (result f64)
    (local $array (ref $doubles)) (local $index i32) (local $sum f64)
    (local.set $array (array.new $doubles (f64.const 1) (local.get $length)))
    (loop $again
      (call $edit (local.get $array) (local.get $rounds))
      (array.set $doubles (local.get $array) (local.get $rounds)
        (f64.add (f64.const 1) (array.get $doubles (local.get $array) (local.get $rounds))))
      (br_if $again (local.tee $rounds (i32.sub (local.get $rounds) (i32.const 1)))))
    (loop $next
      (local.set $sum (f64.add (local.get $sum) (array.get $doubles (local.get $array) (local.get $index))))
      (br_if $next (i32.lt_u (local.tee $index (i32.add (local.get $index) (i32.const 1))) (local.get $length))))
    (local.get $sum)))"#;

fn guest(engine: &Engine, store: &mut Store<u32>) -> Result<legato::Instance> {
    let mut linker = Linker::new(engine);
    let edit = |mut caller: legato::Caller<'_, u32>, array: Rooted<ArrayRef>, round: i32| -> Result<()> {
        *caller.data_mut() += 1;
        array.with_view::<f64, _, _>(&mut caller, |view| {
            let length = view.as_slice().len();
            view.as_mut_slice()?.iter_mut().skip(round as usize).step_by(10).for_each(|element| *element *= 2.0);
            view.with_store(|mut store| store.gc())?;
            view.as_mut_slice()?[length - 1] = f64::from(round);
            Ok(())
        })
    };
    linker.func_wrap("host", "edit", edit)?;
    linker.instantiate(store, &Module::new(engine, GUEST)?)
}

/// What [`GUEST`] computes with `edit`.
fn model(length: usize, rounds: usize) -> f64 {
    let mut array = vec![1.0; length];
    for round in (1..=rounds).rev() {
        array.iter_mut().skip(round).step_by(10).for_each(|element| *element *= 2.0);
        array[length - 1] = round as f64;
        array[round] += 1.0;
    }
    array.iter().sum()
}

#[test]
fn host_functions_edit_the_arrays_of_their_callers() -> Result<()> {
    for options in ["", "stress=2"] {
        for engine in engines(options) {
            let mut store = Store::new(&engine, 0);
            let run = guest(&engine, &mut store)?.get_typed_func::<(i32, i32), f64>(&mut store, "run")?;
            for length in [20, 3000, 30_000] {
                assert_eq!(run.call(&mut store, (length, 12))?, model(length as usize, 12));
            }
            assert_eq!(*store.data(), 36);
            store.verify_heap()?;
        }
    }
    Ok(())
}

#[test]
fn a_view_outlives_what_is_done_with_the_store() -> Result<()> {
    for options in ["", "stress=3"] {
        for engine in engines(options) {
            let mut store = Store::new(&engine, 0);
            let guest = guest(&engine, &mut store)?;
            let new = guest.get_typed_func::<i32, Rooted<ArrayRef>>(&mut store, "new")?;
            let get = guest.get_typed_func::<(Rooted<ArrayRef>, i32), f64>(&mut store, "get")?;
            let set = guest.get_typed_func::<(Rooted<ArrayRef>, i32, f64), ()>(&mut store, "set")?;
            let churn = guest.get_typed_func::<i32, ()>(&mut store, "churn")?;
            for length in [1, 10, 5000, 40_000] {
                let array = new.call(&mut store, length)?;
                let last = length - 1;
                array.with_view::<f64, _, _>(&mut store, |view| {
                    for round in 0..4 {
                        let value = f64::from(round) + 0.5;
                        view.as_mut_slice()?[last as usize] = value;
                        let mut seen = 0.0;
                        view.with_store(|mut store| -> Result<()> {
                            seen = get.call(&mut store, (array, last))?;
                            churn.call(&mut store, if options.is_empty() { 2000 } else { 20 })?;
                            store.gc();
                            set.call(&mut store, (array, last, -value))
                        })??;
                        assert_eq!((seen, view.as_slice()[last as usize]), (value, -value));
                        assert_eq!(view.as_slice().len(), length as usize);
                    }
                    Ok(())
                })?;
                assert_eq!(array.get(&mut store, last as u32)?.unwrap_f64(), -3.5);
            }
            store.verify_heap()?;
        }
    }
    Ok(())
}

#[test]
fn errors_and_panics_leave_what_was_written() -> Result<()> {
    for engine in engines("") {
        let mut store = Store::new(&engine, ());
        let allocator = ArrayRefPre::new(&store, array_type(&engine, ValType::I64, Mutability::Var));
        let array = ArrayRef::new(&mut store, &allocator, &Val::I64(0), 20_000)?;
        let failed = array.with_view::<u64, _, ()>(&mut store, |view| {
            view.as_mut_slice()?[9999] = 1;
            anyhow::bail!("enough")
        });
        assert_eq!(failed.unwrap_err().to_string(), "enough");
        assert_eq!(array.get(&mut store, 9999)?.unwrap_i64(), 1);
        array.with_view::<u64, _, ()>(&mut store, |view| {
            view.as_mut_slice()?[9999] = 2;
            let caught = catch_unwind(AssertUnwindSafe(|| view.with_store::<()>(|_| panic!("in the store"))));
            assert!(caught.is_err());
            assert!(catch_unwind(AssertUnwindSafe(|| view.as_slice().len())).is_err(), "nobody knows where it is");
            // Found again.
            view.with_store(|mut store| store.gc())?;
            assert_eq!(view.as_slice()[9999], 2);
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn statistics_tell_views_from_copies() -> Result<()> {
    for engine in engines("") {
        let mut store = Store::new(&engine, ());
        let allocator = ArrayRefPre::new(&store, array_type(&engine, ValType::I64, Mutability::Var));
        let array = ArrayRef::new(&mut store, &allocator, &Val::I64(5), 20_000)?;
        for _ in 0..3 {
            array.with_slice_mut(&mut store, |elements: &mut [i64]| elements[0] += 1)?;
        }
        assert_eq!(array.get(&mut store, 0)?.unwrap_i64(), 8);
        let stats = store.heap_stats().arrays;
        // An array of other than zeros has no leaves where the first bytes grow.
        let settings = engine.config().heap_config().settings();
        let is_whole =
            settings.contains(&("first-n-grows", "on".to_string())) || !settings.iter().any(|(key, _)| *key == "leaf");
        let expected = match (is_whole, is_double_mapped(&engine)) {
            (true, _) => (0, 0),
            (false, true) => (1, 0),
            (false, false) => (0, 3),
        };
        assert_eq!((stats.views_made, stats.view_copies), expected);
        assert_eq!(stats.view_fallbacks, 0);
    }
    Ok(())
}
