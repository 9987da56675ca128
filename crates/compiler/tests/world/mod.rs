//! A world for compiled code to run in, with a collector that takes every chance: each allocation and each poll walks
//! the stack by the stack maps, marks from what it finds, and overwrites everything else. Where references may change,
//! it moves every object that it finds, and checks that each store of a reference into an older object has marked a
//! card. Where there are cards, a snapshot is marked from each collection to the next: each reference that is
//! overwritten meanwhile must have been recorded. A reference that a map forgets reads back as rubbish. Leaves are
//! never used twice.
//!
//! Where the first N bytes grow, they do at any chance: when a leaf is asked for, sometimes by one leaf, sometimes to
//! the array's end, and now and then at collections. What a leaf held before it was copied into the spine is
//! overwritten.
#![allow(dead_code)]

mod collector;
mod growth;
mod heap;
mod traps;

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use legato_compiler::abi::{Builtin, COLD_CELLS, CONTEXT_MAGIC, ContextHead, EntryRecord, StoreContext};
use legato_compiler::artifact::{CompiledModule, MachineSignature, TrapCode};
use legato_compiler::module::{CompositeType, ValueType};
use legato_compiler::{CompileOptions, compile};
use legato_heap::MutatorContext;
use legato_heap::layout::StorageKind;
use legato_heap::plan::{AccessCounters, AccessPlan, BufferWords, BumpRun, SizeRun};
use legato_heap::types::{TypeKind, TypeRecord};
use rustc_hash::FxHashMap;

use crate::support::{AGES_BELOW, options, with_snapshot};

/// How many calls from outside pass before one polls at its start; the first does.
const CALLS_BETWEEN_POLLS: u32 = 5;
const CAGE_BYTES: usize = 2 << 30;
/// No run waits.
static EMPTY_RUN: BumpRun = BumpRun { cursor: 0, limit: 0 };
const FIRST_HANDLE: u32 = 0x1_0000;
const FIRST_OBJECT: u32 = 0x100_0000;
const FIRST_LEAF: u32 = 0x6000_0000;
/// Bytes between type records.
const RECORD_BYTES: u32 = 256;

/// When loops find their poll word set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Polls {
    /// Always.
    Always,
    /// After a leaf has been allocated, once.
    AfterLeaves,
    /// Never.
    Never,
}

/// The world of one instance. Objects are never reused, only overwritten.
pub struct World {
    module: CompiledModule,
    code: *const u8,
    cage: *mut u8,
    /// Addresses of the globals that hold references.
    globals: Vec<*mut u32>,
    moving: bool,
    polls: Polls,
    /// The store buffer, long enough never to be full.
    buffer: Vec<u32>,
    /// The buffer of overwritten references, as long.
    overwritten: Vec<u32>,
    /// Where references change: the globals as the last collection left them.
    globals_before: Vec<u32>,
    /// Where references change: each object's fields that are references, as the last collection left them.
    fields_before: FxHashMap<u32, u32>,
    /// Reference, object offset and type index of every object, in ascending order.
    objects: Vec<(u32, u32, usize)>,
    alive: Vec<bool>,
    next_object: u32,
    next_handle: u32,
    next_leaf: u32,
    /// Where compiled code may have allocated since the last collection, if anywhere.
    run: Option<u32>,
    store: *mut StoreContext,
    mutator: *mut MutatorContext,
    /// How many collections there were.
    pub collections: u32,
    /// How many references one found in frames, at most.
    pub most_roots: usize,
    /// How many leaves have been allocated.
    pub leaves: u32,
    /// How often compiled code has asked for a leaf.
    pub asked: u32,
    /// How often two arrays have come to share a leaf.
    pub shared: u32,
    /// How often more of an array has come to lie in one piece.
    pub grown: u32,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
    static ENTRY: std::cell::Cell<*mut EntryRecord> = const { std::cell::Cell::new(std::ptr::null_mut()) };
}

