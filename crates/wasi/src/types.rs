//! The wire types of preview 1: flags, and the layout of its records in guest memory.

use crate::errno::Errno;
use crate::memory::GuestMemory;

bitflags::bitflags! {
    /// What a descriptor allows.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Rights: u64 {
        /// `fd_datasync`.
        const FD_DATASYNC = 1 << 0;
        /// `fd_read`, `fd_pread`.
        const FD_READ = 1 << 1;
        /// `fd_seek` (and by it `fd_tell`).
        const FD_SEEK = 1 << 2;
        /// `fd_fdstat_set_flags`.
        const FD_FDSTAT_SET_FLAGS = 1 << 3;
        /// `fd_sync`.
        const FD_SYNC = 1 << 4;
        /// `fd_tell`.
        const FD_TELL = 1 << 5;
        /// `fd_write`, `fd_pwrite`.
        const FD_WRITE = 1 << 6;
        /// `fd_advise`.
        const FD_ADVISE = 1 << 7;
        /// `fd_allocate`.
        const FD_ALLOCATE = 1 << 8;
        /// `path_create_directory`.
        const PATH_CREATE_DIRECTORY = 1 << 9;
        /// `path_open` with [`OFlags::CREAT`].
        const PATH_CREATE_FILE = 1 << 10;
        /// `path_link` from this directory.
        const PATH_LINK_SOURCE = 1 << 11;
        /// `path_link` to this directory.
        const PATH_LINK_TARGET = 1 << 12;
        /// `path_open`.
        const PATH_OPEN = 1 << 13;
        /// `fd_readdir`.
        const FD_READDIR = 1 << 14;
        /// `path_readlink`.
        const PATH_READLINK = 1 << 15;
        /// `path_rename` from this directory.
        const PATH_RENAME_SOURCE = 1 << 16;
        /// `path_rename` to this directory.
        const PATH_RENAME_TARGET = 1 << 17;
        /// `path_filestat_get`.
        const PATH_FILESTAT_GET = 1 << 18;
        /// `path_open` with [`OFlags::TRUNC`].
        const PATH_FILESTAT_SET_SIZE = 1 << 19;
        /// `path_filestat_set_times`.
        const PATH_FILESTAT_SET_TIMES = 1 << 20;
        /// `fd_filestat_get`.
        const FD_FILESTAT_GET = 1 << 21;
        /// `fd_filestat_set_size`.
        const FD_FILESTAT_SET_SIZE = 1 << 22;
        /// `fd_filestat_set_times`.
        const FD_FILESTAT_SET_TIMES = 1 << 23;
        /// `path_symlink`.
        const PATH_SYMLINK = 1 << 24;
        /// `path_remove_directory`.
        const PATH_REMOVE_DIRECTORY = 1 << 25;
        /// `path_unlink_file`.
        const PATH_UNLINK_FILE = 1 << 26;
        /// `poll_oneoff` on this descriptor.
        const POLL_FD_READWRITE = 1 << 27;
        /// `sock_shutdown`.
        const SOCK_SHUTDOWN = 1 << 28;
        /// `sock_accept`.
        const SOCK_ACCEPT = 1 << 29;
    }

    /// How `path_open` opens.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OFlags: u16 {
        /// Create the file if it does not exist.
        const CREAT = 1;
        /// Fail if it is not a directory.
        const DIRECTORY = 2;
        /// Fail if it exists.
        const EXCL = 4;
        /// Cut it to no bytes.
        const TRUNC = 8;
    }

    /// The state of an open file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FdFlags: u16 {
        /// Every write goes to the end.
        const APPEND = 1;
        /// A write returns when its data is on the device.
        const DSYNC = 2;
        /// Do not wait.
        const NONBLOCK = 4;
        /// A read is as synchronous as the writes.
        const RSYNC = 8;
        /// A write returns when its data and the file's metadata are on the device.
        const SYNC = 16;
    }

    /// How a path's last component is resolved.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LookupFlags: u32 {
        /// Follow it if it is a symbolic link.
        const SYMLINK_FOLLOW = 1;
    }

    /// Which times to set, and to what.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FstFlags: u16 {
        /// The access time, to the given value.
        const ATIM = 1;
        /// The access time, to now.
        const ATIM_NOW = 2;
        /// The modification time, to the given value.
        const MTIM = 4;
        /// The modification time, to now.
        const MTIM_NOW = 8;
    }
}

impl Rights {
    /// The rights that mean something for an open file.
    pub const FILE: Rights = Rights::FD_DATASYNC
        .union(Rights::FD_READ)
        .union(Rights::FD_SEEK)
        .union(Rights::FD_FDSTAT_SET_FLAGS)
        .union(Rights::FD_SYNC)
        .union(Rights::FD_TELL)
        .union(Rights::FD_WRITE)
        .union(Rights::FD_ADVISE)
        .union(Rights::FD_ALLOCATE)
        .union(Rights::FD_FILESTAT_GET)
        .union(Rights::FD_FILESTAT_SET_SIZE)
        .union(Rights::FD_FILESTAT_SET_TIMES)
        .union(Rights::POLL_FD_READWRITE);

