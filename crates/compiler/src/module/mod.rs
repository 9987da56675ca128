//! A module's declarations, as data: what the runtime needs to link and instantiate, without the function bodies.

mod const_expr;
mod convert;
mod names;
mod objects;
mod parse;
mod subtyping;
mod vectors;

use serde::{Deserialize, Serialize};

pub(crate) use convert::TypeMap;
pub use parse::{FunctionSource, ParsedModule};
pub(crate) use vectors::check_vectors;

use crate::abi::{ContextCounts, ContextLayout};
use legato_heap::layout::StorageKind;

/// A value type. The same type serves the module description and MIR.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum ValueType {
    /// 32-bit integer.
    I32,
    /// 64-bit integer.
    I64,
    /// Single-precision float.
    F32,
    /// Double-precision float.
    F64,
    /// 128-bit vector: may be stored and moved, but no instruction computes with it.
    V128,
    /// A reference, 32 bits.
    Ref(RefType),
}

/// A reference type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct RefType {
    /// Whether null belongs to the type.
    pub nullable: bool,
    /// What it refers to.
    pub heap: HeapType,
}

/// What a reference refers to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum HeapType {
    Any,
    Eq,
    I31,
    Struct,
    Array,
    None,
    Func,
    NoFunc,
    Extern,
    NoExtern,
    Exn,
    NoExn,
    /// A type of the module, by its index, canonical within the module (the first of equal types).
    Concrete(TypeIndex),
}

macro_rules! index {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Serialize, Deserialize)]
        pub struct $name(pub u32);
        impl $name {
            /// The index as a `usize`.
            pub const fn index(self) -> usize { self.0 as usize }
        }
    )* };
}

index! {
    /// Index of a type of the module.
    TypeIndex;
    /// Index of a function, imports first.
    FuncIndex;
    /// Index of a memory, imports first.
    MemoryIndex;
    /// Index of a table, imports first.
    TableIndex;
    /// Index of a global, imports first.
    GlobalIndex;
    /// Index of a tag, imports first.
    TagIndex;
    /// Index of a data segment.
    DataIndex;
    /// Index of an element segment.
    ElemIndex;
}

/// What a field or element is declared as.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct FieldType {
    /// The storage type.
    pub storage: StorageType,
    /// Whether it may be written after construction.
    pub mutable: bool,
}

/// The declared type of a field or element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum StorageType {
    /// Packed byte.
    I8,
    /// Packed half-word.
    I16,
    /// An unpacked value.
    Value(ValueType),
}

impl StorageType {
    /// How a value of this type lies in an object. `is_function`: whether a heap type is one of functions.
    pub fn kind(self, is_function: impl FnOnce(HeapType) -> bool) -> StorageKind {
        match self {
            StorageType::I8 => StorageKind::I8,
            StorageType::I16 => StorageKind::I16,
            StorageType::Value(ValueType::I32) => StorageKind::I32,
            StorageType::Value(ValueType::I64) => StorageKind::I64,
            StorageType::Value(ValueType::F32) => StorageKind::F32,
            StorageType::Value(ValueType::F64) => StorageKind::F64,
            StorageType::Value(ValueType::V128) => StorageKind::V128,
            StorageType::Value(ValueType::Ref(ty)) if is_function(ty.heap) => StorageKind::Immortal,
            StorageType::Value(ValueType::Ref(_)) => StorageKind::Ref,
        }
    }
}

/// The structure of a composite type.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum CompositeType {
    /// A function type.
    Func(FuncType),
    /// A struct type.
    Struct(Vec<FieldType>),
    /// An array type.
    Array(FieldType),
}

impl CompositeType {
    /// How many fields a struct type has; none for other types.
    pub(crate) fn field_count(&self) -> usize {
        if let CompositeType::Struct(fields) = self { fields.len() } else { 0 }
    }
}

/// A function type.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct FuncType {
    /// Parameters.
    pub params: Vec<ValueType>,
    /// Results.
    pub results: Vec<ValueType>,
}

/// A type of the module.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct SubType {
    /// Whether it may have no subtypes.
    pub is_final: bool,
    /// The direct supertype.
    pub supertype: Option<TypeIndex>,
    /// The structure.
    pub composite: CompositeType,
    /// Supertypes above this one: 0 for a type without supertype.
    pub depth: u32,
    /// First index of the recursion group this type belongs to, and the group's size.
    pub rec_group: (TypeIndex, u32),
}

/// Where an imported thing comes from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Import {
    /// Module name.
    pub module: String,
    /// Field name.
    pub name: String,
    /// What is imported.
    pub kind: ImportKind,
}

