//! For tests: modules of the real compiler, run by this layer alone, with a heap and the few builtins that they need.

mod programs;
mod stacks;
mod trampolines;

use std::alloc::Layout;
use std::collections::HashMap;
use std::sync::Arc;

use legato_compiler::abi::{
    Builtin, COLD_CELLS, CONTEXT_MAGIC, ContextHead, FuncImport, FuncRef, HOST_MAGIC, HostContext, MemoryHead,
    StoreContext, TableHead,
};
use legato_compiler::artifact::{MachineSignature, TrapCode};
use legato_compiler::module::{
    CompositeType, ConstOp, ElementItems, ElementMode, ExportKind, FuncIndex, ModuleInfo, TypeIndex,
};
use legato_compiler::{CompileOptions, compile};
use legato_heap::Collector;
use legato_heap::layout::StorageKind;
use legato_heap::references::References;
use legato_heap::{Heap, HeapConfig, RootVisitor, Roots, TypeId, TypeInfo, TypeShape, TypeTable};

use crate::vm::interrupt::stack_limit_here;
use crate::vm::{
    CodeImage, InterruptState, LinearMemory, PollOutcome, StoreFrames, TableStorage, TrapRecord, Unwind, ValueCell,
    activation, frames,
};

/// What an imported function does with its cells.
type Host = Box<dyn Fn(&Run, &mut [ValueCell]) -> Result<(), Unwind>>;

/// The start of every context's store: builtins find the run by its address.
#[repr(C)]
struct Store {
    frames: StoreFrames,
    run: *const Run,
}

#[repr(C)]
struct HostImport {
    context: HostContext,
    run: *const Run,
    cells: usize,
    function: Host,
}

/// One instance of one module, ready to be called.
pub(super) struct Run {
    image: Arc<CodeImage>,
    heap: std::cell::UnsafeCell<Heap>,
    store: Box<std::cell::UnsafeCell<Store>>,
    interrupt: Arc<InterruptState>,
    context: *mut u8,
    types: Vec<u32>,
    memories: std::cell::RefCell<Vec<LinearMemory>>,
    tables: Vec<TableStorage>,
    /// Boxed, since the context has their addresses.
    #[allow(clippy::vec_box)]
    hosts: Vec<Box<HostImport>>,
    builtins: Vec<*const u8>,
}

/// The roots of a run: its frames and what is in flight. (Globals of the test modules hold no references.)
struct StackRoots(*const StoreContext);

// SAFETY: frames hold what their stack maps say.
unsafe impl Roots for StackRoots {
    fn visit_roots(&mut self, visitor: &mut dyn RootVisitor) {
        activation::visit_activation_roots(self.0, visitor);
        // SAFETY: collections happen in builtins and host functions alone.
        unsafe { frames::visit_stack_roots(self.0, visitor) };
    }
}

/// Every heap configuration that the programs run on.
pub(super) fn heaps() -> Vec<HeapConfig> {
    let all = Collector::ALL.iter().flat_map(|&collector| {
        References::ALL.iter().flat_map(move |&references| {
            let plain = HeapConfig { collector, references, verify: true, ..HeapConfig::default() };
            [HeapConfig { stress: Some(1), ..plain.clone() }, plain]
        })
    });
    all.filter(|config| config.validate().is_ok()).collect()
}

impl Run {
    pub(super) fn new(heap: &HeapConfig, wat: &str, hosts: Vec<(usize, Host)>) -> Box<Run> {
        let wasm = wat::parse_str(wat).unwrap();
        let options = CompileOptions {
            loop_versions: Default::default(),
            features: Default::default(),
            plan: heap.access_plan(),
            optimize: true,
            parallel: false,
            verify: true,
        };
        let module = compile(&wasm, &options).unwrap_or_else(|error| panic!("{error}: {wat}"));
        let table = TypeTable::new().unwrap();
        let (types, exceptions) = register_types(&table, &module.info);
        let mut heap = Heap::new(heap, table.clone()).unwrap();
        let func_refs =
            heap.allocate_immortal((module.info.func_ref_count * size_of::<FuncRef>() as u32).max(8)).unwrap();
        // SAFETY: the heap outlives the run's use of it; `Drop` detaches.
        let interrupt = unsafe { InterruptState::new(heap.mutator_context()) };
        let layout = module.context.clone();
        let image = CodeImage::publish(module).unwrap();
        let size = Layout::from_size_align(layout.bytes as usize, 16).unwrap();
        // SAFETY: never of size 0.
        let context = unsafe { std::alloc::alloc_zeroed(size) };
        let store = Store { frames: StoreFrames::new(heap.cage_base(), |_| ()), run: std::ptr::null() };
        let info = &image.module().info;
        let memories = info.memories[info.imported_memories as usize..].iter();
        let tables = info.defined_tables.iter();
        let mut run = Box::new(Run {
            heap: heap.into(),
            store: Box::new(store.into()),
            interrupt,
            context,
            types,
            memories: memories.map(|&ty| LinearMemory::new(ty).unwrap()).collect::<Vec<_>>().into(),
            tables: tables.map(|table| TableStorage::new(table.ty, 0, false).unwrap()).collect(),
            hosts: vec![],
            builtins: builtins(),
            image: image.clone(),
        });
        run.store.get_mut().run = &*run;
        run.hosts = hosts
            .into_iter()
            .map(|(cells, function)| {
                let context = HostContext { head: run.head(HOST_MAGIC, 0), call: call_host };
                Box::new(HostImport { context, run: &*run, cells, function })
            })
            .collect();
        run.fill(func_refs, &exceptions);
        run
    }

