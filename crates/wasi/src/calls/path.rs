//! `path_*`: everything is resolved below an open directory, by `cap-std`, which refuses any path that would lead out
//! of it: by `..`, by being absolute, or through a symbolic link.

use std::path::Path;
use std::time::Duration;

use cap_fs_ext::{DirExt, SystemTimeSpec};
use cap_std::fs::Metadata;
use cap_std::time::SystemTime;

use super::{NewTime, Times};
use crate::ctx::WasiCtx;
use crate::dir::{OpenDir, OpenRequest};
use crate::errno::Errno;
use crate::file::OpenFile;
use crate::memory::GuestMemory;
use crate::os;
use crate::table::{Descriptor, Object};
use crate::types::{FdFlags, FileType, LookupFlags, OFlags, Rights};

/// The path at `pointer`.
fn path<'m>(memory: &'m GuestMemory<'_>, pointer: u32, len: u32) -> Result<&'m str, Errno> {
    let path = memory.string(pointer, len)?;
    if path.is_empty() {
        return Err(Errno::Noent);
    }
    // The host's calls take zero-terminated paths.
    if path.contains('\0') {
        return Err(Errno::Inval);
    }
    Ok(path)
}

fn lookup(flags: u32) -> Result<LookupFlags, Errno> {
    LookupFlags::from_bits(flags).ok_or(Errno::Inval)
}

impl WasiCtx {
    /// Creates a directory.
    pub fn path_create_directory(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        name: u32,
        name_len: u32,
    ) -> Result<(), Errno> {
        let dir = self.table.dir(fd, Rights::PATH_CREATE_DIRECTORY)?;
        dir.dir.create_dir(path(memory, name, name_len)?)?;
        Ok(())
    }

    /// Writes what is known of what the path leads to.
    pub fn path_filestat_get(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        flags: u32,
        name: u32,
        name_len: u32,
        result: u32,
    ) -> Result<(), Errno> {
        let dir = self.table.dir(fd, Rights::PATH_FILESTAT_GET)?;
        let stat = dir.stat_at(path(memory, name, name_len)?, lookup(flags)?)?;
        stat.write(memory, result)
    }

    /// Sets the times, in nanoseconds since the Unix epoch.
    #[expect(clippy::too_many_arguments, reason = "the specification's")]
    pub fn path_filestat_set_times(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        flags: u32,
        name: u32,
        name_len: u32,
        atim: u64,
        mtim: u64,
        fst_flags: u32,
    ) -> Result<(), Errno> {
        let times = Times::new(atim, mtim, fst_flags)?;
        let time = |new| match new {
            NewTime::Keep => None,
            NewTime::Now => Some(SystemTimeSpec::SymbolicNow),
            NewTime::At(at) => {
                let epoch = SystemTime::from_std(std::time::SystemTime::UNIX_EPOCH);
                Some(SystemTimeSpec::Absolute(epoch + Duration::from_nanos(at)))
            }
        };
        let dir = self.table.dir(fd, Rights::PATH_FILESTAT_SET_TIMES)?;
        let name = path(memory, name, name_len)?;
        let (access, modification) = (time(times.access), time(times.modification));
        if lookup(flags)?.contains(LookupFlags::SYMLINK_FOLLOW) {
            DirExt::set_times(&dir.dir, name, access, modification)?;
        } else {
            dir.dir.set_symlink_times(name, access, modification)?;
        }
        Ok(())
    }

    /// Makes a second name for a file.
    #[expect(clippy::too_many_arguments, reason = "the specification's")]
    pub fn path_link(
        &mut self,
        memory: &mut GuestMemory<'_>,
        old_fd: u32,
        old_flags: u32,
        old: u32,
        old_len: u32,
        new_fd: u32,
        new: u32,
        new_len: u32,
    ) -> Result<(), Errno> {
        let from = self.table.dir(old_fd, Rights::PATH_LINK_SOURCE)?;
        let to = self.table.dir(new_fd, Rights::PATH_LINK_TARGET)?;
        let old = path(memory, old, old_len)?;
        let new = path(memory, new, new_len)?;
        if lookup(old_flags)?.contains(LookupFlags::SYMLINK_FOLLOW) {
            let target = from.dir.canonicalize(old)?;
            from.dir.hard_link(target, &to.dir, new)?;
        } else {
            from.dir.hard_link(old, &to.dir, new)?;
        }
        Ok(())
    }

