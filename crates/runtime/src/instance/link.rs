//! Instantiation: matching imports, filling the context, running initialisers and the start function.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use legato_compiler::abi::{
    CONTEXT_MAGIC, ContextHead, FuncImport, FuncRef, HOST_FUNCTION, HOST_MAGIC, MemoryHead, TableHead,
};
use legato_compiler::module as wasm;
use legato_heap::TypeId;

use crate::builtins::Pieces;
use crate::func::{HostCallee, call_code};
use crate::instance::{const_expr, segments};
use crate::store::{ContextMemory, ElementItems, InstanceData, StoreOpaque};
use crate::types::{check_import, into_engine, map_ref_type, map_value_type};
use crate::vm::ValueCell;
use crate::{Engine, Extern, Module};

/// Instantiates a module in a store; the result is the instance's index.
///
/// # Safety
/// The store is borrowed exclusively, by way of a pointer to the whole of it.
pub(crate) unsafe fn instantiate(raw: *mut StoreOpaque, module: &Module, imports: &[Extern]) -> Result<u32> {
    // SAFETY: exclusive by the caller's promise. Ends before compiled code runs.
    let store = unsafe { &mut *raw };
    ensure!(Engine::same(&store.engine, module.engine()), "the module was compiled by another engine than the store's");
    let info = module.info();
    ensure!(info.imports.len() == imports.len(), "expected {} imports, found {}", info.imports.len(), imports.len());
    for (import, given) in info.imports.iter().zip(imports) {
        check_import(&store.engine, module.type_ids(), import, given.actual(store)?)?;
    }
    if info.needs_heap() {
        store.open_heap()?;
    }
    // While the instance is made its address is known to none, so a limiter may use the whole store.
    let outer = store.set_address(raw);
    let made = make(store, module, imports).and_then(|index| initialize(store, index).map(|()| index));
    store.set_address(outer);
    let index = made?;
    if let Some(start) = module.info().start {
        // SAFETY: by the caller's promise.
        unsafe { run_start(raw, index, start)? };
    }
    Ok(index)
}

unsafe fn run_start(raw: *mut StoreOpaque, index: u32, start: wasm::FuncIndex) -> Result<()> {
    // SAFETY: by the caller's promise; the shared data is done with before the call.
    let (entry, code) = unsafe {
        let store = &mut *raw;
        let instance = &store.state.instances[index as usize];
        let info = instance.module.info();
        let ty = instance.module.type_ids()[info.functions[start.index()].ty.index()];
        let code = if start.0 < info.imported_functions {
            let layout = instance.module.context_layout();
            *instance.context.part::<FuncImport>(layout.func_imports).add(start.index())
        } else {
            FuncImport { code: instance.module.image().function_code(start), context: instance.context.address() }
        };
        (store.entry(ty)?, code)
    };
    // SAFETY: the start function has neither parameters nor results.
    unsafe { call_code(raw, entry, code.context, code.code, &mut [ValueCell::default(); 1]) }
}

/// What fills the context of a new instance.
struct Linking<'a> {
    store: &'a mut StoreOpaque,
    module: &'a Module,
    index: u32,
    context: ContextMemory,
}

/// Makes the instance, with everything zero or null that is not imported.
fn make(store: &mut StoreOpaque, module: &Module, imports: &[Extern]) -> Result<u32> {
    store.check_new_instance()?;
    store.state.keep_image(module.image());
    let index = store.state.instances.len() as u32;
    let func_refs = store.add_func_refs(module.info().func_ref_count)?;
    let context = ContextMemory::new(module.context_layout().bytes, index);
    let mut linking = Linking { store, module, index, context };
    linking.fill_head(func_refs);
    let linked = linking.link(imports);
    let types = imports.iter().filter_map(|given| given.into_func());
    let types: Vec<TypeId> = types.map(|func| TypeId(func.record(linking.store).type_id)).collect();
    linking.fill_func_refs(func_refs, &types);
    let Linking { context, .. } = linking;
    match linked {
        Ok(linked) => {
            let Linked { memories, tables, globals, tags } = linked;
            let info = module.info();
            store.state.instances.push(InstanceData {
                module: module.clone(),
                context,
                func_refs,
                memories,
                tables,
                globals,
                tags,
                elements: info.elements.iter().map(|_| ElementItems::default()).collect(),
                dropped_data: vec![false; info.data.len()],
            });
            Ok(index)
        }
        Err(error) => {
            // What was made so far is known to the store, and has its heads and cells in this context.
            store.state.abandoned.push((context, module.clone()));
            Err(error)
        }
    }
}

