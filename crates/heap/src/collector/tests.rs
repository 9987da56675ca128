//! A collection in steps of one unit finds, frees and gives back what one without a limit does.

use super::Collect;
use crate::blocks::Release;
use crate::budget::{Budget, Done};
use crate::config::HeapConfig;
use crate::core::Core;
use crate::heap::{Heap, Inner, dispatch};
use crate::layout::StorageKind;
use crate::observer::{Cause, GcEvent, GcObserver, GcSlice, HeapStats, Phase};
use crate::plan::BumpRun;
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::roots::{RootCursor, RootVisitor, Roots};
use crate::type_table::TypeTable;
use crate::types::{TypeId, TypeInfo, TypeShape};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Half of the roots as frames, half as slots.
struct Held {
    frames: Vec<Reference>,
    slots: Vec<Reference>,
}

// SAFETY: the references were pushed when their objects were allocated, and the heap gets these roots in every call.
unsafe impl Roots for Held {
    fn visit_roots(&mut self, visitor: &mut dyn RootVisitor) {
        self.visit_frames(visitor);
        assert_eq!(self.visit_slots(visitor, &mut RootCursor::default(), &mut Budget::unlimited()), Done::Yes);
    }

    fn visit_frames(&mut self, visitor: &mut dyn RootVisitor) {
        for slot in &mut self.frames {
            visitor.visit(slot);
        }
    }

    fn visit_slots(&mut self, visitor: &mut dyn RootVisitor, cursor: &mut RootCursor, budget: &mut Budget) -> Done {
        cursor.advance(self.slots.len(), budget, |range| {
            for slot in &mut self.slots[range] {
                visitor.visit(slot);
            }
        })
    }
}

/// A host value that counts the dead.
struct Mortal(Arc<AtomicU64>);

impl Drop for Mortal {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct Garden {
    heap: Heap,
    node: TypeId,
    links: TypeId,
    bytes: TypeId,
    roots: Held,
    random: u64,
    dropped: Arc<AtomicU64>,
}

impl Garden {
    fn new(config: &HeapConfig) -> Garden {
        let types = TypeTable::new().unwrap();
        let of = |shape| types.register(TypeInfo { shape, supertype: None }).unwrap();
        Garden {
            node: of(TypeShape::Struct(vec![StorageKind::Ref, StorageKind::Ref, StorageKind::I64])),
            links: of(TypeShape::Array(StorageKind::Ref)),
            bytes: of(TypeShape::Array(StorageKind::I8)),
            heap: Heap::new(config, types).unwrap(),
            roots: Held { frames: vec![Reference::NULL; 200], slots: vec![Reference::NULL; 2000] },
            random: 1,
            dropped: Arc::default(),
        }
    }

    fn below(&mut self, end: usize) -> usize {
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.random >> 33) as usize % end
    }

    fn slot(&mut self) -> &mut Reference {
        let index = self.below(self.roots.frames.len() + self.roots.slots.len());
        match index.checked_sub(self.roots.frames.len()) {
            None => &mut self.roots.frames[index],
            Some(index) => &mut self.roots.slots[index],
        }
    }

    /// Allocates something that leads to what there is, and puts it in the place of something.
    fn grow(&mut self) {
        let (first, second) = (*self.slot(), *self.slot());
        let what = self.below(400);
        let length = [40, 3_000, 70_000, 300_000, 1_500_000][self.below(5)];
        let at = self.below(length as usize) as u32;
        let new = match what {
            0..4 => self.heap.allocate_array(self.bytes, length, &mut self.roots).unwrap(),
            4 => self.heap.allocate_array(self.links, length / 8, &mut self.roots).unwrap(),
            5..40 => self.heap.allocate_external(Box::new(Mortal(self.dropped.clone())), &mut self.roots).unwrap(),
            _ => self.heap.allocate_struct(self.node, &mut self.roots).unwrap(),
        };
        // SAFETY: what was allocated is live, and so are the roots: nothing is collected meanwhile.
        unsafe {
            match what {
                0..2 => self.heap.array_fill(new, at, 7, (length - at).min(9_000)).unwrap(),
                2..4 => self.heap.array_fill(new, at, 0, (length - at).min(9_000)).unwrap(),
                4 => self.heap.array_fill_references(new, at / 8, first, (length / 8 - at / 8).min(300)).unwrap(),
                5..40 => {}
                _ => {
                    self.heap.store_reference(new, 8, first);
                    self.heap.store_reference(new, 12, second);
                }
            }
            if what == 0
                && let Some(view) = self.heap.array_view(&mut [new], true, &mut self.roots)
            {
                view.as_ptr().write(1);
            }
        }
        *self.slot() = new;
    }

    /// Collects with such a budget for each step. Returns how many steps there were, what is left, and the totals.
    fn collect(&mut self, budget: impl Fn() -> Budget) -> (u64, Vec<String>, HeapStats) {
        let Garden { heap, roots, .. } = self;
        dispatch!(&mut heap.0, heap => {
            let (steps, left) = collect(&mut heap.core, roots, &budget);
            (steps, left, heap.stats())
        })
    }
}

