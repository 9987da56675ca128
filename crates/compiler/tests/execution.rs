//! Compiled code runs, with a collector that takes every chance: each allocation and each poll walks the stack by the stack
//! maps, marks from what it finds, and overwrites everything else. Where references may change, it moves every object that it
//! finds, and checks that each store of a reference into an older object has marked a card. A reference that a map forgets
//! reads back as rubbish.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod support;

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use legato_compiler::abi::{Builtin, CONTEXT_MAGIC, ContextHead, EntryRecord, StoreContext};
use legato_compiler::artifact::{CompiledModule, MachineSignature};
use legato_compiler::compile;
use legato_compiler::module::CompositeType;
use legato_heap::MutatorContext;
use legato_heap::layout::{StorageKind, StructLayout, array_bytes, array_elements_offset};
use legato_heap::plan::{AccessPlan, BarrierPlan, BumpRun, ReferencePlan, StoreBufferWords};
use legato_heap::types::{TypeKind, TypeRecord};
use rustc_hash::FxHashMap;
use support::{AGES_BELOW, CARDS_BELOW, options, plans};

const CAGE_BYTES: usize = 1 << 30;
const FIRST_HANDLE: u32 = 0x1_0000;
const FIRST_OBJECT: u32 = 0x100_0000;
/// What collected objects are overwritten with.
const RUBBISH: u8 = 0x5b;
/// Bytes between type records.
const RECORD_BYTES: u32 = 256;

/// The world of one instance. Objects are never reused, only overwritten.
struct World {
    module: CompiledModule,
    code: *const u8,
    cage: *mut u8,
    handles: bool,
    moving: bool,
    /// The store buffer, long enough never to be full.
    buffer: Vec<u32>,
    /// Where references change: each object's fields that are references, as the last collection left them.
    fields_before: FxHashMap<u32, u32>,
    /// Reference, object offset and type index of every object, in order of allocation.
    objects: Vec<(u32, u32, usize)>,
    alive: Vec<bool>,
    next_object: u32,
    next_handle: u32,
    store: *mut StoreContext,
    mutator: *mut MutatorContext,
    collections: u32,
    most_roots: usize,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fn with_world<R>(f: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with_borrow_mut(|world| f(world.as_mut().expect("an instance is running")))
}

fn map(bytes: usize) -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh private mapping.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    assert_ne!(address, libc::MAP_FAILED);
    address.cast()
}

impl World {
    fn read(&self, offset: u32) -> u32 {
        // SAFETY: offsets of objects and handles lie in the cage.
        unsafe { self.cage.add(offset as usize).cast::<u32>().read() }
    }

    fn write(&self, offset: u32, value: u32) {
        // SAFETY: as in `read`.
        unsafe { self.cage.add(offset as usize).cast::<u32>().write(value) }
    }

    fn size(&self, ty: usize, object: u32) -> u32 {
        match &self.module.info.types[ty].composite {
            CompositeType::Struct(fields) => {
                StructLayout::new(fields.iter().map(|field| self.module.info.storage_kind(field.storage))).bytes
            }
            CompositeType::Array(element) => {
                array_bytes(self.module.info.storage_kind(element.storage), self.read(object + 8)).unwrap()
            }
            CompositeType::Func(_) => unreachable!("functions are no objects"),
        }
    }

    /// Offsets of the references in an object.
    fn references(&self, ty: usize, object: u32) -> Vec<u32> {
        match &self.module.info.types[ty].composite {
            CompositeType::Struct(fields) => {
                let kinds: Vec<_> = fields.iter().map(|field| self.module.info.storage_kind(field.storage)).collect();
                let layout = StructLayout::new(kinds.iter().copied());
                let traced = layout.offsets.iter().zip(kinds).filter(|(_, kind)| *kind == StorageKind::Ref);
                traced.map(|(offset, _)| object + offset).collect()
            }
            CompositeType::Array(element) => {
                let kind = self.module.info.storage_kind(element.storage);
                if kind != StorageKind::Ref {
                    return Vec::new();
                }
                let first = object + array_elements_offset(kind);
                (0..self.read(object + 8)).map(|index| first + 4 * index).collect()
            }
            CompositeType::Func(_) => unreachable!("functions are no objects"),
        }
    }

