//! Modules and plans for tests of code generation.
#![allow(dead_code)]

use legato_compiler::CompileOptions;
use legato_compiler::mir::{Block, Function, Inst, Op, Terminator, Value};
use legato_compiler::module::*;
use legato_heap::MutatorContext;
use legato_heap::layout::SpineLayout;
use legato_heap::plan::{
    AccessPlan, AllocationPlan, ArrayPlan, BarrierPlan, CollectorWord, ReferencePlan, RememberedPlan, SnapshotPlan,
    SpinePlan,
};
use legato_heap::references::References;
use legato_heap::size_classes::MAX_SMALL_BYTES;

/// The size classes of mark-sweep heaps.
pub const CELL_BYTES: [u32; 8] = [16, 24, 32, 48, 64, 96, 128, 256];

/// The plan of a mark-sweep heap.
pub fn plan(references: References) -> AccessPlan {
    AccessPlan {
        references: references.plan(),
        arrays: ArrayPlan::Contiguous,
        counting: None,
        allocation: AllocationPlan::SizeClasses {
            cell_bytes: CELL_BYTES.to_vec(),
            runs_offset: MutatorContext::RUNS_OFFSET,
            sizes_offset: MutatorContext::SIZES_OFFSET,
            queues_offset: None,
        },
        fresh_memory_is_zero: true,
        store_barrier: BarrierPlan::NONE,
        references_change_at_safepoints: false,
        objects_move_at_safepoints: false,
        null_guard_bytes: 4096,
        iterations_between_polls: 1,
    }
}

/// The plans of heaps of cells, some with handles, where the runs of each size class have a queue.
pub fn queued() -> Vec<(String, AccessPlan)> {
    let plans = [References::Direct, References::ThinHandles].map(|references| {
        let mut plan = plan(references);
        if let AllocationPlan::SizeClasses { queues_offset, .. } = &mut plan.allocation {
            *queues_offset = Some(MutatorContext::QUEUES_OFFSET);
        }
        (references.name().to_string(), plan)
    });
    plans.into()
}

/// The plan of a heap of cells whose objects move as the reference model lets them.
pub fn moving(references: References) -> AccessPlan {
    AccessPlan {
        references_change_at_safepoints: references.plan().handles.is_none(),
        objects_move_at_safepoints: true,
        store_barrier: BarrierPlan {
            heal: references.plan().heal(),
            mirror: references.plan().mirror(),
            ..BarrierPlan::NONE
        },
        ..plan(references)
    }
}

/// The plan of a generational heap.
pub fn generational(store_buffer: Option<u32>, fresh_memory_is_zero: bool) -> AccessPlan {
    AccessPlan {
        allocation: AllocationPlan::Bump { run_offset: MutatorContext::RUNS_OFFSET, max_bytes: 4096 },
        fresh_memory_is_zero,
        store_barrier: BarrierPlan {
            before: None,
            heal: None,
            mirror: None,
            after: Some(RememberedPlan {
                ages_below: AGES_BELOW,
                block_log2: 15,
                cards_below: CARDS_BELOW,
                card_log2: 9,
                store_buffer,
            }),
        },
        references_change_at_safepoints: true,
        objects_move_at_safepoints: true,
        ..plan(References::Direct)
    }
}

/// What a collector that marks a snapshot wants to know before a store.
pub const SNAPSHOT: SnapshotPlan = SnapshotPlan {
    state_offset: MutatorContext::BARRIER_STATE_OFFSET,
    buffer_offset: MutatorContext::OVERWRITTEN_OFFSET,
};

/// The plan of the same heap, if it also marked snapshots.
pub fn with_snapshot(mut plan: AccessPlan) -> AccessPlan {
    plan.store_barrier.before = Some(SNAPSHOT);
    plan
}

/// How far below the cage the card table of these plans lies.
pub const CARDS_BELOW: u32 = 16 << 20;
/// How far below the cage the ages of blocks lie.
pub const AGES_BELOW: u32 = CARDS_BELOW + (128 << 10);