/// Looks at the world of the instance that runs on this thread.
pub fn with_world<R>(f: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with_borrow_mut(|world| f(world.as_mut().expect("an instance is running")))
}

fn map(bytes: usize) -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh private mapping.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    assert_ne!(address, libc::MAP_FAILED);
    address.cast()
}

unsafe extern "C" fn allocate_struct(_: *mut u8, type_id: u32) -> i64 {
    with_world(|world| i64::from(world.allocate(type_id, None)))
}

unsafe extern "C" fn allocate_array(_: *mut u8, type_id: u32, length: u32) -> i64 {
    with_world(|world| i64::from(world.allocate(type_id, Some(length))))
}

unsafe extern "C" fn array_new(_: *mut u8, type_id: u32, bits: u64, length: u32) -> i64 {
    with_world(|world| {
        let array = world.allocate(type_id, Some(length));
        world.fill(array, 0, bits, length);
        i64::from(array)
    })
}

unsafe extern "C" fn array_fill(_: *mut u8, array: u32, start: u32, bits: u64, length: u32) -> i64 {
    with_world(|world| {
        let value = if world.holds_references(array) { bits as u32 } else { 0 };
        let moved = world.collect_for_bulk(&[array, value]);
        let bits = if world.holds_references(moved[0]) { u64::from(moved[1]) } else { bits };
        world.fill(moved[0], start, bits, length);
    });
    0
}

unsafe extern "C" fn array_copy(_: *mut u8, to: u32, to_start: u32, from: u32, from_start: u32, length: u32) -> i64 {
    with_world(|world| {
        let arrays = world.collect_for_bulk(&[to, from]);
        world.copy(arrays[0], to_start, arrays[1], from_start, length);
    });
    0
}

unsafe extern "C" fn leaf_for_store(_: *mut u8, array: u32, index: u32, is_zero: u32) -> i64 {
    with_world(|world| {
        world.asked += 1;
        i64::from(world.leaf_for_store(array, index, is_zero != 0))
    })
}

unsafe extern "C" fn poll(_: *mut u8) -> i64 {
    with_world(|world| {
        world.collect(&[]);
        // SAFETY: the mutator context lives as long as the world.
        let mutator = unsafe { &*world.mutator };
        mutator.stack_limit.store(0, Ordering::Relaxed);
        mutator.poll.store(u32::from(world.polls == Polls::Always), Ordering::Relaxed);
    });
    0
}

unsafe extern "C" fn unexpected() -> i64 {
    eprintln!("a builtin that this test does not have was called");
    std::process::abort()
}

/// An instance, alone on its thread.
pub struct Instance {
    context: *mut u8,
    builtins: Vec<*const u8>,
    store: Box<StoreContext>,
    mutator: Box<MutatorContext>,
    calls: u32,
}

impl Instance {
    /// Compiles and instantiates a module in text form.
    pub fn new(text: &str, plan: AccessPlan, polls: Polls) -> Instance {
        Instance::compiled(text, plan, polls, true)
    }

