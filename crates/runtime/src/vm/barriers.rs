//! Return barriers: the runtime is told before control comes back to a frame that waits.
//!
//! Control comes back to a frame by one return address, which [`place`] replaces by that of a return barrier: code that
//! calls [`returned`] and goes on where the call would have returned to. Control can also reach an older frame by an
//! exception ([`resumed`]), or leave all frames of an activation at once ([`left`]), and so skip barriers: these are
//! forgotten with the frames that they lay in. A tail call takes the replaced address along into the frame that takes
//! its own's place: walks therefore know it by its value, and what it was by the frame that it leads to.
//!
//! Whoever places a barrier learns of every such event, and looks for itself whether it concerns the frames that it
//! waits for: [`watermark`], for nursery collections, and [`snapshot`], for those that go on while the mutator runs. A
//! barrier that neither waits for any more stays where it is until control comes by: finding it would take a walk.
//!
//! The classical return barrier (Yuasa 2002; stack markers: Cheng, Harper and Lee 1998). Limit: without a barrier for
//! the processor in `arch`, none is placed, and all frames are visited at once.

use legato_compiler::abi::StoreContext;

use crate::vm::activation::{self, Activation};
use crate::vm::snapshot::Waiting;
use crate::vm::{arch, frames, snapshot, watermark};

/// The words of a store, and what is known of its frames. Every [`StoreContext`] that this layer is given is the start
/// of one.
#[repr(C)]
#[derive(Debug)]
pub struct StoreFrames {
    /// What compiled code knows.
    pub context: StoreContext,
    marks: Marks,
}

/// What is known of the frames of a store.
#[derive(Debug)]
pub(crate) struct Marks {
    /// Return addresses that have been replaced, those of older frames first.
    replaced: Vec<Replaced>,
    /// Of [`watermark`]: frame pointer of the youngest clean frame.
    pub(crate) clean: Option<usize>,
    /// Of [`snapshot`]: the youngest frame that is still to be visited.
    pub(crate) waiting: Option<Waiting>,
    /// Of [`snapshot`]: has the heap go on with these frames.
    pub(crate) visit_older: VisitOlder,
}

/// Has the heap of the store with these words visit its oldest frames, some at least: see
/// [`Heap::visit_older_frames`](legato_heap::Heap::visit_older_frames).
pub type VisitOlder = unsafe fn(*mut StoreContext);

/// A return address that a barrier stands in for.
#[derive(Clone, Copy, Debug)]
struct Replaced {
    /// Frame pointer of the frame that it leads to.
    fp: usize,
    address: usize,
}

impl StoreFrames {
    /// The words of a store with this cage, of which no code is active. `visit_older` is called with their address when
    /// a frame is about to run that [`snapshot::visit_newest`] has left for later.
    pub fn new(cage: *const u8, visit_older: VisitOlder) -> StoreFrames {
        let marks = Marks { replaced: Vec::new(), clean: None, waiting: None, visit_older };
        StoreFrames { context: StoreContext::new(cage), marks }
    }
}

/// What is known of the frames of a store.
///
/// # Safety
/// `store` is the start of a living store's words, used by this thread alone. No other result is in use.
pub(crate) unsafe fn marks<'a>(store: *const StoreContext) -> &'a mut Marks {
    // SAFETY: by the contract. The marks lie behind what compiled code and trampolines access.
    unsafe { &mut (*store.cast_mut().cast::<StoreFrames>()).marks }
}

/// Whether there are barriers on this processor.
pub(crate) fn are_there() -> bool {
    arch::RETURN_BARRIER.is_some()
}

/// The return address that leads to the barrier, where there is one.
fn barrier() -> Option<usize> {
    arch::RETURN_BARRIER.map(|barrier| barrier as usize)
}

impl Marks {
    /// Where the replaced address of the frame at `fp` is in the list, or belongs.
    fn position(&self, fp: usize) -> usize {
        self.replaced.partition_point(|replaced| replaced.fp > fp)
    }

    /// Forgets what had been replaced in frames that are gone: those below `fp`. The stack grows towards lower
    /// addresses.
    fn forget_below(&mut self, fp: usize) {
        while self.replaced.pop_if(|replaced| replaced.fp < fp).is_some() {}
    }
}

/// The address at which the frame at `fp` goes on, by the return address that was found for it.
///
/// # Safety
/// `store` is a living store's context, and the address was found in a frame of its compiled code.
pub(crate) unsafe fn original(store: *const StoreContext, address: usize, fp: usize) -> usize {
    if Some(address) != barrier() {
        return address;
    }
    // SAFETY: by the contract, and the borrow ends here.
    let marks = unsafe { marks(store) };
    let replaced = marks.replaced[marks.position(fp)];
    assert_eq!(replaced.fp, fp, "a return address has been replaced by nobody");
    replaced.address
}

/// Has the runtime told before control returns to the frame at `fp`, once.
///
/// # Safety
/// The frame at `callee_fp` is compiled code of the store, waits on this thread's stack and returns to the one at `fp`.
pub(crate) unsafe fn place(store: *const StoreContext, fp: usize, callee_fp: usize) {
    let Some(barrier) = barrier() else { return };
    // SAFETY: by the contract; nobody else looks at the frame meanwhile.
    unsafe {
        let slot = frames::return_address(callee_fp);
        if *slot != barrier {
            let marks = marks(store);
            let position = marks.position(fp);
            marks.replaced.insert(position, Replaced { fp, address: *slot });
            *slot = barrier;
        }
    }
}

/// What the return barrier calls when control returns to the frame at `fp`. Returns the address to go on at.
pub(crate) extern "C" fn returned(fp: usize) -> usize {
    // SAFETY: compiled code has just returned through the barrier, so its activation is this thread's innermost, and
    // the youngest address that had been replaced in its store is the one that leads to this frame.
    unsafe {
        let activation = &*activation::current();
        let replaced = marks(activation.store).replaced.pop().expect("a barrier stands in for an address");
        assert_eq!(replaced.fp, fp, "control has passed by a return barrier");
        reached(activation, (replaced.address, fp));
        replaced.address
    }
}

/// Notes that an exception is about to be caught by the frame at `fp`, which waits for a call that was to return to
/// `pc`.
///
/// # Safety
/// The frame belongs to the innermost activation, which is `activation`; no younger frame runs again.
pub(crate) unsafe fn resumed(activation: &Activation, pc: usize, fp: usize) {
    // SAFETY: an activation's store is alive; the rest is the caller's promise.
    unsafe {
        // The address that leads to the frame itself is gone too, with the frame that it has called.
        marks(activation.store).forget_below(fp + 1);
        reached(activation, (pc, fp));
    }
}

/// Tells that the frame at `start` (program counter, frame pointer) of the innermost activation is going to run.
///
/// # Safety
/// It is; and `activation` is the innermost.
unsafe fn reached(activation: &Activation, start: (usize, usize)) {
    // SAFETY: passed on to the caller.
    unsafe {
        watermark::reached(activation.store, start);
        snapshot::reached(activation, start);
    }
}

/// Notes that all frames of an activation are gone.
///
/// # Safety
/// It was the innermost, and its store is alive.
pub(crate) unsafe fn left(activation: &Activation) {
    // SAFETY: by the contract.
    unsafe {
        marks(activation.store).forget_below(activation.entry_fp());
        watermark::left(activation);
        snapshot::left(activation);
    }
}
