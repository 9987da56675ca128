//! Memory that the system refuses at every possible point: in the nursery, while copying, for large objects. A nursery
//! beside a helper that is late. And what a heap keeps that it does not need any more.

use super::{Barrier, Generational, GenerationalParams, Nursery};
use crate::collector::Collect;
use crate::collector::exhaustion::Model;
use crate::layout::{HEADER_BYTES, StorageKind, array_elements_offset};
use crate::observer::CollectionKind;
use crate::reference::Reference;
use crate::references::direct::Direct;
use crate::spaces::Contents;
use crate::{Cause, Collector, HeapConfig, NoRoots, RootStack, TypeId, TypeInfo, TypeShape, TypeTable, Zeroing};
use std::sync::Arc;
use std::time::Duration;

/// Runs one program in which the pool's take of number `takes` and all later ones fail, for a while; returns whether it
/// came to that.
fn run(config: &HeapConfig, takes: u32) -> bool {
    let mut model = Model::new(config, Generational::new);
    model.heap.core.pool.takes_left = Some(takes);
    model.live_on(6000)
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
        let mut model = Model::new(&config, Generational::new);
        let place = |model: &Model<Generational>| model.heap.core.pool.cage.address(model.get(0).0) as usize;
        let new = model.heap.allocate_struct(model.node, &mut model.roots).unwrap();
        model.keep(0, new, 0);
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

/// The nursery may be twice as large while its collection would have to wait.
#[test]
fn no_nursery_collection_waits_for_a_late_helper() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let mut config = HeapConfig::default();
    let settings = [("nursery", "256K"), ("helpers", "1"), ("min", "8M")];
    settings.iter().for_each(|(key, value)| config.set(key, value).unwrap());
    let types = TypeTable::new().unwrap();
    let id = types.register(TypeInfo { shape: TypeShape::Struct(vec![]), supertype: None }).unwrap();
    let mut heap = Generational::new(&config, types).unwrap();
    heap.run(Cause::Requested, CollectionKind::Nursery, 0, &mut NoRoots);
    heap.core.helper.detain::<Direct>(true);
    while !heap.core.helper.is_given() {
        heap.slice_under_stress(&mut NoRoots);
    }
    heap.core.helper.wait_until_begun();
    let (before, most) = (heap.core.stats.collections, heap.nursery_bytes());
    let allocate = |heap: &mut Generational| {
        heap.allocate_struct(id, &mut NoRoots).unwrap();
    };
    while heap.young_bytes() < most * 3 / 2 {
        allocate(&mut heap);
        assert_eq!(heap.core.stats.collections, before);
    }
    let rest = 2 * most - heap.young_bytes();
    assert!(!heap.is_nursery_over(rest) && heap.is_nursery_over(rest + 1));

    heap.core.helper.detain::<Direct>(false);
    while heap.core.stats.collections == before {
        allocate(&mut heap);
    }
    assert!(heap.young_bytes() < most);
    heap.check(Some(&mut NoRoots)).unwrap();
}

#[test]
fn what_a_heap_has_let_go_of_is_kept_for_a_while() {
    const ARRAYS: usize = 600;
    for full in ["stop", "incremental"] {
        let mut config = HeapConfig::default();
        let settings = [("full", full), ("min", "1M"), ("helpers", "0")];
        settings.iter().for_each(|(key, value)| config.set(key, value).unwrap());
        let types = TypeTable::new().unwrap();
        let id = types.register(TypeInfo { shape: TypeShape::Array(StorageKind::I8), supertype: None }).unwrap();
        let mut heap = Generational::new(&config, types).unwrap();
        let held = (ARRAYS * 60_000) as u64;
        let fill = |heap: &mut Generational| {
            let mut roots = RootStack::new();
            for _ in 0..ARRAYS {
                let array = heap.allocate_array(id, 60_000, Contents::Zeroed, &mut roots).unwrap();
                // SAFETY: the array is live.
                unsafe { roots.push(array) };
            }
            heap.run(Cause::Requested, CollectionKind::Full, 0, &mut roots);
            assert!(heap.core.pool.committed_bytes() >= held);
        };
        let collect = |heap: &mut Generational, cause| {
            heap.run(cause, CollectionKind::Full, 0, &mut NoRoots);
            heap.core.pool.committed_bytes()
        };
        fill(&mut heap);
        assert!(collect(&mut heap, Cause::Requested) < held / 2, "what is asked for is done at once");
        fill(&mut heap);
        assert!(collect(&mut heap, Cause::Limit) >= held, "as much may be needed again");
        assert!(collect(&mut heap, Cause::Limit) < held / 2, "it was not needed again");
        fill(&mut heap);
        collect(&mut heap, Cause::Limit);
        heap.run(Cause::Nursery, CollectionKind::Nursery, 0, &mut NoRoots);
        assert!(heap.core.pool.committed_bytes() >= held, "it has not been long");
        heap.core.pacer.grow_old(Duration::from_secs(10));
        for _ in 0..10_000 {
            if heap.core.pool.committed_bytes() < held / 2 {
                break;
            }
            heap.run(Cause::Nursery, CollectionKind::Nursery, 0, &mut NoRoots);
        }
        assert!(heap.core.pool.committed_bytes() < held / 2, "nobody has needed it for long");
        heap.check(Some(&mut NoRoots)).unwrap();
    }
}

