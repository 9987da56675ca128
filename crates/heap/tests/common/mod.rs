//! What the tests share: a small generator of random numbers, configurations, and allocation as compiled code does it.
#![allow(dead_code)]

use legato_heap::layout::{COLLECTOR_WORD_OFFSET, TYPE_ID_OFFSET, array_bytes};
use legato_heap::plan::{BumpRun, ReferencePlan};
use legato_heap::{AccessPlan, Heap, HeapConfig, Reference, References, TypeId, TypeInfo, TypeShape, TypeTable};

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

/// Both reference models, otherwise as given.
pub fn both(config: HeapConfig) -> Vec<HeapConfig> {
    References::ALL.iter().map(|&references| HeapConfig { references, ..config.clone() }).collect()
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
    let class = plan.allocation.class_of(bytes)?;
    let cell = plan.allocation.cell_bytes[class];
    let context = heap.mutator_context().cast::<u8>();
    let cage = heap.cage_base();
    // SAFETY: the plan says where the runs lie and what may be written where; the heap stands meanwhile.
    unsafe {
        let run = &mut *context.add(plan.allocation.runs_offset as usize + 8 * class).cast::<BumpRun>();
        if run.limit - run.cursor < cell {
            return None;
        }
        let object = run.cursor;
        let word = |offset: u32| cage.add(offset as usize).cast::<u32>();
        let mut reference = Reference(object);
        if plan.references == ReferencePlan::ThinHandles {
            let handles = plan.allocation.handle_run_offset.unwrap() as usize;
            let handles = &mut *context.add(handles).cast::<BumpRun>();
            if handles.limit - handles.cursor < 4 {
                return None;
            }
            reference = Reference(handles.cursor);
            word(handles.cursor).write(object);
            word(object + COLLECTOR_WORD_OFFSET).write(handles.cursor);
            handles.cursor += 4;
        }
        run.cursor += cell;
        word(object + TYPE_ID_OFFSET).write(id.0);
        if let Some(length) = array_length {
            word(object + legato_heap::layout::ARRAY_LENGTH_OFFSET).write(length);
        }
        Some(reference)
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
