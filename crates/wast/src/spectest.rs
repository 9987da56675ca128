//! The host module `spectest` that scripts import.

use anyhow::Result;
use legato::{
    FuncType, Global, GlobalType, HeapType, Linker, Memory, MemoryType, Mutability, Ref, RefType, Store, Table,
    TableType, Val, ValType,
};

/// Defines `spectest` in the linker.
pub fn define(linker: &mut Linker<()>, store: &mut Store<()>) -> Result<()> {
    linker.allow_shadowing(true);
    let engine = store.engine().clone();
    let prints: [(&str, &[ValType]); 7] = [
        ("print", &[]),
        ("print_i32", &[ValType::I32]),
        ("print_i64", &[ValType::I64]),
        ("print_f32", &[ValType::F32]),
        ("print_f64", &[ValType::F64]),
        ("print_i32_f32", &[ValType::I32, ValType::F32]),
        ("print_f64_f64", &[ValType::F64, ValType::F64]),
    ];
    for (name, params) in prints {
        let ty = FuncType::new(&engine, params.iter().cloned(), []);
        linker.func_new("spectest", name, ty, |_, _, _| Ok(()))?;
    }

    let globals = [
        ("global_i32", Val::I32(666)),
        ("global_i64", Val::I64(666)),
        ("global_f32", Val::F32(666.6_f32.to_bits())),
        ("global_f64", Val::F64(666.6_f64.to_bits())),
    ];
    for (name, value) in globals {
        let ty = GlobalType::new(value.ty(&*store)?, Mutability::Const);
        let global = Global::new(&mut *store, ty, value)?;
        linker.define(&*store, "spectest", name, global)?;
    }

    let element = RefType::new(true, HeapType::Func);
    let table = Table::new(&mut *store, TableType::new(element.clone(), 10, Some(20)), Ref::Func(None))?;
    linker.define(&*store, "spectest", "table", table)?;
    let table = Table::new(&mut *store, TableType::new64(element, 10, Some(20)), Ref::Func(None))?;
    linker.define(&*store, "spectest", "table64", table)?;
    let memory = Memory::new(&mut *store, MemoryType::new(1, Some(2)))?;
    linker.define(&*store, "spectest", "memory", memory)?;
    Ok(())
}
