//! `helpers=1`: a program that changes everything all the time while the helper thread marks.

mod common;

use common::{
    Held, Random, Trusting, allocate_inline, generational, layouts, realtime, register, store_element_inline,
    store_inline,
};
use legato_heap::arrays::MappedParams;
use legato_heap::collector::generational::{Full, GenerationalParams};
use legato_heap::collector::schedule::Helpers;
use legato_heap::layout::StorageKind;
use legato_heap::{
    AccessPlan, Arrays, Budget, Cause, Collector, Heap, HeapConfig, NativeViews, Reference, TypeId, TypeShape,
    TypeTable,
};

/// Entries of each table.
const LENGTH: usize = 30_000;
/// Nodes of an entry, each of which refers to the next.
const CHAIN: u32 = 3;
/// The fields of a node.
const NEXT: u32 = 8;
const VALUE: u32 = 12;

/// Two tables of chains of nodes, beside a shadow: the value of each entry's first node, 0 where there is none.
struct Program {
    heap: Heap,
    plan: AccessPlan,
    random: Random,
    node: TypeId,
    array: TypeId,
    bytes: TypeId,
    /// The tables, the chain that is being made, and a large array.
    roots: Held,
    shadow: [Vec<u32>; 2],
    value: u32,
}

impl Program {
    fn new(config: &HeapConfig, seed: u64) -> Program {
        let types = TypeTable::new().unwrap();
        let node = register(&types, TypeShape::Struct(vec![StorageKind::Ref, StorageKind::I32]));
        let array = register(&types, TypeShape::Array(StorageKind::Ref));
        let bytes = register(&types, TypeShape::Array(StorageKind::I8));
        let mut program = Program {
            heap: Heap::new(config, types).unwrap(),
            plan: config.access_plan(),
            random: Random(seed),
            node,
            array,
            bytes,
            roots: Held::nulls(4),
            shadow: [vec![0; LENGTH], vec![0; LENGTH]],
            value: 0,
        };
        for table in 0..2 {
            program.roots[table] = program.heap.allocate_array(array, LENGTH as u32, &mut program.roots).unwrap();
        }
        for entry in 0..2 * LENGTH {
            program.replace(entry % 2, entry / 2);
        }
        program
    }

    fn store(&mut self, table: usize, index: usize, value: Reference) {
        let (heap, array) = (&mut self.heap, self.roots[table]);
        store_element_inline(heap, &self.plan, array, StorageKind::Ref, index as u32, value.0.into()).unwrap();
    }

    /// A new chain for an entry.
    fn replace(&mut self, table: usize, index: usize) {
        self.value += CHAIN;
        self.roots[2] = Reference::NULL;
        for number in (0..CHAIN).rev() {
            let node = allocate_inline(&self.heap, &self.plan, self.node, None)
                .unwrap_or_else(|| self.heap.allocate_struct(self.node, &mut self.roots).unwrap());
            self.heap.put(node, VALUE, StorageKind::I32, (self.value + number).into());
            store_inline(&mut self.heap, &self.plan, node, NEXT, self.roots[2]);
            self.roots[2] = node;
        }
        self.store(table, index, self.roots[2]);
        self.shadow[table][index] = self.value;
    }

    fn entry(&mut self) -> (usize, usize) {
        (self.random.below(2), self.random.below(LENGTH))
    }

    fn step(&mut self) {
        let ((to, start), (from, source)) = (self.entry(), self.entry());
        let length = 1 + self.random.below(2000).min(LENGTH - 1 - start.max(source));
        match self.random.below(64) {
            0..48 => self.replace(to, start),
            48..58 => {
                // What was reachable there alone is found elsewhere from now on.
                let moved = Reference(self.heap.array_get(self.roots[from], source as u32) as u32);
                self.store(from, source, Reference::NULL);
                self.store(to, start, moved);
                let value = std::mem::take(&mut self.shadow[from][source]);
                self.shadow[to][start] = value;
            }
            58..60 => {
                self.reserve(to, start, length);
                let arrays = ((self.roots[to], start as u32), (self.roots[from], source as u32));
                self.heap.copy(arrays.0, arrays.1, length as u32).unwrap();
                let values = self.shadow[from][source..source + length].to_vec();
                self.shadow[to][start..start + length].copy_from_slice(&values);
            }
            60 => {
                let length = length.min(200);
                self.reserve(to, start, length);
                let value = self.heap.array_get(self.roots[from], source as u32);
                self.heap.fill(self.roots[to], start as u32, value, length as u32).unwrap();
                let value = self.shadow[from][source];
                self.shadow[to][start..start + length].fill(value);
            }
            61 => {
                let length = 5_000 + self.random.below(20_000) as u32;
                self.roots[3] = self.heap.allocate_array(self.array, length, &mut self.roots).unwrap();
                let first = self.heap.array_get(self.roots[to], start as u32);
                self.heap.set(self.roots[3], 7, first).unwrap();
            }
            62 => {
                self.heap.allocate_array(self.bytes, 200_000, &mut self.roots).unwrap();
            }
            _ => self.heap.poll(&mut self.roots),
        }
    }

