//! What the helper is given is marked, or comes back.

use crate::budget::finish;
use crate::collector::realtime::Realtime;
use crate::collector::schedule::{CycleParams, Helpers};
use crate::collector::{Collect, Collector};
use crate::references::direct::Direct;
use crate::{HeapConfig, NoRoots, Reference, TypeInfo, TypeShape, TypeTable};

const OBJECTS: usize = 20_000;

/// A heap with a helper, and objects that nothing leads to.
fn heap() -> (Realtime<Direct>, Vec<Reference>) {
    let params = CycleParams { helpers: Helpers::One, ..CycleParams::DEFAULT };
    let config = HeapConfig { collector: Collector::Realtime(params), ..HeapConfig::default() };
    let types = TypeTable::new().unwrap();
    let id = types.register(TypeInfo { shape: TypeShape::Struct(vec![]), supertype: None }).unwrap();
    let mut heap = Realtime::new(&config, types).unwrap();
    let objects = (0..OBJECTS).map(|_| heap.allocate_struct(id, &mut NoRoots).unwrap()).collect();
    (heap, objects)
}

/// Half of the objects wait as overwritten, half on the mark stack, and the baton is taken back at any time.
#[test]
fn nothing_that_is_given_is_lost() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let (mut heap, objects) = heap();
    let core = heap.core_mut();
    // Before the helper has begun as a rule, then while it marks, and when nothing is left.
    let cases = [(false, 0), (true, 0), (true, 10), (true, 1000), (true, 100_000)];
    for (waits, turns) in std::iter::repeat_n(cases, 20).flatten() {
        core.pool.start_marking(false);
        core.pool.swap_planes();
        objects[..OBJECTS / 2].iter().for_each(|&object| core.marker().mark(object));
        core.pool.swap_planes();
        objects[OBJECTS / 2..].iter().for_each(|&object| core.overwritten.record(object));
        core.give_marking(None);
        assert!(core.helper.is_given() && core.overwritten.len() == 0);
        while waits && !core.helper.has_begun() {
            std::thread::yield_now();
        }
        (0..turns).for_each(|_| std::hint::spin_loop());
        core.take_marking();
        assert!(!core.helper.is_given());
        core.pool.swap_planes();
        while let Some(object) = core.overwritten.pop() {
            core.marker().mark(object);
        }
        finish(|budget| core.marker().step(budget));
        let marked = objects.iter().filter(|object| core.pool.marks.get(object.0)).count();
        assert_eq!(marked, OBJECTS, "after {turns} turns");
        finish(|budget| core.pool.marks.clear(&mut 0, budget));
        core.pool.swap_planes();
        core.pool.abandon_marking();
    }
    assert!(core.helper.total() > std::time::Duration::ZERO);
}
