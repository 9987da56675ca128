//! Objects from the host's side, their roots, and their death.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use legato::{
    AnyRef, ArrayRef, ArrayRefPre, ArrayType, ExnRef, ExternRef, FieldType, FuncType, HeapType, I31, Linker, Module,
    Mutability, RefType, Result, RootScope, Rooted, StorageType, Store, StructRef, StructRefPre, StructType, Tag,
    TagType, ThrownException, Trap, Val, ValType,
};
use legato_test_matrix::product;

use crate::{engine, engines, instance};

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn variable(ty: impl Into<StorageType>) -> FieldType {
    FieldType::new(Mutability::Var, ty.into())
}

#[test]
fn structs_of_the_host() -> Result<()> {
    for engine in engines() {
        let mut store = Store::new(&engine, ());
        let ty = StructType::new(
            &engine,
            [variable(StorageType::I8), variable(ValType::F64), variable(ValType::ANYREF), variable(ValType::FUNCREF)],
        )?;
        let pre = StructRefPre::new(&store, ty.clone());
        let nested = AnyRef::from_i31(&mut store, I31::wrapping_i32(-5));
        let fields = [Val::I32(0x1ff), Val::F64(2.5f64.to_bits()), Val::AnyRef(Some(nested)), Val::FuncRef(None)];
        let object = StructRef::new(&mut store, &pre, &fields)?;
        store.gc();
        assert_eq!(object.ty(&store)?, ty);
        assert_eq!(object.field(&mut store, 0)?.i32(), Some(0xff));
        assert_eq!(object.field(&mut store, 1)?.f64(), Some(2.5));
        let nested = object.field(&mut store, 2)?.unwrap_any_ref().unwrap();
        assert_eq!(nested.unwrap_i31(&store)?.get_i32(), -5);
        object.set_field(&mut store, 2, object.into())?;
        let itself = object.field(&mut store, 2)?.unwrap_any_ref().unwrap();
        assert!(Rooted::ref_eq(&store, &itself, &object.to_anyref())?);
        assert!(itself.is_struct(&store)? && !itself.is_array(&store)? && itself.is_eqref(&store)?);
        assert!(object.set_field(&mut store, 1, Val::I32(0)).is_err());
        assert!(object.field(&mut store, 4).is_err());
        assert!(StructRef::new(&mut store, &pre, &fields[..3]).is_err());
        assert_eq!(object.fields(&mut store)?.len(), 4);
        store.verify_heap()?;
    }
    Ok(())
}

#[test]
fn arrays_of_the_host() -> Result<()> {
    for engine in engines() {
        let mut store = Store::new(&engine, ());
        let words = ArrayRefPre::new(&store, ArrayType::new(&engine, variable(StorageType::I16)));
        let array = ArrayRef::new(&mut store, &words, &Val::I32(0x12345), 1000)?;
        assert_eq!(array.len(&store)?, 1000);
        assert_eq!(array.get(&mut store, 999)?.i32(), Some(0x2345));
        assert!(array.get(&mut store, 1000).is_err());
        array.write_bytes(&mut store, 1, b"Wasm")?;
        assert_eq!(&array.to_bytes(&store)?[..8], b"\x45\x23Wasm\x45\x23");
        assert!(array.write_bytes(&mut store, 999, b"Wasm").is_err());
        assert!(array.write_bytes(&mut store, 0, b"Was").is_err());

        let ty = ArrayType::new(&engine, variable(ValType::ANYREF));
        let references = ArrayRefPre::new(&store, ty.clone());
        let elements = [Val::AnyRef(None), array.into(), array.into()];
        let outer = ArrayRef::new_fixed(&mut store, &references, &elements)?;
        store.gc();
        assert_eq!(outer.elems(&mut store)?.len(), 3);
        assert!(outer.to_bytes(&store).is_err());
        let inner = outer.get(&mut store, 2)?.unwrap_any_ref().unwrap().unwrap_array(&store)?;
        assert_eq!(inner.len(&store)?, 1000);
        assert!(inner.ty(&store)?.matches(&inner.ty(&store)?) && !inner.ty(&store)?.matches(&ty));
    }
    Ok(())
}

