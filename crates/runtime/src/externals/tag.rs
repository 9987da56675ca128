//! Tags: what tells exceptions apart.

use anyhow::{Result, ensure};
use legato_heap::TypeId;

use crate::externals::handle;
use crate::store::{InstanceData, StoreOpaque, StoredTag};
use crate::types::FuncType;
use crate::{AsContext, AsContextMut, StoreContext, TagType};

handle! {
    /// A tag of a store.
    ///
    /// ```
    /// use legato::{Engine, ExnRef, FuncType, Store, Tag, TagType, Val, ValType};
    ///
    /// let engine = Engine::default();
    /// let mut store = Store::new(&engine, ());
    /// let tag = Tag::new(&mut store, &TagType::new(FuncType::new(&engine, [ValType::I32], [])))?;
    /// let exception = ExnRef::new(&mut store, &tag, &[Val::I32(404)])?;
    /// assert!(Tag::eq(&exception.tag(&store)?, &tag, &store));
    /// # Ok::<(), anyhow::Error>(())
    /// ```
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
        opaque.state.keep_type(ty.ty().registered());
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

    /// Its name in the name section of a module that has been instantiated with it, of the first such that names it.
    ///
    /// # Panics
    /// If the store is another than the tag's.
    pub fn name<'a, T: 'static>(&self, store: impl Into<StoreContext<'a, T>>) -> Option<&'a str> {
        let opaque = &store.into().0.opaque;
        let id = self.own(opaque);
        let names_in = |instance: &'a InstanceData| {
            let names = instance.tags.iter().zip(&instance.module.info().names.tags);
            names.filter(move |&(&tag, name)| tag == id && !name.is_empty()).map(|(_, name)| name.as_str())
        };
        opaque.state.instances.iter().flat_map(names_in).next()
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
