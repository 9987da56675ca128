//! Raising, trapping, polling.

use legato_compiler::abi::ContextHead;
use legato_compiler::artifact::TrapCode;
use legato_compiler::module::FuncIndex;

use crate::builtins::run;
use crate::vm::{PollOutcome, activation};

/// `Builtin::Raise`.
pub(super) unsafe extern "C" fn raise(_context: *mut u8) -> ! {
    // SAFETY: a trampoline calls this, after the reason was noted.
    unsafe { activation::raise() }
}

/// `Builtin::Trap`: the number is a [`TrapCode`]'s.
pub(super) unsafe extern "C" fn trap(_context: *mut u8, number: u32) -> ! {
    // SAFETY: compiled code called by way of a trampoline.
    unsafe {
        let code = u8::try_from(number).ok().and_then(TrapCode::from_number);
        activation::set_pending_trap(code.unwrap_or(TrapCode::Internal), None);
        activation::raise()
    }
}

/// `Builtin::Poll`.
pub(super) unsafe extern "C" fn poll(context: *mut u8) -> i64 {
    // SAFETY: a builtin.
    unsafe {
        run(context, |store, _| match store.interrupt.poll() {
            PollOutcome::Interrupted => Err(TrapCode::Interrupt.into()),
            PollOutcome::StackOverflow => Err(TrapCode::StackOverflow.into()),
            PollOutcome::Nothing => {
                store.heap.poll(&mut store.state);
                Ok(0)
            }
        })
    }
}

/// `Builtin::OsrEntry`.
pub(super) unsafe extern "C" fn osr_entry(context: *mut u8, function: u32, offset: u32) -> i64 {
    // SAFETY: a builtin; the head of its context is this thread's while its code runs.
    unsafe {
        run(context, |store, instance| {
            let image = store.state.instances[instance as usize].module.image();
            let (code, iterations) = image.loop_entry(FuncIndex(function), offset);
            (*context.cast::<ContextHead>()).loops_left = iterations;
            Ok(code as i64)
        })
    }
}
