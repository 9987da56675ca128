//! The frames of compiled code on this thread's stack: walking them, their references, backtraces.
//!
//! Compiled code keeps frame pointers: `[fp]` is the caller's frame pointer and `[fp + 8]` the return address. A walk
//! starts at the exit that a trampoline recorded (or at a fault) and ends at the entry trampoline's frame; the frames
//! of the host beyond it are skipped by way of the list of activations. Return addresses may have been replaced by that
//! of a return barrier: see [`barriers`].

use std::ops::ControlFlow;
use std::sync::Arc;

use legato_compiler::abi::StoreContext;
use legato_heap::{Reference, RootVisitor};

use crate::vm::activation::{self, Activation};
use crate::vm::{CodeImage, barriers, registry};

/// A frame of compiled code.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The address at which the frame goes on: the return address of its current call, or the instruction that faulted.
    pub pc: usize,
    /// Its frame pointer.
    pub fp: usize,
    /// Frame pointer of the frame that it has called, where that is compiled code of the same activation.
    pub callee_fp: Option<usize>,
    /// The activation that it belongs to.
    pub(crate) activation: *const Activation,
    /// The image that `pc` lies in.
    pub image: &'a Arc<CodeImage>,
}

impl<'a> Frame<'a> {
    /// Where its traced references lie: distances in bytes below the frame pointer.
    pub(crate) fn slots(&self) -> &'a [u32] {
        self.image.stack_map(self.pc).unwrap_or_default()
    }
}

/// Frames that a backtrace keeps, counted from the innermost.
pub const MAX_BACKTRACE_FRAMES: usize = 256;

/// Program counter and frame pointer of the frame that last left compiled code of the store.
pub(crate) unsafe fn last_exit(store: *const StoreContext) -> (usize, usize) {
    // SAFETY: the caller gives a store's context.
    unsafe { ((*store).last_exit_pc, (*store).last_exit_fp) }
}