#[test]
fn objects_cross_the_boundary() -> Result<()> {
    for engine in engines() {
        let (mut store, instance) = instance(
            &engine,
            (),
            r#"(module
                (type $pair (struct (field (mut i32)) (field (mut (ref null $pair)))))
                (func (export "cons") (param i32 (ref null $pair)) (result (ref $pair))
                    (struct.new $pair (local.get 0) (local.get 1)))
                (func (export "sum") (param (ref null $pair)) (result i32) (local $sum i32)
                    (block $done
                        (loop $next
                            (br_if $done (ref.is_null (local.get 0)))
                            (local.set $sum (i32.add (local.get $sum) (struct.get $pair 0 (local.get 0))))
                            (local.set 0 (struct.get $pair 1 (local.get 0)))
                            (br $next)))
                    (local.get $sum))
                (func (export "cast") (param anyref) (result i32)
                    (struct.get $pair 0 (ref.cast (ref $pair) (local.get 0))))
                (func (export "first") (param (ref null $pair)) (result i32) (struct.get $pair 0 (local.get 0))))"#,
        )?;
        let cons = instance.get_typed_func::<(i32, Option<Rooted<AnyRef>>), Rooted<AnyRef>>(&mut store, "cons")?;
        let sum = instance.get_typed_func::<Option<Rooted<AnyRef>>, i32>(&mut store, "sum")?;
        let kept = {
            let mut scope = RootScope::new(&mut store);
            let mut list = None;
            for number in 1..=100 {
                list = Some(cons.call(&mut scope, (number, list))?);
            }
            list.unwrap().to_owned_rooted(&mut scope)?
        };
        store.gc();
        let list = kept.to_rooted(&mut store);
        assert_eq!(sum.call(&mut store, Some(list))?, 5050);
        let object = list.unwrap_struct(&store)?;
        assert_eq!(object.field(&mut store, 0)?.i32(), Some(100));
        object.set_field(&mut store, 1, Val::AnyRef(None))?;
        assert_eq!(sum.call(&mut store, Some(list))?, 100);

        let number = AnyRef::from_i31(&mut store, I31::wrapping_i32(1));
        assert!(sum.call(&mut store, Some(number)).is_err(), "an i31 is no pair");
        let cast = instance.get_typed_func::<Option<Rooted<AnyRef>>, i32>(&mut store, "cast")?;
        assert_eq!(cast.call(&mut store, Some(list))?, 100);
        let trap = |error: legato::Error| *error.downcast_ref::<Trap>().unwrap();
        assert_eq!(trap(cast.call(&mut store, Some(number)).unwrap_err()), Trap::CastFailure);
        let first = instance.get_typed_func::<Option<Rooted<AnyRef>>, i32>(&mut store, "first")?;
        assert_eq!(trap(first.call(&mut store, None).unwrap_err()), Trap::NullReference);
    }
    Ok(())
}

#[test]
fn handles_end_with_their_scope_and_belong_to_one_store() -> Result<()> {
    let engine = &engines()[0];
    let (mut store, mut other) = (Store::new(engine, ()), Store::new(engine, ()));
    let value = {
        let mut scope = RootScope::new(&mut store);
        ExternRef::new(&mut scope, 5u8)?
    };
    let later = ExternRef::new(&mut store, 6u8)?;
    assert!(value.data(&store).is_err(), "the scope has ended");
    assert!(later.data(&other).is_err(), "the store is another");
    assert!(later.data(&store)?.unwrap().is::<u8>());
    assert!(later.to_owned_rooted(&mut other).is_err());
    Ok(())
}

