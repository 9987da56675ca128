//! The engine's types: structurally equal recursion groups of all modules are one.
//!
//! Modules, stores and the embedder's types have the [groups](TypeGroup) they use. Groups that nobody has are released
//! when the number of types has doubled.
//!
//! Within this crate the compiler's type descriptions ([`legato_compiler::module`]) serve two spaces. As a module
//! declares them, `HeapType::Concrete` holds the module's index. In *engine space*, which everything outside
//! instantiation uses, it holds the number of the engine's [`TypeId`].

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use anyhow::{Result, bail};
use legato_compiler::artifact::MachineSignature;
use legato_compiler::module::{
    CompositeType, FieldType, FuncType, HeapType, ModuleInfo, RefType, StorageType, SubType, TypeIndex, ValueType,
};
use legato_heap::layout::StorageKind;
use legato_heap::{HeapError, TypeId, TypeInfo, TypeKind, TypeShape, TypeTable};
use rustc_hash::{FxHashMap, FxHashSet};

use super::groups::{ByDeclaration, ModuleTypes, RegisteredType, TypeEntry, TypeGroup};

/// In the key of a recursion group, marks an index relative to the group's start.
const WITHIN_GROUP: u32 = 1 << 31;

/// A type lies below so many others at most, as validation has it.
const MAX_DEPTH: u32 = 63;

/// So many types are registered before any is released.
const MIN_TYPES_BEFORE_RELEASE: usize = 1024;

#[derive(Default)]
struct State {
    groups: FxHashSet<ByDeclaration>,
    /// The group of each type, and the type's index in it.
    types: FxHashMap<TypeId, (Arc<TypeGroup>, usize)>,
    /// Groups that were ever registered.
    registered: u64,
    /// How many types stayed when the last ones were released.
    stayed: usize,
}

impl State {
    fn find(&self, id: TypeId) -> Option<RegisteredType> {
        let (group, index) = self.types.get(&id)?;
        Some(RegisteredType { group: group.clone(), index: *index })
    }

    /// Releases the groups that nobody has. What it costs is in proportion to the types that are registered, so it is
    /// done when these have doubled.
    fn release_unused(&mut self, table: &TypeTable) {
        let mut groups: Vec<Arc<TypeGroup>> = self.groups.drain().map(|group| group.0).collect();
        groups.sort_unstable_by_key(|group| group.number);
        // The newest first: a group refers to older ones, which are unused where it was the last to have them.
        while let Some(group) = groups.pop() {
            // One is in hand, and one for each type; more come by way of this state alone, which is locked.
            if Arc::strong_count(&group) > 1 + group.entries.len() {
                self.groups.insert(ByDeclaration(group));
                continue;
            }
            // What others did with the types before they let go of them has been done.
            fence(Ordering::Acquire);
            for entry in group.entries.iter().rev() {
                self.types.remove(&entry.id);
                for &id in entry.exception.get().into_iter().chain([&entry.id]) {
                    // SAFETY: whoever uses an id has its group, or a group that refers to it, or that of an exception's
                    // tag: there are none. Types below it are in newer groups, or later in this one.
                    unsafe { table.release(id) };
                }
            }
        }
        self.stayed = self.types.len();
        self.types.shrink_to_fit();
        self.groups.shrink_to_fit();
    }
}

