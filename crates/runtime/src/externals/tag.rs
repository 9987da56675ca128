//! Tags: what tells exceptions apart.

use anyhow::{Result, ensure};
use legato_heap::TypeId;

use crate::externals::handle;
use crate::store::{StoreOpaque, StoredTag};
use crate::types::FuncType;
use crate::{AsContext, AsContextMut, TagType};

handle! {
    /// A tag of a store.
    Tag "tag";
}

impl Tag {
    /// A tag that belongs to no instance.
    ///
    /// # Errors
    /// If its type has results, belongs to another engine than the store's, or the type table is full.
    pub fn new(mut store: impl AsContextMut, ty: &TagType) -> Result<Tag> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        ty.ty().check_engine(&opaque.engine)?;
        ensure!(ty.ty().results().len() == 0, "a tag has no results");
        let index = opaque.add_tag(ty.ty().id())?;
        Ok(Tag::from_index(opaque, index))
    }

    /// Its type.
    ///
    /// # Panics
    /// If the store is another than the tag's.
    pub fn ty(&self, store: impl AsContext) -> TagType {
        let store = store.as_context();
        let opaque = &store.0.opaque;
        let stored = opaque.state.tags[self.own(opaque) as usize];
        TagType::new(FuncType::from_id(&opaque.engine, stored.ty))
    }

    /// Whether two handles are one tag.
    pub fn eq(a: &Tag, b: &Tag, _store: impl AsContext) -> bool {
        a == b
    }
}

impl StoreOpaque {
    /// Adds a tag; the result is its index, which is its id in this store.
    pub(crate) fn add_tag(&mut self, ty: TypeId) -> Result<u32> {
        let exception = self.engine.types().exception_type(ty)?;
        self.state.tags.push(StoredTag { ty, exception });
        Ok(self.state.tags.len() as u32 - 1)
    }
}