#[test]
fn host_values_die_with_their_last_reference() -> Result<()> {
    for engine in engines() {
        let (mut store, instance) = instance(
            &engine,
            (),
            r#"(module
                (global $kept (mut externref) (ref.null extern))
                (table $t 2 externref)
                (type $box (struct (field anyref)))
                (global $boxed (mut (ref null $box)) (ref.null $box))
                (func (export "keep") (param externref) (global.set $kept (local.get 0)))
                (func (export "table") (param externref) (table.set $t (i32.const 1) (local.get 0)))
                (func (export "box") (param externref)
                    (global.set $boxed (struct.new $box (any.convert_extern (local.get 0)))))
                (func (export "unbox") (result externref)
                    (extern.convert_any (struct.get $box 0 (global.get $boxed)))))"#,
        )?;
        let drops = Arc::new(AtomicUsize::new(0));
        for place in ["keep", "table", "box"] {
            let set = instance.get_typed_func::<Option<Rooted<ExternRef>>, ()>(&mut store, place)?;
            {
                let mut scope = RootScope::new(&mut store);
                let value = ExternRef::new(&mut scope, Counted(drops.clone()))?;
                set.call(&mut scope, Some(value))?;
            }
            drops.store(0, Ordering::Relaxed);
            store.gc();
            assert_eq!(drops.load(Ordering::Relaxed), 0, "{place} keeps the value");
            if place == "box" {
                let mut scope = RootScope::new(&mut store);
                let unbox = instance.get_typed_func::<(), Option<Rooted<ExternRef>>>(&mut scope, "unbox")?;
                let value = unbox.call(&mut scope, ())?.unwrap();
                assert!(value.data(&scope)?.unwrap().is::<Counted>());
            }
            set.call(&mut store, None)?;
            store.gc();
            assert_eq!(drops.load(Ordering::Relaxed), 1, "{place} has let go of the value");
        }
        let owned = ExternRef::new(&mut store, Counted(drops.clone()))?.to_owned_rooted(&mut store)?;
        let copy = owned.clone();
        drop(owned);
        store.gc();
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        let value = copy.to_rooted(&mut store);
        value.data_mut(&mut store)?.unwrap().downcast_mut::<Counted>().unwrap();
        drop(store);
        assert_eq!(drops.load(Ordering::Relaxed), 2, "the store takes the rest with it");
        drop(copy);
    }
    Ok(())
}

#[test]
fn conversions_keep_what_they_convert() -> Result<()> {
    let engine = &engines()[1];
    let mut store = Store::new(engine, ());
    let value = ExternRef::new(&mut store, "text")?;
    let inner = AnyRef::convert_extern(&mut store, value)?;
    assert!(!inner.is_eqref(&store)? && !inner.is_struct(&store)?);
    assert_eq!(inner.ty(&store)?, HeapType::Any);
    let outer = ExternRef::convert_any(&mut store, inner)?;
    assert_eq!(outer.data(&store)?.unwrap().downcast_ref::<&str>(), Some(&"text"));
    let number = AnyRef::from_i31(&mut store, I31::wrapping_u32(7));
    let number = ExternRef::convert_any(&mut store, number)?;
    assert!(number.data(&store)?.is_none());
    Ok(())
}

#[test]
fn exceptions_cross_the_boundary() -> Result<()> {
    for engine in engines() {
        let mut store = Store::new(&engine, ());
        let ty = TagType::new(FuncType::new(&engine, [ValType::I32, ValType::ANYREF], []));
        let tag = Tag::new(&mut store, &ty)?;
        let mut linker = Linker::new(&engine);
        linker.define(&store, "h", "tag", tag)?;
        linker.func_wrap("h", "pass", |value: i32| value)?;
        linker.func_wrap("h", "fail", |mut caller: legato::Caller<'_, ()>, value: i32| -> Result<()> {
            let tag = caller.get_export("tag").unwrap().into_tag().unwrap();
            let exception = ExnRef::new(&mut caller, &tag, &[Val::I32(value), Val::AnyRef(None)])?;
            caller.gc();
            legato::AsContextMut::as_context_mut(&mut caller).throw(exception)?;
            Ok(())
        })?;
        let module = Module::new(
            &engine,
            r#"(module
                (import "h" "tag" (tag $tag (param i32 anyref)))
                (import "h" "fail" (func $fail (param i32)))
                (export "tag" (tag $tag))
                (tag $other)
                (func $throw (export "throw") (param i32) (throw $tag (local.get 0) (ref.i31 (i32.const 3))))
                (func (export "catch") (param i32) (result i32)
                    (block $handler (result i32 anyref)
                        (try_table (catch $tag $handler)
                            (block (try_table (catch $other 0) (call $throw (local.get 0)))))
                        (return (i32.const -1)))
                    (drop))
                (func (export "catch_host") (param i32) (result i32)
                    (block $handler (result i32 anyref)
                        (try_table (catch $tag $handler) (call $fail (local.get 0)))
                        (return (i32.const -1)))
                    (drop))
                (func (export "rethrow") (param i32)
                    (throw_ref (block $handler (result exnref)
                        (try_table (catch_all_ref $handler) (call $throw (local.get 0)))
                        (return))))
                (func (export "null") (throw_ref (ref.null exn)))
                (func (export "pass_through") (param i32) (call $fail (local.get 0))))"#,
        )?;
        let instance = linker.instantiate(&mut store, &module)?;
        let call = |store: &mut Store<()>, name: &str, value: i32| -> Result<i32> {
            instance.get_typed_func::<i32, i32>(&mut *store, name)?.call(store, value)
        };
        assert_eq!(call(&mut store, "catch", 11)?, 11);
        assert_eq!(call(&mut store, "catch_host", 12)?, 12);
        for name in ["throw", "rethrow", "pass_through"] {
            let func = instance.get_typed_func::<i32, ()>(&mut store, name)?;
            let error = func.call(&mut store, 13).unwrap_err();
            assert!(error.is::<ThrownException>(), "{name}: {error:?}");
            assert!(store.has_pending_exception());
            store.gc();
            let exception = store.take_pending_exception().unwrap();
            assert_eq!(exception.tag(&store)?, tag);
            assert_eq!(exception.field(&mut store, 0)?.i32(), Some(13));
            assert_eq!(exception.fields(&mut store)?.len(), 2);
            assert!(exception.field(&mut store, 2).is_err());
        }
        let null = instance.get_typed_func::<(), ()>(&mut store, "null")?;
        assert_eq!(null.call(&mut store, ()).unwrap_err().downcast_ref::<Trap>(), Some(&Trap::NullReference));
    }
    Ok(())
}

