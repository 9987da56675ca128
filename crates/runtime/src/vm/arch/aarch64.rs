//! AArch64.

use std::arch::{asm, naked_asm};

/// Continues at `landing` with this stack pointer, frame pointer and payload (`x0`).
///
/// # Safety
/// `landing` is a landing pad of compiled code whose frame lies at `sp` and `fp` on this thread's stack and waits in a
/// call. No frame below owns anything.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn resume(landing: usize, sp: usize, fp: usize, payload: usize) -> ! {
    // x16 is the register that may branch to any landing pad where branch targets are enforced.
    naked_asm!("mov x16, x0", "mov sp, x1", "mov x29, x2", "mov x0, x3", "br x16")
}

/// None yet: collections visit all frames at once.
pub(crate) const RETURN_BARRIER: Option<unsafe extern "C" fn()> = None;

/// None yet: modules are compiled as a whole.
pub(crate) const FIRST_CALL: Option<unsafe extern "C" fn()> = None;

/// Nothing, as [`FIRST_CALL`] is none.
pub(crate) fn beginnings(_start: usize, _table: usize, _words: usize, _count: usize) -> Vec<u8> {
    Vec::new()
}

/// As there are no [`beginnings`], no bytes.
pub(crate) const BEGINNING_BYTES: usize = 0;
/// As there are no [`beginnings`], nowhere.
pub(crate) const UNCOMPILED: usize = 0;
/// As there are no [`beginnings`], nowhere.
pub(crate) const COUNTING: usize = 0;

/// The caller's stack pointer.
#[inline(always)]
pub(crate) fn stack_pointer() -> usize {
    let sp: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, sp", out(reg) sp, options(nomem, nostack, preserves_flags)) };
    sp
}

/// Cleans the data cache and invalidates the instruction cache over freshly written code.
pub(crate) fn synchronize_code(start: *const u8, bytes: usize) {
    let cache_type: usize;
    // SAFETY: `ctr_el0` is readable from user mode.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) cache_type, options(nomem, nostack, preserves_flags)) };
    // The fields give the log2 of each cache's smallest line in words of four bytes.
    let data_line = 4usize << (cache_type >> 16 & 15);
    let instruction_line = 4usize << (cache_type & 15);
    let (start, end) = (start as usize, start as usize + bytes);
    for line in (start / data_line * data_line..end).step_by(data_line) {
        // SAFETY: cache maintenance of an address within the mapping changes no data.
        unsafe { asm!("dc cvau, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
    // SAFETY: barriers.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
    for line in (start / instruction_line * instruction_line..end).step_by(instruction_line) {
        // SAFETY: cache maintenance of an address within the mapping changes no data.
        unsafe { asm!("ic ivau, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
    // SAFETY: barriers.
    unsafe { asm!("dsb ish", "isb", options(nostack, preserves_flags)) };
}
