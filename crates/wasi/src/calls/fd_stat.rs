//! `fd_fdstat_*` and `fd_filestat_*`: what is known of a descriptor and of what it stands for.

use crate::ctx::WasiCtx;
use crate::errno::Errno;
use crate::memory::GuestMemory;
use crate::os;
use crate::table::Object;
use crate::types::{FDSTAT_SIZE, FdFlags, FileStat, FileType, FstFlags, Rights};

impl WasiCtx {
    /// Writes a descriptor's type, flags and rights.
    pub fn fd_fdstat_get(&mut self, memory: &mut GuestMemory<'_>, fd: u32, result: u32) -> Result<(), Errno> {
        let descriptor = self.table.get(fd)?;
        let (filetype, flags) = match &descriptor.object {
            Object::Input => (self.input.file_type(), FdFlags::empty()),
            Object::Output(stream) => (self.console.file_type(*stream), FdFlags::empty()),
            Object::File(file) => (file.filetype, os::fd_flags(&file.file)?),
            Object::Dir(_) => (FileType::Directory, FdFlags::empty()),
        };
        // A guest's library asks for no right that the directory does not pass on. Of a directory for reading it must
        // ask for the right to write, so that opening fails, and not a write later.
        let mut inheriting = descriptor.inheriting;
        if matches!(&descriptor.object, Object::Dir(dir) if dir.read_only) {
            inheriting |= Rights::FD_WRITE;
        }
        let mut raw = [0; FDSTAT_SIZE as usize];
        raw[0] = filetype as u8;
        raw[2..4].copy_from_slice(&flags.bits().to_le_bytes());
        raw[8..16].copy_from_slice(&descriptor.rights.bits().to_le_bytes());
        raw[16..24].copy_from_slice(&inheriting.bits().to_le_bytes());
        memory.write(result, &raw)
    }

    /// Sets whether a file appends and waits. The flags of synchronous writing are chosen at opening and stay:
    /// [`Errno::Notsup`] for a change of them.
    pub fn fd_fdstat_set_flags(&mut self, fd: u32, flags: u32) -> Result<(), Errno> {
        let flags = u16::try_from(flags).ok().and_then(FdFlags::from_bits).ok_or(Errno::Inval)?;
        let descriptor = self.table.get(fd)?;
        descriptor.require(Rights::FD_FDSTAT_SET_FLAGS)?;
        match &descriptor.object {
            Object::File(file) => {
                let synchronous = FdFlags::DSYNC | FdFlags::RSYNC | FdFlags::SYNC;
                let asked = flags & synchronous;
                if !asked.is_empty() && !os::fd_flags(&file.file)?.contains(asked - FdFlags::RSYNC) {
                    return Err(Errno::Notsup);
                }
                os::set_fd_flags(&file.file, flags)
            }
            // The standard streams are the host's, too: the guest must not change them under it.
            Object::Input | Object::Output(_) if flags.is_empty() => Ok(()),
            Object::Input | Object::Output(_) => Err(Errno::Notsup),
            Object::Dir(_) if flags.is_empty() => Ok(()),
            Object::Dir(_) => Err(Errno::Inval),
        }
    }

    /// Gives up rights; [`Errno::Notcapable`] if one would be gained.
    pub fn fd_fdstat_set_rights(&mut self, fd: u32, base: u64, inheriting: u64) -> Result<(), Errno> {
        let base = Rights::from_bits(base).ok_or(Errno::Notcapable)?;
        let inheriting = Rights::from_bits(inheriting).ok_or(Errno::Notcapable)?;
        let descriptor = self.table.get_mut(fd)?;
        if !descriptor.rights.contains(base) || !descriptor.inheriting.contains(inheriting) {
            return Err(Errno::Notcapable);
        }
        descriptor.rights = base;
        descriptor.inheriting = inheriting;
        Ok(())
    }

    /// Writes what is known of the file.
    pub fn fd_filestat_get(&mut self, memory: &mut GuestMemory<'_>, fd: u32, result: u32) -> Result<(), Errno> {
        let descriptor = self.table.get(fd)?;
        descriptor.require(Rights::FD_FILESTAT_GET)?;
        let stat = match &descriptor.object {
            Object::Input => FileStat::stream(self.input.file_type()),
            Object::Output(stream) => FileStat::stream(self.console.file_type(*stream)),
            Object::File(file) => file.stat()?,
            Object::Dir(dir) => dir.stat()?,
        };
        stat.write(memory, result)
    }

    /// Cuts or extends a file to `size` bytes.
    pub fn fd_filestat_set_size(&mut self, fd: u32, size: u64) -> Result<(), Errno> {
        let file = self.table.file(fd, Rights::FD_FILESTAT_SET_SIZE)?;
        file.file.set_len(size)?;
        Ok(())
    }

    /// Sets the times, in nanoseconds since the Unix epoch.
    pub fn fd_filestat_set_times(&mut self, fd: u32, atim: u64, mtim: u64, flags: u32) -> Result<(), Errno> {
        let times = Times::new(atim, mtim, flags)?;
        let descriptor = self.table.get(fd)?;
        descriptor.require(Rights::FD_FILESTAT_SET_TIMES)?;
        match &descriptor.object {
            Object::File(file) => os::set_times(&file.file, times),
            Object::Dir(dir) => os::set_times(&dir.reopen()?, times),
            Object::Input | Object::Output(_) => Err(Errno::Badf),
        }
    }
}

/// What a file's time is to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewTime {
    Keep,
    Now,
    /// Nanoseconds since the Unix epoch.
    At(u64),
}

/// Both times of a call that sets them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub access: NewTime,
    pub modification: NewTime,
}

impl Times {
    pub fn new(atim: u64, mtim: u64, flags: u32) -> Result<Self, Errno> {
        let flags = u16::try_from(flags).ok().and_then(FstFlags::from_bits).ok_or(Errno::Inval)?;
        let choose = |at: FstFlags, now: FstFlags, value| match (flags.contains(at), flags.contains(now)) {
            (true, true) => Err(Errno::Inval),
            (true, false) => Ok(NewTime::At(value)),
            (false, true) => Ok(NewTime::Now),
            (false, false) => Ok(NewTime::Keep),
        };
        Ok(Times {
            access: choose(FstFlags::ATIM, FstFlags::ATIM_NOW, atim)?,
            modification: choose(FstFlags::MTIM, FstFlags::MTIM_NOW, mtim)?,
        })
    }
}
