//! Watermarks: a nursery collection looks at the frames that have run since the last one, however deep the stack is.
//!
//! A frame that waits in a call does not change its slots. Once a nursery collection has visited them, and none leads
//! to a young object any more, there is nothing in them for the next one. So each store has a *watermark*: a frame such
//! that it and all older frames of the store are *clean*: visited, and not run since. A
//! [return barrier](crate::vm::barriers) lies before it, and moves it [`DISTANCE`] frames on.
//!
//! Limit: without a return barrier for the processor, every collection visits all frames.

use std::ops::ControlFlow;

use legato_compiler::abi::StoreContext;
use legato_heap::RootVisitor;
use smallvec::SmallVec;

use crate::vm::activation::Activation;
use crate::vm::barriers::{self, marks};
use crate::vm::frames::{self, Frame};

/// How many frames lie between the one that runs and the watermark: so many returns cost nothing.
pub(crate) const DISTANCE: usize = 64;

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
    unsafe {
        let clean = marks(store).clean;
        let mut visit = |frame: &Frame<'_>| {
            if Some(frame.fp) == clean {
                return ControlFlow::Break(());
            }
            let is_young = frames::visit_slots(frame, visitor);
            visited.push(Visited { fp: frame.fp, callee_fp: frame.callee_fp, is_young });
            ControlFlow::Continue(())
        };
        let _ = frames::walk(store, frames::last_exit(store), &mut visit);
    }
    if visited.len() < 2 * DISTANCE {
        return;
    }
    let first = visited.iter().rposition(|frame| frame.is_young).map_or(0, |young| young + 1).max(DISTANCE);
    if let Some((fp, callee_fp)) = visited.iter().skip(first).find_map(|frame| Some((frame.fp, frame.callee_fp?))) {
        // SAFETY: the frames wait on this thread's stack, as the walk has found them.
        unsafe { place(store, fp, callee_fp) };
    }
}

/// Makes the frame at `fp` the watermark.
///
/// # Safety
/// The frame at `callee_fp` waits on this thread's stack and returns to the one at `fp`. It and all older frames of the
/// store have no young references.
unsafe fn place(store: *mut StoreContext, fp: usize, callee_fp: usize) {
    if barriers::are_there() {
        // SAFETY: by the contract.
        unsafe {
            marks(store).clean = Some(fp);
            barriers::place(store, fp, callee_fp);
        }
    }
}

/// Notes that the frame at `start` (program counter, frame pointer) of the innermost activation is going to run: moves
/// the watermark on, unless it is older.
///
/// # Safety
/// `start` lies on this thread's stack, in the innermost activation, which is of `store`, and no younger frame runs
/// again.
pub(crate) unsafe fn reached(store: *mut StoreContext, start: (usize, usize)) {
    // SAFETY: by the contract, and the borrow ends here.
    let marks = unsafe { marks(store) };
    if marks.clean.take_if(|clean| *clean <= start.1).is_none() {
        return;
    }
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
        if let Some((fp, callee_fp)) = found {
            place(store, fp, callee_fp);
        }
    }
}

/// Notes that all frames of an activation are gone.
///
/// # Safety
/// The activation's store is alive.
pub(crate) unsafe fn left(activation: &Activation) {
    // SAFETY: by the contract. The next collection visits what is left once, and places the watermark anew.
    unsafe { marks(activation.store) }.clean.take_if(|clean| *clean < activation.entry_fp());
}
