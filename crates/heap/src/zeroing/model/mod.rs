//! A model check of the hand-over: `loom` runs it in every order of the two threads' steps, with every value that a
//! load may see in C11's memory model. The very source of [`handover`](super::handover) is compiled once more here,
//! over the model checker's primitives.

#[allow(clippy::duplicate_mod, reason = "the same source over other primitives is the point")]
#[path = "../handover.rs"]
mod handover;

/// The model checker's versions of what `zeroing::sync` names.
mod sync {
    pub(super) use loom::cell::UnsafeCell;
    pub(super) use loom::sync::atomic::{AtomicU64, Ordering};
    pub(super) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub(super) use loom::thread::yield_now as spin;

    /// One look more, and the waiter parks: both ways out of the wait are taken.
    pub(super) const SPINS: u32 = 1;
}

use handover::Owner;
use loom::cell::UnsafeCell;
use loom::thread::JoinHandle;
use std::ops::Range;

/// A unit. Each access is checked: two without an order between them, of which one writes, fail the check.
struct Unit(UnsafeCell<u32>);

// SAFETY: the model checker fails before a race happens.
unsafe impl Sync for Unit {}

/// Memory of a few units.
#[derive(Clone)]
struct Memory(std::sync::Arc<Vec<Unit>>);

/// Memory as the zeroing finds it, and as a program leaves it.
const OLD: u32 = 7;

impl Memory {
    fn new(units: u32) -> Memory {
        Memory(std::sync::Arc::new((0..units).map(|_| Unit(UnsafeCell::new(OLD))).collect()))
    }

    fn write(&self, unit: u32, value: u32) {
        // SAFETY: the model checker fails before a race happens.
        self.0[unit as usize].0.with_mut(|cell| unsafe { *cell = value });
    }

    fn read(&self, unit: u32) -> u32 {
        // SAFETY: the model checker fails before a race happens.
        self.0[unit as usize].0.with(|cell| unsafe { *cell })
    }

    fn zero(&self, unit: u32) {
        assert_eq!(self.read(unit), OLD, "unit {unit} is zeroed twice, or while it is used");
        self.write(unit, 0);
    }
}

/// A heap of the model: it takes units, fills them, and stops for collections that touch everything.
struct Heap {
    memory: Memory,
    owner: Owner<Memory>,
    helper: JoinHandle<()>,
}

impl Heap {
    fn new(units: u32) -> Heap {
        let memory = Memory::new(units);
        let owner = Owner::new(memory.clone());
        let helper = owner.helper();
        let helper = loom::thread::spawn(move || helper.run(Memory::zero));
        Heap { memory, owner, helper }
    }

    fn start(&mut self, units: u32) {
        self.owner.start(|_| units);
    }

    /// Takes a block of some units and fills it.
    fn allocate(&mut self, block: Range<u32>) {
        self.owner.obtain(block.clone(), Memory::zero);
        for unit in block {
            assert_eq!(self.memory.read(unit), 0, "unit {unit} was handed out without having been zeroed");
            self.memory.write(unit, OLD);
        }
    }

    /// Stops, looks at what was zeroed and not used since, and leaves everything dirty.
    fn collect(&mut self, units: u32, taken: u32) {
        let zeroed = self.owner.stop();
        assert!((taken..=units).contains(&zeroed), "{zeroed} of {units} units, of which {taken} were taken");
        for unit in 0..units {
            let expected = if (taken..zeroed).contains(&unit) { 0 } else { OLD };
            assert_eq!(self.memory.read(unit), expected, "unit {unit}: {zeroed} zeroed, {taken} taken");
            self.memory.write(unit, OLD);
        }
    }

    /// The helper ends, and has written nothing since the last collection.
    fn end(mut self, units: u32) {
        self.owner.end();
        self.helper.join().unwrap();
        assert!((0..units).all(|unit| self.memory.read(unit) == OLD), "the helper wrote after the stop");
    }
}

/// Checks all orders with at most so many preemptions; without a bound, all that there are.
fn check(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}

#[test]
fn the_allocator_takes_zeroed_units_alone() {
    check(None, || {
        let mut heap = Heap::new(2);
        heap.start(2);
        heap.allocate(0..1);
        heap.allocate(1..2);
        heap.collect(2, 2);
        heap.end(2);
    });
}

#[test]
fn blocks_of_several_units_are_waited_for_whole() {
    check(Some(4), || {
        let mut heap = Heap::new(3);
        heap.start(3);
        heap.allocate(0..2);
        heap.collect(3, 2);
        heap.end(3);
    });
}

#[test]
fn after_a_stop_the_helper_writes_nothing() {
    check(None, || {
        let mut heap = Heap::new(2);
        heap.start(2);
        heap.collect(2, 0);
        heap.end(2);
    });
}

#[test]
fn a_helper_that_is_late_harms_no_later_cycle() {
    check(Some(3), || {
        let mut heap = Heap::new(2);
        heap.start(2);
        heap.allocate(0..1);
        heap.collect(2, 1);
        heap.start(1);
        heap.allocate(0..1);
        heap.collect(1, 1);
        heap.end(2);
    });
}
