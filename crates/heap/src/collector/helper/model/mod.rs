//! A model check of the baton: `loom` runs it in every order of the two threads' steps, with every value that a load
//! may see in C11's memory model. The very source of [`baton`](super::baton) is compiled once more here, over the model
//! checker's primitives.

#[allow(clippy::duplicate_mod, reason = "the same source over other primitives is the point")]
#[path = "../baton.rs"]
mod baton;

/// The model checker's versions of what `threads::sync` names.
mod sync {
    pub(super) use loom::cell::UnsafeCell;
    pub(super) use loom::sync::atomic::{AtomicU32, Ordering};
    pub(super) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub(super) use loom::thread::yield_now as spin;

    /// One look more, and the waiter parks: both ways out of the wait are taken.
    pub(super) const SPINS: u32 = 1;
}

use baton::Owner;
use loom::cell::UnsafeCell;
use loom::thread::JoinHandle;

/// Memory that both threads write to, whoever has the baton. Each access is checked: two without an order between them,
/// of which one writes, fail the check.
#[derive(Clone)]
struct Heap(std::sync::Arc<Cell>);

struct Cell(UnsafeCell<u32>);

// SAFETY: the model checker fails before a race happens.
unsafe impl Send for Cell {}
// SAFETY: the model checker fails before a race happens.
unsafe impl Sync for Cell {}

impl Heap {
    fn add(&self, number: u32) -> u32 {
        // SAFETY: the model checker fails before a race happens.
        self.0.0.with_mut(|cell| unsafe {
            *cell += number;
            *cell
        })
    }
}

/// A job of some units, each of which adds one to the heap.
struct Job {
    left: u32,
    heap: Heap,
}

impl Job {
    fn step(&mut self) -> bool {
        if self.left > 0 {
            self.left -= 1;
            self.heap.add(1);
        }
        self.left > 0
    }
}

/// A mutator of the model, which has given `given` units in all and done `own` besides.
struct Mutator {
    heap: Heap,
    owner: Owner<Job>,
    helper: JoinHandle<()>,
    given: u32,
    own: u32,
}

impl Mutator {
    fn new() -> Mutator {
        let heap = Heap(std::sync::Arc::new(Cell(UnsafeCell::new(0))));
        let owner = Owner::new(Job { left: 0, heap: heap.clone() });
        let helper = owner.helper();
        let work = |job: &mut Job, is_wanted: &dyn Fn() -> bool| while !is_wanted() && job.step() {};
        let helper = loom::thread::spawn(move || helper.run(work));
        Mutator { heap, owner, helper, given: 0, own: 0 }
    }

    fn give(&mut self, units: u32) {
        self.owner.with_job(|job| job.left += units);
        self.given += units;
        self.owner.give();
    }

    /// Takes the baton; the heap is the mutator's from then on, and nothing of the job is lost.
    fn take(&mut self) {
        self.owner.take();
        self.own += 10;
        let (total, left) = (self.heap.add(10), self.owner.with_job(|job| job.left));
        assert_eq!(total, self.own + self.given - left);
    }

    fn end(mut self) {
        self.owner.end();
        self.helper.join().unwrap();
        self.heap.add(1);
    }
}

/// Checks all orders with at most so many preemptions; without a bound, all that there are.
fn check(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}

#[test]
fn what_is_taken_back_is_the_mutators_alone() {
    check(None, || {
        let mut mutator = Mutator::new();
        mutator.give(2);
        mutator.take();
        mutator.end();
    });
}

#[test]
fn who_does_not_wait_has_the_baton_or_gets_it_later() {
    check(Some(3), || {
        let mut mutator = Mutator::new();
        mutator.give(2);
        if mutator.owner.try_take() {
            mutator.own += 1;
            mutator.heap.add(1);
            mutator.give(1);
        }
        let _ = mutator.owner.try_take();
        mutator.take();
        mutator.end();
    });
}

#[test]
fn the_baton_goes_to_and_fro() {
    check(Some(3), || {
        let mut mutator = Mutator::new();
        mutator.give(2);
        mutator.take();
        mutator.give(1);
        mutator.take();
        mutator.end();
    });
}

#[test]
fn what_the_helper_has_finished_is_taken_without_a_wait() {
    check(Some(3), || {
        let mut mutator = Mutator::new();
        mutator.give(1);
        let is_finished = mutator.owner.is_returned();
        mutator.take();
        assert!(!is_finished || mutator.owner.with_job(|job| job.left) == 0);
        mutator.take();
        mutator.end();
    });
}

#[test]
fn who_is_patient_finds_that_the_helper_has_begun() {
    check(Some(3), || {
        let mut mutator = Mutator::new();
        mutator.give(1);
        while mutator.owner.is_untouched() {
            loom::thread::yield_now();
        }
        mutator.take();
        mutator.end();
    });
}
