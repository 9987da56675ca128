//! Types of what modules import and export.

use std::fmt;

use legato_compiler::module as wasm;
use legato_heap::TypeId;

use crate::Engine;
use crate::types::{FuncType, RefType, ValType};

/// Whether something may be written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mutability {
    /// Constant.
    Const,
    /// Variable.
    Var,
}

/// A global's type.
///
/// ```
/// use legato::{Engine, Global, GlobalType, Mutability, Store, Val, ValType};
///
/// let mut store = Store::new(&Engine::default(), ());
/// let global = Global::new(&mut store, GlobalType::new(ValType::I32, Mutability::Var), Val::I32(1))?;
/// global.set(&mut store, Val::I32(2))?;
/// assert_eq!(global.ty(&store).content(), &ValType::I32);
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GlobalType {
    content: ValType,
    mutability: Mutability,
}

impl GlobalType {
    /// A global's type.
    pub fn new(content: ValType, mutability: Mutability) -> GlobalType {
        GlobalType { content, mutability }
    }

    /// Type of the value.
    pub fn content(&self) -> &ValType {
        &self.content
    }

    /// Whether it may be set.
    pub fn mutability(&self) -> Mutability {
        self.mutability
    }

    pub(crate) fn from_engine(engine: &Engine, ty: wasm::GlobalType) -> GlobalType {
        let mutability = if ty.mutable { Mutability::Var } else { Mutability::Const };
        GlobalType { content: ValType::from_engine(engine, ty.value), mutability }
    }

    pub(crate) fn to_engine(&self) -> wasm::GlobalType {
        wasm::GlobalType { value: self.content.to_engine(), mutable: self.mutability == Mutability::Var }
    }
}

/// A table's type.
///
/// ```
/// use legato::{RefType, TableType};
///
/// let ty = TableType::new(RefType::FUNCREF, 10, Some(100));
/// assert_eq!((ty.minimum(), ty.maximum(), ty.is_64()), (10, Some(100), false));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TableType {
    element: RefType,
    minimum: u64,
    maximum: Option<u64>,
    table64: bool,
}

impl TableType {
    /// A table with 32-bit indices; sizes in elements.
    pub fn new(element: RefType, minimum: u32, maximum: Option<u32>) -> TableType {
        TableType { element, minimum: minimum.into(), maximum: maximum.map(u64::from), table64: false }
    }

    /// A table with 64-bit indices; sizes in elements.
    pub fn new64(element: RefType, minimum: u64, maximum: Option<u64>) -> TableType {
        TableType { element, minimum, maximum, table64: true }
    }

    /// Type of the elements.
    pub fn element(&self) -> &RefType {
        &self.element
    }

    /// Least size in elements.
    pub fn minimum(&self) -> u64 {
        self.minimum
    }

    /// Greatest size in elements.
    pub fn maximum(&self) -> Option<u64> {
        self.maximum
    }

    /// Whether indices are 64 bits.
    pub fn is_64(&self) -> bool {
        self.table64
    }

    pub(crate) fn from_engine(engine: &Engine, ty: wasm::TableType) -> TableType {
        TableType {
            element: RefType::from_engine(engine, ty.element),
            minimum: ty.minimum,
            maximum: ty.maximum,
            table64: ty.table64,
        }
    }

    pub(crate) fn to_engine(&self) -> wasm::TableType {
        wasm::TableType {
            table64: self.table64,
            element: self.element.to_engine(),
            minimum: self.minimum,
            maximum: self.maximum,
        }
    }
}

/// A memory's type.
///
/// ```
/// use legato::{Engine, Memory, MemoryType, Store};
///
/// let mut store = Store::new(&Engine::default(), ());
/// let memory = Memory::new(&mut store, MemoryType::new(1, Some(4)))?;
/// assert_eq!(memory.data_size(&store) as u64, memory.ty(&store).page_size());
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryType {
    ty: wasm::MemoryType,
}

impl MemoryType {
    /// A memory with 32-bit addresses; sizes in pages of 64 KiB.
    pub fn new(minimum: u32, maximum: Option<u32>) -> MemoryType {
        let (minimum, maximum) = (minimum.into(), maximum.map(u64::from));
        MemoryType { ty: wasm::MemoryType { memory64: false, minimum, maximum, page_size_log2: 16 } }
    }

