//! Memories of later instances of a module: they share what its data segments hold until they write to it.

use legato::{Engine, Instance, Linker, Module, Ref, RefType, Result, Store, Table, TableType, Trap, Val};

const PAGE: usize = 1 << 16;

/// Two memories with data, one of them with segments that overlap and begin within a page.
fn text() -> String {
    let data = "legato!?".repeat(PAGE / 8);
    format!(
        r#"(module
            (memory (export "one") 4 6) (memory (export "other") i64 3)
            (data $first (memory 0) (i32.const 70001) "{data}")
            (data (memory 1) (i64.const 131072) "{data}")
            (data (memory 0) (i32.const 80000) "over")
            (data (memory 0) (i32.const 262144) "")
            (func (export "again") (memory.init 0 $first (i32.const 0) (i32.const 0) (i32.const 1)))
            (func (export "grow") (result i32) (memory.grow 0 (i32.const 2))))"#
    )
}

fn expected() -> (Vec<u8>, Vec<u8>) {
    let data = "legato!?".repeat(PAGE / 8);
    let (mut one, mut other) = (vec![0; 4 * PAGE], vec![0; 3 * PAGE]);
    one[70001..70001 + PAGE].copy_from_slice(data.as_bytes());
    one[80000..80004].copy_from_slice(b"over");
    other[2 * PAGE..].copy_from_slice(data.as_bytes());
    (one, other)
}

/// How many mappings of this process show contents that were made for memories.
fn shown() -> Result<usize> {
    Ok(std::fs::read_to_string("/proc/self/maps")?.matches("legato-memory").count())
}

#[test]
fn instances_share_what_they_have_not_written() -> Result<()> {
    let engine = Engine::default();
    for prepared in [false, true] {
        let module = Module::new(&engine, text())?;
        let mut store = Store::new(&engine, ());
        let linker = Linker::new(&engine);
        let ready = if prepared { Some(linker.instantiate_pre(&module)?) } else { None };
        let mut instances = Vec::new();
        for number in 0..4 {
            let before = shown()?;
            let instance = match &ready {
                Some(ready) => ready.instantiate(&mut store)?,
                None => linker.instantiate(&mut store, &module)?,
            };
            // Other tests have none.
            let copies = number == 0 && !prepared;
            assert_eq!(shown()? - before, if copies { 0 } else { 2 });
            instances.push(instance);
        }
        let memory = |store: &mut Store<()>, instance: &Instance, name| instance.get_memory(store, name).unwrap();
        let (one, other) = expected();
        for instance in &instances {
            let memories = ["one", "other"].map(|name| memory(&mut store, instance, name));
            assert!(memories[0].data(&store) == one && memories[1].data(&store) == other);
            // Its segments are dropped, as ever, and it grows.
            let again = instance.get_typed_func::<(), ()>(&mut store, "again")?;
            let error = again.call(&mut store, ()).unwrap_err();
            assert_eq!(error.downcast_ref(), Some(&Trap::MemoryOutOfBounds));
            assert_eq!(instance.get_typed_func::<(), i32>(&mut store, "grow")?.call(&mut store, ())?, 4);
            assert!(memories[0].data(&store)[..4 * PAGE] == one);
            assert!(memories[0].data(&store)[4 * PAGE..].iter().all(|&byte| byte == 0));
            memories.iter().for_each(|memory| memory.data_mut(&mut store).fill(7));
        }
        let mut another = Store::new(&engine, ());
        let instance = linker.instantiate(&mut another, &module)?;
        assert!(memory(&mut another, &instance, "one").data(&another) == one);
    }
    Ok(())
}

/// What a segment that traps leaves behind can be seen by functions in a table of somebody else's: no later segment.
#[test]
fn segments_behind_one_that_traps_have_no_effect() -> Result<()> {
    let engine = Engine::default();
    let data = "legato!?".repeat(PAGE / 8);
    let module = Module::new(
        &engine,
        format!(
            r#"(module
                (import "t" "t" (table 1 funcref)) (memory 2)
                (func $peek (result i32)
                    (i32.add (i32.load8_u (i32.const 0)) (i32.load8_u (i32.const 70000))))
                (elem (i32.const 0) func $peek)
                (data (i32.const 0) "\05") (data (i32.const 131072) "x") (data (i32.const 65536) "{data}"))"#
        ),
    )?;
    for _ in 0..3 {
        let mut store = Store::new(&engine, ());
        let table = Table::new(&mut store, TableType::new(RefType::FUNCREF, 1, None), Ref::Func(None))?;
        let error = Instance::new(&mut store, &module, &[table.into()]).unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&Trap::MemoryOutOfBounds));
        let peek = *table.get(&mut store, 0).unwrap().as_func().unwrap();
        let mut results = [Val::I32(0)];
        peek.call(&mut store, &[], &mut results)?;
        assert_eq!(results[0].i32(), Some(5));
    }
    Ok(())
}
