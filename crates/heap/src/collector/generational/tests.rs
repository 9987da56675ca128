//! Memory that the system refuses at every possible point: in the nursery, while copying, for large objects.

use super::{Barrier, Generational, GenerationalParams, Nursery};
use crate::collector::Collect;
use crate::layout::StorageKind;
use crate::spaces::Contents;
use crate::{
    AllocationError, Cause, Collector, HeapConfig, Reference, RootStack, TypeId, TypeInfo, TypeShape, TypeTable,
    Zeroing,
};

/// Offset of a node's number, and of its first reference.
const NUMBER: u32 = 8;
const FIRST: u32 = 12;
/// References of a node, and of an array of the large kind.
const REFERENCES: u32 = 3;
const ELEMENTS: u32 = 6000;

/// Objects of the heap beside what they must hold: each has a number, and refers to others by theirs.
struct Model {
    heap: Generational,
    node: TypeId,
    array: TypeId,
    roots: RootStack,
    numbers: Vec<usize>,
    objects: Vec<Vec<(u32, usize)>>,
    random: u64,
}

impl Model {
    fn new(config: &HeapConfig) -> Model {
        let types = TypeTable::new().unwrap();
        let of = |shape| types.register(TypeInfo { shape, supertype: None }).unwrap();
        let mut fields = vec![StorageKind::I32];
        fields.resize(1 + REFERENCES as usize, StorageKind::Ref);
        let (node, array) = (of(TypeShape::Struct(fields)), of(TypeShape::Array(StorageKind::Ref)));
        let heap = Generational::new(config, types).unwrap();
        // Object 0 is null.
        let (roots, numbers) = (RootStack::of_nulls(12), vec![0; 12]);
        Model { heap, node, array, roots, numbers, objects: vec![vec![]], random: 1 }
    }

    fn below(&mut self, end: usize) -> usize {
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.random >> 33) as usize % end
    }

    fn keep(&mut self, index: usize, new: Reference) {
        // SAFETY: null, or just allocated; the heap gets these roots in every call.
        unsafe { self.roots.set(index, new) };
    }

    fn step(&mut self) -> Result<(), AllocationError> {
        let index = self.below(self.roots.len());
        match self.below(40) {
            0 => {
                let new = self.heap.allocate_array(self.array, ELEMENTS, Contents::Zeroed, &mut self.roots)?;
                self.keep(index, new);
                self.numbers[index] = self.objects.len();
                self.objects.push(vec![]);
            }
            1..25 => {
                let new = self.heap.allocate_struct(self.node, &mut self.roots)?;
                self.keep(index, new);
                self.numbers[index] = self.objects.len();
                self.heap.core.store(self.roots.get(index), NUMBER, StorageKind::I32, self.objects.len() as u128);
                self.objects.push(vec![]);
            }
            25 => {
                self.keep(index, Reference::NULL);
                self.numbers[index] = 0;
            }
            _ => {
                let from = self.below(self.roots.len());
                if self.roots.get(index).is_null() {
                    return Ok(());
                }
                let is_array = self.heap.core.type_of(self.roots.get(index)) == self.array;
                let slot = self.below(if is_array { ELEMENTS } else { REFERENCES } as usize) as u32;
                let offset = FIRST + 4 * slot;
                let (object, value) = (self.roots.get(index), self.roots.get(from));
                let barrier = self.heap.barrier(object.0);
                if is_array {
                    let positions = (u64::from(4 * slot), u64::from(4 * slot + 4));
                    let elements = self.heap.core.reference_elements(object, slot, 1);
                    let to = self.heap.core.overwritten(elements, positions, barrier);
                    self.heap.core.fill(&to, positions.0, positions.1, value.0.into()).unwrap();
                } else {
                    self.heap.core.store_field(object.0 + offset, value, barrier);
                }
                let slots = &mut self.objects[self.numbers[index]];
                slots.retain(|slot| slot.0 != offset);
                slots.push((offset, self.numbers[from]));
            }
        }
        Ok(())
    }

    /// Compares everything reachable; returns how many objects that is.
    fn compare(&mut self) -> usize {
        self.heap.verify(Some(&mut self.roots)).unwrap();
        let mut met = vec![Reference::NULL; self.objects.len()];
        let mut left: Vec<_> =
            (0..self.roots.len()).map(|index| self.roots.get(index)).zip(self.numbers.iter().copied()).collect();
        let mut count = 0;
        while let Some((reference, number)) = left.pop() {
            assert_eq!(reference.is_null(), number == 0);
            if number == 0 || met[number] == reference {
                continue;
            }
            assert_eq!(met[number], Reference::NULL, "object {number} lies in two places");
            met[number] = reference;
            count += 1;
            let core = &self.heap.core;
            if core.type_of(reference) == self.node {
                assert_eq!(core.load(reference, NUMBER, StorageKind::I32), number as u128);
            }
            let slots = self.objects[number].iter();
            left.extend(
                slots.map(|&(offset, to)| (Reference(core.load(reference, offset, StorageKind::Ref) as u32), to)),
            );
        }
        count
    }
}

