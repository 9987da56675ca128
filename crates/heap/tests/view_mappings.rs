//! What views leave behind in the process: nothing. In a binary of its own, with one test at a time, as it counts what
//! the whole process has.
#![cfg(target_os = "linux")]

mod common;

use common::{Held, Trusting, ZRAYS_WITHOUT_FIRST_N, copy_out, double_map, leaf_bytes, register};
use legato_heap::collector::generational::GenerationalParams;
use legato_heap::layout::StorageKind;
use legato_heap::{AllocationError, Cause, Collector, Heap, HeapConfig, TypeShape, TypeTable, ViewCreation};
use std::fs;
use std::sync::{Mutex, MutexGuard};

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Mappings of the process, and those of them that show a heap's file.
fn mappings() -> (usize, usize) {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    (maps.lines().count(), maps.lines().filter(|line| line.contains("legato-leaves")).count())
}

/// Open descriptors, and those of them that are a heap's file. Without the one by which the process asks for the
/// system's load: the first heap that has helpers opens it for all.
fn descriptors() -> (usize, usize) {
    let links = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let links: Vec<_> = links.filter(|link| link.to_string_lossy() != "/proc/loadavg").collect();
    (links.len(), links.iter().filter(|link| link.to_string_lossy().contains("legato-leaves")).count())
}

fn config(collector: Collector, view_creation: ViewCreation) -> HeapConfig {
    let (arrays, native_views) = double_map(ZRAYS_WITHOUT_FIRST_N, view_creation);
    HeapConfig { collector, arrays, native_views, ..HeapConfig::default() }
}

/// As many views as a busy host makes in a day.
const VIEWS: u32 = 40_000;

#[test]
fn a_days_worth_of_views_leaves_nothing_behind() {
    let _alone = alone();
    for &collector in Collector::ALL {
        for view_creation in [ViewCreation::Request, ViewCreation::Allocation] {
            let config = config(collector, view_creation);
            let leaf = leaf_bytes(&config);
            let (before, files_before) = (mappings(), descriptors());
            let types = TypeTable::new().unwrap();
            let id = register(&types, TypeShape::Array(StorageKind::I8));
            let mut heap = Heap::new(&config, types).unwrap();
            let mut roots = Held::new();
            let (mut most, mut warm) = (0, None);
            for number in 0..VIEWS {
                let array = heap.allocate_array(id, (2 + number % 7) * leaf, &mut roots).unwrap();
                let mut kept = [array];
                let view = heap.view(&mut kept, true, &mut roots).unwrap();
                // SAFETY: the view of an array that lives.
                unsafe { view.as_ptr().add(leaf as usize).write(1) };
                // Some live longer than others.
                if number % 16 == 0 {
                    roots.push(kept[0]);
                }
                if roots.len() == 50 {
                    roots.drain(..40);
                }
                if number % 4096 == 0 {
                    most = most.max(mappings().1);
                    assert_eq!(descriptors().1, 1, "one descriptor for the heap");
                }
                if number == VIEWS / 2 {
                    heap.collect(Cause::Requested, &mut roots);
                    warm = Some((mappings(), roots.len()));
                }
            }
            heap.collect(Cause::Requested, &mut roots);
            let stats = heap.stats().arrays;
            assert_eq!((stats.views_made, stats.view_fallbacks), (VIEWS.into(), 0));
            assert_eq!(stats.views_alive as usize, roots.len());
            assert!(most > 1, "views are mapped");
            // Each of the views alive has at most eight mappings, as it has leaves; the rest are the cage's own.
            let ((_, in_the_middle), _) = warm.unwrap();
            let now = mappings().1;
            assert!(now <= in_the_middle + 8 * 50, "{in_the_middle} mappings after a half, {now} after all");
            heap.verify(Some(&mut roots)).unwrap();
            roots.clear();
            heap.collect(Cause::Requested, &mut roots);
            assert_eq!(heap.stats().arrays.views_alive, 0);
            drop(heap);
            assert_eq!(mappings().1, 0);
            assert_eq!(descriptors(), files_before);
            // But for what the allocator and the test runner do meanwhile.
            let after = mappings().0;
            assert!(after <= before.0 + 20, "{} mappings before, {after} after", before.0);
        }
    }
}