/// Each plan with a name.
pub fn plans() -> [(&'static str, AccessPlan); 4] {
    [
        ("direct", plan(References::Direct)),
        ("thin handles", moving(References::ThinHandles)),
        ("generational, cards", generational(None, false)),
        ("generational, store buffer, zeroed", generational(Some(MutatorContext::STORE_BUFFER_OFFSET), true)),
    ]
}

/// The same, and the plan of a realtime heap with each of the other reference models.
pub fn all_plans() -> Vec<(&'static str, AccessPlan)> {
    let models = References::ALL.iter().filter(|model| !matches!(model, References::Direct | References::ThinHandles));
    plans().into_iter().chain(models.map(|&model| (model.name(), with_snapshot(moving(model))))).collect()
}

/// The zero leaf's place in the tests' cages.
pub const ZERO_LEAF: u32 = 0x8000;

/// Whether a heap can have these arrays: inline lengths need the collector word.
pub fn is_possible(references: ReferencePlan, arrays: ArrayPlan) -> bool {
    let grows = matches!(arrays, ArrayPlan::Spines(plan) if plan.layout.grows);
    references.collector_word == CollectorWord::Zero || !grows
}

/// The length of an array of elements of `size` bytes that has the first N bytes and `leaves` leaves, or, where a
/// shorter array is not divided, about as few leaves as it can have.
pub fn divided(layout: SpineLayout, size: u32, leaves: u32) -> u32 {
    let whole = if layout.grows { MAX_SMALL_BYTES.next_multiple_of(layout.leaf_bytes()) } else { 0 };
    (layout.first_n + whole + leaves * layout.leaf_bytes()) / size
}

/// Layouts of spines with a name: small ones, so that every path is used; with leaves that are there from the start, or
/// lazy, or lazy and shared; with first N bytes that grow.
pub fn spine_plans() -> Vec<(String, ArrayPlan)> {
    let mut plans = Vec::new();
    // Less than a leaf, a leaf, several, none.
    for (first_n, all_in_leaves) in [(64, false), (256, false), (1024, false), (0, false), (0, true)] {
        let layout = SpineLayout { first_n, leaf_log2: 8, all_in_leaves, grows: false };
        for (name, zero_leaf, copy_on_write) in
            [("eager", None, false), ("lazy", Some(ZERO_LEAF), false), ("shared", Some(ZERO_LEAF), true)]
        {
            let end = if all_in_leaves { ", all in leaves" } else { "" };
            let plan = SpinePlan { layout, zero_leaf, copy_on_write };
            plans.push((format!("first {first_n}, {name}{end}"), ArrayPlan::Spines(plan)));
            if !all_in_leaves && (first_n == 0 || first_n == 64) {
                let plan = SpinePlan { layout: SpineLayout { grows: true, ..layout }, ..plan };
                plans.push((format!("first {first_n}, {name}, growing"), ArrayPlan::Spines(plan)));
            }
        }
    }
    plans
}

/// Every heap whose arrays have inline lengths, with a name.
pub fn growing_heaps() -> Vec<(String, AccessPlan, SpineLayout)> {
    let mut heaps = Vec::new();
    for (name, plan) in plans() {
        for (title, arrays) in spine_plans() {
            let ArrayPlan::Spines(spines) = arrays else { continue };
            if spines.layout.grows && is_possible(plan.references, arrays) {
                heaps.push((format!("{name}, {title}"), AccessPlan { arrays, ..plan.clone() }, spines.layout));
            }
        }
    }
    assert!(heaps.len() >= 12, "there are heaps to test");
    heaps
}

/// For elements of `size` bytes: the lengths of arrays in one piece and of spines, one of these with a last leaf that
/// is full.
pub fn lengths(layout: SpineLayout, size: u32) -> [u32; 6] {
    let one = divided(layout, size, 1);
    let longest = (1..one).rev().find(|&length| !layout.divides(size, length)).expect("short arrays");
    [1, 10, longest, longest + 1, one, divided(layout, size, 2) + 3]
}

pub fn options(plan: AccessPlan) -> CompileOptions {
    CompileOptions {
        features: Default::default(),
        plan,
        checked_memories: false,
        optimize: true,
        parallel: false,
        verify: true,
    }
}

pub const I32: ValueType = ValueType::I32;
pub const I64: ValueType = ValueType::I64;
pub const F32: ValueType = ValueType::F32;
pub const F64: ValueType = ValueType::F64;
pub const V128: ValueType = ValueType::V128;

pub const fn nullable(heap: HeapType) -> ValueType {
    ValueType::Ref(RefType { nullable: true, heap })
}

pub const fn concrete(ty: u32) -> ValueType {
    nullable(HeapType::Concrete(TypeIndex(ty)))
}

/// A module's declarations under construction.
#[derive(Default)]
pub struct Module {
    pub info: ModuleInfo,
}

impl Module {
    pub fn add_type(&mut self, composite: CompositeType, supertype: Option<u32>, is_final: bool) -> TypeIndex {
        let index = TypeIndex(self.info.types.len() as u32);
        let depth = supertype.map_or(0, |ty| self.info.types[ty as usize].depth + 1);
        let supertype = supertype.map(TypeIndex);
        self.info.types.push(SubType { is_final, supertype, composite, depth, rec_group: (index, 1) });
        self.info.canonical_types.push(index);
        index
    }

    pub fn add_struct(&mut self, fields: &[StorageType], supertype: Option<u32>, is_final: bool) -> TypeIndex {
        let fields = fields.iter().map(|&storage| FieldType { storage, mutable: true }).collect();
        self.add_type(CompositeType::Struct(fields), supertype, is_final)
    }

    pub fn add_array(&mut self, storage: StorageType) -> TypeIndex {
        self.add_type(CompositeType::Array(FieldType { storage, mutable: true }), None, true)
    }

    pub fn add_func_type(&mut self, params: &[ValueType], results: &[ValueType]) -> TypeIndex {
        let ty = FuncType { params: params.to_vec(), results: results.to_vec() };
        self.add_type(CompositeType::Func(ty), None, true)
    }

    /// Declares a defined function that escapes.
    pub fn add_function(&mut self, ty: TypeIndex) -> FuncIndex {
        let func_ref = Some(self.info.func_ref_count);
        self.info.func_ref_count += 1;
        self.info.functions.push(Function_ { ty, func_ref });
        FuncIndex(self.info.functions.len() as u32 - 1)
    }
}

use legato_compiler::module::Function as Function_;

/// A function under construction, one block at a time.
pub struct Build {
    pub function: Function,
    pub block: Block,
}

impl Build {
    pub fn new(info: &ModuleInfo, index: FuncIndex) -> Build {
        let ty = info.functions[index.index()].ty;
        let mut function = Function::new(index, ty, 1);
        let entry = function.entry;
        for &param in &info.func_type(ty).params {
            function.add_param(entry, param);
        }
        Build { function, block: entry }
    }

    pub fn param(&self, number: usize) -> Value {
        self.function.blocks[self.function.entry.index()].params[number]
    }

    pub fn inst(&mut self, op: Op, args: &[Value], results: &[ValueType]) -> Inst {
        let source = self.function.insts.len() as u32 + 10;
        self.function.push(self.block, op, args, results, source)
    }

    pub fn op(&mut self, op: Op, args: &[Value], result: ValueType) -> Value {
        let inst = self.inst(op, args, &[result]);
        self.function.insts[inst.index()].results[0]
    }

    pub fn end(&mut self, terminator: Terminator) {
        self.function.blocks[self.block.index()].terminator = Some(terminator);
    }

    pub fn switch(&mut self, block: Block) {
        self.block = block;
    }

    pub fn returns(mut self, values: &[Value]) -> Function {
        self.end(Terminator::Return(values.iter().copied().collect()));
        self.function
    }
}
