//! Types that come and go, while a store has what was made of them.

use legato::{
    ArrayRef, ArrayRefPre, ArrayType, ExnRef, FieldType, Finality, Func, FuncType, Global, GlobalType, HeapType,
    Instance, Linker, Module, Mutability, Ref, RefType, Result, StorageType, Store, StructRef, StructRefPre,
    StructType, Table, TableType, Tag, TagType, Val, ValType,
};

use crate::engines;

fn mutable(ty: ValType) -> FieldType {
    FieldType::new(Mutability::Var, StorageType::ValType(ty))
}

/// A struct of as many numbers, and of 16 more that tell `number`.
fn numbered(engine: &legato::Engine, number: usize) -> Result<StructType> {
    let bits = (0..16).map(|bit| if number >> bit & 1 == 1 { ValType::F64 } else { ValType::F32 });
    StructType::new(engine, bits.map(mutable))
}

/// Registers thousands of types, which are given up again: each takes the place of one that nobody has.
fn come_and_go(engine: &legato::Engine) -> Result<()> {
    for number in 0..3000 {
        numbered(engine, number)?;
        FuncType::new(engine, vec![ValType::I64; number % 50], [ValType::F32]);
        ArrayType::new(
            engine,
            mutable(ValType::Ref(RefType::new(true, HeapType::ConcreteStruct(numbered(engine, number)?)))),
        );
    }
    Ok(())
}

#[test]
fn what_a_store_has_keeps_its_type() -> Result<()> {
    for engine in engines() {
        let mut store = Store::new(&engine, ());
        // The types are the embedder's no more once it has made something of them.
        let object = {
            let ty = StructType::new(&engine, [ValType::I32, ValType::I64].map(mutable))?;
            let pre = StructRefPre::new(&store, ty);
            StructRef::new(&mut store, &pre, &[Val::I32(7), Val::I64(-8)])?
        };
        let array = {
            let pre = ArrayRefPre::new(&store, ArrayType::new(&engine, mutable(ValType::V128)));
            ArrayRef::new(&mut store, &pre, &Val::V128(5.into()), 3)?
        };
        let tag = {
            let ty = FuncType::new(&engine, [ValType::F64, ValType::F64, ValType::I32], []);
            Tag::new(&mut store, &TagType::new(ty))?
        };
        let exception = ExnRef::new(&mut store, &tag, &[Val::F64(1), Val::F64(2), Val::I32(3)])?;
        let func = {
            let ty = FuncType::new(&engine, [ValType::F32, ValType::F32, ValType::I64], [ValType::I64]);
            Func::new(&mut store, ty, |_, params, results| {
                results[0] = params[2];
                Ok(())
            })
        };
        let of_structs = |fields: usize| -> Result<RefType> {
            let ty = StructType::new(&engine, vec![mutable(ValType::F64); fields])?;
            Ok(RefType::new(true, HeapType::ConcreteStruct(ty)))
        };
        let table = {
            let ty = of_structs(5)?;
            let null = Ref::null(ty.heap_type());
            Table::new(&mut store, TableType::new(ty, 2, None), null)?
        };
        let global = {
            let ty = of_structs(6)?;
            let null = Val::null_ref(ty.heap_type());
            Global::new(&mut store, GlobalType::new(ValType::Ref(ty), Mutability::Var), null)?
        };
        come_and_go(&engine)?;
        store.gc();
        come_and_go(&engine)?;
        assert_eq!(object.ty(&store)?.fields().len(), 2);
        assert_eq!((object.field(&mut store, 0)?.unwrap_i32(), object.field(&mut store, 1)?.unwrap_i64()), (7, -8));
        assert_eq!(array.get(&mut store, 2)?.unwrap_v128().as_u128(), 5);
        assert_eq!(tag.ty(&store).ty().params().len(), 3);
        assert_eq!(exception.field(&mut store, 2)?.unwrap_i32(), 3);
        let mut results = [Val::I32(0)];
        func.call(&mut store, &[Val::F32(0), Val::F32(0), Val::I64(9)], &mut results)?;
        assert_eq!((results[0].unwrap_i64(), func.ty(&store).params().len()), (9, 3));
        let fields = |ty: &RefType| match ty.heap_type() {
            HeapType::ConcreteStruct(ty) => ty.fields().len(),
            other => panic!("{other} is no type of structs"),
        };
        assert_eq!(fields(table.ty(&store).element()), 5);
        assert_eq!(global.ty(&store).content().as_ref().map(fields), Some(6));
        store.gc();
    }
    Ok(())
}

