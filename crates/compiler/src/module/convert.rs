//! From the parser's types to ours, and the equality of types within a module.

use rustc_hash::FxHashMap;
use wasmparser as wp;

use super::{
    CompositeType, FieldType, FuncType, GlobalType, HeapType, MemoryType, RefType, StorageType, SubType, TableType,
    TypeIndex, ValueType,
};
use crate::CompileError;

/// Converts types, replacing every type index by the first equal type's.
#[derive(Clone, Copy)]
pub(crate) struct TypeMap<'a> {
    /// For each type of the module the first equal one.
    pub(crate) canonical: &'a [TypeIndex],
}

fn unsupported(what: &str, offset: usize) -> CompileError {
    CompileError::Unsupported { what: what.to_string(), offset }
}

impl TypeMap<'_> {
    /// The canonical index of a type that validation has found to exist.
    pub(crate) fn index(&self, index: u32) -> TypeIndex {
        self.canonical[index as usize]
    }

    pub(crate) fn heap(&self, ty: wp::HeapType, offset: usize) -> Result<HeapType, CompileError> {
        convert_heap(ty, offset, &|index| self.index(index))
    }

    pub(crate) fn reference(&self, ty: wp::RefType, offset: usize) -> Result<RefType, CompileError> {
        convert_ref(ty, offset, &|index| self.index(index))
    }

    pub(crate) fn value(&self, ty: wp::ValType, offset: usize) -> Result<ValueType, CompileError> {
        convert_value(ty, offset, &|index| self.index(index))
    }

    pub(crate) fn global(&self, ty: &wp::GlobalType, offset: usize) -> Result<GlobalType, CompileError> {
        if ty.shared {
            return Err(unsupported("shared globals", offset));
        }
        Ok(GlobalType { value: self.value(ty.content_type, offset)?, mutable: ty.mutable })
    }

    pub(crate) fn table(&self, ty: &wp::TableType, offset: usize) -> Result<TableType, CompileError> {
        if ty.shared {
            return Err(unsupported("shared tables", offset));
        }
        Ok(TableType {
            table64: ty.table64,
            element: self.reference(ty.element_type, offset)?,
            minimum: ty.initial,
            maximum: ty.maximum,
        })
    }

    pub(crate) fn memory(&self, ty: &wp::MemoryType, offset: usize) -> Result<MemoryType, CompileError> {
        if ty.shared {
            return Err(unsupported("shared memories", offset));
        }
        Ok(MemoryType {
            memory64: ty.memory64,
            minimum: ty.initial,
            maximum: ty.maximum,
            page_size_log2: ty.page_size_log2() as u8,
        })
    }
}

fn convert_heap(ty: wp::HeapType, offset: usize, map: &impl Fn(u32) -> TypeIndex) -> Result<HeapType, CompileError> {
    use wp::AbstractHeapType as A;
    match ty {
        wp::HeapType::Abstract { shared: true, .. } => Err(unsupported("shared types", offset)),
        wp::HeapType::Abstract { shared: false, ty } => Ok(match ty {
            A::Any => HeapType::Any,
            A::Eq => HeapType::Eq,
            A::I31 => HeapType::I31,
            A::Struct => HeapType::Struct,
            A::Array => HeapType::Array,
            A::None => HeapType::None,
            A::Func => HeapType::Func,
            A::NoFunc => HeapType::NoFunc,
            A::Extern => HeapType::Extern,
            A::NoExtern => HeapType::NoExtern,
            A::Exn => HeapType::Exn,
            A::NoExn => HeapType::NoExn,
            A::Cont | A::NoCont => return Err(unsupported("continuations", offset)),
        }),
        wp::HeapType::Concrete(index) => match index.as_module_index() {
            Some(index) => Ok(HeapType::Concrete(map(index))),
            None => Err(unsupported("types that are not the module's", offset)),
        },
        wp::HeapType::Exact(_) => Err(unsupported("exact types", offset)),
    }
}

fn convert_ref(ty: wp::RefType, offset: usize, map: &impl Fn(u32) -> TypeIndex) -> Result<RefType, CompileError> {
    Ok(RefType { nullable: ty.is_nullable(), heap: convert_heap(ty.heap_type(), offset, map)? })
}

