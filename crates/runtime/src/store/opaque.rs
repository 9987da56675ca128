//! The part of a store that does not depend on the embedder's data.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use legato_compiler::abi::{COLD_CELLS, ContextHead, FuncRef, StoreContext as StoreWords};
use legato_compiler::artifact::TrapCode;
use legato_compiler::module as wasm;
use legato_heap::layout::StorageKind;
use legato_heap::{AllocationError, Budget, Cause, Done, Heap, HeapConfig, Reference, TypeId};

use crate::builtins::{self, Pieces};
use crate::instance::segments::into_error;
use crate::store::{FuncTable, LimitExceeded, ResourceLimiter, StoreState, StoredGlobal, StoredTable, WeakRoots};
use crate::vm::{InterruptState, StoreFrames};
use crate::{Engine, Trap};

/// Tells the values of one store from those of another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct StoreId(u64);

impl StoreId {
    fn allocate() -> StoreId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        StoreId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The words of the store that compiled code knows, and the way back from them.
#[repr(C)]
struct Words {
    frames: StoreFrames,
    store: *mut StoreOpaque,
}

/// Finds the limiter in the data of the store at this address, and lets it be asked.
pub(crate) type Limiter = Box<dyn Fn(*mut StoreOpaque, &mut dyn FnMut(&mut dyn ResourceLimiter)) + Send + Sync>;

/// See the module's documentation.
pub struct StoreOpaque {
    pub(crate) id: StoreId,
    pub(crate) engine: Engine,
    pub(crate) interrupt: Arc<InterruptState>,
    pub(crate) heap: Heap,
    functions: FuncTable,
    pub(crate) state: StoreState,
    pub(crate) weak: WeakRoots,
    pub(crate) limiter: Option<Limiter>,
    /// Whether the limiter, if there is one, has granted the stack of compiled code.
    stack_granted: bool,
    /// A box, by its address: compiled code writes to it.
    words: *mut Words,
}

impl StoreOpaque {
    /// With a heap of this configuration, which is the engine's but for its maximum.
    pub(crate) fn new(engine: &Engine, heap: &HeapConfig) -> Result<StoreOpaque> {
        let heap = Heap::new_closed(heap, engine.types().table().clone())?;
        let frames = StoreFrames::new(heap.cage_base(), visit_older_frames);
        let words = Box::into_raw(Box::new(Words { frames, store: std::ptr::null_mut() }));
        // SAFETY: the mutator context lives as long as the heap; the interruption is detached before that ends.
        let interrupt = unsafe { InterruptState::new(heap.mutator_context()) };
        Ok(StoreOpaque {
            id: StoreId::allocate(),
            engine: engine.clone(),
            interrupt,
            heap,
            functions: FuncTable::new(),
            state: StoreState::new(words.cast()),
            weak: WeakRoots::default(),
            limiter: None,
            stack_granted: false,
            words,
        })
    }

    /// Reserves the heap's address space, unless that has been done: before anything that may lead to objects.
    ///
    /// Instances that are there already, and code of theirs that is active, keep the cage's former base, null: they
    /// read no object ([`needs_heap`](wasm::ModuleInfo::needs_heap)), and an access by a null reference faults there
    /// too.
    ///
    /// # Errors
    /// As for [`Heap::open`].
    pub(crate) fn open_heap(&mut self) -> Result<()> {
        if self.heap.is_open() {
            return Ok(());
        }
        self.heap.open()?;
        // SAFETY: the words live as long as the store, and nobody borrows them.
        unsafe { (*self.words).frames.context.cage = self.heap.cage_base() };
        Ok(())
    }

    /// Tells where the store lies, for the way back from compiled code. Returns the former address.
    pub(crate) fn set_address(&mut self, address: *mut StoreOpaque) -> *mut StoreOpaque {
        // SAFETY: the words live as long as the store.
        unsafe { std::mem::replace(&mut (*self.words).store, address) }
    }

    /// The store that words known to compiled code belong to.
    ///
    /// # Safety
    /// `words` are a living store's.
    pub(crate) unsafe fn of_words(words: *mut StoreWords) -> *mut StoreOpaque {
        // SAFETY: a store's words are the start of `Words`.
        unsafe { (*words.cast::<Words>()).store }
    }

    /// The words that trampolines write.
    pub(crate) fn words(&self) -> *mut StoreWords {
        self.words.cast()
    }