/// A chain of objects that hold ever more references to what has not been copied, arrays and structs of all kinds.
#[test]
fn everything_survives_where_the_stack_is_high() {
    const LINKS: usize = 120;
    const MANY: usize = 1_500;
    let config = HeapConfig { verify: true, ..HeapConfig::default() };
    let types = TypeTable::new().unwrap();
    let of = |shape| types.register(TypeInfo { shape, supertype: None }).unwrap();
    let leaf = of(TypeShape::Struct(vec![StorageKind::I32]));
    let small = of(TypeShape::Struct(vec![StorageKind::Ref; 3]));
    let many = of(TypeShape::Struct(vec![StorageKind::Ref; MANY]));
    let array = of(TypeShape::Array(StorageKind::Ref));
    let elements = |start: u32, count: usize| (start..).step_by(4).take(count).collect::<Vec<u32>>();
    let references = |id| types.reference_offsets(id).to_vec();
    let kinds = [
        (array, elements(array_elements_offset(StorageKind::Ref), 512)),
        (array, elements(array_elements_offset(StorageKind::Ref), 1_300)),
        (small, references(small)),
        (many, references(many)),
    ];
    // Short arrays first: what they leave on the stack makes it high.
    let kind = |link: usize| &kinds[if link < 60 { 0 } else { link % kinds.len() }];

    let mut heap = Generational::new(&config, Arc::clone(&types)).unwrap();
    let mut roots = RootStack::new();
    let allocate = |heap: &mut Generational, (id, slots): &(TypeId, Vec<u32>), roots: &mut RootStack| match *id == array
    {
        true => heap.allocate_array(*id, slots.len() as u32, Contents::Zeroed, roots).unwrap(),
        false => heap.allocate_struct(*id, roots).unwrap(),
    };
    let mut first = None;
    for link in (0..LINKS).rev() {
        // SAFETY: nothing is collected, as all fits the nursery; the slots are those of a young object.
        unsafe {
            let numbered = allocate(&mut heap, &(leaf, vec![]), &mut roots);
            heap.core.pool.cage.write(numbered.0 + HEADER_BYTES, link as u32);
            let object = allocate(&mut heap, kind(link), &mut roots);
            let slots = &kind(link).1;
            slots.iter().for_each(|slot| heap.core.pool.cage.write(object.0 + slot, numbered.0));
            if let Some(Reference(next)) = first.replace(object) {
                heap.core.pool.cage.write(object.0 + slots[slots.len() - 1], next);
            }
        }
    }
    assert_eq!(heap.core.stats.collections, 0);
    // SAFETY: the chain's first object is live.
    unsafe { roots.push(first.unwrap()) };
    heap.run(Cause::Requested, CollectionKind::Nursery, 0, &mut roots);
    heap.check(Some(&mut roots)).unwrap();
    let mut object = roots.get(0).0;
    for link in 0..LINKS {
        let word = |offset| {
            assert!(heap.core.is_marked_object(object), "link {link} is at {object:#x}");
            // SAFETY: the offset is that of a slot, or of a leaf's number.
            unsafe { heap.core.pool.cage.read(offset) }
        };
        let slots = &kind(link).1;
        let (last, others) = slots.split_last().unwrap();
        for slot in others {
            assert_eq!(word(word(object + slot) + HEADER_BYTES), link as u32, "{slot} of link {link}");
        }
        object = word(object + last);
    }
}
