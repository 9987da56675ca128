//! Finding the handler of an exception.

use std::ops::ControlFlow;

use legato_compiler::abi::{CONTEXT_MAGIC, ContextHead};
use legato_heap::Reference;
use legato_heap::layout::HEADER_BYTES;
use legato_heap::plan::ReferencePlan;

use crate::vm::activation::Activation;
use crate::vm::frames::{self, Frame};

/// Where compiled code goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Continuation {
    pub(crate) pc: usize,
    pub(crate) sp: usize,
    pub(crate) fp: usize,
    /// For the first payload register.
    pub(crate) payload: usize,
}

/// The innermost handler, in the frames of `activation`, that takes the exception, behind the address that its frame's
/// call was to return to.
///
/// # Safety
/// The activation is this thread's innermost one and its store's last exit is recorded; `exception` refers to an
/// exception object in the store's heap.
pub(crate) unsafe fn find_handler(activation: &Activation, exception: u32) -> Option<(usize, Continuation)> {
    let mut found = None;
    let mut look = |frame: &Frame<'_>| {
        // SAFETY: passed on to the caller.
        found = unsafe { handler_in(frame, exception) }.map(|handler| (frame.pc, handler));
        if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    // SAFETY: passed on to the caller.
    unsafe {
        let exit = frames::last_exit(activation.store);
        let _ = frames::walk_activation(activation, exit, &mut look);
    }
    found
}

/// The first handler of the frame's current call that takes the exception.
unsafe fn handler_in(frame: &Frame<'_>, exception: u32) -> Option<Continuation> {
    let (site, handlers) = frame.image.call_site(frame.pc)?;
    let sp = frame.fp - site.sp_distance as usize;
    let taken = handlers.iter().find(|handler| match handler.tag {
        None => true,
        Some(tag) => {
            // SAFETY: the compiler keeps the instance context at this place of the frame while the call lasts; the
            // context lies as the module's layout says; the exception is an object of the same store.
            unsafe {
                let context = *((sp + site.context_offset as usize) as *const *const u8);
                let head = &*context.cast::<ContextHead>();
                debug_assert_eq!(head.magic, CONTEXT_MAGIC, "not an instance context");
                let module = frame.image.module();
                let tags = context.add(module.context.tags as usize).cast::<u32>();
                let thrown = tag_of(head.cage, module.plan.references, exception);
                *tags.add(tag as usize) == thrown
            }
        }
    })?;
    Some(Continuation { pc: frame.image.landing(taken), sp, fp: frame.fp, payload: exception as usize })
}

/// The tag id of an exception object: its first field.
unsafe fn tag_of(cage: *const u8, references: ReferencePlan, exception: u32) -> u32 {
    // SAFETY: the caller gives a live reference of this cage, by whose plan words of it are read.
    let word = |offset: u32| unsafe { *cage.add(offset as usize).cast::<u32>() };
    word(references.object(Reference(exception), word) + HEADER_BYTES)
}