    /// The head of a context of this store.
    pub(crate) fn context_head(&self, magic: u32, func_refs: u32) -> ContextHead {
        ContextHead {
            magic,
            func_refs,
            store: self.words(),
            mutator: self.heap.mutator_context(),
            cage: self.heap.cage_base(),
            types: self.heap.types().base(),
            builtins: builtins::table(),
            cold_cells: [0; COLD_CELLS],
            loops_left: 0,
            func_table: self.functions.base(),
            profile: std::ptr::null(),
        }
    }

    /// Adds records of functions; returns the offset of the first. Writes them with [`set_func_ref`]. Where this moves
    /// the table, compiled code learns of it when it goes on: it has called the runtime or the host.
    ///
    /// [`set_func_ref`]: Self::set_func_ref
    ///
    /// # Errors
    /// As for [`FuncTable::add`].
    pub(crate) fn add_func_refs(&mut self, count: u32) -> Result<u32> {
        let before = self.functions.base();
        let first = self.functions.add(count)?;
        let base = self.functions.base();
        if base != before {
            for context in self.state.contexts() {
                // SAFETY: every instance's context begins with its head and lives as long as the store; nobody borrows
                // it.
                unsafe { (*context.cast::<ContextHead>()).func_table = base };
            }
        }
        Ok(first)
    }

    /// Writes a record that has been added.
    pub(crate) fn set_func_ref(&mut self, offset: u32, record: FuncRef) {
        self.functions.set(offset, record);
    }

    pub(crate) fn gc(&mut self) {
        self.drop_weak();
        self.heap.collect(Cause::Requested, &mut self.state);
    }

    /// Whether nothing is left to do.
    pub(crate) fn collect_some(&mut self, time: Duration) -> bool {
        self.drop_weak();
        // Beyond what the clock can tell is without end.
        let mut budget = Instant::now().checked_add(time).map_or_else(Budget::unlimited, Budget::until);
        self.heap.collect_some(&mut budget, &mut self.state) == Done::Yes
    }

    pub(crate) fn trim(&mut self) -> u64 {
        self.drop_weak();
        self.heap.trim(&mut self.state)
    }

    pub(crate) fn allocate_struct(&mut self, ty: TypeId) -> Result<Reference> {
        self.open_heap()?;
        self.heap.allocate_struct(ty, &mut self.state).map_err(allocation_error)
    }

    pub(crate) fn allocate_array(&mut self, ty: TypeId, length: u32) -> Result<Reference> {
        self.open_heap()?;
        self.heap.allocate_array(ty, length, &mut self.state).map_err(allocation_error)
    }

    /// Makes room for writing elements of an array; returns the array, which may have moved.
    ///
    /// # Safety
    /// The array is live.
    pub(crate) unsafe fn array_reserve_leaves(
        &mut self,
        array: Reference,
        start: u32,
        length: u32,
    ) -> Result<Reference> {
        let mut kept = [array];
        // SAFETY: passed on to the caller.
        unsafe { self.heap.array_reserve_leaves(start, length, &mut kept, &mut self.state) }
            .map_err(allocation_error)?;
        Ok(kept[0])
    }

    /// Writes the same bits to elements of an array for which there is room.
    ///
    /// # Safety
    /// The array is live, and so is the object that the bits refer to, if its elements are references.
    pub(crate) unsafe fn array_fill(&mut self, array: Reference, start: u32, bits: u128, length: u32) -> Result<()> {
        let filled = match self.heap.array_element_kind(array) {
            // SAFETY: passed on to the caller.
            StorageKind::Ref => unsafe {
                self.heap.array_fill_references(array, start, Reference(bits as u32), length)
            },
            // SAFETY: passed on to the caller.
            _ => unsafe { self.heap.array_fill(array, start, bits, length) },
        };
        filled.map_err(allocation_error)
    }

    /// Writes bytes over elements of an array for which there is room.
    ///
    /// # Safety
    /// The array is live.
    pub(crate) unsafe fn array_write_bytes(&mut self, array: Reference, start: u32, bytes: &[u8]) -> Result<()> {
        // SAFETY: passed on to the caller.
        unsafe { self.heap.array_write_bytes(array, start, bytes) }.map_err(allocation_error)
    }

    /// The address of the first element of an array of numbers, where all of them can be had in one piece. See
    /// [`Heap::array_view`].
    ///
    /// # Safety
    /// The array is live.
    pub(crate) unsafe fn array_view(&mut self, array: Reference, writable: bool) -> Option<NonNull<u8>> {
        // SAFETY: passed on to the caller.
        unsafe { self.heap.array_view(&mut [array], writable, &mut self.state) }
    }

