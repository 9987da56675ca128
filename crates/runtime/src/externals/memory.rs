//! Linear memories.

use anyhow::{Context, Result};
use legato_compiler::abi::MemoryHead;

use crate::externals::handle;
use crate::store::{StoreOpaque, StoredMemory};
use crate::vm::LinearMemory;
use crate::{AsContext, AsContextMut, MemoryType, StoreContext, StoreContextMut};

handle! {
    /// A linear memory of a store.
    ///
    /// ```
    /// use legato::{Engine, Memory, MemoryType, Store};
    ///
    /// let mut store = Store::new(&Engine::default(), ());
    /// let memory = Memory::new(&mut store, MemoryType::new(1, Some(4)))?;
    /// memory.write(&mut store, 100, b"text")?;
    /// let mut bytes = [0; 4];
    /// memory.read(&store, 100, &mut bytes)?;
    /// assert_eq!(&bytes, b"text");
    /// assert_eq!(memory.grow(&mut store, 2)?, 1);
    /// assert_eq!(memory.data_size(&store), 3 << 16);
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    Memory "memory";
}

/// An access outside a [`Memory`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("out of bounds memory access")]
pub struct MemoryAccessError;

impl Memory {
    /// A memory that belongs to no instance.
    ///
    /// # Errors
    /// If a limit is passed, or the system refuses the memory.
    pub fn new(mut store: impl AsContextMut, ty: MemoryType) -> Result<Memory> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        opaque.state.memory_heads.push(Box::new(MemoryHead { base: std::ptr::null_mut(), bytes: 0 }));
        let head: *mut MemoryHead = &raw mut **opaque.state.memory_heads.last_mut().expect("just pushed");
        // SAFETY: the head is a box of the store's.
        let index = unsafe { opaque.add_memory(ty.raw(), head)? };
        Ok(Memory::from_index(opaque, index))
    }

    /// Its type, with the declared sizes.
    ///
    /// # Panics
    /// If the store is another than the memory's. So for all methods that return no error.
    pub fn ty(&self, store: impl AsContext) -> MemoryType {
        let store = store.as_context();
        MemoryType::from_raw(*self.storage(&store.0.opaque).ty())
    }

    fn storage<'a>(&self, store: &'a StoreOpaque) -> &'a LinearMemory {
        &store.state.memories[self.own(store) as usize].storage
    }

    fn storage_mut<'a>(&self, store: &'a mut StoreOpaque) -> &'a mut LinearMemory {
        let index = self.own(store);
        &mut store.state.memories[index as usize].storage
    }

    /// The whole contents.
    pub fn data<'a, T: 'static>(&self, store: impl Into<StoreContext<'a, T>>) -> &'a [u8] {
        let store: StoreContext<'a, T> = store.into();
        self.storage(&store.0.opaque).data()
    }

    /// The whole contents, to be changed.
    pub fn data_mut<'a, T: 'static>(&self, store: impl Into<StoreContextMut<'a, T>>) -> &'a mut [u8] {
        let store: StoreContextMut<'a, T> = store.into();
        self.storage_mut(&mut store.0.opaque).data_mut()
    }

    /// The whole contents and the store's data, both to be changed.
    pub fn data_and_store_mut<'a, T: 'static>(
        &self,
        store: impl Into<StoreContextMut<'a, T>>,
    ) -> (&'a mut [u8], &'a mut T) {
        let store: StoreContextMut<'a, T> = store.into();
        let (opaque, data) = store.0.split();
        (self.storage_mut(opaque).data_mut(), data)
    }

    /// Copies out of the memory.
    ///
    /// # Errors
    /// If the range from `offset` (in bytes) as long as `buffer` is not within the memory.
    ///
    /// # Panics
    /// If the memory belongs to another store.
    pub fn read(&self, store: impl AsContext, offset: usize, buffer: &mut [u8]) -> Result<(), MemoryAccessError> {
        let store = store.as_context();
        let data = self.storage(&store.0.opaque).data();
        let end = offset.checked_add(buffer.len()).ok_or(MemoryAccessError)?;
        buffer.copy_from_slice(data.get(offset..end).ok_or(MemoryAccessError)?);
        Ok(())
    }

    /// Copies into the memory.
    ///
    /// # Errors
    /// If the range from `offset` (in bytes) as long as `buffer` is not within the memory.
    ///
    /// # Panics
    /// If the memory belongs to another store.
    pub fn write(&self, mut store: impl AsContextMut, offset: usize, buffer: &[u8]) -> Result<(), MemoryAccessError> {
        let store = store.as_context_mut();
        let data = self.storage_mut(&mut store.0.opaque).data_mut();
        let end = offset.checked_add(buffer.len()).ok_or(MemoryAccessError)?;
        data.get_mut(offset..end).ok_or(MemoryAccessError)?.copy_from_slice(buffer);
        Ok(())
    }

    /// The current size in bytes.
    pub fn data_size(&self, store: impl AsContext) -> usize {
        self.storage(&store.as_context().0.opaque).bytes()
    }

    /// The current size in pages.
    pub fn size(&self, store: impl AsContext) -> u64 {
        self.storage(&store.as_context().0.opaque).pages()
    }

    /// Bytes in a page.
    pub fn page_size(&self, store: impl AsContext) -> u64 {
        1 << self.storage(&store.as_context().0.opaque).ty().page_size_log2
    }

    /// Grows by `delta` pages and returns the old size in pages.
    ///
    /// # Errors
    /// If the maximum or a limit is passed, or the system refuses the memory.
    pub fn grow(&self, mut store: impl AsContextMut, delta: u64) -> Result<u64> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        let index = self.own(opaque);
        opaque.grow_memory(index, delta)?.with_context(|| {
            format!("the memory cannot grow by {delta} pages: beyond its maximum or the limiter's, or without memory")
        })
    }
}

impl StoreOpaque {
    /// Adds a memory and fills its head; the result is its index.
    ///
    /// # Safety
    /// The head lives as long as the store.
    pub(crate) unsafe fn add_memory(
        &mut self,
        ty: legato_compiler::module::MemoryType,
        head: *mut MemoryHead,
    ) -> Result<u32> {
        let bytes = |pages: u64| usize::try_from((pages as u128) << ty.page_size_log2).unwrap_or(usize::MAX);
        self.check_new_memory(bytes(ty.minimum), ty.maximum.map(bytes))?;
        let storage = LinearMemory::new(ty, self.engine.memory_reservation())
            .inspect_err(|_| self.memory_grow_failed(0, bytes(ty.minimum)))?;
        // SAFETY: the caller gives a valid head.
        unsafe { *head = storage.head() };
        self.state.memories.push(StoredMemory { storage, head });
        Ok(self.state.memories.len() as u32 - 1)
    }
}
