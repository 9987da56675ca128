//! The engine's types: structurally equal recursion groups of all modules are one.
//!
//! Within this crate the compiler's type descriptions ([`legato_compiler::module`]) serve two spaces. As a module
//! declares them, `HeapType::Concrete` holds the module's index. In *engine space*, which everything outside
//! instantiation uses, it holds the number of the engine's [`TypeId`].

use std::sync::{Arc, PoisonError, RwLock};

use anyhow::{Result, bail};
use legato_compiler::artifact::MachineSignature;
use legato_compiler::module::{
    CompositeType, FieldType, FuncType, HeapType, ModuleInfo, RefType, StorageType, SubType, TypeIndex, ValueType,
};
use legato_heap::layout::{StorageKind, StructLayout};
use legato_heap::{TypeId, TypeInfo, TypeKind, TypeShape, TypeTable};
use rustc_hash::FxHashMap;

/// In the key of a recursion group, marks an index relative to the group's start.
const WITHIN_GROUP: u32 = 1 << 31;

/// A type of the engine.
#[derive(Debug)]
pub(crate) struct TypeEntry {
    pub(crate) id: TypeId,
    /// In engine space.
    pub(crate) sub: SubType,
    /// Structs: where the fields lie.
    pub(crate) layout: Option<StructLayout>,
    /// Functions: the signature of the machine code.
    pub(crate) signature: Option<MachineSignature>,
}

impl TypeEntry {
    pub(crate) fn func(&self) -> Option<&FuncType> {
        match &self.sub.composite {
            CompositeType::Func(ty) => Some(ty),
            _ => None,
        }
    }

    pub(crate) fn fields(&self) -> Option<&[FieldType]> {
        match &self.sub.composite {
            CompositeType::Struct(fields) => Some(fields),
            _ => None,
        }
    }

    pub(crate) fn element(&self) -> Option<FieldType> {
        match &self.sub.composite {
            CompositeType::Array(element) => Some(*element),
            _ => None,
        }
    }
}

#[derive(Default)]
struct State {
    /// Keys have inner references relative, outer ones in engine space.
    groups: FxHashMap<Vec<SubType>, Vec<TypeId>>,
    types: FxHashMap<TypeId, Arc<TypeEntry>>,
    /// The exception type for each function type that a tag has.
    exceptions: FxHashMap<TypeId, TypeId>,
}

/// All types of an engine. They live as long as it.
pub(crate) struct TypeRegistry {
    table: Arc<TypeTable>,
    state: RwLock<State>,
}

impl TypeRegistry {
    pub(crate) fn new() -> Result<TypeRegistry> {
        Ok(TypeRegistry { table: TypeTable::new()?, state: RwLock::default() })
    }

    /// The heap's view of the types.
    pub(crate) fn table(&self) -> &Arc<TypeTable> {
        &self.table
    }

    /// The entry of a registered type.
    pub(crate) fn get(&self, id: TypeId) -> Arc<TypeEntry> {
        self.find(id).unwrap_or_else(|| panic!("{id:?} is no type of this engine"))
    }

