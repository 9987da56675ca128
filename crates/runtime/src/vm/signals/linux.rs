//! Linux: signal handlers on an alternate stack.

use std::cell::RefCell;
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::ptr;
use std::sync::OnceLock;

use crate::vm::Error;
use crate::vm::os::{Mapping, page_bytes};

use super::{continuation_of, registers};

/// The faults that compiled code can raise.
const SIGNALS: [i32; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];

/// Bytes of the stack that the handler runs on, without its guard page.
const SIGNAL_STACK_BYTES: usize = 64 << 10;

/// The handlers before ours, in the order of [`SIGNALS`].
static PREVIOUS: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();

pub(super) fn install_handlers() -> io::Result<()> {
    // SAFETY: zero is a value of this C struct.
    let mut previous: [libc::sigaction; SIGNALS.len()] = unsafe { zeroed() };
    // Read first and published before ours are in place, so that a fault meanwhile finds them.
    for (signal, previous) in SIGNALS.iter().zip(&mut previous) {
        // SAFETY: only reads the present handler.
        check(unsafe { libc::sigaction(*signal, ptr::null(), previous) })?;
    }
    PREVIOUS.get_or_init(|| previous);
    for signal in SIGNALS {
        // SAFETY: zero is a value of this C struct; the handler has the type that SA_SIGINFO asks for, and touches only
        // what a handler may.
        unsafe {
            let mut action: libc::sigaction = zeroed();
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = handle;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&mut action.sa_mask);
            check(libc::sigaction(signal, &action, ptr::null_mut()))?;
        }
    }
    Ok(())
}

fn check(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes both; `context` is what SA_SIGINFO promises.
    unsafe {
        // A positive code means that the processor raised it, not another process.
        let raised_here = (*info).si_code > 0;
        let context = &mut *context.cast::<libc::ucontext_t>();
        if raised_here {
            let is_access = signal == libc::SIGSEGV || signal == libc::SIGBUS;
            let fault = registers::fault(context, is_access.then(|| (*info).si_addr() as usize));
            if let Some(continuation) = continuation_of(&fault) {
                return registers::set(context, &continuation);
            }
        }
        pass_on(signal, info, context, raised_here);
    }
}

/// Does what would have been done without us.
unsafe fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::ucontext_t, raised_here: bool) {
    let previous = SIGNALS
        .iter()
        .position(|&other| other == signal)
        .and_then(|index| PREVIOUS.get().map(|previous| &previous[index]));
    let handler = previous.map_or(libc::SIG_DFL, |previous| previous.sa_sigaction);
    // SAFETY: a handler that was installed with these flags has that type.
    unsafe {
        if handler == libc::SIG_IGN && !raised_here {
            return;
        }
        if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
            // The fault happens again when the handler returns, this time with the system's own answer; a signal that
            // was sent must be sent again.
            let mut default: libc::sigaction = zeroed();
            default.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(signal, &default, ptr::null_mut());
            if !raised_here {
                libc::raise(signal);
            }
        } else if previous.is_some_and(|previous| previous.sa_flags & libc::SA_SIGINFO != 0) {
            type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
            std::mem::transmute::<usize, Handler>(handler)(signal, info, context.cast());
        } else {
            std::mem::transmute::<usize, extern "C" fn(i32)>(handler)(signal);
        }
    }
}

/// A thread's signal stack, replaced by the former one when the thread ends.
struct SignalStack {
    _memory: Mapping,
    former: libc::stack_t,
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        // SAFETY: no handler runs, as this thread is here; the former stack is still what it was. Only then is the
        // memory unmapped.
        unsafe { libc::sigaltstack(&self.former, ptr::null_mut()) };
    }
}

/// Sees to it that the handlers have room on this thread.
pub(super) fn prepare_signal_stack() -> Result<(), Error> {
    thread_local! {
        static SIGNAL_STACK: RefCell<Option<SignalStack>> = const { RefCell::new(None) };
    }
    let mut former = MaybeUninit::<libc::stack_t>::uninit();
    // SAFETY: only reads the present stack.
    let former = unsafe {
        check(libc::sigaltstack(ptr::null(), former.as_mut_ptr())).map_err(system)?;
        former.assume_init()
    };
    if former.ss_flags & libc::SS_DISABLE == 0 && former.ss_size >= SIGNAL_STACK_BYTES {
        return Ok(());
    }
    let guard = page_bytes();
    let memory = Mapping::reserve(guard + SIGNAL_STACK_BYTES)?;
    memory.make_writable(guard..guard + SIGNAL_STACK_BYTES)?;
    let stack =
        libc::stack_t { ss_sp: memory.base().wrapping_add(guard).cast(), ss_flags: 0, ss_size: SIGNAL_STACK_BYTES };
    // SAFETY: the memory is ours until the thread ends and `SignalStack` takes it back.
    check(unsafe { libc::sigaltstack(&stack, ptr::null_mut()) }).map_err(system)?;
    let stack = SignalStack { _memory: memory, former };
    // A thread that is already past its destructors leaks the stack: it is about to end.
    let mut stack = Some(stack);
    let kept = SIGNAL_STACK.try_with(|kept| *kept.borrow_mut() = stack.take());
    if kept.is_err() {
        std::mem::forget(stack);
    }
    Ok(())
}

fn system(source: io::Error) -> Error {
    Error::System { what: "setting up a signal stack", source }
}
