//! An open file: reading and writing pieces of guest memory.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};

use cap_std::fs::Metadata;

use crate::errno::Errno;
use crate::memory::GuestMemory;
use crate::os;
use crate::types::{FileStat, FileType, IoVec};

/// Pieces that one system call takes at most; a guest that gives more sees a short write.
const MAX_PIECES: usize = 1024;

/// An open file, or anything else that a path leads to but a directory.
pub(crate) struct OpenFile {
    pub file: File,
    pub filetype: FileType,
}

impl OpenFile {
    pub fn stat(&self) -> Result<FileStat, Errno> {
        Ok(os::file_stat(&Metadata::from_file(&self.file)?))
    }

    pub fn read(&self, memory: &mut GuestMemory<'_>, pieces: &[IoVec]) -> Result<u32, Errno> {
        read_pieces(memory, pieces, |buffer, _| (&self.file).read(buffer))
    }

    pub fn read_at(&self, memory: &mut GuestMemory<'_>, pieces: &[IoVec], offset: u64) -> Result<u32, Errno> {
        read_pieces(memory, pieces, |buffer, done| os::read_at(&self.file, buffer, position(offset, done)?))
    }

    pub fn write(&self, memory: &GuestMemory<'_>, pieces: &[IoVec]) -> Result<u32, Errno> {
        let mut slices = Vec::with_capacity(pieces.len().min(MAX_PIECES));
        for piece in pieces.iter().filter(|piece| piece.len > 0).take(MAX_PIECES) {
            slices.push(IoSlice::new(memory.slice(piece.pointer, piece.len)?));
        }
        let written = retry(|| (&self.file).write_vectored(&slices))?;
        Ok(u32::try_from(written)?)
    }

    pub fn write_at(&self, memory: &GuestMemory<'_>, pieces: &[IoVec], offset: u64) -> Result<u32, Errno> {
        let mut done = 0u32;
        for piece in pieces.iter().filter(|piece| piece.len > 0) {
            let bytes = memory.slice(piece.pointer, piece.len)?;
            let result = retry(|| os::write_at(&self.file, bytes, position(offset, done)?));
            match result {
                Ok(count) => {
                    done += u32::try_from(count)?;
                    if count < bytes.len() {
                        break;
                    }
                }
                // What was written has been written: the guest learns of the error at its next call.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }
}

fn position(offset: u64, done: u32) -> io::Result<u64> {
    offset.checked_add(u64::from(done)).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Fills the pieces one after the other with `read(buffer, bytes so far)` until one comes out short.
pub(crate) fn read_pieces(
    memory: &mut GuestMemory<'_>,
    pieces: &[IoVec],
    mut read: impl FnMut(&mut [u8], u32) -> io::Result<usize>,
) -> Result<u32, Errno> {
    let mut done = 0u32;
    for piece in pieces.iter().filter(|piece| piece.len > 0) {
        let buffer = memory.slice_mut(piece.pointer, piece.len)?;
        match retry(|| read(buffer, done)) {
            Ok(count) => {
                done += u32::try_from(count)?;
                if count < piece.len as usize {
                    break;
                }
            }
            // What was read has been consumed, so it is delivered; the next call meets the error again.
            Err(_) if done > 0 => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