/// Calls `visit` for each frame of one activation, innermost first, from `start` (pc, fp) on.
///
/// # Safety
/// `start` is where the innermost frame of the activation stands, on this thread's stack.
pub(crate) unsafe fn walk_activation(
    activation: &Activation,
    start: (usize, usize),
    visit: &mut dyn FnMut(&Frame<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    // SAFETY: the activation's store is alive; a host function may have been tail-called, so that this address is the
    // replaced one.
    let (mut pc, mut fp) = unsafe { (barriers::original(activation.store, start.0, start.1), start.1) };
    let mut callee_fp = None;
    let end = activation.entry_fp();
    let mut image: Option<Arc<CodeImage>> = None;
    while fp != end {
        let same = image.as_ref().is_some_and(|image| image.contains(pc));
        if !same {
            image = registry::find(pc);
        }
        let image = image.as_ref().expect("a frame of compiled code lies in a registered image");
        visit(&Frame { pc, fp, callee_fp, activation, image })?;
        // SAFETY: compiled code keeps frame pointers, so these two words are its caller's.
        let (caller_fp, caller_pc) = unsafe {
            let caller_fp = *(fp as *const usize);
            (caller_fp, barriers::original(activation.store, *return_address(fp), caller_fp))
        };
        assert!(caller_fp > fp, "frame pointers grow towards the callers");
        (callee_fp, pc, fp) = (Some(fp), caller_pc, caller_fp);
    }
    ControlFlow::Continue(())
}

/// Where the return address of the frame at `fp` lies.
pub(crate) fn return_address(fp: usize) -> *mut usize {
    (fp + 8) as *mut usize
}

/// Calls `visit` for each frame of `store` on this thread, innermost first. `start` is where the innermost activation
/// stands.
///
/// # Safety
/// As [`for_each_frame`].
pub(crate) unsafe fn walk(
    store: *const StoreContext,
    start: (usize, usize),
    visit: &mut dyn FnMut(&Frame<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    // SAFETY: passed on to the caller; the list begins with the innermost activation.
    unsafe { walk_from(activation::current(), store, start, visit) }
}

/// As [`walk`], from the activation `first` on.
///
/// # Safety
/// As [`for_each_frame`]; `first` is in this thread's list, or null, and `start` is a waiting frame of the first
/// activation from there on that is the store's.
pub(crate) unsafe fn walk_from(
    first: *const Activation,
    store: *const StoreContext,
    start: (usize, usize),
    visit: &mut dyn FnMut(&Frame<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let (mut start, mut first) = (start, first);
    // SAFETY: activations in the list are alive; each was left where the exit says that was recorded before the store's
    // next inner entry.
    while let Some(activation) = unsafe { activation::innermost_of(store, first) } {
        // SAFETY: `start` is where this activation stands.
        unsafe { walk_activation(activation, start, visit)? };
        (start, first) = (activation.outer_exit, activation.outer);
    }
    ControlFlow::Continue(())
}

/// Calls `visit` for each frame of compiled code of `store` on this thread, innermost first, over the host's frames to
/// the outermost activation. None where the store is not active.
///
/// # Safety
/// The thread is in host code: either no compiled code of the store is active, or it called out through a trampoline
/// that recorded the exit.
pub unsafe fn for_each_frame(store: *const StoreContext, mut visit: impl FnMut(&Frame<'_>)) {
    // SAFETY: passed on to the caller.
    let _ = unsafe {
        walk(store, last_exit(store), &mut |frame| {
            visit(frame);
            ControlFlow::Continue(())
        })
    };
}

/// Visits every slot of the frames of `store` on this thread that holds a traced reference (or null, or an immediate).
/// The visitor may change them.
///
/// # Safety
/// As [`for_each_frame`]; and compiled code of the store is at a safepoint.
pub unsafe fn visit_stack_roots(store: *const StoreContext, visitor: &mut dyn RootVisitor) {
    // SAFETY: passed on to the caller.
    unsafe {
        for_each_frame(store, |frame| {
            visit_slots(frame, visitor);
        })
    };
}

/// Visits the slots of one frame; returns whether one of them still leads to a young object.
///
/// # Safety
/// As [`visit_stack_roots`]; the frame is one that a walk has come to.
pub(crate) unsafe fn visit_slots(frame: &Frame<'_>, visitor: &mut dyn RootVisitor) -> bool {
    let mut is_young = false;
    for &distance in frame.slots() {
        // SAFETY: the stack map names this slot of the waiting frame, and nobody else looks at it meanwhile.
        is_young |= visitor.visit(unsafe { &mut *((frame.fp - distance as usize) as *mut Reference) });
    }
    is_young
}

/// The program counters of the store's frames, at most [`MAX_BACKTRACE_FRAMES`], each moved into the calling
/// instruction, for [`resolve`].
///
/// # Safety
/// As [`for_each_frame`].
pub unsafe fn capture(store: *const StoreContext) -> Vec<usize> {
    // SAFETY: passed on to the caller.
    unsafe { capture_from(store, last_exit(store), 1) }
}

/// As [`capture`], from the instruction that faulted in the innermost activation's compiled code.
///
/// # Safety
/// `pc` and `fp` are those of the fault.
pub(crate) unsafe fn capture_fault(store: *const StoreContext, pc: usize, fp: usize) -> Vec<usize> {
    // SAFETY: passed on to the caller.
    unsafe { capture_from(store, (pc, fp), 0) }
}

/// `back` is what lies between the first program counter and its instruction: 1 for a return address.
unsafe fn capture_from(store: *const StoreContext, start: (usize, usize), back: usize) -> Vec<usize> {
    let mut back = back;
    let mut addresses = Vec::new();
    let mut note = |frame: &Frame<'_>| {
        addresses.push(frame.pc - back);
        back = 1;
        if addresses.len() < MAX_BACKTRACE_FRAMES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    // SAFETY: passed on to the caller.
    let _ = unsafe { walk(store, start, &mut note) };
    addresses
}

/// A frame of a backtrace, made readable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BacktraceFrame {
    /// Index of the function in its module.
    pub function: u32,
    /// Its name, from the name section.
    pub function_name: Option<String>,
    /// The module's name, from the name section.
    pub module_name: Option<String>,
    /// Byte offset of the instruction in the module file.
    pub wasm_offset: Option<u32>,
}

/// Makes the addresses of [`capture`] or of a [`TrapRecord`](crate::vm::TrapRecord) readable. Addresses in no living
/// image and those in trampolines are left out. An instruction of an inlined function makes a frame for each function
/// around it, from the innermost on.
pub fn resolve(addresses: &[usize]) -> Vec<BacktraceFrame> {
    let mut frames = Vec::new();
    for &pc in addresses {
        let Some(image) = registry::find(pc) else { continue };
        let Some(function) = image.function_at(pc) else { continue };
        let names = &image.module().info.names;
        let frame = |function: u32, wasm_offset: Option<u32>| {
            let function_name = names.functions.get(function as usize).filter(|name| !name.is_empty()).cloned();
            BacktraceFrame { function, function_name, module_name: names.module.clone(), wasm_offset }
        };
        let offsets = image.wasm_offsets(pc);
        let (outermost, inlined) = offsets.split_last().map_or((None, &[][..]), |(last, rest)| (Some(*last), rest));
        let inlined = inlined.iter().filter_map(|&offset| Some(frame(image.function_of_source(offset)?, Some(offset))));
        frames.extend(inlined);
        frames.push(frame(function, outermost));
    }
    frames
}
