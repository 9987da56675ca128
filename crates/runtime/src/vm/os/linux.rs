//! Linux: mappings by `mmap`, moved by `mremap`, growing code and shared contents by `memfd_create`; stack bounds from
//! the thread library.

use std::ffi::CStr;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use crate::vm::Error;

#[cfg(not(test))]
use libc::{mmap, mprotect, mremap};
#[cfg(test)]
pub(crate) use refusing::refuse;
#[cfg(test)]
use refusing::{mmap, mprotect, mremap};

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
    /// Some part shows shared contents.
    shows: bool,
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
        let base = unsafe { mmap(ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(Error::last_os("reserving address space"));
        }
        let base = NonNull::new(base.cast()).expect("a mapping is not at address 0");
        Ok(Mapping { base, bytes, shows: false })
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
        let result = unsafe { mprotect(self.base().add(start).cast(), end - start, access) };
        if result == 0 { Ok(()) } else { Err(Error::last_os(what)) }
    }

    /// Has the pages from byte `start` on, a whole page, show shared contents, readable and writable. What they held is
    /// gone; what is written to them is this mapping's alone. Returns whether they do: where the process has as many
    /// mappings as it may have, nothing changes.
    ///
    /// # Errors
    /// If the system refuses the memory that writing to all of them may take. Then they are inaccessible.
    ///
    /// # Panics
    /// If the contents do not lie within the mapping.
    pub(crate) fn show(&mut self, start: usize, contents: &SharedContents) -> Result<bool, Error> {
        assert!(start.is_multiple_of(page_bytes()) && start + contents.bytes <= self.bytes, "a range in the mapping");
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let (address, file) = (self.base().wrapping_add(start).cast(), contents.file.as_raw_fd());
        // Inaccessible at first: pages that cannot be written count as no memory, so that the system finds nothing to
        // refuse once it has made room.
        // SAFETY: the range lies within this mapping, which is ours.
        let mapped = unsafe { mmap(address, contents.bytes, libc::PROT_NONE, flags, file, 0) };
        if mapped == libc::MAP_FAILED {
            return Ok(false);
        }
        self.shows = true;
        self.make_writable(start..start + contents.bytes)?;
        Ok(true)
    }

    /// Moves to a new reservation of `bytes`, of which the first `accessible` are readable and writable, and begin with
    /// the first `used` of this one, which are so too; the others read as zero. Pages are moved, not copied, where the
    /// system can. On failure nothing has changed.
    pub(crate) fn relocate(&mut self, used: usize, accessible: usize, bytes: usize) -> Result<(), Error> {
        let used = used.next_multiple_of(page_bytes());
        assert!(used <= self.bytes && used <= accessible.next_multiple_of(page_bytes()), "more bytes than there are");
        let larger = Mapping::reserve(bytes)?;
        larger.make_writable(used..accessible)?;
        if used == 0 {
            *self = larger;
            return Ok(());
        }
        if self.shows {
            // The system moves one kind of pages at a time, and may fail halfway.
            return self.copy_to(larger, used);
        }
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: both ranges are ours; the target holds nothing yet.
        let moved = unsafe { mremap(self.base().cast(), used, used, flags, larger.base()) };
        if moved == larger.base().cast() {
            // The pages leave a hole behind.
            std::mem::replace(self, larger).leave_start(used);
            return Ok(());
        }
        // The system may have made room at the target before it failed. Nothing of ours is there.
        larger.leave_start(used);
        let larger = Mapping::reserve(bytes)?;
        larger.make_writable(used..accessible)?;
        self.copy_to(larger, used)
    }

    /// Becomes `larger`, with the first `used` bytes, whole pages, of this one.
    fn copy_to(&mut self, larger: Mapping, used: usize) -> Result<(), Error> {
        larger.make_writable(0..used)?;
        // SAFETY: both ranges are accessible and belong to different mappings.
        unsafe { ptr::copy_nonoverlapping(self.base(), larger.base(), used) };
        *self = larger;
        Ok(())
    }

    /// Unmaps all but the first `bytes`, whole pages: there may be a hole, whose addresses another thread may have got
    /// since.
    fn leave_start(mut self, bytes: usize) {
        if bytes == self.bytes {
            return std::mem::forget(self);
        }
        // SAFETY: within the mapping.
        self.base = unsafe { self.base.add(bytes) };
        self.bytes -= bytes;
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing refers to it any more.
        unsafe { libc::munmap(self.base().cast(), self.bytes) };
    }
}