    /// Opens or creates a file, or opens a directory, and writes the new descriptor.
    ///
    /// The descriptor gets those of the rights asked for that the directory passes on and that mean something for what
    /// was opened. To write where the directory does not pass that on is [`Errno::Notcapable`].
    #[expect(clippy::too_many_arguments, reason = "the specification's")]
    pub fn path_open(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        flags: u32,
        name: u32,
        name_len: u32,
        oflags: u32,
        base: u64,
        inheriting: u64,
        fdflags: u32,
        result: u32,
    ) -> Result<(), Errno> {
        memory.slice(result, 4)?;
        let oflags = u16::try_from(oflags).ok().and_then(OFlags::from_bits).ok_or(Errno::Inval)?;
        let fdflags = u16::try_from(fdflags).ok().and_then(FdFlags::from_bits).ok_or(Errno::Inval)?;
        let follow = lookup(flags)?;
        let name = path(memory, name, name_len)?;

        let mut needed = Rights::PATH_OPEN;
        needed.set(Rights::PATH_CREATE_FILE, oflags.contains(OFlags::CREAT));
        needed.set(Rights::PATH_FILESTAT_SET_SIZE, oflags.contains(OFlags::TRUNC));
        let dir = self.table.dir(fd, needed)?;
        self.table.free()?;
        let passed_on = self.table.get(fd)?.inheriting;
        let asked = Rights::from_bits_truncate(base);

        let descriptor = if oflags.contains(OFlags::DIRECTORY) {
            if oflags != OFlags::DIRECTORY {
                return Err(Errno::Inval);
            }
            let opened = dir.open_dir(name, follow)?;
            if asked.contains(Rights::FD_WRITE) {
                return Err(Errno::Isdir);
            }
            Object::Dir(OpenDir::new(opened, None, dir.read_only))
        } else {
            if asked.contains(Rights::FD_WRITE) && !passed_on.contains(Rights::FD_WRITE) {
                return Err(Errno::Notcapable);
            }
            let request = OpenRequest {
                follow,
                oflags,
                fdflags,
                read: asked.contains(Rights::FD_READ),
                write: asked.contains(Rights::FD_WRITE),
            };
            let file = dir.open(name, &request)?;
            let filetype = os::file_type(Metadata::from_file(&file)?.file_type());
            if filetype == FileType::Directory {
                Object::Dir(OpenDir::new(cap_std::fs::Dir::from_std_file(file), None, dir.read_only))
            } else {
                Object::File(OpenFile { file, filetype })
            }
        };
        let rights = asked & passed_on;
        let descriptor = match descriptor {
            Object::Dir(_) => Descriptor {
                object: descriptor,
                rights: rights & Rights::DIRECTORY,
                inheriting: Rights::from_bits_truncate(inheriting) & passed_on,
            },
            _ => Descriptor { object: descriptor, rights: rights & Rights::FILE, inheriting: Rights::empty() },
        };
        let opened = self.table.insert(descriptor)?;
        memory.write_u32(result, opened)
    }

    /// Writes where a symbolic link points to, cut off at `len` bytes, and the number of bytes.
    #[expect(clippy::too_many_arguments, reason = "the specification's")]
    pub fn path_readlink(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        name: u32,
        name_len: u32,
        buffer: u32,
        len: u32,
        result: u32,
    ) -> Result<(), Errno> {
        let dir = self.table.dir(fd, Rights::PATH_READLINK)?;
        let target = dir.dir.read_link(path(memory, name, name_len)?)?;
        let target = target.to_str().ok_or(Errno::Ilseq)?.as_bytes();
        let out = memory.slice_mut(buffer, len)?;
        let fit = target.len().min(out.len());
        out[..fit].copy_from_slice(&target[..fit]);
        memory.write_u32(result, u32::try_from(fit)?)
    }

    /// Removes an empty directory.
    pub fn path_remove_directory(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        name: u32,
        name_len: u32,
    ) -> Result<(), Errno> {
        let dir = self.table.dir(fd, Rights::PATH_REMOVE_DIRECTORY)?;
        dir.dir.remove_dir(path(memory, name, name_len)?)?;
        Ok(())
    }

    /// Renames, also from one directory to another.
    #[expect(clippy::too_many_arguments, reason = "the specification's")]
    pub fn path_rename(
        &mut self,
        memory: &mut GuestMemory<'_>,
        old_fd: u32,
        old: u32,
        old_len: u32,
        new_fd: u32,
        new: u32,
        new_len: u32,
    ) -> Result<(), Errno> {
        let from = self.table.dir(old_fd, Rights::PATH_RENAME_SOURCE)?;
        let to = self.table.dir(new_fd, Rights::PATH_RENAME_TARGET)?;
        from.dir.rename(path(memory, old, old_len)?, &to.dir, path(memory, new, new_len)?)?;
        Ok(())
    }

    /// Makes a symbolic link that holds the text at `target`; [`Errno::Perm`] for an absolute one.
    pub fn path_symlink(
        &mut self,
        memory: &mut GuestMemory<'_>,
        target: u32,
        target_len: u32,
        fd: u32,
        name: u32,
        name_len: u32,
    ) -> Result<(), Errno> {
        let dir = self.table.dir(fd, Rights::PATH_SYMLINK)?;
        let target = path(memory, target, target_len)?;
        if Path::new(target).has_root() {
            return Err(Errno::Perm);
        }
        DirExt::symlink(&dir.dir, target, path(memory, name, name_len)?)?;
        Ok(())
    }

    /// Removes a file or a symbolic link.
    pub fn path_unlink_file(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        name: u32,
        name_len: u32,
    ) -> Result<(), Errno> {
        let dir = self.table.dir(fd, Rights::PATH_UNLINK_FILE)?;
        dir.dir.remove_file_or_symlink(path(memory, name, name_len)?)?;
        Ok(())
    }
}