    fn allocate(&mut self, type_id: u32, length: Option<u32>) -> u32 {
        self.collect();
        let ty = (type_id / RECORD_BYTES) as usize - 1;
        let object = self.next_object;
        self.write(object, type_id);
        if let Some(length) = length {
            self.write(object + 8, length);
        }
        self.next_object += self.size(ty, object);
        for block in object >> 15..=(self.next_object - 1) >> 15 {
            // SAFETY: the table of ages lies below the cage.
            unsafe { self.age(block << 15).write(1) };
        }
        let reference = if self.handles {
            self.next_handle += 4;
            self.write(self.next_handle, object);
            self.write(object + 4, self.next_handle);
            self.next_handle
        } else {
            object
        };
        self.objects.push((reference, object, ty));
        self.alive.push(true);
        reference
    }

    /// Marks from the stack and overwrites what is not reached.
    fn collect(&mut self) {
        self.collections += 1;
        let maps = &self.module.stack_maps;
        let mut work = Vec::new();
        let mut slots: Vec<*mut u32> = Vec::new();
        // SAFETY: the trampoline that called has just recorded its caller's frame; frames are chained by frame pointers up to
        // the entry trampoline's.
        unsafe {
            let entry_fp = (*ENTRY.get()).fp;
            let (mut fp, mut pc) = ((*self.store).last_exit_fp, (*self.store).last_exit_pc);
            while fp != entry_fp {
                let offset = (pc - self.code as usize) as u32;
                if let Ok(found) = maps.entries.binary_search_by_key(&offset, |entry| entry.offset) {
                    let entry = &maps.entries[found];
                    for &distance in &maps.slots[entry.first as usize..][..entry.count as usize] {
                        let slot = (fp - distance as usize) as *mut u32;
                        work.push(slot.read());
                        slots.push(slot);
                    }
                }
                pc = ((fp + 8) as *const usize).read();
                fp = (fp as *const usize).read();
            }
        }
        self.most_roots = self.most_roots.max(work.len());
        let mut marked = vec![false; self.objects.len()];
        while let Some(reference) = work.pop() {
            if reference == 0 || reference & 1 == 1 {
                continue;
            }
            let number = self
                .objects
                .binary_search_by_key(&reference, |object| object.0)
                .unwrap_or_else(|_| panic!("a root or field holds {reference:#x}, which is no reference"));
            assert!(self.alive[number], "a root or field holds the dead object {number}");
            if std::mem::replace(&mut marked[number], true) {
                continue;
            }
            let (_, object, ty) = self.objects[number];
            work.extend(self.references(ty, object).into_iter().map(|offset| self.read(offset)));
        }
        if self.moving {
            self.check_barriers(&marked);
            self.move_objects(&mut marked, &slots);
        }
        for (number, marked) in marked.into_iter().enumerate() {
            if !marked && std::mem::replace(&mut self.alive[number], false) {
                let (_, object, ty) = self.objects[number];
                let bytes = self.size(ty, object);
                // SAFETY: the object lies in the cage.
                unsafe { self.cage.add(object as usize).write_bytes(RUBBISH, bytes as usize) };
            }
        }
    }
}

impl World {
    fn card(&self, offset: u32) -> *mut u8 {
        self.cage.wrapping_sub(CARDS_BELOW as usize).wrapping_add((offset >> 9) as usize)
    }

    /// The age of the block that an offset lies in: 1 where objects are younger than the last collection.
    fn age(&self, offset: u32) -> *mut u8 {
        self.cage.wrapping_sub(AGES_BELOW as usize).wrapping_add((offset >> 15) as usize)
    }

    /// What compiled code has pushed to the store buffer since the last collection.
    fn stored_slots(&self) -> &[u32] {
        // SAFETY: the mutator context lives as long as the world.
        let cursor = unsafe { (*self.mutator).store_buffer.cursor };
        &self.buffer[..(cursor - self.buffer.as_ptr() as usize) / 4]
    }

    /// Each reference that was stored into an object older than the last collection has marked a card.
    fn check_barriers(&self, marked: &[bool]) {
        for (&(_, object, ty), _) in self.objects.iter().zip(marked).filter(|(_, marked)| **marked) {
            let is_struct = matches!(self.module.info.types[ty].composite, CompositeType::Struct(_));
            for field in self.references(ty, object) {
                let value = self.read(field);
                let Some(&before) = self.fields_before.get(&field) else { continue };
                // SAFETY: the table of ages lies below the cage.
                if value == before || value == 0 || value & 1 == 1 || unsafe { *self.age(value) } == 0 {
                    continue;
                }
                if is_struct && matches!(self.module.plan.store_barrier, BarrierPlan::StoreBuffer(..)) {
                    assert!(
                        self.stored_slots().contains(&field),
                        "a store into the field at {field:#x} is not buffered"
                    );
                    continue;
                }
                let card = self.card(if is_struct { object } else { field });
                // SAFETY: the card table lies below the cage.
                assert_eq!(unsafe { *card }, 1, "a store into the field at {field:#x} has marked no card");
            }
        }
    }