/// Builds trees of some depth again and again, with host calls that collect in between.
const TREES: &str = r#"(module
    (import "h" "gc" (func $gc))
    (type $tree (struct (field (ref null $tree)) (field (ref null $tree))))
    (type $array (array (mut (ref null $tree))))
    (elem $segment (ref null $tree) (struct.new_default $tree) (struct.new_default $tree))
    (global $root (ref $tree) (struct.new $tree (struct.new_default $tree) (ref.null $tree)))
    (func $make (param i32) (result (ref $tree))
        (if (result (ref $tree)) (i32.eqz (local.get 0))
            (then (struct.new_default $tree))
            (else (struct.new $tree
                (call $make (i32.sub (local.get 0) (i32.const 1)))
                (call $make (i32.sub (local.get 0) (i32.const 1)))))))
    (func $count (param (ref null $tree)) (result i32)
        (if (result i32) (ref.is_null (local.get 0))
            (then (i32.const 0))
            (else (i32.add (i32.const 1) (i32.add
                (call $count (struct.get $tree 0 (local.get 0)))
                (call $count (struct.get $tree 1 (local.get 0))))))))
    (func (export "run") (param $depth i32) (result i32)
        (local $array (ref null $array)) (local $i i32) (local $sum i32)
        (local.set $array (array.new_default $array (i32.const 8)))
        (loop $next
            (array.set $array (local.get $array) (local.get $i) (call $make (local.get $depth)))
            (call $gc)
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $next (i32.lt_u (local.get $i) (i32.const 8))))
        (local.set $i (i32.const 0))
        (loop $again
            (local.set $sum (i32.add (local.get $sum)
                (call $count (array.get $array (local.get $array) (local.get $i)))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $i) (i32.const 8))))
        (local.set $array (array.new_elem $array $segment (i32.const 0) (i32.const 2)))
        (local.set $sum (i32.add (local.get $sum)
            (call $count (array.get $array (local.get $array) (i32.const 1)))))
        (i32.add (local.get $sum) (call $count (global.get $root)))))"#;

