//! Memory by `mmap`, `mprotect` and `madvise`. Tested on Linux.

use std::io;
use std::ptr::NonNull;

/// Maps `bytes` of inaccessible address space, for which the system reserves no memory.
pub(super) fn reserve(bytes: usize) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE;
    // SAFETY: a new private mapping at an address of the system's choice touches nothing that exists.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::Error::other("the system mapped address 0"))
}

/// Makes a range accessible.
///
/// # Safety
/// The range lies in a mapping made by [`reserve`].
pub(super) unsafe fn commit(address: *mut u8, bytes: usize) -> io::Result<()> {
    // SAFETY: the range is ours, by the contract.
    let result = unsafe { libc::mprotect(address.cast(), bytes, libc::PROT_READ | libc::PROT_WRITE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Drops a range's contents.
///
/// # Safety
/// The range lies in a mapping made by [`reserve`], and nobody needs its contents.
pub(super) unsafe fn decommit(address: *mut u8, bytes: usize) -> bool {
    // Linux alone promises that an anonymous range reads as zero after MADV_DONTNEED.
    if !cfg!(target_os = "linux") {
        return false;
    }
    // SAFETY: the range is ours, by the contract. With pages larger than the range's alignment the call fails harmlessly.
    unsafe { libc::madvise(address.cast(), bytes, libc::MADV_DONTNEED) == 0 }
}

/// Unmaps a whole reservation.
///
/// # Safety
/// `address` and `bytes` are those of one [`reserve`], and nothing refers to the mapping any more.
pub(super) unsafe fn release(address: *mut u8, bytes: usize) {
    // SAFETY: by the contract.
    unsafe { libc::munmap(address.cast(), bytes) };
}
