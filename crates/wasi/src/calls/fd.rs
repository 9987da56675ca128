//! `fd_*`: reading, writing and positions.

use std::io::{Seek, SeekFrom};

use crate::ctx::WasiCtx;
use crate::errno::Errno;
use crate::file::read_pieces;
use crate::memory::GuestMemory;
use crate::os;
use crate::table::Object;
use crate::types::{IoVec, PRESTAT_SIZE, Rights, dirent};

impl WasiCtx {
    /// Says how a range of a file will be used.
    pub fn fd_advise(&mut self, fd: u32, offset: u64, len: u64, advice: u32) -> Result<(), Errno> {
        let advice = match advice {
            0 => os::Advice::Normal,
            1 => os::Advice::Sequential,
            2 => os::Advice::Random,
            3 => os::Advice::WillNeed,
            4 => os::Advice::DontNeed,
            5 => os::Advice::NoReuse,
            _ => return Err(Errno::Inval),
        };
        os::advise(&self.table.file(fd, Rights::FD_ADVISE)?.file, offset, len, advice)
    }

    /// Makes room for a range of a file; the file grows to hold it.
    pub fn fd_allocate(&mut self, fd: u32, offset: u64, len: u64) -> Result<(), Errno> {
        os::allocate(&self.table.file(fd, Rights::FD_ALLOCATE)?.file, offset, len)
    }

    /// Closes.
    pub fn fd_close(&mut self, fd: u32) -> Result<(), Errno> {
        if let Object::Output(_) = self.table.remove(fd)?.object {
            self.console.flush()?;
        }
        Ok(())
    }

    /// Waits until a file's data is on the device.
    pub fn fd_datasync(&mut self, fd: u32) -> Result<(), Errno> {
        self.sync(fd, Rights::FD_DATASYNC, std::fs::File::sync_data)
    }

    /// Waits until a file's data and metadata are on the device.
    pub fn fd_sync(&mut self, fd: u32) -> Result<(), Errno> {
        self.sync(fd, Rights::FD_SYNC, std::fs::File::sync_all)
    }

    fn sync(&mut self, fd: u32, right: Rights, sync: fn(&std::fs::File) -> std::io::Result<()>) -> Result<(), Errno> {
        let descriptor = self.table.get(fd)?;
        match &descriptor.object {
            Object::File(file) => {
                descriptor.require(right)?;
                sync(&file.file)?;
            }
            Object::Dir(dir) => {
                descriptor.require(right)?;
                sync(&dir.reopen()?)?;
            }
            Object::Output(_) => self.console.flush()?,
            Object::Input => return Err(Errno::Inval),
        }
        Ok(())
    }

    /// Reads at the descriptor's position into the pieces of memory; writes the number of bytes, 0 at the end.
    pub fn fd_read(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        pieces: u32,
        count: u32,
        result: u32,
    ) -> Result<(), Errno> {
        memory.slice(result, 4)?;
        let pieces = IoVec::list(memory, pieces, count)?;
        let descriptor = self.table.get(fd)?;
        let done = match &descriptor.object {
            Object::File(file) => {
                descriptor.require(Rights::FD_READ)?;
                file.read(memory, &pieces)?
            }
            Object::Input => {
                descriptor.require(Rights::FD_READ)?;
                self.console.flush()?;
                // One read fills one piece: a second could wait although there is something to deliver.
                let first = pieces.iter().position(|piece| piece.len > 0).unwrap_or(pieces.len());
                let pieces = &pieces[first..pieces.len().min(first + 1)];
                if !pieces.is_empty() {
                    self.await_input()?;
                }
                read_pieces(memory, pieces, |buffer, _| self.input.read(buffer))?
            }
            Object::Output(_) => return Err(Errno::Badf),
            Object::Dir(_) => return Err(Errno::Isdir),
        };
        memory.write_u32(result, done)
    }

    /// Reads at `offset`, leaving the position alone.
    pub fn fd_pread(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        pieces: u32,
        count: u32,
        offset: u64,
        result: u32,
    ) -> Result<(), Errno> {
        memory.slice(result, 4)?;
        let pieces = IoVec::list(memory, pieces, count)?;
        let file = self.table.file(fd, Rights::FD_READ | Rights::FD_SEEK)?;
        let done = file.read_at(memory, &pieces, offset)?;
        memory.write_u32(result, done)
    }

