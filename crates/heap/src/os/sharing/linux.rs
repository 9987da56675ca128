//! By `memfd_create` and `/proc/self/pagemap`.

use super::PageState;
use crate::error::HeapError;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

/// A file that lies in memory alone. Grows beyond its first size as it is written; bytes that were never written, or
/// punched out, are zeros without memory.
#[derive(Debug)]
pub(crate) struct MemoryFile(File);

impl MemoryFile {
    /// A file of `bytes` zeros. The system shows its mappings by `name`.
    ///
    /// # Errors
    /// [`HeapError::System`] where the system refuses.
    pub(crate) fn new(name: &CStr, bytes: u64, purpose: &'static str) -> Result<MemoryFile, HeapError> {
        let error =
            |cause| HeapError::System { action: "make a file in memory of", bytes: bytes as usize, purpose, cause };
        // SAFETY: the name is a string that ends with 0.
        let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(error(io::Error::last_os_error()));
        }
        // SAFETY: the descriptor is new, and nobody else's.
        let file = unsafe { File::from_raw_fd(descriptor) };
        file.set_len(bytes).map_err(error)?;
        Ok(MemoryFile(file))
    }

    /// Writes bytes at an offset; returns whether all of them have been.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> bool {
        self.0.write_all_at(bytes, offset).is_ok()
    }

    /// Reads bytes at an offset; returns whether there were enough.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> bool {
        self.0.read_exact_at(bytes, offset).is_ok()
    }

    /// Gives the memory of whole pages back to the system: they read as zero in every shared mapping. Returns whether
    /// it took it.
    pub(crate) fn punch(&self, offset: u64, bytes: u64) -> bool {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: changes the file alone.
        unsafe { libc::fallocate(self.0.as_raw_fd(), mode, offset as libc::off_t, bytes as libc::off_t) == 0 }
    }

    /// Maps whole pages of the file, readable and writable, in place of what is mapped at `address`. With `populate`,
    /// their page table entries are made at once. Returns whether the system did so; where not, what was mapped there
    /// is there still.
    ///
    /// # Safety
    /// The range is the caller's to map over, and nobody needs its contents.
    pub(in crate::os) unsafe fn map_shared(&self, address: *mut u8, bytes: usize, offset: u64, populate: bool) -> bool {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED | if populate { libc::MAP_POPULATE } else { 0 };
        let offset = offset as libc::off_t;
        // SAFETY: by the contract.
        let mapped = unsafe { libc::mmap(address.cast(), bytes, access, flags, self.0.as_raw_fd(), offset) };
        mapped != libc::MAP_FAILED
    }

    pub(in crate::os) fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// This process's page tables, as far as the system shows them to everybody.
#[derive(Debug)]
pub(crate) struct PageTables {
    file: File,
    page_bytes: u32,
}

/// Bits of an entry (Documentation/admin-guide/mm/pagemap.rst in Linux).
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_A_FILE: u64 = 1 << 61;

impl PageTables {
    /// Opens them, of a system with pages of so many bytes.
    ///
    /// # Errors
    /// The system's own, as where `/proc` is not mounted.
    pub(crate) fn new(page_bytes: u32) -> io::Result<PageTables> {
        Ok(PageTables { file: File::open("/proc/self/pagemap")?, page_bytes })
    }

    /// Says of each of `count` pages of a private mapping what stands behind it, into `states`, which is emptied first.
    /// Returns whether the system tells.
    pub(crate) fn read(&self, address: *const u8, count: usize, states: &mut Vec<PageState>) -> bool {
        let mut entries = vec![0; count * size_of::<u64>()];
        let first = address.addr() as u64 / u64::from(self.page_bytes);
        let told = self.file.read_exact_at(&mut entries, first * size_of::<u64>() as u64).is_ok();
        states.clear();
        let entries = entries.as_chunks().0.iter().map(|&entry| u64::from_ne_bytes(entry));
        states.extend(entries.map(|entry| match entry & (PRESENT | SWAPPED) != 0 && entry & OF_A_FILE == 0 {
            true => PageState::Own,
            false => PageState::NotOwn,
        }));
        told
    }
}
