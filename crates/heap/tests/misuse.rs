//! Methods, misused: panics, or rubbish that is read, but no access outside of the heap's memory, and no damage that a
//! collection stumbles over. The `unsafe` ones are given live objects, of wrong kinds and at wrong places.

mod common;

use common::{Held, Random, Trusting, all_layouts, register};
use legato_heap::embed::{Error, ObjectHeap};
use legato_heap::layout::{INLINE_LENGTH_OFFSET, StorageKind};
use legato_heap::{Cause, Heap, HeapConfig, NoRoots, Reference, RootStack, TypeId, TypeShape, TypeTable};
use proptest::prelude::*;
use std::cell::RefCell;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One object of each shape, with numbers in them that look like types and lengths.
struct Scene {
    heap: Heap,
    roots: Held,
    structure: TypeId,
    exception: TypeId,
    references: TypeId,
}

const LENGTH: u32 = 20_000;

fn scene(config: &HeapConfig) -> Scene {
    use StorageKind::{F32, I8, I32, I64, Ref};
    let types = TypeTable::new().unwrap();
    let structure = register(&types, TypeShape::Struct(vec![I32, Ref, I64, F32]));
    let exception = register(&types, TypeShape::Exception(vec![Ref, I32]));
    let [words, references, bytes, longs] = [I32, Ref, I8, I64].map(|kind| register(&types, TypeShape::Array(kind)));
    let mut heap = Heap::new(config, types).unwrap();
    let mut roots = Held::new();
    for id in [structure, exception] {
        let new = heap.allocate_struct(id, &mut roots).unwrap();
        roots.push(new);
    }
    for (id, length) in [(words, LENGTH), (references, LENGTH), (bytes, 77), (longs, 3)] {
        let new = heap.allocate_array(id, length, &mut roots).unwrap();
        roots.push(new);
    }
    let external = heap.allocate_external(Box::new(5), &mut roots).unwrap();
    roots.push(external);
    // Whoever takes the middle of this array for an object finds types that there are, and lengths that are wrong.
    let ids = [structure, exception, words, references, bytes, longs, TypeTable::EXTERNAL];
    for index in 0..LENGTH {
        // The elements begin four bytes behind a multiple of eight.
        let bits = match index % 4 {
            1 => ids[(index / 4) as usize % ids.len()].0,
            3 => u32::MAX >> (index % 31),
            _ => 0x8000_0000 | index,
        };
        heap.set(roots[2], index, bits.into()).unwrap();
    }
    Scene { heap, roots, structure, exception, references }
}

/// The message of a panic; none where there is none.
fn panics(act: impl FnOnce()) -> Option<String> {
    let error = catch_unwind(AssertUnwindSafe(act)).err()?;
    Some(error.downcast_ref::<String>().cloned().unwrap_or_else(|| error.downcast_ref::<&str>().unwrap().to_string()))
}

#[track_caller]
fn refused(says: &str, act: impl FnOnce()) {
    let message = panics(act).unwrap_or_else(|| panic!("accepted: {says}"));
    assert!(message.contains(says), "{message}");
}

fn configs() -> Vec<HeapConfig> {
    let all = all_layouts(HeapConfig { max_bytes: Some(64 << 20), ..HeapConfig::default() });
    // One of each collector under the layouts that differ most.
    all.into_iter().step_by(5).chain([HeapConfig::default()]).collect()
}