#[test]
fn a_heap_that_is_dropped_takes_its_views_along() {
    let _alone = alone();
    let config = config(Collector::Generational(GenerationalParams::DEFAULT), ViewCreation::Request);
    let leaf = leaf_bytes(&config);
    let types = TypeTable::new().unwrap();
    let id = register(&types, TypeShape::Array(StorageKind::I8));
    let mut heap = Heap::new(&config, types).unwrap();
    let mut roots = Held::new();
    for _ in 0..100 {
        let array = heap.allocate_array(id, 3 * leaf, &mut roots).unwrap();
        roots.push(array);
        heap.view(&mut [array], true, &mut roots).unwrap();
    }
    assert_eq!(heap.stats().arrays.views_alive, 100);
    assert!(mappings().1 > 0 && descriptors().1 == 1);
    drop(heap);
    assert_eq!((mappings().1, descriptors().1), (0, 0));
}

/// Takes mappings until about `left` are left: pages of one reservation, every second one with another protection.
struct Hog {
    start: *mut libc::c_void,
    bytes: usize,
}

impl Hog {
    fn new(left: usize) -> Hog {
        let most: usize = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
        let page = 64 << 10;
        let bytes = (most + 2) * page;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE;
        // SAFETY: a new mapping.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        assert!(start != libc::MAP_FAILED);
        let hog = Hog { start, bytes };
        // SAFETY: a page of the mapping.
        let protect = |number: usize, access| unsafe {
            libc::mprotect(start.cast::<u8>().add(number * page).cast(), page, access)
        };
        let taken = (0..most).step_by(2).take_while(|&number| protect(number, libc::PROT_READ) == 0).count();
        assert!(2 * taken < most, "there is an end");
        // Each of these pages took two.
        for number in taken.saturating_sub(left.div_ceil(2))..taken {
            assert_eq!(protect(2 * number, libc::PROT_NONE), 0);
        }
        hog
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

#[test]
fn where_the_system_has_no_mappings_left_elements_are_copied() {
    const LEAVES: u32 = 512;
    let _alone = alone();
    let config = config(Collector::MarkSweep, ViewCreation::Request);
    let leaf = leaf_bytes(&config);
    let types = TypeTable::new().unwrap();
    let id = register(&types, TypeShape::Array(StorageKind::I8));
    let mut heap = Heap::new(&config, types).unwrap();
    let mut roots = Held::new();
    for _ in 0..2 {
        let array = heap.allocate_array(id, LEAVES * leaf, &mut roots).unwrap();
        roots.push(array);
    }
    // Leaf by leaf in turn, so that no two of one array are neighbours.
    for index in (0..LEAVES).rev() {
        for &array in &*roots {
            heap.set(array, index * leaf, 7).unwrap();
        }
    }
    let before = mappings();
    {
        let _hog = Hog::new(200);
        let mut kept = [roots[0]];
        assert_eq!(heap.view(&mut kept, true, &mut roots), None);
    }
    assert_eq!(mappings().1, before.1, "what was mapped is unmapped again");
    let stats = heap.stats().arrays;
    assert_eq!((stats.views_made, stats.view_fallbacks, stats.view_bytes), (0, 1, 0));
    let mut copy = copy_out(&mut heap, roots[0]);
    assert_eq!(copy.iter().filter(|&&byte| byte == 7).count(), LEAVES as usize);
    copy.fill(8);
    heap.copy_back(&mut [roots[0]], &copy, &mut roots).unwrap();
    assert_eq!(heap.array_get(roots[0], 5), 8);
    // Once there are mappings again, the array has its view.
    let view = heap.view(&mut [roots[0]], true, &mut roots).unwrap();
    // SAFETY: the view of an array that lives.
    assert_eq!(unsafe { view.as_ptr().add((LEAVES * leaf) as usize - 1).read() }, 8);
    assert_eq!(mappings().1, before.1 + LEAVES as usize, "a mapping for each leaf");
    heap.verify(Some(&mut roots)).unwrap();
}

#[test]
fn a_heap_without_mappings_fails_softly_and_goes_on_later() {
    let _alone = alone();
    let config = config(Collector::Generational(GenerationalParams::DEFAULT), ViewCreation::Allocation);
    let leaf = leaf_bytes(&config);
    let types = TypeTable::new().unwrap();
    let id = register(&types, TypeShape::Array(StorageKind::I8));
    let mut heap = Heap::new(&config, types).unwrap();
    let mut roots = Held::new();
    for left in [0, 2, 6, 20] {
        let hog = Hog::new(left);
        // Neither views nor blocks of the file are to be had, in the end not even memory.
        for _ in 0..40 {
            match heap.allocate_array(id, 40 * leaf, &mut roots) {
                Ok(array) => roots.push(array),
                Err(error) => assert!(matches!(error, AllocationError::OutOfMemory { .. }), "{error}"),
            }
        }
        drop(hog);
        for index in 0..roots.len() {
            // Blocks that could not be moved to the file have no views, and arrays in them are copied.
            let view = heap.view(&mut [roots[index]], true, &mut roots);
            match view {
                // SAFETY: the view of an array that lives.
                Some(address) => unsafe { address.as_ptr().add(39 * leaf as usize).write(3) },
                None => heap.set(roots[index], 39 * leaf, 3).unwrap(),
            }
            assert_eq!(heap.array_get(roots[index], 39 * leaf), 3);
        }
        heap.verify(Some(&mut roots)).unwrap();
        roots.clear();
        heap.collect(Cause::Requested, &mut roots);
        heap.verify(Some(&mut roots)).unwrap();
    }
    let array = heap.allocate_array(id, 40 * leaf, &mut roots).unwrap();
    heap.fill(array, 0, 1, 40 * leaf).unwrap();
}

/// More than the mappings that Linux allows a process by default.
const MANY: usize = 70_000;

#[test]
fn views_leave_mappings_for_the_heap_and_give_theirs_back() {
    let _alone = alone();
    for collector in [Collector::MarkSweep, Collector::Generational(GenerationalParams::DEFAULT)] {
        let config = HeapConfig { max_bytes: Some(2 << 30), ..config(collector, ViewCreation::Allocation) };
        let leaf = leaf_bytes(&config);
        let types = TypeTable::new().unwrap();
        let id = register(&types, TypeShape::Array(StorageKind::I8));
        let mut heap = Heap::new(&config, types).unwrap();
        let mut roots = Held::new();
        let more_arrays = |heap: &mut Heap, roots: &mut Held| {
            for _ in roots.len()..MANY {
                let array = heap.allocate_array(id, 2 * leaf, roots).unwrap();
                roots.push(array);
            }
        };
        more_arrays(&mut heap, &mut roots);
        let alive = heap.stats().arrays.views_alive as usize;
        let most = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
        assert!((MANY.min(most) / 4..MANY).contains(&alive) || most > 2 * MANY, "{alive} views");
        assert!(mappings().0 <= most / 2 + 100, "{} mappings", mappings().0);
        // Elsewhere than in the leaves, the heap still has memory committed.
        let mut others = Vec::new();
        for number in 0..1000 {
            let array = heap.allocate_array(id, 3000, &mut roots).unwrap();
            heap.fill(array, 0, number as u128 & 255, 3000).unwrap();
            others.push(roots.len());
            roots.push(array);
        }
        for (number, &root) in others.iter().enumerate() {
            assert_eq!(heap.array_get(roots[root], 2999), u128::from(number as u8));
        }
        // Whether there is a view or not, host code sees the elements.
        let fallbacks = heap.stats().arrays.view_fallbacks;
        for index in (0..MANY).step_by(997) {
            match heap.view(&mut [roots[index]], true, &mut roots) {
                // SAFETY: the view of an array that lives.
                Some(address) => unsafe { address.as_ptr().add(leaf as usize).write(3) },
                None => {
                    let mut copy = copy_out(&mut heap, roots[index]);
                    copy[leaf as usize] = 3;
                    heap.copy_back(&mut [roots[index]], &copy, &mut roots).unwrap();
                }
            }
            assert_eq!(heap.array_get(roots[index], leaf), 3);
        }
        let stats = heap.stats().arrays;
        assert_eq!(stats.view_fallbacks - fallbacks, stats.view_copies);
        assert!(stats.view_copies > 0 || alive == MANY);
        // Views that are dropped make room for others.
        roots.truncate(MANY);
        roots.drain(..alive / 2);
        heap.collect(Cause::Requested, &mut roots);
        let left = heap.stats().arrays.views_alive as usize;
        assert!(left <= alive - alive / 2, "{left} views are left of {alive}");
        more_arrays(&mut heap, &mut roots);
        let again = heap.stats().arrays.views_alive as usize;
        // Where free leaves are apart, as what lives among them decides, a view of two takes two mappings.
        assert!(again >= left + (alive - left) / 2, "{again} views where there were {alive}, and {left} were left");
        roots.clear();
        drop(heap);
        assert_eq!(mappings().1, 0);
    }
}
