//! However many there are of one thing, or however large one thing is: no piece of a cycle's work is large. Measured in
//! units, by the collectors that work in slices: a slice exceeds its budget by one piece at most.

use super::Collect;
use crate::budget::Budget;
use crate::config::HeapConfig;
use crate::heap::{Heap, Inner, dispatch};
use crate::layout::StorageKind;
use crate::os::mappings;
use crate::reference::Reference;
use crate::roots::RootStack;
use crate::type_table::TypeTable;
use crate::types::{TypeId, TypeInfo, TypeShape};

/// The most units of a piece: a megabyte of memory is read, or given back to the system after a look at its pages.
const MOST_UNITS: u64 = 1100;

/// A heap in which one thing is beyond measure.
struct Excess {
    heap: Heap,
    links: TypeId,
    bytes: TypeId,
    /// An array that leads to all the rest.
    roots: RootStack,
}

impl Excess {
    fn new(config: &HeapConfig) -> Excess {
        let types = TypeTable::new().unwrap();
        let of = |shape| types.register(TypeInfo { shape, supertype: None }).unwrap();
        let (links, bytes) = (of(TypeShape::Array(StorageKind::Ref)), of(TypeShape::Array(StorageKind::I8)));
        Excess { links, bytes, heap: Heap::new(config, types).unwrap(), roots: RootStack::new() }
    }

    /// Makes things, every second of which is garbage.
    fn make(&mut self, count: u32, mut make: impl FnMut(&mut Excess) -> Reference) {
        let all = self.heap.allocate_array(self.links, count, &mut self.roots).unwrap();
        // SAFETY: just allocated, and the heap gets these roots.
        unsafe { self.roots.push(all) };
        for index in 0..count {
            let new = make(self);
            if index % 2 == 0 {
                // SAFETY: both are live.
                unsafe { self.heap.array_set_reference(self.roots.get(0), index, new).unwrap() };
            }
        }
    }

    /// An array of bytes. With `root`, it is kept there.
    fn array(&mut self, length: u32, root: bool) -> Reference {
        let array = self.heap.allocate_array(self.bytes, length, &mut self.roots).unwrap();
        if root {
            // SAFETY: just allocated, and the heap gets these roots.
            unsafe { self.roots.push(array) };
        }
        array
    }

    /// The same, each leaf of which holds zeros but for its last byte: it is read whole, and stays.
    fn array_of_leaves(&mut self, length: u32, root: bool) -> Reference {
        let array = self.array(length, root);
        let leaf = dispatch!(&self.heap.0, heap => heap.core.leaves.leaf_bytes());
        (leaf - 1..length).step_by(leaf as usize).for_each(|last| {
            // SAFETY: the array is live, and holds numbers.
            unsafe { self.heap.array_set(array, last, 1).unwrap() }
        });
        array
    }

    fn root(&self, index: usize) -> Reference {
        self.roots.get(index)
    }

    fn fill(&mut self, array: Reference, length: u32, byte: u8) {
        // SAFETY: the array is live, and holds numbers.
        unsafe { self.heap.array_fill(array, 0, byte.into(), length).unwrap() };
    }

    fn copy(&mut self, to: Reference, from: Reference, bytes: u32) {
        // SAFETY: both are live, and hold numbers.
        unsafe { self.heap.array_copy(to, 0, from, 0, bytes).unwrap() };
    }

    /// The largest piece of a cycle, and all of them together, in units.
    fn pieces(&mut self) -> (u64, u64) {
        let Excess { heap, roots, .. } = self;
        dispatch!(&mut heap.0, heap => {
            heap.collect_stressed(roots);
            let (mut largest, mut all, before) = (0, 0, heap.core.stats.cycles);
            while heap.core.stats.cycles == before {
                let collections = heap.core.stats.collections;
                let mut budget = Budget::units(1);
                let _ = heap.collect_some(&mut budget, roots);
                // A nursery collection is no slice.
                if heap.core.stats.collections == collections {
                    largest = largest.max(budget.spent);
                    all += budget.spent;
                }
            }
            (largest, all)
        })
    }
}

/// Has a cycle of each collector in slices made where `build` has been; no piece of it is large. Returns what the first
/// takes.
fn check(settings: &[(&str, &str)], mut build: impl FnMut(&mut Excess)) -> u64 {
    let mut least = u64::MAX;
    for collector in [[("collector", "realtime")].as_slice(), &[("collector", "generational"), ("full", "incremental")]]
    {
        let mut config = HeapConfig::default();
        // No cycle is due before it is asked for.
        let settings = [collector, &[("max", "3G"), ("min", "3G"), ("trigger", "half")], settings].concat();
        settings.iter().for_each(|(key, value)| config.set(key, value).unwrap());
        let mut excess = Excess::new(&config);
        build(&mut excess);
        let (largest, all) = excess.pieces();
        least = least.min(all);
        excess.heap.verify(Some(&mut excess.roots)).unwrap();
        // What was alive when the first cycle began may be dead by the second.
        excess.roots = RootStack::new();
        let largest = largest.max(excess.pieces().0);
        assert!(largest <= MOST_UNITS, "{largest} units at once with {settings:?}");
    }
    least
}

