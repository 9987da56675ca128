//! Whether what is given for an import fits what the module declares.

use anyhow::{Result, bail};
use legato_compiler::module as wasm;
use legato_heap::TypeId;

use crate::Engine;
use crate::types::{
    ExternType, FuncType, GlobalType, MemoryType, TableType, TagType, into_engine, map_ref_type, map_value_type,
};

/// The type of something given for an import; sizes are the current ones. In engine space.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Actual {
    Func(TypeId),
    Global(wasm::GlobalType),
    /// `minimum` is the current size.
    Table(wasm::TableType),
    /// `minimum` is the current size.
    Memory(wasm::MemoryType),
    Tag(TypeId),
}

impl Actual {
    fn to_extern(self, engine: &Engine) -> ExternType {
        match self {
            Actual::Func(id) => ExternType::Func(FuncType::from_id(engine, id)),
            Actual::Global(ty) => ExternType::Global(GlobalType::from_engine(engine, ty)),
            Actual::Table(ty) => ExternType::Table(TableType::from_engine(engine, ty)),
            Actual::Memory(ty) => ExternType::Memory(MemoryType::from_raw(ty)),
            Actual::Tag(id) => ExternType::Tag(TagType::new(FuncType::from_id(engine, id))),
        }
    }
}

/// Checks what is given for `import` of a module with the types `ids`.
pub(crate) fn check_import(engine: &Engine, ids: &[TypeId], import: &wasm::Import, actual: Actual) -> Result<()> {
    let types = engine.types();
    let map = into_engine(ids);
    let fits = match (&import.kind, actual) {
        (wasm::ImportKind::Func(expected), Actual::Func(actual)) => {
            types.table().is_subtype(actual, ids[expected.index()])
        }
        (wasm::ImportKind::Global(expected), Actual::Global(actual)) => {
            let value = map_value_type(expected.value, &map);
            expected.mutable == actual.mutable
                && match expected.mutable {
                    true => value == actual.value,
                    false => types.is_value_subtype(actual.value, value),
                }
        }
        (wasm::ImportKind::Table(expected), Actual::Table(actual)) => {
            map_ref_type(expected.element, &map) == actual.element
                && expected.table64 == actual.table64
                && limits_fit((expected.minimum, expected.maximum), (actual.minimum, actual.maximum))
        }
        (wasm::ImportKind::Memory(expected), Actual::Memory(actual)) => {
            expected.memory64 == actual.memory64
                && expected.page_size_log2 == actual.page_size_log2
                && limits_fit((expected.minimum, expected.maximum), (actual.minimum, actual.maximum))
        }
        (wasm::ImportKind::Tag(expected), Actual::Tag(actual)) => ids[expected.index()] == actual,
        _ => false,
    };
    if !fits {
        let expected = ExternType::of_import(engine, ids, &import.kind);
        let found = actual.to_extern(engine);
        bail!("incompatible import type for `{}::{}`: expected {expected}, found {found}", import.module, import.name);
    }
    Ok(())
}

fn limits_fit(expected: (u64, Option<u64>), actual: (u64, Option<u64>)) -> bool {
    actual.0 >= expected.0 && expected.1.is_none_or(|expected| actual.1.is_some_and(|actual| actual <= expected))
}
