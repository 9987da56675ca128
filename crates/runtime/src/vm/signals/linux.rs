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

/// A thread's signal stack, until the thread ends.
struct SignalStack {
    memory: Mapping,
}

impl SignalStack {
    fn describe(&self) -> libc::stack_t {
        let start = self.memory.base().wrapping_add(self.memory.bytes() - SIGNAL_STACK_BYTES);
        libc::stack_t { ss_sp: start.cast(), ss_flags: 0, ss_size: SIGNAL_STACK_BYTES }
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        let ours = self.describe();
        if let Ok(current) = signal_stack()
            && let Some(next) = after(&ours, &current)
        {
            // SAFETY: no handler runs, as this thread is here. Only then is the memory unmapped.
            unsafe { libc::sigaltstack(&next, ptr::null_mut()) };
        }
    }
}

/// What the signal stack is to be when the thread ends: none, or whatever another has installed since ours (`None`).
/// The one before ours is never installed again: it belongs to others, such as the standard library, which may have
/// unmapped it by now.
fn after(ours: &libc::stack_t, current: &libc::stack_t) -> Option<libc::stack_t> {
    let is_ours = current.ss_flags & libc::SS_DISABLE == 0 && current.ss_sp == ours.ss_sp;
    is_ours.then_some(libc::stack_t { ss_flags: libc::SS_DISABLE, ..*ours })
}

/// This thread's signal stack as it is.
fn signal_stack() -> io::Result<libc::stack_t> {
    let mut current = MaybeUninit::<libc::stack_t>::uninit();
    // SAFETY: only reads, to where there is room.
    unsafe {
        check(libc::sigaltstack(ptr::null(), current.as_mut_ptr()))?;
        Ok(current.assume_init())
    }
}

/// Sees to it that the handlers have room on this thread.
pub(super) fn prepare_signal_stack() -> Result<(), Error> {
    thread_local! {
        static SIGNAL_STACK: RefCell<Option<SignalStack>> = const { RefCell::new(None) };
    }
    let former = signal_stack().map_err(system)?;
    if former.ss_flags & libc::SS_DISABLE == 0 && former.ss_size >= SIGNAL_STACK_BYTES {
        return Ok(());
    }
    let guard = page_bytes();
    let memory = Mapping::reserve(guard + SIGNAL_STACK_BYTES)?;
    memory.make_writable(guard..guard + SIGNAL_STACK_BYTES)?;
    let stack = SignalStack { memory };
    // SAFETY: the memory is ours until the thread ends and `SignalStack` takes it back.
    check(unsafe { libc::sigaltstack(&stack.describe(), ptr::null_mut()) }).map_err(system)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    /// Tells what the signal stack is when the thread-local values of its thread are dropped: the last made first.
    struct AtEnd(Sender<(i32, usize)>);

    impl Drop for AtEnd {
        fn drop(&mut self) {
            let current = signal_stack().unwrap();
            self.0.send((current.ss_flags, current.ss_sp as usize)).unwrap();
        }
    }

    thread_local! {
        static BEFORE: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
        static LATER: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
    }

    #[test]
    fn a_stack_that_is_not_ours_is_never_installed_nor_removed() {
        let at = |start: usize| libc::stack_t { ss_sp: start as *mut _, ss_flags: 0, ss_size: SIGNAL_STACK_BYTES };
        let ours = at(0x10000);
        let next = after(&ours, &ours).unwrap();
        assert_eq!(next.ss_flags, libc::SS_DISABLE);
        assert!(after(&ours, &at(0x20000)).is_none());
        assert!(after(&ours, &libc::stack_t { ss_flags: libc::SS_DISABLE, ..ours }).is_none());
    }

    #[test]
    fn a_thread_ends_without_the_signal_stack_that_it_began_with() {
        let (sender, stacks) = channel();
        std::thread::spawn(move || {
            BEFORE.set(Some(AtEnd(sender.clone())));
            prepare_signal_stack().unwrap();
            assert_eq!(signal_stack().unwrap().ss_size, SIGNAL_STACK_BYTES);
            LATER.set(Some(AtEnd(sender)));
        })
        .join()
        .unwrap();
        // The standard library's own stack, with which the thread began, is unmapped before all of these.
        for (flags, _) in stacks {
            assert_eq!(flags, libc::SS_DISABLE);
        }
    }

    #[test]
    fn a_signal_stack_that_others_installed_meanwhile_stays() {
        let (sender, stacks) = channel();
        // Not a thread of the standard library's, which would disable any stack at its end.
        let other = Mapping::reserve(2 * SIGNAL_STACK_BYTES).unwrap();
        let start = other.base() as usize;
        let prepare = move || {
            BEFORE.set(Some(AtEnd(sender.clone())));
            prepare_signal_stack().unwrap();
            let stack = libc::stack_t { ss_sp: start as *mut _, ss_flags: 0, ss_size: 2 * SIGNAL_STACK_BYTES };
            // SAFETY: the memory outlives the thread, and no signal comes meanwhile.
            check(unsafe { libc::sigaltstack(&stack, ptr::null_mut()) }).unwrap();
        };
        run_on_bare_thread(Box::new(prepare));
        assert_eq!(stacks.into_iter().collect::<Vec<_>>(), [(0, start)]);
    }

    /// Runs `work` on a thread that the standard library knows nothing of, to its very end.
    fn run_on_bare_thread(work: Box<dyn FnOnce() + Send>) {
        extern "C" fn start(work: *mut libc::c_void) -> *mut libc::c_void {
            // SAFETY: from `Box::into_raw` below, once.
            let work = unsafe { Box::from_raw(work.cast::<Box<dyn FnOnce() + Send>>()) };
            work();
            ptr::null_mut()
        }
        let work = Box::into_raw(Box::new(work)).cast();
        let mut thread = MaybeUninit::uninit();
        // SAFETY: a thread with default attributes that takes `work` over, and is waited for.
        unsafe {
            assert_eq!(libc::pthread_create(thread.as_mut_ptr(), ptr::null(), start, work), 0);
            assert_eq!(libc::pthread_join(thread.assume_init(), ptr::null_mut()), 0);
        }
    }
}