    /// Writes a copy of all elements of an array back.
    ///
    /// # Safety
    /// The array is live.
    pub(crate) unsafe fn array_copy_back(&mut self, array: Reference, bytes: &[u8]) -> Result<()> {
        // SAFETY: passed on to the caller.
        unsafe { self.heap.array_copy_back(&mut [array], bytes, &mut self.state) }.map_err(allocation_error)
    }

    /// A function reference's record.
    ///
    /// # Panics
    /// If the offset is null.
    pub(crate) fn func_ref(&self, offset: u32) -> &FuncRef {
        self.functions.get(offset)
    }

    /// Whether a reference value belongs to a type (engine space).
    pub(crate) fn reference_matches(&self, reference: u32, ty: wasm::RefType) -> bool {
        use wasm::HeapType::*;
        let value = Reference(reference);
        if value.is_null() {
            return ty.nullable;
        }
        let types = self.engine.types();
        let exact = match ty.heap {
            Extern | Any | Exn | Func => return true,
            None | NoFunc | NoExtern | NoExn => return false,
            Concrete(_) if types.is_function(ty.heap) => self.func_ref(reference).type_id,
            I31 => return value.is_i31(),
            Eq if value.is_i31() => return true,
            _ if value.is_i31() => return false,
            Eq | Struct | Array | Concrete(_) => self.heap.type_of(value).0,
        };
        types.is_of(TypeId(exact), ty.heap)
    }

    /// Asks the limiter, if there is one. It stays in place meanwhile, so that one that panics limits all the same
    /// afterwards.
    fn ask<R>(&mut self, otherwise: R, ask: impl FnOnce(&mut dyn ResourceLimiter) -> R) -> R {
        let Some(limiter) = &self.limiter else { return otherwise };
        let (mut ask, mut answer) = (Some(ask), otherwise);
        // SAFETY: the words live as long as the store.
        let store = unsafe { (*self.words).store };
        limiter(store, &mut |limiter| {
            if let Some(ask) = ask.take() {
                answer = ask(limiter);
            }
        });
        answer
    }

    /// Checks the limit for one more memory of `bytes`.
    pub(crate) fn check_new_memory(&mut self, bytes: usize, maximum: Option<usize>) -> Result<()> {
        let count = self.state.memories.len();
        self.ask(Ok(()), |limiter| {
            if count >= limiter.memories() {
                bail!(LimitExceeded::Memories(limiter.memories()));
            }
            match limiter.memory_growing(0, bytes, maximum)? {
                true => Ok(()),
                false => bail!(LimitExceeded::MemoryBytes(bytes)),
            }
        })
    }

    /// Checks the limit for one more table of `elements`.
    pub(crate) fn check_new_table(&mut self, elements: usize, maximum: Option<usize>) -> Result<()> {
        let count = self.state.tables.len();
        self.ask(Ok(()), |limiter| {
            if count >= limiter.tables() {
                bail!(LimitExceeded::Tables(limiter.tables()));
            }
            match limiter.table_growing(0, elements, maximum)? {
                true => Ok(()),
                false => bail!(LimitExceeded::TableElements(elements)),
            }
        })
    }

    /// Checks the limit for one more instance, and for the stack that the first one's code needs.
    pub(crate) fn check_new_instance(&mut self) -> Result<()> {
        // Those that a linker needs are none that the program or its embedder has asked for.
        let count = self.state.instances.len().saturating_sub(self.state.linked_modules.len());
        let stack = (!self.stack_granted).then_some(self.engine.config().max_wasm_stack);
        self.ask(Ok(()), |limiter| {
            if count >= limiter.instances() {
                bail!(LimitExceeded::Instances(limiter.instances()));
            }
            match stack {
                Some(bytes) if !limiter.stack_reserving(bytes)? => bail!(LimitExceeded::StackBytes(bytes)),
                _ => Ok(()),
            }
        })?;
        self.stack_granted = true;
        Ok(())
    }

    /// Tells the limiter that a memory has not grown though it was allowed to.
    pub(crate) fn memory_grow_failed(&mut self, current: usize, desired: usize) {
        self.ask((), |limiter| limiter.memory_grow_failed(current, desired));
    }

    /// Tells the limiter that a table has not grown though it was allowed to.
    pub(crate) fn table_grow_failed(&mut self, current: usize, desired: usize) {
        self.ask((), |limiter| limiter.table_grow_failed(current, desired));
    }