    /// Moves every marked object, updates all references to it, and cleans the cards.
    fn move_objects(&mut self, marked: &mut Vec<bool>, slots: &[*mut u32]) {
        let mut moved = FxHashMap::default();
        let mut copies = Vec::new();
        for (number, _) in marked.iter().enumerate().filter(|(_, marked)| **marked) {
            let (_, object, ty) = self.objects[number];
            let bytes = self.size(ty, object);
            let copy = self.next_object;
            self.next_object += bytes;
            // SAFETY: both ranges lie in the cage, the copy's behind every object.
            unsafe {
                let to = self.cage.add(copy as usize);
                to.copy_from_nonoverlapping(self.cage.add(object as usize), bytes as usize);
            }
            moved.insert(object, copy);
            copies.push((copy, copy, ty));
        }
        marked.fill(false);
        self.fields_before.clear();
        // SAFETY: the mutator context and the buffer live as long as the world.
        unsafe { (*self.mutator).store_buffer.cursor = self.buffer.as_ptr() as usize };
        for &(_, copy, ty) in &copies {
            for field in self.references(ty, copy) {
                let value = self.read(field);
                let value = moved.get(&value).copied().unwrap_or(value);
                self.write(field, value);
                self.fields_before.insert(field, value);
            }
        }
        for &slot in slots {
            // SAFETY: the frames still stand. Slots named by two maps are updated once: a copy is no moved object.
            unsafe { slot.write(moved.get(&slot.read()).copied().unwrap_or(slot.read())) };
        }
        // What is allocated from now on is young, in blocks of its own.
        self.next_object = self.next_object.next_multiple_of(1 << 15);
        // SAFETY: the table of ages lies below the cage.
        unsafe { self.age(0).write_bytes(0, (AGES_BELOW - CARDS_BELOW) as usize) };
        marked.extend(copies.iter().map(|_| true));
        self.alive.extend(copies.iter().map(|_| true));
        self.objects.extend(copies);
    }
}

unsafe extern "C" fn allocate_struct(_: *mut u8, type_id: u32) -> i64 {
    with_world(|world| i64::from(world.allocate(type_id, None)))
}

unsafe extern "C" fn allocate_array(_: *mut u8, type_id: u32, length: u32) -> i64 {
    with_world(|world| i64::from(world.allocate(type_id, Some(length))))
}

unsafe extern "C" fn poll(_: *mut u8) -> i64 {
    with_world(|world| {
        world.collect();
        // SAFETY: the mutator context lives as long as the world.
        unsafe { (*world.mutator).stack_limit.store(0, Ordering::Relaxed) };
    });
    0
}

unsafe extern "C" fn unexpected() -> i64 {
    eprintln!("a builtin that this test does not have was called");
    std::process::abort()
}

