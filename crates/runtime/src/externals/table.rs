//! Tables.

use anyhow::{Context, Result, bail};
use legato_compiler::abi::TableHead;
use legato_compiler::module as wasm;
use legato_heap::Reference;

use crate::builtins::Pieces;
use crate::externals::handle;
use crate::store::{StoreOpaque, StoredTable};
use crate::vm::TableStorage;
use crate::{AsContext, AsContextMut, Ref, RefType, TableType};

handle! {
    /// A table of a store.
    ///
    /// ```
    /// use legato::{Engine, Func, Ref, RefType, Store, Table, TableType};
    ///
    /// let mut store = Store::new(&Engine::default(), ());
    /// let table = Table::new(&mut store, TableType::new(RefType::FUNCREF, 2, Some(10)), Ref::Func(None))?;
    /// let func = Func::wrap(&mut store, || 7);
    /// table.set(&mut store, 1, Ref::Func(Some(func)))?;
    /// assert_eq!(table.grow(&mut store, 3, Ref::Func(None))?, 2);
    /// assert_eq!(table.size(&store), 5);
    /// assert!(table.get(&mut store, 5).is_none());
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    Table "table";
}

impl Table {
    /// Bytes that each element takes.
    pub const ELEMENT_BYTES: usize = size_of::<u32>();

    /// A table that belongs to no instance, with `init` in every element.
    ///
    /// # Errors
    /// If `init` has another type, the type belongs to another engine than the store's, a limit is passed, or there is
    /// no memory.
    pub fn new(mut store: impl AsContextMut, ty: TableType, init: Ref) -> Result<Table> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        ty.element().heap_type().check_engine(&opaque.engine)?;
        opaque.state.keep_heap_type(ty.element().heap_type());
        let ty = ty.to_engine();
        let init = init.to_bits(opaque, ty.element, "the element")?;
        opaque.state.table_heads.push(Box::new(TableHead {
            base: std::ptr::null_mut(),
            length: 0,
            cards: std::ptr::null_mut(),
        }));
        let head: *mut TableHead = &raw mut **opaque.state.table_heads.last_mut().expect("just pushed");
        // SAFETY: the head is a box of the store's.
        let index = unsafe { opaque.add_table(ty, init, head)? };
        Ok(Table::from_index(opaque, index))
    }

    /// Its type, with the declared sizes.
    ///
    /// # Panics
    /// If the store is another than the table's. So for all methods that return no error.
    pub fn ty(&self, store: impl AsContext) -> TableType {
        let store = store.as_context();
        let opaque = &store.0.opaque;
        TableType::from_engine(&opaque.engine, opaque.table(self.own(opaque)).ty)
    }

    /// The current length in elements.
    pub fn size(&self, store: impl AsContext) -> u64 {
        let store = store.as_context();
        let opaque = &store.0.opaque;
        opaque.table(self.own(opaque)).storage.length()
    }

    /// Reads an element, rooted in the current scope; `None` where the index is out of bounds.
    pub fn get(&self, mut store: impl AsContextMut, index: u64) -> Option<Ref> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        let table = opaque.table(self.own(opaque));
        let (element, reference) = (table.ty.element, table.storage.get(index)?);
        Some(Ref::from_bits(opaque, Reference(reference), element))
    }

    /// Writes an element.
    ///
    /// # Errors
    /// If the index is out of bounds, or the value has another type.
    pub fn set(&self, mut store: impl AsContextMut, index: u64, value: Ref) -> Result<()> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        let table = self.index(opaque)?;
        let bits = value.to_bits(opaque, opaque.table(table).ty.element, "the element")?;
        let storage = &opaque.state.tables[table as usize].storage;
        storage.set(index, bits, &mut opaque.heap).with_context(|| format!("out of bounds table access: index {index}"))
    }

    /// Writes `value` to `length` elements from `start` on.
    ///
    /// # Errors
    /// As for [`set`](Self::set); nothing is written then.
    pub fn fill(&self, mut store: impl AsContextMut, start: u64, value: Ref, length: u64) -> Result<()> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        let table = self.index(opaque)?;
        let bits = value.to_bits(opaque, opaque.table(table).ty.element, "the element")?;
        let storage = &opaque.state.tables[table as usize].storage;
        let filled = storage.fill(start, length, bits, &mut opaque.heap);
        filled.with_context(|| out_of_bounds(start, length, storage.length()))
    }

    /// Copies `length` elements between tables, or within one.
    ///
    /// # Errors
    /// If the ranges are out of bounds, or the types do not match; nothing is written then.
    pub fn copy(
        mut store: impl AsContextMut,
        to: &Table,
        to_index: u64,
        from: &Table,
        from_index: u64,
        length: u64,
    ) -> Result<()> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        let (to, from) = (to.index(opaque)?, from.index(opaque)?);
        let (to, from) = (&opaque.state.tables[to as usize], &opaque.state.tables[from as usize]);
        let [taken, given] = [to, from].map(|table| table.ty.element);
        if !opaque.engine.types().is_ref_subtype(given, taken) {
            let [taken, given] = [taken, given].map(|ty| RefType::from_engine(&opaque.engine, ty));
            bail!("type mismatch: the element is {taken}, not {given}");
        }
        match to.storage.copy_from(to_index, &from.storage, from_index, length, &mut opaque.heap) {
            Some(()) => Ok(()),
            None if from.storage.holds(from_index, length).is_none() => {
                bail!("{} copied from", out_of_bounds(from_index, length, from.storage.length()))
            }
            None => bail!("{} copied to", out_of_bounds(to_index, length, to.storage.length())),
        }
    }

    /// Grows by `delta` elements, each `init`, and returns the old length.
    ///
    /// # Errors
    /// If the maximum or a limit is passed, there is no memory, or `init` has another type.
    pub fn grow(&self, mut store: impl AsContextMut, delta: u64, init: Ref) -> Result<u64> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        let index = self.index(opaque)?;
        let element = opaque.table(index).ty.element;
        let bits = init.to_bits(opaque, element, "the element")?;
        let grown = opaque.grow_table(index, Pieces::whole(delta), bits)?;
        grown.with_context(|| {
            format!("the table cannot grow by {delta} elements: beyond its maximum or the limiter's, or without memory")
        })
    }
}

/// The sentence for a range of elements that a table does not have.
fn out_of_bounds(start: u64, count: u64, length: u64) -> String {
    format!("out of bounds table access: {count} elements from {start} on, of the {length} of the table")
}

impl StoreOpaque {
    /// Adds a table (type in engine space) and fills its head; the result is its index.
    ///
    /// # Safety
    /// The head lives as long as the store.
    pub(crate) unsafe fn add_table(&mut self, ty: wasm::TableType, init: u32, head: *mut TableHead) -> Result<u32> {
        let size = |elements: u64| usize::try_from(elements).unwrap_or(usize::MAX);
        self.check_new_table(size(ty.minimum), ty.maximum.map(size))?;
        let traced = !self.engine.types().is_function(ty.element.heap);
        let storage =
            TableStorage::new(ty, init, traced).inspect_err(|_| self.table_grow_failed(0, size(ty.minimum)))?;
        // SAFETY: the caller gives a valid head.
        unsafe { *head = storage.head() };
        self.state.tables.push(StoredTable { storage, ty, head });
        Ok(self.state.tables.len() as u32 - 1)
    }
}
