//! Native views: arrays as native code sees them, under every layout and both values of the axis.

mod common;

use common::{
    Held, Random, Trusting, ZRAYS_WITHOUT_FIRST_N, all, copy_out, double_map, leaf_bytes, register, spines,
    with_layouts,
};
use legato_heap::arrays::{ArrayletParams, MappedParams, ZRayParams};
use legato_heap::layout::StorageKind;
use legato_heap::views::DoubleMapParams;
use legato_heap::{
    Arrays, Cause, Collector, Heap, HeapConfig, NativeViews, NoRoots, TypeId, TypeShape, TypeTable, ViewCreation,
};

/// A heap, its roots, and arrays of bytes.
struct Native {
    heap: Heap,
    roots: Held,
    id: TypeId,
    leaf: u32,
}

impl Native {
    fn new(config: &HeapConfig, kind: StorageKind) -> Native {
        let types = TypeTable::new().unwrap();
        let id = register(&types, TypeShape::Array(kind));
        let leaf = leaf_bytes(config);
        Native { heap: Heap::new(config, types).unwrap(), roots: Held::new(), id, leaf }
    }

    /// A new array, as the last root.
    fn allocate(&mut self, length: u32) -> usize {
        let array = self.heap.allocate_array(self.id, length, &mut self.roots).unwrap();
        self.roots.push(array);
        self.roots.len() - 1
    }

    fn view(&mut self, root: usize, writable: bool) -> Option<*mut u8> {
        let mut kept = [self.roots[root]];
        let view = self.heap.view(&mut kept, writable, &mut self.roots);
        assert_eq!(kept[0], self.roots[root]);
        view.map(std::ptr::NonNull::as_ptr)
    }

    /// Calls `use_it` with all bytes of an array, and has what it wrote there written.
    fn with<R>(&mut self, root: usize, use_it: impl FnOnce(&mut [u8]) -> R) -> R {
        let array = self.roots[root];
        let bytes = self.heap.array_length(array) as usize * self.heap.array_element_kind(array).bytes() as usize;
        if let Some(address) = self.view(root, true) {
            // SAFETY: the view is writable, and nothing else happens to the heap while the slice lives.
            return use_it(unsafe { std::slice::from_raw_parts_mut(address, bytes) });
        }
        let mut copy = copy_out(&mut self.heap, self.roots[root]);
        let result = use_it(&mut copy);
        let mut kept = [self.roots[root]];
        self.heap.copy_back(&mut kept, &copy, &mut self.roots).unwrap();
        result
    }

    fn alive(&self) -> u64 {
        self.heap.stats().arrays.views_alive
    }

    fn verify(&mut self) {
        self.heap.verify(Some(&mut self.roots)).unwrap();
    }
}

/// Every layout, those in one piece included, otherwise as given.
fn every_layout(config: &HeapConfig) -> Vec<HeapConfig> {
    let whole = [Arrays::Contiguous, Arrays::Mapped(MappedParams::DEFAULT)]
        .map(|arrays| HeapConfig { arrays, ..config.clone() });
    let native_views = NativeViews::DoubleMap(DoubleMapParams::DEFAULT);
    let twice = whole.clone().map(|config| HeapConfig { native_views, ..config });
    [whole.to_vec(), twice.to_vec(), with_layouts(config)].concat()
}

const ARRAYLETS: Arrays = Arrays::Arraylets(ArrayletParams::DEFAULT);

/// Both collectors over one layout.
fn collectors((arrays, native_views): (Arrays, NativeViews)) -> Vec<HeapConfig> {
    let config = HeapConfig { arrays, native_views, ..HeapConfig::default() };
    vec![HeapConfig { collector: Collector::MarkSweep, ..config.clone() }, config]
}

fn double_mapped() -> Vec<HeapConfig> {
    let shared = Arrays::ZRays(ZRayParams { first_n: 0, copy_on_write: true, ..ZRayParams::DEFAULT });
    let request = [ARRAYLETS, ZRAYS_WITHOUT_FIRST_N, shared].map(|arrays| double_map(arrays, ViewCreation::Request));
    request.into_iter().flat_map(collectors).collect()
}