/// Instantiates the module, calls its function `index` with `i32`s and returns its `i32` results, the collections and the
/// largest root set.
fn run(text: &str, plan: AccessPlan, index: usize, params: &[i32], results: usize) -> (Vec<i32>, u32, usize) {
    let wasm = wat::parse_str(text).expect("assembles");
    let (handles, moving) = (plan.references == ReferencePlan::ThinHandles, plan.references_change_at_safepoints);
    let module = compile(&wasm, &options(plan)).expect("compiles");
    let layout = module.context.clone();
    let cage = map(AGES_BELOW as usize + CAGE_BYTES).wrapping_add(AGES_BELOW as usize);
    let code = map(module.code.len());
    // SAFETY: the mapping is as long as the code.
    unsafe {
        code.copy_from_nonoverlapping(module.code.as_ptr(), module.code.len());
        assert_eq!(libc::mprotect(code.cast(), module.code.len(), libc::PROT_READ | libc::PROT_EXEC), 0);
    }
    let types = map(1 << 20);
    let context = map(layout.bytes as usize);
    let mut builtins: Vec<*const u8> = vec![unexpected as *const u8; Builtin::ALL.len()];
    builtins[Builtin::AllocateStruct as usize] = allocate_struct as *const u8;
    builtins[Builtin::AllocateArray as usize] = allocate_array as *const u8;
    builtins[Builtin::AllocateArrayUninitialised as usize] = allocate_array as *const u8;
    builtins[Builtin::Poll as usize] = poll as *const u8;
    let buffer = vec![0u32; 1 << 16];
    let mut store = StoreContext { last_exit_fp: 0, last_exit_pc: 0, stack_floor: 0 };
    let mut mutator = MutatorContext {
        // Every function entry and every loop polls.
        stack_limit: usize::MAX.into(),
        poll: 1.into(),
        store_buffer: StoreBufferWords { cursor: buffer.as_ptr() as usize, limit: buffer.as_ptr_range().end as usize },
        handle_run: BumpRun::default(),
        runs: [BumpRun::default(); legato_heap::plan::MAX_SIZE_CLASSES],
    };
    // SAFETY: the context is as long as its layout says, the type records fit their mapping.
    unsafe {
        context.cast::<ContextHead>().write(ContextHead {
            magic: CONTEXT_MAGIC,
            func_refs: 0,
            store: &mut store,
            mutator: &mut mutator,
            cage,
            types,
            builtins: builtins.as_ptr(),
        });
        for (number, ty) in module.info.types.iter().enumerate() {
            let id = (number as u32 + 1) * RECORD_BYTES;
            context.add(layout.type_ids as usize + 4 * number).cast::<u32>().write(id);
            let kind = match ty.composite {
                CompositeType::Struct(_) => TypeKind::Struct,
                CompositeType::Array(_) => TypeKind::Array,
                CompositeType::Func(_) => TypeKind::Function,
            };
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
    let signature = MachineSignature::of(module.info.func_type(module.info.functions[index].ty));
    let trampolines = module.trampolines.iter().find(|pair| pair.signature == signature).expect("an exported function");
    type Entry = unsafe extern "C" fn(*mut u8, *const u8, *mut [u64; 2], *mut EntryRecord) -> u32;
    // SAFETY: the code has just been placed there, with the convention of entry trampolines.
    let (entry, function) = unsafe {
        let entry: Entry = std::mem::transmute(code.add(trampolines.entry.start as usize));
        (entry, code.add(module.functions[index].range.start as usize))
    };
    let mut record = EntryRecord::default();
    let mut values: Vec<[u64; 2]> = params.iter().map(|&param| [param as u32 as u64, 0]).collect();
    values.resize(params.len().max(results).max(1), [0; 2]);
    let world = World {
        module,
        code,
        cage,
        handles,
        moving,
        buffer,
        fields_before: FxHashMap::default(),
        objects: Vec::new(),
        alive: Vec::new(),
        next_object: FIRST_OBJECT,
        next_handle: FIRST_HANDLE,
        store: &mut store,
        mutator: &mut mutator,
        collections: 0,
        most_roots: 0,
    };
    WORLD.set(Some(world));
    // The entry trampoline writes its frame pointer before it calls; the walk reads it through this pointer.
    let record_pointer = &raw mut record;
    ENTRY.set(record_pointer);
    // SAFETY: context, code and cells are as the trampoline expects.
    let unwound = unsafe { entry(context, function, values.as_mut_ptr(), record_pointer) };
    assert_eq!(unwound, 0);
    let world = WORLD.take().expect("the instance has run");
    (values[..results].iter().map(|value| value[0] as i32).collect(), world.collections, world.most_roots)
}

thread_local! {
    static ENTRY: std::cell::Cell<*mut EntryRecord> = const { std::cell::Cell::new(std::ptr::null_mut()) };
}

/// Runs under every plan and compares the results.
fn check(text: &str, params: &[i32], expected: &[i32]) {
    for (name, plan) in plans() {
        let (results, collections, roots) = run(text, plan, 0, params, expected.len());
        assert_eq!(results, expected, "{name}");
        println!("{name}: {collections} collections, at most {roots} roots");
    }
}

#[test]
fn arithmetic_and_many_results() {
    let text = "(module (func (export \"f\") (param i32 i32)
        (result i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
        (local.get 0) (local.get 1) (call $many))
        (func $many (param i32 i32)
        (result i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
        (i32.add (local.get 0) (local.get 1)) (i32.sub (local.get 0) (local.get 1))
        (i32.div_s (local.get 0) (local.get 1)) (i32.rem_s (local.get 0) (local.get 1))
        (i32.clz (local.get 0)) (i32.popcnt (local.get 1)) (i32.rotl (local.get 0) (i32.const 4))
        (i32.trunc_f64_s (f64.nearest (f64.const 2.5))) (i32.trunc_sat_f32_u (f32.const -5))
        (i32.const 10) (i32.const 11) (i32.const 12) (i32.const 13) (i32.const 14) (i32.const 15) (i32.const 16)
        (i32.const 17) (i32.const 18) (i32.const 19) (i32.const 20)))";
    let expected = [-3, -11, -1, -3, 0, 1, -97, 2, 0, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20];
    check(text, &[-7, 4], &expected);
}

/// Builds binary trees whose halves wait on the stack while the other is built.
#[test]
fn trees_survive_collections() {
    let text = "(module
        (type $tree (struct (field (ref null $tree)) (field (ref null $tree)) (field i32)))
        (func (export \"f\") (param i32) (result i32)
          (local $a (ref null $tree)) (local $b (ref null $tree)) (local $i i32) (local $sum i32)
          (local.set $a (call $build (local.get 0) (i32.const 1)))
          (loop $again
            (local.set $b (call $build (i32.const 3) (local.get $i)))
            (local.set $sum (i32.add (local.get $sum) (call $count (local.get $b))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $i) (i32.const 5))))
          (i32.add (local.get $sum) (call $count (local.get $a))))
        (func $build (param $depth i32) (param $value i32) (result (ref null $tree))
          (if (i32.eqz (local.get $depth)) (then (return (ref.null $tree))))
          (struct.new $tree
            (call $build (i32.sub (local.get $depth) (i32.const 1)) (local.get $value))
            (call $build (i32.sub (local.get $depth) (i32.const 1)) (local.get $value))
            (local.get $value)))
        (func $count (param $t (ref null $tree)) (result i32)
          (if (ref.is_null (local.get $t)) (then (return (i32.const 0))))
          (i32.add (struct.get $tree 2 (local.get $t))
            (i32.add (call $count (struct.get $tree 0 (local.get $t)))
                     (call $count (struct.get $tree 1 (local.get $t)))))))";
    // 63 nodes of 1; five trees of 7 nodes of 0, 1, 2, 3, 4.
    check(text, &[6], &[63 + 7 * 10]);
}

/// Arrays of arrays, casts, a reference carried round a loop, references that live across cold safepoints only.
#[test]
fn arrays_and_casts_survive_collections() {
    let text = "(module
        (type $base (sub (struct (field i32))))
        (type $derived (sub $base (struct (field i32) (field i32))))
        (type $cells (array (mut (ref null $base))))
        (type $rows (array (mut (ref null $cells))))
        (func (export \"f\") (param $n i32) (result i32 i32)
          (local $rows (ref null $rows)) (local $row (ref null $cells)) (local $i i32) (local $sum i32) (local $derived i32)
          (local $last (ref null $base)) (local $next (ref null $base))
          (local.set $rows (array.new_default $rows (local.get $n)))
          (loop $outer
            (local.set $row (array.new_fixed $cells 3
              (struct.new $base (local.get $i)) (struct.new $derived (local.get $i) (i32.const 7)) (local.get $last)))
            (array.set $rows (local.get $rows) (local.get $i) (local.get $row))
            (local.set $next (struct.new $derived (i32.const 100) (local.get $i)))
            (local.set $last (select (result (ref null $base)) (local.get $next) (local.get $last)
              (i32.and (local.get $i) (i32.const 1))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $outer (i32.lt_u (local.get $i) (local.get $n))))
          (local.set $i (i32.const 0))
          (loop $sum
            (local.set $row (array.get $rows (local.get $rows) (local.get $i)))
            (local.set $sum (i32.add (local.get $sum) (struct.get $base 0 (array.get $cells (local.get $row) (i32.const 1)))))
            (if (ref.test (ref $derived) (array.get $cells (local.get $row) (i32.const 2)))
              (then (local.set $derived (i32.add (local.get $derived)
                (struct.get $derived 1 (ref.cast (ref $derived) (array.get $cells (local.get $row) (i32.const 2))))))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $sum (i32.lt_u (local.get $i) (local.get $n))))
          (local.get $sum) (local.get $derived)))";
    // Rows 0..8: the sum of 0..8; the last odd number before each row from row 2 on: 1 1 3 3 5 5.
    check(text, &[8], &[28, 18]);
}
