//! Watermarks: a nursery collection looks at the frames that have run since the last one, however deep the stack is.
//!
//! A frame that waits in a call does not change its slots. Once a nursery collection has visited them, and none leads
//! to a young object any more, there is nothing in them for the next one. So each store has a *watermark*: a frame such
//! that it and all older frames of the store have been visited and have not run since. Control comes back to it by one
//! return address, which is replaced by that of a *return barrier*: code that moves the watermark [`DISTANCE`] frames
//! on and goes on where the call would have returned to.
//!
//! Control can also reach an older frame by an exception ([`resumed`]), or leave all frames of an activation at once
//! ([`left`]). A tail call takes the replaced address along into the frame that takes its own's place, which is why
//! walks know it by its value.
//!
//! The classical return barrier (Yuasa 2002; stack markers: Cheng, Harper and Lee 1998). Limit: without a barrier for
//! the processor in `arch`, every collection visits all frames.

use std::ops::ControlFlow;

use legato_compiler::abi::StoreContext;
use legato_heap::RootVisitor;
use smallvec::SmallVec;

use crate::vm::activation::{self, Activation};
use crate::vm::arch;
use crate::vm::frames::{self, Frame};

/// How many frames lie between the one that runs and the watermark: so many returns cost nothing.
pub(crate) const DISTANCE: usize = 64;

/// The return address that leads to the barrier, where there is one.
pub(crate) fn barrier() -> Option<usize> {
    arch::RETURN_BARRIER.map(|barrier| barrier as usize)
}

/// The address at which a frame goes on, by the return address that was found for it.
///
/// # Safety
/// `store` is a living store's context, and the address was found in a frame of its compiled code.
pub(crate) unsafe fn original(store: *const StoreContext, address: usize) -> usize {
    // SAFETY: by the contract. Only one return address is replaced at a time.
    if Some(address) == barrier() { unsafe { (*store).watermark_return } } else { address }
}

/// What is remembered of a frame while the watermark is being placed.
struct Visited {
    fp: usize,
    callee_fp: Option<usize>,
    is_young: bool,
}

/// Visits the slots of the frames of `store` that have run since the last visit by this function, or were left with
/// young references.
///
/// # Safety
/// As [`frames::visit_stack_roots`]; and the visitor is a nursery collection's or tells as truly what is young.
pub unsafe fn visit_young_stack_roots(store: *mut StoreContext, visitor: &mut dyn RootVisitor) {
    let mut visited: SmallVec<[Visited; 2 * DISTANCE]> = SmallVec::new();
    // SAFETY: passed on to the caller.
    let old = unsafe {
        let watermark = (*store).watermark_fp;
        let mut old = None;
        let mut visit = |frame: &Frame<'_>| {
            if frame.fp == watermark {
                old = Some(frame.callee_fp);
                return ControlFlow::Break(());
            }
            let is_young = frames::visit_slots(frame, visitor);
            visited.push(Visited { fp: frame.fp, callee_fp: frame.callee_fp, is_young });
            ControlFlow::Continue(())
        };
        let _ = frames::walk(store, frames::last_exit(store), &mut visit);
        old
    };
    if visited.len() < 2 * DISTANCE {
        return;
    }
    // Whoever waits in a tail call of a host function has its return address in a frame of the trampoline's: it is left
    // alone.
    if old == Some(None) {
        return;
    }
    let first = visited.iter().rposition(|frame| frame.is_young).map_or(0, |young| young + 1).max(DISTANCE);
    let found = visited.iter().skip(first).find_map(|frame| Some((frame.fp, frame.callee_fp?)));
    if let (Some((fp, callee_fp)), Some(_)) = (found, barrier()) {
        // SAFETY: the frames wait on this thread's stack, as the walk has found them.
        unsafe {
            if let Some(Some(callee_fp)) = old {
                *frames::return_address(callee_fp) = (*store).watermark_return;
            }
            place(store, fp, callee_fp);
        }
    }
}

/// Makes the frame at `fp` the watermark; no return address is replaced now.
///
/// # Safety
/// The frame at `callee_fp` waits on this thread's stack and returns to the one at `fp`. It and all older frames of the
/// store have no young references.
unsafe fn place(store: *mut StoreContext, fp: usize, callee_fp: usize) {
    let Some(barrier) = barrier() else { return };
    // SAFETY: by the contract; nobody else looks at the frame meanwhile.
    unsafe {
        let slot = frames::return_address(callee_fp);
        (*store).watermark_fp = fp;
        (*store).watermark_return = *slot;
        *slot = barrier;
    }
}

/// Moves the watermark on, as the frame at `start` (program counter, frame pointer) of the innermost activation is
/// going to run.
///
/// # Safety
/// The frame at the watermark runs or is gone, and so is the one whose return address had been replaced; `start` lies
/// on this thread's stack, in the store's innermost activation, and is no younger than the watermark was.
unsafe fn advance(store: *mut StoreContext, start: (usize, usize)) {
    let mut count = 0;
    let mut found = None;
    let mut look = |frame: &Frame<'_>| {
        count += 1;
        if count <= DISTANCE {
            return ControlFlow::Continue(());
        }
        match frame.callee_fp {
            None => ControlFlow::Continue(()),
            Some(callee_fp) => {
                found = Some((frame.fp, callee_fp));
                ControlFlow::Break(())
            }
        }
    };
    // SAFETY: by the contract. Frames older than the watermark are as the last nursery collection has left them.
    unsafe {
        let _ = frames::walk(store, start, &mut look);
        (*store).watermark_fp = 0;
        (*store).watermark_return = 0;
        if let Some((fp, callee_fp)) = found {
            place(store, fp, callee_fp);
        }
    }
}

/// What the return barrier calls when control returns to the frame at `fp`. Returns the address to go on at.
pub(crate) extern "C" fn returned(fp: usize) -> usize {
    let activation = activation::current();
    // SAFETY: compiled code has just returned through the barrier, so its activation is this thread's innermost, and
    // its store's watermark is the frame that control returns to.
    unsafe {
        let store = (*activation).store;
        let original = (*store).watermark_return;
        advance(store, (original, fp));
        original
    }
}

/// Notes that an exception is about to be caught by the frame at `fp`, at `pc`.
///
/// # Safety
/// The frame belongs to the innermost activation, which is `activation`; no younger frame runs again.
pub(crate) unsafe fn resumed(activation: &Activation, pc: usize, fp: usize) {
    let store = activation.store;
    // SAFETY: an activation's store is alive; the rest is the caller's promise. The stack grows towards lower
    // addresses.
    unsafe {
        if (*store).watermark_fp != 0 && fp >= (*store).watermark_fp {
            advance(store, (pc, fp));
        }
    }
}

/// Notes that all frames of an activation are gone.
///
/// # Safety
/// The activation's store is alive.
pub(crate) unsafe fn left(activation: &Activation) {
    let store = activation.store;
    // SAFETY: by the contract.
    unsafe {
        if (*store).watermark_fp != 0 && (*store).watermark_fp < activation.entry_fp() {
            // The next collection visits what is left once, and places it anew.
            (*store).watermark_fp = 0;
            (*store).watermark_return = 0;
        }
    }
}