/// What the index spaces of a module stand for in the store.
#[derive(Default)]
struct Linked {
    memories: Vec<u32>,
    tables: Vec<u32>,
    globals: Vec<u32>,
    tags: Vec<u32>,
}

impl Linking<'_> {
    fn part<T>(&self, offset: u32) -> *mut T {
        self.context.part(offset)
    }

    fn fill_head(&mut self, func_refs: u32) {
        let head = self.store.context_head(CONTEXT_MAGIC, func_refs);
        let head = ContextHead { profile: self.module.image().profile(), ..head };
        let layout = self.module.context_layout();
        self.put(0, 0, head);
        for (index, id) in self.module.type_ids().iter().enumerate() {
            self.put(layout.type_ids, index, id.0);
        }
    }

    /// Writes a word or record of the context: entry `index` of the part at `offset`.
    fn put<T>(&self, offset: u32, index: usize, value: T) {
        // SAFETY: the layout has room for as many entries as the module has imports or items of a kind, which is what
        // the callers count; nobody uses the context yet.
        unsafe { self.part::<T>(offset).add(index).write(value) }
    }

    /// Fills in imports, and makes what the module defines.
    fn link(&mut self, imports: &[Extern]) -> Result<Linked> {
        let module = self.module;
        let (info, layout) = (module.info(), module.context_layout());
        let map = into_engine(module.type_ids());
        let mut linked = Linked::default();
        let mut functions = 0;
        for given in imports {
            match given {
                Extern::Func(func) => {
                    let import = self.import_function(func.record(self.store));
                    self.put(layout.func_imports, functions, import);
                    functions += 1;
                }
                Extern::Memory(memory) => {
                    let index = memory.index(self.store)?;
                    let head: *mut MemoryHead = self.store.state.memories[index as usize].head;
                    self.put(layout.memory_imports, linked.memories.len(), head);
                    linked.memories.push(index);
                }
                Extern::Table(table) => {
                    let index = table.index(self.store)?;
                    let head: *mut TableHead = self.store.table(index).head;
                    self.put(layout.table_imports, linked.tables.len(), head);
                    linked.tables.push(index);
                }
                Extern::Global(global) => {
                    let index = global.index(self.store)?;
                    let cell: *mut u8 = self.store.global(index).cell;
                    self.put(layout.global_imports, linked.globals.len(), cell);
                    linked.globals.push(index);
                }
                Extern::Tag(tag) => linked.tags.push(tag.index(self.store)?),
            }
        }
        for (index, &ty) in info.memories[info.imported_memories as usize..].iter().enumerate() {
            let head = self.part::<MemoryHead>(layout.memories).wrapping_add(index);
            // SAFETY: the context lives as long as the store, also where the instance cannot be made.
            linked.memories.push(unsafe { self.store.add_memory(ty, head)? });
        }
        for (index, &ty) in info.tables[info.imported_tables as usize..].iter().enumerate() {
            let head = self.part::<TableHead>(layout.tables).wrapping_add(index);
            let ty = wasm::TableType { element: map_ref_type(ty.element, &map), ..ty };
            // SAFETY: the context lives as long as the store, also where the instance cannot be made.
            linked.tables.push(unsafe { self.store.add_table(ty, 0, head)? });
        }
        for (index, &ty) in info.globals[info.imported_globals as usize..].iter().enumerate() {
            let cell = self.part::<[u8; 16]>(layout.globals).wrapping_add(index);
            let ty = wasm::GlobalType { value: map_value_type(ty.value, &map), ..ty };
            linked.globals.push(self.store.add_global(ty, cell.cast()));
        }
        for &ty in &info.tags[info.imported_tags as usize..] {
            linked.tags.push(self.store.add_tag(module.type_ids()[ty.index()])?);
        }
        for (index, &tag) in linked.tags.iter().enumerate() {
            self.put(layout.tags, index, tag);
            self.put(layout.exception_types, index, self.store.state.tags[tag as usize].exception.0);
        }
        Ok(linked)
    }

    /// A host function gets a context that leads to this instance.
    fn import_function(&mut self, record: FuncRef) -> FuncImport {
        if record.number != HOST_FUNCTION {
            return FuncImport { code: record.code, context: record.context };
        }
        // SAFETY: a host function's context is a callee of this store.
        let function = unsafe { Arc::clone(&(*record.context.cast::<HostCallee>()).function) };
        let context = HostCallee::make(self.store, function, Some(self.index)).cast();
        FuncImport { code: record.code, context }
    }

    /// `imported_types` has the type of each function import.
    fn fill_func_refs(&mut self, func_refs: u32, imported_types: &[TypeId]) {
        let (info, layout) = (self.module.info(), self.module.context_layout());
        for (index, function) in (0..).map(wasm::FuncIndex).zip(&info.functions) {
            let Some(number) = function.func_ref else { continue };
            let imported = index.0 < info.imported_functions;
            // SAFETY: the context has an entry for each import.
            let import = imported.then(|| unsafe { *self.part::<FuncImport>(layout.func_imports).add(index.index()) });
            let target = import.unwrap_or_else(|| FuncImport {
                code: self.module.image().function_code(index),
                context: self.context.address(),
            });
            // SAFETY: the context of any function starts with a head, whose magic tells what it is.
            let is_host = unsafe { (*target.context.cast::<ContextHead>()).magic } == HOST_MAGIC;
            // An imported function keeps its own type, which may be below the declared one.
            let type_id =
                imported_types.get(index.index()).copied().unwrap_or(self.module.type_ids()[function.ty.index()]).0;
            let record = FuncRef {
                code: target.code,
                context: target.context,
                type_id,
                number: if is_host { HOST_FUNCTION } else { index.0 + 1 },
                data: 0,
            };
            self.store.set_func_ref(func_refs + number * size_of::<FuncRef>() as u32, record);
        }
    }
}