/// A full collection, as mark-sweep makes it.
fn collect<M: ReferenceModel>(
    core: &mut Core<M>,
    roots: &mut dyn Roots,
    budget: &dyn Fn() -> Budget,
) -> (u64, Vec<String>) {
    let mut steps = 0;
    let mut run = |step: &mut dyn FnMut(&mut Budget) -> Done| {
        loop {
            steps += 1;
            let mut budget = budget();
            // Whoever comes before may have used the budget up.
            let mut exhausted = Budget::units(1);
            exhausted.spend(1);
            if budget.is_limited() && step(&mut exhausted) == Done::Yes || step(&mut budget) == Done::Yes {
                break;
            }
        }
    };
    for class in 0..core.small.classes.count() {
        *core.context.run(class) = BumpRun::default();
    }
    let mut cursor = 0;
    run(&mut |budget| core.pool.marks.clear(&mut cursor, budget));
    roots.visit_frames(&mut core.marker());
    let mut cursor = RootCursor::default();
    run(&mut |budget| roots.visit_slots(&mut core.marker(), &mut cursor, budget));
    run(&mut |budget| core.marker().step(budget));
    run(&mut |budget| core.marking.trim(budget));
    let tally = core.marking.take_tally();
    let mut sweeping = core.start_sweep(true);
    run(&mut |budget| core.sweep(&mut sweeping, budget));
    let dead = core.externals.dead_count();
    run(&mut |budget| core.externals.drop_dead(budget));
    let mut release = Release::new(5 << 20);
    run(&mut |budget| core.pool.release_to_system(&mut release, budget));
    core.pool.check().unwrap();
    let left = vec![
        format!("{dead} dead values, {tally:?}, {:?}", sweeping.survivors()),
        core.pool.described(),
        format!("{:?}", core.small),
        format!("{:?}", core.leaves),
    ];
    (steps, left)
}

/// Notes the phases of slices, and for each collection how long its slices and itself took.
#[derive(Default)]
struct Notes {
    phases: Vec<Phase>,
    slices: Duration,
}

struct Noting(Arc<Mutex<Notes>>);

impl GcObserver for Noting {
    fn event(&mut self, event: &GcEvent) {
        let slices = std::mem::take(&mut self.0.lock().unwrap().slices);
        assert!(slices > Duration::ZERO && slices <= event.pause, "{slices:?} of {event}");
    }

    fn slice(&mut self, slice: &GcSlice) {
        let mut notes = self.0.lock().unwrap();
        notes.phases.push(slice.phase);
        notes.slices += slice.wall;
        // The two clocks are read one after the other.
        assert!(slice.cpu <= slice.wall + Duration::from_millis(20), "{slice:?}");
    }
}

#[test]
fn an_observer_is_told_of_each_slice_before_its_collection() {
    let full = [Phase::Roots, Phase::Mark, Phase::Sweep, Phase::Release];
    let expected = [full.to_vec(), [&[Phase::Evacuate], &full[..]].concat()];
    for (collector, expected) in ["mark-sweep", "generational"].into_iter().zip(expected) {
        let mut config = HeapConfig::default();
        config.set("collector", collector).unwrap();
        let mut garden = Garden::new(&config);
        let notes = Arc::<Mutex<Notes>>::default();
        garden.heap.set_observer(Box::new(Noting(notes.clone())));
        garden.heap.collect(Cause::Requested, &mut garden.roots);
        assert_eq!(notes.lock().unwrap().phases, expected);
    }
}

#[test]
fn steps_of_one_unit_do_what_one_step_does() {
    let _alone = crate::os::mappings::alone();
    // Where the next block lies depends on when a thread has touched a huge page.
    let base = [("collector", "mark-sweep"), ("max", "512M"), ("min", "512M"), ("huge-pages", "off")];
    let configs: [&[(&str, &str)]; 6] = [
        &[],
        &[("references", "thin-handles")],
        &[("arrays", "zrays")],
        &[("arrays", "mapped")],
        &[("arrays", "mapped"), ("references", "thin-handles")],
        &[("arrays", "arraylets"), ("native-views", "double-map"), ("leaf", "4K")],
    ];
    for settings in configs {
        let mut config = HeapConfig::default();
        base.iter().chain(settings).for_each(|(key, value)| config.set(key, value).unwrap());
        let mut gardens = [Garden::new(&config), Garden::new(&config)];
        for round in 0..3 {
            let [whole, stepped] = gardens.each_mut().map(|garden| {
                (0..4000).for_each(|_| garden.grow());
                garden
            });
            let (few, left, stats) = whole.collect(Budget::unlimited);
            let (many, left_by_steps, stats_by_steps) = stepped.collect(|| Budget::units(1));
            assert_eq!(few, 7, "a step for each machine");
            assert!(many > 2000, "{many} steps");
            for (left, by_steps) in left.iter().zip(&left_by_steps) {
                assert!(left == by_steps, "{settings:?}, round {round}:\n{left}\n{by_steps}");
            }
            assert_eq!(stats, stats_by_steps, "{settings:?}");
            let dropped = [&*whole, &*stepped].map(|garden| garden.dropped.load(Ordering::Relaxed));
            assert!(dropped[0] == dropped[1] && dropped[0] > 0, "{dropped:?}");
            // What is allocated next lies in the same places.
            for garden in [whole, stepped] {
                garden.heap.verify(Some(&mut garden.roots)).unwrap();
            }
        }
        let [whole, stepped] = &gardens;
        assert!(whole.roots.frames == stepped.roots.frames && whole.roots.slots == stepped.roots.slots);
        for mut garden in gardens {
            garden.heap.collect(Cause::Requested, &mut garden.roots);
        }
    }
}