#[test]
fn frames_globals_and_segments_are_roots() -> Result<()> {
    for heap in crate::heaps() {
        for options in ["", "stress=7"] {
            let engine = engine(&heap, options);
            let mut store = Store::new(&engine, ());
            let mut linker = Linker::new(&engine);
            linker.func_wrap("h", "gc", |mut caller: legato::Caller<'_, ()>| caller.gc())?;
            let instance = linker.instantiate(&mut store, &Module::new(&engine, TREES)?)?;
            let run = instance.get_typed_func::<i32, i32>(&mut store, "run")?;
            let depth = if options.is_empty() { 9 } else { 5 };
            assert_eq!(run.call(&mut store, depth)?, 8 * ((2 << depth) - 1) + 1 + 2);
            assert!(store.heap_stats().collections >= 8);
            store.verify_heap()?;
        }
    }
    Ok(())
}

#[test]
fn an_exhausted_heap_is_a_trap() -> Result<()> {
    for heap in crate::heaps() {
        let engine = engine(&heap, "max=32M,min=1M");
        let (mut store, instance) = instance(
            &engine,
            (),
            r#"(module
                (type $list (struct (field (ref null $list)) (field i64)))
                (type $bytes (array i8))
                (global $list (mut (ref null $list)) (ref.null $list))
                (func (export "endless")
                    (global.set $list (ref.null $list))
                    (loop $next
                        (global.set $list (struct.new $list (global.get $list) (i64.const 1)))
                        (br $next)))
                (func (export "garbage") (param i32)
                    (global.set $list (ref.null $list))
                    (loop $next
                        (global.set $list (struct.new $list (ref.null $list) (i64.const 1)))
                        (br_if $next (local.tee 0 (i32.sub (local.get 0) (i32.const 1))))))
                (global $bytes (mut (ref null $bytes)) (ref.null $bytes))
                (func (export "array") (param i32) (global.set $bytes (array.new_default $bytes (local.get 0)))))"#,
        )?;
        let trap = |error: legato::Error| *error.downcast_ref::<Trap>().unwrap();
        let endless = instance.get_typed_func::<(), ()>(&mut store, "endless")?;
        let garbage = instance.get_typed_func::<i32, ()>(&mut store, "garbage")?;
        let array = instance.get_typed_func::<i32, ()>(&mut store, "array")?;
        for _ in 0..2 {
            let error = endless.call(&mut store, ()).unwrap_err();
            assert!(format!("{error:#}").contains("out of memory"), "{error:#}");
            assert_eq!(trap(error), Trap::AllocationFailure);
            garbage.call(&mut store, 3_000_000)?;
            assert_eq!(trap(array.call(&mut store, -1).unwrap_err()), Trap::AllocationTooLarge);
            array.call(&mut store, 1 << 20)?;
        }
        let element = FieldType::new(Mutability::Var, StorageType::I8);
        let pre = ArrayRefPre::new(&store, ArrayType::new(&engine, element));
        assert_eq!(
            trap(ArrayRef::new(&mut store, &pre, &Val::I32(0), 64 << 20).unwrap_err()),
            Trap::AllocationTooLarge
        );
    }
    Ok(())
}