    /// The entry of a type, or `None` where `id` is an exception's or the host values' type.
    pub(crate) fn find(&self, id: TypeId) -> Option<Arc<TypeEntry>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).types.get(&id).cloned()
    }

    /// Registers a module's types; the result has one id for each.
    pub(crate) fn register_module(&self, info: &ModuleInfo) -> Result<Vec<TypeId>> {
        let mut ids: Vec<TypeId> = Vec::with_capacity(info.types.len());
        while ids.len() < info.types.len() {
            let start = ids.len();
            let (first, count) = info.types[start].rec_group;
            if first.index() != start || count == 0 || start + count as usize > info.types.len() {
                bail!("damaged module: recursion groups are not contiguous");
            }
            let canonical = info.canonical_types[start].index();
            if canonical < start {
                // The whole group equals an earlier one. Its inner references name that one already.
                ids.extend(
                    (0..count as usize)
                        .map(|i| info.canonical_types[start + i].index())
                        .map(|i| ids[i])
                        .collect::<Vec<_>>(),
                );
                continue;
            }
            let relate = |index: TypeIndex| match index.index().checked_sub(start) {
                Some(within) => TypeIndex(WITHIN_GROUP | within as u32),
                None => TypeIndex(ids[index.index()].0),
            };
            let group: Vec<SubType> =
                info.types[start..start + count as usize].iter().map(|ty| map_sub_type(ty, &relate)).collect();
            ids.extend(self.register_group(group)?);
        }
        Ok(ids)
    }

    /// Registers one type that refers to registered types only.
    pub(crate) fn register_one(
        &self,
        is_final: bool,
        supertype: Option<TypeId>,
        composite: CompositeType,
    ) -> Result<Arc<TypeEntry>> {
        let sub = SubType {
            is_final,
            supertype: supertype.map(|id| TypeIndex(id.0)),
            composite,
            depth: 0,
            rec_group: (TypeIndex(0), 1),
        };
        Ok(self.get(self.register_group(vec![sub])?[0]))
    }

    fn register_group(&self, mut group: Vec<SubType>) -> Result<Vec<TypeId>> {
        for ty in &mut group {
            (ty.depth, ty.rec_group) = (0, (TypeIndex(0), 0));
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(ids) = state.groups.get(&group) {
            return Ok(ids.clone());
        }
        let mut ids: Vec<TypeId> = Vec::with_capacity(group.len());
        for ty in &group {
            let kind = |storage: StorageType| storage.kind(|heap| is_function(&state, &group, heap));
            let shape = match &ty.composite {
                CompositeType::Func(_) => TypeShape::Function,
                CompositeType::Struct(fields) => {
                    TypeShape::Struct(fields.iter().map(|field| kind(field.storage)).collect())
                }
                CompositeType::Array(element) => TypeShape::Array(kind(element.storage)),
            };
            let supertype = ty.supertype.map(|index| match index.0 & WITHIN_GROUP {
                0 => TypeId(index.0),
                _ => ids[(index.0 ^ WITHIN_GROUP) as usize],
            });
            let leads_nowhere = |storage: StorageType| match storage {
                StorageType::Value(ValueType::Ref(ty)) => is_reference_free(&state, &group, ty.heap),
                _ => false,
            };
            let fields: &[FieldType] = match &ty.composite {
                CompositeType::Struct(fields) => fields,
                CompositeType::Array(element) => std::slice::from_ref(element),
                CompositeType::Func(_) => &[],
            };
            let reference_free = fields.iter().enumerate().filter(|(_, field)| leads_nowhere(field.storage));
            let reference_free: Vec<usize> = reference_free.map(|(index, _)| index).collect();
            ids.push(self.table.register_with_reference_free(TypeInfo { shape, supertype }, &reference_free)?);
        }
        let resolve = |index: TypeIndex| match index.0 & WITHIN_GROUP {
            0 => index,
            _ => TypeIndex(ids[(index.0 ^ WITHIN_GROUP) as usize].0),
        };
        for (&id, ty) in ids.iter().zip(&group) {
            let sub = map_sub_type(ty, &resolve);
            let signature = match &sub.composite {
                CompositeType::Func(ty) => Some(MachineSignature::of(ty)),
                _ => None,
            };
            let layout = match &sub.composite {
                CompositeType::Struct(_) => self.table.layout(id).cloned(),
                _ => None,
            };
            state.types.insert(id, Arc::new(TypeEntry { id, sub, layout, signature }));
        }
        state.groups.insert(group, ids.clone());
        Ok(ids)
    }

    /// The type of the exceptions that tags of function type `func` throw.
    pub(crate) fn exception_type(&self, func: TypeId) -> Result<TypeId> {
        let entry = self.get(func);
        let payload = entry.func().expect("a tag has a function type");
        let kinds = payload.params.iter().map(|&ty| self.storage_kind(StorageType::Value(ty))).collect();
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(&id) = state.exceptions.get(&func) {
            return Ok(id);
        }
        let id = self.table.register(TypeInfo { shape: TypeShape::Exception(kinds), supertype: None })?;
        state.exceptions.insert(func, id);
        Ok(id)
    }

    /// How a value of this type (engine space) lies in an object.
    pub(crate) fn storage_kind(&self, storage: StorageType) -> StorageKind {
        storage.kind(|heap| self.is_function(heap))
    }

    /// Whether references to `heap` (engine space) are function references.
    pub(crate) fn is_function(&self, heap: HeapType) -> bool {
        match heap {
            HeapType::Func | HeapType::NoFunc => true,
            HeapType::Concrete(index) => self.has_kind(index, TypeKind::Function),
            _ => false,
        }
    }

    /// What a type in engine space is, by the heap's table, which takes no lock.
    fn has_kind(&self, index: TypeIndex, kind: TypeKind) -> bool {
        self.table.record(TypeId(index.0)).kind == kind as u32
    }

    /// Whether what has exactly this type, as its header or its record says, belongs to `heap` (engine space). Host
    /// values and exceptions, which are no types of the registry, belong to none.
    pub(crate) fn is_of(&self, exact: TypeId, heap: HeapType) -> bool {
        let exact = TypeIndex(exact.0);
        let is_guests = [TypeKind::Struct, TypeKind::Array, TypeKind::Function].map(|kind| self.has_kind(exact, kind));
        is_guests.contains(&true) && self.is_heap_subtype(HeapType::Concrete(exact), heap)
    }

    /// Whether `a` is a subtype of `b` (both in engine space).
    pub(crate) fn is_heap_subtype(&self, a: HeapType, b: HeapType) -> bool {
        use HeapType::*;
        if a == b {
            return true;
        }
        match (a, b) {
            (Concrete(a), Concrete(b)) => self.table.is_subtype(TypeId(a.0), TypeId(b.0)),
            (Concrete(a), Func) => self.has_kind(a, TypeKind::Function),
            (Concrete(a), Struct) => self.has_kind(a, TypeKind::Struct),
            (Concrete(a), Array) => self.has_kind(a, TypeKind::Array),
            (Concrete(a), Eq | Any) => !self.has_kind(a, TypeKind::Function),
            (None, Concrete(_)) => !self.is_function(b),
            (NoFunc, Concrete(_)) => self.is_function(b),
            (None, Any | Eq | I31 | Struct | Array) => true,
            (I31 | Struct | Array, Eq | Any) | (Eq, Any) => true,
            (NoFunc, Func) | (NoExtern, Extern) | (NoExn, Exn) => true,
            _ => false,
        }
    }

    /// Whether `a` is a subtype of `b` (both in engine space).
    pub(crate) fn is_ref_subtype(&self, a: RefType, b: RefType) -> bool {
        (b.nullable || !a.nullable) && self.is_heap_subtype(a.heap, b.heap)
    }

    /// Whether `a` is a subtype of `b` (both in engine space).
    pub(crate) fn is_value_subtype(&self, a: ValueType, b: ValueType) -> bool {
        match (a, b) {
            (ValueType::Ref(a), ValueType::Ref(b)) => self.is_ref_subtype(a, b),
            (a, b) => a == b,
        }
    }
}