/// Runs one program in which the pool's take of number `takes` and all later ones fail, for a while; returns whether it
/// came to that.
fn run(config: &HeapConfig, takes: u32) -> bool {
    let mut model = Model::new(config);
    model.heap.core.pool.takes_left = Some(takes);
    let mut failures = 0;
    for _ in 0..6000 {
        if let Err(error) = model.step() {
            assert!(matches!(error, AllocationError::OutOfMemory { .. }), "{error}");
            model.compare();
            failures += 1;
            let index = failures % model.roots.len();
            model.keep(index, Reference::NULL);
            model.numbers[index] = 0;
            if failures == 5 {
                model.heap.core.pool.takes_left = None;
            }
        }
    }
    model.heap.core.pool.takes_left = None;
    model.heap.collect(Cause::Requested, &mut model.roots);
    let reachable = model.compare();
    assert_eq!(model.heap.stats().live_objects as usize, reachable);
    failures > 0
}

#[test]
fn refused_memory_leaves_a_consistent_heap() {
    let mut failed = 0;
    for barrier in [Barrier::Cards, Barrier::StoreBuffer] {
        for (aging, zeroing, nursery) in
            [(0, Zeroing::Bulk, Nursery::Fixed(256 << 10)), (40, Zeroing::HotPath, Nursery::Appel)]
        {
            let config = HeapConfig {
                zeroing: Some(zeroing),
                collector: Collector::Generational(GenerationalParams {
                    nursery,
                    aging,
                    barrier,
                    ..GenerationalParams::DEFAULT
                }),
                min_bytes: 1 << 20,
                ..HeapConfig::default()
            };
            for takes in 0..60 {
                failed += run(&config, takes) as u32;
            }
        }
    }
    assert!(failed > 40, "memory was refused in {failed} programs");
}

/// Access rights of an address, as the system lists them: `rw-p`, `---p`.
#[cfg(target_os = "linux")]
fn access(address: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [start, end] = [start, end].map(|bound| usize::from_str_radix(bound, 16).unwrap());
        (start..end).contains(&address)
    });
    line.expect("a mapped address").split(' ').nth(1).unwrap().to_owned()
}

#[test]
#[cfg(target_os = "linux")]
fn where_the_heap_is_verified_nothing_is_left_to_find_where_an_object_was() {
    for zeroing in Zeroing::ALL {
        let config = HeapConfig { verify: true, zeroing: Some(*zeroing), ..HeapConfig::default() };
        let mut model = Model::new(&config);
        let place = |model: &Model| model.heap.core.pool.cage.address(model.roots.get(0).0) as usize;
        let new = model.heap.allocate_struct(model.node, &mut model.roots).unwrap();
        // SAFETY: the object has just been allocated, and the roots are passed to the heap each time.
        unsafe { model.roots.set(0, new) };
        let before = place(&model);
        assert_eq!(access(before), "rw-p");
        model.heap.collect(Cause::Requested, &mut model.roots);
        assert_ne!(place(&model), before, "the object has moved");
        assert_eq!((access(before).as_str(), access(place(&model)).as_str()), ("---p", "rw-p"), "{zeroing:?}");
        // The memory serves again.
        for _ in 0..3 {
            model.heap.collect(Cause::Requested, &mut model.roots);
        }
        assert_eq!(access(before), "rw-p", "{zeroing:?}");
    }
}
