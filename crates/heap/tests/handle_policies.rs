//! What becomes of free handles: under each policy no live object loses its handle, and blocks of handles are kept or
//! given back as it says.

mod common;

use common::world::World;
use common::{both, realtime};
use legato_heap::references::References;
use legato_heap::references::handle_policies::{HandleCache, HandleOrder, HandleParams, HandleRelease};
use legato_heap::{Cause, Heap, HeapConfig, NoRoots, RootStack, TypeInfo, TypeShape, TypeTable};

/// Every combination of policies.
fn policies() -> Vec<HandleParams> {
    let mut policies = Vec::new();
    for &release in HandleRelease::ALL {
        for &order in HandleOrder::ALL {
            policies.extend(HandleCache::ALL.iter().map(|&cache| HandleParams { release, order, cache }));
        }
    }
    policies
}

/// The heaps with handles that the collectors have.
fn heaps(base: &HeapConfig) -> Vec<HeapConfig> {
    let all = both(base.clone()).into_iter().chain(realtime(base));
    all.filter(|config| config.references.plan().handles.is_some()).collect()
}

#[test]
fn graphs_match_their_shadows_under_each_policy() {
    let base = HeapConfig { verify: true, min_bytes: 64 << 10, ..HeapConfig::default() };
    let stressed = HeapConfig { stress: Some(1), ..base.clone() };
    for (seed, handles) in policies().into_iter().enumerate() {
        for (base, steps) in [(&base, 4000), (&stressed, 300)] {
            let heaps = heaps(base);
            let config = HeapConfig { handles, ..heaps[seed % heaps.len()].clone() };
            let mut world = World::new(&config, 500 + seed as u64);
            for step in 0..steps {
                world.step();
                if step % 97 == 0 {
                    world.compare();
                }
            }
            world.settle();
        }
    }
}

#[test]
fn blocks_are_kept_and_given_back_as_the_policy_says() {
    for handles in policies() {
        let config =
            HeapConfig { references: References::UniHandles, handles, ..heaps(&HeapConfig::default())[0].clone() };
        let types = TypeTable::new().unwrap();
        let id = types.register(TypeInfo { shape: TypeShape::Struct(vec![]), supertype: None }).unwrap();
        let mut heap = Heap::new(&config, types).unwrap();
        let mut roots = RootStack::new();
        for _ in 0..100_000 {
            let object = heap.allocate_struct(id, &mut roots).unwrap();
            // SAFETY: the object has just been allocated, and `heap` gets these roots in every call.
            unsafe { roots.push(object) };
        }
        let full = heap.stats().handle_bytes;
        assert!(full >= 800_000, "{handles:?}");
        drop(roots);
        // Cells are swept late: what they held is released by the time that they are used again.
        (0..3).for_each(|_| heap.collect(Cause::Requested, &mut NoRoots));
        let left = heap.stats().handle_bytes;
        let block = 32 << 10;
        match (handles.release, handles.cache) {
            (HandleRelease::Naive, _) | (_, HandleCache::All) => assert_eq!(left, full, "{handles:?}"),
            (_, HandleCache::None) => assert!(left <= 2 * block, "{handles:?}: {left} of {full}"),
            (_, HandleCache::Some) => {
                assert!((8 * block..=10 * block).contains(&left), "{handles:?}: {left} of {full}");
            }
            (_, other) => panic!("{other:?} is no policy"),
        }
        // What is kept is used first.
        for _ in 0..40_000 {
            heap.allocate_struct(id, &mut NoRoots).unwrap();
        }
        assert!(heap.stats().handle_bytes <= full, "{handles:?}");
        heap.verify(None).unwrap();
    }
}