/// Makes a list, and keeps it in what it is given.
const LIST: &str = r#"(module
  (type $node (sub (struct (field (mut i32)) (field (mut (ref null $node))))))
  (type $last (sub final $node (struct (field (mut i32)) (field (mut (ref null $node))) (field f64 f64 f32))))
  (import "" "table" (table 1 anyref))
  (import "" "fail" (global $fail i32))
  (func (export "sum") (result i32) (local $node (ref null $node)) (local $sum i32)
    (local.set $node (ref.cast (ref null $node) (table.get (i32.const 0))))
    (loop $next
      (if (ref.is_null (local.get $node)) (then (return (local.get $sum))))
      (local.set $sum (i32.add (local.get $sum) (struct.get $node 0 (local.get $node))))
      (if (ref.test (ref $last) (local.get $node)) (then (local.set $sum (i32.add (local.get $sum) (i32.const 1000)))))
      (local.set $node (struct.get $node 1 (local.get $node)))
      (br $next))
    unreachable)
  (func $start (local $node (ref null $node)) (local $index i32)
    (local.set $node (struct.new $last (i32.const 5) (ref.null $node) (f64.const 0) (f64.const 0) (f32.const 0)))
    (loop $next
      (local.set $node (struct.new $node (local.get $index) (local.get $node)))
      (br_if $next (i32.lt_u (local.tee $index (i32.add (local.get $index) (i32.const 1))) (i32.const 10))))
    (table.set (i32.const 0) (local.get $node))
    (if (global.get $fail) (then unreachable)))
  (start $start))"#;

#[test]
fn objects_outlive_the_instance_that_could_not_be_made() -> Result<()> {
    for engine in engines() {
        let mut store = Store::new(&engine, ());
        let any = RefType::new(true, HeapType::Any);
        let table = Table::new(&mut store, TableType::new(any, 1, None), Ref::null(&HeapType::Any))?;
        let constant = GlobalType::new(ValType::I32, Mutability::Const);
        let [no, yes] = [0, 1].map(|value| Global::new(&mut store, constant.clone(), Val::I32(value)));
        let failed = Instance::new(&mut store, &Module::new(&engine, LIST)?, &[table.into(), yes?.into()]);
        assert!(failed.is_err());
        come_and_go(&engine)?;
        store.gc();
        come_and_go(&engine)?;
        let head = table.get(&mut store, 0).unwrap().unwrap_any().copied().expect("a list");
        assert_eq!(head.unwrap_struct(&store)?.field(&mut store, 0)?.unwrap_i32(), 9);
        // Its types are still those of the module, which is compiled again.
        let ty = table.ty(&store);
        let other = Table::new(&mut store, ty, Ref::null(&HeapType::Any))?;
        let again = Instance::new(&mut store, &Module::new(&engine, LIST)?, &[other.into(), no?.into()])?;
        other.set(&mut store, 0, Ref::Any(Some(head)))?;
        assert_eq!(again.get_typed_func::<(), i32>(&mut store, "sum")?.call(&mut store, ())?, 1050);
    }
    Ok(())
}