/// The types of an engine, as long as somebody has their groups.
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
    pub(crate) fn get(&self, id: TypeId) -> RegisteredType {
        self.find(id).unwrap_or_else(|| panic!("{id:?} is no type of this engine"))
    }

    /// The entry of a type, or `None` where `id` is an exception's or the host values' type.
    pub(crate) fn find(&self, id: TypeId) -> Option<RegisteredType> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).find(id)
    }

    /// How many types are registered, those among them that nobody has, and that have not been released yet.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.state.read().unwrap().types.len()
    }

    /// Registers a module's types.
    pub(crate) fn register_module(&self, info: &ModuleInfo) -> Result<ModuleTypes> {
        let mut groups: Vec<Arc<TypeGroup>> = Vec::new();
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
            let group = self.register_group(group)?;
            ids.extend(group.entries.iter().map(|entry| entry.id));
            groups.push(group);
        }
        Ok(ModuleTypes { ids, groups })
    }

    /// Registers one type that refers to registered types only.
    pub(crate) fn register_one(
        &self,
        is_final: bool,
        supertype: Option<TypeId>,
        composite: CompositeType,
    ) -> Result<RegisteredType> {
        let sub = SubType {
            is_final,
            supertype: supertype.map(|id| TypeIndex(id.0)),
            composite,
            depth: 0,
            rec_group: (TypeIndex(0), 1),
        };
        Ok(RegisteredType { group: self.register_group(vec![sub])?, index: 0 })
    }

    /// The caller has the groups that this one refers to.
    fn register_group(&self, mut group: Vec<SubType>) -> Result<Arc<TypeGroup>> {
        for ty in &mut group {
            (ty.depth, ty.rec_group) = (0, (TypeIndex(0), 0));
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = state.groups.get(group.as_slice()) {
            return Ok(found.0.clone());
        }
        if state.types.len() + group.len() > (2 * state.stayed).max(MIN_TYPES_BEFORE_RELEASE) {
            state.release_unused(&self.table);
        }
        let ids = self.with_room(&mut state, |state| self.add_to_table(state, &group))?;
        let outer = RefCell::new(BTreeSet::new());
        let resolve = |index: TypeIndex| match index.0 & WITHIN_GROUP {
            0 => {
                outer.borrow_mut().insert(TypeId(index.0));
                index
            }
            _ => TypeIndex(ids[(index.0 ^ WITHIN_GROUP) as usize].0),
        };
        let entry = |(&id, ty): (&TypeId, &SubType)| {
            let sub = map_sub_type(ty, &resolve);
            let signature = match &sub.composite {
                CompositeType::Func(ty) => Some(MachineSignature::of(ty)),
                _ => None,
            };
            let layout = match &sub.composite {
                CompositeType::Struct(_) => self.table.layout(id).cloned(),
                _ => None,
            };
            TypeEntry { id, sub, layout, signature, exception: OnceLock::new() }
        };
        let entries: Vec<TypeEntry> = ids.iter().zip(&group).map(entry).collect();
        let mut outer: Vec<_> = outer.into_inner().iter().map(|id| state.types[id].0.clone()).collect();
        outer.sort_unstable_by_key(|group| group.number);
        outer.dedup_by_key(|group| group.number);
        let number = state.registered;
        let group = Arc::new(TypeGroup { declaration: group, entries, outer, number });
        state.registered += 1;
        state.types.extend(ids.iter().enumerate().map(|(index, &id)| (id, (group.clone(), index))));
        state.groups.insert(ByDeclaration(group.clone()));
        Ok(group)
    }

    /// Registers something with the heap; where its table is full, once more without the types that nobody has.
    fn with_room<T>(
        &self,
        state: &mut State,
        register: impl Fn(&State) -> Result<T, HeapError>,
    ) -> Result<T, HeapError> {
        match register(state) {
            Err(HeapError::TypeTableFull(_)) => {
                state.release_unused(&self.table);
                register(state)
            }
            other => other,
        }
    }

    /// Registers the types of a new group with the heap: all of them, or none.
    fn add_to_table(&self, state: &State, group: &[SubType]) -> Result<Vec<TypeId>, HeapError> {
        let mut ids: Vec<TypeId> = Vec::with_capacity(group.len());
        for ty in group {
            let kind = |storage: StorageType| storage.kind(|heap| is_function(state, group, heap));
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
                StorageType::Value(ValueType::Ref(ty)) => is_reference_free(state, group, ty.heap),
                _ => false,
            };
            let fields: &[FieldType] = match &ty.composite {
                CompositeType::Struct(fields) => fields,
                CompositeType::Array(element) => std::slice::from_ref(element),
                CompositeType::Func(_) => &[],
            };
            let reference_free = fields.iter().enumerate().filter(|(_, field)| leads_nowhere(field.storage));
            let reference_free: Vec<usize> = reference_free.map(|(index, _)| index).collect();
            let is_too_deep = supertype.is_some_and(|id| self.table.record(id).display_length > MAX_DEPTH);
            let made = match is_too_deep {
                true => Err(HeapError::InvalidType(format!("it lies below more than {MAX_DEPTH} others"))),
                false => self.table.register_with_reference_free(TypeInfo { shape, supertype }, &reference_free),
            };
            match made {
                Ok(id) => ids.push(id),
                Err(error) => {
                    // SAFETY: nobody has learnt them; those below others come first.
                    ids.iter().rev().for_each(|&id| unsafe { self.table.release(id) });
                    return Err(error);
                }
            }
        }
        Ok(ids)
    }

    /// The type of the exceptions that tags of function type `func` throw. It stays registered as long as that.
    pub(crate) fn exception_type(&self, func: TypeId) -> Result<TypeId> {
        let entry = self.get(func);
        let payload = entry.func().expect("a tag has a function type");
        let kinds = payload.params.iter().map(|&ty| self.storage_kind(StorageType::Value(ty))).collect();
        // So that it is registered once.
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(&id) = entry.exception.get() {
            return Ok(id);
        }
        let exception = TypeInfo { shape: TypeShape::Exception(kinds), supertype: None };
        let id = self.with_room(&mut state, |_| self.table.register(exception.clone()))?;
        Ok(*entry.exception.get_or_init(|| id))
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
        0 => {
            let (group, index) = &state.types[&TypeId(index.0)];
            &group.entries[*index].sub
        }
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
mod tests;
