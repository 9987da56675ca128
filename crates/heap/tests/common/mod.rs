//! What the tests share: a small generator of random numbers, configurations, and allocation as compiled code does it.
#![allow(dead_code)]

mod trusting;
pub mod world;

#[allow(unused_imports, reason = "each test file uses its part")]
pub use trusting::{Held, Trusting};

use legato_heap::arrays::{ArrayletParams, ZRayParams};
use legato_heap::collector::generational::{Barrier, Full, GenerationalParams, Nursery};
use legato_heap::collector::schedule::{CycleParams, Schedule};
use legato_heap::layout::{
    ARRAY_LENGTH_OFFSET, COLLECTOR_WORD_OFFSET, HEADER_BYTES, INLINE_LENGTH_OFFSET, SpineLayout, StorageKind, TAINT,
    TYPE_ID_OFFSET, array_bytes, array_elements_offset,
};
use legato_heap::plan::{ArrayPlan, BufferWords, BumpRun, CollectorWord, HeaderWord, ObjectAt, RememberedPlan};
use legato_heap::views::DoubleMapParams;
use legato_heap::{
    AccessPlan, AllocationError, Arrays, Collector, Heap, HeapConfig, MutatorContext, NativeViews, Reference,
    References, TypeId, TypeInfo, TypeShape, TypeTable, ViewCreation, Zeroing,
};

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// A collector with each reference model that it takes, otherwise as given.
fn of_each_model(collector: Collector, config: &HeapConfig) -> Vec<HeapConfig> {
    let all = References::ALL.iter().map(|&references| HeapConfig { collector, references, ..config.clone() });
    all.filter(|config| config.validate().is_ok()).collect()
}

/// Mark-sweep with each reference model, otherwise as given.
pub fn both(config: HeapConfig) -> Vec<HeapConfig> {
    of_each_model(Collector::MarkSweep, &config)
}

/// What checks the snapshot barrier, with each reference model that it takes, otherwise as given.
pub fn snapshot(config: &HeapConfig) -> Vec<HeapConfig> {
    of_each_model(Collector::Snapshot, config)
}

/// The generational heap with both barriers and every zeroing strategy, in turn with and without aging and with
/// nurseries of a fixed and of a changing size, otherwise as given.
pub fn generational(config: &HeapConfig) -> Vec<HeapConfig> {
    let mut all = Vec::new();
    for (first, &barrier) in Barrier::ALL.iter().enumerate() {
        for (second, &zeroing) in Zeroing::ALL.iter().enumerate() {
            let aging = [0, 25][(first + second) % 2];
            let nursery = [Nursery::Fixed(256 << 10), Nursery::Appel][(first + second / 2) % 2];
            let incremental = |schedule| Full::Incremental(CycleParams { schedule, ..CycleParams::DEFAULT });
            let [time, work] = [Schedule::ALL[0], Schedule::ALL[1]].map(incremental);
            let full = [time, Full::Stop, work][all.len() % 3];
            all.push(HeapConfig {
                collector: Collector::Generational(GenerationalParams {
                    nursery,
                    aging,
                    barrier,
                    full,
                    ..GenerationalParams::DEFAULT
                }),
                zeroing: Some(zeroing),
                ..config.clone()
            });
        }
    }
    all
}