/// Whether references to `heap`, within a group that is being registered, are function references.
fn is_function(state: &State, group: &[SubType], heap: HeapType) -> bool {
    match heap {
        HeapType::Func | HeapType::NoFunc => true,
        HeapType::Concrete(index) => matches!(declared(state, group, index).composite, CompositeType::Func(_)),
        _ => false,
    }
}

/// Whether references to `heap`, within a group that is being registered, lead to objects without references of their
/// own, whatever module declares further types.
fn is_reference_free(state: &State, group: &[SubType], heap: HeapType) -> bool {
    let HeapType::Concrete(index) = heap else { return false };
    let ty = declared(state, group, index);
    let is_traced = |field: &FieldType| field.storage.kind(|heap| is_function(state, group, heap)) == StorageKind::Ref;
    ty.is_final
        && match &ty.composite {
            CompositeType::Func(_) => false,
            CompositeType::Struct(fields) => !fields.iter().any(is_traced),
            CompositeType::Array(element) => !is_traced(element),
        }
}

/// A type's declaration, within a group that is being registered. Inner references of a registered type are in engine
/// space.
fn declared<'a>(state: &'a State, group: &'a [SubType], index: TypeIndex) -> &'a SubType {
    match index.0 & WITHIN_GROUP {
        0 => &state.types[&TypeId(index.0)].sub,
        _ => &group[(index.0 ^ WITHIN_GROUP) as usize],
    }
}