    /// Sees to it that elements can be written without a collection.
    fn reserve(&mut self, table: usize, start: usize, length: usize) {
        let mut kept = [self.roots[table]];
        self.heap.reserve_leaves(start as u32, length as u32, &mut kept, &mut self.roots).unwrap();
    }

    fn compare(&self) {
        for (table, shadow) in self.shadow.iter().enumerate() {
            for (index, &first) in shadow.iter().enumerate() {
                let mut node = Reference(self.heap.array_get(self.roots[table], index as u32) as u32);
                assert_eq!(node == Reference::NULL, first == 0, "entry {index} of table {table}");
                let values = if first == 0 { 0..0 } else { first..first + CHAIN };
                for value in values {
                    assert_eq!(self.heap.type_of(node), self.node);
                    assert_eq!(self.heap.load(node, VALUE, StorageKind::I32), value.into());
                    node = Reference(self.heap.load(node, NEXT, StorageKind::Ref) as u32);
                }
                assert_eq!(node, Reference::NULL);
            }
        }
    }
}

/// Heaps of both collectors whose helper marks, with every layout of arrays.
fn helped() -> Vec<HeapConfig> {
    let base = HeapConfig { min_bytes: 1 << 20, max_bytes: Some(512 << 20), ..HeapConfig::default() };
    let mapped = Arrays::Mapped(MappedParams { from: 32 << 10, ..MappedParams::DEFAULT });
    let one_piece = [(Arrays::Contiguous, NativeViews::Copy), (mapped, NativeViews::Copy)];
    let mut all = Vec::new();
    for (number, (arrays, native_views)) in one_piece.into_iter().chain(layouts()).enumerate() {
        let base = HeapConfig { arrays, native_views, ..base.clone() };
        let mut pair = [realtime(&base)[0].clone(), generational(&base)[3 * (number % 3)].clone()];
        for config in &mut pair {
            match &mut config.collector {
                Collector::Realtime(params) => params.helpers = Helpers::One,
                Collector::Generational(GenerationalParams { full: Full::Incremental(params), .. }) => {
                    params.helpers = Helpers::One;
                }
                other => panic!("{other:?} has no helper"),
            }
        }
        all.extend(pair);
    }
    all
}

#[test]
fn nothing_is_lost_while_the_helper_marks() {
    let mut marked = 0;
    for (seed, config) in helped().into_iter().enumerate() {
        let mut program = Program::new(&config, seed as u64);
        let steps = if seed < 4 { 120_000 } else { 25_000 };
        for step in 1..=steps {
            program.step();
            if step % (steps / 4) == 0 {
                program.compare();
            }
        }
        let stats = program.heap.stats();
        marked += stats.concurrent_marking_us;
        assert!(stats.cycles > 0, "{} cycles under {config:?}", stats.cycles);
        program.heap.collect(Cause::Requested, &mut program.roots);
        program.heap.verify(Some(&mut program.roots)).unwrap();
        program.compare();
    }
    assert!(marked > 10_000 || cfg!(not(target_arch = "x86_64")), "the helper has marked for {marked} us");
}

/// While the baton waits for the helper, and while that marks.
#[test]
fn a_heap_is_dropped_while_the_helper_marks() {
    for (seed, config) in helped().into_iter().take(4).enumerate() {
        for (slices, steps) in [(1, 0), (2, 0), (3, 1), (5, 10), (8, 100), (13, 300)] {
            let mut program = Program::new(&config, seed as u64);
            for _ in 0..slices {
                // Each gives the rest to the helper.
                let _ = program.heap.collect_some(&mut Budget::units(100), &mut program.roots);
            }
            (0..steps).for_each(|_| program.step());
            if slices % 2 == 1 {
                // It has begun by then.
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
    }
}

/// A program that does nothing but overwrite references: what the barrier records is passed on to the helper.
#[test]
fn a_flood_of_overwritten_references_is_passed_on() {
    for (seed, config) in helped().into_iter().take(2).enumerate() {
        let mut program = Program::new(&config, seed as u64);
        for _ in 0..400 {
            let _ = program.heap.collect_some(&mut Budget::units(100), &mut program.roots);
            for _ in 0..200 {
                let ((to, start), (from, source)) = (program.entry(), program.entry());
                let value = Reference(program.heap.array_get(program.roots[from], source as u32) as u32);
                program.store(to, start, value);
                program.shadow[to][start] = program.shadow[from][source];
            }
            program.heap.poll(&mut program.roots);
        }
        program.compare();
        program.heap.collect(Cause::Requested, &mut program.roots);
        program.heap.verify(Some(&mut program.roots)).unwrap();
        program.compare();
    }
}
