//! x86-64.

use std::arch::{asm, naked_asm};
use std::mem::offset_of;

use super::Words;

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

/// The beginnings of functions that may be not compiled yet: [`BEGINNING_BYTES`] each, and what they share behind them.
/// The first instruction jumps to what the function's entry says. That may be compiled code, or
/// [`UNCOMPILED`] bytes on: there the function's number is pushed, and the code behind the last beginning jumps to the
/// table's first word with its address in `r11`. Or it is [`COUNTING`] bytes on: there the function's counter is
/// decremented; at zero it goes on as if uncompiled, else to where the function's second word says.
///
/// All are addresses: where the beginnings are to lie, the table, and the functions' words ([`Words`]), within 2 GiB of
/// each other.
pub(crate) fn beginnings(start: usize, table: usize, words: usize, count: usize) -> Vec<u8> {
    let mut code = Vec::with_capacity(BEGINNING_BYTES * (count + 1));
    let end = start + BEGINNING_BYTES * count;
    let distance = |from: usize, to: usize| (to.wrapping_sub(from) as u32).to_le_bytes();
    for number in 0..count {
        let at = start + BEGINNING_BYTES * number;
        let words = words + size_of::<Words>() * number;
        // jmp [rip + entry]; push number; jmp end
        code.extend([0xff, 0x25]);
        code.extend(distance(at + 6, words + offset_of!(Words, entry)));
        code.push(0x68);
        code.extend((number as u32).to_le_bytes());
        code.push(0xe9);
        code.extend(distance(at + 16, end));
        // sub dword ptr [rip + counter], 1; jz to the push; jmp [rip + counted]
        code.extend([0x83, 0x2d]);
        code.extend(distance(at + 23, words + offset_of!(Words, counter)));
        code.push(1);
        code.extend([0x74, (UNCOMPILED as i8 - 25) as u8]);
        code.extend([0xff, 0x25]);
        code.extend(distance(at + 31, words + offset_of!(Words, counted)));
        code.push(0xcc);
    }
    // lea r11, [rip + table]; jmp [r11]
    code.extend([0x4c, 0x8d, 0x1d]);
    code.extend(distance(end + 7, table));
    code.extend([0x41, 0xff, 0x23]);
    code
}

/// Bytes from one of the [`beginnings`] to the next.
pub(crate) const BEGINNING_BYTES: usize = 32;
/// Where a function goes on that is not compiled, in bytes from its beginning.
pub(crate) const UNCOMPILED: usize = 6;
/// Where a function goes on whose calls are counted, in bytes from its beginning.
pub(crate) const COUNTING: usize = 16;

/// What the beginnings of functions that are not compiled lead to.
pub(crate) const FIRST_CALL: Option<unsafe extern "C" fn()> = Some(first_call);

/// Keeps every register that may hold an argument, asks for the function's code, and goes on there.
#[unsafe(naked)]
unsafe extern "C" fn first_call() {
    naked_asm!(
        // The function's number gives way to the frame pointer: a frame as any other.
        "xchg rbp, [rsp]",
        "mov r10, rbp",
        "mov rbp, rsp",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 128",
        "movups [rsp + 0], xmm0",
        "movups [rsp + 16], xmm1",
        "movups [rsp + 32], xmm2",
        "movups [rsp + 48], xmm3",
        "movups [rsp + 64], xmm4",
        "movups [rsp + 80], xmm5",
        "movups [rsp + 96], xmm6",
        "movups [rsp + 112], xmm7",
        "mov rdi, r11",
        "mov esi, r10d",
        "mov rdx, rbp",
        "and rsp, -16",
        "call {called}",
        "lea rsp, [rbp - 176]",
        "movups xmm0, [rsp + 0]",
        "movups xmm1, [rsp + 16]",
        "movups xmm2, [rsp + 32]",
        "movups xmm3, [rsp + 48]",
        "movups xmm4, [rsp + 64]",
        "movups xmm5, [rsp + 80]",
        "movups xmm6, [rsp + 96]",
        "movups xmm7, [rsp + 112]",
        "add rsp, 128",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "pop rbp",
        "jmp rax",
        called = sym crate::vm::code::first_called,
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