    fn head(&self, magic: u32, func_refs: u32) -> ContextHead {
        // SAFETY: only addresses are read.
        let (cage, mutator, types) = unsafe {
            let heap = &*self.heap.get();
            (heap.cage_base(), heap.mutator_context(), heap.types().base())
        };
        ContextHead {
            magic,
            func_refs,
            store: self.store.get().cast(),
            mutator,
            cage,
            types,
            builtins: self.builtins.as_ptr(),
            cold_cells: [0; COLD_CELLS],
        }
    }

    /// Fills the instance context as the module's layout says.
    fn fill(&self, func_refs: u32, exceptions: &[u32]) {
        let module = self.image.module();
        let (info, layout) = (&module.info, &module.context);
        // SAFETY: the context has room for all parts of the layout, the cage for the function references.
        unsafe {
            let part = |offset: u32| self.context.add(offset as usize);
            part(0).cast::<ContextHead>().write(self.head(CONTEXT_MAGIC, func_refs));
            for (index, &id) in self.types.iter().enumerate() {
                part(layout.type_ids).cast::<u32>().add(index).write(id);
            }
            for (index, &id) in exceptions.iter().enumerate() {
                part(layout.tags).cast::<u32>().add(index).write(900 + index as u32);
                part(layout.exception_types).cast::<u32>().add(index).write(id);
            }
            for (index, host) in self.hosts.iter().enumerate() {
                let import = FuncImport {
                    code: self.image.exit_trampoline(&self.signature(index as u32)).unwrap(),
                    context: (&raw const **host).cast_mut().cast(),
                };
                part(layout.func_imports).cast::<FuncImport>().add(index).write(import);
            }
            let cage = (*self.heap.get()).cage_base();
            for (index, function) in info.functions.iter().enumerate() {
                let Some(func_ref) = function.func_ref else { continue };
                let imports = part(layout.func_imports).cast::<FuncImport>();
                let FuncImport { code, context } = match (index as u32).checked_sub(info.imported_functions) {
                    None => *imports.add(index),
                    Some(_) => {
                        FuncImport { code: self.image.function_code(FuncIndex(index as u32)), context: self.context }
                    }
                };
                let type_id = self.types[function.ty.index()];
                let record = FuncRef { code, context, type_id, reserved: 0, data: 0 };
                cage.add(func_refs as usize).cast::<FuncRef>().add(func_ref as usize).write(record);
            }
            for (index, global) in info.defined_globals.iter().enumerate() {
                let bits = constant(&global.init);
                part(layout.globals).cast::<u64>().add(2 * index).write(bits);
            }
            for segment in &info.elements {
                let ElementMode::Active(table, start) = &segment.mode else { continue };
                let ElementItems::Functions(functions) = &segment.items else { panic!("functions only") };
                for (index, function) in functions.iter().enumerate() {
                    let func_ref = info.functions[function.index()].func_ref.unwrap();
                    let reference = func_refs + func_ref * size_of::<FuncRef>() as u32;
                    let heap = &mut *self.heap.get();
                    self.tables[table.index()].set(constant(start) + index as u64, reference, heap).unwrap();
                }
            }
            for (index, table) in self.tables.iter().enumerate() {
                part(layout.tables).cast::<TableHead>().add(index).write(table.head());
            }
        }
        self.publish_memories();
    }

    /// Tells compiled code where its memories are now.
    fn publish_memories(&self) {
        let offset = self.image.module().context.memories as usize;
        for (index, memory) in self.memories.borrow().iter().enumerate() {
            // SAFETY: the context has room for every memory.
            unsafe { self.context.add(offset).cast::<MemoryHead>().add(index).write(memory.head()) };
        }
    }

    fn signature(&self, function: u32) -> MachineSignature {
        let info = &self.image.module().info;
        MachineSignature::of(info.func_type(info.functions[function as usize].ty))
    }