#[test]
fn numbers_are_no_references() {
    use StorageKind::{F32, I32, I64, Ref};
    for config in configs() {
        let Scene { mut heap, mut roots, references, .. } = scene(&config);
        let [structure, exception, words, array] = [roots[0], roots[1], roots[2], roots[3]];
        // What there is can be written.
        heap.put(structure, 8, I32, 1);
        heap.put(structure, 24, F32, 1);
        heap.put(exception, 8, I32, 7);
        heap.put(exception, 16, I32, 7);
        // References are not made of numbers.
        // SAFETY: the objects are live.
        refused("use store_reference", || unsafe { heap.store(structure, 12, Ref, 0x1234_5678) });
        for kind in [I32, F32, I64] {
            // SAFETY: the objects are live.
            unsafe {
                refused("has no field", || heap.store(structure, 12, kind, 0x1234_5678));
                refused("has no field", || heap.store(exception, 12, kind, 0x1234_5678));
            }
        }
        for (offset, kind) in [(8, I64), (9, I32), (4, I32), (0, I32), (28, I32), (1 << 30, I32), (u32::MAX, I32)] {
            // SAFETY: the objects are live.
            refused("has no field", || unsafe { heap.store(structure, offset, kind, 0x1234_5678) });
        }
        // Neither a length nor a host value's slot is a field.
        // SAFETY: the objects are live.
        unsafe {
            refused("has no field", || heap.store(words, 8, I32, 1 << 30));
            refused("has no field", || heap.store(words, 12, I32, 1));
            refused("has no field", || heap.store(roots[6], 8, I32, 9));
            refused("an array of references", || heap.array_set(array, 3, 0x1234_5678).unwrap());
            refused("an array of references", || heap.array_fill(array, 0, 0x1234_5678, LENGTH).unwrap());
            refused("an array of references", || heap.array_write_bytes(array, 0, &[1; 8]).unwrap());
            refused("an array of references", || heap.array_copy(array, 0, words, 0, 9).unwrap());
            refused("an array of references", || heap.array_copy(words, 0, array, 0, 9).unwrap());
        }
        refused("an array of references", || _ = heap.view(&mut [array], true, &mut roots));
        let bytes = vec![1; 4 * LENGTH as usize];
        refused("an array of references", || heap.copy_back(&mut [array], &bytes, &mut roots).unwrap());
        // Nor numbers of references.
        refused("references for", || heap.write_references(roots[5], 0, &[]).unwrap());
        refused("has no field", || heap.put(structure, 8, Ref, 0));
        heap.put(structure, 12, Ref, array.0.into());
        heap.set(array, LENGTH - 1, structure.0.into()).unwrap();
        heap.verify(Some(&mut roots)).unwrap();
        heap.collect(Cause::Requested, &mut roots);
        heap.verify(Some(&mut roots)).unwrap();
        assert_eq!(heap.type_of(Reference(heap.load(roots[0], 12, Ref) as u32)), references);
    }
}

#[test]
fn ranges_end_with_the_array() {
    for config in configs() {
        let Scene { mut heap, roots, .. } = scene(&config);
        let words = roots[2];
        for (start, length) in [(LENGTH, 1), (0, LENGTH + 1), (u32::MAX, 1), (1, u32::MAX), (u32::MAX, u32::MAX)] {
            // SAFETY: the objects are live.
            unsafe {
                refused("of an array of", || heap.array_fill(words, start, 1, length).unwrap());
                refused("of an array of", || heap.array_copy(words, start, words, 0, length).unwrap());
                refused("of an array of", || heap.array_copy(words, 0, words, start, length).unwrap());
            }
        }
        refused("of an array of", || _ = heap.array_get(words, LENGTH));
        refused("of an array of", || heap.array_read_bytes(words, LENGTH, &mut [0; 4]));
        // SAFETY: the objects are live.
        refused("no whole elements", || unsafe { heap.array_write_bytes(words, 0, &[0; 5]) }.unwrap());
    }
}

/// Reads everything that can be read through a reference, whatever that is. Rubbish is fine, and so are panics.
fn read_all(heap: &mut Heap, reference: Reference) {
    let length = panics(|| _ = black_box(heap.array_length(reference))).is_none().then(|| heap.array_length(reference));
    let ends = [0, 1, 16, 64, length.unwrap_or(9).wrapping_sub(1), length.unwrap_or(9) / 2, u32::MAX];
    drop(panics(|| _ = black_box(heap.type_of(reference))));
    drop(panics(|| _ = black_box(heap.array_element_kind(reference))));
    drop(panics(|| _ = black_box(heap.object_address(reference))));
    drop(panics(|| _ = black_box(heap.external(reference).is_some())));
    drop(panics(|| _ = black_box(heap.external_mut(reference).is_some())));
    for end in ends {
        for kind in [StorageKind::I8, StorageKind::I32, StorageKind::Ref, StorageKind::V128] {
            drop(panics(|| _ = black_box(heap.load(reference, end, kind))));
        }
        drop(panics(|| _ = black_box(heap.array_get(reference, end))));
        for bytes in [0, 1, 16, 4096] {
            drop(panics(|| heap.array_read_bytes(reference, end, &mut vec![0; bytes])));
        }
    }
    drop(panics(|| {
        if heap.array_length(reference) < 1 << 20 {
            black_box(common::copy_out(heap, reference));
        }
    }));
}

