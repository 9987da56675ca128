//! Snapshots of a stack in steps: a collector that goes on while the mutator runs sees the frames as they were when it
//! began, however deep the stack is.
//!
//! A frame that waits in a call does not change its slots. So the newest frames are visited when the collector begins
//! ([`visit_newest`]), as many as [`UNITS`] allow, and older ones later ([`visit_older`]), in steps of any size; a
//! [return barrier](crate::vm::barriers) lies before the first that is *waiting* to be visited. Where control comes to
//! it, it is visited before it runs, with some older ones, and the barrier lies before the next.
//!
//! Frames that exceptions, traps and errors leave behind are not visited any more. They can never run again, and
//! nothing has read them since the collector began: whatever they alone led to then is dead. What host code or a callee
//! had been given out of them before lay in places of their own when it began: in their frames, among the host's roots,
//! in the heap.

use std::ops::ControlFlow;
use std::ptr;

use legato_compiler::abi::StoreContext;
use legato_heap::{Budget, Done, RootVisitor};

use crate::vm::activation::{self, Activation};
use crate::vm::barriers::{self, marks};
use crate::vm::frames::{self, Frame};

/// What the visit of the newest frames may take.
const UNITS: u64 = 64;
/// Slots that count as much as one frame.
const SLOTS_PER_UNIT: usize = 8;

/// The youngest frame that is to be visited; it and all older ones of the store have not run since the beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    activation: *const Activation,
    pc: usize,
    fp: usize,
    /// Frame pointer of the frame that it has called, where that is compiled code of the same activation, and no
    /// barrier has been laid yet: from then on it may be another.
    callee_fp: Option<usize>,
}

impl Waiting {
    /// The frame at which an activation stands.
    ///
    /// # Safety
    /// As [`frames::walk_activation`].
    unsafe fn innermost(activation: &Activation, (pc, fp): (usize, usize)) -> Waiting {
        // SAFETY: passed on to the caller.
        let pc = unsafe { barriers::original(activation.store, pc, fp) };
        Waiting { activation, pc, fp, callee_fp: None }
    }
}

/// Begins: visits the slots of the newest frames of `store` on this thread, and leaves older ones to [`visit_older`].
/// All at once where the processor has no return barrier.
///
/// # Safety
/// As [`frames::visit_stack_roots`].
pub unsafe fn visit_newest(store: *mut StoreContext, visitor: &mut dyn RootVisitor) {
    let mut budget = if barriers::are_there() { Budget::units(UNITS) } else { Budget::unlimited() };
    // SAFETY: passed on to the caller; activations in the list are alive.
    unsafe {
        let innermost = activation::innermost_of(store, activation::current());
        marks(store).waiting = innermost.map(|activation| Waiting::innermost(activation, frames::last_exit(store)));
        if visit_older(store, visitor, &mut budget) == Done::No {
            place_barrier(store);
        }
    }
}

/// Goes on with the slots of older frames, as far as `budget` allows: a unit for each frame at least.
///
/// # Safety
/// This thread is the one that [`visit_newest`] was called on, and no compiled code of the store runs, unless it has
/// just met a return barrier.
pub unsafe fn visit_older(store: *mut StoreContext, visitor: &mut dyn RootVisitor, budget: &mut Budget) -> Done {
    // SAFETY: by the contract, and the borrow ends here.
    let Some(first) = (unsafe { marks(store).waiting }) else { return Done::Yes };
    let mut next = Some(first);
    let mut visit = |frame: &Frame<'_>| {
        if budget.is_exhausted() {
            let Frame { activation, pc, fp, callee_fp, .. } = *frame;
            next = Some(Waiting { activation, pc, fp, callee_fp: callee_fp.or(next.and_then(|next| next.callee_fp)) });
            return ControlFlow::Break(());
        }
        next = None;
        // SAFETY: the frame has been waiting since before `visit_newest`, and waits in a call, which is a safepoint.
        unsafe { frames::visit_slots(frame, visitor) };
        budget.spend(1 + (frame.slots().len() / SLOTS_PER_UNIT) as u64);
        ControlFlow::Continue(())
    };
    // SAFETY: by the contract; where a waiting frame is gone, `reached` and `left` have replaced it by one that is not.
    unsafe {
        // An activation without frames is passed over.
        if frames::walk_from(first.activation, store, (first.pc, first.fp), &mut visit).is_continue() {
            next = None;
        }
        marks(store).waiting = next;
    }
    if next.is_none() { Done::Yes } else { Done::No }
}

/// Lays a return barrier before the next frame to be visited, unless there is one. The innermost frame of an
/// activation needs none: control comes to it when the next inner one of the store is left.
///
/// # Safety
/// `store` is alive, and this is the thread of its waiting frames. Neither they nor the frame that the first of them
/// has called have run since the latter was visited.
unsafe fn place_barrier(store: *mut StoreContext) {
    // SAFETY: by the contract; the borrow ends before the barrier is placed.
    unsafe {
        if let Some(waiting) = &mut marks(store).waiting
            && let Some(callee_fp) = waiting.callee_fp.take()
        {
            barriers::place(store, waiting.fp, callee_fp);
        }
    }
}

/// Visits waiting frames, that at `fp` at least, which is going to run.
///
/// # Safety
/// The store's heap is not borrowed; the rest as [`place_barrier`].
unsafe fn visit_before_it_runs(store: *mut StoreContext, fp: usize) {
    // SAFETY: by the contract. The heap calls back, and no borrow of the marks is held then.
    unsafe {
        let visit_older = marks(store).visit_older;
        visit_older(store);
        // Not visited by a collector that has given up what it had begun.
        marks(store).waiting.take_if(|waiting| waiting.fp <= fp);
    }
}

/// Notes that the frame at `start` (program counter behind its call, frame pointer) is going to run.
///
/// # Safety
/// It belongs to the innermost activation, which is `activation`. The store's heap is not borrowed.
pub(crate) unsafe fn reached(activation: &Activation, start: (usize, usize)) {
    let (store, fp) = (activation.store, start.1);
    // SAFETY: by the contract.
    unsafe {
        let Some(waiting) = marks(store).waiting else { return };
        if waiting.fp < fp {
            marks(store).waiting = Some(Waiting::innermost(activation, start));
        }
        if waiting.fp <= fp {
            visit_before_it_runs(store, fp);
        }
        place_barrier(store);
    }
}

/// Notes that all frames of an activation are gone: the one that it was entered from goes on.
///
/// # Safety
/// It was the innermost of its store, which is alive, and whose heap is not borrowed.
pub(crate) unsafe fn left(activation: &Activation) {
    let store = activation.store;
    // SAFETY: by the contract; activations further out are alive.
    unsafe {
        let Some(waiting) = marks(store).waiting else { return };
        let Some(outer) = activation::innermost_of(store, activation.outer) else {
            marks(store).waiting = None;
            return;
        };
        let fp = activation.outer_exit.1;
        if waiting.fp < activation.entry_fp() {
            marks(store).waiting = Some(Waiting::innermost(outer, activation.outer_exit));
        }
        if waiting.fp <= fp {
            visit_before_it_runs(store, fp);
        }
        place_barrier(store);
    }
}
