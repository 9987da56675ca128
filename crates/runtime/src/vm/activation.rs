//! Entering compiled code, and giving it up.
//!
//! The activations of a thread form a list, innermost first, through thread-local storage. Each belongs to one store; a
//! store may have several (host functions that call back in), with activations of other stores between.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ptr;

use legato_compiler::abi::{EntryRecord, StoreContext};
use legato_compiler::artifact::TrapCode;
use legato_heap::{Reference, RootVisitor};

use crate::vm::exceptions::{self, Continuation};
use crate::vm::trail::Trail;
use crate::vm::{arch, barriers, frames, signals};

/// A value at the boundary between host and compiled code; smaller values lie at its start, little-endian.
#[repr(C, align(16))]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ValueCell(pub [u8; 16]);

/// Why compiled code did not return.
#[derive(Debug)]
pub enum Unwind {
    /// A trap.
    Trap(TrapRecord),
    /// An exception that nothing caught.
    Exception {
        /// Its `exnref`. A root of the collector only while it is pending; whoever takes it out must root it before the
        /// next safepoint.
        reference: u32,
        /// As [`TrapRecord::frames`], of the moment when no handler was found; before them, where it was thrown first.
        frames: Vec<usize>,
    },
    /// An error of a host function.
    Error(anyhow::Error),
    /// A panic of a host function, to be resumed on the host's side.
    Panic(Box<dyn Any + Send>),
}

/// What is known of a trap.
#[derive(Debug)]
pub struct TrapRecord {
    /// Which trap.
    pub code: TrapCode,
    /// More about it, where there is more to say.
    pub message: Option<String>,
    /// Addresses in compiled code, innermost frame first, each within the instruction that trapped or called. Make
    /// sense of them with [`frames::resolve`] while their images live.
    pub frames: Vec<usize>,
}

impl TrapRecord {
    /// A trap raised by host code that `store`'s compiled code called, with the frames of this moment.
    ///
    /// # Safety
    /// As [`frames::for_each_frame`].
    pub unsafe fn capture(store: *const StoreContext, code: TrapCode, message: Option<String>) -> TrapRecord {
        // SAFETY: passed on to the caller.
        let frames = unsafe { frames::capture(store) };
        TrapRecord { code, message, frames }
    }
}

/// One call from the host into compiled code. Lives in the stack frame of [`enter`].
pub(crate) struct Activation {
    pub(crate) record: UnsafeCell<EntryRecord>,
    pub(crate) store: *mut StoreContext,
    /// The store's last exit (program counter, frame pointer) before this entry: where the walk of the store's next
    /// outer activation starts.
    pub(crate) outer_exit: (usize, usize),
    /// The next outer activation of this thread, or null.
    pub(crate) outer: *const Activation,
    pending: UnsafeCell<Option<Unwind>>,
    trail: UnsafeCell<Trail>,
}

thread_local! {
    static CURRENT: Cell<*const Activation> = const { Cell::new(ptr::null()) };
}

/// The innermost activation of this thread, or null. Safe to call from a signal handler.
pub(crate) fn current() -> *const Activation {
    CURRENT.get()
}

/// The first activation of `store` in the list from `next` on.
///
/// # Safety
/// `next` is in this thread's list, or null.
pub(crate) unsafe fn innermost_of<'a>(store: *const StoreContext, next: *const Activation) -> Option<&'a Activation> {
    let mut next = next;
    // SAFETY: activations in the list are alive.
    while let Some(activation) = unsafe { next.as_ref() } {
        if ptr::eq(activation.store, store) {
            return Some(activation);
        }
        next = activation.outer;
    }
    None
}

/// The innermost activation, for what compiled code calls.
fn current_or_abort() -> *const Activation {
    let activation = current();
    if activation.is_null() {
        abort("no compiled code is active on this thread");
    }
    activation
}

/// Ends the process: an invariant of this layer is broken, where a panic would have to cross compiled code. No guest
/// can bring that about, nor an embedder but one that switches stacks.
fn abort(what: &str) -> ! {
    eprintln!("legato: internal error: {what}");
    std::process::abort()
}

