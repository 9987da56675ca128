//! A heap beside a shadow of it in ordinary Rust, on which random steps are done to both.

mod roots;
mod weak;

use super::{Random, Trusting, allocate_inline, copy_out, register, store_element_inline, store_inline};
use legato_heap::layout::StorageKind;
use legato_heap::{AccessPlan, AllocationError, Cause, Heap, HeapConfig, Reference, TypeId, TypeShape, TypeTable};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A slot of a shadow object.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Value {
    Null,
    Immediate(i32),
    Object(usize),
    Bits(u128),
}

/// What an object of the heap must look like.
struct Shadow {
    id: TypeId,
    /// Offset of each field, or index of each element; kind and value.
    slots: Vec<(u32, StorageKind, Value)>,
    /// A host value's number.
    external: Option<usize>,
}

/// A host value that counts the living.
struct Counted(usize, Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Kinds of steps; from this one on, those about weak references.
pub const STEPS: usize = 26;
const WEAK_STEPS: usize = 23;

pub struct World {
    pub heap: Heap,
    plan: AccessPlan,
    pub random: Random,
    structs: Vec<(TypeId, Vec<StorageKind>)>,
    arrays: Vec<(TypeId, StorageKind)>,
    shadows: HashMap<usize, Shadow>,
    next: usize,
    roots: roots::RootSet,
    shadow_roots: Vec<Value>,
    weak: weak::Shadow,
    living: Arc<AtomicUsize>,
    pub inline: usize,
    pub out_of_memory: usize,
    pub longest: usize,
}

impl World {
    pub fn new(config: &HeapConfig, seed: u64) -> World {
        use StorageKind::{F64, I8, I32, I64, Immortal, Ref, V128};
        let types = TypeTable::new().unwrap();
        let mut random = Random(seed);
        let mut structs = vec![vec![], vec![Ref], vec![Ref, Ref], vec![I8, Ref, I64, Ref, V128], [Ref; 90].to_vec()];
        for _ in 0..6 {
            let fields = random.below(30);
            structs.push((0..fields).map(|_| [Ref, Ref, I8, I32, F64, Immortal][random.below(6)]).collect());
        }
        let structs = structs.into_iter().map(|fields| (register(&types, TypeShape::Struct(fields.clone())), fields));
        let structs = structs.collect();
        let arrays =
            [Ref, Ref, I8, StorageKind::I16, I64, V128].map(|kind| (register(&types, TypeShape::Array(kind)), kind));
        World {
            heap: Heap::new(config, types).unwrap(),
            plan: config.access_plan(),
            random,
            structs,
            arrays: arrays.to_vec(),
            shadows: HashMap::new(),
            next: 0,
            roots: roots::RootSet { slots: vec![Reference::NULL; 24] },
            shadow_roots: vec![Value::Null; 24],
            weak: weak::Shadow::default(),
            living: Arc::default(),
            inline: 0,
            out_of_memory: 0,
            longest: usize::MAX,
        }
    }

    /// Takes `steps` random steps in a new world, and settles it eight times on the way.
    pub fn run(config: &HeapConfig, seed: u64, steps: usize) -> World {
        // Shown where the test fails: the last one is the one that did.
        println!("seed {seed}, {config:?}");
        let mut world = World::new(config, seed);
        for step in 1..=steps {
            world.step();
            if step % (steps / 8) == 0 {
                world.settle();
            }
        }
        world
    }

    /// A random root that holds an object, with its number.
    fn pick(&mut self) -> Option<(Reference, usize)> {
        let index = self.random.below(self.shadow_roots.len());
        match self.shadow_roots[index] {
            Value::Object(number) => Some((self.roots.slots[index], number)),
            _ => None,
        }
    }

    /// A random value for a slot of `kind`, with its bits.
    fn value(&mut self, kind: StorageKind) -> (Value, u128) {
        if kind != StorageKind::Ref {
            let bits = self.random.next() as u128 | (self.random.next() as u128) << 64;
            let bits = bits & (u128::MAX >> (128 - 8 * kind.bytes()));
            return (Value::Bits(bits), bits);
        }
        match (self.random.below(8), self.pick()) {
            (0, _) => {
                let number = self.random.next() as i32 >> 1;
                (Value::Immediate(number), Reference::from_i31(number).0 as u128)
            }
            (1, _) | (_, None) => (Value::Null, 0),
            (_, Some((reference, number))) => (Value::Object(number), reference.0 as u128),
        }
    }

    fn put_root(&mut self, reference: Reference, shadow: Shadow) {
        let index = self.random.below(self.shadow_roots.len());
        self.shadows.insert(self.next, shadow);
        self.set_root(index, reference);
        self.shadow_roots[index] = Value::Object(self.next);
        self.next += 1;
    }

    fn allocated(&mut self, result: Result<Reference, AllocationError>) -> Option<Reference> {
        match result {
            Ok(reference) => Some(reference),
            Err(AllocationError::OutOfMemory { .. }) => {
                self.out_of_memory += 1;
                self.heap.verify(Some(&mut self.roots)).unwrap();
                // What a program would do: let go of something.
                let index = self.random.below(self.shadow_roots.len());
                self.set_root(index, Reference::NULL);
                self.shadow_roots[index] = Value::Null;
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn allocate(&mut self, id: TypeId, length: Option<u32>) -> Option<Reference> {
        if let Some(reference) = allocate_inline(&self.heap, &self.plan, id, length) {
            self.inline += 1;
            return Some(reference);
        }
        let result = match length {
            None => self.heap.allocate_struct(id, &mut self.roots),
            Some(length) => self.heap.allocate_array(id, length, &mut self.roots),
        };
        self.allocated(result)
    }

    fn fresh(kind: StorageKind) -> Value {
        if kind == StorageKind::Ref { Value::Null } else { Value::Bits(0) }
    }

    /// A random step, and perhaps some about weak references before it.
    pub fn step(&mut self) {
        loop {
            let kind = self.random.below(STEPS);
            self.step_of(kind);
            if kind < WEAK_STEPS {
                return;
            }
        }
    }

    /// A step of one kind out of [`STEPS`], otherwise random.
    pub fn step_of(&mut self, kind: usize) {
        match kind {
            0..6 => {
                let (id, fields) = self.structs[self.random.below(self.structs.len())].clone();
                let offsets = self.heap.types().layout(id).unwrap().offsets.clone();
                let slots = offsets.into_iter().zip(fields).map(|(offset, kind)| (offset, kind, World::fresh(kind)));
                let slots = slots.collect();
                if let Some(reference) = self.allocate(id, None) {
                    self.put_root(reference, Shadow { id, slots, external: None });
                }
            }
            6..9 => {
                let (id, kind) = self.arrays[self.random.below(self.arrays.len())];
                let longest = [4, 40, 3000, 20000][self.random.below(4)].min(self.longest);
                let length = self.random.below(longest) as u32;
                let slots = (0..length).map(|index| (index, kind, World::fresh(kind))).collect();
                if let Some(reference) = self.allocate(id, Some(length)) {
                    assert_eq!(self.heap.array_length(reference), length);
                    self.put_root(reference, Shadow { id, slots, external: None });
                }
            }
            9 => {
                let number = self.next;
                self.living.fetch_add(1, Ordering::Relaxed);
                let value = Box::new(Counted(number, self.living.clone()));
                let result = self.heap.allocate_external(value, &mut self.roots);
                if let Some(reference) = self.allocated(result) {
                    let shadow = Shadow { id: TypeTable::EXTERNAL, slots: vec![], external: Some(number) };
                    self.put_root(reference, shadow);
                }
            }
            10..16 => {
                let Some((reference, number)) = self.pick() else { return };
                let count = self.shadows[&number].slots.len();
                if count > 0 {
                    let index = self.random.below(count);
                    let (offset, kind, _) = self.shadows[&number].slots[index];
                    let (value, bits) = self.value(kind);
                    let inline = self.random.below(2) == 0;
                    let stored = match (self.is_array(number), kind) {
                        (true, _) if inline => {
                            store_element_inline(&mut self.heap, &self.plan, reference, kind, offset, bits)
                        }
                        (true, _) => self.heap.set(reference, offset, bits),
                        (false, StorageKind::Ref) if inline => {
                            store_inline(&mut self.heap, &self.plan, reference, offset, Reference(bits as u32));
                            Ok(())
                        }
                        (false, _) => {
                            self.heap.put(reference, offset, kind, bits);
                            Ok(())
                        }
                    };
                    if self.allocated(stored.map(|()| reference)).is_some() {
                        self.shadows.get_mut(&number).unwrap().slots[index].2 = value;
                    }
                }
            }
            16 => self.bulk(),
            17 => {
                // A field's object becomes a root, so that inner parts of graphs are reached.
                let Some((reference, number)) = self.pick() else { return };
                let slots = &self.shadows[&number].slots;
                let inner = slots.iter().find(|slot| matches!(slot.2, Value::Object(_))).copied();
                if let Some((offset, kind, value)) = inner {
                    let index = self.random.below(self.shadow_roots.len());
                    let found = Reference(self.load(number, reference, offset, kind) as u32);
                    self.set_root(index, found);
                    self.shadow_roots[index] = value;
                }
            }
            18 => {
                let index = self.random.below(self.shadow_roots.len());
                self.set_root(index, Reference::NULL);
                self.shadow_roots[index] = Value::Null;
            }
            19 => self.heap.poll(&mut self.roots),
            20 => self.allocate_written(),
            21 => self.view(),
            22 => self.churn(),
            WEAK_STEPS => self.make_weak(),
            24 => self.get_weak(),
            _ => self.drop_weak(),
        }
    }

    /// An array that is not zeroed: its elements are written at once, without a barrier.
    fn allocate_written(&mut self) {
        let (id, kind) = self.arrays[self.random.below(self.arrays.len())];
        let longest = [4, 40, 3000, 20000][self.random.below(4)].min(self.longest);
        let length = self.random.below(longest) as u32;
        // SAFETY: all elements are written below.
        let result = unsafe { self.heap.allocate_array_uninitialised(id, length, &mut self.roots) };
        let Some(array) = self.allocated(result) else { return };
        let values: Vec<_> = (0..length).map(|_| self.value(kind)).collect();
        let size = kind.bytes() as usize;
        let bytes: Vec<u8> = values.iter().flat_map(|(_, bits)| bits.to_le_bytes()[..size].to_vec()).collect();
        let written = if kind == StorageKind::Ref {
            let references: Vec<_> = values.iter().map(|(_, bits)| Reference(*bits as u32)).collect();
            self.heap.initialise_references(array, 0, &references)
        } else {
            self.heap.write_bytes(array, 0, &bytes)
        };
        if self.allocated(written.map(|()| array)).is_some() {
            let slots = (0..).zip(values).map(|(index, (value, _))| (index, kind, value)).collect();
            self.put_root(array, Shadow { id, slots, external: None });
        }
    }

    /// Reads all of an array of numbers, and writes a part of it, as native code does.
    fn view(&mut self) {
        let Some((array, number)) = self.pick() else { return };
        let slots = &self.shadows[&number].slots;
        if !self.is_array(number) || slots.is_empty() || slots[0].1 == StorageKind::Ref {
            return;
        }
        let (length, size) = (slots.len(), slots[0].1.bytes() as usize);
        let first = self.random.below(length);
        let end = first + self.random.below(length - first + 1);
        let values: Vec<_> = (first..end).map(|_| self.value(self.shadows[&number].slots[0].1)).collect();
        let mut kept = [array];
        let view = self.heap.view(&mut kept, true, &mut self.roots);
        let mut copy = Vec::new();
        let bytes = match view {
            // SAFETY: the view is writable, and nothing else happens to the heap while the slice lives.
            Some(address) => unsafe { std::slice::from_raw_parts_mut(address.as_ptr(), length * size) },
            None => {
                copy = copy_out(&mut self.heap, kept[0]);
                &mut copy[..]
            }
        };
        let shadow = self.shadows.get_mut(&number).unwrap();
        for (slot, bytes) in shadow.slots.iter().zip(bytes.chunks(size)) {
            let mut bits = [0; 16];
            bits[..size].copy_from_slice(bytes);
            assert_eq!(slot.2, Value::Bits(u128::from_le_bytes(bits)));
        }
        for (index, (_, bits)) in (first..end).zip(&values) {
            bytes[index * size..][..size].copy_from_slice(&bits.to_le_bytes()[..size]);
        }
        let written = match view {
            Some(_) => Ok(()),
            None => self.heap.copy_back(&mut kept, &copy, &mut self.roots),
        };
        match written {
            Ok(()) => {
                let slots = &mut self.shadows.get_mut(&number).unwrap().slots[first..end];
                slots.iter_mut().zip(values).for_each(|(slot, (value, _))| slot.2 = value);
            }
            // Some may have been written: nobody knows this array any more.
            Err(_) => {
                for index in 0..self.shadow_roots.len() {
                    if self.shadow_roots[index] == Value::Object(number) {
                        self.set_root(index, Reference::NULL);
                        self.shadow_roots[index] = Value::Null;
                    }
                }
                self.forget_weak(number);
                self.allocated(Err(written.unwrap_err()));
            }
        }
    }

    fn is_array(&self, number: usize) -> bool {
        self.arrays.iter().any(|(id, _)| *id == self.shadows[&number].id)
    }

    /// The bits of a slot.
    fn load(&self, number: usize, reference: Reference, offset: u32, kind: StorageKind) -> u128 {
        match self.is_array(number) {
            true => self.heap.array_get(reference, offset),
            false => self.heap.load(reference, offset, kind),
        }
    }

    /// Garbage, enough for some collections of a small nursery.
    fn churn(&mut self) {
        let (id, _) = self.structs[4];
        let most = if self.heap.config().stress.is_some() { 10 } else { 1000 };
        for _ in 0..self.random.below(most) {
            if self.allocate(id, None).is_none() {
                break;
            }
        }
    }

    /// Fills or copies a part of an array.
    fn bulk(&mut self) {
        let (Some((a, to)), Some((b, from))) = (self.pick(), self.pick()) else { return };
        if !self.is_array(to) || self.shadows[&to].slots.is_empty() {
            return;
        }
        let start = self.random.below(self.shadows[&to].slots.len());
        let length = self.random.below(self.shadows[&to].slots.len() - start + 1);
        let kind = self.shadows[&to].slots[0].1;
        let is_copy = self.is_array(from) && self.shadows[&from].slots.first().is_some_and(|slot| slot.1 == kind);
        let length = if is_copy { length.min(self.shadows[&from].slots.len()) } else { length };
        let (value, bits) = self.value(kind);
        // The value may be moved by the collection that makes room.
        let filled = if matches!(value, Value::Object(_)) { Reference(bits as u32) } else { Reference::NULL };
        let mut kept = [a, b, filled];
        let room = self.heap.reserve_leaves(start as u32, length as u32, &mut kept, &mut self.roots);
        let [a, b, filled] = kept;
        if self.allocated(room.map(|()| a)).is_none() {
            return;
        }
        let bits = if matches!(value, Value::Object(_)) { filled.0.into() } else { bits };
        if is_copy {
            let source = self.random.below(self.shadows[&from].slots.len() - length + 1);
            self.heap.copy((a, start as u32), (b, source as u32), length as u32).unwrap();
            let values: Vec<_> = self.shadows[&from].slots[source..source + length].iter().map(|slot| slot.2).collect();
            let slots = &mut self.shadows.get_mut(&to).unwrap().slots[start..start + length];
            slots.iter_mut().zip(values).for_each(|(slot, value)| slot.2 = value);
        } else {
            // Zeros too: they are what lazy leaves are about.
            let (value, bits) = if self.random.below(3) == 0 { (World::fresh(kind), 0) } else { (value, bits) };
            self.heap.fill(a, start as u32, bits, length as u32).unwrap();
            let slots = &mut self.shadows.get_mut(&to).unwrap().slots[start..start + length];
            slots.iter_mut().for_each(|slot| slot.2 = value);
        }
    }

    /// Compares everything reachable, and forgets what not even a weak reference leads to. Returns how many objects are
    /// reachable.
    pub fn compare(&mut self) -> usize {
        let mut met: HashMap<usize, Reference> = HashMap::new();
        let roots = self.shadow_roots.iter().zip(&self.roots.slots);
        self.compare_from(roots.map(|(&value, &reference)| (value, reference)).collect(), &mut met);
        let reachable = met.len();
        let weakly = self.weakly_reachable(&met);
        self.compare_from(weakly, &mut met);
        self.shadows.retain(|number, _| met.contains_key(number));
        reachable
    }

    /// Compares everything that these lead to but what has been met.
    fn compare_from(&self, from: Vec<(Value, Reference)>, met: &mut HashMap<usize, Reference>) {
        let mut left: Vec<_> = from.into_iter().map(|(value, reference)| (value, u128::from(reference.0))).collect();
        while let Some((value, bits)) = left.pop() {
            let number = match value {
                Value::Null => {
                    assert_eq!(bits, 0);
                    continue;
                }
                Value::Immediate(number) => {
                    assert_eq!(Reference(bits as u32).i31(), Some(number));
                    continue;
                }
                Value::Bits(expected) => {
                    assert_eq!(bits, expected);
                    continue;
                }
                Value::Object(number) => number,
            };
            let reference = Reference(bits as u32);
            if let Some(&before) = met.get(&number) {
                // Bits differ where one of them is to an old copy.
                assert!(self.heap.same(before, reference), "{before:?} and {reference:?} are one object");
                assert_eq!(self.heap.current(before), self.heap.current(reference));
                continue;
            }
            met.insert(number, reference);
            let shadow = &self.shadows[&number];
            assert_eq!(self.heap.type_of(reference), shadow.id);
            let value = self.heap.external(reference).map(|value| value.downcast_ref::<Counted>().unwrap().0);
            assert_eq!(value, shadow.external);
            left.extend(
                shadow.slots.iter().map(|&(offset, kind, value)| (value, self.load(number, reference, offset, kind))),
            );
        }
    }

    /// Collects, then checks that exactly the reachable objects and host values are alive.
    pub fn settle(&mut self) {
        self.heap.collect(Cause::Requested, &mut self.roots);
        self.heap.verify(Some(&mut self.roots)).unwrap();
        let reachable = self.compare();
        assert_eq!(self.heap.stats().live_objects as usize, reachable);
        assert_eq!(self.shadows.len(), reachable, "what is only weakly reachable has died");
        self.check_told();
        assert_eq!(self.heap.stats().weak_references as usize, self.weak.count());
        let externals = self.shadows.values().filter(|shadow| shadow.external.is_some()).count();
        assert_eq!(self.living.load(Ordering::Relaxed), externals);
        assert_eq!(self.heap.stats().externals as usize, externals);
    }
}