/// Modules that have nothing in common come and go in one engine, each with a store of its own.
#[test]
fn modules_of_other_types_come_and_go() -> Result<()> {
    for engine in engines().into_iter().take(2) {
        let mut largest = 0;
        for number in 0..200 {
            let fields: String = (0..8).map(|bit| if number >> bit & 1 == 1 { " f64" } else { " f32" }).collect();
            let types: String =
                (0..20).map(|index| format!("(type (struct (field{fields}{})))", " i64".repeat(index))).collect();
            let text = format!(
                r#"(module {types} (type $one (sub (struct (field i32{fields}))))
                  (func (export "make") (result (ref $one)) (struct.new_default $one))
                  (func (export "is") (param anyref) (result i32) (ref.test (ref $one) (local.get 0))))"#
            );
            let mut store = Store::new(&engine, ());
            let instance = Linker::new(&engine).instantiate(&mut store, &Module::new(&engine, &text)?)?;
            let mut made = [Val::I32(0)];
            instance.get_func(&mut store, "make").unwrap().call(&mut store, &[], &mut made)?;
            store.gc();
            let mut is = [Val::I32(0)];
            instance.get_func(&mut store, "is").unwrap().call(&mut store, &made, &mut is)?;
            assert_eq!(is[0].unwrap_i32(), 1);
            let object = made[0].unwrap_any_ref().expect("a struct").unwrap_struct(&store)?;
            assert_eq!(object.ty(&store)?.fields().len(), 9);
            // What types are called begins with their number, which is where they lie.
            let ty = object.ty(&store)?.to_string();
            let place = ty.trim_start_matches("(struct #").split(' ').next().unwrap().parse::<usize>()?;
            largest = largest.max(place);
        }
        // 200 modules of 22 types each, of 92 bytes and more.
        assert!(largest < 200_000, "a type lies at {largest}");
    }
    Ok(())
}

/// A type that does not fit below its supertype is refused with the part that does not fit.
#[test]
fn what_is_no_subtype_says_why() -> Result<()> {
    let engine = &legato::Engine::default();
    let constant = |ty: ValType| FieldType::new(Mutability::Const, ty.into());
    let func = |finality, above, params: &[ValType], results: &[ValType]| {
        FuncType::with_finality_and_supertype(engine, finality, above, params.to_vec(), results.to_vec())
    };
    let structure = |finality, above, fields: &[FieldType]| {
        StructType::with_finality_and_supertype(engine, finality, above, fields.to_vec())
    };
    let array = |finality, above, element| ArrayType::with_finality_and_supertype(engine, finality, above, element);
    const ANY: ValType = ValType::ANYREF;
    const EQ: ValType = ValType::EQREF;

    let open = func(Finality::NonFinal, None, &[EQ], &[EQ])?;
    let closed = func(Finality::Final, Some(&open), &[ANY], &[EQ])?;
    let of_open = structure(Finality::NonFinal, None, &[constant(EQ)])?;
    let of_closed = structure(Finality::Final, Some(&of_open), &[constant(EQ), constant(ValType::I32)])?;
    let in_open = array(Finality::NonFinal, None, constant(EQ))?;
    let in_closed = array(Finality::Final, Some(&in_open), constant(EQ))?;
    let end = Finality::Final;
    let cases = [
        (func(end, Some(&closed), &[ANY], &[EQ]).map(drop), "function", "that type is final"),
        (func(end, Some(&open), &[], &[EQ]).map(drop), "function", "the number of parameters is 0, not 1"),
        (func(end, Some(&open), &[EQ], &[]).map(drop), "function", "the number of results is 0, not 1"),
        (
            func(end, Some(&open), &[ValType::I32], &[EQ]).map(drop),
            "function",
            "parameter 0 is i32, which does not take every (ref null eq)",
        ),
        (func(end, Some(&open), &[ANY], &[ANY]).map(drop), "function", "result 0 is (ref null any), not (ref null eq)"),
        (structure(end, Some(&of_closed), &[]).map(drop), "struct", "that type is final"),
        (structure(end, Some(&of_open), &[]).map(drop), "struct", "the number of fields is 0, less than 1"),
        (
            structure(end, Some(&of_open), &[mutable(EQ)]).map(drop),
            "struct",
            "field 0 is (mut (ref null eq)), not (ref null eq)",
        ),
        (array(end, Some(&in_closed), constant(EQ)).map(drop), "array", "that type is final"),
        (
            array(end, Some(&in_open), constant(ANY)).map(drop),
            "array",
            "the element is (ref null any), not (ref null eq)",
        ),
    ];
    for (result, what, why) in cases {
        let message = format!("{:#}", result.expect_err(why));
        let begin = format!("the {what} type is no subtype of (");
        assert!(message.starts_with(&begin) && message.ends_with(&format!(": {why}")), "{message}");
    }
    Ok(())
}