    /// The rights that mean something for an open directory.
    pub const DIRECTORY: Rights = Rights::FD_FDSTAT_SET_FLAGS
        .union(Rights::FD_SYNC)
        .union(Rights::FD_DATASYNC)
        .union(Rights::FD_ADVISE)
        .union(Rights::PATH_CREATE_DIRECTORY)
        .union(Rights::PATH_CREATE_FILE)
        .union(Rights::PATH_LINK_SOURCE)
        .union(Rights::PATH_LINK_TARGET)
        .union(Rights::PATH_OPEN)
        .union(Rights::FD_READDIR)
        .union(Rights::PATH_READLINK)
        .union(Rights::PATH_RENAME_SOURCE)
        .union(Rights::PATH_RENAME_TARGET)
        .union(Rights::PATH_FILESTAT_GET)
        .union(Rights::PATH_FILESTAT_SET_SIZE)
        .union(Rights::PATH_FILESTAT_SET_TIMES)
        .union(Rights::FD_FILESTAT_GET)
        .union(Rights::FD_FILESTAT_SET_TIMES)
        .union(Rights::PATH_SYMLINK)
        .union(Rights::PATH_REMOVE_DIRECTORY)
        .union(Rights::PATH_UNLINK_FILE)
        .union(Rights::POLL_FD_READWRITE);

    /// The rights that change something. A read-only directory has none of them, nor has what is opened in it.
    pub const MUTATING: Rights = Rights::FD_WRITE
        .union(Rights::FD_ALLOCATE)
        .union(Rights::PATH_CREATE_DIRECTORY)
        .union(Rights::PATH_CREATE_FILE)
        .union(Rights::PATH_LINK_SOURCE)
        .union(Rights::PATH_LINK_TARGET)
        .union(Rights::PATH_RENAME_SOURCE)
        .union(Rights::PATH_RENAME_TARGET)
        .union(Rights::PATH_FILESTAT_SET_SIZE)
        .union(Rights::PATH_FILESTAT_SET_TIMES)
        .union(Rights::FD_FILESTAT_SET_SIZE)
        .union(Rights::FD_FILESTAT_SET_TIMES)
        .union(Rights::PATH_SYMLINK)
        .union(Rights::PATH_REMOVE_DIRECTORY)
        .union(Rights::PATH_UNLINK_FILE);

    /// A stream: read or written, but without a position.
    pub(crate) const STREAM: Rights =
        Rights::FD_FDSTAT_SET_FLAGS.union(Rights::FD_FILESTAT_GET).union(Rights::POLL_FD_READWRITE);
}

/// What kind of thing a descriptor or a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FileType {
    /// Something else, such as a pipe.
    Unknown = 0,
    /// A block device.
    BlockDevice = 1,
    /// A character device, such as a terminal.
    CharacterDevice = 2,
    /// A directory.
    Directory = 3,
    /// A regular file.
    RegularFile = 4,
    /// A datagram socket.
    SocketDgram = 5,
    /// A stream socket.
    SocketStream = 6,
    /// A symbolic link.
    SymbolicLink = 7,
}

/// The clocks of preview 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ClockId {
    /// Nanoseconds since the Unix epoch.
    Realtime = 0,
    /// Nanoseconds since some moment; never goes back.
    Monotonic = 1,
    /// Processor time of the process.
    ProcessCpu = 2,
    /// Processor time of the thread.
    ThreadCpu = 3,
}

impl TryFrom<u32> for ClockId {
    type Error = Errno;

    fn try_from(raw: u32) -> Result<Self, Errno> {
        Ok(match raw {
            0 => ClockId::Realtime,
            1 => ClockId::Monotonic,
            2 => ClockId::ProcessCpu,
            3 => ClockId::ThreadCpu,
            _ => return Err(Errno::Inval),
        })
    }
}

/// Bytes of an `iovec` or `ciovec`.
pub const IOVEC_SIZE: u32 = 8;
/// Bytes of a `filestat`.
pub const FILESTAT_SIZE: u32 = 64;
/// Bytes of an `fdstat`.
pub const FDSTAT_SIZE: u32 = 24;
/// Bytes of a `dirent`, without the name that follows it.
pub const DIRENT_SIZE: u32 = 24;
/// Bytes of a `prestat`.
pub const PRESTAT_SIZE: u32 = 8;
/// Bytes of a `subscription`.
pub const SUBSCRIPTION_SIZE: u32 = 48;
/// Bytes of an `event`.
pub const EVENT_SIZE: u32 = 32;

/// A piece of guest memory to read into or write from.
#[derive(Clone, Copy)]
pub(crate) struct IoVec {
    pub pointer: u32,
    pub len: u32,
}

