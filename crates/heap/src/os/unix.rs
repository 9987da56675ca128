//! Memory by `mmap`, `mprotect` and `madvise`. Tested on Linux.

use std::io;
use std::ptr::NonNull;
use std::time::Duration;

/// Bytes of a page.
pub(super) fn page_bytes() -> u32 {
    // SAFETY: asks for a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u32::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two()).expect("a page has a size")
}

/// How long the calling thread has had a processor so far.
pub(super) fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to `time` alone; where it fails, that stays 0.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

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

/// Makes a range inaccessible.
///
/// # Safety
/// The range lies in a mapping made by [`reserve`].
pub(super) unsafe fn forbid(address: *mut u8, bytes: usize) -> bool {
    // SAFETY: the range is ours, by the contract.
    unsafe { libc::mprotect(address.cast(), bytes, libc::PROT_NONE) == 0 }
}

/// Makes pages inaccessible that hold nothing, without splitting the mapping; false where the system cannot (Linux
/// before 6.13).
///
/// # Safety
/// The range lies in a mapping made by [`reserve`], consists of whole pages, and nobody needs its contents.
pub(super) unsafe fn guard(address: *mut u8, bytes: usize) -> bool {
    const MADV_GUARD_INSTALL: i32 = 102;
    // SAFETY: the range is ours, by the contract. Systems that do not know the advice refuse it.
    cfg!(target_os = "linux") && unsafe { libc::madvise(address.cast(), bytes, MADV_GUARD_INSTALL) == 0 }
}

/// Asks for ordinary pages alone from now on.
///
/// # Safety
/// The range consists of whole pages of a mapping made by [`reserve`].
pub(super) unsafe fn forbid_huge_pages(address: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: the range is ours, by the contract, and keeps what it holds. Systems without huge pages refuse
    // harmlessly.
    unsafe {
        libc::madvise(address.cast(), bytes, libc::MADV_NOHUGEPAGE)
    };
}

/// Asks for huge pages where a whole one is untouched; returns whether the system has them.
///
/// # Safety
/// The range consists of whole huge pages of a mapping made by [`reserve`].
pub(super) unsafe fn allow_huge_pages(address: *mut u8, bytes: usize) -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: the range is ours, by the contract, and keeps what it holds.
    return unsafe { libc::madvise(address.cast(), bytes, libc::MADV_HUGEPAGE) == 0 };
    #[cfg(not(target_os = "linux"))]
    return false;
}

/// Splits huge pages that a range begins or ends in, so that each of its pages can be given back by itself: until then
/// the system keeps the memory of a huge page as long as a part of it is in use.
///
/// # Safety
/// The range lies in a mapping made by [`reserve`], and nobody needs its contents.
pub(super) unsafe fn split_huge_pages(address: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: the range is ours, by the contract.
    unsafe {
        libc::madvise(address.cast(), bytes, libc::MADV_FREE)
    };
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
    // SAFETY: the range is ours, by the contract. With pages larger than the range's alignment the call fails
    // harmlessly.
    unsafe { libc::madvise(address.cast(), bytes, libc::MADV_DONTNEED) == 0 }
}

/// Has untouched pages get their memory now, if the system can do that faster than by one fault for each.
///
/// # Safety
/// The range lies in a mapping made by [`reserve`], is accessible and consists of whole pages.
pub(super) unsafe fn populate(address: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: the range is ours, by the contract, and keeps what it holds. Systems before 5.14 refuse harmlessly.
    unsafe {
        libc::madvise(address.cast(), bytes, libc::MADV_POPULATE_WRITE)
    };
}

/// Maps accessible private memory over a range: a file's from an offset on, or untouched memory.
///
/// # Safety
/// The range lies in a mapping made by [`reserve`], consists of whole pages, and nobody needs its contents.
pub(super) unsafe fn map(address: *mut u8, bytes: usize, file: Option<(i32, u64)>) -> bool {
    let kind = if file.is_some() { 0 } else { libc::MAP_ANON };
    let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE | kind;
    let (descriptor, offset) = file.unwrap_or((-1, 0));
    // SAFETY: the range is ours, by the contract.
    let mapped = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(address.cast(), bytes, access, flags, descriptor, offset as libc::off_t)
    };
    mapped != libc::MAP_FAILED
}

/// Notes for each page of a range whether it has memory; false where the system does not tell.
///
/// # Safety
/// The range lies in a mapping made by [`reserve`], and consists of whole pages.
pub(super) unsafe fn residency(address: *mut u8, bytes: usize, pages: &mut Vec<bool>) -> bool {
    let mut answers = vec![0u8; bytes.div_ceil(page_bytes() as usize)];
    // SAFETY: the range is ours, by the contract; the vector has a byte for each of its pages.
    let told =
        cfg!(target_os = "linux") && unsafe { libc::mincore(address.cast(), bytes, answers.as_mut_ptr().cast()) == 0 };
    pages.clear();
    pages.extend(answers.iter().map(|answer| answer & 1 != 0));
    told
}

/// Unmaps a reservation, or its end.
///
/// # Safety
/// The range lies in a mapping made by [`reserve`], consists of whole pages up to its end, and nothing refers to it any
/// more.
pub(super) unsafe fn release(address: *mut u8, bytes: usize) {
    // SAFETY: by the contract.
    unsafe { libc::munmap(address.cast(), bytes) };
}
