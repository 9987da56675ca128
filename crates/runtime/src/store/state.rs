//! What a store holds besides its heap. It is what the heap asks for roots.

use std::alloc::{self, Layout};
use std::ptr::NonNull;
use std::sync::Arc;

use legato_compiler::abi::{MemoryHead, StoreContext as StoreWords, TableHead};
use legato_compiler::module as wasm;
use legato_heap::{Reference, TypeId};
use rustc_hash::FxHashMap;

use crate::func::{HostCallee, HostFunction};
use crate::module::ModuleInner;
use crate::store::{HostRoots, RootIndex, RootScopeMark};
use crate::types::{RegisteredType, TypeGroup};
use crate::vm::table::RootBarrier;
use crate::vm::{CodeImage, LinearMemory, TableStorage};
use crate::{HeapType, Module};

/// A memory, with the head that compiled code reads.
#[derive(Debug)]
pub(crate) struct StoredMemory {
    pub(crate) storage: LinearMemory,
    /// In the context of the instance that defines it, or a box of the store's.
    pub(crate) head: *mut MemoryHead,
}

/// A table, with the head that compiled code reads.
#[derive(Debug)]
pub(crate) struct StoredTable {
    pub(crate) storage: TableStorage,
    /// In engine space.
    pub(crate) ty: wasm::TableType,
    pub(crate) head: *mut TableHead,
}

/// A global.
#[derive(Debug)]
pub(crate) struct StoredGlobal {
    /// In engine space.
    pub(crate) ty: wasm::GlobalType,
    pub(crate) cell: *mut u8,
    /// Whether it holds a reference that the collector traces.
    pub(crate) traced: bool,
}

/// A tag. Its id is its index in the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredTag {
    /// The function type.
    pub(crate) ty: TypeId,
    /// The type of its exceptions.
    pub(crate) exception: TypeId,
}

/// Room for a global that no instance defines.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GlobalCell(pub(crate) [u8; 16]);

/// The evaluated elements of a segment; empty once dropped.
#[derive(Default, Debug)]
pub(crate) struct ElementItems {
    pub(crate) items: Box<[Reference]>,
    pub(crate) traced: bool,
    /// Whether a nursery collection has found no young reference among them: they do not change.
    pub(crate) is_old: bool,
}

/// An instance. Index spaces of the module are mapped to the store's.
#[derive(Debug)]
pub(crate) struct InstanceData {
    pub(crate) module: Module,
    pub(crate) context: ContextMemory,
    /// Offset of the first [`FuncRef`](legato_compiler::abi::FuncRef) in the store's table.
    pub(crate) func_refs: u32,
    pub(crate) memories: Vec<u32>,
    pub(crate) tables: Vec<u32>,
    pub(crate) globals: Vec<u32>,
    pub(crate) tags: Vec<u32>,
    /// By segment; empty for active and dropped ones.
    pub(crate) elements: Vec<ElementItems>,
    /// By segment.
    pub(crate) dropped_data: Vec<bool>,
}

/// The memory of an instance context, behind 16 bytes that lead back to the instance.
#[derive(Debug)]
pub(crate) struct ContextMemory {
    start: NonNull<u8>,
    layout: Layout,
}

/// What lies before a context.
#[repr(C, align(16))]
struct ContextPrefix {
    instance: u32,
}

const PREFIX_BYTES: usize = size_of::<ContextPrefix>();

impl ContextMemory {
    /// Zeroed memory for a context of `bytes`, of the store's instance number `instance`.
    pub(crate) fn new(bytes: u32, instance: u32) -> ContextMemory {
        let layout = Layout::from_size_align(PREFIX_BYTES + bytes as usize, 16).expect("a context is far below 2 GiB");
        // SAFETY: the layout is not empty; the prefix lies at its start.
        unsafe {
            let start = NonNull::new(alloc::alloc_zeroed(layout)).unwrap_or_else(|| alloc::handle_alloc_error(layout));
            start.cast::<ContextPrefix>().write(ContextPrefix { instance });
            ContextMemory { start, layout }
        }
    }

    /// The context's address.
    pub(crate) fn address(&self) -> *mut u8 {
        self.start.as_ptr().wrapping_add(PREFIX_BYTES)
    }

    /// The part of the context at `offset` bytes.
    pub(crate) fn part<T>(&self, offset: u32) -> *mut T {
        self.address().wrapping_add(offset as usize).cast()
    }

    /// The number of the instance that a context belongs to.
    ///
    /// # Safety
    /// `context` is the address of a living instance's context.
    pub(crate) unsafe fn instance_of(context: *const u8) -> u32 {
        // SAFETY: the prefix lies before every context.
        unsafe { (*context.sub(PREFIX_BYTES).cast::<ContextPrefix>()).instance }
    }
}