impl IoVec {
    /// The pieces in the array of `count` at `pointer`. The whole array is checked first, and that the pieces' lengths
    /// together fit the 32 bits in which the guest is told how many bytes were moved.
    pub fn list(memory: &GuestMemory<'_>, pointer: u32, count: u32) -> Result<Vec<IoVec>, Errno> {
        let size = count.checked_mul(IOVEC_SIZE).ok_or(Errno::Inval)?;
        let mut total = 0u32;
        memory
            .slice(pointer, size)?
            .chunks_exact(IOVEC_SIZE as usize)
            .map(|raw| {
                let word = |at: usize| u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
                let piece = IoVec { pointer: word(0), len: word(4) };
                total = total.checked_add(piece.len).ok_or(Errno::Inval)?;
                memory.slice(piece.pointer, piece.len)?;
                Ok(piece)
            })
            .collect()
    }
}

/// What is known of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileStat {
    pub dev: u64,
    pub ino: u64,
    pub filetype: FileType,
    pub nlink: u64,
    pub size: u64,
    /// Nanoseconds since the Unix epoch, as the two below.
    pub atim: u64,
    pub mtim: u64,
    pub ctim: u64,
}

impl FileStat {
    /// A stream, of which nothing is known but its type.
    pub fn stream(filetype: FileType) -> Self {
        FileStat { dev: 0, ino: 0, filetype, nlink: 0, size: 0, atim: 0, mtim: 0, ctim: 0 }
    }

    pub fn write(&self, memory: &mut GuestMemory<'_>, pointer: u32) -> Result<(), Errno> {
        let mut raw = [0; FILESTAT_SIZE as usize];
        raw[0..8].copy_from_slice(&self.dev.to_le_bytes());
        raw[8..16].copy_from_slice(&self.ino.to_le_bytes());
        raw[16] = self.filetype as u8;
        raw[24..32].copy_from_slice(&self.nlink.to_le_bytes());
        raw[32..40].copy_from_slice(&self.size.to_le_bytes());
        raw[40..48].copy_from_slice(&self.atim.to_le_bytes());
        raw[48..56].copy_from_slice(&self.mtim.to_le_bytes());
        raw[56..64].copy_from_slice(&self.ctim.to_le_bytes());
        memory.write(pointer, &raw)
    }
}

/// The head of a directory entry; its name follows.
pub(crate) fn dirent(next: u64, ino: u64, name_len: u32, filetype: FileType) -> [u8; DIRENT_SIZE as usize] {
    let mut raw = [0; DIRENT_SIZE as usize];
    raw[0..8].copy_from_slice(&next.to_le_bytes());
    raw[8..16].copy_from_slice(&ino.to_le_bytes());
    raw[16..20].copy_from_slice(&name_len.to_le_bytes());
    raw[20] = filetype as u8;
    raw
}

/// What a guest waits for in `poll_oneoff`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    Clock { clock: u32, timeout: u64, absolute: bool },
    Read { fd: u32 },
    Write { fd: u32 },
}

/// One entry of the array that `poll_oneoff` takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subscription {
    pub userdata: u64,
    pub wait: Wait,
}

impl Subscription {
    pub fn read(memory: &GuestMemory<'_>, pointer: u32) -> Result<Self, Errno> {
        memory.slice(pointer, SUBSCRIPTION_SIZE)?;
        let wait = match memory.read_u8(pointer + 8)? {
            0 => Wait::Clock {
                clock: memory.read_u32(pointer + 16)?,
                timeout: memory.read_u64(pointer + 24)?,
                absolute: memory.read_u16(pointer + 40)? & 1 != 0,
            },
            1 => Wait::Read { fd: memory.read_u32(pointer + 16)? },
            2 => Wait::Write { fd: memory.read_u32(pointer + 16)? },
            _ => return Err(Errno::Inval),
        };
        Ok(Subscription { userdata: memory.read_u64(pointer)?, wait })
    }
}

/// One entry of the array that `poll_oneoff` fills.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub userdata: u64,
    pub error: Option<Errno>,
    /// 0 clock, 1 read, 2 write: the tag of the subscription.
    pub kind: u8,
    pub bytes: u64,
    pub hangup: bool,
}

impl Event {
    pub fn write(&self, memory: &mut GuestMemory<'_>, pointer: u32) -> Result<(), Errno> {
        let mut raw = [0; EVENT_SIZE as usize];
        raw[0..8].copy_from_slice(&self.userdata.to_le_bytes());
        raw[8..10].copy_from_slice(&self.error.map_or(0, Errno::raw).to_le_bytes());
        raw[10] = self.kind;
        raw[16..24].copy_from_slice(&self.bytes.to_le_bytes());
        raw[24..26].copy_from_slice(&u16::from(self.hangup).to_le_bytes());
        memory.write(pointer, &raw)
    }
}
