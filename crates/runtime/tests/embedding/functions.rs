//! References to functions, and the table of their records, which moves when it grows.

use legato::{
    Caller, Compilation, Config, Engine, Extern, Instance, Linker, Module, Ref, RefType, Result, Store, Table,
    TableType, Trap,
};

fn engines() -> [Engine; 2] {
    [Compilation::Eager, Compilation::Lazy].map(|compilation| {
        let mut config = Config::new();
        Engine::new(config.compilation(compilation).compiler_verifier(true)).unwrap()
    })
}

/// Each export calls the host between two uses of references to functions, of which the later ones may be new.
const USES: &str = r#"(module
    (type $number (func (result i32)))
    (type $other (func (result i64)))
    (import "h" "more" (func $more))
    (table $any (export "any") 3 funcref)
    (table $typed (export "typed") 2 (ref null $number))
    (elem (table $any) (i32.const 0) func $one)
    (elem (table $typed) (i32.const 0) (ref null $number) (ref.func $one))
    (func $one (result i32) (i32.const 1))

    (func (export "indirect") (result i32)
        (local $sum i32) (local $left i32)
        (local.set $left (i32.const 5))
        (loop $again
            (local.set $sum (i32.add (local.get $sum) (call_indirect $any (type $number) (i32.const 0))))
            (call $more)
            (local.set $sum (i32.add (local.get $sum) (call_indirect $any (type $number) (i32.const 1))))
            (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
        (local.get $sum))
    (func (export "reference") (result i32)
        (local $sum i32) (local $left i32)
        (local.set $left (i32.const 5))
        (loop $again
            (local.set $sum (i32.add (local.get $sum)
                (call_ref $number (ref.as_non_null (table.get $typed (i32.const 0))))))
            (call $more)
            (local.set $sum (i32.add (local.get $sum) (call_ref $number (table.get $typed (i32.const 1)))))
            (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
        (local.get $sum))
    (func (export "tail") (result i32)
        (drop (call_indirect $any (type $number) (i32.const 0)))
        (call $more)
        (return_call_indirect $any (type $number) (i32.const 1)))
    (func (export "test") (result i32)
        (local $sum i32)
        (local.set $sum (ref.test (ref $number) (table.get $any (i32.const 0))))
        (call $more)
        (local.set $sum (i32.add (local.get $sum) (ref.test (ref $number) (table.get $any (i32.const 1)))))
        (local.set $sum (i32.add (local.get $sum) (ref.test (ref $other) (table.get $any (i32.const 1)))))
        (i32.add (local.get $sum)
            (call_ref $number (ref.cast (ref $number) (table.get $any (i32.const 1)))))))
"#;

/// Many functions that have records.
fn many() -> String {
    let functions = (0..200).map(|n| format!(r#"(func (export "{n}") (result i32) (i32.const {n}))"#));
    format!("(module {})", functions.collect::<String>())
}

#[test]
fn records_may_move_while_functions_use_them() -> Result<()> {
    for engine in engines() {
        let many = Module::new(&engine, many())?;
        let mut linker = Linker::<Option<Instance>>::new(&engine);
        linker.func_wrap("h", "more", move |mut caller: Caller<'_, Option<Instance>>| -> Result<()> {
            let user = caller.data().expect("set before the first call");
            let mut last = None;
            for _ in 0..40 {
                last = Some(Instance::new(&mut caller, &many, &[])?);
            }
            let newest = last.and_then(|last| last.get_func(&mut caller, "150"));
            for name in ["any", "typed"] {
                let table = user.get_table(&mut caller, name).expect("exported");
                table.set(&mut caller, 1, Ref::Func(newest))?;
            }
            Ok(())
        })?;
        let module = Module::new(&engine, USES)?;
        for (name, expected) in [("indirect", 5 * 151), ("reference", 5 * 151), ("tail", 150), ("test", 152)] {
            let mut store = Store::new(&engine, None);
            let user = linker.instantiate(&mut store, &module)?;
            *store.data_mut() = Some(user);
            let run = user.get_typed_func::<(), i32>(&mut store, name)?;
            assert_eq!(run.call(&mut store, ())?, expected, "{name}");
        }
    }
    Ok(())
}

/// Calls of null and of a function of another type, through tables of any functions and of one type.
const WRONG: &str = r#"(module
    (type $number (func (result i32)))
    (type $open (sub (func (result i32))))
    (type $deep (sub $open (func (result i32))))
    (table $any 3 funcref)
    (table $typed 1 (ref null $number))
    (elem (table $any) (i32.const 1) func $nothing $deep)
    (func $nothing)
    (func $deep (type $deep) (i32.const 4))
    (func (export "null") (result i32) (call_indirect $any (type $number) (i32.const 0)))
    (func (export "null, open") (result i32) (call_indirect $any (type $open) (i32.const 0)))
    (func (export "null, typed") (result i32) (call_indirect $typed (type $number) (i32.const 0)))
    (func (export "null, tail") (result i32) (return_call_indirect $any (type $number) (i32.const 0)))
    (func (export "null, reference") (result i32) (call_ref $number (table.get $typed (i32.const 0))))
    (func (export "null, cast") (result i32)
        (call_ref $number (ref.cast (ref $number) (table.get $any (i32.const 0)))))
    (func (export "other") (result i32) (call_indirect $any (type $number) (i32.const 1)))
    (func (export "other, open") (result i32) (call_indirect $any (type $open) (i32.const 1)))
    (func (export "subtype") (result i32) (call_indirect $any (type $open) (i32.const 2))))
"#;

#[test]
fn null_is_told_from_functions_of_other_types() -> Result<()> {
    for engine in engines() {
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &Module::new(&engine, WRONG)?, &[])?;
        let mut call = |name: &str| instance.get_typed_func::<(), i32>(&mut store, name)?.call(&mut store, ());
        for (name, trap) in [
            ("null", Trap::IndirectCallToNull),
            ("null, open", Trap::IndirectCallToNull),
            ("null, typed", Trap::IndirectCallToNull),
            ("null, tail", Trap::IndirectCallToNull),
            ("null, reference", Trap::NullReference),
            ("null, cast", Trap::CastFailure),
            ("other", Trap::BadSignature),
            ("other, open", Trap::BadSignature),
        ] {
            assert_eq!(call(name).unwrap_err().downcast_ref(), Some(&trap), "{name}");
        }
        assert_eq!(call("subtype")?, 4);
    }
    Ok(())
}

/// A table that is imported into a store without any other function.
#[test]
fn null_has_a_record_before_any_function_does() -> Result<()> {
    let engine = Engine::default();
    let mut store = Store::new(&engine, ());
    let text = r#"(module (import "h" "t" (table 1 funcref)) (start $run)
        (func $run (call_indirect (i32.const 0))))"#;
    let table = Table::new(&mut store, TableType::new(RefType::FUNCREF, 1, None), Ref::Func(None))?;
    let error = Instance::new(&mut store, &Module::new(&engine, text)?, &[Extern::Table(table)]).unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&Trap::IndirectCallToNull));
    Ok(())
}
