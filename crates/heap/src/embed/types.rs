//! Types with names, whose fields have names.

use std::marker::PhantomData;
use std::sync::Arc;

use super::error::Error;
use super::handles::HeapId;
use super::stored::{Stored, name_of};
use crate::layout::StorageKind;
use crate::types::TypeId;

/// A type of structs to be: for [`ObjectHeap::define`](super::ObjectHeap::define).
#[derive(Clone, Debug)]
pub struct StructType {
    pub(super) name: String,
    pub(super) parent: Option<Type>,
    pub(super) fields: Vec<(String, StorageKind)>,
}

impl StructType {
    /// A type of this name, without fields. Names are for messages: two types may have the same.
    pub fn new(name: &str) -> StructType {
        StructType { name: name.to_owned(), parent: None, fields: Vec::new() }
    }

    /// The same, with the fields of a supertype first.
    pub fn extending(name: &str, parent: &Type) -> StructType {
        let fields = parent.inner.fields.clone();
        StructType { name: name.to_owned(), parent: Some(parent.clone()), fields }
    }

    /// Adds a field, of numbers or of [`Any`](super::Any) reference.
    pub fn field<T: Stored>(mut self, name: &str) -> StructType {
        self.fields.push((name.to_owned(), T::KIND));
        self
    }
}

/// A type of structs. Clones are the same type.
#[derive(Clone, Debug)]
pub struct Type {
    pub(super) inner: Arc<TypeInner>,
}

#[derive(Debug)]
pub(super) struct TypeInner {
    pub(super) heap: HeapId,
    pub(super) id: TypeId,
    pub(super) name: String,
    pub(super) fields: Vec<(String, StorageKind)>,
    pub(super) offsets: Vec<u32>,
}

impl Type {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// What tells it from the heap's other types: see [`Scope::type_of`](super::Scope::type_of).
    pub fn id(&self) -> TypeId {
        self.inner.id
    }

    /// The field of this name.
    ///
    /// # Errors
    /// [`Error::Field`] where there is none, [`Error::Kind`] where it holds something else.
    pub fn field<T: Stored>(&self, name: &str) -> Result<Field<T>, Error> {
        let index = self.inner.fields.iter().position(|(field, _)| field == name);
        self.at(index, || name.to_owned())
    }

    /// The field of this number, from 0 on, those of a supertype first.
    ///
    /// # Errors
    /// As for [`field`](Self::field).
    pub fn field_at<T: Stored>(&self, index: usize) -> Result<Field<T>, Error> {
        self.at(Some(index), || index.to_string())
    }

    fn at<T: Stored>(&self, index: Option<usize>, field: impl Fn() -> String) -> Result<Field<T>, Error> {
        let TypeInner { heap, id, name, fields, offsets } = &*self.inner;
        let found = index.and_then(|index| Some((fields.get(index)?, offsets[index])));
        let Some(((_, kind), offset)) = found else {
            return Err(Error::Field { ty: name.clone(), what: "no", field: field() });
        };
        if *kind != T::KIND {
            let of = format!("the field {} of {name}", field());
            return Err(Error::Kind { of, expected: T::NAME, found: name_of(*kind) });
        }
        Ok(Field { heap: *heap, ty: *id, offset, holds: PhantomData })
    }
}

/// A field of a type and its subtypes, found once and used often.
#[derive(Debug)]
pub struct Field<T> {
    pub(super) heap: HeapId,
    pub(super) ty: TypeId,
    pub(super) offset: u32,
    holds: PhantomData<fn() -> T>,
}

impl<T> Clone for Field<T> {
    fn clone(&self) -> Field<T> {
        *self
    }
}

impl<T> Copy for Field<T> {}

/// A type of arrays.
#[derive(Debug)]
pub struct ArrayType<T> {
    pub(super) heap: HeapId,
    pub(super) id: TypeId,
    holds: PhantomData<fn() -> T>,
}

impl<T> ArrayType<T> {
    pub(super) fn of(heap: HeapId, id: TypeId) -> ArrayType<T> {
        ArrayType { heap, id, holds: PhantomData }
    }

    /// What tells it from the heap's other types: see [`Scope::type_of`](super::Scope::type_of).
    pub fn id(self) -> TypeId {
        self.id
    }
}

impl<T> Clone for ArrayType<T> {
    fn clone(&self) -> ArrayType<T> {
        *self
    }
}

impl<T> Copy for ArrayType<T> {}
