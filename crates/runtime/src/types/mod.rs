//! Types as the embedder sees them, and the engine's registry beneath.

mod composite;
mod entity;
mod groups;
mod matching;
mod registry;
mod subtyping;
mod value;

pub use composite::{ArrayType, FieldType, Finality, FuncType, StorageType, StructType};
pub use entity::{ExportType, ExternType, GlobalType, ImportType, MemoryType, Mutability, TableType, TagType};
pub use value::{HeapType, RefType, ValType};

pub(crate) use groups::{ModuleTypes, RegisteredType, TypeGroup};
pub(crate) use matching::{Actual, check_import};
pub(crate) use registry::{TypeRegistry, map_ref_type, map_value_type};

use legato_compiler::module::TypeIndex;
use legato_heap::TypeId;

/// From a module's type index to engine space.
pub(crate) fn into_engine(ids: &[TypeId]) -> impl Fn(TypeIndex) -> TypeIndex + '_ {
    |index| TypeIndex(ids[index.index()].0)
}
