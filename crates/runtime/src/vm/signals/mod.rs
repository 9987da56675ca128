//! Faults in compiled code become traps.
//!
//! What the platform's file does: install handlers for the faults (on a stack of their own, since the fault may be that
//! the stack is full), read the registers of the interrupted code, ask `continuation_of` what it means, and either let
//! the thread go on elsewhere or pass the fault to whoever handled it before.

use std::cell::Cell;
use std::ops::Range;
use std::sync::OnceLock;

use legato_compiler::artifact::TrapCode;

use crate::vm::exceptions::Continuation;
use crate::vm::{Error, Unwind, activation, frames, os, registry};

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as platform;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "linux_x86_64.rs"]
mod registers;

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
#[path = "linux_aarch64.rs"]
mod registers;

/// Distance below the stack's end at which a fault still counts as stack overflow, in bytes: code that needs a large
/// frame touches it page by page, so the first touch beyond the end is near it.
const STACK_GUARD_BYTES: usize = 1 << 20;

/// The registers that matter of code that faulted.
#[derive(Clone, Copy, Debug)]
struct Fault {
    pc: usize,
    sp: usize,
    fp: usize,
    /// The address that could not be accessed, if that was the fault.
    address: Option<usize>,
}

thread_local! {
    /// This thread's stack; empty until `prepare_thread`, and where unknown.
    static STACK: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    static PREPARED: Cell<bool> = const { Cell::new(false) };
}

/// Installs the handlers, once for the process.
///
/// # Errors
/// If the system refuses.
pub fn install() -> Result<(), Error> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let installed = INSTALLED
        .get_or_init(|| platform::install_handlers().map_err(|error| error.raw_os_error().unwrap_or_default()));
    installed.map_err(|code| Error::System {
        what: "installing signal handlers",
        source: std::io::Error::from_raw_os_error(code),
    })
}

/// Gives this thread what the handlers need to run on it. Cheap after the first time.
///
/// # Errors
/// If the system refuses.
pub fn prepare_thread() -> Result<(), Error> {
    if PREPARED.get() {
        return Ok(());
    }
    platform::prepare_signal_stack()?;
    let stack = os::stack_bounds().unwrap_or_default();
    STACK.set((stack.start, stack.end));
    PREPARED.set(true);
    Ok(())
}

/// The calling thread's stack, where known.
pub(crate) fn thread_stack() -> Option<Range<usize>> {
    prepare_thread().ok()?;
    let (start, end) = STACK.get();
    (start != end).then_some(start..end)
}

/// Where the thread goes on if the fault is a trap of compiled code; notes the trap in the innermost activation. `None`
/// where the fault is none of ours.
fn continuation_of(fault: &Fault) -> Option<Continuation> {
    if registry::locked_by_this_thread() {
        return None;
    }
    // SAFETY: activations in the list are alive.
    let activation = unsafe { activation::current().as_ref()? };
    let image = registry::find(fault.pc)?;
    let code = image.trap_at(fault.pc).or_else(|| overflows_stack(fault).then_some(TrapCode::StackOverflow))?;
    // SAFETY: the store lives while its code runs, which stands at the fault: nobody writes this word.
    let cage = unsafe { (*activation.store).cage } as usize;
    let guard = image.module().plan.null_guard_bytes as usize;
    // Code of instances that are older than the heap has null for the cage's base.
    if !is_cause(code, fault.address, cage..cage + guard) && !is_cause(code, fault.address, 0..guard) {
        return None;
    }
    // SAFETY: the innermost activation's compiled code stands at this fault.
    let frames = unsafe { frames::capture_fault(activation.store, fault.pc, fault.fp) };
    activation.set_pending(Unwind::Trap(activation::TrapRecord { code, message: None, frames }));
    Some(activation.landing())
}

/// Whether the access of an address (`None`: the fault was another) is what the instruction traps for. Null is found
/// out by the access of the cage's first bytes; any other address was reached by a reference into memory that the
/// collector has given up, and no trap.
fn is_cause(code: TrapCode, address: Option<usize>, null: Range<usize>) -> bool {
    match code {
        TrapCode::NullReference | TrapCode::IndirectCallToNull | TrapCode::CastFailure => {
            address.is_none_or(|address| null.contains(&address))
        }
        _ => true,
    }
}

/// Whether the fault is an access of the stack beyond its end.
fn overflows_stack(fault: &Fault) -> bool {
    let (low, high) = STACK.get();
    let Some(address) = fault.address else {
        return false;
    };
    low != high && address >= low.saturating_sub(STACK_GUARD_BYTES) && address < fault.sp + os::page_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_beyond_the_null_page_is_no_trap() {
        let null = 0x10_0000..0x11_0000;
        for code in [TrapCode::NullReference, TrapCode::IndirectCallToNull, TrapCode::CastFailure] {
            assert!(is_cause(code, Some(0x10_0008), null.clone()) && is_cause(code, None, null.clone()));
            assert!(!is_cause(code, Some(0x11_0000), null.clone()) && !is_cause(code, Some(0), null.clone()));
        }
        assert!(is_cause(TrapCode::MemoryOutOfBounds, Some(0), null));
    }
}