    /// The same, optimised or not.
    pub fn compiled(text: &str, plan: AccessPlan, polls: Polls, optimize: bool) -> Instance {
        traps::install();
        let wasm = wat::parse_str(text).expect("assembles");
        let has_cards = plan.store_barrier.after.is_some_and(|after| after.store_buffer.is_none());
        let plan = if has_cards { with_snapshot(plan) } else { plan };
        let moving = plan.references_change_at_safepoints;
        let is_marking = moving && plan.store_barrier.before.is_some();
        let mut barrier_state = if is_marking { MutatorContext::MARKING } else { 0 };
        if plan.store_barrier.heal.is_some() {
            barrier_state |= MutatorContext::STALE;
        }
        if plan.store_barrier.mirror.is_some() {
            barrier_state |= MutatorContext::REPLICAS;
        }
        let module = compile(&wasm, &CompileOptions { optimize, ..options(plan) }).expect("compiles");
        let cage = map(AGES_BELOW as usize + CAGE_BYTES).wrapping_add(AGES_BELOW as usize);
        // A null reference faults.
        // SAFETY: the cage's first page holds nothing.
        unsafe { assert_eq!(libc::mprotect(cage.cast(), 4096, libc::PROT_NONE), 0) };
        let code = map(module.code.len());
        // SAFETY: the mapping is as long as the code.
        unsafe {
            code.copy_from_nonoverlapping(module.code.as_ptr(), module.code.len());
            assert_eq!(libc::mprotect(code.cast(), module.code.len(), libc::PROT_READ | libc::PROT_EXEC), 0);
        }
        let context = map(module.context.bytes as usize);
        let mut builtins: Vec<*const u8> = vec![unexpected as *const u8; Builtin::ALL.len()];
        builtins[Builtin::AllocateStruct as usize] = allocate_struct as *const u8;
        builtins[Builtin::AllocateArray as usize] = allocate_array as *const u8;
        builtins[Builtin::ArrayNew as usize] = array_new as *const u8;
        builtins[Builtin::ArrayFill as usize] = array_fill as *const u8;
        builtins[Builtin::ArrayCopy as usize] = array_copy as *const u8;
        builtins[Builtin::LeafForStore as usize] = leaf_for_store as *const u8;
        builtins[Builtin::Poll as usize] = poll as *const u8;
        let [buffer, overwritten] = [(); 2].map(|()| vec![0u32; 1 << 16]);
        let words = |buffer: &Vec<u32>| BufferWords {
            cursor: buffer.as_ptr() as usize,
            limit: buffer.as_ptr_range().end as usize,
        };
        let mut store = Box::new(StoreContext::new(std::ptr::null()));
        let mut mutator = Box::new(MutatorContext {
            stack_limit: 0.into(),
            poll: u32::from(polls == Polls::Always).into(),
            barrier_state,
            store_buffer: words(&buffer),
            overwritten: words(&overwritten),
            accesses: AccessCounters::default(),
            handle_run: BumpRun::default(),
            runs: [BumpRun::default(); legato_heap::size_classes::MAX_SIZE_CLASSES],
            sizes: SizeRun::table(&crate::support::CELL_BYTES),
            array_handle_run: BumpRun::default(),
            queues: [&raw const EMPTY_RUN as usize; MutatorContext::QUEUES],
        });
        // SAFETY: the context is as long as its layout says.
        unsafe {
            context.cast::<ContextHead>().write(ContextHead {
                magic: CONTEXT_MAGIC,
                func_refs: 0,
                store: &raw mut *store,
                mutator: &raw mut *mutator,
                cage,
                types: write_types(&module, context),
                builtins: builtins.as_ptr(),
                cold_cells: [0; COLD_CELLS],
                loops_left: 0,
                func_table: std::ptr::null(),
                profile: std::ptr::null(),
            });
        }
        let is_traced = |value: ValueType| {
            module.info.storage_kind(legato_compiler::module::StorageType::Value(value)) == StorageKind::Ref
        };
        let globals = module
            .info
            .globals
            .iter()
            .enumerate()
            .filter(|(_, global)| is_traced(global.value))
            .map(|(number, _)| context.wrapping_add(module.context.globals as usize + 16 * number).cast());
        let world = World {
            globals: globals.collect(),
            module,
            code,
            cage,
            moving,
            polls,
            buffer,
            overwritten,
            globals_before: Vec::new(),
            fields_before: FxHashMap::default(),
            objects: Vec::new(),
            alive: Vec::new(),
            next_object: FIRST_OBJECT,
            next_handle: FIRST_HANDLE,
            next_leaf: FIRST_LEAF,
            run: None,
            store: &raw mut *store,
            mutator: &raw mut *mutator,
            collections: 0,
            most_roots: 0,
            leaves: 0,
            asked: 0,
            shared: 0,
            grown: 0,
        };
        WORLD.set(Some(world));
        Instance { context, builtins, store, mutator, calls: CALLS_BETWEEN_POLLS - 1 }
    }