#[test]
fn both_sides_see_what_the_other_writes() {
    let kinds = [StorageKind::I8, StorageKind::I16, StorageKind::F32, StorageKind::F64];
    for config in every_layout(&HeapConfig { verify: true, min_bytes: 1 << 20, ..HeapConfig::default() }) {
        let (page, leaf) = (4096, leaf_bytes(&config) as usize);
        let first_n = spines(&config).map_or(ZRayParams::DEFAULT.first_n, |layout| layout.first_n) as usize;
        for kind in kinds {
            let size = kind.bytes() as usize;
            let mut native = Native::new(&config, kind);
            let edges = [0, first_n, page, leaf, 2 * leaf, first_n + leaf, first_n + 3 * leaf, 5 * page];
            for bytes in edges.into_iter().flat_map(|edge| [edge.saturating_sub(size), edge, edge + size]) {
                let length = (bytes / size) as u32;
                let root = native.allocate(length);
                let mut random = Random(bytes as u64);
                let mut model = vec![0u8; length as usize * size];
                native.with(root, |bytes| assert_eq!(bytes, model, "new arrays are zero"));
                for round in 0..4 {
                    // A store of the guest, seen by native code, whose writes the guest sees.
                    for _ in 0..if length == 0 { 0 } else { 5 } {
                        let (index, bits) = (random.below(length as usize), u128::from(random.next()));
                        native.heap.set(native.roots[root], index as u32, bits).unwrap();
                        model[index * size..][..size].copy_from_slice(&bits.to_le_bytes()[..size]);
                    }
                    native.with(root, |bytes| {
                        assert_eq!(bytes, model, "{config:?}");
                        let at = random.below(bytes.len() + 1);
                        bytes[at..].iter_mut().for_each(|byte| *byte = random.next() as u8);
                        model.copy_from_slice(bytes);
                    });
                    let mut read = vec![0; model.len()];
                    native.heap.array_read_bytes(native.roots[root], 0, &mut read);
                    assert_eq!(read, model, "{config:?}");
                    if round % 2 == 0 {
                        native.heap.collect(Cause::Requested, &mut native.roots);
                    }
                }
            }
            native.verify();
        }
    }
}

#[test]
fn a_view_stays_where_it_is_until_its_array_dies() {
    for config in double_mapped() {
        let mut native = Native::new(&config, StorageKind::I64);
        let root = native.allocate(native.leaf);
        let address = native.view(root, true).unwrap();
        let stats = native.heap.stats().arrays;
        assert_eq!((stats.views_made, stats.views_alive, stats.view_bytes), (1, 1, 8 * u64::from(native.leaf)));
        for number in 0..4 {
            native.heap.set(native.roots[root], number, 1 << number).unwrap();
            native.heap.collect(Cause::Requested, &mut native.roots);
            assert_eq!(native.view(root, number % 2 == 0), Some(address));
            // SAFETY: the view of an array that lives.
            assert_eq!(unsafe { address.cast::<u64>().add(number as usize).read() }, 1 << number);
            native.verify();
        }
        // Others come and go beside it.
        for _ in 0..3 {
            for _ in 0..5 {
                let other = native.allocate(2 * native.leaf);
                native.view(other, false).unwrap();
            }
            assert_eq!(native.alive(), 6);
            native.roots.truncate(root + 1);
            native.heap.collect(Cause::Requested, &mut native.roots);
            assert_eq!(native.alive(), 1);
        }
        assert_eq!(native.view(root, true), Some(address));
        native.heap.collect(Cause::Requested, &mut NoRoots);
        let stats = native.heap.stats().arrays;
        assert_eq!((stats.views_made, stats.views_alive, stats.view_bytes), (16, 0, 0));
        assert_eq!((stats.view_fallbacks, stats.view_copies), (0, 0));
    }
}

#[test]
fn nursery_collections_unmap_the_views_of_young_arrays() {
    let (arrays, native_views) = double_map(ZRAYS_WITHOUT_FIRST_N, ViewCreation::Request);
    for config in common::generational(&HeapConfig { arrays, native_views, ..HeapConfig::default() }) {
        let mut native = Native::new(&config, StorageKind::I8);
        let root = native.allocate(4 * native.leaf);
        let address = native.view(root, true);
        let full_before = native.heap.stats().full_collections;
        for _ in 0..2000 {
            let other = native.allocate(3 * native.leaf);
            native.with(other, |bytes| bytes.fill(7));
            native.roots.pop();
        }
        let stats = native.heap.stats();
        assert!(stats.collections > stats.full_collections, "{config:?}");
        assert_eq!((stats.arrays.views_made, address), (2001, native.view(root, true)));
        if stats.full_collections == full_before {
            assert!(stats.arrays.views_alive < 2000, "{} views are alive", stats.arrays.views_alive);
        }
        native.verify();
    }
}

#[test]
fn leaves_with_a_view_are_neither_compressed_nor_shared_nor_given_up() {
    for config in double_mapped() {
        let mut native = Native::new(&config, StorageKind::I8);
        let bytes = 4 * native.leaf;
        let (viewed, other, zeros) = (native.allocate(bytes), native.allocate(bytes), native.allocate(bytes));
        let address = native.view(viewed, true).unwrap();
        // All of it is zero, and has leaves nevertheless.
        native.heap.collect(Cause::Requested, &mut native.roots);
        native.verify();
        let held = native.heap.stats().arrays.leaf_bytes;
        assert!(held >= u64::from(bytes), "{held}");
        // SAFETY: the view of an array that lives.
        let read = || unsafe { std::slice::from_raw_parts(address, bytes as usize) };
        let (array, copy, zero) = (native.roots[viewed], native.roots[other], native.roots[zeros]);
        native.heap.fill(array, 0, 3, bytes).unwrap();
        assert!(read().iter().all(|&byte| byte == 3));
        // From it, then a change on either side; to it.
        native.heap.copy((copy, 0), (array, 0), bytes).unwrap();
        native.heap.set(copy, 9, 4).unwrap();
        // SAFETY: the view of an array that lives.
        unsafe { address.add(7).write(5) };
        assert_eq!([array, copy].map(|of| native.heap.array_get(of, 9)), [3, 4]);
        assert_eq!([array, copy].map(|of| native.heap.array_get(of, 7)), [5, 3]);
        native.verify();
        native.heap.copy((array, 0), (copy, 0), bytes).unwrap();
        assert_eq!((read()[7], read()[9]), (3, 4));
        native.heap.copy((array, 0), (zero, 0), bytes).unwrap();
        assert!(read().iter().all(|&byte| byte == 0));
        native.verify();
        // A copy of shared leaves gets a view of its own.
        native.heap.fill(copy, 0, 6, bytes).unwrap();
        native.heap.copy((zero, 0), (copy, 0), bytes).unwrap();
        native.verify();
        native.with(zeros, |bytes| bytes[0] = 1);
        assert_eq!([copy, zero].map(|of| native.heap.array_get(of, 0)), [6, 1]);
        assert_eq!(native.view(viewed, true), Some(address));
        native.heap.collect(Cause::Requested, &mut native.roots);
        native.verify();
    }
}