/// A heap type with its index, if any, replaced.
pub(crate) fn map_heap_type(heap: HeapType, map: &impl Fn(TypeIndex) -> TypeIndex) -> HeapType {
    match heap {
        HeapType::Concrete(index) => HeapType::Concrete(map(index)),
        other => other,
    }
}

/// A value type with its index, if any, replaced.
pub(crate) fn map_value_type(ty: ValueType, map: &impl Fn(TypeIndex) -> TypeIndex) -> ValueType {
    match ty {
        ValueType::Ref(ty) => ValueType::Ref(map_ref_type(ty, map)),
        other => other,
    }
}

/// A reference type with its index, if any, replaced.
pub(crate) fn map_ref_type(ty: RefType, map: &impl Fn(TypeIndex) -> TypeIndex) -> RefType {
    RefType { heap: map_heap_type(ty.heap, map), ..ty }
}

fn map_sub_type(ty: &SubType, map: &impl Fn(TypeIndex) -> TypeIndex) -> SubType {
    let value = |ty: &ValueType| map_value_type(*ty, map);
    let field = |field: &FieldType| FieldType {
        storage: match field.storage {
            StorageType::Value(ty) => StorageType::Value(map_value_type(ty, map)),
            packed => packed,
        },
        mutable: field.mutable,
    };
    SubType {
        supertype: ty.supertype.map(map),
        composite: match &ty.composite {
            CompositeType::Func(ty) => CompositeType::Func(FuncType {
                params: ty.params.iter().map(value).collect(),
                results: ty.results.iter().map(value).collect(),
            }),
            CompositeType::Struct(fields) => CompositeType::Struct(fields.iter().map(field).collect()),
            CompositeType::Array(element) => CompositeType::Array(field(element)),
        },
        ..ty.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(storage: StorageType) -> FieldType {
        FieldType { storage, mutable: true }
    }

    fn reference(heap: HeapType) -> FieldType {
        field(StorageType::Value(ValueType::Ref(RefType { heap, nullable: true })))
    }

    #[test]
    fn what_leads_to_numbers_alone_is_known() {
        let registry = TypeRegistry::new().unwrap();
        let number = field(StorageType::Value(ValueType::I64));
        let one = |is_final, composite| registry.register_one(is_final, None, composite).unwrap().id;
        let to = |id: TypeId| reference(HeapType::Concrete(TypeIndex(id.0)));
        let characters = one(true, CompositeType::Array(number));
        let point = one(true, CompositeType::Struct(vec![number, number]));
        let open = one(false, CompositeType::Struct(vec![number]));
        let function = one(true, CompositeType::Func(FuncType { params: vec![], results: vec![] }));
        let caller = one(true, CompositeType::Struct(vec![to(function)]));
        let string = one(true, CompositeType::Struct(vec![to(characters)]));
        let abstract_types = [HeapType::Any, HeapType::Eq, HeapType::Struct, HeapType::Array, HeapType::Extern];
        let mut fields: Vec<FieldType> = [characters, open, point, string, caller, function].map(to).to_vec();
        fields.extend(abstract_types.map(reference));
        let all = one(true, CompositeType::Struct(fields));
        // Characters, points, callers: function references are not traced.
        assert_eq!(registry.table().record(all).reference_free, 0b1_0101);
        let lines = one(false, CompositeType::Array(to(characters)));
        assert_eq!(registry.table().record(lines).reference_free, 1);
        assert_eq!(registry.table().record(one(false, CompositeType::Array(to(open)))).reference_free, 0);
    }

    #[test]
    fn types_of_one_group_lead_to_each_other() {
        let registry = TypeRegistry::new().unwrap();
        let within = |index: u32| reference(HeapType::Concrete(TypeIndex(WITHIN_GROUP | index)));
        let sub =
            |composite| SubType { is_final: true, supertype: None, composite, depth: 0, rec_group: (TypeIndex(0), 2) };
        let number = field(StorageType::Value(ValueType::I32));
        let node = CompositeType::Struct(vec![within(0), within(1)]);
        let ids = registry.register_group(vec![sub(node), sub(CompositeType::Array(number))]).unwrap();
        assert_eq!(registry.table().record(ids[0]).reference_free, 0b10);
    }
}