/// Layouts with spines whose parts are so small that every path is taken, and some with larger ones.
pub fn layouts() -> Vec<(Arrays, NativeViews)> {
    let growing = ZRayParams { leaf_bytes: 256, first_n: 64, ..ZRayParams::DEFAULT };
    let small = ZRayParams { first_n_grows: Some(false), ..growing };
    let zrays = |params| (Arrays::ZRays(params), NativeViews::Copy);
    let arraylets = |leaf_bytes, lazy| Arrays::Arraylets(ArrayletParams { leaf_bytes, lazy });
    vec![
        zrays(small),
        zrays(ZRayParams { copy_on_write: true, ..small }),
        zrays(ZRayParams { first_n: 0, leaf_bytes: 1024, copy_on_write: true, ..small }),
        zrays(ZRayParams { lazy: Some(false), fast_copy: false, ..small }),
        zrays(ZRayParams { first_n: 256, lazy: Some(false), zero_compression: false, copy_on_write: true, ..small }),
        zrays(ZRayParams { first_n: 4096, leaf_bytes: 64 << 10, ..small }),
        // With handles, these are spines that do not grow.
        zrays(growing),
        zrays(ZRayParams { copy_on_write: true, ..growing }),
        zrays(ZRayParams { first_n: 0, leaf_bytes: 1024, fast_copy: false, ..growing }),
        zrays(ZRayParams { first_n: 4096, leaf_bytes: 64 << 10, lazy: Some(false), ..growing }),
        (arraylets(256, false), NativeViews::Copy),
        (arraylets(4096, true), NativeViews::Copy),
        double_map(arraylets(256, false), ViewCreation::Allocation),
        double_map(Arrays::ZRays(ZRayParams { first_n: 0, copy_on_write: true, ..small }), ViewCreation::Request),
    ]
}

/// Z-rays without first bytes, otherwise by default.
pub const ZRAYS_WITHOUT_FIRST_N: Arrays = Arrays::ZRays(ZRayParams { first_n: 0, ..ZRayParams::DEFAULT });

/// The layout of spines; `None` where arrays lie in one piece.
pub fn spines(config: &HeapConfig) -> Option<SpineLayout> {
    match config.access_plan().arrays {
        ArrayPlan::Spines(plan) => Some(plan.layout),
        _ => None,
    }
}

/// Bytes of a leaf; where there are none, of what a leaf is by default.
pub fn leaf_bytes(config: &HeapConfig) -> u32 {
    spines(config).map_or(ZRayParams::DEFAULT.leaf_bytes, |layout| layout.leaf_bytes())
}

/// All elements of an array, copied out as for native code.
pub fn copy_out(heap: &mut Heap, array: Reference) -> Vec<u8> {
    let size = heap.array_element_kind(array).bytes() as usize;
    let mut copy = Vec::with_capacity(heap.array_length(array) as usize * size);
    let bytes = copy.capacity();
    heap.array_copy_out(array, &mut copy.spare_capacity_mut()[..bytes]);
    // SAFETY: all of it has been written.
    unsafe { copy.set_len(bytes) };
    copy
}

/// A layout whose leaves, of a page each, are mapped a second time.
pub fn double_map(arrays: Arrays, creation: ViewCreation) -> (Arrays, NativeViews) {
    let native_views = NativeViews::DoubleMap(DoubleMapParams { creation });
    let with = |leaf_bytes: u32| {
        let mut config = HeapConfig { arrays, native_views, ..HeapConfig::default() };
        config.set("leaf", &leaf_bytes.to_string()).unwrap();
        config
    };
    let found = (12..20).map(|log2| with(1 << log2)).find(|config| config.validate().is_ok());
    (found.expect("a page is smaller").arrays, native_views)
}

/// A configuration under each of [`layouts`].
pub fn with_layouts(config: &HeapConfig) -> Vec<HeapConfig> {
    let with = |(arrays, native_views)| HeapConfig { arrays, native_views, ..config.clone() };
    layouts().into_iter().map(with).collect()
}

/// Every layout with mark-sweep, direct and with the handles in turn; with the generational heap, its two barriers in
/// turn; with the realtime heap, and with the models under which objects move in turn.
pub fn all_layouts(config: HeapConfig) -> Vec<HeapConfig> {
    let mut all = Vec::new();
    for (number, base) in with_layouts(&config).into_iter().enumerate() {
        let models = both(base.clone());
        all.extend([&models[0], &models[1 + number % (models.len() - 1)]].map(HeapConfig::clone));
        let moving = moving(&base);
        all.push(moving[number % moving.len()].clone());
        let collectors = generational(&base);
        all.push(collectors[number % collectors.len()].clone());
        all.push(collectors[(number + 5) % collectors.len()].clone());
        all.push(realtime(&base)[number % 2].clone());
    }
    all
}

