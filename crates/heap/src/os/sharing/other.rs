//! Where the system is not known to have such files: nothing is shared.

use super::PageState;
use crate::error::HeapError;
use std::ffi::CStr;
use std::io;

/// A file that cannot be made.
#[derive(Debug)]
pub(crate) enum MemoryFile {}

impl MemoryFile {
    /// # Errors
    /// Always.
    pub(crate) fn new(_name: &CStr, bytes: u64, purpose: &'static str) -> Result<MemoryFile, HeapError> {
        let cause = io::ErrorKind::Unsupported.into();
        Err(HeapError::System { action: "make a file in memory of", bytes: bytes as usize, purpose, cause })
    }

    pub(crate) fn write(&self, _offset: u64, _bytes: &[u8]) -> bool {
        match *self {}
    }

    pub(crate) fn read(&self, _offset: u64, _bytes: &mut [u8]) -> bool {
        match *self {}
    }

    pub(crate) fn punch(&self, _offset: u64, _bytes: u64) -> bool {
        match *self {}
    }

    pub(in crate::os) unsafe fn map_shared(
        &self,
        _address: *mut u8,
        _bytes: usize,
        _offset: u64,
        _populate: bool,
    ) -> bool {
        match *self {}
    }

    pub(in crate::os) fn descriptor(&self) -> i32 {
        match *self {}
    }
}

/// Page tables that cannot be read.
#[derive(Debug)]
pub(crate) enum PageTables {}

impl PageTables {
    /// # Errors
    /// Always.
    pub(crate) fn new(_page_bytes: u32) -> io::Result<PageTables> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn read(&self, _address: *const u8, _count: usize, _states: &mut Vec<PageState>) -> bool {
        match *self {}
    }
}
