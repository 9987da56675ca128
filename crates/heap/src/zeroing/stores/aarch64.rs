//! Streaming stores of AArch64: `stnp`, a pair of registers with the hint that the line is not needed soon. A processor
//! may treat it as an ordinary store. Only loads of that kind have an ordering of their own, so that no fence is
//! needed.

use super::{LINE_BYTES, Stores};
use std::arch::asm;

/// Every processor has them.
pub(super) fn has(_: Stores) -> bool {
    true
}

/// Zeroes a range.
///
/// # Safety
/// As [`Stores::zero`].
pub(super) unsafe fn stream(stores: Stores, address: *mut u8, bytes: usize) {
    for line in (0..bytes).step_by(LINE_BYTES) {
        // SAFETY: the line lies in the range.
        unsafe {
            let line = address.add(line);
            match stores {
                Stores::Ordinary | Stores::Streaming8 => asm!(
                    "stnp wzr, wzr, [{line}]",
                    "stnp wzr, wzr, [{line}, #8]",
                    "stnp wzr, wzr, [{line}, #16]",
                    "stnp wzr, wzr, [{line}, #24]",
                    "stnp wzr, wzr, [{line}, #32]",
                    "stnp wzr, wzr, [{line}, #40]",
                    "stnp wzr, wzr, [{line}, #48]",
                    "stnp wzr, wzr, [{line}, #56]",
                    line = in(reg) line,
                    options(nostack, preserves_flags),
                ),
                Stores::Streaming16 => asm!(
                    "stnp xzr, xzr, [{line}]",
                    "stnp xzr, xzr, [{line}, #16]",
                    "stnp xzr, xzr, [{line}, #32]",
                    "stnp xzr, xzr, [{line}, #48]",
                    line = in(reg) line,
                    options(nostack, preserves_flags),
                ),
                Stores::Streaming32 => asm!(
                    "movi {zero:v}.2d, #0",
                    "stnp {zero:q}, {zero:q}, [{line}]",
                    "stnp {zero:q}, {zero:q}, [{line}, #32]",
                    line = in(reg) line,
                    zero = out(vreg) _,
                    options(nostack, preserves_flags),
                ),
            }
        }
    }
}
