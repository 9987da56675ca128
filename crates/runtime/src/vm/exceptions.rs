//! Finding the handler of an exception.

use std::ops::ControlFlow;

use legato_compiler::abi::{CONTEXT_MAGIC, ContextHead};
use legato_compiler::artifact::{CallSite, Handler};
use legato_heap::Reference;
use legato_heap::layout::HEADER_BYTES;
use legato_heap::plan::ObjectAt;

use crate::vm::activation::Activation;
use crate::vm::frames::{self, Frame};
use crate::vm::trail::Reader;

/// Where compiled code goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Continuation {
    pub(crate) pc: usize,
    pub(crate) sp: usize,
    pub(crate) fp: usize,
    /// For the first payload register.
    pub(crate) payload: usize,
}

/// A handler that takes an exception.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The address that its frame's call was to return to.
    pub(crate) call: usize,
    pub(crate) handler: Continuation,
    pub(crate) reader: Reader,
}

/// The innermost handler, in the frames of `activation` from `start` (pc, fp) on, that takes the exception. `pass` is
/// told of each frame's pc up to its own.
///
/// # Safety
/// As [`walk_activation`](frames::walk_activation), and the activation is this thread's innermost one; `exception`
/// refers to an exception object in the store's heap.
pub(crate) unsafe fn find_handler(
    activation: &Activation,
    exception: u32,
    start: (usize, usize),
    mut pass: impl FnMut(usize),
) -> Option<Found> {
    let mut found = None;
    let mut look = |frame: &Frame<'_>| {
        pass(frame.pc);
        let Some((site, handlers)) = frame.image.call_site(frame.pc) else { return ControlFlow::Continue(()) };
        // SAFETY: passed on to the caller.
        let Some(taken) = (unsafe { handler_in(frame, site, handlers, exception) }) else {
            return ControlFlow::Continue(());
        };
        found = Some(taken);
        ControlFlow::Break(())
    };
    // SAFETY: passed on to the caller.
    let _ = unsafe { frames::walk_activation(activation, start, &mut look) };
    found
}

/// The first of the handlers of the frame's current call, `site`, that takes the exception.
unsafe fn handler_in(frame: &Frame<'_>, site: &CallSite, handlers: &[Handler], exception: u32) -> Option<Found> {
    let sp = frame.fp - site.sp_distance as usize;
    let module = frame.image.module();
    // SAFETY: the compiler keeps the instance context at this place of the frame while the call lasts.
    let context = unsafe { *((sp + site.context_offset as usize) as *const *const u8) };
    // SAFETY: every context begins so.
    let head = unsafe { &*context.cast::<ContextHead>() };
    debug_assert_eq!(head.magic, CONTEXT_MAGIC, "not an instance context");
    let taken = handlers.iter().find(|handler| match handler.tag {
        None => true,
        Some(tag) => {
            // SAFETY: the context lies as the module's layout says; the exception is an object of the same store.
            unsafe {
                let tags = context.add(module.context.tags as usize).cast::<u32>();
                let thrown = tag_of(head.cage, module.plan.references.object, exception);
                *tags.add(tag as usize) == thrown
            }
        }
    })?;
    let handler = Continuation { pc: frame.image.landing(taken), sp, fp: frame.fp, payload: exception as usize };
    // An instance that needs no heap does not know the cage.
    // SAFETY: the activation and its store are alive.
    let cage = unsafe { (*(*frame.activation).store).cage };
    let reader = Reader { cage, types: head.types, object: module.plan.references.object };
    Some(Found { call: frame.pc, handler, reader })
}

/// The tag id of an exception object: its first field.
unsafe fn tag_of(cage: *const u8, object: ObjectAt, exception: u32) -> u32 {
    // SAFETY: the caller gives a live reference of this cage, by whose plan words of it are read.
    let word = |offset: u32| unsafe { *cage.add(offset as usize).cast::<u32>() };
    word(object.of(Reference(exception), word) + HEADER_BYTES)
}
