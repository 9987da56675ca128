//! Throwing.

use legato_compiler::artifact::TrapCode;

use crate::vm::activation;

/// `Builtin::ThrowRef`.
pub(super) unsafe extern "C" fn throw_ref(_context: *mut u8, exception: u32) -> ! {
    // SAFETY: compiled code called by way of a trampoline, with an exception of its store or null.
    unsafe {
        if exception == 0 {
            activation::set_pending_trap(TrapCode::NullReference, None);
            activation::raise()
        }
        activation::throw(exception)
    }
}
