//! Unix.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use cap_std::fs::{Metadata, MetadataExt};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::io::Errno as Host;

use crate::calls::{NewTime, Times};
use crate::errno::Errno;
use crate::types::{ClockId, FdFlags, FileStat, FileType};

/// The error number of an error that the system reported; `None` for errors made by a library.
pub(crate) fn errno(error: &io::Error) -> Option<Errno> {
    let host = Host::from_raw_os_error(error.raw_os_error()?);
    Some(match host {
        Host::TOOBIG => Errno::TooBig,
        Host::ACCESS => Errno::Acces,
        Host::AGAIN => Errno::Again,
        Host::BADF => Errno::Badf,
        Host::BUSY => Errno::Busy,
        Host::CONNRESET => Errno::Connreset,
        Host::DEADLK => Errno::Deadlk,
        Host::DQUOT => Errno::Dquot,
        Host::EXIST => Errno::Exist,
        Host::FAULT => Errno::Fault,
        Host::FBIG => Errno::Fbig,
        Host::ILSEQ => Errno::Ilseq,
        Host::INTR => Errno::Intr,
        Host::INVAL => Errno::Inval,
        Host::ISDIR => Errno::Isdir,
        Host::LOOP => Errno::Loop,
        Host::MFILE => Errno::Mfile,
        Host::MLINK => Errno::Mlink,
        Host::NAMETOOLONG => Errno::Nametoolong,
        Host::NFILE => Errno::Nfile,
        Host::NODEV => Errno::Nodev,
        Host::NOENT => Errno::Noent,
        Host::NOLCK => Errno::Nolck,
        Host::NOMEM => Errno::Nomem,
        Host::NOSPC => Errno::Nospc,
        Host::NOSYS => Errno::Nosys,
        Host::NOTDIR => Errno::Notdir,
        Host::NOTEMPTY => Errno::Notempty,
        Host::NOTSOCK => Errno::Notsock,
        Host::OPNOTSUPP => Errno::Notsup,
        Host::NOTTY => Errno::Notty,
        Host::NXIO => Errno::Nxio,
        Host::OVERFLOW => Errno::Overflow,
        Host::PERM => Errno::Perm,
        Host::PIPE => Errno::Pipe,
        Host::RANGE => Errno::Range,
        Host::ROFS => Errno::Rofs,
        Host::SPIPE => Errno::Spipe,
        Host::STALE => Errno::Stale,
        Host::TIMEDOUT => Errno::Timedout,
        Host::TXTBSY => Errno::Txtbsy,
        Host::XDEV => Errno::Xdev,
        _ => Errno::Io,
    })
}

/// Processor time of this process or thread, in nanoseconds.
pub(crate) fn cpu_time(clock: ClockId) -> Result<u64, Errno> {
    let time = rustix::time::clock_gettime(host_clock(clock));
    nanoseconds(time.tv_sec, time.tv_nsec)
}

/// A clock's smallest step, in nanoseconds.
pub(crate) fn clock_resolution(clock: ClockId) -> Result<u64, Errno> {
    let step = rustix::time::clock_getres(host_clock(clock));
    nanoseconds(step.tv_sec, step.tv_nsec)
}

fn host_clock(clock: ClockId) -> rustix::time::ClockId {
    match clock {
        ClockId::Realtime => rustix::time::ClockId::Realtime,
        ClockId::Monotonic => rustix::time::ClockId::Monotonic,
        ClockId::ProcessCpu => rustix::time::ClockId::ProcessCPUTime,
        ClockId::ThreadCpu => rustix::time::ClockId::ThreadCPUTime,
    }
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> Result<u64, Errno> {
    let seconds = u64::try_from(seconds)?;
    let nanoseconds = u64::try_from(nanoseconds)?;
    seconds.checked_mul(1_000_000_000).and_then(|whole| whole.checked_add(nanoseconds)).ok_or(Errno::Overflow)
}

/// What is known of a file. A time before the Unix epoch, which the guest could not express, reads as the epoch.
pub(crate) fn file_stat(metadata: &Metadata) -> FileStat {
    let time = |seconds, nanos| nanoseconds(seconds, nanos).unwrap_or(0);
    FileStat {
        dev: metadata.dev(),
        ino: metadata.ino(),
        filetype: file_type(metadata.file_type()),
        nlink: metadata.nlink(),
        size: metadata.size(),
        atim: time(metadata.atime(), metadata.atime_nsec()),
        mtim: time(metadata.mtime(), metadata.mtime_nsec()),
        ctim: time(metadata.ctime(), metadata.ctime_nsec()),
    }
}

/// The type of a file or directory entry.
pub(crate) fn file_type(host: cap_std::fs::FileType) -> FileType {
    use cap_fs_ext::FileTypeExt;
    if host.is_file() {
        FileType::RegularFile
    } else if host.is_dir() {
        FileType::Directory
    } else if host.is_symlink() {
        FileType::SymbolicLink
    } else if host.is_char_device() {
        FileType::CharacterDevice
    } else if host.is_block_device() {
        FileType::BlockDevice
    } else if host.is_socket() {
        FileType::SocketStream
    } else {
        FileType::Unknown
    }
}

/// The directory entry's inode number.
pub(crate) fn entry_inode(metadata: &Metadata) -> u64 {
    metadata.ino()
}

/// The flags that the open file has at the moment.
pub(crate) fn fd_flags(file: &File) -> Result<FdFlags, Errno> {
    let host = rustix::fs::fcntl_getfl(file).map_err(io::Error::from)?;
    let mut flags = FdFlags::empty();
    flags.set(FdFlags::APPEND, host.contains(OFlags::APPEND));
    flags.set(FdFlags::NONBLOCK, host.contains(OFlags::NONBLOCK));
    // O_SYNC includes O_DSYNC's bits, and O_RSYNC is O_SYNC on Linux.
    flags.set(FdFlags::SYNC, host.contains(OFlags::SYNC));
    flags.set(FdFlags::DSYNC, host.contains(OFlags::DSYNC));
    Ok(flags)
}

/// Sets [`FdFlags::APPEND`] and [`FdFlags::NONBLOCK`] as given. The others cannot be changed on an open file.
pub(crate) fn set_fd_flags(file: &File, flags: FdFlags) -> Result<(), Errno> {
    let mut host = rustix::fs::fcntl_getfl(file).map_err(io::Error::from)?;
    host.set(OFlags::APPEND, flags.contains(FdFlags::APPEND));
    host.set(OFlags::NONBLOCK, flags.contains(FdFlags::NONBLOCK));
    rustix::fs::fcntl_setfl(file, host).map_err(io::Error::from)?;
    Ok(())
}

/// Sets the times of an open file or directory.
pub(crate) fn set_times(file: &impl AsFd, times: Times) -> Result<(), Errno> {
    let time = |new| match new {
        NewTime::Keep => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        NewTime::Now => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
        NewTime::At(at) => Timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 },
    };
    let times = rustix::fs::Timestamps { last_access: time(times.access), last_modification: time(times.modification) };
    rustix::fs::futimens(file, &times).map_err(io::Error::from)?;
    Ok(())
}