    /// A memory with 64-bit addresses; sizes in pages of 64 KiB.
    pub fn new64(minimum: u64, maximum: Option<u64>) -> MemoryType {
        MemoryType { ty: wasm::MemoryType { memory64: true, minimum, maximum, page_size_log2: 16 } }
    }

    /// Least size in pages.
    pub fn minimum(&self) -> u64 {
        self.ty.minimum
    }

    /// Greatest size in pages.
    pub fn maximum(&self) -> Option<u64> {
        self.ty.maximum
    }

    /// Whether addresses are 64 bits.
    pub fn is_64(&self) -> bool {
        self.ty.memory64
    }

    /// Size of a page in bytes.
    pub fn page_size(&self) -> u64 {
        1 << self.ty.page_size_log2
    }

    pub(crate) fn from_raw(ty: wasm::MemoryType) -> MemoryType {
        MemoryType { ty }
    }

    pub(crate) fn raw(&self) -> wasm::MemoryType {
        self.ty
    }
}

/// A tag's type.
///
/// ```
/// use legato::{Engine, FuncType, Store, Tag, TagType, ValType};
///
/// let engine = Engine::default();
/// let ty = TagType::new(FuncType::new(&engine, [ValType::I32, ValType::EXTERNREF], []));
/// let tag = Tag::new(&mut Store::new(&engine, ()), &ty)?;
/// assert_eq!(ty.ty().params().len(), 2);
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TagType {
    ty: FuncType,
}

impl TagType {
    /// The tag whose exceptions carry the parameters of `ty`, which has no results.
    pub fn new(ty: FuncType) -> TagType {
        TagType { ty }
    }

    /// The function type whose parameters are the payload.
    pub fn ty(&self) -> &FuncType {
        &self.ty
    }
}

/// The type of an import or export.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum ExternType {
    Func(FuncType),
    Global(GlobalType),
    Table(TableType),
    Memory(MemoryType),
    Tag(TagType),
}

impl ExternType {
    /// The function type, if it is one.
    pub fn func(&self) -> Option<&FuncType> {
        match self {
            ExternType::Func(ty) => Some(ty),
            _ => None,
        }
    }

    /// The global's type, if it is one.
    pub fn global(&self) -> Option<&GlobalType> {
        match self {
            ExternType::Global(ty) => Some(ty),
            _ => None,
        }
    }

    /// The table's type, if it is one.
    pub fn table(&self) -> Option<&TableType> {
        match self {
            ExternType::Table(ty) => Some(ty),
            _ => None,
        }
    }

    /// The memory's type, if it is one.
    pub fn memory(&self) -> Option<&MemoryType> {
        match self {
            ExternType::Memory(ty) => Some(ty),
            _ => None,
        }
    }

    /// The tag's type, if it is one.
    pub fn tag(&self) -> Option<&TagType> {
        match self {
            ExternType::Tag(ty) => Some(ty),
            _ => None,
        }
    }

    pub(crate) fn of_import(engine: &Engine, ids: &[TypeId], kind: &wasm::ImportKind) -> ExternType {
        let map = super::into_engine(ids);
        match *kind {
            wasm::ImportKind::Func(index) => ExternType::Func(FuncType::from_id(engine, ids[index.index()])),
            wasm::ImportKind::Memory(ty) => ExternType::Memory(MemoryType::from_raw(ty)),
            wasm::ImportKind::Table(ty) => {
                let element = super::map_ref_type(ty.element, &map);
                ExternType::Table(TableType::from_engine(engine, wasm::TableType { element, ..ty }))
            }
            wasm::ImportKind::Global(ty) => {
                let value = super::map_value_type(ty.value, &map);
                ExternType::Global(GlobalType::from_engine(engine, wasm::GlobalType { value, ..ty }))
            }
            wasm::ImportKind::Tag(index) => {
                ExternType::Tag(TagType::new(FuncType::from_id(engine, ids[index.index()])))
            }
        }
    }