    /// Grows a memory by `delta` pages; `None` where it may not. The result is the old size in pages.
    pub(crate) fn grow_memory(&mut self, memory: u32, delta: u64) -> Result<Option<u64>> {
        let stored = &self.state.memories[memory as usize];
        let Some(desired) = stored.storage.bytes_after(delta) else { return Ok(None) };
        let (current, ty) = (stored.storage.bytes(), *stored.storage.ty());
        let maximum = ty.maximum.and_then(|pages| usize::try_from((pages as u128) << ty.page_size_log2).ok());
        if !self.ask(Ok(true), |limiter| limiter.memory_growing(current, desired, maximum))? {
            return Ok(None);
        }
        let stored = &mut self.state.memories[memory as usize];
        let grown = stored.storage.grow(delta);
        // SAFETY: the head lives as long as the store.
        unsafe { *stored.head = stored.storage.head() };
        if grown.is_none() {
            self.memory_grow_failed(current, desired);
        }
        Ok(grown)
    }

    /// Grows a table by all `pieces`; `None` where it may not. The result is the old length.
    pub(crate) fn grow_table(&mut self, table: u32, mut pieces: Pieces, init: u32) -> Result<Option<u64>> {
        let stored = &self.state.tables[table as usize];
        let Some(desired) = stored.storage.length_after(pieces.count()) else { return Ok(None) };
        let (current, maximum) = (stored.storage.length() as usize, stored.ty.maximum);
        let maximum = maximum.and_then(|maximum| usize::try_from(maximum).ok());
        if !self.ask(Ok(true), |limiter| limiter.table_growing(current, desired as usize, maximum))? {
            return Ok(None);
        }
        let stored = &mut self.state.tables[table as usize];
        let init = if stored.storage.is_traced() { self.heap.current(Reference(init)).0 } else { init };
        let mut grow = || {
            stored.storage.reserve(pieces.count())?;
            loop {
                match pieces.next(&self.interrupt) {
                    Ok(Some(piece)) => stored.storage.grow(piece.len() as u64, init)?,
                    Ok(None) => return Some(Ok(current as u64)),
                    Err(interrupted) => return Some(Err(interrupted)),
                };
            }
        };
        let grown = grow();
        if !matches!(grown, Some(Ok(_))) {
            stored.storage.shrink(current as u64, &mut self.heap);
        }
        // SAFETY: the head lives as long as the store.
        unsafe { *stored.head = stored.storage.head() };
        if !matches!(grown, Some(Ok(_))) {
            self.table_grow_failed(current, desired as usize);
        }
        grown.transpose().map_err(into_error)
    }

    pub(crate) fn table(&self, index: u32) -> &StoredTable {
        &self.state.tables[index as usize]
    }

    pub(crate) fn global(&self, index: u32) -> &StoredGlobal {
        &self.state.globals[index as usize]
    }

    /// Fails where a value of another store is used with this one.
    pub(crate) fn check_id(&self, id: StoreId, what: &str) -> Result<()> {
        if self.id == id {
            return Ok(());
        }
        let article = if what.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        Err(anyhow!("{article} {what} was used with another store than its own"))
    }
}

/// Has the heap of the store with these words visit frames of which one is going to run.
///
/// # Safety
/// The words are a living store's, whose compiled code runs, or has just been left: nobody holds a borrow of it.
unsafe fn visit_older_frames(words: *mut StoreWords) {
    // SAFETY: by the contract.
    let store = unsafe { &mut *StoreOpaque::of_words(words) };
    store.heap.visit_older_frames(&mut store.state);
}

/// The trap that a failed allocation is.
pub(crate) fn allocation_trap(error: AllocationError) -> (TrapCode, String) {
    let code = match error {
        AllocationError::OutOfMemory { .. } => TrapCode::AllocationFailure,
        AllocationError::TooLarge { .. } | AllocationError::TooLong { .. } => TrapCode::AllocationTooLarge,
    };
    (code, error.to_string())
}

fn allocation_error(error: AllocationError) -> anyhow::Error {
    let (code, message) = allocation_trap(error);
    anyhow::Error::from(Trap::from(code)).context(message)
}

impl Drop for StoreOpaque {
    fn drop(&mut self) {
        self.interrupt.detach();
        // SAFETY: made by `Box::into_raw`; compiled code of this store runs no more.
        drop(unsafe { Box::from_raw(self.words) });
    }
}
