//! Streaming stores of x86-64. SSE2, which has those of 8 and 16 bytes, is part of the architecture; AVX is looked for.

use super::{LINE_BYTES, Stores};
use std::arch::x86_64::*;

/// Whether this processor has these streaming stores.
pub(super) fn has(stores: Stores) -> bool {
    match stores {
        Stores::Ordinary | Stores::Streaming8 | Stores::Streaming16 => true,
        Stores::Streaming32 => std::is_x86_feature_detected!("avx"),
    }
}

/// Zeroes a range, and fences: streaming stores are ordered with nothing else.
///
/// # Safety
/// As [`Stores::zero`].
pub(super) unsafe fn stream(stores: Stores, address: *mut u8, bytes: usize) {
    // SAFETY: by the contract.
    unsafe {
        match stores {
            Stores::Ordinary | Stores::Streaming8 => stream_8(address, bytes),
            Stores::Streaming16 => stream_16(address, bytes),
            Stores::Streaming32 => stream_32(address, bytes),
        }
        _mm_sfence();
    }
}

/// # Safety
/// As [`Stores::zero`]; the caller fences.
#[target_feature(enable = "sse2")]
unsafe fn stream_8(address: *mut u8, bytes: usize) {
    for line in (0..bytes).step_by(LINE_BYTES) {
        for at in (line..line + LINE_BYTES).step_by(8) {
            // SAFETY: the 8 bytes lie in the range.
            unsafe { _mm_stream_si64(address.add(at).cast(), 0) };
        }
    }
}

/// # Safety
/// As [`Stores::zero`]; the caller fences.
#[target_feature(enable = "sse2")]
unsafe fn stream_16(address: *mut u8, bytes: usize) {
    let zero = _mm_setzero_si128();
    for line in (0..bytes).step_by(LINE_BYTES) {
        for at in (line..line + LINE_BYTES).step_by(16) {
            // SAFETY: the 16 bytes lie in the range, aligned.
            unsafe { _mm_stream_si128(address.add(at).cast(), zero) };
        }
    }
}

/// # Safety
/// As [`Stores::zero`]; the caller fences. The processor has AVX.
#[target_feature(enable = "avx")]
unsafe fn stream_32(address: *mut u8, bytes: usize) {
    let zero = _mm256_setzero_si256();
    for line in (0..bytes).step_by(LINE_BYTES) {
        for at in (line..line + LINE_BYTES).step_by(32) {
            // SAFETY: the 32 bytes lie in the range, aligned.
            unsafe { _mm256_stream_si256(address.add(at).cast(), zero) };
        }
    }
}