/// Address space whose first part is readable and writable, and whose rest is executable and grows as it is written,
/// never by its own address.
#[derive(Debug)]
pub(crate) struct GrowingCode {
    mapping: Mapping,
    data_bytes: usize,
    way: WayIn,
}

/// How code is written.
#[derive(Debug)]
enum WayIn {
    /// Into the file in memory that is executed.
    File(File),
    /// Through another view of the memory.
    View(Mapping),
}

impl GrowingCode {
    /// Room for `data_bytes`, whole pages, of zeros and for `code_bytes` of code. Neither takes memory yet.
    /// `for_profiler`: the code is not shown as that of a file, of which `perf` would want to know the symbols; instead
    /// the same memory is writable elsewhere.
    pub(crate) fn reserve(data_bytes: usize, code_bytes: usize, for_profiler: bool) -> Result<GrowingCode, Error> {
        let code_bytes = code_bytes.next_multiple_of(page_bytes());
        let mapping = Mapping::reserve(data_bytes + code_bytes)?;
        mapping.make_writable(0..data_bytes)?;
        let start = mapping.base().wrapping_add(data_bytes);
        let access = libc::PROT_READ | libc::PROT_EXEC;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let map = |flags: i32, file: i32| {
            // SAFETY: the range lies in the mapping, which is ours, and holds nothing yet.
            let mapped = unsafe { mmap(start.cast(), code_bytes, access, flags, file, 0) };
            if mapped == libc::MAP_FAILED { Err(Error::last_os("mapping code")) } else { Ok(()) }
        };
        let way = if for_profiler {
            map(flags | libc::MAP_ANONYMOUS, -1)?;
            WayIn::View(view(start, code_bytes)?)
        } else {
            let file = file_in_memory(c"legato-code")?;
            map(flags, file.as_raw_fd())?;
            WayIn::File(file)
        };
        Ok(GrowingCode { mapping, data_bytes, way })
    }

    /// The first byte of data.
    pub(crate) fn data(&self) -> *mut u8 {
        self.mapping.base()
    }

    /// The first byte of code.
    pub(crate) fn code(&self) -> *const u8 {
        self.mapping.base().wrapping_add(self.data_bytes)
    }

    /// Bytes of code that there is room for.
    pub(crate) fn code_bytes(&self) -> usize {
        self.mapping.bytes() - self.data_bytes
    }

    /// Writes code at an offset where there is none yet.
    ///
    /// # Panics
    /// If there is no room for it.
    pub(crate) fn write(&self, offset: usize, code: &[u8]) -> Result<(), Error> {
        assert!(offset + code.len() <= self.code_bytes(), "code within the mapping");
        match &self.way {
            WayIn::File(file) => {
                file.write_all_at(code, offset as u64).map_err(|source| Error::System { what: "writing code", source })
            }
            WayIn::View(view) => {
                // SAFETY: the view is writable and has room for so much; nobody executes what lies there yet.
                unsafe { ptr::copy_nonoverlapping(code.as_ptr(), view.base().add(offset), code.len()) };
                Ok(())
            }
        }
    }
}

/// Another mapping of memory that is shared, readable and writable.
fn view(of: *mut u8, bytes: usize) -> Result<Mapping, Error> {
    let view = Mapping::reserve(bytes)?;
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: the target is ours and holds nothing. Of a shared mapping, moving no bytes makes another one.
    let mapped = unsafe { mremap(of.cast(), 0, bytes, flags, view.base()) };
    if mapped != view.base().cast() {
        return Err(Error::last_os("mapping code once more"));
    }
    view.make_writable(0..bytes)?;
    Ok(view)
}

/// Contents that any number of mappings show, each with changes of its own: pages are copied when they are written.
#[derive(Debug)]
pub(crate) struct SharedContents {
    file: File,
    bytes: usize,
}