/// The realtime heap with each schedule, otherwise as given.
pub fn realtime(config: &HeapConfig) -> Vec<HeapConfig> {
    let of = |&schedule| {
        let params = CycleParams { schedule, ..CycleParams::DEFAULT };
        HeapConfig { collector: Collector::Realtime(params), ..config.clone() }
    };
    Schedule::ALL.iter().map(of).collect()
}

/// The realtime heap with each reference model that lets objects move, all of which move in each cycle.
pub fn moving(config: &HeapConfig) -> Vec<HeapConfig> {
    let config = HeapConfig { stress_move: true, ..config.clone() };
    of_each_model(Collector::Realtime(CycleParams::DEFAULT), &config)
}

/// Every collector. (The schedules of cycles are compared in `cycles.rs`.)
pub fn all(config: HeapConfig) -> Vec<HeapConfig> {
    [both(config.clone()), generational(&config), realtime(&config)[..1].to_vec()].concat()
}

pub fn register(types: &TypeTable, shape: TypeShape) -> TypeId {
    types.register(TypeInfo { shape, supertype: None }).unwrap()
}

/// Allocates by the access plan alone, as inline code does; `None` where that would call the slow path.
pub fn allocate_inline(heap: &Heap, plan: &AccessPlan, id: TypeId, array_length: Option<u32>) -> Option<Reference> {
    let record = heap.types().record(id);
    let bytes = match array_length {
        None => record.bytes,
        Some(length) => {
            let kind = heap.types().info(id).element_kind();
            match plan.arrays {
                ArrayPlan::Spines(spines) if spines.layout.divides(kind.bytes(), length) => return None,
                _ => array_bytes(kind, length)?,
            }
        }
    };
    let inline = plan.allocation.inline_run(bytes)?;
    let context = heap.mutator_context().cast::<u8>();
    let cage = heap.cage_base();
    // SAFETY: the plan says where the runs lie and what may be written where; the heap stands meanwhile.
    unsafe {
        let run = &mut *context.add(inline.run_offset as usize).cast::<BumpRun>();
        if run.limit - run.cursor < inline.cell_bytes {
            return None;
        }
        let object = run.cursor;
        let word = |offset: u32| cage.add(offset as usize).cast::<u32>();
        if !plan.fresh_memory_is_zero {
            // What is not the header stands for the stores of the object's initialisation.
            std::ptr::write_bytes(cage.add(object as usize), 0, bytes as usize);
        }
        let mut reference = Reference(object);
        let in_handle = |at: HeaderWord| match at {
            HeaderWord::AtReference { offset } if plan.references.handles.is_some() => Some(offset),
            _ => None,
        };
        if let Some(handle) = plan.references.handles.map(|plan| plan.run(array_length.is_some())) {
            let handles = &mut *context.add(handle.run_offset as usize).cast::<BumpRun>();
            if handles.limit - handles.cursor < handle.bytes {
                return None;
            }
            reference = Reference(handles.cursor);
            handles.cursor += handle.bytes;
            if let ObjectAt::Through { offset } = plan.references.object {
                word(reference.0 + offset).write(object);
            }
            if let Some(offset) = in_handle(plan.references.type_id) {
                word(reference.0 + offset).write(id.0);
            }
        }
        if plan.references.collector_word == CollectorWord::Reference {
            word(object + COLLECTOR_WORD_OFFSET).write(reference.0);
        }
        run.cursor += inline.cell_bytes;
        word(object + TYPE_ID_OFFSET).write(id.0);
        if let Some(length) = array_length {
            word(object + ARRAY_LENGTH_OFFSET).write(length);
            if let Some(offset) = in_handle(plan.references.array_length) {
                word(reference.0 + offset).write(length);
            }
            if let ArrayPlan::Spines(spines) = plan.arrays
                && spines.layout.grows
            {
                word(object + INLINE_LENGTH_OFFSET).write(length);
            }
        }
        Some(reference)
    }
}

