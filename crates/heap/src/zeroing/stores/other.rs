//! Processors whose streaming stores stable Rust has no name for: ordinary stores in their place.

use super::Stores;

/// None are known.
pub(super) fn has(_: Stores) -> bool {
    false
}

/// Zeroes a range with ordinary stores.
///
/// # Safety
/// As [`Stores::zero`].
pub(super) unsafe fn stream(_: Stores, address: *mut u8, bytes: usize) {
    // SAFETY: by the contract.
    unsafe { address.write_bytes(0, bytes) }
}
