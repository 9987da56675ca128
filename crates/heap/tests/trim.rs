//! `Heap::trim`: what is free goes back to the system, what lives stays as it is, and the heap works as before.

mod common;

use common::{all, copy_out, register};
use legato_heap::layout::StorageKind;
use legato_heap::{Heap, HeapConfig, NoRoots, Reference, RootStack, TypeId, TypeShape, TypeTable};

/// Elements of each array.
const LENGTH: u32 = 1000;

fn allocate(heap: &mut Heap, bytes: TypeId, number: u32, roots: &mut RootStack) -> Reference {
    let array = heap.allocate_array(bytes, LENGTH, roots).unwrap();
    // SAFETY: the array has just been allocated.
    unsafe { heap.array_fill(array, 0, u128::from(number), LENGTH) }.unwrap();
    array
}

#[test]
fn what_is_free_goes_back_and_what_lives_stays() {
    let config = HeapConfig { min_bytes: 32 << 20, max_bytes: Some(256 << 20), ..HeapConfig::default() };
    for config in all(config) {
        let types = TypeTable::new().unwrap();
        let bytes = register(&types, TypeShape::Array(StorageKind::I8));
        let mut heap = Heap::new(&config, types).unwrap();
        let mut roots = RootStack::new();
        for round in 0..2u64 {
            // The first ones live: nothing moves in most of these heaps.
            for number in 0..24_000 {
                let array = allocate(&mut heap, bytes, number, &mut roots);
                if number < 1500 {
                    // SAFETY: the array has just been allocated, and the heap gets these roots in every call.
                    unsafe { roots.push(array) };
                }
            }
            let before = heap.stats();
            let released = heap.trim(&mut roots);
            let after = heap.stats();
            assert_eq!(before.committed_bytes - after.committed_bytes, released, "{config:?}");
            let lives = (round + 1) * 1500 * u64::from(LENGTH);
            assert!(
                after.committed_bytes < lives * 3 / 2 + (1 << 20),
                "{config:?}: {} for {lives}",
                after.committed_bytes
            );
            assert!(released > 128 << 10, "{config:?}: {released}");
            heap.verify(Some(&mut roots)).unwrap();
            for index in 0..roots.len() {
                let number = (index % 1500) as u8;
                assert!(
                    copy_out(&mut heap, roots.get(index)).iter().all(|&byte| byte == number),
                    "{config:?}: {index}"
                );
            }
        }
        assert!(heap.trim(&mut NoRoots) > 2 << 20, "{config:?}");
        assert!(heap.stats().committed_bytes < 1 << 20, "{config:?}: {}", heap.stats().committed_bytes);
    }
}