/// How a guest will use a range of a file.
#[derive(Clone, Copy)]
pub(crate) enum Advice {
    Normal,
    Sequential,
    Random,
    WillNeed,
    DontNeed,
    NoReuse,
}

/// Passes advice on where the system takes it; elsewhere it is only advice, and dropped.
pub(crate) fn advise(file: &File, offset: u64, len: u64, advice: Advice) -> Result<(), Errno> {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    {
        let host = match advice {
            Advice::Normal => rustix::fs::Advice::Normal,
            Advice::Sequential => rustix::fs::Advice::Sequential,
            Advice::Random => rustix::fs::Advice::Random,
            Advice::WillNeed => rustix::fs::Advice::WillNeed,
            Advice::DontNeed => rustix::fs::Advice::DontNeed,
            Advice::NoReuse => rustix::fs::Advice::NoReuse,
        };
        rustix::fs::fadvise(file, offset, std::num::NonZeroU64::new(len), host).map_err(io::Error::from)?;
    }
    let _ = (file, offset, len, advice);
    Ok(())
}

/// Makes sure that the range has space on the device; the file grows to hold it.
pub(crate) fn allocate(file: &File, offset: u64, len: u64) -> Result<(), Errno> {
    rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), offset, len).map_err(io::Error::from)?;
    Ok(())
}

/// Reads at `offset`, leaving the file's position alone.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

/// Writes at `offset`, leaving the file's position alone.
pub(crate) fn write_at(file: &File, buffer: &[u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, buffer, offset)
}

/// Reads standard input past `std`'s buffer, so that waiting on the descriptor sees what is there.
pub(crate) fn read_stdin(buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(rustix::stdio::stdin(), buffer)?)
}

/// Bytes that a read of the descriptor would give at once, as far as the system tells.
fn bytes_readable(fd: BorrowedFd<'_>) -> u64 {
    rustix::io::ioctl_fionread(fd).unwrap_or(0)
}

/// A descriptor to wait on.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    fd: BorrowedFd<'a>,
    read: bool,
}

impl<'a> Source<'a> {
    /// Waits until `file` can be read, or written.
    pub fn file(file: &'a File, read: bool) -> Self {
        Source { fd: file.as_fd(), read }
    }

    /// Waits until standard input can be read.
    pub fn stdin() -> Self {
        Source { fd: rustix::stdio::stdin(), read: true }
    }
}

/// What waiting found of one source.
pub(crate) struct Readiness {
    pub bytes: u64,
    pub hangup: bool,
    pub error: bool,
}

/// Waits until a source is ready or `timeout` has passed (`None`: for ever). One answer per source, `None` if it is not
/// ready; all `None` after the timeout or an interruption.
pub(crate) fn wait(sources: &[Source<'_>], timeout: Option<Duration>) -> Result<Vec<Option<Readiness>>, Errno> {
    let mut polled: Vec<_> = sources
        .iter()
        .map(|source| {
            let interest = if source.read { PollFlags::IN } else { PollFlags::OUT };
            PollFd::from_borrowed_fd(source.fd, interest)
        })
        .collect();
    let timeout = timeout.map(|duration| Timespec {
        tv_sec: duration.as_secs().min(i64::MAX as u64) as i64,
        tv_nsec: duration.subsec_nanos().into(),
    });
    match rustix::event::poll(&mut polled, timeout.as_ref()) {
        Ok(_) => {}
        Err(Host::INTR) => return Ok(sources.iter().map(|_| None).collect()),
        Err(error) => return Err(io::Error::from(error).into()),
    }
    Ok(polled
        .iter()
        .zip(sources)
        .map(|(polled, source)| {
            let found = polled.revents();
            (!found.is_empty()).then(|| Readiness {
                bytes: if source.read { bytes_readable(source.fd) } else { 0 },
                hangup: found.intersects(PollFlags::HUP),
                error: found.intersects(PollFlags::ERR | PollFlags::NVAL),
            })
        })
        .collect())
}
