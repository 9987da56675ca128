//! Heaps where address space is limited, as by `ulimit -v`. The only test of its process, which it limits.
#![cfg(target_os = "linux")]

mod common;

use common::{Held, Trusting, copy_out, layouts, register};
use legato_heap::arrays::MappedParams;
use legato_heap::layout::StorageKind;
use legato_heap::{
    AddressSpace, AllocationError, Arrays, Cause, Heap, HeapConfig, HeapError, NativeViews, NoRoots, Reference, TypeId,
    TypeShape, TypeTable,
};

const MIB: u64 = 1 << 20;

/// Leaves this process so many bytes of address space.
fn leave(bytes: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls read or write `limit` alone.
    let set = |limit: &libc::rlimit| unsafe { libc::setrlimit(libc::RLIMIT_AS, limit) };
    // SAFETY: as above.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) }, 0);
    // Some limit there must be, or the process is not asked what it uses.
    limit.rlim_cur = limit.rlim_max.min(1 << 46);
    assert_eq!(set(&limit), 0);
    limit.rlim_cur = AddressSpace::of_process().unwrap().used_bytes + bytes;
    assert_eq!(set(&limit), 0);
}

/// A new array of bytes, all of them this one.
fn filled(heap: &mut Heap, id: TypeId, length: u32, byte: u8, roots: &mut Held) -> Result<Reference, AllocationError> {
    let mut kept = [heap.allocate_array(id, length, roots)?];
    heap.reserve_leaves(0, length, &mut kept, roots)?;
    heap.fill(kept[0], 0, byte.into(), length)?;
    Ok(kept[0])
}

#[test]
fn a_heap_fits_the_address_space_that_is_left() {
    assert_eq!(AddressSpace::of_process(), None, "this test needs a process without a limit");
    let contiguous = (Arrays::Contiguous, NativeViews::Copy);
    let mapped = (Arrays::Mapped(MappedParams::DEFAULT), NativeViews::Copy);
    for (arrays, native_views) in [vec![contiguous, mapped], layouts()].concat() {
        let config = HeapConfig { arrays, native_views, ..HeapConfig::default() };
        leave(300 * MIB);
        let types = TypeTable::new().unwrap();
        let bytes = register(&types, TypeShape::Array(StorageKind::I8));
        let mut heap = Heap::new(&config, types).unwrap();
        let maximum = heap.config().max_bytes.unwrap();
        assert!((16 * MIB..64 * MIB).contains(&maximum), "{maximum} {config:?}");
        assert!(AddressSpace::of_process().unwrap().left() >= 100 * MIB, "{config:?}");
        // Twice the maximum is allocated, and a part of it kept: small arrays, and large ones.
        let mut roots = Held::nulls(4);
        let (mut number, mut allocated) = (0, 0);
        while allocated < 2 * maximum {
            let length = [100, 3000, 70_000, 1_500_000][number % 4];
            roots[number % 4] = filled(&mut heap, bytes, length, number as u8, &mut roots).unwrap();
            (number, allocated) = (number + 1, allocated + u64::from(length));
        }
        for last in number - 4..number {
            let contents = copy_out(&mut heap, roots[last % 4]);
            assert!(contents.iter().all(|&byte| byte == last as u8), "{config:?}");
        }
        heap.verify(Some(&mut roots)).unwrap();
        // It fills up as others do.
        let error = loop {
            match filled(&mut heap, bytes, 100_000, 1, &mut roots) {
                Ok(array) => roots.push(array),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, AllocationError::OutOfMemory { .. }), "{error} {config:?}");
        heap.collect(Cause::Requested, &mut NoRoots);
        heap.verify(None).unwrap();
    }
    leave(8 * MIB);
    let types = TypeTable::new().unwrap();
    let error = Heap::new(&HeapConfig::default(), types.clone()).unwrap_err();
    assert!(matches!(error, HeapError::AddressSpace { .. }), "{error}");

    // A closed heap needs none, and stays closed until there is some. It fits what is left then.
    leave(3000 * MIB);
    let bytes = register(&types, TypeShape::Array(StorageKind::I8));
    let mut heap = Heap::new_closed(&HeapConfig::default(), types).unwrap();
    let maximum = heap.config().max_bytes.unwrap();
    let context = heap.mutator_context();
    leave(8 * MIB);
    for _ in 0..2 {
        let error = heap.open().unwrap_err();
        assert!(matches!(error, HeapError::AddressSpace { .. }), "{error}");
        assert!(!heap.is_open() && heap.cage_base().is_null());
    }
    leave(300 * MIB);
    heap.open().unwrap();
    assert!(heap.config().max_bytes.unwrap() < maximum / 2 && heap.mutator_context() == context);
    let mut roots = Held::nulls(1);
    roots[0] = filled(&mut heap, bytes, 70_000, 9, &mut roots).unwrap();
    heap.verify(Some(&mut roots)).unwrap();
}