fn convert_value(ty: wp::ValType, offset: usize, map: &impl Fn(u32) -> TypeIndex) -> Result<ValueType, CompileError> {
    Ok(match ty {
        wp::ValType::I32 => ValueType::I32,
        wp::ValType::I64 => ValueType::I64,
        wp::ValType::F32 => ValueType::F32,
        wp::ValType::F64 => ValueType::F64,
        wp::ValType::V128 => ValueType::V128,
        wp::ValType::Ref(ty) => ValueType::Ref(convert_ref(ty, offset, map)?),
    })
}

fn convert_field(
    field: &wp::FieldType,
    offset: usize,
    map: &impl Fn(u32) -> TypeIndex,
) -> Result<FieldType, CompileError> {
    let storage = match field.element_type {
        wp::StorageType::I8 => StorageType::I8,
        wp::StorageType::I16 => StorageType::I16,
        wp::StorageType::Val(ty) => StorageType::Value(convert_value(ty, offset, map)?),
    };
    Ok(FieldType { storage, mutable: field.mutable })
}

fn convert_composite(
    ty: &wp::CompositeType,
    offset: usize,
    map: &impl Fn(u32) -> TypeIndex,
) -> Result<CompositeType, CompileError> {
    if ty.shared {
        return Err(unsupported("shared types", offset));
    }
    if ty.descriptor_idx.is_some() || ty.describes_idx.is_some() {
        return Err(unsupported("type descriptors", offset));
    }
    let values = |types: &[wp::ValType]| -> Result<Vec<ValueType>, CompileError> {
        types.iter().map(|&ty| convert_value(ty, offset, map)).collect()
    };
    Ok(match &ty.inner {
        wp::CompositeInnerType::Func(ty) => {
            CompositeType::Func(FuncType { params: values(ty.params())?, results: values(ty.results())? })
        }
        wp::CompositeInnerType::Struct(ty) => CompositeType::Struct(
            ty.fields.iter().map(|field| convert_field(field, offset, map)).collect::<Result<_, _>>()?,
        ),
        wp::CompositeInnerType::Array(ty) => CompositeType::Array(convert_field(&ty.0, offset, map)?),
        wp::CompositeInnerType::Cont(_) => return Err(unsupported("continuations", offset)),
    })
}

/// Marks, in the key of a recursion group, an index that counts from the group's start.
const IN_GROUP: u32 = 1 << 31;

/// The types of a module as they are declared. Types are equal if their recursion groups are, member by member, where
/// references within the group are compared by position.
#[derive(Default)]
pub(crate) struct TypeSpace {
    pub(crate) types: Vec<SubType>,
    pub(crate) canonical: Vec<TypeIndex>,
    /// From a group's structure to the index of its first type.
    groups: FxHashMap<Vec<GroupMember>, u32>,
}

type GroupMember = (bool, Option<TypeIndex>, CompositeType);

impl TypeSpace {
    /// Appends a validated recursion group.
    pub(crate) fn add_group(&mut self, group: &wp::RecGroup, offset: usize) -> Result<(), CompileError> {
        let start = self.types.len() as u32;
        let size = group.types().len() as u32;
        let canonical = &self.canonical;
        let to_key = |index: u32| {
            if index < start { canonical[index as usize] } else { TypeIndex((index - start) | IN_GROUP) }
        };
        let mut key = Vec::with_capacity(size as usize);
        for ty in group.types() {
            let supertype = ty.supertype_idxs.first().and_then(|index| index.as_module_index());
            key.push((ty.is_final, supertype.map(to_key), convert_composite(&ty.composite_type, offset, &to_key)?));
        }
        let first = self.groups.get(&key).copied().unwrap_or(start);
        self.canonical.extend((0..size).map(|member| TypeIndex(first + member)));
        for ((is_final, _, _), ty) in key.iter().zip(group.types()) {
            let canonical = &self.canonical;
            let to_canonical = |index: u32| canonical[index as usize];
            let supertype = ty.supertype_idxs.first().and_then(|index| index.as_module_index()).map(to_canonical);
            let depth = match ty.supertype_idxs.first().and_then(|index| index.as_module_index()) {
                Some(index) => self.types[index as usize].depth + 1,
                None => 0,
            };
            self.types.push(SubType {
                is_final: *is_final,
                supertype,
                composite: convert_composite(&ty.composite_type, offset, &to_canonical)?,
                depth,
                rec_group: (TypeIndex(start), size),
            });
        }
        self.groups.entry(key).or_insert(start);
        Ok(())
    }
}