/// Stores a reference into a struct by the access plan alone, as inline code does.
pub fn store_inline(heap: &mut Heap, plan: &AccessPlan, object: Reference, offset: u32, value: Reference) {
    let address = heap.object_address(object);
    assert!(offset >= HEADER_BYTES && offset.is_multiple_of(4));
    assert!(!matches!(heap.types().info(heap.type_of(object)).shape, TypeShape::Array(_)));
    // SAFETY: the offset is that of a traced slot of the object; the plan says what else is to be written.
    unsafe {
        let slot = address.add(offset as usize).cast::<Reference>();
        before_store(heap, plan, slot);
        slot.write(healed(heap, plan, value));
        mirror(heap, plan, address, |other| other.add(offset as usize).cast::<Reference>().write(slot.read()));
        match plan.store_barrier.after {
            Some(plan) if is_young(heap, plan, value) => match plan.store_buffer {
                None => mark(heap, plan, object.0),
                Some(_) if is_young(heap, plan, object) => {}
                Some(buffer) => {
                    if push(heap, buffer, object.0 + offset) {
                        heap.flush_store_buffer();
                    }
                }
            },
            _ => {}
        }
    }
}

/// What the plan demands before a reference is overwritten.
unsafe fn before_store(heap: &mut Heap, plan: &AccessPlan, slot: *const Reference) {
    let Some(plan) = plan.store_barrier.before else { return };
    // SAFETY: the offset is that of a word of the context; the slot holds a reference.
    let (state, old) = unsafe {
        (heap.mutator_context().cast::<u8>().add(plan.state_offset as usize).cast::<u32>().read(), slot.read())
    };
    // SAFETY: the offset is that of the buffer's words.
    if state & MutatorContext::MARKING != 0 && old.is_object() && unsafe { push(heap, plan.buffer_offset, old.0) } {
        heap.flush_overwritten();
    }
}

/// What the plan has stored for a reference.
unsafe fn healed(heap: &Heap, plan: &AccessPlan, value: Reference) -> Reference {
    let Some(plan) = plan.store_barrier.heal else { return value };
    // SAFETY: the offsets are those of a word of the context, and of one in the header of the value's object.
    unsafe {
        let state = heap.mutator_context().cast::<u8>().add(plan.state_offset as usize).cast::<u32>().read();
        match state & MutatorContext::STALE != 0 && value.is_object() {
            true => {
                let word = heap.cage_base().add((value.0 + plan.forwarding_offset) as usize).cast::<u32>().read();
                plan.word.current(value, word)
            }
            false => value,
        }
    }
}

/// Has the plan's mirror write to the other copy of an object, given by its address.
unsafe fn mirror(heap: &Heap, plan: &AccessPlan, object: *mut u8, write: impl FnOnce(*mut u8)) {
    let Some(plan) = plan.store_barrier.mirror else { return };
    // SAFETY: the offsets are those of a word of the context, and of one in the header of the object.
    unsafe {
        let state = heap.mutator_context().cast::<u8>().add(plan.state_offset as usize).cast::<u32>().read();
        if state & MutatorContext::REPLICAS != 0 {
            let other = object.add(plan.other_offset as usize).cast::<u32>().read() & !1;
            write(heap.cage_base().add(other as usize));
        }
    }
}

/// Pushes an entry to a buffer; whether it is full then.
unsafe fn push(heap: &Heap, buffer: u32, entry: u32) -> bool {
    // SAFETY: the buffer's words lie there, and its cursor names a free entry.
    unsafe {
        let words = heap.mutator_context().cast::<u8>().add(buffer as usize).cast::<BufferWords>();
        ((*words).cursor as *mut u32).write(entry);
        (*words).cursor += 4;
        (*words).cursor == (*words).limit
    }
}