    pub(super) fn interrupt(&self) -> &Arc<InterruptState> {
        &self.interrupt
    }

    pub(super) fn store(&self) -> *mut StoreContext {
        self.store.get().cast()
    }

    /// Calls an export; arguments and results are the bits of the values.
    pub(super) fn call(&self, name: &str, arguments: &[u64]) -> Result<u64, Unwind> {
        let info = &self.image.module().info;
        let export = info.exports.iter().find(|(export, _)| export == name);
        let Some((_, ExportKind::Func(function))) = export else { panic!("no function {name}") };
        let signature = self.signature(function.0);
        let mut cells = vec![ValueCell::default(); arguments.len().max(signature.results.len()).max(1)];
        for (cell, argument) in cells.iter_mut().zip(arguments) {
            cell.0[..8].copy_from_slice(&argument.to_le_bytes());
        }
        let outermost = !activation::is_active(self.store());
        if outermost {
            let limit = stack_limit_here(512 << 10);
            // SAFETY: the heap lives, and the store is idle.
            unsafe {
                self.interrupt.set_stack_limit((*self.heap.get()).mutator_context(), limit);
                (*self.store()).stack_floor = limit;
            }
        }
        let entry = self.image.entry_trampoline(&signature).unwrap();
        // SAFETY: trampoline, code and context belong together.
        unsafe {
            let code = self.image.function_code(*function);
            activation::enter(self.store(), entry, self.context, code, cells.as_mut_ptr())?;
        }
        let bytes = match signature.results.first() {
            Some(legato_compiler::artifact::MachineType::I32 | legato_compiler::artifact::MachineType::F32) => 4,
            _ => 8,
        };
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&cells[0].0[..bytes]);
        Ok(u64::from_le_bytes(word))
    }

    /// Calls an export that traps.
    pub(super) fn trap(&self, name: &str, arguments: &[u64]) -> TrapRecord {
        match self.call(name, arguments) {
            Err(Unwind::Trap(record)) => record,
            other => panic!("{name} did not trap: {other:?}"),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.interrupt.detach();
        let size = Layout::from_size_align(self.image.module().context.bytes as usize, 16).unwrap();
        // SAFETY: allocated with this layout, and no code runs any more.
        unsafe { std::alloc::dealloc(self.context, size) };
    }
}

/// The value of a constant expression without references.
fn constant(expression: &[ConstOp]) -> u64 {
    match expression {
        [ConstOp::I32(value)] => *value as u32 as u64,
        [ConstOp::I64(value)] => *value as u64,
        [ConstOp::F64(bits)] => *bits,
        [ConstOp::RefNull(_)] => 0,
        other => panic!("not in a test: {other:?}"),
    }
}

/// Registers the module's types, and one exception type for each tag.
fn register_types(table: &TypeTable, info: &ModuleInfo) -> (Vec<u32>, Vec<u32>) {
    let mut ids: Vec<u32> = Vec::new();
    for (index, ty) in info.types.iter().enumerate() {
        let first = info.canonical_types[index];
        if first.index() < index {
            ids.push(ids[first.index()]);
            continue;
        }
        let shape = match &ty.composite {
            CompositeType::Func(_) => TypeShape::Function,
            CompositeType::Struct(fields) => {
                TypeShape::Struct(fields.iter().map(|field| info.storage_kind(field.storage)).collect())
            }
            CompositeType::Array(element) => TypeShape::Array(info.storage_kind(element.storage)),
        };
        let supertype = ty.supertype.map(|supertype| TypeId(ids[supertype.index()]));
        ids.push(table.register(TypeInfo { shape, supertype }).unwrap().0);
    }
    let exception = |tag: &TypeIndex| {
        let kinds: Vec<StorageKind> = (info.func_type(*tag).params.iter())
            .map(|&ty| info.storage_kind(legato_compiler::module::StorageType::Value(ty)))
            .collect();
        table.register(TypeInfo { shape: TypeShape::Exception(kinds), supertype: None }).unwrap().0
    };
    (ids, info.tags.iter().map(exception).collect())
}

unsafe extern "C" fn call_host(context: *mut HostContext, cells: *mut u8) -> u32 {
    // SAFETY: every host context of these tests is the start of a `HostImport`; the cells are the exit trampoline's.
    let (import, cells) = unsafe {
        let import = &*context.cast::<HostImport>();
        (import, std::slice::from_raw_parts_mut(cells.cast(), import.cells))
    };
    // SAFETY: the run lives.
    match (import.function)(unsafe { &*import.run }, cells) {
        Ok(()) => 0,
        Err(unwind) => {
            activation::set_pending(unwind);
            1
        }
    }
}