impl Activation {
    /// The landing of the entry trampoline.
    pub(crate) fn landing(&self) -> Continuation {
        // SAFETY: the trampoline wrote the record before it called anything, and nobody writes it again.
        let record = unsafe { &*self.record.get() };
        Continuation { pc: record.landing, sp: record.sp, fp: record.fp, payload: 0 }
    }

    /// The frame pointer of the entry trampoline, at which walks end.
    pub(crate) fn entry_fp(&self) -> usize {
        // SAFETY: as in `landing`.
        unsafe { (*self.record.get()).fp }
    }

    /// Notes why the call is given up.
    pub(crate) fn set_pending(&self, unwind: Unwind) {
        // SAFETY: only this thread reaches the activation, and no borrow of the field outlives a function of this file.
        let replaced = unsafe { (*self.pending.get()).replace(unwind) };
        if replaced.is_some() {
            abort("two reasons were given to unwind one call");
        }
    }

    /// Where an exception goes on: at its handler, if there is one in this activation.
    ///
    /// # Safety
    /// As [`raise`]; the exception is alive.
    unsafe fn handler_of(&self, exception: u32) -> Option<exceptions::Found> {
        // SAFETY: only this thread reaches the activation, and looking for a handler does not touch the field.
        let trail = unsafe { &mut *self.trail.get() };
        // SAFETY: passed on to the caller.
        unsafe {
            let start = frames::last_exit(self.store);
            trail.throw(start.1);
            let found = exceptions::find_handler(self, exception, start, |pc| trail.pass(pc))?;
            trail.catch(exception, &found);
            Some(found)
        }
    }

    /// Notes where an exception was raised that leaves this call.
    ///
    /// # Safety
    /// As [`raise`].
    unsafe fn note_frames(&self) {
        // SAFETY: only this thread reaches the activation, and the walk does not touch the field.
        if let Some(Unwind::Exception { reference, frames }) = unsafe { &mut *self.pending.get() } {
            // SAFETY: the exit was recorded, by the caller's promise; what is pending is alive.
            unsafe {
                *frames = frames::capture(self.store);
                (*self.trail.get()).complete(*reference, frames);
            }
        }
    }

    /// The reference of the exception that is being raised, if it is one.
    fn pending_exception(&self) -> Option<u32> {
        // SAFETY: as in `set_pending`.
        match unsafe { &*self.pending.get() } {
            Some(Unwind::Exception { reference, .. }) => Some(*reference),
            Some(_) => None,
            None => abort("a call was to be unwound without a reason"),
        }
    }
}

/// Calls compiled code.
///
/// `entry` is an entry trampoline for the signature of `code`; `values` holds the parameters and receives the results
/// (as many cells as the greater of both counts). While it runs, the store's exit words and this thread's list of
/// activations describe it; both are restored at the end.
///
/// # Errors
/// The reason, where the code was given up.
///
/// # Safety
/// `store`, `context`, `code` and `values` must be what the code was compiled to expect (see the conventions in
/// [`legato_compiler::abi`]), the images involved must stay alive, and the store must be used by this thread alone.
pub unsafe fn enter(
    store: *mut StoreContext,
    entry: *const u8,
    context: *mut u8,
    code: *const u8,
    values: *mut ValueCell,
) -> Result<(), Unwind> {
    if let Err(error) = signals::prepare_thread() {
        return Err(Unwind::Error(error.into()));
    }
    type Entry = unsafe extern "C" fn(*mut u8, *const u8, *mut ValueCell, *mut EntryRecord) -> u32;
    // SAFETY: the caller gives an entry trampoline, which has this type.
    let entry = unsafe { std::mem::transmute::<*const u8, Entry>(entry) };
    // SAFETY: the caller gives the store's context, which nobody else uses now.
    let outer_exit = unsafe { ((*store).last_exit_pc, (*store).last_exit_fp) };
    let activation = Activation {
        record: UnsafeCell::default(),
        store,
        outer_exit,
        outer: CURRENT.get(),
        pending: UnsafeCell::new(None),
        trail: UnsafeCell::default(),
    };
    CURRENT.set(&activation);
    // SAFETY: by the caller's promise. The trampoline returns here in every case, as its landing belongs to this call.
    let unwound = unsafe { entry(context, code, values, activation.record.get()) };
    if !ptr::eq(CURRENT.replace(activation.outer), &activation) {
        abort("calls on several stacks of a thread did not end in the reverse order of their beginnings");
    }
    // SAFETY: the store's context is the caller's again: compiled code has returned.
    unsafe { ((*store).last_exit_pc, (*store).last_exit_fp) = outer_exit };
    // SAFETY: the activation is in the list of the caller's store, and its code does not run any more.
    unsafe { barriers::left(&activation) };
    if unwound == 0 {
        return Ok(());
    }
    Err(activation.pending.into_inner().expect("a landing is reached with a reason"))
}