impl Drop for ContextMemory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// See the module's documentation.
#[derive(Debug)]
#[allow(clippy::vec_box, reason = "compiled code holds the addresses")]
pub(crate) struct StoreState {
    words: *mut StoreWords,
    pub(crate) instances: Vec<InstanceData>,
    /// Contexts of instances that could not be made, and their modules.
    pub(crate) abandoned: Vec<(ContextMemory, Module)>,
    pub(crate) memories: Vec<StoredMemory>,
    pub(crate) tables: Vec<StoredTable>,
    pub(crate) globals: Vec<StoredGlobal>,
    pub(crate) tags: Vec<StoredTag>,
    /// Heads and cells of what the host made.
    pub(crate) memory_heads: Vec<Box<MemoryHead>>,
    pub(crate) table_heads: Vec<Box<TableHead>>,
    pub(crate) global_cells: Vec<Box<GlobalCell>>,
    /// Contexts of host functions; compiled code holds their addresses.
    pub(crate) host_callees: Vec<Box<HostCallee>>,
    /// The function that each host function of a linker has become here.
    pub(crate) host_functions: FxHashMap<*const HostFunction, u32>,
    /// The instance of each module of which a linker defines exports; one may be about to be made.
    pub(crate) linked_modules: FxHashMap<*const ModuleInner, u32>,
    /// Trampolines into compiled code, by function type.
    pub(crate) entries: FxHashMap<TypeId, *const u8>,
    /// Groups of the types whose objects and items the host has made here. Those of modules are the modules'.
    pub(crate) types: FxHashMap<*const TypeGroup, Arc<TypeGroup>>,
    /// Images whose trampolines the store uses.
    pub(crate) images: Vec<Arc<CodeImage>>,
    pub(crate) roots: HostRoots,
    /// The stack of constant expressions: bits, and whether they are a traced reference.
    pub(crate) scratch: Vec<(u128, bool)>,
    /// The exception that the host code under way may throw or take.
    pub(crate) pending_exception: Option<Reference>,
    /// Host functions under way, one within the other.
    host_calls: usize,
}

/// What [`StoreState::exit_host`] must restore.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostEntry {
    scope: RootScopeMark,
    /// The exception that is pending outside.
    pending: Option<RootIndex>,
}

impl StoreState {
    pub(crate) fn new(words: *mut StoreWords) -> StoreState {
        StoreState {
            words,
            instances: Vec::new(),
            abandoned: Vec::new(),
            memories: Vec::new(),
            tables: Vec::new(),
            globals: Vec::new(),
            tags: Vec::new(),
            memory_heads: Vec::new(),
            table_heads: Vec::new(),
            global_cells: Vec::new(),
            host_callees: Vec::new(),
            host_functions: FxHashMap::default(),
            linked_modules: FxHashMap::default(),
            entries: FxHashMap::default(),
            types: FxHashMap::default(),
            images: Vec::new(),
            roots: HostRoots::default(),
            scratch: Vec::new(),
            pending_exception: None,
            host_calls: 0,
        }
    }

    /// The words that trampolines write.
    pub(crate) fn words(&self) -> *mut StoreWords {
        self.words
    }

    /// The addresses of all contexts of instances.
    pub(crate) fn contexts(&self) -> impl Iterator<Item = *mut u8> {
        let made = self.instances.iter().map(|instance| &instance.context);
        made.chain(self.abandoned.iter().map(|(context, _)| context)).map(ContextMemory::address)
    }

    /// Enters a host function: a scope of roots, in which no exception is pending at first.
    #[inline]
    pub(crate) fn enter_host(&mut self) -> HostEntry {
        let scope = self.roots.enter();
        self.host_calls += 1;
        HostEntry { scope, pending: self.pending_exception.take().map(|exception| self.roots.push(exception)) }
    }

    /// Leaves the host function that was entered last.
    #[inline]
    pub(crate) fn exit_host(&mut self, entry: HostEntry, barrier: &mut impl RootBarrier) {
        self.host_calls -= 1;
        let pending = entry.pending.and_then(|root| self.roots.get(root).ok());
        self.pending_exception = pending.map(|exception| barrier.current(exception));
        self.roots.exit(entry.scope, barrier);
    }

    /// The host is about to call a function. Outside of host functions, the exception that ended the call before is
    /// forgotten.
    pub(crate) fn begin_call(&mut self) {
        if self.host_calls == 0 {
            self.pending_exception = None;
        }
    }

    /// Keeps a type registered as long as the store.
    #[inline]
    pub(crate) fn keep_type(&mut self, ty: &RegisteredType) {
        let group = ty.group();
        self.types.entry(Arc::as_ptr(group)).or_insert_with(|| group.clone());
    }

    /// Keeps the type that a heap type names, if it names one, registered as long as the store.
    pub(crate) fn keep_heap_type(&mut self, ty: &HeapType) {
        if let Some(ty) = ty.registered() {
            self.keep_type(ty);
        }
    }

    /// Keeps an image alive as long as the store.
    pub(crate) fn keep_image(&mut self, image: &Arc<CodeImage>) {
        if !self.images.iter().any(|kept| Arc::ptr_eq(kept, image)) {
            self.images.push(image.clone());
        }
    }
}
