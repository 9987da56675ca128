//! What a cycle keeps for the next one, and slices beside a helper that is late.

use super::Realtime;
use crate::budget::Budget;
use crate::collector::Collect;
use crate::observer::Cause;
use crate::references::ReferenceModel;
use crate::references::brooks::Brooks;
use crate::references::direct::Direct;
use crate::references::uni_handles::UniHandles;
use crate::spaces::Contents;
use crate::{HeapConfig, NoRoots, TypeInfo, TypeShape, TypeTable};

/// So many objects of 16 bytes are allocated while a cycle runs.
const OBJECTS: usize = 1 << 18;

/// Garbage is allocated while each cycle marks, which the next one frees. Returns what is committed before and behind
/// the second one, where the limit leaves little room.
fn committed_by_cycles<M: ReferenceModel>() -> [u64; 2] {
    let types = TypeTable::new().unwrap();
    let id = types.register(TypeInfo { shape: TypeShape::Struct(vec![]), supertype: None }).unwrap();
    let mut config = HeapConfig::default();
    let settings = [("collector", "realtime"), ("min", "1M"), ("growth", "1.05"), ("helpers", "0")];
    settings.iter().for_each(|(key, value)| config.set(key, value).unwrap());
    let mut heap = Realtime::<M>::new(&config, types).unwrap();
    let class = heap.core.small.classes.of(16);
    [(); 2].map(|()| {
        heap.start_cycle(Cause::Limit, &mut NoRoots);
        for _ in 0..OBJECTS {
            let object = heap.try_take(id, class, 16, Contents::Zeroed).unwrap();
            // SAFETY: the cell is free and large enough, and the model was prepared.
            unsafe { heap.core.start_object(object, id) };
        }
        let before = heap.core.pool.committed_bytes();
        heap.run_to_end(&mut NoRoots);
        heap.check(Some(&mut NoRoots)).unwrap();
        [before, heap.core.pool.committed_bytes()]
    })[1]
}

#[test]
fn what_the_mutator_took_beside_a_cycle_is_kept_for_the_next() {
    for [before, behind] in [committed_by_cycles::<Brooks>(), committed_by_cycles::<UniHandles>()] {
        assert!(before >= 2 * 16 * OBJECTS as u64, "{before}: two lots of objects");
        assert_eq!(behind, before, "what one lot has left is there for another one");
    }
}

/// A helper without a processor: slices are put off, and what it was given comes back when it has one.
#[test]
fn no_slice_waits_for_a_late_helper() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let types = TypeTable::new().unwrap();
    let id = types.register(TypeInfo { shape: TypeShape::Struct(vec![]), supertype: None }).unwrap();
    let mut config = HeapConfig::default();
    [("collector", "realtime"), ("helpers", "1")].iter().for_each(|(key, value)| config.set(key, value).unwrap());
    let mut heap = Realtime::<Direct>::new(&config, types).unwrap();
    let object = heap.allocate_struct(id, &mut NoRoots).unwrap();
    heap.start_cycle(Cause::Limit, &mut NoRoots);
    heap.core.helper.detain::<Direct>(true);
    while !heap.core.helper.is_given() {
        let _ = heap.step(&mut NoRoots, &mut Budget::units(1));
    }
    heap.core.helper.wait_until_begun();
    // So much that a slice would be due at once.
    while !heap.core.is_swamped() {
        heap.core.overwritten.record(object);
    }
    let before = heap.core.stats.slices;
    (0..100).for_each(|_| heap.slice(&mut NoRoots));
    assert_eq!(heap.core.stats.slices, before);
    assert!(heap.core.helper.is_given() && heap.core.is_swamped());

    heap.core.helper.detain::<Direct>(false);
    while heap.core.stats.slices == before {
        heap.slice(&mut NoRoots);
    }
    heap.run_to_end(&mut NoRoots);
    assert_eq!(heap.cycle.objects(), 1, "what was overwritten lives on");
}