/// The run that a builtin's context belongs to.
unsafe fn run_of<'a>(context: *const u8) -> &'a Run {
    // SAFETY: the caller got the context from compiled code of a living run.
    unsafe { &*(*(*context.cast::<ContextHead>()).store.cast::<Store>()).run }
}

fn builtins() -> Vec<*const u8> {
    let mut implemented: HashMap<Builtin, *const u8> = HashMap::new();
    implemented.insert(Builtin::Raise, raise as *const u8);
    implemented.insert(Builtin::Trap, trap as *const u8);
    implemented.insert(Builtin::ThrowRef, throw_ref as *const u8);
    implemented.insert(Builtin::Poll, poll as *const u8);
    implemented.insert(Builtin::AllocateStruct, allocate_struct as *const u8);
    implemented.insert(Builtin::AllocateArray, allocate_array as *const u8);
    implemented.insert(Builtin::MemoryGrow, memory_grow as *const u8);
    Builtin::ALL.iter().map(|builtin| implemented.get(builtin).copied().unwrap_or(missing as *const u8)).collect()
}

extern "C" fn missing() -> ! {
    eprintln!("a builtin that the tests do not have");
    std::process::abort()
}

/// Notes a trap as pending and returns what tells the trampoline so.
fn fail(code: TrapCode) -> i64 {
    // SAFETY: in a builtin.
    unsafe { activation::set_pending_trap(code, None) };
    -1
}

unsafe extern "C" fn raise(_context: *const u8) {
    // SAFETY: called by a trampoline.
    unsafe { activation::raise() }
}

unsafe extern "C" fn trap(_context: *const u8, code: u32) {
    let all = [
        TrapCode::Unreachable,
        TrapCode::MemoryOutOfBounds,
        TrapCode::TableOutOfBounds,
        TrapCode::ArrayOutOfBounds,
        TrapCode::IndirectCallToNull,
        TrapCode::BadSignature,
        TrapCode::IntegerDivisionByZero,
        TrapCode::IntegerOverflow,
        TrapCode::BadConversionToInteger,
        TrapCode::NullReference,
        TrapCode::CastFailure,
        TrapCode::StackOverflow,
        TrapCode::Interrupt,
        TrapCode::AllocationFailure,
        TrapCode::AllocationTooLarge,
        TrapCode::Internal,
    ];
    fail(all[code as usize - 1]);
    // SAFETY: called by a trampoline.
    unsafe { activation::raise() }
}

unsafe extern "C" fn throw_ref(_context: *const u8, exception: u32) {
    if exception == 0 {
        fail(TrapCode::NullReference);
        // SAFETY: called by a trampoline.
        unsafe { activation::raise() }
    }
    // SAFETY: called by a trampoline with an exception of the store.
    unsafe { activation::throw(exception) }
}

unsafe extern "C" fn poll(context: *const u8) -> i64 {
    // SAFETY: called by compiled code.
    let run = unsafe { run_of(context) };
    match run.interrupt.poll() {
        PollOutcome::Interrupted => fail(TrapCode::Interrupt),
        PollOutcome::StackOverflow => fail(TrapCode::StackOverflow),
        PollOutcome::Gc => {
            run.interrupt.lower_gc();
            // SAFETY: builtins do not nest, so this is the only borrow.
            unsafe { (*run.heap.get()).poll(&mut StackRoots(run.store())) };
            0
        }
        PollOutcome::Nothing => 0,
    }
}

unsafe extern "C" fn allocate_struct(context: *const u8, ty: u32) -> i64 {
    // SAFETY: called by compiled code; the only borrow of the heap.
    let result = unsafe {
        let run = run_of(context);
        (*run.heap.get()).allocate_struct(TypeId(ty), &mut StackRoots(run.store()))
    };
    result.map_or_else(|_| fail(TrapCode::AllocationFailure), |reference| reference.0 as i64)
}

unsafe extern "C" fn allocate_array(context: *const u8, ty: u32, length: u32) -> i64 {
    // SAFETY: called by compiled code; the only borrow of the heap.
    let result = unsafe {
        let run = run_of(context);
        (*run.heap.get()).allocate_array(TypeId(ty), length, &mut StackRoots(run.store()))
    };
    result.map_or_else(|_| fail(TrapCode::AllocationTooLarge), |reference| reference.0 as i64)
}

unsafe extern "C" fn memory_grow(context: *const u8, memory: u32, delta: u64) -> i64 {
    // SAFETY: called by compiled code.
    let run = unsafe { run_of(context) };
    let former = run.memories.borrow_mut()[memory as usize].grow(delta);
    run.publish_memories();
    former.map_or(-1, |former| former as i64)
}