/// What is imported, with its type. Index spaces are in order of the imports.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ImportKind {
    Func(TypeIndex),
    Memory(MemoryType),
    Table(TableType),
    Global(GlobalType),
    Tag(TypeIndex),
}

/// A memory's type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MemoryType {
    /// Whether addresses are 64 bits.
    pub memory64: bool,
    /// Minimum size in pages.
    pub minimum: u64,
    /// Maximum size in pages.
    pub maximum: Option<u64>,
    /// Log2 of the page size in bytes: 16 unless the module says otherwise.
    pub page_size_log2: u8,
}

/// How compiled code checks an access to a memory. Both sides derive it from the memory's type by [`MemoryPlan::of`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MemoryPlan {
    /// 32-bit memories: the base never moves, and base + any 32-bit index + an offset below 2 GiB lies within a
    /// reservation that faults outside the current length. No check but the fault.
    Static,
    /// 64-bit memories (and page sizes other than 64 KiB, and all where memories are checked): explicit comparison with
    /// the current length.
    Dynamic,
}

/// Bytes reserved for a static memory: 4 GiB of index space and 2 GiB + one page of guard for offsets.
pub const STATIC_MEMORY_RESERVATION: u64 = (6 << 30) + (64 << 10);
/// Offsets in an access to a static memory at or above this need an explicit check (index + offset + size against
/// length).
pub const STATIC_MEMORY_OFFSET_GUARD: u64 = 2 << 30;

impl MemoryPlan {
    /// The plan for a memory of this type. With `checked`, all are checked, as little address space is to be reserved.
    pub const fn of(ty: &MemoryType, checked: bool) -> MemoryPlan {
        if checked || ty.memory64 || ty.page_size_log2 != 16 { MemoryPlan::Dynamic } else { MemoryPlan::Static }
    }
}

/// A table's type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TableType {
    /// Whether indices are 64 bits.
    pub table64: bool,
    /// Element type.
    pub element: RefType,
    /// Minimum length in elements.
    pub minimum: u64,
    /// Maximum length in elements.
    pub maximum: Option<u64>,
}

/// A global's type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GlobalType {
    /// Type of the value.
    pub value: ValueType,
    /// Whether it may be set.
    pub mutable: bool,
}

/// A constant expression, in postfix order, to be evaluated by the runtime.
pub type ConstExpr = Vec<ConstOp>;

/// One step of a constant expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ConstOp {
    I32(i32),
    I64(i64),
    /// Bits.
    F32(u32),
    /// Bits.
    F64(u64),
    V128(u128),
    RefNull(HeapType),
    RefFunc(FuncIndex),
    GlobalGet(GlobalIndex),
    I32Add,
    I32Sub,
    I32Mul,
    I64Add,
    I64Sub,
    I64Mul,
    RefI31,
    StructNew(TypeIndex),
    StructNewDefault(TypeIndex),
    ArrayNew(TypeIndex),
    ArrayNewDefault(TypeIndex),
    ArrayNewFixed(TypeIndex, u32),
    AnyConvertExtern,
    ExternConvertAny,
}

/// A function of the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Function {
    /// Its type.
    pub ty: TypeIndex,
    /// Index of its record among the instance's [`FuncRef`](crate::abi::FuncRef)s, if the module can take a reference
    /// to it (exports, element segments, `ref.func`).
    pub func_ref: Option<u32>,
}

/// A defined table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DefinedTable {
    /// Its type.
    pub ty: TableType,
    /// Initial value of every element, where not null.
    pub init: Option<ConstExpr>,
}

/// A defined global.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DefinedGlobal {
    /// Its type.
    pub ty: GlobalType,
    /// Initial value.
    pub init: ConstExpr,
}

/// An exported item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ExportKind {
    Func(FuncIndex),
    Memory(MemoryIndex),
    Table(TableIndex),
    Global(GlobalIndex),
    Tag(TagIndex),
}

/// A data segment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DataSegment {
    /// Memory and offset for an active segment.
    pub active: Option<(MemoryIndex, ConstExpr)>,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// An element segment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ElementSegment {
    /// When it is used.
    pub mode: ElementMode,
    /// The element type.
    pub ty: RefType,
    /// The elements.
    pub items: ElementItems,
}

/// When an element segment is used.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ElementMode {
    /// Copied into the table at instantiation.
    Active(TableIndex, ConstExpr),
    /// Used by `table.init` and the array instructions.
    Passive,
    /// Only declares function references.
    Declared,
}