    pub(crate) fn of_export(
        engine: &Engine,
        ids: &[TypeId],
        info: &wasm::ModuleInfo,
        kind: wasm::ExportKind,
    ) -> ExternType {
        let kind = match kind {
            wasm::ExportKind::Func(index) => wasm::ImportKind::Func(info.functions[index.index()].ty),
            wasm::ExportKind::Memory(index) => wasm::ImportKind::Memory(info.memories[index.index()]),
            wasm::ExportKind::Table(index) => wasm::ImportKind::Table(info.tables[index.index()]),
            wasm::ExportKind::Global(index) => wasm::ImportKind::Global(info.globals[index.index()]),
            wasm::ExportKind::Tag(index) => wasm::ImportKind::Tag(info.tags[index.index()]),
        };
        ExternType::of_import(engine, ids, &kind)
    }

    /// The imports of a module with types `ids`, in order.
    pub(crate) fn imports<'a>(
        engine: &'a Engine,
        ids: &'a [TypeId],
        info: &'a wasm::ModuleInfo,
    ) -> impl ExactSizeIterator<Item = ImportType<'a>> {
        info.imports.iter().map(|import| ImportType {
            module: &import.module,
            name: &import.name,
            ty: ExternType::of_import(engine, ids, &import.kind),
        })
    }

    /// The exports of a module with types `ids`, in order.
    pub(crate) fn exports<'a>(
        engine: &'a Engine,
        ids: &'a [TypeId],
        info: &'a wasm::ModuleInfo,
    ) -> impl ExactSizeIterator<Item = ExportType<'a>> {
        let ty = |kind| ExternType::of_export(engine, ids, info, kind);
        info.exports.iter().map(move |(name, kind)| ExportType { name, ty: ty(*kind) })
    }
}

impl fmt::Display for ExternType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = |minimum: u64, maximum: Option<u64>| match maximum {
            Some(maximum) => format!("{minimum} to {maximum}"),
            None => format!("at least {minimum}"),
        };
        match self {
            ExternType::Func(ty) => write!(f, "{ty}"),
            ExternType::Global(ty) if ty.mutability == Mutability::Var => write!(f, "(global (mut {}))", ty.content),
            ExternType::Global(ty) => write!(f, "(global {})", ty.content),
            ExternType::Table(ty) => {
                let bits = if ty.table64 { "64-bit " } else { "" };
                write!(f, "({bits}table of {} {})", limits(ty.minimum, ty.maximum), ty.element)
            }
            ExternType::Memory(ty) => {
                let bits = if ty.is_64() { "64-bit " } else { "" };
                let size = limits(ty.minimum(), ty.maximum());
                write!(f, "({bits}memory of {size} pages of {} bytes)", ty.page_size())
            }
            ExternType::Tag(ty) => write!(f, "(tag {})", ty.ty),
        }
    }
}

/// An import of a module.
///
/// ```
/// use legato::{Engine, Module};
///
/// let module = Module::new(&Engine::default(), r#"(module (import "host" "log" (func (param i32))))"#)?;
/// let import = module.imports().next().expect("an import");
/// assert_eq!((import.module(), import.name()), ("host", "log"));
/// assert_eq!(import.ty().func().map(|ty| ty.params().len()), Some(1));
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImportType<'module> {
    pub(crate) module: &'module str,
    pub(crate) name: &'module str,
    pub(crate) ty: ExternType,
}

impl<'module> ImportType<'module> {
    /// The module name.
    pub fn module(&self) -> &'module str {
        self.module
    }

    /// The field name.
    pub fn name(&self) -> &'module str {
        self.name
    }

    /// What is imported.
    pub fn ty(&self) -> ExternType {
        self.ty.clone()
    }
}

/// An export of a module.
///
/// ```
/// use legato::{Engine, ExternType, Module};
///
/// let module = Module::new(&Engine::default(), r#"(module (memory (export "memory") 1))"#)?;
/// let export = module.exports().next().expect("an export");
/// assert_eq!(export.name(), "memory");
/// assert!(matches!(export.ty(), ExternType::Memory(memory) if memory.minimum() == 1));
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ExportType<'module> {
    pub(crate) name: &'module str,
    pub(crate) ty: ExternType,
}

impl<'module> ExportType<'module> {
    /// The export's name.
    pub fn name(&self) -> &'module str {
        self.name
    }

    /// What is exported.
    pub fn ty(&self) -> ExternType {
        self.ty.clone()
    }
}
