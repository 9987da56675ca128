//! Recursion groups of the engine's types, and what holds them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use legato_compiler::artifact::MachineSignature;
use legato_compiler::module::{CompositeType, FieldType, FuncType, SubType};
use legato_heap::TypeId;
use legato_heap::layout::StructLayout;

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
    /// Functions: the type of the exceptions that tags of this type throw, once there was such a tag.
    pub(super) exception: OnceLock<TypeId>,
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

/// A recursion group. Its types, and those they refer to, are registered as long as somebody has it: what uses a
/// [`TypeId`] of the engine has the group, or borrows from what has.
pub(crate) struct TypeGroup {
    /// What it is found by: inner references are relative, outer ones in engine space.
    pub(super) declaration: Vec<SubType>,
    pub(super) entries: Vec<TypeEntry>,
    /// The groups that it refers to, all of them older.
    pub(super) outer: Vec<Arc<TypeGroup>>,
    /// Counts up in the order of registration.
    pub(super) number: u64,
}

impl fmt::Debug for TypeGroup {
    /// Without the groups that it refers to: there may be thousands, one below the other.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypeGroup")
            .field("number", &self.number)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

impl Drop for TypeGroup {
    /// Without recursion: a module may have thousands of groups that each refer to the one before.
    fn drop(&mut self) {
        let mut left = std::mem::take(&mut self.outer);
        while let Some(group) = left.pop() {
            if let Some(mut group) = Arc::into_inner(group) {
                left.append(&mut group.outer);
            }
        }
    }
}

/// A group, found by its declaration.
#[derive(Debug)]
pub(super) struct ByDeclaration(pub(super) Arc<TypeGroup>);

impl std::borrow::Borrow<[SubType]> for ByDeclaration {
    fn borrow(&self) -> &[SubType] {
        &self.0.declaration
    }
}

impl Hash for ByDeclaration {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.declaration.as_slice().hash(state);
    }
}

impl PartialEq for ByDeclaration {
    fn eq(&self, other: &ByDeclaration) -> bool {
        self.0.declaration == other.0.declaration
    }
}

impl Eq for ByDeclaration {}

/// A type of the engine, which stays registered as long as somebody has this.
#[derive(Clone, Debug)]
pub(crate) struct RegisteredType {
    pub(super) group: Arc<TypeGroup>,
    pub(super) index: usize,
}

impl RegisteredType {
    /// What keeps it registered.
    pub(crate) fn group(&self) -> &Arc<TypeGroup> {
        &self.group
    }
}

impl Deref for RegisteredType {
    type Target = TypeEntry;

    fn deref(&self) -> &TypeEntry {
        &self.group.entries[self.index]
    }
}

/// The types of a module, which stay registered as long as somebody has this.
#[derive(Debug)]
pub(crate) struct ModuleTypes {
    pub(super) ids: Vec<TypeId>,
    /// What keeps them registered.
    #[expect(dead_code, reason = "it is there to be dropped")]
    pub(super) groups: Vec<Arc<TypeGroup>>,
}

impl ModuleTypes {
    /// By the module's type index.
    pub(crate) fn ids(&self) -> &[TypeId] {
        &self.ids
    }
}