#[test]
fn equal_types_of_different_modules_are_one() -> Result<()> {
    for engine in engines() {
        let mut store = Store::new(&engine, ());
        let types = r#"
            (rec (type $a (sub (struct (field (ref null $b))))) (type $b (sub (struct (field (ref null $a))))))
            (rec (type $c (sub $a (struct (field (ref null $b)) (field i32)))))"#;
        let maker = Module::new(
            &engine,
            format!(
                r#"(module {types} (func (export "make") (result (ref $a)) (struct.new $c (ref.null $b) (i32.const 4))))"#
            ),
        )?;
        let user = Module::new(
            &engine,
            format!(
                r#"(module (type (func)) (type $unused (struct)) {types}
                    (import "m" "make" (func $make (result (ref $a))))
                    (func (export "use") (result i32) (struct.get $c 1 (ref.cast (ref $c) (call $make))))
                    (func (export "is_b") (result i32) (ref.test (ref $b) (call $make))))"#
            )
            .replace("(ref.test (ref $b)", "(ref.test (ref $unused)"),
        )?;
        let mut linker = Linker::new(&engine);
        linker.module(&mut store, "m", &maker)?;
        let instance = linker.instantiate(&mut store, &user)?;
        assert_eq!(instance.get_typed_func::<(), i32>(&mut store, "use")?.call(&mut store, ())?, 4);
        assert_eq!(instance.get_typed_func::<(), i32>(&mut store, "is_b")?.call(&mut store, ())?, 0);
        let other = types.replace("i32", "i64");
        let other = Module::new(&engine, format!(r#"(module {other} (import "m" "make" (func (result (ref $c)))))"#))?;
        let error = linker.instantiate(&mut store, &other).unwrap_err();
        assert!(format!("{error:#}").contains("incompatible import type"), "{error:#}");
    }
    Ok(())
}

#[test]
fn types_answer_subtyping() -> Result<()> {
    let engine = &engines()[0];
    let base = StructType::with_finality_and_supertype(engine, legato::Finality::NonFinal, None, [])?;
    let field = FieldType::new(Mutability::Const, ValType::EQREF.into());
    let below = StructType::with_finality_and_supertype(engine, legato::Finality::Final, Some(&base), [field])?;
    assert!(below.matches(&base) && !base.matches(&below));
    assert_eq!(below.supertype(), Some(base.clone()));
    let concrete = HeapType::ConcreteStruct(below);
    assert!(
        concrete.matches(&HeapType::Struct) && concrete.matches(&HeapType::Any) && !concrete.matches(&HeapType::Array)
    );
    assert!(HeapType::None.matches(&concrete) && !HeapType::NoFunc.matches(&concrete));
    assert!(HeapType::I31.matches(&HeapType::Eq) && !HeapType::Extern.matches(&HeapType::Any));
    let nullable = RefType::new(true, HeapType::Eq);
    assert!(RefType::new(false, concrete).matches(&nullable) && !nullable.matches(&RefType::new(false, HeapType::Eq)));
    assert!(StructType::with_finality_and_supertype(engine, legato::Finality::Final, Some(&base), []).is_ok());
    assert_eq!(FuncType::new(engine, [ValType::I32], []), FuncType::new(engine, [ValType::I32], []));
    Ok(())
}

#[test]
fn arrays_whose_length_is_known_late_are_allocated_inline() -> Result<()> {
    let text = r#"(module
        (type $bytes (array (mut i8))) (type $words (array (mut i32))) (type $references (array (mut i31ref)))
        (func (export "run") (param $longest i32) (param $rounds i32)
            (local $length i32) (local $last i32)
            (local $b (ref null $bytes)) (local $w (ref null $words)) (local $r (ref null $references))
            (loop $round
                (local.set $length (i32.const 0))
                (loop $next
                    (local.set $b (array.new $bytes (i32.const 7) (local.get $length)))
                    (local.set $w (array.new_default $words (local.get $length)))
                    (local.set $r (array.new $references (ref.i31 (i32.const 5)) (local.get $length)))
                    (if (i32.or (i32.ne (array.len (local.get $b)) (local.get $length))
                            (i32.or (i32.ne (array.len (local.get $w)) (local.get $length))
                                (i32.ne (array.len (local.get $r)) (local.get $length))))
                        (then unreachable))
                    (if (local.get $length) (then
                        (local.set $last (i32.sub (local.get $length) (i32.const 1)))
                        (if (i32.ne (array.get_u $bytes (local.get $b) (local.get $last)) (i32.const 7))
                            (then unreachable))
                        (if (array.get $words (local.get $w) (local.get $last)) (then unreachable))
                        (if (i32.ne (i31.get_u (array.get $references (local.get $r) (local.get $last))) (i32.const 5))
                            (then unreachable))
                        (array.fill $words (local.get $w) (i32.const 0) (i32.const -1) (local.get $length))))
                    (local.set $length (i32.add (local.get $length) (i32.const 1)))
                    (br_if $next (i32.le_u (local.get $length) (local.get $longest))))
                (local.set $rounds (i32.sub (local.get $rounds) (i32.const 1)))
                (br_if $round (local.get $rounds)))))"#;
    for heap in product(&["collector", "references", "arrays"]) {
        let engine = engine(&heap, "max=8M,min=1M");
        let (mut store, instance) = instance(&engine, (), text)?;
        let run = instance.get_typed_func::<(i32, i32), ()>(&mut store, "run")?;
        run.call(&mut store, (120, 100))?;
        store.verify_heap()?;
        let stats = store.heap_stats();
        // The program may be over before a cycle is.
        assert!(stats.collections + stats.slices > 0, "{heap}");
        // Arrays with leaves come from the runtime; and there are not many long ones to a run.
        let (slow, has_leaves) = (stats.slow_allocations, stats.arrays.leaves_allocated + stats.arrays.leaves_lazy > 0);
        assert!(has_leaves || slow < 120 * 100 / 2, "{heap}: {slow} of 36000 arrays");
        // Longer ones, inline and not.
        run.call(&mut store, (5000, 1))?;
        store.verify_heap()?;
    }
    Ok(())
}
