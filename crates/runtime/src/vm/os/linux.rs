//! Linux: mappings by `mmap`, moved by `mremap`; stack bounds from the thread library.

use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use crate::vm::Error;

/// Bytes of a page.
pub(crate) fn page_bytes() -> usize {
    static PAGE_BYTES: OnceLock<usize> = OnceLock::new();
    *PAGE_BYTES.get_or_init(|| {
        // SAFETY: `sysconf` only reads.
        let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(bytes).expect("the page size is known")
    })
}

/// A range of address space that belongs to its owner alone; unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is memory without thread affinity.
unsafe impl Send for Mapping {}
// SAFETY: `&Mapping` gives only the address; whoever dereferences it answers for races.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `bytes` (rounded up to pages, at least one) of inaccessible address space that reads as zero once made
    /// accessible.
    pub(crate) fn reserve(bytes: usize) -> Result<Mapping, Error> {
        let page = page_bytes();
        let bytes = bytes
            .max(1)
            .checked_next_multiple_of(page)
            .ok_or_else(|| Error::Limit("a reservation larger than the address space".into()))?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address of the system's choice touches nothing existing.
        let base = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(Error::last_os("reserving address space"));
        }
        let base = NonNull::new(base.cast()).expect("a mapping is not at address 0");
        Ok(Mapping { base, bytes })
    }

    /// The first byte.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Length in bytes, whole pages.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes `range` (bytes from the base, rounded outwards to pages) readable and writable.
    pub(crate) fn make_writable(&self, range: Range<usize>) -> Result<(), Error> {
        self.protect(range, libc::PROT_READ | libc::PROT_WRITE, "making memory accessible")
    }

    /// Makes `range` readable and executable, no longer writable.
    pub(crate) fn make_executable(&self, range: Range<usize>) -> Result<(), Error> {
        self.protect(range, libc::PROT_READ | libc::PROT_EXEC, "making code executable")
    }

    fn protect(&self, range: Range<usize>, access: i32, what: &'static str) -> Result<(), Error> {
        let page = page_bytes();
        let start = range.start / page * page;
        let end = range.end.next_multiple_of(page);
        assert!(start <= end && end <= self.bytes, "a range outside the mapping");
        if start == end {
            return Ok(());
        }
        // SAFETY: the range lies within this mapping, which is ours.
        let result = unsafe { libc::mprotect(self.base().add(start).cast(), end - start, access) };
        if result == 0 { Ok(()) } else { Err(Error::last_os(what)) }
    }

    /// Moves the first `bytes` of `from`, which must be accessible, to the start of this mapping. Pages are moved, not
    /// copied, where the system can.
    pub(crate) fn take_start_of(&self, from: Mapping, bytes: usize) -> Result<(), Error> {
        let bytes = bytes.next_multiple_of(page_bytes());
        assert!(bytes <= from.bytes && bytes <= self.bytes, "more bytes than the mappings have");
        if bytes == 0 {
            return Ok(());
        }
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: both ranges are ours; the target holds nothing yet. The moved pages leave a hole in `from`, whose drop
        // unmaps the rest (unmapping a hole is no error).
        let moved = unsafe { libc::mremap(from.base().cast(), bytes, bytes, flags, self.base()) };
        if moved == self.base().cast() {
            return Ok(());
        }
        self.make_writable(0..bytes)?;
        // SAFETY: both ranges are accessible and belong to different mappings.
        unsafe { ptr::copy_nonoverlapping(from.base(), self.base(), bytes) };
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing refers to it any more.
        unsafe { libc::munmap(self.base().cast(), self.bytes) };
    }
}

/// The addresses of the calling thread's stack, lowest first; `None` where the system does not say.
pub(crate) fn stack_bounds() -> Option<Range<usize>> {
    let mut attributes = std::mem::MaybeUninit::uninit();
    // SAFETY: initialises `attributes` from the running thread.
    if unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: initialised just now.
    let mut attributes: libc::pthread_attr_t = unsafe { attributes.assume_init() };
    let (mut low, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: reads the two attributes, then frees what the first call allocated.
    let result = unsafe {
        let result = libc::pthread_attr_getstack(&attributes, &mut low, &mut bytes);
        libc::pthread_attr_destroy(&mut attributes);
        result
    };
    (result == 0).then(|| low as usize..low as usize + bytes)
}