#[test]
fn views_are_made_when_the_configuration_says() {
    for view_creation in [ViewCreation::Request, ViewCreation::Allocation] {
        let layouts = [ARRAYLETS, ZRAYS_WITHOUT_FIRST_N].map(|arrays| double_map(arrays, view_creation));
        for config in layouts.map(collectors).concat() {
            let mut native = Native::new(&config, StorageKind::I8);
            let roots = [0, 1, native.leaf, native.leaf + 1, 9 * native.leaf].map(|bytes| native.allocate(bytes));
            let made = |native: &Native| native.heap.stats().arrays.views_made;
            assert_eq!(made(&native), if view_creation == ViewCreation::Request { 0 } else { 2 });
            for root in roots {
                native.with(root, |bytes| bytes.fill(1));
            }
            assert_eq!(made(&native), 2, "arrays of one leaf are their own view");
            assert_eq!(native.heap.stats().arrays.view_copies, 0);
            native.verify();
        }
    }
}

/// Arrays that fill no leaf take none: a heap has room for as many as it has where nothing is mapped twice.
#[test]
fn short_arrays_are_views_of_their_own_and_take_no_leaves() {
    for mut config in double_mapped() {
        config.max_bytes = Some(4 << 20);
        let mut native = Native::new(&config, StorageKind::I8);
        let roots: Vec<usize> = (0..10_000).map(|number| native.allocate(100 + number % 100)).collect();
        for &root in &roots {
            native.with(root, |bytes| bytes.fill(root as u8));
        }
        native.heap.collect(Cause::Requested, &mut native.roots);
        let stats = native.heap.stats().arrays;
        let leaves = stats.leaves_allocated + stats.leaves_on_store;
        assert_eq!((leaves, stats.views_made, stats.view_copies), (0, 0, 0), "{config:?}");
        for root in roots {
            native.with(root, |bytes| assert!(bytes.iter().all(|&byte| byte == root as u8)));
        }
        native.verify();
    }
}

#[test]
fn a_copy_of_a_sparse_array_takes_no_leaves() {
    for base in all(HeapConfig { max_bytes: Some(4 << 20), verify: true, ..HeapConfig::default() }) {
        let arrays = Arrays::ZRays(ZRayParams { copy_on_write: true, ..ZRayParams::DEFAULT });
        let config = HeapConfig { arrays, ..base };
        let mut native = Native::new(&config, StorageKind::I8);
        // Sixteen times what the heap can hold.
        let root = native.allocate(64 << 20);
        native.with(root, |bytes| bytes[50 << 20] = 7);
        assert_eq!(native.heap.array_get(native.roots[root], 50 << 20), 7);
        let stats = native.heap.stats().arrays;
        assert_eq!((stats.leaves_on_store, stats.view_copies), (1, 1));
        // What cannot be written is an error, and leaves a sound heap.
        let mut kept = [native.roots[root]];
        native.heap.copy_back(&mut kept, &vec![1; 64 << 20], &mut native.roots).unwrap_err();
        native.verify();
        let copy = copy_out(&mut native.heap, native.roots[root]);
        assert_eq!(copy[50 << 20], 7);
    }
}

#[test]
fn what_has_no_room_for_a_view_is_copied() {
    for mut config in collectors(double_map(ZRAYS_WITHOUT_FIRST_N, ViewCreation::Request)) {
        config.max_bytes = Some(4 << 20);
        config.verify = true;
        let mut native = Native::new(&config, StorageKind::I8);
        let root = native.allocate(16 << 20);
        assert_eq!(native.view(root, false), None, "its leaves would not fit the heap");
        native.with(root, |bytes| bytes[12 << 20] = 7);
        assert_eq!(native.heap.array_get(native.roots[root], 12 << 20), 7);
        let stats = native.heap.stats().arrays;
        assert_eq!((stats.view_fallbacks, stats.view_copies, stats.views_made), (2, 1, 0));
        native.verify();
    }
}