#[test]
fn rubbish_is_read_from_the_heap_alone() {
    // Thousands of panics are expected: their messages would hide the ones that are not.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = catch_unwind(|| {
        for (number, config) in configs().into_iter().enumerate() {
            let Scene { mut heap, mut roots, .. } = scene(&config);
            let mut random = Random(number as u64);
            let around: Vec<u32> = roots.iter().map(|root| root.0).collect();
            let address =
                |root: Reference, heap: &Heap| (heap.object_address(root) as usize - heap.cage_base() as usize) as u32;
            let words = address(roots[2], &heap);
            for step in 0..400 {
                let number = match step % 4 {
                    // The middle of the array of numbers that look like objects.
                    0 => words + 8 * random.below(LENGTH as usize / 2) as u32,
                    1 => around[random.below(around.len())].wrapping_add(random.below(256) as u32).wrapping_sub(128),
                    2 => random.next() as u32,
                    _ => u32::MAX - random.below(4096) as u32,
                };
                read_all(&mut heap, Reference(number));
            }
            // Stale ones, too.
            heap.collect(Cause::Requested, &mut NoRoots);
            let stale: Vec<Reference> = roots.drain(..).collect();
            for reference in stale {
                read_all(&mut heap, reference);
            }
            heap.verify(Some(&mut NoRoots)).unwrap();
        }
        let heap = RefCell::new(scene(&HeapConfig::default()).heap);
        proptest!(ProptestConfig::with_cases(2000), |(number: u32)| {
            read_all(&mut heap.borrow_mut(), Reference(number));
        });
    });
    std::panic::set_hook(hook);
    outcome.unwrap();
}

#[test]
fn a_stack_of_roots_keeps_what_is_on_it() {
    for config in configs() {
        let Scene { mut heap, structure, exception, .. } = scene(&config);
        let mut roots = RootStack::new();
        assert!(roots.is_empty() && roots.pop().is_none());
        for id in [structure, exception, structure] {
            let new = heap.allocate_struct(id, &mut roots).unwrap();
            // SAFETY: it has just been allocated; the heap gets these roots in every call.
            unsafe { roots.push(new) };
        }
        heap.collect(Cause::Requested, &mut roots);
        heap.verify(Some(&mut roots)).unwrap();
        assert_eq!(heap.stats().live_objects, 3);
        assert_eq!((heap.type_of(roots.get(1)), roots.len()), (exception, 3));
        // SAFETY: null is no object.
        unsafe { roots.set(1, Reference::NULL) };
        roots.truncate(2);
        heap.collect(Cause::Requested, &mut roots);
        assert_eq!(heap.stats().live_objects, 1);
        assert_eq!(roots.pop(), Some(Reference::NULL));
    }
}

#[test]
fn an_inline_length_that_leads_out_of_an_array_is_noticed() {
    let mut config = HeapConfig::default();
    for (key, value) in [("arrays", "zrays"), ("first-n", "0"), ("leaf", "256"), ("max", "64M")] {
        config.set(key, value).unwrap();
    }
    let Scene { mut heap, roots, .. } = scene(&config);
    let words = roots[2];
    heap.set(words, LENGTH - 1, 5).unwrap();
    for wrong in [LENGTH + 1, u32::MAX, 1] {
        // SAFETY: the word lies in the header of a live array. Nothing but the calls below looks at it while it is
        // wrong.
        let right = unsafe {
            let inline_length = heap.object_address(words).add(INLINE_LENGTH_OFFSET as usize).cast::<u32>();
            inline_length.replace(wrong)
        };
        refused("is no array", || {
            black_box(heap.array_get(words, LENGTH - 1));
        });
        // SAFETY: as it was.
        unsafe { heap.object_address(words).add(INLINE_LENGTH_OFFSET as usize).cast::<u32>().write(right) };
    }
    assert_eq!(heap.array_get(words, LENGTH - 1), 5);
}

#[test]
fn host_values_may_keep_more_than_can_be_counted() -> Result<(), Error> {
    let mut heap = ObjectHeap::new(&HeapConfig { verify: true, ..HeapConfig::default() })?;
    heap.scope(|scope| -> Result<(), Error> {
        for bytes in [1, u64::MAX, u64::MAX, 1 << 63] {
            scope.new_sized_host("value", bytes)?;
        }
        scope.verify().unwrap();
        Ok(())
    })?;
    heap.collect();
    heap.scope(|scope| scope.new_sized_host("value", u64::MAX).map(|_| ()))?;
    heap.collect();
    heap.verify().unwrap();
    Ok(())
}