/// Has memories of a new instance show what their segments hold, where the module has images of that. Returns the
/// numbers of these memories.
fn show_images(store: &mut StoreOpaque, index: u32, module: &Module) -> Result<Vec<usize>> {
    let info = module.info();
    let Some(images) = module.memory_images().for_instance(info) else { return Ok(Vec::new()) };
    let mut shown = Vec::new();
    for (number, image) in (info.imported_memories as usize..).zip(images) {
        let Some(image) = image else { continue };
        let memory = store.state.instances[index as usize].memories[number];
        if store.state.memories[memory as usize].storage.show(image)? {
            shown.push(number);
        }
    }
    Ok(shown)
}

/// Evaluates globals, tables and segments, in the order that the specification gives.
fn initialize(store: &mut StoreOpaque, index: u32) -> Result<()> {
    let module = store.state.instances[index as usize].module.clone();
    let info = module.info();
    for (number, global) in info.defined_globals.iter().enumerate() {
        let bits = const_expr::evaluate(store, index, &global.init).context("the value of a global")?;
        let global = store.state.instances[index as usize].globals[info.imported_globals as usize + number];
        store.write_global(global, bits);
    }
    for (number, table) in info.defined_tables.iter().enumerate() {
        let Some(init) = &table.init else { continue };
        let bits = const_expr::evaluate(store, index, init).context("the elements of a table")?;
        let table = store.state.instances[index as usize].tables[info.imported_tables as usize + number];
        let storage = &store.state.tables[table as usize].storage;
        let filled = storage.fill(0, storage.length(), bits as u32, &mut store.heap);
        filled.ok_or_else(|| anyhow!("the table has its length"))?;
    }
    for (number, segment) in info.elements.iter().enumerate() {
        if !matches!(segment.mode, wasm::ElementMode::Declared) {
            segments::evaluate_elements(store, index, number, segment)?;
        }
    }
    for (number, segment) in info.elements.iter().enumerate() {
        if let wasm::ElementMode::Active(table, offset) = &segment.mode {
            let offset = const_expr::evaluate(store, index, offset)? as u64;
            let length = store.state.instances[index as usize].elements[number].items.len() as u64;
            segments::table_init(store, index, *table, number as u32, offset, 0, Pieces::whole(length))
                .map_err(segments::into_error)
                .with_context(|| format!("element segment {number}: {length} elements from {offset} on"))?;
            segments::drop_elements(store, index, number as u32);
        }
    }
    let images = show_images(store, index, &module)?;
    for (number, segment) in info.data.iter().enumerate() {
        if let Some((memory, _)) = &segment.active
            && images.contains(&memory.index())
        {
            store.state.instances[index as usize].dropped_data[number] = true;
        } else if let Some((memory, offset)) = &segment.active {
            let offset = const_expr::evaluate(store, index, offset)? as u64;
            let length = segment.bytes.len() as u64;
            segments::memory_init(store, index, *memory, number as u32, offset, 0, Pieces::whole(length))
                .map_err(segments::into_error)
                .with_context(|| format!("data segment {number}: {length} bytes from {offset} on"))?;
            store.state.instances[index as usize].dropped_data[number] = true;
        }
    }
    Ok(())
}