    /// Writes the pieces of memory at the descriptor's position; writes the number of bytes to `result`.
    pub fn fd_write(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        pieces: u32,
        count: u32,
        result: u32,
    ) -> Result<(), Errno> {
        memory.slice(result, 4)?;
        let pieces = IoVec::list(memory, pieces, count)?;
        let descriptor = self.table.get(fd)?;
        let done = match &descriptor.object {
            Object::File(file) => {
                descriptor.require(Rights::FD_WRITE)?;
                file.write(memory, &pieces)?
            }
            Object::Output(stream) => {
                descriptor.require(Rights::FD_WRITE)?;
                for piece in &pieces {
                    self.console.write(*stream, memory.slice(piece.pointer, piece.len)?)?;
                }
                self.console.finish(*stream)?;
                pieces.iter().map(|piece| piece.len).sum()
            }
            Object::Input => return Err(Errno::Badf),
            Object::Dir(_) => return Err(Errno::Isdir),
        };
        memory.write_u32(result, done)
    }

    /// Writes at `offset`, leaving the position alone.
    pub fn fd_pwrite(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        pieces: u32,
        count: u32,
        offset: u64,
        result: u32,
    ) -> Result<(), Errno> {
        memory.slice(result, 4)?;
        let pieces = IoVec::list(memory, pieces, count)?;
        let file = self.table.file(fd, Rights::FD_WRITE | Rights::FD_SEEK)?;
        let done = file.write_at(memory, &pieces, offset)?;
        memory.write_u32(result, done)
    }

    /// Moves the position by `delta` from the start (`whence` 0), the position (1) or the end (2), and writes the new
    /// one.
    pub fn fd_seek(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        delta: i64,
        whence: u32,
        result: u32,
    ) -> Result<(), Errno> {
        memory.slice(result, 8)?;
        let to = match whence {
            0 => SeekFrom::Start(u64::try_from(delta).map_err(|_| Errno::Inval)?),
            1 => SeekFrom::Current(delta),
            2 => SeekFrom::End(delta),
            _ => return Err(Errno::Inval),
        };
        // To ask where one is takes less than to move.
        let right = if to == SeekFrom::Current(0) { Rights::FD_TELL } else { Rights::FD_SEEK };
        let position = (&self.table.file(fd, right)?.file).seek(to)?;
        memory.write_u64(result, position)
    }

    /// Writes the position.
    pub fn fd_tell(&mut self, memory: &mut GuestMemory<'_>, fd: u32, result: u32) -> Result<(), Errno> {
        let position = (&self.table.file(fd, Rights::FD_TELL)?.file).stream_position()?;
        memory.write_u64(result, position)
    }

    /// Moves descriptor `from` to the number `to`.
    pub fn fd_renumber(&mut self, from: u32, to: u32) -> Result<(), Errno> {
        self.table.renumber(from, to)
    }

    /// Writes as many entries from `cookie` on as fit, the last one cut off; fewer bytes than `len` mean the end.
    pub fn fd_readdir(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        buffer: u32,
        len: u32,
        cookie: u64,
        result: u32,
    ) -> Result<(), Errno> {
        memory.slice(result, 4)?;
        let out = memory.slice_mut(buffer, len)?;
        let entries = self.table.dir_mut(fd, Rights::FD_READDIR)?.list(cookie)?;
        let mut used = 0;
        let mut put = |bytes: &[u8]| {
            let fit = bytes.len().min(out.len() - used);
            out[used..used + fit].copy_from_slice(&bytes[..fit]);
            used += fit;
            fit == bytes.len()
        };
        for (index, entry) in (1..).zip(entries) {
            // A cookie beyond the list has no entries, so that the sum is small.
            let next = cookie + index;
            let name_len = u32::try_from(entry.name.len())?;
            if !put(&dirent(next, entry.ino, name_len, entry.filetype)) || !put(entry.name.as_bytes()) {
                break;
            }
        }
        let used = u32::try_from(used)?;
        memory.write_u32(result, used)
    }

    /// Describes a directory that was opened before the guest began; [`Errno::Badf`] for any other descriptor.
    pub fn fd_prestat_get(&mut self, memory: &mut GuestMemory<'_>, fd: u32, result: u32) -> Result<(), Errno> {
        let mut raw = [0; PRESTAT_SIZE as usize];
        raw[4..8].copy_from_slice(&u32::try_from(self.preopen(fd)?.len())?.to_le_bytes());
        memory.write(result, &raw)
    }

    /// Writes the guest's name of such a directory, not terminated.
    pub fn fd_prestat_dir_name(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        buffer: u32,
        len: u32,
    ) -> Result<(), Errno> {
        let name = self.preopen(fd)?;
        if name.len() > len as usize {
            return Err(Errno::Nametoolong);
        }
        memory.write(buffer, name.as_bytes())
    }

    fn preopen(&self, fd: u32) -> Result<&str, Errno> {
        match &self.table.get(fd)?.object {
            Object::Dir(dir) => dir.preopen.as_deref().ok_or(Errno::Badf),
            _ => Err(Errno::Badf),
        }
    }
}
