//! x86-64.

use std::arch::{asm, naked_asm};

/// Continues at `landing` with this stack pointer, frame pointer and payload (`rax`).
///
/// # Safety
/// `landing` is a landing pad of compiled code whose frame lies at `sp` and `fp` on this thread's stack and waits in a
/// call. No frame below owns anything.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn resume(landing: usize, sp: usize, fp: usize, payload: usize) -> ! {
    naked_asm!("mov rax, rcx", "mov rsp, rsi", "mov rbp, rdx", "jmp rdi")
}

/// The caller's stack pointer.
#[inline(always)]
pub(crate) fn stack_pointer() -> usize {
    let sp: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) sp, options(nomem, nostack, preserves_flags)) };
    sp
}

/// Nothing to do: instruction fetch sees stores.
pub(crate) fn synchronize_code(_start: *const u8, _bytes: usize) {}