#[test]
fn host_values() {
    check(&[], |excess| {
        excess.make(200_000, |excess| excess.heap.allocate_external(Box::new(1), &mut excess.roots).unwrap());
    });
}

#[test]
fn mapped_arrays() {
    let settings = [("arrays", "mapped"), ("mapped-from", "32K"), ("max", "4G")];
    check(&settings, |excess| excess.make(100_000, |excess| excess.array((32 << 10) - 16, false)));
}

#[test]
fn views() {
    let _alone = mappings::alone();
    let settings =
        [("arrays", "arraylets"), ("native-views", "double-map"), ("leaf", "4K"), ("view-creation", "allocation")];
    check(&settings, |excess| excess.make(100_000, |excess| excess.array(8 << 10, false)));
}

#[test]
fn a_large_view() {
    let _alone = mappings::alone();
    const BYTES: u32 = 128 << 20;
    let settings =
        [("arrays", "arraylets"), ("native-views", "double-map"), ("leaf", "64K"), ("view-creation", "allocation")];
    check(&settings, |excess| {
        excess.array(BYTES, true);
        assert_eq!(excess.heap.stats().arrays.views_alive, 1);
    });
}

#[test]
fn elements() {
    for arrays in ["contiguous", "arraylets", "zrays", "mapped"] {
        check(&[("arrays", arrays)], |excess| {
            excess.make(1_000_000, |excess| excess.root(0));
        });
    }
}

#[test]
fn leaves_that_are_read_whole() {
    const BYTES: u32 = 64 << 20;
    for leaf in ["1K", "64K", "1M"] {
        let settings = [("arrays", "zrays"), ("first-n-grows", "off"), ("first-n", "0"), ("leaf", leaf)];
        let units = check(&settings, |excess| _ = excess.array_of_leaves(BYTES, true));
        assert!(units > u64::from(BYTES >> 10), "{units} units");
    }
}

#[test]
fn spines_of_one_range_of_leaves() {
    let settings = [("arrays", "zrays"), ("first-n-grows", "off"), ("first-n", "0"), ("leaf", "4K")];
    let units = check(&settings, |excess| excess.make(10_000, |excess| excess.array_of_leaves(60 << 10, false)));
    assert!(units > 5000 * 50, "{units} units");
}

#[test]
fn pages_that_arrays_share() {
    const BYTES: u32 = 32 << 20;
    check(&[("arrays", "mapped")], |excess| {
        for _ in 0..4 {
            excess.array(BYTES, true);
        }
        let all = [0, 1, 2, 3].map(|index| excess.root(index));
        excess.fill(all[0], BYTES, 7);
        all[1..].iter().for_each(|&copy| excess.copy(copy, all[0], BYTES));
        assert!(excess.heap.stats().mapped_shared_bytes >= u64::from(BYTES));
        // Written whole, it needs the file no more.
        excess.fill(all[3], BYTES, 9);
    });
}

#[test]
fn pages_of_zeros() {
    const BYTES: u32 = 32 << 20;
    check(&[("arrays", "mapped")], |excess| {
        let array = excess.array(BYTES, true);
        excess.fill(array, BYTES, 7);
        excess.fill(array, BYTES, 0);
        let sparse = excess.array(BYTES, true);
        (0..BYTES).step_by(256 << 10).for_each(|start| {
            // SAFETY: the array is live, and holds numbers.
            unsafe { excess.heap.array_set(sparse, start, 1).unwrap() }
        });
    });
}

#[test]
fn reserved_space_that_another_has_used() {
    const BYTES: u32 = 32 << 20;
    check(&[("arrays", "zrays"), ("first-n-grows", "on")], |excess| {
        let array = excess.array(BYTES, true);
        excess.fill(array, BYTES, 7);
        excess.roots = RootStack::new();
        excess.heap.collect(crate::Cause::Limit, &mut excess.roots);
        excess.array(BYTES, true);
    });
}

#[test]
fn a_heap_that_shrinks() {
    check(&[("min", "1M"), ("growth", "1.1")], |excess| {
        // A gigabyte, of which nothing is touched.
        excess.make(1024, |excess| {
            // SAFETY: an array of numbers may hold anything.
            unsafe { excess.heap.allocate_array_uninitialised(excess.bytes, 1 << 20, &mut excess.roots).unwrap() }
        });
    });
}