/// Notes, for the innermost activation of this thread, why the call is to be given up; for builtins and host functions,
/// which then return their failure value so that their trampoline calls [`raise`]. Never panics.
pub fn set_pending(unwind: Unwind) {
    // SAFETY: activations in the list are alive.
    unsafe { (*current_or_abort()).set_pending(unwind) }
}

/// [`set_pending`] with a trap and the frames of this moment.
///
/// # Safety
/// Called from a builtin or host function that compiled code of the innermost activation's store called.
pub unsafe fn set_pending_trap(code: TrapCode, message: Option<String>) {
    // SAFETY: activations in the list are alive; the rest is the caller's promise.
    unsafe {
        let activation = &*current_or_abort();
        activation.set_pending(Unwind::Trap(TrapRecord::capture(activation.store, code, message)));
    }
}

/// Gives the call up for the reason noted by [`set_pending`]: an exception continues at the innermost handler for it
/// between here and the entry, if there is one; everything else at the entry, where [`enter`] returns the reason.
///
/// # Safety
/// Called from compiled code, by way of a trampoline that recorded the exit; the caller's frame and all between it and
/// the trampoline own nothing that must be dropped.
pub unsafe fn raise() -> ! {
    // SAFETY: activations in the list are alive; the exit was recorded.
    let continuation = unsafe {
        let activation = &*current_or_abort();
        match activation.pending_exception().and_then(|exception| activation.handler_of(exception)) {
            Some(found) => {
                *activation.pending.get() = None;
                barriers::resumed(activation, found.call, found.handler.fp);
                found.handler
            }
            None => {
                activation.note_frames();
                activation.landing()
            }
        }
    };
    let Continuation { pc, sp, fp, payload } = continuation;
    // SAFETY: the continuation is in a frame of compiled code on this thread's stack that waits in a call.
    unsafe { arch::resume(pc, sp, fp, payload) }
}

/// Throws the exception object that `exception` refers to (not null).
///
/// # Safety
/// As [`raise`]; and the reference is an `exnref` of the innermost activation's store.
pub unsafe fn throw(exception: u32) -> ! {
    set_pending(Unwind::Exception { reference: exception, frames: Vec::new() });
    // SAFETY: passed on to the caller.
    unsafe { raise() }
}

/// Visits the references that activations of `store` hold themselves: exceptions in flight. They may be changed.
pub fn visit_activation_roots(store: *const StoreContext, visitor: &mut dyn RootVisitor) {
    let mut next = current();
    // SAFETY: the list begins with the innermost activation.
    while let Some(activation) = unsafe { innermost_of(store, next) } {
        // SAFETY: only this thread reaches the activation.
        unsafe { (*activation.trail.get()).forget() };
        // SAFETY: only this thread reaches the activation, and the visitor gets a copy. A visitor that entered compiled
        // code would push activations of its own and leave this one be.
        if let Some(Unwind::Exception { reference, .. }) = unsafe { &mut *activation.pending.get() } {
            let mut root = Reference(*reference);
            visitor.visit(&mut root);
            *reference = root.0;
        }
        next = activation.outer;
    }
}
