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

/// What the return barrier is: see [`barriers`](crate::vm::barriers).
pub(crate) const RETURN_BARRIER: Option<unsafe extern "C" fn()> = Some(return_barrier);

/// Stands in for a return address. Keeps every register that may hold a result, makes room for the address to go on at,
/// which it asks for, and returns to that.
#[unsafe(naked)]
unsafe extern "C" fn return_barrier() {
    naked_asm!(
        "sub rsp, 8",
        "push rax",
        "push rcx",
        "push rdx",
        "push rbx",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 256",
        "movups [rsp + 0], xmm0",
        "movups [rsp + 16], xmm1",
        "movups [rsp + 32], xmm2",
        "movups [rsp + 48], xmm3",
        "movups [rsp + 64], xmm4",
        "movups [rsp + 80], xmm5",
        "movups [rsp + 96], xmm6",
        "movups [rsp + 112], xmm7",
        "movups [rsp + 128], xmm8",
        "movups [rsp + 144], xmm9",
        "movups [rsp + 160], xmm10",
        "movups [rsp + 176], xmm11",
        "movups [rsp + 192], xmm12",
        "movups [rsp + 208], xmm13",
        "movups [rsp + 224], xmm14",
        "movups [rsp + 240], xmm15",
        "mov rdi, rbp",
        "mov rbx, rsp",
        "and rsp, -16",
        "call {returned}",
        "mov rsp, rbx",
        "mov [rsp + 368], rax",
        "movups xmm0, [rsp + 0]",
        "movups xmm1, [rsp + 16]",
        "movups xmm2, [rsp + 32]",
        "movups xmm3, [rsp + 48]",
        "movups xmm4, [rsp + 64]",
        "movups xmm5, [rsp + 80]",
        "movups xmm6, [rsp + 96]",
        "movups xmm7, [rsp + 112]",
        "movups xmm8, [rsp + 128]",
        "movups xmm9, [rsp + 144]",
        "movups xmm10, [rsp + 160]",
        "movups xmm11, [rsp + 176]",
        "movups xmm12, [rsp + 192]",
        "movups xmm13, [rsp + 208]",
        "movups xmm14, [rsp + 224]",
        "movups xmm15, [rsp + 240]",
        "add rsp, 256",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rbx",
        "pop rdx",
        "pop rcx",
        "pop rax",
        "ret",
        returned = sym crate::vm::barriers::returned,
    )
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