    /// The accesses that compiled code has counted.
    pub fn accesses(&self) -> AccessCounters {
        // Volatile: compiled code writes it.
        // SAFETY: a live field.
        unsafe { (&raw const self.mutator.accesses).read_volatile() }
    }

    /// Calls function `index` with `i32`s; now and then the first function that checks the stack polls. Returns its
    /// `i32` results, or the trap.
    pub fn call(&mut self, index: usize, params: &[i32], results: usize) -> Result<Vec<i32>, TrapCode> {
        let (entry, function) = with_world(|world| {
            let module = &world.module;
            let signature = MachineSignature::of(module.info.func_type(module.info.functions[index].ty));
            let found = module.trampolines.iter().find(|pair| pair.signature == signature);
            let entry = found.expect("an exported function").entry;
            let function = module.functions[index].range;
            (world.code.wrapping_add(entry.start as usize), world.code.wrapping_add(function.start as usize))
        });
        type Entry = unsafe extern "C" fn(*mut u8, *const u8, *mut [u64; 2], *mut EntryRecord) -> u32;
        // SAFETY: an entry trampoline.
        let entry: Entry = unsafe { std::mem::transmute(entry) };
        self.calls += 1;
        if self.calls.is_multiple_of(CALLS_BETWEEN_POLLS) {
            self.mutator.stack_limit.store(usize::MAX, Ordering::Relaxed);
        }
        let mut record = EntryRecord::default();
        let mut values: Vec<[u64; 2]> = params.iter().map(|&param| [param as u32 as u64, 0]).collect();
        values.resize(params.len().max(results).max(1), [0; 2]);
        // The entry trampoline writes its frame pointer before it calls; the walk reads it through this pointer.
        let record_pointer = &raw mut record;
        ENTRY.set(record_pointer);
        // SAFETY: context, code and cells are as the trampoline expects.
        let unwound = unsafe { entry(self.context, function, values.as_mut_ptr(), record_pointer) };
        match unwound {
            0 => Ok(values[..results].iter().map(|value| value[0] as i32).collect()),
            _ => Err(traps::take()),
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let Some(world) = WORLD.take() else { return };
        let start = world.cage.wrapping_sub(AGES_BELOW as usize);
        // SAFETY: the mapping ends with its instance.
        unsafe { libc::munmap(start.cast(), AGES_BELOW as usize + CAGE_BYTES) };
    }
}

/// Writes the type records, and their ids into the context. Returns their address.
fn write_types(module: &CompiledModule, context: *mut u8) -> *const u8 {
    let types = map(1 << 20);
    for (number, ty) in module.info.types.iter().enumerate() {
        let id = (number as u32 + 1) * RECORD_BYTES;
        let kind = match ty.composite {
            CompositeType::Struct(_) => TypeKind::Struct,
            CompositeType::Array(_) => TypeKind::Array,
            CompositeType::Func(_) => TypeKind::Function,
        };
        // SAFETY: the context is as long as its layout says, the type records fit their mapping.
        unsafe {
            context.add(module.context.type_ids as usize + 4 * number).cast::<u32>().write(id);
            let record = types.add(id as usize);
            record.add(TypeRecord::KIND_OFFSET as usize).cast::<u32>().write(kind as u32);
            record.add(TypeRecord::DISPLAY_LENGTH_OFFSET as usize).cast::<u32>().write(ty.depth + 1);
            let mut supertype = Some(number);
            while let Some(index) = supertype {
                let ty = &module.info.types[index];
                let entry = record.add((TypeRecord::DISPLAY_OFFSET + 4 * ty.depth) as usize).cast::<u32>();
                entry.write((index as u32 + 1) * RECORD_BYTES);
                supertype = ty.supertype.map(|ty| ty.index());
            }
        }
    }
    types
}
