//! What the tests share: a small generator of random numbers, configurations, and allocation as compiled code does it.
#![allow(dead_code)]

pub mod world;

use legato_heap::collector::generational::{Barrier, GenerationalParams, Nursery};
use legato_heap::layout::{COLLECTOR_WORD_OFFSET, HEADER_BYTES, TYPE_ID_OFFSET, array_bytes};
use legato_heap::plan::{BarrierPlan, BumpRun, ReferencePlan, RememberedPlan, StoreBufferWords};
use legato_heap::{
    AccessPlan, Collector, Heap, HeapConfig, Reference, References, TypeId, TypeInfo, TypeShape, TypeTable, Zeroing,
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

/// Mark-sweep with both reference models, otherwise as given.
pub fn both(config: HeapConfig) -> Vec<HeapConfig> {
    let of = |&references| HeapConfig { collector: Collector::MarkSweep, references, ..config.clone() };
    References::ALL.iter().map(of).collect()
}

/// The generational heap with both barriers and every zeroing strategy, in turn with and without aging and with nurseries of a
/// fixed and of a changing size, otherwise as given.
pub fn generational(config: &HeapConfig) -> Vec<HeapConfig> {
    let mut all = Vec::new();
    for (first, &barrier) in Barrier::ALL.iter().enumerate() {
        for (second, &zeroing) in Zeroing::ALL.iter().enumerate() {
            let aging = [0, 25][(first + second) % 2];
            let nursery = [Nursery::Fixed(256 << 10), Nursery::Appel][(first + second / 2) % 2];
            all.push(HeapConfig {
                collector: Collector::Generational,
                zeroing: Some(zeroing),
                generational: GenerationalParams { nursery, aging, barrier },
                ..config.clone()
            });
        }
    }
    all
}

/// Every collector.
pub fn all(config: HeapConfig) -> Vec<HeapConfig> {
    [both(config.clone()), generational(&config)].concat()
}

pub fn register(types: &TypeTable, shape: TypeShape) -> TypeId {
    types.register(TypeInfo { shape, supertype: None }).unwrap()
}

/// Allocates by the access plan alone, as inline code does; `None` where that would call the slow path.
pub fn allocate_inline(heap: &Heap, plan: &AccessPlan, id: TypeId, array_length: Option<u32>) -> Option<Reference> {
    let record = heap.types().record(id);
    let bytes = match array_length {
        None => record.bytes,
        Some(length) => array_bytes(heap.types().info(id).element_kind(), length)?,
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
        if plan.references == ReferencePlan::ThinHandles {
            let handles = plan.allocation.handle_run_offset().unwrap() as usize;
            let handles = &mut *context.add(handles).cast::<BumpRun>();
            if handles.limit - handles.cursor < 4 {
                return None;
            }
            reference = Reference(handles.cursor);
            word(handles.cursor).write(object);
            word(object + COLLECTOR_WORD_OFFSET).write(handles.cursor);
            handles.cursor += 4;
        }
        run.cursor += inline.cell_bytes;
        word(object + TYPE_ID_OFFSET).write(id.0);
        if let Some(length) = array_length {
            word(object + legato_heap::layout::ARRAY_LENGTH_OFFSET).write(length);
        }
        Some(reference)
    }
}

/// Stores a reference by the access plan alone, as inline code does.
pub fn store_inline(heap: &mut Heap, plan: &AccessPlan, object: Reference, offset: u32, value: Reference) {
    let address = heap.object_address(object);
    let is_array = matches!(heap.types().info(heap.type_of(object)).shape, TypeShape::Array(_));
    assert!(offset >= HEADER_BYTES && offset.is_multiple_of(4));
    // SAFETY: the offset is that of a traced slot of the object; the plan says what else is to be written.
    unsafe {
        address.add(offset as usize).cast::<Reference>().write(value);
        let mark = |cards: RememberedPlan, stored: u32| {
            let table = heap.cage_base().wrapping_sub(cards.cards_below as usize);
            table.wrapping_add((stored >> cards.card_log2) as usize).write(1);
        };
        let is_young = |plan: RememberedPlan, reference: Reference| {
            let ages = heap.cage_base().wrapping_sub(plan.ages_below as usize);
            ages.wrapping_add((reference.0 >> plan.block_log2) as usize).read() != 0
        };
        match plan.store_barrier {
            BarrierPlan::None => {}
            BarrierPlan::Cards(plan) | BarrierPlan::StoreBuffer(plan, _) if !is_young(plan, value) => {}
            BarrierPlan::Cards(plan) | BarrierPlan::StoreBuffer(plan, _) if is_array => mark(plan, object.0 + offset),
            BarrierPlan::Cards(plan) => mark(plan, object.0),
            BarrierPlan::StoreBuffer(plan, _) if is_young(plan, object) => {}
            BarrierPlan::StoreBuffer(_, buffer) => {
                let words = heap.mutator_context().cast::<u8>().add(buffer as usize).cast::<StoreBufferWords>();
                ((*words).cursor as *mut u32).write(object.0 + offset);
                (*words).cursor += 4;
                if (*words).cursor == (*words).limit {
                    heap.flush_store_buffer();
                }
            }
        }
    }
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