unsafe fn mark(heap: &Heap, cards: RememberedPlan, stored: u32) {
    let table = heap.cage_base().wrapping_sub(cards.cards_below as usize);
    // SAFETY: every offset has a card.
    unsafe { table.wrapping_add((stored >> cards.card_log2) as usize).write(1) };
}

unsafe fn is_young(heap: &Heap, plan: RememberedPlan, reference: Reference) -> bool {
    let ages = heap.cage_base().wrapping_sub(plan.ages_below as usize);
    // SAFETY: every offset has an age.
    unsafe { ages.wrapping_add((reference.0 >> plan.block_log2) as usize).read() != 0 }
}

/// Bytes of the elements in one piece of the array at `object`.
unsafe fn inline_bytes(layout: SpineLayout, object: *const u8, kind: StorageKind) -> u64 {
    match layout.grows {
        // SAFETY: the array has a header.
        true => unsafe {
            let length = object.add(INLINE_LENGTH_OFFSET as usize).cast::<u32>().read();
            u64::from(length) * u64::from(kind.bytes())
        },
        false => layout.first_n.into(),
    }
}

/// Stores an element by the access plan alone, as inline code does. The index is within bounds.
pub fn store_element_inline(
    heap: &mut Heap,
    plan: &AccessPlan,
    array: Reference,
    kind: StorageKind,
    index: u32,
    bits: u128,
) -> Result<(), AllocationError> {
    let object = heap.object_address(array);
    let cage = heap.cage_base();
    let position = index as u64 * kind.bytes() as u64;
    // SAFETY: the element lies in the array, where the plan says; the array's length follows its header.
    unsafe {
        let length = object.add(ARRAY_LENGTH_OFFSET as usize).cast::<u32>().read();
        assert!(index < length);
        let elements = array_elements_offset(kind) as u64;
        let mut in_leaf = None;
        let address = match plan.arrays {
            ArrayPlan::Spines(spines) if position >= inline_bytes(spines.layout, object, kind) => {
                let behind = position - spines.layout.first_n as u64;
                let pointers = spines.layout.spine(kind.bytes(), length).pointers;
                let slot = pointers as usize + 4 * (behind >> spines.layout.leaf_log2) as usize;
                let within = (behind & (spines.layout.leaf_bytes() as u64 - 1)) as usize;
                in_leaf = Some((slot, within));
                let pointer = object.add(slot).cast::<u32>().read();
                let unwritable = match spines.copy_on_write {
                    true => pointer & TAINT != 0,
                    false => spines.zero_leaf == Some(pointer),
                };
                let leaf = if unwritable {
                    let is_zero = bits & (u128::MAX >> (128 - 8 * kind.bytes())) == 0;
                    heap.leaf_for_store(array, index, is_zero)?
                } else {
                    pointer
                };
                cage.add(leaf as usize + within)
            }
            _ => object.add((elements + position) as usize),
        };
        let mut bits = bits;
        if kind == StorageKind::Ref {
            before_store(heap, plan, address.cast());
            bits = healed(heap, plan, Reference(bits as u32)).0.into();
        }
        let write = |address| {
            std::ptr::copy_nonoverlapping(bits.to_le_bytes().as_ptr(), address, kind.bytes() as usize);
        };
        write(address);
        mirror(heap, plan, object, |other| {
            write(match in_leaf {
                Some((slot, within)) => cage.add((other.add(slot).cast::<u32>().read() & !TAINT) as usize + within),
                None => other.add((elements + position) as usize),
            });
        });
        if let Some(remembered) = plan.store_barrier.after
            && kind == StorageKind::Ref
            && is_young(heap, remembered, Reference(bits as u32))
        {
            mark(heap, remembered, address.offset_from(cage) as u32);
        }
    }
    Ok(())
}

trait ElementKind {
    fn element_kind(&self) -> legato_heap::layout::StorageKind;
}

impl ElementKind for TypeInfo {
    fn element_kind(&self) -> legato_heap::layout::StorageKind {
        match &self.shape {
            TypeShape::Array(kind) => *kind,
            other => panic!("{other:?} is no array"),
        }
    }
}