impl SharedContents {
    /// So many zeros, whole pages.
    pub(crate) fn zeros(bytes: usize) -> Result<SharedContents, Error> {
        let file = file_in_memory(c"legato-memory")?;
        file.set_len(bytes as u64).map_err(|source| Error::System { what: "making a file in memory", source })?;
        Ok(SharedContents { file, bytes })
    }

    /// Changes them, before anybody shows them.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let what = "writing to a file in memory";
        self.file.write_all_at(bytes, offset as u64).map_err(|source| Error::System { what, source })
    }
}

/// An empty file that has no name in any directory.
fn file_in_memory(name: &CStr) -> Result<File, Error> {
    // SAFETY: the name is a string that ends with 0.
    let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(Error::last_os("making a file in memory"));
    }
    // SAFETY: the descriptor is new, and nobody else's.
    Ok(unsafe { File::from_raw_fd(descriptor) })
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

/// For tests: a system that refuses.
#[cfg(test)]
mod refusing {
    use std::cell::Cell;

    use libc::{c_int, c_void, off_t, size_t};

    thread_local! {
        static REFUSED: Cell<u32> = const { Cell::new(0) };
    }

    /// Lets the next calls for memory on this thread fail whose bit is set, the lowest for the first.
    pub(crate) fn refuse(calls: u32) {
        REFUSED.set(calls);
    }

    fn is_refused() -> bool {
        let calls = REFUSED.replace(REFUSED.get() >> 1);
        calls & 1 != 0
    }

    pub(super) unsafe fn mmap(
        address: *mut c_void,
        bytes: size_t,
        access: c_int,
        flags: c_int,
        file: c_int,
        offset: off_t,
    ) -> *mut c_void {
        if is_refused() {
            return libc::MAP_FAILED;
        }
        // SAFETY: passed on to the caller.
        unsafe { libc::mmap(address, bytes, access, flags, file, offset) }
    }

    pub(super) unsafe fn mprotect(address: *mut c_void, bytes: size_t, access: c_int) -> c_int {
        // SAFETY: passed on to the caller.
        if is_refused() { -1 } else { unsafe { libc::mprotect(address, bytes, access) } }
    }

    /// Refuses as the system may: with a hole where the target was.
    pub(super) unsafe fn mremap(
        from: *mut c_void,
        bytes: size_t,
        new_bytes: size_t,
        flags: c_int,
        to: *mut u8,
    ) -> *mut c_void {
        if is_refused() {
            // SAFETY: passed on to the caller.
            unsafe { libc::munmap(to.cast(), new_bytes) };
            return libc::MAP_FAILED;
        }
        // SAFETY: passed on to the caller.
        unsafe { libc::mremap(from, bytes, new_bytes, flags, to) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the system shows of the mapping that an address lies in: access, and the name of its file.
    fn shown(address: usize) -> (String, String) {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| {
            let (range, _) = line.split_once(' ').unwrap();
            let (start, end) = range.split_once('-').unwrap();
            let [start, end] = [start, end].map(|bound| usize::from_str_radix(bound, 16).unwrap());
            (start..end).contains(&address)
        });
        let mut words = line.unwrap().split_whitespace();
        (words.nth(1).unwrap().to_owned(), words.nth(3).unwrap_or_default().to_owned())
    }

    #[test]
    fn growing_code_is_executable_where_it_is_not_written() {
        for for_profiler in [false, true] {
            let code = GrowingCode::reserve(page_bytes(), 1 << 20, for_profiler).unwrap();
            code.write(5, &[1, 2, 3]).unwrap();
            code.write(70_000, &[4]).unwrap();
            // SAFETY: written just now.
            let written = unsafe { std::slice::from_raw_parts(code.code(), 70_001) };
            assert_eq!((&written[4..9], written[70_000]), (&[0, 1, 2, 3, 0][..], 4));
            let (access, file) = shown(code.code() as usize);
            assert!(access.starts_with("r-x"), "{access}");
            // `perf` takes names from a map of them where the memory is no file's; this one stands for none.
            assert_eq!(file, if for_profiler { "/dev/zero" } else { "/memfd:legato-code" });
        }
    }
}