/// The elements of a segment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ElementItems {
    /// Function references.
    Functions(Vec<FuncIndex>),
    /// Expressions.
    Expressions(Vec<ConstExpr>),
}

/// Names from the name section.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Names {
    /// The module's name.
    pub module: Option<String>,
    /// Function names by index; empty where unknown, as in the others.
    pub functions: Vec<String>,
    /// Names of types by index.
    pub types: Vec<String>,
    /// Names of tags by index.
    pub tags: Vec<String>,
}

/// A module's declarations.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ModuleInfo {
    /// Types, in declaration order (rec groups are contiguous).
    pub types: Vec<SubType>,
    /// For each type the first equal type: equal types of one module share an index in MIR.
    pub canonical_types: Vec<TypeIndex>,
    /// The types that have subtypes in the module, ascending.
    pub extended_types: Vec<TypeIndex>,
    /// Imports, in order.
    pub imports: Vec<Import>,
    /// All functions, imports first.
    pub functions: Vec<Function>,
    /// How many of them are imported.
    pub imported_functions: u32,
    /// Types of all memories, imports first.
    pub memories: Vec<MemoryType>,
    /// How many of them are imported.
    pub imported_memories: u32,
    /// Types of all tables, imports first.
    pub tables: Vec<TableType>,
    /// How many of them are imported.
    pub imported_tables: u32,
    /// Defined tables.
    pub defined_tables: Vec<DefinedTable>,
    /// Types of all globals, imports first.
    pub globals: Vec<GlobalType>,
    /// How many of them are imported.
    pub imported_globals: u32,
    /// Defined globals.
    pub defined_globals: Vec<DefinedGlobal>,
    /// Types of all tags (function types), imports first.
    pub tags: Vec<TypeIndex>,
    /// How many of them are imported.
    pub imported_tags: u32,
    /// Exports, in order.
    pub exports: Vec<(String, ExportKind)>,
    /// The start function.
    pub start: Option<FuncIndex>,
    /// Data segments.
    pub data: Vec<DataSegment>,
    /// Element segments.
    pub elements: Vec<ElementSegment>,
    /// Names for backtraces.
    pub names: Names,
    /// Custom sections other than names, as (name, bytes).
    pub custom: Vec<(String, Vec<u8>)>,
    /// How many functions have a [`Function::func_ref`].
    pub func_ref_count: u32,
    /// Whether every access to a memory is checked: code that is not takes memories with a large reservation alone.
    pub checked_memories: bool,
}

impl ModuleInfo {
    /// The layout of this module's instance contexts.
    pub fn context_layout(&self) -> ContextLayout {
        ContextLayout::new(&ContextCounts {
            types: self.types.len(),
            tags: self.tags.len(),
            func_imports: self.imported_functions as usize,
            memory_imports: self.imported_memories as usize,
            table_imports: self.imported_tables as usize,
            global_imports: self.imported_globals as usize,
            memories: self.memories.len() - self.imported_memories as usize,
            tables: self.tables.len() - self.imported_tables as usize,
            globals: self.globals.len() - self.imported_globals as usize,
        })
    }

    /// The function type at `index`. Panics where it is another kind of type: validation has ruled that out.
    pub fn func_type(&self, index: TypeIndex) -> &FuncType {
        match &self.types[index.index()].composite {
            CompositeType::Func(ty) => ty,
            other => panic!("type {} is not a function type: {other:?}", index.0),
        }
    }

    /// What the elements of an array type are. Panics as [`array_element`](Self::array_element) does.
    pub fn element_kind(&self, ty: TypeIndex) -> StorageKind {
        self.storage_kind(self.array_element(ty).storage)
    }

    /// Whether values of this type may be references that the collector must find.
    pub fn is_traced(&self, ty: ValueType) -> bool {
        match ty {
            ValueType::Ref(RefType { heap, .. }) => match heap {
                HeapType::I31 | HeapType::None | HeapType::NoExtern | HeapType::NoExn => false,
                heap => !self.is_func_reference(heap),
            },
            _ => false,
        }
    }

    /// How a value of this storage type lies in an object.
    pub fn storage_kind(&self, storage: StorageType) -> StorageKind {
        storage.kind(|heap| self.is_func_reference(heap))
    }

    /// Whether references to `heap` are function references, which the collector does not trace.
    pub fn is_func_reference(&self, heap: HeapType) -> bool {
        match heap {
            HeapType::Func | HeapType::NoFunc => true,
            HeapType::Concrete(index) => {
                matches!(self.types[index.index()].composite, CompositeType::Func(_))
            }
            _ => false,
        }
    }
}
