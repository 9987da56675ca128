//! The barrier of the heap's own stores: what a snapshot reached when it began is found at its end, by way of the
//! references that have been overwritten meanwhile. The heap checks that by itself.

mod common;

use common::world::World;
use common::{Held, Trusting, layouts, register, snapshot};
use legato_heap::arrays::MappedParams;
use legato_heap::layout::StorageKind;
use legato_heap::{Arrays, Cause, Heap, HeapConfig, Reference, TypeShape, TypeTable};

#[test]
fn no_overwritten_reference_is_missed() {
    let base = HeapConfig { min_bytes: 512 << 10, ..HeapConfig::default() };
    let mut configs = vec![base.clone(), HeapConfig { arrays: Arrays::Mapped(MappedParams::DEFAULT), ..base.clone() }];
    let with = |(arrays, native_views)| HeapConfig { arrays, native_views, ..base.clone() };
    configs.extend(layouts().into_iter().map(with));
    for config in configs.iter().flat_map(snapshot).filter(|config| config.validate().is_ok()) {
        World::run(&config, 1, 2500);
    }
}

#[test]
#[should_panic(expected = "was lost by a store that no barrier has seen")]
fn a_store_without_the_barrier_is_found() {
    let types = TypeTable::new().unwrap();
    let id = register(&types, TypeShape::Struct(vec![StorageKind::Ref]));
    let config = HeapConfig { collector: legato_heap::Collector::Snapshot, ..HeapConfig::default() };
    let mut heap = Heap::new(&config, types).unwrap();
    let mut roots = Held::new();
    let object = heap.allocate_struct(id, &mut roots).unwrap();
    roots.push(object);
    let value = heap.allocate_struct(id, &mut roots).unwrap();
    // SAFETY: both are live.
    unsafe { heap.store_reference(object, 8, value) };
    // A cycle begins.
    heap.collect(Cause::Requested, &mut roots);
    // SAFETY: the object has a field there.
    unsafe { heap.object_address(object).add(8).cast::<Reference>().write(Reference::NULL) };
    heap.collect(Cause::Requested, &mut roots);
}

/// The copy that compiled code makes where both arrays lie in one piece.
#[test]
fn a_quick_copy_is_seen() {
    let types = TypeTable::new().unwrap();
    let id = register(&types, TypeShape::Array(StorageKind::Ref));
    let config = HeapConfig { collector: legato_heap::Collector::Snapshot, ..HeapConfig::default() };
    let mut heap = Heap::new(&config, types).unwrap();
    let mut roots = Held::new();
    let [array, nulls, value] = [4, 4, 0].map(|length| {
        let array = heap.allocate_array(id, length, &mut roots).unwrap();
        roots.push(array);
        array
    });
    heap.set(array, 2, value.0.into()).unwrap();
    roots.pop();
    heap.collect(Cause::Requested, &mut roots);
    // SAFETY: live arrays of references.
    assert_eq!(unsafe { heap.quick_array_copy(array, 1, nulls, 1, 3) }, Some(true));
    heap.collect(Cause::Requested, &mut roots);
}
